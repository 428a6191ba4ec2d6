//! Identical processors with a run queue, time slices, and a price for each switch to another task.
//!
//! A task (a thread or a process) is ready, running or blocked. Only this module knows which. A woken task prefers an
//! idle processor that ran it last, because no switch is paid for there. If none is idle, it waits ahead of the tasks
//! that used up their quantum, and may preempt a task that has run for the granularity. The time-sharing classes of
//! Solaris and Linux do the same for tasks that return from a sleep. Without it a disk helper would wait for a whole
//! quantum behind its busy event loop at every read.
//!
//! That is the round-robin discipline, with one queue for all processors. The other one, [`Discipline::Fair`], is that
//! of Linux (`fair.rs`), with a queue for each processor: a task that wakes goes to an idle processor, or else to the
//! one with the fewest tasks.
//!
//! A task may be bound to a processor, as PIPELINED binds its pools. Then it waits for that one only. A processor that
//! has been idle for some time sleeps, and takes a while to begin again. On a virtual machine that is far more than a
//! switch.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::fair::Fair;
use crate::kernel::Nanos;

/// A thread or process. Dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId(pub u32);

const NOBODY: TaskId = TaskId(u32::MAX);

/// Woken tasks that may be preferred in a row while one that used up its time waits: no task starves.
const PREFERRED_MAX: u32 = 4;

/// Parts of a slice, at whose ends it is looked at whether another task has woken.
const PIECES: Nanos = 32;

/// The discipline that decides which task is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Woken tasks first, then those that used up their quantum, each in order.
    #[default]
    Rounds,
    /// The task that has had least: the granularity is the slice, the quantum the tick.
    Fair,
}

/// A processor has begun to work: the caller calls [`Processors::finish`] for it `after` nanoseconds from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Start {
    /// Which one.
    pub processor: usize,
    /// Switch included.
    pub after: Nanos,
}

/// The meaning of the end of a stretch of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// The task did all it was asked to and still has the processor: [`Processors::run`] or [`Processors::block`]
    /// follows.
    Task(TaskId),
    /// The quantum ended first; a task (perhaps the same one) runs on.
    Preempted(Start),
}

#[derive(Clone, Copy)]
struct Processor {
    running: TaskId,
    last: TaskId,
    /// The work of the running task after the current stretch.
    left: Nanos,
    quantum_left: Nanos,
    /// The time that it may still run while a woken task waits.
    granularity_left: Nanos,
    idle_since: Nanos,
}

/// Ready tasks, and what they have to do.
#[derive(Default)]
struct RunQueue {
    /// Ready since they were woken.
    woken: VecDeque<(TaskId, Nanos)>,
    /// Ready since they were made to yield.
    expired: VecDeque<(TaskId, Nanos)>,
    /// Woken tasks preferred since one from `expired` ran.
    preferred: u32,
}

impl RunQueue {
    fn is_empty(&self) -> bool {
        self.woken.is_empty() && self.expired.is_empty()
    }

    fn next(&mut self) -> Option<(TaskId, Nanos)> {
        let expired_is_due = self.preferred >= PREFERRED_MAX && !self.expired.is_empty();
        if self.woken.is_empty() || expired_is_due {
            self.preferred = 0;
            return self.expired.pop_front();
        }
        self.preferred += 1;
        self.woken.pop_front()
    }
}

/// The processors and their run queue.
pub struct Processors {
    processors: Vec<Processor>,
    /// Idle ones, the longest idle first.
    idle: Vec<usize>,
    /// Tasks that any processor may run.
    common: RunQueue,
    /// Tasks bound to each processor.
    own: Vec<RunQueue>,
    /// In place of both, with the discipline of that name.
    fair: Option<Fair>,
    /// By task; tasks beyond the end are not bound.
    homes: Vec<Option<usize>>,
    /// Processors that never sleep, though idle: a task that waits there looks all the time.
    awake: Vec<bool>,
    wake: Nanos,
    sleeps_after: Nanos,
    rest: Nanos,
    call: Nanos,
    owed: Nanos,
    /// Another program: its time is counted apart.
    apart: TaskId,
    switch: Nanos,
    program: Nanos,
    quantum: Nanos,
    granularity: Nanos,
    /// Time worked, switches included, by all processors together.
    pub busy: Nanos,
    /// The part of that by the task that is counted apart.
    pub busy_apart: Nanos,
    /// And by all others on the processor that this task is bound to.
    pub busy_beside: Nanos,
    /// Switches paid for.
    pub switches: u64,
    /// Times a task had to yield.
    pub preemptions: u64,
    /// Times a task, other than the one that is counted apart, left a processor, be it for another or to sleep: what
    /// Linux counts as its switches.
    pub departures: u64,
}

