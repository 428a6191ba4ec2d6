//! `lamna ctl trace`: waits for the next request for a URL, and tells what each step of the running server has made of
//! it.
//!
//! Owns: the waiting. Guarantees: ends when the request is answered, when the time is over, or when another trace or
//! another process takes the place of this one. Sends no request itself: that is the client's, with its own fields,
//! certificate and address.

use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use lamna_server::admin::trace::{TraceReport, TraceState};
use lamna_server::content::explain::Asked;

use crate::exit::{Exit, Failed};
use crate::explain;

/// Where a trace is ordered.
pub(crate) const START: &str = "/v1/trace";
/// Where its report is.
pub(crate) const REPORT: &str = "/v1/trace/report";

/// How often a server is asked for its report.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long a request that has come is waited for beyond the time: somebody may be asked whether it is let in.
const GRACE: Duration = Duration::from_secs(10);

/// The target of a trace of `url`.
///
/// # Errors
/// It is no URL, or no request has its path.
pub(crate) fn asked(url: &str) -> Result<Asked, Failed> {
    let asked = explain::asked(url)?;
    let usage = |report| Failed { exit: Exit::Usage, report: format!("lamna: {report}") };
    asked.path().map_err(usage)?;
    Ok(asked)
}

/// The last report of the trace that `begun` reports of, by asking for it with `report` again and again.
///
/// # Errors
/// No request has come in `wait`, another trace has been begun, another process has taken over, or the server cannot be
/// asked.
pub(crate) fn follow(
    begun: &str,
    wait: Duration,
    report: impl Fn() -> Result<String, Failed>,
) -> Result<String, Failed> {
    let refused = |report: &str| Failed { exit: Exit::Failure, report: format!("lamna: {report}") };
    let read = |text: &str| {
        let report: Result<TraceReport, _> = serde_json::from_str(text);
        report.map_err(|error| refused(&format!("the server's report cannot be read: {error}")))
    };
    let TraceReport { pid, number, .. } = read(begun)?;
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "lamna: waiting up to {} s for a request", wait.as_secs());
    let begun = Instant::now();
    loop {
        thread::sleep(INTERVAL);
        let text = report()?;
        let now = read(&text)?;
        let is_late = begun.elapsed() > wait;
        match now.state {
            _ if now.pid != pid => return Err(refused("another process has taken over from the one that was traced")),
            _ if now.number != number => return Err(refused("another trace has taken the place of this one")),
            TraceState::Over => return Ok(text),
            TraceState::Begun if begun.elapsed() > wait + GRACE => return Ok(text),
            TraceState::Begun => {}
            TraceState::Waiting if !is_late => {}
            TraceState::Waiting | TraceState::Idle => return Err(refused("no request for it has come")),
        }
    }
}

/// A report for people.
pub(crate) fn tell(json: &str) -> Option<String> {
    serde_json::from_str::<TraceReport>(json).ok().map(|report| report.to_string())
}
