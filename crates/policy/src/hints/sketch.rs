//! A count-min sketch with conservative update (Cormode, Muthukrishnan: "An improved data stream summary: the count-min
//! sketch and its applications", J. Algorithms 2005; Estan, Varghese: "New directions in traffic measurement and
//! accounting", SIGCOMM 2002, for the update): how often each of any number of pairs was seen, in fixed memory, never
//! too low since the last halving by more than the halvings take, too high where pairs collide in all rows.

use crate::random::mix;

const ROWS: usize = 4;

/// Four rows of counters of one byte, which stop at 255.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    counters: Vec<u8>,
    /// Counters of each row; a power of two.
    width: usize,
}

impl Sketch {
    /// Takes at most `bytes`, and at least four.
    pub(super) fn new(bytes: usize) -> Sketch {
        let most = (bytes / ROWS).max(1);
        let width = 1 << most.ilog2();
        Sketch { counters: vec![0; ROWS * width], width }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counters.capacity()
    }

    /// Counts `key` once more; how often it was seen.
    pub(super) fn add(&mut self, key: u64) -> u8 {
        let seen = self.estimate(key).saturating_add(1);
        self.raise(key, seen);
        seen
    }

    /// `key` was seen at least so often.
    pub(super) fn raise(&mut self, key: u64, seen: u8) {
        for place in self.places(key) {
            self.counters[place] = self.counters[place].max(seen);
        }
    }

    pub(super) fn estimate(&self, key: u64) -> u8 {
        self.places(key).into_iter().map(|place| self.counters[place]).min().unwrap_or(0)
    }

    pub(super) fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter /= 2);
    }

    fn places(&self, key: u64) -> [usize; ROWS] {
        // Two halves of one hash make all rows (Kirsch, Mitzenmacher: "Less hashing, same performance", 2008).
        let hash = mix(key);
        let step = (hash >> 32) | 1;
        std::array::from_fn(|row| {
            let column = hash.wrapping_add(step.wrapping_mul(row as u64)) as usize & (self.width - 1);
            row * self.width + column
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_count_is_never_too_low(keys in prop::collection::vec(0..60_u64, 0..400), bytes in 0..600_usize) {
            let mut sketch = Sketch::new(bytes);
            prop_assert!(sketch.memory_bytes() <= bytes.max(ROWS));
            let mut exact = HashMap::new();
            for key in keys {
                *exact.entry(key).or_insert(0_u64) += 1;
                sketch.add(key);
            }
            for (key, count) in exact {
                prop_assert!(u64::from(sketch.estimate(key)) >= count.min(255));
            }
        }
    }

    #[test]
    fn few_pairs_are_counted_exactly_and_halved() {
        let mut sketch = Sketch::new(1 << 16);
        let seen: Vec<u8> = (0..7).map(|_| sketch.add(42)).collect();
        assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(sketch.estimate(43), 0);
        sketch.halve();
        assert_eq!(sketch.estimate(42), 3);
    }
}
