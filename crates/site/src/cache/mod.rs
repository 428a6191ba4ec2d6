//! The cache of resolved targets: one shared store, and a private local cache of it for each worker.
//!
//! Owns: translations (negative ones too), with their prebuilt heads, open files, the content of small files and the
//! codings made of it; when each was last compared with the file system, and whether changes are noticed. Guarantees:
//! bounded in bytes; nothing is handed out as fresh that was neither compared within [`FRESH_MS`] nor watched since; no
//! lock is held across a system call, and a hit in a local cache takes none.
//! Does not read files for answers: `content::translate` does, and the engine decides where.

pub mod answer;
pub mod answer_flights;
pub mod answer_key;
pub mod compress;
mod compressor;
pub mod counters;
mod directories;
mod entry;
mod freshness;
mod headroom;
mod index;
mod invariants;
pub mod leased_buffer;
mod local;
mod lookup;
mod lookup_prefetch;
#[cfg(test)]
mod model;
mod predictions;
mod replacement;
mod shard;
mod shards;
mod single_flight;
mod store;
pub mod two_generation_map;
mod watch;
pub(crate) mod ways;

use lamna_sys::metrics::memory_accounting;

pub use entry::{Entry, Script};
pub use freshness::{FRESH_MS, RECHECK_MS_MIN, REFRESH_MS};
pub use headroom::Headroom;
pub use local::LocalCache;
pub use lookup::Lookup;
pub use lookup_prefetch::LookupPrefetch;
pub use predictions::{Following, Predictions};
pub use replacement::{OwnPolicy, Replacing};
pub use store::{Bounds, Store};
pub use watch::{WatchRequest, Watcher};

/// Synchronisation primitives of the shards and the memory account; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    pub(super) use std::sync::{Mutex, MutexGuard};
}

#[cfg(test)]
mod tests {
    use super::two_generation_map::Key;
    use super::*;
    use lamna_config::cache_policy::Policy;
    use lamna_io::file_state::Stamps;
    use lamna_policy::cache::Algorithm;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use lamna_sys::shared_memory::SharedMemory;
    use std::sync::Arc;

    fn entry(now_ms: u64) -> Arc<Entry> {
        let description = Description::of(Status(200));
        let resource = Resource::one(Status(200), Representation::with_content(&description, b"x").unwrap());
        Arc::new(Entry::new(resource, Stamps::none(), now_ms))
    }

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    fn keys() -> impl Iterator<Item = [u8; 4]> {
        (0..1000u32).map(u32::to_be_bytes)
    }

    #[test]
    fn a_store_may_be_bounded_in_entries() {
        let bounds = Bounds { bytes_max: 4 << 20, descriptors_max: 100, entries_max: Some(200) };
        let store = Store::with(bounds, Policy::default(), None, SharedMemory::default());
        keys().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        assert!((90..=200).contains(&store.len()), "{}", store.len());
    }

    #[test]
    fn bytes_of_everything_stay_within_the_bound_whoever_holds_on_to_it() {
        let store = Store::new(1 << 20, 100);
        let mut local = LocalCache::new(&store);
        for name in (0..20_000u32).map(u32::to_be_bytes) {
            let key = Key { site: 0, path: &name };
            store.insert(key, entry(5000));
            // From the second time on the local cache holds it, too.
            (0..2).for_each(|_| drop(local.lookup(&store, key, 5001)));
            // The local still holds the one that has just been pushed out, for which the next makes room.
            assert!(store.bytes() <= (1 << 20) + 1024, "{}", store.bytes());
        }
        assert!(store.len() > 500, "{}", store.len());
    }

    #[test]
    fn pages_stay_of_what_had_to_go_before_while_memory_is_free() {
        let bounds = Bounds { bytes_max: 4 << 20, descriptors_max: 100, entries_max: Some(200) };
        let store = Store::with(bounds, Policy::default(), None, SharedMemory::default());
        let leaves =
            |store: &Store| keys().filter(|name| store.keeps_in_page_cache(Key { site: 0, path: name }, 1_000)).count();
        let store = store.with_headroom(Some(Headroom::of(1 << 20, "1000")));
        assert_eq!(leaves(&store), 0, "nothing was read before");
        keys().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        // At least as many as are kept are remembered.
        assert!((90..=800).contains(&leaves(&store)), "{}", leaves(&store));
        assert!(!keys().any(|name| {
            let key = Key { site: 0, path: &name };
            store.lookup(key, 1).is_some() && store.keeps_in_page_cache(key, 1_000)
        }));
        let store = store.with_headroom(Some(Headroom::of(1 << 20, "1048576")));
        assert_eq!(leaves(&store), 0, "all memory is in use");
        assert_eq!(leaves(&store.with_headroom(None)), 0, "nobody knows");
    }

    #[test]
    fn a_policy_is_changed_without_losing_what_is_kept() {
        let store = Store::new(4 << 20, 100);
        keys().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        for algorithm in Algorithm::ALL {
            store.change_policy(Policy { algorithm, ..Policy::default() });
            assert_eq!(store.len(), 1000);
        }
        assert!(keys().all(|name| store.lookup(Key { site: 0, path: &name }, 1).is_some()));
    }

    #[test]
    fn what_is_cleared_is_gone_and_counts_no_more() {
        let store = Store::new(4 << 20, 100);
        let empty = store.bytes();
        keys().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        store.clear();
        assert_eq!((store.len(), store.bytes()), (0, empty));
    }

    /// As one that a slow client is being sent.
    fn held(store: &Store, name: u32) -> Arc<Representation> {
        let content = vec![7; 100_000];
        let resource =
            Resource::one(Status(200), Representation::with_content(&Description::of(Status(200)), &content).unwrap());
        let entry = Arc::new(Entry::new(resource, Stamps::none(), 5000));
        store.insert(Key { site: 0, path: &name.to_be_bytes() }, entry.clone());
        entry.resource.variants.first().clone()
    }

