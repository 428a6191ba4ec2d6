//! A stage: one thread, and the life that all four have.
//!
//! Owns: what a stage works with, the order of its work, a turn, and how connections rest. Guarantees: a stage never
//! waits for the disk or a peer; a connection gets a bounded turn, however large its file; a stage carries out its own
//! [`Duty`] only; a connection that rests is told of its events, those before it rested included, and has a deadline.
//! Where a connection goes next, [`route`] says.
//!
//! A connection rests at home, where the read stage waits for its peer to ask, or with the data stage, which waits for
//! its peer to take. Any stage that has answered parks it at home (`ParkedConnections`): that wakes nobody.

use std::os::fd::AsFd;
use std::sync::Arc;

use lamna_io::wait::Poll;
use lamna_proto::conn::Interest;
use lamna_proto::workspace::Workspace;
use rustix::io::Errno;

use super::applications;
use super::job::{Hands, Job, Jobs, Task};
use super::pool::{BELL, End, Outputs, Parked, Pool};
use super::route::{Duty, Output, route};
use crate::worker::connection_state::ConnectionState;
use crate::worker::context::WorkerContext;
use crate::worker::drive::{self, Turn};
use crate::worker::executor::Completed;
use crate::worker::liveness::{self, Arranged};

/// One stage of a pool.
pub(super) struct Stage<'a> {
    pool: &'a Arc<Pool>,
    duty: Duty,
    context: WorkerContext<'a>,
    workspace: Option<Box<Workspace>>,
    /// The tasks with which the connection came that is worked on. Empty in between.
    brought: Vec<Task>,
    /// The server is draining: connections close as soon as nothing is under way on them.
    draining: bool,
    outputs: Outputs<'a>,
    /// Whether there was something to deliver the last time, that is to come home.
    has_given: bool,
    /// Where it waits for sockets, and the connections that rest with it, if any do.
    resting: Option<(Poll, &'a Parked)>,
    /// Connections that go on without an event, after others.
    again: Jobs,
}

/// The life of the stage of `duty`.
///
/// # Errors
/// No descriptors or memory, or what makes waiting impossible.
pub(super) fn run(pool: &Arc<Pool>, duty: Duty) -> End {
    let (mut stage, mut jobs) = (Stage::new(pool, duty)?, Vec::new());
    while !pool.is_over() {
        stage.wait(&mut jobs)?;
        stage.begin();
        for mut job in jobs.drain(..) {
            // Room may have been made while the connection was elsewhere, and that event was for nobody.
            job.state.writable |= duty == Duty::Data;
            stage.drive(job);
        }
        stage.handle_events();
        stage.handle_deadlines();
        stage.context.flush_if_due();
        stage.has_given = stage.outputs.deliver() && duty == Duty::Read;
    }
    Ok(())
}

