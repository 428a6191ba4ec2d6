//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is simpler than LRU", NSDI 2024, algorithm 1).
//!
//! There is one queue in order of arrival, one bit for each object, and a hand that moves from old to new. A use sets
//! the bit. The hand clears set bits and stops at the first clear one: that object is the victim. The hand stays there.
//! So an object that survived is not looked at again until the hand has been round.

use super::list::{Links, List};
use super::{ObjectId, Removal, Replacement, address_of, cover};

#[derive(Clone, Copy, Default)]
struct Object {
    held: bool,
    visited: bool,
}

/// Newest in front; the hand moves toward the front.
pub struct Sieve {
    links: Links,
    order: List,
    objects: Vec<Object>,
    /// Where the search goes on, or `None` for the back.
    hand: Option<ObjectId>,
}

impl Sieve {
    /// Holds nothing.
    pub fn new() -> Self {
        Sieve { links: Links::default(), order: List::new(), objects: Vec::new(), hand: None }
    }
}

impl Default for Sieve {
    fn default() -> Self {
        Self::new()
    }
}

impl Replacement for Sieve {
    fn admit(&mut self, object: ObjectId, _size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        self.links.cover(object);
        cover(&mut self.objects, object, Object::default());
        self.objects[object.index()] = Object { held: true, visited: false };
        self.order.push_front(&mut self.links, object);
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        self.objects[object.index()].visited = true;
    }

    fn victim(&mut self) -> Option<ObjectId> {
        let mut object = self.hand.or_else(|| self.order.back())?;
        // Ends: every step clears a bit.
        while self.objects[object.index()].visited {
            self.objects[object.index()].visited = false;
            object = self.order.toward_front(&self.links, object).or_else(|| self.order.back())?;
        }
        self.hand = Some(object);
        Some(object)
    }

    fn remove(&mut self, object: ObjectId, _removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        if self.hand == Some(object) {
            self.hand = self.order.toward_front(&self.links, object);
        }
        self.order.unlink(&mut self.links, object);
        self.objects[object.index()] = Object::default();
    }

    fn state_of(&self, object: ObjectId) -> *const u8 {
        address_of(&self.objects, object)
    }

    fn memory_bytes(&self) -> usize {
        self.links.memory_bytes() + self.objects.capacity() * size_of::<Object>()
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn check_invariants(&self) {
        self.order.check_invariants(&self.links, |object| self.holds(object));
        let held = self.objects.iter().filter(|object| object.held).count();
        assert_eq!(held, self.len(), "an object that is held is in no list");
        assert!(self.hand.is_none_or(|hand| self.holds(hand)), "the hand is at an object that is gone");
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.objects.get(object.index()).is_some_and(|object| object.held)
    }
}
