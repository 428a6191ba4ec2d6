//! Flow control (RFC 9113 5.2 and 6.9): how much each side may send.
//!
//! Owns: the arithmetic of windows in both directions. Guarantees: a peer that overruns its window or raises ours
//! beyond what can be counted is found out; the windows that we give grow with the path, up to a bound. Of a window
//! that we give each byte is in one place: the peer may send it, or it has arrived and is held, or it is owed to the
//! peer. Does not know streams.

use super::frame::WINDOW_MAX;
use crate::time::Instant;

/// A window was overrun, or raised beyond what can be counted: FLOW_CONTROL_ERROR of the connection or the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowError;

/// How much we may send. Less than nothing after the peer has made the initial window smaller (RFC 9113 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) fn new(bytes: i64) -> SendWindow {
        SendWindow(bytes)
    }

    /// Bytes that may be sent now.
    pub(super) fn room(self) -> u64 {
        self.0.max(0) as u64
    }

    /// `bytes` have been sent, which there was room for.
    pub(super) fn take(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.room());
        self.0 -= bytes as i64;
    }

    /// The peer allows `bytes` more, or fewer.
    pub(super) fn change(&mut self, bytes: i64) -> Result<(), FlowError> {
        let changed = self.0 + bytes;
        if changed > WINDOW_MAX {
            return Err(FlowError);
        }
        self.0 = changed;
        Ok(())
    }
}

/// The window of a new connection or stream (RFC 9113 6.9.2).
pub(super) const INITIAL_BYTES: u32 = 65_535;
/// A peer that fills a window within this time could have sent more: the window was shorter than the path. In
/// milliseconds. The clock is coarse, and longer paths are rare.
const SHORT_MS: u64 = 200;

/// How much the peer may send. `left + held + owed = size`, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// Its size when all of it has been given back.
    size: u32,
    /// Bytes that the peer may send now.
    left: u32,
    /// Bytes that have arrived, or are on their way in a frame that has begun, and have not been taken.
    held: u32,
    /// Bytes that have been taken, and not been given back.
    owed: u32,
    /// Since when it has been filled.
    since: Option<Instant>,
    /// Since when the peer may send nothing.
    shut_since: Option<Instant>,
}

impl ReceiveWindow {
    pub(super) fn new() -> ReceiveWindow {
        let size = INITIAL_BYTES;
        ReceiveWindow { size, left: size, held: 0, owed: 0, since: None, shut_since: None }
    }

    /// `bytes` of flow-controlled payload arrive.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Result<(), FlowError> {
        let bytes = u32::try_from(bytes).map_err(|_| FlowError)?;
        self.left = self.left.checked_sub(bytes).ok_or(FlowError)?;
        self.held += bytes;
        self.since.get_or_insert(now);
        if self.left == 0 {
            self.shut_since.get_or_insert(now);
        }
        Ok(())
    }

    /// `bytes` of what is held have been taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.held as usize, "{bytes} bytes are given back, of {} that are held", self.held);
        // Nothing is ever given twice: the peer would be allowed more than we have room for.
        let bytes = u32::try_from(bytes).map_or(self.held, |bytes| bytes.min(self.held));
        self.held -= bytes;
        self.owed += bytes;
    }

    /// Bytes that have arrived, or are arriving, and have not been taken.
    pub(super) fn held(&self) -> usize {
        self.held as usize
    }

    /// Whether each byte of it is in one place.
    pub(super) fn is_balanced(&self) -> bool {
        u64::from(self.left) + u64::from(self.held) + u64::from(self.owed) == u64::from(self.size)
    }

    /// Whether the peer may send something.
    pub(super) fn is_open(&self) -> bool {
        self.left > 0
    }

    /// The increment for the peer, once it is half of the window. The window grows to `size_max` as long as the peer
    /// fills it, and its bytes are taken, faster than a path is long.
    pub(super) fn increment(&mut self, size_max: u32, now: Instant) -> Option<Increment> {
        if self.owed <= self.size / 2 {
            return None;
        }
        let before = self.size;
        if self.since.is_some_and(|since| now.since(since) < SHORT_MS) {
            self.size = self.size.saturating_mul(2).min(size_max).max(self.size);
        }
        let bytes = std::mem::take(&mut self.owed) + (self.size - before);
        self.left += bytes;
        self.since = None;
        let shut_ms = self.shut_since.take().map_or(0, |since| now.since(since));
        debug_assert!(self.is_balanced(), "{self:?}");
        Some(Increment { bytes, shut_ms })
    }
}

/// By how much a window is opened, and how long the peer could send nothing before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Increment {
    pub(super) bytes: u32,
    pub(super) shut_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // RFC 9113 6.9.1 and 6.9.2.
    #[test]
    fn a_send_window_may_be_negative_and_never_too_large() {
        let mut window = SendWindow::new(10);
        window.take(10);
        window.change(-5).unwrap();
        assert_eq!(window.room(), 0);
        window.change(6).unwrap();
        assert_eq!(window.room(), 1);
        assert_eq!(window.change(WINDOW_MAX), Err(FlowError));
        window.change(WINDOW_MAX - 1).unwrap();
    }

    #[test]
    fn a_window_that_is_filled_fast_grows_to_its_bound_and_a_slow_one_does_not() {
        let (mut fast, mut slow) = (ReceiveWindow::new(), ReceiveWindow::new());
        for second in 0..10 {
            let now = Instant::from_ms(second * 1000);
            let left = fast.left as usize;
            fast.take(left, now).unwrap();
            fast.give_back(left);
            assert!(fast.increment(300_000, Instant::from_ms(now.ms() + 10)).is_some());
            let left = slow.left as usize;
            slow.take(left, now).unwrap();
            slow.give_back(left);
            assert!(slow.increment(300_000, Instant::from_ms(now.ms() + 900)).is_some());
        }
        assert_eq!((fast.size, slow.size), (300_000, INITIAL_BYTES));
    }

    proptest! {
        #[test]
        fn the_peer_can_send_what_it_was_given_and_not_a_byte_more(steps in prop::collection::vec((0..100_000_usize, 0..500_u64), 0..50)) {
            let (mut window, mut given, mut held, mut now) = (ReceiveWindow::new(), u64::from(INITIAL_BYTES), 0, Instant::from_ms(0));
            for (bytes, ms) in steps {
                let fits = bytes as u64 <= given;
                prop_assert_eq!(window.take(bytes, now).is_ok(), fits);
                if fits {
                    given -= bytes as u64;
                    held += bytes as u64;
                }
                now = Instant::from_ms(now.ms() + ms);
                let taken = held.min(ms * 300);
                held -= taken;
                window.give_back(taken as usize);
                given += window.increment(1 << 20, now).map_or(0, |increment| u64::from(increment.bytes));
                prop_assert_eq!(window.held() as u64, held);
                prop_assert!(given + held <= 1 << 20 && (given > 0 || held > 0));
            }
        }
    }
}
