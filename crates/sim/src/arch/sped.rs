//! `sped`: one event loop for each processor, in a process of its own; a read from disk stalls the loop (Zeus,
//! Flash-SPED).

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario) -> Loops {
    Loops::new(scenario.workers(), Disk::Inline, false).with_clients(&scenario.client_workers)
}

/// file entries * 850 * N.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead { entry_bytes: parameters.memory.entry_bytes as f64, copies: scenario.workers().into(), fixed_bytes: 0.0 }
}
