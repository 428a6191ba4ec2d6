//! Counters of hints to clients and of their outcome, in all processes of a server.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_sys::shared_memory::process_shared;
use serde::{Deserialize, Serialize};

use super::next_pages::TOLD_PER_CONTROL;

process_shared! {
    /// Counters of hints to clients. Touched for navigations, and for what was hinted.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Hints that were sent.
        pub sent: AtomicU64,
        /// Bytes of what they name, as far as that is known.
        pub sent_bytes: AtomicU64,
        /// Sent hints whose resource was asked for then.
        pub used: AtomicU64,
        /// Bytes of those.
        pub used_bytes: AtomicU64,
        /// Sent hints whose resource was not asked for.
        pub wasted: AtomicU64,
        /// Bytes of those.
        pub wasted_bytes: AtomicU64,
        /// Hints that were not sent, because the client is likely to have what they name.
        pub withheld_known: AtomicU64,
        /// The same, because too much was wasted.
        pub withheld_budget: AtomicU64,
        /// The same, because the view is one of those that get none.
        pub withheld_control: AtomicU64,
        /// Pages that are known now.
        pub pages: AtomicU64,
        /// Counters of links to next pages.
        pub link_prefetch: LinkPrefetchCounters,
        /// The key by which all processes number URLs; zero before the first has chosen it.
        pub(super) key: [AtomicU64; 2],
    }
}

process_shared! {
    /// Counters of links to likely next pages.
    #[derive(Debug, Default)]
    pub struct LinkPrefetchCounters {
        /// Links that were sent.
        pub sent: AtomicU64,
        /// Pages that were fetched ahead because of them.
        pub fetched: AtomicU64,
        /// Bytes of those.
        pub fetched_bytes: AtomicU64,
        /// Fetched pages that are known to have been shown: their parts were asked for.
        pub shown: AtomicU64,
        /// Pages that clients which are sent links asked for in the ordinary way.
        pub asked: AtomicU64,
        /// Bytes of those.
        pub asked_bytes: AtomicU64,
        /// Links that the control group was not sent.
        pub withheld_control: AtomicU64,
        /// Pages that the control group asked for then.
        pub control_asked: AtomicU64,
        /// Bytes of those.
        pub control_asked_bytes: AtomicU64,
        /// Links that were not sent, because the client is likely to have what they name.
        pub withheld_known: AtomicU64,
        /// The same, because too much was fetched in vain.
        pub withheld_budget: AtomicU64,
    }
}

impl Counters {
    /// The key by which all processes number URLs.
    pub(super) fn key(&self) -> [u8; 16] {
        let word = |word: &AtomicU64| {
            // Zero is none.
            let own = RandomState::new().hash_one(0) | 1;
            word.compare_exchange(0, own, Relaxed, Relaxed).err().unwrap_or(own).to_le_bytes()
        };
        let [one, other] = self.key.each_ref().map(word);
        std::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] })
    }
}

/// Adds to a counter that others add to as well.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    if number > 0 {
        counter.fetch_add(number, Relaxed);
    }
}

/// A snapshot of [`Counters`], field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Hints that were sent.
    pub sent: u64,
    /// Bytes of what they name.
    pub sent_bytes: u64,
    /// Those that were used.
    pub used: u64,
    /// Bytes of those.
    pub used_bytes: u64,
    /// Those that were wasted.
    pub wasted: u64,
    /// Bytes of those.
    pub wasted_bytes: u64,
    /// Hints of what the client is likely to have.
    pub withheld_known: u64,
    /// Hints beyond the budget.
    pub withheld_budget: u64,
    /// Hints in views that get none.
    pub withheld_control: u64,
    /// Pages that are known.
    pub pages: u64,
    /// Counters of links to next pages.
    pub link_prefetch: LinkPrefetchFigures,
}

/// A snapshot of [`LinkPrefetchCounters`], field by field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPrefetchFigures {
    /// Links that were sent.
    pub sent: u64,
    /// Pages that were fetched ahead.
    pub fetched: u64,
    /// Bytes of those.
    pub fetched_bytes: u64,
    /// Those that are known to have been shown.
    pub shown: u64,
    /// Pages asked for in the ordinary way.
    pub asked: u64,
    /// Bytes of those.
    pub asked_bytes: u64,
    /// Links that the control group was not sent.
    pub withheld_control: u64,
    /// Pages that the control group asked for then.
    pub control_asked: u64,
    /// Bytes of those.
    pub control_asked_bytes: u64,
    /// Links to what the client is likely to have.
    pub withheld_known: u64,
    /// Links beyond the budget.
    pub withheld_budget: u64,
}

impl LinkPrefetchFigures {
    /// Bytes that were fetched ahead in vain, as far as the control group tells
    /// ([`LinkPrefetchBudget`](lamna_policy::hints::LinkPrefetchBudget)). They are of all sites, and nothing has faded.
    pub fn wasted_bytes(&self) -> u64 {
        let used = self.control_asked_bytes.saturating_mul(TOLD_PER_CONTROL.into()).saturating_sub(self.asked_bytes);
        self.fetched_bytes.saturating_sub(used)
    }
}

impl Counters {
    /// A snapshot of the counters.
    pub fn figures(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Figures {
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            used: read(&self.used),
            used_bytes: read(&self.used_bytes),
            wasted: read(&self.wasted),
            wasted_bytes: read(&self.wasted_bytes),
            withheld_known: read(&self.withheld_known),
            withheld_budget: read(&self.withheld_budget),
            withheld_control: read(&self.withheld_control),
            pages: read(&self.pages),
            link_prefetch: self.link_prefetch.figures(),
        }
    }
}

impl LinkPrefetchCounters {
    fn figures(&self) -> LinkPrefetchFigures {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        LinkPrefetchFigures {
            sent: read(&self.sent),
            fetched: read(&self.fetched),
            fetched_bytes: read(&self.fetched_bytes),
            shown: read(&self.shown),
            asked: read(&self.asked),
            asked_bytes: read(&self.asked_bytes),
            withheld_control: read(&self.withheld_control),
            control_asked: read(&self.control_asked),
            control_asked_bytes: read(&self.control_asked_bytes),
            withheld_known: read(&self.withheld_known),
            withheld_budget: read(&self.withheld_budget),
        }
    }
}
