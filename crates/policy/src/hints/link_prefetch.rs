//! How much clients may fetch ahead because they were told what page is likely to be next (`Link: rel=prefetch`).
//!
//! A page that a browser has fetched ahead it shows without asking again, so the server cannot see whether it was of
//! use. Therefore a control group of clients is told nothing. Owns: an account in bytes, of pages that were
//! - *fetched* ahead by those who were told,
//! - *wanted* by the control group: asked for after the page that would have told them,
//! - *asked* for in the ordinary way by those who were told: they cannot fetch ahead, or could not use what they had
//!   fetched.
//!
//! If of N + 1 groups of clients of the same size one is the control group, the others have shown N times what it
//! wanted, and what of that was not asked for came from what was fetched ahead. So *used* is N × wanted − asked, and
//! *wasted* is fetched − used. Both are estimates: the control group is small, and as random as the caller's choice of
//! it.
//!
//! Guarantees: whenever more is allowed, what was wasted is at most `share` of what was fetched, plus the grace. Old
//! results fade: they count half after [`VIEWS_PER_HALVING`] views of pages. So a site whose clients fetched in vain
//! gets another try, as large as the grace, and no more than that. Threads share an account: it is counts that they add
//! to, without a lock.
//!
//! Does not: choose the control group, or know what a client has.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{Probability, VIEWS_PER_HALVING};

/// See the module.
#[derive(Debug)]
pub struct LinkPrefetchBudget {
    /// The part of the bytes fetched that may be wasted, in thousandths.
    share_per_mille: u16,
    /// Bytes that may be wasted before anything is known.
    grace_bytes: u64,
    /// For each client of the control group so many others are told.
    told_per_control: u32,
    fetched_bytes: AtomicU64,
    wanted_bytes: AtomicU64,
    asked_bytes: AtomicU64,
    views: AtomicU32,
}

impl LinkPrefetchBudget {
    /// So many thousandths of the bytes fetched ahead may be wasted. For each client of the control group there are
    /// `told_per_control` others.
    pub fn new(share_per_mille: u16, grace_bytes: u64, told_per_control: u32) -> LinkPrefetchBudget {
        LinkPrefetchBudget {
            share_per_mille,
            grace_bytes,
            told_per_control,
            fetched_bytes: AtomicU64::new(0),
            wanted_bytes: AtomicU64::new(0),
            asked_bytes: AtomicU64::new(0),
            views: AtomicU32::new(0),
        }
    }

    /// Whether clients may be told of pages.
    pub fn allows(&self) -> bool {
        let fetched = self.fetched_bytes.load(Relaxed);
        let share = u128::from(fetched) * u128::from(self.share_per_mille) / 1_000;
        u128::from(self.wasted_bytes()) <= share + u128::from(self.grace_bytes)
    }

    /// A client that was told has fetched a page ahead.
    pub fn handle_fetched(&self, bytes: u64) {
        self.fetched_bytes.fetch_add(bytes, Relaxed);
    }

    /// A client of the control group has asked for the page.
    pub fn handle_wanted(&self, bytes: u64) {
        self.wanted_bytes.fetch_add(bytes, Relaxed);
    }

    /// A client that was told has asked for the page in the ordinary way.
    pub fn handle_asked(&self, bytes: u64) {
        self.asked_bytes.fetch_add(bytes, Relaxed);
    }

