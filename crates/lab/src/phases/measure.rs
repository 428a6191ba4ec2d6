//! Servers' lives: started with nothing in memory, then phase after phase, in each one engine after the other.
//!
//! Owns: the clock of the run, the jobs' threads, and the moments at which the servers' processor time is read.
//! Guarantees: servers are ended and their groups removed, whatever happens; a job that cannot be done is a problem of
//! its phase.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Options;
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::run::{Latencies, Part, PhaseRun, Run, STEP_MS, Said};
use super::workload::{Job, KEEP, Phase, Role, SETTLING, Site};
use crate::cgroup::{Groups, Limits};
use crate::compare::{Watcher, prepare};
use crate::load::{self, Outcome};
use crate::machine::Machine;
use crate::peers::{self, LAMNA, Setup};
use crate::process::Server;

/// Time after the end of a phase in which what is under way may still be answered.
const GRACE: Duration = Duration::from_millis(700);

/// Time between two looks at the server's output.
const WATCH: Duration = Duration::from_millis(50);

/// Niceness of the visitor's thread (sched(7)): ten times the weight of the others on its processor.
const VISITOR_NICENESS: i32 = -10;

/// Why an engine could not be measured at all.
#[derive(Debug)]
pub(super) enum Failure {
    Server(String),
    Stopped,
}

/// Fresh servers with these engines, and all phases against each, in turn: what the machine does besides in the course
/// of minutes meets all of them, and an engine without a turn costs nothing. Another one begins in each phase and
/// `round`, because the first or the last in a phase may find another machine: sockets in TIME-WAIT, pages that are in
/// memory.
pub(super) fn measure(
    engines: &[&str],
    round: usize,
    options: &Options,
    site: &Site,
    machine: &Machine,
    watcher: &mut dyn Watcher,
) -> Result<Vec<Run>, Failure> {
    let (began, turn_s) =
        (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()));
    let start = |engine: &&str| Life::start(engine, options, site).map_err(Failure::Server);
    let mut lives = engines.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    stay_on_clients(options);
    let count = lives.len();
    for (number, phase) in Phase::ALL.into_iter().enumerate() {
        for place in 0..count {
            let life = &mut lives[(number + round + place) % count];
            phase.prepare(site);
            let run = life.phase(phase, site, began, options, watcher)?;
            watcher.say(&describe(&life.engine, &run));
            life.phases.push(run);
        }
    }
    Ok(lives.into_iter().map(|life| life.into_run(options, turn_s, machine)).collect())
}

/// Looking after the measurement is not to take the server's time. A server that may run anywhere would inherit it.
fn stay_on_clients(options: &Options) {
    if options.server_processors.is_empty() || options.client_processors.is_empty() {
        return;
    }
    let mut set = CpuSet::new();
    options.client_processors.iter().for_each(|&processor| set.set(processor));
    // As with the load generator: a processor that does not exist leaves the thread where it is.
    _ = sched_setaffinity(None, &set);
}

/// A server with `engine`, and what it prints.
pub(super) fn start(
    engine: &str,
    options: &Options,
    site: &Site,
    groups: &Groups,
) -> Result<(Server, BufReader<File>), String> {
    let port = prepare::free_port().ok_or("no port is free")?;
    let directory = options.work.join(format!("{engine}-{port}"));
    let output = directory.join("output");
    let setup = Setup {
        port,
        site: site.directory.clone(),
        directory,
        workers: options.server_processors.len().max(1),
        compress: false,
        lamna: options.lamna.clone(),
        // None of the servers here is the floor.
        laboratory: PathBuf::new(),
        lamna_arguments: vec!["--admin".to_owned(), "off".to_owned()],
    };
    let invocation = peers::configure(&format!("{LAMNA}{engine}"), &setup)?;
    let address = ([127, 0, 0, 1], port).into();
    let server = Server::start(&invocation, address, &options.server_processors, &groups.entrances(), &output)
        .map_err(|error| error.reason)?;
    let reader = File::open(&output).map_err(|error| format!("{}: {error}", output.display()))?;
    Ok((server, BufReader::new(reader)))
}

/// The version that the program reports.
pub(super) fn version(lamna: &Path) -> String {
    let output = Command::new(lamna).arg("--version").output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Adds the lines that have come since the last call to `said`.
pub(super) fn listen(output: &mut BufReader<File>, said: &mut Vec<Said>, began: Instant) {
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
        // Where it serves what is of this machine only.
        if !line.starts_with("lamna: serving ") {
            said.push(Said { at_s: began.elapsed().as_secs_f64(), line: line.trim_end().to_owned() });
        }
        line.clear();
    }
}

/// A server being measured. The server ends before its groups do.
struct Life {
    engine: String,
    server: Server,
    output: BufReader<File>,
    _groups: Groups,
    said: Vec<Said>,
    phases: Vec<PhaseRun>,
}

