//! Measuring a parameter set: what each step of a request costs Lamna on this machine.
//!
//! Owns: which trial gives which parameter, and how. Guarantees: each trial is repeated in rounds, so that a drift of the
//! machine meets all of them, and the medians count; every figure carries a sentence on how it was got. What is not measured
//! keeps the value of the estimate (`linux-2026`) and says so.
//!
//! Two ways are combined. Sums come from the real server under load: processor time for each request, slopes over sizes,
//! differences between engines. How a sum divides into steps comes from single calls ([`micro`]). So errors in the
//! division move time from one step to another, and never invent any.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::load::{Target, Use};
use super::micro;
use super::server::{ServerSettings, confined};
use super::trial::{FOREIGN_MAX, Observed, Trial, median};
use super::{disk, written};
use crate::kernel::Stream;
use crate::parameters::{LoadParameters, Parameters, TransmitBy};

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

const CONNECTIONS: u32 = 32;
/// Content of the trials on size, in bytes. The first is that of all other trials.
const SIZES: [u64; 4] = [500, 5_000, 20_000, 50_000];
/// Requests sent at once, in the two trials whose difference is one more request in a batch.
const BATCHES: [u32; 2] = [16, 64];
/// Enough that the smallest cache holds next to none of them.
const SMALL_FILES: usize = 20_000;
/// Times a small response is passed on: from reading to finding, from there to sending.
const PASSES: u32 = 2;
const CACHE_BYTES: u64 = 64 << 20;
const CACHE_BYTES_LEAST: u64 = 1 << 20;
const UNIT_BYTES: u64 = 512;

/// The trials. Each engine that takes part must be one of this program.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Name {
    Size(u64),
    Batch(u32),
    NewConnections,
    OneClient,
    Pipelined,
    ThreadPerSession,
    ThreadPerRequest,
    Untranslated,
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
    let result = Site::make(plan).and_then(|site| {
        let medians = site.measure(progress)?;
        // The first processor, as the server's.
        let steps = confined(&[0], || Steps::measure(plan))?;
        Ok(derive(plan, &medians, &steps, disk::measure(&plan.scratch.join("disk"))?))
    });
    fs::remove_dir_all(&plan.scratch)?;
    result
}

/// Single steps, in microseconds.
struct Steps {
    parse: f64,
    calls: micro::SocketCalls,
    switch: f64,
    hand_off: f64,
    lock: f64,
    read: f64,
}

impl Steps {
    fn measure(plan: &Plan) -> io::Result<Steps> {
        let switch = micro::switch_us()?;
        let cold = plan.scratch.join("cold");
        disk::make_files(&cold, &[16 * 1024; 64])?;
        let files: Vec<File> =
            (0..64).map(|number| File::open(cold.join(number.to_string()))).collect::<io::Result<_>>()?;
        Ok(Steps {
            parse: micro::parse_and_answer_us(),
            calls: micro::socket_calls()?,
            switch,
            hand_off: micro::hand_off_us(switch)?,
            lock: micro::lock_us(),
            read: micro::read_us(&files, disk::forget)?,
        })
    }
}

struct Site<'p> {
    plan: &'p Plan,
    sizes: Vec<Target>,
    closing: Vec<Target>,
    small: Vec<Target>,
}

