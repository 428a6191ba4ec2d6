//! What a stage does for a connection during its turn, and what it leaves to another stage or to a helper.
//!
//! Owns: [`Duty`], in which the stages differ, [`Task`], what is left, and [`Hands`], by which the drive loop works as a stage.
//! Guarantees: a stage carries out its own duty only, and none of them waits. What is left goes with the connection, in order.

use std::sync::Arc;

use lamna_io::Counters;
use lamna_proto::exchange::program::{Input, Program, Ran};
use lamna_site::cache::Entry;

use crate::worker::connection_state::ConnectionState;
use crate::worker::context::{FileRange, Target, WorkerContext};
use crate::worker::drive::{self, OnSockets};
use crate::worker::executor::{Completed, Executor, PendingId, make_ready_now, translate_now};
use crate::worker::helpers::runners::Step;
use crate::worker::shared::Shared;

/// What a stage does that the others leave to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Receives.
    Receive,
    /// Looks targets up.
    Find,
    /// Sends what is in memory.
    Send,
    /// Makes ranges of files ready, and sends.
    SendFiles,
}

/// Something that is to be done for a connection, or what came of it.
#[derive(Debug)]
pub(super) enum Task {
    /// The target of this exchange is to be looked up: by the find stage.
    LookUp(PendingId),
    /// A target is to be found that takes waiting: by the path helper.
    Translate(PendingId, Target),
    /// A step of a program is to be carried out: by the path helper.
    Run(Step),
    /// A range is to be made ready: by the data stage.
    MakeReady(PendingId, FileRange),
    /// A range is to be read that takes waiting: by the read helper.
    Read(PendingId, FileRange),
    /// The path helper has found what a target stands for.
    Found(PendingId, Target, Arc<Entry>),
    /// A helper has carried something out.
    Completed(Completed),
}

impl Task {
    /// Whether the path helper carries it out.
    pub(super) fn is_for_path_helper(&self) -> bool {
        matches!(self, Task::Translate(..) | Task::Run(_))
    }

    /// Whether the read helper carries it out.
    pub(super) fn is_for_read_helper(&self) -> bool {
        matches!(self, Task::Read(..))
    }

    /// Whether the data stage sees to it.
    pub(super) fn is_for_data(&self) -> bool {
        matches!(self, Task::MakeReady(..) | Task::Read(..))
    }
}

/// What works for one connection during its turn with a stage.
pub(super) struct Hands<'h> {
    /// What the stage does.
    pub duty: Duty,
    /// What it leaves.
    pub tasks: &'h mut Vec<Task>,
    /// Targets to be compared with the file system by the path helper, for nobody in particular.
    pub aging: &'h mut Vec<Target>,
}

impl Hands<'_> {
    /// Takes up what was left for this stage, and hands over what helpers have brought.
    pub(super) fn take_up(&mut self, connection: &mut ConnectionState, task: Task, context: &mut WorkerContext<'_>) {
        match task {
            Task::LookUp(pending) if self.duty == Duty::Find => drive::look_up(connection, pending, context, self),
            Task::MakeReady(pending, range) if self.duty == Duty::SendFiles => {
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
        self.duty == Duty::Receive
    }

    fn sends(&self) -> bool {
        matches!(self.duty, Duty::Send | Duty::SendFiles)
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

    fn translate(&mut self, context: &mut WorkerContext<'_>, pending: PendingId, target: Target) -> Option<Arc<Entry>> {
        let entry = translate_now(context, &target);
        if entry.is_none() {
            Counters::count(&context.shared.abilities.counters.helper_jobs);
            self.tasks.push(Task::Translate(pending, target));
        }
        entry
    }

    fn refresh(&mut self, context: &mut WorkerContext<'_>, target: Target) {
        if translate_now(context, &target).is_none() {
            Counters::count(&context.shared.abilities.counters.helper_jobs);
            self.aging.push(target);
        }
    }

    fn make_ready(&mut self, shared: &Shared, pending: PendingId, range: FileRange) -> Option<Completed> {
        if self.duty != Duty::SendFiles {
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
        mut program: Box<dyn Program>,
        input: Input<'_>,
    ) -> Option<(Box<dyn Program>, Ran)> {
        if !input.is_last && program.gather(input.content) {
            return Some((program, Ran::Continue));
        }
        self.tasks.push(Task::Run(Step::new(pending, program, input)));
        None
    }

    /// It comes back with its connection, as tasks.
    fn completed(&mut self, _: &mut WorkerContext<'_>) -> Vec<Completed> {
        Vec::new()
    }
}