/// A job under way, and how many answers it had when.
struct Running<'scope> {
    role: Role,
    progress: std::sync::Arc<Mutex<Progress>>,
    thread: ScopedJoinHandle<'scope, Result<Outcome, load::LoadError>>,
}

/// Answers so far, by seconds since the beginning of the phase.
#[derive(Debug, Default)]
struct Progress(Vec<(f64, u64)>);

impl Progress {
    /// Answers until `at_s`, between two looks in proportion.
    fn at(&self, at_s: f64) -> f64 {
        let next = self.0.partition_point(|(seen_s, _)| *seen_s < at_s);
        let last = self.0.last().map_or(0.0, |(_, count)| *count as f64);
        let Some(&(after_s, after)) = self.0.get(next) else { return last };
        let (before_s, before) = if next == 0 { (0.0, 0) } else { self.0[next - 1] };
        let share = (at_s - before_s) / (after_s - before_s).max(1e-9);
        before as f64 + share * (after - before) as f64
    }
}

impl Life {
    fn start(engine: &str, options: &Options, site: &Site) -> Result<Life, String> {
        let refused = |error| format!("{engine}: its disk cannot be limited here: {error}; --read-iops 0 does without");
        let limits = Limits { memory_bytes: None, read_iops: options.read_iops };
        let groups = Groups::new(&limits, &site.directory).map_err(refused)?;
        let (server, output) = start(engine, options, site, &groups).map_err(|error| format!("{engine}: {error}"))?;
        let (said, phases) = (Vec::new(), Vec::new());
        Ok(Life { engine: engine.to_owned(), server, output, _groups: groups, said, phases })
    }

    fn phase(
        &mut self,
        phase: Phase,
        site: &Site,
        began: Instant,
        options: &Options,
        watcher: &dyn Watcher,
    ) -> Result<PhaseRun, Failure> {
        let length = Duration::from_secs_f64(options.seconds);
        let jobs = phase.jobs(site, self.server.address, length, &options.client_processors);
        let (began_s, start, stopped) = (began.elapsed().as_secs_f64(), Instant::now(), AtomicBool::new(false));
        let (mut cpu, mut kept) = (vec![self.server.cpu_time()], start);
        let done = thread::scope(|scope| {
            let begin = |job: Job| {
                let progress = std::sync::Arc::new(Mutex::new(Progress::default()));
                let (notes, stopped, role) = (progress.clone(), &stopped, job.role);
                let work = move || execute(&job, start, length, &notes, stopped);
                Running { role, progress, thread: scope.spawn(work) }
            };
            let running: Vec<Running> = jobs.into_iter().map(begin).collect();
            for mark in [SETTLING, length] {
                while start.elapsed() < mark && !watcher.is_stopped() {
                    thread::sleep(WATCH.min(mark.saturating_sub(start.elapsed())));
                    listen(&mut self.output, &mut self.said, began);
                    if kept.elapsed() >= KEEP {
                        phase.keep(site);
                        kept = Instant::now();
                    }
                }
                cpu.push(self.server.cpu_time());
            }
            stopped.store(watcher.is_stopped(), Ordering::Relaxed);
            let end = |job: Running| {
                // What a server sends is a value, never a panic.
                let outcome = job.thread.join().expect("no panic");
                let progress = std::mem::take(&mut *job.progress.lock().expect("no panic"));
                Done { role: job.role, progress, outcome }
            };
            running.into_iter().map(end).collect::<Vec<_>>()
        });
        if watcher.is_stopped() {
            return Err(Failure::Stopped);
        }
        listen(&mut self.output, &mut self.said, began);
        Ok(summarize(phase, began_s, length, &cpu, &done))
    }

    fn into_run(self, options: &Options, turn_s: u64, machine: &Machine) -> Run {
        Run {
            engine: self.engine,
            digest: options.digest(),
            turn_s,
            machine: machine.clone(),
            version: version(&options.lamna),
            command: options.command.clone(),
            seconds: options.seconds,
            read_iops: options.read_iops,
            server_processors: options.server_processors.clone(),
            client_processors: options.client_processors.clone(),
            phases: self.phases,
            said: self.said,
        }
    }
}

/// A job that has ended.
struct Done {
    role: Role,
    progress: Progress,
    outcome: Result<Outcome, load::LoadError>,
}

impl Done {
    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref().ok()
    }

    /// Share of the answers that are what was asked for.
    fn good_share(&self) -> f64 {
        let Some(outcome) = self.outcome() else { return 0.0 };
        let counts = &outcome.counts;
        let good = counts.statuses.get(&200).copied().unwrap_or(0).saturating_sub(counts.wrong_content);
        good as f64 / counts.answered.max(1) as f64
    }

    /// Answers with what was asked for, until a moment of the phase.
    fn good_until(&self, at_s: f64) -> f64 {
        self.progress.at(at_s) * self.good_share()
    }
}

