//! A connection on its way through the stages, with what it wants of them, and the context at which a stage works on it.
//!
//! Owns: [`StageJob`], which is always in exactly one place, and [`StageContext`]. Guarantees: a job that is not being worked
//! on is parked and holds no buffers.

use std::os::fd::AsRawFd;
use std::sync::Arc;

use lamna_proto::exchange::program::{Input, Program, Ran, Step};
use lamna_proto::exchange::{ExchangeId, Need, Read};
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;

use super::Pool;
use crate::cache::Entry;
use crate::io::send::Sent;
use crate::io::wait::Token;
use crate::worker::connection_table::ConnectionState;
use crate::worker::context::{FileRange, Target, WorkerContext};
use crate::worker::drive;
use crate::worker::helpers::runners;
use crate::worker::turn_budget::TURN_BYTES;

/// A connection that moves from stage to stage.
pub(super) struct StageJob {
    /// Its socket and what the core knows.
    pub slot: ConnectionState,
    /// Translations that it waits for, in the order of the requests.
    pub wants: Vec<Want>,
    /// The range of a file that it waits for.
    pub reading: Option<Reading>,
    /// The step of a program that it waits for.
    pub step: Option<HeldStep>,
    /// Whether the data stage is told when sending becomes possible.
    pub sender_registered: bool,
    /// An application answers a request of it: it goes to a thread of its own, from the read stage. See [`super::applications`].
    pub asks_application: bool,
}

/// A translation that is wanted.
pub(super) struct Want {
    /// For this exchange.
    pub exchange: ExchangeId,
    /// Of this.
    pub target: Target,
    /// What the path helper found.
    pub found: Option<Arc<Entry>>,
}

/// A range that is wanted.
pub(super) struct Reading {
    /// For this exchange.
    pub exchange: ExchangeId,
    /// Of this file.
    pub range: FileRange,
    /// What the read helper says: it is in memory, or it cannot be read. Nothing if it has not been asked.
    pub paged_in: Option<bool>,
}

/// A step of a program.
pub(super) struct HeldStep {
    /// For this exchange.
    pub exchange: ExchangeId,
    program: Box<dyn Program>,
    content: Vec<u8>,
    is_last: bool,
    room: bool,
    now: Instant,
    /// What came of it. Nothing if it has not been carried out.
    pub ran: Option<Ran>,
}

impl HeldStep {
    /// Carries it out, once.
    pub(super) fn carry_out(&mut self) {
        if self.ran.is_none() {
            self.ran = Some({
                let input = Input { content: &self.content, is_last: self.is_last, room: self.room, now: self.now };
                runners::run(&mut self.program, input)
            });
        }
    }
}

impl StageJob {
    /// A connection that nothing is wanted for yet.
    pub(super) fn new(slot: ConnectionState) -> Box<StageJob> {
        Box::new(StageJob {
            slot,
            wants: Vec::new(),
            reading: None,
            step: None,
            sender_registered: false,
            asks_application: false,
        })
    }

    /// What it is found by.
    pub(super) fn token(&self) -> Token {
        Token { index: self.slot.transport.as_raw_fd() as u32, generation: self.slot.generation }
    }

    /// Takes over what the core needs, to be carried to who does it: one range, or one step of a program, at a time. The core must
    /// have a workspace.
    pub(super) fn take_needs(&mut self, context: &mut WorkerContext<'_>) {
        if self.slot.writable {
            self.slot.connection.handle_writable();
        }
        while self.reading.is_none()
            && self.step.is_none()
            && !self.asks_application
            && let Some((exchange, need)) = self.slot.connection.poll_need()
        {
            match need {
                Need::Translate(translate) => {
                    let now = context.now;
                    let over = self.slot.transport.over();
                    if let Some(done) = context.route(&translate, self.slot.client, over) {
                        self.asks_application = drive::asks_application(&done);
                        self.slot.connection.handle_done(exchange, done, now);
                        continue;
                    }
                    let target = context.take(&translate, self.slot.client);
                    self.slot.connection.defer(exchange);
                    self.wants.push(Want { exchange, target, found: None });
                }
                Need::Read(Read { representation, offset, length }) => {
                    let range = FileRange { representation: representation.clone(), offset, length };
                    self.reading = Some(Reading { exchange, range, paged_in: None });
                }
                Need::Run => {
                    if let Some(Step { mut program, input }) = self.slot.connection.step(exchange, context.now) {
                        if !input.is_last && program.gather(input.content) {
                            self.slot.connection.handle_ran(exchange, program, Ran::Continue, context.now);
                            continue;
                        }
                        let Input { content, is_last, room, now } = input;
                        let content = content.to_vec();
                        self.step = Some(HeldStep { exchange, program, content, is_last, room, now, ran: None });
                    }
                }
            }
        }
    }
}

impl StageJob {
    /// Sends what there is to send, as far as the socket takes it, within a turn. Returns how many bytes of it that was.
    pub(super) fn transmit(&mut self, context: &mut WorkerContext<'_>) -> u64 {
        let slot = &mut self.slot;
        let mut used = 0;
        while slot.writable
            && used < TURN_BYTES
            && let ConnectionState { transport, connection, .. } = slot
            && let Some((sent, weight)) = transport.send(connection, &mut context.sender, used, context.now)
        {
            match sent {
                Sent::Part(0) => slot.writable = false,
                Sent::All(bytes) | Sent::Part(bytes) => {
                    used += bytes * weight;
                    slot.connection.handle_sent(bytes, context.now);
                    context.handle_sent(bytes);
                }
                Sent::Changed => slot.connection.handle_broken(),
                Sent::Broken => slot.handle_broken(),
            }
            context.report(&mut slot.connection, &slot.transport, slot.client);
        }
        used
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
    workspace: Option<Box<Workspace>>,
}

impl<'a> StageContext<'a> {
    /// A station of a stage that begins.
    pub(super) fn new(pool: &'a Pool) -> StageContext<'a> {
        let context = WorkerContext::new(&pool.shared);
        StageContext { pool, draining: false, workspace: Some(context.workspace()), context }
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
        self.finish_step(&mut job);
        self.pool.shared.hand_over([job.slot]);
        self.pool.count_out();
        None
    }

    /// Tells the core what came of the step of a program, which is carried out if it has not been.
    pub(super) fn finish_step(&mut self, job: &mut StageJob) {
        let Some(mut step) = job.step.take() else { return };
        step.carry_out();
        self.work_on(job, |job, context| {
            let HeldStep { exchange, program, ran, .. } = step;
            job.slot.connection.handle_ran(exchange, program, ran.unwrap_or(Ran::Failed), context.now);
        });
    }

    /// Works on `job` with a workspace.
    pub(super) fn work_on<R>(
        &mut self,
        job: &mut StageJob,
        work: impl FnOnce(&mut StageJob, &mut WorkerContext<'a>) -> R,
    ) -> R {
        job.slot.connection.lend(self.workspace.take().expect("one job is worked on at a time"));
        let result = work(job, &mut self.context);
        job.slot.transport.settle();
        self.workspace = Some(job.slot.connection.reclaim());
        result
    }

    /// How long until log lines have to be handed over, if there are any.
    pub(super) fn flush_ms(&self) -> Option<u64> {
        self.context.flush_due().map(|due| due.since(self.context.now) + 1)
    }
}
