//! Memory prefetching for the lookups of several requests that are about to be made.
//!
//! A hit among a million entries reads a row of lines that are not near the processor, each of them known only when the
//! one before has come: of the index, the slot, entry and name, resource and representation, message. One request has
//! to wait for each. Of several that are there at the same time all go one step before any goes the next one, so that
//! they wait together (group prefetching: Chen, Ailamaki, Gibbons, Mowry, ICDE 2004).
//!
//! Guarantees: has no visible effect but the time that it takes; counts as no use. For entries of a worker's local
//! cache the store is not asked: no lock is taken, and no count that other workers read is changed. Does not know
//! requests.

use lamna_sys::prefetch::Ahead;

use super::LocalCache;
use super::shard::Depth;
use super::shards::ShardHash;
use super::store::Store;
use super::two_generation_map::Key;

/// Lookups that are about to be made. One for each worker, so that it allocates nothing for long.
#[derive(Debug, Default)]
pub struct LookupPrefetch {
    shard_hashes: Vec<ShardHash>,
    ahead: Ahead,
}

/// Entries from which on they are not near the processor: about as many as its second cache has lines for half a
/// kilobyte of each.
const ENTRIES_MIN: u64 = 4096;

impl LookupPrefetch {
    /// Whether `store` is so large that it is worth it.
    pub fn is_worthwhile(store: &Store) -> bool {
        store.entries() >= ENTRIES_MIN
    }

    /// `key` is about to be looked up, through `local`, at about `now_ms`.
    pub fn add(&mut self, local: &LocalCache, store: &Store, key: Key<'_>, now_ms: u64) {
        match local.peek(key, now_ms) {
            // It was used lately, so it is not far away itself.
            Some(entry) => entry.foresee_description(&mut self.ahead),
            None => self.shard_hashes.push(store.shard_hash(key, &mut self.ahead)),
        }
    }

    /// Fetches what the lookups read of all that were added.
    pub fn fetch(&mut self, store: &Store) {
        for depth in [Depth::Slot, Depth::Entry, Depth::Description, Depth::Message] {
            self.ahead.fetch();
            for shard_hash in &self.shard_hashes {
                store.prefetch(*shard_hash, depth, &mut self.ahead);
            }
        }
        self.ahead.fetch();
        self.shard_hashes.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Entry;
    use lamna_io::file_state::Stamps;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };
    const NOW_MS: u64 = 5000;

    #[test]
    fn the_store_is_asked_for_what_the_front_would_ask_it_and_for_nothing_else() {
        let store = Store::new(4 << 20, 100);
        let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
        let entry = Entry::new(Resource::one(Status(200), representation), Stamps::none(), NOW_MS);
        store.insert(KEY, Arc::new(entry));
        let (mut local, mut prefetch) = (LocalCache::new(&store), LookupPrefetch::default());
        prefetch.add(&local, &store, KEY, NOW_MS);
        assert_eq!(prefetch.shard_hashes.len(), 1, "the local has nothing yet");
        prefetch.fetch(&store);
        assert!(prefetch.shard_hashes.is_empty() && prefetch.ahead.len() == 0);
        // From the second time on the local cache holds it.
        (0..2).for_each(|_| drop(local.lookup(&store, KEY, NOW_MS)));
        prefetch.add(&local, &store, KEY, NOW_MS);
        assert!(prefetch.shard_hashes.is_empty() && prefetch.ahead.len() > 0);
        prefetch.add(&local, &store, KEY, NOW_MS + 60_000);
        assert_eq!(prefetch.shard_hashes.len(), 1, "what is here is too old by then");
    }
}
