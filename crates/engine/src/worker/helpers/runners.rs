//! Runners: threads that carry out the steps of programs in place of a worker that must not wait.
//!
//! Owns: [`Runners`], those of one worker: none until a program runs, and at most as many as there may be helpers.
//! Guarantees: a step that was submitted is carried out once and comes back, whatever becomes of the engine, as long as
//! the worker waits for it; a step that panics has failed. Disk helpers are others, so that programs and cold files do
//! not wait for each other.

use std::sync::Arc;
use std::thread::Builder;

use crossbeam_channel::{Receiver, Sender, unbounded};
use lamna_policy::schedule::Schedule;
use lamna_proto::exchange::program::{Input, Program, StepResult};
use lamna_proto::time::Instant;
use lamna_sys::contain::contain;

use crate::worker::executor::{Completed, PendingId};
use crate::worker::helpers::queue::Queue;
use crate::worker::helpers::{self, RESERVE_TIME};
use crate::worker::shared::Shared;

/// The runners of one worker.
#[derive(Debug)]
pub struct Runners {
    pool: Arc<Pool>,
    finished: Receiver<Completed>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    worker: usize,
    queue: Queue<Step>,
    finished: Sender<Completed>,
}

/// A step of a program, with what it is given.
#[derive(Debug)]
pub struct Step {
    pending: PendingId,
    program: Box<dyn Program>,
    content: Vec<u8>,
    is_last: bool,
    room: bool,
    now: Instant,
}

impl Step {
    /// The next step of `program`, which answers the exchange of `pending`.
    pub fn new(pending: PendingId, program: Box<dyn Program>, input: Input<'_>) -> Step {
        let Input { content, is_last, room, now } = input;
        Step { pending, program, content: content.to_vec(), is_last, room, now }
    }

    /// Carries it out.
    pub fn carry_out(self) -> Completed {
        let Step { pending, mut program, content, is_last, room, now } = self;
        let step_result = run(&mut program, Input { content: &content, is_last, room, now });
        Completed::Stepped(pending, program, step_result)
    }
}

impl Runners {
    /// Runners for worker `worker`, none yet.
    pub fn new(shared: Arc<Shared>, worker: usize) -> Runners {
        let (sender, finished) = unbounded();
        let pool = Arc::new(Pool { shared, worker, queue: Queue::new(Schedule::default()), finished: sender });
        Runners { pool, finished }
    }

    /// Has a step carried out. The worker is woken when it has been.
    pub fn submit(&mut self, pending: PendingId, program: Box<dyn Program>, input: Input<'_>) {
        let step = Step::new(pending, program, input);
        let runners_max = self.pool.shared.control.helpers();
        let (_, hires) = self.pool.queue.submit(runners_max, |job_queue| job_queue.add_at_once(step));
        if hires {
            let (pool, builder) = (self.pool.clone(), Builder::new().name(format!("runner-{}", self.pool.worker)));
            // Better slow than never.
            helpers::make(&self.pool.queue, builder, move || pool.work(), |step| self.pool.finish(step));
        }
    }

    /// The next step that has been carried out, if there is one.
    pub fn finished(&mut self) -> Option<Completed> {
        self.finished.try_recv().ok()
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        self.pool.queue.end();
    }
}

impl Pool {
    /// The life of a runner.
    fn work(&self) {
        while let Some(step) = self.queue.next(RESERVE_TIME, self.shared.control.helpers()) {
            self.finish(step);
        }
    }

    fn finish(&self, step: Step) {
        // The worker is gone if nobody listens: then the program ends here.
        let _ = self.finished.send(step.carry_out());
        self.shared.control.waker(self.worker).wake();
    }
}

/// Carries out a step. One that panics has failed.
pub fn run(program: &mut Box<dyn Program>, input: Input<'_>) -> StepResult {
    contain("The request that it was for is answered with 500.", || program.run(input)).unwrap_or(StepResult::Failed)
}
