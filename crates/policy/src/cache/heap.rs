//! A heap of objects by a value that ages, over dense identifiers: the object with the smallest `age + value` is on top,
//! where the age is what the last victim had. Of equals, the one that was placed longest ago.
//!
//! Guarantees: the order is that of unbounded numbers, as long as values stay within [`VALUE_MAX`]; 20 bytes an object at
//! most, because what a policy takes is not there for content. Four children each, so that a way through a million
//! objects is ten steps and the children that are compared lie in one cache line.

use super::{ObjectId, cover, grow};

const NONE: u32 = u32::MAX;
const CHILDREN: usize = 4;

/// The largest value told apart from larger ones. Twice that fits into 32 bits, so there is room for the age.
pub(super) const VALUE_MAX: u64 = 1 << 31;

/// The heap, and the age of what is in it.
#[derive(Default)]
pub(super) struct Heap {
    /// Age and value in the upper half, the instant of placing in the lower one.
    keys: Vec<u64>,
    /// Whose key it is, at the same place.
    objects: Vec<ObjectId>,
    /// Where each object is, or `NONE`.
    position: Vec<u32>,
    /// Of the last victim, less what was taken off by [`Heap::rebase`]. Below [`VALUE_MAX`].
    age: u64,
    /// Counts placings.
    instant: u32,
}

impl Heap {
    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u64>()
            + self.objects.capacity() * size_of::<ObjectId>()
            + self.position.capacity() * size_of::<u32>()
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn holds(&self, object: ObjectId) -> bool {
        self.position.get(object.index()).is_some_and(|&position| position != NONE)
    }

    /// The object that should go next.
    pub(super) fn top(&self) -> Option<ObjectId> {
        self.objects.first().copied()
    }

    /// Inserts `object`, or places it anew, with `value` from now on.
    pub(super) fn place(&mut self, object: ObjectId, value: u64) {
        if self.age >= VALUE_MAX || self.instant == u32::MAX {
            self.rebase();
        }
        self.instant += 1;
        let key = (self.age + value.min(VALUE_MAX)) << 32 | u64::from(self.instant);
        cover(&mut self.position, object, NONE);
        let position = match self.position[object.index()] {
            NONE => {
                grow(&mut self.keys);
                grow(&mut self.objects);
                self.keys.push(key);
                self.objects.push(object);
                self.keys.len() - 1
            }
            position => position as usize,
        };
        self.keys[position] = key;
        self.position[object.index()] = position as u32;
        self.settle(position);
    }

    /// `object`, which is held, had to go: its key is the age from now on, if it was on top.
    pub(super) fn evict(&mut self, object: ObjectId) {
        if self.top() == Some(object) {
            self.age = self.keys[0] >> 32;
        }
        self.remove(object);
    }

    /// `object`, which is held, is gone.
    pub(super) fn remove(&mut self, object: ObjectId) {
        let position = self.position[object.index()] as usize;
        self.position[object.index()] = NONE;
        self.keys.swap_remove(position);
        self.objects.swap_remove(position);
        if let Some(&moved) = self.objects.get(position) {
            self.position[moved.index()] = position as u32;
            self.settle(position);
        }
    }

    /// Takes the age off every key and counts instants from one again, in the same order. Once in thousands of turnovers of
    /// what is held.
    fn rebase(&mut self) {
        let mut order: Vec<(u64, ObjectId)> = self.keys.drain(..).zip(self.objects.drain(..)).collect();
        order.sort_unstable();
        for (rank, (key, object)) in (1u64..).zip(order) {
            // Nothing that is held is below the age: that was the least.
            let value = (key >> 32) - self.age;
            self.position[object.index()] = self.keys.len() as u32;
            self.keys.push(value << 32 | rank);
            self.objects.push(object);
        }
        self.age = 0;
        self.instant = self.keys.len() as u32;
    }

    fn settle(&mut self, position: usize) {
        let risen = self.rise(position);
        if risen == position {
            self.sink(position);
        }
    }

    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / CHILDREN;
            if self.keys[parent] <= self.keys[position] {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        position
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let first = CHILDREN * position + 1;
            let children = first..(first + CHILDREN).min(self.keys.len());
            let Some(least) = children.min_by_key(|&child| self.keys[child]) else { return };
            if self.keys[position] <= self.keys[least] {
                return;
            }
            self.swap(least, position);
            position = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.keys.swap(a, b);
        self.objects.swap(a, b);
        self.position[self.objects[a].index()] = a as u32;
        self.position[self.objects[b].index()] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_numbers_without_a_bound(
            operations in prop::collection::vec((0u32..20, 1..VALUE_MAX, 0u8..4), 0..300),
        ) {
            let mut heap = Heap::default();
            let mut plain: Vec<(u128, ObjectId)> = Vec::new();
            let mut age = 0;
            for (object, value, choice) in operations {
                let object = ObjectId(object);
                match choice {
                    0 if heap.holds(object) => {
                        heap.remove(object);
                        plain.retain(|(_, other)| *other != object);
                    }
                    1 => if let Some(top) = heap.top() {
                        heap.evict(top);
                        let least = plain.iter().position(|(_, other)| *other == top).unwrap();
                        age = plain.remove(least).0;
                    }
                    _ => {
                        // Now and then the instants run out.
                        heap.instant = if value % 5 == 0 { u32::MAX } else { heap.instant };
                        heap.place(object, value);
                        plain.retain(|(_, other)| *other != object);
                        plain.push((age + u128::from(value), object));
                    }
                }
                // The first of equals: they are in order of placing.
                let least = plain.iter().min_by_key(|(key, _)| *key).map(|(_, object)| *object);
                prop_assert_eq!(heap.top(), least);
                prop_assert_eq!(heap.len(), plain.len());
            }
        }
    }
}
