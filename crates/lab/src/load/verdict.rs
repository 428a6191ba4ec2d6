//! Whether the figures are those of the server: reasons for doubt, by rule.
//!
//! The rules and their bounds are here and nowhere else. A doubt does not make a figure wrong; it says what else it may
//! be.

use std::fmt;

use lamna_policy::words;
use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// A thread that runs for more of the time than this has no reserve.
const BUSY_MAX: f64 = 0.95;

/// Waiting for a processor for more of the time than this shows in latencies.
const STARVED_MAX: f64 = 0.10;

/// Sending later than this (99 of 100) counts, if it is also a tenth of the latency.
const LAG_NS_MAX: u64 = 1_000_000;

/// Requests that found no free connection, as a share.
const WAITED_MAX: f64 = 0.01;

/// A reason for doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Doubt {
    /// A thread of the generator ran without a pause.
    GeneratorBusy {
        /// Share of the time, 0 to 1.
        busy: f64,
    },
    /// A thread of the generator waited for a processor.
    GeneratorStarved {
        /// Share of the time, 0 to 1.
        starved: f64,
    },
    /// The generator sent late although a connection was free.
    GeneratorLate {
        /// 99 of 100 were sent within this time.
        p99_ns: u64,
    },
    /// Requests waited for a free connection.
    TooFewConnections {
        /// Share of the requests, 0 to 1.
        waited: f64,
    },
    /// Requests that have no latency because they had no answer.
    Unanswered {
        /// How many.
        count: u64,
    },
}

impl Doubt {
    /// The same without its figures, for counting.
    pub fn title(&self) -> &'static str {
        match self {
            Doubt::GeneratorBusy { .. } => "the generator was the bottleneck",
            Doubt::GeneratorStarved { .. } => "the generator lacked a processor at times",
            Doubt::GeneratorLate { .. } => "the generator sent late",
            Doubt::TooFewConnections { .. } => "requests waited for a free connection",
            Doubt::Unanswered { .. } => "requests had no answer",
        }
    }

    /// Whether the generator was the bottleneck, rather than the job badly chosen or the server slow.
    pub fn is_of_generator(&self) -> bool {
        matches!(self, Doubt::GeneratorBusy { .. } | Doubt::GeneratorStarved { .. } | Doubt::GeneratorLate { .. })
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::GeneratorBusy { busy } => write!(
                f,
                "the generator was the bottleneck: a thread ran {:.0} % of the time. Use more --threads, or a machine of its own",
                busy * 100.0
            ),
            Doubt::GeneratorStarved { starved } => write!(
                f,
                "the generator lacked a processor {:.0} % of the time: latencies contain its waiting. \
                 Keep the server and others off its processors",
                starved * 100.0
            ),
            Doubt::GeneratorLate { p99_ns } => write!(
                f,
                "the generator sent late: 1 of 100 requests by more than {:.1} ms, which is in the latency",
                *p99_ns as f64 / 1e6
            ),
            Doubt::TooFewConnections { waited } => write!(
                f,
                "{:.1} % of the requests waited for a free connection, which is in the latency: \
                 the server is slower than the rate, or -c too small",
                waited * 100.0
            ),
            Doubt::Unanswered { count } => {
                let are = if *count == 1 { "is" } else { "are" };
                let requests = words::count(*count, "request");
                write!(f, "{requests} had no answer and {are} not in the latency, which is therefore a lower bound")
            }
        }
    }
}

/// All doubts about an outcome.
pub fn doubts(outcome: &Outcome) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let busy = outcome.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
    if busy > BUSY_MAX {
        doubts.push(Doubt::GeneratorBusy { busy });
    }
    let starved = outcome.threads.iter().filter_map(|thread| thread.starved).fold(0.0, f64::max);
    if starved > STARVED_MAX {
        doubts.push(Doubt::GeneratorStarved { starved });
    }
    let p99_ns = outcome.lag.quantile_ns(0.99);
    if p99_ns > LAG_NS_MAX && p99_ns > outcome.latency.quantile_ns(0.99) / 10 {
        doubts.push(Doubt::GeneratorLate { p99_ns });
    }
    let counts = &outcome.counts;
    let waited = counts.waited as f64 / (counts.requests + counts.unsent).max(1) as f64;
    if waited > WAITED_MAX {
        doubts.push(Doubt::TooFewConnections { waited });
    }
    let count = counts.unanswered + counts.unsent + counts.timed_out + counts.lost + counts.malformed;
    if count > 0 {
        doubts.push(Doubt::Unanswered { count });
    }
    doubts
}
