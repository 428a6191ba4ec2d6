//! `pipelined`: for each processor a pool of five stage threads and two helper threads; all pools share the caches
//! (PIPELINED, section 4, figure 4).
//!
//! ```text
//! accept -> read request -> find file ----> send header -> read file, send data -> done
//!                              |  ^ miss      ^               |  ^ miss  (repeats for large files)
//!                              v  |           |               v  |
//!                            path helper -----+            read helper
//! ```
//!
//! On a persistent connection requests begin at the second stage. If the parameters say so, content in memory leaves
//! with the header as one message, and the last stage has only the rest: large files and what was read from disk.
//!
//! A client belongs to one pool. Each thread has a queue. It takes all that is there before it gives its processor up.
//! So one switch is paid for several requests when the server is busy.

use std::collections::VecDeque;

use super::Architecture;
use crate::kernel::Nanos;
use crate::machine::{LockName, Machine, RequestId, Step, Waiter};
use crate::parameters::{Concurrency, Parameters};
use crate::resource::{Overhead, TaskId};
use crate::scenario::Scenario;

/// Threads of a pool, in the order of their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Accept,
    ReadRequest,
    FindFile,
    SendHeader,
    SendData,
    PathHelper,
    ReadHelper,
}

const STAGES: [Stage; 7] = [
    Stage::Accept,
    Stage::ReadRequest,
    Stage::FindFile,
    Stage::SendHeader,
    Stage::SendData,
    Stage::PathHelper,
    Stage::ReadHelper,
];

/// A request in a stage's queue, and how much of it the stage has sent; `None` until its file was looked up.
#[derive(Clone, Copy)]
struct Job {
    request: RequestId,
    sent: Option<u64>,
}

/// The last step of a thread.
#[derive(Clone, Copy)]
enum Phase {
    Free,
    /// Has a job and does not yet own the lock that it needs.
    Taken(Job),
    /// Waited for the disk.
    Read(Job),
    /// Worked on it.
    Worked(Job),
}

struct Thread {
    phase: Phase,
    queue: VecDeque<Job>,
    /// Jobs that the second stage has heard of: it waits once for all connections that are ready.
    known: usize,
    /// Work that it has yet to do: waking others.
    owed: Nanos,
    blocked: bool,
    /// Threads that sleep and have been given something by this one.
    to_wake: Vec<usize>,
}

pub(super) struct Pipelined {
    /// Pool by pool.
    threads: Vec<Thread>,
    pools: usize,
    /// The pool of each client, where they are not spread evenly.
    owners: Vec<u32>,
    send_with_header_bytes: u64,
    passes_batches: bool,
}

/// One pool for each processor.
pub(super) fn model(scenario: &Scenario, parameters: &Parameters) -> Pipelined {
    let pools = scenario.workers() as usize;
    let thread =
        || Thread { phase: Phase::Free, queue: VecDeque::new(), known: 0, owed: 0, blocked: true, to_wake: Vec::new() };
    let threads = (0..pools * STAGES.len()).map(|_| thread()).collect();
    let Concurrency { send_with_header_bytes, passes_batches, .. } = parameters.concurrency;
    Pipelined { threads, pools, owners: scenario.client_workers.clone(), send_with_header_bytes, passes_batches }
}

/// file entries * 850 + 7 * N * 25K.
pub(super) fn overhead(scenario: &Scenario, parameters: &Parameters) -> Overhead {
    let threads = f64::from(scenario.workers()) * STAGES.len() as f64;
    Overhead {
        entry_bytes: parameters.memory.entry_bytes as f64,
        copies: 1.0,
        fixed_bytes: threads * parameters.memory.thread_bytes as f64,
    }
}

impl Pipelined {
    /// Passes a job on, which costs the thread `from` something, and more if it has to wake the next one.
    fn pass_from(&mut self, from: usize, job: Job, stage: Stage, machine: &mut Machine) {
        let to = self.thread_of(job, stage);
        self.threads[to].queue.push_back(job);
        self.threads[from].owed += machine.costs.pass;
        self.threads[from].to_wake.push(to);
        if !self.passes_batches {
            self.deliver(from, machine);
        }
    }

