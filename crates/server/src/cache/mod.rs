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

use crate::content::file::Stamps;

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
    /// When it was last compared with the file system, in the server's milliseconds. Zero: it must not be used without
    /// comparing, because the file was changing while it was read.
    checked_ms: AtomicU64,
}

impl Entry {
    /// An entry compared at `now_ms`.
    pub fn new(resource: Arc<Resource>, stamps: Stamps, now_ms: u64) -> Entry {
        let checked_ms = if stamps.settled { now_ms } else { 0 };
        Entry { resource, stamps, checked_ms: AtomicU64::new(checked_ms) }
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

    fn cost(&self) -> u64 {
        let representations = self.resource.variants.all();
        let held: usize = representations.iter().map(|one| one.memory_bytes()).sum();
        (held + size_of::<Entry>() + size_of::<Resource>() + ARC_BYTES * (2 + representations.len())) as u64
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
}

const SHARDS: usize = 16;

impl Store {
    /// An empty store of at most `bytes_max` bytes, its own structures included.
    pub fn new(bytes_max: u64) -> Store {
        let shard = || Mutex::new(Generations::new(bytes_max / SHARDS as u64));
        Store { shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// The entry of `key`, however old.
    pub fn lookup(&self, key: Key<'_>) -> Option<Arc<Entry>> {
        self.shard(key).lookup(key).map(|entry| entry.clone())
    }

    /// Keeps `entry`.
    pub fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        let cost = entry.cost();
        self.shard(key).insert(key, entry, cost);
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).cost()).sum()
    }

    fn shard(&self, key: Key<'_>) -> MutexGuard<'_, Generations<Arc<Entry>>> {
        let sum = key.path.iter().fold(key.site, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        lock(&self.shards[sum as usize % SHARDS])
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
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    /// Until when the entry is used without asking the entry itself again.
    fresh_until_ms: u64,
    /// Whether a refresh was asked for in this period.
    refreshing: bool,
}

/// Bytes of slots and keys that a front may hold; the entries are the store's.
const FRONT_BYTES_MAX: u64 = 1 << 20;

impl Default for Front {
    fn default() -> Front {
        Front { entries: Generations::new(FRONT_BYTES_MAX) }
    }
}

impl Front {
    /// What is known about `key` at `now_ms`, from here or from `store`.
    pub fn lookup(&mut self, store: &Store, key: Key<'_>, now_ms: u64) -> Lookup<'_> {
        let fresh_until_ms = self.entries.lookup(key).map_or(0, |slot| slot.fresh_until_ms);
        if fresh_until_ms <= now_ms
            && let Some(stale) = self.renew(store, key, now_ms)
        {
            return stale;
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
        self.entries.insert(key, Slot { entry, fresh_until_ms: now_ms + FRESH_MS - age_ms, refreshing: false }, 0);
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
    use lamna_proto::exchange::negotiate::Coding;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};

    fn entry(now_ms: u64) -> Arc<Entry> {
        let description = Description {
            status: Status(200),
            media_type: None,
            coding: Coding::Identity,
            size: 0,
            modified: None,
            etag: None,
            ranges: false,
            vary: None,
            fields: &[],
            location: None,
        };
        let resource = Resource::one(Status(200), Representation::with_content(&description, b"x"));
        Arc::new(Entry::new(Arc::new(resource), Stamps { files: Vec::new(), settled: true }, now_ms))
    }

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    #[test]
    fn nothing_older_than_the_bound_is_handed_out_unchecked() {
        let (store, mut front) = (Store::new(1 << 20), Front::default());
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
        let (store, mut front) = (Store::new(1 << 20), Front::default());
        let entry = entry(5000);
        store.insert(KEY, entry.clone());
        assert!(matches!(front.lookup(&store, KEY, 5100), Lookup::Fresh(_)));
        entry.confirm(5900);
        assert!(matches!(front.lookup(&store, KEY, 6100), Lookup::Fresh(_)));
        assert!(matches!(front.lookup(&store, KEY, 6900), Lookup::Stale(_)));
    }
}
