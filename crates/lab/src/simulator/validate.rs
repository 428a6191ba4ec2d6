//! Predictions held against reality: each engine in scenarios on this machine, simulated with measured parameters and
//! run.
//!
//! Owns: the scenarios, once as trials of the real server and once as scenarios of the models, and the order in which
//! trials are made. Guarantees: the prediction is made from the parameter set alone, from which worker took which
//! connection, which is a matter of who was awake when they came, and from how fast the machine was by its yardstick;
//! nothing else that is observed flows into it. Where the set is calibrated in the same go, its trials and these
//! alternate, engine by engine and round by round, so that both meet the same hours of the machine. A scenario that
//! this machine does not permit, and an engine that the program does not have, are left out and named.

mod predict;
mod reason;
mod report;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::report::{LATENCY_TOLERANCE, Report, Row, THROUGHPUT_TOLERANCE};
use super::calibrate::{self, Calibration};
use super::disk;
use super::load::{Target, Use};
use super::measurements::{Key, Measurements};
use super::server::ServerSettings;
use super::trial::{ATTEMPTS, Observed, Trial, undisturbed};
use crate::cgroup::{Groups, Limits};
use lamna_sim::arch::Kind;
use lamna_sim::parameters::Parameters;
use lamna_sim::workload::{Workload, read_trace};

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
    /// Memory limit of the server in [`Name::Trace`].
    pub memory_bytes: u64,
    /// Rounds of all trials. At least 1.
    pub rounds: u32,
    /// Where trials are kept (JSON). Those that are there already are not repeated: so a table can be made in several
    /// goes, and predicted anew from the same trials.
    pub trials: Option<PathBuf>,
    /// Calibrates a set of this name in the same go, with trials that alternate with the others.
    pub calibrate: Option<String>,
    /// Begins no trial after so long. What was made until then is kept for the next go, and so are the files to serve.
    pub stop_after: Option<Duration>,
    /// Length of each trial. Those with a slow disk take three times as long.
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
/// The cache of each process of `mp` where memory is short: its least, since 32 of them have it.
const PROCESS_CACHE_BYTES_LEAST: u64 = 1 << 20;
/// As Lamna is built, where memory is not short.
const PROCESS_CACHE_BYTES: u64 = 4 << 20;
/// Small enough that cold files stay cold.
const COLD_CACHE_BYTES: u64 = 16 << 20;
const READS_PER_S: u32 = 200;
/// One scenario, as the real server and the models meet it.
struct Setting {
    name: Name,
    root: PathBuf,
    workload: Workload,
    /// Files that the server finds: those of the workload.
    sizes: Vec<u64>,
    cache_bytes: u64,
    connections: u32,
    /// Memory limit of the server's control group; 0: not limited.
    memory_bytes: u64,
    warm_up_requests: u64,
}

/// The results.
pub struct Validation {
    /// The table. Empty if trials are missing because there was no time left for them.
    pub report: Report,
    /// The set, if it was to be calibrated, and no trials are missing.
    pub calibration: Option<Calibration>,
}

/// Runs and simulates everything. `parameters` count where no set is calibrated. `progress` hears how many trials are
/// done, of how many.
///
/// # Errors
/// Files cannot be made, a server fails that calibration needs, or a kept trial cannot be read.
pub fn validate(plan: &Plan, parameters: &Parameters, progress: impl Fn(usize, usize)) -> io::Result<Validation> {
    fs::create_dir_all(&plan.scratch)?;
    let mut study = Study::new(plan)?;
    study.measure(progress)?;
    if study.left > 0 {
        study.report.left_out.push(format!("{} trials: they are still to be made, by the same command", study.left));
        return Ok(Validation { report: study.report, calibration: None });
    }
    fs::remove_dir_all(&plan.scratch)?;
    let calibration = match &plan.calibrate {
        Some(name) => Some(calibrate::derive_kept(name, &study.kept)?),
        None => None,
    };
    let parameters = calibration.as_ref().map_or(parameters, |calibration| &calibration.parameters);
    study.compare(parameters)?;
    Ok(Validation { report: study.report, calibration })
}

/// The trials of one plan, made or still to be made.
struct Study<'p> {
    plan: &'p Plan,
    calibration: calibrate::Plan,
    settings: Vec<Setting>,
    kept: Measurements,
    report: Report,
    /// Trials that there was no time for.
    left: usize,
}