    /// Wakes the threads to which `from` has given something.
    fn deliver(&mut self, from: usize, machine: &mut Machine) {
        while let Some(to) = self.threads[from].to_wake.pop() {
            if self.rouse(to, machine) {
                self.threads[from].owed += machine.costs.rouse;
            }
        }
    }

    /// Whether the thread slept.
    fn rouse(&mut self, index: usize, machine: &mut Machine) -> bool {
        let slept = std::mem::take(&mut self.threads[index].blocked);
        if slept {
            machine.wake(TaskId(index as u32));
        }
        slept
    }

    fn thread_of(&self, job: Job, stage: Stage) -> usize {
        let client = job.request.0 as usize;
        let pool = self.owners.get(client).map_or(client, |&owner| owner as usize) % self.pools;
        pool * STAGES.len() + stage as usize
    }

    fn take(&mut self, index: usize, machine: &mut Machine) -> Option<Step> {
        let reads_requests = STAGES[index % STAGES.len()] == Stage::ReadRequest;
        // The second stage is through with what it heard of, the others with what there is.
        if self.threads[index].queue.is_empty() || reads_requests && self.threads[index].known == 0 {
            self.deliver(index, machine);
        }
        let thread = &mut self.threads[index];
        if reads_requests && thread.known == 0 && !thread.queue.is_empty() {
            thread.known = thread.queue.len();
            thread.owed += machine.costs.poll;
        }
        if thread.queue.is_empty() && thread.owed > 0 {
            return Some(Step::Run(std::mem::take(&mut thread.owed)));
        }
        thread.known = thread.known.saturating_sub(1);
        match thread.queue.pop_front() {
            Some(job) => {
                thread.phase = Phase::Taken(job);
                None
            }
            None => {
                thread.blocked = true;
                Some(Step::Block)
            }
        }
    }

    /// Begins a job if the lock that it needs is free. `None`: it cost nothing and is done.
    fn work(&mut self, index: usize, job: Job, machine: &mut Machine) -> Option<Step> {
        let stage = STAGES[index % STAGES.len()];
        let lock = match stage {
            Stage::FindFile => Some(LockName::Path),
            Stage::SendData if job.sent.is_none() => Some(LockName::Cache(machine.file(job.request))),
            _ => None,
        };
        if let Some(lock) = lock
            && !machine.acquire(lock, TaskId(index as u32))
        {
            return Some(Step::Block);
        }
        self.threads[index].phase = Phase::Worked(job);
        let request = job.request;
        let with_header = self.leaves_with_header(request, machine);
        let header = match (stage, job.sent) {
            (Stage::SendHeader, None) if with_header => 0,
            (Stage::SendHeader, _) => machine.header(request),
            _ => 0,
        };
        let costs = &machine.costs;
        let work = match stage {
            Stage::Accept => costs.connection,
            Stage::ReadRequest if costs.kept => costs.begin,
            Stage::ReadRequest => costs.parse,
            Stage::FindFile => costs.translate,
            Stage::SendHeader if with_header => match job.sent {
                None => costs.lookup,
                Some(_) => header + costs.transmit(machine.size(request)),
            },
            Stage::SendHeader => header,
            Stage::SendData => match job.sent {
                None => costs.lookup,
                Some(sent) => return Some(self.send(index, request, sent, machine)),
            },
            Stage::PathHelper => costs.hand_off + costs.translate_miss,
            Stage::ReadHelper => costs.hand_off,
        };
        let work = work + std::mem::take(&mut self.threads[index].owed);
        (work > 0).then_some(Step::Run(work))
    }

    /// Whether header and content are one message.
    fn leaves_with_header(&self, request: RequestId, machine: &Machine) -> bool {
        let bytes = machine.size(request);
        bytes > 0 && bytes <= self.send_with_header_bytes
    }

    fn send(&mut self, index: usize, request: RequestId, sent: u64, machine: &Machine) -> Step {
        let bytes = (machine.size(request) - sent).min(machine.turn_bytes(request));
        self.threads[index].phase = Phase::Worked(Job { request, sent: Some(sent + bytes) });
        Step::Run(machine.transmit(request, bytes, false))
    }

