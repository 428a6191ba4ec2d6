//! The commands of the laboratory proper: document roots, peers, scenarios and reports.
//!
//! Owns: the options and what is printed on the way. The work is `lamna_lab`'s.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use lamna_lab::compare::store::Results;
use lamna_lab::compare::{self, CompareError, Options, Watcher};
use lamna_lab::floor::serve;
use lamna_lab::load::Outcome;
use lamna_lab::load::summary::summary;
use lamna_lab::peers::PEERS;
use lamna_lab::phases::stability::{self, Constant};
use lamna_lab::phases::{self, ENGINES};
use lamna_lab::replay::site;
use lamna_lab::report::table::markdown;
use lamna_lab::report::{headline, html};
use lamna_lab::scenario::Scenario;
use lamna_policy::words::{Table, count};

use crate::exit::{Failed, failure, usage};
use crate::program;
use crate::replay::WorkloadArgs;

/// The commands of the laboratory.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Compare servers in scenarios; what was measured before is not measured again
    Run(RunArgs),
    /// The scenarios that there are
    List,
    /// The servers that can be compared, which of them are installed, and how to install the rest
    Peers,
    /// Make one HTML page of results, or Markdown tables
    Report(ReportArgs),
    /// Build a document root with the files that a log asks for, in their sizes
    Site(SiteArgs),
    /// Add up results of `load --json`
    Merge(MergeArgs),
    /// Serve one file from an event loop that does nothing else: the least that a server can cost
    #[command(hide = true)]
    Floor(FloorArgs),
    /// Six loads one after the other: `auto` beside each fixed engine; what was measured before is not measured again
    Phases(PhasesArgs),
    /// Loads that stay as they are: how often `auto` changes its mind
    Stability(StabilityArgs),
}

/// Which scenarios, and how.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Names of scenarios, files with scenarios, or `all`
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<String>,

    /// Fewer points, rounds and seconds
    #[arg(long)]
    quick: bool,

    /// Where results are, a file for each scenario
    #[arg(long, value_name = "DIR", default_value = "results/lab")]
    results: PathBuf,

    /// For sites, configurations and logs of the servers [default: lamna-lab in the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// Only these servers
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    only: Option<Vec<String>>,

    /// A further server, as NAME=COMMAND with {port} and {site}. Can be repeated
    #[arg(long = "target", value_name = "NAME=COMMAND", value_parser = target)]
    targets: Vec<(String, String)>,

    /// Lamna's program [default: lamna beside this program, or on PATH]
    #[arg(long, value_name = "FILE")]
    lamna: Option<PathBuf>,

    /// Processors of the servers
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "0")]
    server_processors: Vec<usize>,

    /// Processors of the load generator, an event loop on each
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "1")]
    client_processors: Vec<usize>,

    /// Rounds, instead of the scenario's
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// Length of a measurement, instead of the scenario's
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,

    /// Forget what was measured before
    #[arg(long)]
    fresh: bool,
}

/// The arguments of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Names of scenarios, files with scenarios, or `all`
    #[arg(value_name = "SCENARIO", default_value = "all")]
    scenarios: Vec<String>,

    /// Where results are
    #[arg(long, value_name = "DIR", default_value = "results/lab")]
    results: PathBuf,

    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "results/report.html")]
    output: PathBuf,

    /// Write Markdown tables to standard output instead
    #[arg(long)]
    markdown: bool,

    /// Write the table of Lamna against every peer, for docs/internals/figures.md, as Markdown to standard output
    /// instead
    #[arg(long, conflicts_with = "markdown")]
    headline: bool,
}

/// Which site, and where.
#[derive(Debug, Args)]
pub(crate) struct SiteArgs {
    #[command(flatten)]
    workload: WorkloadArgs,

    /// Where the files go
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Which results.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Results of `load --json`
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Write the sum as JSON
    #[arg(long)]
    json: bool,
}

/// The arguments of `floor`.
#[derive(Debug, Args)]
pub(crate) struct FloorArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// On 127.0.0.1
    #[arg(value_name = "PORT")]
    port: u16,
}

/// Which engines, and how long.
#[derive(Debug, Args)]
pub(crate) struct PhasesArgs {
    /// Only these engines
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',', default_values = ENGINES)]
    engines: Vec<String>,

    /// Length of each phase, of which two seconds are for the server to notice it
    #[arg(long, value_name = "N", default_value_t = 8.0)]
    seconds: f64,

    /// How often each engine is measured
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: usize,

    /// Where results, the table and the plot go
    #[arg(long, value_name = "DIR", default_value = "results/phases")]
    out: PathBuf,

    /// Reads a second of the servers' disk; 0: as many as it does
    #[arg(long, value_name = "N", default_value_t = 200)]
    read_iops: u32,

    /// Forget what was measured of these engines before
    #[arg(long)]
    fresh: bool,

    #[command(flatten)]
    place: PlaceArgs,
}

