//! State that all processes of a server have in common: counters and scoreboard.
//!
//! Owns: where they are, and the summary of them. Guarantees: the sums are those of all workers, threads and processes
//! alike, dead ones included but for what a worker that was killed had not handed over (up to half a second of it).
//! Counts nothing itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use lamna_engine::worker::limiter::Counted;
use lamna_engine::worker::uplink;
use lamna_io as io;
use lamna_io::log::LogCounters;
use lamna_io::waker::Waker;
use lamna_policy::words::count;
use lamna_site::cache;
use lamna_site::early_hints;
use lamna_site::hints::HintCounters;
use lamna_site::service::Registry;
use lamna_sys::clock::Clock;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::metrics::operator_state::OperatorState;
use lamna_sys::metrics::scoreboard::Scoreboard;
use lamna_sys::metrics::trace::Trace;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::Tickets;
use rustix::io::Errno;

use crate::process::embedded::Embedded;

/// State that all processes of a server have in common. Clones, and the copies of a fork, are the same.
#[derive(Clone, Debug)]
pub struct SharedMetrics {
    /// Counters of the work done.
    pub done: SharedMemory<Counters>,
    /// Which way disk operations went.
    pub disk: SharedMemory<io::Counters>,
    /// Counters of the caches.
    pub cache: SharedMemory<cache::counters::Counters>,
    /// Counters of predictions, and of their outcomes.
    pub hints: SharedMemory<HintCounters>,
    /// Counters of hints to clients, and of their outcomes.
    pub early_hints: SharedMemory<early_hints::Counters>,
    /// Counters of log lines, and of their outcomes.
    pub log: SharedMemory<LogCounters>,
    /// The state of each worker: how busy it is.
    pub scoreboard: SharedMemory<Scoreboard>,
    /// The request that an operator traces.
    pub trace: SharedMemory<Trace>,
    /// The orders of an operator that stay in force.
    pub operator_state: SharedMemory<OperatorState>,
    /// The counts of limits, by client network.
    pub counted: Counted,
    /// When the link that is sent over is free.
    pub uplink_clock: uplink::LinkClock,
    /// Rung by a worker process that finds that all are busy.
    pub alarm: Arc<Waker>,
    /// The keys that TLS tickets are made with.
    pub tickets: Arc<Tickets>,
    /// The parts that the embedding program brings itself.
    pub(crate) embedded: Embedded,
    /// The services, which of each process are its own; that they have failed all see.
    pub services: Arc<Registry>,
    /// The clock, by which the times of connections are told.
    pub clock: Clock,
    /// When this process began: the clock may be that of one before it.
    started: Instant,
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
            hints: SharedMemory::default(),
            early_hints: SharedMemory::default(),
            log: SharedMemory::default(),
            scoreboard: SharedMemory::default(),
            trace: SharedMemory::zeroed()?,
            operator_state: SharedMemory::zeroed()?,
            counted: Counted::new()?,
            uplink_clock: SharedMemory::default(),
            alarm: Arc::new(Waker::new()?),
            tickets: Arc::new(Tickets::new().map_err(|_| Errno::IO)?),
            embedded: Embedded::default(),
            services: Arc::default(),
            clock,
            started: Instant::now(),
        })
    }
}

/// The summary at the end of a server, for a reader at a terminal. With `--account` the figures of the engine follow,
/// which `lamna ctl stats` shows while it serves.
impl fmt::Display for SharedMetrics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = &self.done;
        // What the core answers by itself is among them.
        let (requests, connections) =
            (count(done.answers.answers(), "request"), count(read(&done.work.connections), "connection"));
        let up = duration(self.started.elapsed().as_secs());
        write!(formatter, "served {requests} on {connections} in {up}, {} sent", amount(read(&done.work.sent_bytes)))?;
        let classes = done.answers.by_class.iter().zip(1..).filter(|(responses, _)| read(responses) > 0);
        let classes: Vec<String> = classes.map(|(responses, digit)| format!("{digit}xx {}", read(responses))).collect();
        if !classes.is_empty() {
            write!(formatter, "\nanswers: {}", classes.join(", "))?;
        }
        if self.log.dropped() + self.log.lost() > 0 {
            let (dropped, lost) = (self.log.dropped(), self.log.lost());
            write!(formatter, "\naccess log lines dropped: {dropped}, lost: {lost}")?;
        }
        match done.account.account() {
            Some(account) => write!(formatter, "\n{account}\n{}", EngineFigures(self)),
            None => Ok(()),
        }
    }
}

/// The figures of the engine, for measurements of it.
struct EngineFigures<'a>(&'a SharedMetrics);

impl fmt::Display for EngineFigures<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedMetrics { done, disk, cache, .. } = self.0;
        write!(
            formatter,
            "names: {} cached, {} would have blocked; reads: {} cached, {} would have blocked; residency tests: {} by cachestat, \
             {} by page, {} not possible, believed to be in memory: {}, wrongly: {}; helper jobs: {}; accept pauses: {}, idle \
             connections shed: {}; cache: {} bytes; codings made: {}, of {} bytes, {} in vain; entries watched: {}, not \
             watchable: {}",
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
            read(&done.work.accept_pauses),
            read(&done.work.idle_shed),
            read(&done.work.cache_bytes),
            read(&cache.compressed),
            read(&cache.compressed_to_bytes),
            read(&cache.compressed_in_vain),
            read(&cache.watched),
            read(&cache.unwatchable),
        )
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// A length of time in its two largest units.
fn duration(seconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
    let largest = UNITS.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
    let mut rest = seconds;
    let take = |(unit, name): &(u64, &str)| {
        let number = rest / unit;
        rest %= unit;
        format!("{number} {name}")
    };
    UNITS[largest..].iter().take(2).map(take).collect::<Vec<_>>().join(" ")
}

/// A number of bytes to two or three digits.
fn amount(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return count(bytes, "byte");
    }
    let (mut size, mut unit) = (bytes as f64 / 1000.0, 0);
    // 999.95 is where one decimal would show 1000.0.
    while size >= 999.95 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stops_a_server_reads_what_was_done_and_who_measures_one_the_figures_of_the_engine() {
        let metrics = SharedMetrics::new(Clock::start()).unwrap();
        metrics.done.work.connections.store(1, Relaxed);
        metrics.done.work.sent_bytes.store(1_234_567, Relaxed);
        for (digit, number) in [(2, 5), (4, 2)] {
            metrics.done.answers.by_class[digit - 1].store(number, Relaxed);
        }
        assert_eq!(metrics.to_string(), "served 7 requests on 1 connection in 0 s, 1.2 MB sent\nanswers: 2xx 5, 4xx 2");
        metrics.done.account.begin();
        assert!(metrics.to_string().contains("helper jobs: 0;"), "{metrics}");
    }

    #[test]
    fn times_and_amounts_are_short() {
        let times = [0, 59, 60, 3725, 90_000, 86_400].map(duration);
        assert_eq!(times, ["0 s", "59 s", "1 min 0 s", "1 h 2 min", "1 d 1 h", "1 d 0 h"]);
        let amounts = [0, 1, 999, 1000, 999_949, 999_951, u64::MAX].map(amount);
        assert_eq!(amounts, ["0 bytes", "1 byte", "999 bytes", "1.0 kB", "999.9 kB", "1.0 MB", "18446.7 PB"]);
    }
}
