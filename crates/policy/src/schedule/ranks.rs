//! A heap of waiters by rank. It tells the owner of the waiters where each of them is, so that one can be taken out of
//! its middle.

/// A waiter and what it is ordered by. Compared from the first field to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// Urgency and rank.
    pub(super) rank: u64,
    /// When it was queued: no two are the same.
    pub(super) queued: u64,
    pub(super) id: u32,
}

/// The least entry is on top.
#[derive(Debug, Default)]
pub(super) struct Ranks(Vec<Entry>);

impl Ranks {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }

    pub(super) fn top(&self) -> Option<u32> {
        self.0.first().map(|entry| entry.id)
    }

    /// Adds `entry`. `moved` is told the place of each waiter that has a new one, the new waiter among them.
    pub(super) fn push(&mut self, entry: Entry, mut moved: impl FnMut(u32, u32)) {
        self.0.push(entry);
        moved(entry.id, self.0.len() as u32 - 1);
        self.rise(self.0.len() - 1, &mut moved);
    }

    /// Takes out what is at `place`, which exists.
    pub(super) fn remove(&mut self, place: u32, mut moved: impl FnMut(u32, u32)) {
        let place = place as usize;
        self.0.swap_remove(place);
        if let Some(entry) = self.0.get(place) {
            moved(entry.id, place as u32);
            self.settle(place, &mut moved);
        }
    }

    /// Changes the rank of the waiter at `place`, which exists.
    pub(super) fn change(&mut self, place: u32, rank: u64, mut moved: impl FnMut(u32, u32)) {
        self.0[place as usize].rank = rank;
        self.settle(place as usize, &mut moved);
    }

    /// Gives every waiter another rank. All places change.
    pub(super) fn rank_anew(&mut self, rank: impl Fn(u32) -> u64) {
        self.0.iter_mut().for_each(|entry| entry.rank = rank(entry.id));
        // An ascending sequence is a heap.
        self.0.sort_unstable();
    }

    /// All waiters, each with its place.
    pub(super) fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.0).map(|(place, entry)| (entry.id, place))
    }

    fn settle(&mut self, place: usize, moved: &mut impl FnMut(u32, u32)) {
        if self.rise(place, moved) == place {
            self.sink(place, moved);
        }
    }

    fn rise(&mut self, mut place: usize, moved: &mut impl FnMut(u32, u32)) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.0[parent] <= self.0[place] {
                break;
            }
            self.swap(parent, place, moved);
            place = parent;
        }
        place
    }

    fn sink(&mut self, mut place: usize, moved: &mut impl FnMut(u32, u32)) {
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.0.len());
            let Some(least) = children.min_by_key(|&child| self.0[child]) else { return };
            if self.0[place] <= self.0[least] {
                return;
            }
            self.swap(place, least, moved);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize, moved: &mut impl FnMut(u32, u32)) {
        self.0.swap(a, b);
        moved(self.0[a].id, a as u32);
        moved(self.0[b].id, b as u32);
    }
}
