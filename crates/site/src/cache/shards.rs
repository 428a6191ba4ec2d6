//! The entries of all workers of a process, in shards of their own locks.
//!
//! Owns: what counts against the bounds on bytes, open files and number. Guarantees: no lock is held across a system
//! call; what the entries and these structures take in memory, entries included that others still hold on to, stays
//! within the bound but for what one entry takes.

use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, PoisonError};

use hashbrown::DefaultHashBuilder;
use lamna_config::cache_policy::Policy;
use lamna_policy::hints::{PrecacheCounts, Probability};
use lamna_proto::limits::HELD_SHARE_MAX;
use lamna_sys::prefetch::Ahead;

use super::entry::Entry;
use super::memory_accounting::{MemoryAccount, Reservation};
use super::shard::{Depth, Shard};
use super::sync::{AtomicU64, Mutex, MutexGuard, Relaxed};
use super::two_generation_map::Key;
use crate::cache::Replacing;

/// All shards.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Vec<Mutex<Shard>>,
    memory_account: Arc<MemoryAccount>,
    replacing: Mutex<Replacing>,
    /// Entries held.
    entries: AtomicU64,
    pub(super) bytes_max: u64,
    /// Cost of an open file in addition to its bytes, so that the bound on bytes bounds descriptors as well.
    descriptor_cost: u64,
    /// Lowest cost of an entry, so that the bound on bytes bounds their number as well.
    entry_cost_min: u64,
    /// Keyed, so that no client can choose names that all fall into one shard.
    hasher: DefaultHashBuilder,
}

