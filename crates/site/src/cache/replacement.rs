//! Where a store has its replacement policies from: what is set, or the program that the server is a part of.
//!
//! Owns: [`Replacing`], which makes the policy and the filter of each shard. Decides nothing about entries.

use std::fmt;
use std::sync::Arc;

use lamna_config::cache_policy::Policy;
use lamna_policy::cache::{Admission, Objective, Replacement};

/// A policy of the program: makes one that holds nothing yet, for a bound in bytes and what there is to be much of.
#[derive(Clone)]
pub struct OwnPolicy(Arc<MakePolicy>);

type MakePolicy = dyn Fn(u64, Objective) -> Box<dyn Replacement> + Send + Sync;

impl OwnPolicy {
    /// A policy that `make` creates for each shard.
    pub fn new(make: impl Fn(u64, Objective) -> Box<dyn Replacement> + Send + Sync + 'static) -> OwnPolicy {
        OwnPolicy(Arc::new(make))
    }
}

impl fmt::Debug for OwnPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OwnPolicy")
    }
}

/// Which entries of a store go first: what is set, with the program's own policy, if it has one, in the place of the
/// algorithm.
#[derive(Clone, Debug)]
pub struct Replacing {
    policy: Policy,
    own: Option<OwnPolicy>,
}

impl From<Policy> for Replacing {
    fn from(policy: Policy) -> Replacing {
        Replacing { policy, own: None }
    }
}

impl Replacing {
    /// The configured policy, unless the program brings its `own`.
    pub fn with(policy: Policy, own: Option<OwnPolicy>) -> Replacing {
        Replacing { policy, own }
    }

    /// The same with other settings.
    pub(super) fn set(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// A policy that holds nothing yet, for a shard of `bytes_max` bytes.
    pub(super) fn policy(&self, bytes_max: u64) -> Box<dyn Replacement> {
        let Policy { algorithm, objective, .. } = self.policy;
        match &self.own {
            Some(OwnPolicy(make)) => make(bytes_max, objective),
            None => algorithm.build(bytes_max, objective),
        }
    }

    /// The filter before it, if there is one. Nothing is too large for it: what is too large for the cache is sent from
    /// its file and costs little.
    pub(super) fn admission(&self, bytes_max: u64) -> Option<Admission> {
        let window = (bytes_max / OBJECT_BYTES_USUAL).max(1000) * 10;
        self.policy.is_filtered.then(|| Admission::new(self.policy.objective, u64::MAX, window))
    }
}

/// For the window of the filter: about what a web object has.
const OBJECT_BYTES_USUAL: u64 = 8192;
