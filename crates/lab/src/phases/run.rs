//! The record of one engine's life under the six loads: plain data that is written as JSON and read again.

use serde::{Deserialize, Serialize};

use crate::load::histogram::Histogram;
use crate::machine::Machine;

/// Length of a step of [`PhaseRun::series`], in milliseconds.
pub const STEP_MS: u64 = 250;

/// One server's life.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// As in `--arch`.
    pub engine: String,
    /// Digest of the circumstances: runs of the same digest can be compared.
    pub digest: String,
    /// When it was begun, in seconds since 1970: runs of the same turn took turns phase by phase.
    pub turn_s: u64,
    /// The machine.
    pub machine: Machine,
    /// The version that the program reports.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Length of each phase.
    pub seconds: f64,
    /// Reads a second that the server's disk did at most.
    pub read_iops: Option<u32>,
    /// Processors of the server; none: any.
    pub server_processors: Vec<usize>,
    /// Processors of the load generator; none: any.
    pub client_processors: Vec<usize>,
    /// In their order.
    pub phases: Vec<PhaseRun>,
    /// The server's messages about itself during the measurement.
    pub said: Vec<Said>,
}

/// A line of the server's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Since the beginning of the first phase; exact to a twentieth of a second.
    pub at_s: f64,
    /// The line.
    pub line: String,
}

impl Said {
    /// The engine that the line says to serve, if it does. It may be the same as before, with more threads.
    fn serving(&self) -> Option<&str> {
        let (engine, _) = self.line.strip_prefix("lamna: ")?.split_once(" serves: ")?;
        (!engine.contains(' ')).then_some(engine)
    }
}

/// The changes of engine among these lines, and to what, of a server that began with [`FIRST`].
pub fn switches(said: &[Said]) -> Vec<(&Said, &str)> {
    let mut current = FIRST;
    let lines = said.iter().filter_map(|said| Some((said, said.serving()?)));
    lines.filter(|(_, engine)| std::mem::replace(&mut current, engine) != *engine).collect()
}

/// The engine with which `auto` begins.
const FIRST: &str = "amped";

/// One phase of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseRun {
    /// Name of the phase.
    pub phase: String,
    /// Since the beginning of the first phase.
    pub began_s: f64,
    /// The first two seconds.
    pub settling: Part,
    /// The rest.
    pub steady: Part,
    /// Connections that were held open, where that is part of the phase.
    pub held: Option<u64>,
    /// Share of the time that the busiest thread of the load generator ran, 0 to 1.
    pub generator_busy: f64,
    /// Good answers a second in each step of [`STEP_MS`].
    pub series: Vec<f64>,
    /// Reasons why a part of the load was not made.
    pub problems: Vec<String>,
}

/// The measurements of a part of a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// Its length.
    pub seconds: f64,
    /// Answers with status 200.
    pub answered: f64,
    /// CPU time of the server, in seconds.
    pub cpu_s: f64,
    /// Latencies of clients that ask as fast as they are answered.
    pub load: Latencies,
    /// Latencies of the visitor, who asks at times that do not depend on the server.
    pub visitor: Latencies,
}

impl Part {
    /// Good answers a second.
    pub fn per_second(&self) -> f64 {
        self.answered / self.seconds.max(1e-9)
    }

    /// CPU time of the server for each good answer, in microseconds.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_s * 1e6 / self.answered.max(1.0)
    }
}

/// How long answers took, and how many there were not.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    /// Latencies of all answers.
    pub answers: Histogram,
    /// Answers among them that were not what was asked for.
    pub refused: u64,
    /// Requests without an answer, those never sent among them.
    pub unanswered: u64,
}

impl Latencies {
    /// Adds others.
    pub fn merge(&mut self, other: &Latencies) {
        self.answers.merge(&other.answers);
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }

    /// Requests that were not answered as they should have been.
    pub fn failed(&self) -> u64 {
        self.refused + self.unanswered
    }

    /// The time within which `share` of all requests had a good answer, in nanoseconds; none if fewer ever had.
    /// Refusals count as no answer, and are taken for the fastest of those that came.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let answers = self.answers.count();
        let needed = share * (answers + self.unanswered) as f64 + self.refused as f64;
        (answers > 0 && needed <= answers as f64).then(|| self.answers.quantile_ns(needed / answers as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_engine_are_told_from_other_lines() {
        let said = |line: &str| Said { at_s: 0.0, line: line.to_owned() };
        let lines = [
            "lamna: serving /srv at http://127.0.0.1:8080 (auto: amped, 1 worker)",
            "lamna: amped serves: 24 helpers at most instead of 16 for each worker.",
            "lamna: proactor serves: proactor might cost less than amped under cached load.",
            "lamna: proactor serves: 2 workers instead of 1.",
            "lamna: amped serves: not worth a change.",
        ];
        let said = lines.map(said);
        let engines: Vec<&str> = switches(&said).into_iter().map(|(_, engine)| engine).collect();
        assert_eq!(engines, ["proactor", "amped"]);
    }

    #[test]
    fn who_refuses_or_keeps_silent_has_no_short_tail() {
        let mut latencies = Latencies::default();
        (1..=100).for_each(|ms| latencies.answers.record(ms * 1_000_000));
        let p90_ms = |latencies: &Latencies| latencies.quantile_ns(0.9).map(|ns| (ns as f64 / 1e6).round());
        assert_eq!(p90_ms(&latencies), Some(90.0));
        latencies.unanswered = 5;
        assert_eq!(p90_ms(&latencies), Some(95.0));
        latencies.refused = 5;
        assert_eq!(p90_ms(&latencies), Some(100.0));
        latencies.unanswered = 20;
        assert_eq!(p90_ms(&latencies), None);
    }
}
