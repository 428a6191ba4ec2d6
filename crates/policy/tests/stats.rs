//! Statistics against their definitions.

use lamna_policy::stats::{Histogram, Moments, student_quantile};
use proptest::prelude::*;

proptest! {
    #[test]
    fn moments_equal_their_definitions_however_the_stream_is_split(
        values in prop::collection::vec(-1e6..1e6_f64, 2..100), split in 0..100_usize,
    ) {
        let split = split.min(values.len());
        let mut moments: Moments = values[..split].iter().copied().collect();
        moments.merge(&values[split..].iter().copied().collect());
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
        prop_assert!((moments.mean() - mean).abs() < 1e-6);
        prop_assert!((moments.variance() - variance).abs() <= 1e-9 * variance.max(1.0));
    }

    #[test]
    fn quantiles_are_at_most_two_percent_above_the_exact_ones(
        mut values in prop::collection::vec(0..u64::MAX / 2, 1..200), q in 0.0..1.0_f64,
    ) {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.add(value));
        values.sort_unstable();
        let rank = ((q * values.len() as f64).ceil() as usize).clamp(1, values.len());
        let (exact, found) = (values[rank - 1] as f64, histogram.quantile(q) as f64);
        prop_assert!(found >= exact && found <= exact * 1.016 + 1.0, "{found} against {exact}");
    }
}

#[test]
fn student_quantiles_match_the_tables() {
    for (degrees, expected) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (30, 2.042)] {
        let found = student_quantile(degrees);
        assert!((found / expected - 1.0).abs() < 0.01, "{degrees}: {found}");
    }
}

#[test]
fn the_interval_of_one_observation_is_infinite() {
    assert!([1.0].into_iter().collect::<Moments>().interval().half_width.is_infinite());
}
