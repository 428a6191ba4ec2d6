//! Measuring a parameter set: what each step of a request costs Lamna on this machine.
//!
//! Owns: which trial gives which parameter, and how. Guarantees: each trial is repeated in rounds, so that a drift of the
//! machine meets all of them, and the medians count; every figure carries a sentence on how it was got. What is not measured
//! keeps the value of the estimate (`linux-2026`) and says so.
//!
//! Three ways are combined. Sums come from the real server under load: processor time for each request, slopes over sizes.
//! How a sum divides into steps comes from single calls ([`micro`]), so errors in the division move time from one step to
//! another, and never invent any. And what an engine costs beyond the steps is the value with which the model of a trial
//! takes the processor time that the trial took, so nothing is counted twice.
//!
//! None of the trials is one of the scenarios of the validation: clients and content are others.

mod derive;
mod invert;
mod sentences;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use self::derive::derive;
use super::cgroup::Group;
use super::kept::{Kept, Key};
use super::load::{Target, Use};
use super::micro;
use super::server::{ServerSettings, confined};
use super::trial::{ATTEMPTS, Observed, Trial, median};
use super::{disk, written};
use crate::kernel::Stream;
use crate::parameters::{DiskParameters, Parameters};
use serde::{Deserialize, Serialize};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `lamna`.
    pub program: PathBuf,
    /// What the set is to be called.
    pub name: String,
    /// A folder for files to serve, on the disk in question; made and removed.
    pub scratch: PathBuf,
    /// Rounds of all trials. At least 1.
    pub rounds: u32,
    /// Of each trial, after half as long to warm up.
    pub measured: Duration,
}

