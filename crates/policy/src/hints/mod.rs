//! Hints: what is likely to be asked for next, and how much may be done about it.
//!
//! Owns: a learned table of what follows what ([`Table`]), and budgets that bound what guessing may cost: reads ahead
//! of requests ([`PrecacheBudget`]), hints of what a page needs ([`ClientHintBudget`]) and of what page is next
//! ([`LinkPrefetchBudget`]). The `hinted` replacement policy ([`crate::cache::Hinted`]) keeps longer what the table
//! predicts.
//!
//! The idea is the hinted caching of the *JAWS framework* (1998, 3.6): links between pages tell what will be asked for
//! next. A table of what followed what, with probabilities, is the dependency graph of Padmanabhan and Mogul ("Using
//! predictive prefetching to improve World Wide Web latency", ACM CCR 1996).
//!
//! Its users: the server's learner, off the serving threads, feeds [`Table::visit`] with each request and
//! [`Table::follow`] with each pair that it knows to belong together (a Referer of the same site, the order of requests
//! on a connection, the links of a parsed page). Helpers ask [`Table::successors`] when a page is served. The simulator
//! does the same with traces.
//!
//! Guarantees: the table holds numbers of URLs, counts and delays: no addresses, no users, no text. Its memory is
//! bounded when it is made. No call on it but making, saving and loading allocates.
//!
//! Does not: find pairs, map numbers to URLs, read, send, lock, or know the time: delays are told, and the owner of a
//! clock calls [`Table::decay`].

mod client_hints;
mod link_prefetch;
mod precache;
mod saved;
mod shard;
mod sketch;
mod table;

pub use client_hints::{ClientHintBudget, VIEWS_PER_HALVING};
pub use link_prefetch::LinkPrefetchBudget;
pub use precache::{BURST_READS, PrecacheBudget, PrecacheCounts};
pub use saved::Malformed;
pub use shard::{Name, SUCCESSORS_MAX, Shard};
pub use table::{Layout, Table};

/// A URL, as a hash of 64 bits that the caller makes. It has to be the same after a restart if tables are to be kept
/// over it. An attacker who could choose URLs that collide could spoil hints, nothing else; a keyed hash prevents it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UrlId(u64);

impl UrlId {
    /// The URL of this hash. 0 and 1 are the same.
    pub fn of_hash(hash: u64) -> UrlId {
        UrlId(hash.max(1))
    }

    /// The hash.
    pub fn hash(self) -> u64 {
        self.0
    }
}

/// A probability in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Probability(u16);

impl Probability {
    /// It will be so.
    pub const CERTAIN: Probability = Probability(1_000);

    /// So many thousandths, 1000 at most.
    pub const fn per_mille(thousandths: u16) -> Probability {
        let is_more = thousandths > Probability::CERTAIN.0;
        if is_more { Probability::CERTAIN } else { Probability(thousandths) }
    }

    /// How often it was so, of how often it might have been. One more is added to the latter: what was seen once is not
    /// certain.
    pub fn of_counts(times: u16, of: u16) -> Probability {
        let thousandths = u32::from(times) * 1_000 / (u32::from(of) + 1);
        Probability(thousandths.min(1_000) as u16)
    }

    /// In thousandths.
    pub fn thousandths(self) -> u16 {
        self.0
    }
}

/// A URL that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The URL.
    pub url: UrlId,
    /// That a request for the page is followed by one for that.
    pub probability: Probability,
    /// How long after, in milliseconds: a mean of recent ones, to an eighth of its value.
    pub after_ms: u32,
}
