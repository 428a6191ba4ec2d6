//! The machine on which an architecture runs: processors, disk, locks, link, the caches, and the clients that ask.
//!
//! Owns: everything that is not a choice of architecture, and the loop that turns events into calls of the
//! [`Architecture`]. Guarantees: a client has exactly one request under way, and a request that was begun completes.

mod content;
mod costs;
mod load;
mod near;
mod observation;

use lamna_policy::cache::{Algorithm, Bounded, ObjectId};

pub use self::costs::Costs;
use self::load::{LoadThread, Turn};
use self::near::{Distance, Near};
pub use self::observation::Observation;
use self::observation::{Tally, Totals};
use crate::arch::Architecture;
use crate::arch::kind::Kind;
use crate::kernel::{Calendar, Nanos, Stream};
use crate::parameters::{DiskParameters, Parameters, nanos};
use crate::resource::{Disk, Finished, Link, Lock, Processors, Start, TaskId};
use crate::scenario::{PolicyName, Scenario};
use crate::workload::{FileId, Requests, Workload};

/// A request, named by the client that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId(pub u32);

/// A waiter for a read from disk. A number of the architecture's own (a task or a request), dense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter(pub u32);

/// The next step of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Works.
    Run(Nanos),
    /// Waits until it is woken.
    Block,
}

/// The locks of shared caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockName {
    /// The lock of the translation cache.
    Path,
    /// The lock of the shard of the data cache that holds this file.
    Cache(FileId),
}

#[derive(Clone, Copy)]
enum Event {
    Processor(u32),
    Disk(FileId),
    Sent(RequestId),
    Arrival(RequestId),
    Wake(TaskId),
}

/// The cost of making and ending a thread.
#[derive(Clone, Copy, Debug)]
pub struct Spawned {
    /// Processor time.
    pub work: Nanos,
    /// The thread has to wait for another one of its process before it can begin: both change the memory of the
    /// process.
    pub waits: bool,
}

#[derive(Clone, Copy, Default)]
struct Request {
    file: FileId,
    issued: Nanos,
}

/// `RWSEM_WAIT_TIMEOUT` of Linux (`kernel/locking/rwsem.c`): for so long those that run pass one that sleeps until
/// `mmap_lock` is free.
const MEMORY_TURN: Nanos = 4_000_000;

/// The thread of the clients, where they share the machine. The tasks of the architecture have the numbers after it.
const LOAD: TaskId = TaskId(0);

const NO_WAITER: u32 = u32::MAX;
const NOT_READING: u32 = u32::MAX - 1;

/// See the module.
pub struct Machine {
    /// The costs of steps.
    pub costs: Costs,
    /// After so many bytes an event loop turns to the next connection, if they are in memory.
    send_quantum_bytes: u64,
    /// And if they are in the page cache.
    send_file_quantum_bytes: u64,
    /// Bytes of long content that a helper brings into memory at once, into the page cache or, if
    /// `replaces_page_cache`, beside it.
    read_quantum_bytes: u64,
    calendar: Calendar<Event>,
    processors: Processors,
    processors_len: usize,
    disk: Disk<FileId>,
    link: Link,
    locks: Vec<Lock>,
    /// Look-ups take no lock: each task has a front of the cache to itself.
    front: bool,
    /// The data cache; those of all processes where they are simulated one by one.
    caches: Vec<Bounded>,
    /// Which of them each client's requests meet; empty if there is one only.
    cache_of_client: Vec<usize>,
    /// The operating system's page cache, if it is modelled: whole files, least recently read first to go.
    pages: Option<Bounded>,
    /// The content in a cache of the processor's, if that is modelled: the least recently sent the first to go.
    near: Option<Near>,
    /// The page cache does not hold what the data cache does.
    replaces_page_cache: bool,
    /// Longer files are only in the page cache.
    content_bytes_max: u64,
    /// The size of an entry of the data cache beside its content.
    entry_bytes: u64,
    /// An entry counts as so much at least.
    entry_bytes_least: u64,
    translations: Bounded,
    /// When each path was translated last; kept only if translations age.
    translated: Vec<Nanos>,
    fresh: Nanos,
    workload: Workload,
    source: Requests,
    requests: Vec<Request>,
    client_delay: Nanos,
    load: Option<LoadThread>,
    wakes: u64,
    /// Draws which of the new threads have to wait.
    chance: Stream,
    /// On which the task runs that is asked what it does next.
    processor: usize,
    /// The work that each task still owes for having had idle processors begin.
    owed: Vec<Nanos>,
    /// First of a chain of waiters for each file, `NO_WAITER`, or `NOT_READING`.
    first_waiter: Vec<u32>,
    next_waiter: Vec<u32>,
    /// The cache for which each waiter reads.
    waiter_cache: Vec<usize>,
    arrivals: Vec<RequestId>,
    /// The last answer was this file.
    answered: FileId,
    tally: Tally,
}

