//! One shard of the table: rows of URLs, and what follows each of them.
//!
//! Owns: rows in buckets of eight, where a URL may stand in either of two buckets; and a count-min sketch of the pairs
//! that are in no row. Each row has the six most frequent successors, as names of rows, with a count and a mean delay
//! each. A pair that is seen more often than the least of six takes its place, and that one goes back to the sketch
//! (top-k over a sketch: Cormode, Muthukrishnan 2005). When both buckets are full, the URL with the fewest visits goes.
//!
//! Counts fade: after so many observations as it has room for sixteen times, or when it is told, all counts of a shard
//! are halved. A row is brought up to date when it is touched, so halving costs nothing but a pass over the sketch.
//!
//! A successor may stand in another shard. So a pair is counted in two steps, and each takes one shard:
//! [`Shard::enter`] in the successor's gives its [`Name`], [`Shard::follow`] in the page's counts it. A server that
//! shares the table puts a lock around each shard and never holds two. A name whose row has been given to another URL
//! since is noticed by its generation; one in 256 such names is not, and is a wrong hint until it has faded.

use super::sketch::Sketch;
use super::{Probability, UrlId};
use crate::random::mix;

/// Successors kept for each page.
pub const SUCCESSORS_MAX: usize = 6;

/// Rows of a bucket.
pub(super) const BUCKET: usize = 8;

/// Observations for each row after which all counts are halved.
const OBSERVATIONS_PER_ROW: u64 = 16;

/// Bits of a name that are the place of the row; the others are its generation.
const PLACE_BITS: u32 = 24;

/// Rows that all shards together may have: each has a place in a name.
pub(super) const ROWS_MAX: usize = (1 << PLACE_BITS) - 1;

/// Bytes of a URL: its row and its hash.
pub(super) const ROW_BYTES: usize = size_of::<Row>() + size_of::<u64>();

/// Where a URL stands, and which generation of that place it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name(u32);

impl Name {
    const NONE: Name = Name(u32::MAX);

    fn new(place: u32, generation: u8) -> Name {
        Name(u32::from(generation) << PLACE_BITS | place)
    }

    /// The place of the row, among all shards.
    pub(super) fn place(self) -> u32 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }

    fn generation(self) -> u8 {
        (self.0 >> PLACE_BITS) as u8
    }
}

/// The counts of a URL, beside its hash. 48 bytes.
#[derive(Clone, Copy, Debug)]
struct Row {
    names: [Name; SUCCESSORS_MAX],
    counts: [u16; SUCCESSORS_MAX],
    /// Mean delays, as [`code_of`] has them.
    delays: [u8; SUCCESSORS_MAX],
    generation: u8,
    visits: u16,
    /// The shard's when the counts were right.
    epoch: u16,
}

impl Row {
    const EMPTY: Row = Row {
        names: [Name::NONE; SUCCESSORS_MAX],
        counts: [0; SUCCESSORS_MAX],
        delays: [0; SUCCESSORS_MAX],
        generation: 0,
        visits: 0,
        epoch: 0,
    };

    /// The row as it is at `epoch`.
    fn faded(mut self, epoch: u16) -> Row {
        let halvings = u32::from(epoch.wrapping_sub(self.epoch));
        self.halve(halvings);
        self.epoch = epoch;
        self
    }

    fn halve(&mut self, halvings: u32) {
        self.visits = self.visits.checked_shr(halvings).unwrap_or(0);
        for at in 0..SUCCESSORS_MAX {
            self.counts[at] = self.counts[at].checked_shr(halvings).unwrap_or(0);
            if self.counts[at] == 0 {
                self.names[at] = Name::NONE;
            }
        }
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Shard {
    /// By row; 0 where there is none.
    ids: Vec<u64>,
    rows: Vec<Row>,
    sketch: Sketch,
    /// Rows of the shards before this one.
    first_place: u32,
    epoch: u16,
    /// Since the last halving.
    observations: u64,
    len: usize,
}

/// A successor as a shard knows it: its URL stands in the shard of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: Name,
    pub(super) count: u16,
    pub(super) delay: u8,
}

impl Shard {
    /// Nothing is known. `buckets` is positive.
    pub(super) fn new(buckets: usize, sketch_bytes: usize, first_place: u32) -> Shard {
        let rows = buckets * BUCKET;
        Shard {
            ids: vec![0; rows],
            rows: vec![Row::EMPTY; rows],
            sketch: Sketch::new(sketch_bytes),
            first_place,
            epoch: 0,
            observations: 0,
            len: 0,
        }
    }

    /// The name of `url`, which is entered if it is not there. Some other may have to go for it.
    pub fn enter(&mut self, url: UrlId) -> Name {
        let index = self.find(url).unwrap_or_else(|| self.place(url));
        self.name(index)
    }

