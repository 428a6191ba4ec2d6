//! SPED: a single-process event-driven server (Flash 3.3, Zeus).
//!
//! Its whole character: the event loop carries out every step itself. On cached content nothing is faster; one step that
//! waits for the disk makes every connection of the worker wait.

use std::sync::Arc;

use rustix::io::Errno;

use crate::cache::Entry;
use crate::content::translate::translate;
use crate::engine::Shared;
use crate::engine::desk::{Desk, Stretch, Target};
use crate::engine::event_loop::{Carrier, Outcome, Ticket, Worker};
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
    fn translate(&mut self, desk: &mut Desk<'_>, _ticket: Ticket, target: Target) -> Option<Arc<Entry>> {
        let entry = translate(&target.question(desk.shared, Wait::Yes, desk.now)).ok()?;
        desk.keep(&target, &entry);
        Some(entry)
    }

    fn refresh(&mut self, desk: &mut Desk<'_>, target: Target) {
        if let Ok(entry) = translate(&target.question(desk.shared, Wait::Yes, desk.now)) {
            desk.keep(&target, &entry);
        }
    }

    fn make_ready(&mut self, _shared: &Shared, ticket: Ticket, stretch: Stretch) -> Option<Outcome> {
        Some(match stretch.is_unchanged() {
            true => Outcome::Ready(ticket, stretch.quantum()),
            false => Outcome::Failed(ticket),
        })
    }

    fn outcomes(&mut self, _desk: &mut Desk<'_>) -> Vec<Outcome> {
        Vec::new()
    }
}
