//! Latency histograms: HDR histograms of nanoseconds that can be merged and written as JSON.
//!
//! Guarantees: values are kept to three significant digits from 1 ns to one hour (longer ones count as an hour), so
//! merging loses nothing, however many threads, rounds or files are merged. As JSON a histogram is its key figures for
//! people and its non-empty buckets `[value, count]` for programs; reading takes the buckets only.

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One hour: no client waits longer for an answer.
const VALUE_NS_MAX: u64 = 3_600_000_000_000;

/// Three significant digits: the error is below the noise of any measurement here.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram of durations.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

impl Histogram {
    /// An empty one, of about 260 KiB.
    pub fn new() -> Histogram {
        // The bounds are constants that fulfil the library's conditions.
        Histogram(Hdr::new_with_bounds(1, VALUE_NS_MAX, SIGNIFICANT_DIGITS).expect("the bounds are valid"))
    }

    /// Adds a duration.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Histogram) {
        // Cannot fail: both have the same bounds.
        _ = self.0.add(&other.0);
    }

    /// The same with values to one part in 32: a few KiB as JSON where thousands of durations differ.
    pub fn coarse(&self) -> Histogram {
        let mut coarse = Histogram::new();
        for (value, count) in self.buckets() {
            // The five bits after the first; half of the last one up, so that values are off both ways.
            let lost = value.checked_ilog2().unwrap_or(0).saturating_sub(5);
            coarse.0.saturating_record_n((value >> lost << lost) + (1 << lost >> 1), count);
        }
        coarse
    }

    /// Durations recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The duration that `share` (0 to 1) of all do not exceed, in nanoseconds; zero if there are none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share).min(self.0.max()) }
    }

    /// In nanoseconds; zero if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// In nanoseconds; zero if there are none.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// In nanoseconds; zero if there are none.
    pub fn min_ns(&self) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.min() }
    }

    /// Non-empty buckets in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
    }
}

/// The form in JSON.
#[derive(Serialize, Deserialize)]
struct Written {
    unit: String,
    count: u64,
    mean: f64,
    min: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    p99_99: u64,
    max: u64,
    buckets: Vec<(u64, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = Written {
            unit: "ns".to_owned(),
            count: self.count(),
            mean: self.mean_ns().round(),
            min: self.min_ns(),
            p50: self.quantile_ns(0.5),
            p90: self.quantile_ns(0.9),
            p99: self.quantile_ns(0.99),
            p99_9: self.quantile_ns(0.999),
            p99_99: self.quantile_ns(0.9999),
            max: self.max_ns(),
            buckets: self.buckets().collect(),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        if written.unit != "ns" {
            return Err(serde::de::Error::custom("a histogram in another unit than ns"));
        }
        let mut histogram = Histogram::new();
        for (value, count) in written.buckets {
            histogram.0.saturating_record_n(value, count);
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        histogram
    }

    #[test]
    fn quantiles_are_those_of_the_values() {
        let histogram = of(&(1..=1000).map(|ms| ms * 1_000_000).collect::<Vec<_>>());
        for (share, ms) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = histogram.quantile_ns(share) as f64 / 1e6;
            assert!((found / ms - 1.0).abs() < 0.002, "{share}: {found}");
        }
    }

    #[test]
    fn an_empty_one_has_zeros() {
        let empty = Histogram::new();
        assert_eq!((empty.count(), empty.quantile_ns(0.5), empty.min_ns(), empty.max_ns()), (0, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn merging_is_recording_together(a in proptest::collection::vec(1_u64..10_000_000_000, 0..50),
                                         b in proptest::collection::vec(1_u64..10_000_000_000, 0..50)) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged.buckets().collect::<Vec<_>>(), of(&[a, b].concat()).buckets().collect::<Vec<_>>());
        }

        #[test]
        fn coarse_values_are_off_by_little(values in proptest::collection::vec(1_u64..10_000_000_000, 1..50)) {
            let (fine, coarse) = (of(&values), of(&values).coarse());
            prop_assert_eq!(fine.count(), coarse.count());
            let (fine, coarse) = (fine.quantile_ns(0.5) as f64, coarse.quantile_ns(0.5) as f64);
            prop_assert!((coarse / fine - 1.0).abs() < 0.04, "{} {}", fine, coarse);
        }

        #[test]
        fn written_and_read_it_has_the_same_buckets(values in proptest::collection::vec(0_u64..u64::MAX, 0..50)) {
            let histogram = of(&values);
            let text = serde_json::to_string(&histogram).expect("plain data");
            let read: Histogram = serde_json::from_str(&text).expect("what was written");
            prop_assert_eq!(read.buckets().collect::<Vec<_>>(), histogram.buckets().collect::<Vec<_>>());
        }
    }
}
