//! `lamna-sim`: the simulator by itself. Owns flags, progress and where results go; every verb is one call of the library.

use std::error::Error;
use std::fs;
use std::io::{BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use lamna_sim::advise::{Question, advise};
use lamna_sim::paper::{self, Figure, Reading};
use lamna_sim::parameters::Parameters;
use lamna_sim::policies::{HitRatio, hit_ratios, hit_ratios_csv};
use lamna_sim::report;
use lamna_sim::run::{Outcome, run};
use lamna_sim::scenario::Scenario;
use lamna_sim::sweep::{Sweep, compare, sweep};
use lamna_sim::workload::{PROFILES, file_sizes, fit_exponent, read_log};

type Done = Result<(), Box<dyn Error>>;

/// What each server architecture would do on machines we do not have.
#[derive(Parser)]
#[command(version)]
struct Command {
    /// Parameter set: paper-2005, linux-2026 or a TOML file.
    #[arg(long, global = true, default_value = "paper-2005")]
    parameters: String,
    /// Threads that simulate.
    #[arg(long, global = true, default_value_t = 1)]
    jobs: usize,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// One scenario; prints JSON.
    Run {
        /// A TOML file of the fields of a scenario.
        scenario: PathBuf,
    },
    /// Every architecture on one scenario; prints a table.
    Compare {
        /// A TOML file of the fields of a scenario; its architecture is ignored.
        scenario: PathBuf,
    },
    /// A grid of scenarios; prints CSV.
    Sweep {
        /// A TOML file: `base` and the lists of what varies.
        sweep: PathBuf,
        /// Also draws requests/s over processors here.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Figures 3 and 5 to 8 of the PIPELINED paper.
    Paper(PaperArgs),
    /// The table of the paper's claims, from figures that were run before.
    Claims {
        /// Folder for the table.
        #[arg(long, default_value = "results/sim")]
        out: PathBuf,
        /// Where `paper` kept its outcomes.
        #[arg(long, default_value = "target/sim")]
        work: PathBuf,
    },
    /// Which architecture, policy and purchase for this log on that machine.
    Advise(AdviseArgs),
    /// Hit ratios of the replacement policies; prints CSV.
    Policies {
        /// Profiles or traces.
        #[arg(required = true)]
        workloads: Vec<String>,
        /// Requests counted, after as many to warm up. Logs are read once for each.
        #[arg(long, default_value_t = 1_000_000)]
        requests: usize,
        /// Also draws hit ratios over cache size here.
        #[arg(long)]
        svg: Option<PathBuf>,
    },
    /// Fits the popularity of the six workloads to Table 5.
    Fit,
}

#[derive(Args)]
struct AdviseArgs {
    /// Access log in the common or combined format.
    #[arg(long)]
    log: PathBuf,
    #[arg(long)]
    processors: u32,
    /// What the server may use: a number of bytes, or with K, M or G.
    #[arg(long, value_parser = bytes)]
    memory: u64,
    /// A disk of the parameter set.
    #[arg(long)]
    disk: String,
    /// Requests under way at once.
    #[arg(long, default_value_t = 256)]
    clients: u32,
    /// Measured in each simulation.
    #[arg(long, default_value_t = 100_000)]
    requests: u64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct PaperArgs {
    /// Folder for the results.
    #[arg(long, default_value = "results/sim")]
    out: PathBuf,
    /// Where outcomes are kept for `claims`.
    #[arg(long, default_value = "target/sim")]
    work: PathBuf,
    /// What the paper leaves open: letter, private, granted, processor or processor-private. All if not given.
    #[arg(long)]
    reading: Option<String>,
    /// fig5a, fig5b, fig6, fig7 or fig8. All if not given.
    #[arg(long)]
    figure: Option<String>,
    /// Requests measured in each replication.
    #[arg(long, default_value_t = 200_000)]
    requests: u64,
    /// Replications of each point.
    #[arg(long, default_value_t = 2)]
    replications: u32,
}

fn main() -> Done {
    let command = Command::parse();
    let parameters = Parameters::named(&command.parameters)?;
    match &command.verb {
        Verb::Run { scenario } => {
            let outcome = run(&read::<Scenario>(scenario)?, &parameters, command.jobs)?;
            println!("{}", serde_json::to_string_pretty(&outcome)?);
        }
        Verb::Compare { scenario } => compare_all(&read(scenario)?, &parameters, command.jobs)?,
        Verb::Sweep { sweep: file, svg } => {
            let points = read::<Sweep>(file)?.scenarios();
            let outcomes = sweep(&points, &parameters, command.jobs, progress)?;
            print!("{}", report::csv(&outcomes));
            if let Some(path) = svg {
                fs::write(path, report::svg("Throughput", &paper::panels(Figure::Fig6, &outcomes)))?;
            }
        }
        Verb::Paper(args) => paper_figures(args, command.jobs)?,
        Verb::Claims { out, work } => paper_claims(out, work)?,
        Verb::Advise(args) => advise_on(args, &parameters, command.jobs)?,
        Verb::Policies { workloads, requests, svg } => policies(workloads, *requests, svg.as_deref())?,
        Verb::Fit => fit(),
    }
    Ok(())
}

fn compare_all(base: &Scenario, parameters: &Parameters, jobs: usize) -> Done {
    let outcomes = compare(base, parameters, jobs, progress)?;
    println!(
        "{:20}{:>12}{:>8}{:>12}{:>12}{:>8}{:>8}{:>8}  bottleneck",
        "architecture", "requests/s", "+-", "p50 us", "p99 us", "hits %", "cpu %", "disk %"
    );
    for o in &outcomes {
        println!(
            "{:20}{:>12.0}{:>8.0}{:>12.0}{:>12.0}{:>8.2}{:>8.1}{:>8.1}  {:?}",
            o.scenario.architecture.name(),
            o.requests_per_s.mean,
            o.requests_per_s.half_width.unwrap_or(f64::NAN),
            o.latency_p50_us,
            o.latency_p99_us,
            o.hit_ratio * 100.0,
            o.processor_utilisation * 100.0,
            o.disk_utilisation * 100.0,
            o.bottleneck
        );
    }
    Ok(())
}

fn paper_figures(args: &PaperArgs, jobs: usize) -> Done {
    let chosen = |reading: &Reading| args.reading.as_deref().is_none_or(|name| name == reading.name());
    let wanted = |figure: &Figure| args.figure.as_deref().is_none_or(|name| name == figure.name());
    for reading in Reading::ALL.into_iter().filter(chosen) {
        let folder = args.out.join(reading.name());
        fs::create_dir_all(&folder)?;
        fs::create_dir_all(args.work.join(reading.name()))?;
        let parameters = reading.parameters();
        fs::write(folder.join("parameters.toml"), toml::to_string(&parameters)?)?;
        fs::write(folder.join("fig3.csv"), paper::data_cache_csv(&parameters))?;
        let drawn = report::svg("Figure 3: the data cache that a process sees", &paper::data_cache_panels(&parameters));
        fs::write(folder.join("fig3.svg"), drawn)?;
        for figure in Figure::ALL.into_iter().filter(wanted) {
            let points = figure.scenarios(args.requests, args.replications);
            let outcomes = sweep(&points, &parameters, jobs, progress)?;
            write_figure(&folder, figure, &outcomes)?;
            fs::write(kept(&args.work, reading, figure), serde_json::to_string(&outcomes)?)?;
        }
    }
    Ok(())
}

fn paper_claims(out: &Path, work: &Path) -> Done {
    let mut readings = Vec::new();
    for reading in Reading::ALL {
        let mut all = Vec::new();
        for figure in Figure::ALL {
            if let Ok(text) = fs::read_to_string(kept(work, reading, figure)) {
                all.push((figure, serde_json::from_str(&text)?));
            }
        }
        readings.push((reading.name(), paper::claims(&paper::figures(all), &reading.parameters())));
    }
    fs::write(out.join("claims.md"), paper::claims_markdown(&readings))?;
    fs::write(out.join("claims.csv"), paper::claims_csv(&readings))?;
    Ok(())
}

/// Where a figure's outcomes are kept between the two verbs.
fn kept(work: &Path, reading: Reading, figure: Figure) -> PathBuf {
    work.join(reading.name()).join(format!("{}.json", figure.name()))
}

fn advise_on(args: &AdviseArgs, parameters: &Parameters, jobs: usize) -> Done {
    let file = fs::File::open(&args.log).map_err(|error| format!("{}: {error}", args.log.display()))?;
    let (workload, served, misread) = read_log(&args.log.display().to_string(), BufReader::new(file))?;
    let workload = workload.ok_or("the log has no request that was served from a file")?;
    eprintln!(
        "{served} requests of {} files, {:.1} MiB; {misread} lines not understood",
        workload.sizes.len(),
        workload.data_set_bytes() as f64 / f64::from(1 << 20)
    );
    let question = Question {
        workload,
        processors: args.processors,
        memory_bytes: args.memory,
        disk: args.disk.clone(),
        clients: args.clients,
        requests: args.requests,
    };
    let advice = advise(&question, parameters, jobs)?;
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&advice)?),
        false => println!("{advice}"),
    }
    Ok(())
}