    /// `url` was asked for.
    pub fn visit(&mut self, url: UrlId) {
        let index = self.find(url).unwrap_or_else(|| self.place(url));
        let row = self.touch(index);
        if row.visits == u16::MAX {
            row.halve(1);
        }
        row.visits += 1;
        self.observe();
    }

    /// `page` was followed by `next`, whose name is `name`, after `after_ms` milliseconds.
    pub fn follow(&mut self, page: UrlId, (next, name): (UrlId, Name), after_ms: u32) {
        let index = self.find(page).unwrap_or_else(|| self.place(page));
        self.observe();
        let key = pair(page.0, next.0);
        let row = self.touch(index);
        let delay = code_of(after_ms);
        if let Some(at) = row.names.iter().position(|&known| known == name) {
            if row.counts[at] == u16::MAX {
                row.halve(1);
            }
            row.counts[at] += 1;
            row.delays[at] = mean_of(row.delays[at], delay);
            return;
        }
        // Free places count nothing, so they are taken first.
        let (least, count) = least_of(&row.counts);
        let had = row.names[least];
        if count == 0 {
            (row.names[least], row.counts[least], row.delays[least]) = (name, 1, delay);
            return;
        }
        let seen = self.sketch.add(key);
        if u16::from(seen) <= count {
            return;
        }
        let row = &mut self.rows[index];
        (row.names[least], row.counts[least], row.delays[least]) = (name, seen.into(), delay);
        // It may come back. Only one of this shard is known by its URL; another's begins anew.
        if let Some(url) = self.url(had) {
            self.sketch.raise(pair(page.0, url.0), count.min(255) as u8);
        }
    }

    /// How often `url` was asked for, as far as that has not faded.
    pub fn visits(&self, url: UrlId) -> u16 {
        self.find(url).map_or(0, |index| self.rows[index].faded(self.epoch).visits)
    }

    /// The URL of `name`, if it stands in this shard and has not been replaced since.
    pub fn url(&self, name: Name) -> Option<UrlId> {
        let index = name.place().checked_sub(self.first_place)? as usize;
        let id = *self.ids.get(index)?;
        (id != 0 && self.rows[index].generation == name.generation()).then_some(UrlId(id))
    }

    /// The successors of `page`, the most probable first: names, for [`Shard::url`] of the shards that
    /// [`super::Layout::shard_of_name`] says.
    pub fn successors(&self, page: UrlId) -> impl Iterator<Item = (Name, Probability, u32)> + use<> {
        let (visits, known) = self.known(page);
        known
            .into_iter()
            .flatten()
            .map(move |known| (known.name, Probability::of_counts(known.count, visits), milliseconds_of(known.delay)))
    }

    /// All counts are halved.
    pub fn decay(&mut self) {
        self.observations = 0;
        self.epoch = self.epoch.wrapping_add(1);
        self.sketch.halve();
    }

    /// URLs that are known.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory that it has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.ids.capacity() * size_of::<u64>() + self.rows.capacity() * size_of::<Row>() + self.sketch.memory_bytes()
    }

    /// Places for URLs.
    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Whether `url` is known.
    pub(super) fn holds(&self, url: UrlId) -> bool {
        self.find(url).is_some()
    }

    /// The name of `url`, if it is known.
    pub(super) fn find_name(&self, url: UrlId) -> Option<Name> {
        self.find(url).map(|index| self.name(index))
    }