impl<'p> Site<'p> {
    fn make(plan: &'p Plan) -> io::Result<Site<'p>> {
        disk::make_files(&plan.scratch.join("sizes"), &SIZES)?;
        disk::make_files(&plan.scratch.join("small"), &[SIZES[0]; SMALL_FILES])?;
        let sizes = (0..).zip(SIZES).map(|(number, size): (u32, u64)| Target::get(&format!("/sizes/{number}"), size));
        Ok(Site {
            plan,
            sizes: sizes.collect(),
            closing: vec![Target::get_and_close("/sizes/0", SIZES[0])],
            small: (0..SMALL_FILES).map(|number| Target::get(&format!("/small/{number}"), SIZES[0])).collect(),
        })
    }

    fn measure(&self, progress: impl Fn(usize, usize)) -> io::Result<Medians> {
        let names: Vec<Name> = SIZES.map(Name::Size).into_iter().chain(BATCHES.map(Name::Batch)).collect();
        let others = [
            Name::NewConnections,
            Name::OneClient,
            Name::Pipelined,
            Name::ThreadPerSession,
            Name::ThreadPerRequest,
            Name::Untranslated,
        ];
        let names: Vec<Name> = names.into_iter().chain(others).collect();
        let rounds = self.plan.rounds.max(1) as usize;
        let mut observed: Vec<Vec<Observed>> = vec![Vec::new(); names.len()];
        for round in 0..rounds {
            for (place, &name) in names.iter().enumerate() {
                observed[place].push(self.run(name)?);
                progress(round * names.len() + place + 1, rounds * names.len());
            }
        }
        Ok(Medians(names.into_iter().zip(observed.iter().map(|rounds| median(rounds))).collect()))
    }

    fn run(&self, name: Name) -> io::Result<Observed> {
        let architecture = match name {
            Name::Pipelined => "pipelined",
            Name::ThreadPerSession => "thread-per-session",
            Name::ThreadPerRequest => "thread-per-request",
            _ => "sped",
        };
        let (targets, usage) = match name {
            Name::NewConnections => (&self.closing, Use::New),
            Name::Batch(batch) => (&self.sizes, Use::Kept { batch }),
            Name::Untranslated => (&self.small, Use::Kept { batch: 1 }),
            _ => (&self.sizes, Use::Kept { batch: 1 }),
        };
        let trial = Trial {
            server: ServerSettings {
                program: self.plan.program.clone(),
                architecture: architecture.into(),
                workers: 1,
                root: self.plan.scratch.clone(),
                cache_bytes: if name == Name::Untranslated { CACHE_BYTES_LEAST } else { CACHE_BYTES },
                groups: Vec::new(),
                processors: Vec::new(),
            },
            connections: if name == Name::OneClient { 1 } else { CONNECTIONS },
            usage,
            targets,
            warm_up: self.plan.measured / 2,
            measured: self.plan.measured,
        };
        let mut random = Stream::new(1, "calibrate");
        let observed = match name {
            Name::Size(size) => {
                let place = SIZES.iter().position(|&one| one == size).unwrap_or(0);
                trial.run(|_| place)?
            }
            Name::Untranslated => trial.run(|_| random.below(SMALL_FILES as u64) as usize)?,
            _ => trial.run(|_| 0)?,
        };
        observed
            .ok_or_else(|| io::Error::other(format!("{} has no engine {architecture}", self.plan.program.display())))
    }
}

/// Intercept and slope of the line with the least squares.
pub fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = across / along;
    (y - slope * x, slope)
}

