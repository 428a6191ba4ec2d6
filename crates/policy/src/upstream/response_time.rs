//! The time that an upstream takes to begin an answer, as a moving average that forgets.
//!
//! Owns: [`ResponseTime`]. An observation counts the more, the longer none has come: with a weight of 1 - e^(-t/10 s),
//! and of one eighth at least. While none comes, the average falls towards nothing in the same way, so that an upstream
//! that was slow once is asked again and found out about. Times are of milliseconds, as the clock of gateways is.

/// A moving average; none before the first observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseTime {
    /// The average, and when the last observation was, in milliseconds.
    observed: Option<(f64, u64)>,
}

/// Time after which an observation counts for 1/e.
const MEMORY_MS: f64 = 10_000.0;
/// The least weight of an observation: those that come at once are averaged as well.
const WEIGHT_MIN: f64 = 0.125;

impl ResponseTime {
    /// An answer has begun after `ms`.
    pub fn observe(&mut self, ms: u64, now_ms: u64) {
        let average = match self.observed {
            None => ms as f64,
            Some((average, at_ms)) => {
                let weight = (1.0 - kept(at_ms, now_ms)).max(WEIGHT_MIN);
                average + (ms as f64 - average) * weight
            }
        };
        self.observed = Some((average, now_ms));
    }

    /// The time that is expected now, in milliseconds.
    pub fn expected_ms(&self, now_ms: u64) -> Option<u32> {
        // A float beyond the range becomes the end of it.
        self.observed.map(|(average, at_ms)| (average * kept(at_ms, now_ms)) as u32)
    }
}

fn kept(at_ms: u64, now_ms: u64) -> f64 {
    (-(now_ms.saturating_sub(at_ms) as f64) / MEMORY_MS).exp()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_average_follows_what_is_observed_and_forgets_while_nothing_is() {
        let mut time = ResponseTime::default();
        assert_eq!(time.expected_ms(5), None);
        time.observe(80, 0);
        assert_eq!(time.expected_ms(0), Some(80));
        time.observe(0, 0);
        assert_eq!(time.expected_ms(0), Some(70), "an eighth of what comes at once");
        (0..100).for_each(|_| time.observe(10, 0));
        assert_eq!(time.expected_ms(0), Some(10));
        time.observe(1_000, 100_000);
        assert!(time.expected_ms(100_000).unwrap() > 990, "what was long ago says little");
        assert!(time.expected_ms(200_000).unwrap() < 2);
    }

    proptest! {
        #[test]
        fn an_average_is_within_what_was_observed(observed in prop::collection::vec((0..100_000_u64, 0..60_000_u64), 1..40)) {
            let (mut time, mut now_ms) = (ResponseTime::default(), 0);
            for (ms, pause_ms) in &observed {
                now_ms += pause_ms;
                time.observe(*ms, now_ms);
                let most = observed.iter().map(|(ms, _)| *ms).max().unwrap_or(0);
                prop_assert!(u64::from(time.expected_ms(now_ms).unwrap()) <= most);
            }
        }
    }
}
