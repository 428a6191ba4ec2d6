//! What has been found out about targets, kept: one shared store, and a private front of it for each worker.
//!
//! Owns: translations (negative ones too), with their prebuilt heads, open files and the content of small files; when
//! each was last compared with the file system. Guarantees: bounded in bytes; nothing is handed out that has not been
//! compared within [`FRESH_MS`]; no lock is held across a system call, and a front takes none.
//! Does not read files: `content::translate` does, and the engine decides where.

pub mod generations;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use generations::{Generations, Key};
use lamna_proto::resource::Resource;

use crate::content::file::{Stamp, Stamps};

/// How long a translation is used without looking at the file system again, in milliseconds.
pub const FRESH_MS: u64 = 1000;
/// At this age a translation is looked at again while it is still being used, so that nobody waits for it.
pub const REFRESH_MS: u64 = 500;

/// What a target was found to stand for, and what that rests on.
#[derive(Debug)]
pub struct Entry {
    /// What to answer with.
    pub resource: Arc<Resource>,
    /// The state of the files that the resource was made from.
    pub stamps: Stamps,
    /// Whether the resource is this entry's alone, and counts as such.
    owns_resource: bool,
    /// When it was last compared with the file system, in the server's milliseconds. Zero: it must not be used without
    /// comparing, because the file was changing while it was read.
    checked_ms: AtomicU64,
}

impl Entry {
    /// An entry of its own `resource`, compared at `now_ms`.
    pub fn new(resource: Resource, stamps: Stamps, now_ms: u64) -> Entry {
        let checked_ms = AtomicU64::new(if stamps.settled { now_ms } else { 0 });
        Entry { resource: Arc::new(resource), stamps, owns_resource: true, checked_ms }
    }

    /// An entry of a resource that others have as well: the page of an error.
    pub fn shared(resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        let checked_ms = AtomicU64::new(if stamps.settled { now_ms } else { 0 });
        Entry { resource, stamps, owns_resource: false, checked_ms }
    }

    /// It was compared at `now_ms` and still holds.
    pub fn confirm(&self, now_ms: u64) {
        if self.stamps.settled {
            self.checked_ms.store(now_ms, Relaxed);
        }
    }

    fn age_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.checked_ms.load(Relaxed))
    }

    /// Files that it holds open.
    fn descriptors(&self) -> u64 {
        self.resource.variants.all().iter().filter(|one| one.file.is_some()).count() as u64
    }

    fn memory_bytes(&self) -> u64 {
        let own = size_of::<Entry>() + ARC_BYTES + self.stamps.files.capacity() * size_of::<Stamp>();
        if !self.owns_resource {
            return own as u64;
        }
        let representations = self.resource.variants.all();
        let held: usize = representations.iter().map(|one| one.memory_bytes()).sum();
        (own + held + size_of::<Resource>() + ARC_BYTES * (1 + representations.len())) as u64
    }
}

/// The two counts of an `Arc`.
const ARC_BYTES: usize = 16;

