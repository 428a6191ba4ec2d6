//! A worker's private local cache of the store: what it used lately, without a lock and without writing to a cache line
//! that others read.
//!
//! Owns: which entries this worker holds on to, until when it may use each without asking the store, and how often it
//! used each, which the store's policy is told when it is asked. Guarantees: a hit allocates nothing and takes no lock;
//! an entry whose files were disturbed is not handed out as fresh.
//!
//! Its entries are good for less than a second, so it holds only those that are asked for again soon. With a million
//! targets in use it would otherwise hold many that were asked for once, and push hot ones out of the processor's
//! cache.

use std::sync::Arc;

use super::entry::{Entry, Freshness};
use super::lookup::Lookup;
use super::store::Store;
use super::two_generation_map::{Generations, Key};

/// A worker's private local cache of the store.
#[derive(Debug)]
pub struct LocalCache {
    entries: Generations<Slot>,
    /// Which keys the store was asked for lately: a mark of each, at the place that its hash says, until another comes
    /// there.
    lately: Box<[u16]>,
    /// The entry that was handed out last without being kept.
    passing: Option<Arc<Entry>>,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    freshness: Freshness,
    /// Uses that the store has not been told of.
    uses: u32,
    /// Whether a refresh was asked for in this period.
    is_refreshing: bool,
}

/// The part of the store that all private caches together may hold on to, as a divisor. An entry that the store has
/// evicted meanwhile still counts.
const LOCAL_CACHE_SHARE: u64 = 4;
/// Keys that are noted lately: one for each so many bytes of the local cache. At most so many that what is held fits
/// into the second cache of a processor, and that one that is asked for seldom has been forgotten when it is asked for
/// again.
const BYTES_FOR_EACH_NOTED: u64 = 1024;
const NOTED_MAX: u64 = 4 * 1024;

impl LocalCache {
    /// An empty local cache of `store`.
    pub fn new(store: &Store) -> LocalCache {
        let bytes_max = store.front_bytes(LOCAL_CACHE_SHARE);
        let noted = (bytes_max / BYTES_FOR_EACH_NOTED).clamp(16, NOTED_MAX);
        LocalCache { entries: Generations::new(bytes_max), lately: vec![0; noted as usize].into(), passing: None }
    }

    /// Looks `key` up at `now_ms`, here and then in `store`.
    pub fn lookup(&mut self, store: &Store, key: Key<'_>, now_ms: u64) -> Lookup<'_> {
        self.passing = None;
        let uses = match self.entries.lookup(key) {
            Some(slot) if slot.freshness.until_ms > now_ms && !slot.entry.is_disturbed() => None,
            Some(slot) => Some(slot.uses),
            None => Some(0),
        };
        if let Some(uses) = uses
            && let Some(answer) = self.renew(store, key, now_ms, uses)
        {
            return answer;
        }
        if let Some(passing) = &self.passing {
            return Lookup::Fresh(passing);
        }
        let Some(slot) = self.entries.lookup(key) else { return Lookup::Unknown };
        slot.uses = slot.uses.saturating_add(1);
        if slot.freshness.refresh_at_ms <= now_ms && !slot.is_refreshing {
            slot.is_refreshing = true;
            return Lookup::Aging(&slot.entry);
        }
        Lookup::Fresh(&slot.entry)
    }

    /// The entry of `key` that a lookup at `now_ms` would find here without asking the store, unless it has been
    /// disturbed. Counts as no use.
    pub fn peek(&self, key: Key<'_>, now_ms: u64) -> Option<&Arc<Entry>> {
        let slot = self.entries.peek(key)?;
        (slot.freshness.until_ms > now_ms).then_some(&slot.entry)
    }

    /// The entry that the last lookup, which was of `key`, handed out as fresh.
    pub fn handed_out(&self, key: Key<'_>) -> Option<&Arc<Entry>> {
        self.passing.as_ref().or_else(|| self.entries.peek(key).map(|slot| &slot.entry))
    }

    /// Takes over what the store knows, which is told of the `uses` of what was here and of this one. Returns an answer
    /// if that is not fresh.
    fn renew(&mut self, store: &Store, key: Key<'_>, now_ms: u64, uses: u32) -> Option<Lookup<'static>> {
        let Some(entry) = store.lookup(key, uses + 1) else {
            self.entries.remove(key);
            return Some(Lookup::Unknown);
        };
        let Some(freshness) = entry.freshness(now_ms, store.awake_ms(), store.recheck_ms()) else {
            self.entries.remove(key);
            return Some(Lookup::Stale(entry));
        };
        // What was used here has a place. To what is about to be compared one is given, so that that is asked for once.
        let deserves_place = uses > 0 || freshness.refresh_at_ms <= now_ms || self.is_asked_for_again(key);
        // An open file is the store's alone, so that it is closed when the store lets go of it.
        if !deserves_place || entry.descriptors() > 0 {
            self.passing = Some(entry);
            return None;
        }
        let bytes_max = store.front_bytes(LOCAL_CACHE_SHARE);
        // Twice as many as keys are noted at most: others would be old before they are asked for again.
        let cost = entry.memory_bytes().max(bytes_max / self.lately.len() as u64 / 2);
        let slot = Slot { entry: entry.clone(), freshness, uses: 0, is_refreshing: false };
        self.entries.rebound(bytes_max);
        if !self.entries.insert(key, slot, cost) {
            self.passing = Some(entry);
        }
        None
    }

    /// Whether `key`, which has no place here, was asked for lately. Now it was.
    fn is_asked_for_again(&mut self, key: Key<'_>) -> bool {
        let hash = self.entries.hash(key);
        let place = hash as usize % self.lately.len();
        // Zero is where none has been noted.
        let mark = (hash >> 48) as u16 | 1;
        std::mem::replace(&mut self.lately[place], mark) == mark
    }

    /// Entries held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Has the next lookup of `key` ask the store, which is told then how often it was used here.
    pub fn expire(&mut self, key: Key<'_>) {
        if let Some(slot) = self.entries.lookup(key) {
            slot.freshness.until_ms = 0;
        }
    }
}
