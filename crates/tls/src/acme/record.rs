//! The history of ordering a name, in a file beside its certificate: so that a pause outlives a restart, and every
//! process sees the same.
//!
//! Owns: the form of the file. The holder of the lock of the name writes it, as a whole or not at all. A file that
//! cannot be read is as if it was not there.

use std::fs;

use serde::{Deserialize, Serialize};

use crate::automatic::StateFiles;

/// The history of ordering a name. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Certificates issued so far.
    pub issued: u64,
    /// Attempts that have failed so far.
    pub failed: u64,
    /// Failed attempts since the last certificate.
    pub failures: u32,
    /// When a certificate was issued last.
    pub issued_at: u64,
    /// When an attempt was made last.
    pub tried_at: u64,
    /// Not to be tried before.
    pub not_before: u64,
    /// Why the last attempt has failed.
    pub error: Option<String>,
    /// The certificate authority's advice on the renewal of a certificate.
    pub renewal: Option<Renewal>,
}

/// When a certificate authority wants to have a certificate renewed (RFC 9773 4.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// Which certificate: the end of its validity.
    pub of: u64,
    /// From when to when; none if it does not say.
    pub window: Option<(u64, u64)>,
    /// When it is to be asked again.
    pub ask_at: u64,
}

/// Characters of an error that are kept: what a peer says can be of any length.
const ERROR_CHARACTERS_MAX: usize = 400;

impl Record {
    /// The record of `name`.
    pub fn read(files: &StateFiles, name: &str) -> Record {
        let text = fs::read_to_string(files.record(name)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes it. The caller holds the lock of `name`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, files: &StateFiles, name: &str) -> std::io::Result<()> {
        let text = serde_json::to_string_pretty(self).map_err(std::io::Error::other)?;
        files.write_record(name, &text)
    }

    /// An attempt at `now` has failed, because of `why`. The next is `pause` later.
    pub fn fail(&mut self, why: &str, now: u64, pause: u64) {
        let shown = |character: char| if character.is_control() { ' ' } else { character };
        self.failed += 1;
        self.failures = self.failures.saturating_add(1);
        (self.tried_at, self.not_before) = (now, now + pause);
        self.error = Some(why.chars().take(ERROR_CHARACTERS_MAX).map(shown).collect());
    }

    /// A certificate has been issued at `now`.
    pub fn succeed(&mut self, now: u64) {
        self.issued += 1;
        (self.failures, self.error) = (0, None);
        (self.tried_at, self.issued_at, self.not_before) = (now, now, 0);
        self.renewal = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let files = StateFiles::at(directory.path().join("ca"));
        files.prepare().unwrap();
        let mut record = Record::default();
        record.fail("no\nway", 1000, 60);
        record.renewal = Some(Renewal { of: 5, window: Some((1, 2)), ask_at: 3 });
        record.write(&files, "example.org").unwrap();
        assert_eq!(Record::read(&files, "example.org"), record);
        assert_eq!((record.error.as_deref(), record.not_before, record.failures), (Some("no way"), 1060, 1));
        fs::write(files.record("example.org"), "{\"failures\":").unwrap();
        assert_eq!(Record::read(&files, "example.org"), Record::default());
    }
}
