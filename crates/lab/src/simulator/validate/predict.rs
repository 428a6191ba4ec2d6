//! The scenarios as the models meet them.
//!
//! Owns: what a scenario of the validation is in the simulator: disk, memory that is left for the page cache, who owns
//! which client. Guarantees: nothing that was measured in its trials but the last of these.

use std::io;

use lamna_policy::cache::Algorithm;
use lamna_sim::arch::Kind;
use lamna_sim::parameters::{DiskParameters, Parameters};
use lamna_sim::run::{Outcome, run_with};
use lamna_sim::scenario::{PolicyName, Scenario};

use super::{Name, READS_PER_S, Setting};
use crate::simulator::limited::{page_cache_bytes, replaces_page_cache};
use crate::simulator::trial::processors;

impl Setting {
    /// The prediction of the models.
    pub(super) fn predict(
        &self,
        kind: Kind,
        workers: u32,
        client_workers: &[u32],
        parameters: &Parameters,
    ) -> io::Result<Outcome> {
        let mut parameters = parameters.clone();
        let missing = || io::Error::other("the parameter set does not know the disk `this`");
        let this = parameters.disks.get("this").copied().ok_or_else(missing)?;
        parameters.disks.insert(DISK.into(), self.disk(this));
        let processors = processors();
        let data_cache_bytes = match kind {
            Kind::Mp => self.process_cache_bytes(),
            Kind::CoAmped => self.cache_bytes / u64::from(workers),
            _ => self.cache_bytes,
        };
        let mut scenario = Scenario {
            architecture: kind,
            workload: self.name.name().into(),
            processors: processors as u32,
            data_cache_bytes,
            policy: PolicyName(Algorithm::Gdsf),
            disk: DISK.into(),
            clients: self.connections,
            workers,
            clients_on_server: true,
            clients_spin: workers == 1 && processors > 1,
            bound_workers: true,
            client_workers: client_workers.to_vec(),
            separate_caches: true,
            // Whole passes, as in the trials.
            requests: SIMULATED_REQUESTS.next_multiple_of(self.period()),
            warm_up_requests: self.warm_up_requests.max(SIMULATED_REQUESTS / 4),
            replications: 3,
            ..Default::default()
        };
        if self.memory_bytes > 0 {
            scenario.replaces_page_cache = replaces_page_cache(kind, self.cache_bytes, self.memory_bytes);
            scenario.page_cache_bytes = page_cache_bytes(&scenario, self.memory_bytes, &parameters);
        }
        run_with(&scenario, &parameters, &self.workload, processors)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn disk(&self, this: DiskParameters) -> DiskParameters {
        match self.name {
            Name::SlowDisk => {
                DiskParameters { requests_per_s: READS_PER_S.into(), throttle_slice_us: THROTTLE_SLICE_US, ..this }
            }
            _ => this,
        }
    }
}

/// `DFL_THROTL_SLICE_HD` of Linux: a tenth of a second, for disks that say they rotate.
const THROTTLE_SLICE_US: f64 = 1e5;
const SIMULATED_REQUESTS: u64 = 200_000;
const DISK: &str = "validate";
