//! New threads in the place of those that can no longer reach what is served.
//!
//! Owns: when it is looked at, and what is done: threads that are confined (`worker::confinement`) reach the directories that roots named
//! when they began. A root that names another one is served from the old one until other threads, or another process where helpers
//! are processes, have taken over, as with a reload. Guarantees: what cannot be done now is tried again a minute later.

use std::time::{Duration, Instant};

use lamna_io::log::errors::{self, Level};

use super::Server;
use crate::process::upgrade::Purpose;

/// How often it is looked whether paths still name what they did.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long nothing is tried after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// What was replaced, in words.
pub(in crate::process) const WHAT: &str = "a directory that is served has been replaced by another";

/// When to look next.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    due: Option<Instant>,
}

impl Server {
    /// Has other threads serve if those that do cannot reach what is to be served. In worker processes the supervisor does it.
    pub(super) fn look_at_confinement(&mut self) {
        let now = Instant::now();
        if self.settings().architecture.is_of_processes() || self.renewal.due.is_some_and(|due| now < due) {
            return;
        }
        self.renewal.due = Some(now + INTERVAL);
        if self.running.shared.confinement.is_current() {
            return;
        }
        let settings = self.settings().clone();
        let done = match self.running.shared.fork_server.is_some() {
            true => self.begin_succession(&settings, Purpose::Change(WHAT.to_owned())),
            false => self.go_over(&settings).map(|_| {
                errors::tell(Level::Info, format_args!("{WHAT}: other threads serve it, because these are confined"));
            }),
        };
        if let Err(error) = done {
            self.renewal.due = Some(now + PAUSE);
            let why = format!("{WHAT}, and is not served yet, because {error}");
            errors::report(Level::Error, format_args!("{why}"));
        }
    }
}
