//! Which entries a cache lets go of first, as a setting.

use lamna_policy::cache::{Algorithm, Objective};

/// Which entries go when room is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The order in which they go.
    pub algorithm: Algorithm,
    /// What is to be had much of.
    pub objective: Objective,
    /// Whether a newcomer has to be asked for more often than whom it would push out, per byte.
    pub is_filtered: bool,
}

impl Default for Policy {
    /// What had the most hits on all traces tried (`results/sim/policies`).
    fn default() -> Policy {
        Policy { algorithm: Algorithm::Gdsf, objective: Objective::Requests, is_filtered: false }
    }
}
