//! Event loops, for `sped`, `event-loops`, `amped`, `co-amped` and `proactor`. These differ in who reads from disk and
//! in whether the caches are shared.
//!
//! A client belongs to one loop, as a persistent connection does. A loop takes its events in order. It sends a large
//! file a quantum at a time, and turns to others in between. Content that is too long for the data cache is read by
//! helpers, a piece at a time, each when the one before it has been sent. This concerns what is not in the page cache,
//! or all of it ([`Machine::reads_elsewhere`]).

use std::collections::VecDeque;

use lamna_policy::schedule::{Priority, Queue, Schedule, WaiterId};

use crate::arch::Architecture;
use crate::kernel::Nanos;
use crate::machine::{LockName, Machine, RequestId, Step, Waiter};
use crate::resource::TaskId;

/// The reader of content from disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    /// The loop itself, which stands still meanwhile.
    Inline,
    /// Helpers, so many for each loop. With shared caches any helper serves any loop.
    Helpers(u32),
    /// The kernel.
    Kernel,
}

/// The next event of a request.
#[derive(Clone, Copy)]
enum Event {
    Arrived(RequestId),
    /// Its file is in memory.
    Loaded(RequestId),
    /// So much of the file is sent.
    Writable(RequestId, u64),
}

/// The last step of a loop.
#[derive(Clone, Copy)]
enum Phase {
    /// Nothing: takes the next event.
    Free,
    /// Read a request; wants the path lock (shared caches only).
    Begun(RequestId),
    PathLookedUp(RequestId),
    Translated(RequestId),
    /// Looked the file up (under the lock if caches are shared).
    FileLookedUp(RequestId),
    /// Makes an object of a file whose pages are in memory.
    Loading(RequestId),
    /// Gave a read away.
    HandedOff(RequestId),
    /// Waited for the disk itself.
    Read(RequestId),
    /// Sent up to here.
    Sent(RequestId, u64),
}

struct Loop {
    phase: Phase,
    events: VecDeque<Event>,
    /// Events that it has heard of and not yet turned to: it waits once for all that are there.
    known: usize,
    blocked: bool,
}

#[derive(Clone, Copy)]
enum HelperPhase {
    Free,
    /// Took the request and is about to read.
    Taken(RequestId),
    /// Waited for the disk.
    Read(RequestId),
    /// Reported.
    Reported(RequestId),
}

struct Helper {
    phase: HelperPhase,
    blocked: bool,
}

/// Long content that helpers bring into memory.
#[derive(Clone, Copy)]
struct Stretch {
    /// So much has been sent before the piece.
    begin: u64,
    /// So much can be sent when the piece is in memory.
    end: u64,
    /// The file was not in the page cache when its first piece was wanted.
    from_disk: bool,
}

/// See the module. Tasks are the loops, then the helpers.
pub(super) struct Loops {
    loops: Vec<Loop>,
    helpers: Vec<Helper>,
    /// Reads that wait for a helper: one queue for each loop, or a common one.
    reads: Vec<Queue>,
    /// The stretch of each request whose content comes by pieces.
    stretches: Vec<Option<Stretch>>,
    disk: Disk,
    shared: bool,
    /// The loop of each client, where they are not spread evenly.
    owners: Vec<usize>,
}

impl Loops {
    pub(super) fn new(workers: u32, disk: Disk, shared: bool) -> Self {
        let helpers = if let Disk::Helpers(each) = disk { workers * each } else { 0 };
        let free = || Loop { phase: Phase::Free, events: VecDeque::new(), known: 0, blocked: true };
        Loops {
            loops: (0..workers).map(|_| free()).collect(),
            helpers: (0..helpers).map(|_| Helper { phase: HelperPhase::Free, blocked: true }).collect(),
            reads: (0..if shared { 1 } else { workers }).map(|_| Queue::new(Schedule::RoundRobin)).collect(),
            stretches: Vec::new(),
            disk,
            shared,
            owners: Vec::new(),
        }
    }

