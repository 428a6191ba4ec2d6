//! Runs scenarios: servers side by side, in turn, round by round, so that a drift of the machine's speed meets all of
//! them.
//!
//! Owns: the order of measurements and what is written down after each, so that an interruption costs one measurement.
//! How a point is prepared is in `prepare`, what a procedure does in the files of their names, results in [`store`].
//!
//! ```text
//!   for each point:  site -> servers up -> warm up each -> rounds x servers: measure, write down -> servers down
//! ```
//! With limits on memory or disk each measurement has a server of its own, freshly started, whose files are not in
//! memory.

mod disk;
mod idle;
mod memory;
pub(crate) mod prepare;
pub mod store;
mod throughput;
mod whitebox;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::{Groups, NotPermitted};
use crate::load::{LoadError, Outcome};
use crate::machine::Machine;
use crate::peers::{self, Peer, Setup};
use crate::process::{Invocation, Server};
use crate::scenario::{Point, Procedure, Scenario};
use prepare::Site;
use store::{Header, Record, Results, Store};

/// Length of the load before the first measurement.
const WARM_UP: Duration = Duration::from_millis(500);

/// How scenarios are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer points, rounds and seconds.
    pub quick: bool,
    /// Where results go.
    pub results: PathBuf,
    /// For sites, configurations and logs of servers.
    pub work: PathBuf,
    /// Lamna's program.
    pub lamna: PathBuf,
    /// The laboratory's program, which is also the server `floor`.
    pub laboratory: PathBuf,
    /// Only these of the scenario's servers; none: all.
    pub only: Option<Vec<String>>,
    /// Further servers: a name, and a command with `{port}` and `{site}`.
    pub targets: Vec<(String, String)>,
    /// Processors of the servers; none leaves it to the kernel.
    pub server_processors: Vec<usize>,
    /// Processors of the load generator; none leaves it to the kernel.
    pub client_processors: Vec<usize>,
    /// Other rounds than the scenario's.
    pub rounds: Option<usize>,
    /// Other seconds than the scenario's.
    pub seconds: Option<f64>,
    /// The command line, for the report.
    pub command: String,
}

/// Why a scenario could not be run.
#[derive(Debug)]
pub enum CompareError {
    /// A file of the laboratory.
    File(PathBuf, io::Error),
    /// The site could not be built.
    Site(String),
    /// It was asked to stop.
    Stopped,
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::File(path, error) => write!(f, "{}: {error}", path.display()),
            CompareError::Site(what) => f.write_str(what),
            CompareError::Stopped => f.write_str("stopped; what was measured is kept, and the same command goes on"),
        }
    }
}

impl std::error::Error for CompareError {}

/// An observer of a run: told in words what is done; asked whether to go on.
pub trait Watcher {
    /// Something has happened.
    fn say(&mut self, what: &str);
    /// Whether to end as soon as possible.
    fn is_stopped(&self) -> bool;
}

/// The numbers of one measurement.
pub type Values = BTreeMap<String, f64>;

/// Runs a scenario, or what is missing of it, and gives back all of its results.
///
/// # Errors
/// See [`CompareError`]. A server that does not start is no error: its failure is among the results.
pub fn run(scenario: &Scenario, options: &Options, watcher: &mut dyn Watcher) -> Result<Results, CompareError> {
    let points = scenario.points(options.quick);
    let mut bench = Bench::new(scenario, options, watcher)?;
    for point in &points {
        bench.run_point(point)?;
    }
    Ok(bench.store.into_results())
}

/// A scenario being run.
struct Bench<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    watcher: &'a mut dyn Watcher,
    store: Store,
    seconds: f64,
    rounds: usize,
    servers: Vec<String>,
}

/// Why one measurement failed. It does not end the scenario.
#[derive(Debug)]
enum Failure {
    Server(String),
    Stopped,
}