/// A set, and for each of its values how it was got: the field's path (`costs.parse_us`) and a sentence.
pub struct Calibration {
    /// What was measured.
    pub parameters: Parameters,
    how: Vec<(&'static str, String)>,
}

impl Calibration {
    /// As a parameter file, with the sentences as comments.
    pub fn to_toml(&self) -> String {
        written::with_comments(&self.parameters, &self.how)
    }
}

const CONNECTIONS: u32 = 24;
/// So few that stages sleep between two requests.
const CONNECTIONS_FEW: u32 = 4;
/// Content of the trials on size, in bytes. The first is that of all other trials, the last is two segments of loopback.
const SIZES: [u64; 5] = [1_000, 5_000, 20_000, 40_000, 80_000];
/// Requests sent at once, in the two trials whose difference is one more request in a batch.
const BATCHES: [u32; 2] = [16, 64];
/// Enough that the smallest cache holds next to none of them.
const SMALL_FILES: usize = 20_000;
const LONGER_FILES: usize = 2_000;
/// Of these, so many that the cache holds them and the nearest caches of a processor do not.
const FAR_SMALL_FILES: usize = 8_000;
const FAR_LONGER_FILES: usize = 600;
/// Requests for each of them before anything is counted: one in e^8 is then asked for the first time.
const FAR_PASSES: u64 = 8;
const WATCHED_AFTER: Duration = Duration::from_millis(1_500);
/// Files of these sizes that a control group of [`LIMIT_BYTES`] cannot hold, so that most have to be read from disk. The first is
/// that of the engine with helpers, too; the last is longer than what the server's cache takes.
const COLD_SIZES: [u64; 3] = [16 * 1024, 128 * 1024, 1024 * 1024];
const COLD_BYTES: u64 = 128 << 20;
const LIMIT_BYTES: u64 = 48 << 20;
/// Files of many sizes, as a site has them, for filling a cache.
const MIXED_FILES: u64 = 3_000;
const MIXED_BYTES_LEAST: f64 = 500.0;
const MIXED_BYTES_MOST: f64 = 250_000.0;
const MIXED_CACHE_BYTES: u64 = 32 << 20;
const CACHE_BYTES: u64 = 64 << 20;
const PROCESS_CACHE_BYTES: u64 = 4 << 20;
const CACHE_BYTES_LEAST: u64 = 1 << 20;
const UNIT_BYTES: u64 = 512;
/// What a helper copies at once, at most.
const COPIED_BYTES: usize = 1 << 20;

/// The trials. Each engine that takes part must be one of this program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Name {
    /// `sped` on a file of this size.
    Size(u64),
    /// `sped`, so many requests at once.
    Batch(u32),
    NewConnections,
    OneClient,
    /// This engine on the smallest file.
    Engine(&'static str),
    /// The same with few clients.
    Few(&'static str),
    /// `thread-per-request` with two workers.
    SpreadThreads,
    Untranslated,
    /// The same with files of 16 KiB.
    UntranslatedLonger,
    /// `sped` on many small files, all in its cache and few in the processor's.
    Far,
    /// The same with files of 16 KiB.
    FarLonger,
    /// `sped` on files of this size that are not in memory.
    Cold(u64),
    /// `amped` on the smaller ones.
    ColdTried,
    /// `sped` with two workers, of which one shares its processor with the load, on a file of this size.
    Shared(u64),
    /// A cache filled with files of many sizes, by one thread.
    Filled,
    /// The same by the threads of a pool.
    FilledByThreads,
}

/// Engines whose own cost beyond the steps is measured.
const ENGINES: [&str; 8] =
    ["amped", "co-amped", "proactor", "pipelined", "thread-pool", "thread-per-session", "thread-per-request", "mp"];
/// Content of the trials with two workers.
const SHARED_SIZES: [u64; 2] = [SIZES[0], SIZES[2]];

impl Name {
    /// All of them.
    pub(super) fn all() -> Vec<Name> {
        let mut names: Vec<Name> = SIZES.map(Name::Size).into_iter().chain(BATCHES.map(Name::Batch)).collect();
        names.extend([Name::NewConnections, Name::OneClient, Name::Untranslated, Name::UntranslatedLonger]);
        names.extend([Name::Far, Name::FarLonger, Name::Filled, Name::FilledByThreads]);
        names.extend(SHARED_SIZES.map(Name::Shared));
        names.extend(COLD_SIZES.map(Name::Cold));
        names.extend(ENGINES.map(Name::Engine));
        names.extend([Name::Few("pipelined"), Name::SpreadThreads, Name::ColdTried]);
        names
    }

    /// What it is kept as.
    pub(super) fn key(self) -> Key {
        Key { scenario: format!("calibrate: {self:?}"), engine: self.architecture().into(), workers: self.workers() }
    }

    /// The engine.
    pub(super) fn architecture(self) -> &'static str {
        match self {
            Name::Engine(engine) | Name::Few(engine) => engine,
            Name::SpreadThreads => "thread-per-request",
            Name::ColdTried => "amped",
            Name::FilledByThreads => "thread-pool",
            _ => "sped",
        }
    }

    fn workers(self) -> u32 {
        if matches!(self, Name::Shared(_) | Name::SpreadThreads) { 2 } else { 1 }
    }

    fn connections(self) -> u32 {
        match self {
            Name::OneClient => 1,
            Name::Few(_) => CONNECTIONS_FEW,
            _ => CONNECTIONS,
        }
    }

    fn usage(self) -> Use {
        match self {
            Name::NewConnections => Use::New,
            Name::Batch(batch) => Use::Kept { batch },
            _ => Use::Kept { batch: 1 },
        }
    }

    fn cache_bytes(self) -> u64 {
        match self {
            Name::Untranslated | Name::UntranslatedLonger | Name::Cold(_) | Name::ColdTried => CACHE_BYTES_LEAST,
            Name::Filled | Name::FilledByThreads => MIXED_CACHE_BYTES,
            Name::Engine("mp") => PROCESS_CACHE_BYTES,
            _ => CACHE_BYTES,
        }
    }

    fn warm_up_requests(self) -> u64 {
        match self {
            Name::Far => FAR_PASSES * FAR_SMALL_FILES as u64,
            Name::FarLonger => FAR_PASSES * FAR_LONGER_FILES as u64,
            _ => 0,
        }
    }

    /// Whether what is asked for is in the cache and mostly in none of the processor's.
    fn is_far(self) -> bool {
        matches!(self, Name::Far | Name::FarLonger)
    }

    /// Whether the kernel works in threads of its own for it, which looks like others.
    fn makes_threads(self) -> bool {
        self.architecture() == "thread-per-request"
    }

    /// Whether most of what is asked for has to be read from disk.
    fn is_cold(self) -> bool {
        matches!(self, Name::Cold(_) | Name::ColdTried)
    }
}

/// Medians over the rounds.
struct Medians(Vec<(Name, Observed)>);

impl Medians {
    fn of(&self, name: Name) -> Observed {
        self.0
            .iter()
            .find(|(own, _)| *own == name)
            .map(|(_, observed)| observed.clone())
            .unwrap_or_else(|| unreachable!("every trial was run"))
    }
}

/// Measures. `progress` hears how many trials are done, of how many.
///
/// # Errors
/// The server cannot be run, or an engine is missing that calibration needs.
pub fn calibrate(plan: &Plan, progress: impl Fn(usize, usize)) -> io::Result<Calibration> {
    fs::create_dir_all(&plan.scratch)?;
    let mut kept = Kept::open(None)?;
    let result = Site::make(plan).and_then(|site| {
        let (names, rounds) = (Name::all(), plan.rounds.max(1) as usize);
        for round in 0..rounds {
            for (place, &name) in names.iter().enumerate() {
                kept.add(&name.key(), site.run(name)?)?;
                progress(round * names.len() + place + 1, rounds * names.len());
            }
        }
        let (steps, disk) = site.single_steps()?;
        kept.add_steps(steps, disk)?;
        derive_kept(&plan.name, &kept)
    });
    fs::remove_dir_all(&plan.scratch)?;
    result
}

/// The set that follows from the medians of what is kept.
///
/// # Errors
/// A trial is missing.
pub(super) fn derive_kept(name: &str, kept: &Kept) -> io::Result<Calibration> {
    let yardstick_us = kept.yardstick_us();
    let missing = |name: Name| io::Error::other(format!("the trial `{}` is missing", name.key().scenario));
    let medians = |name: Name| match kept.trials(&name.key()) {
        none if none.is_empty() => Err(missing(name)),
        trials => {
            let trials: Vec<_> = trials.into_iter().map(|trial| trial.at_speed(yardstick_us)).collect();
            Ok((name, median(&trials)))
        }
    };
    let medians = Medians(Name::all().into_iter().map(medians).collect::<io::Result<_>>()?);
    let (steps, disks) = kept.steps();
    let steps: Vec<_> = steps.iter().map(|steps| steps.at_speed(yardstick_us)).collect();
    if steps.is_empty() {
        return Err(io::Error::other("single steps were not measured"));
    }
    Ok(derive(name, &medians, &Steps::median(&steps), disk::median(disks), yardstick_us))
}

/// Single steps, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Steps {
    parse: f64,
    calls: micro::SocketCalls,
    switch: f64,
    hand_off: f64,
    lock: f64,
    turn: f64,
    /// Of each unit.
    #[serde(default)]
    copy_unit: f64,
    /// How fast the machine was; 0: not known.
    #[serde(default)]
    yardstick: f64,
}

