//! SPED: a single-process event-driven server (Flash 3.3, Zeus).
//!
//! Its whole character: the event loop carries out every step itself. On cached content nothing is faster; one step that
//! waits for the disk makes every connection of the worker wait.

use std::sync::Arc;

use lamna_proto::time::Instant;
use rustix::io::Errno;

use crate::cache::Entry;
use crate::content::translate::{Question, translate};
use crate::engine::Shared;
use crate::engine::event_loop::{Carrier, Outcome, Stretch, Target, Ticket, Worker};
use crate::engine::stretch;
use crate::io::Wait;

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// What makes waiting impossible, or no descriptors to begin with.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    Worker::new(shared, index, InLine)?.run()
}

/// Carries everything out in line.
struct InLine;

impl Carrier for InLine {
    fn translate(&mut self, shared: &Shared, _ticket: Ticket, target: Target, now: Instant) -> Option<Arc<Entry>> {
        translate(&question(shared, &target, Wait::Yes, now)).ok()
    }

    fn refresh(&mut self, shared: &Shared, target: Target, now: Instant) {
        if let Ok(entry) = translate(&question(shared, &target, Wait::Yes, now)) {
            shared.store.insert(target.key(), entry);
        }
    }

    fn make_ready(&mut self, _shared: &Shared, ticket: Ticket, stretch: Stretch) -> Option<Outcome> {
        Some(stretch::confirm_unchanged(ticket, &stretch))
    }

    fn outcomes(&mut self, _shared: &Shared, _now: Instant) -> Vec<Outcome> {
        Vec::new()
    }
}

/// The question what `target` stands for.
pub(crate) fn question<'a>(shared: &'a Shared, target: &'a Target, wait: Wait, now: Instant) -> Question<'a> {
    Question {
        site: shared.sites.at(target.site),
        path: target.path(),
        query: target.query(),
        wait,
        previous: target.previous.as_ref(),
        now_ms: now.0,
        abilities: &shared.abilities,
    }
}
