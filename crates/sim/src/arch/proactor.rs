//! `proactor`: a completion ring for each worker; the kernel reads from disk and reports; caches shared and locked (JAWS'
//! asynchronous pool, io_uring).

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario) -> Loops {
    Loops::new(scenario.workers(), Disk::Kernel, true).with_clients(&scenario.client_workers)
}

/// file entries * 850 and a thread for each worker.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    super::event_loops::overhead(scenario, parameters)
}
