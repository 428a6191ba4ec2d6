//! The same upstream for requests that have something in common: rendezvous hashing (Thaler, Ravishankar, IEEE/ACM ToN
//! 6(1), 1998) with weights.
//!
//! Owns: [`choose`]. Each upstream draws a number from the affinity and its own number, and the best one gets the
//! request. So no table is kept; if an upstream leaves, its share alone is spread over the others, and it has the same
//! share again when it is back. Shares follow the weights.

use crate::random::{mix, spread};

/// The upstream for `affinity`, of those with a weight and their numbers; none if none has a weight.
pub fn choose<'n>(candidates: impl Iterator<Item = (u32, &'n u64)>, affinity: u64) -> Option<usize> {
    let scored = candidates.enumerate().filter(|(_, (weight, _))| *weight > 0);
    let scored = scored.map(|(index, (weight, number))| (score(affinity, *number) / f64::from(weight), index));
    scored.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, index)| index)
}

/// The number of a text, the same in every process and for ever: of an upstream's address, or of what requests have in
/// common.
pub fn number(text: &[u8]) -> u64 {
    text.iter().fold(text.len() as u64, |number, byte| spread(number ^ u64::from(*byte)))
}

/// A number that looks drawn from the exponential distribution: the least of several, each divided by its weight, is
/// that of one with a probability in proportion to its weight.
fn score(affinity: u64, number: u64) -> f64 {
    let bits = mix(spread(affinity) ^ spread(number)) >> 11;
    let uniform = (bits as f64 + 1.0) / (1_u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; 4] = [11, 22, 33, 44];

    fn chosen(weights: [u32; 4], affinity: u64) -> Option<usize> {
        choose(weights.into_iter().zip(&NUMBERS), affinity)
    }

    #[test]
    fn shares_follow_the_weights() {
        let mut counts = [0_i32; 4];
        (0..40_000).for_each(|affinity| counts[chosen([1, 0, 1, 2], affinity).unwrap()] += 1);
        assert_eq!(counts[1], 0);
        for (count, expected) in counts.into_iter().zip([10_000, 0, 10_000, 20_000]) {
            assert!((count - expected).abs() < 500, "{counts:?}");
        }
        assert_eq!(chosen([0; 4], 1), None);
    }

    #[test]
    fn numbers_of_texts_are_the_same_for_ever_and_differ() {
        assert_eq!(number(b"127.0.0.1:3000"), 2_039_174_078_907_822_560);
        let numbers: std::collections::BTreeSet<u64> = (0..1_000_u32).map(|at| number(&at.to_be_bytes())).collect();
        assert_eq!(numbers.len(), 1_000);
        assert_ne!(number(b"\0"), number(b"\0\0"));
    }

    #[test]
    fn requests_of_one_that_leaves_are_spread_and_all_others_stay() {
        let mut moved = [0_u32; 4];
        for affinity in 0..10_000 {
            let (with, without) = (chosen([1; 4], affinity).unwrap(), chosen([1, 1, 0, 1], affinity).unwrap());
            if with == 2 {
                moved[without] += 1;
            } else {
                assert_eq!(with, without);
            }
        }
        assert!(moved[2] == 0 && moved.iter().enumerate().all(|(at, count)| at == 2 || *count > 500), "{moved:?}");
    }
}
