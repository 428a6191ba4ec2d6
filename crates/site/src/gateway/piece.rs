//! Content of an answer on its way to the client, where it was received.
//!
//! Owns: [`Piece`].

use std::ops::Range;
use std::sync::Arc;

use lamna_proto::exchange::ContentBuffer;

/// A stretch of a buffer.
#[derive(Debug)]
struct Piece {
    buffer: Vec<u8>,
    range: Range<usize>,
}

impl ContentBuffer for Piece {
    fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    fn own_bytes(&self) -> usize {
        self.buffer.capacity()
    }
}

/// Up to here content is copied to a buffer of its size: it leaves a large one to what comes next.
const COPY_BYTES_MAX: usize = 8 * 1024;

/// The stretches `ranges` of what was received, as one piece: which must be in order and apart. Takes the buffer if
/// that is less work than copying; then it is empty afterwards.
pub(super) fn take(received: &mut Vec<u8>, ranges: &[Range<usize>]) -> Option<Arc<dyn ContentBuffer>> {
    let bytes: usize = ranges.iter().map(Range::len).sum();
    if bytes == 0 {
        return None;
    }
    if bytes <= COPY_BYTES_MAX {
        let mut buffer = Vec::with_capacity(bytes);
        ranges.iter().for_each(|range| buffer.extend_from_slice(&received[range.clone()]));
        return Some(Arc::new(Piece { range: 0..buffer.len(), buffer }));
    }
    let mut buffer = std::mem::take(received);
    let start = ranges[0].start;
    let mut end = start;
    for range in ranges {
        if range.start != end {
            buffer.copy_within(range.clone(), end);
        }
        end += range.len();
    }
    Some(Arc::new(Piece { range: start..end, buffer }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(received: &[u8], ranges: &[Range<usize>]) -> Option<(Vec<u8>, bool)> {
        let mut buffer = received.to_vec();
        let piece = take(&mut buffer, ranges)?;
        Some((piece.bytes().to_vec(), buffer.is_empty()))
    }

    #[test]
    fn stretches_become_one_piece() {
        assert_eq!(taken(b"a-b--c", &[0..1, 2..3, 5..6]), Some((b"abc".to_vec(), false)));
        assert!(taken(b"abc", &[]).is_none() && taken(b"abc", &[1..1, 2..2]).is_none());
    }

    #[test]
    fn a_large_piece_takes_the_buffer() {
        let received: Vec<u8> = (0..40_000_u32).map(|number| number as u8).collect();
        let (piece, is_taken) = taken(&received, &[10..20_010, 20_020..30_000]).unwrap();
        assert_eq!(piece, [&received[10..20_010], &received[20_020..30_000]].concat());
        assert!(is_taken);
    }
}
