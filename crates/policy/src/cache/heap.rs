//! A binary heap of objects ordered by a key that can change, over dense identifiers. The smallest key is on top.

use super::{ObjectId, cover};

const NONE: u32 = u32::MAX;

/// Priority first, then the instant of the last use, so that equals leave in order of recency.
pub(super) type Key = (u64, u64);

#[derive(Default)]
pub(super) struct Heap {
    /// Keys beside the objects: a comparison touches one cache line.
    entries: Vec<(Key, ObjectId)>,
    /// Where each object is in `entries`, or `NONE`.
    position: Vec<u32>,
}

impl Heap {
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<(Key, ObjectId)>() + self.position.capacity() * size_of::<u32>()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn holds(&self, object: ObjectId) -> bool {
        self.position.get(object.index()).is_some_and(|&position| position != NONE)
    }

    pub(super) fn top(&self) -> Option<(Key, ObjectId)> {
        self.entries.first().copied()
    }

    /// Inserts `object`, or changes its key.
    pub(super) fn set(&mut self, object: ObjectId, key: Key) {
        cover(&mut self.position, object, NONE);
        let position = match self.position[object.index()] {
            NONE => {
                self.entries.push((key, object));
                self.entries.len() - 1
            }
            position => position as usize,
        };
        self.entries[position] = (key, object);
        self.position[object.index()] = position as u32;
        self.settle(position);
    }

    /// `object` is held.
    pub(super) fn remove(&mut self, object: ObjectId) {
        let position = self.position[object.index()] as usize;
        self.position[object.index()] = NONE;
        self.entries.swap_remove(position);
        if let Some(&(_, moved)) = self.entries.get(position) {
            self.position[moved.index()] = position as u32;
            self.settle(position);
        }
    }

    fn settle(&mut self, position: usize) {
        let risen = self.rise(position);
        if risen == position {
            self.sink(position);
        }
    }

    fn rise(&mut self, mut position: usize) -> usize {
        while position > 0 {
            let parent = (position - 1) / 2;
            if self.entries[parent].0 <= self.entries[position].0 {
                break;
            }
            self.swap(parent, position);
            position = parent;
        }
        position
    }

    fn sink(&mut self, mut position: usize) {
        loop {
            let (left, right) = (2 * position + 1, 2 * position + 2);
            let mut least = position;
            for child in [left, right] {
                if child < self.entries.len() && self.entries[child].0 < self.entries[least].0 {
                    least = child;
                }
            }
            if least == position {
                return;
            }
            self.swap(least, position);
            position = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.entries.swap(a, b);
        self.position[self.entries[a].1.index()] = a as u32;
        self.position[self.entries[b].1.index()] = b as u32;
    }
}
