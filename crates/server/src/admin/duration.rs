//! How long requests took, as a distribution over buckets whose bounds are powers of two of microseconds.
//!
//! Owns: the summary. Guarantees: a quantile is an upper bound, at most twice what is true.

use lamna_proto::tally::{BUCKETS, bound_us};
use serde::{Deserialize, Serialize};

/// So many durations in each bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// In each bucket alone, not in those below it.
    pub buckets: [u64; BUCKETS],
    /// The sum of all durations, in microseconds.
    pub sum_us: u64,
}

impl Distribution {
    /// How many durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The upper bound, in microseconds, of the bucket in which the share `q` (0 to 1) of all durations is reached;
    /// none if there are no durations, or it is reached in the last bucket.
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
    use lamna_proto::tally::bucket;

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
}
