//! `thread-per-session`: a thread for each client as long as it stays; caches shared and locked (JAWS). A client of the
//! models never leaves, so no thread is ever made anew.

use super::threads::{Supply, Threads};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario) -> Threads {
    Threads::new(scenario.clients, Supply::PerClient, true, scenario.workers()).with_clients(&scenario.client_workers)
}

/// As many threads as clients.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    super::thread_per_request::overhead(scenario, parameters)
}
