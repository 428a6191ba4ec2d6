//! How long requests took, as a distribution over buckets whose bounds are powers of two of microseconds.
//!
//! Owns: the bounds and the summary. Guarantees: fixed memory; a quantile is right within a factor of two.

use serde::{Deserialize, Serialize};

/// Buckets: up to 1, 2, 4, ... 2^26 microseconds (67 seconds), and longer.
pub const BUCKETS: usize = 28;

/// The bucket of a duration.
pub fn bucket(microseconds: u64) -> usize {
    let exponent = u64::BITS - microseconds.saturating_sub(1).leading_zeros();
    (exponent as usize).min(BUCKETS - 1)
}

/// The longest duration in a bucket, in microseconds; none for the last one.
pub fn bound_us(bucket: usize) -> Option<u64> {
    (bucket < BUCKETS - 1).then(|| 1 << bucket)
}

/// So many durations in each bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// In each bucket alone, not in those below it.
    pub buckets: [u64; BUCKETS],
    /// Of all durations, in microseconds.
    pub sum_us: u64,
}

impl Distribution {
    /// How many durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper bound, in microseconds, of the bucket in which the share `q` (0 to 1) of all durations is reached; none
    /// if there are no durations, or it is reached in the last bucket.
    pub fn quantile_us(&self, q: f64) -> Option<u64> {
        let wanted = ((self.count() as f64 * q.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        reached.and_then(bound_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_upper_bounds_of_buckets() {
        let mut durations = Distribution::default();
        assert_eq!(durations.quantile_us(0.5), None);
        durations.buckets[bucket(6)] = 99;
        durations.buckets[bucket(1000)] = 1;
        assert_eq!((durations.quantile_us(0.5), durations.quantile_us(1.0)), (Some(8), Some(1024)));
        durations.buckets[bucket(u64::MAX)] = 1000;
        assert_eq!(durations.quantile_us(0.5), None);
    }

    proptest! {
        #[test]
        fn every_duration_is_within_its_bucket(microseconds in any::<u64>()) {
            let index = bucket(microseconds);
            prop_assert!(bound_us(index).is_none_or(|bound| microseconds <= bound));
            prop_assert!(index == 0 || bound_us(index - 1).is_some_and(|bound| microseconds > bound));
        }
    }
}