impl Machine {
    /// A machine at rest whose caches are as an observer finds them after a long time.
    pub fn new(
        scenario: &Scenario,
        parameters: &Parameters,
        disk: &DiskParameters,
        workload: &Workload,
        data_cache_bytes: u64,
        seed: u64,
    ) -> Machine {
        let files = workload.sizes.len();
        let cache_of_client = caches_of_clients(scenario);
        let caches_len = cache_of_client.iter().max().map_or(1, |last| last + 1);
        let mut machine = Machine {
            costs: Costs::new(scenario, parameters),
            send_quantum_bytes: parameters.concurrency.send_quantum_bytes,
            send_file_quantum_bytes: match parameters.concurrency.send_file_quantum_bytes {
                0 => parameters.concurrency.send_quantum_bytes,
                bytes => bytes,
            },
            read_quantum_bytes: match scenario.replaces_page_cache {
                true => parameters.concurrency.copy_quantum_bytes,
                false => parameters.concurrency.read_quantum_bytes,
            },
            calendar: Calendar::new(),
            processors: Processors::new(
                scenario.processors as usize,
                nanos(parameters.processor.switch_us),
                nanos(parameters.processor.quantum_us),
                nanos(parameters.processor.granularity_us),
            ),
            processors_len: scenario.processors as usize,
            disk: Disk::new(
                nanos(disk.latency_us),
                disk.spread,
                disk.bytes_per_s,
                disk.parallelism as usize,
                Stream::new(seed, "disk"),
            ),
            link: Link::new(parameters.network.bits_per_s),
            locks: (0..=parameters.locks.shards).map(|_| Lock::new(parameters.locks.handover)).collect(),
            caches: (0..caches_len)
                .map(|_| Bounded::new(scenario.policy.0, PolicyName::OBJECTIVE, data_cache_bytes))
                .collect(),
            cache_of_client,
            pages: (scenario.page_cache_bytes > 0)
                .then(|| Bounded::new(Algorithm::Lru, PolicyName::OBJECTIVE, scenario.page_cache_bytes)),
            near: Near::new(scenario, parameters),
            replaces_page_cache: scenario.replaces_page_cache,
            content_bytes_max: parameters.content_bytes_max(scenario),
            entry_bytes: if scenario.page_cache_bytes > 0 { parameters.memory.entry_bytes } else { 0 },
            entry_bytes_least: match scenario.architecture {
                Kind::Mp => data_cache_bytes.checked_div(parameters.memory.process_entries).unwrap_or(0),
                _ => 0,
            },
            front: parameters.locks.front,
            translated: vec![0; if parameters.memory.translation_fresh_us > 0.0 { files } else { 0 }],
            fresh: nanos(parameters.memory.translation_fresh_us),
            translations: Bounded::new(
                Default::default(),
                PolicyName::OBJECTIVE,
                parameters.memory.translation_entries * caches_len as u64,
            ),
            workload: workload.clone(),
            source: workload.requests(seed),
            requests: vec![Request::default(); scenario.clients as usize],
            client_delay: nanos(parameters.network.client_delay_us),
            load: scenario.clients_on_server.then(|| LoadThread::new(parameters, scenario)),
            wakes: 0,
            chance: Stream::new(seed, "threads"),
            processor: 0,
            owed: Vec::new(),
            first_waiter: vec![NOT_READING; files],
            next_waiter: Vec::new(),
            waiter_cache: Vec::new(),
            arrivals: Vec::new(),
            answered: 0,
            tally: Tally::default(),
        };
        let processor = &parameters.processor;
        machine.processors.let_sleep(
            nanos(processor.wake_us),
            nanos(processor.sleeps_after_us),
            nanos(processor.rest_us),
            nanos(processor.call_us),
        );
        machine.processors.follow(processor.discipline);
        let slice = nanos(disk.throttle_slice_us);
        let per_slice = (disk.requests_per_s * disk.throttle_slice_us / 1e6).round() as u64;
        machine.disk.throttle(disk.request_bytes, per_slice, if disk.requests_per_s > 0.0 { slice } else { 0 });
        if machine.load.is_some() {
            let last = machine.processors_len - 1;
            machine.processors.bind(LOAD, last);
            machine.processors.set_apart(LOAD, nanos(processor.program_us));
            if scenario.clients_spin {
                machine.processors.keep_awake(last);
            }
        }
        machine.fill_caches(seed);
        machine
    }