fn policies(workloads: &[String], requests: usize, svg: Option<&Path>) -> Done {
    let shares = [0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75];
    let mut all = Vec::new();
    let mut panels = Vec::new();
    for name in workloads {
        let workload = Scenario { workload: name.clone(), ..Default::default() }.load_workload()?;
        let results = hit_ratios(&workload, &shares, requests, 1);
        panels.extend([false, true].map(|equal_sizes| hit_ratio_panel(&workload.name, equal_sizes, &results)));
        all.extend(results);
    }
    print!("{}", hit_ratios_csv(&all));
    if let Some(path) = svg {
        fs::write(path, report::svg("Hit ratio by replacement policy", &panels))?;
    }
    Ok(())
}

fn hit_ratio_panel(workload: &str, equal_sizes: bool, results: &[HitRatio]) -> report::Panel {
    let results: Vec<_> = results.iter().filter(|result| result.equal_sizes == equal_sizes).collect();
    let mut series: Vec<report::Series> = Vec::new();
    for result in results.iter().filter(|result| !result.policy.ends_with("+filter") || result.policy == "lru+filter") {
        let point = (result.share * 100.0, result.hit_ratio * 100.0);
        match series.iter_mut().find(|series| series.name == result.policy) {
            Some(series) => series.points.push(point),
            None => series.push(report::Series { name: result.policy.clone(), points: vec![point] }),
        }
    }
    let kind = if equal_sizes { "all sizes equal" } else { "real sizes" };
    report::Panel {
        title: format!("{workload}, {kind}"),
        x: "cache, % of the data set".into(),
        y: "hits, %".into(),
        series,
    }
}

