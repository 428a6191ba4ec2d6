//! Counters since the server started, which all processes of a server share.
//!
//! Owns: [`Work`], the counters of workers: a new one is a row here, and is stored, handed over, told and documented by
//! that. Who counts is elsewhere.

use std::sync::atomic::AtomicU64;

use lamna_proto::counter::{Row, Unit};
use lamna_proto::tally::Tally;

use crate::metrics::applications::Places;
use crate::metrics::step_timer::StepTotals;
use crate::shared_memory::{process_shared, shared_counters};

/// Kinds of TLS handshakes that are counted apart: two versions, two protocols above, full and resumed.
pub const TLS_KINDS: usize = 8;
/// Cipher suites that are counted apart.
pub const TLS_SUITES: usize = 10;

/// The outcome of a cache lookup for an answer of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// It was fresh.
    Hit,
    /// It was stale, and used.
    Stale,
    /// It had to be validated.
    Validated,
    /// Nothing.
    Miss,
    /// It is not for others, or was not for this request.
    Passed,
}

impl AnswerOutcome {
    /// All of them.
    pub const ALL: [AnswerOutcome; 5] = [
        AnswerOutcome::Hit,
        AnswerOutcome::Stale,
        AnswerOutcome::Validated,
        AnswerOutcome::Miss,
        AnswerOutcome::Passed,
    ];

    /// As in figures.
    pub fn name(self) -> &'static str {
        match self {
            AnswerOutcome::Hit => "hit",
            AnswerOutcome::Stale => "stale",
            AnswerOutcome::Validated => "validated",
            AnswerOutcome::Miss => "miss",
            AnswerOutcome::Passed => "passed",
        }
    }
}

/// Groups of key exchanges that are counted apart.
pub const TLS_GROUPS: usize = 7;

shared_counters! {
    /// Counters of workers, since the server started. Each counts in a set of its own and hands it over now and then,
    /// not with each request.
    pub struct Work {
        /// Requests whose target was looked up.
        pub requests = Row::counter("lamna_requests_total").json("requests").text("requests", "");
        /// Connections accepted.
        pub connections = Row::counter("lamna_connections_total")
            .json("connections.accepted").text("connections", "so far");
        /// Pauses of accepting for want of descriptors or memory.
        pub accept_pauses = Row::counter("lamna_accept_pauses_total")
            .json("connections.accept_pauses").text("connections", "accept pauses");
        /// Idle connections closed to get descriptors.
        pub idle_shed = Row::counter("lamna_connections_shed_total")
            .json("connections.idle_shed").text("connections", "shed");
        /// Requests refused with 429 because their client network was over a limit.
        pub requests_limited = Row::counter("lamna_requests_limited_total")
            .json("connections.requests_limited").text("over limits", "requests");
        /// Requests answered with 503 because their site was in maintenance.
        pub requests_in_maintenance = Row::counter("lamna_maintenance_responses_total")
            .json("connections.requests_in_maintenance").text("requests", "in maintenance");
        /// Requests that were sent to an application again because of its answer.
        pub upstream_retries = Row::counter("lamna_upstream_retries_total")
            .json("connections.upstream_retries").text("requests", "sent again");
        /// Connections refused or closed because their client network had as many, or held as much memory, as it may.
        pub connections_limited = Row::counter("lamna_connections_limited_total")
            .json("connections.limited").text("over limits", "connections");
        /// Requests answered with 503 because the content kept for applications took as many bytes in files as it may.
        pub buffers_refused = Row::counter("lamna_buffers_refused_total")
            .json("connections.buffers_refused").text("over limits", "buffers");
        /// Targets that were in the cache, and compared with the file system within the last second.
        pub hits = Row::counter("lamna_cache_lookups_total").labels(&[("result", "hit")])
            .family("What workers knew of the targets that were asked for.").json("lookups.hits").text("lookups", "hits");
        /// Targets that were in the cache, to be compared with the file system first.
        pub stale = Row::counter("lamna_cache_lookups_total").labels(&[("result", "stale")])
            .json("lookups.stale").text("lookups", "stale");
        /// Targets that were not in the cache.
        pub misses = Row::counter("lamna_cache_lookups_total").labels(&[("result", "miss")])
            .json("lookups.misses").text("lookups", "misses");
        /// Requests by what was known of the answer of their application.
        pub kept_answers [AnswerOutcome::ALL.len()] = Row::counter("lamna_kept_answers_total")
            .each("result", |outcome| AnswerOutcome::ALL[outcome].name().into())
            .json("kept_answers").text("kept answers", "");
        /// Bytes given to sockets, heads and encryption included.
        pub sent_bytes = Row::counter("lamna_sent_bytes_total").unit(Unit::Bytes).json("sent_bytes").text("sent", "");
        /// Entries whose heads were built, because the cache had none that was up to date.
        pub described = Row::UNTOLD;
        /// Entries whose content was read for them.
        pub contents_read = Row::UNTOLD;
        /// Bytes of that.
        pub contents_read_bytes = Row::UNTOLD;
        /// Targets in the cache whose content is not, because the file is large.
        pub file_hits = Row::UNTOLD;
        /// Bytes of content sent from files.
        pub file_bytes = Row::UNTOLD;
        /// Bytes that the caches of ended processes held in the end.
        pub cache_bytes = Row::UNTOLD;
    }
}

process_shared! {
    /// TLS handshakes, by what was agreed on. `lamna-tls` knows what each cell is.
    #[derive(Debug, Default)]
    pub struct TlsCounters {
        /// Handshakes that have ended well, in the order of `tls::negotiated::Kind::index`.
        pub handshakes: [AtomicU64; TLS_KINDS],
        /// The same by cipher suite, in the order of `tls::negotiated::SUITES`.
        pub suites: [AtomicU64; TLS_SUITES],
        /// The same by group, in the order of `tls::negotiated::GROUPS`.
        pub groups: [AtomicU64; TLS_GROUPS],
        /// Handshakes that have failed.
        pub failures: AtomicU64,
    }
}

process_shared! {
    /// Counters since the server started.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Counters of workers.
        pub work: Work,
        /// Counters of answers.
        pub answers: Tally,
        /// TLS handshakes.
        pub tls: TlsCounters,
        /// Counters of the places of applications.
        pub places: Places,
        /// Where the time went, if that is asked for.
        pub account: StepTotals,
    }
}