impl Processors {
    /// `count` idle processors. A switch costs `switch`; a task runs for at most `quantum` (positive) while others
    /// wait, and for at most `granularity` (positive, at most the quantum) while one that was woken waits.
    pub fn new(count: usize, switch: Nanos, quantum: Nanos, granularity: Nanos) -> Self {
        let idle =
            Processor { running: NOBODY, last: NOBODY, left: 0, quantum_left: 0, granularity_left: 0, idle_since: 0 };
        let quantum = quantum.max(1);
        Processors {
            processors: vec![idle; count],
            idle: (0..count).rev().collect(),
            common: RunQueue::default(),
            own: (0..count).map(|_| RunQueue::default()).collect(),
            fair: None,
            homes: Vec::new(),
            awake: vec![false; count],
            wake: 0,
            sleeps_after: 0,
            rest: 0,
            call: 0,
            owed: 0,
            apart: NOBODY,
            switch,
            program: 0,
            quantum,
            granularity: granularity.clamp(1, quantum),
            busy: 0,
            busy_apart: 0,
            busy_beside: 0,
            switches: 0,
            preemptions: 0,
            departures: 0,
        }
    }

    /// From now on this discipline decides which task is next. No task is ready yet.
    pub fn follow(&mut self, discipline: Discipline) {
        let fair = || Fair::new(self.processors.len(), self.granularity, self.quantum);
        self.fair = (discipline == Discipline::Fair).then(fair);
    }

    /// From now on a processor that has been idle for `sleeps_after` takes `wake` to begin again, during which it does
    /// not work. Any that was idle works for `rest`, for having had to look for something to do and to stop looking. A
    /// task that has such a processor begin owes `call` (see [`Processors::take_owed`]).
    pub fn let_sleep(&mut self, wake: Nanos, sleeps_after: Nanos, rest: Nanos, call: Nanos) {
        (self.wake, self.sleeps_after, self.rest, self.call) = (wake, sleeps_after, rest, call);
    }

    /// The work owed by tasks that had idle processors begin since this was last asked for.
    pub fn take_owed(&mut self) -> Nanos {
        std::mem::take(&mut self.owed)
    }

    /// From now on `task` is another program than all others: what it works is counted in [`Processors::busy_apart`] as
    /// well, and a switch from it to another costs `program` beyond what others do.
    pub fn set_apart(&mut self, task: TaskId, program: Nanos) {
        (self.apart, self.program) = (task, program);
    }

    /// From now on `processor` does not sleep.
    pub fn keep_awake(&mut self, processor: usize) {
        self.awake[processor] = true;
    }

    /// From now on only `processor` runs `task`, which is blocked.
    pub fn bind(&mut self, task: TaskId, processor: usize) {
        let index = task.0 as usize;
        if index >= self.homes.len() {
            self.homes.resize(index + 1, None);
        }
        self.homes[index] = Some(processor);
    }

    /// A blocked task has `work` to do.
    pub fn wake(&mut self, task: TaskId, work: Nanos, now: Nanos) -> Option<Start> {
        let delayed_on = self.fair.as_ref().and_then(|fair| fair.delayed_on(task));
        let home = delayed_on.or_else(|| self.home(task));
        let Some(place) = self.idle_place(task, home) else {
            if let Some(fair) = &mut self.fair {
                let shortest = || (0..self.processors.len()).min_by_key(|&one| fair.ready_len(one)).unwrap_or(0);
                let processor = home.unwrap_or_else(shortest);
                let running = Some(self.processors[processor].running).filter(|&task| task != NOBODY);
                fair.wake(processor, running, task, work);
                return None;
            }
            let queue = home.map_or(&mut self.common, |processor| &mut self.own[processor]);
            queue.woken.push_back((task, work));
            return None;
        };
        let processor = self.idle.remove(place);
        let idle_for = now - self.processors[processor].idle_since;
        let (rest, wake) = match self.awake[processor] {
            true => (0, 0),
            false => {
                self.owed += self.call;
                (self.rest, if idle_for >= self.sleeps_after { self.wake } else { 0 })
            }
        };
        if let Some(fair) = &mut self.fair {
            fair.place(processor, None, task);
        }
        let start = self.dispatch(processor, task, work);
        self.count(processor, task, rest);
        Some(Start { after: start.after + rest + wake, ..start })
    }

    /// Where in `idle` the processor is that should run `task`.
    fn idle_place(&self, task: TaskId, home: Option<usize>) -> Option<usize> {
        if let Some(home) = home {
            return self.idle.iter().position(|&idle| idle == home);
        }
        let last = self.idle.len().checked_sub(1)?;
        Some(self.idle.iter().position(|&idle| self.processors[idle].last == task).unwrap_or(last))
    }

    fn home(&self, task: TaskId) -> Option<usize> {
        self.homes.get(task.0 as usize).copied().flatten()
    }

    /// The stretch that began with the last [`Start`] of `processor` is over.
    pub fn finish(&mut self, processor: usize, now: Nanos) -> Finished {
        let Processor { running, left, .. } = self.processors[processor];
        if left == 0 {
            return Finished::Task(running);
        }
        Finished::Preempted(self.run(processor, left, now))
    }

