//! The choice among upstreams that are in use: power of two choices (Mitzenmacher, IEEE TPDS 12(10), 2001) with
//! weights.
//!
//! Owns: [`choose`]. Two different candidates are drawn at random, each with a probability in proportion to its weight;
//! the one with fewer requests under way for its weight gets the request, and the one that was drawn first if they have
//! equally many. So at no load shares follow the weights, under load what is under way does, and a crowd of choosers
//! that all see the same old numbers does not run to one upstream.

use crate::random::Random;

/// Shares are parts of this.
pub const WHOLE: u32 = 256;

/// An upstream as it can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// How much it should get, compared with the others. 0: nothing.
    pub weight: u32,
    /// How much of its weight counts now, in parts of [`WHOLE`]. 0: it cannot be chosen.
    pub share: u32,
    /// Requests under way.
    pub load: u32,
}

impl Candidate {
    fn effective_weight(self) -> u64 {
        u64::from(self.weight) * u64::from(self.share)
    }
}

/// Chooses one; none if all have a weight or share of 0. The work is bounded by the number of candidates.
pub fn choose(candidates: &[Candidate], random: &mut Random) -> Option<usize> {
    let first = draw(candidates, None, random)?;
    let Some(second) = draw(candidates, Some(first), random) else { return Some(first) };
    let (a, b) = (candidates[first], candidates[second]);
    // load / weight, without dividing; in 128 bits, as both factors may have 64.
    let is_busier =
        u128::from(a.load) * u128::from(b.effective_weight()) > u128::from(b.load) * u128::from(a.effective_weight());
    Some(if is_busier { second } else { first })
}

fn draw(candidates: &[Candidate], but: Option<usize>, random: &mut Random) -> Option<usize> {
    let weights = || {
        let all = candidates.iter().enumerate().filter(|(index, _)| Some(*index) != but);
        all.map(|(index, candidate)| (index, candidate.effective_weight()))
    };
    let total: u64 = weights().fold(0, |sum, (_, weight)| sum.saturating_add(weight));
    let mut at = random.below(total)?;
    for (index, weight) in weights() {
        match at.checked_sub(weight) {
            Some(left) => at = left,
            None => return Some(index),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn candidate(weight: u32, load: u32) -> Candidate {
        Candidate { weight, share: WHOLE, load }
    }

    fn counts(candidates: &[Candidate], choices: usize) -> Vec<usize> {
        let (mut random, mut counts) = (Random::seeded(1), vec![0; candidates.len()]);
        for _ in 0..choices {
            counts[choose(candidates, &mut random).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn at_no_load_shares_follow_the_weights() {
        let counts = counts(&[candidate(1, 0), candidate(3, 0), candidate(0, 0), candidate(4, 0)], 80_000);
        for (count, expected) in counts.iter().zip([10_000_usize, 30_000, 0, 40_000]) {
            assert!(count.abs_diff(expected) < 1_000, "{counts:?}");
        }
    }

    #[test]
    fn of_two_the_one_with_less_to_do_for_its_weight_is_chosen() {
        assert_eq!(counts(&[candidate(1, 5), candidate(1, 4)], 1_000), [0, 1_000]);
        assert_eq!(counts(&[candidate(3, 5), candidate(1, 2)], 1_000), [1_000, 0]);
    }

    #[test]
    fn what_is_under_way_follows_the_weights_under_load() {
        let (mut random, mut candidates) = (Random::seeded(2), [candidate(1, 0), candidate(2, 0), candidate(5, 0)]);
        for _ in 0..8_000 {
            let chosen = choose(&candidates, &mut random).unwrap();
            candidates[chosen].load += 1;
        }
        for (candidate, expected) in candidates.iter().zip([1_000_u32, 2_000, 5_000]) {
            assert!(candidate.load.abs_diff(expected) < 20, "{candidates:?}");
        }
    }

    #[test]
    fn the_busiest_of_many_is_never_chosen() {
        let mut candidates = vec![candidate(1, 3); 8];
        candidates[5].load = 4;
        assert_eq!(counts(&candidates, 10_000)[5], 0);
    }

    #[test]
    fn a_share_is_a_part_of_the_weight() {
        let rising = Candidate { weight: 1, share: WHOLE / 4, load: 0 };
        let counts = counts(&[rising, candidate(1, 0)], 50_000);
        assert!(counts[0].abs_diff(10_000) < 1_000, "{counts:?}");
    }

    #[test]
    fn the_largest_weights_do_not_overflow() {
        let most = Candidate { weight: u32::MAX, share: u32::MAX, load: u32::MAX };
        assert!(choose(&[most, most, most], &mut Random::seeded(3)).is_some());
    }

    proptest! {
        #[test]
        fn who_has_no_weight_or_no_share_is_never_chosen(
            candidates in prop::collection::vec((0..3_u32, 0..3_u32, 0..9_u32), 0..6), seed: u64,
        ) {
            let candidates: Vec<Candidate> =
                candidates.into_iter().map(|(weight, share, load)| Candidate { weight, share, load }).collect();
            let chosen = choose(&candidates, &mut Random::seeded(seed));
            prop_assert_eq!(chosen.is_some(), candidates.iter().any(|one| one.effective_weight() > 0));
            prop_assert!(chosen.is_none_or(|index| candidates[index].effective_weight() > 0));
            prop_assert_eq!(choose(&candidates, &mut Random::seeded(seed)), chosen);
        }
    }
}
