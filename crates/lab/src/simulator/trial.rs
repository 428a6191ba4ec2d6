//! One trial: a server, a load on it, and what both of them did in a stretch of time.
//!
//! Owns: which processors they run on, and which worker has which connection. The load has the last processor; a server
//! with one worker has the first to itself, one with more has each of its workers, and the threads that belong to it,
//! on one (`--pin`), with as many connections as the others. A load that has its processor to itself spins. Left to
//! itself, Linux puts a loop and the load that it exchanges messages with on one processor in one run and on two in the
//! next, which halves or doubles the result and is nothing that a model of an architecture could predict. And a load
//! that sleeps makes the server pay for waking it: on a virtual machine a few microseconds or twenty, as the sleep of
//! its processor is light or deep.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::thread::available_parallelism;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::load::{Load, Target, Use};
use super::micro;
use super::quiet::{APART_NS, Look, QUIET};
use super::server::{Server, ServerSettings};
use super::spread::{self, Spread};
use crate::process::confined;

/// The description of a trial.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The server; its processors are chosen here.
    pub server: ServerSettings,
    /// Connections of the load.
    pub connections: u32,
    /// Times that it may be made in all until others do not disturb it. At least 1.
    pub attempts: u32,
    /// How they are used.
    pub usage: Use,
    /// The requests.
    pub targets: &'a [Target],
    /// Before anything is counted.
    pub warm_up: Duration,
    /// And at least so many requests, unless that takes longer than [`super::load::LONGEST`].
    pub warm_up_requests: u64,
    /// While it is counted.
    pub measured: Duration,
    /// And until so many requests are answered, likewise.
    pub measured_requests: u64,
}

/// The measurements of a trial.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Observed {
    /// Requests answered per second.
    pub requests_per_s: f64,
    /// Median latency as the client sees it, in microseconds.
    pub latency_p50_us: f64,
    /// 99 of 100 are faster.
    pub latency_p99_us: f64,
    /// Processor time of the server for each request, in microseconds.
    pub server_us: f64,
    /// The part of that on threads that are bound to the processor of the load.
    #[serde(default)]
    pub beside_us: f64,
    /// Processor time of the load for each request, in microseconds.
    pub load_us: f64,
    /// The part of that which went into looking for events in vain.
    pub vain_us: f64,
    /// Requests answered for each wait of the load.
    pub per_wait: f64,
    /// Processor time of others meanwhile, as a share of all processors' time.
    pub foreign: f64,
    /// Switches of the server's threads for each request, those of threads that have ended left out.
    #[serde(default)]
    pub switches: f64,
    /// Bytes that the server had from files for each request, in memory or not.
    pub loaded_bytes: f64,
    /// Requests to the disk for each request of a client; 0 where they are not counted.
    pub disk_reads: f64,
    /// Memory of the server's processes that is no file's, at the end.
    pub resident_bytes: f64,
    /// Memory of its control group beside files, the kernel's part included; 0 without such a group.
    pub group_bytes: f64,
    /// Pages of files in that group.
    pub page_cache_bytes: f64,
    /// How fast the machine was before and after: see [`micro::yardstick_us`]. 0: not known.
    #[serde(default)]
    pub yardstick_us: f64,
    /// How far apart the first and the last processor were, before or after, whichever is more: see [`super::quiet`].
    /// 0: not known.
    #[serde(default)]
    pub line_ns: f64,
    /// The worker of each connection, with more than one.
    #[serde(default)]
    pub client_workers: Vec<u32>,
}

/// Others may use this share of the processors' time before a trial counts as disturbed; ticks alone make up for one in
/// a hundred.
pub const FOREIGN_MAX: f64 = 0.04;
/// How often a trial is made at most until others do not disturb it.
pub const ATTEMPTS: u32 = 3;
/// How often it is measured at most until the machine was left alone before and after.
const MEASURED_MOST: u32 = 4;
/// How long is waited for that each time.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time that is not counted after a pause.
const RESUMED: Duration = Duration::from_millis(20);

