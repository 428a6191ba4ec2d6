//! GreedyDual-Size with frequency. The victim is the object with the smallest `age + uses * cost / size`. The age is
//! the key of the last victim (Cherkasova: "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
//! policy", HP Labs 1998; Cao and Irani, USITS 1997, for the ageing).
//!
//! The cost is 1 if as many requests as possible are to be answered from memory: then small objects stay. It is the
//! object's size if as many bytes as possible are: that is LFU with ageing. Keys are fixed point numbers in units of 1
//! / 2^24 of a use per byte. So comparisons are exact, and the order is the same on every machine.
//!
//! Departures: an object of 4 GiB or more counts as one of 4 GiB. An object that is worth more than 128 uses per byte
//! counts as one that is worth 128.

use super::heap::Heap;
use super::{ObjectId, Objective, Removal, Replacement, bounded};

/// Fractional bits of a key. An object of 16 MiB and one use is still worth one step.
const FRACTION_BITS: u32 = 24;

/// The state of an object.
#[derive(Clone, Copy, Default)]
struct Object {
    uses: u32,
    /// At most so many.
    size_bytes: u32,
}

/// A heap by value per byte.
pub struct Gdsf {
    heap: Heap<Object>,
    objective: Objective,
}

impl Gdsf {
    /// Holds nothing.
    pub fn new(objective: Objective) -> Self {
        Gdsf { heap: Heap::default(), objective }
    }

    fn place(&mut self, object: ObjectId, note: Object) {
        let Object { uses, size_bytes } = note;
        let value = match self.objective {
            Objective::Requests => (u64::from(uses) << FRACTION_BITS) / u64::from(size_bytes.max(1)),
            Objective::Bytes => u64::from(uses),
        };
        self.heap.place(object, value, note);
    }
}

impl Replacement for Gdsf {
    fn admit(&mut self, object: ObjectId, size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        self.place(object, Object { uses: 1, size_bytes: bounded(size_bytes) });
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
        let Object { uses, size_bytes } = self.heap.note(object);
        self.place(object, Object { uses: uses.saturating_add(count), size_bytes });
    }

    fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        let note = self.heap.note(object);
        if note.size_bytes != bounded(size_bytes) {
            self.place(object, Object { size_bytes: bounded(size_bytes), ..note });
        }
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