/// From what was measured to parameters.
fn derive(plan: &Plan, medians: &Medians, steps: &Steps, disk: crate::parameters::DiskParameters) -> Calibration {
    let base = medians.of(Name::Size(SIZES[0]));
    let units = |size: u64| size.div_ceil(UNIT_BYTES) as f64;
    let over_sizes =
        |value: fn(&Observed) -> f64| line(&SIZES.map(|size| (units(size), value(&medians.of(Name::Size(size))))));
    let (server_us, transmit_us) = over_sizes(|o| o.server_us);
    let (load_us, receive_unit_us) = over_sizes(|o| o.load_us - o.vain_us);
    // A batch costs a + n * (one request within it).
    let batch_us = |batch: u32| medians.of(Name::Batch(batch)).server_us * f64::from(batch);
    let within_us = (batch_us(BATCHES[1]) - batch_us(BATCHES[0])) / f64::from(BATCHES[1] - BATCHES[0]);
    let parse_us = steps.parse + steps.calls.receive_request_us;
    let lookup_us = (within_us - steps.parse).max(0.0);
    let poll_share_us = steps.calls.poll_us / base.per_wait.max(1.0);
    let header_us = (server_us - parse_us - lookup_us - poll_share_us).max(0.0);
    let connection_us = (medians.of(Name::NewConnections).server_us - base.server_us).max(0.0);
    let session_us = medians.of(Name::ThreadPerSession).server_us;
    let wait_us = (session_us - (base.server_us - poll_share_us) - steps.switch).max(0.0);
    let sessions = medians.of(Name::ThreadPerSession);
    let rouse_us = (sessions.load_us - sessions.vain_us - (base.load_us - base.vain_us)).max(0.0);
    let pipelined_us = medians.of(Name::Pipelined).server_us;
    let pass_us = ((pipelined_us - base.server_us) / f64::from(PASSES)).max(0.0);
    let spawn_us = (medians.of(Name::ThreadPerRequest).server_us - session_us).max(0.0);
    let untranslated_us = (medians.of(Name::Untranslated).server_us - base.server_us).max(0.0);
    let alone = medians.of(Name::OneClient);
    // The load does not sleep, so only the server has to be woken.
    let wake_us = (alone.latency_p50_us - base.server_us - (base.load_us - base.vain_us)).max(0.0);
    let load = LoadParameters {
        poll_us: steps.calls.poll_us,
        receive_us: (load_us - steps.calls.send_request_us - poll_share_us).max(0.0),
        receive_unit_us,
        send_us: steps.calls.send_request_us,
        rouse_us,
    };

    let mut parameters = Parameters::linux();
    parameters.name = plan.name.clone();
    parameters.source = match medians.0.iter().filter(|(_, observed)| observed.foreign > FOREIGN_MAX).count() {
        0 => "lamna sim calibrate: Lamna on this machine; the comments say how".into(),
        disturbed => format!("lamna sim calibrate, DISTURBED by other work in {disturbed} trials: not to be used"),
    };
    let costs = &mut parameters.costs;
    (costs.connection_us, costs.parse_us, costs.lookup_us, costs.header_us) =
        (connection_us, parse_us, lookup_us, header_us);
    (costs.translate_us, costs.translate_miss_us, costs.read_us) = (0.0, untranslated_us, steps.read);
    (costs.transmit_us, costs.transmit_unit_bytes, costs.transmit_by) =
        (transmit_us, UNIT_BYTES, TransmitBy::Processor);
    (costs.poll_us, costs.wait_us, costs.hand_off_us) = (steps.calls.poll_us, wait_us, steps.hand_off);
    costs.pass_us = pass_us;
    (costs.spawn_us, costs.requests_per_connection) = (spawn_us, 1_000_000);
    (parameters.processor.switch_us, parameters.processor.wake_us) = (steps.switch, wake_us);
    parameters.processor.sleeps_after_us = SLEEPS_AFTER_US;
    (parameters.locks.acquire_us, parameters.locks.front) = (steps.lock, true);
    parameters.memory.translation_fresh_us = 1e6;
    parameters.concurrency.read_helpers = 32;
    parameters.concurrency.send_with_header_bytes = 256 * 1024;
    parameters.load = load;
    parameters.disks.insert("this".into(), disk);
    round(&mut parameters);
    let how = sentences(&base, session_us, pipelined_us, &alone, within_us);
    Calibration { parameters, how }
}

/// Four digits behind the point: nanoseconds and less, finer than anything here was measured.
fn round(parameters: &mut Parameters) {
    let round = |value: &mut f64| *value = (*value * 1e4).round() / 1e4;
    let Parameters { costs, processor, locks, load, disks, .. } = parameters;
    [&mut costs.connection_us, &mut costs.parse_us, &mut costs.translate_miss_us, &mut costs.lookup_us]
        .into_iter()
        .for_each(round);
    [&mut costs.header_us, &mut costs.transmit_us, &mut costs.poll_us, &mut costs.wait_us].into_iter().for_each(round);
    [&mut costs.hand_off_us, &mut costs.pass_us, &mut costs.read_us, &mut costs.spawn_us].into_iter().for_each(round);
    [&mut processor.switch_us, &mut processor.wake_us, &mut locks.acquire_us].into_iter().for_each(round);
    [&mut load.poll_us, &mut load.receive_us, &mut load.receive_unit_us, &mut load.send_us, &mut load.rouse_us]
        .into_iter()
        .for_each(round);
    for disk in disks.values_mut() {
        [&mut disk.latency_us, &mut disk.spread, &mut disk.bytes_per_s].into_iter().for_each(round);
    }
}

/// A processor with less of a pause than this is found awake in the trials; not measured more finely.
const SLEEPS_AFTER_US: f64 = 5.0;

