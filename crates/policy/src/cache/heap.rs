//! A heap of objects by a value that ages, over dense identifiers. The object with the smallest `age + value` is on
//! top. The age is that of the last victim. Of equal objects the one that was placed longest ago is on top.
//!
//! A use places an object higher than it was. This writes to the object's own node and nowhere else. The heap is
//! ordered by keys that the objects had at some time, each at most the key that the object has now. An object that
//! comes to the top with an old key gets its present key and sinks. This is repeated until the object on top has its
//! present key: then no other can have a smaller one. So a hit touches one cache line instead of several on each level,
//! and an object that is used often is moved once for many uses.
//!
//! Guarantees: the order is that of unbounded numbers as long as values stay within [`VALUE_MAX`]. It takes at most 24
//! bytes for each object beside what the policy notes, because content cannot have what a policy takes. A node has four
//! children: a path through a million objects has ten steps, and the children that are compared lie in one cache line.

use super::{ObjectId, address_of, cover, grow};

const NONE: u32 = u32::MAX;
const CHILDREN: usize = 4;

/// If more than one part in this many of the objects is unmoved, all are ordered anew.
const UNMOVED_SHARE: usize = 2;

/// The largest value told apart from larger ones. Twice that fits into 32 bits, so there is room for the age.
pub(super) const VALUE_MAX: u64 = 1 << 31;

/// The heap, the age of what is in it, and a `Note` of the policy about each object.
pub(super) struct Heap<Note> {
    /// At each place a key that the object there has or had: age and value in the upper half, the instant of placing in
    /// the lower one.
    keys: Vec<u64>,
    /// Whose key it is, at the same place.
    objects: Vec<ObjectId>,
    /// By identifier.
    nodes: Vec<Node<Note>>,
    /// The age of the last victim, less the part taken off by [`Heap::rebase`]. Below [`VALUE_MAX`].
    age: u64,
    /// Counts placings.
    instant: u32,
    /// Placings since the top was last asked for that moved nothing.
    unmoved: usize,
}

/// The state of an object. It has 32-bit parts, so that as many nodes as possible share a cache line.
#[derive(Clone, Copy, Default)]
struct Node<Note> {
    /// Age and value when it was placed.
    sum: u32,
    /// When that was.
    instant: u32,
    /// Where in the heap it is, or `NONE`.
    position: u32,
    note: Note,
}

impl<Note> Node<Note> {
    fn key(&self) -> u64 {
        u64::from(self.sum) << 32 | u64::from(self.instant)
    }
}

impl<Note: Copy + Default> Default for Heap<Note> {
    fn default() -> Self {
        Heap { keys: Vec::new(), objects: Vec::new(), nodes: Vec::new(), age: 0, instant: 0, unmoved: 0 }
    }
}

impl<Note: Copy + Default> Heap<Note> {
    pub(super) fn memory_bytes(&self) -> usize {
        self.keys.capacity() * size_of::<u64>()
            + self.objects.capacity() * size_of::<ObjectId>()
            + self.nodes.capacity() * size_of::<Node<Note>>()
    }

