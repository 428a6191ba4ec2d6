//! A worker's private front of the store: what it used lately, without a lock and without a shared cache line but the
//! entries themselves.
//!
//! Owns: which entries this worker holds on to, and until when it may use each without asking. Guarantees: a hit
//! allocates nothing and writes nothing that others read.

use std::sync::Arc;

use super::entry::Entry;
use super::generations::{Generations, Key};
use super::store::Store;
use super::{FRESH_MS, Lookup, REFRESH_MS};

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
        Front { entries: Generations::new(store.bytes_max() / FRONT_SHARE), passing: None }
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
