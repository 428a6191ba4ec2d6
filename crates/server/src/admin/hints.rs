//! What became of hints, as figures.
//!
//! Owns: [`HintStats`], and its families for Prometheus.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_site::hints::HintCounters;
use serde::{Deserialize, Serialize};

/// What was learned and what it was used for, in all processes: docs/hints.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HintStats {
    /// Requests that were learned from.
    pub observations: u64,
    /// Requests that were not, because the learner had not come to those before them.
    pub dropped: u64,
    /// Pairs of URLs that were counted.
    pub pairs: u64,
    /// URLs that are known.
    pub urls: u64,
    /// Names of URLs that may be predicted.
    pub names: u64,
    /// Bytes of memory that this takes.
    pub bytes: u64,
    /// Pages whose predictions were made anew.
    pub published: u64,
    /// Files that were read ahead of requests.
    pub ahead: u64,
    /// Of these, the ones that were asked for while the cache had them.
    pub ahead_used: u64,
    /// Of these, the ones that left the cache before.
    pub ahead_wasted: u64,
    /// Entries that went to make room for them.
    pub ahead_evictions: u64,
    /// Of these, the ones that had to be read again before that was of use.
    pub ahead_evicted_again: u64,
    /// Files that were likely and not in the cache, and were not read ahead.
    pub ahead_refused: u64,
}

impl HintStats {
    /// What `counters` say.
    pub fn of(counters: &HintCounters) -> HintStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        HintStats {
            observations: read(&counters.observations),
            dropped: read(&counters.dropped),
            pairs: read(&counters.pairs),
            urls: read(&counters.urls),
            names: read(&counters.names),
            bytes: read(&counters.bytes),
            published: read(&counters.published),
            ahead: read(&counters.ahead),
            ahead_used: read(&counters.ahead_used),
            ahead_wasted: read(&counters.ahead_wasted),
            ahead_evictions: read(&counters.ahead_evictions),
            ahead_evicted_again: read(&counters.ahead_evicted_again),
            ahead_refused: read(&counters.ahead_refused),
        }
    }

    /// Name, kind, help and value of each figure.
    pub(super) fn families(&self) -> [(&'static str, &'static str, &'static str, u64); 13] {
        let (counter, gauge) = ("counter", "gauge");
        [
            ("lamna_hints_observations_total", counter, "Requests that were learned from.", self.observations),
            (
                "lamna_hints_dropped_total",
                counter,
                "Requests that were not, because too many came at once.",
                self.dropped,
            ),
            ("lamna_hints_pairs_total", counter, "Pairs of URLs that were counted.", self.pairs),
            ("lamna_hints_urls", gauge, "URLs that are known.", self.urls),
            ("lamna_hints_names", gauge, "Names of URLs that may be predicted.", self.names),
            ("lamna_hints_bytes", gauge, "Memory of what was learned.", self.bytes),
            ("lamna_hints_published_total", counter, "Pages whose predictions were made anew.", self.published),
            ("lamna_precache_reads_total", counter, "Files that were read ahead of requests.", self.ahead),
            ("lamna_precache_used_total", counter, "Those of them that were asked for in time.", self.ahead_used),
            ("lamna_precache_wasted_total", counter, "Those of them that left the cache unused.", self.ahead_wasted),
            ("lamna_precache_evictions_total", counter, "Entries that went for them.", self.ahead_evictions),
            (
                "lamna_precache_evicted_again_total",
                counter,
                "Those of them that were read again before that was of use.",
                self.ahead_evicted_again,
            ),
            ("lamna_precache_refused_total", counter, "Likely files that were not read ahead.", self.ahead_refused),
        ]
    }
}
