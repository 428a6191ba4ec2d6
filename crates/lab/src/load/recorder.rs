//! The records of one thread while it runs, and the state that threads share.
//!
//! Owns: when something counts as measured. Guarantees: every request that was made is, in the end, in exactly one of
//! the numbers of [`Counts`] that add up to `requests`.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use super::histogram::Histogram;
use super::outcome::Counts;

/// Monotonic nanoseconds since the job was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn new() -> Clock {
        Clock(Instant::now())
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// State shared by the threads of a job.
pub(super) struct Shared {
    pub(super) clock: Clock,
    /// Passed when all connections are there, and again when the beginning is set.
    pub(super) barrier: Barrier,
    /// The beginning of the run, by the clock.
    pub(super) start_ns: AtomicU64,
    /// Ends everything as soon as possible.
    pub(super) stop: AtomicBool,
    /// Responses so far, for observers.
    pub(super) responses: AtomicU64,
    /// Not zero once a connection has been established.
    pub(super) connected: AtomicU64,
    /// Attempts to connect that failed.
    pub(super) refused: AtomicU64,
}

impl Shared {
    pub(super) fn new(threads: usize) -> Shared {
        Shared {
            clock: Clock::new(),
            barrier: Barrier::new(threads + 1),
            start_ns: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            responses: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The notes of one thread.
pub(super) struct Recorder {
    /// From when on a request counts as measured; for ever away until the run begins.
    pub(super) measure_from_ns: u64,
    /// Until when an answer counts for the throughput.
    pub(super) measure_until_ns: u64,
    pub(super) counts: Counts,
    /// From the intended start to the last byte, of measured requests.
    pub(super) latency: Histogram,
    /// The same of the requests of the warm-up.
    pub(super) warmup_latency: Histogram,
    /// From the first packet to the established connection.
    pub(super) connect: Histogram,
    /// From the time a request was due to its sending, when a connection was free: the generator's own lateness.
    pub(super) lag: Histogram,
    /// Answers in each second of the measurement.
    pub(super) per_second: Vec<u64>,
}

impl Recorder {
    pub(super) fn new() -> Recorder {
        Recorder {
            measure_from_ns: u64::MAX,
            measure_until_ns: u64::MAX,
            counts: Counts::default(),
            latency: Histogram::new(),
            warmup_latency: Histogram::new(),
            connect: Histogram::new(),
            lag: Histogram::new(),
            per_second: Vec::new(),
        }
    }

    /// A whole answer to a request that was due at `due_ns` and came at `now_ns`.
    pub(super) fn answered(&mut self, due_ns: u64, now_ns: u64, status: u16, content_bytes: u64) {
        self.counts.answered(status);
        if due_ns >= self.measure_from_ns {
            self.counts.measured += 1;
            self.latency.record(now_ns.saturating_sub(due_ns));
        } else if self.measure_from_ns != u64::MAX {
            self.warmup_latency.record(now_ns.saturating_sub(due_ns));
        }
        if now_ns >= self.measure_from_ns && now_ns < self.measure_until_ns {
            self.counts.in_window += 1;
            self.counts.content_bytes += content_bytes;
            let second = ((now_ns - self.measure_from_ns) / 1_000_000_000) as usize;
            if second >= self.per_second.len() {
                self.per_second.resize(second + 1, 0);
            }
            self.per_second[second] += 1;
        }
    }
}