/// A trial to be made.
#[derive(Clone, Copy)]
enum Wanted {
    /// Single steps and the disk.
    Steps,
    Calibration(calibrate::Name),
    /// The scenario's place, the engine, and its workers.
    Validation(usize, &'static str, u32),
}

impl<'p> Study<'p> {
    fn new(plan: &'p Plan) -> io::Result<Study<'p>> {
        let mut report = Report::default();
        let mut settings = Vec::new();
        for &name in &plan.scenarios {
            match Setting::of(name, plan) {
                Ok(setting) => settings.push(setting),
                Err(error) => report.left_out.push(format!("{}: {error}", name.name())),
            }
        }
        let calibration = calibrate::Plan {
            program: plan.program.clone(),
            name: plan.calibrate.clone().unwrap_or_default(),
            scratch: plan.scratch.join("calibrate"),
            rounds: plan.rounds,
            measured: plan.measured,
        };
        Ok(Study { plan, calibration, settings, kept: Measurements::open(plan.trials.as_deref())?, report, left: 0 })
    }

    /// The missing trials in the order in which they are made: an engine's calibration, then its scenarios.
    fn wanted(&self) -> Vec<Wanted> {
        let calibrates = self.plan.calibrate.is_some();
        let names = if calibrates { calibrate::Name::all() } else { Vec::new() };
        let mut wanted = Vec::new();
        for round in 0..self.plan.rounds.max(1) as usize {
            for (engine, _) in ENGINES {
                let of_engine = names.iter().filter(|name| name.architecture() == engine);
                let missing = of_engine.filter(|name| self.kept.trials(&name.key()).len() <= round);
                wanted.extend(missing.map(|&name| Wanted::Calibration(name)));
                for (place, setting) in self.settings.iter().enumerate() {
                    let missing = |workers: &u32| self.kept.trials(&setting.key(engine, *workers)).len() <= round;
                    let workers = WORKERS.into_iter().filter(missing);
                    wanted.extend(workers.map(|workers| Wanted::Validation(place, engine, workers)));
                }
            }
            // Last: what is written for them is on its way to the disk for seconds.
            if calibrates && self.kept.steps().0.len() <= round {
                wanted.push(Wanted::Steps);
            }
        }
        wanted
    }

    /// Makes the trials that are not kept yet.
    fn measure(&mut self, progress: impl Fn(usize, usize)) -> io::Result<()> {
        let wanted = self.wanted();
        let begun = Instant::now();
        let calibration = self.calibration.clone();
        let calibrates = wanted.iter().any(|one| !matches!(one, Wanted::Validation(..)));
        let site = if calibrates { Some(calibrate::Site::make(&calibration)?) } else { None };
        let mut places: Vec<Option<Place>> = self.settings.iter().map(|_| None).collect();
        for (done, &one) in wanted.iter().enumerate() {
            if self.plan.stop_after.is_some_and(|limit| begun.elapsed() > limit) {
                self.left = wanted.len() - done;
                return Ok(());
            }
            match (one, &site) {
                (Wanted::Steps, Some(site)) => {
                    let (steps, disk) = site.single_steps()?;
                    self.kept.add_steps(steps, disk)?;
                }
                (Wanted::Calibration(name), Some(site)) => self.kept.add(&name.key(), site.run(name)?)?,
                (Wanted::Validation(place, engine, workers), _) => {
                    self.validate_one(&mut places[place], place, engine, workers)?;
                }
                _ => unreachable!("the site was made because something of it is wanted"),
            }
            progress(done + 1, wanted.len());
        }
        Ok(())
    }

    fn validate_one(&mut self, made: &mut Option<Place>, place: usize, engine: &str, workers: u32) -> io::Result<()> {
        let setting = &self.settings[place];
        let name = setting.name.name();
        let seen = match made {
            Some(made) => setting.try_out(engine, workers, self.plan, made),
            None => Place::make(setting, self.plan)
                .and_then(|new| setting.try_out(engine, workers, self.plan, made.insert(new))),
        };
        let left_out = match seen {
            Ok(Some(seen)) => return self.kept.add(&setting.key(engine, workers), seen),
            Ok(None) => format!("{name}: this program has no {engine}"),
            Err(error) => format!("{name}, {engine} with {workers}: {}", error.to_string().trim_end()),
        };
        if !self.report.left_out.contains(&left_out) {
            self.report.left_out.push(left_out);
        }
        Ok(())
    }

    fn compare(&mut self, parameters: &Parameters) -> io::Result<()> {
        for setting in &self.settings {
            for (engine, kind) in ENGINES {
                for workers in WORKERS {
                    let trials = self.kept.trials(&setting.key(engine, workers));
                    if trials.is_empty() {
                        continue;
                    }
                    let observed = undisturbed(&trials);
                    let parameters = &parameters.at_speed(observed.yardstick_us);
                    let predicted = setting.predict(kind, workers, &observed.client_workers, parameters)?;
                    self.report.rows.push(Row { scenario: setting.name, engine, workers, predicted, observed, trials });
                }
            }
        }
        Ok(())
    }
}

/// Files and control groups of a scenario, made.
struct Place {
    groups: Arc<Groups>,
    targets: Vec<Target>,
}

impl Place {
    fn make(setting: &Setting, plan: &Plan) -> io::Result<Place> {
        disk::make_files(&setting.root, &setting.sizes)?;
        Ok(Place { groups: setting.groups(plan)?, targets: targets(&setting.sizes) })
    }
}

impl Setting {
    fn of(name: Name, plan: &Plan) -> io::Result<Setting> {
        let one = |bytes: u64| Setting {
            name,
            root: plan.scratch.join(name.name()),
            workload: Workload::log(name.name(), vec![bytes], vec![0]),
            sizes: vec![bytes],
            cache_bytes: CACHE_BYTES,
            connections: CONNECTIONS,
            memory_bytes: 0,
            warm_up_requests: 0,
        };
        Ok(match name {
            Name::Cached => one(SMALL_BYTES),
            Name::CachedLarge => one(LARGE_BYTES),
            Name::Trace => {
                let path = plan.trace.as_ref().ok_or_else(|| io::Error::other("no trace was named"))?;
                let workload = read_trace(path).map_err(|error| io::Error::other(error.to_string()))?;
                // What the server takes by itself under such a limit.
                let (memory_bytes, cache_bytes) = (plan.memory_bytes, plan.memory_bytes / 2);
                let warm_up_requests = PASSES * workload.period().unwrap_or(0) as u64;
                let sizes = workload.sizes.to_vec();
                Setting { workload, sizes, cache_bytes, memory_bytes, warm_up_requests, ..one(SMALL_BYTES) }
            }
            Name::SlowDisk => {
                let workload = Workload::hot_and_cold(HOT_CLIENTS, SMALL_BYTES, COLD_FILES, COLD_BYTES);
                let (sizes, connections) = (workload.sizes.to_vec(), HOT_CLIENTS + COLD_CLIENTS);
                Setting { workload, sizes, cache_bytes: COLD_CACHE_BYTES, connections, ..one(SMALL_BYTES) }
            }
        })
    }