    /// The task on `processor`, whose last work is finished, has more.
    pub fn run(&mut self, processor: usize, work: Nanos, now: Nanos) -> Start {
        if let Some(fair) = &mut self.fair {
            let running = self.processors[processor].running;
            if !fair.is_over(processor, running, now) {
                return self.stretch(processor, 0, work);
            }
            fair.put_back(processor, running, work);
            self.preemptions += 1;
            self.departures += u64::from(running != self.apart);
            return self.dispatch_next(processor, now).unwrap_or_else(|| unreachable!("somebody waits"));
        }
        let slot = &mut self.processors[processor];
        let own = &self.own[processor];
        let outlived = slot.granularity_left == 0 && !(self.common.woken.is_empty() && own.woken.is_empty())
            || slot.quantum_left == 0 && !(self.common.is_empty() && own.is_empty());
        if outlived {
            self.preemptions += 1;
            let running = slot.running;
            self.departures += u64::from(running != self.apart);
            let queue = if self.home(running).is_some() { &mut self.own[processor] } else { &mut self.common };
            queue.expired.push_back((running, work));
            return self.dispatch_next(processor, now).unwrap_or_else(|| unreachable!("somebody waits"));
        }
        if slot.quantum_left == 0 {
            slot.quantum_left = self.quantum;
        }
        self.stretch(processor, 0, work)
    }

    /// The task on `processor` waits for something. The next ready task runs, if there is one.
    pub fn block(&mut self, processor: usize, now: Nanos) -> Option<Start> {
        let running = std::mem::replace(&mut self.processors[processor].running, NOBODY);
        self.departures += u64::from(running != self.apart);
        if let Some(fair) = &mut self.fair {
            fair.sleep(processor, running);
        }
        let start = self.dispatch_next(processor, now);
        if start.is_none() {
            self.processors[processor].idle_since = now;
            self.idle.push(processor);
        }
        start
    }

    /// The task that runs on `processor`, if one does.
    pub fn running(&self, processor: usize) -> Option<TaskId> {
        Some(self.processors[processor].running).filter(|&task| task != NOBODY)
    }

    /// Tasks that are ready and have no processor.
    pub fn ready_len(&self) -> usize {
        let queues = self.own.iter().chain([&self.common]);
        let fair = self.fair.iter().flat_map(|fair| (0..self.processors.len()).map(|one| fair.ready_len(one)));
        queues.map(|queue| queue.woken.len() + queue.expired.len()).chain(fair).sum()
    }

    /// Processors with nothing to do.
    pub fn idle_len(&self) -> usize {
        self.idle.len()
    }

    /// Bound tasks first: they have nowhere else to go. A task that uses up its time lets others go first.
    fn dispatch_next(&mut self, processor: usize, now: Nanos) -> Option<Start> {
        if self.fair.is_some() {
            let (task, work) = self.next_fair(processor, now)?;
            return Some(self.dispatch(processor, task, work));
        }
        let own = &mut self.own[processor];
        let (task, work) = if own.woken.is_empty() && !self.common.is_empty() {
            self.common.next().or_else(|| own.next())?
        } else {
            own.next().or_else(|| self.common.next())?
        };
        Some(self.dispatch(processor, task, work))
    }

    /// Its own next task, or one of another's that may run anywhere.
    fn next_fair(&mut self, processor: usize, now: Nanos) -> Option<(TaskId, Nanos)> {
        let fair = self.fair.as_mut()?;
        if let Some(next) = fair.next(processor, now) {
            return Some(next);
        }
        let homes = &self.homes;
        let stolen = fair.steal(|task| homes.get(task.0 as usize).copied().flatten().is_none())?;
        fair.place(processor, None, stolen.0);
        Some(stolen)
    }

    fn dispatch(&mut self, processor: usize, task: TaskId, work: Nanos) -> Start {
        let slot = &mut self.processors[processor];
        let switch = match slot.last {
            last if last == task => 0,
            last if last != NOBODY && last == self.apart => self.switch + self.program,
            _ => self.switch,
        };
        self.switches += u64::from(slot.last != task);
        slot.running = task;
        slot.last = task;
        slot.quantum_left = self.quantum;
        slot.granularity_left = self.granularity;
        self.stretch(processor, switch, work)
    }

    /// Until the work is done or the scheduler has to look again.
    fn stretch(&mut self, processor: usize, switch: Nanos, work: Nanos) -> Start {
        if let Some(fair) = &mut self.fair {
            let running = self.processors[processor].running;
            // In pieces, so that who wakes meanwhile need not wait for the end of a long stretch.
            let now = work.min(self.granularity / PIECES);
            fair.charge(running, switch + now);
            self.processors[processor].left = work - now;
            self.count(processor, running, switch + now);
            return Start { processor, after: switch + now };
        }
        let slot = &mut self.processors[processor];
        if slot.granularity_left == 0 {
            slot.granularity_left = self.granularity;
        }
        let now = work.min(slot.quantum_left).min(slot.granularity_left);
        slot.quantum_left -= now;
        slot.granularity_left -= now;
        slot.left = work - now;
        let running = slot.running;
        self.count(processor, running, switch + now);
        Start { processor, after: switch + now }
    }

    fn count(&mut self, processor: usize, task: TaskId, worked: Nanos) {
        self.busy += worked;
        if task == self.apart {
            self.busy_apart += worked;
        } else if self.home(self.apart) == Some(processor) {
            self.busy_beside += worked;
        }
    }
}
