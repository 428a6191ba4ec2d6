//! `proactor`: a completion ring for each worker; the kernel reads from disk and reports; caches shared and locked
//! (JAWS' asynchronous pool, io_uring).

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Loops {
    // What the ring brings into a page cache that has next to no memory may be gone again: helpers read what is cached,
    // and what is long threads of the kernel's, which are the process's.
    let disk = match scenario.replaces_page_cache {
        true => Disk::Helpers(parameters.concurrency.read_helpers),
        false => Disk::Kernel,
    };
    Loops::new(scenario.workers(), disk, true).with_clients(&scenario.client_workers)
}

/// file entries * 850 and a thread for each worker.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    super::event_loops::overhead(scenario, parameters)
}
