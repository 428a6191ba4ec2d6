//! Engines: one concurrency architecture each, over the same core.
//!
//! Owns: what all engines share ([`Shared`], [`Control`]) and what every engine owes, below. An engine decides who waits,
//! where what may block is carried out, and who owns the caches; it contains no HTTP.
//!
//! # What an engine owes
//! - It drives connections exactly as `lamna_proto::conn` says, and carries their needs out or defers them.
//! - It waits for listening sockets that it does not own and that stay open when it goes.
//! - It calls [`Control::report_begun`] once it has everything that it needs to serve, and not before.
//! - It honours [`Control`]: on draining it takes no new connection, finishes what has begun and returns; on stopping it
//!   returns at once; on handing over it gives its connections to its successor, in whatever state they are, and returns
//!   ([`handover`]). It goes on with those that another engine gives it, and finds those that another process gives it
//!   there as well, unless it takes them from [`Shared::receiver`].
//! - Running out of descriptors or memory costs waiting, never a connection that was accepted.

pub mod amped;
pub(crate) mod arrivals;
pub mod blocking;
mod control;
pub mod desk;
pub mod event_loop;
pub mod handover;
pub mod helper_processes;
pub mod helpers;
pub mod idle_set;
pub(crate) mod lookups;
pub mod mp;
pub mod nursery;
pub mod pipelined;
pub(crate) mod portion;
pub mod presence;
pub mod proactor;
pub mod sampling;
pub mod slots;
pub mod spawner;
pub mod sped;
pub mod stretch;
pub mod thread_per_request;
pub mod thread_per_session;
pub mod thread_pool;
pub mod transfer;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_proto::limits::Limits;
use lamna_proto::tally::BUCKETS;
use lamna_proto::time::Instant;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

pub use control::Control;

use crate::account::{self, Ledger, Step};
use crate::board::{Board, Seat};
use crate::cache::{self, Store};
use crate::config::settings::{Architecture, Settings};
use crate::engine::handover::Handover;
use crate::engine::nursery::Nursery;
use crate::engine::presence::Guests;
use crate::engine::transfer::Receiver;
use crate::io::Abilities;
use crate::io::send::Plan;
use crate::listen::Listener;
use crate::log::{AccessLog, LogCounters};
use crate::site::Sites;
use crate::sys::common::Common;

/// What control is made of. The models have another one.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    pub(super) use super::Waker;
}

/// Serves as worker `index` of this process until told to drain or stop.
///
/// # Errors
/// What keeps the worker from beginning or going on; nothing that a peer can cause.
pub fn run(shared: &Arc<Shared>, index: usize, settings: &Settings) -> Result<(), Errno> {
    match settings.architecture {
        Architecture::Sped => sped::run(shared, index),
        Architecture::Amped | Architecture::CoAmped => amped::run(shared, index, settings.helpers_max),
        Architecture::Mp => mp::run(shared, index, settings.processes.max(settings.processes_max)),
        Architecture::Proactor => proactor::run(shared, index, settings.helpers_max),
        Architecture::Pipelined => pipelined::run(shared, index),
        Architecture::ThreadPool => thread_pool::run(shared, index),
        Architecture::ThreadPerRequest => thread_per_request::run(shared, index),
        Architecture::ThreadPerSession => thread_per_session::run(shared, index),
    }
}

/// What all workers of an engine have in common. Read by all, written only through atomics and locks off the hot path.
/// An engine that takes the place of another has its own, with the same content but for what concerns the engine itself.
#[derive(Debug)]
pub struct Shared {
    /// What is served.
    pub sites: Arc<Sites>,
    /// What has been found out about targets.
    pub store: Arc<Store>,
    /// What the kernel can do.
    pub abilities: Arc<Abilities>,
    /// How workers send.
    pub sending: Plan,
    /// Bounds on what peers may use.
    pub limits: Arc<Limits>,
    /// Where connections come from.
    pub listeners: Arc<Vec<Listener>>,
    /// The access log, if there is one.
    pub log: Option<Arc<AccessLog>>,
    /// The server's clock.
    pub clock: Clock,
    /// What the main thread asks of the workers.
    pub control: Control,
    /// Connections that come from, or go to, another engine.
    pub handover: Handover,
    /// Connections that come from another process, for engines that take them themselves.
    pub receiver: Option<Arc<Receiver>>,
    /// What was done.
    pub counters: Common<Counters>,
    /// What became of log lines.
    pub log_counters: Common<LogCounters>,
    /// What the cache did.
    pub cache_counters: Common<cache::counters::Counters>,
    /// How busy each worker is.
    pub board: Common<Board>,
    /// The connections of each worker of this process that move between its threads.
    pub guests: Vec<Guests>,
    /// The seat at the board of the first worker of this process; those of the others follow.
    pub first_seat: usize,
    /// Rung when all workers are busy, for a supervisor that can start more of them.
    pub alarm: Arc<Waker>,
    /// Where helper processes come from; none if helpers are threads.
    pub nursery: Option<Arc<Nursery>>,
}

impl Shared {
    /// The seat at the board of worker `index` of this process.
    pub fn seat(&self, index: usize) -> &Seat {
        self.board.seat(self.first_seat + index)
    }

    /// Whether files are read only by who may wait, into memory of the server's own, and sent from there.
    ///
    /// Where the store has most of the memory, the page cache holds little, and nothing for long: what it has when a worker
    /// looks may be gone when it is sent. Nor may a worker look: looking for what is not there begins a readahead, for which
    /// the kernel has to make room first, in the worker's time. Helper processes cannot hand over what they have read.
    pub fn reads_elsewhere(&self) -> bool {
        self.store.holds_alone() && self.nursery.is_none()
    }
}

