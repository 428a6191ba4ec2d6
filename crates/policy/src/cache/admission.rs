//! A size-aware admission filter: whether a new object deserves the place of those that would have to leave.
//!
//! After TinyLFU (Einziger, Friedman, Manes, ACM ToS 2017) and its size-aware successor (Einziger, Eytan, Friedman,
//! Manes: "Lightweight robust size aware cache management", ACM ToS 2022). The filter counts how often each object was
//! asked for within a sliding window of requests. A new object must have been asked for more often than the victim; per
//! byte, if requests are what counts.
//!
//! Departures: identifiers are dense, so the count is exact, in one byte for each object, where the papers need a
//! sketch. Only the first victim is weighed, because the filter is asked again for each further one.
//!
//! An object larger than [`Admission::object_bytes_max`] is never admitted: one huge file is not worth the hot set.

use super::{ObjectId, Objective, cover};

/// The counts and the two rules.
pub struct Admission {
    objective: Objective,
    /// Objects larger than this, in bytes, are always refused.
    pub object_bytes_max: u64,
    counts: Vec<u8>,
    /// Requests after which all counts are halved.
    window: u64,
    /// Requests since the last halving.
    requests: u64,
}

impl Admission {
    /// `window` is the number of requests after which old ones count half: about ten times the objects that fit.
    pub fn new(objective: Objective, object_bytes_max: u64, window: u64) -> Self {
        Admission { objective, object_bytes_max, counts: Vec::new(), window: window.max(1), requests: 0 }
    }

    /// `object` was asked for, found or not. Amortised constant time: one in `window` calls halves every count.
    pub fn request(&mut self, object: ObjectId) {
        cover(&mut self.counts, object, 0);
        let count = &mut self.counts[object.index()];
        *count = count.saturating_add(1);
        self.requests += 1;
        if self.requests >= self.window.max(self.counts.len() as u64) {
            self.requests = 0;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// The identifier of `object` will stand for another object.
    pub fn forget(&mut self, object: ObjectId) {
        if let Some(count) = self.counts.get_mut(object.index()) {
            *count = 0;
        }
    }

    /// Bytes of memory that the filter itself has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.counts.capacity()
    }

    /// Whether `newcomer` (identifier, bytes) may take the place of `victim`; `None` if there is room.
    pub fn admits(&self, newcomer: (ObjectId, u64), victim: Option<(ObjectId, u64)>) -> bool {
        if newcomer.1 > self.object_bytes_max {
            return false;
        }
        let Some(victim) = victim else { return true };
        let (new, old) = (self.count(newcomer.0), self.count(victim.0));
        match self.objective {
            // new / newcomer bytes > old / victim bytes, without the division.
            Objective::Requests => new * u128::from(victim.1) > old * u128::from(newcomer.1),
            Objective::Bytes => new > old,
        }
    }

    fn count(&self, object: ObjectId) -> u128 {
        self.counts.get(object.index()).copied().unwrap_or(0).into()
    }
}