impl<'a> Stage<'a> {
    fn new(pool: &'a Arc<Pool>, duty: Duty) -> Result<Stage<'a>, Errno> {
        let context = WorkerContext::new(&pool.shared);
        let mut resting = None;
        if let Some(waker) = &pool.inbox(duty).waker {
            let (poll, _) = resting.insert((Poll::new()?, pool.parked(duty)));
            poll.add_notifier(waker.descriptor().as_fd(), BELL)?;
        }
        Ok(Stage {
            pool,
            duty,
            workspace: Some(context.workspace()),
            context,
            brought: Vec::new(),
            draining: false,
            outputs: Outputs::new(pool, duty),
            has_given: false,
            resting,
            again: Vec::new(),
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
        let Some((_, parked)) = &self.resting else { return };
        let taken = match self.duty {
            _ if control.is_handing_over() => parked.close(),
            Duty::Read if begins_draining => parked.take_all(),
            // Others may have parked one that did not know yet.
            Duty::Read if self.draining => parked.take_idle(),
            _ => return,
        };
        for mut job in taken {
            // A request may have arrived that nobody has looked at.
            job.state.readable = true;
            self.drive(job);
        }
    }

    /// Lets a connection go on as far as this stage takes it, and passes it on.
    fn drive(&mut self, job: Box<Job>) {
        let Some(mut job) = self.keep(job) else { return };
        let mut turn = self.turn(&mut job);
        if self.duty == Duty::Read && self.draining && job.state.may_end(false, self.context.now) {
            turn = Turn::Waits(Interest::CLOSE);
        }
        match route(self.duty, turn, &job.tasks) {
            Output::To(to) => self.outputs.put(to, job),
            Output::Home => self.go_home(job, turn.interest()),
            Output::Rest => self.rest(job, turn),
            Output::Applications => {
                // It comes back as a new one.
                self.resting.iter().for_each(|(poll, _)| poll.remove(job.state.transport.as_fd()));
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
    fn work_on(&mut self, job: &mut Job, work: impl FnOnce(&mut ConnectionState, &mut WorkerContext<'a>)) {
        let state = &mut job.state;
        state.http.lend(self.workspace.take().expect(ONE_AT_A_TIME));
        work(state, &mut self.context);
        self.context.report(&mut state.http, &state.transport, state.peer);
        self.workspace = Some(state.http.reclaim());
    }
}

// Waiting, what comes about, and one connection that has to wait.
impl Stage<'_> {
    /// Waits for something to do, and takes what this stage has been given into `jobs`, which is empty.
    fn wait(&mut self, jobs: &mut Jobs) -> End {
        let (inbox, timeout_ms) = (self.pool.inbox(self.duty), self.timeout_ms());
        match &mut self.resting {
            Some((poll, _)) => {
                poll.wait(if inbox.may_sleep() { timeout_ms } else { Some(0) })?;
                inbox.take(jobs);
            }
            None => inbox.wait(jobs, timeout_ms),
        }
        jobs.append(&mut self.again);
        Ok(())
    }

    fn timeout_ms(&self) -> Option<u64> {
        if !self.again.is_empty() {
            return Some(0);
        }
        let homecoming = self.has_given.then(|| self.context.now.after_ms(HOMECOMING_MS));
        self.context.wait_ms(self.resting.as_ref().and_then(|(_, parked)| parked.sleep_until(homecoming)))
    }

    fn handle_events(&mut self) {
        for index in 0.. {
            let Some((poll, parked)) = self.resting.as_ref().filter(|(poll, _)| index < poll.event_count()) else {
                return;
            };
            let event = poll.event(index);
            if event.token != BELL {
                parked.take(&event).into_iter().for_each(|job| self.drive(job));
            }
        }
    }

    fn handle_deadlines(&mut self) {
        let Some((_, parked)) = &self.resting else { return };
        let (limits, now) = (&self.pool.shared.limits, self.context.now);
        for mut job in parked.take_expired(now) {
            if job.state.deadline(limits, now).is_some_and(|deadline| deadline <= now) {
                self.work_on(&mut job, |state, _| state.handle_timeout(limits, now));
                self.drive(job);
            } else {
                // It was looked at for what it holds.
                let interest = job.state.interest();
                self.park(self.duty, job, interest);
            }
        }
    }

    /// It has to wait for its peer, or for its turn.
    fn rest(&mut self, mut job: Box<Job>, turn: Turn) {
        let goes_on = if self.duty == Duty::Read { job.state.readable } else { matches!(turn, Turn::GoesOn(_)) };
        if goes_on {
            self.again.push(job);
        } else if self.register(&mut job) {
            self.park(self.duty, job, turn.interest());
        } else {
            // It cannot be waited for.
            self.work_on(&mut job, |state, _| state.handle_broken());
        }
    }

    /// Has its socket waited for: at home as long as it lives, by the data stage from the first time that its peer is
    /// slow.
    fn register(&self, job: &mut Job) -> bool {
        let Some((poll, _)) = &self.resting else { return false };
        let (socket, token) = (job.state.transport.as_fd(), job.state.token());
        if self.duty == Duty::Read {
            job.state.registered = job.state.registered || poll.add_receiver(socket, token).is_ok();
            return job.state.registered;
        }
        job.sender_registered = job.sender_registered || poll.add_sender(socket, token).is_ok();
        job.sender_registered
    }

    /// Leaves a connection that waits for `interest` with the stage of `duty`.
    fn park(&mut self, duty: Duty, mut job: Box<Job>, interest: Interest) {
        let deadline = job.state.deadline(&self.pool.shared.limits, self.context.now);
        // What happens while it waits for room is kept for it at home.
        let (tells_input, tells_room, is_room_first) = (true, duty == Duty::Data, duty == Duty::Data);
        let arranged = Arranged { is_queued: false, tells_input, tells_room, is_room_first, deadline };
        liveness::assert_woken(&mut job.state, interest, arranged);
        let (token, phase) = (job.state.token(), job.state.phase(interest));
        match self.pool.parked(duty).put(job, token, deadline, phase) {
            Err(job) if duty == self.duty => self.again.push(job),
            Err(job) => self.outputs.put(duty, job),
            // A stage that drains has looked at those that were there, and is to look at this one, too.
            Ok(oversleeps) if duty != self.duty && (oversleeps || self.pool.shared.control.is_closing()) => {
                self.pool.inbox(duty).ring();
            }
            Ok(_) => {}
        }
    }

    /// Has a connection that waits for `interest` wait at home, or closes it.
    fn go_home(&mut self, mut job: Box<Job>, interest: Interest) {
        if interest.is_over() {
            return;
        }
        let Job { state, tasks, .. } = &mut *job;
        if state.registered && !state.readable && tasks.is_empty() && state.waits_for_request() {
            self.park(Duty::Read, job, interest);
        } else {
            self.outputs.put(Duty::Read, job);
        }
    }
}

const ONE_AT_A_TIME: &str = "one job is worked on at a time";
/// How long the read stage sleeps while connections are with other stages, which wake it if one that they park has an
/// earlier deadline: so none has, as a rule.
const HOMECOMING_MS: u32 = 1000;
