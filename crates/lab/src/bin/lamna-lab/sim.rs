//! `lamna-lab sim`: the verbs of the simulator, their flags, their progress, and where their results go.
//!
//! Owns: the command line. Every verb is a call or two of `lamna_sim`; nothing is computed here.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use lamna_lab::replay::line::Line;
use lamna_lab::simulator::{calibrate, validate};
use lamna_policy::cache::EXPECTED_USES;
use lamna_policy::hints::Probability;
use lamna_policy::schedule::PATIENCE;
use lamna_policy::size::parse_size;
use lamna_policy::words::count;
use lamna_sim::advise::{Question, advise};
use lamna_sim::hints::{Settings, hint_outcomes, hint_outcomes_csv};
use lamna_sim::paper::{self, Experiments, Figure, Reading};
use lamna_sim::parameters::Parameters;
use lamna_sim::policies::{hit_ratio_panels, hit_ratios, hit_ratios_csv};
use lamna_sim::report;
use lamna_sim::run::run;
use lamna_sim::scenario::{Scenario, disk_of};
use lamna_sim::schedules::{self, Bottleneck, WEBSTONE, schedules_csv, schedules_table};
use lamna_sim::sweep::{Sweep, compare, sweep};
use lamna_sim::workload::{Log, LogLine, PROFILES, Workload, file_sizes, fit_exponent, read_log, read_timed_trace};

use crate::exit::{Failed, failure};
use crate::program;

type Done = Result<(), Box<dyn Error>>;