/// How long, and how much.
#[derive(Debug, Args)]
pub(crate) struct StabilityArgs {
    /// Length of each of the two loads
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,

    /// Requests a second
    #[arg(long, value_name = "N", default_value_t = 4000.0)]
    rate: f64,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Where server and load run.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// For the site and logs of the servers [default: lamna-lab in the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,

    /// Lamna's program [default: lamna beside this program, or on PATH]
    #[arg(long, value_name = "FILE")]
    lamna: Option<PathBuf>,

    /// Processors of the servers
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "0")]
    server_processors: Vec<usize>,

    /// Processors of the load generator
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "1")]
    client_processors: Vec<usize>,
}

/// Does it.
pub(crate) fn lab(command: &LabCommand) -> Result<(), Failed> {
    match command {
        LabCommand::Run(args) => run(args),
        LabCommand::List => list(),
        LabCommand::Peers => peers(),
        LabCommand::Report(args) => report(args),
        LabCommand::Site(args) => build_site(args),
        LabCommand::Merge(args) => merge(args),
        LabCommand::Floor(args) => floor(args),
        LabCommand::Phases(args) => run_phases(args),
        LabCommand::Stability(args) => run_stability(args),
    }
}

fn run(args: &RunArgs) -> Result<(), Failed> {
    let scenarios = scenarios(&args.scenarios)?;
    if args.seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) || args.rounds == Some(0) {
        return Err(usage("rounds and seconds are positive"));
    }
    let options = args.options()?;
    if let Some(unknown) = unknown_server(&scenarios, &options) {
        return Err(usage(format!("no chosen scenario measures {unknown}; --target can add it")));
    }
    let mut console = Console::new()?;
    for scenario in scenarios.iter().filter(|scenario| scenario.results_of.is_none()) {
        if args.fresh {
            // It need not be there.
            _ = fs::remove_file(options.results.join(format!("{}.jsonl", scenario.name)));
        }
        let began = Instant::now();
        let results = compare::run(scenario, &options, &mut console).map_err(|error| match error {
            CompareError::Stopped => failure(error),
            error => failure(format!("{}: {error}", scenario.name)),
        })?;
        console.say(&format!("{}: took {:.0} s", scenario.name, began.elapsed().as_secs_f64()));
        io::stdout().write_all(table(scenario, &results).as_bytes())?;
    }
    Ok(())
}

/// A server that was asked for and would not be measured.
fn unknown_server<'a>(scenarios: &[Scenario], options: &'a Options) -> Option<&'a String> {
    let is_measured = |name: &String| {
        let is_target = options.targets.iter().any(|(target, _)| target == name);
        is_target || scenarios.iter().any(|scenario| scenario.servers.contains(name))
    };
    options.only.as_ref()?.iter().find(|name| !is_measured(name))
}

fn table(scenario: &Scenario, results: &Results) -> String {
    let mut text = markdown(scenario, results) + "\n";
    for (doubt, count) in results.doubts() {
        text += &format!("{count} measurements in doubt: {doubt}\n");
    }
    text
}