impl Steps {
    /// On the one processor that the thread is confined to.
    fn measure() -> io::Result<Steps> {
        let switch = micro::switch_us()?;
        Ok(Steps {
            parse: micro::parse_and_answer_us(),
            calls: micro::socket_calls()?,
            switch,
            hand_off: micro::hand_off_us(switch)?,
            lock: micro::lock_us(),
            turn: micro::turn_us()?,
            copy_unit: micro::copy_us(COPIED_BYTES)? / (COPIED_BYTES as f64 / UNIT_BYTES as f64),
            yardstick: micro::yardstick_us(1)?,
        })
    }

    /// As on a machine as fast as it is when the yardstick takes so long. Turns are a matter of the clock.
    fn at_speed(&self, yardstick_us: f64) -> Steps {
        let factor = if self.yardstick > 0.0 { yardstick_us / self.yardstick } else { 1.0 };
        let calls = &self.calls;
        Steps {
            parse: self.parse * factor,
            calls: micro::SocketCalls {
                send_request_us: calls.send_request_us * factor,
                poll_us: calls.poll_us * factor,
                receive_request_us: calls.receive_request_us * factor,
                send_response_us: calls.send_response_us * factor,
                receive_response_us: calls.receive_response_us * factor,
            },
            switch: self.switch * factor,
            hand_off: self.hand_off * factor,
            lock: self.lock * factor,
            turn: self.turn,
            copy_unit: self.copy_unit * factor,
            yardstick: yardstick_us,
        }
    }

