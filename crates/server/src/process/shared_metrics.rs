//! What all processes of a server have in common: counters and scoreboard.
//!
//! Owns: where they are, and the summary of them. Guarantees: the sums are those of all workers, threads and processes
//! alike, dead ones included but for what a worker that was killed had not handed over (up to half a second of it).
//! Counts nothing itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_policy::words::count;
use rustix::io::Errno;

use crate::cache;
use crate::io;
use crate::io::waker::Waker;
use crate::log::LogCounters;
use crate::metrics::counters::Counters;
use crate::metrics::scoreboard::Scoreboard;
use crate::sys::clock::Clock;
use crate::sys::shared_memory::SharedMemory;

/// What all processes of a server have in common. Clones, and what a fork copies, are the same.
#[derive(Clone, Debug)]
pub struct SharedMetrics {
    /// What was done.
    pub done: SharedMemory<Counters>,
    /// Which way disk operations went.
    pub disk: SharedMemory<io::Counters>,
    /// What the caches did.
    pub cache: SharedMemory<cache::counters::Counters>,
    /// What became of log lines.
    pub log: SharedMemory<LogCounters>,
    /// Who is at work, and how busy.
    pub scoreboard: SharedMemory<Scoreboard>,
    /// Rung by a worker process that finds that all are busy.
    pub alarm: Arc<Waker>,
    /// The clock, by which the times of connections are told.
    pub clock: Clock,
}

impl SharedMetrics {
    /// All zero, with this clock.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new(clock: Clock) -> Result<SharedMetrics, Errno> {
        Ok(SharedMetrics {
            done: SharedMemory::default(),
            disk: SharedMemory::default(),
            cache: SharedMemory::default(),
            log: SharedMemory::default(),
            scoreboard: SharedMemory::default(),
            alarm: Arc::new(Waker::new()?),
            clock,
        })
    }
}

/// The summary at the end of a server, one line or two.
impl fmt::Display for SharedMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done, disk) = (&self.done, &self.disk);
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        if self.log.dropped() + self.log.lost() > 0 {
            let (dropped, lost) = (self.log.dropped(), self.log.lost());
            writeln!(formatter, "access log lines dropped: {dropped}, lost: {lost}")?;
        }
        if let Some(account) = done.account.account() {
            writeln!(formatter, "{account}")?;
        }
        write!(
            formatter,
            "served {} on {}; names: {} cached, {} would have blocked; reads: {} cached, {} would \
             have blocked; residency tests: {} by cachestat, {} by page, {} not possible, believed to be in memory: {}, wrongly: {}; helper jobs: {}; accept \
             pauses: {}, idle connections shed: {}; cache: {} bytes; codings made: {}, of {} bytes, {} in vain; entries watched: {}, \
             not watchable: {}",
            count(read(&done.requests), "request"),
            count(read(&done.connections), "connection"),
            read(&disk.open_cached),
            read(&disk.open_blocked),
            read(&disk.read_cached),
            read(&disk.read_blocked),
            read(&disk.tested_by_cachestat),
            read(&disk.tested_by_page),
            read(&disk.untested),
            read(&disk.likely),
            read(&disk.mispredicted),
            read(&disk.helper_jobs),
            read(&done.accept_pauses),
            read(&done.idle_shed),
            read(&done.cache_bytes),
            read(&self.cache.compressed),
            read(&self.cache.compressed_to_bytes),
            read(&self.cache.compressed_in_vain),
            read(&self.cache.watched),
            read(&self.cache.unwatchable),
        )
    }
}
