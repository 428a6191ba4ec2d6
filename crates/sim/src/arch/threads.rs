//! A task for each request that is under way. It carries its request through all steps with blocking calls. For `mp`,
//! `thread-pool`, `thread-per-request` and `thread-per-session`. These differ in how many tasks there are, whether
//! tasks share caches, and what a task costs.

use std::collections::VecDeque;

use crate::arch::Architecture;
use crate::kernel::Nanos;
use crate::machine::{LockName, Machine, RequestId, Spawned, Step, Waiter};
use crate::resource::TaskId;

/// The last step of a task.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing: looks for a request.
    Idle,
    /// Has been made, and waits for another thread of the process.
    Made,
    /// Read the request; wants the path lock.
    Begun,
    /// Looked the path up, under the lock.
    PathLookedUp,
    /// Knows the file; wants the cache lock.
    Translated,
    /// Looked the file up, under the lock.
    FileLookedUp,
    /// Makes an object of a file whose pages are in memory.
    Loading,
    /// Waited for the disk.
    Read,
    /// Sent everything.
    Sent,
    /// Waits until the network has taken everything.
    Draining,
}

#[derive(Clone, Copy)]
struct Task {
    phase: Phase,
    request: RequestId,
}

/// How tasks are made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Supply {
    /// A fixed number that take requests from a common queue.
    Pool,
    /// One for each request, made when it arrives. Its number is the client's: one request each.
    Spawned,
    /// One for each client.
    PerClient,
}

/// See the module.
pub(super) struct Threads {
    tasks: Vec<Task>,
    /// Idle tasks of a pool, the last to become idle on top.
    idle: Vec<TaskId>,
    backlog: VecDeque<RequestId>,
    /// The task that waits for the network on behalf of each request.
    draining: Vec<Option<TaskId>>,
    supply: Supply,
    /// Whether caches are shared and thus locked.
    shared: bool,
    /// Listening threads with a pool each.
    pools: u32,
    /// The pool of each client, where they are not spread evenly.
    owners: Vec<u32>,
}

impl Threads {
    pub(super) fn new(count: u32, supply: Supply, shared: bool, pools: u32) -> Self {
        Threads {
            tasks: vec![Task { phase: Phase::Idle, request: RequestId(0) }; count as usize],
            idle: (0..count).rev().map(TaskId).collect(),
            backlog: VecDeque::new(),
            draining: Vec::new(),
            supply,
            shared,
            pools,
            owners: Vec::new(),
        }
    }

    /// Gives each client to the pool that is named for it. Clients beyond those are spread evenly.
    pub(super) fn with_clients(mut self, client_workers: &[u32]) -> Self {
        self.owners = client_workers.to_vec();
        self
    }

    /// Begins a request; `waited` is what it cost to wait for it.
    fn begin(&mut self, task: TaskId, request: RequestId, waited: Nanos, machine: &mut Machine) -> Step {
        let before = waited + if self.shared { 0 } else { machine.costs.process };
        let own = &mut self.tasks[task.0 as usize];
        own.request = request;
        if self.shared {
            own.phase = Phase::Begun;
            return Step::Run(before + machine.costs.begin);
        }
        // Nothing to wait for until the file is looked up: one stretch of work.
        own.phase = Phase::FileLookedUp;
        let costs = &machine.costs;
        let work = before + costs.begin + costs.translate + costs.lookup;
        let miss = costs.translate_miss;
        Step::Run(if machine.translate(request) { work } else { work + miss })
    }

    /// Makes a thread for a request.
    fn make(&mut self, task: TaskId, request: RequestId, machine: &mut Machine) -> Step {
        let Spawned { work, waits } = machine.spawn();
        if !waits {
            return self.begin(task, request, work + machine.costs.wait, machine);
        }
        self.tasks[task.0 as usize].phase = Phase::Made;
        machine.await_memory(task);
        Step::Block
    }

    /// The next request for an idle task, or none.
    fn next(&mut self, task: TaskId, waited: Nanos, machine: &mut Machine) -> Step {
        match self.backlog.pop_front() {
            Some(request) => self.begin(task, request, waited, machine),
            None => {
                self.idle.push(task);
                Step::Block
            }
        }
    }

    fn finish(&mut self, task: TaskId, machine: &mut Machine) -> Step {
        self.tasks[task.0 as usize].phase = Phase::Idle;
        match self.supply {
            Supply::Pool => self.next(task, 0, machine),
            Supply::Spawned | Supply::PerClient => Step::Block,
        }
    }

