//! The executor of the steps that may block: the contract between a loop that drives connections and its engine.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_io::Wait;
use lamna_io::wait::Token;
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_proto::exchange::{ContentBuffer, ExchangeId};
use lamna_proto::resource::Resource;
use lamna_proto::time::Instant;
use lamna_site::cache::Entry;
use lamna_site::content::translate::translate;

use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::helpers::runners;
use crate::worker::shared::Shared;

/// Names an exchange of a connection of this worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingId {
    /// The connection.
    pub token: Token,
    /// The exchange.
    pub exchange: ExchangeId,
}

/// The result of a step that was carried out.
#[derive(Debug)]
pub enum Completed {
    /// A target was translated.
    Translated(PendingId, Arc<Entry>),
    /// So many bytes are ready.
    Ready(PendingId, u64),
    /// These bytes were read.
    Content(PendingId, Arc<dyn ContentBuffer>),
    /// A target could not be translated in time: this is answered instead.
    Late(PendingId, Arc<Resource>),
    /// The file is no longer what was described, or cannot be read.
    Failed(PendingId),
    /// A step of a program was carried out.
    Stepped(PendingId, Box<dyn Program>, StepResult),
}

impl Completed {
    /// The beginning of `range` may be sent from its file by who may wait for the disk.
    pub fn of_range(shared: &Shared, pending: PendingId, range: &FileRange) -> Completed {
        match range.is_unchanged(shared) {
            true => Completed::Ready(pending, range.quantum()),
            false => Completed::Failed(pending),
        }
    }

    /// The exchange that waits for it.
    pub fn pending(&self) -> PendingId {
        match self {
            Completed::Translated(pending, _) | Completed::Ready(pending, _) => *pending,
            Completed::Content(pending, _) | Completed::Late(pending, _) | Completed::Failed(pending) => *pending,
            Completed::Stepped(pending, ..) => *pending,
        }
    }
}

/// The entry for `target`, which is put into the cache. Waits for the disk.
pub fn translate_in_line(context: &mut WorkerContext<'_>, target: &TranslationTarget) -> Arc<Entry> {
    let found = translate(&target.translation(context.shared, Wait::Yes, context.now));
    let entry = found.expect("only a translation that must not wait would block");
    context.keep(target, &entry);
    entry
}

/// The entry for `target`, which is put into the cache, if it can be found without waiting.
pub fn translate_now(context: &mut WorkerContext<'_>, target: &TranslationTarget) -> Option<Arc<Entry>> {
    let entry = translate(&target.translation(context.shared, Wait::No, context.now)).ok()?;
    context.keep(target, &entry);
    Some(entry)
}

/// The beginning of a range, if it can be sent from its file without waiting, or will never be.
pub fn make_ready_now(shared: &Shared, pending: PendingId, range: &FileRange) -> Option<Completed> {
    if !range.is_unchanged(shared) {
        return Some(Completed::Failed(pending));
    }
    if shared.reads_elsewhere() {
        return None;
    }
    range.in_memory(shared).map(|bytes| Completed::Ready(pending, bytes))
}

/// Carries out a step of a program in this thread, and waits for what it waits for.
pub fn run_in_line(mut program: Box<dyn Program>, input: Input<'_>) -> (Box<dyn Program>, StepResult) {
    let step_result = runners::run(&mut program, input);
    (program, step_result)
}

/// Has `submit` give a step of a program to another thread, which returns nothing here. Content that the program can
/// keep without waiting is no step, because each that is given away costs a change of threads.
pub fn run_elsewhere<'i>(
    mut program: Box<dyn Program>,
    input: Input<'i>,
    submit: impl FnOnce(Box<dyn Program>, Input<'i>),
) -> Option<(Box<dyn Program>, StepResult)> {
    if !input.is_last && program.gather(input.content) {
        return Some((program, StepResult::Continue));
    }
    submit(program, input);
    None
}

/// Carries out the steps that may block.
pub trait Executor {
    /// Whether the target of an exchange is looked up by another thread that drives the connection, which this call has
    /// told of it: see [`drive::look_up`](crate::worker::drive::look_up).
    fn leaves_look_up(&mut self, _: PendingId) -> bool {
        false
    }

    /// Translates `target` and keeps what is found, at once or, returning nothing, later.
    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>>;

    /// Compares a target that is in use with the file system, on behalf of no exchange.
    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget);

    /// Makes the beginning of a range ready, at once or, returning nothing, later.
    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed>;

    /// Carries out a step of a program that may block: at once, which is done here, or later, by [`run_elsewhere`].
    fn run(
        &mut self,
        _: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        Some(run_in_line(program, input))
    }

    /// A descriptor that is readable when there may be such steps; none if they wake the worker by its waker.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When to ask for such steps even if nothing has woken the worker.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Steps that were carried out meanwhile. Called when the worker has been woken, or when they are due. None where
    /// each is done at once, or comes back in another way.
    fn completed(&mut self, _: &mut WorkerContext<'_>) -> Vec<Completed> {
        Vec::new()
    }
}
