//! A stage: one thread, and the life that all four have.
//!
//! Owns: what a stage works with, the order of its work, and a turn. Guarantees: a stage never waits for the disk or a
//! peer; a connection gets a bounded turn, however large its file; a stage carries out its own [`Duty`] only. Where a
//! connection goes next, [`route`] says; how it rests, `rest`.

use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_io::wait::{Poll, Token};
use lamna_proto::conn::Interest;
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use super::applications;
use super::inbox::Urgency;
use super::job::{Hands, Job, Task};
use super::pool::{End, Outputs, Pool};
use super::rest::{Away, BELL};
use super::route::{Duty, Output, route};
use crate::worker::connection_state::ConnectionState;
use crate::worker::connection_table::ConnectionTable;
use crate::worker::context::WorkerContext;
use crate::worker::drive::{self, Turn};
use crate::worker::executor::Completed;

/// One stage of a pool.
pub(super) struct Stage<'a> {
    pub pool: &'a Arc<Pool>,
    pub duty: Duty,
    pub context: WorkerContext<'a>,
    workspace: Option<Box<Workspace>>,
    /// The tasks with which the connection came that is worked on. Empty in between.
    brought: Vec<Task>,
    /// The server is draining: connections close as soon as nothing is under way on them.
    pub draining: bool,
    /// The connections that it has been given, and to which threads it gives them.
    #[expect(clippy::vec_box, reason = "given on as they are, without copying or allocating")]
    pub jobs: Vec<Box<Job>>,
    pub outputs: Outputs<'a>,
    /// Where it waits for sockets, if connections rest with it.
    pub poll: Option<Poll>,
    /// Connections that rest with it, and those of them that go on without an event.
    pub resting: ConnectionTable<Box<Job>>,
    pub again: Vec<Token>,
    /// By descriptor: connections of the read stage that are with others; and for how many of them something has
    /// happened.
    pub away: Vec<Away>,
    pub awaited: usize,
}

/// The life of the stage of `duty`.
///
/// # Errors
/// No descriptors or memory, or what makes waiting impossible.
pub(super) fn run(pool: &Arc<Pool>, duty: Duty) -> End {
    let mut stage = Stage::new(pool, duty)?;
    while !pool.is_over() {
        stage.wait()?;
        stage.begin();
        let mut jobs = std::mem::take(&mut stage.jobs);
        jobs.drain(..).for_each(|job| stage.arrive(job));
        stage.jobs = jobs;
        stage.handle_events();
        stage.resume_queued();
        stage.handle_deadlines();
        stage.make_room();
        stage.context.flush_if_due();
        stage.show_load();
        stage.outputs.deliver();
    }
    Ok(())
}

