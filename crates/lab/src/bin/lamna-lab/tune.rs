//! `lamna-lab tune`: measures the engines on this machine with this content, and writes a profile for `--arch auto`.
//!
//! Owns: the loads that are made, and what becomes of the figures. Each engine serves in a process of its own, in turn,
//! round by round, so that a drift of the machine's speed meets all of them; what counts is the CPU time of that
//! process for each answer, as a ratio to `amped` in the same round. Waiting for a disk cannot be made here without
//! making one slow, so that kind of load keeps its built-in estimates. An engine that the kernel does not carry is left
//! out.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use lamna_lab::load::plan::{RequestForm, Target};
use lamna_lab::load::{LoadError, Plan, run};
use lamna_lab::machine::Machine;
use lamna_lab::process::{Invocation, Server};
use lamna_policy::control::{Engine, Estimate, Load, Profile};
use lamna_policy::words::count;
use tempfile::NamedTempFile;

use crate::exit::{Failed, failure, usage};
use crate::program;

/// The arguments of `tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The directory whose files are asked for
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,

    /// Where the profile goes
    #[arg(short, long, value_name = "FILE", default_value = "lamna-profile.toml")]
    output: PathBuf,

    /// Length of each measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    seconds: f64,

    /// Measurements of each engine under each load
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// Lamna's program [default: lamna beside this program, or on PATH]
    #[arg(long, value_name = "FILE")]
    lamna: Option<PathBuf>,
}

/// Measures and writes the profile.
pub(crate) fn tune(args: &TuneArgs) -> Result<(), Failed> {
    match std::fs::metadata(&args.directory) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(usage(format!("`{}` is not a directory", args.directory.display()))),
        Err(error) => {
            let why = format!("the directory `{}` cannot be looked at: {error}", args.directory.display());
            return Err(usage(why));
        }
    }
    let files = Files::of(&args.directory);
    if files.small.is_empty() {
        let directory = args.directory.display();
        return Err(usage(format!("there is no file of 1 byte to 64 KiB in {directory} to ask for")));
    }
    let loads = loads(&files);
    let lamna = program::lamna(args.lamna.as_deref()).map_err(failure)?;
    let engines = Engine::ALL;
    let of_engine = START_SECONDS + loads.len() as f64 * args.seconds * (1.0 + WARM_UP);
    let total = of_engine * f64::from(args.rounds) * engines.len() as f64;
    let (engine_count, load_count) = (count(engines.len(), "engine"), count(loads.len(), "kind"));
    eprintln!("lamna-lab: measuring {engine_count} under {load_count} of load: about {total:.0} s");
    let mut figures = vec![vec![Vec::new(); engines.len()]; loads.len()];
    for round in 0..args.rounds {
        for (at, engine) in engines.iter().enumerate() {
            let Some(measured) = measure(&lamna, *engine, &loads, args)? else {
                if round == 0 {
                    eprintln!("lamna-lab: {} is not available here and is left out", engine.name());
                }
                continue;
            };
            for (load, cost_us) in measured.into_iter().enumerate() {
                figures[load][at].push(cost_us);
            }
        }
    }
    let mut profile = Profile::built_in();
    let mut comment = describe(args);
    for (load, costs) in loads.iter().zip(&figures) {
        learn(&mut profile, load.kind, &engines, costs, &mut comment);
    }
    if !loads.iter().any(|load| load.kind == Load::Large) {
        comment.push_str("\nNo file of 128 KiB or more was there: the estimates for large answers are built in.");
    }
    comment.push_str("\nThe estimates for a disk that is waited for are built in.");
    std::fs::write(&args.output, profile.to_toml(&comment))
        .map_err(|error| failure(format!("cannot write {}: {error}", args.output.display())))?;
    println!("{comment}\n\nUse it: lamna serve --profile {}", args.output.display());
    Ok(())
}

/// Time in which a server starts and ends, about; and the length of the warm-up, as a part of the measurement.
const START_SECONDS: f64 = 0.5;
const WARM_UP: f64 = 0.25;

/// Paths of files, as they are asked for, by what they are asked for as.
#[derive(Debug, Default)]
struct Files {
    small: Vec<String>,
    large: Vec<String>,
}

/// Most files of each kind, and how deep they are looked for.
const FILES_MAX: usize = 64;
const DEPTH_MAX: usize = 5;
const SMALL_BYTES_MAX: u64 = 64 * 1024;
const LARGE_BYTES: std::ops::RangeInclusive<u64> = 128 * 1024..=16 * 1024 * 1024;

