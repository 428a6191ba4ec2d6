//! A connection on its way through the stages, with what it wants of them, and what a stage does of that during its
//! turn.
//!
//! Owns: [`Job`], [`Task`], what is left to another thread, and [`Hands`], by which the drive loop works as a stage.
//! Guarantees: a job is in exactly one place; a stage carries out its own [`Duty`] only, and none of them waits; what
//! is left goes with the connection, in order.

use std::borrow::{Borrow, BorrowMut};
use std::sync::Arc;

use lamna_io::Counters;
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_site::cache::Entry;

use super::pool::Pool;
use super::route::Duty;
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::{FileRange, TranslationTarget, WorkerContext};
use crate::worker::drive::{self, OnSockets};
use crate::worker::executor::{Completed, Executor, PendingId, make_ready_now, run_elsewhere, translate_now};
use crate::worker::helpers::runners::Step;
use crate::worker::shared::Shared;

/// A connection that moves from stage to stage.
#[derive(Debug)]
pub(super) struct Job {
    /// Its socket and what the core knows.
    pub state: ConnectionState,
    /// Steps that are to be carried out for it, and results of steps.
    pub tasks: Vec<Task>,
    /// Whether the data stage is told when sending becomes possible.
    pub sender_registered: bool,
}

/// Several of them. They are given on as they are, without copying or allocating.
pub(super) type Jobs = Vec<Box<Job>>;

impl Job {
    /// A connection that nothing is to be done for yet.
    pub(super) fn new(state: ConnectionState) -> Box<Job> {
        Box::new(Job { state, tasks: Vec::new(), sender_registered: false })
    }

    /// Has the first of the tasks of `duty` carried out. What came of it takes its place, behind the others.
    pub(super) fn carry_out_first(&mut self, duty: Duty, carry_out: impl FnOnce(Task) -> Task) {
        if let Some(index) = self.tasks.iter().position(|task| task.duty() == Some(duty)) {
            let task = self.tasks.remove(index);
            self.tasks.push(carry_out(task));
        }
    }
}

impl Borrow<ConnectionState> for Box<Job> {
    fn borrow(&self) -> &ConnectionState {
        &self.state
    }
}

impl BorrowMut<ConnectionState> for Box<Job> {
    fn borrow_mut(&mut self) -> &mut ConnectionState {
        &mut self.state
    }
}

/// Something that is to be done for a connection, or what came of it.
#[derive(Debug)]
pub(super) enum Task {
    /// The target of this exchange is to be looked up.
    LookUp(PendingId),
    /// A target is to be found that takes waiting.
    Translate(PendingId, TranslationTarget),
    /// A step of a program is to be carried out.
    Run(Step),
    /// A range is to be made ready.
    MakeReady(PendingId, FileRange),
    /// A range is to be read that takes waiting.
    Read(PendingId, FileRange),
    /// A target has been found, and what it stands for.
    Found(PendingId, TranslationTarget, Arc<Entry>),
    /// Another step has been carried out.
    Completed(Completed),
}

impl Task {
    /// The thread that carries it out. None for what came of one: each stage takes that.
    pub(super) fn duty(&self) -> Option<Duty> {
        match self {
            Task::LookUp(_) => Some(Duty::Find),
            Task::Translate(..) | Task::Run(_) => Some(Duty::Path),
            Task::MakeReady(..) => Some(Duty::Data),
            Task::Read(..) => Some(Duty::Page),
            Task::Found(..) | Task::Completed(_) => None,
        }
    }
}

/// The executor of one connection during its turn with a stage.
pub(super) struct Hands<'h> {
    /// The duty of the stage.
    pub duty: Duty,
    /// Its pool.
    pub pool: &'h Pool,
    /// The tasks that it leaves.
    pub tasks: &'h mut Vec<Task>,
}

impl Hands<'_> {
    /// Takes up what was left for this stage, and hands over what helpers have brought.
    pub(super) fn take_up(&mut self, connection: &mut ConnectionState, task: Task, context: &mut WorkerContext<'_>) {
        match task {
            Task::LookUp(pending) if self.duty == Duty::Find => drive::look_up(connection, pending, context, self),
            Task::MakeReady(pending, range) if self.duty == Duty::Data => {
                if let Some(completed) = self.make_ready(context.shared, pending, range) {
                    drive::handle_completed(connection, completed, context);
                }
            }
            Task::Found(pending, target, entry) => {
                context.keep(&target, &entry);
                drive::handle_completed(connection, Completed::Translated(pending, entry), context);
            }
            Task::Completed(completed) => drive::handle_completed(connection, completed, context),
            task => self.tasks.push(task),
        }
    }
}

impl OnSockets for Hands<'_> {
    fn receives(&self) -> bool {
        self.duty == Duty::Read
    }

    fn sends(&self) -> bool {
        matches!(self.duty, Duty::Header | Duty::Data)
    }
}

impl Executor for Hands<'_> {
    fn leaves_look_up(&mut self, pending: PendingId) -> bool {
        let leaves = self.duty != Duty::Find;
        if leaves {
            self.tasks.push(Task::LookUp(pending));
        }
        leaves
    }

    fn translate(
        &mut self,
        context: &mut WorkerContext<'_>,
        pending: PendingId,
        target: TranslationTarget,
    ) -> Option<Arc<Entry>> {
        let entry = translate_now(context, &target);
        if entry.is_none() {
            Counters::count(&context.shared.abilities.counters.helper_jobs);
            self.tasks.push(Task::Translate(pending, target));
        }
        entry
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: TranslationTarget) {
        if translate_now(context, &target).is_none() {
            Counters::count(&context.shared.abilities.counters.helper_jobs);
            self.pool.compare(target);
        }
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        if self.duty != Duty::Data {
            self.tasks.push(Task::MakeReady(pending, range));
            return None;
        }
        let completed = make_ready_now(shared, pending, &range);
        if completed.is_none() {
            Counters::count(&shared.abilities.counters.helper_jobs);
            self.tasks.push(Task::Read(pending, range));
        }
        completed
    }

    fn run(
        &mut self,
        pending: PendingId,
        program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, StepResult)> {
        run_elsewhere(program, input, |program, input| self.tasks.push(Task::Run(Step::new(pending, program, input))))
    }
}
