//! Counters of the caches of all processes.

use lamna_proto::counter::{Row, Unit};
use lamna_sys::shared_memory::shared_counters;

shared_counters! {
    /// Counters of caches. Touched where something is made or found out, never by a hit.
    pub struct Counters {
        /// Codings made.
        pub compressed = Row::counter("lamna_codings_made_total").json("codings.made").text("codings", "made");
        /// Bytes of content that codings were made from.
        pub compressed_from_bytes = Row::counter("lamna_coding_content_bytes_total").unit(Unit::Bytes)
            .json("codings.from_bytes").text("codings", "of content");
        /// Bytes that the codings have.
        pub compressed_to_bytes = Row::counter("lamna_coding_bytes_total").unit(Unit::Bytes)
            .json("codings.to_bytes").text("codings", "encoded");
        /// Codings given up because they would not have been smaller, or could not be made.
        pub compressed_in_vain = Row::counter("lamna_codings_in_vain_total")
            .json("codings.in_vain").text("codings", "in vain");
        /// Codings that had to wait because too many were waiting already.
        pub compression_queue_full = Row::counter("lamna_coding_queue_full_total")
            .json("codings.queue_full").text("codings", "queued too late");
        /// Entries whose files were watched.
        pub watched = Row::counter("lamna_watches_total").json("watches.watched").text("watches", "entries");
        /// Entries whose files could not be watched.
        pub unwatchable = Row::counter("lamna_unwatchable_total")
            .json("watches.unwatchable").text("watches", "not watchable");
        /// Times that events of the file system were lost because too many waited.
        pub watch_overflows = Row::counter("lamna_watch_overflows_total")
            .json("watches.overflows").text("watches", "overflows");
    }
}
