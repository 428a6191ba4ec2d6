//! GreedyDual-Size with frequency: the victim is the object with the smallest `age + uses * cost / size`, where the age is
//! the key of the last victim (Cherkasova: "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching
//! policy", HP Labs 1998; Cao and Irani, USITS 1997, for the ageing).
//!
//! The cost is 1 to have many requests answered from memory (small objects stay), and the object's size to have many
//! bytes answered from memory (which makes it LFU with ageing). Keys are fixed point, 1 / 2^24 of a use per byte: exact
//! comparisons, the same order on every machine.

use super::heap::Heap;
use super::{ObjectId, Objective, Removal, Replacement, cover};

/// Fractional bits of a key. An object of 16 MiB and one use is still worth one step.
const FRACTION_BITS: u32 = 24;

#[derive(Clone, Copy, Default)]
struct Object {
    uses: u32,
    size_bytes: u64,
}

/// A heap by value per byte.
pub struct Gdsf {
    heap: Heap,
    objects: Vec<Object>,
    objective: Objective,
    /// The key of the last victim.
    age: u64,
    /// Counts notifications; breaks ties.
    instant: u64,
}

impl Gdsf {
    /// Holds nothing.
    pub fn new(objective: Objective) -> Self {
        Gdsf { heap: Heap::default(), objects: Vec::new(), objective, age: 0, instant: 0 }
    }

    fn place(&mut self, object: ObjectId) {
        self.instant += 1;
        let Object { uses, size_bytes } = self.objects[object.index()];
        let value = match self.objective {
            Objective::Requests => (u64::from(uses) << FRACTION_BITS) / size_bytes.max(1),
            Objective::Bytes => u64::from(uses),
        };
        self.heap.set(object, (self.age.saturating_add(value), self.instant));
    }
}

impl Replacement for Gdsf {
    fn admit(&mut self, object: ObjectId, size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        cover(&mut self.objects, object, Object::default());
        self.objects[object.index()] = Object { uses: 1, size_bytes };
        self.place(object);
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        let uses = &mut self.objects[object.index()].uses;
        *uses = uses.saturating_add(1);
        self.place(object);
    }

    fn victim(&mut self) -> Option<ObjectId> {
        self.heap.top().map(|(_, object)| object)
    }

    fn remove(&mut self, object: ObjectId, removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        if let (Removal::Evicted, Some(((key, _), top))) = (removal, self.heap.top())
            && top == object
        {
            self.age = key;
        }
        self.heap.remove(object);
    }

    fn uses(&mut self, object: ObjectId, count: u32) {
        let uses = &mut self.objects[object.index()].uses;
        *uses = uses.saturating_add(count);
        self.place(object);
    }

    fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        self.objects[object.index()].size_bytes = size_bytes;
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
