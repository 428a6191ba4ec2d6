//! What one worker has answered, in numbers: statuses, bytes, durations.
//!
//! Owns: [`Outcome`], which is what is counted of an answer, the counters, and the bounds of the buckets that durations are counted
//! in. Guarantees: fixed memory, and no more than a few additions for each answer; one worker adds, and nobody else writes. Durations
//! are as exact as the instants that connections are given.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// What peers of HTTP/2 do that is bounded, because it costs us and carries nothing.
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

/// The counters of a worker. Atomic only so that who made a workspace can keep a handle on its tally: there are no
/// read-modify-write operations.
#[derive(Debug, Default)]
pub struct Tally {
    by_class: [AtomicU64; 5],
    content_bytes: AtomicU64,
    durations: [AtomicU64; BUCKETS],
    duration_sum_us: AtomicU64,
    abuses: [AtomicU64; Abuse::ALL.len()],
    over_http2: AtomicU64,
}

/// What a tally has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// By the first digit of the status: 1xx to 5xx.
    pub by_class: [u64; 5],
    /// Bytes of content handed to the socket, or to its queue.
    pub content_bytes: u64,
    /// How many took how long, by bucket: from a received request to the last byte of its answer that left.
    pub durations: [u64; BUCKETS],
    /// Of all durations, in microseconds.
    pub duration_sum_us: u64,
    /// In the order of [`Abuse::ALL`].
    pub abuses: [u64; Abuse::ALL.len()],
    /// How many were over HTTP/2.
    pub over_http2: u64,
}

impl Tally {
    /// How often this was counted since the counters were last taken.
    pub fn abuses(&self, abuse: Abuse) -> u64 {
        self.abuses[abuse as usize].load(Relaxed)
    }

    /// What was counted since this was called last. To be called by the worker whose tally it is.
    pub fn take(&self) -> Answers {
        let take = |counter: &AtomicU64| {
            let value = counter.load(Relaxed);
            counter.store(0, Relaxed);
            value
        };
        Answers {
            by_class: self.by_class.each_ref().map(take),
            content_bytes: take(&self.content_bytes),
            durations: self.durations.each_ref().map(take),
            duration_sum_us: take(&self.duration_sum_us),
            abuses: self.abuses.each_ref().map(take),
            over_http2: take(&self.over_http2),
        }
    }

    pub(crate) fn record_abuse(&self, abuse: Abuse) {
        add(&self.abuses[abuse as usize], 1);
    }

    /// An answer has left, which took so long.
    pub(crate) fn record(&self, outcome: &Outcome, duration_us: u64) {
        let class = usize::from(outcome.status / 100).clamp(1, 5) - 1;
        add(&self.by_class[class], 1);
        add(&self.content_bytes, outcome.content_bytes);
        add(&self.over_http2, u64::from(outcome.over_http2));
        add(&self.durations[bucket(duration_us)], 1);
        add(&self.duration_sum_us, duration_us);
    }
}

/// Not atomic as a whole, because nobody else writes.
fn add(counter: &AtomicU64, number: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(number), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn outcome(status: u16, content_bytes: u64) -> Outcome {
        Outcome { status, content_bytes, started: Instant::default(), over_http2: false }
    }

    #[test]
    fn what_was_taken_is_not_counted_again() {
        let tally = Tally::default();
        tally.record(&outcome(200, 10), 0);
        tally.record(&outcome(404, 5), 3000);
        let answers = tally.take();
        assert_eq!((answers.by_class, answers.content_bytes), ([0, 1, 0, 1, 0], 15));
        assert_eq!((answers.durations[0], answers.durations[bucket(3000)], answers.duration_sum_us), (1, 1, 3000));
        assert_eq!(tally.take(), Answers::default());
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
            let taken = tally.take();
            prop_assert_eq!(taken.by_class.iter().sum::<u64>(), answers.len() as u64);
            prop_assert_eq!(taken.durations.iter().sum::<u64>(), answers.len() as u64);
        }
    }
}