    /// All URLs.
    pub(super) fn urls(&self) -> impl Iterator<Item = UrlId> + '_ {
        self.ids.iter().filter(|id| **id != 0).map(|&id| UrlId(id))
    }

    /// Visits of `page`, and what follows it, the most frequent first.
    pub(super) fn known(&self, page: UrlId) -> (u16, [Option<Known>; SUCCESSORS_MAX]) {
        let mut known = [None; SUCCESSORS_MAX];
        let Some(index) = self.find(page) else { return (0, known) };
        let row = self.rows[index].faded(self.epoch);
        for (at, known) in known.iter_mut().enumerate() {
            let (name, count, delay) = (row.names[at], row.counts[at], row.delays[at]);
            *known = (name != Name::NONE).then_some(Known { name, count, delay });
        }
        known.sort_unstable_by_key(|known| std::cmp::Reverse(known.map_or(0, |known| known.count)));
        (row.visits, known)
    }

    /// Restores the counts of `page`, which is entered if it is not there.
    pub(super) fn restore(&mut self, page: UrlId, visits: u16, known: impl Iterator<Item = Known>) {
        let index = self.find(page).unwrap_or_else(|| self.place(page));
        let row = self.touch(index);
        row.visits = visits;
        for (at, known) in known.take(SUCCESSORS_MAX).enumerate() {
            (row.names[at], row.counts[at], row.delays[at]) = (known.name, known.count, known.delay);
        }
    }

    fn name(&self, index: usize) -> Name {
        Name::new(self.first_place + index as u32, self.rows[index].generation)
    }

    fn observe(&mut self) {
        self.observations += 1;
        if self.observations >= OBSERVATIONS_PER_ROW * self.rows.len() as u64 {
            self.decay();
        }
    }

    /// The row, brought up to date.
    fn touch(&mut self, index: usize) -> &mut Row {
        let epoch = self.epoch;
        let row = &mut self.rows[index];
        if row.epoch != epoch {
            *row = row.faded(epoch);
        }
        row
    }

    fn buckets(&self, url: UrlId) -> [usize; 2] {
        let buckets = self.rows.len() / BUCKET;
        let hash = mix(url.0 ^ 0x9e37_79b9_7f4a_7c15);
        // Multiplied, not divided: the upper bits of each half choose.
        [hash & 0xffff_ffff, hash >> 32].map(|half| ((half * buckets as u64) >> 32) as usize)
    }

    fn find(&self, url: UrlId) -> Option<usize> {
        let rows = |bucket: usize| bucket * BUCKET..(bucket + 1) * BUCKET;
        self.buckets(url).into_iter().flat_map(rows).find(|&index| self.ids[index] == url.0)
    }

    /// Makes a row for `url`, which has none.
    fn place(&mut self, url: UrlId) -> usize {
        let [one, other] = self.buckets(url).map(|bucket| bucket * BUCKET..(bucket + 1) * BUCKET);
        let free = |rows: &std::ops::Range<usize>| rows.clone().filter(|&index| self.ids[index] == 0).count();
        // The emptier one: two choices fill a table nearly to its last row (Azar, Broder, Karlin, Upfal 1999).
        let (first, second) = if free(&one) >= free(&other) { (one, other) } else { (other, one) };
        let value = |&index: &usize| match self.ids[index] {
            0 => 0,
            _ => 1 + u32::from(self.rows[index].faded(self.epoch).visits),
        };
        // Both ranges hold eight rows.
        let index = first.clone().chain(second).min_by_key(value).unwrap_or(first.start);
        self.len += usize::from(self.ids[index] == 0);
        self.ids[index] = url.0;
        let generation = self.rows[index].generation.wrapping_add(1);
        self.rows[index] = Row { generation, epoch: self.epoch, ..Row::EMPTY };
        index
    }
}

fn pair(page: u64, next: u64) -> u64 {
    mix(page).wrapping_add(next.rotate_left(17))
}

fn least_of(counts: &[u16; SUCCESSORS_MAX]) -> (usize, u16) {
    let mut least = (0, counts[0]);
    for (at, &count) in counts.iter().enumerate() {
        if count < least.1 {
            least = (at, count);
        }
    }
    least
}

/// A delay in one byte: the exponent, and three bits of the mantissa.
pub(super) fn code_of(ms: u32) -> u8 {
    if ms < 8 {
        return ms as u8;
    }
    let exponent = ms.ilog2();
    ((exponent - 2) << 3 | (ms >> (exponent - 3) & 7)) as u8
}

/// The least delay of this code.
pub(super) fn milliseconds_of(code: u8) -> u32 {
    let (exponent, mantissa) = (u32::from(code >> 3), u32::from(code & 7));
    match exponent {
        0 => mantissa,
        _ => u32::try_from(u64::from(8 + mantissa) << (exponent - 1)).unwrap_or(u32::MAX),
    }
}

/// A mean in which older delays count less and less: a quarter is the newest's.
fn mean_of(code: u8, newest: u8) -> u8 {
    let sum = 3 * u16::from(code) + u16::from(newest);
    // Rounded toward the newest, so that it gets there.
    (if newest > code { sum.div_ceil(4) } else { sum / 4 }) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_url_takes_56_bytes() {
        assert_eq!(ROW_BYTES, 56);
    }

    proptest! {
        #[test]
        fn a_delay_is_kept_to_an_eighth(ms: u32) {
            let kept = milliseconds_of(code_of(ms));
            prop_assert!(kept <= ms && ms - kept <= ms / 8, "{ms} became {kept}");
        }

        /// Any code may be read from a file.
        #[test]
        fn a_larger_code_is_a_longer_delay(code in 0..u8::MAX) {
            prop_assert!(milliseconds_of(code) <= milliseconds_of(code + 1));
        }

        #[test]
        fn a_mean_lies_between(one: u8, other: u8) {
            let mean = mean_of(one, other);
            prop_assert!((one.min(other)..=one.max(other)).contains(&mean));
            prop_assert!(one == other || mean != one, "it moves");
        }
    }
}
