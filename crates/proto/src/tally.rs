//! The answers of one worker in numbers: statuses, bytes, durations.
//!
//! Owns: [`Outcome`], which is what is counted of an answer, the counters, and the bounds of the buckets that durations
//! are counted in. Guarantees: fixed memory, and no more than a few additions for each answer; one worker adds, and
//! nobody else writes. Durations are as exact as the instants that connections are given.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use crate::counter::{Row, Shape, Unit, add};
use crate::counters;
use crate::time::Instant;

/// Buckets of durations: up to 1, 2, 4, ... 2^26 microseconds (67 seconds), and longer.
pub const BUCKETS: usize = 28;

/// The bucket of a duration.
pub fn bucket(microseconds: u64) -> usize {
    let exponent = u64::BITS - microseconds.saturating_sub(1).leading_zeros();
    (exponent as usize).min(BUCKETS - 1)
}

/// The longest duration in a bucket, in microseconds; none for the last one.
pub fn bound_us(bucket: usize) -> Option<u64> {
    (bucket < BUCKETS - 1).then(|| 1 << bucket)
}

/// The final statuses that are counted by themselves: those of the registry.
pub const STATUSES: [u16; 59] = [
    101, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308, 400, 401, 402, 403,
    404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429,
    431, 451, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

/// The counter of a status: of one that is not counted by itself, that of all others.
fn counter_of(status: u16) -> usize {
    STATUSES.binary_search(&status).unwrap_or(STATUSES.len())
}

/// A status as metrics name it.
fn status_name(counter: usize) -> Cow<'static, str> {
    STATUSES.get(counter).map_or("other".into(), |status| status.to_string().into())
}

/// The metric of responses by protocol. Those that were not over HTTP/2 are worked out, and are a sample of it as well.
pub const PROTOCOL_RESPONSES: &str = "lamna_protocol_responses_total";

/// Actions of HTTP/2 peers that are bounded, because they cost us and carry nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Abuse {
    /// A stream was taken back, or taken for a fault of the peer.
    Reset,
    /// A header block came in too many pieces, or was too long to be read.
    HeaderFlood,
    /// A header block stood for more than we keep.
    HeadersTooLarge,
    /// DATA without content.
    EmptyData,
    /// PING, SETTINGS, priorities, and frames that we do not know.
    IdleFrame,
    /// A window was opened by a few bytes.
    TinyWindow,
    /// More streams than are allowed.
    TooManyStreams,
    /// A connection was closed for more of these than are allowed.
    Closed,
    /// A connection was closed because its peer allowed nothing to be sent for too long.
    Stalled,
}

impl Abuse {
    /// All of them, in the order of their counters.
    pub const ALL: [Abuse; 9] = [
        Abuse::Reset,
        Abuse::HeaderFlood,
        Abuse::HeadersTooLarge,
        Abuse::EmptyData,
        Abuse::IdleFrame,
        Abuse::TinyWindow,
        Abuse::TooManyStreams,
        Abuse::Closed,
        Abuse::Stalled,
    ];

    /// As metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Abuse::Reset => "reset",
            Abuse::HeaderFlood => "header-flood",
            Abuse::HeadersTooLarge => "headers-too-large",
            Abuse::EmptyData => "empty-data",
            Abuse::IdleFrame => "idle-frame",
            Abuse::TinyWindow => "tiny-window",
            Abuse::TooManyStreams => "too-many-streams",
            Abuse::Closed => "closed",
            Abuse::Stalled => "stalled",
        }
    }
}

/// An answer, as it is counted and logged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) status: u16,
    /// Bytes of content handed over.
    pub(crate) content_bytes: u64,
    /// When the head of its request had been received.
    pub(crate) started: Instant,
    pub(crate) over_http2: bool,
}