/// The joint result of several trials. For fast or slow quantities it is the value than which a quarter of the trials
/// were better, for everything else the median. The owners of the clients are those of the trial with that throughput.
/// Others on the same host make a trial slower and never faster, and some do for seconds, so of slower ones it is not
/// known what they would have been. Trials whose processors were apart count only if all were, and those that met a
/// slower machine than the others do not. Where clients went to one worker in some trials and to another in others, the
/// most frequent kind counts, as the rest are another trial.
///
/// # Panics
/// If there are none.
pub fn undisturbed(trials: &[Observed]) -> Observed {
    let trials = of_a_kind(&quiet(&near(trials)));
    let all = |value: fn(&Observed) -> f64| trials.iter().map(value).collect();
    let of = |value: fn(&Observed) -> f64| micro::middle(all(value));
    let least = |value: fn(&Observed) -> f64| sorted_quarter(all(value));
    let mut by_rate: Vec<&Observed> = trials.iter().collect();
    by_rate.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s));
    let fast = by_rate[trials.len() / 4];
    Observed {
        requests_per_s: fast.requests_per_s,
        latency_p50_us: least(|o| o.latency_p50_us),
        latency_p99_us: least(|o| o.latency_p99_us),
        server_us: least(|o| o.server_us),
        beside_us: of(|o| o.beside_us),
        // What the load does in vain is what the server lets it wait.
        load_us: least(|o| o.load_us - o.vain_us) + of(|o| o.vain_us),
        vain_us: of(|o| o.vain_us),
        per_wait: of(|o| o.per_wait),
        foreign: of(|o| o.foreign),
        switches: of(|o| o.switches),
        loaded_bytes: of(|o| o.loaded_bytes),
        disk_reads: of(|o| o.disk_reads),
        resident_bytes: of(|o| o.resident_bytes),
        group_bytes: of(|o| o.group_bytes),
        page_cache_bytes: of(|o| o.page_cache_bytes),
        yardstick_us: of(|o| o.yardstick_us),
        line_ns: of(|o| o.line_ns),
        client_workers: fast.client_workers.clone(),
    }
}

/// The measurement of one trial with processors near each other, or apart in all, which met the machine fastest.
///
/// # Panics
/// If there are none.
fn least_disturbed(measured: Vec<Observed>) -> Observed {
    let fastest = near(&measured).into_iter().min_by(|a, b| a.yardstick_us.total_cmp(&b.yardstick_us));
    fastest.expect("it was measured at least once")
}

/// Those whose processors were near each other, or all if there are none.
fn near(trials: &[Observed]) -> Vec<Observed> {
    let near: Vec<Observed> = trials.iter().filter(|trial| trial.line_ns < APART_NS).cloned().collect();
    if near.is_empty() { trials.to_vec() } else { near }
}

/// Those that met the machine nearly as fast as the one that met it fastest.
fn quiet(trials: &[Observed]) -> Vec<Observed> {
    let least_us = trials.iter().map(|trial| trial.yardstick_us).fold(f64::INFINITY, f64::min);
    trials.iter().filter(|trial| trial.yardstick_us <= least_us * QUIET).cloned().collect()
}

/// Those whose clients went to the same worker, as many as possible.
fn of_a_kind(trials: &[Observed]) -> Vec<Observed> {
    let kinds = trials.iter().map(|trial| owner(&trial.client_workers));
    let like = |kind: Option<u32>| trials.iter().filter(move |trial| owner(&trial.client_workers) == kind);
    // Of as many, those of the first trial.
    let kind = kinds.rev().max_by_key(|&kind| like(kind).count()).unwrap_or(None);
    like(kind).cloned().collect()
}

/// The worker that has more than three quarters of all clients, if one has.
fn owner(client_workers: &[u32]) -> Option<u32> {
    let has = |worker: u32| client_workers.iter().filter(|&&own| own == worker).count();
    client_workers.iter().copied().find(|&worker| has(worker) * 4 > client_workers.len() * 3)
}

/// The least number of clients that a worker has, of those that could have some.
pub(super) fn least_clients(client_workers: &[u32], workers: u32) -> usize {
    (0..workers).map(|worker| client_workers.iter().filter(|&&own| own == worker).count()).min().unwrap_or(0)
}

