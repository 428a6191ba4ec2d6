//! How long answers take that begin and end within one tick of the coarse clock: measured with a fine clock on a sample.
//! And what counts as a stall of an event loop.
//!
//! Owns: the choice of the sample and what follows from it. The first batch of work with an answer in each tick (1 to
//! 10 ms, so at most 1,000 a second) is measured, from the worker's waking to the send; all answers at once are then
//! spread over the buckets as those of the sample were. Guarantees: as many durations as answers. What the measurement
//! costs does not grow with the load: two readings of the clock for each tick.

use lamna_proto::tally::{BUCKETS, bucket};
use lamna_proto::time::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The sample since it was last spread.
#[derive(Debug)]
pub struct Sampler {
    /// When the batch began that is being measured, in nanoseconds.
    begun_ns: Option<u64>,
    /// The tick in which an answer was measured last.
    measured_ms: u64,
    /// Answers at once that were counted when the measurement began or was last taken.
    seen: u64,
    counts: [u64; BUCKETS],
    sum_us: u64,
}

/// Where answers go of which no sample could be taken: no tick is longer than this.
const TICK_US: u64 = 8192;

impl Sampler {
    /// Nothing measured yet.
    pub fn new() -> Sampler {
        Sampler { begun_ns: None, measured_ms: u64::MAX, seen: 0, counts: [0; BUCKETS], sum_us: 0 }
    }

    /// A batch of work begins in the tick `now_ms`, after `at_once` answers at once.
    pub fn begin(&mut self, now_ms: u64, at_once: u64) {
        self.begun_ns = (self.measured_ms != now_ms).then(nanoseconds);
        self.seen = at_once;
    }

    /// Something was sent in the tick `now_ms`, after `at_once` answers at once.
    pub fn handle_sent(&mut self, now_ms: u64, at_once: u64) {
        let Some(begun_ns) = self.begun_ns else { return };
        let answers = at_once.saturating_sub(self.seen);
        if answers > 0 {
            let duration_us = nanoseconds().saturating_sub(begun_ns).div_ceil(1000);
            self.counts[bucket(duration_us)] += answers;
            self.sum_us += duration_us * answers;
            (self.measured_ms, self.seen) = (now_ms, at_once);
        }
    }

    /// `at_once` answers, spread as the sample was, and the sum of their durations in microseconds. Begins a new sample.
    pub fn spread(&mut self, at_once: u64) -> ([u64; BUCKETS], u64) {
        self.seen = 0;
        let (counts, sum_us) = (std::mem::take(&mut self.counts), std::mem::take(&mut self.sum_us));
        let sampled: u64 = counts.iter().sum();
        let part = |number: u64| (u128::from(number) * u128::from(at_once) / u128::from(sampled.max(1))) as u64;
        let mut spread = counts.map(part);
        // What rounding left over belongs to the commonest bucket.
        let rest = at_once - spread.iter().sum::<u64>();
        let commonest = (0..BUCKETS).max_by_key(|index| counts[*index]).filter(|_| sampled > 0);
        spread[commonest.unwrap_or(bucket(TICK_US))] += rest;
        (spread, if sampled > 0 { part(sum_us) } else { at_once * TICK_US })
    }
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new()
    }
}

/// A batch of work that takes this long is a stall: whoever has sent something meanwhile has waited for it. Some ticks of
/// the coarse clock, and more than a batch takes that waits for nothing.
pub const STALL_MS: u64 = 20;

/// How long a batch of work from `begun` to `ended` has stalled its loop, in milliseconds.
pub fn stall_ms(begun: Instant, ended: Instant) -> u64 {
    let duration_ms = ended.since(begun);
    if duration_ms >= STALL_MS { duration_ms } else { 0 }
}

fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_batch_with_an_answer_in_each_tick_is_measured() {
        let mut sampler = Sampler::new();
        let measured = |sampler: &Sampler| sampler.counts.iter().sum::<u64>();
        sampler.begin(1, 0);
        sampler.handle_sent(1, 0);
        assert_eq!(measured(&sampler), 0, "nothing was answered");
        sampler.begin(1, 0);
        sampler.handle_sent(1, 3);
        sampler.handle_sent(1, 4);
        assert_eq!(measured(&sampler), 4);
        sampler.begin(1, 4);
        sampler.handle_sent(1, 9);
        assert_eq!(measured(&sampler), 4, "the tick has had its sample");
        sampler.begin(2, 9);
        sampler.handle_sent(2, 10);
        assert_eq!(measured(&sampler), 5);
    }

    #[test]
    fn a_batch_is_a_stall_from_some_ticks_on() {
        assert_eq!(stall_ms(Instant(100), Instant(100)), 0);
        assert_eq!(stall_ms(Instant(100), Instant(99 + STALL_MS)), 0);
        assert_eq!(stall_ms(Instant(100), Instant(350)), 250);
    }

    #[test]
    fn answers_without_a_sample_took_a_tick_at_most() {
        let (spread, sum_us) = Sampler::new().spread(3);
        assert_eq!((spread[bucket(TICK_US)], sum_us), (3, 3 * TICK_US));
    }

    proptest! {
        #[test]
        fn as_many_are_spread_as_were_answered(
            counts in prop::collection::vec(0u64..1000, BUCKETS),
            at_once in 0u64..1 << 40,
        ) {
            let mut sampler = Sampler::new();
            sampler.counts.copy_from_slice(&counts);
            let (spread, _) = sampler.spread(at_once);
            prop_assert_eq!(spread.iter().sum::<u64>(), at_once);
        }
    }
}
