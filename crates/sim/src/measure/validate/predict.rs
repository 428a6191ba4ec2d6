//! The scenarios as the models meet them.
//!
//! Owns: what a scenario of the validation is in the simulator: disk, memory that is left for the page cache, who owns which
//! client. Guarantees: nothing that was measured in its trials but the last of these.

use std::io;

use lamna_policy::cache::Algorithm;

use super::{Name, READS_PER_S, Setting};
use crate::arch::Kind;
use crate::measure::trial::processors;
use crate::parameters::{DiskParameters, Parameters};
use crate::run::{Outcome, run_with};
use crate::scenario::{PolicyName, Scenario};

impl Setting {
    /// What the models say of it.
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
            // Whole passes, as in the trials.
            requests: SIMULATED_REQUESTS.next_multiple_of(self.period()),
            warm_up_requests: self.warm_up_requests.max(SIMULATED_REQUESTS / 4),
            replications: 3,
            ..Default::default()
        };
        if self.memory_bytes > 0 {
            scenario.holds_alone = self.holds_alone(kind);
            scenario.page_cache_bytes = page_cache_bytes(&scenario, self.memory_bytes, &parameters);
        }
        run_with(&scenario, &parameters, &self.workload, processors)
            .map_err(|error| io::Error::other(error.to_string()))
    }

    fn disk(&self, this: DiskParameters) -> DiskParameters {
        match self.name {
            Name::SlowDisk => {
                DiskParameters { requests_per_s: READS_PER_S as f64, throttle_slice_us: THROTTLE_SLICE_US, ..this }
            }
            _ => this,
        }
    }

    /// The server's own rule: content is in memory once where the cache is at least a third of it, except in processes that have
    /// caches of their own.
    fn holds_alone(&self, kind: Kind) -> bool {
        self.cache_bytes >= self.memory_bytes / 3 && !matches!(kind, Kind::Mp | Kind::CoAmped)
    }
}

/// `DFL_THROTL_SLICE_HD` of Linux: a tenth of a second, for disks that say they rotate.
const THROTTLE_SLICE_US: f64 = 1e5;
const SIMULATED_REQUESTS: u64 = 200_000;
const DISK: &str = "validate";

/// What control group of `memory_bytes` has left for the page cache when the server has taken what it takes: its
/// processes and threads, and the memory of its caches.
fn page_cache_bytes(scenario: &Scenario, memory_bytes: u64, parameters: &Parameters) -> u64 {
    let memory = &parameters.memory;
    let workers = u64::from(scenario.workers);
    let clients = u64::from(scenario.clients);
    let threads = match scenario.architecture {
        Kind::ThreadPool => workers * u64::from(parameters.concurrency.threads_per_processor),
        Kind::ThreadPerRequest | Kind::ThreadPerSession => clients,
        // As many helpers as there can be reads under way.
        Kind::Amped | Kind::CoAmped | Kind::Proactor => {
            clients.min(workers * u64::from(parameters.concurrency.read_helpers))
        }
        Kind::Pipelined => workers * 7,
        _ => workers,
    };
    let forked = if scenario.architecture == Kind::Mp { clients } else { 0 };
    let caches = match scenario.architecture {
        Kind::Mp => clients,
        Kind::CoAmped => workers,
        _ => 1,
    };
    let ratio = match scenario.architecture {
        Kind::Mp | Kind::EventLoops if scenario.workers == 1 => memory.held_ratio,
        Kind::Mp | Kind::Proactor => memory.held_ratio,
        _ => memory.held_ratio_threads,
    };
    let held = (caches * scenario.data_cache_bytes) as f64 * ratio;
    let taken = memory.process_bytes + threads * memory.thread_bytes + forked * memory.helper_bytes + held as u64;
    memory_bytes.saturating_sub(taken).max(PAGE_CACHE_BYTES_LEAST)
}

/// The kernel gives a control group that has nothing left the pages that it needs for one read after the other.
const PAGE_CACHE_BYTES_LEAST: u64 = 1 << 20;