    /// Runs until `requests` more have completed after `warm_up_requests`.
    pub fn run(&mut self, architecture: &mut impl Architecture, warm_up_requests: u64, requests: u64) -> Observation {
        for client in 0..self.requests.len() {
            let request = RequestId(client as u32);
            self.issue(request);
            self.arrivals.push(request);
        }
        self.deliver_arrivals(architecture);
        self.proceed(architecture, warm_up_requests);
        let before = self.totals();
        self.tally = Tally::default();
        self.proceed(architecture, requests);
        self.observe(before)
    }

    /// The present.
    pub fn now(&self) -> Nanos {
        self.calendar.now()
    }

    /// The file that a request asks for.
    pub fn file(&self, request: RequestId) -> FileId {
        self.requests[request.0 as usize].file
    }

    /// Bytes of what a request asks for.
    pub fn size(&self, request: RequestId) -> u64 {
        self.workload.sizes[self.file(request) as usize]
    }

    /// A blocked task becomes ready.
    pub fn wake(&mut self, task: TaskId) {
        self.wake_any(TaskId(task.0 + 1));
    }

    /// From now on only this processor runs `task`, which is blocked. Processors are counted round and round.
    pub fn bind(&mut self, task: TaskId, processor: usize) {
        self.processors.bind(TaskId(task.0 + 1), processor % self.processors_len);
    }

    /// Making the thread that is just beginning, and ending it. It takes more where another processor runs one of the
    /// same process, since the kernel has to interrupt that when the stack goes.
    pub fn spawn(&mut self) -> Spawned {
        let runs_server = |other| self.processors.running(other).is_some_and(|task| task != LOAD);
        match (0..self.processors_len).any(|other| other != self.processor && runs_server(other)) {
            true => Spawned {
                work: self.costs.spawn_shared,
                waits: self.chance.unit() < self.costs.spawn_waiting * self.processors.ready_len() as f64,
            },
            false => Spawned { work: self.costs.spawn, waits: false },
        }
    }

    /// Wakes `task`, which blocks, when it is its turn to change the memory of its process.
    pub fn await_memory(&mut self, task: TaskId) {
        self.calendar.after(MEMORY_TURN, Event::Wake(task));
    }

    fn wake_any(&mut self, task: TaskId) {
        self.wakes += 1;
        let start = self.processors.wake(task, 0, self.calendar.now());
        self.schedule(start);
    }

    /// Whether `task` owns the lock now. If not it must block, and asks again when it is woken.
    pub fn acquire(&mut self, lock: LockName, task: TaskId) -> bool {
        if self.front {
            return true;
        }
        let index = self.lock_index(lock);
        self.locks[index].acquire(task, self.calendar.now())
    }

    /// The owner lets go.
    pub fn release(&mut self, lock: LockName) {
        if self.front {
            return;
        }
        let index = self.lock_index(lock);
        if let Some(task) = self.locks[index].release(self.calendar.now()) {
            self.wake(task);
        }
    }

    /// Whether the path of `request` was in the translation cache; it is now.
    pub fn translate(&mut self, request: RequestId) -> bool {
        let object = self.own_object(request);
        let fresh = self.is_fresh(self.file(request));
        let held = self.translations.request(object);
        if held && fresh {
            return true;
        }
        self.tally.translation_misses += 1;
        if !held {
            let _ = self.translations.offer(object, 1, |_| ());
        }
        false
    }

    /// Whether a translation may be used without looking at the file system again; it is looked at if not.
    fn is_fresh(&mut self, file: FileId) -> bool {
        let now = self.calendar.now();
        let Some(translated) = self.translated.get_mut(file as usize) else { return true };
        let fresh = now - *translated < self.fresh;
        if !fresh {
            *translated = now;
        }
        fresh
    }

    /// Processor time of sending the header of the response to `request`, and of fetching from memory what the
    /// processor's cache does not hold of it.
    pub fn header(&mut self, request: RequestId) -> Nanos {
        let (object, bytes) = (self.own_object(request), self.size(request));
        // No processor touches content that leaves from the page cache, and content that a helper has copied is near.
        let touched = if self.is_long(request) { 0 } else { bytes };
        let distance = self.near.as_mut().map_or(Distance::Near, |near| near.request(object, touched));
        let file = self.file(request);
        let varied = if std::mem::replace(&mut self.answered, file) == file { 0 } else { self.costs.varied };
        self.costs.header(touched, distance) + varied
    }