impl Shared {
    /// Accepting has to pause for want of descriptors or memory: gives up those of the cache, counts it, and says so now
    /// and then.
    pub fn handle_exhaustion(&self, errno: Errno) {
        self.store.clear();
        let before = self.counters.accept_pauses.fetch_add(1, Relaxed);
        if before.is_multiple_of(PAUSES_REPORTED) {
            eprintln!(
                "lamna: cannot accept connections for the moment: {errno}. They wait. If it lasts, raise the limit on open \
                 files (ulimit -n, or LimitNOFILE= in a systemd unit), or the memory limit (MemoryMax=) if there is one."
            );
        }
    }
}

/// One of so many pauses is reported: about one message in 10 seconds.
const PAUSES_REPORTED: u64 = 100;

/// The server's clock: milliseconds since shortly before it started. Coarse (1 to 10 ms) and cheap to read.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ms: u64,
}

/// What the clock shows when the server starts: more than any freshness period, so that zero is always long ago.
const START_MS: u64 = 10_000;

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { origin_ms: milliseconds(ClockId::MonotonicCoarse) - START_MS }
    }

    /// The clock that started at `origin_ms`, which is what [`Clock::origin_ms`] said in another process.
    pub fn since(origin_ms: u64) -> Clock {
        Clock { origin_ms }
    }

    /// What another process needs to have the same clock.
    pub fn origin_ms(&self) -> u64 {
        self.origin_ms
    }

    /// Now.
    pub fn now(&self) -> Instant {
        Instant(milliseconds(ClockId::MonotonicCoarse).saturating_sub(self.origin_ms))
    }
}

fn milliseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + START_MS
}

/// Milliseconds since 1970, by a clock that moves every few of them and costs next to nothing.
pub fn unix_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Wakes a worker that waits in epoll.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// A waker that nobody waits for yet.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new() -> Result<Waker, Errno> {
        Ok(Waker { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes it.
    pub fn wake(&self) {
        let _step = account::step(Step::Synchronize);
        // It fails only when the counter is full, and then the worker is being woken anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// It has woken: the next wake counts again.
    pub fn reset(&self) {
        let _step = account::step(Step::Synchronize);
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// What to wait for.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.event
    }
}

/// What was done, since the server started. Workers add to it now and then, not with each request.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Requests answered.
    pub requests: AtomicU64,
    /// Bytes given to sockets.
    pub sent_bytes: AtomicU64,
    /// Times that accepting had to pause for want of descriptors or memory.
    pub accept_pauses: AtomicU64,
    /// Idle connections closed to get descriptors.
    pub idle_shed: AtomicU64,
    /// Responses by the first digit of their status: 1xx to 5xx.
    pub responses: [AtomicU64; 5],
    /// Bytes of content that was answered with.
    pub content_bytes: AtomicU64,
    /// How long answers took, by bucket.
    pub durations: [AtomicU64; BUCKETS],
    /// Of all durations, in microseconds.
    pub duration_sum_us: AtomicU64,
    /// Targets that were in the cache and fresh.
    pub hits: AtomicU64,
    /// Targets that were in the cache, to be compared with the file system first.
    pub stale: AtomicU64,
    /// Targets that were not in the cache.
    pub misses: AtomicU64,
    /// Where the time went, if that is asked for.
    pub account: Ledger,
    /// Entries whose heads were built, because the cache had none that was up to date.
    pub described: AtomicU64,
    /// Entries whose content was read for them.
    pub contents_read: AtomicU64,
    /// Bytes of that.
    pub contents_read_bytes: AtomicU64,
    /// Targets in the cache whose content is not, because the file is large.
    pub file_hits: AtomicU64,
    /// Bytes of content sent from files.
    pub file_bytes: AtomicU64,
    /// Bytes that the caches of ended processes held in the end.
    pub cache_bytes: AtomicU64,
}

#[cfg(test)]
pub(crate) mod testing {
    //! A server to test engines with: one site in a temporary directory, no listeners.

    use super::*;
    use crate::config::settings::{Settings, SiteSettings};

    /// What workers share, one file `a` with the content `hello`, and the directory it is in.
    pub(crate) fn shared(threads: usize, threads_max: usize) -> (Shared, tempfile::TempDir) {
        with_control(1, Control::new(1, threads, threads_max).unwrap())
    }

    /// The same for so many workers.
    pub(crate) fn shared_by(workers: usize) -> (Shared, tempfile::TempDir) {
        with_control(workers, Control::new(workers, 1, 1).unwrap())
    }

    fn with_control(workers: usize, control: Control) -> (Shared, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a"), "hello").unwrap();
        let site = SiteSettings::new(root.path().to_owned());
        let settings = Settings { sites: vec![site], ..Default::default() };
        let shared = Shared {
            sites: Arc::new(Sites::open(&settings).unwrap()),
            store: Arc::new(Store::new(1 << 20, 100)),
            abilities: Arc::default(),
            sending: Plan::default(),
            limits: Arc::new(Limits::default()),
            listeners: Arc::default(),
            log: None,
            clock: Clock::start(),
            control,
            handover: Handover::new(workers),
            receiver: None,
            counters: Common::default(),
            log_counters: Common::default(),
            cache_counters: Common::default(),
            board: Common::default(),
            guests: (0..workers).map(|_| Guests::default()).collect(),
            first_seat: 0,
            alarm: Arc::new(Waker::new().unwrap()),
            nursery: None,
        };
        (shared, root)
    }
}