    /// The step after a job that was worked on. `None`: the next job.
    fn worked(&mut self, index: usize, job: Job, machine: &mut Machine) -> Option<Step> {
        let request = job.request;
        match STAGES[index % STAGES.len()] {
            Stage::Accept => self.pass_from(index, job, Stage::ReadRequest, machine),
            Stage::ReadRequest => self.pass_from(index, job, Stage::FindFile, machine),
            Stage::FindFile => {
                let known = machine.translate(request);
                machine.release(LockName::Path);
                self.pass_from(index, job, if known { Stage::SendHeader } else { Stage::PathHelper }, machine);
            }
            Stage::PathHelper => self.pass_from(index, job, Stage::SendHeader, machine),
            Stage::SendHeader if self.leaves_with_header(request, machine) => match job.sent {
                None if machine.look_up(request) => {
                    self.threads[index].phase = Phase::Taken(Job { request, sent: Some(0) });
                    return None;
                }
                None if machine.find_in_pages(request) => {
                    machine.keep(request);
                    self.threads[index].owed += machine.costs.load(machine.size(request));
                    self.threads[index].phase = Phase::Taken(Job { request, sent: Some(0) });
                    return None;
                }
                None => {
                    self.threads[index].owed += machine.costs.try_;
                    self.pass_from(index, job, Stage::ReadHelper, machine);
                }
                Some(_) => machine.complete(request),
            },
            Stage::SendHeader => self.pass_from(index, job, Stage::SendData, machine),
            Stage::SendData => match job.sent {
                None => return self.looked_up(index, request, machine),
                Some(sent) if sent < machine.size(request) => self.pass_from(index, job, Stage::SendData, machine),
                Some(_) => machine.complete(request),
            },
            Stage::ReadHelper if job.sent.is_none() => {
                if machine.is_held(request) {
                    self.pass_from(index, Job { request, sent: Some(0) }, Stage::SendData, machine);
                    self.threads[index].phase = Phase::Free;
                    return None;
                }
                self.threads[index].phase = Phase::Read(Job { request, sent: Some(0) });
                machine.read(request, Waiter(index as u32));
                return Some(Step::Block);
            }
            Stage::ReadHelper => self.pass_from(index, job, Stage::SendData, machine),
        }
        self.threads[index].phase = Phase::Free;
        None
    }

    fn looked_up(&mut self, index: usize, request: RequestId, machine: &mut Machine) -> Option<Step> {
        let hit = machine.look_up(request);
        machine.release(LockName::Cache(machine.file(request)));
        if hit {
            return Some(self.send(index, request, 0, machine));
        }
        if machine.find_in_pages(request) {
            machine.keep(request);
            self.threads[index].owed += machine.costs.load(machine.size(request));
            self.threads[index].phase = Phase::Taken(Job { request, sent: Some(0) });
            return None;
        }
        self.pass_from(index, Job { request, sent: None }, Stage::ReadHelper, machine);
        self.threads[index].phase = Phase::Free;
        None
    }
}

impl Architecture for Pipelined {
    fn workers(&self) -> Vec<usize> {
        (0..self.threads.len()).map(|thread| thread / STAGES.len()).collect()
    }

    fn arrive(&mut self, request: RequestId, machine: &mut Machine) {
        let stage = if machine.costs.kept { Stage::ReadRequest } else { Stage::Accept };
        let job = Job { request, sent: None };
        let index = self.thread_of(job, stage);
        self.threads[index].queue.push_back(job);
        self.rouse(index, machine);
    }

    fn step(&mut self, task: TaskId, machine: &mut Machine) -> Step {
        let index = task.0 as usize;
        loop {
            let step = match self.threads[index].phase {
                Phase::Free => self.take(index, machine),
                Phase::Taken(job) => self.work(index, job, machine),
                Phase::Read(job) => {
                    // Once more through what follows the helper's work.
                    self.threads[index].phase = Phase::Worked(job);
                    let work = machine.costs.read(machine.size(job.request));
                    (work > 0).then_some(Step::Run(work))
                }
                Phase::Worked(job) => self.worked(index, job, machine),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    fn read_done(&mut self, waiter: Waiter, machine: &mut Machine) {
        machine.wake(TaskId(waiter.0));
    }
}
