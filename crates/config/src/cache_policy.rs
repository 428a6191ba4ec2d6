//! Which entries a cache lets go of first, as a setting.

use lamna_policy::cache::{Algorithm, Objective};

/// Which entries go when room is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The order in which they go.
    pub algorithm: Algorithm,
    /// The measure that the policy maximises.
    pub objective: Objective,
    /// Whether a newcomer has to be asked for more often than the entry that it would push out, per byte.
    pub is_filtered: bool,
}

impl Default for Policy {
    /// The policy with the most hits on all traces tried (`results/sim/policies`).
    fn default() -> Policy {
        Policy { algorithm: Algorithm::Gdsf, objective: Objective::Requests, is_filtered: false }
    }
}
