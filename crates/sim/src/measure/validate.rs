//! Predictions held against reality: each engine in scenarios on this machine, simulated with measured parameters and run.
//!
//! Owns: the scenarios, once as trials of the real server and once as scenarios of the models. Guarantees: the prediction is
//! made from the parameter set alone, and from how many connections each worker took, which is a matter of who was
//! awake when they came; nothing else that is observed flows into it. A scenario that this machine does not permit,
//! and an engine that the program does not have, are left out and named.

mod kept;
mod report;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use self::kept::Kept;
pub use self::report::{LATENCY_TOLERANCE, Report, Row, THROUGHPUT_TOLERANCE};
use super::cgroup::Group;
use super::disk;
use super::load::{Target, Use};
use super::server::ServerSettings;
use super::trial::{self, Observed, Trial, middle_trial};
use lamna_policy::cache::Algorithm;

use crate::arch::Kind;
use crate::parameters::{DiskParameters, Parameters};
use crate::run::{Outcome, run_with};
use crate::scenario::{PolicyName, Scenario};
use crate::workload::{Workload, read_trace};

/// The scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// One file of 500 bytes, in memory.
    Cached,
    /// One file of 50,000 bytes, in memory.
    CachedLarge,
    /// A trace, with less memory than it has data.
    Trace,
    /// A disk of 200 reads a second: some clients ask for what is in memory, others for what is not.
    SlowDisk,
}

impl Name {
    /// All of them.
    pub const ALL: [Name; 4] = [Name::Cached, Name::CachedLarge, Name::Trace, Name::SlowDisk];

    /// As in commands and results.
    pub fn name(self) -> &'static str {
        match self {
            Name::Cached => "cached",
            Name::CachedLarge => "cached-large",
            Name::Trace => "trace",
            Name::SlowDisk => "slow-disk",
        }
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| format!("there are {}", names()))
    }
}

/// How to validate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `lamna`.
    pub program: PathBuf,
    /// A folder for files to serve; made and removed.
    pub scratch: PathBuf,
    /// Which scenarios.
    pub scenarios: Vec<Name>,
    /// Trace of [`Name::Trace`].
    pub trace: Option<PathBuf>,
    /// What that leaves the server of memory.
    pub memory_bytes: u64,
    /// Rounds of all trials; medians count. At least 1.
    pub rounds: u32,
    /// Where trials are kept (JSON). Those that are there already are not repeated: so a table can be made in several goes,
    /// and predicted anew from the same trials.
    pub trials: Option<PathBuf>,
    /// Whether to predict nothing: for making trials while nothing else runs, and predicting later.
    pub trials_only: bool,
    /// Of each trial. Those with a slow disk take three times as long.
    pub measured: Duration,
}

/// The engines and their models. Lamna's workers of `sped` are threads that share the cache, hence `event-loops`.
const ENGINES: [(&str, Kind); 9] = [
    ("sped", Kind::EventLoops),
    ("amped", Kind::Amped),
    ("co-amped", Kind::CoAmped),
    ("pipelined", Kind::Pipelined),
    ("proactor", Kind::Proactor),
    ("thread-pool", Kind::ThreadPool),
    ("thread-per-request", Kind::ThreadPerRequest),
    ("thread-per-session", Kind::ThreadPerSession),
    ("mp", Kind::Mp),
];
const WORKERS: [u32; 2] = [1, 2];

const CONNECTIONS: u32 = 32;
const SMALL_BYTES: u64 = 500;
const LARGE_BYTES: u64 = 50_000;
const CACHE_BYTES: u64 = 64 << 20;
const HOT_CLIENTS: u32 = 8;
const COLD_CLIENTS: u32 = 16;
const COLD_FILES: u32 = 20_000;
const COLD_BYTES: u64 = 15_000;
/// Of each process of `mp` where memory is short: its least, since 32 of them have it.
const PROCESS_CACHE_BYTES_LEAST: u64 = 1 << 20;
/// As Lamna is built, where memory is not short.
const PROCESS_CACHE_BYTES: u64 = 4 << 20;
/// Small enough that cold files stay cold.
const COLD_CACHE_BYTES: u64 = 16 << 20;
const READS_PER_S: u64 = 200;
/// `DFL_THROTL_SLICE_HD` of Linux: a tenth of a second, for disks that say they rotate.
const THROTTLE_SLICE_US: f64 = 1e5;
const SIMULATED_REQUESTS: u64 = 200_000;