    /// A page was asked for, whether its client was told something or not.
    pub fn handle_view(&self) {
        if (self.views.fetch_add(1, Relaxed) + 1).is_multiple_of(VIEWS_PER_HALVING) {
            for count in [&self.fetched_bytes, &self.wanted_bytes, &self.asked_bytes] {
                // What others add meanwhile stays.
                count.fetch_sub(count.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// The wasted bytes among those that were fetched ahead and have not faded, as far as the control group tells.
    pub fn wasted_bytes(&self) -> u64 {
        let [fetched, wanted, asked] =
            [&self.fetched_bytes, &self.wanted_bytes, &self.asked_bytes].map(|count| count.load(Relaxed));
        let used = wanted.saturating_mul(self.told_per_control.into()).saturating_sub(asked);
        fetched.saturating_sub(used)
    }

    /// The same as a part of what was fetched.
    pub fn waste(&self) -> Probability {
        let fetched = self.fetched_bytes.load(Relaxed).max(1);
        Probability::per_mille((u128::from(self.wasted_bytes()) * 1_000 / u128::from(fetched)).min(1_000) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;
    use proptest::prelude::*;

    const BYTES: u64 = 1_000;

    /// Sixteen groups of clients, of which the first is told nothing. `wants` of 100 want the next page, and `able` of
    /// 100 can fetch ahead.
    fn serve(budget: &LinkPrefetchBudget, views: u32, wants: u32, able: u32) -> u32 {
        let mut told = 0;
        for view in 0..views {
            let random = |salt: u64| mix(u64::from(view) | salt << 32) % 100;
            let (is_wanted, is_able) = (random(1) < wants.into(), random(2) < able.into());
            if !budget.allows() {
                break;
            }
            if view % 16 == 0 {
                if is_wanted {
                    budget.handle_wanted(BYTES);
                }
                continue;
            }
            told += 1;
            match is_able {
                true => budget.handle_fetched(BYTES),
                false if is_wanted => budget.handle_asked(BYTES),
                false => {}
            }
        }
        told
    }

    #[test]
    fn waste_is_what_the_control_group_does_not_want() {
        for (wants, able) in [(90, 100), (90, 60), (50, 100), (30, 80)] {
            let budget = LinkPrefetchBudget::new(1_000, 1 << 30, 15);
            serve(&budget, 20_000, wants, able);
            let waste = i64::from(budget.waste().thousandths());
            let expected = 1_000 - 10 * i64::from(wants);
            assert!(
                (waste - expected).abs() < 80,
                "{wants} % want it, {able} % can: {waste} of 1000, and not {expected}"
            );
        }
    }

    #[test]
    fn a_site_whose_pages_are_not_wanted_ends_and_tries_again_when_the_waste_has_faded() {
        let budget = LinkPrefetchBudget::new(500, 20 * BYTES, 15);
        assert_eq!(serve(&budget, 10_000, 90, 100), 9_375, "it goes on for ever");
        let budget = LinkPrefetchBudget::new(500, 20 * BYTES, 15);
        let told = serve(&budget, 10_000, 0, 100);
        assert!((20..60).contains(&told), "{told}");
        assert_eq!(serve(&budget, 10_000, 0, 100), 0);
        (0..VIEWS_PER_HALVING).for_each(|_| budget.handle_view());
        let again = serve(&budget, 10_000, 0, 100);
        assert!((1..told).contains(&again), "{again}");
    }

    #[test]
    fn what_is_fetched_and_asked_for_all_the_same_is_waste() {
        let budget = LinkPrefetchBudget::new(500, 0, 15);
        (0..15).for_each(|_| budget.handle_fetched(BYTES));
        budget.handle_wanted(BYTES);
        assert_eq!((budget.wasted_bytes(), budget.allows()), (0, true));
        (0..15).for_each(|_| budget.handle_asked(BYTES));
        assert_eq!((budget.waste(), budget.allows()), (Probability::CERTAIN, false));
    }

    proptest! {
        #[test]
        fn no_count_is_a_panic(counts in prop::collection::vec((0..4_u8, any::<u32>()), 0..60), share: u16, grace: u64, told: u32) {
            let budget = LinkPrefetchBudget::new(share, grace, told);
            for (what, bytes) in counts {
                match what {
                    0 => budget.handle_fetched(bytes.into()),
                    1 => budget.handle_wanted(bytes.into()),
                    2 => budget.handle_asked(bytes.into()),
                    _ => budget.handle_view(),
                }
                prop_assert!(budget.wasted_bytes() <= budget.fetched_bytes.load(Relaxed));
                let [wasted, fetched] = [budget.wasted_bytes(), budget.fetched_bytes.load(Relaxed)].map(u128::from);
                let most = fetched * u128::from(share) + (u128::from(grace) + 1) * 1_000;
                prop_assert!(!budget.allows() || wasted * 1_000 <= most);
            }
        }
    }
}