    #[test]
    fn what_answers_hold_counts_when_its_entry_is_gone_and_beyond_a_bound_nothing_is_held() {
        let store = Store::new(4 << 20, 100);
        let content_bytes_max = store.content_bytes_max();
        let empty = store.bytes();
        let mut answers = Vec::new();
        for name in 0..100u32 {
            answers.push(held(&store, name));
            assert!(store.bytes() >= answers.len() as u64 * 100_000, "{} of {name}", store.bytes());
            // What was just let go of is still held: so it takes a few more to make as much room.
            assert!(store.bytes() <= (4 << 20) * 5 / 4, "{} of {name}", store.bytes());
            if store.is_over_budget() {
                break;
            }
        }
        assert!((36..=50).contains(&answers.len()), "{}", answers.len());
        assert_eq!(store.content_bytes_max(), 0);
        store.clear();
        assert!(store.bytes() >= empty + answers.len() as u64 * 100_000);
        answers.truncate(20);
        assert!(!store.is_over_budget());
        assert_eq!(store.content_bytes_max(), content_bytes_max);
        drop(answers);
        assert_eq!(store.bytes(), empty);
    }

    #[test]
    fn what_is_not_kept_counts_as_long_as_somebody_has_it() {
        let store = Store::new(4 << 20, 100);
        let (empty, entry) = (store.bytes(), entry(5000));
        store.count(&entry);
        assert_eq!(store.bytes(), empty + entry.memory_bytes());
        store.insert(KEY, entry.clone());
        store.clear();
        assert_eq!(store.bytes(), empty + entry.memory_bytes());
        drop(entry);
        assert_eq!(store.bytes(), empty);
    }

    #[test]
    fn nothing_older_than_the_bound_is_handed_out_unchecked() {
        let store = Store::new(1 << 20, 100);
        let mut local = LocalCache::new(&store);
        assert!(matches!(local.lookup(&store, KEY, 5000), Lookup::Unknown));
        store.insert(KEY, entry(5000));
        assert!(matches!(local.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        assert!(matches!(local.lookup(&store, KEY, 5000 + REFRESH_MS), Lookup::Aging(_)));
        assert!(matches!(local.lookup(&store, KEY, 5000 + REFRESH_MS), Lookup::Fresh(_)), "one refresh is enough");
        let stale = local.lookup(&store, KEY, 5000 + FRESH_MS);
        assert!(matches!(stale, Lookup::Stale(_)), "{stale:?}");
    }

    #[test]
    fn a_front_holds_what_is_asked_for_again() {
        let store = Store::new(4 << 20, 100);
        let mut local = LocalCache::new(&store);
        keys().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        let mut held = |times| {
            for name in keys() {
                (0..times).for_each(|_| drop(local.lookup(&store, Key { site: 0, path: &name }, 5001)));
            }
            local.len()
        };
        assert!(held(1) < 50, "those whose marks happen to be equal");
        assert_eq!(held(2), 1000);
    }

    #[test]
    fn the_store_is_told_of_all_uses_of_an_entry_that_was_compared() {
        let bounds = Bounds { bytes_max: 4 << 20, descriptors_max: 100, entries_max: Some(200) };
        let policy = Policy { algorithm: Algorithm::Lfu, ..Policy::default() };
        let store = Store::with(bounds, policy, None, SharedMemory::default());
        let mut local = LocalCache::new(&store);
        store.insert(KEY, entry(5000));
        for _ in 0..100 {
            drop(local.lookup(&store, KEY, 5001));
        }
        local.expire(KEY);
        assert!(matches!(local.lookup(&store, KEY, 5001), Lookup::Fresh(_)));
        for name in keys() {
            let key = Key { site: 0, path: &name };
            store.insert(key, entry(5000));
            let _ = store.lookup(key, 10);
        }
        assert!(store.lookup(KEY, 1).is_some(), "each of the others was used less often");
    }

    #[test]
    fn the_more_entries_there_are_the_less_often_watched_ones_are_compared() {
        let store = Store::new(64 << 20, 100);
        assert_eq!(store.recheck_ms(), RECHECK_MS_MIN);
        (0..20_000u32).for_each(|name| store.insert(Key { site: 0, path: &name.to_be_bytes() }, entry(5000)));
        assert_eq!(store.recheck_ms(), store.len() as u64);
        store.clear();
        assert_eq!(store.recheck_ms(), RECHECK_MS_MIN);
    }

    #[test]
    fn what_was_disturbed_is_not_handed_out_from_a_front() {
        let store = Store::new(1 << 20, 100);
        let mut local = LocalCache::new(&store);
        let entry = entry(5000);
        store.insert(KEY, entry.clone());
        (0..2).for_each(|_| assert!(matches!(local.lookup(&store, KEY, 5001), Lookup::Fresh(_))));
        entry.begin_watch();
        entry.disturb();
        assert!(matches!(local.lookup(&store, KEY, 5002), Lookup::Stale(_)));
    }

    #[test]
    fn a_confirmation_by_another_worker_counts() {
        let store = Store::new(1 << 20, 100);
        let mut local = LocalCache::new(&store);
        let entry = entry(5000);
        store.insert(KEY, entry.clone());
        (0..2).for_each(|_| assert!(matches!(local.lookup(&store, KEY, 5100), Lookup::Fresh(_))));
        entry.confirm(5800, entry.events());
        assert!(matches!(local.lookup(&store, KEY, 5900), Lookup::Fresh(_)));
        assert!(matches!(local.lookup(&store, KEY, 5800 + FRESH_MS), Lookup::Stale(_)));
    }
}
