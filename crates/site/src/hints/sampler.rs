//! How one serving thread tells the learner of requests.
//!
//! Owns: [`Sampler`]. Guarantees: telling allocates nothing, takes no lock and makes no system call. Does not decide
//! what may be told.

use lamna_proto::time::Instant;

use super::{Hints, RequestSample};
use crate::cache::Entry;

/// A serving thread's end of a queue to the learner.
#[derive(Debug)]
pub struct Sampler {
    queue: usize,
    /// Connections go from one thread to another between two requests.
    by_connection: bool,
    /// Tells the connection that is being driven from others; zero if its order says nothing.
    connection: u64,
    /// Requests that there was no room for.
    dropped: u64,
}

impl Sampler {
    /// One of a thread that begins.
    pub fn new(hints: Option<&Hints>) -> Sampler {
        Sampler { queue: hints.map_or(0, Hints::queue), by_connection: false, connection: 0, dropped: 0 }
    }

    /// From now on the connection `number` is driven. Zero is one whose order says nothing.
    pub fn set_connection(&mut self, number: u64) {
        self.connection = number;
    }

    /// Connections are driven by other threads as well, in turns.
    pub fn share_connections(&mut self) {
        self.by_connection = true;
    }

    /// Whether there is no room for a request, which is counted then: to be asked before more is found out about it.
    pub fn lacks_room(&mut self, hints: &Hints) -> bool {
        let lacks = hints.is_full(self.queue(hints));
        self.dropped += u64::from(lacks);
        lacks
    }

    /// Tells of a request for `path` that is answered with `entry`.
    pub fn observe(
        &mut self,
        hints: Option<&Hints>,
        sample: &RequestSample<'_>,
        path: &[u8],
        entry: &Entry,
        now: Instant,
    ) {
        let Some(hints) = hints else { return };
        if entry.resource.status.0 != 200 || path.is_empty() {
            return;
        }
        let is_html = entry.resource.variants.first().media_type().starts_with("text/html");
        self.tell(hints, sample, path, is_html, now);
    }

    /// Tells of a request for `path`, whatever it is answered with.
    pub fn tell(&mut self, hints: &Hints, sample: &RequestSample<'_>, path: &[u8], is_html: bool, now: Instant) {
        let has_room = hints.observe(self.queue(hints), sample, path, is_html, self.connection, now.ms());
        self.dropped += u64::from(!has_room);
    }

    /// Adds what was dropped to the sums of all.
    pub fn flush(&mut self, hints: Option<&Hints>) {
        if let (Some(hints), 1..) = (hints, self.dropped) {
            hints.count_dropped(std::mem::take(&mut self.dropped));
        }
    }

    fn queue(&self, hints: &Hints) -> usize {
        if self.by_connection { hints.queue_of(self.connection) } else { self.queue }
    }
}
