//! Tests that cannot run on this machine say so, by name.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that test `name` was skipped, on standard error and, if `LAMNA_SKIPPED_FILE` names a file, at its end.
pub(crate) fn skipped(name: &str, reason: &str) {
    let line = format!("SKIPPED {name}: {reason}\n");
    eprint!("{line}");
    let Some(path) = std::env::var_os("LAMNA_SKIPPED_FILE") else { return };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    // One write, so that lines of tests that run at the same time stay whole.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", path.display()));
}
