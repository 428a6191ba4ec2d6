//! GreedyDual-Size with frequency: the victim is the object with the smallest `age + uses * cost / size`, where the age is
//! the key of the last victim (Cherkasova: "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
//! policy", HP Labs 1998; Cao and Irani, USITS 1997, for the ageing).
//!
//! The cost is 1 to have many requests answered from memory (small objects stay), and the object's size to have many
//! bytes answered from memory (which makes it LFU with ageing). Keys are fixed point, 1 / 2^24 of a use per byte: exact
//! comparisons, the same order on every machine. Departures: an object of 4 GiB or more counts as one of 4 GiB, and one that is
//! worth more than 128 uses a byte as one that is worth that.

use super::heap::Heap;
use super::{ObjectId, Objective, Removal, Replacement, bounded, cover};

/// Fractional bits of a key. An object of 16 MiB and one use is still worth one step.
const FRACTION_BITS: u32 = 24;

#[derive(Clone, Copy, Default)]
struct Object {
    uses: u32,
    /// At most so many.
    size_bytes: u32,
}

/// A heap by value per byte.
pub struct Gdsf {
    heap: Heap,
    objects: Vec<Object>,
    objective: Objective,
}

impl Gdsf {
    /// Holds nothing.
    pub fn new(objective: Objective) -> Self {
        Gdsf { heap: Heap::default(), objects: Vec::new(), objective }
    }

    fn place(&mut self, object: ObjectId) {
        let Object { uses, size_bytes } = self.objects[object.index()];
        let value = match self.objective {
            Objective::Requests => (u64::from(uses) << FRACTION_BITS) / u64::from(size_bytes.max(1)),
            Objective::Bytes => u64::from(uses),
        };
        self.heap.place(object, value);
    }
}

impl Replacement for Gdsf {
    fn admit(&mut self, object: ObjectId, size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        cover(&mut self.objects, object, Object::default());
        self.objects[object.index()] = Object { uses: 1, size_bytes: bounded(size_bytes) };
        self.place(object);
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        let uses = &mut self.objects[object.index()].uses;
        *uses = uses.saturating_add(1);
        self.place(object);
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
        let uses = &mut self.objects[object.index()].uses;
        *uses = uses.saturating_add(count);
        self.place(object);
    }

    fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        self.objects[object.index()].size_bytes = bounded(size_bytes);
        self.place(object);
    }

    fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes() + self.objects.capacity() * size_of::<Object>()
    }

    fn len(&self) -> usize {
        self.heap.len()
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.heap.holds(object)
    }
}
