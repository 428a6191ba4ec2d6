//! Which pages of a range of address space are in use: runs of them that are taken, given back and taken again.
//!
//! Owns: the runs that are free. Guarantees: no page belongs to two runs that are taken; neighbours that are free are
//! one run. Of the free runs that are long enough the shortest is taken, and of those the first, so that what is taken
//! stays together at the beginning. Each step costs the logarithm of the number of free runs. Touches no memory but its
//! own.

use std::collections::{BTreeMap, BTreeSet};

/// The runs that are free among pages 0 to [`end`](Runs::end), behind which nothing is taken.
#[derive(Debug)]
pub(super) struct Runs {
    /// Pages, by the first page.
    by_place: BTreeMap<u32, u32>,
    /// The same runs: pages and first page.
    by_length: BTreeSet<(u32, u32)>,
    end: u32,
}

impl Runs {
    /// Nothing is taken.
    pub(super) const fn new() -> Runs {
        Runs { by_place: BTreeMap::new(), by_length: BTreeSet::new(), end: 0 }
    }

    /// Takes `pages` pages, at least one, of the first `bound`. Returns the first one; nothing if there is no such run.
    pub(super) fn take(&mut self, pages: u32, bound: u32) -> Option<u32> {
        let Some(&(length, first)) = self.by_length.range((pages, 0)..).next() else {
            let first = self.end;
            self.end = first.checked_add(pages).filter(|end| *end <= bound)?;
            return Some(first);
        };
        self.remove(first, length);
        if length > pages {
            self.insert(first + pages, length - pages);
        }
        Some(first)
    }

    /// Takes the `pages` pages from `first` on as well, if they are free and among the first `bound`.
    pub(super) fn take_at(&mut self, first: u32, pages: u32, bound: u32) -> bool {
        let end = first.checked_add(pages).filter(|end| *end <= bound);
        match (self.by_place.get(&first).copied(), end) {
            (_, None) => false,
            (None, Some(end)) if first == self.end => {
                self.end = end;
                true
            }
            (Some(length), Some(end)) if length >= pages => {
                self.remove(first, length);
                if length > pages {
                    self.insert(end, length - pages);
                }
                true
            }
            _ => false,
        }
    }

    /// Gives back `pages` pages from `first` on, which are taken.
    pub(super) fn give(&mut self, mut first: u32, mut pages: u32) {
        if let Some((&before, &length)) = self.by_place.range(..first).next_back()
            && before + length == first
        {
            self.remove(before, length);
            (first, pages) = (before, length + pages);
        }
        if let Some(&length) = self.by_place.get(&(first + pages)) {
            self.remove(first + pages, length);
            pages += length;
        }
        match first + pages == self.end {
            true => self.end = first,
            false => self.insert(first, pages),
        }
    }

    fn insert(&mut self, first: u32, pages: u32) {
        self.by_place.insert(first, pages);
        self.by_length.insert((pages, first));
    }

    fn remove(&mut self, first: u32, pages: u32) {
        self.by_place.remove(&first);
        self.by_length.remove(&(pages, first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUND: u32 = 40;

    /// A step of a user of runs.
    #[derive(Clone, Debug)]
    enum Step {
        Take(u32),
        Lengthen(usize, u32),
        Shorten(usize),
        Give(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            3 => (1..12_u32).prop_map(Step::Take),
            1 => (any::<usize>(), 1..6_u32).prop_map(|(which, pages)| Step::Lengthen(which, pages)),
            1 => any::<usize>().prop_map(Step::Shorten),
            2 => any::<usize>().prop_map(Step::Give),
        ];
        prop::collection::vec(step, 0..80)
    }

    /// The pages that are free before `end`, in runs, found by looking at each.
    fn free_runs(taken: &[(u32, u32)], end: u32) -> Vec<(u32, u32)> {
        let is_free = |page: &u32| !taken.iter().any(|(first, pages)| (*first..first + pages).contains(page));
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for page in (0..end).filter(is_free) {
            match runs.last_mut() {
                Some((first, pages)) if *first + *pages == page => *pages += 1,
                _ => runs.push((page, 1)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn whatever_is_taken_and_given_back_each_page_is_taken_once_or_in_the_free_run_of_its_neighbours(steps in steps()) {
            let (mut runs, mut taken) = (Runs::new(), Vec::<(u32, u32)>::new());
            for step in steps {
                match step {
                    Step::Take(pages) => match runs.take(pages, BOUND) {
                        Some(first) => taken.push((first, pages)),
                        None => prop_assert!(runs.end + pages > BOUND),
                    },
                    _ if taken.is_empty() => {}
                    Step::Lengthen(which, more) => {
                        let at = which % taken.len();
                        let (first, pages) = taken[at];
                        if runs.take_at(first + pages, more, BOUND) {
                            taken[at].1 += more;
                        }
                    }
                    Step::Shorten(which) => {
                        let at = which % taken.len();
                        let (first, pages) = taken[at];
                        if pages > 1 {
                            taken[at].1 = pages / 2;
                            runs.give(first + pages / 2, pages - pages / 2);
                        }
                    }
                    Step::Give(which) => {
                        let (first, pages) = taken.swap_remove(which % taken.len());
                        runs.give(first, pages);
                    }
                }
                let end = taken.iter().map(|(first, pages)| first + pages).max().unwrap_or(0);
                prop_assert_eq!(runs.end, end);
                prop_assert!(end <= BOUND);
                let pages: u32 = taken.iter().map(|(_, pages)| pages).sum();
                let free = free_runs(&taken, end);
                prop_assert_eq!(pages + free.iter().map(|(_, pages)| pages).sum::<u32>(), end, "a page is taken twice");
                prop_assert_eq!(runs.by_place.iter().map(|(first, pages)| (*first, *pages)).collect::<Vec<_>>(), free);
                let by_length: BTreeSet<(u32, u32)> = runs.by_place.iter().map(|(first, pages)| (*pages, *first)).collect();
                prop_assert_eq!(&runs.by_length, &by_length);
            }
        }
    }

    #[test]
    fn the_shortest_run_that_is_long_enough_is_taken_and_of_those_the_first() {
        let mut runs = Runs::new();
        let places: Vec<u32> = [3, 1, 2, 1, 2, 1].map(|pages| runs.take(pages, BOUND).unwrap()).into();
        assert_eq!(places, [0, 3, 4, 6, 7, 9]);
        runs.give(0, 3);
        runs.give(7, 2);
        runs.give(4, 2);
        assert_eq!(runs.take(2, BOUND), Some(4));
        assert_eq!(runs.take(1, BOUND), Some(7));
        assert_eq!(runs.take(5, BOUND), Some(10));
        assert_eq!(runs.take(BOUND, BOUND), None);
    }
}
