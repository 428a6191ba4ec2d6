//! `amped`: event loops and helpers as threads of one process; caches shared and locked (Flash, as Lamna runs it).

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Loops {
    Loops::new(scenario.workers(), Disk::Helpers(parameters.concurrency.read_helpers), true)
        .with_schedule(scenario.schedule.0)
        .with_clients(&scenario.client_workers)
}

/// file entries * 850 and a thread for each loop and each of its helpers.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    let threads = scenario.workers() * (1 + parameters.concurrency.read_helpers);
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: 1.0,
        fixed_bytes: f64::from(threads) * parameters.memory.thread_bytes as f64,
    }
}
