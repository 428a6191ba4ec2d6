//! Least frequently used, with dynamic ageing. The victim is the object with the smallest `uses + age`. The age of the
//! cache is the key of its last victim (Arlitt, Cherkasova, Dilley, Friedrich, Jin: "Evaluating content management
//! techniques for web proxy caches", 1999; there it is LFU-DA with unit cost). New objects start at the age, so objects
//! that were popular long ago leave in the end. Objects with equal keys leave in order of last use.

use super::heap::Heap;
use super::{ObjectId, Removal, Replacement};

/// Key: the number of uses, and the age when the object was last used.
#[derive(Default)]
pub struct Lfu {
    /// With the uses of each.
    heap: Heap<u32>,
}

impl Lfu {
    /// Holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    fn place(&mut self, object: ObjectId, uses: u32) {
        self.heap.place(object, uses.into(), uses);
    }
}

impl Replacement for Lfu {
    fn admit(&mut self, object: ObjectId, _size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        self.place(object, 1);
    }

    fn hit(&mut self, object: ObjectId) {
        self.uses(object, 1);
    }

    fn victim(&mut self) -> Option<ObjectId> {
        self.heap.top()
    }

    fn remove(&mut self, object: ObjectId, removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        match removal {
            Removal::Evicted => self.heap.evict(object),
            Removal::Withdrawn => self.heap.remove(object),
        }
    }

    fn uses(&mut self, object: ObjectId, count: u32) {
        debug_assert!(self.holds(object), "hit what is not held");
        self.place(object, self.heap.note(object).saturating_add(count));
    }

    fn state_of(&self, object: ObjectId) -> *const u8 {
        self.heap.state_of(object)
    }

    fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes()
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn check_invariants(&self) {
        self.heap.check_invariants();
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.heap.holds(object)
    }
}
