//! How much may be hinted to clients of what pages need: `103 Early Hints` with preload links.
//!
//! Owns: an account in bytes. What is hinted may be fetched in vain, at the client's cost and ours. So each hint is
//! *sent*, and then *used* (the client asked for it and the page wanted it) or *wasted*; the caller says which, and
//! when it knows. No more is hinted while waste exceeds the site's budget.
//!
//! Guarantees: when a hint is allowed, what was wasted and what is not decided, this hint included, are at most `share`
//! of what was sent plus the grace. What is not decided counts as wasted, so hints that are never reported on end by
//! themselves. Old results fade: they count half after [`VIEWS_PER_HALVING`] views of pages. So a site whose hints were
//! wasted gets another try, as large as the grace, and no more than that.
//!
//! Threads share an account: they add to counts without a lock. Threads that ask at the same time may be allowed a hint
//! each where there was room for one.
//!
//! Does not: know what a client has. The caller must not hint what it is likely to have.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::Probability;

/// Views of pages after which what is decided counts half.
pub const VIEWS_PER_HALVING: u32 = 4_096;

/// See the module.
#[derive(Debug)]
pub struct ClientHintBudget {
    /// The part of the bytes hinted that may be wasted, in thousandths.
    share_per_mille: u16,
    /// Bytes that may be wasted before anything is known: enough for the hints of some pages.
    grace_bytes: u64,
    /// The lowest probability of a hint.
    probability_least: Probability,
    /// Sent, and neither used nor wasted yet.
    open_bytes: AtomicU64,
    used_bytes: AtomicU64,
    wasted_bytes: AtomicU64,
    views: AtomicU32,
}

impl ClientHintBudget {
    /// So many thousandths of the bytes hinted may be wasted.
    pub fn new(share_per_mille: u16, grace_bytes: u64, probability_least: Probability) -> ClientHintBudget {
        ClientHintBudget {
            share_per_mille,
            grace_bytes,
            probability_least,
            open_bytes: AtomicU64::new(0),
            used_bytes: AtomicU64::new(0),
            wasted_bytes: AtomicU64::new(0),
            views: AtomicU32::new(0),
        }
    }

    /// Whether something of this probability and size may be hinted.
    pub fn allows(&self, probability: Probability, bytes: u64) -> bool {
        let [open, used, wasted] = self.counts();
        let doubtful = wasted.saturating_add(open).saturating_add(bytes);
        let sent = doubtful.saturating_add(used);
        let share = u128::from(sent) * u128::from(self.share_per_mille) / 1_000;
        probability >= self.probability_least && u128::from(doubtful) <= share + u128::from(self.grace_bytes)
    }

    /// It was hinted.
    pub fn handle_sent(&self, bytes: u64) {
        self.open_bytes.fetch_add(bytes, Relaxed);
    }

    /// A sent hint was used.
    pub fn handle_used(&self, bytes: u64) {
        self.open_bytes.fetch_sub(bytes, Relaxed);
        self.used_bytes.fetch_add(bytes, Relaxed);
    }

    /// A sent hint was not used, or the connection ended before that was known.
    pub fn handle_wasted(&self, bytes: u64) {
        self.open_bytes.fetch_sub(bytes, Relaxed);
        self.wasted_bytes.fetch_add(bytes, Relaxed);
    }

    /// A page was asked for, with or without hints.
    pub fn handle_view(&self) {
        if (self.views.fetch_add(1, Relaxed) + 1).is_multiple_of(VIEWS_PER_HALVING) {
            for count in [&self.used_bytes, &self.wasted_bytes] {
                // What others add meanwhile stays.
                count.fetch_sub(count.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// The wasted part of the bytes that are decided and have not faded.
    pub fn waste(&self) -> Probability {
        let [_, used, wasted] = self.counts();
        let thousandths = u128::from(wasted) * 1_000 / (u128::from(used) + u128::from(wasted)).max(1);
        Probability::per_mille(thousandths as u16)
    }

    /// Bytes that are not decided, that were used, and that were wasted.
    fn counts(&self) -> [u64; 3] {
        [&self.open_bytes, &self.used_bytes, &self.wasted_bytes].map(|count| count.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waste_stays_within_the_share_and_the_grace_whatever_clients_do(
            share in 0..500_u16,
            grace in 0..10_000_u64,
            hints in prop::collection::vec((1..3_000_u64, 0..3_u8), 0..300),
        ) {
            let budget = ClientHintBudget::new(share, grace, Probability::default());
            let (mut sent, mut used) = (0, 0);
            for (bytes, fate) in hints {
                if !budget.allows(Probability::CERTAIN, bytes) {
                    continue;
                }
                budget.handle_sent(bytes);
                sent += bytes;
                prop_assert!((sent - used) * 1_000 <= sent * u64::from(share) + grace * 1_000 + 1_000);
                match fate {
                    0 => {
                        budget.handle_used(bytes);
                        used += bytes;
                    }
                    1 => budget.handle_wasted(bytes),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn wasted_hints_end_and_are_tried_again_when_the_waste_has_faded() {
        let budget = ClientHintBudget::new(100, 1_000, Probability::per_mille(500));
        let waste_all = |budget: &ClientHintBudget| {
            let mut sent = 0;
            while budget.allows(Probability::CERTAIN, 100) {
                budget.handle_sent(100);
                budget.handle_wasted(100);
                sent += 100;
            }
            sent
        };
        assert_eq!(waste_all(&budget), 1_100);
        assert_eq!(budget.waste(), Probability::CERTAIN);
        (1..VIEWS_PER_HALVING).for_each(|_| budget.handle_view());
        assert_eq!(waste_all(&budget), 0);
        budget.handle_view();
        assert_eq!(waste_all(&budget), 500, "half of it is forgotten");
    }

    #[test]
    fn hints_that_are_used_go_on_for_ever_and_unlikely_ones_never_begin() {
        let budget = ClientHintBudget::new(100, 1_000, Probability::per_mille(500));
        for _ in 0..10_000 {
            assert!(budget.allows(Probability::per_mille(500), 1_000));
            budget.handle_sent(1_000);
            budget.handle_used(1_000);
        }
        assert!(!budget.allows(Probability::per_mille(499), 1));
        assert_eq!(budget.waste(), Probability::default());
    }
}