/// The value than which a quarter are less.
fn sorted_quarter(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

/// Time that all processors together have worked since the machine was started: the line `cpu` of `/proc/stat`,
/// proc(5).
fn busy_s() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let ticks: Vec<u64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    // Idle and waiting for the disk are the fourth and fifth; after softirq come steal and guests, which are not ours.
    let busy: u64 = ticks.iter().take(7).enumerate().filter(|(place, _)| !matches!(place, 3 | 4)).map(|(_, t)| t).sum();
    Ok(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Processors of this machine that may be used.
pub fn processors() -> usize {
    available_parallelism().map_or(1, NonZeroUsize::get)
}

impl Observed {
    /// The measurements scaled to a machine as fast as it is when the yardstick takes `yardstick_us`, if all time is
    /// processors'.
    pub fn at_speed(self, yardstick_us: f64) -> Observed {
        let factor = if self.yardstick_us > 0.0 { yardstick_us / self.yardstick_us } else { 1.0 };
        Observed {
            requests_per_s: self.requests_per_s / factor,
            latency_p50_us: self.latency_p50_us * factor,
            latency_p99_us: self.latency_p99_us * factor,
            server_us: self.server_us * factor,
            beside_us: self.beside_us * factor,
            load_us: self.load_us * factor,
            vain_us: self.vain_us * factor,
            yardstick_us,
            ..self
        }
    }

    /// Processor time that the server costs for each request, with what the kernel does on its behalf in threads of its
    /// own: all that is not the load's. In a trial that others disturb it is theirs, too.
    pub fn server_and_kernel_us(&self) -> f64 {
        self.server_us + self.foreign * processors() as f64 * 1e6 / self.requests_per_s.max(1.0)
    }
}

impl Trial<'_> {
    /// Runs it, again if others disturbed it; `next` names the target that a client asks for next. `None`: the program
    /// has no such engine.
    ///
    /// # Errors
    /// The server does not start, or does not answer as it should.
    pub fn run(&self, mut next: impl FnMut(usize) -> usize) -> io::Result<Option<Observed>> {
        let mut best: Option<Observed> = None;
        for _ in 0..self.attempts.max(1) {
            let Some(observed) = self.run_once(&mut next)? else { return Ok(None) };
            let quiet = observed.foreign <= FOREIGN_MAX;
            if best.as_ref().is_none_or(|best| observed.foreign < best.foreign) {
                best = Some(observed);
            }
            if quiet {
                break;
            }
        }
        Ok(best)
    }

    fn run_once(&self, next: impl FnMut(usize) -> usize) -> io::Result<Option<Observed>> {
        let mut settings = self.server.clone();
        let alone = settings.workers == 1;
        settings.processors = if alone { vec![0] } else { Vec::new() };
        settings.pinned = !alone;
        let Some(server) = Server::start(&settings)? else { return Ok(None) };
        // To be asked before the load is confined: then there is only one.
        let processors = processors();
        confined(&[processors - 1], || self.load(&server, processors, next)).map(Some)
    }

    fn connections(&self, server: &Server) -> io::Result<Spread> {
        let (count, workers) = (self.connections as usize, self.server.workers as usize);
        if workers > 1 {
            return spread::open(server, count, workers, &self.targets[0]);
        }
        let connections = (0..count).map(|_| TcpStream::connect(server.address)).collect::<io::Result<_>>()?;
        Ok(Spread { connections, workers: Vec::new() })
    }

    /// Whether the load never sleeps: the server is on another processor.
    fn spins(&self, processors: usize) -> bool {
        self.server.workers == 1 && processors > 1
    }

    fn load(&self, server: &Server, processors: usize, mut next: impl FnMut(usize) -> usize) -> io::Result<Observed> {
        let Spread { connections, workers: client_workers } = self.connections(server)?;
        let mut load = Load::new(server.address, connections, self.targets, self.usage, self.spins(processors))?;
        load.run(self.warm_up, self.warm_up_requests, &mut next)?;
        let mut measured = Vec::new();
        for _ in 0..MEASURED_MOST {
            let (observed, was_quiet) = self.measure(server, processors, &mut load, &mut next)?;
            measured.push(observed);
            if was_quiet {
                break;
            }
        }
        Ok(Observed { client_workers, ..least_disturbed(measured) })
    }

    /// Everything but whose the clients are; and whether others left the machine alone.
    fn measure(
        &self,
        server: &Server,
        processors: usize,
        load: &mut Load<'_>,
        next: &mut impl FnMut(usize) -> usize,
    ) -> io::Result<(Observed, bool)> {
        let look_before = Look::when_quiet(processors, PATIENCE)?;
        // What was under way has waited, too.
        load.run(RESUMED, 0, &mut *next)?;
        let groups = &self.server.groups;
        let (before, busy_before_s) = (server.cpu_time(), busy_s()?);
        let beside_before = server.bound_threads_time(processors - 1);
        let (loaded_before, reads_before) = (server.loaded_bytes(), groups.usage().reads);
        let switches_before = server.switches();
        let seen = load.run(self.measured, self.measured_requests, next)?;
        let switches = server.switches().saturating_sub(switches_before);
        let server_s = server.cpu_time().saturating_sub(before).as_secs_f64();
        let beside_s = server.bound_threads_time(processors - 1).saturating_sub(beside_before).as_secs_f64();
        let foreign_s = busy_s()? - busy_before_s - server_s - seen.cpu_s;
        let loaded = server.loaded_bytes().saturating_sub(loaded_before);
        let usage = groups.usage();
        let reads = usage.reads.saturating_sub(reads_before);
        let vain_s = if self.spins(processors) { seen.vain_s.min(seen.cpu_s) } else { 0.0 };
        let look_after = Look::now(processors)?;
        let completed = seen.completed.max(1) as f64;
        let quantile_us = |share| seen.latency.quantile(share) as f64 / 1e3;
        let observed = Observed {
            requests_per_s: seen.requests_per_s(),
            latency_p50_us: quantile_us(0.5),
            latency_p99_us: quantile_us(0.99),
            server_us: server_s * 1e6 / completed,
            beside_us: beside_s * 1e6 / completed,
            load_us: seen.cpu_s * 1e6 / completed,
            vain_us: vain_s * 1e6 / completed,
            per_wait: completed / seen.waits.max(1) as f64,
            switches: switches as f64 / completed,
            loaded_bytes: loaded as f64 / completed,
            disk_reads: reads as f64 / completed,
            resident_bytes: server.resident_bytes() as f64,
            group_bytes: usage.total_bytes.saturating_sub(usage.page_cache_bytes) as f64,
            page_cache_bytes: usage.page_cache_bytes as f64,
            yardstick_us: (look_before.yardstick_us + look_after.yardstick_us) / 2.0,
            line_ns: look_before.line_ns.max(look_after.line_ns),
            client_workers: Vec::new(),
            foreign: (foreign_s / (seen.elapsed_s * processors as f64)).max(0.0),
        };
        Ok((observed, look_before.is_quiet() && look_after.is_quiet()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(requests_per_s: f64, switches: f64, client_workers: &[u32]) -> Observed {
        let client_workers = client_workers.to_vec();
        Observed { requests_per_s, switches, server_us: 1e6 / requests_per_s, client_workers, ..Observed::default() }
    }

    #[test]
    fn a_quarter_of_the_trials_were_faster_than_what_they_say_together() {
        let trials = [90.0, 100.0, 60.0, 98.0, 95.0, 40.0].map(|rate| trial(rate, rate, &[]));
        let together = undisturbed(&trials);
        assert_eq!((together.requests_per_s, together.server_us), (98.0, 1e6 / 98.0));
        assert_eq!(together.switches, 95.0, "what is neither fast nor slow is the median");
        assert_eq!(undisturbed(&trials[2..3]).requests_per_s, 60.0);
    }

    #[test]
    fn trials_of_processors_that_were_apart_do_not_count_beside_others() {
        let apart = Observed { line_ns: 170.0, ..trial(120.0, 0.0, &[]) };
        assert_eq!(undisturbed(&[apart.clone(), trial(100.0, 0.0, &[]), apart.clone()]).requests_per_s, 100.0);
        assert_eq!(undisturbed(&[apart]).requests_per_s, 120.0);
    }

    #[test]
    fn trials_whose_clients_went_to_another_worker_do_not_count_if_they_are_fewer() {
        let (one, other, both) = ([0, 0, 0, 0, 1], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0]);
        let trials = [trial(50.0, 0.0, &other), trial(10.0, 0.0, &one), trial(70.0, 0.0, &both), trial(9.0, 0.0, &one)];
        assert_eq!(undisturbed(&trials).requests_per_s, 10.0);
        assert_eq!(undisturbed(&trials[..2]).requests_per_s, 50.0, "of as many the first");
    }
}
