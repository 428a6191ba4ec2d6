//! New threads in the place of those that can no longer reach what is served.
//!
//! Owns: when it is looked at, and what is done: threads that are confined (`worker::confinement`) reach the
//! directories that roots named when they began. A root that names another one is served from the old one until other
//! threads, or another process where helpers are processes or processes serve, have taken over, as with a reload.
//! Guarantees: what cannot be done now is tried again a minute later.

use std::time::{Duration, Instant};

use lamna_io::log::errors::{self, Level};

use crate::process::administration::StartConfig;
use crate::process::body::{Body, Changed, begin_succession};
use crate::process::upgrade::{Purpose, Succession};

/// How often it is looked whether paths still name what they did.
const INTERVAL: Duration = Duration::from_millis(500);
/// How long nothing is tried after a failure.
const PAUSE: Duration = Duration::from_secs(60);

/// The reason, in words.
pub(crate) const WHAT: &str = "a directory that is served has been replaced by another";

/// When to look next.
#[derive(Debug, Default)]
pub(crate) struct Renewal {
    due: Option<Instant>,
}

impl Renewal {
    /// Has others serve if those that do cannot reach what is to be served. To be called while no other process is
    /// about to serve.
    pub(crate) fn look(&mut self, body: &mut dyn Body, succession: &mut Succession, start_config: &StartConfig) {
        let now = Instant::now();
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        self.due = Some(now + INTERVAL);
        let renewed = match body.renew() {
            Ok(Changed::Needless) => return,
            Ok(Changed::Done) => {
                errors::tell(Level::Info, format_args!("{WHAT}: other threads serve it, because these are confined"));
                return;
            }
            Ok(Changed::TakesProcess) => {
                begin_succession(body, succession, start_config, body.settings(), Purpose::Change(WHAT.to_owned()))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = renewed {
            self.due = Some(now + PAUSE);
            errors::report(Level::Error, format_args!("{WHAT}, and is not served yet, because {error}"));
        }
    }
}
