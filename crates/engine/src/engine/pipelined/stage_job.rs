//! A connection on its way through the stages, with what it wants of them, and the context at which a stage works on it.
//!
//! Owns: [`StageJob`], which is always in exactly one place, and [`StageContext`]. Guarantees: a job that is not being worked
//! on is parked and holds no buffers.

use std::os::fd::AsRawFd;

use lamna_io::wait::Token;
use lamna_proto::conn::Interest;
use lamna_proto::workspace::Workspace;

use super::Pool;
use super::hands::{Duty, Hands, Task};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::{Target, WorkerContext};
use crate::worker::drive::{self, Turn};
use crate::worker::executor::Completed;

/// A connection that moves from stage to stage.
pub(super) struct StageJob {
    /// Its socket and what the core knows.
    pub slot: ConnectionState,
    /// What is to be done for it, and what has been done.
    pub tasks: Vec<Task>,
    /// Whether the data stage is told when sending becomes possible.
    pub sender_registered: bool,
}

impl StageJob {
    /// A connection that nothing is to be done for yet.
    pub(super) fn new(slot: ConnectionState) -> Box<StageJob> {
        Box::new(StageJob { slot, tasks: Vec::new(), sender_registered: false })
    }

    /// What it is found by.
    pub(super) fn token(&self) -> Token {
        Token { index: self.slot.transport.as_raw_fd() as u32, generation: self.slot.generation }
    }

    /// Whether there is such a task.
    pub(super) fn has(&self, is_such: impl Fn(&Task) -> bool) -> bool {
        self.tasks.iter().any(is_such)
    }

    /// Has the first of such tasks carried out. What came of it takes its place, behind the others.
    pub(super) fn carry_out_first(&mut self, is_such: impl Fn(&Task) -> bool, carry_out: impl FnOnce(Task) -> Task) {
        if let Some(index) = self.tasks.iter().position(is_such) {
            let task = self.tasks.remove(index);
            self.tasks.push(carry_out(task));
        }
    }
}

/// What a stage works with.
pub(super) struct StageContext<'a> {
    /// Its pool.
    pub pool: &'a Pool,
    /// Its context.
    pub context: WorkerContext<'a>,
    /// The server is draining: connections close as soon as nothing is under way on them.
    pub draining: bool,
    /// Targets that the path helper is to compare with the file system.
    pub aging: Vec<Target>,
    workspace: Option<Box<Workspace>>,
    /// What the connection that is worked on came with. Empty in between.
    brought: Vec<Task>,
}

impl<'a> StageContext<'a> {
    /// A station of a stage that begins.
    pub(super) fn new(pool: &'a Pool) -> StageContext<'a> {
        let context = WorkerContext::new(&pool.shared);
        let workspace = Some(context.workspace());
        StageContext { pool, context, draining: false, aging: Vec::new(), workspace, brought: Vec::new() }
    }

    /// Begins a batch: reads the clocks, and what the main thread wants. True when draining begins.
    pub(super) fn begin(&mut self) -> bool {
        let Some(workspace) = &mut self.workspace else { return false };
        self.context.update_time(workspace);
        let begins = !self.draining && self.pool.shared.control.is_draining();
        if begins {
            self.draining = true;
            workspace.drain();
        }
        begins
    }

    /// The job, unless the pool hands its connections over: then it has gone. What has to be carried out in this pool has been.
    pub(super) fn keep(&mut self, mut job: Box<StageJob>) -> Option<Box<StageJob>> {
        if !self.pool.shared.control.is_handing_over() {
            return Some(job);
        }
        for task in std::mem::take(&mut job.tasks) {
            let completed = match task {
                Task::Run(step) => step.carry_out(),
                Task::Completed(completed @ Completed::Ran(..)) => completed,
                // The successor does it, or does it again.
                _ => continue,
            };
            self.work_on(&mut job, |slot, context| drive::handle_completed(slot, completed, context));
        }
        self.pool.shared.hand_over([job.slot]);
        self.pool.count_out();
        None
    }

    /// Lets a connection go on as far as a stage of this duty takes it, until it has to wait or its turn is over.
    pub(super) fn turn(&mut self, job: &mut StageJob, duty: Duty) -> Turn {
        let token = job.token();
        let StageJob { slot, tasks, .. } = job;
        let StageContext { context, workspace, aging, brought, .. } = self;
        slot.connection.lend(workspace.take().expect(ONE_AT_A_TIME));
        // Their capacities stay with jobs and stages, so that nothing is allocated for a request.
        std::mem::swap(brought, tasks);
        let mut hands = Hands { duty, tasks, aging };
        for task in brought.drain(..) {
            hands.take_up(slot, task, context);
        }
        let turn = drive::turn(slot, token, context, &mut hands);
        *workspace = Some(slot.connection.reclaim());
        // What it holds on its way from stage to stage is no burden of its peer's.
        let is_on_its_way = |interest: Interest| interest.done || interest.send && slot.writable || !tasks.is_empty();
        if matches!(turn, Turn::Waits(interest) if !is_on_its_way(interest)) {
            slot.weigh();
        }
        turn
    }

    /// Works on a connection with a workspace.
    pub(super) fn work_on(
        &mut self,
        job: &mut StageJob,
        work: impl FnOnce(&mut ConnectionState, &mut WorkerContext<'a>),
    ) {
        let slot = &mut job.slot;
        slot.connection.lend(self.workspace.take().expect(ONE_AT_A_TIME));
        work(slot, &mut self.context);
        self.context.report(&mut slot.connection, &slot.transport, slot.peer);
        self.workspace = Some(slot.connection.reclaim());
    }

    /// How long until log lines have to be handed over, if there are any.
    pub(super) fn flush_ms(&self) -> Option<u64> {
        self.context.flush_due().map(|due| due.since(self.context.now) + 1)
    }
}

const ONE_AT_A_TIME: &str = "one job is worked on at a time";
