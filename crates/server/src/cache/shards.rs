//! The entries of all workers of a process, in shards of their own locks.
//!
//! Owns: what is kept under which key, and what it counts against the bounds on bytes, open files and number. Guarantees:
//! no lock is held across a system call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entry::Entry;
use super::generations::{Generations, Key};

/// All shards.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Vec<Mutex<Generations<Arc<Entry>>>>,
    pub(super) bytes_max: u64,
    /// What an open file counts beside its bytes, so that the bound on bytes bounds descriptors as well.
    descriptor_cost: u64,
    /// What an entry counts at least, so that the bound on bytes bounds their number as well.
    entry_cost_min: u64,
}

/// The most shards. A small store has fewer: one that held less than a few of the largest entries would hold none.
const SHARDS_MAX: u64 = 16;
const SHARD_BYTES_MIN: u64 = 4 << 20;

/// How many shards a store of so many bytes has.
pub(super) fn count(bytes_max: u64) -> u64 {
    (bytes_max / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX)
}

impl Shards {
    /// Empty ones of together at most `bytes_max` bytes, `descriptors_max` open files and `entries_max` entries.
    pub(super) fn new(bytes_max: u64, descriptors_max: u64, entries_max: Option<usize>) -> Shards {
        let count = count(bytes_max);
        let shard = |_| Mutex::new(Generations::new(bytes_max / count));
        Shards {
            shards: (0..count).map(shard).collect(),
            bytes_max,
            descriptor_cost: bytes_max / descriptors_max.max(1),
            entry_cost_min: entries_max.map_or(0, |entries| bytes_max / entries.max(1) as u64),
        }
    }

    /// The entry of `key`, however old.
    pub(super) fn lookup(&self, key: Key<'_>) -> Option<Arc<Entry>> {
        self.shard(key).lookup(key).map(|entry| entry.clone())
    }

    /// Keeps `entry`.
    pub(super) fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        let cost = self.cost(&entry);
        self.shard(key).insert(key, entry, cost);
    }

    /// `entry` holds more than before: counts it anew, if it is still what is kept under `key`.
    pub(super) fn weigh_again(&self, key: Key<'_>, entry: &Arc<Entry>) {
        let cost = self.cost(entry);
        let mut shard = self.shard(key);
        if shard.lookup(key).is_some_and(|kept| Arc::ptr_eq(kept, entry)) {
            shard.insert(key, entry.clone(), cost);
        }
    }

    /// Lets go of everything.
    pub(super) fn clear(&self) {
        self.shards.iter().for_each(|shard| lock(shard).clear());
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).cost()).sum()
    }

    fn cost(&self, entry: &Entry) -> u64 {
        (entry.memory_bytes() + entry.descriptors() * self.descriptor_cost).max(self.entry_cost_min)
    }

    fn shard(&self, key: Key<'_>) -> MutexGuard<'_, Generations<Arc<Entry>>> {
        let sum = key.path.iter().fold(key.site, |sum, &byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        lock(&self.shards[sum as usize % self.shards.len()])
    }
}

/// A panic while a shard was locked cannot have left it half changed in a way that matters: it is only a cache.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
