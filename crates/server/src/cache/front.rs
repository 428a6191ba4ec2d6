//! A worker's private front of the store: what it used lately, without a lock and without writing to a cache line that
//! others read.
//!
//! Owns: which entries this worker holds on to, until when it may use each without asking the store, and how often it used
//! each, which the store's policy is told when it is asked. Guarantees: a hit allocates nothing and takes no lock; an entry
//! whose files were disturbed is not handed out as fresh.

use std::sync::Arc;

use super::Lookup;
use super::entry::{Entry, Freshness};
use super::generations::{Generations, Key};
use super::store::Store;

/// A worker's private front of the store.
#[derive(Debug)]
pub struct Front {
    entries: Generations<Slot>,
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

/// What part of the store all fronts together may hold on to. What the store lets go of meanwhile is counted by it.
const FRONT_SHARE: u64 = 4;

impl Front {
    /// An empty front of `store`.
    pub fn new(store: &Store) -> Front {
        Front { entries: Generations::new(store.front_bytes(FRONT_SHARE)), passing: None }
    }

    /// What is known about `key` at `now_ms`, from here or from `store`.
    pub fn lookup(&mut self, store: &Store, key: Key<'_>, now_ms: u64) -> Lookup<'_> {
        self.passing = None;
        let (usable, uses) = match self.entries.lookup(key) {
            Some(slot) if slot.freshness.until_ms > now_ms && !slot.entry.is_disturbed() => (true, 0),
            Some(slot) => (false, slot.uses),
            None => (false, 0),
        };
        if !usable && let Some(answer) = self.renew(store, key, now_ms, uses + 1) {
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

    /// Takes over what the store knows, which is told of `uses` uses. Returns an answer if that is not fresh.
    fn renew(&mut self, store: &Store, key: Key<'_>, now_ms: u64, uses: u32) -> Option<Lookup<'static>> {
        let Some(entry) = store.lookup(key, uses) else {
            self.entries.remove(key);
            return Some(Lookup::Unknown);
        };
        let Some(freshness) = entry.freshness(now_ms, store.awake_ms()) else {
            self.entries.remove(key);
            return Some(Lookup::Stale(entry));
        };
        if entry.descriptors() > 0 {
            // An open file is the store's alone, so that it is closed when the store lets go of it.
            self.passing = Some(entry);
            return None;
        }
        let cost = entry.memory_bytes();
        let slot = Slot { entry: entry.clone(), freshness, uses: 0, is_refreshing: false };
        self.entries.rebound(store.front_bytes(FRONT_SHARE));
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
