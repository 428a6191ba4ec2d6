//! Loom model of the cache: workers, the watcher and threads that compare run concurrently, through every interleaving
//! and reordering (`models`): private caches, shards, the validity of entries and the sums of what they hold.
//!
//! The sources of all these are compiled a second time, over loom's primitives. Only what decides which entry goes is
//! simpler: a shard has room for one.

#[path = "entry/charge.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod charge;
#[path = "local.rs"]
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub, reason = "the same source over other primitives")]
mod local;
#[path = "../../../sys/src/metrics/memory_accounting.rs"]
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub, reason = "the same source over other primitives")]
mod memory_accounting;
#[path = "shards.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod shards;
#[path = "entry/validity.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod validity;

mod lookup {
    pub(super) use super::Lookup;
}

/// Loom's synchronisation primitives.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) use lamna_sys::allocator::LARGE_BYTES_MIN;

    pub(super) use lamna_loom::OnceLock;
}

/// An entry without a resource: it knows which state of its file it was made of.
mod entry {
    use std::sync::Arc;

    use super::charge::Charge;
    use super::memory_accounting::MemoryAccount;
    use super::validity::Validity;

    pub(super) use super::validity::Freshness;

    #[derive(Debug)]
    pub(super) struct Entry {
        pub(super) state: usize,
        pub(super) validity: Validity,
        account: Charge,
    }

    impl Entry {
        pub(super) fn new(state: usize, now_ms: u64) -> Arc<Entry> {
            Arc::new(Entry { state, validity: Validity::new(now_ms), account: Charge::default() })
        }

        pub(super) fn is_disturbed(&self) -> bool {
            self.validity.is_disturbed()
        }

        pub(super) fn freshness(&self, now_ms: u64, awake_ms: u64, recheck_ms: u64) -> Option<Freshness> {
            self.validity.freshness(now_ms, awake_ms, recheck_ms)
        }

        pub(super) fn descriptors(&self) -> u64 {
            0
        }

        pub(super) fn memory_bytes(&self) -> u64 {
            super::BYTES
        }

        pub(super) fn keep(&self, memory_account: &Arc<MemoryAccount>) {
            self.account.keep(memory_account, super::BYTES);
        }

        pub(super) fn count(&self, memory_account: &Arc<MemoryAccount>) {
            self.account.count(memory_account, super::BYTES);
        }

        pub(super) fn release(&self) {
            self.account.release();
        }

        pub(super) fn retire(&self) {
            self.validity.end_watch();
        }
    }
}

/// Keeps what was put last.
mod shard {
    use std::sync::Arc;

    use lamna_policy::hints::{PrecacheCounts, Probability};

    use super::Key;
    use super::entry::Entry;
    use crate::cache::Replacing;
    pub(super) use crate::cache::shard::Depth;
    use lamna_sys::prefetch::Ahead;

    #[derive(Debug, Default)]
    pub(super) struct Shard(Option<(Box<[u8]>, Arc<Entry>)>);

    impl Shard {
        pub(super) fn new(_bytes_max: u64, _replacing: &Replacing) -> Shard {
            Shard::default()
        }

        pub(super) fn change_policy(&mut self, _replacing: &Replacing) {}

        pub(super) fn lookup(&mut self, key: Key<'_>, _uses: u32) -> Option<&Arc<Entry>> {
            self.0.as_ref().filter(|(path, _)| **path == *key.path).map(|(_, entry)| entry)
        }

        pub(super) fn expect(&mut self, _: Key<'_>, _: Probability) -> bool {
            false
        }

        pub(super) fn set_precache(&mut self, _: Option<(u16, Probability)>) {}

        pub(super) fn allows_ahead(&mut self, _: Probability) -> bool {
            false
        }

        pub(super) fn insert_ahead(
            &mut self,
            _: Key<'_>,
            (entry, _): (Arc<Entry>, u64),
            _: Probability,
            gone: &mut Vec<Arc<Entry>>,
        ) -> bool {
            gone.push(entry);
            false
        }

        pub(super) fn is_ahead(&self, _: Key<'_>) -> bool {
            false
        }

        pub(super) fn precache_counts(&self) -> PrecacheCounts {
            PrecacheCounts::default()
        }

        pub(super) fn hash(&self, _key: Key<'_>) -> u32 {
            0
        }

        pub(super) fn remembers(&self, _key: Key<'_>) -> bool {
            false
        }

        pub(super) fn prefetch(&self, _hash: u32, _depth: Depth, _ahead: &mut Ahead) {}

        pub(super) fn insert(&mut self, key: Key<'_>, entry: Arc<Entry>, _cost: u64, gone: &mut Vec<Arc<Entry>>) {
            gone.extend(self.0.replace((key.path.into(), entry)).map(|(_, entry)| entry));
        }

