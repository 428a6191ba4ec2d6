//! Least recently used: the victim is the object whose last use lies farthest back. The policy of Flash (5.4) and of
//! the PIPELINED paper's simulator.

use super::list::{Links, List};
use super::{ObjectId, Removal, Replacement, cover};

/// One list, most recently used in front.
pub struct Lru {
    links: Links,
    order: List,
    held: Vec<bool>,
}

impl Lru {
    /// Holds nothing.
    pub fn new() -> Self {
        Lru { links: Links::default(), order: List::new(), held: Vec::new() }
    }
}

impl Default for Lru {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for Lru {
    fn admit(&mut self, object: ObjectId, _size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        self.links.cover(object);
        cover(&mut self.held, object, false);
        self.held[object.index()] = true;
        self.order.push_front(&mut self.links, object);
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        self.order.move_to_front(&mut self.links, object);
    }

    fn victim(&mut self) -> Option<ObjectId> {
        self.order.back()
    }

    fn remove(&mut self, object: ObjectId, _removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        self.order.unlink(&mut self.links, object);
        self.held[object.index()] = false;
    }

    fn state_of(&self, object: ObjectId) -> *const u8 {
        self.links.state_of(object)
    }

    fn check_invariants(&self) {
        self.order.check_invariants(&self.links, |object| self.holds(object));
        assert_eq!(self.held.iter().filter(|held| **held).count(), self.len(), "an object that is held is in no list");
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.held.capacity()
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.held.get(object.index()).copied().unwrap_or(false)
    }
}
