//! Invariants of a shard, between any two of its operations.
//!
//! Owns: [`Shard::check_invariants`], and when a server with assertions calls it. Guarantees: costs nothing in a build
//! without assertions, and a bounded time for each change in one with them; changes nothing.

use std::sync::Arc;

use lamna_policy::cache::ObjectId;
use lamna_sys::metrics::memory_accounting::allocated;

use super::{Shard, Slot};
use crate::cache::entry::Entry;

/// A look at all numbers comes after one change for each so many of them.
const NUMBERS_PER_CHANGE: usize = 4;

impl Shard {
    /// Something has changed: checks that all agrees, in a build with assertions, as soon as that is little work for
    /// each change since the last time.
    pub(super) fn check_now_and_then(&mut self) {
        if cfg!(debug_assertions) {
            self.unchecked += 1;
            if self.unchecked * NUMBERS_PER_CHANGE > self.slots.len() {
                self.unchecked = 0;
                self.check_invariants();
            }
        }
    }

    /// Asserts that each number stands for an entry that is kept, for a key that is remembered, or is free; that the
    /// index finds those and no others; and that the sums are those of the entries. The work is linear in the numbers.
    ///
    /// # Panics
    /// If they do not.
    pub(in crate::cache) fn check_invariants(&self) {
        let (mut kept, mut name_bytes) = (0, 0);
        for (id, slot) in (0..).zip(&self.slots) {
            let Slot::Entry(name, _) = slot else {
                assert!(!self.books.holds(ObjectId(id)), "number {id} is held, and there is nothing");
                continue;
            };
            kept += 1;
            name_bytes += allocated(name.len());
            assert!(self.books.holds(ObjectId(id)), "number {id} is kept, and not counted");
            let found = self.index.find(slot.hash(&self.hasher), |other| other == id);
            assert_eq!(found, Some(id), "number {id} is kept, and not found");
        }
        let is_remembered = |(id, turn): &&(u32, u32)| {
            let slot = &self.slots[*id as usize];
            matches!(slot, Slot::Nothing { turn: last, hash } if last == turn && {
                let found = self.index.find(*hash, |other| other == *id);
                assert_eq!(found, Some(*id), "number {id} is remembered, and not found");
                true
            })
        };
        let remembered = self.remembered.iter().filter(is_remembered).count();
        let (all, free) = (self.slots.len(), self.free.len());
        assert_eq!(kept + remembered + free, all, "{kept} are kept, {remembered} remembered and {free} free");
        assert_eq!(self.index.len(), kept + remembered, "the index has other numbers");
        assert_eq!(self.books.len(), kept, "other entries are counted than are kept");
        assert_eq!(self.name_bytes, name_bytes, "the count of bytes is not that of the names");
        self.books.check_invariants();
    }

    /// The entries that are kept, one for each target.
    pub(in crate::cache) fn kept(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.slots.iter().filter_map(Slot::entry)
    }
}
