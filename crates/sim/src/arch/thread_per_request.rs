//! `thread-per-request`: a thread made for each request and ended with it; caches shared and locked (JAWS, PHTTPD).

use super::threads::{Supply, Threads};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario) -> Threads {
    Threads::new(scenario.clients, Supply::Spawned, true, scenario.workers()).with_clients(&scenario.client_workers)
}

/// As many threads as clients may be there at once.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: 1.0,
        fixed_bytes: f64::from(scenario.clients) * parameters.memory.thread_bytes as f64,
    }
}
