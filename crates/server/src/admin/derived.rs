//! Figures that are not counted as they are told: gauges read on request, and values worked out of counters.
//!
//! Owns: the rows of them, and how each is made. Guarantees: a row here is told and documented as those of counters
//! are. Counts nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_proto::counter::{Row, Shape, Unit};
use lamna_proto::tally::PROTOCOL_RESPONSES;
use lamna_sys::metrics::counters::Work;

use super::figures::Sources;

/// A row, and how its values are made; none if the server does not say.
pub(super) struct Derived {
    pub(super) row: Row,
    pub(super) values: fn(&Sources<'_>) -> Option<Vec<u64>>,
}

/// Figures of open connections.
pub(super) const CONNECTIONS: &[Derived] = &[
    Derived {
        row: Row::gauge("lamna_connections_open")
            .each("worker", |worker| worker.to_string().into())
            .values(0)
            .json("connections.open")
            .shape(Shape::Sum)
            .text("connections", "open")
            .help("Open connections of each worker."),
        values: |from| Some(from.moment.connections.iter().copied().map(u64::from).collect()),
    },
    Derived {
        row: Row::gauge("lamna_connections_idle")
            .json("connections.idle")
            .text("connections", "idle")
            .help("Open connections that wait for a request; not with `mp` and `thread-per-session`."),
        values: |from| one(from.moment.idle?),
    },
    Derived {
        row: Row::gauge("lamna_connections_slow")
            .json("connections.slow")
            .text("connections", "slow")
            .help("Open connections whose peers do not take what is sent; not with `mp` and the thread engines."),
        values: |from| one(from.moment.slow?),
    },
];

/// All others.
pub(super) const OTHERS: &[Derived] = &[
    Derived {
        row: Row::counter(PROTOCOL_RESPONSES)
            .labels(&[("protocol", "http/1")])
            .family("Responses by the protocol that they went over.")
            .json("protocols.http1")
            .text("protocols", "over HTTP/1")
            .help("Responses over HTTP/1.0 and HTTP/1.1."),
        values: |from| one(from.done.answers.answers().saturating_sub(read(&from.done.answers.over_http2))),
    },
    Derived {
        row: cache(&[("cache", "translations"), ("result", "hit")])
            .family("Requests for which a cache had what was needed, or had not.")
            .json("caches.translations.hits")
            .text("translations", "hits")
            .help("Requests whose target was known and need not be looked at."),
        values: |from| one(lookups(from).saturating_sub(unknown(from))),
    },
    Derived {
        row: cache(&[("cache", "translations"), ("result", "miss")])
            .json("caches.translations.misses")
            .text("translations", "misses")
            .help("Requests whose target was not known, or had to be looked at."),
        values: |from| one(unknown(from)),
    },
    Derived {
        row: cache(&[("cache", "entries"), ("result", "hit")])
            .json("caches.entries.hits")
            .text("entries", "hits")
            .help("Requests for which an entry with its heads was there."),
        values: |from| one(lookups(from).saturating_sub(read(&from.done.work.described))),
    },
    Derived {
        row: cache(&[("cache", "entries"), ("result", "miss")])
            .json("caches.entries.misses")
            .text("entries", "misses")
            .help("Entries whose heads were built, because the cache had none that was up to date."),
        values: |from| one(read(&from.done.work.described)),
    },
    Derived {
        row: cache(&[("cache", "content"), ("result", "hit")])
            .json("caches.content.hits")
            .text("contents", "hits")
            .help("Requests whose content was in memory."),
        values: |from| one(lookups(from).saturating_sub(elsewhere(from))),
    },
    Derived {
        row: cache(&[("cache", "content"), ("result", "miss")])
            .json("caches.content.misses")
            .text("contents", "misses")
            .help("Requests whose content was read from a file for the cache, or sent from it."),
        values: |from| one(elsewhere(from)),
    },
    Derived {
        row: Row::counter("lamna_cache_content_bytes_total")
            .unit(Unit::Bytes)
            .labels(&[("result", "hit")])
            .family("Bytes of content from memory, or from files.")
            .json("caches.content_bytes.hits")
            .text("contents", "from memory")
            .help("Bytes of content sent from memory."),
        values: |from| one(read(&from.done.answers.content_bytes).saturating_sub(elsewhere_bytes(from))),
    },
    Derived {
        row: Row::counter("lamna_cache_content_bytes_total")
            .unit(Unit::Bytes)
            .labels(&[("result", "miss")])
            .json("caches.content_bytes.misses")
            .text("contents", "from files")
            .help("Bytes of content read or sent from files."),
        values: |from| one(elsewhere_bytes(from)),
    },
    Derived {
        row: Row::gauge("lamna_cache_bytes")
            .unit(Unit::Bytes)
            .json("cache_bytes")
            .text("cache", "")
            .help("Bytes in the cache, where one process holds it."),
        values: |from| one(from.moment.cache_bytes?),
    },
    Derived {
        row: Row::gauge("lamna_kept_answers_waiting")
            .json("kept_answers_waiting")
            .text("kept answers", "requests waiting")
            .help("Requests that wait for the answer that another one is getting."),
        values: |from| one(from.moment.kept_answers_waiting?),
    },
    Derived {
        row: Row::gauge("lamna_helper_queue")
            .json("disk.helper_queue")
            .text("helper jobs", "waiting")
            .help("Jobs that no helper has begun yet."),
        values: |from| one(read(&from.disk.helper_jobs).saturating_sub(read(&from.disk.helper_jobs_begun))),
    },
    Derived {
        row: Row::counter("lamna_loop_stalled_seconds_total")
            .unit(Unit::Milliseconds)
            .json("waits.stalled_ms")
            .text("loops", "stalled")
            .help("Time of event loops in batches of 20 ms and more."),
        values: |from| one(from.moment.waits.stalled_ms),
    },
    Derived {
        row: Row::gauge("lamna_thread_queue")
            .json("waits.thread_queue")
            .text("pool threads", "connections waiting")
            .help("Connections that wait for a thread of a pool."),
        values: |from| one(u64::from(from.moment.waits.queued)),
    },
    Derived {
        row: Row::counter("lamna_thread_waits_total")
            .json("waits.thread_waits")
            .text("pool threads", "taken up")
            .help("Connections that threads of pools have taken up."),
        values: |from| one(from.moment.waits.taken_up),
    },
    Derived {
        row: Row::counter("lamna_thread_wait_seconds_total")
            .unit(Unit::Milliseconds)
            .json("waits.thread_wait_ms")
            .text("pool threads", "waited")
            .help("Time that connections have waited for a thread of a pool."),
        values: |from| one(from.moment.waits.waited_ms),
    },
    Derived {
        row: Row::gauge("lamna_link_prefetch_wasted_bytes")
            .unit(Unit::Bytes)
            .json("early_hints.link_prefetch.wasted_bytes")
            .text("next pages", "fetched ahead in vain")
            .help("Of the bytes fetched ahead, those not wanted: an estimate."),
        values: |from| one(from.early_hints.link_prefetch.wasted_bytes()),
    },
];

const fn cache(labels: &'static [(&'static str, &'static str)]) -> Row {
    Row::counter("lamna_cache_requests_total").labels(labels)
}

fn one(number: u64) -> Option<Vec<u64>> {
    Some(vec![number])
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

fn lookups(from: &Sources<'_>) -> u64 {
    read(&from.done.work.hits) + unknown(from)
}

fn unknown(from: &Sources<'_>) -> u64 {
    read(&from.done.work.stale) + read(&from.done.work.misses)
}

fn elsewhere(from: &Sources<'_>) -> u64 {
    let Work { contents_read, file_hits, .. } = &from.done.work;
    read(contents_read) + read(file_hits)
}

fn elsewhere_bytes(from: &Sources<'_>) -> u64 {
    let Work { contents_read_bytes, file_bytes, .. } = &from.done.work;
    read(contents_read_bytes) + read(file_bytes)
}