fn sentences(
    base: &Observed,
    session_us: f64,
    pipelined_us: f64,
    alone: &Observed,
    within_us: f64,
) -> Vec<(&'static str, String)> {
    let all =
        format!("server's processor time per request: {:.2} with 500 bytes, kept, 32 connections", base.server_us);
    vec![
        ("costs.connection_us", "sped, a new connection for each request, less a kept one".into()),
        ("costs.requests_per_connection", "kept connections; not measured".into()),
        ("costs.parse_us", "recv(2) of a request and the core's work on it, single calls".into()),
        ("costs.translate_us", "within lookup_us: one look-up finds both".into()),
        ("costs.translate_miss_us", "sped on 20,000 files with the smallest cache, less one file".into()),
        (
            "costs.lookup_us",
            format!("one more request in a batch ({within_us:.3}: 64 against 16) less the core's work"),
        ),
        ("costs.header_us", format!("the rest of the {all}; intercept over sizes")),
        ("costs.transmit_us", "slope of the server's processor time over 500 B to 50 KB".into()),
        ("costs.poll_us", "epoll_wait(2) with one event, single calls".into()),
        ("costs.wait_us", format!("thread-per-session ({session_us:.2}) less sped and one switch")),
        ("costs.hand_off_us", "unparking and parking a thread beyond the switch, single calls".into()),
        (
            "costs.pass_us",
            format!("half of pipelined ({pipelined_us:.2}) less sped: a small response is passed on twice"),
        ),
        ("costs.read_us", "processor time of reading 16 KiB from disk beyond that from memory".into()),
        ("costs.spawn_us", "thread-per-request less thread-per-session".into()),
        ("processor.switch_us", "two threads on one processor and two pipes, less the calls".into()),
        ("processor.quantum_us", "assumed".into()),
        ("processor.granularity_us", "assumed".into()),
        ("processor.wake_us", format!("what one client's latency ({:.1}) has beyond the work", alone.latency_p50_us)),
        ("processor.sleeps_after_us", "assumed".into()),
        ("locks.acquire_us", "a mutex that is free, single calls; unused with fronts".into()),
        ("locks.shards", "assumed; unused with fronts".into()),
        ("locks.front", "as Lamna is built".into()),
        ("memory.entry_bytes", "assumed".into()),
        ("memory.translation_entries", "assumed".into()),
        ("memory.translation_fresh_us", "as Lamna is built".into()),
        ("memory.thread_bytes", "assumed".into()),
        ("memory.helper_bytes", "assumed".into()),
        ("memory.file_bytes_mean", "assumed".into()),
        ("concurrency.processes_per_processor", "as Lamna is built".into()),
        ("concurrency.threads_per_processor", "as Lamna is built".into()),
        ("concurrency.read_helpers", "as Lamna is built: at most".into()),
        ("concurrency.send_quantum_bytes", "as Lamna is built".into()),
        ("concurrency.send_with_header_bytes", "as Lamna is built".into()),
        ("load.poll_us", "as costs.poll_us".into()),
        ("load.receive_us", "the rest of the load's processor time per request; intercept over sizes".into()),
        ("load.receive_unit_us", "slope of the load's processor time over 500 B to 50 KB".into()),
        ("load.send_us", "send(2) of a request, single calls".into()),
        ("load.rouse_us", "the load's processor time on thread-per-session less that on sped".into()),
        ("disks.this.latency_us", "median of 512 cold reads of 4 KiB".into()),
        ("disks.this.spread", "from their tenths at both ends".into()),
        ("disks.this.bytes_per_s", "a cold file of 64 MiB".into()),
        ("disks.this.parallelism", "cold reads per second of 32 threads against one".into()),
    ]
}

#[cfg(test)]
mod tests {
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
        let observed = Observed {
            requests_per_s: 1.0,
            latency_p50_us: 1.0,
            latency_p99_us: 1.0,
            server_us: 1.0,
            load_us: 1.0,
            vain_us: 0.0,
            per_wait: 1.0,
            foreign: 0.0,
            worker_connections: Vec::new(),
        };
        round(&mut parameters);
        let how = sentences(&observed, 1.0, 1.0, &observed, 1.0);
        let count = how.len();
        let text = Calibration { parameters: parameters.clone(), how }.to_toml();
        assert_eq!(text.matches("  # ").count(), count, "{text}");
        assert_eq!(toml::from_str::<Parameters>(&text).expect("it is TOML"), parameters);
    }
}
