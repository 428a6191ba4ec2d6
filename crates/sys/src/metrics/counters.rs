//! Counters since the server started, shared by all its processes.

use std::sync::atomic::AtomicU64;

use lamna_proto::tally::{Abuse, BUCKETS};

use crate::metrics::applications::Places;
use crate::metrics::step_timer::StepTotals;
use crate::shared_memory::process_shared;

/// Kinds of TLS handshakes that are counted apart: two versions, two protocols above, full and resumed.
pub const TLS_KINDS: usize = 8;
/// Cipher suites that are counted apart.
pub const TLS_SUITES: usize = 10;
/// The number of [`AnswerOutcome`]s.
pub const ANSWER_OUTCOMES: usize = 5;

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
    pub const ALL: [AnswerOutcome; ANSWER_OUTCOMES] = [
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

process_shared! {
    /// Counters since the server started. Workers add to them now and then, not with each request.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Connections accepted.
        pub connections: AtomicU64,
        /// Requests answered.
        pub requests: AtomicU64,
        /// Bytes given to sockets.
        pub sent_bytes: AtomicU64,
        /// Times that accepting had to pause for want of descriptors or memory.
        pub accept_pauses: AtomicU64,
        /// Connections closed to get descriptors.
        pub idle_shed: AtomicU64,
        /// Requests refused because their client network was over a limit.
        pub requests_limited: AtomicU64,
        /// Connections refused because their client network had enough of them.
        pub connections_limited: AtomicU64,
        /// Responses by the first digit of their status: 1xx to 5xx.
        pub responses: [AtomicU64; 5],
        /// Abuses of HTTP/2 by peers, in the order of `Abuse::ALL`.
        pub http2_abuses: [AtomicU64; Abuse::ALL.len()],
        /// Responses over HTTP/2. The others are over HTTP/1.x.
        pub http2_responses: AtomicU64,
        /// TLS handshakes that have ended well, in the order of `tls::negotiated::Kind::index`.
        pub tls_handshakes: [AtomicU64; TLS_KINDS],
        /// The same by cipher suite, in the order of `tls::negotiated::SUITES`.
        pub tls_suites: [AtomicU64; TLS_SUITES],
        /// The same by group, in the order of `tls::negotiated::GROUPS`.
        pub tls_groups: [AtomicU64; TLS_GROUPS],
        /// TLS handshakes that have failed.
        pub tls_failures: AtomicU64,
        /// Lookups of cached answers of applications, in the order of `AnswerOutcome::ALL`.
        pub kept_answers: [AtomicU64; ANSWER_OUTCOMES],
        /// Bytes of content that was answered with.
        pub content_bytes: AtomicU64,
        /// How long answers took, by bucket.
        pub durations: [AtomicU64; BUCKETS],
        /// The sum of all durations, in microseconds.
        pub duration_sum_us: AtomicU64,
        /// Targets that were in the cache and fresh.
        pub hits: AtomicU64,
        /// Targets that were in the cache, to be compared with the file system first.
        pub stale: AtomicU64,
        /// Targets that were not in the cache.
        pub misses: AtomicU64,
        /// Counters of the places of applications.
        pub places: Places,
        /// Where the time went, if that is asked for.
        pub account: StepTotals,
        /// Entries whose heads were built, because the cache had none that was up to date.
        pub described: AtomicU64,
        /// Entries whose content was read for them.
        pub contents_read: AtomicU64,
        /// Bytes of that.
        pub contents_read_bytes: AtomicU64,
        /// Targets in the cache whose content is not, because the file is large.
        pub file_hits: AtomicU64,
        /// Bytes of content sent from files.
        pub file_bytes: AtomicU64,
        /// Bytes that the caches of ended processes held in the end.
        pub cache_bytes: AtomicU64,
    }
}
