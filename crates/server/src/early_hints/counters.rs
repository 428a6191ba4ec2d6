//! What became of hints to clients, in all processes of a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::sys::shared_memory::process_shared;

process_shared! {
    /// Counters of hints to clients. Touched for navigations, and for what was hinted.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Hints that were sent.
        pub sent: AtomicU64,
        /// Bytes of what they name, as far as that is known.
        pub sent_bytes: AtomicU64,
        /// Of these, the ones whose resource was asked for then.
        pub used: AtomicU64,
        /// Bytes of those.
        pub used_bytes: AtomicU64,
        /// Of these, the ones whose resource was not.
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
    }
}

/// Adds to a counter that others add to as well.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    if number > 0 {
        counter.fetch_add(number, Relaxed);
    }
}

/// What they were at one moment. Each as in [`Counters`].
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
}

impl Counters {
    /// What they are now.
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
        }
    }
}
