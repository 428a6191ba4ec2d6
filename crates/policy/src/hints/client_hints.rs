//! How much may be hinted to clients: `103 Early Hints`, preload and prefetch links.
//!
//! Owns: an account in bytes. What is hinted may be fetched in vain, at the client's cost and ours. So each hint is *sent*, and then
//! *used* (the client asked for it and the page wanted it) or *wasted*; the caller says which, and when it knows.
//! No more is hinted while waste exceeds the site's budget.
//!
//! Guarantees: when a hint is allowed, what was wasted and what is not decided, this hint included, are at most `share` of what was
//! sent plus the grace. What is not decided counts as wasted, so hints that nobody reports on end by themselves. Old results fade:
//! they count half after [`VIEWS_PER_HALVING`] views of pages. So a site whose hints were wasted gets another try, as large
//! as the grace, and no more than that.
//!
//! Does not: know what a client has. Who asks must not hint what it is likely to have.

use super::Probability;

/// Views of pages after which what is decided counts half.
pub const VIEWS_PER_HALVING: u32 = 4_096;

/// See the module.
#[derive(Clone, Debug)]
pub struct ClientHintBudget {
    /// Of the bytes hinted, in thousandths.
    share_per_mille: u16,
    /// Bytes that may be wasted before anything is known: enough for the hints of some pages.
    grace_bytes: u64,
    /// What is less likely is not hinted.
    probability_least: Probability,
    /// Sent, and neither used nor wasted yet.
    open_bytes: u64,
    used_bytes: u64,
    wasted_bytes: u64,
    views: u32,
}

impl ClientHintBudget {
    /// So many thousandths of the bytes hinted may be wasted.
    pub fn new(share_per_mille: u16, grace_bytes: u64, probability_least: Probability) -> ClientHintBudget {
        ClientHintBudget {
            share_per_mille,
            grace_bytes,
            probability_least,
            open_bytes: 0,
            used_bytes: 0,
            wasted_bytes: 0,
            views: 0,
        }
    }

    /// Whether something of this probability and size may be hinted.
    pub fn allows(&self, probability: Probability, bytes: u64) -> bool {
        let doubtful = self.wasted_bytes.saturating_add(self.open_bytes).saturating_add(bytes);
        let sent = doubtful.saturating_add(self.used_bytes);
        let share = u128::from(sent) * u128::from(self.share_per_mille) / 1_000;
        probability >= self.probability_least && u128::from(doubtful) <= share + u128::from(self.grace_bytes)
    }

    /// It was hinted.
    pub fn handle_sent(&mut self, bytes: u64) {
        self.open_bytes = self.open_bytes.saturating_add(bytes);
    }

    /// What had been sent was used.
    pub fn handle_used(&mut self, bytes: u64) {
        self.open_bytes = self.open_bytes.saturating_sub(bytes);
        self.used_bytes = self.used_bytes.saturating_add(bytes);
    }

    /// What had been sent was not used, or the connection ended before anybody knew.
    pub fn handle_wasted(&mut self, bytes: u64) {
        self.open_bytes = self.open_bytes.saturating_sub(bytes);
        self.wasted_bytes = self.wasted_bytes.saturating_add(bytes);
    }

    /// A page was asked for, with or without hints.
    pub fn handle_view(&mut self) {
        self.views += 1;
        if self.views == VIEWS_PER_HALVING {
            self.views = 0;
            self.used_bytes /= 2;
            self.wasted_bytes /= 2;
        }
    }

    /// Of what is decided and has not faded, how much was wasted.
    pub fn waste(&self) -> Probability {
        let decided = u128::from(self.used_bytes) + u128::from(self.wasted_bytes);
        let thousandths = u128::from(self.wasted_bytes) * 1_000 / decided.max(1);
        Probability::per_mille(thousandths as u16)
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
            let mut budget = ClientHintBudget::new(share, grace, Probability::default());
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
        let mut budget = ClientHintBudget::new(100, 1_000, Probability::per_mille(500));
        let waste_all = |budget: &mut ClientHintBudget| {
            let mut sent = 0;
            while budget.allows(Probability::CERTAIN, 100) {
                budget.handle_sent(100);
                budget.handle_wasted(100);
                sent += 100;
            }
            sent
        };
        assert_eq!(waste_all(&mut budget), 1_100);
        assert_eq!(budget.waste(), Probability::CERTAIN);
        (1..VIEWS_PER_HALVING).for_each(|_| budget.handle_view());
        assert_eq!(waste_all(&mut budget), 0);
        budget.handle_view();
        assert_eq!(waste_all(&mut budget), 500, "half of it is forgotten");
    }

    #[test]
    fn hints_that_are_used_go_on_for_ever_and_unlikely_ones_never_begin() {
        let mut budget = ClientHintBudget::new(100, 1_000, Probability::per_mille(500));
        for _ in 0..10_000 {
            assert!(budget.allows(Probability::per_mille(500), 1_000));
            budget.handle_sent(1_000);
            budget.handle_used(1_000);
        }
        assert!(!budget.allows(Probability::per_mille(499), 1));
        assert_eq!(budget.waste(), Probability::default());
    }
}
