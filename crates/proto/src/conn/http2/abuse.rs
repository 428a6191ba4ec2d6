//! How much of what costs us and carries nothing a peer may send.
//!
//! Owns: [`AbuseBudget`], a bucket that is emptied by what a peer does and fills again with time. Guarantees: what is
//! used up over any time is at most a burst and so many a second. Does not know frames.

use crate::time::Instant;

/// So many at once, and so many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AbuseBudget {
    /// In thousandths.
    left: u64,
    at: Instant,
}

impl AbuseBudget {
    /// A full one.
    pub(super) fn new(burst: u32, now: Instant) -> AbuseBudget {
        AbuseBudget { left: u64::from(burst) * 1000, at: now }
    }

    /// Uses up one. False if there is none left.
    pub(super) fn take(&mut self, burst: u32, per_second: u32, now: Instant) -> bool {
        let gained = now.since(self.at).saturating_mul(u64::from(per_second));
        self.left = self.left.saturating_add(gained).min(u64::from(burst) * 1000);
        self.at = self.at.max(now);
        match self.left.checked_sub(1000) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_so_many_a_second() {
        let mut budget = AbuseBudget::new(3, Instant::from_ms(0));
        let mut take = |now| budget.take(3, 2, Instant::from_ms(now));
        assert!(take(0) && take(0) && take(0) && !take(0));
        assert!(!take(499) && take(500) && !take(500));
        assert!(take(1_000_000) && take(1_000_000) && take(1_000_000) && !take(1_000_000));
    }
}
