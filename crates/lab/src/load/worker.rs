//! One event loop of the load generator.
//!
//! Owns: a share of the connections, and when each of them is asked. Guarantees: a turn of the loop costs one wait and,
//! for each answer, one receive and one send; a time stamp is taken when bytes have arrived, not when the loop gets
//! round to it.
//!
//! ```text
//!   Connecting --all there, or too late--> (barrier) --> Running --time over, or no more requests--> Draining --> done
//! ```

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime, timerfd_create,
    timerfd_settime,
};

use super::connection::{BUFFER_BYTES, Connection, Role, State, Turn};
use super::feed::{Cursor, Feed, Next};
use super::outcome::ThreadUse;
use super::plan::{Pace, Plan};
use super::recorder::{Recorder, Shared};
use super::thread_state::ThreadState;
use super::timers::{Alarm, Timer, Timers};

/// Time between two looks at deadlines.
const CHECK_NS: u64 = 100_000_000;

/// Time for all connections to be established before the run begins with those that are there.
const CONNECT_NS_MAX: u64 = 20_000_000_000;

/// Time before connecting is tried again.
const RETRY_NS: u64 = 10_000_000;

/// Connections being established at the same time, well below any server's listen queue.
const CONNECTING_MAX: usize = 256;

/// Time for what is under way at the end.
const DRAIN_NS_MAX: u64 = 5_000_000_000;

/// The same after an interruption.
const INTERRUPTED_DRAIN_NS_MAX: u64 = 300_000_000;

/// Sleeping for less than this is not worth setting a timer.
const SLEEP_NS_MIN: u64 = 5_000;

/// The number by which the kernel reports the timer.
const TIMER: u64 = u64::MAX;

/// The report of a thread.
pub(super) struct Report {
    pub(super) recorder: Recorder,
    pub(super) used: ThreadUse,
    pub(super) cpu_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) first_wrong: Option<String>,
}

pub(super) struct Worker<'a> {
    thread_state: ThreadState<'a>,
    connections: Vec<Connection>,
    feed: Feed,
    timer: rustix::fd::OwnedFd,
    /// The next request of an open loop, whose time has not come.
    upcoming: Option<Next>,
    /// Requests that are due and wait for a connection.
    backlog: VecDeque<Next>,
    /// Connections with room, in an open loop.
    free: VecDeque<u32>,
    exhausted: bool,
    running: bool,
    stop_ns: u64,
    give_up_ns: u64,
    next_check_ns: u64,
    measured_from: Option<Usage>,
    measured_to: Option<Usage>,
}