impl Files {
    fn of(directory: &Path) -> Files {
        let mut files = Files::default();
        files.add(directory, "", 0);
        files
    }

    fn add(&mut self, directory: &Path, path: &str, depth: usize) {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        // What would have to be encoded is left out: there are others.
        let plain = |name: &String| {
            !name.starts_with('.')
                && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?#\"<>\\^`{|}".contains(&byte))
        };
        for name in names.into_iter().filter(plain) {
            let (file, path) = (directory.join(&name), format!("{path}/{name}"));
            match std::fs::metadata(&file) {
                Ok(about) if about.is_dir() && depth < DEPTH_MAX => self.add(&file, &path, depth + 1),
                Ok(about) if about.is_file() && (1..=SMALL_BYTES_MAX).contains(&about.len()) => self.small.push(path),
                Ok(about) if about.is_file() && LARGE_BYTES.contains(&about.len()) => self.large.push(path),
                _ => {}
            }
        }
        self.small.truncate(FILES_MAX);
        self.large.truncate(FILES_MAX);
    }
}

/// A load that is made.
struct Made {
    kind: Load,
    paths: Vec<String>,
    connections: usize,
    idle_connections: usize,
    new_connections: bool,
}

fn loads(files: &Files) -> Vec<Made> {
    let made = |kind, paths: &[String], connections, idle_connections, new_connections| Made {
        kind,
        paths: paths.to_vec(),
        connections,
        idle_connections,
        new_connections,
    };
    let mut loads = vec![
        made(Load::Cached, &files.small, 64, 0, false),
        made(Load::Connections, &files.small, 32, 0, true),
        // Fewer than the thread engines hold by default.
        made(Load::Crowd, &files.small, 16, 900, false),
    ];
    if !files.large.is_empty() {
        loads.push(made(Load::Large, &files.large, 16, 0, false));
    }
    loads
}

/// A server of one engine, with the file that holds what it printed.
struct Served {
    server: Server,
    output: NamedTempFile,
}

impl Served {
    fn start(lamna: &Path, engine: Engine, args: &TuneArgs) -> Result<Served, Failed> {
        let address = free_address().map_err(|error| failure(format!("no free port: {error}")))?;
        let mut words = vec![lamna.as_os_str().to_owned(), "serve".into(), args.directory.clone().into_os_string()];
        let options = [
            "--listen",
            &address.to_string(),
            "--arch",
            engine.name(),
            "--workers",
            "1",
            "--log",
            "off",
            "--admin",
            "off",
        ];
        words.extend(options.map(Into::into));
        let output = NamedTempFile::new().map_err(|error| failure(format!("no temporary file: {error}")))?;
        let server =
            Server::start(&Invocation::new(words), address, &processors().0, &[], output.path()).map_err(failure)?;
        Ok(Served { server, output })
    }

    /// Whether it is `engine` that serves. Where the kernel does not carry an engine the server takes another one, and
    /// says so in the line in which it says where it serves.
    fn serves(&self, engine: Engine) -> bool {
        let said = std::fs::read_to_string(self.output.path()).unwrap_or_default();
        said.lines().any(|line| line.starts_with("lamna: serving ") && line.contains(&format!(" ({}, ", engine.name())))
    }
}

/// Processors of the server and of the load: beside each other where that is possible, so that the load does not take
/// the server's turn.
fn processors() -> (Vec<usize>, Vec<usize>) {
    match available_parallelism().map_or(1, usize::from) {
        1 => (Vec::new(), Vec::new()),
        count => (vec![0], vec![count - 1]),
    }
}

/// CPU time of `engine` for each answer, under each load, in microseconds; none where the kernel does not carry the
/// engine.
fn measure(lamna: &Path, engine: Engine, loads: &[Made], args: &TuneArgs) -> Result<Option<Vec<f64>>, Failed> {
    let served = Served::start(lamna, engine, args)?;
    if !served.serves(engine) {
        return Ok(None);
    }
    let of_load = processors().1;
    loads.iter().map(|load| cost_us(&served.server, load, args.seconds, &of_load)).collect::<Result<_, _>>().map(Some)
}

