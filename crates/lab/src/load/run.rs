//! Executes a plan: descriptors, threads, the common beginning, and the sum of what they report.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::feed::Cursor;
use super::histogram::Histogram;
use super::outcome::{Counts, Outcome};
use super::plan::{Pace, Plan};
use super::recorder::Shared;
use super::verdict;
use super::worker::{Report, Worker};

/// Descriptors beside those of the connections.
const DESCRIPTORS_OWN: u64 = 64;

/// Time between two looks at how the job goes on.
const WATCH: Duration = Duration::from_millis(50);

/// Attempts to connect without a single success after which a server counts as unreachable.
const REFUSED_MAX: u64 = 20;

/// Why a job could not be done at all.
#[derive(Debug)]
pub enum LoadError {
    /// No connection could be established.
    Unreachable {
        /// The server's address.
        address: std::net::SocketAddr,
        /// The error of the last attempt, if it is known.
        error: Option<std::io::Error>,
    },
    /// The process may not have as many descriptors as the plan has connections.
    TooFewDescriptors {
        /// Descriptors that the plan needs.
        needed: u64,
        /// Descriptors that the process may have.
        allowed: u64,
    },
    /// The kernel refused epoll, a timer or a thread.
    Kernel(std::io::Error),
    /// The plan contradicts itself.
    Plan(&'static str),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreachable { address, error } => {
                write!(f, "cannot connect to {address}")?;
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {error}"))
            }
            LoadError::TooFewDescriptors { needed, allowed } => write!(
                f,
                "{needed} descriptors are needed and {allowed} are allowed: fewer connections, or raise the limit \
                 (ulimit -n {needed})"
            ),
            LoadError::Kernel(error) => write!(f, "the load generator cannot start: {error}"),
            LoadError::Plan(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LoadError {}

/// How a job goes on, for an observer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Since the beginning of the run; zero while connecting.
    pub elapsed: Duration,
    /// Answers so far.
    pub responses: u64,
}

/// A callback of the caller while a job runs, about 20 times a second; returning false ends the job early.
pub type Control<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// Executes `plan`. Blocks until it is done or `control` ends it; what was done until then is the outcome.
///
/// # Errors
/// See [`LoadError`]. A server that stops answering on the way is no error: it is in the outcome.
pub fn run(plan: &Plan, control: Control<'_>) -> Result<Outcome, LoadError> {
    check(plan)?;
    allow_descriptors(plan)?;
    let shared = Shared::new(plan.threads);
    let cursor = Arc::new(Cursor::default());
    let workers: Result<Vec<_>, Errno> =
        (0..plan.threads).map(|thread| Worker::new(plan, &shared, &cursor, thread)).collect();
    let workers = workers.map_err(|errno| LoadError::Kernel(errno.into()))?;
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .enumerate()
            .map(|(number, worker)| {
                scope.spawn(move || {
                    pin(plan, number);
                    worker.run()
                })
            })
            .collect();
        let watcher = scope.spawn(|| begin(&shared));
        watch(plan, &shared, control, || threads.iter().all(|thread| thread.is_finished()));
        // Threads do not panic: what a server sends is a value.
        watcher.join().expect("it only waits");
        let reports: Vec<Report> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let start_ns = shared.start_ns.load(Ordering::Relaxed);
        if shared.connected.load(Ordering::Relaxed) == 0 {
            let error = std::net::TcpStream::connect_timeout(&plan.address, Duration::from_secs(1)).err();
            return Err(LoadError::Unreachable { address: plan.address, error });
        }
        Ok(sum(plan, start_ns, reports))
    })
}

fn check(plan: &Plan) -> Result<(), LoadError> {
    let wrong = [
        (plan.targets.is_empty(), "nothing to ask for"),
        (plan.connections == 0, "at least one connection is needed"),
        (plan.threads == 0, "at least one thread is needed"),
        (plan.threads > plan.connections, "more threads than connections"),
        (plan.pipelining == 0, "at least one request has to be under way"),
        (plan.read_rate == Some(0) || plan.write_rate == Some(0), "a rate of zero bytes never ends"),
        (
            matches!(plan.pace, Pace::Rate { per_second, .. } if !(per_second > 0.0 && per_second.is_finite())),
            "the rate has to be positive",
        ),
    ];
    wrong.into_iter().find(|(wrong, _)| *wrong).map_or(Ok(()), |(_, what)| Err(LoadError::Plan(what)))
}