impl<'a> Worker<'a> {
    /// For thread number `thread` of the plan.
    ///
    /// # Errors
    /// If the kernel has no descriptors or memory left.
    pub(super) fn new(plan: &'a Plan, shared: &'a Shared, cursor: &Arc<Cursor>, thread: usize) -> Result<Self, Errno> {
        let share = |total: usize| total / plan.threads + usize::from(thread < total % plan.threads);
        let (active, idle) = (share(plan.connections), share(plan.idle_connections));
        let roles = std::iter::repeat_n(Role::Active, active).chain(std::iter::repeat_n(Role::Idle, idle));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Worker {
            thread_state: ThreadState {
                plan,
                shared,
                epoll,
                timers: Timers::default(),
                recorder: Recorder::new(),
                buffer: vec![0; BUFFER_BYTES],
                in_flight: 0,
                connecting: 0,
                opened: thread,
                first_wrong: None,
                now_ns: 0,
            },
            connections: (0..).zip(roles).map(|(index, role)| Connection::new(index, role)).collect(),
            feed: Feed::new(plan, thread, cursor),
            timer,
            upcoming: None,
            backlog: VecDeque::new(),
            free: VecDeque::new(),
            exhausted: false,
            running: false,
            stop_ns: u64::MAX,
            give_up_ns: u64::MAX,
            next_check_ns: 0,
            measured_from: None,
            measured_to: None,
        })
    }

    /// Does this thread's share of the job.
    pub(super) fn run(mut self) -> Report {
        let mut events = Vec::with_capacity(512);
        let before = Usage::now();
        self.connect_all(&mut events);
        self.thread_state.shared.barrier.wait();
        self.thread_state.shared.barrier.wait();
        self.begin();
        while !self.is_done() {
            self.turn(&mut events);
        }
        self.end(before)
    }

    fn now_ns(&self) -> u64 {
        self.thread_state.shared.clock.now_ns()
    }

    fn connect_all(&mut self, events: &mut Vec<epoll::Event>) {
        let late_ns = self.now_ns() + CONNECT_NS_MAX;
        let mut opened = 0;
        // With a new connection for each request there is nothing to prepare, except for the idle ones.
        let needed = |c: &Connection, plan: &Plan| c.role == Role::Idle || !plan.new_connections;
        loop {
            let now_ns = self.now_ns();
            self.thread_state.now_ns = now_ns;
            while opened < self.connections.len() && self.thread_state.connecting < CONNECTING_MAX {
                if needed(&self.connections[opened], self.thread_state.plan) {
                    self.open(opened);
                }
                opened += 1;
            }
            let ready = |c: &Connection| match c.role {
                Role::Active => self.thread_state.plan.new_connections || c.state == State::Open,
                Role::Idle => c.is_settled,
            };
            let all = opened == self.connections.len() && self.connections.iter().all(ready);
            if all || now_ns > late_ns || self.thread_state.shared.is_stopped() {
                return;
            }
            self.turn(events);
        }
    }

    fn begin(&mut self) {
        let plan = self.thread_state.plan;
        let start_ns = self.thread_state.shared.start_ns.load(Ordering::Acquire);
        let measure_from_ns = start_ns + plan.warmup.as_nanos() as u64;
        self.thread_state.recorder.measure_from_ns = measure_from_ns;
        if let Some(duration) = plan.duration {
            self.stop_ns = measure_from_ns + duration.as_nanos() as u64;
            self.thread_state.recorder.measure_until_ns = self.stop_ns;
        }
        self.running = true;
        self.thread_state.now_ns = self.now_ns();
        for index in 0..self.connections.len() {
            if self.connections[index].role == Role::Active {
                self.settle(index, false);
            }
        }
    }

    /// One turn: what is due, then what the kernel reports.
    fn turn(&mut self, events: &mut Vec<epoll::Event>) {
        let now_ns = self.now_ns();
        self.thread_state.now_ns = now_ns;
        if now_ns >= self.next_check_ns {
            self.check(now_ns);
        }
        while let Some(timer) = self.thread_state.timers.take_due(now_ns) {
            self.alarm(timer);
        }
        self.dispatch(now_ns);
        events.clear();
        let timeout = self.timeout();
        match epoll::wait(&self.thread_state.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            // The descriptors are ours and valid: nothing else can go wrong.
            Err(error) => unreachable!("epoll_wait: {error}"),
        }
        let answered = self.thread_state.recorder.counts.answered;
        for event in events.iter() {
            let (index, flags) = (event.data.u64(), event.flags);
            if index != TIMER {
                let turn = self.connections[index as usize].handle(&mut self.thread_state, flags);
                self.react(index as usize, turn);
            }
        }
        let answers = self.thread_state.recorder.counts.answered - answered;
        if answers > 0 {
            self.thread_state.shared.responses.fetch_add(answers, Ordering::Relaxed);
        }
    }

    fn react(&mut self, index: usize, turn: Turn) {
        match turn {
            Turn::Waits => {}
            Turn::Free => {
                self.thread_state.shared.connected.store(1, Ordering::Relaxed);
                self.settle(index, false);
            }
            Turn::Ended => self.settle(index, false),
            // Later, because a server that closes what it accepts would otherwise be asked in a tight loop.
            Turn::Broken => self.retry_later(index),
            Turn::Refused => {
                self.thread_state.shared.refused.fetch_add(1, Ordering::Relaxed);
                self.retry_later(index);
            }
        }
    }

    /// Whether there is anything to ask for, now or later.
    fn wants_more(&self) -> bool {
        self.running && (!self.is_ending() || !self.backlog.is_empty())
    }

    /// Decides what a connection does that has nothing to wait for, or room for more. `is_rested`: it has thought, or
    /// has waited to connect again.
    fn settle(&mut self, index: usize, is_rested: bool) {
        let wanted = self.wants_more();
        let (plan, now_ns) = (self.thread_state.plan, self.thread_state.now_ns);
        let connection = &mut self.connections[index];
        match (connection.role, connection.state) {
            (_, State::Connecting) => {}
            (Role::Idle, State::Open) if !connection.is_settled && connection.asked() == 0 => {
                connection.ask(&mut self.thread_state, now_ns, 0, now_ns);
                connection.flush(&mut self.thread_state);
            }
            (Role::Idle, State::Closed) if !connection.is_settled && !self.running => self.open(index),
            (Role::Idle, _) => {}
            // Asked before it was established, or given back by an answer that was the last of its connection.
            (Role::Active, State::Closed) if connection.asked() > 0 => self.open(index),
            (Role::Active, State::Closed) if !plan.new_connections && (wanted || !self.running) => self.open(index),
            (Role::Active, _) if !wanted => {}
            (Role::Active, _) => match plan.pace {
                Pace::Closed { think } if think.is_zero() || is_rested || !connection.is_settled => {
                    self.ask_next(index)
                }
                Pace::Closed { think } => self.set_ask(index, now_ns + think.as_nanos() as u64),
                _ => self.enlist(index),
            },
        }
    }

    /// Closed loop: fills the connection with requests.
    fn ask_next(&mut self, index: usize) {
        let now_ns = self.thread_state.now_ns;
        let connection = &mut self.connections[index];
        while connection.has_room(self.thread_state.plan) {
            let Some(next) = self.feed.next() else {
                self.exhausted = true;
                break;
            };
            connection.ask(&mut self.thread_state, now_ns, next.target, now_ns);
        }
        self.send(index);
    }

    /// Open loop: the connection can take what is due.
    fn enlist(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        if !connection.is_queued && connection.has_room(self.thread_state.plan) {
            connection.is_queued = true;
            self.free.push_back(index as u32);
        }
    }

    /// Open loop: hands what is due to connections that have room.
    fn dispatch(&mut self, now_ns: u64) {
        if !self.running || self.thread_state.plan.pace.is_closed() {
            return;
        }
        let start_ns = self.thread_state.shared.start_ns.load(Ordering::Relaxed);
        self.serve_backlog(now_ns);
        while let Some(next) = self.upcoming.take().or_else(|| self.next_timed(start_ns)) {
            if next.due_ns > now_ns {
                self.upcoming = Some(next);
                break;
            }
            if self.free.is_empty() {
                self.thread_state.recorder.counts.waited += 1;
            } else if next.due_ns >= self.thread_state.recorder.measure_from_ns {
                self.thread_state.recorder.lag.record(now_ns - next.due_ns);
            }
            self.backlog.push_back(next);
            self.serve_backlog(now_ns);
        }
    }

    fn next_timed(&mut self, start_ns: u64) -> Option<Next> {
        if self.exhausted {
            return None;
        }
        let next = self.feed.next().map(|next| Next { due_ns: start_ns + next.due_ns, ..next });
        let next = next.filter(|next| next.due_ns < self.stop_ns);
        self.exhausted = next.is_none();
        next
    }

    fn serve_backlog(&mut self, now_ns: u64) {
        while !self.backlog.is_empty() {
            let Some(index) = self.free.pop_front() else { return };
            let connection = &mut self.connections[index as usize];
            connection.is_queued = false;
            if !connection.has_room(self.thread_state.plan) {
                continue;
            }
            let Some(next) = self.backlog.pop_front() else { return };
            connection.ask(&mut self.thread_state, next.due_ns, next.target, now_ns);
            self.send(index as usize);
            self.enlist(index as usize);
        }
    }

    fn send(&mut self, index: usize) {
        match self.connections[index].state {
            State::Open => self.connections[index].flush(&mut self.thread_state),
            State::Closed if self.connections[index].asked() > 0 => self.open(index),
            _ => {}
        }
    }

    fn open(&mut self, index: usize) {
        let turn = self.connections[index].open(&mut self.thread_state);
        match turn {
            // What it was opened for is on its way already; only a connection without a request has to be settled.
            Turn::Free if self.connections[index].asked() > 0 => {
                self.thread_state.shared.connected.store(1, Ordering::Relaxed)
            }
            turn => self.react(index, turn),
        }
    }

    fn retry_later(&mut self, index: usize) {
        let due_ns = self.thread_state.now_ns + RETRY_NS;
        self.set_ask(index, due_ns);
    }

    fn set_ask(&mut self, index: usize, due_ns: u64) {
        let generation = self.connections[index].generation();
        self.thread_state.timers.set(Timer { due_ns, connection: index as u32, generation, alarm: Alarm::Ask });
    }

    fn alarm(&mut self, timer: Timer) {
        let index = timer.connection as usize;
        if self.connections[index].generation() != timer.generation {
            return;
        }
        match timer.alarm {
            Alarm::Ask => self.settle(index, true),
            alarm => self.connections[index].resume(&mut self.thread_state, alarm),
        }
    }

    fn check(&mut self, now_ns: u64) {
        self.next_check_ns = now_ns + CHECK_NS;
        if self.running && self.measured_from.is_none() && now_ns >= self.thread_state.recorder.measure_from_ns {
            self.measured_from = Some(Usage::now());
        }
        if self.thread_state.shared.is_stopped() && self.running {
            self.stop_ns = self.stop_ns.min(now_ns);
            self.give_up_ns = self.give_up_ns.min(now_ns + INTERRUPTED_DRAIN_NS_MAX);
            self.thread_state.recorder.measure_until_ns = self.thread_state.recorder.measure_until_ns.min(now_ns);
        }
        for index in 0..self.connections.len() {
            let turn = self.connections[index].check_deadline(&mut self.thread_state, now_ns);
            self.react(index, turn);
        }
    }

    fn is_ending(&self) -> bool {
        self.exhausted || self.thread_state.now_ns >= self.stop_ns
    }

    fn is_done(&mut self) -> bool {
        let now_ns = self.thread_state.now_ns;
        if now_ns < self.stop_ns && !self.exhausted {
            return false;
        }
        if self.measured_to.is_none() && now_ns >= self.stop_ns {
            self.measured_to = Some(Usage::now());
        }
        if now_ns >= self.stop_ns && self.give_up_ns == u64::MAX {
            self.give_up_ns = now_ns + DRAIN_NS_MAX;
        }
        let open_is_over = self.thread_state.plan.pace.is_closed() || self.exhausted || now_ns >= self.stop_ns;
        let nothing_left = self.thread_state.in_flight == 0 && self.backlog.is_empty() && self.upcoming.is_none();
        open_is_over && nothing_left || now_ns >= self.give_up_ns
    }

    fn timeout(&self) -> Timespec {
        let now_ns = self.now_ns();
        let upcoming_ns = self.upcoming.map_or(u64::MAX, |next| next.due_ns);
        let timer_ns = self.thread_state.timers.first_ns().unwrap_or(u64::MAX);
        let until_ns = self.next_check_ns.min(self.stop_ns.max(now_ns));
        let due_ns = upcoming_ns.min(timer_ns);
        if due_ns < until_ns {
            let left_ns = due_ns.saturating_sub(now_ns);
            if left_ns < SLEEP_NS_MIN {
                return Timespec { tv_sec: 0, tv_nsec: 0 };
            }
            // Waiting for a descriptor is in milliseconds on older kernels; a timer is exact on all.
            let it_value =
                Timespec { tv_sec: (left_ns / 1_000_000_000) as i64, tv_nsec: (left_ns % 1_000_000_000) as i64 };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once);
        }
        // Rounded up: waking a little late does not matter here, waking a thousand times does.
        let left_ms = until_ns.saturating_sub(now_ns) / 1_000_000 + 1;
        Timespec { tv_sec: (left_ms / 1000) as i64, tv_nsec: (left_ms % 1000 * 1_000_000) as i64 }
    }

    fn end(mut self, before: Usage) -> Report {
        let ended_ns = self.now_ns();
        let after = Usage::now();
        for index in 0..self.connections.len() {
            let idle_closed = self.thread_state.recorder.counts.idle_closed;
            let unanswered = self.connections[index].abandon(&mut self.thread_state);
            self.thread_state.recorder.counts.unanswered += unanswered;
            // It was us who closed it.
            self.thread_state.recorder.counts.idle_closed = idle_closed;
        }
        self.thread_state.recorder.counts.unsent += self.backlog.len() as u64;
        let from = self.measured_from.unwrap_or(before);
        let used = from.until(&self.measured_to.unwrap_or(after));
        let cpu_ns = after.cpu_ns - before.cpu_ns;
        let ThreadState { recorder, first_wrong, .. } = self.thread_state;
        Report { recorder, used, cpu_ns, ended_ns, first_wrong }
    }
}

/// Resources that a thread had used at a time.
#[derive(Clone, Copy, Debug)]
struct Usage {
    at_ns: u64,
    cpu_ns: u64,
    waited_ns: Option<u64>,
}

impl Usage {
    fn now() -> Usage {
        let ns = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        // Time on a processor, time waiting for one, turns: Documentation/scheduler/sched-stats.rst.
        let schedstat = fs::read_to_string("/proc/thread-self/schedstat").ok();
        let waited_ns = schedstat.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        Usage { at_ns: ns(ClockId::Monotonic), cpu_ns: ns(ClockId::ThreadCPUTime), waited_ns }
    }

    fn until(&self, later: &Usage) -> ThreadUse {
        let length = later.at_ns.saturating_sub(self.at_ns).max(1) as f64;
        let share = |from: u64, to: u64| to.saturating_sub(from) as f64 / length;
        let starved = self.waited_ns.zip(later.waited_ns).map(|(from, to)| share(from, to));
        ThreadUse { busy: share(self.cpu_ns, later.cpu_ns), starved }
    }
}