/// What a cache says about a target.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// Use it.
    Fresh(&'a Arc<Entry>),
    /// Use it, and look at the file system soon.
    Aging(&'a Arc<Entry>),
    /// Known, but to be compared with the file system before it is used.
    Stale(Arc<Entry>),
    /// Not known.
    Unknown,
}

/// The shared store.
#[derive(Debug)]
pub struct Store {
    shards: Vec<Mutex<Generations<Arc<Entry>>>>,
    bytes_max: u64,
    /// What an open file counts beside its bytes, so that the bound on bytes bounds descriptors as well.
    descriptor_cost: u64,
    /// What an entry counts at least, so that the bound on bytes bounds their number as well.
    entry_cost_min: u64,
}

/// The most shards. A small store has fewer: one that held less than a few of the largest entries would hold none.
const SHARDS_MAX: u64 = 16;
const SHARD_BYTES_MIN: u64 = 4 << 20;

impl Store {
    /// An empty store of at most `bytes_max` bytes, its own structures included, and `descriptors_max` open files.
    pub fn new(bytes_max: u64, descriptors_max: u64) -> Store {
        let shards = (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let shard = |_| Mutex::new(Generations::new(bytes_max / shards));
        let descriptor_cost = bytes_max / descriptors_max.max(1);
        Store { shards: (0..shards).map(shard).collect(), bytes_max, descriptor_cost, entry_cost_min: 0 }
    }

    /// The same store, of at most `entries_max` entries.
    pub fn bounded(self, entries_max: usize) -> Store {
        Store { entry_cost_min: self.bytes_max / entries_max.max(1) as u64, ..self }
    }

    /// The entry of `key`, however old.
    pub fn lookup(&self, key: Key<'_>) -> Option<Arc<Entry>> {
        self.shard(key).lookup(key).map(|entry| entry.clone())
    }

    /// Keeps `entry`.
    pub fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        let cost = entry.memory_bytes() + entry.descriptors() * self.descriptor_cost;
        let cost = cost.max(self.entry_cost_min);
        self.shard(key).insert(key, entry, cost);
    }

    /// Lets go of everything, because descriptors or memory are needed elsewhere. What is in use lives on in the hands
    /// of its users.
    pub fn clear(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).cost()).sum()
    }

    fn shard(&self, key: Key<'_>) -> MutexGuard<'_, Generations<Arc<Entry>>> {
        let sum = key.path.iter().fold(key.site, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        lock(&self.shards[sum as usize % self.shards.len()])
    }
}

/// A panic while a shard was locked cannot have left it half changed in a way that matters: it is only a cache.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A worker's private front of the store: no lock, no shared cache line but the entries themselves.
#[derive(Debug)]
pub struct Front {
    entries: Generations<Slot>,
    /// The entry that was handed out last without being kept.
    passing: Option<Arc<Entry>>,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    /// Until when the entry is used without asking the entry itself again.
    fresh_until_ms: u64,
    /// Whether a refresh was asked for in this period.
    refreshing: bool,
}

/// What part of the store a front may hold on to, entries included that the store has let go of meanwhile.
const FRONT_SHARE: u64 = 8;

impl Front {
    /// An empty front of `store`.
    pub fn new(store: &Store) -> Front {
        Front { entries: Generations::new(store.bytes_max / FRONT_SHARE), passing: None }
    }

    /// What is known about `key` at `now_ms`, from here or from `store`.
    pub fn lookup(&mut self, store: &Store, key: Key<'_>, now_ms: u64) -> Lookup<'_> {
        self.passing = None;
        let fresh_until_ms = self.entries.lookup(key).map_or(0, |slot| slot.fresh_until_ms);
        if fresh_until_ms <= now_ms
            && let Some(stale) = self.renew(store, key, now_ms)
        {
            return stale;
        }
        if let Some(passing) = &self.passing {
            return Lookup::Fresh(passing);
        }
        let Some(slot) = self.entries.lookup(key) else { return Lookup::Unknown };
        if slot.fresh_until_ms <= now_ms + (FRESH_MS - REFRESH_MS) && !slot.refreshing {
            slot.refreshing = true;
            return Lookup::Aging(&slot.entry);
        }
        Lookup::Fresh(&slot.entry)
    }

    /// Takes over what the store knows. Returns an answer if that is not fresh.
    fn renew(&mut self, store: &Store, key: Key<'_>, now_ms: u64) -> Option<Lookup<'static>> {
        let Some(entry) = store.lookup(key) else {
            self.entries.remove(key);
            return Some(Lookup::Unknown);
        };
        let age_ms = entry.age_ms(now_ms);
        if age_ms >= FRESH_MS {
            self.entries.remove(key);
            return Some(Lookup::Stale(entry));
        }
        if entry.descriptors() > 0 {
            // An open file is the store's alone, so that it is closed when the store lets go of it.
            self.passing = Some(entry);
            return None;
        }
        let cost = entry.memory_bytes();
        let slot = Slot { entry: entry.clone(), fresh_until_ms: now_ms + FRESH_MS - age_ms, refreshing: false };
        if !self.entries.insert(key, slot, cost) {
            self.passing = Some(entry);
        }
        None
    }

    /// Forgets `key`, so that the store is asked again.
    pub fn forget(&mut self, key: Key<'_>) {
        self.entries.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};

    fn entry(now_ms: u64) -> Arc<Entry> {
        let description = Description::of(Status(200));
        let resource = Resource::one(Status(200), Representation::with_content(&description, b"x"));
        Arc::new(Entry::new(resource, Stamps { files: Vec::new(), settled: true }, now_ms))
    }

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    #[test]
    fn a_store_may_be_bounded_in_entries() {
        let store = Store::new(4 << 20, 100).bounded(200);
        let names = || (0..1000u32).map(u32::to_be_bytes);
        names().for_each(|name| store.insert(Key { site: 0, path: &name }, entry(5000)));
        let kept = names().filter(|name| store.lookup(Key { site: 0, path: name }).is_some()).count();
        assert!((90..=200).contains(&kept), "{kept}");
    }

    #[test]
    fn nothing_older_than_the_bound_is_handed_out_unchecked() {
        let store = Store::new(1 << 20, 100);
        let mut front = Front::new(&store);
        assert!(matches!(front.lookup(&store, KEY, 5000), Lookup::Unknown));
        store.insert(KEY, entry(5000));
        assert!(matches!(front.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        assert!(matches!(front.lookup(&store, KEY, 5500), Lookup::Aging(_)));
        assert!(matches!(front.lookup(&store, KEY, 5501), Lookup::Fresh(_)), "one refresh is enough");
        let stale = front.lookup(&store, KEY, 6000);
        assert!(matches!(stale, Lookup::Stale(_)), "{stale:?}");
    }

    #[test]
    fn a_confirmation_by_another_worker_counts() {
        let store = Store::new(1 << 20, 100);
        let mut front = Front::new(&store);
        let entry = entry(5000);
        store.insert(KEY, entry.clone());
        assert!(matches!(front.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        entry.confirm(5900);
        assert!(matches!(front.lookup(&store, KEY, 6100), Lookup::Fresh(_)));
        assert!(matches!(front.lookup(&store, KEY, 6900), Lookup::Stale(_)));
    }
}
