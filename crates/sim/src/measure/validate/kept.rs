//! Trials that are kept in a file, so that they need not be repeated.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Name;
use crate::measure::trial::Observed;

/// The trials so far, in the order in which they were made.
pub(super) struct Kept {
    path: Option<PathBuf>,
    lines: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    scenario: String,
    engine: String,
    workers: u32,
    observed: Observed,
}

impl Kept {
    /// What is in the file, if there is one; without a path they are only remembered.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Kept> {
        let path = path.map(Path::to_owned);
        let lines = match path.as_deref().map(fs::read_to_string) {
            Some(Ok(text)) => serde_json::from_str(&text).map_err(io::Error::from)?,
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => Vec::new(),
        };
        Ok(Kept { path, lines })
    }

    pub(super) fn trials(&self, scenario: Name, engine: &str, workers: u32) -> Vec<Observed> {
        let fits = |line: &&Line| line.scenario == scenario.name() && line.engine == engine && line.workers == workers;
        self.lines.iter().filter(fits).map(|line| line.observed.clone()).collect()
    }

    pub(super) fn add(&mut self, scenario: Name, engine: &str, workers: u32, observed: Observed) -> io::Result<()> {
        self.lines.push(Line { scenario: scenario.name().into(), engine: engine.into(), workers, observed });
        match &self.path {
            Some(path) => fs::write(path, serde_json::to_string_pretty(&self.lines)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.json");
        let observed = Observed { requests_per_s: 7.0, ..Observed::default() };
        Kept::open(Some(&path)).unwrap().add(Name::Trace, "sped", 1, observed).unwrap();
        let kept = Kept::open(Some(&path)).unwrap();
        assert_eq!(kept.trials(Name::Trace, "sped", 1).len(), 1);
        assert!(kept.trials(Name::Trace, "sped", 2).is_empty());
        assert!(kept.trials(Name::Cached, "sped", 1).is_empty());
    }
}
