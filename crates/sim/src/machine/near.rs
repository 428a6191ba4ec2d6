//! The cache of a processor, for content: what of it is near when it is sent.
//!
//! Owns: one cache that stands for each processor's, with the least recently sent the first to go. Does not know lines, levels,
//! or what else such a cache holds.

use lamna_policy::cache::{Algorithm, Bounded, ObjectId};

use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::scenario::{PolicyName, Scenario};
use crate::workload::FileId;

/// See the module.
pub(super) struct Near {
    content: Bounded,
    /// What an entry takes beside its content.
    entry_bytes: u64,
}

impl Near {
    /// Empty; `None` if the parameters have everything near. Processes that have the content to themselves share the cache, and
    /// one of them stands for all, as with the data cache.
    pub(super) fn new(scenario: &Scenario, parameters: &Parameters) -> Option<Near> {
        let memory = &parameters.memory;
        let copies = if scenario.architecture == Kind::Mp { u64::from(scenario.clients) } else { 1 };
        let bytes = (memory.near_bytes / copies).max(1);
        let content = || Bounded::new(Algorithm::Lru, PolicyName::OBJECTIVE, bytes);
        (memory.near_bytes > 0).then(|| Near { content: content(), entry_bytes: memory.entry_bytes })
    }

    /// Whether a file of `bytes` is near; it is now, if the cache is large enough.
    pub(super) fn request(&mut self, file: FileId, bytes: u64) -> bool {
        let near = self.content.request(ObjectId(file));
        if !near {
            let _ = self.content.offer(ObjectId(file), bytes + self.entry_bytes, |_| ());
        }
        near
    }
}
