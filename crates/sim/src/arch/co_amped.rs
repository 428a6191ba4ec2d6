//! `co-amped`: an AMPED process for each processor, event loop and helpers, structures of its own in each process. This
//! is what the PIPELINED paper calls AMPED on several processors (PalChaudhuri and others called it Co-AMPED).

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Loops {
    Loops::new(scenario.workers(), Disk::Helpers(parameters.concurrency.read_helpers), false)
        .with_schedule(scenario.schedule.0)
        .with_clients(&scenario.client_workers)
}

/// file entries * 850 * N + 3M * N: the read helpers and one for path translation. Path translation misses are carried
/// out by the loop in the model, since Table 3 gives them no cost that could block.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    let helpers = f64::from(parameters.concurrency.read_helpers + 1) * parameters.memory.helper_bytes as f64;
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: scenario.workers().into(),
        fixed_bytes: f64::from(scenario.workers()) * helpers,
    }
}