    /// Where what is noted of `object` is in memory.
    pub(super) fn state_of(&self, object: ObjectId) -> *const u8 {
        address_of(&self.nodes, object)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Asserts that each object is where its node says, with a key that is not above its own, and none below another.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.keys.len(), self.objects.len(), "there are keys of nothing");
        for (position, (key, object)) in self.keys.iter().zip(&self.objects).enumerate() {
            let node = &self.nodes[object.index()];
            assert_eq!(node.position as usize, position, "{object:?} is not where its node says");
            assert!(*key <= node.key(), "the key of {object:?} is above its own");
            let parent = position.saturating_sub(1) / CHILDREN;
            assert!(self.keys[parent] <= *key, "{object:?} stands below one that goes later");
        }
        let held = self.nodes.iter().filter(|node| node.position != NONE).count();
        assert_eq!(held, self.objects.len(), "an object that is held is nowhere");
    }

    pub(super) fn holds(&self, object: ObjectId) -> bool {
        self.nodes.get(object.index()).is_some_and(|node| node.position != NONE)
    }

    /// The policy's note on `object`, which is held.
    pub(super) fn note(&self, object: ObjectId) -> Note {
        self.nodes[object.index()].note
    }

    /// The object that should go next.
    pub(super) fn top(&mut self) -> Option<ObjectId> {
        if std::mem::take(&mut self.unmoved) > self.keys.len() / UNMOVED_SHARE {
            self.rebuild();
        }
        // Ends: each turn gives one object its own key for an old one.
        loop {
            let object = *self.objects.first()?;
            let key = self.nodes[object.index()].key();
            if self.keys[0] == key {
                return Some(object);
            }
            self.keys[0] = key;
            self.sink(0);
        }
    }

    /// Whether an object of this value, placed now, would stay longer than the one that should go next. Nothing is
    /// there: yes.
    pub(super) fn would_outlast_top(&mut self, value: u64) -> bool {
        let sum = self.age + value.min(VALUE_MAX);
        // Of equals, the one that was placed longest ago goes: not this one.
        self.top().is_none_or(|top| sum >= self.nodes[top.index()].sum.into())
    }

    /// Inserts `object`, or places it anew, with `value` and `note` from now on.
    pub(super) fn place(&mut self, object: ObjectId, value: u64, note: Note) {
        if self.age >= VALUE_MAX || self.instant == u32::MAX {
            self.rebase();
        }
        self.instant += 1;
        // At most 32 bits, because of `VALUE_MAX`.
        let sum = (self.age + value.min(VALUE_MAX)) as u32;
        cover(&mut self.nodes, object, Node { position: NONE, ..Node::default() });
        let node = &mut self.nodes[object.index()];
        let had = std::mem::replace(node, Node { sum, instant: self.instant, note, ..*node });
        let key = node.key();
        match had.position {
            NONE => {
                node.position = self.keys.len() as u32;
                grow(&mut self.keys);
                grow(&mut self.objects);
                self.keys.push(key);
                self.objects.push(object);
                self.rise(self.keys.len() - 1);
            }
            // Lower than it was: only where it is may be too high.
            position if key < had.key() => {
                let place = &mut self.keys[position as usize];
                *place = key.min(*place);
                self.rise(position as usize);
            }
            _ => self.unmoved += 1,
        }
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
        let position = std::mem::replace(&mut self.nodes[object.index()].position, NONE) as usize;
        self.keys.swap_remove(position);
        self.objects.swap_remove(position);
        if let Some(&moved) = self.objects.get(position) {
            self.nodes[moved.index()].position = position as u32;
            self.settle(position);
        }
    }

    /// Takes the age off every key and counts instants from one again, in the same order. Once in thousands of
    /// turnovers of what is held.
    fn rebase(&mut self) {
        let mut order: Vec<(u64, ObjectId)> =
            self.objects.drain(..).map(|object| (self.nodes[object.index()].key(), object)).collect();
        order.sort_unstable();
        self.keys.clear();
        for (rank, (key, object)) in (1u32..).zip(order) {
            let node = &mut self.nodes[object.index()];
            // Nothing that is held is below the age: that was the least.
            node.sum = (key >> 32) as u32 - self.age as u32;
            node.instant = rank;
            node.position = self.keys.len() as u32;
            self.keys.push(node.key());
            self.objects.push(object);
        }
        self.age = 0;
        self.instant = self.keys.len() as u32;
    }

    /// Gives every object its own key and orders them, in a time that grows with their number only: for the first one
    /// that has to go after all were used while there was room. One by one they would take thirty times as long.
    fn rebuild(&mut self) {
        for (key, object) in self.keys.iter_mut().zip(&self.objects) {
            *key = self.nodes[object.index()].key();
        }
        (0..self.keys.len().div_ceil(CHILDREN)).rev().for_each(|position| self.sink(position));
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
        self.nodes[self.objects[a].index()].position = a as u32;
        self.nodes[self.objects[b].index()].position = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_numbers_without_a_bound(
            operations in prop::collection::vec((0u32..20, 1..VALUE_MAX, 0u8..20), 0..300),
        ) {
            let mut heap = Heap::<()>::default();
            let mut plain: Vec<(u128, ObjectId)> = Vec::new();
            let mut age = 0;
            for (object, value, choice) in operations {
                let object = ObjectId(object);
                match choice {
                    0 if heap.holds(object) => {
                        heap.remove(object);
                        plain.retain(|(_, other)| *other != object);
                    }
                    // Seldom, so that many are placed meanwhile and all are ordered anew. The first of equals: they are
                    // in order of placing.
                    1 | 2 => {
                        let least = plain.iter().min_by_key(|(key, _)| *key).copied();
                        prop_assert_eq!(heap.top(), least.map(|(_, object)| object));
                        if let Some((key, top)) = least {
                            heap.evict(top);
                            plain.retain(|(_, other)| *other != top);
                            age = key;
                        }
                    }
                    _ => {
                        // Now and then the instants run out.
                        heap.instant = if value % 5 == 0 { u32::MAX } else { heap.instant };
                        heap.place(object, value, ());
                        plain.retain(|(_, other)| *other != object);
                        plain.push((age + u128::from(value), object));
                    }
                }
                prop_assert_eq!(heap.len(), plain.len());
            }
            plain.sort_by_key(|(key, _)| *key);
            for (_, object) in plain {
                prop_assert_eq!(heap.top(), Some(object));
                heap.remove(object);
            }
        }
    }
}