    /// Reads the file of `request` from disk into the data cache, or joins the read of it that is under way.
    /// [`Architecture::read_done`] follows.
    pub fn read(&mut self, request: RequestId, waiter: Waiter) {
        let file = self.file(request);
        if waiter.0 as usize >= self.next_waiter.len() {
            self.next_waiter.resize(waiter.0 as usize + 1, NO_WAITER);
            self.waiter_cache.resize(waiter.0 as usize + 1, 0);
        }
        self.waiter_cache[waiter.0 as usize] = self.cache_of(request);
        let first = &mut self.first_waiter[file as usize];
        let under_way = *first != NOT_READING;
        self.next_waiter[waiter.0 as usize] = if under_way { *first } else { NO_WAITER };
        *first = waiter.0;
        if !under_way {
            let begun = self.disk.read(file, self.workload.sizes[file as usize], self.calendar.now());
            self.schedule_read(begun);
        }
    }

    /// The last byte of a response was handed to the network. The client asks again when it has it.
    pub fn complete(&mut self, request: RequestId) {
        let bytes = self.size(request);
        let queued = self.link.send(bytes, self.calendar.now());
        let under_way = if self.costs.waits_for_network() { self.costs.transmission(bytes) } else { 0 };
        match queued + under_way {
            0 => self.deliver(request),
            after => self.calendar.after(after, Event::Sent(request)),
        }
    }

    fn proceed(&mut self, architecture: &mut impl Architecture, requests: u64) {
        let goal = self.tally.completed + requests;
        while self.tally.completed < goal {
            let Some(event) = self.calendar.next() else {
                unreachable!("every client has a request under way, so something is to happen");
            };
            match event {
                Event::Processor(processor) => self.step(architecture, processor as usize),
                Event::Disk(file) => self.read_done(architecture, file),
                Event::Wake(task) => self.wake(task),
                Event::Sent(request) => {
                    architecture.sent(request, self);
                    self.deliver(request);
                }
                Event::Arrival(request) => {
                    self.issue(request);
                    self.arrivals.push(request);
                }
            }
            self.deliver_arrivals(architecture);
        }
    }

    fn step(&mut self, architecture: &mut impl Architecture, processor: usize) {
        let now = self.calendar.now();
        let start = match self.processors.finish(processor, now) {
            Finished::Preempted(start) => Some(start),
            Finished::Task(task) => {
                self.processor = processor;
                let step = if task == LOAD { self.step_load() } else { architecture.step(TaskId(task.0 - 1), self) };
                self.owe(task);
                match step {
                    Step::Run(work) => {
                        let owed = std::mem::take(&mut self.owed[task.0 as usize]);
                        Some(self.processors.run(processor, work + owed, now))
                    }
                    Step::Block => self.processors.block(processor, now),
                }
            }
        };
        self.schedule(start);
    }

    /// `task` has had idle processors begin; it works for that when it works next.
    fn owe(&mut self, task: TaskId) {
        let index = task.0 as usize;
        if index >= self.owed.len() {
            self.owed.resize(index + 1, 0);
        }
        self.owed[index] += self.processors.take_owed();
    }

    fn step_load(&mut self) -> Step {
        loop {
            let Some(load) = &mut self.load else { return Step::Block };
            match load.turn() {
                Turn::Step(step) => return step,
                Turn::Received(request) => {
                    self.count(request);
                    self.issue(request);
                    return self.load.as_mut().map_or(Step::Block, |load| load.send(request));
                }
                Turn::Sent(request) => self.arrivals.push(request),
            }
        }
    }

    fn deliver_arrivals(&mut self, architecture: &mut impl Architecture) {
        while let Some(request) = self.arrivals.pop() {
            let wakes_before = self.wakes;
            architecture.arrive(request, self);
            if let Some(load) = self.load.as_mut().filter(|_| self.wakes > wakes_before) {
                load.rouse();
            }
        }
        if self.load.is_some() {
            self.owe(LOAD);
        } else {
            // An interrupt's, and no task's here.
            self.processors.take_owed();
        }
    }

    fn read_done(&mut self, architecture: &mut impl Architecture, file: FileId) {
        let next = self.disk.done(self.calendar.now());
        self.schedule_read(next);
        self.keep_pages(file);
        let mut waiter = std::mem::replace(&mut self.first_waiter[file as usize], NOT_READING);
        while waiter != NO_WAITER {
            let following = self.next_waiter[waiter as usize];
            self.keep_content(self.waiter_cache[waiter as usize], file);
            architecture.read_done(Waiter(waiter), self);
            waiter = following;
        }
        // An interrupt's, likewise.
        self.processors.take_owed();
    }

