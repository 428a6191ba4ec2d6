//! Flow control (RFC 9113 5.2 and 6.9): how much each side may send.
//!
//! Owns: the arithmetic of windows in both directions. Guarantees: a peer that overruns its window or raises ours beyond what
//! can be counted is found out; the windows that we give grow with the path, up to a bound. Does not know streams.

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

    /// What may be sent now.
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
/// A peer that fills a window within this time could have sent more: the window was shorter than the path. In milliseconds. The
/// clock is coarse, and longer paths are rare.
const SHORT_MS: u64 = 200;

/// How much the peer may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// What it is when all of it has been given back.
    size: u32,
    /// What the peer may send now.
    left: u32,
    /// What has been taken of what arrived, and not been given back.
    taken: u32,
    /// Since when it has been filled.
    since: Option<Instant>,
}

impl ReceiveWindow {
    pub(super) fn new() -> ReceiveWindow {
        ReceiveWindow { size: INITIAL_BYTES, left: INITIAL_BYTES, taken: 0, since: None }
    }

    /// `bytes` of flow-controlled payload have arrived.
    pub(super) fn take(&mut self, bytes: usize, now: Instant) -> Result<(), FlowError> {
        let left = u32::try_from(bytes).ok().and_then(|bytes| self.left.checked_sub(bytes)).ok_or(FlowError)?;
        self.left = left;
        self.since.get_or_insert(now);
        Ok(())
    }

    /// `bytes` of what arrived have been taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        // What arrived was no more than a window.
        self.taken += bytes as u32;
    }

    /// What to give back to the peer, once it is half of the window. The window grows to `size_max` as long as the peer fills it, and what
    /// it sends is taken, faster than a path is long.
    pub(super) fn increment(&mut self, size_max: u32, now: Instant) -> Option<u32> {
        if self.taken <= self.size / 2 {
            return None;
        }
        let before = self.size;
        if self.since.is_some_and(|since| now.since(since) < SHORT_MS) {
            self.size = self.size.saturating_mul(2).min(size_max).max(self.size);
        }
        let bytes = std::mem::take(&mut self.taken) + (self.size - before);
        self.left += bytes;
        self.since = None;
        Some(bytes)
    }
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
            fast.give_back(fast.left as usize);
            fast.take(fast.left as usize, now).unwrap();
            assert!(fast.increment(300_000, Instant::from_ms(now.ms() + 10)).is_some());
            slow.give_back(slow.left as usize);
            slow.take(slow.left as usize, now).unwrap();
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
                given += u64::from(window.increment(1 << 20, now).unwrap_or(0));
                prop_assert!(given + held <= 1 << 20 && (given > 0 || held > 0));
            }
        }
    }
}