/// Predicts the performance of each architecture on other machines.
#[derive(Debug, Args)]
pub(crate) struct SimArgs {
    /// Parameter set: paper-2005, linux-2026 or a TOML file, as `calibrate` writes one [default: paper-2005; of
    /// `advise` and `schedules`, linux-2026]
    #[arg(long, global = true, value_name = "NAME|FILE")]
    parameters: Option<String>,
    /// Threads that simulate [default: one for each processor]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// One scenario; prints JSON
    Run {
        /// A TOML file of the fields of a scenario
        scenario: PathBuf,
    },
    /// Every architecture on one scenario; prints a table
    Compare {
        /// A TOML file of the fields of a scenario; its architecture is ignored
        scenario: PathBuf,
    },
    /// A grid of scenarios; prints CSV
    Sweep {
        /// A TOML file: `base` and the lists of what varies
        sweep: PathBuf,
        /// Also draws requests/s over processors here
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Figures 3 and 5 to 8 of the PIPELINED paper
    Paper(PaperArgs),
    /// The table of the paper's claims, from figures that were run before
    Claims {
        #[command(flatten)]
        folders: Folders,
    },
    /// Which architecture, policy and purchase for this log on that machine
    Advise(AdviseArgs),
    /// Hit ratios of the replacement policies; prints CSV
    Policies {
        /// Profiles or traces
        #[arg(required = true)]
        workloads: Vec<String>,
        /// Requests counted, after as many to warm up. Logs are read once for each
        #[arg(long, default_value_t = 1_000_000)]
        requests: usize,
        /// Also draws hit ratios over cache size here
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Compares orders of service where a link or a disk limits, with the sizes of WebSTONE; prints a table
    Schedules(SchedulesArgs),
    /// Measures the worth of hints to a cache: policies, reads ahead and oracles on traces; prints CSV
    Hints(HintsArgs),
    /// Measures what each step costs Lamna on this machine; prints a parameter set
    ///
    /// Runs Lamna on loopback, for about a minute. Nothing else should be running.
    Calibrate(CalibrateArgs),
    /// Holds predictions against the real server on this machine; prints a table
    ///
    /// `--parameters` is to be a set that `calibrate` wrote here. Limits on memory and disk need control groups,
    /// usually root; scenarios that need them are left out, and named, where they are not permitted.
    Validate(ValidateArgs),
    /// Fits the popularity of the six workloads to Table 5 of the paper
    Fit,
}

#[derive(Debug, Args)]
struct Folders {
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results/sim")]
    out: PathBuf,
    /// Where outcomes are kept between `paper` and `claims`
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    work: PathBuf,
}

#[derive(Debug, Args)]
struct AdviseArgs {
    /// Access log in the common, combined or JSON format, also packed (.gz, .zst), or a trace (NAME.csv, NAME.csv.zst)
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// Processors of the machine in question
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    processors: u32,
    /// Memory that the server may use: as in 8GiB or 8GB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: u64,
    /// A disk of the parameter set, as hdd, ssd, nvme or network
    #[arg(long, value_name = "NAME")]
    disk: String,
    /// Requests under way at once
    #[arg(long, default_value_t = 256)]
    clients: u32,
    /// Measured in each simulation
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SchedulesArgs {
    /// The bottleneck: `link` or `disk`
    #[arg(long, value_name = "WHAT", default_value = "link", value_parser = ["link", "disk"])]
    bottleneck: String,
    /// Rate of the link, in 10^6 bits per second
    #[arg(long, value_name = "MB/S", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    link: u32,
    /// A disk of the parameter set, as hdd, ssd, nvme or network
    #[arg(long, value_name = "NAME", default_value = "hdd")]
    disk: String,
    /// Offered load, in hundredths of what the bottleneck can do
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(1..=99))]
    load: u8,
    /// Bytes of one turn at most [default: 64KiB of a link, 1MiB of a disk]
    #[arg(long, value_name = "SIZE", value_parser = parse_turn)]
    turn: Option<u64>,
    /// Choices after which one that waits is overdue
    #[arg(long, value_name = "N", default_value_t = PATIENCE)]
    patience: u32,
    /// Requests counted, after a tenth as many to warm up
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Seed of the arrivals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints CSV
    #[arg(long)]
    csv: bool,
}

#[derive(Debug, Args)]
struct HintsArgs {
    /// NAME.csv or NAME.csv.zst, each beside its NAME.files.csv
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// The cache, in hundredths of the data set [default: a third]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    memory: Option<u8>,
    /// Reads ahead in vain, in hundredths of the reads needed
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=100))]
    budget: u16,
    /// Lowest probability of an expected successor, in hundredths
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=100))]
    likely: u16,
    /// Seconds for which a page may be what a request follows from
    #[arg(long, value_name = "S", default_value_t = 10)]
    window: u64,
    /// Memory of the table
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1MiB")]
    table: u64,
    /// Uses that a certain expectation counts as in the hinted policy
    #[arg(long, value_name = "N", default_value_t = EXPECTED_USES)]
    uses: u64,
}

/// A turn has to bring something.
fn parse_turn(text: &str) -> Result<u64, String> {
    parse_size(text)?.checked_sub(1).map(|less| less + 1).ok_or_else(|| "must be at least 1".into())
}

#[derive(Debug, Args)]
struct CalibrateArgs {
    /// Name of the set
    #[arg(long, default_value = "measured")]
    name: String,
    /// Rounds of all trials; medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    #[command(flatten)]
    real: RealServer,
}

#[derive(Debug, Args)]
struct ValidateArgs {
    /// cached, cached-large, trace or slow-disk; can be repeated [default: all]
    #[arg(long)]
    scenario: Vec<validate::Name>,
    /// Trace for the scenario of this name
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Memory limit of the server in that scenario
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    memory: u64,
    /// Rounds of all trials; medians count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Also writes CSV here
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Keeps trials here; those that are there already are not repeated, only predicted anew
    #[arg(long, value_name = "FILE")]
    trials: Option<PathBuf>,
    /// Calibrates a set of this name in the same go: its trials alternate with the others, engine by engine and round
    /// by round. Writes NAME.toml, validate-trials.json, validate.csv and validate.md
    #[arg(long, value_name = "NAME", conflicts_with_all = ["csv", "trials"])]
    calibrate: Option<String>,
    /// Folder for these
    #[arg(long, value_name = "DIR", default_value = "results/sim")]
    out: PathBuf,
    /// Begins no trial after so many seconds; the same command goes on with the rest
    #[arg(long, value_name = "S")]
    stop_after: Option<u64>,
    #[command(flatten)]
    real: RealServer,
}

