//! Medians and how sure they are.
//!
//! The interval is that of order statistics: it assumes nothing about the distribution, only that the samples are
//! independent. Of n samples, the k-th smallest and k-th largest enclose the median with a probability that follows
//! from the binomial distribution.

use serde::{Deserialize, Serialize};

/// Intervals are as narrow as they can be with at least this probability.
const CONFIDENCE: f64 = 0.90;

/// The middle of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Probability that the interval encloses the true median; below 0.9 if there are fewer than five samples.
    pub confidence: f64,
    /// How many.
    pub samples: usize,
}

/// The estimate from `samples`; none without any. Not-a-numbers are left out.
pub fn estimate(samples: impl IntoIterator<Item = f64>) -> Option<Estimate> {
    let mut samples: Vec<f64> = samples.into_iter().filter(|sample| !sample.is_nan()).collect();
    samples.sort_by(f64::total_cmp);
    let count = samples.len();
    let last = count.checked_sub(1)?;
    let median = (samples[last / 2] + samples[count / 2]) / 2.0;
    // The widest interval always qualifies; then inwards as long as it is sure enough.
    let inner = (1..count / 2).take_while(|&left_out| coverage(count, left_out) >= CONFIDENCE).last().unwrap_or(0);
    Some(Estimate {
        median,
        low: samples[inner],
        high: samples[last - inner],
        confidence: coverage(count, inner),
        samples: count,
    })
}

/// Probability that the median lies within the samples if `left_out` are left out at either end:
/// 1 - 2 P(at most `left_out` of n fair coins show heads).
fn coverage(count: usize, left_out: usize) -> f64 {
    let half_to_the_n = 0.5_f64.powi(count as i32);
    let (mut binomial, mut sum) = (1.0, 0.0);
    for k in 0..=left_out {
        sum += binomial;
        binomial *= (count - k) as f64 / (k + 1) as f64;
    }
    (1.0 - 2.0 * sum * half_to_the_n).max(0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_coverages() {
        // 1 - 2/32; 1 - 2 (1 + 9)/512: tables of nonparametric intervals for the median.
        assert!((coverage(5, 0) - 0.9375).abs() < 1e-12);
        assert!((coverage(9, 1) - 0.9609375).abs() < 1e-12);
        assert_eq!(coverage(1, 0), 0.0);
    }

    #[test]
    fn five_samples_give_their_range() {
        let found = estimate([5.0, 1.0, 4.0, 2.0, 3.0]).expect("there are samples");
        assert_eq!((found.median, found.low, found.high, found.samples), (3.0, 1.0, 5.0, 5));
        assert_eq!(estimate([1.0, 2.0]).map(|found| found.median), Some(1.5));
        assert_eq!(estimate([]), None);
        assert_eq!(estimate([f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn the_median_is_in_its_interval_and_the_interval_in_the_samples(
            samples in proptest::collection::vec(-1e9_f64..1e9, 1..40),
        ) {
            let found = estimate(samples.iter().copied()).expect("there are samples");
            prop_assert!(found.low <= found.median && found.median <= found.high);
            prop_assert!(samples.contains(&found.low) && samples.contains(&found.high));
            prop_assert!(samples.len() < 5 || found.confidence >= CONFIDENCE);
        }
    }
}