/// The shard in which a key is looked up, and the hash of the key there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShardHash {
    shard: usize,
    hash: u32,
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
    pub(super) fn new(
        bytes_max: u64,
        descriptors_max: u64,
        entries_max: Option<usize>,
        replacing: Replacing,
    ) -> Shards {
        let count = count(bytes_max);
        Shards {
            shards: (0..count).map(|_| Mutex::new(Shard::new(bytes_max / count, &replacing))).collect(),
            memory_account: Arc::default(),
            replacing: Mutex::new(replacing),
            entries: AtomicU64::new(0),
            bytes_max,
            descriptor_cost: bytes_max / descriptors_max.max(1),
            entry_cost_min: entries_max.map_or(0, |entries| bytes_max / entries.max(1) as u64),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// The account of their memory.
    pub(super) fn memory_account(&self) -> Arc<MemoryAccount> {
        self.memory_account.clone()
    }

    /// The entry of `key`, however old, which was used `uses` times since it was last asked for.
    pub(super) fn lookup(&self, key: Key<'_>, uses: u32) -> Option<Arc<Entry>> {
        self.shard(key).lookup(key, uses).cloned()
    }

    /// Whether something was found under `key` not long ago that is not kept.
    pub(super) fn remembers(&self, key: Key<'_>) -> bool {
        self.shard(key).remembers(key)
    }

    /// `key` will be asked for soon with this probability. Whether it is held.
    pub(super) fn expect(&self, key: Key<'_>, probability: Probability) -> bool {
        self.shard(key).expect(key, probability)
    }

    /// Sets the budget for reading ahead: see [`Shard::set_precache`].
    pub(super) fn set_precache(&self, precache: Option<(u16, Probability)>) {
        self.shards.iter().for_each(|shard| lock(shard).set_precache(precache));
    }

    /// Whether `key` may be read ahead.
    pub(super) fn allows_ahead(&self, key: Key<'_>, probability: Probability) -> bool {
        self.shard(key).allows_ahead(probability)
    }

    /// Keeps `entry`, which was read ahead, if it deserves room. Whether it is kept.
    pub(super) fn insert_ahead(&self, key: Key<'_>, entry: Arc<Entry>, probability: Probability) -> bool {
        let cost = self.cost(&entry);
        let mut is_kept = false;
        entry.keep(&self.memory_account);
        self.change(key, |shard, gone| is_kept = shard.insert_ahead(key, (entry, cost), probability, gone));
        is_kept
    }

    /// Whether `key` was read ahead and has not been asked for since.
    pub(super) fn is_ahead(&self, key: Key<'_>) -> bool {
        self.shard(key).is_ahead(key)
    }

    /// Counts of entries read ahead, over all shards.
    pub(super) fn precache_counts(&self) -> PrecacheCounts {
        let add = |sum: PrecacheCounts, one: PrecacheCounts| PrecacheCounts {
            needed: sum.needed + one.needed,
            begun: sum.begun + one.begun,
            used: sum.used + one.used,
            wasted: sum.wasted + one.wasted,
            evicted: sum.evicted + one.evicted,
            evicted_again: sum.evicted_again + one.evicted_again,
        };
        self.shards.iter().map(|shard| lock(shard).precache_counts()).fold(PrecacheCounts::default(), add)
    }

    /// The shard of `key`, and what a lookup reads there first.
    pub(super) fn shard_hash(&self, key: Key<'_>, ahead: &mut Ahead) -> ShardHash {
        let number = self.shard_of(key);
        let shard = lock(&self.shards[number]);
        let hash = shard.hash(key);
        shard.prefetch(hash, Depth::Bucket, ahead);
        ShardHash { shard: number, hash }
    }

    /// Says what a lookup reads there at `depth`. See [`Shard::prefetch`].
    pub(super) fn prefetch(&self, shard_hash: ShardHash, depth: Depth, ahead: &mut Ahead) {
        lock(&self.shards[shard_hash.shard]).prefetch(shard_hash.hash, depth, ahead);
    }

    /// Keeps `entry`, if the policy finds it worth it.
    pub(super) fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        entry.keep(&self.memory_account);
        let cost = self.cost(&entry);
        self.change(key, |shard, gone| shard.insert(key, entry, cost, gone));
    }

    /// Removes the entry under `key`. Later lookups do not find it.
    pub(super) fn remove(&self, key: Key<'_>) {
        self.let_go(key, |shard, gone| shard.remove(key, gone));
    }

    /// The same of everything of which `is_meant` holds. How much that was.
    pub(super) fn remove_where(&self, is_meant: &dyn Fn(Key<'_>, &Entry) -> bool) -> usize {
        let mut count = 0;
        for shard in &self.shards {
            count += self.let_go_in(lock(shard), |shard, gone| shard.remove_where(is_meant, gone));
        }
        count
    }

    fn let_go(&self, key: Key<'_>, act: impl FnOnce(&mut Shard, &mut Vec<Arc<Entry>>)) {
        self.let_go_in(self.shard(key), act);
    }

    fn let_go_in(&self, mut shard: MutexGuard<'_, Shard>, act: impl FnOnce(&mut Shard, &mut Vec<Arc<Entry>>)) -> usize {
        let mut gone = Vec::new();
        act(&mut shard, &mut gone);
        self.entries.fetch_sub(gone.len() as u64, Relaxed);
        drop(shard);
        for entry in &gone {
            entry.retire();
            entry.release();
        }
        gone.len()
    }

    /// Counts what `entry` holds, though it is not kept, for as long as anybody holds anything of it.
    pub(super) fn count(&self, entry: &Entry) {
        entry.count(&self.memory_account);
    }

    /// Whether others hold so much that there is no room left for more that the store does not hold.
    pub(super) fn is_over_budget(&self) -> bool {
        let (numerator, denominator) = HELD_SHARE_MAX;
        self.memory_account.lingering_bytes() > self.bytes_max / denominator * numerator
    }

    /// Recomputes the cost of `entry`, which holds more than before, if it is still the one under `key`.
    pub(super) fn weigh_again(&self, key: Key<'_>, entry: &Arc<Entry>) {
        let cost = self.cost(entry);
        self.change(key, |shard, gone| shard.weigh_again(key, entry, cost, gone));
    }

    /// Goes over to another policy with everything that is kept.
    pub(super) fn change_policy(&self, policy: Policy) {
        let mut replacing = lock(&self.replacing);
        replacing.set(policy);
        self.shards.iter().for_each(|shard| lock(shard).change_policy(&replacing));
    }

    /// Lets go of everything.
    pub(super) fn clear(&self) {
        let replacing = lock(&self.replacing).clone();
        for shard in &self.shards {
            let mut gone = Vec::new();
            let mut shard = lock(shard);
            shard.clear(&replacing, &mut gone);
            self.entries.fetch_sub(gone.len() as u64, Relaxed);
            drop(shard);
            gone.iter().for_each(|entry| entry.release());
        }
    }

    /// Bytes of memory of all entries that are alive, kept here or not, and of the store's structures.
    pub(super) fn bytes(&self) -> u64 {
        self.memory_account.alive_bytes() + self.shards.iter().map(|shard| lock(shard).structure_bytes()).sum::<u64>()
    }

    /// Room for `bytes` bytes, if no more than one part in `share` of the store is lent then.
    pub(super) fn lend(&self, bytes: u64, share: u64) -> Option<Reservation> {
        self.memory_account.lend(bytes, self.bytes_max / share)
    }

    /// Bytes of entries that others hold on to.
    #[cfg(test)]
    #[allow(dead_code, reason = "the model asks")]
    pub(super) fn lingering_bytes(&self) -> u64 {
        self.memory_account.lingering_bytes()
    }

    /// Entries held.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Entries held, without a lock: the number at the last count.
    pub(super) fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    /// Looks at each shard.
    pub(super) fn for_each(&self, mut look: impl FnMut(&Shard)) {
        self.shards.iter().for_each(|shard| look(&lock(shard)));
    }

    /// Changes the shard of `key`, and holds it to its bound.
    fn change(&self, key: Key<'_>, act: impl FnOnce(&mut Shard, &mut Vec<Arc<Entry>>)) {
        let share =
            (self.bytes_max - self.memory_account.lingering_bytes().min(self.bytes_max)) / self.shards.len() as u64;
        let mut gone = Vec::new();
        let mut shard = self.shard(key);
        let before = shard.len();
        act(&mut shard, &mut gone);
        let own = shard.structure_bytes();
        shard.rebound(share.saturating_sub(own), &mut gone);
        if shard.len() != before {
            // Under the lock, so that no removal is counted before its insertion. Modulo 2^64, as the change may be
            // negative.
            self.entries.fetch_add((shard.len() as u64).wrapping_sub(before as u64), Relaxed);
        }
        drop(shard);
        gone.iter().for_each(|entry| entry.release());
    }

    fn cost(&self, entry: &Entry) -> u64 {
        (entry.memory_bytes() + entry.descriptors() * self.descriptor_cost).max(self.entry_cost_min)
    }

    fn shard(&self, key: Key<'_>) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_of(key)])
    }

    fn shard_of(&self, key: Key<'_>) -> usize {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(key.site);
        hasher.write(key.path);
        hasher.finish() as u32 as usize % self.shards.len()
    }
}

/// A panic while a shard was locked cannot have left it half changed in a way that matters: it is only a cache.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
