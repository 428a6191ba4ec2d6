//! SPED: a single-process event-driven server (Flash 3.3, Zeus).
//!
//! Its whole character: the event loop carries out every step itself. On cached content nothing is faster; one step
//! that waits for the disk makes every connection of the worker wait.

use std::sync::Arc;

use lamna_site::cache::Entry;
use rustix::io::Errno;

use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::OnSockets;
use crate::worker::event_loop::Worker;
use crate::worker::executor::{Completed, Executor, PendingId, translate_in_line};
use crate::worker::shared::Shared;

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// The wait for events fails, or there are no descriptors to begin with.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    Worker::new(shared, index, InLine)?.run()
}

/// Carries everything out in line.
struct InLine;

impl OnSockets for InLine {}

impl Executor for InLine {
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        _pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        Some(translate_in_line(context, &target))
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        translate_in_line(context, &target);
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        Some(Completed::of_range(shared, pending, &range))
    }
}
