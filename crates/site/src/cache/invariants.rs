//! Invariants of a store, while no thread works on it.
//!
//! Owns: [`Store::check_invariants`]. Changes nothing. What one shard owes to itself is in `shard/invariants.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use super::entry::Entry;
use super::store::Store;

impl Store {
    /// Asserts that the sums over all shards are those of their entries, and that each entry knows for how many targets
    /// it is kept. For tests, while no thread works on it. The work is linear in what is kept.
    ///
    /// # Panics
    /// If they do not agree.
    pub fn check_invariants(&self) {
        let mut targets: HashMap<*const Entry, (Arc<Entry>, u64)> = HashMap::new();
        self.shards().for_each(|shard| {
            shard.check_invariants();
            for entry in shard.kept() {
                targets.entry(Arc::as_ptr(entry)).or_insert_with(|| (entry.clone(), 0)).1 += 1;
            }
        });
        let kept: u64 = targets.values().map(|(_, count)| count).sum();
        assert_eq!((self.entries(), self.len() as u64), (kept, kept), "other entries are counted than are kept");
        for (entry, count) in targets.values() {
            assert_eq!(entry.targets(), *count, "an entry is kept for other targets than it knows of");
        }
        let memory_account = self.shards().memory_account();
        let (held, alive) = (memory_account.held_bytes(), memory_account.alive_bytes());
        let bytes: u64 = targets.values().map(|(entry, _)| entry.counted_bytes()).sum();
        assert_eq!(held, bytes, "the bytes that are held are not those of the entries");
        assert!(held <= alive, "{held} bytes are held of {alive}");
    }
}

#[cfg(test)]
mod tests {
    use lamna_config::cache_policy::Policy;
    use lamna_io::file_state::Stamps;
    use lamna_policy::cache::Algorithm;
    use lamna_policy::hints::Probability;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use lamna_sys::shared_memory::SharedMemory;
    use proptest::prelude::*;

    use super::*;
    use crate::cache::two_generation_map::Key;
    use crate::cache::{Bounds, LocalCache};

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u8, usize),
        /// The same entry for another target.
        Share(u8, u8),
        Ahead(u8, usize),
        LookUp(u8),
        /// Somebody holds what is found from now on.
        Hold(u8),
        Release,
        Invalidate(u8),
        Purge(u8),
        Change(usize),
        Clear,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let (name, bytes) = (0_u8..60, prop_oneof![0_usize..100, 20_000_usize..60_000]);
        let step = prop_oneof![
            8 => (name.clone(), bytes.clone()).prop_map(|(name, bytes)| Step::Insert(name, bytes)),
            2 => (name.clone(), name.clone()).prop_map(|(name, other)| Step::Share(name, other)),
            2 => (name.clone(), bytes).prop_map(|(name, bytes)| Step::Ahead(name, bytes)),
            4 => name.clone().prop_map(Step::LookUp),
            3 => name.clone().prop_map(Step::Hold),
            2 => Just(Step::Release),
            2 => name.clone().prop_map(Step::Invalidate),
            1 => name.prop_map(Step::Purge),
            1 => (0..Algorithm::OF_SERVERS.len()).prop_map(Step::Change),
            1 => Just(Step::Clear),
        ];
        prop::collection::vec(step, 0..80)
    }

    fn entry(bytes: usize) -> Arc<Entry> {
        let representation =
            Representation::with_content(&Description::of(Status(200)), &vec![7; bytes]).expect("it is short");
        Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 5_000))
    }

    #[test]
    fn what_was_read_ahead_too_late_counts_no_more() {
        let store = Store::new(4 << 20, 100);
        let key = Key { site: 0, path: b"/a" };
        let ahead = |store: &Store| store.insert_ahead(key, entry(100), Probability::default());
        assert!(!ahead(&store), "nothing is read ahead here");
        store.check_invariants();
        store.set_precache(Some((1_000, Probability::default())));
        store.insert(key, entry(100));
        assert!(!ahead(&store), "it was asked for meanwhile");
        store.check_invariants();
    }

    proptest! {
        #[test]
        fn the_sums_are_those_of_the_entries_whatever_is_kept_held_and_let_go_of(steps in steps(), first in 0..6_usize) {
            let bounds = Bounds { bytes_max: 9 << 20, descriptors_max: 100, entries_max: Some(40) };
            let policy = |at: usize| Policy { algorithm: Algorithm::OF_SERVERS[at], ..Policy::default() };
            let store = Store::with(bounds, policy(first), None, SharedMemory::default());
            store.set_precache(Some((500, Probability::default())));
            let mut local = LocalCache::new(&store);
            let mut held = Vec::new();
            for step in steps {
                let key = |name: &u8| -> [u8; 2] { [b'/', *name] };
                match &step {
                    Step::Insert(name, bytes) => store.insert(Key { site: 0, path: &key(name) }, entry(*bytes)),
                    Step::Share(name, other) => {
                        if let Some(entry) = store.lookup(Key { site: 0, path: &key(name) }, 1) {
                            store.insert(Key { site: 1, path: &key(other) }, entry);
                        }
                    }
                    Step::Ahead(name, bytes) => {
                        store.insert_ahead(Key { site: 0, path: &key(name) }, entry(*bytes), Probability::default());
                    }
                    Step::LookUp(name) => drop(local.lookup(&store, Key { site: 0, path: &key(name) }, 5_001)),
                    Step::Hold(name) => held.extend(store.lookup(Key { site: 0, path: &key(name) }, 2)),
                    Step::Release => drop(held.pop()),
                    Step::Invalidate(name) => store.invalidate_answer(Key { site: 0, path: &key(name) }),
                    Step::Purge(name) => {
                        store.purge_answers(&|key| key.path[1] % 7 == name % 7);
                    }
                    Step::Change(at) => store.change_policy(policy(*at)),
                    Step::Clear => store.clear(),
                }
                store.check_invariants();
            }
            drop((held, local));
            store.clear();
            store.check_invariants();
            prop_assert_eq!((store.len(), store.shards().memory_account().alive_bytes()), (0, 0));
        }
    }
}
