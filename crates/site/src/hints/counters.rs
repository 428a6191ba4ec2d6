//! Counters of hints and of their outcome, in all processes of a server.

use lamna_proto::counter::{Row, Unit};
use lamna_sys::shared_memory::shared_counters;

shared_counters! {
    /// Counters of hints. Serving threads touch `dropped` only.
    pub struct HintCounters {
        /// Requests that were learned from.
        pub observations = Row::counter("lamna_hints_observations_total")
            .json("hints.observations").text("hints", "requests learned from");
        /// Requests that were not learned from, because too many came at once.
        pub dropped = Row::counter("lamna_hints_dropped_total")
            .json("hints.dropped").text("hints", "dropped");
        /// Pairs of URLs that were counted.
        pub pairs = Row::counter("lamna_hints_pairs_total")
            .json("hints.pairs").text("hints", "pairs");
        /// URLs that are known.
        pub urls = Row::gauge("lamna_hints_urls")
            .json("hints.urls").text("hints", "URLs");
        /// Names of URLs that may be predicted.
        pub names = Row::gauge("lamna_hints_names")
            .json("hints.names").text("hints", "names");
        /// Memory of what was learned, names and queues included.
        pub bytes = Row::gauge("lamna_hints_bytes").unit(Unit::Bytes)
            .json("hints.bytes").text("hints", "of memory");
        /// Pages whose predictions were made anew.
        pub published = Row::counter("lamna_hints_published_total")
            .json("hints.published").text("hints", "pages predicted for");
        /// Files that were read ahead of requests.
        pub ahead = Row::counter("lamna_precache_reads_total")
            .json("hints.ahead").text("read ahead", "files");
        /// Files read ahead that were asked for while the cache had them.
        pub ahead_used = Row::counter("lamna_precache_used_total")
            .json("hints.ahead_used").text("read ahead", "used");
        /// Files read ahead that left the cache, or were changed, before anybody asked for them.
        pub ahead_wasted = Row::counter("lamna_precache_wasted_total")
            .json("hints.ahead_wasted").text("read ahead", "wasted");
        /// Entries that went to make room for what was read ahead.
        pub ahead_evictions = Row::counter("lamna_precache_evictions_total")
            .json("hints.ahead_evictions").text("read ahead", "evictions");
        /// Entries that went for them, and had to be read again before that was of use.
        pub ahead_evicted_again = Row::counter("lamna_precache_evicted_again_total")
            .json("hints.ahead_evicted_again").text("read ahead", "evicted and read again");
        /// Files that were likely, and not read ahead because the budget or the room was used up.
        pub ahead_refused = Row::counter("lamna_precache_refused_total")
            .json("hints.ahead_refused").text("read ahead", "refused");
    }
}
