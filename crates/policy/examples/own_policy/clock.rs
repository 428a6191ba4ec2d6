//! A replacement policy of one's own: CLOCK, also called second chance (Corbató, 1968).
//!
//! Objects stand in a circle. A use sets an object's bit. The hand goes round: it clears a set bit, and stops at an
//! object whose bit is clear. That is the victim. Copy the file to begin with: docs/extending.md says how.

use lamna_policy::cache::{ObjectId, Removal, Replacement};

/// What CLOCK knows of an object.
#[derive(Clone, Copy, Default)]
struct Object {
    held: bool,
    used: bool,
}

/// The policy. The circle is the order of the identifiers, which are small and dense: so nothing is hashed.
#[derive(Default)]
pub(crate) struct Clock {
    objects: Vec<Object>,
    hand: usize,
    held_count: usize,
}

impl Clock {
    fn object(&mut self, object: ObjectId) -> &mut Object {
        &mut self.objects[object.0 as usize]
    }
}

impl Replacement for Clock {
    fn admit(&mut self, object: ObjectId, _size_bytes: u64) {
        debug_assert!(!self.holds(object), "admitted twice");
        // The one place where memory grows: an identifier that is larger than any before.
        if object.0 as usize >= self.objects.len() {
            self.objects.resize(object.0 as usize + 1, Object::default());
        }
        *self.object(object) = Object { held: true, used: false };
        self.held_count += 1;
    }

    fn hit(&mut self, object: ObjectId) {
        debug_assert!(self.holds(object), "hit what is not held");
        self.object(object).used = true;
    }

    fn victim(&mut self) -> Option<ObjectId> {
        if self.held_count == 0 {
            return None;
        }
        // Ends: something is held, and each round clears the bits that it meets.
        loop {
            if self.hand >= self.objects.len() {
                self.hand = 0;
            }
            let object = &mut self.objects[self.hand];
            if object.held && !object.used {
                // The hand stays, so that the same victim is named again until it is removed.
                return Some(ObjectId(self.hand as u32));
            }
            object.used = false;
            self.hand += 1;
        }
    }

    fn remove(&mut self, object: ObjectId, _removal: Removal) {
        debug_assert!(self.holds(object), "removed what is not held");
        *self.object(object) = Object::default();
        self.held_count -= 1;
    }

    fn len(&self) -> usize {
        self.held_count
    }

    fn holds(&self, object: ObjectId) -> bool {
        self.objects.get(object.0 as usize).is_some_and(|object| object.held)
    }

    fn memory_bytes(&self) -> usize {
        self.objects.capacity() * size_of::<Object>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_since_the_hand_passed_gets_a_second_chance() {
        let mut clock = Clock::default();
        (0..3).for_each(|id| clock.admit(ObjectId(id), 1));
        clock.hit(ObjectId(0));
        assert_eq!(clock.victim(), Some(ObjectId(1)));
        assert_eq!(clock.victim(), Some(ObjectId(1)), "naming changes nothing that a caller can see");
        clock.remove(ObjectId(1), Removal::Evicted);
        assert_eq!(clock.victim(), Some(ObjectId(2)));
        clock.remove(ObjectId(2), Removal::Evicted);
        assert_eq!(clock.victim(), Some(ObjectId(0)));
        clock.remove(ObjectId(0), Removal::Withdrawn);
        assert_eq!((clock.victim(), clock.len()), (None, 0));
    }
}