fn report(args: &ReportArgs) -> Result<(), Failed> {
    let with_results = |scenario: Scenario| {
        let path = args.results.join(format!("{}.jsonl", scenario.measured()));
        match Results::read(&path) {
            // Those that are shown from another point of view may be of more servers.
            Ok(Some(results)) if scenario.results_of.is_some() => {
                let results = results.only(&scenario.servers);
                Ok((scenario, Some(results)))
            }
            Ok(results) => Ok((scenario, results)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((scenario, None)),
            Err(error) => Err(failure(format!("{}: {error}", path.display()))),
        }
    };
    let scenarios: Vec<_> = scenarios(&args.scenarios)?.into_iter().map(with_results).collect::<Result<_, _>>()?;
    if scenarios.iter().all(|(_, results)| results.is_none()) {
        return Err(failure(format!("there are no results in {}; `lamna-lab run` makes them", args.results.display())));
    }
    if args.headline {
        let measured: Vec<_> =
            scenarios.iter().filter_map(|(scenario, results)| Some((scenario, results.as_ref()?))).collect();
        return Ok(io::stdout().write_all(headline::markdown(&measured).as_bytes())?);
    }
    if args.markdown {
        for (scenario, results) in &scenarios {
            if let Some(results) = results {
                io::stdout().write_all(table(scenario, results).as_bytes())?;
            }
        }
        return Ok(());
    }
    fs::write(&args.output, html::report(&scenarios))
        .map_err(|error| failure(format!("{}: {error}", args.output.display())))?;
    Ok(writeln!(io::stdout(), "{}", args.output.display())?)
}

fn run_phases(args: &PhasesArgs) -> Result<(), Failed> {
    if let Some(unknown) = args.engines.iter().find(|engine| !ENGINES.contains(&engine.as_str())) {
        return Err(usage(format!("there is no engine {unknown}; there are {}", ENGINES.join(", "))));
    }
    if !(args.seconds > 2.5 && args.seconds <= 600.0) || args.rounds == 0 {
        return Err(usage("a phase takes more than 2.5 and at most 600 seconds, and there is at least one round"));
    }
    let options = args.options()?;
    if args.fresh {
        args.engines.iter().for_each(|engine| forget_rounds(&options.results, engine));
    }
    let table = phases::run(&options, &mut Console::new()?).map_err(failure)?;
    Ok(io::stdout().write_all(table.as_bytes())?)
}

/// Removes what was measured of an engine, in any number of rounds.
fn forget_rounds(results: &Path, engine: &str) {
    // There may be none.
    for file in fs::read_dir(results).into_iter().flatten().flatten() {
        let name = file.file_name();
        let round = name.to_str().and_then(|name| name.strip_prefix(engine)?.strip_prefix('-')?.strip_suffix(".json"));
        if round.is_some_and(|round| round.parse::<u32>().is_ok()) {
            _ = fs::remove_file(file.path());
        }
    }
}

fn run_stability(args: &StabilityArgs) -> Result<(), Failed> {
    if !(args.minutes > 0.0 && args.minutes.is_finite() && args.rate > 0.0 && args.rate.is_finite()) {
        return Err(usage("minutes and requests a second are positive"));
    }
    let (options, mut console) = (args.place.options(PathBuf::new())?, Console::new()?);
    let length = Duration::from_secs_f64(args.minutes * 60.0);
    let loads = [(Constant::Steady, "constant load"), (Constant::Boundary, "load between two kinds")];
    for (constant, title) in loads {
        let found = stability::run(constant, args.rate, length, &options, &mut console).map_err(failure)?;
        writeln!(
            io::stdout(),
            "{title}: {:.0} s at {} requests a second, {} answered, {} failed: {} of engine, {} of them after \
             the first {} s, at most {} within a minute",
            found.length.as_secs_f64(),
            args.rate,
            found.answered,
            found.failures,
            count(found.switches.len(), "change"),
            found.late(),
            stability::UNDERSTOOD.as_secs(),
            found.most_in_a_minute()
        )?;
    }
    Ok(())
}

fn list() -> Result<(), Failed> {
    let mut table = Table::default();
    for scenario in Scenario::built_in() {
        table.row([scenario.name.as_str(), &scenario.title]);
        table.row(["", scenario.source.as_str()]);
    }
    Ok(write!(io::stdout(), "{table}")?)
}

fn peers() -> Result<(), Failed> {
    let mut table = Table::default();
    for peer in PEERS {
        let state = match peer.version_line() {
            Some(version) => version,
            None => format!("not installed: {}", peer.install),
        };
        table.row([peer.name, &state]);
        table.row(["", peer.note]);
    }
    Ok(write!(io::stdout(), "{table}")?)
}

fn build_site(args: &SiteArgs) -> Result<(), Failed> {
    let files = match args.workload.is_webstone() {
        true => site::webstone(),
        false => args.workload.trace(1)?.files,
    };
    let built = site::build(&files, &args.directory).map_err(failure)?;
    let impossible = match built.impossible {
        0 => String::new(),
        count => format!("; {count} names cannot be files"),
    };
    writeln!(io::stdout(), "{} files, {} bytes{impossible}", built.files, built.bytes)?;
    Ok(())
}

fn merge(args: &MergeArgs) -> Result<(), Failed> {
    let mut sum: Option<Outcome> = None;
    for file in &args.files {
        let named = |error: &dyn std::fmt::Display| failure(format!("{}: {error}", file.display()));
        let text = fs::read_to_string(file).map_err(|error| named(&error))?;
        let outcome: Outcome = serde_json::from_str(&text).map_err(|error| named(&error))?;
        match &mut sum {
            Some(sum) => sum.merge(&outcome),
            None => sum = Some(outcome),
        }
    }
    // clap has seen to it that there is one.
    let Some(sum) = sum else { return Ok(()) };
    let text = if args.json { serde_json::to_string(&sum).expect("plain data") + "\n" } else { summary(&sum) };
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn floor(args: &FloorArgs) -> Result<(), Failed> {
    let content = fs::read(&args.file).map_err(|error| failure(format!("{}: {error}", args.file.display())))?;
    serve(&content, args.port).map_err(failure)
}

/// The scenarios of these names or files.
pub(crate) fn scenarios(names: &[String]) -> Result<Vec<Scenario>, Failed> {
    let built_in = Scenario::built_in();
    let mut found = Vec::new();
    for name in names {
        if name == "all" {
            found.extend(built_in.iter().cloned());
        } else if let Some(scenario) = built_in.iter().find(|scenario| scenario.name == *name) {
            found.push(scenario.clone());
        } else if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            let text = fs::read_to_string(name).map_err(|error| failure(format!("{name}: {error}")))?;
            found.push(Scenario::parse(&text).map_err(|error| failure(format!("{name}: {error}")))?);
        } else {
            return Err(usage(format!("there is no scenario {name}; `lamna-lab list` shows all")));
        }
    }
    Ok(found)
}

impl RunArgs {
    fn options(&self) -> Result<Options, Failed> {
        Ok(Options {
            quick: self.quick,
            results: self.results.clone(),
            work: work(self.work.as_deref()),
            lamna: program::lamna(self.lamna.as_deref()).map_err(failure)?,
            laboratory: program::this().map_err(failure)?,
            only: self.only.clone(),
            targets: self.targets.clone(),
            server_processors: self.server_processors.clone(),
            client_processors: self.client_processors.clone(),
            rounds: self.rounds,
            seconds: self.seconds,
            command: typed(),
        })
    }
}

impl PhasesArgs {
    fn options(&self) -> Result<phases::Options, Failed> {
        Ok(phases::Options {
            engines: self.engines.clone(),
            seconds: self.seconds,
            rounds: self.rounds,
            read_iops: (self.read_iops > 0).then_some(self.read_iops),
            ..self.place.options(self.out.clone())?
        })
    }
}

impl PlaceArgs {
    fn options(&self, results: PathBuf) -> Result<phases::Options, Failed> {
        Ok(phases::Options {
            engines: Vec::new(),
            seconds: 0.0,
            rounds: 1,
            read_iops: None,
            results,
            work: work(self.work.as_deref()),
            lamna: program::lamna(self.lamna.as_deref()).map_err(failure)?,
            server_processors: self.server_processors.clone(),
            client_processors: self.client_processors.clone(),
            command: typed(),
        })
    }
}

/// Where sites and logs are kept.
fn work(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| std::env::temp_dir().join("lamna-lab"), Path::to_owned)
}

