//! Hinted: GreedyDual-Size with frequency, and what is expected to be asked for next counts as if it had been asked for
//! more often (the hinted caching of the *JAWS framework*, 1998, 3.6; [`Gdsf`](super::Gdsf) for the rest).
//!
//! An expectation of probability `p` counts as `p *` [`EXPECTED_USES`] uses until the object is used. Like every value
//! it ages: what is expected and not asked for loses its place to what has been used since, and the expectation need
//! not be taken back. Without expectations the order is GDSF's, to the object.
//!
//! An object that is read ahead of its request enters with its expectation alone: it has not been used yet. It deserves
//! room if it would not be the next victim itself.
//!
//! The owner of a [`crate::hints::Table`] feeds it: it calls [`Replacement::expect`] for each likely successor of a
//! page that is asked for, held or not. The policy is not in [`super::Algorithm::ALL`] but in
//! [`super::Algorithm::OF_SERVERS`]: without predictions it is GDSF under another name, and traces have none.

use super::heap::Heap;
use super::{ObjectId, Objective, Removal, Replacement, bounded, cover};
use crate::hints::Probability;

/// Uses that a certain expectation counts as. Chosen on traces: docs/internals/caches.md.
pub const EXPECTED_USES: u64 = 1;

/// Fractional bits of a key, as in GDSF.
const FRACTION_BITS: u32 = 24;

/// The state of an object.
#[derive(Clone, Copy, Default)]
struct Object {
    uses: u32,
    /// At most so many.
    size_bytes: u32,
}

/// A heap by value per byte, and the expectations.
pub struct Hinted {
    heap: Heap<Object>,
    objective: Objective,
    expected_uses: u64,
    /// By object, held or not.
    expected: Vec<Probability>,
}

impl Hinted {
    /// Holds nothing.
    pub fn new(objective: Objective) -> Self {
        Hinted { heap: Heap::default(), objective, expected_uses: EXPECTED_USES, expected: Vec::new() }
    }

    /// The same, but a certain expectation counts as so many uses.
    pub fn with_expected_uses(mut self, uses: u64) -> Self {
        self.expected_uses = uses;
        self
    }

    fn expectation(&self, object: ObjectId) -> Probability {
        self.expected.get(object.index()).copied().unwrap_or_default()
    }

    fn value(&self, Object { uses, size_bytes }: Object, expected: Probability) -> u64 {
        let expected = u64::from(expected.thousandths()).saturating_mul(self.expected_uses);
        match self.objective {
            // Fewer than 32 bits of uses, ten of thousandths and 24 of the fraction.
            Objective::Requests => {
                let value = (u128::from(uses) * 1_000 + u128::from(expected)) << FRACTION_BITS;
                (value / 1_000 / u128::from(size_bytes.max(1))).try_into().unwrap_or(u64::MAX)
            }
            Objective::Bytes => u64::from(uses) + expected / 1_000,
        }
    }

    fn place(&mut self, object: ObjectId, note: Object) {
        let value = self.value(note, self.expectation(object));
        self.heap.place(object, value, note);
    }

    fn set_expected(&mut self, object: ObjectId, probability: Probability) {
        cover(&mut self.expected, object, Probability::default());
        self.expected[object.index()] = probability;
    }
}

impl Replacement for Hinted {
    fn admit(&mut self, object: ObjectId, size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        // An expected object has been read ahead; any other, for a request.
        let is_expected = self.expectation(object) > Probability::default();
        self.place(object, Object { uses: u32::from(!is_expected), size_bytes: bounded(size_bytes) });
    }

    fn hit(&mut self, object: ObjectId) {
        self.uses(object, 1);
    }

    fn uses(&mut self, object: ObjectId, count: u32) {
        debug_assert!(self.holds(object), "hit what is not held");
        let Object { uses, size_bytes } = self.heap.note(object);
        self.set_expected(object, Probability::default());
        self.place(object, Object { uses: uses.saturating_add(count), size_bytes });
    }

    fn expect(&mut self, object: ObjectId, probability: Probability) {
        self.set_expected(object, probability);
        if self.holds(object) {
            self.place(object, self.heap.note(object));
        }
    }

    fn deserves_room(&mut self, size_bytes: u64, probability: Probability) -> bool {
        let value = self.value(Object { uses: 0, size_bytes: bounded(size_bytes) }, probability);
        self.heap.would_outlast_top(value)
    }

    fn resize(&mut self, object: ObjectId, size_bytes: u64) {
        let note = self.heap.note(object);
        if note.size_bytes != bounded(size_bytes) {
            self.place(object, Object { size_bytes: bounded(size_bytes), ..note });
        }
    }

    fn forget(&mut self, object: ObjectId) {
        if let Some(expected) = self.expected.get_mut(object.index()) {
            *expected = Probability::default();
        }
    }

    fn victim(&mut self) -> Option<ObjectId> {
        self.heap.top()
    }

    fn remove(&mut self, object: ObjectId, removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        self.forget(object);
        match removal {
            Removal::Evicted => self.heap.evict(object),
            Removal::Withdrawn => self.heap.remove(object),
        }
    }

    fn state_of(&self, object: ObjectId) -> *const u8 {
        self.heap.state_of(object)
    }

    fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes() + self.expected.capacity() * size_of::<Probability>()
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
