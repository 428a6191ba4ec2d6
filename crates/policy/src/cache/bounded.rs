//! The accounts of a cache: what it holds, how many bytes that is, and the bound on these bytes. It owns no content.
//! The caller frees what it is told was evicted.
//!
//! Guarantees: after every call the bytes held are at most the bound. An object is held at most once. If a policy names
//! no victim where one is needed, or one that is not held, nothing more is admitted, and only growth
//! ([`Bounded::resize`]) may exceed the bound.

use super::sizes::Sizes;
use super::{Admission, Algorithm, ObjectId, Objective, Removal, Replacement, USES_AT_ONCE_MAX, hand_over};
use crate::hints::Probability;

/// The result of offering an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// It is held now.
    Admitted,
    /// It is larger than the bound, the admission filter preferred what is there, or the policy made no room.
    Refused,
}

/// A policy, an optional filter, and the count of bytes.
pub struct Bounded {
    policy: Box<dyn Replacement>,
    admission: Option<Admission>,
    sizes: Sizes,
    bytes: u64,
    bound_bytes: u64,
}

impl Bounded {
    /// Holds nothing and will hold at most `bound_bytes`.
    pub fn new(algorithm: Algorithm, objective: Objective, bound_bytes: u64) -> Self {
        Bounded::of_policy(algorithm.build(bound_bytes, objective), bound_bytes)
    }

    /// The same with a policy that holds nothing yet: one that is none of [`Algorithm::ALL`], perhaps.
    pub fn of_policy(policy: Box<dyn Replacement>, bound_bytes: u64) -> Self {
        Bounded { policy, admission: None, sizes: Sizes::default(), bytes: 0, bound_bytes }
    }

    /// The same with a filter before it.
    pub fn with_admission(mut self, admission: Admission) -> Self {
        self.admission = Some(admission);
        self
    }

    /// Puts a filter before it, or takes it away, with everything that is held.
    pub fn set_admission(&mut self, admission: Option<Admission>) {
        self.admission = admission;
    }

    /// Asks for `object`: whether it is held. Counts as a use.
    pub fn request(&mut self, object: ObjectId) -> bool {
        self.request_times(object, 1)
    }

    /// Asks for `object` as often as it was asked for since the last time: whether it is held.
    pub fn request_times(&mut self, object: ObjectId, count: u32) -> bool {
        let held = self.holds(object);
        if held {
            self.handle_uses(object, count);
        } else {
            self.count_requests(object, count);
        }
        held
    }

    /// `object`, of which the caller knows that it is held, was used `count` times since it was last said so.
    pub fn handle_uses(&mut self, object: ObjectId, count: u32) {
        debug_assert!(self.holds(object), "used what is not held");
        self.count_requests(object, count);
        match count {
            0 => {}
            1 => self.policy.hit(object),
            _ => self.policy.uses(object, count),
        }
    }

    /// `object`, which is held, occupies `size_bytes` from now on. `evicted` is told each object that had to go, itself
    /// perhaps among them.
    pub fn resize(&mut self, object: ObjectId, size_bytes: u64, mut evicted: impl FnMut(ObjectId)) {
        debug_assert!(self.holds(object), "resized what is not held");
        self.bytes = self.bytes - self.size_bytes(object) + size_bytes;
        self.sizes.set(object, size_bytes);
        self.policy.resize(object, size_bytes);
        self.shrink_to(self.bound_bytes, &mut evicted);
    }

    /// The identifier of `object`, which is not held, will stand for another object.
    pub fn forget(&mut self, object: ObjectId) {
        debug_assert!(!self.holds(object), "forgotten while held");
        self.policy.forget(object);
        if let Some(admission) = &mut self.admission {
            admission.forget(object);
        }
    }

    /// Asserts that the count of bytes is the sum of the sizes, and that the policy agrees with itself. The work is
    /// linear in the objects.
    ///
    /// # Panics
    /// If they do not agree.
    pub fn check_invariants(&self) {
        let (count, bytes) = self.sizes.sum();
        assert_eq!(self.bytes, bytes, "the count of bytes is not the sum of the sizes");
        assert_eq!(self.policy.len(), count, "the policy holds other objects than are counted");
        self.policy.check_invariants();
    }

    /// Bytes of memory that the books themselves have allocated.
    pub fn memory_bytes(&self) -> usize {
        let filter = self.admission.as_ref().map_or(0, Admission::memory_bytes);
        self.policy.memory_bytes() + self.sizes.memory_bytes() + filter
    }