    /// The response is at the client.
    fn deliver(&mut self, request: RequestId) {
        let (bytes, by_turns) = (self.size(request), self.is_long(request));
        if let Some(load) = &mut self.load {
            if load.arrive(request, bytes, by_turns) {
                self.wake_any(LOAD);
            }
            return;
        }
        self.count(request);
        match self.client_delay {
            0 => {
                self.issue(request);
                self.arrivals.push(request);
            }
            delay => self.calendar.after(delay, Event::Arrival(request)),
        }
    }

    fn count(&mut self, request: RequestId) {
        let latency = self.calendar.now() - self.requests[request.0 as usize].issued;
        self.tally.completed += 1;
        self.tally.bytes += self.size(request);
        self.tally.latency.add(latency);
        self.tally.latency_mean.add(latency as f64);
    }

    fn issue(&mut self, request: RequestId) {
        let file = self.source.next_file_of(request.0);
        self.requests[request.0 as usize] = Request { file, issued: self.calendar.now() };
    }

    fn schedule(&mut self, start: Option<Start>) {
        if let Some(Start { processor, after }) = start {
            self.calendar.after(after, Event::Processor(processor as u32));
        }
    }

    fn schedule_read(&mut self, begun: Option<(FileId, Nanos)>) {
        if let Some((file, after)) = begun {
            self.calendar.after(after, Event::Disk(file));
        }
    }

    fn lock_index(&self, lock: LockName) -> usize {
        match lock {
            LockName::Path => 0,
            LockName::Cache(file) => 1 + file as usize % (self.locks.len() - 1),
        }
    }

    /// Puts the most recently used files into the caches, oldest first; not into those of several processes.
    fn fill_caches(&mut self, seed: u64) {
        let recency = self.workload.recency(seed);
        if self.caches.len() > 1 {
            recency.iter().rev().for_each(|&file| self.keep_pages(file));
            return;
        }
        let paths = recency.len().min(self.translations.bound_bytes() as usize);
        for &file in recency[..paths].iter().rev() {
            let _ = self.translations.offer(ObjectId(file), 1, |_| ());
        }
        let mut bytes = 0;
        let fits = |file: &&FileId| {
            bytes += self.workload.sizes[**file as usize] + self.entry_bytes;
            bytes <= self.caches[0].bound_bytes()
        };
        let held = recency.iter().take_while(fits).count();
        recency[..held].iter().rev().for_each(|&file| self.keep_content(0, file));
        if self.replaces_page_cache {
            let sizes = self.workload.sizes.clone();
            let is_long = |file: FileId| sizes[file as usize] > self.content_bytes_max;
            let long: Vec<FileId> = recency.iter().rev().copied().filter(|&file| is_long(file)).collect();
            long.into_iter().for_each(|file| self.keep_pages(file));
            // What is asked for oftener has come there first, and stays.
            recency[held..].iter().for_each(|&file| self.keep_pages(file));
            return;
        }
        // What the data cache answers does not reach the page cache, so there is what was used before that.
        recency.iter().rev().for_each(|&file| self.keep_pages(file));
        recency[held..].iter().rev().for_each(|&file| self.keep_pages(file));
    }

    fn totals(&self) -> Totals {
        Totals {
            now: self.calendar.now(),
            events: self.calendar.handled(),
            processor_busy: self.processors.busy,
            load_busy: self.processors.busy_apart,
            beside_busy: self.processors.busy_beside,
            switches: self.processors.switches,
            departures: self.processors.departures,
            disk_busy: self.disk.busy,
            disk_reads: self.disk.reads,
            disk_requests: self.disk.requests,
            disk_resident: self.disk.resident,
            link_busy: self.link.busy,
            acquisitions: self.locks.iter().map(|lock| lock.acquisitions).sum(),
            contended: self.locks.iter().map(|lock| lock.contended).sum(),
            lock_waited: self.locks.iter().map(|lock| lock.waited).sum(),
        }
    }

    fn observe(&mut self, before: Totals) -> Observation {
        let (after, tally) = (self.totals(), std::mem::take(&mut self.tally));
        Observation::new(before, after, tally, self.processors_len, self.disk.parallelism())
    }
}

/// Which cache each client's requests meet, where there are several and they are simulated one by one.
fn caches_of_clients(scenario: &Scenario) -> Vec<usize> {
    let workers = scenario.workers() as usize;
    let worker =
        |client: usize| scenario.client_workers.get(client).map_or(client, |&worker| worker as usize) % workers;
    let clients = 0..scenario.clients as usize;
    match scenario.architecture {
        Kind::Mp if scenario.separate_caches => clients.collect(),
        Kind::CoAmped if scenario.separate_caches => clients.map(worker).collect(),
        _ => Vec::new(),
    }
}
