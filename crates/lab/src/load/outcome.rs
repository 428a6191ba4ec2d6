//! The outcome of a job: numbers and histograms that can be merged, printed, and written as JSON.
//!
//! Guarantees: outcomes of the same kind of job can be merged in any order; what is written can be read again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;
use super::verdict::Doubt;

/// Counts of requests and connections by their fate. Numbers are of the whole run, warm-up and draining included,
/// except where it says measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that were made: answered + timed_out + lost + malformed + unanswered.
    pub requests: u64,
    /// Whole answers: what a server's access log has lines for.
    pub answered: u64,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers to requests that were due after the warm-up: those in the latency histogram.
    pub measured: u64,
    /// Answers that came within the measurement: those in the throughput.
    pub in_window: u64,
    /// Content of the answers that came within the measurement.
    pub content_bytes: u64,
    /// Answers with status 200 whose content was not what it had to be.
    pub wrong_content: u64,
    /// Requests given up because nothing came for the time of the timeout.
    pub timed_out: u64,
    /// Requests whose connection ended or broke before the answer was whole.
    pub lost: u64,
    /// Requests answered by something that is not HTTP.
    pub malformed: u64,
    /// Requests still without an answer when the job ended.
    pub unanswered: u64,
    /// Requests that were due and never sent, because no connection was free until the job ended.
    pub unsent: u64,
    /// Requests that were due while no connection was free.
    pub waited: u64,
    /// Pipelined requests sent again because the server closed after an earlier answer.
    pub resent: u64,
    /// Connections that were established.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub refused: u64,
    /// Idle connections that the server closed.
    pub idle_closed: u64,
}

impl Counts {
    /// Requests that went wrong, and attempts to connect that failed.
    pub fn failures(&self) -> u64 {
        let statuses: u64 = self.statuses.iter().filter(|(status, _)| **status >= 400).map(|(_, count)| count).sum();
        self.timed_out + self.lost + self.malformed + self.wrong_content + self.refused + statuses
    }

    pub(super) fn answered(&mut self, status: u16) {
        self.answered += 1;
        *self.statuses.entry(status).or_default() += 1;
    }

    fn merge(&mut self, other: &Counts) {
        let Counts { statuses, .. } = other;
        for (status, count) in statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        let add = |to: &mut u64, from: u64| *to += from;
        add(&mut self.requests, other.requests);
        add(&mut self.answered, other.answered);
        add(&mut self.measured, other.measured);
        add(&mut self.in_window, other.in_window);
        add(&mut self.content_bytes, other.content_bytes);
        add(&mut self.wrong_content, other.wrong_content);
        add(&mut self.timed_out, other.timed_out);
        add(&mut self.lost, other.lost);
        add(&mut self.malformed, other.malformed);
        add(&mut self.unanswered, other.unanswered);
        add(&mut self.unsent, other.unsent);
        add(&mut self.waited, other.waited);
        add(&mut self.resent, other.resent);
        add(&mut self.connections, other.connections);
        add(&mut self.refused, other.refused);
        add(&mut self.idle_closed, other.idle_closed);
    }
}

/// How one thread of the generator fared during the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// Share of the time it ran, 0 to 1.
    pub busy: f64,
    /// Share of the time it could have run but had no processor, 0 to 1; none where the kernel does not say.
    pub starved: Option<f64>,
}

/// A job's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Length of the measurement.
    pub seconds: f64,
    /// `counts.in_window` by `seconds`.
    pub requests_per_second: f64,
    /// Content bytes by `seconds`.
    pub content_bytes_per_second: f64,
    /// Requests a second that were asked for, in an open loop.
    pub rate_asked: Option<f64>,
    /// The counts.
    pub counts: Counts,
    /// From the intended start of a request to the last byte of its answer.
    pub latency: Histogram,
    /// The same of the requests of the warm-up, which are not in `latency`.
    #[serde(default)]
    pub warmup_latency: Histogram,
    /// From the first packet to the established connection, whole run.
    pub connect: Histogram,
    /// How late the generator itself sent requests that were due while a connection was free. Open loop only.
    pub lag: Histogram,
    /// Answers in each second of the measurement.
    pub per_second: Vec<u64>,
    /// CPU time of the generator by answer, over the whole run, in microseconds.
    pub generator_cpu_us: f64,
    /// Its threads.
    pub threads: Vec<ThreadUse>,
    /// Reasons to distrust the figures.
    pub doubts: Vec<Doubt>,
    /// First difference found in content, in words.
    pub first_wrong: Option<String>,
}

impl Outcome {
    /// Adds an outcome of the same job: rates are of the added-up time, one after the other.
    pub fn merge(&mut self, other: &Outcome) {
        let cpu_us =
            self.generator_cpu_us * self.counts.answered as f64 + other.generator_cpu_us * other.counts.answered as f64;
        self.counts.merge(&other.counts);
        self.latency.merge(&other.latency);
        self.warmup_latency.merge(&other.warmup_latency);
        self.connect.merge(&other.connect);
        self.lag.merge(&other.lag);
        self.seconds += other.seconds;
        self.requests_per_second = self.counts.in_window as f64 / self.seconds.max(f64::MIN_POSITIVE);
        self.content_bytes_per_second = self.counts.content_bytes as f64 / self.seconds.max(f64::MIN_POSITIVE);
        self.per_second.extend(&other.per_second);
        self.generator_cpu_us = cpu_us / (self.counts.answered as f64).max(1.0);
        self.threads.extend(&other.threads);
        for doubt in &other.doubts {
            if !self.doubts.contains(doubt) {
                self.doubts.push(doubt.clone());
            }
        }
        self.first_wrong = self.first_wrong.take().or_else(|| other.first_wrong.clone());
    }

    pub(super) fn add_counts(&mut self, counts: &Counts) {
        self.counts.merge(counts);
    }
}
