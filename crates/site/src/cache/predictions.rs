//! Predictions of the requests that follow a page, as the worker that answers with the page finds them.
//!
//! Owns: [`Predictions`], which never change once they are made. The cache keeps them with the entry of the page
//! ([`Entry::predictions`](super::Entry::predictions)); `hints` makes them, and others in their place when it has
//! learned more. Does not learn, and holds nothing of a client.

use std::sync::Arc;

use lamna_policy::hints::Probability;
use lamna_sys::metrics::memory_accounting::allocated;

/// One URL that may be asked for next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Following {
    /// Its path on the same site, normalised and not percent-encoded. UTF-8 without control characters; it has no
    /// query.
    pub target: Arc<str>,
    /// That a request for the page is followed by one for this.
    pub probability: Probability,
    /// How long after, in milliseconds, to an eighth.
    pub after_ms: u32,
    /// Bytes of its content as it is, if the cache knew it when this was made.
    pub bytes: Option<u64>,
}

/// The predictions for one page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Predictions {
    /// How often the page was asked for, as far as that has not faded.
    pub visits: u16,
    /// Likely next requests, the most probable first.
    pub following: Box<[Following]>,
}

impl Predictions {
    /// Bytes of memory that they take. The learner counts the names.
    pub fn memory_bytes(&self) -> u64 {
        allocated(size_of::<Predictions>() + 2 * size_of::<usize>()) + allocated(size_of_val(&*self.following))
    }
}
