//! The clocks that the server reads.
//!
//! Owns: the server's own clock, coarse and cheap, and the wall clock in seconds. Guarantees: one reading enters no kernel
//! (vdso(7)). Does not cache: who reads once for a batch of work keeps the value.

use lamna_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};

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