/// One scenario, as the real server and the models meet it.
struct Setting {
    name: Name,
    root: PathBuf,
    workload: Workload,
    /// Files that the server finds: those of the workload.
    sizes: Vec<u64>,
    cache_bytes: u64,
    connections: u32,
    /// Of the server's control group; 0: not limited.
    memory_bytes: u64,
    warm_up_requests: u64,
    disk: DiskParameters,
}

/// Runs and simulates everything. `progress` hears how many trials are done, of how many.
///
/// # Errors
/// Files cannot be made, or a server fails.
pub fn validate(plan: &Plan, parameters: &Parameters, progress: impl Fn(usize, usize)) -> io::Result<Report> {
    fs::create_dir_all(&plan.scratch)?;
    let mut report = Report::default();
    let mut kept = Kept::open(plan.trials.as_deref())?;
    let each = ENGINES.len() * WORKERS.len() * plan.rounds.max(1) as usize;
    for (place, &name) in plan.scenarios.iter().enumerate() {
        let result = Setting::of(name, plan, parameters).and_then(|setting| {
            let done = |done| progress(place * each + done, plan.scenarios.len() * each);
            setting.measure(plan, &mut kept, &mut report, done)?;
            if plan.trials_only { Ok(()) } else { setting.compare(&kept, parameters, &mut report) }
        });
        if let Err(error) = result {
            report.left_out.push(format!("{}: {error}", name.name()));
        }
    }
    fs::remove_dir_all(&plan.scratch)?;
    Ok(report)
}

impl Setting {
    fn of(name: Name, plan: &Plan, parameters: &Parameters) -> io::Result<Setting> {
        let missing = || io::Error::other("the parameter set does not know the disk `this`");
        let disk = parameters.disks.get("this").copied().ok_or_else(missing)?;
        let one = |bytes: u64| Setting {
            name,
            root: plan.scratch.join(name.name()),
            workload: Workload::log(name.name(), vec![bytes], vec![0]),
            sizes: vec![bytes],
            cache_bytes: CACHE_BYTES,
            connections: CONNECTIONS,
            memory_bytes: 0,
            warm_up_requests: 0,
            disk,
        };
        Ok(match name {
            Name::Cached => one(SMALL_BYTES),
            Name::CachedLarge => one(LARGE_BYTES),
            Name::Trace => {
                let path = plan.trace.as_ref().ok_or_else(|| io::Error::other("no trace was named"))?;
                let workload = read_trace(path).map_err(|error| io::Error::other(error.to_string()))?;
                // A cache of its own takes up to two and a half times what it counts.
                let (memory_bytes, cache_bytes) = (plan.memory_bytes, plan.memory_bytes / 4);
                let warm_up_requests = PASSES * workload.period().unwrap_or(0) as u64;
                let sizes = workload.sizes.to_vec();
                Setting { workload, sizes, cache_bytes, memory_bytes, warm_up_requests, ..one(SMALL_BYTES) }
            }
            Name::SlowDisk => {
                let workload = Workload::hot_and_cold(HOT_CLIENTS, SMALL_BYTES, COLD_FILES, COLD_BYTES);
                let requests_per_s = READS_PER_S as f64;
                let disk = DiskParameters { requests_per_s, throttle_slice_us: THROTTLE_SLICE_US, ..disk };
                let (sizes, connections) = (workload.sizes.to_vec(), HOT_CLIENTS + COLD_CLIENTS);
                Setting { workload, sizes, cache_bytes: COLD_CACHE_BYTES, connections, disk, ..one(SMALL_BYTES) }
            }
        })
    }

    /// Control groups for the trials: how the server is held to what the scenario gives it.
    fn groups(&self, plan: &Plan) -> io::Result<Vec<Group>> {
        Ok(match self.name {
            Name::Cached | Name::CachedLarge => Vec::new(),
            // The second counts only.
            Name::Trace => {
                vec![Group::with_memory(self.memory_bytes)?, Group::with_reads_per_s(&plan.scratch, u32::MAX.into())?]
            }
            Name::SlowDisk => vec![Group::with_reads_per_s(&plan.scratch, READS_PER_S)?],
        })
    }