fn execute(
    job: &Job,
    start: Instant,
    length: Duration,
    progress: &Mutex<Progress>,
    stopped: &AtomicBool,
) -> Result<Outcome, load::LoadError> {
    let until = match job.role {
        // The rest of a slow download is not waited for.
        Role::Holds => length,
        Role::Load | Role::Visitor => length + GRACE,
    };
    if job.role == Role::Visitor {
        // It shares the generator's processor, and is to wait for the server only. Without the permission it waits for
        // the generator as well, for a time slice at most. On Linux this is of the calling thread and those that it
        // starts.
        _ = setpriority_process(None, VISITOR_NICENESS);
    }
    load::run(&job.plan, &mut |seen| {
        let elapsed = start.elapsed();
        // Only this thread and, after it, the one that joins it.
        progress.lock().expect("no panic").0.push((elapsed.as_secs_f64(), seen.responses));
        elapsed < until && !stopped.load(Ordering::Relaxed)
    })
}

fn summarize(phase: Phase, began_s: f64, length: Duration, cpu: &[Duration], done: &[Done]) -> PhaseRun {
    let (settled_s, end_s) = (SETTLING.as_secs_f64(), length.as_secs_f64());
    let of_load: Vec<&Done> = done.iter().filter(|job| job.role == Role::Load).collect();
    let good_until = |at_s: f64| of_load.iter().map(|job| job.good_until(at_s)).sum::<f64>();
    let part = |number: usize, from_s: f64, to_s: f64| Part {
        seconds: to_s - from_s,
        answered: good_until(to_s) - good_until(from_s),
        cpu_s: cpu[number + 1].saturating_sub(cpu[number]).as_secs_f64(),
        load: latencies(done, Role::Load, number == 0),
        visitor: latencies(done, Role::Visitor, number == 0),
    };
    let step_s = STEP_MS as f64 / 1e3;
    let steps = (end_s / step_s).round() as usize;
    let rate = |step: usize| (good_until((step + 1) as f64 * step_s) - good_until(step as f64 * step_s)) / step_s;
    let threads = of_load.iter().filter_map(|job| job.outcome()).flat_map(|outcome| &outcome.threads);
    PhaseRun {
        phase: phase.name().to_owned(),
        began_s,
        settling: part(0, 0.0, settled_s),
        steady: part(1, settled_s, end_s),
        held: held(phase, done),
        // They share a processor.
        generator_busy: threads.map(|thread| thread.busy).sum(),
        series: (0..steps).map(|step| rate(step).round()).collect(),
        problems: done.iter().filter_map(|job| Some(job.outcome.as_ref().err()?.to_string())).collect(),
    }
}

/// Latencies of the jobs of `role`. Requests without an answer count with the second part, in which they were found
/// out.
fn latencies(done: &[Done], role: Role, is_settling: bool) -> Latencies {
    let mut all = Latencies::default();
    for outcome in done.iter().filter(|job| job.role == role).filter_map(Done::outcome) {
        let counts = &outcome.counts;
        if is_settling {
            all.answers.merge(&outcome.warmup_latency.coarse());
            continue;
        }
        let good = counts.statuses.get(&200).copied().unwrap_or(0).saturating_sub(counts.wrong_content);
        all.answers.merge(&outcome.latency.coarse());
        all.refused += counts.answered.saturating_sub(good);
        all.unanswered += counts.timed_out + counts.lost + counts.malformed + counts.unanswered + counts.unsent;
    }
    all
}

/// Connections of the crowd that were open at the end.
fn held(phase: Phase, done: &[Done]) -> Option<u64> {
    let open = |outcome: &Outcome| outcome.counts.connections.saturating_sub(outcome.counts.idle_closed);
    let holds = done.iter().filter(|job| job.role == Role::Holds);
    (phase == Phase::Crowd).then(|| holds.filter_map(Done::outcome).map(open).sum())
}

fn describe(engine: &str, run: &PhaseRun) -> String {
    let visitor = run.steady.visitor.quantile_ns(0.99);
    format!(
        "{engine:20} {:20} {:8.0} requests/s, {:7.1} us of CPU each, visitor's p99 {}, generator busy {:.0} %{}",
        run.phase,
        run.steady.per_second(),
        run.steady.cpu_us(),
        visitor.map_or("never".to_owned(), |ns| format!("{:.1} ms", ns as f64 / 1e6)),
        run.generator_busy * 100.0,
        run.problems.iter().map(|problem| format!("; {problem}")).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_between_two_looks_are_in_proportion() {
        let progress = Progress(vec![(1.0, 100), (2.0, 300)]);
        let at = [0.0, 0.5, 1.0, 1.25, 2.0, 9.0].map(|at_s| progress.at(at_s));
        assert_eq!(at, [0.0, 50.0, 100.0, 150.0, 300.0, 300.0]);
        assert_eq!(Progress::default().at(1.0), 0.0);
    }
}