        pub(super) fn weigh_again(&mut self, _: Key<'_>, _: &Arc<Entry>, _cost: u64, _: &mut Vec<Arc<Entry>>) {}

        pub(super) fn rebound(&mut self, _bytes_max: u64, _gone: &mut Vec<Arc<Entry>>) {}

        pub(super) fn clear(&mut self, _replacing: &Replacing, gone: &mut Vec<Arc<Entry>>) {
            gone.extend(self.0.take().map(|(_, entry)| entry));
        }

        pub(super) fn remove(&mut self, key: Key<'_>, gone: &mut Vec<Arc<Entry>>) {
            gone.extend(self.0.take_if(|(path, _)| **path == *key.path).map(|(_, entry)| entry));
        }

        pub(super) fn remove_where(&mut self, is_meant: &dyn Fn(Key<'_>, &Entry) -> bool, gone: &mut Vec<Arc<Entry>>) {
            let taken = self.0.take_if(|(path, entry)| is_meant(Key { site: 0, path }, entry));
            gone.extend(taken.map(|(_, entry)| entry));
        }

        pub(super) fn structure_bytes(&self) -> u64 {
            0
        }

        pub(super) fn len(&self) -> usize {
            usize::from(self.0.is_some())
        }
    }
}

/// The store as private caches see it.
mod store {
    use std::sync::Arc;

    use super::entry::Entry;
    use super::shards::Shards;
    use super::{BOUND, Key, NOW_MS, Policy};

    #[derive(Debug)]
    pub(super) struct Store(pub(super) Shards);

    impl Store {
        pub(super) fn new() -> Arc<Store> {
            Arc::new(Store(Shards::new(BOUND, 1, None, Policy::default().into())))
        }

        pub(super) fn lookup(&self, key: Key<'_>, uses: u32) -> Option<Arc<Entry>> {
            self.0.lookup(key, uses)
        }

        pub(super) fn awake_ms(&self) -> u64 {
            NOW_MS
        }

        pub(super) fn recheck_ms(&self) -> u64 {
            crate::cache::RECHECK_MS_MIN
        }

        pub(super) fn front_bytes(&self, share: u64) -> u64 {
            BOUND / share
        }
    }
}

use std::sync::Arc;

use lamna_config::cache_policy::Policy;
use lamna_loom::{check, check_within, spawn};
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::two_generation_map::Key;
use crate::cache::two_generation_map;
use charge::Charge;
use entry::Entry;
use local::LocalCache;
use memory_accounting::MemoryAccount;
use store::Store;

const KEY: Key<'static> = Key { site: 0, path: b"/a" };
const OTHER_KEY: Key<'static> = Key { site: 0, path: b"/b" };
const NOW_MS: u64 = 5000;
const BOUND: u64 = 1 << 20;
const BYTES: u64 = 100;

/// The result of a lookup in a local cache, over entries of the model.
enum Lookup<'a> {
    Fresh(&'a Arc<Entry>),
    Aging(&'a Arc<Entry>),
    Stale(#[expect(dead_code, reason = "the local gives it to whoever compares")] Arc<Entry>),
    Unknown,
}

impl Lookup<'_> {
    /// The state of the file that is answered with, unless it has to be compared first.
    fn answer(&self) -> Option<usize> {
        match self {
            Lookup::Fresh(entry) | Lookup::Aging(entry) => Some(entry.state),
            Lookup::Stale(_) | Lookup::Unknown => None,
        }
    }
}

/// A file, with a watcher and a thread that compares it.
#[derive(Clone)]
struct World {
    store: Arc<Store>,
    /// The state of the file. The kernel orders looks and changes.
    file: Arc<AtomicUsize>,
    /// The change has been announced.
    announced: Arc<AtomicBool>,
}

impl World {
    /// With an entry of state 1, watched and compared since.
    fn new() -> (World, Arc<Entry>) {
        let world = World {
            store: Store::new(),
            file: Arc::new(AtomicUsize::new(1)),
            announced: Arc::new(AtomicBool::new(false)),
        };
        let entry = Entry::new(1, NOW_MS);
        entry.validity.begin_watch();
        entry.validity.confirm(NOW_MS, entry.validity.events());
        world.store.0.insert(KEY, entry.clone());
        (world, entry)
    }

    fn change_and_announce(&self, entry: &Entry) {
        self.file.store(2, Ordering::SeqCst);
        entry.validity.disturb();
        self.announced.store(true, Ordering::Release);
    }

    /// Compares the entry with the file, as `content::translate` and `WorkerContext::keep` do together.
    fn compare(&self, entry: &Entry) {
        let events = entry.validity.events();
        match self.file.load(Ordering::SeqCst) {
            state if state == entry.state => entry.validity.confirm(NOW_MS + 1, events),
            state => self.store.0.insert(KEY, Entry::new(state, NOW_MS + 1)),
        }
    }
}

#[test]
fn no_front_answers_with_what_was_before_a_change_that_has_been_announced() {
    check(|| {
        let (world, entry) = World::new();
        let mut local = LocalCache::new(&world.store);
        // From the second time on the local cache holds it.
        (0..2).for_each(|_| assert_eq!(local.lookup(&world.store, KEY, NOW_MS).answer(), Some(1)));
        let (watcher, comparer) = ((world.clone(), entry.clone()), (world.clone(), entry));
        let watcher = spawn(move || watcher.0.change_and_announce(&watcher.1));
        let comparer = spawn(move || comparer.0.compare(&comparer.1));
        let is_announced = world.announced.load(Ordering::Acquire);
        let answer = local.lookup(&world.store, KEY, NOW_MS + 1).answer();
        assert!(!is_announced || answer != Some(1), "the old state is answered with");
        watcher.join().unwrap();
        comparer.join().unwrap();
        assert_ne!(local.lookup(&world.store, KEY, NOW_MS + 1).answer(), Some(1));
    });
}

#[test]
fn a_front_goes_on_with_what_was_compared_after_the_change() {
    check(|| {
        let (world, entry) = World::new();
        let other = (world.clone(), entry.clone());
        let other = spawn(move || other.0.change_and_announce(&other.1));
        other.join().unwrap();
        let comparers = [(world.clone(), entry.clone()), (world.clone(), entry)];
        let comparers = comparers.map(|(world, entry)| spawn(move || world.compare(&entry)));
        comparers.into_iter().for_each(|comparer| comparer.join().unwrap());
        assert_eq!(LocalCache::new(&world.store).lookup(&world.store, KEY, NOW_MS + 1).answer(), Some(2));
        assert_eq!(world.store.0.bytes(), BYTES, "the old entry is gone, the new one counts once");
    });
}

/// The kernel tells of changes from the moment that it is asked to, and the watcher says so after that.
#[test]
fn a_change_before_anybody_watched_is_not_covered_by_the_watch() {
    check(|| {
        let entry = Entry::new(1, NOW_MS);
        // The state of the file, and whether the kernel tells of changes.
        let kernel = Arc::new(loom::sync::Mutex::new((1, false)));
        let watcher = (kernel.clone(), entry.clone());
        let watcher = spawn(move || {
            watcher.0.lock().unwrap().1 = true;
            watcher.1.validity.begin_watch();
        });
        let comparer = (kernel.clone(), entry.clone());
        let comparer = spawn(move || {
            let events = comparer.1.validity.events();
            if comparer.0.lock().unwrap().0 == 1 {
                comparer.1.validity.confirm(NOW_MS + 1, events);
            }
        });
        let is_told = {
            let mut kernel = kernel.lock().unwrap();
            kernel.0 = 2;
            kernel.1
        };
        if is_told {
            entry.validity.disturb();
        }
        watcher.join().unwrap();
        comparer.join().unwrap();
        assert!(!entry.validity.is_watched(), "its file has changed, and nobody will tell");
    });
}

#[test]
fn an_entry_that_several_keep_and_let_go_of_counts_once() {
    check(|| {
        let (memory_account, account) = (Arc::new(MemoryAccount::default()), Arc::new(Charge::default()));
        let other = (memory_account.clone(), account.clone());
        let other = spawn(move || other.1.keep(&other.0, BYTES + 50));
        account.keep(&memory_account, BYTES);
        account.release();
        account.keep(&memory_account, BYTES);
        other.join().unwrap();
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (BYTES + 50, 0));
        (0..2).for_each(|_| account.release());
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (BYTES + 50, BYTES + 50));
        drop(account);
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (0, 0));
    });
}

