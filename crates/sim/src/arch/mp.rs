//! `mp`: a process for each connection being served, blocking calls, structures of its own in each process
//! (Flash-MP, Apache).

use super::threads::{Supply, Threads};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Threads {
    let processes = processes(scenario, parameters);
    // A process stays with a kept connection, and more are made if that is not enough. Clients beyond that would be
    // refused; here they wait for a free process.
    let stays = parameters.costs.requests_per_connection > 1 && scenario.clients <= processes.max(PROCESSES_MAX);
    let (count, supply) = if stays { (scenario.clients, Supply::PerClient) } else { (processes, Supply::Pool) };
    Threads::new(count, supply, false, scenario.workers()).with_clients(&scenario.client_workers)
}

/// file entries * 850 * N * P.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: processes(scenario, parameters).into(),
        fixed_bytes: 0.0,
    }
}

/// As Lamna is built.
const PROCESSES_MAX: u32 = 256;

fn processes(scenario: &Scenario, parameters: &Parameters) -> u32 {
    scenario.workers() * parameters.concurrency.processes_per_processor
}