/// How real servers are run.
#[derive(Debug, Args)]
struct RealServer {
    /// A program whose `serve` is measured [default: lamna beside this program, or on PATH]
    #[arg(long, alias = "lamna", value_name = "FILE")]
    program: Option<PathBuf>,
    /// Folder for files to serve, on the disk in question; made anew and removed
    #[arg(long, value_name = "DIR", default_value = "target/sim-measure")]
    scratch: PathBuf,
    /// Milliseconds of each trial that count
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(50..=600_000))]
    trial_ms: u64,
}

impl RealServer {
    fn program(&self) -> Result<PathBuf, String> {
        program::lamna(self.program.as_deref())
    }
}

#[derive(Debug, Args)]
struct PaperArgs {
    #[command(flatten)]
    folders: Folders,
    /// How to read what the paper leaves open: letter, private, private-mp, granted, processor, processor-private or
    /// average. All if not given
    #[arg(long)]
    reading: Option<String>,
    /// fig5a, fig5b, fig6, fig7 or fig8. All if not given
    #[arg(long)]
    figure: Option<String>,
    /// Requests measured in each replication
    #[arg(long, default_value_t = 200_000)]
    requests: u64,
    /// Replications of each point
    #[arg(long, default_value_t = 2)]
    replications: u32,
}

/// Carries out `lamna-lab sim ...`.
pub(crate) fn run_verb(args: &SimArgs) -> Result<(), Failed> {
    carry_out(args).map_err(|error| failure(format!("sim: {error}")))
}

fn carry_out(args: &SimArgs) -> Done {
    let is_of_today = matches!(args.verb, Verb::Advise(_) | Verb::Schedules(_));
    let default = if is_of_today { "linux-2026" } else { "paper-2005" };
    let parameters = Parameters::named(args.parameters.as_deref().unwrap_or(default))?;
    let jobs = args.jobs.map_or_else(processors, usize::from);
    match &args.verb {
        Verb::Run { scenario } => {
            let outcome = run(&read::<Scenario>(scenario)?, &parameters, jobs)?;
            print(&format!("{}\n", serde_json::to_string_pretty(&outcome)?))
        }
        Verb::Compare { scenario } => {
            let outcomes = with_progress(|progress| Ok(compare(&read(scenario)?, &parameters, jobs, progress)?))?;
            print(&report::table(&outcomes))
        }
        Verb::Sweep { sweep: file, svg } => {
            let points = read::<Sweep>(file)?.scenarios();
            let outcomes = with_progress(|progress| Ok(sweep(&points, &parameters, jobs, progress)?))?;
            draw(svg.as_deref(), "Throughput", || paper::panels(Figure::Fig6, &outcomes))?;
            print(&report::csv(&outcomes))
        }
        Verb::Paper(args) => paper_figures(args, jobs),
        Verb::Claims { folders } => Ok(paper::write_claims(&folders.out, &folders.work)?),
        Verb::Advise(args) => advise_on(args, &parameters, jobs),
        Verb::Policies { workloads, requests, svg } => policies(workloads, *requests, svg.as_deref()),
        Verb::Schedules(args) => compare_schedules(args, &parameters),
        Verb::Hints(args) => compare_hints(args),
        Verb::Calibrate(args) => measure_parameters(args),
        Verb::Validate(args) => validate_predictions(args, &parameters),
        Verb::Fit => fit(),
    }
}