impl<'a> Stage<'a> {
    fn new(pool: &'a Arc<Pool>, duty: Duty) -> Result<Stage<'a>, Errno> {
        let context = WorkerContext::new(&pool.shared);
        let mut poll = None;
        if let Some(waker) = pool.inbox(duty).waker() {
            poll.insert(Poll::new()?).add_notifier(waker.descriptor().as_fd(), BELL)?;
        }
        Ok(Stage {
            pool,
            duty,
            workspace: Some(context.workspace()),
            context,
            brought: Vec::new(),
            draining: false,
            jobs: Vec::new(),
            outputs: Outputs::new(pool, duty),
            poll,
            resting: ConnectionTable::default(),
            again: Vec::new(),
            away: Vec::new(),
            awaited: 0,
        })
    }

    /// Begins a batch: reads the clocks, and does what the main thread wants with those that rest here.
    fn begin(&mut self) {
        let workspace = self.workspace.as_mut().expect(ONE_AT_A_TIME);
        self.context.update_time(workspace);
        let control = &self.pool.shared.control;
        let begins_draining = !self.draining && control.is_draining();
        if begins_draining {
            self.draining = true;
            workspace.drain();
        }
        if begins_draining && self.duty == Duty::Read || control.is_handing_over() {
            for token in self.resting.tokens() {
                let Some(mut job) = self.resting.take(token) else { continue };
                // A request may have arrived that nobody has looked at.
                job.state.readable = true;
                self.drive(job);
            }
        }
    }

    /// A connection has been given to this stage.
    fn arrive(&mut self, mut job: Box<Job>) {
        if self.duty == Duty::Read {
            return self.come_home(job);
        }
        // Room may have been made while the connection was elsewhere, and that event was for nobody.
        job.state.writable |= self.duty == Duty::Data;
        self.drive(job);
    }

    /// Lets a connection go on as far as this stage takes it, and passes it on.
    pub(super) fn drive(&mut self, job: Box<Job>) {
        let Some(mut job) = self.keep(job) else { return };
        let mut turn = self.turn(&mut job);
        if self.duty == Duty::Read && self.draining && job.state.may_end(false, self.context.now) {
            turn = Turn::Waits(Interest::CLOSE);
        }
        match route(self.duty, turn, &job.tasks) {
            Output::To(to) => {
                self.note_leaving(&job);
                self.outputs.put(to, job, Urgency::Now);
            }
            Output::Home => self.go_home(job, turn.interest()),
            Output::Rest => self.rest(job, turn),
            Output::Applications => {
                // It comes back as a new one.
                if let Some(poll) = self.poll.as_ref().filter(|_| job.state.registered) {
                    poll.remove(job.state.transport.as_fd());
                }
                applications::serve(self.pool, job.state);
            }
        }
    }

    /// The job, unless the pool hands its connections over: then it has gone. What has to be carried out in this pool
    /// has been.
    fn keep(&mut self, mut job: Box<Job>) -> Option<Box<Job>> {
        if !self.pool.shared.control.is_handing_over() {
            return Some(job);
        }
        for task in std::mem::take(&mut job.tasks) {
            let completed = match task {
                Task::Run(step) => step.carry_out(),
                Task::Completed(completed @ Completed::Stepped(..)) => completed,
                // The successor does it, or does it again.
                _ => continue,
            };
            self.work_on(&mut job, |state, context| drive::handle_completed(state, completed, context));
        }
        self.pool.shared.hand_over([job.state]);
        self.pool.count_out();
        None
    }

    /// Lets a connection go on until it has to wait, what is left is another's, or its turn is over.
    fn turn(&mut self, job: &mut Job) -> Turn {
        // Whether there is room is known by trying, which is another stage's.
        job.state.writable |= self.duty == Duty::Read;
        let Job { state, tasks, .. } = job;
        let Stage { pool, duty, context, workspace, brought, .. } = self;
        state.http.lend(workspace.take().expect(ONE_AT_A_TIME));
        // Their capacities stay with jobs and stages, so that nothing is allocated for a request.
        std::mem::swap(brought, tasks);
        let mut hands = Hands { duty: *duty, pool, tasks };
        brought.drain(..).for_each(|task| hands.take_up(state, task, context));
        let turn = drive::turn(state, state.token(), context, &mut hands);
        *workspace = Some(state.http.reclaim());
        // What it holds on its way from stage to stage is no burden of its peer's.
        let is_on_its_way = |interest: Interest| interest.done || interest.send && state.writable || !tasks.is_empty();
        if matches!(turn, Turn::Waits(interest) if !is_on_its_way(interest)) {
            state.account_memory();
        }
        turn
    }

    /// Works on a connection with a workspace.
    pub(super) fn work_on(&mut self, job: &mut Job, work: impl FnOnce(&mut ConnectionState, &mut WorkerContext<'a>)) {
        let state = &mut job.state;
        state.http.lend(self.workspace.take().expect(ONE_AT_A_TIME));
        work(state, &mut self.context);
        self.context.report(&mut state.http, &state.transport, state.peer);
        self.workspace = Some(state.http.reclaim());
    }
}

const ONE_AT_A_TIME: &str = "one job is worked on at a time";
