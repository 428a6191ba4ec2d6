//! AMPED: an event loop with helpers for what would wait for the disk (Flash 3.4).
//!
//! Its whole character: every step is first tried in line in a form that cannot wait; only what would have waited goes
//! to a helper, which does it so that it no longer would, and sends a notification. So cached content costs what it
//! costs SPED, and a cold file delays nobody but who asked for it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::time::Instant;
use rustix::io::Errno;

use crate::cache::Entry;
use crate::content::translate::translate;
use crate::engine::Shared;
use crate::engine::event_loop::{Carrier, Outcome, Stretch, Target, Ticket, Worker};
use crate::engine::helpers::{Finished, Helpers, Job};
use crate::engine::sped::question;
use crate::io::{Wait, read};

/// Serves as worker `index`, with at most `helpers_max` helpers, until told to drain or stop.
///
/// # Errors
/// What makes waiting impossible, or no descriptors to begin with.
pub fn run(shared: &Arc<Shared>, index: usize, helpers_max: usize) -> Result<(), Errno> {
    let helpers = Helpers::new(shared.clone(), index, helpers_max);
    Worker::new(shared, index, Helped { helpers })?.run()
}

/// Carries out in line what cannot wait, and hands the rest to helpers.
struct Helped {
    helpers: Helpers,
}

impl Carrier for Helped {
    fn translate(&mut self, shared: &Shared, ticket: Ticket, target: Target, now: Instant) -> Option<Arc<Entry>> {
        let entry = translate(&question(shared, &target, Wait::No, now));
        if entry.is_err() {
            self.helpers.submit(Job::Translate { ticket: Some(ticket), target, again: false });
        }
        entry.ok()
    }

    fn refresh(&mut self, shared: &Shared, target: Target, now: Instant) {
        match translate(&question(shared, &target, Wait::No, now)) {
            Ok(entry) => shared.store.insert(target.key(), entry),
            Err(_) => self.helpers.submit(Job::Translate { ticket: None, target, again: false }),
        }
    }

    fn make_ready(&mut self, shared: &Shared, ticket: Ticket, stretch: Stretch) -> Option<Outcome> {
        if !stretch.is_unchanged() {
            return Some(Outcome::Failed(ticket));
        }
        let file = stretch.representation.file.as_ref()?;
        let quantum = stretch.quantum();
        if read::test_resident(file.as_fd(), stretch.offset, quantum, &shared.abilities).is_ok() {
            return Some(Outcome::Ready(ticket, quantum));
        }
        self.helpers.submit(Job::PageIn { ticket, stretch });
        None
    }

    fn outcomes(&mut self, shared: &Shared, now: Instant) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        while let Some(finished) = self.helpers.finished() {
            outcomes.extend(self.outcome(shared, finished, now));
        }
        outcomes
    }
}

impl Helped {
    /// What a helper's notification comes to: the step is tried again in line, and now it does not wait.
    fn outcome(&mut self, shared: &Shared, finished: Finished, now: Instant) -> Option<Outcome> {
        match finished.job {
            Job::PageIn { ticket, stretch } => Some(match finished.failed {
                false if stretch.is_unchanged() => Outcome::Ready(ticket, stretch.quantum()),
                _ => Outcome::Failed(ticket),
            }),
            Job::Translate { ticket, target, again } => {
                let entry = match finished.entry {
                    Some(entry) => entry,
                    None => match translate(&question(shared, &target, Wait::No, now)) {
                        Ok(entry) => entry,
                        Err(_) => {
                            // Either it has been evicted already, or this file system cannot tell: the helper does it.
                            debug_assert!(!again, "a helper that does it all returns what it found");
                            shared.abilities.counters.untested.fetch_add(1, Relaxed);
                            self.helpers.submit(Job::Translate { ticket, target, again: true });
                            return None;
                        }
                    },
                };
                match ticket {
                    Some(ticket) => Some(Outcome::Translated(ticket, target, entry)),
                    None => {
                        shared.store.insert(target.key(), entry);
                        None
                    }
                }
            }
        }
    }
}