    /// The key that its trials are kept under.
    fn key(&self, engine: &str, workers: u32) -> Key {
        Key { scenario: self.name.name().into(), engine: engine.into(), workers }
    }

    /// Control groups for the trials: how the server is held to what the scenario gives it.
    fn groups(&self, plan: &Plan) -> io::Result<Arc<Groups>> {
        let limits = match self.name {
            Name::Cached | Name::CachedLarge => Limits::default(),
            // Reads are only counted.
            Name::Trace => Limits { memory_bytes: Some(self.memory_bytes), read_iops: Some(u32::MAX) },
            Name::SlowDisk => Limits { memory_bytes: None, read_iops: Some(READS_PER_S) },
        };
        Groups::new(&limits, &plan.scratch).map(Arc::new).map_err(io::Error::from)
    }

    fn try_out(&self, engine: &str, workers: u32, plan: &Plan, place: &Place) -> io::Result<Option<Observed>> {
        let Place { groups, targets } = place;
        if !groups.entrances().is_empty() {
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
                groups: groups.clone(),
                processors: Vec::new(),
                pinned: false,
            },
            connections: self.connections,
            // Making threads has the kernel work in threads of its own, which looks like others.
            attempts: if engine == "thread-per-request" { 1 } else { ATTEMPTS },
            usage: Use::Measurements { batch: 1 },
            targets,
            warm_up: if self.period() > 1 { WATCHED_AFTER } else { plan.measured / 2 * slow },
            warm_up_requests: self.warm_up_requests,
            measured: if self.period() > 1 { Duration::ZERO } else { plan.measured * slow },
            // A whole pass: in parts of a log there are more misses than in others.
            measured_requests: if self.period() > 1 { self.period() } else { 0 },
        };
        let mut requests = self.workload.requests(1);
        trial.run(|client| requests.next_file_of(client as u32) as usize)
    }

    /// Requests of a pass through the log; 1 if it is one request.
    fn period(&self) -> u64 {
        self.workload.period().map_or(1, |requests| requests as u64)
    }

    /// The cache of each process of `mp`.
    fn process_cache_bytes(&self) -> u64 {
        if self.memory_bytes > 0 { PROCESS_CACHE_BYTES_LEAST } else { PROCESS_CACHE_BYTES }
    }
}

/// A thread of the server's takes its time to watch files that have come into the cache; until then they are compared
/// with the file system now and then.
const WATCHED_AFTER: Duration = Duration::from_millis(1_500);
/// Passes through a log before anything is counted, for the caches to have the content that they have from then on.
const PASSES: u64 = 2;

fn targets(sizes: &[u64]) -> Vec<Target> {
    sizes.iter().enumerate().map(|(number, &size)| Target::get(&format!("/{number}"), size)).collect()
}
