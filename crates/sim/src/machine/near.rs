//! The caches of a processor: how far away the structures and the content of a file are when the file is sent.
//!
//! Owns: one cache that stands for each processor's own, and one for what processors share. What was sent longest ago
//! leaves first, structures and content alike. Does not know lines, ways, or what else such a cache holds.

use lamna_policy::cache::{Algorithm, Bounded, ObjectId};

use crate::arch::kind::Kind;
use crate::parameters::Parameters;
use crate::scenario::{PolicyName, Scenario};

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distance {
    /// In the processor's own cache.
    Near,
    /// In the one that processors share.
    Far,
    /// In none.
    Remote,
}

/// See the module.
pub(super) struct Near {
    own: Bounded,
    /// `None`: what is not near is far.
    shared: Option<Bounded>,
    /// The size of an entry beside its content.
    entry_bytes: u64,
}

impl Near {
    /// Empty; `None` if the parameters have everything near. Processes that have the content to themselves share the
    /// caches; where one of them stands for all, as with the data cache, it has its part.
    pub(super) fn new(scenario: &Scenario, parameters: &Parameters) -> Option<Near> {
        let memory = &parameters.memory;
        let is_one_of_many = scenario.architecture == Kind::Mp && !scenario.separate_caches;
        let copies = if is_one_of_many { u64::from(scenario.clients) } else { 1 };
        let cache = |bytes: u64| Bounded::new(Algorithm::Lru, PolicyName::OBJECTIVE, (bytes / copies).max(1));
        (memory.near_bytes > 0).then(|| Near {
            own: cache(memory.near_bytes),
            shared: (memory.far_bytes > 0).then(|| cache(memory.far_bytes)),
            entry_bytes: memory.entry_bytes,
        })
    }

    /// Where a file of `bytes` is, and its structures; they are near now, if the caches are large enough.
    pub(super) fn request(&mut self, file: ObjectId, bytes: u64) -> Distance {
        let bytes = bytes + self.entry_bytes;
        let is_near = has(&mut self.own, file, bytes);
        let is_shared = self.shared.as_mut().is_none_or(|shared| has(shared, file, bytes));
        match (is_near, is_shared) {
            (true, _) => Distance::Near,
            (false, true) => Distance::Far,
            (false, false) => Distance::Remote,
        }
    }
}

/// Whether `cache` has a file that takes `bytes` in it. It has now, if it is large enough.
fn has(cache: &mut Bounded, file: ObjectId, bytes: u64) -> bool {
    let is_there = cache.request(file);
    if !is_there {
        let _ = cache.offer(file, bytes, |_| ());
    }
    is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(near_bytes: u64, far_bytes: u64) -> Near {
        let mut parameters = Parameters::linux();
        (parameters.memory.near_bytes, parameters.memory.far_bytes) = (near_bytes, far_bytes);
        parameters.memory.entry_bytes = 100;
        Near::new(&Scenario::default(), &parameters).expect("not everything is near")
    }

    #[test]
    fn what_was_sent_last_is_near_and_what_was_sent_long_ago_in_no_cache() {
        let mut near = near(1_000, 2_500);
        assert_eq!(near.request(ObjectId(1), 800), Distance::Remote);
        assert_eq!(near.request(ObjectId(1), 800), Distance::Near);
        assert_eq!(near.request(ObjectId(2), 800), Distance::Remote);
        assert_eq!(near.request(ObjectId(1), 800), Distance::Far);
        assert_eq!(near.request(ObjectId(3), 800), Distance::Remote);
        assert_eq!(near.request(ObjectId(2), 800), Distance::Remote);
    }

    #[test]
    fn without_a_shared_cache_everything_is_far_at_most() {
        let mut near = near(1_000, 0);
        assert_eq!(near.request(ObjectId(1), 5_000), Distance::Far);
        assert_eq!(near.request(ObjectId(1), 5_000), Distance::Far);
    }
}