    /// Value by value.
    fn median(all: &[Steps]) -> Steps {
        let of = |value: fn(&Steps) -> f64| micro::middle(all.iter().map(value).collect());
        Steps {
            parse: of(|steps| steps.parse),
            calls: micro::SocketCalls {
                send_request_us: of(|steps| steps.calls.send_request_us),
                poll_us: of(|steps| steps.calls.poll_us),
                receive_request_us: of(|steps| steps.calls.receive_request_us),
                send_response_us: of(|steps| steps.calls.send_response_us),
                receive_response_us: of(|steps| steps.calls.receive_response_us),
            },
            switch: of(|steps| steps.switch),
            hand_off: of(|steps| steps.hand_off),
            lock: of(|steps| steps.lock),
            turn: of(|steps| steps.turn),
            copy_unit: of(|steps| steps.copy_unit),
            yardstick: of(|steps| steps.yardstick),
        }
    }
}

/// Files to serve, made.
pub(super) struct Site<'p> {
    plan: &'p Plan,
    sizes: Vec<Target>,
    closing: Vec<Target>,
    small: Vec<Target>,
    longer: Vec<Target>,
    cold: Vec<Vec<Target>>,
    mixed: Vec<Target>,
    /// For the cold trials.
    groups: Vec<Group>,
}

