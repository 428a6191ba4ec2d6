//! Learning from requests, and the uses of what is learned, as settings.

use std::path::PathBuf;

use lamna_policy::hints::Probability;

use super::settings::Settings;

/// See docs/hints.md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HintSettings {
    /// Whether sites that do not say so themselves are learned from.
    pub is_on: bool,
    /// Bytes of memory that what is learned takes at most, names included.
    pub bytes_max: u64,
    /// Where what is learned is kept; none for the state directory.
    pub file: Option<PathBuf>,
    /// The least probability of a prediction that is acted on.
    pub probability_least: Probability,
    /// Whether what is likely next is read into the cache before it is asked for.
    pub reads_ahead: bool,
    /// Reads ahead of requests that may be in vain, in percent of those that were needed.
    pub reads_ahead_percent: u16,
}

impl Default for HintSettings {
    fn default() -> HintSettings {
        HintSettings {
            is_on: false,
            bytes_max: 16 << 20,
            file: None,
            probability_least: Probability::per_mille(200),
            reads_ahead: false,
            reads_ahead_percent: 10,
        }
    }
}

impl HintSettings {
    /// Those of one process of so many, which learn by themselves.
    pub fn share_of(&self, processes: usize) -> HintSettings {
        let bytes_max = (self.bytes_max / processes.max(1) as u64).max(PROCESS_BYTES_MIN);
        HintSettings { bytes_max, ..self.clone() }
    }
}

/// The least memory of a process, most of which holds the requests that its threads report.
const PROCESS_BYTES_MIN: u64 = 1 << 20;

/// Where what is learned is kept: where it is set to, or in the state directory by the first address. None if a server
/// that listens at any port, which is another one the next time, says nothing, or there is no state directory.
pub fn state_file(settings: &Settings) -> Option<PathBuf> {
    if let Some(file) = &settings.hints.file {
        return Some(file.clone());
    }
    let address = &settings.listen.first()?.at;
    if address.port() == Some(0) {
        return None;
    }
    let is_plain = |each: char| each.is_ascii_alphanumeric() || matches!(each, '.' | '-');
    let name: String = address.to_string().chars().map(|each| if is_plain(each) { each } else { '_' }).collect();
    Some(super::state::state_directory()?.join("hints").join(format!("{name}.table")))
}

/// Whether any site is learned from.
pub fn are_wanted(settings: &Settings) -> bool {
    settings.sites.iter().any(|site| site.hints.unwrap_or(settings.hints.is_on))
}
