//! Runs of pages that were given back and still are memory, for the next taker.
//!
//! Owns: which ones, in the order in which they came. Guarantees: neighbours are one run; of the runs that are long
//! enough the shortest is taken, and of these the one that came last, which is the nearest in the processor's caches;
//! what is left of it stays. Does not know what the pages hold, which is what their last owner wrote.

/// The runs.
#[derive(Debug)]
pub(super) struct Reserve {
    runs: Vec<Run>,
    pages: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: u32,
    pages: u32,
}

/// As many as are looked through each time.
const RUNS_MAX: usize = 32;

impl Reserve {
    /// Empty.
    pub(super) const fn new() -> Reserve {
        Reserve { runs: Vec::new(), pages: 0 }
    }

    /// Takes `pages` pages, if there are as many together. Returns the first one.
    pub(super) fn take(&mut self, pages: u32) -> Option<u32> {
        let long_enough = self.runs.iter().enumerate().rev().filter(|(_, run)| run.pages >= pages);
        // The first of those that are the shortest, the last one that came being looked at first.
        let (at, _) = long_enough.min_by_key(|(_, run)| run.pages)?;
        let run = self.runs[at];
        self.pages -= pages;
        match run.pages - pages {
            0 => drop(self.runs.remove(at)),
            left => self.runs[at] = Run { first: run.first + pages, pages: left },
        }
        Some(run.first)
    }

    /// Puts `pages` pages from `first` on into it, which makes its neighbours ones that come now.
    pub(super) fn put(&mut self, first: u32, pages: u32) {
        let mut run = Run { first, pages };
        self.runs.retain(|other| {
            let is_neighbour = other.first + other.pages == run.first || run.first + run.pages == other.first;
            if is_neighbour {
                run = Run { first: run.first.min(other.first), pages: run.pages + other.pages };
            }
            !is_neighbour
        });
        self.runs.push(run);
        self.pages += pages;
    }

    /// Takes out what came first of what is more than `bound` pages, or more runs than are looked through. Returns the
    /// first page and the number of pages of a run.
    pub(super) fn take_excess(&mut self, bound: u32) -> Option<(u32, u32)> {
        let excess = self.pages.saturating_sub(bound);
        if excess == 0 && self.runs.len() <= RUNS_MAX {
            return None;
        }
        let oldest = self.runs.first_mut()?;
        let taken = if excess == 0 { oldest.pages } else { excess.min(oldest.pages) };
        oldest.pages -= taken;
        self.pages -= taken;
        let end = oldest.first + oldest.pages;
        if oldest.pages == 0 {
            self.runs.remove(0);
        }
        Some((end, taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[(u32, u32)]) -> Reserve {
        let mut reserve = Reserve::new();
        runs.iter().for_each(|&(first, pages)| reserve.put(first, pages));
        reserve
    }

    #[test]
    fn the_shortest_run_that_is_long_enough_is_taken_and_of_those_the_last_and_its_rest_stays() {
        let mut reserve = of(&[(0, 9), (10, 4), (20, 4), (30, 2)]);
        assert_eq!(reserve.take(3), Some(20));
        assert_eq!(reserve.take(3), Some(10));
        assert_eq!(reserve.take(1), Some(23));
        assert_eq!(reserve.take(10), None);
        assert_eq!(reserve.take(9), Some(0));
        assert_eq!(reserve.take(1), Some(13));
        assert_eq!(reserve.take(2), Some(30));
        assert_eq!((reserve.take(1), reserve.pages), (None, 0));
    }

    #[test]
    fn neighbours_are_one_run_that_came_last() {
        let mut reserve = of(&[(10, 5), (30, 5), (20, 5), (15, 5)]);
        assert_eq!(reserve.runs, [Run { first: 30, pages: 5 }, Run { first: 10, pages: 15 }]);
        reserve.put(25, 5);
        assert_eq!((&reserve.runs[..], reserve.pages), (&[Run { first: 10, pages: 25 }][..], 25));
    }

    #[test]
    fn what_came_first_is_the_first_that_is_too_much() {
        let mut reserve = of(&[(0, 3), (10, 4), (20, 5)]);
        assert_eq!(reserve.take_excess(12), None);
        assert_eq!(reserve.take_excess(10), Some((1, 2)));
        assert_eq!(reserve.take_excess(6), Some((0, 1)));
        assert_eq!(reserve.take_excess(6), Some((11, 3)));
        assert_eq!(reserve.take_excess(6), None);
        (0..RUNS_MAX as u32 - 1).for_each(|number| reserve.put(100 + 2 * number, 1));
        assert_eq!(reserve.take_excess(1_000), Some((10, 1)));
        assert_eq!(reserve.take_excess(1_000), None);
    }
}