/// A number of bytes with an optional binary suffix.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.trim_end_matches(['B', 'b']).strip_suffix(['K', 'M', 'G', 'k', 'm', 'g']) {
        Some(digits) if text.contains(['K', 'k']) => (digits, 1_u64 << 10),
        Some(digits) if text.contains(['M', 'm']) => (digits, 1 << 20),
        Some(digits) => (digits, 1 << 30),
        None => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a number of bytes"))?;
    number.checked_mul(unit).ok_or_else(|| format!("`{text}` is too much"))
}

fn write_figure(folder: &Path, figure: Figure, outcomes: &[Outcome]) -> Done {
    fs::write(folder.join(format!("{}.csv", figure.name())), report::csv(outcomes))?;
    let title = format!("{} of the PIPELINED paper, simulated", figure.name());
    fs::write(folder.join(format!("{}.svg", figure.name())), report::svg(&title, &paper::panels(figure, outcomes)))?;
    Ok(())
}

fn fit() {
    println!("profile,zipf_exponent,file_bytes_mean,transfer_bytes_mean");
    for profile in &PROFILES {
        let exponent = fit_exponent(profile);
        let sizes = file_sizes(profile.files, profile.data_set_bytes);
        let file = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        println!("{},{exponent},{file:.0},{:.0}", profile.name, profile.workload().transfer_bytes_mean());
    }
}

/// Points done and the time that is left, on a terminal only.
fn progress(done: usize, of: usize, elapsed_s: f64) {
    let mut terminal = std::io::stderr();
    if !terminal.is_terminal() {
        return;
    }
    let left = elapsed_s / done as f64 * (of - done) as f64;
    // A terminal that cannot be written to needs no progress.
    let _ = write!(terminal, "\r{done} of {of}, {left:.0} s left   ");
    if done == of {
        let _ = writeln!(terminal);
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?)
}
