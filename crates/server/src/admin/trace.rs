//! The trace of one request, as the endpoint tells it.
//!
//! Owns: the order, and the report. Does not take down what steps say: workers do (`lamna_engine`).

use std::fmt;
use std::time::Duration;

use lamna_engine::worker::context::target_of;
use lamna_proto::time::Instant;
use lamna_site::content::explain::Asked;
use lamna_sys::metrics::trace::{Phase, TARGET_BYTES_MAX, Trace};
use serde::{Deserialize, Serialize};

/// How long a server waits for the request at most.
pub const WAIT_MAX: Duration = Duration::from_secs(3600);

/// A request to be traced: the next one for this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceOrder {
    /// The host and the path; the query does not matter.
    pub asked: Asked,
    /// How long to wait for it, in seconds.
    pub wait_s: u64,
}

/// The report on a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceReport {
    /// The process that is traced. One that takes over from it knows nothing of its traces.
    pub pid: u32,
    /// Counts from one.
    pub number: u64,
    /// How far it has come.
    pub state: TraceState,
    /// The words of the steps, in order: `NAME: WORDS`.
    pub lines: Vec<String>,
}

/// How far a trace has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TraceState {
    /// None was begun, or no request came in time.
    Idle,
    /// No request has come yet.
    Waiting,
    /// A request has come, and something is still being found out about it.
    Begun,
    /// It is known what answers.
    Over,
}

/// Begins what `order` says, at `now`. Returns the number of the trace.
///
/// # Errors
/// No request has this host or this target, or they are too long.
pub fn start(trace: &Trace, order: &TraceOrder, now: Instant) -> Result<u64, String> {
    let host = order.asked.host_name()?.unwrap_or_default();
    let target = target_of(host.as_bytes(), &order.asked.path()?);
    let wait = Duration::from_secs(order.wait_s).min(WAIT_MAX);
    let until = Instant::from_ms(now.ms() + wait.as_millis() as u64);
    trace.start(&target, until).ok_or_else(|| format!("host and path may have {TARGET_BYTES_MAX} bytes at most"))
}

/// The report on the trace that was begun last.
pub fn report(trace: &Trace) -> TraceReport {
    let (number, phase, account) = trace.read();
    let state = match phase {
        Phase::Idle => TraceState::Idle,
        Phase::Waiting => TraceState::Waiting,
        Phase::Claimed => TraceState::Begun,
        Phase::Over => TraceState::Over,
    };
    TraceReport { pid: std::process::id(), number, state, lines: account.lines().map(str::to_owned).collect() }
}

impl fmt::Display for TraceReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = || self.lines.iter().filter_map(|line| line.split_once(": "));
        let width = parts().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, words) in parts() {
            writeln!(formatter, "{name:width$}  {words}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_sys::shared_memory::SharedMemory;

    fn order(host: Option<&str>, target: &str) -> TraceOrder {
        TraceOrder {
            asked: Asked { host: host.map(str::to_owned), target: target.to_owned(), ..Asked::default() },
            wait_s: 10,
        }
    }

    #[test]
    fn a_target_is_normalised_and_waited_for() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        assert_eq!(report(&trace).state, TraceState::Idle);
        assert_eq!(start(&trace, &order(Some("Site.Test:8080"), "/a/../%62?c"), Instant::from_ms(1)), Ok(1));
        assert_eq!(trace.target(), b"site.test\0/b");
        let pid = std::process::id();
        assert_eq!(report(&trace), TraceReport { pid, number: 1, state: TraceState::Waiting, lines: Vec::new() });
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        let trace = SharedMemory::<Trace>::zeroed().unwrap();
        for target in ["/%zz".to_owned(), format!("/{}", "a".repeat(3000))] {
            assert!(start(&trace, &order(None, &target), Instant::from_ms(1)).is_err(), "{target}");
        }
        assert!(start(&trace, &order(Some("a.test:65536"), "/"), Instant::from_ms(1)).is_err());
    }

    #[test]
    fn lines_are_a_table() {
        let lines = ["site: a", "limits of users: passes"].map(str::to_owned).into();
        let report = TraceReport { pid: 1, number: 1, state: TraceState::Over, lines };
        assert_eq!(report.to_string(), "site             a\nlimits of users  passes\n");
    }
}
