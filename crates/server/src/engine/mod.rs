//! Engines: one concurrency architecture each, over the same core.
//!
//! Owns: what all engines share ([`Shared`], [`Control`]) and what every engine owes, below. An engine decides who waits,
//! where what may block is carried out, and who owns the caches; it contains no HTTP.
//!
//! # What an engine owes
//! - It drives connections exactly as `lamna_proto::conn` says, and carries their needs out or defers them.
//! - It waits for listening sockets that it does not own and that stay open when it goes.
//! - It honours [`Control`]: on draining it takes no new connection, finishes what has begun and returns; on stopping it
//!   returns at once.
//! - Running out of descriptors or memory costs waiting, never a connection that was accepted.

pub mod amped;
pub mod desk;
pub mod event_loop;
pub mod helpers;
pub mod proactor;
pub mod slots;
pub mod sped;
pub mod stretch;

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lamna_proto::limits::Limits;
use lamna_proto::time::Instant;
use lamna_proto::workspace::Pages;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::cache::Store;
use crate::io::Abilities;
use crate::listen::Listener;
use crate::log::AccessLog;
use crate::site::Sites;

/// What all workers of a server have in common. Read by all, written only through atomics and locks off the hot path.
#[derive(Debug)]
pub struct Shared {
    /// What is served.
    pub sites: Sites,
    /// What has been found out about targets.
    pub store: Store,
    /// What the kernel can do.
    pub abilities: Abilities,
    /// Bounds on what peers may use.
    pub limits: Arc<Limits>,
    /// Answers that belong to no site.
    pub pages: Arc<Pages>,
    /// Where connections come from.
    pub listeners: Vec<Listener>,
    /// The access log, if there is one.
    pub log: Option<AccessLog>,
    /// The server's clock.
    pub clock: Clock,
    /// What the main thread asks of the workers.
    pub control: Control,
    /// What was done.
    pub counters: Counters,
}

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

    /// Now.
    pub fn now(&self) -> Instant {
        Instant(milliseconds(ClockId::MonotonicCoarse).saturating_sub(self.origin_ms))
    }
}

fn milliseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000 + START_MS
}

/// Seconds since 1970.
pub fn unix_seconds() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// What the main thread asks of the workers, and how it wakes them.
#[derive(Debug)]
pub struct Control {
    draining: AtomicBool,
    stopping: AtomicBool,
    wakers: Vec<Waker>,
}

impl Control {
    /// Control over `workers` workers.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new(workers: usize) -> Result<Control, Errno> {
        let wakers = (0..workers).map(|_| Waker::new()).collect::<Result<_, _>>()?;
        Ok(Control { draining: AtomicBool::new(false), stopping: AtomicBool::new(false), wakers })
    }

    /// Take no new connections, finish what has begun, return.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Return now.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Whether workers are to finish.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    /// Whether workers are to return at once.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// The waker of worker `index`.
    pub fn waker(&self, index: usize) -> &Waker {
        &self.wakers[index]
    }
}

/// Wakes a worker that waits in epoll.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    fn new() -> Result<Waker, Errno> {
        Ok(Waker { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes it.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then the worker is being woken anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// It has woken: the next wake counts again.
    pub fn reset(&self) {
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
    /// Times that accepting had to pause for want of descriptors or memory.
    pub accept_pauses: AtomicU64,
    /// Idle connections closed to get descriptors.
    pub idle_shed: AtomicU64,
}
