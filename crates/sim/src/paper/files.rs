//! The paper's experiments as files: figures as CSV and SVG for a reader, outcomes as JSON for the table of claims.

use std::io;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::{Figure, Reading, claims, claims_csv, claims_markdown, data_cache_csv, data_cache_panels, figures, panels};
use crate::report;
use crate::scenario::ScenarioError;
use crate::sweep::sweep;

/// The experiments to run.
#[derive(Clone, Debug)]
pub struct Experiments {
    /// Under which readings.
    pub readings: Vec<Reading>,
    /// Which figures. Figure 3 needs no simulation and is always drawn.
    pub figures: Vec<Figure>,
    /// Requests measured in each replication.
    pub requests: u64,
    /// Replications of each point.
    pub replications: u32,
}

/// Why files could not be made.
#[derive(Debug)]
pub enum FilesError {
    /// A file or folder.
    Io(PathBuf, io::Error),
    /// The files that `write_figures` kept are not those that `write_claims` reads.
    Kept(PathBuf, serde_json::Error),
    /// A scenario.
    Scenario(ScenarioError),
}

impl fmt::Display for FilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilesError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            FilesError::Kept(path, error) => write!(f, "{}: {error}", path.display()),
            FilesError::Scenario(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FilesError {}

/// Runs `experiments` on up to `jobs` threads. Each reading gets a folder in `out`, with its parameters; the outcomes
/// are kept in `work`. `progress` hears how many points are done, of how many.
pub fn write_figures(
    experiments: &Experiments,
    out: &Path,
    work: &Path,
    jobs: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<(), FilesError> {
    let points = |figure: &Figure| figure.scenarios(experiments.requests, experiments.replications);
    let all: usize = experiments.figures.iter().map(|figure| points(figure).len()).sum();
    let all = all * experiments.readings.len();
    let mut before = 0;
    for reading in &experiments.readings {
        let folder = out.join(reading.name());
        let parameters = reading.parameters();
        let text = toml::to_string(&parameters).expect("plain data");
        write(&folder.join("parameters.toml"), &text)?;
        write(&folder.join("fig3.csv"), &data_cache_csv(&parameters))?;
        let title = "Figure 3: the data cache that a process sees";
        write(&folder.join("fig3.svg"), &report::svg(title, &data_cache_panels(&parameters)))?;
        for &figure in &experiments.figures {
            let points = points(&figure);
            let outcomes = sweep(&points, &parameters, jobs, |done, _| progress(before + done, all))
                .map_err(FilesError::Scenario)?;
            before += points.len();
            let title = format!("{} of the PIPELINED paper, simulated", figure.name());
            write(&folder.join(format!("{}.csv", figure.name())), &report::csv(&outcomes))?;
            write(&folder.join(format!("{}.svg", figure.name())), &report::svg(&title, &panels(figure, &outcomes)))?;
            let kept = serde_json::to_string(&outcomes).expect("plain data");
            write(&kept_path(work, *reading, figure), &kept)?;
        }
    }
    Ok(())
}

/// Writes the table of claims to `out`, from the outcomes in `work`. Claims about what was not run are unknown.
pub fn write_claims(out: &Path, work: &Path) -> Result<(), FilesError> {
    let mut readings = Vec::new();
    for reading in Reading::ALL {
        let mut all = Vec::new();
        for figure in Figure::ALL {
            let path = kept_path(work, reading, figure);
            if let Ok(text) = fs::read_to_string(&path) {
                all.push((figure, serde_json::from_str(&text).map_err(|error| FilesError::Kept(path, error))?));
            }
        }
        // What no figure was run for says nothing.
        if all.is_empty() {
            continue;
        }
        readings.push((reading.name(), claims(&figures(all), &reading.parameters())));
    }
    write(&out.join("claims.md"), &claims_markdown(&readings))?;
    write(&out.join("claims.csv"), &claims_csv(&readings))
}

fn kept_path(work: &Path, reading: Reading, figure: Figure) -> PathBuf {
    work.join(reading.name()).join(format!("{}.json", figure.name()))
}

fn write(path: &Path, text: &str) -> Result<(), FilesError> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| FilesError::Io(path.into(), error))
}