fn validate_predictions(args: &ValidateArgs, parameters: &Parameters) -> Done {
    let own_trials = args.calibrate.is_some().then(|| args.out.join("validate-trials.json"));
    let plan = validate::Plan {
        program: args.real.program()?,
        scratch: args.real.scratch.clone(),
        scenarios: if args.scenario.is_empty() { validate::Name::ALL.to_vec() } else { args.scenario.clone() },
        trace: args.trace.clone(),
        memory_bytes: args.memory,
        rounds: args.rounds,
        trials: own_trials.or_else(|| args.trials.clone()),
        calibrate: args.calibrate.clone(),
        stop_after: args.stop_after.map(Duration::from_secs),
        measured: Duration::from_millis(args.real.trial_ms),
    };
    let validation = with_progress(|progress| Ok(validate::validate(&plan, parameters, progress)?))?;
    let report = &validation.report;
    if let Some(calibration) = &validation.calibration {
        write(&args.out.join(format!("{}.toml", calibration.parameters.name)), &calibration.to_toml())?;
        write(&args.out.join("validate.md"), &report.to_markdown())?;
        write(&args.out.join("validate.csv"), &report.to_csv())?;
    }
    if let Some(path) = &args.csv {
        write(path, &report.to_csv())?;
    }
    print(&report.to_markdown())
}

