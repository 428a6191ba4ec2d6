//! The table: shards, and the way from one to another.
//!
//! Memory: a URL takes 56 bytes, whether anything follows it or not, and a sixteenth of all is for the sketch. In 64
//! MiB there are 1,123,456 rows. Of 1,000,000 URLs that are each asked for once, 99.5 % are in them afterwards: the
//! others found both of their buckets full, and of those 16 URLs one with the fewest visits had to go.

use super::shard::{BUCKET, ROW_BYTES, ROWS_MAX};
use super::{Name, Probability, Shard, Successor, UrlId};
use crate::random::mix;

/// The part of the memory that is for the sketch, as a divisor.
const SKETCH_SHARE: usize = 16;

/// Which shard knows what. The same for all tables of the same number of shards and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shards: usize,
    /// Rows of each shard. Positive.
    rows: usize,
}

impl Layout {
    /// Where `url` stands.
    pub fn shard_of(self, url: UrlId) -> usize {
        // Other bits than those that choose the bucket: these are mixed twice.
        let hash = mix(mix(url.hash()).wrapping_add(1));
        (((hash >> 32) * self.shards as u64) >> 32) as usize
    }

    /// Where the URL of `name` stands.
    pub fn shard_of_name(self, name: Name) -> usize {
        name.place() as usize / self.rows
    }
}

/// See [`super`]. One owner uses it as it is; several take [`Table::layout`], [`Table::into_shards`] and a lock for
/// each shard.
#[derive(Clone, Debug)]
pub struct Table {
    shards: Vec<Shard>,
    layout: Layout,
}

impl Table {
    /// Nothing is known. Takes at most `bytes_max`, but never less than a bucket for each of `shards`, and so many
    /// shards, at least one.
    pub fn new(bytes_max: usize, shards: usize) -> Table {
        let shards = shards.clamp(1, ROWS_MAX / BUCKET);
        // The largest power of two that a shard's sketch may take is what it takes.
        let sketch_bytes = bytes_max / SKETCH_SHARE / shards;
        let rows_bytes = bytes_max / shards - sketch_bytes.min(bytes_max / shards);
        let buckets = (rows_bytes / (ROW_BYTES * BUCKET)).clamp(1, ROWS_MAX / BUCKET / shards);
        let first_place = |shard: usize| (shard * buckets * BUCKET) as u32;
        Table {
            shards: (0..shards).map(|shard| Shard::new(buckets, sketch_bytes, first_place(shard))).collect(),
            layout: Layout { shards, rows: buckets * BUCKET },
        }
    }

    /// `url` was asked for. Each request is to be told, or probabilities come out too high.
    pub fn visit(&mut self, url: UrlId) {
        let shard = self.layout.shard_of(url);
        self.shards[shard].visit(url);
    }

    /// A request for `page` was followed by one for `next` because of it, after so many milliseconds. Once for each
    /// request for `page`, whatever the number of requests for `next`.
    pub fn follow(&mut self, page: UrlId, next: UrlId, after_ms: u32) {
        let (of_next, of_page) = (self.layout.shard_of(next), self.layout.shard_of(page));
        let name = self.shards[of_next].enter(next);
        self.shards[of_page].follow(page, (next, name), after_ms);
    }

    /// The successors of `page`, the most probable first; at most [`super::SUCCESSORS_MAX`].
    pub fn successors(&self, page: UrlId) -> impl Iterator<Item = Successor> + '_ {
        let names = self.shards[self.layout.shard_of(page)].successors(page);
        names.filter_map(|(name, probability, after_ms): (Name, Probability, u32)| {
            let url = self.shards.get(self.layout.shard_of_name(name))?.url(name)?;
            Some(Successor { url, probability, after_ms })
        })
    }

    /// How often `url` was asked for, as far as that has not faded.
    pub fn visits(&self, url: UrlId) -> u16 {
        self.shards[self.layout.shard_of(url)].visits(url)
    }

    /// Halves all counts, for a caller with a clock: last month's counts are not to count as today's.
    pub fn decay(&mut self) {
        self.shards.iter_mut().for_each(Shard::decay);
    }

    /// URLs that are known.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that the shards have allocated.
    pub fn memory_bytes(&self) -> usize {
        self.shards.iter().map(Shard::memory_bytes).sum()
    }

    /// Which shard knows what.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The shards, for a lock around each.
    pub fn into_shards(self) -> Vec<Shard> {
        self.shards
    }

    /// The table of these shards, which [`Table::into_shards`] gave out, in the same order. `None` if they are not of
    /// this layout.
    pub fn from_shards(layout: Layout, shards: Vec<Shard>) -> Option<Table> {
        let fits = shards.len() == layout.shards && shards.iter().all(|shard| shard.rows() == layout.rows);
        fits.then_some(Table { shards, layout })
    }

    pub(super) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    pub(super) fn shard_mut(&mut self, url: UrlId) -> &mut Shard {
        let shard = self.layout.shard_of(url);
        &mut self.shards[shard]
    }
}