/// A listing that one keeps while another has found that it is not worth it.
#[test]
fn an_entry_that_is_counted_and_kept_at_the_same_time_counts_once() {
    check(|| {
        let (memory_account, account) = (Arc::new(MemoryAccount::default()), Arc::new(Charge::default()));
        let other = (memory_account.clone(), account.clone());
        let other = spawn(move || other.1.count(&other.0, BYTES));
        account.keep(&memory_account, BYTES);
        other.join().unwrap();
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (BYTES, 0));
        account.release();
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (BYTES, BYTES));
        drop(account);
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (0, 0));
    });
}

#[test]
fn an_entry_that_grows_while_it_is_let_go_of_counts_once() {
    check(|| {
        let (memory_account, account) = (Arc::new(MemoryAccount::default()), Arc::new(Charge::default()));
        account.keep(&memory_account, BYTES);
        let grower = account.clone();
        let grower = spawn(move || grower.weigh(BYTES + 50));
        account.release();
        grower.join().unwrap();
        assert_eq!((memory_account.alive_bytes(), memory_account.lingering_bytes()), (BYTES + 50, BYTES + 50));
    });
}

/// Two that were given the same entry by one flight keep it, while descriptors run out and everything is let go of.
#[test]
fn whatever_workers_put_in_and_clear_at_the_same_time_the_bytes_are_those_of_what_is_there() {
    check_within(2, || {
        let store = Store::new();
        let entry = Entry::new(1, NOW_MS);
        let other = (store.clone(), entry.clone());
        let other = spawn(move || other.0.0.insert(KEY, other.1));
        store.0.insert(OTHER_KEY, entry.clone());
        store.0.clear();
        other.join().unwrap();
        let lingering = if store.0.len() == 0 { BYTES } else { 0 };
        assert_eq!((store.0.bytes(), store.0.lingering_bytes()), (BYTES, lingering));
        store.0.clear();
        assert_eq!((store.0.bytes(), store.0.lingering_bytes()), (BYTES, BYTES));
        drop(entry);
        assert_eq!((store.0.bytes(), store.0.lingering_bytes()), (0, 0));
    });
}
