//! The plan of a calibration, its results so far, and the set that it gives.
//!
//! Owns: that every trial has a result. Measures and derives nothing.

use std::path::PathBuf;
use std::time::Duration;

use lamna_sim::parameters::Parameters;

use super::name::Name;
use crate::simulator::trial::Observed;
use crate::simulator::written;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `lamna`.
    pub program: PathBuf,
    /// The name of the set.
    pub name: String,
    /// A folder for files to serve, on the disk in question; made and removed.
    pub scratch: PathBuf,
    /// Rounds of all trials. At least 1.
    pub rounds: u32,
    /// Length of each trial, after half as long to warm up.
    pub measured: Duration,
}

/// A set, and for each of its values how it was got: the field's path (`costs.parse_us`) and a sentence.
pub struct Calibration {
    /// The measured set.
    pub parameters: Parameters,
    pub(super) how: Vec<(&'static str, String)>,
}

impl Calibration {
    /// As a parameter file, with the sentences as comments.
    pub fn to_toml(&self) -> String {
        written::with_comments(&self.parameters, &self.how)
    }
}

/// Results over the rounds.
pub(super) struct Results(pub(super) Vec<(Name, Observed)>);

impl Results {
    pub(super) fn of(&self, name: Name) -> Observed {
        self.0
            .iter()
            .find(|(own, _)| *own == name)
            .map(|(_, observed)| observed.clone())
            .unwrap_or_else(|| unreachable!("every trial was run"))
    }
}