counters! {
    /// Counters of answers: the counters of one worker, or of all. Those of a worker are atomic only so that who made a
    /// workspace can keep a handle on its tally: there are no read-modify-write operations.
    pub struct Tally {
        /// Responses by the class of their status.
        pub by_class [5] = Row::counter("http_server_responses_total")
            .each("class", |class| ["1xx", "2xx", "3xx", "4xx", "5xx"][class].into())
            .json("responses.by_class").shape(Shape::List).text("responses", "");
        /// Responses by their status.
        pub by_status [STATUSES.len() + 1] = Row::counter("http_server_responses_by_status_total")
            .each("status", status_name).json("responses.by_status").text("statuses", "");
        /// Abuses of HTTP/2: what peers did that costs and carries nothing: docs/http2.md.
        pub abuses [Abuse::ALL.len()] = Row::counter("lamna_http2_abuses_total")
            .each("kind", |kind| Abuse::ALL[kind].name().into())
            .json("responses.http2_abuses").text("HTTP/2 abuses", "");
        /// Bytes of content answered with.
        pub content_bytes = Row::counter("http_server_response_body_bytes_total").unit(Unit::Bytes)
            .json("responses.content_bytes").text("content", "");
        /// From a complete request to its last byte given to the socket. Estimated from samples below a clock tick.
        pub durations [BUCKETS + 1] = Row::histogram("http_server_request_duration_seconds")
            .json("responses.duration").text("duration", "");
        /// Responses over HTTP/2.
        pub over_http2 = Row::counter(PROTOCOL_RESPONSES).labels(&[("protocol", "h2")])
            .json("protocols.http2").text("protocols", "over HTTP/2");
    }
}

impl Tally {
    /// How often this was counted since the counters were last handed over.
    pub fn abuses(&self, abuse: Abuse) -> u64 {
        self.abuses[abuse as usize].load(Relaxed)
    }

    /// How many answers.
    pub fn answers(&self) -> u64 {
        self.by_class.iter().map(|class| class.load(Relaxed)).sum()
    }

    pub(crate) fn record_abuse(&self, abuse: Abuse) {
        add(&self.abuses[abuse as usize], 1);
    }

    /// An answer has left, which took so long.
    pub(crate) fn record(&self, outcome: &Outcome, duration_us: u64) {
        let class = usize::from(outcome.status / 100).clamp(1, 5) - 1;
        add(&self.by_class[class], 1);
        add(&self.by_status[counter_of(outcome.status)], 1);
        add(&self.content_bytes, outcome.content_bytes);
        add(&self.over_http2, u64::from(outcome.over_http2));
        add(&self.durations[bucket(duration_us)], 1);
        add(&self.durations[BUCKETS], duration_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::CounterSet;
    use proptest::prelude::*;

    fn outcome(status: u16, content_bytes: u64) -> Outcome {
        Outcome { status, content_bytes, started: Instant::default(), over_http2: false }
    }

    #[test]
    fn each_registered_status_has_a_counter_and_all_others_share_one() {
        assert!(STATUSES.is_sorted());
        let registered = |status: &u16| !crate::message::Status(*status).reason_phrase().is_empty();
        let known: Vec<u16> = (101..600).filter(registered).filter(|status| !(102..200).contains(status)).collect();
        assert_eq!(known, STATUSES);
        let tally = Tally::default();
        for status in [200, 404, 404, 299, 599] {
            tally.record(&outcome(status, 0), 0);
        }
        let counted: Vec<(String, u64)> = (tally.by_status.iter().enumerate())
            .map(|(counter, cell)| (status_name(counter).into_owned(), cell.load(Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(counted, [("200".into(), 1), ("404".into(), 2), ("other".into(), 2)]);
    }

    #[test]
    fn an_answer_is_counted_by_status_content_and_duration() {
        let tally = Tally::default();
        tally.record(&outcome(200, 10), 0);
        tally.record(&outcome(404, 5), 3000);
        let read = |cell: &std::sync::atomic::AtomicU64| cell.load(Relaxed);
        assert_eq!((tally.by_class.each_ref().map(read), read(&tally.content_bytes)), ([0, 1, 0, 1, 0], 15));
        let durations = tally.durations.each_ref().map(read);
        assert_eq!((durations[0], durations[bucket(3000)], durations[BUCKETS]), (1, 1, 3000));
        assert_eq!(tally.answers(), 2);
        tally.hand_over(&Tally::default());
        assert!(tally.is_zero());
    }

    proptest! {
        #[test]
        fn every_duration_is_within_its_bucket(microseconds in any::<u64>()) {
            let index = bucket(microseconds);
            prop_assert!(bound_us(index).is_none_or(|bound| microseconds <= bound));
            prop_assert!(index == 0 || bound_us(index - 1).is_some_and(|bound| microseconds > bound));
        }

        #[test]
        fn every_answer_is_counted_once(answers in prop::collection::vec((100u16..600, 0u64..100, 0u64..100_000), 0..50)) {
            let tally = Tally::default();
            answers.iter().for_each(|&(status, bytes, us)| tally.record(&outcome(status, bytes), us));
            prop_assert_eq!(tally.answers(), answers.len() as u64);
            let durations = tally.durations[..BUCKETS].iter().map(|bucket| bucket.load(Relaxed));
            prop_assert_eq!(durations.sum::<u64>(), answers.len() as u64);
        }
    }
}