    fn drain(&mut self, request: RequestId, task: TaskId) {
        if request.0 as usize >= self.draining.len() {
            self.draining.resize(request.0 as usize + 1, None);
        }
        self.draining[request.0 as usize] = Some(task);
    }

    fn send(&mut self, task: TaskId, extra: u64, machine: &mut Machine) -> Step {
        self.tasks[task.0 as usize].phase = Phase::Sent;
        let request = self.tasks[task.0 as usize].request;
        Step::Run(extra + machine.header(request) + machine.transmit(request, machine.size(request), false))
    }
}

impl Architecture for Threads {
    fn workers(&self) -> Vec<usize> {
        let own =
            |task: usize| self.owners.get(task).map_or(task, |&owner| owner as usize) % self.pools.max(1) as usize;
        (0..self.tasks.len()).map(own).collect()
    }

    fn arrive(&mut self, request: RequestId, machine: &mut Machine) {
        match self.supply {
            Supply::Pool => {
                self.backlog.push_back(request);
                if let Some(task) = self.idle.pop() {
                    machine.wake(task);
                }
            }
            Supply::Spawned | Supply::PerClient => {
                let task = TaskId(request.0);
                self.tasks[request.0 as usize] = Task { phase: Phase::Idle, request };
                machine.wake(task);
            }
        }
    }

    fn step(&mut self, task: TaskId, machine: &mut Machine) -> Step {
        let Task { phase, request } = self.tasks[task.0 as usize];
        match phase {
            Phase::Idle if self.supply == Supply::Pool => self.next(task, machine.costs.wait, machine),
            Phase::Idle if self.supply == Supply::Spawned => self.make(task, request, machine),
            Phase::Idle => self.begin(task, request, machine.costs.wait, machine),
            Phase::Made => {
                let work = machine.costs.spawn_shared + machine.costs.wait;
                self.begin(task, request, work, machine)
            }
            Phase::Begun => {
                if !machine.acquire(LockName::Path, task) {
                    return Step::Block;
                }
                self.tasks[task.0 as usize].phase = Phase::PathLookedUp;
                Step::Run(machine.costs.translate)
            }
            Phase::PathLookedUp => {
                self.tasks[task.0 as usize].phase = Phase::Translated;
                let known = machine.translate(request);
                machine.release(LockName::Path);
                if known { self.step(task, machine) } else { Step::Run(machine.costs.translate_miss) }
            }
            Phase::Translated => {
                if !machine.acquire(LockName::Cache(machine.file(request)), task) {
                    return Step::Block;
                }
                self.tasks[task.0 as usize].phase = Phase::FileLookedUp;
                Step::Run(machine.costs.lookup)
            }
            Phase::FileLookedUp => {
                let hit = machine.look_up(request);
                if self.shared {
                    machine.release(LockName::Cache(machine.file(request)));
                }
                if hit {
                    return self.send(task, 0, machine);
                }
                if machine.find_in_pages(request) {
                    self.tasks[task.0 as usize].phase = Phase::Loading;
                    return Step::Run(machine.costs.load(machine.size(request)));
                }
                self.tasks[task.0 as usize].phase = Phase::Read;
                machine.read(request, Waiter(task.0));
                Step::Block
            }
            Phase::Loading => {
                machine.keep(request);
                self.send(task, 0, machine)
            }
            Phase::Read => self.send(task, machine.costs.read(machine.size(request)), machine),
            Phase::Sent => {
                if machine.costs.waits_for_network() {
                    self.tasks[task.0 as usize].phase = Phase::Draining;
                    self.drain(request, task);
                    machine.complete(request);
                    return Step::Block;
                }
                machine.complete(request);
                self.finish(task, machine)
            }
            Phase::Draining => self.finish(task, machine),
        }
    }

    fn read_done(&mut self, waiter: Waiter, machine: &mut Machine) {
        machine.wake(TaskId(waiter.0));
    }

    fn sent(&mut self, request: RequestId, machine: &mut Machine) {
        let task = self.draining.get_mut(request.0 as usize).and_then(Option::take);
        // A task of its client's own is woken by the next arrival; its next request cannot come before.
        if let (Some(task), Supply::Pool) = (task, self.supply) {
            machine.wake(task);
        }
    }
}
