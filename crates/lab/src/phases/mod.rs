//! One server life under six loads, one after the other: whether a server that chooses its engine keeps up with the
//! best fixed one in each, and beats all of them over the whole.
//!
//! Owns: the order of the measurements and where they are kept. The loads are in [`workload`], one server's life in
//! [`measure`], its record in [`mod@run`], what follows in [`verdict`], [`table`] and [`plot`]; long constant loads in
//! [`stability`].
//!
//! ```text
//!   site -> for each round: servers up -> for each phase, for each engine in another order: load -> servers down -> ENGINE-ROUND.json
//!        -> table.md, phases.svg of all there is
//! ```
//! Existing measurements are not repeated, so that a long comparison can be made in short turns, of some engines or
//! rounds each.

mod measure;
mod plot;
pub mod run;
pub mod stability;
pub mod table;
pub mod verdict;
mod workload;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::compare::Watcher;
use crate::compare::store::digest;
use crate::machine::Machine;
use measure::Failure;
use run::Run;
pub use workload::Phase;
use workload::Site;

/// The engine that is compared with all others.
pub const AUTO: &str = "auto";

/// Engines that can be compared, `auto` first. The last two are processes, which `auto` does not choose.
pub const ENGINES: [&str; 10] = [
    AUTO,
    "sped",
    "amped",
    "proactor",
    "pipelined",
    "thread-pool",
    "thread-per-request",
    "thread-per-session",
    "mp",
    "co-amped",
];

/// How the phases are run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Engines to measure, of [`ENGINES`].
    pub engines: Vec<String>,
    /// Length of each phase, more than two.
    pub seconds: f64,
    /// How often each engine is measured. At least one.
    pub rounds: usize,
    /// Reads a second of the servers' disk; none: as many as it does.
    pub read_iops: Option<u32>,
    /// Where results go.
    pub results: PathBuf,
    /// For the site and the logs of servers.
    pub work: PathBuf,
    /// Lamna's program.
    pub lamna: PathBuf,
    /// Processors of the servers; none leaves it to the kernel.
    pub server_processors: Vec<usize>,
    /// Processors of the load generator; none leaves it to the kernel.
    pub client_processors: Vec<usize>,
    /// The command line, for the report.
    pub command: String,
}

/// Why the phases could not be run.
#[derive(Debug)]
pub enum PhasesError {
    /// A file of the laboratory.
    File(PathBuf, io::Error),
    /// The site could not be built.
    Site(String),
    /// An engine's server could not be started.
    Server(String),
    /// It was asked to stop.
    Stopped,
}

impl fmt::Display for PhasesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PhasesError::File(path, error) => write!(f, "{}: {error}", path.display()),
            PhasesError::Site(what) | PhasesError::Server(what) => f.write_str(what),
            PhasesError::Stopped => f.write_str("stopped; what was measured is kept, and the same command goes on"),
        }
    }
}

impl std::error::Error for PhasesError {}

/// Measures what is missing, and writes the table and the plot of all that is there. Returns the table.
///
/// # Errors
/// See [`PhasesError`].
pub fn run(options: &Options, watcher: &mut dyn Watcher) -> Result<String, PhasesError> {
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |error| PhasesError::File(path, error)
    };
    fs::create_dir_all(&options.results).map_err(file_error(&options.results))?;
    let site = Site::build(&options.work).map_err(PhasesError::Site)?;
    // Before this thread stays on some of its processors.
    let machine = Machine::this();
    for round in 1..=options.rounds {
        let path = |engine: &str| options.results.join(format!("{engine}-{round}.json"));
        let is_missing = |engine: &&str| read(&path(engine)).is_none_or(|run| run.digest != options.digest());
        let missing: Vec<&str> = options.engines.iter().map(String::as_str).filter(is_missing).collect();
        let runs =
            measure::measure(&missing, round, options, &site, &machine, watcher).map_err(|failure| match failure {
                Failure::Stopped => PhasesError::Stopped,
                Failure::Server(reason) => PhasesError::Server(reason),
            })?;
        for run in runs {
            let path = path(&run.engine);
            let text = serde_json::to_string(&run).map_err(io::Error::other).map_err(file_error(&path))?;
            fs::write(&path, text).map_err(file_error(&path))?;
        }
    }
    let mut runs = read_all(&options.results);
    // What was measured under other circumstances cannot stand beside it.
    runs.retain(|run| run.digest == options.digest());
    let table = table::markdown(&runs);
    for (name, text) in [("table.md", &table), ("phases.svg", &plot::svg(&runs))] {
        let path = options.results.join(name);
        fs::write(&path, text).map_err(file_error(&path))?;
    }
    Ok(table)
}

/// All results in `directory`, by engine in the order of [`ENGINES`] and by round.
fn read_all(directory: &Path) -> Vec<Run> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut runs: Vec<(PathBuf, Run)> =
        entries.filter_map(|entry| Some((entry.path(), read(&entry.path())?))).collect();
    let place = |run: &Run| ENGINES.iter().position(|engine| *engine == run.engine);
    runs.sort_by(|(a, one), (b, other)| place(one).cmp(&place(other)).then_with(|| a.cmp(b)));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// A run, if the file holds one.
fn read(path: &Path) -> Option<Run> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

impl Options {
    /// Digest of all that makes runs comparable.
    fn digest(&self) -> String {
        let Options { seconds, read_iops, server_processors, client_processors, .. } = self;
        digest(&format!("{} {seconds} {read_iops:?} {server_processors:?} {client_processors:?}", workload::VERSION))
    }
}
