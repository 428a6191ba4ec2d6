//! Until when a peer has to take what there is for it.
//!
//! Owns: [`SendDeadline`]. Guarantees: nothing moves it but what the peer has taken, and enough of that. No byte that
//! the peer sends, no step of ours and no frame that carries nothing does, because there is no method that could. While
//! it is for us to go on, its time stands still. Does not know what is to be sent.

use crate::time::Instant;

/// The deadline of what is to be sent at one place: to a socket, through a window, on a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendDeadline {
    /// Since when it has been for the peer to go on, if it is.
    since: Option<Instant>,
    /// How long it was before that, since enough was taken last.
    spent_ms: u32,
    /// Bytes that have been taken since enough was taken last.
    taken: u32,
}

impl SendDeadline {
    /// Nothing is to be sent.
    pub const NONE: SendDeadline = SendDeadline { since: None, spent_ms: 0, taken: 0 };

    /// At `now` it is for the peer to go on: there is something for it.
    pub fn run(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// At `now` it is for us to go on, and more follows what was taken.
    pub fn pause(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.spent_ms = self.spent_ms.saturating_add(u32::try_from(now.since(since)).unwrap_or(u32::MAX));
        }
    }

    /// All has been taken that there was.
    pub fn clear(&mut self) {
        *self = SendDeadline::NONE;
    }

    /// The peer has taken `bytes`; `least` are enough for a whole time more.
    pub fn take(&mut self, bytes: u64, least: u64, now: Instant) {
        if bytes == 0 {
            return;
        }
        self.taken = self.taken.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if u64::from(self.taken) >= least {
            *self = SendDeadline { since: self.since.map(|since| since.max(now)), ..SendDeadline::NONE };
        }
    }

    /// Until when the peer has to take enough, which may last `timeout_ms`; none if it is not for the peer to go on.
    pub fn until(&self, timeout_ms: u32) -> Option<Instant> {
        Some(self.since?.after_ms(timeout_ms.saturating_sub(self.spent_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ms(ms)
    }

    #[test]
    fn only_enough_moves_it() {
        let mut deadline = SendDeadline::NONE;
        assert_eq!(deadline.until(1000), None);
        deadline.run(at(5));
        for ms in 6..900 {
            deadline.run(at(ms));
            deadline.take(1, 1000, at(ms));
        }
        assert_eq!(deadline.until(1000), Some(at(1005)));
        deadline.take(106, 1000, at(950));
        assert_eq!(deadline.until(1000), Some(at(1950)));
        deadline.take(999, 1000, at(1900));
        assert_eq!(deadline.until(1000), Some(at(1950)));
        // Where any byte is enough.
        deadline.take(0, 0, at(1910));
        assert_eq!(deadline.until(1000), Some(at(1950)));
        deadline.take(1, 0, at(1910));
        assert_eq!(deadline.until(1000), Some(at(2910)));
        deadline.clear();
        assert_eq!(deadline.until(1000), None);
    }

    #[test]
    fn its_time_stands_still_while_the_peer_is_not_waited_for_and_goes_on_afterwards() {
        let mut deadline = SendDeadline::NONE;
        deadline.run(at(0));
        deadline.pause(at(400));
        deadline.pause(at(500));
        assert_eq!(deadline.until(1000), None);
        deadline.take(10, 1000, at(9_000));
        deadline.run(at(10_000));
        assert_eq!(deadline.until(1000), Some(at(10_600)));
        deadline.pause(at(10_600));
        deadline.run(at(20_000));
        assert_eq!(deadline.until(1000), Some(at(20_000)));
        deadline.take(990, 1000, at(20_000));
        assert_eq!(deadline.until(1000), Some(at(21_000)));
    }
}