impl<'a> Bench<'a> {
    fn new(
        scenario: &'a Scenario,
        options: &'a Options,
        watcher: &'a mut dyn Watcher,
    ) -> Result<Bench<'a>, CompareError> {
        let (seconds, rounds) = scenario.effort(options.quick);
        let (seconds, rounds) = (options.seconds.unwrap_or(seconds), options.rounds.unwrap_or(rounds));
        let wanted = |name: &String| options.only.as_ref().is_none_or(|only| only.contains(name));
        let mut servers: Vec<String> = scenario.servers.iter().filter(|name| wanted(name)).cloned().collect();
        servers.extend(options.targets.iter().map(|(name, _)| name.clone()));
        let header = Header {
            scenario: scenario.name.clone(),
            digest: store::digest(&format!("{}\n{} {seconds}", scenario.circumstances(), options.quick)),
            quick: options.quick,
            machine: Machine::this(),
            versions: versions(&servers, options),
            command: options.command.clone(),
            seconds,
            server_processors: options.server_processors.clone(),
            client_processors: options.client_processors.clone(),
        };
        // Looking after a measurement is not to take the server's time. A server that may run anywhere would inherit
        // it.
        if !options.server_processors.is_empty() {
            crate::process::stay_on(&options.client_processors);
        }
        let path = options.results.join(format!("{}.jsonl", scenario.name));
        let store = Store::open(&path, header).map_err(|error| CompareError::File(path, error))?;
        Ok(Bench { scenario, options, watcher, store, seconds, rounds, servers })
    }

    fn run_point(&mut self, point: &Point) -> Result<(), CompareError> {
        let missing = |bench: &Self, server: &str| !bench.store.is_complete(server, &point.label, bench.rounds);
        let servers: Vec<String> = self.servers.iter().filter(|server| missing(self, server)).cloned().collect();
        if servers.is_empty() {
            return Ok(());
        }
        let site = Site::build(point, &self.options.work).map_err(CompareError::Site)?;
        let separate =
            point.limits != crate::scenario::Limits::default() || self.scenario.procedure != Procedure::Throughput;
        if separate { self.one_by_one(point, &site, &servers) } else { self.side_by_side(point, &site, servers) }
    }

    /// All servers up at once; idle ones cost nothing.
    fn side_by_side(&mut self, point: &Point, site: &Site, servers: Vec<String>) -> Result<(), CompareError> {
        let mut running = Vec::new();
        for name in servers {
            self.stop_check()?;
            match self.start(&name, point, site, &[]) {
                Ok(server) => running.push((name, server)),
                Err(reason) => self.failed(&name, point, &reason)?,
            }
        }
        for (_, server) in &running {
            _ = throughput::load(self, point, site, server, WARM_UP);
        }
        for round in 0..self.rounds {
            for (name, server) in &running {
                if !self.store.has(name, &point.label, round) {
                    let measured = throughput::measure(self, point, site, server, round == 0);
                    self.take(name, point, round, measured)?;
                }
            }
        }
        Ok(())
    }

    /// A server of its own for each measurement.
    fn one_by_one(&mut self, point: &Point, site: &Site, servers: &[String]) -> Result<(), CompareError> {
        for round in 0..self.rounds {
            for name in servers {
                if self.store.has(name, &point.label, round) || self.store.has_failed(name, &point.label) {
                    continue;
                }
                self.stop_check()?;
                let measured = self.measure_alone(name, point, site, round);
                self.take(name, point, round, measured)?;
            }
        }
        Ok(())
    }

    fn measure_alone(
        &mut self,
        name: &str,
        point: &Point,
        site: &Site,
        round: usize,
    ) -> Result<(Values, Vec<String>), Failure> {
        let part = point.limits.memory_part.map(|part| site.bytes / part);
        let limits = crate::cgroup::Limits {
            memory_bytes: part.or(point.limits.memory_mib.map(|mib| mib << 20)),
            read_iops: point.limits.read_iops,
        };
        let refused = |error: NotPermitted| Failure::Server(format!("the limit cannot be set here: {error}"));
        let groups = Groups::new(&limits, &site.directory).map_err(refused)?;
        site.evict();
        // Starting is not measured: programs, which a slow disk would bring in for half a minute, come at the disk's
        // own speed, and likewise what a warm-up fills memory with.
        groups.limit_reads(None).map_err(refused)?;
        // Ends before its groups do.
        let server = match self.scenario.procedure {
            // It verifies afterwards: what that asks for would be in the server's cache.
            Procedure::Memory => self.launch(name, point, site, &groups.entrances()),
            _ => self.start(name, point, site, &groups.entrances()),
        };
        let server = server.map_err(Failure::Server)?;
        if self.scenario.procedure == Procedure::Throughput {
            throughput::load(self, point, site, &server, WARM_UP * 2)?;
        }
        groups.limit_reads(limits.read_iops).map_err(refused)?;
        match self.scenario.procedure {
            Procedure::Throughput => throughput::measure(self, point, site, &server, round == 0),
            Procedure::Idle => idle::measure(self, point, site, &server),
            Procedure::Disk => disk::measure(self, point, site, &server),
            Procedure::Memory => memory::measure(self, point, site, &server, &groups),
            Procedure::Whitebox => whitebox::measure(self, name, point, site, &server),
        }
    }

    /// Where a server has its configuration and output.
    fn directory(&self, name: &str, port: u16) -> PathBuf {
        self.options.work.join(format!("{name}-{port}"))
    }

    /// Whether a metric is among those that the scenario shows.
    fn shows(&self, metric: &str) -> bool {
        self.scenario.metrics.iter().any(|shown| shown == metric)
    }

    /// A server that is up and serves the site.
    fn start(&self, name: &str, point: &Point, site: &Site, groups: &[PathBuf]) -> Result<Server, String> {
        let server = self.launch(name, point, site, groups)?;
        self.verify(point, site, &server)?;
        Ok(server)
    }

    /// A server that is up and has not been asked for anything.
    fn launch(&self, name: &str, point: &Point, site: &Site, groups: &[PathBuf]) -> Result<Server, String> {
        let port = prepare::free_port().ok_or("no port is free")?;
        let directory = self.directory(name, port);
        let invocation = self.invocation(name, point, site, port, directory.clone())?;
        let output = directory.join("output");
        let address = ([127, 0, 0, 1], port).into();
        let server = Server::start(&invocation, address, &self.options.server_processors, groups, &output);
        server.map_err(|error| error.reason)
    }

    /// A server that answers with something else than the site would be measured in vain.
    fn verify(&self, point: &Point, site: &Site, server: &Server) -> Result<(), String> {
        let plan = site.verification(point, server, self.options)?;
        let expected = plan.requests.unwrap_or(0);
        let outcome = self.execute(&plan, |_| {}).map_err(|failure| match failure {
            Failure::Server(reason) => reason,
            Failure::Stopped => "stopped".to_owned(),
        })?;
        let counts = &outcome.counts;
        let good = counts.statuses.get(&200).copied().unwrap_or(0);
        let (wrong, bytes) = (counts.wrong_content, counts.content_bytes);
        if good == expected && wrong == 0 && bytes > 0 {
            return Ok(());
        }
        let first = outcome.first_wrong.map_or(String::new(), |first| format!("; {first}"));
        Err(format!(
            "it does not serve the site: {good} of {expected} answers were 200, {wrong} had the wrong content, \
             {bytes} bytes in all{first}"
        ))
    }

    fn invocation(
        &self,
        name: &str,
        point: &Point,
        site: &Site,
        port: u16,
        directory: PathBuf,
    ) -> Result<Invocation, String> {
        if let Some((_, command)) = self.options.targets.iter().find(|(target, _)| target == name) {
            std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
            let command =
                command.replace("{port}", &port.to_string()).replace("{site}", &site.directory.display().to_string());
            return Ok(Invocation::new(command.split_ascii_whitespace()));
        }
        let mut lamna_arguments = Vec::new();
        if let Some(threads) = point.load.threads {
            lamna_arguments.extend(["--threads".to_owned(), threads.to_string()]);
        }
        let mut base = name;
        if let Some(variant) = self.scenario.variant_named(name) {
            base = &variant.of;
            lamna_arguments.extend(variant.arguments.iter().cloned());
            if variant.account {
                let admin = format!("unix:{}", whitebox::admin_path(&directory).display());
                lamna_arguments.extend(["--account".to_owned(), "--admin".to_owned(), admin]);
            }
        }
        let setup = Setup {
            port,
            site: site.directory.clone(),
            directory,
            workers: point.load.workers,
            compress: point.site.text,
            lamna: self.options.lamna.clone(),
            laboratory: self.options.laboratory.clone(),
            lamna_arguments,
        };
        peers::configure(base, &setup)
    }

    fn take(
        &mut self,
        name: &str,
        point: &Point,
        round: usize,
        measured: Result<(Values, Vec<String>), Failure>,
    ) -> Result<(), CompareError> {
        match measured {
            Ok((values, doubts)) => {
                let first = &self.scenario.metrics[0];
                let value = values.get(first).copied().unwrap_or(f64::NAN);
                self.watcher.say(&format!(
                    "{} {} round {} {name}: {first} {}",
                    self.scenario.name,
                    point.label,
                    round + 1,
                    crate::metric::format_number(value)
                ));
                let (server, point) = (name.to_owned(), point.label.clone());
                self.write(Record::Sample { server, point, round, values, doubts })
            }
            Err(Failure::Server(reason)) => self.failed(name, point, &reason),
            Err(Failure::Stopped) => Err(CompareError::Stopped),
        }
    }

    fn failed(&mut self, name: &str, point: &Point, reason: &str) -> Result<(), CompareError> {
        self.watcher.say(&format!("{} {} {name}: {reason}", self.scenario.name, point.label));
        self.write(Record::Failure { server: name.to_owned(), point: point.label.clone(), reason: reason.to_owned() })
    }

    fn write(&mut self, record: Record) -> Result<(), CompareError> {
        self.store.add(record).map_err(|error| CompareError::File(self.store.path().to_owned(), error))
    }

    fn stop_check(&self) -> Result<(), CompareError> {
        if self.watcher.is_stopped() { Err(CompareError::Stopped) } else { Ok(()) }
    }

    /// Runs a job of the load generator on the client's processors.
    fn execute(
        &self,
        plan: &crate::load::Plan,
        mut each: impl FnMut(crate::load::run::Progress),
    ) -> Result<Outcome, Failure> {
        let outcome = crate::load::run(plan, &mut |progress| {
            each(progress);
            !self.watcher.is_stopped()
        });
        match outcome {
            _ if self.watcher.is_stopped() => Err(Failure::Stopped),
            Ok(outcome) => Ok(outcome),
            Err(error @ (LoadError::Unreachable { .. } | LoadError::TooFewDescriptors { .. })) => {
                Err(Failure::Server(error.to_string()))
            }
            Err(error) => Err(Failure::Server(format!("the load generator: {error}"))),
        }
    }
}

fn version_line(program: &Path) -> Option<String> {
    let output = std::process::Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn versions(servers: &[String], options: &Options) -> BTreeMap<String, String> {
    let version = |name: &String| match Peer::named(name) {
        Some(peer) => peer.version_line(),
        None if peers::is_lamna(name) => version_line(&options.lamna),
        None if name == peers::FLOOR => version_line(&options.laboratory),
        None => options.targets.iter().find(|(target, _)| target == name).map(|(_, command)| command.clone()),
    };
    servers.iter().filter_map(|name| Some((name.clone(), version(name)?))).collect()
}
