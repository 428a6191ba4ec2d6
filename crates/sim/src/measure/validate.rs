//! Predictions held against reality: each engine in scenarios on this machine, simulated with measured parameters and run.
//!
//! Owns: the scenarios, once as trials of the real server and once as scenarios of the models. Guarantees: the prediction is
//! made from the parameter set alone, and from how many connections each worker took, which is a matter of who was
//! awake when they came; nothing else that is observed flows into it. A scenario that this machine does not permit,
//! and an engine that the program does not have, are left out and named.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::cgroup::Group;
use super::disk;
use super::load::{Target, Use};
use super::server::ServerSettings;
use super::trial::{self, Observed, Trial, middle_trial};
use crate::arch::Kind;
use crate::kernel::Stream;
use crate::parameters::{DiskParameters, Parameters};
use crate::run::{Outcome, run_with};
use crate::scenario::Scenario;
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
    /// Of each trial. Those with a slow disk take three times as long.
    pub measured: Duration,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which scenario.
    pub scenario: Name,
    /// The real engine.
    pub engine: &'static str,
    /// Its workers.
    pub workers: u32,
    /// What the models say.
    pub predicted: Outcome,
    /// What was seen.
    pub observed: Observed,
}

/// Throughput is to be within this of what was measured.
pub const THROUGHPUT_TOLERANCE: f64 = 0.15;
/// Median latency likewise.
pub const LATENCY_TOLERANCE: f64 = 0.25;

impl Row {
    /// Predicted over measured throughput, less one.
    pub fn throughput_error(&self) -> f64 {
        self.predicted.requests_per_s.mean / self.observed.requests_per_s - 1.0
    }

    /// Predicted over measured median latency, less one.
    pub fn latency_error(&self) -> f64 {
        self.predicted.latency_p50_us / self.observed.latency_p50_us - 1.0
    }

    /// Whether both are within what is asked for.
    pub fn holds(&self) -> bool {
        self.throughput_error().abs() <= THROUGHPUT_TOLERANCE && self.latency_error().abs() <= LATENCY_TOLERANCE
    }
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
/// Small enough that cold files stay cold.
const COLD_CACHE_BYTES: u64 = 16 << 20;
const READS_PER_S: u64 = 200;
const SIMULATED_REQUESTS: u64 = 200_000;

/// What came of it: lines, and what had to be left out and why.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of scenarios, engines and workers.
    pub rows: Vec<Row>,
    /// In words.
    pub left_out: Vec<String>,
}

/// One scenario, made ready.
struct Setting {
    name: Name,
    root: PathBuf,
    targets: Vec<Target>,
    workload: Workload,
    cache_bytes: u64,
    connections: u32,
    group: Option<Group>,
    /// For the models; the disk is `validate`.
    memory_bytes: u64,
    data_cache_bytes: u64,
    disk: DiskParameters,
}

/// Runs and simulates everything. `progress` hears how many trials are done, of how many.
///
/// # Errors
/// Files cannot be made, or a server fails.
pub fn validate(plan: &Plan, parameters: &Parameters, progress: impl Fn(usize, usize)) -> io::Result<Report> {
    fs::create_dir_all(&plan.scratch)?;
    let mut report = Report::default();
    let rounds = plan.rounds.max(1) as usize;
    let each = ENGINES.len() * WORKERS.len() * rounds;
    for (place, &name) in plan.scenarios.iter().enumerate() {
        let result = Setting::make(name, plan, parameters).and_then(|setting| {
            let done = |done| progress(place * each + done, plan.scenarios.len() * each);
            setting.measure(plan, parameters, &mut report, done)
        });
        if let Err(error) = result {
            report.left_out.push(format!("{}: {error}", name.name()));
        }
    }
    fs::remove_dir_all(&plan.scratch)?;
    Ok(report)
}