    /// Offers `object`, which is not held, with its size. `evicted` is told each object that had to go.
    pub fn offer(&mut self, object: ObjectId, size_bytes: u64, mut evicted: impl FnMut(ObjectId)) -> Offer {
        debug_assert!(!self.holds(object), "offered what is held");
        if size_bytes > self.bound_bytes {
            return Offer::Refused;
        }
        if self.is_refused(object, size_bytes) {
            return Offer::Refused;
        }
        self.shrink_to(self.bound_bytes - size_bytes, &mut evicted);
        if self.bytes > self.bound_bytes - size_bytes {
            return Offer::Refused;
        }
        self.sizes.set(object, size_bytes);
        self.bytes += size_bytes;
        self.policy.admit(object, size_bytes);
        Offer::Admitted
    }

    /// `object`, held or not, will be asked for soon with this probability. See [`Replacement::expect`].
    pub fn expect(&mut self, object: ObjectId, probability: Probability) {
        self.policy.expect(object, probability);
    }

    /// Whether an object of this size that has not been requested yet may be brought in: there is room, or it is worth
    /// more than the next victim.
    pub fn deserves_room(&mut self, size_bytes: u64, probability: Probability) -> bool {
        let fits = size_bytes <= self.bound_bytes;
        fits && (self.bytes <= self.bound_bytes - size_bytes || self.policy.deserves_room(size_bytes, probability))
    }

    /// `object` is stale: forgets it. Nothing happens if it is not held.
    pub fn withdraw(&mut self, object: ObjectId) {
        if self.holds(object) {
            self.drop_object(object, Removal::Withdrawn);
        }
    }

    /// Changes the bound; `evicted` is told each object that had to go.
    pub fn rebound(&mut self, bound_bytes: u64, mut evicted: impl FnMut(ObjectId)) {
        self.bound_bytes = bound_bytes;
        self.policy.rebound(bound_bytes);
        self.shrink_to(bound_bytes, &mut evicted);
    }

    /// Goes over to `next`, which holds nothing yet, with everything that is held.
    pub fn change_policy(&mut self, mut next: Box<dyn Replacement>) {
        let sizes = &self.sizes;
        hand_over(self.policy.as_mut(), next.as_mut(), |object| sizes.of(object).unwrap_or(0));
        self.policy = next;
    }

    /// Whether `object` is held. Does not count as a use.
    pub fn holds(&self, object: ObjectId) -> bool {
        self.sizes.of(object).is_some()
    }

    /// Where what a use of `object` changes is in memory. See [`Replacement::state_of`].
    pub fn state_of(&self, object: ObjectId) -> *const u8 {
        self.policy.state_of(object)
    }

    /// Bytes held; at most [`Bounded::bound_bytes`].
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bound.
    pub fn bound_bytes(&self) -> u64 {
        self.bound_bytes
    }

    /// Objects held.
    pub fn len(&self) -> usize {
        self.policy.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.policy.is_empty()
    }

    fn count_requests(&mut self, object: ObjectId, count: u32) {
        if let Some(admission) = &mut self.admission {
            (0..count.min(USES_AT_ONCE_MAX)).for_each(|_| admission.request(object));
        }
    }

    /// The size of `object`; 0 if it is not held.
    fn size_bytes(&self, object: ObjectId) -> u64 {
        self.sizes.of(object).unwrap_or(0)
    }

    fn is_refused(&mut self, object: ObjectId, size_bytes: u64) -> bool {
        let Some(admission) = &self.admission else {
            return false;
        };
        let full = self.bytes + size_bytes > self.bound_bytes;
        let victim = if full { self.policy.victim() } else { None };
        let victim = victim.map(|victim| (victim, self.size_bytes(victim)));
        !admission.admits((object, size_bytes), victim)
    }

    fn shrink_to(&mut self, bytes_max: u64, evicted: &mut impl FnMut(ObjectId)) {
        while self.bytes > bytes_max {
            // Bytes are held, so an object is held, so a policy that keeps its contract names one.
            let Some(victim) = self.policy.victim().filter(|victim| self.holds(*victim)) else {
                return;
            };
            self.drop_object(victim, Removal::Evicted);
            evicted(victim);
        }
    }

    fn drop_object(&mut self, object: ObjectId, removal: Removal) {
        self.bytes -= self.sizes.unset(object).unwrap_or(0);
        self.policy.remove(object, removal);
    }
}
