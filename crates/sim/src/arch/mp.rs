//! `mp`: a process for each connection being served, blocking calls, structures of its own in each process
//! (Flash-MP, Apache).

use super::threads::{Supply, Threads};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Threads {
    // A process stays with a kept connection, and there are more processes if that is not enough.
    let (count, supply) = match parameters.costs.requests_per_connection {
        0..=1 => (processes(scenario, parameters), Supply::Pool),
        _ => (scenario.clients, Supply::PerClient),
    };
    Threads::new(count, supply, false, scenario.workers())
}

/// file entries * 850 * N * P.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: processes(scenario, parameters).into(),
        fixed_bytes: 0.0,
    }
}

fn processes(scenario: &Scenario, parameters: &Parameters) -> u32 {
    scenario.workers() * parameters.concurrency.processes_per_processor
}
