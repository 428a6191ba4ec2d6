//! The status of certificates that are ordered: read from the files, so any process can report it.
//!
//! Owns: the answer, and the wish to try again at once. Orders nothing.

use lamna_config::settings::Settings;
use lamna_io::log::calendar::Calendar;
use lamna_sys::clock::unix_ms;
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::schedule;
use crate::automatic::StateFiles;
use crate::der::Validity;

/// A name whose certificate is ordered. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ordered {
    /// The name.
    pub name: String,
    /// From when on the certificate is valid that is there; none if there is none.
    pub valid_from: Option<u64>,
    /// Until when.
    pub valid_until: Option<u64>,
    /// When it is to be renewed.
    pub renewed_at: Option<u64>,
    /// Certificates issued so far.
    pub issued: u64,
    /// Attempts that have failed so far.
    pub failed: u64,
    /// Attempts that have failed since the last certificate.
    pub failures: u32,
    /// Why the last one has.
    pub error: Option<String>,
    /// When it is tried again, after a failure.
    pub tried_again_at: Option<u64>,
}

impl Ordered {
    fn of(files: &StateFiles, name: &str) -> Ordered {
        let (record, validity) = (Record::read(files, name), validity(files, name));
        let is_failing = record.failures > 0;
        Ordered {
            name: name.to_owned(),
            valid_from: validity.and_then(|validity| u64::try_from(validity.from).ok()),
            valid_until: validity.and_then(|validity| u64::try_from(validity.until).ok()),
            renewed_at: validity.map(|validity| schedule::renew_at(validity, &record, seed(name, validity))),
            issued: record.issued,
            failed: record.failed,
            failures: record.failures,
            tried_again_at: is_failing.then_some(record.not_before),
            error: record.error,
        }
    }

    /// In words, at a time in seconds since 1970.
    pub fn describe(&self, now: u64) -> String {
        let valid = match (self.valid_until, self.renewed_at) {
            (Some(until), _) if until < now => format!("expired on {}", date(until)),
            (Some(until), Some(renewed)) => format!("until {}, renewed on {}", date(until), date(renewed)),
            (Some(until), None) => format!("until {}", date(until)),
            (None, _) => "none yet".to_owned(),
        };
        match (&self.error, self.tried_again_at) {
            (Some(error), Some(at)) => format!(
                "{}: {valid}; {} failed, the next {}: {error}",
                self.name,
                lamna_policy::words::count(self.failures as usize, "attempt"),
                within(at.saturating_sub(now)),
            ),
            _ => format!("{}: {valid}", self.name),
        }
    }
}

/// A time to come, in words.
pub fn within(seconds: u64) -> String {
    match seconds {
        0 => "now".to_owned(),
        1..90 => format!("in {seconds} s"),
        90..5400 => format!("in {} min", seconds.div_ceil(60)),
        _ => format!("in {} h", seconds.div_ceil(3600)),
    }
}

/// The day of a time, as in `2026-11-23`.
pub fn date(unix_seconds: u64) -> String {
    Calendar::from_unix_seconds(unix_seconds).rfc3339()[..10].iter().map(|byte| char::from(*byte)).collect()
}

/// Now, in seconds since 1970.
pub fn now() -> u64 {
    unix_ms() / 1000
}

/// All names whose certificates `settings` have ordered.
pub fn status(settings: &Settings) -> Vec<Ordered> {
    let names = settings.automatic_names();
    let files = if names.is_empty() { None } else { StateFiles::of(settings).ok() };
    files.iter().flat_map(|files| names.iter().map(|name| Ordered::of(files, name))).collect()
}

/// Lets every name be tried at once that waits because an attempt has failed, and its authority be asked again when it
/// is to be renewed. One that is being ordered is left alone.
pub fn try_now(settings: &Settings) {
    let names = settings.automatic_names();
    let files = if names.is_empty() { None } else { StateFiles::of(settings).ok() };
    for (files, name) in files.iter().flat_map(|files| names.iter().map(move |name| (files, name))) {
        let Ok(Some(_lock)) = files.lock(name) else { continue };
        let mut record = Record::read(files, name);
        record.not_before = 0;
        record.renewal.iter_mut().for_each(|renewal| renewal.ask_at = 0);
        // If it fails, the pause goes on.
        let _ = record.write(files, name);
    }
}

/// From when to when the certificate of `name` is valid, if it has one that can be served.
pub(super) fn validity(files: &StateFiles, name: &str) -> Option<Validity> {
    files.leaf(name).and_then(|leaf| crate::der::validity(&leaf))
}

/// The seed of random choices for one certificate: the same in every process.
pub(super) fn seed(name: &str, validity: Validity) -> u64 {
    // FNV-1a.
    let bytes = name.bytes().chain(validity.until.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_stands_is_said_in_words() {
        let day = 86_400;
        let mut ordered = Ordered { name: "a.test".to_owned(), ..Ordered::default() };
        assert_eq!(ordered.describe(0), "a.test: none yet");
        (ordered.valid_until, ordered.renewed_at) = (Some(90 * day), Some(60 * day));
        assert_eq!(ordered.describe(day), "a.test: until 1970-04-01, renewed on 1970-03-02");
        (ordered.error, ordered.failures, ordered.tried_again_at) = (Some("why".to_owned()), 2, Some(day + 200));
        assert!(ordered.describe(day).ends_with("; 2 attempts failed, the next in 4 min: why"));
        assert!(ordered.describe(91 * day).contains("expired on 1970-04-01"));
    }
}