impl Setting {
    fn make(name: Name, plan: &Plan, parameters: &Parameters) -> io::Result<Setting> {
        let root = plan.scratch.join(name.name());
        let unlimited = DiskParameters { latency_us: 100.0, spread: 0.0, bytes_per_s: 1e9, parallelism: 1 };
        let one = |bytes: u64| -> io::Result<Setting> {
            disk::make_files(&root, &[bytes])?;
            Ok(Setting {
                name,
                root: root.clone(),
                targets: targets(&[bytes]),
                workload: Workload::log(name.name(), vec![bytes], vec![0]),
                cache_bytes: CACHE_BYTES,
                connections: CONNECTIONS,
                group: None,
                memory_bytes: 1 << 30,
                data_cache_bytes: 0,
                disk: unlimited,
            })
        };
        match name {
            Name::Cached => one(SMALL_BYTES),
            Name::CachedLarge => one(LARGE_BYTES),
            Name::Trace => {
                let path = plan.trace.as_ref().ok_or_else(|| io::Error::other("no trace was named"))?;
                let workload = read_trace(path).map_err(|error| io::Error::other(error.to_string()))?;
                let disk = parameters.disks.get("this").copied();
                let disk = disk.ok_or_else(|| io::Error::other("the parameter set does not know the disk `this`"))?;
                let base = one(SMALL_BYTES)?;
                disk::make_files(&root, &workload.sizes)?;
                let group = Some(Group::with_memory(plan.memory_bytes)?);
                let (memory_bytes, targets) = (plan.memory_bytes, targets(&workload.sizes));
                let cache_bytes = plan.memory_bytes / 2;
                Ok(Setting { targets, workload, cache_bytes, group, memory_bytes, disk, ..base })
            }
            Name::SlowDisk => {
                let mut sizes = vec![COLD_BYTES; COLD_FILES as usize + 1];
                sizes[0] = SMALL_BYTES;
                let base = one(SMALL_BYTES)?;
                disk::make_files(&root, &sizes)?;
                let latency_us = 1e6 / READS_PER_S as f64;
                Ok(Setting {
                    targets: targets(&sizes),
                    workload: Workload::hot_and_cold(HOT_CLIENTS, SMALL_BYTES, COLD_FILES, COLD_BYTES),
                    cache_bytes: COLD_CACHE_BYTES,
                    connections: HOT_CLIENTS + COLD_CLIENTS,
                    group: Some(Group::with_reads_per_s(&plan.scratch, READS_PER_S)?),
                    data_cache_bytes: COLD_CACHE_BYTES,
                    disk: DiskParameters { latency_us, spread: 0.0, bytes_per_s: 1e12, parallelism: 1 },
                    ..base
                })
            }
        }
    }

    fn measure(
        &self,
        plan: &Plan,
        parameters: &Parameters,
        report: &mut Report,
        progress: impl Fn(usize),
    ) -> io::Result<()> {
        let points: Vec<_> = ENGINES.iter().flat_map(|&engine| WORKERS.map(|workers| (engine, workers))).collect();
        let mut observed: Vec<Vec<Observed>> = vec![Vec::new(); points.len()];
        for round in 0..plan.rounds.max(1) as usize {
            for (place, &((engine, _), workers)) in points.iter().enumerate() {
                match self.try_out(engine, workers, plan) {
                    Ok(Some(seen)) => observed[place].push(seen),
                    Ok(None) if round == 0 && workers == 1 => {
                        report.left_out.push(format!("{}: this program has no engine {engine}", self.name.name()));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        report.left_out.push(format!("{}, {engine} with {workers}: {error}", self.name.name()))
                    }
                }
                progress(round * points.len() + place + 1);
            }
        }
        for (&((engine, kind), workers), seen) in points.iter().zip(observed) {
            if seen.is_empty() {
                continue;
            }
            let observed = middle_trial(seen);
            let predicted = self.predict(kind, workers, &observed.worker_connections, parameters)?;
            report.rows.push(Row { scenario: self.name, engine, workers, predicted, observed });
        }
        Ok(())
    }

