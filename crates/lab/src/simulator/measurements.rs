//! The store of trials: measurements kept in a file as they are made, so that an interrupted run goes on where it
//! stopped.
//!
//! Owns: the file's form (JSON). Guarantees: what is in the file is whole, whenever the process ends. Does not judge
//! what it keeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lamna_sim::parameters::DiskParameters;
use serde::{Deserialize, Serialize};

use super::calibrate::steps::Steps;
use super::micro;
use super::trial::Observed;

/// The measurements so far, in the order in which they were made.
pub(super) struct Measurements {
    path: Option<PathBuf>,
    content: Content,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    trials: Vec<Line>,
    /// Single steps, once a round.
    #[serde(default)]
    steps: Vec<Steps>,
    /// The disk, likewise.
    #[serde(default)]
    disks: Vec<DiskParameters>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    observed: Observed,
}

/// Which trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Key {
    /// A scenario of the validation, or `calibrate: ` and what is calibrated.
    pub(super) scenario: String,
    /// Its `--arch`.
    pub(super) engine: String,
    /// Its `--workers`.
    pub(super) workers: u32,
}

impl Measurements {
    /// Opens the file; if there is none it is made, with its folder. Without a path it is only remembered.
    ///
    /// # Errors
    /// It cannot be read or made, or is something else.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Measurements> {
        let Some(path) = path else { return Ok(Measurements { path: None, content: Content::default() }) };
        read_or_make(path)
            .map(|content| Measurements { path: Some(path.to_owned()), content })
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    pub(super) fn trials(&self, key: &Key) -> Vec<Observed> {
        self.content.trials.iter().filter(|line| line.key == *key).map(|line| line.observed.clone()).collect()
    }

    /// The speed of the machine that most trials met; 0 if none knows.
    pub(super) fn yardstick_us(&self) -> f64 {
        let known = self.content.trials.iter().map(|line| line.observed.yardstick_us).filter(|&us| us > 0.0);
        let known: Vec<f64> = known.collect();
        if known.is_empty() { 0.0 } else { micro::middle(known) }
    }

    pub(super) fn add(&mut self, key: &Key, observed: Observed) -> io::Result<()> {
        self.content.trials.push(Line { key: key.clone(), observed });
        self.save()
    }

    /// Rounds of single steps and of the disk, as many of the one as of the other.
    pub(super) fn steps(&self) -> (&[Steps], &[DiskParameters]) {
        (&self.content.steps, &self.content.disks)
    }

    pub(super) fn add_steps(&mut self, steps: Steps, disk: DiskParameters) -> io::Result<()> {
        self.content.steps.push(steps);
        self.content.disks.push(disk);
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        self.path.as_deref().map_or(Ok(()), |path| write(path, &self.content))
    }
}

fn read_or_make(path: &Path) -> io::Result<Content> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(serde_json::from_str(&text)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            let content = Content::default();
            // Better now than after the first trial.
            write(path, &content)?;
            Ok(content)
        }
        Err(error) => Err(error),
    }
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    let whole = path.with_extension("new");
    fs::write(&whole, serde_json::to_string_pretty(content)?)?;
    fs::rename(whole, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_by_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a folder that is made").join("trials.json");
        let key = |engine: &str, workers| Key { scenario: "trace".into(), engine: engine.into(), workers };
        let observed = Observed { requests_per_s: 7.0, ..Observed::default() };
        let mut kept = Measurements::open(Some(&path)).unwrap();
        kept.add(&key("sped", 1), observed).unwrap();
        kept.add_steps(Steps::default(), DiskParameters::default()).unwrap();
        let kept = Measurements::open(Some(&path)).unwrap();
        assert_eq!(kept.trials(&key("sped", 1)).len(), 1);
        assert!(kept.trials(&key("sped", 2)).is_empty());
        assert!(kept.trials(&key("amped", 1)).is_empty());
        assert_eq!(kept.steps().0.len(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_understood_or_made_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trials.json");
        fs::write(&path, "no trials").unwrap();
        // A file is no folder.
        for path in [path.clone(), path.join("trials.json")] {
            let error = Measurements::open(Some(&path)).err().expect("it is not what was kept").to_string();
            assert!(error.starts_with(&path.display().to_string()), "{error}");
        }
    }
}