/// Raises the soft limit as far as it is needed and allowed.
fn allow_descriptors(plan: &Plan) -> Result<(), LoadError> {
    let needed = (plan.connections + plan.idle_connections) as u64 + DESCRIPTORS_OWN;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.filter(|&maximum| maximum >= needed).map_or(needed, |maximum| maximum);
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: Some(maximum) })
        .map_err(|_| LoadError::TooFewDescriptors { needed, allowed: limit.maximum.or(limit.current).unwrap_or(0) })
}

fn pin(plan: &Plan, thread: usize) {
    if plan.processors.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    set.set(plan.processors[thread % plan.processors.len()]);
    // A processor that does not exist leaves the thread where it is; the report names the processors asked for.
    _ = sched_setaffinity(None, &set);
}

/// Lets all threads begin at the same moment.
fn begin(shared: &Shared) {
    shared.barrier.wait();
    shared.start_ns.store(shared.clock.now_ns(), Ordering::Release);
    shared.barrier.wait();
}

fn watch(plan: &Plan, shared: &Shared, control: Control<'_>, all_done: impl Fn() -> bool) {
    let refused_max = REFUSED_MAX.min(plan.connections as u64);
    while !all_done() {
        thread::sleep(WATCH);
        let start_ns = shared.start_ns.load(Ordering::Relaxed);
        let elapsed_ns = if start_ns == 0 { 0 } else { shared.clock.now_ns().saturating_sub(start_ns) };
        let responses = shared.responses.load(Ordering::Relaxed);
        let goes_on = control(Progress { elapsed: Duration::from_nanos(elapsed_ns), responses });
        let never_connected = shared.connected.load(Ordering::Relaxed) == 0;
        if !goes_on || never_connected && shared.refused.load(Ordering::Relaxed) >= refused_max {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
}

fn sum(plan: &Plan, start_ns: u64, reports: Vec<Report>) -> Outcome {
    let measured_ns = start_ns + plan.warmup.as_nanos() as u64;
    let ended_ns =
        reports.iter().map(|report| report.ended_ns.min(report.recorder.measure_until_ns)).max().unwrap_or(0);
    let seconds = ended_ns.saturating_sub(measured_ns) as f64 / 1e9;
    let cpu_ns: u64 = reports.iter().map(|report| report.cpu_ns).sum();
    let mut outcome = Outcome {
        seconds,
        requests_per_second: 0.0,
        content_bytes_per_second: 0.0,
        rate_asked: match plan.pace {
            Pace::Rate { per_second, .. } => Some(per_second),
            _ => None,
        },
        counts: Counts::default(),
        latency: Histogram::new(),
        warmup_latency: Histogram::new(),
        connect: Histogram::new(),
        lag: Histogram::new(),
        per_second: Vec::new(),
        generator_cpu_us: 0.0,
        threads: reports.iter().map(|report| report.used).collect(),
        doubts: Vec::new(),
        first_wrong: None,
    };
    for Report { recorder, first_wrong, .. } in reports {
        outcome.add_counts(&recorder.counts);
        outcome.latency.merge(&recorder.latency);
        outcome.warmup_latency.merge(&recorder.warmup_latency);
        outcome.connect.merge(&recorder.connect);
        outcome.lag.merge(&recorder.lag);
        let longer = outcome.per_second.len().max(recorder.per_second.len());
        outcome.per_second.resize(longer, 0);
        outcome.per_second.iter_mut().zip(&recorder.per_second).for_each(|(sum, count)| *sum += count);
        outcome.first_wrong = outcome.first_wrong.or(first_wrong);
    }
    outcome.requests_per_second = outcome.counts.in_window as f64 / seconds.max(1e-9);
    outcome.content_bytes_per_second = outcome.counts.content_bytes as f64 / seconds.max(1e-9);
    outcome.generator_cpu_us = cpu_ns as f64 / 1e3 / (outcome.counts.answered as f64).max(1.0);
    outcome.doubts = verdict::doubts(&outcome);
    outcome
}
