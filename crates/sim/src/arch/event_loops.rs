//! `event-loops`: event loops as threads of one process that share the caches; a read from disk stalls its loop. What
//! `sped` becomes when its workers share.

use super::loops::{Disk, Loops};
use crate::parameters::Parameters;
use crate::resource::Overhead;
use crate::scenario::Scenario;

pub(super) fn model(scenario: &Scenario) -> Loops {
    Loops::new(scenario.workers(), Disk::Inline, true).with_clients(&scenario.client_workers)
}

/// file entries * 850 and a thread for each loop.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: 1.0,
        fixed_bytes: f64::from(scenario.workers()) * parameters.memory.thread_bytes as f64,
    }
}
