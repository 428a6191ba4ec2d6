//! The scenario of a simulation: architecture, machine, workload, load. Everything a result depends on beside the
//! parameter set.

use std::fmt;
use std::path::Path;

use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::schedule::Schedule;
use serde::{Deserialize, Serialize};

use crate::arch::kind::Kind;
use crate::parameters::{DiskParameters, Parameters};
use crate::workload::{PROFILES, Profile, TraceError, Workload, read_trace};

/// One point of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Which engine.
    pub architecture: Kind,
    /// A profile's name, or the path of a trace (`NAME.csv` or `NAME.csv.zst`).
    pub workload: String,
    /// Cuts the workload to this data set, in bytes; 0 leaves it whole.
    pub data_set_bytes: u64,
    /// At least 1.
    pub processors: u32,
    /// Memory that the server may use: content and overhead.
    pub system_memory_bytes: u64,
    /// If not 0, the data cache of one process, whatever the system memory.
    pub data_cache_bytes: u64,
    /// Size of the operating system's page cache beside that, in bytes. Where it is 0 there is none: a file that is not
    /// in the data cache is read from disk. Otherwise the data cache's bound is the server's own: it counts an entry's
    /// structures, too.
    pub page_cache_bytes: u64,
    /// Whether what is read from disk for the data cache leaves the page cache at once: the server's way where its
    /// cache is the larger of the two. Longer files stay in the page cache.
    pub replaces_page_cache: bool,
    /// Whether the caches of processes that have content of their own (`mp` where a process stays with its client, and
    /// `co-amped`) are simulated one by one and begin empty, as in a trial. If not, one in the state after a long time
    /// stands for all.
    pub separate_caches: bool,
    /// A disk of the parameter set.
    pub disk: String,
    /// Clients; each has one request under way. At least 1.
    pub clients: u32,
    /// Replacement policy of the data cache.
    pub policy: PolicyName,
    /// The order in which the helpers of `amped` and `co-amped` take up reads. A long file is read by pieces, so
    /// `round-robin` is the order in which pieces are wanted.
    pub schedule: ScheduleName,
    /// Event loops, or pools of the pipeline; 0 is one for each processor.
    pub workers: u32,
    /// Whether the clients are a thread on the server's machine, bound to its last processor.
    pub clients_on_server: bool,
    /// Whether that thread never sleeps while it waits.
    pub clients_spin: bool,
    /// Whether each worker, with the threads that belong to it, is bound to a processor, by turns.
    pub bound_workers: bool,
    /// The worker of each client, in the order of clients; those beyond are spread evenly.
    pub client_workers: Vec<u32>,
    /// Requests measured in each replication.
    pub requests: u64,
    /// Requests before measuring begins.
    pub warm_up_requests: u64,
    /// Independent replications.
    pub replications: u32,
    /// Seed of the first replication; the others follow.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            architecture: Kind::Pipelined,
            workload: "cse".into(),
            data_set_bytes: 0,
            processors: 1,
            system_memory_bytes: 4 << 30,
            data_cache_bytes: 0,
            page_cache_bytes: 0,
            replaces_page_cache: false,
            separate_caches: false,
            disk: "fast".into(),
            clients: 1_000,
            policy: PolicyName(Algorithm::Lru),
            schedule: ScheduleName(Schedule::RoundRobin),
            workers: 0,
            clients_on_server: false,
            clients_spin: false,
            bound_workers: false,
            client_workers: Vec::new(),
            requests: 100_000,
            warm_up_requests: 20_000,
            replications: 3,
            seed: 1,
        }
    }
}

/// A policy by its name in `lamna_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyName(pub Algorithm);

impl PolicyName {
    /// Always by requests: seeks and processors are what is scarce in the models.
    pub const OBJECTIVE: Objective = Objective::Requests;
}

impl Serialize for PolicyName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map(PolicyName).map_err(serde::de::Error::custom)
    }
}

/// An order of service by its name in `lamna_policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleName(pub Schedule);

impl Serialize for ScheduleName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for ScheduleName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map(ScheduleName).map_err(serde::de::Error::custom)
    }
}

/// The disk of `parameters` with this name.
///
/// # Errors
/// If there is none.
pub fn disk_of<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a DiskParameters, ScenarioError> {
    let known = || parameters.disks.keys().cloned().collect();
    parameters.disks.get(name).ok_or_else(|| ScenarioError::UnknownDisk(name.into(), known()))
}

/// Why a scenario cannot be run.
#[derive(Debug)]
pub enum ScenarioError {
    /// The parameter set has no such disk; those that it has.
    UnknownDisk(String, Vec<String>),
    /// Neither a profile nor a trace.
    UnknownWorkload(String),
    /// The trace cannot be read.
    Trace(TraceError),
    /// The data set asked for is larger than the workload.
    DataSetTooLarge,
    /// A number that must be positive is zero.
    Zero(&'static str),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScenarioError::UnknownDisk(name, known) => {
                write!(f, "the parameter set has no disk `{name}`; there are {}", known.join(", "))
            }
            ScenarioError::UnknownWorkload(name) => {
                let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
                write!(f, "workload `{name}` is neither a trace (.csv, .csv.zst) nor one of {}", names.join(", "))
            }
            ScenarioError::Trace(error) => error.fmt(f),
            ScenarioError::DataSetTooLarge => f.write_str("data_set_bytes is more than the workload has"),
            ScenarioError::Zero(field) => write!(f, "{field} must be at least 1"),
        }
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// Loads the workload. Worth sharing between scenarios that differ otherwise.
    pub fn load_workload(&self) -> Result<Workload, ScenarioError> {
        let whole = load(&self.workload)?;
        match self.data_set_bytes {
            0 => Ok(whole),
            // A fixed seed: the file set is part of the scenario, not of the chance in it.
            bytes => whole.truncated(bytes, 1).ok_or(ScenarioError::DataSetTooLarge),
        }
    }

    /// Event loops or pools.
    pub fn workers(&self) -> u32 {
        if self.workers == 0 { self.processors } else { self.workers }
    }

    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let positive = [
            (u64::from(self.processors), "processors"),
            (u64::from(self.clients), "clients"),
            (self.requests, "requests"),
            (u64::from(self.replications), "replications"),
        ];
        match positive.into_iter().find(|(value, _)| *value == 0) {
            Some((_, field)) => Err(ScenarioError::Zero(field)),
            None => Ok(()),
        }
    }
}

fn load(name: &str) -> Result<Workload, ScenarioError> {
    if let Some(profile) = Profile::named(name) {
        return Ok(profile.workload());
    }
    if name.ends_with(".csv") || name.ends_with(".csv.zst") {
        return read_trace(Path::new(name)).map_err(ScenarioError::Trace);
    }
    Err(ScenarioError::UnknownWorkload(name.into()))
}