    fn try_out(&self, engine: &str, workers: u32, plan: &Plan) -> io::Result<Option<Observed>> {
        if self.group.is_some() {
            disk::forget_files(&self.root)?;
        }
        let slow = if self.name == Name::SlowDisk { 3 } else { 1 };
        let trial = Trial {
            server: ServerSettings {
                program: plan.program.clone(),
                architecture: engine.into(),
                workers,
                root: self.root.clone(),
                cache_bytes: self.cache_bytes,
                groups: self.group.iter().map(|group| group.path.clone()).collect(),
                processors: Vec::new(),
            },
            connections: self.connections,
            usage: Use::Kept { batch: 1 },
            targets: &self.targets,
            warm_up: plan.measured / 2 * slow,
            measured: plan.measured * slow,
        };
        let mut requests = self.workload.requests(1);
        let mut random = Stream::new(2, "cold");
        match self.name {
            Name::SlowDisk => trial.run(|client| match (client as u32) < HOT_CLIENTS {
                true => 0,
                false => 1 + random.below(COLD_FILES.into()) as usize,
            }),
            _ => trial.run(|_| requests.next_file() as usize),
        }
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
        let scenario = Scenario {
            architecture: kind,
            workload: self.name.name().into(),
            processors: processors as u32,
            system_memory_bytes: self.memory_bytes,
            data_cache_bytes: self.data_cache_bytes,
            disk: DISK.into(),
            clients: self.connections,
            workers,
            clients_on_server: true,
            clients_spin: workers == 1 && processors > 1,
            bound_workers: true,
            worker_clients: worker_clients.to_vec(),
            requests: SIMULATED_REQUESTS,
            warm_up_requests: SIMULATED_REQUESTS / 4,
            replications: 3,
            ..Default::default()
        };
        run_with(&scenario, &parameters, &self.workload, processors)
            .map_err(|error| io::Error::other(error.to_string()))
    }
}

const DISK: &str = "validate";

fn targets(sizes: &[u64]) -> Vec<Target> {
    sizes.iter().enumerate().map(|(number, &size)| Target::get(&format!("/{number}"), size)).collect()
}

impl Report {
    /// As a table for people.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from(
            "| scenario | engine | workers | requests/s predicted | measured | error | p50 us predicted | measured | error | within | others |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n",
        );
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {:.0} | {:.0} | {:+.0} % | {:.0} | {:.0} | {:+.0} % | {} | {:.0} % |",
                row.scenario.name(),
                row.engine,
                row.workers,
                row.predicted.requests_per_s.mean,
                row.observed.requests_per_s,
                row.throughput_error() * 100.0,
                row.predicted.latency_p50_us,
                row.observed.latency_p50_us,
                row.latency_error() * 100.0,
                if row.holds() { "yes" } else { "no" },
                row.observed.foreign * 100.0
            );
        }
        for one in &self.left_out {
            let _ = writeln!(text, "\nLeft out: {one}.");
        }
        text
    }

    /// As CSV.
    pub fn to_csv(&self) -> String {
        let mut text = String::from(
            "scenario,engine,workers,predicted_requests_per_s,measured_requests_per_s,predicted_p50_us,measured_p50_us,\
             predicted_p99_us,measured_p99_us,server_us,load_us,foreign_share,within\n",
        );
        for row in &self.rows {
            let (predicted, observed) = (&row.predicted, &row.observed);
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{},{},{},{:.1},{:.1},{:.1},{:.1},{:.1},{:.1},{:.3},{:.3},{:.4},{}",
                row.scenario.name(),
                row.engine,
                row.workers,
                predicted.requests_per_s.mean,
                observed.requests_per_s,
                predicted.latency_p50_us,
                observed.latency_p50_us,
                predicted.latency_p99_us,
                observed.latency_p99_us,
                observed.server_us,
                observed.load_us - observed.vain_us,
                observed.foreign,
                row.holds()
            );
        }
        text
    }
}