fn write(path: &Path, text: &str) -> Done {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

fn measure_parameters(args: &CalibrateArgs) -> Done {
    let plan = calibrate::Plan {
        program: args.real.program()?,
        name: args.name.clone(),
        scratch: args.real.scratch.clone(),
        rounds: args.rounds,
        measured: Duration::from_millis(args.real.trial_ms),
    };
    let calibration = with_progress(|progress| Ok(calibrate::calibrate(&plan, progress)?))?;
    print(&calibration.to_toml())
}

fn paper_figures(args: &PaperArgs, jobs: usize) -> Done {
    let reading = args.reading.as_deref().map(str::parse::<Reading>).transpose()?;
    let figure = args.figure.as_deref().map(str::parse::<Figure>).transpose()?;
    let experiments = Experiments {
        readings: reading.map_or(Reading::ALL.to_vec(), |one| vec![one]),
        figures: figure.map_or(Figure::ALL.to_vec(), |one| vec![one]),
        requests: args.requests,
        replications: args.replications,
    };
    let Folders { out, work } = &args.folders;
    with_progress(|progress| Ok(paper::write_figures(&experiments, out, work, jobs, progress)?))
}

fn advise_on(args: &AdviseArgs, parameters: &Parameters, jobs: usize) -> Done {
    let workload = requests_of(&args.log)?;
    let question = Question {
        workload,
        processors: args.processors,
        memory_bytes: args.memory,
        disk: args.disk.clone(),
        clients: args.clients,
        requests: args.requests,
    };
    let advice = with_progress(|progress| Ok(advise(&question, parameters, jobs, progress)?))?;
    match args.json {
        true => print(&format!("{}\n", serde_json::to_string_pretty(&advice)?)),
        false => print(&format!("{advice}\n")),
    }
}

/// The requests of a log or of a trace.
fn requests_of(path: &Path) -> Result<Workload, Box<dyn Error>> {
    let name = path.display().to_string();
    if name.ends_with(".csv") || name.ends_with(".csv.zst") {
        return Ok(Scenario { workload: name, ..Default::default() }.load_workload()?);
    }
    let text = lamna_lab::replay::read::text(path)?;
    let lines = text.lines().map(|text| {
        let Line { method, path, status, bytes, .. } = lamna_lab::replay::line::parse(text)?;
        Some(LogLine { method, path, status, bytes })
    });
    let Log { workload, served, misread } = read_log(&name, lines);
    let workload = workload.ok_or_else(|| match misread {
        0 => format!("{name}: no line is a GET or HEAD that was answered with 200, 206 or 304"),
        _ => format!(
            "{name}: no line is a request for a file; {} of no known format (common, combined, or JSON as Lamna, Caddy and \
             nginx write it)",
            match misread {
                1 => "1 line is".to_owned(),
                many => format!("{many} lines are"),
            }
        ),
    })?;
    // With standard error closed it is lost.
    _ = writeln!(
        io::stderr(),
        "{} of {}, {:.1} MiB; {} not understood",
        count(served, "request"),
        count(workload.sizes.len(), "file"),
        workload.data_set_bytes() as f64 / f64::from(1 << 20),
        count(misread, "line")
    );
    Ok(workload)
}

fn policies(workloads: &[String], requests: usize, svg: Option<&Path>) -> Done {
    let shares = [0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75];
    let results = with_progress(|progress| {
        let mut all = Vec::new();
        for (done, name) in workloads.iter().enumerate() {
            let workload = Scenario { workload: name.clone(), ..Default::default() }.load_workload()?;
            all.extend(hit_ratios(&workload, &shares, requests, 1));
            progress(done + 1, workloads.len());
        }
        Ok(all)
    })?;
    draw(svg, "Hit ratio by replacement policy", || hit_ratio_panels(&results))?;
    print(&hit_ratios_csv(&results))
}

fn compare_schedules(args: &SchedulesArgs, parameters: &Parameters) -> Done {
    let (bottleneck, turn_bytes) = match args.bottleneck.as_str() {
        "disk" => (Bottleneck::Disk(*disk_of(parameters, &args.disk)?), 1 << 20),
        _ => (Bottleneck::Link(f64::from(args.link) * 1e6), 64 << 10),
    };
    let question = schedules::Question {
        bottleneck,
        classes: WEBSTONE.to_vec(),
        load: f64::from(args.load) / 100.0,
        turn_bytes: args.turn.unwrap_or(turn_bytes),
        patience: args.patience,
        requests: args.requests,
        seed: args.seed,
    };
    let outcomes = schedules::schedules(&question);
    print(&if args.csv { schedules_csv(&question, &outcomes) } else { schedules_table(&outcomes) })
}

fn compare_hints(args: &HintsArgs) -> Done {
    let settings = Settings {
        share: args.memory.map_or(Settings::default().share, |percent| f64::from(percent) / 100.0),
        probability_least: Probability::per_mille(args.likely * 10),
        budget_per_mille: args.budget * 10,
        window_s: args.window,
        table_bytes: usize::try_from(args.table)?,
        expected_uses: args.uses,
    };
    let mut outcomes = Vec::new();
    for path in &args.traces {
        outcomes.extend(hint_outcomes(&read_timed_trace(path)?, &settings));
    }
    print(&hint_outcomes_csv(&outcomes))
}

fn fit() -> Done {
    let mut text = String::from("profile,zipf_exponent,file_bytes_mean,transfer_bytes_mean\n");
    for profile in &PROFILES {
        let exponent = fit_exponent(profile);
        let sizes = file_sizes(profile.files, profile.data_set_bytes);
        let file = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        let transfer = profile.workload().transfer_bytes_mean();
        text.push_str(&format!("{},{exponent},{file:.0},{transfer:.0}\n", profile.name));
    }
    print(&text)
}

/// Calls `work` with what it tells how many parts are done, of how many; shown on a terminal with the time that is
/// left.
fn with_progress<T>(
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    // Draws on standard error, and nothing at all where that is not a terminal.
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {pos} of {len}, {eta} left")?;
    bar.set_style(style.progress_chars("=> "));
    bar.enable_steady_tick(Duration::from_secs(1));
    let result = work(&|done, of| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    result
}

fn draw(path: Option<&Path>, title: &str, panels: impl FnOnce() -> Vec<report::Panel>) -> Done {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, report::svg(title, &panels())).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// A reader that has gone (as `head` does) is an error like any other, not a panic.
fn print(text: &str) -> Done {
    Ok(io::stdout().write_all(text.as_bytes())?)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
