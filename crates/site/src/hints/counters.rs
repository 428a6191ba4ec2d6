//! Counters of hints and of their outcome, in all processes of a server.

use std::sync::atomic::AtomicU64;

use lamna_sys::shared_memory::process_shared;

process_shared! {
    /// Counters of hints. Serving threads touch `dropped` only.
    #[derive(Debug, Default)]
    pub struct HintCounters {
        /// Requests that were learned from.
        pub observations: AtomicU64,
        /// Requests that were not, because the learner had not come to those before them.
        pub dropped: AtomicU64,
        /// Pairs of URLs that were counted.
        pub pairs: AtomicU64,
        /// URLs that are known now.
        pub urls: AtomicU64,
        /// Names of URLs that are known now.
        pub names: AtomicU64,
        /// Bytes of memory that what is known takes now, names and lanes included.
        pub bytes: AtomicU64,
        /// Pages whose predictions were made anew.
        pub published: AtomicU64,
        /// Files that were begun to be read ahead of requests.
        pub ahead: AtomicU64,
        /// Files read ahead that were asked for while the cache had them.
        pub ahead_used: AtomicU64,
        /// Files read ahead that left the cache, or were changed, before a request for them.
        pub ahead_wasted: AtomicU64,
        /// Entries that went to make room for what was read ahead.
        pub ahead_evictions: AtomicU64,
        /// Evicted entries that were asked for again before the file that pushed them out was of use.
        pub ahead_evicted_again: AtomicU64,
        /// Files that were likely, and not read ahead because the budget or the room was used up.
        pub ahead_refused: AtomicU64,
    }
}