fn cost_us(server: &Server, load: &Made, seconds: f64, processors: &[usize]) -> Result<f64, Failed> {
    let form = RequestForm { host: server.address.to_string(), close: load.new_connections, ..RequestForm::default() };
    let targets: Vec<Target> = load.paths.iter().map(|path| form.target(path)).collect();
    let mut plan = Plan {
        connections: load.connections,
        idle_connections: load.idle_connections,
        new_connections: load.new_connections,
        processors: processors.to_vec(),
        duration: Some(Duration::from_secs_f64(seconds * WARM_UP)),
        ..Plan::simple(server.address, targets)
    };
    // Once for the caches.
    ask(server, &mut plan, load.kind)?;
    plan.duration = Some(Duration::from_secs_f64(seconds));
    let (answered, spent) = ask(server, &mut plan, load.kind)?;
    Ok(spent.as_secs_f64() * 1e6 / answered as f64)
}

/// Answers to `plan`, and the CPU time that the server spent on them. A machine that is too busy for a single answer in
/// the time of the plan gets twice the time, and so on.
fn ask(server: &Server, plan: &mut Plan, load: Load) -> Result<(u64, Duration), Failed> {
    loop {
        let before = server.cpu_time();
        match run(plan, &mut |_| true) {
            Ok(outcome) if outcome.counts.answered > 0 => {
                return Ok((outcome.counts.answered, server.cpu_time().saturating_sub(before)));
            }
            Ok(_) | Err(LoadError::Unreachable { .. }) if plan.duration < Some(PATIENCE) => {
                plan.duration = plan.duration.map(|duration| duration * 2);
            }
            Ok(_) => return Err(failure(format!("nothing was answered under {} load", load.name()))),
            Err(error) => return Err(failure(error)),
        }
    }
}

/// A server that has answered nothing in so long does not answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes estimates of the costs of `engines`, by engine and round, and says what they rest on. Rounds too short for the
/// kernel to have counted any CPU time say nothing; an engine that has no others keeps the estimate that there was.
fn learn(profile: &mut Profile, load: Load, engines: &[Engine], costs: &[Vec<f64>], comment: &mut String) {
    let Some(reference) = engines.iter().position(|engine| *engine == Engine::Amped) else { return };
    let _ = write!(comment, "\n{}:", load.name());
    for (engine, rounds) in engines.iter().zip(costs) {
        let ratios = rounds.iter().zip(&costs[reference]).map(|(own, amped)| own / amped);
        let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect();
        if ratios.is_empty() {
            let _ = write!(comment, " {} not measured", engine.name());
            continue;
        }
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ratios.len() / 2].max(RATIO_MIN);
        let spread = (ratios[ratios.len() - 1] - ratios[0]) / 2.0;
        // One round says nothing about how far rounds are apart.
        let doubt = if ratios.len() > 1 { (spread / ratio).clamp(DOUBT_MIN, DOUBT_MAX) } else { DOUBT_OF_ONE };
        profile.set(load, *engine, Estimate { ratio, doubt });
        let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
        let _ = write!(comment, " {} {mean:.2}", engine.name());
    }
    comment.push_str(" us a request");
}

const DOUBT_MIN: f64 = 0.01;
const DOUBT_OF_ONE: f64 = 0.05;
/// As much as a profile may say, and as little as it shows.
const RATIO_MIN: f64 = 0.001;
const DOUBT_MAX: f64 = 10.0;

fn describe(args: &TuneArgs) -> String {
    format!(
        "Made by: lamna tune {} --seconds {} --rounds {}\nOn: {}\nCPU time for each request, means of all rounds:",
        args.directory.display(),
        args.seconds,
        args.rounds,
        Machine::this().describe().replace('\n', " ")
    )
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.05..=600.0).contains(&seconds) { Ok(seconds) } else { Err("expected 0.05 to 600 seconds".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_cpu_time_leave_the_estimate_that_there_was_and_no_estimate_is_out_of_bounds() {
        let engines = [Engine::Amped, Engine::Sped, Engine::ThreadPool];
        let costs = [vec![5.0, 6.0], vec![0.0, 0.0], vec![0.001, 900.0]];
        let (mut profile, mut comment) = (Profile::built_in(), String::new());
        learn(&mut profile, Load::Cached, &engines, &costs, &mut comment);
        let before = Profile::built_in();
        assert_eq!(profile.estimate(Load::Cached, Engine::Sped), before.estimate(Load::Cached, Engine::Sped));
        assert!(comment.contains("sped not measured"), "{comment}");
        for (load, engine, Estimate { ratio, doubt }) in profile.estimates() {
            assert!(ratio >= RATIO_MIN && (0.0..=DOUBT_MAX).contains(&doubt), "{load:?} {engine:?}: {ratio} {doubt}");
        }
    }
}
