//! Observations of a run: tallies of requests, totals of resources, and the differences that make a result.

use lamna_policy::stats::{Histogram, Moments};

use crate::kernel::Nanos;

/// Counts while measuring.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) completed: u64,
    pub(super) bytes: u64,
    pub(super) lookups: u64,
    pub(super) hits: u64,
    pub(super) pages_hits: u64,
    pub(super) bytes_found: u64,
    pub(super) bytes_asked: u64,
    pub(super) translation_misses: u64,
    pub(super) latency: Histogram,
    pub(super) latency_mean: Moments,
}

/// Running totals of the resources, for differences.
#[derive(Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) now: Nanos,
    pub(super) events: u64,
    pub(super) processor_busy: Nanos,
    pub(super) load_busy: Nanos,
    pub(super) beside_busy: Nanos,
    pub(super) switches: u64,
    pub(super) departures: u64,
    pub(super) disk_busy: Nanos,
    pub(super) disk_reads: u64,
    pub(super) disk_requests: u64,
    pub(super) disk_resident: Nanos,
    pub(super) link_busy: Nanos,
    pub(super) acquisitions: u64,
    pub(super) contended: u64,
    pub(super) lock_waited: Nanos,
}

/// The observation between the end of the warm-up and the end of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Virtual time.
    pub elapsed: Nanos,
    /// Requests completed.
    pub completed: u64,
    /// Content sent.
    pub bytes: u64,
    /// From issue to completion.
    pub latency: Histogram,
    /// The same, as a mean in nanoseconds.
    pub latency_mean: f64,
    /// Requests found in the data cache, as a share.
    pub hit_ratio: f64,
    /// Requests found in the page cache, as a share of all.
    pub page_hit_ratio: f64,
    /// Bytes found in the data cache, as a share.
    pub byte_hit_ratio: f64,
    /// Paths not found in the translation cache, as a share.
    pub translation_miss_ratio: f64,
    /// Mean share of time that a processor works.
    pub processor_utilisation: f64,
    /// Mean share of the disk's places that are taken.
    pub disk_utilisation: f64,
    /// Share of time that the link sends.
    pub link_utilisation: f64,
    /// Processor time of the server for each request, in nanoseconds.
    pub server_time: f64,
    /// The part of that on the processor of the clients, where they are on the same machine.
    pub beside_time: f64,
    /// Processor time of the clients, where they are on the same machine, likewise.
    pub load_time: f64,
    /// Switches per request.
    pub switches_per_request: f64,
    /// Times that a task of the server's left a processor, for another or to sleep, per request.
    pub departures_per_request: f64,
    /// Reads from disk per request.
    pub reads_per_request: f64,
    /// Requests that these are made of, per request.
    pub disk_requests_per_request: f64,
    /// Mean reads waiting or under way.
    pub disk_reads_resident: f64,
    /// Lock acquisitions that had to wait, as a share.
    pub contention: f64,
    /// Time waited for locks per request, in nanoseconds.
    pub lock_waited_per_request: f64,
    /// Calendar events in all, warm-up included.
    pub events: u64,
}

impl Observation {
    /// From the totals at both ends of the measurement and what was tallied between.
    pub(super) fn new(before: Totals, after: Totals, tally: Tally, processors: usize, disk_places: usize) -> Self {
        let elapsed = (after.now - before.now).max(1);
        let per_request = |total: u64| total as f64 / tally.completed.max(1) as f64;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        Observation {
            elapsed,
            completed: tally.completed,
            bytes: tally.bytes,
            latency_mean: tally.latency_mean.mean(),
            hit_ratio: share(tally.hits, tally.lookups),
            page_hit_ratio: share(tally.pages_hits, tally.lookups),
            byte_hit_ratio: share(tally.bytes_found, tally.bytes_asked),
            translation_miss_ratio: share(tally.translation_misses, tally.lookups),
            processor_utilisation: share(after.processor_busy - before.processor_busy, elapsed) / processors as f64,
            disk_utilisation: share(after.disk_busy - before.disk_busy, elapsed) / disk_places as f64,
            link_utilisation: share(after.link_busy - before.link_busy, elapsed),
            server_time: per_request(
                (after.processor_busy - after.load_busy) - (before.processor_busy - before.load_busy),
            ),
            beside_time: per_request(after.beside_busy - before.beside_busy),
            load_time: per_request(after.load_busy - before.load_busy),
            switches_per_request: per_request(after.switches - before.switches),
            departures_per_request: per_request(after.departures - before.departures),
            reads_per_request: per_request(after.disk_reads - before.disk_reads),
            disk_requests_per_request: per_request(after.disk_requests - before.disk_requests),
            disk_reads_resident: share(after.disk_resident - before.disk_resident, elapsed),
            contention: share(after.contended - before.contended, after.acquisitions - before.acquisitions),
            lock_waited_per_request: per_request(after.lock_waited - before.lock_waited),
            events: after.events,
            latency: tally.latency,
        }
    }
}