    /// Runs the trials that are not kept yet.
    fn measure(&self, plan: &Plan, kept: &mut Kept, report: &mut Report, progress: impl Fn(usize)) -> io::Result<()> {
        let rounds = 0..plan.rounds.max(1) as usize;
        let points = ENGINES.iter().flat_map(|&(engine, _)| WORKERS.map(|workers| (engine, workers)));
        let wanted: Vec<_> = rounds
            .flat_map(|round| points.clone().map(move |(engine, workers)| (round, engine, workers)))
            .filter(|&(round, engine, workers)| kept.trials(self.name, engine, workers).len() <= round)
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        disk::make_files(&self.root, &self.sizes)?;
        let groups = self.groups(plan)?;
        let targets = targets(&self.sizes);
        for (done, (_, engine, workers)) in (1..).zip(wanted) {
            match self.try_out(engine, workers, plan, &groups, &targets) {
                Ok(Some(seen)) => kept.add(self.name, engine, workers, seen)?,
                Ok(None) => report.left_out.push(format!("{}: this program has no {engine}", self.name.name())),
                Err(error) => report.left_out.push(format!("{}, {engine} with {workers}: {error}", self.name.name())),
            }
            progress(done);
        }
        Ok(())
    }

    fn compare(&self, kept: &Kept, parameters: &Parameters, report: &mut Report) -> io::Result<()> {
        for (engine, kind) in ENGINES {
            for workers in WORKERS {
                let seen = kept.trials(self.name, engine, workers);
                if seen.is_empty() {
                    continue;
                }
                let observed = middle_trial(seen);
                let predicted = self.predict(kind, workers, &observed.worker_connections, parameters)?;
                report.rows.push(Row { scenario: self.name, engine, workers, predicted, observed });
            }
        }
        Ok(())
    }

    fn try_out(
        &self,
        engine: &str,
        workers: u32,
        plan: &Plan,
        groups: &[Group],
        targets: &[Target],
    ) -> io::Result<Option<Observed>> {
        if !groups.is_empty() {
            disk::forget_files(&self.root)?;
        }
        let slow = if self.name == Name::SlowDisk { 3 } else { 1 };
        let trial = Trial {
            server: ServerSettings {
                program: plan.program.clone(),
                architecture: engine.into(),
                workers,
                root: self.root.clone(),
                cache_bytes: if engine == "mp" { self.process_cache_bytes() } else { self.cache_bytes },
                configuration: plan.scratch.join("mp.toml"),
                groups: groups.iter().map(|group| group.path.clone()).collect(),
                processors: Vec::new(),
            },
            connections: self.connections,
            usage: Use::Kept { batch: 1 },
            targets,
            warm_up: plan.measured / 2 * slow,
            warm_up_requests: self.warm_up_requests,
            measured: plan.measured * slow,
        };
        let mut requests = self.workload.requests(1);
        trial.run(|client| requests.next_file_of(client as u32) as usize)
    }

    /// Of each process of `mp`.
    fn process_cache_bytes(&self) -> u64 {
        if self.memory_bytes > 0 { PROCESS_CACHE_BYTES_LEAST } else { PROCESS_CACHE_BYTES }
    }

    fn predict(
        &self,
        kind: Kind,
        workers: u32,
        worker_clients: &[u32],
        parameters: &Parameters,
    ) -> io::Result<Outcome> {
        let mut parameters = parameters.clone();
        parameters.disks.insert(DISK.into(), self.disk);
        let processors = trial::processors();
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
            worker_clients: worker_clients.to_vec(),
            requests: SIMULATED_REQUESTS,
            warm_up_requests: self.warm_up_requests.max(SIMULATED_REQUESTS / 4),
            replications: 3,
            ..Default::default()
        };
        if self.memory_bytes > 0 {
            scenario.page_cache_bytes = page_cache_bytes(&scenario, self.memory_bytes, &parameters);
        }
        run_with(&scenario, &parameters, &self.workload, processors)
            .map_err(|error| io::Error::other(error.to_string()))
    }
}

const DISK: &str = "validate";

/// Passes through a log before anything is counted, for the caches to have the content that they have from then on.
const PASSES: u64 = 2;

fn targets(sizes: &[u64]) -> Vec<Target> {
    sizes.iter().enumerate().map(|(number, &size)| Target::get(&format!("/{number}"), size)).collect()
}

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
        Kind::Amped | Kind::CoAmped => clients.min(workers * u64::from(parameters.concurrency.read_helpers)),
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