impl<'p> Site<'p> {
    pub(super) fn make(plan: &'p Plan) -> io::Result<Site<'p>> {
        disk::make_files(&plan.scratch.join("sizes"), &SIZES)?;
        disk::make_files(&plan.scratch.join("small"), &[SIZES[0]; SMALL_FILES])?;
        let sizes = (0..).zip(SIZES).map(|(number, size): (u32, u64)| Target::get(&format!("/sizes/{number}"), size));
        let longer = [COLD_SIZES[0]; LONGER_FILES];
        let folders =
            [("cold-0", cold_files(0)), ("cold-1", cold_files(1)), ("cold-2", cold_files(2)), ("mixed", mixed_files())];
        for (folder, files) in
            folders.iter().map(|(folder, files)| (*folder, &files[..])).chain([("longer", &longer[..])])
        {
            disk::make_files(&plan.scratch.join(folder), files)?;
        }
        Ok(Site {
            plan,
            sizes: sizes.collect(),
            closing: vec![Target::get_and_close("/sizes/0", SIZES[0])],
            small: beneath("/small", &[SIZES[0]; SMALL_FILES]),
            longer: beneath("/longer", &longer),
            cold: (0..COLD_SIZES.len()).map(|place| beneath(&format!("/cold-{place}"), &cold_files(place))).collect(),
            mixed: beneath("/mixed", &mixed_files()),
            groups: limiting_groups(plan).unwrap_or_default(),
        })
    }

    /// Single steps, and the disk.
    pub(super) fn single_steps(&self) -> io::Result<(Steps, DiskParameters)> {
        // The first processor, as the server's.
        Ok((confined(&[0], Steps::measure)?, disk::measure(&self.plan.scratch.join("disk"))?))
    }

    /// Makes one trial.
    pub(super) fn run(&self, name: Name) -> io::Result<Observed> {
        let targets = match name {
            Name::NewConnections => &self.closing[..],
            Name::Untranslated => &self.small[..],
            Name::Far => &self.small[..FAR_SMALL_FILES],
            Name::FarLonger => &self.longer[..FAR_LONGER_FILES],
            Name::UntranslatedLonger => &self.longer,
            Name::Cold(size) => &self.cold[COLD_SIZES.iter().position(|&one| one == size).unwrap_or(0)],
            Name::ColdTried => &self.cold[0],
            Name::Filled | Name::FilledByThreads => &self.mixed,
            _ => &self.sizes,
        };
        if name.is_cold() {
            (0..COLD_SIZES.len()).try_for_each(|place| disk::forget_files(&self.cold_folder(place)))?;
        }
        // Made by an earlier go, they may have left the memory.
        match name {
            Name::Untranslated => disk::fetch_files(&self.plan.scratch.join("small"))?,
            Name::UntranslatedLonger => disk::fetch_files(&self.plan.scratch.join("longer"))?,
            _ => {}
        }
        let groups = if name.is_cold() { &self.groups[..] } else { &[] };
        let trial = Trial {
            server: ServerSettings {
                program: self.plan.program.clone(),
                architecture: name.architecture().into(),
                workers: name.workers(),
                root: self.plan.scratch.clone(),
                cache_bytes: name.cache_bytes(),
                configuration: self.plan.scratch.join("mp.toml"),
                groups: groups.iter().map(|group| group.path.clone()).collect(),
                processors: Vec::new(),
                pinned: false,
            },
            connections: name.connections(),
            attempts: if name.makes_threads() { 1 } else { ATTEMPTS },
            usage: name.usage(),
            targets,
            // A thread of the server's takes its time to watch files that have come into the cache.
            warm_up: if name.is_far() { WATCHED_AFTER } else { self.plan.measured / 2 },
            warm_up_requests: name.warm_up_requests(),
            measured: self.plan.measured,
            measured_requests: 0,
        };
        let mut random = Stream::new(1, "calibrate");
        let observed = match name {
            Name::Size(size) | Name::Shared(size) => {
                let place = SIZES.iter().position(|&one| one == size).unwrap_or(0);
                trial.run(|_| place)?
            }
            _ if targets.len() > SIZES.len() => trial.run(|_| random.below(targets.len() as u64) as usize)?,
            _ => trial.run(|_| 0)?,
        };
        let missing = || format!("{} has no engine {}", self.plan.program.display(), name.architecture());
        observed.ok_or_else(|| io::Error::other(missing()))
    }

    fn cold_folder(&self, place: usize) -> PathBuf {
        self.plan.scratch.join(format!("cold-{place}"))
    }
}

/// For the cold trials; not everybody may have them.
fn limiting_groups(plan: &Plan) -> io::Result<Vec<Group>> {
    Ok(vec![Group::with_memory(LIMIT_BYTES)?, Group::with_reads_per_s(&plan.scratch, u32::MAX.into())?])
}

fn cold_files(place: usize) -> Vec<u64> {
    vec![COLD_SIZES[place]; (COLD_BYTES / COLD_SIZES[place]) as usize]
}

/// Log-uniform.
fn mixed_files() -> Vec<u64> {
    let ratio = MIXED_BYTES_MOST / MIXED_BYTES_LEAST;
    let size = |number: u64| MIXED_BYTES_LEAST * ratio.powf(number as f64 / MIXED_FILES as f64);
    (0..MIXED_FILES).map(|number| size(number) as u64).collect()
}

fn beneath(folder: &str, sizes: &[u64]) -> Vec<Target> {
    sizes.iter().enumerate().map(|(number, &size)| Target::get(&format!("{folder}/{number}"), size)).collect()
}

#[cfg(test)]
mod tests {
    use super::derive::{line, round};
    use super::sentences::sentences;
    use super::*;

    #[test]
    fn the_line_through_points_on_a_line_is_found() {
        let (intercept, slope) = line(&[(1.0, 5.0), (10.0, 23.0), (4.0, 11.0)]);
        assert!((intercept - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
    }

    #[test]
    fn every_measured_field_is_commented_in_the_file() {
        let mut parameters = Parameters::linux();
        parameters.disks.insert("this".into(), parameters.disks["ssd"]);
        parameters.engines = ["amped", "co-amped", "proactor", "thread-pool"].map(|engine| (engine.into(), 1.0)).into();
        let observed = Observed { server_us: 1.0, per_wait: 1.0, ..Observed::default() };
        round(&mut parameters);
        let how = sentences(&observed, &observed, 1.0);
        let count = how.len();
        let text = Calibration { parameters: parameters.clone(), how }.to_toml();
        assert_eq!(text.matches("  # ").count(), count, "{text}");
        assert_eq!(toml::from_str::<Parameters>(&text).expect("it is TOML"), parameters);
    }
}