/// The command line, as it was typed.
fn typed() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("lamna-lab {}", words.join(" "))
}

/// Says on standard error what is done; stops with an interruption.
struct Console {
    stopped: Arc<AtomicBool>,
}

impl Console {
    fn new() -> Result<Console, Failed> {
        let stopped = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, stopped.clone())
                .map_err(|error| failure(format!("signals: {error}")))?;
        }
        Ok(Console { stopped })
    }
}

impl Watcher for Console {
    fn say(&mut self, what: &str) {
        // With standard error closed it is lost.
        _ = writeln!(io::stderr(), "{what}");
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

fn target(text: &str) -> Result<(String, String), String> {
    let (name, command) = text.split_once('=').ok_or("expected NAME=COMMAND")?;
    let complete = !name.is_empty() && command.contains("{port}");
    complete.then(|| (name.to_owned(), command.to_owned())).ok_or_else(|| "the command needs {port}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_forgotten_in_all_its_rounds_and_no_other_one_with_it() {
        let results = tempfile::tempdir().unwrap();
        let files = ["amped-1.json", "amped-2.json", "amped-17.json", "co-amped-1.json", "amped-x.json", "table.md"];
        files.iter().for_each(|file| fs::write(results.path().join(file), "").unwrap());
        forget_rounds(results.path(), "amped");
        let left = files.into_iter().filter(|file| results.path().join(file).exists());
        assert_eq!(left.collect::<Vec<_>>(), ["co-amped-1.json", "amped-x.json", "table.md"]);
        forget_rounds(&results.path().join("none"), "amped");
    }
}
