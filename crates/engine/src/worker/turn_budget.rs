//! How much a connection may move before others get their turn.
//!
//! Owns: the numbers, what of a range of a file fits them, and how many handshakes a worker works on before it looks at
//! its other connections.

use lamna_proto::transmit::{Segment, Transmit};

/// Bytes made ready and sent at once, so that one large file does not keep others waiting.
pub const QUANTUM_BYTES: u64 = 256 * 1024;

/// Bytes of memory one connection may send before others get their turn.
pub const TURN_BYTES: u64 = 1 << 20;

/// A byte of a file counts as so many of memory, so that a turn has one quantum, which takes some 40 microseconds. A
/// file is one answer after all, where as many bytes of memory are many. A quarter of that costs half as much again for
/// each byte, and a third at the receiver (docs/engines.md).
const FILE_WEIGHT: u64 = TURN_BYTES / QUANTUM_BYTES;

/// Leaves of content what may be sent in a turn of which `used` bytes have been. Returns how many bytes each one that
/// is sent counts as.
pub fn within_turn(transmit: &mut Transmit<'_>, used: u64) -> u64 {
    let left = TURN_BYTES.saturating_sub(used);
    match &mut transmit.segment {
        None => 1,
        Some(Segment::Shared(content)) => {
            let length = left.clamp(1, TURN_BYTES) as usize;
            *content = &content[..length.min(content.len())];
            1
        }
        Some(Segment::File { length, .. }) => {
            *length = (left / FILE_WEIGHT).clamp(1, *length);
            FILE_WEIGHT
        }
    }
}

/// Steps of handshakes between two looks at all connections. One takes up to a quarter of a millisecond, where an
/// answer from the cache takes some microseconds.
const HANDSHAKES_MAX: u32 = 8;

/// The steps of handshakes that may still be taken in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Handshakes(u32);

impl Default for Handshakes {
    fn default() -> Handshakes {
        Handshakes(HANDSHAKES_MAX)
    }
}

impl Handshakes {
    /// Whether a step may be taken now. If not, it is to be tried again in the next batch: a client that has a
    /// connection already does not wait for a crowd that wants one.
    pub fn take(&mut self) -> bool {
        let takes = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        takes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_in_memory_is_cut_to_what_is_left_of_a_turn_and_never_to_nothing() {
        let content = vec![0; TURN_BYTES as usize + 5];
        for (used, length) in [(0, TURN_BYTES), (TURN_BYTES - 7, 7), (TURN_BYTES, 1), (TURN_BYTES + 1, 1)] {
            let mut transmit = Transmit { bytes: b"", segment: Some(Segment::Shared(&content)), more: false };
            assert_eq!(within_turn(&mut transmit, used), 1);
            assert_eq!(transmit.segment.map(|segment| segment.length()), Some(length));
        }
        let mut short = Transmit { bytes: b"", segment: Some(Segment::Shared(b"short")), more: false };
        within_turn(&mut short, 0);
        assert_eq!(short.segment.map(|segment| segment.length()), Some(5));
    }

    #[test]
    fn a_batch_has_so_many_steps_of_handshakes() {
        let mut handshakes = Handshakes::default();
        assert_eq!((0..100).filter(|_| handshakes.take()).count(), HANDSHAKES_MAX as usize);
    }
}