    /// Has helpers take up reads in this order.
    pub(super) fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.reads.iter_mut().for_each(|reads| reads.change_schedule(schedule));
        self
    }

    /// Gives each client to the loop that is named for it. Clients beyond those are spread evenly.
    pub(super) fn with_clients(mut self, client_workers: &[u32]) -> Self {
        self.owners = client_workers.iter().map(|&worker| worker as usize % self.loops.len()).collect();
        self
    }

    fn loop_of(&self, request: RequestId) -> usize {
        let index = request.0 as usize;
        self.owners.get(index).copied().unwrap_or(index % self.loops.len())
    }

    fn notify(&mut self, event: Event, request: RequestId, machine: &mut Machine) {
        let index = self.loop_of(request);
        let own = &mut self.loops[index];
        own.events.push_back(event);
        if std::mem::take(&mut own.blocked) {
            machine.wake(TaskId(index as u32));
        }
    }

    fn turn(&mut self, index: usize, machine: &mut Machine) -> Step {
        let own = &mut self.loops[index];
        let polled = own.known == 0;
        if polled {
            own.known = own.events.len();
        }
        let Some(event) = own.events.pop_front() else {
            own.phase = Phase::Free;
            own.blocked = true;
            return Step::Block;
        };
        own.known -= 1;
        let poll = if polled { machine.costs.poll } else { 0 };
        match event {
            Event::Arrived(request) if self.shared => {
                self.loops[index].phase = Phase::Begun(request);
                Step::Run(poll + machine.costs.begin)
            }
            Event::Arrived(request) => {
                // No other loop uses the caches: one stretch of work.
                self.loops[index].phase = Phase::FileLookedUp(request);
                let costs = &machine.costs;
                let work = poll + costs.begin + costs.translate + costs.lookup;
                let miss = costs.translate_miss;
                Step::Run(if machine.translate(request) { work } else { work + miss })
            }
            Event::Loaded(request) => {
                let begin = self.stretch(request).map_or(0, |stretch| stretch.begin);
                let header = if begin == 0 { machine.header(request) } else { 0 };
                self.send(index, request, begin, poll + machine.costs.hand_off + header, machine)
            }
            Event::Writable(request, sent) => self.send(index, request, sent, poll, machine),
        }
    }

    /// Header and content, after `extra`.
    fn send_all(&mut self, index: usize, request: RequestId, extra: u64, machine: &mut Machine) -> Step {
        let work = extra + machine.header(request);
        self.send(index, request, 0, work, machine)
    }

    fn send(&mut self, index: usize, request: RequestId, sent: u64, extra: u64, machine: &Machine) -> Step {
        let end = self.stretch(request).map_or(machine.size(request), |stretch| stretch.end);
        let bytes = (end - sent).min(machine.turn_bytes(request));
        self.loops[index].phase = Phase::Sent(request, sent + bytes);
        let copied = self.stretch(request).is_some() && machine.reads_elsewhere();
        Step::Run(extra + machine.transmit(request, bytes, copied))
    }

    fn stretch(&self, request: RequestId) -> Option<Stretch> {
        self.stretches.get(request.0 as usize).copied().flatten()
    }

    /// Hands over the piece of long content after the first `begin` bytes.
    fn hand_over_piece(&mut self, index: usize, request: RequestId, begin: u64, machine: &Machine) -> Step {
        let place = request.0 as usize;
        if place >= self.stretches.len() {
            self.stretches.resize(place + 1, None);
        }
        let from_disk = self.stretches[place].is_some_and(|before| before.from_disk);
        self.stretches[place] = Some(Stretch { begin, end: machine.next_piece(request, begin), from_disk });
        self.loops[index].phase = Phase::HandedOff(request);
        Step::Run(machine.costs.try_ + machine.costs.hand_off)
    }

    /// Whether helpers have to bring the content of `request` piece by piece. `held`: it is where the loop would send
    /// it from.
    fn comes_by_pieces(&self, request: RequestId, held: bool, machine: &Machine) -> bool {
        let by_helpers = matches!(self.disk, Disk::Helpers(_));
        by_helpers && machine.is_long(request) && (!held || machine.reads_elsewhere())
    }

    fn miss(&mut self, index: usize, request: RequestId, machine: &mut Machine) -> Step {
        match self.disk {
            Disk::Inline => {
                self.loops[index].phase = Phase::Read(request);
                machine.read(request, Waiter(index as u32));
                Step::Block
            }
            Disk::Helpers(_) => {
                self.loops[index].phase = Phase::HandedOff(request);
                Step::Run(machine.costs.try_ + machine.costs.hand_off)
            }
            Disk::Kernel => {
                self.loops[index].phase = Phase::HandedOff(request);
                Step::Run(machine.costs.try_ + machine.costs.hand_off + machine.costs.read(machine.size(request)))
            }
        }
    }

    fn hand_off(&mut self, index: usize, request: RequestId, machine: &mut Machine) {
        let Disk::Helpers(each) = self.disk else {
            machine.read(request, Waiter(request.0));
            return;
        };
        let (queue, helpers) = if self.shared {
            (0, 0..self.helpers.len())
        } else {
            (index, index * each as usize..(index + 1) * each as usize)
        };
        let stretch = self.stretch(request);
        let priority = Priority::of(machine.size(request) - stretch.map_or(0, |stretch| stretch.begin));
        match stretch {
            Some(Stretch { begin: 1.., .. }) => self.reads[queue].resume(WaiterId(request.0), priority),
            _ => self.reads[queue].push(WaiterId(request.0), priority),
        }
        if let Some(helper) = helpers.into_iter().find(|&helper| self.helpers[helper].blocked_free()) {
            self.helpers[helper].blocked = false;
            machine.wake(TaskId((self.loops.len() + helper) as u32));
        }
    }

    fn step_loop(&mut self, index: usize, machine: &mut Machine) -> Step {
        let task = TaskId(index as u32);
        match self.loops[index].phase {
            Phase::Free => self.turn(index, machine),
            Phase::Begun(request) => {
                if !machine.acquire(LockName::Path, task) {
                    return Step::Block;
                }
                self.loops[index].phase = Phase::PathLookedUp(request);
                Step::Run(machine.costs.translate)
            }
            Phase::PathLookedUp(request) => {
                self.loops[index].phase = Phase::Translated(request);
                let known = machine.translate(request);
                machine.release(LockName::Path);
                if known { self.step_loop(index, machine) } else { Step::Run(machine.costs.translate_miss) }
            }
            Phase::Translated(request) => {
                if !machine.acquire(LockName::Cache(machine.file(request)), task) {
                    return Step::Block;
                }
                self.loops[index].phase = Phase::FileLookedUp(request);
                Step::Run(machine.costs.lookup)
            }
            Phase::FileLookedUp(request) => {
                let hit = machine.look_up(request);
                if self.shared {
                    machine.release(LockName::Cache(machine.file(request)));
                }
                if self.comes_by_pieces(request, hit, machine) {
                    return self.hand_over_piece(index, request, 0, machine);
                }
                match hit {
                    true => self.send_all(index, request, 0, machine),
                    false if machine.find_in_pages(request) => {
                        self.loops[index].phase = Phase::Loading(request);
                        Step::Run(machine.costs.load(machine.size(request)))
                    }
                    false => self.miss(index, request, machine),
                }
            }
            Phase::Loading(request) => {
                machine.keep(request);
                self.send_all(index, request, 0, machine)
            }
            Phase::HandedOff(request) => {
                self.hand_off(index, request, machine);
                self.turn(index, machine)
            }
            Phase::Read(request) => {
                let read = machine.costs.read(machine.size(request));
                self.send_all(index, request, read, machine)
            }
            Phase::Sent(request, sent) => {
                let is_whole = sent == machine.size(request);
                if self.stretch(request).is_some_and(|stretch| stretch.end == sent) && !is_whole {
                    return self.hand_over_piece(index, request, sent, machine);
                }
                if is_whole {
                    self.forget(request);
                    machine.complete(request);
                } else {
                    self.loops[index].events.push_back(Event::Writable(request, sent));
                }
                self.turn(index, machine)
            }
        }
    }

    fn forget(&mut self, request: RequestId) {
        if let Some(stretch) = self.stretches.get_mut(request.0 as usize) {
            *stretch = None;
        }
    }

    /// Processor time of a helper that has what `request` wanted.
    fn helper_work(&self, request: RequestId, machine: &Machine) -> Nanos {
        match self.stretch(request) {
            Some(Stretch { begin, end, from_disk }) => machine.costs.piece(end - begin, from_disk),
            None => machine.costs.read(machine.size(request)),
        }
    }

    fn step_helper(&mut self, index: usize, machine: &mut Machine) -> Step {
        match self.helpers[index].phase {
            HelperPhase::Free => self.turn_helper(index, machine),
            HelperPhase::Taken(request) => {
                self.helpers[index].phase = HelperPhase::Read(request);
                if machine.is_held(request) {
                    return self.step_helper(index, machine);
                }
                if let Some(Some(stretch)) = self.stretches.get_mut(request.0 as usize) {
                    stretch.from_disk = true;
                }
                machine.read(request, Waiter((self.loops.len() + index) as u32));
                Step::Block
            }
            HelperPhase::Read(request) => {
                self.helpers[index].phase = HelperPhase::Reported(request);
                Step::Run(self.helper_work(request, machine) + machine.costs.hand_off)
            }
            HelperPhase::Reported(request) => {
                self.notify(Event::Loaded(request), request, machine);
                self.turn_helper(index, machine)
            }
        }
    }

    fn turn_helper(&mut self, index: usize, machine: &Machine) -> Step {
        let queue = match self.disk {
            Disk::Helpers(each) if !self.shared => index / each as usize,
            _ => 0,
        };
        let helper = &mut self.helpers[index];
        match self.reads[queue].pop() {
            Some(WaiterId(request)) => {
                helper.phase = HelperPhase::Taken(RequestId(request));
                Step::Run(machine.costs.hand_off)
            }
            None => {
                helper.phase = HelperPhase::Free;
                helper.blocked = true;
                Step::Block
            }
        }
    }
}

impl Helper {
    fn blocked_free(&self) -> bool {
        self.blocked && matches!(self.phase, HelperPhase::Free)
    }
}

impl Architecture for Loops {
    fn workers(&self) -> Vec<usize> {
        let each = if let Disk::Helpers(each) = self.disk { each.max(1) as usize } else { 1 };
        (0..self.loops.len()).chain((0..self.helpers.len()).map(|helper| helper / each)).collect()
    }

    fn arrive(&mut self, request: RequestId, machine: &mut Machine) {
        self.notify(Event::Arrived(request), request, machine);
    }

    fn step(&mut self, task: TaskId, machine: &mut Machine) -> Step {
        let index = task.0 as usize;
        match index.checked_sub(self.loops.len()) {
            None => self.step_loop(index, machine),
            Some(helper) => self.step_helper(helper, machine),
        }
    }

    fn read_done(&mut self, waiter: Waiter, machine: &mut Machine) {
        match self.disk {
            Disk::Inline | Disk::Helpers(_) => machine.wake(TaskId(waiter.0)),
            Disk::Kernel => {
                let request = RequestId(waiter.0);
                self.notify(Event::Loaded(request), request, machine);
            }
        }
    }
}
