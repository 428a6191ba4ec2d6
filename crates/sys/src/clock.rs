//! The clocks that the server reads.
//!
//! Owns: the server's own clock, and the wall clock. Guarantees: one reading enters no kernel
//! (vdso(7)). Does not cache: who reads once for a batch of work keeps the value.

use lamna_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The processor time of this thread so far.
pub fn thread_time() -> std::time::Duration {
    std::time::Duration::from_micros(microseconds(ClockId::ThreadCPUTime))
}

/// The server's clock: time since shortly before it started, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ms: u64,
}

/// The clock's value when the server starts: more than any freshness period, so that zero is always long ago.
const START_MS: u64 = 10_000;

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock { origin_ms: microseconds(ClockId::Monotonic) / 1000 }
    }

    /// The clock that started at `origin_ms`, which is what [`Clock::origin_ms`] said in another process.
    pub fn since(origin_ms: u64) -> Clock {
        Clock { origin_ms }
    }

    /// The origin, from which another process makes the same clock.
    pub fn origin_ms(&self) -> u64 {
        self.origin_ms
    }

    /// Now.
    pub fn now(&self) -> Instant {
        self.instant(ClockId::Monotonic)
    }

    /// Now, as of the last tick of the kernel: up to 10 ms ago. A fifth of the cost of [`Clock::now`].
    pub fn coarse_now(&self) -> Instant {
        self.instant(ClockId::MonotonicCoarse)
    }

    fn instant(&self, clock: ClockId) -> Instant {
        Instant::from_us((microseconds(clock) + START_MS * 1000).saturating_sub(self.origin_ms * 1000))
    }
}

fn microseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Milliseconds since 1970, by a clock that moves every few of them and costs next to nothing.
pub fn unix_ms() -> u64 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000 + now.tv_nsec as u64 / 1_000_000
}
