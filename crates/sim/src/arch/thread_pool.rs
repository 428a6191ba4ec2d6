//! `thread-pool` (the paper's MT): a fixed number of threads, each serving one connection at a time with blocking
//! calls; caches shared and locked (Flash-MT, JAWS).

use super::threads::{Supply, Threads};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Threads {
    let threads = threads(scenario, parameters);
    // A thread stays with a kept connection as long as another thread is free for the next client.
    let stays = parameters.costs.requests_per_connection > 1 && scenario.clients < threads;
    let (count, supply) = if stays { (scenario.clients, Supply::PerClient) } else { (threads, Supply::Pool) };
    Threads::new(count, supply, true, scenario.workers()).with_clients(&scenario.client_workers)
}

/// file entries * 850 + T * 25K.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: 1.0,
        fixed_bytes: f64::from(threads(scenario, parameters)) * parameters.memory.thread_bytes as f64,
    }
}

fn threads(scenario: &Scenario, parameters: &Parameters) -> u32 {
    scenario.workers() * parameters.concurrency.threads_per_processor
}
