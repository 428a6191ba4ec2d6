//! Small numbers, found by hash: the table of a shard.
//!
//! Owns: where a number is. A bucket is one line of a processor's cache and has ten numbers with sixteen bits of each
//! one's hash, so that with a million numbers a search reads one line that is not near, where a table with its tags
//! apart reads two; and the line is known from the hash alone, so that it can be fetched before. What finds its bucket
//! full goes to the next one that is not, and the buckets that it passed count it, so that a search knows where to end
//! (the overflow counts of F14, Bronson and Shi, 2019). Guarantees: as dense as [`LOAD_MAX`] allows, growing in steps
//! of a quarter, as what is not used counts as well. Does not know what numbers stand for.

use lamna_sys::prefetch::{Ahead, FileRange};

/// Numbers by hash. Several may have the same one.
#[derive(Debug, Default)]
pub(super) struct Index {
    buckets: Box<[Bucket]>,
    length: usize,
}

/// One line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    numbers: [u32; PLACES],
    /// The lower half of the hash of the number at the same place.
    tags: [u16; PLACES],
    /// A bit for each place that is taken.
    taken: u16,
    /// How many numbers would be here and are in a later bucket. [`MANY`] stands for that many or more.
    passed: u16,
}

const PLACES: usize = 10;
const MANY: u16 = u16::MAX;
/// Highest load factor, in eighths.
const LOAD_MAX: usize = 7;
/// The index grows by one part in this many.
const STEP_SHARE: usize = 4;

impl Index {
    /// The number of `hash` for which `is` holds.
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        for bucket in self.way(hash) {
            let bucket = &self.buckets[bucket];
            if let Some(number) = bucket.candidates(hash).find(|number| is(*number)) {
                return Some(number);
            }
            if bucket.passed == 0 {
                break;
            }
        }
        None
    }

    /// Numbers that are likely to have `hash`, of those that are where it would be first.
    pub(super) fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> {
        let bucket = self.way(hash).next().map(|home| &self.buckets[home]);
        bucket.into_iter().flat_map(move |bucket| bucket.candidates(hash))
    }

    /// Says what a search for `hash` reads first.
    pub(super) fn prefetch(&self, hash: u32, ahead: &mut Ahead) {
        if let Some(home) = self.way(hash).next() {
            ahead.add(FileRange::of_value(&self.buckets[home]));
        }
    }

    /// Adds a number that is not there. `hash_of` tells the hash of any that is.
    pub(super) fn insert(&mut self, hash: u32, number: u32, hash_of: impl Fn(u32) -> u32) {
        if (self.length + 1) * 8 > self.buckets.len() * PLACES * LOAD_MAX {
            self.grow(hash_of);
        }
        self.place(hash, number);
    }

    /// Takes a number of this hash away, if it is there.
    pub(super) fn remove(&mut self, hash: u32, number: u32) {
        let place_of = |bucket: &Bucket| bucket.places().find(|place| bucket.numbers[*place] == number);
        let Some((steps, place)) =
            self.way(hash).enumerate().find_map(|(steps, at)| Some((steps, place_of(&self.buckets[at])?)))
        else {
            return;
        };
        for (step, at) in self.way(hash).take(steps + 1).enumerate() {
            let bucket = &mut self.buckets[at];
            match step == steps {
                true => bucket.taken &= !(1 << place),
                false if bucket.passed == MANY => {}
                false => bucket.passed -= 1,
            }
        }
        self.length -= 1;
    }

    /// How many numbers there are.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// The buckets in which a number of `hash` may be, in the order in which they are tried.
    fn way(&self, hash: u32) -> impl Iterator<Item = usize> + use<> {
        let count = self.buckets.len();
        // The upper part of the product: evenly spread over any count.
        let home = ((u64::from(hash) * count as u64) >> 32) as usize;
        (home..count).chain(0..home)
    }

    /// There is room.
    fn place(&mut self, hash: u32, number: u32) {
        for at in self.way(hash) {
            let bucket = &mut self.buckets[at];
            if let Some(place) = (0..PLACES).find(|place| bucket.taken & 1 << place == 0) {
                bucket.taken |= 1 << place;
                bucket.numbers[place] = number;
                bucket.tags[place] = hash as u16;
                self.length += 1;
                return;
            }
            bucket.passed = bucket.passed.saturating_add(1);
        }
    }

    fn grow(&mut self, hash_of: impl Fn(u32) -> u32) {
        let count = self.buckets.len() + self.buckets.len() / STEP_SHARE + 1;
        let old = std::mem::replace(&mut self.buckets, vec![Bucket::default(); count].into());
        self.length = 0;
        for number in old.iter().flat_map(|bucket| bucket.places().map(|place| bucket.numbers[place])) {
            self.place(hash_of(number), number);
        }
    }
}

impl Bucket {
    /// The places that are taken.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let taken = self.taken;
        (0..PLACES).filter(move |place| taken & 1 << place != 0)
    }

    /// The numbers with the tag of `hash`.
    fn candidates(&self, hash: u32) -> impl Iterator<Item = u32> {
        let mut matching =
            (0..PLACES).fold(0, |bits, place| bits | u16::from(self.tags[place] == hash as u16) << place);
        matching &= self.taken;
        std::iter::from_fn(move || {
            let place = matching.trailing_zeros() as usize;
            matching &= matching.wrapping_sub(1);
            self.numbers.get(place).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Few different ones, so that buckets are passed.
    fn hash_of(number: u32) -> u32 {
        (number % 7).wrapping_mul(0x9e37_79b9)
    }

    proptest! {
        #[test]
        fn what_was_put_and_not_taken_away_is_found_and_nothing_else(
            operations in prop::collection::vec((0u32..300, any::<bool>()), 0..600),
        ) {
            let (mut index, mut plain) = (Index::default(), HashMap::new());
            for (number, inserts) in operations {
                match inserts {
                    true if plain.insert(number, ()).is_none() => index.insert(hash_of(number), number, hash_of),
                    true => {}
                    false => {
                        plain.remove(&number);
                        index.remove(hash_of(number), number);
                    }
                }
                prop_assert_eq!(index.length, plain.len());
            }
            for number in 0..300 {
                let expected = plain.contains_key(&number).then_some(number);
                prop_assert_eq!(index.find(hash_of(number), |other| other == number), expected);
            }
            for number in plain.into_keys() {
                index.remove(hash_of(number), number);
            }
            prop_assert!(index.buckets.iter().all(|bucket| bucket.taken == 0 && bucket.passed == 0));
        }
    }

    #[test]
    fn a_bucket_is_a_line_and_most_numbers_are_in_their_first_one() {
        assert_eq!((size_of::<Bucket>(), align_of::<Bucket>()), (64, 64));
        let mut index = Index::default();
        let spread = |number: u32| number.wrapping_mul(0x9e37_79b9);
        (0..100_000).for_each(|number| index.insert(spread(number), number, spread));
        let first =
            (0..100_000).filter(|number| index.candidates(spread(*number)).any(|other| other == *number)).count();
        assert!(first > 90_000, "{first}");
    }
}
