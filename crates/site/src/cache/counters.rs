//! Counters of the caches of all processes.

use std::sync::atomic::AtomicU64;

use lamna_sys::shared_memory::process_shared;

process_shared! {
    /// Counters of caches, for the summary at the end. Touched where something is made or found out, never by a hit.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Codings made.
        pub compressed: AtomicU64,
        /// Bytes of content that they were made from.
        pub compressed_from_bytes: AtomicU64,
        /// Bytes that they have.
        pub compressed_to_bytes: AtomicU64,
        /// Codings given up because they would not have been smaller, or could not be made.
        pub compressed_in_vain: AtomicU64,
        /// Wishes that had to wait because too many were waiting already.
        pub compression_queue_full: AtomicU64,
        /// Entries that were watched.
        pub watched: AtomicU64,
        /// Entries that could not be.
        pub unwatchable: AtomicU64,
        /// Times that events were lost because too many waited.
        pub watch_overflows: AtomicU64,
    }
}
