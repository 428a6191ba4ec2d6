//! Order of service: which of several that can go on has the next turn.
//!
//! Owns: the order of those that wait for a turn, for any resource that serves one turn after the other. A turn is
//! bounded (so many bytes, one read, one job), so a long answer takes many. A waiter that had a turn and wants more
//! waits again.
//!
//! Guarantees: a [`WaiterId`] waits once at most. [`Queue::pop`] takes the best rank of the highest urgency, and no
//! waiter starves: each has its turn after at most `patience + (PASSED_OVER_MAX + 1) * (ahead + 1)` choices, where
//! `ahead` is how many waited when it came, whatever comes later and however urgent that is. Where turns differ
//! ([`Queue::with_turn`]), the bound is the work of so many whole turns instead. A choice, an arrival, a change and a
//! removal cost O(log n); nothing is allocated except when a waiter number larger than any before, or more waiters than
//! ever before, wait. The order is a function of the calls alone.
//!
//! Does not: hold what waits, measure time, count bytes or lock. The caller says what remains, and in which unit: bytes
//! to send, reads from the disk, work of a stage. It should be what takes time: where a read of 500 bytes takes as long
//! as one of 50,000, reads are the unit and not bytes. Only differences within one queue count.
//!
//! Its uses:
//! - *The run queue of an event loop* (`engine/src/worker/run_queue.rs`). The waiter is the number of the connection in
//!   its table, what remains are the bytes that it has to send. [`Queue::resume`] after a turn, [`Queue::remove`] when
//!   the connection ends.
//! - *The job queue of helpers* (`engine/src/worker/helpers/job_queue.rs`). The waiter is the number of a job, and
//!   [`Priority::shared`] is the priority: the reads of the job, divided by how many wait for it. [`Queue::update`]
//!   when one more waits.
//! - *The queue of a stage* (`pipelined`). The waiter is the connection, what remains is its content; one [`Queue`] for
//!   each stage.
//! - *The streams of an HTTP/2 connection*. The waiter is the stream's place in its connection. Urgency and
//!   `incremental` are those of RFC 9218; [`Queue::update`] on PRIORITY_UPDATE, [`Queue::remove`] on RST_STREAM. A
//!   queue without members holds no memory.
//!
//! A discipline is a rank ([`Discipline`]), one file each: [`fifo`], [`round_robin`], [`srpt`]. [`auto`] goes by one of
//! the latter two, as those that wait have it. Urgency stands above the rank, and the bound on waiting stands above
//! both. The bound gives the overdue one choice in four and no more: if it gave all, a long queue, in which every
//! waiter is overdue, would be round robin under any name, just when the order matters most.
//!
//! ```
//! use lamna_policy::schedule::{Priority, Queue, Schedule, WaiterId};
//!
//! let mut queue = Queue::new(Schedule::Srpt);
//! queue.push(WaiterId(0), Priority::of(5_000_000));
//! queue.push(WaiterId(1), Priority::of(500));
//! assert_eq!(queue.pop(), Some(WaiterId(1)));
//! assert_eq!(queue.pop(), Some(WaiterId(0)));
//! queue.resume(WaiterId(0), Priority::of(4_934_464));
//! ```

pub mod auto;
pub mod fifo;
mod queue;
mod ranks;
pub mod round_robin;
pub mod srpt;

use std::fmt;
use std::str::FromStr;

pub use queue::Queue;

/// While a waiter is overdue, so many others may be chosen in a row before it: a quarter of all choices is for those.
pub const PASSED_OVER_MAX: u32 = 3;

/// Choices after which one that waits is overdue, unless the caller says otherwise. With turns of 64 KiB on a link of
/// 100 Mb/s these are a third of a second. Chosen with the simulator: docs/internals/simulator.md.
pub const PATIENCE: u32 = 64;

/// A small, dense number that stands for a waiter. Memory of a queue grows with the largest one that ever waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u32);

/// How urgent it is, as RFC 9218 (4.1) has it: 0 is the most urgent of eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Urgency(u8);

impl Urgency {
    /// The urgency of a request that says nothing (RFC 9218 4.1).
    pub const DEFAULT: Urgency = Urgency(3);
    /// Before all others.
    pub const HIGHEST: Urgency = Urgency(0);
    /// After all others: work that no client waits for.
    pub const LOWEST: Urgency = Urgency(7);

    /// The urgency of this number, if there is one: 0 to 7.
    pub fn new(number: u8) -> Option<Urgency> {
        (number <= Urgency::LOWEST.0).then_some(Urgency(number))
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl Default for Urgency {
    fn default() -> Self {
        Urgency::DEFAULT
    }
}

/// The priority of a waiter: remaining work, and urgency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority {
    /// Until it is finished, in the caller's unit.
    pub remaining: u64,
    /// The urgency, which counts before what remains.
    pub urgency: Urgency,
    /// Parts of it are of use before the whole is there (RFC 9218 4.2).
    pub incremental: bool,
}

impl Priority {
    /// So much, at the usual urgency.
    pub fn of(remaining: u64) -> Priority {
        Priority { remaining, ..Priority::default() }
    }

    /// The priority of a job that costs so much and that `waiting` wait for: its cost for each of them. In this order,
    /// jobs make the sum of all waiting least (Smith: "Various optimizers for single-stage production", 1956).
    pub fn shared(cost: u64, waiting: u32) -> Priority {
        // Fixed point, so that cheap jobs that many wait for are told apart.
        Priority::of(cost.saturating_mul(256) / u64::from(waiting.max(1)))
    }
}

/// One that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its priority.
    pub priority: Priority,
    /// When it came: a number that grows with each arrival and each return.
    pub arrived: u64,
    /// When it came or came back last, by the same count.
    pub queued: u64,
}

/// A discipline: a number for a waiter, which does not change while it waits and its priority stays the same. The
/// least goes first; of equals, the one that was queued first.
pub trait Discipline {
    /// See the trait.
    fn rank(waiter: &Waiter) -> u64;
}

/// The disciplines by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// In the order in which they came.
    Fifo,
    /// By turns.
    RoundRobin,
    /// Least remaining work first, compared by powers of two.
    Srpt,
    /// Round robin, or least remaining work first, as those that wait have it.
    #[default]
    Auto,
}

impl Schedule {
    /// All of them, in the order of the documentation.
    pub const ALL: [Schedule; 4] = [Schedule::Fifo, Schedule::RoundRobin, Schedule::Srpt, Schedule::Auto];

    /// The name used in settings and results.
    pub fn name(self) -> &'static str {
        match self {
            Schedule::Fifo => "fifo",
            Schedule::RoundRobin => "round-robin",
            Schedule::Srpt => "srpt",
            Schedule::Auto => "auto",
        }
    }

    fn rank(self, waiter: &Waiter) -> u64 {
        match self {
            Schedule::Fifo => fifo::Fifo::rank(waiter),
            // What `auto` goes by is in force in its place.
            Schedule::RoundRobin | Schedule::Auto => round_robin::RoundRobin::rank(waiter),
            Schedule::Srpt => srpt::Srpt::rank(waiter),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Schedule {
    type Err = UnknownSchedule;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Schedule::ALL.into_iter().find(|schedule| schedule.name() == name).ok_or_else(|| UnknownSchedule(name.into()))
    }
}

/// A name that is none of [`Schedule::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSchedule(pub String);

impl fmt::Display for UnknownSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Schedule::ALL.map(Schedule::name);
        write!(f, "no order of service is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownSchedule {}
