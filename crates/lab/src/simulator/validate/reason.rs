//! Why a line of the table is not within its bounds: which counters of the trial differ from the prediction's.
//!
//! Owns: the rules. Guarantees: says only what the trial and the prediction show; what caused the difference is not its
//! business.

use super::Row;
use crate::simulator::trial::{FOREIGN_MAX, processors};

/// A counter differs if it is so far from what was predicted.
const DIFFERENT: f64 = 0.1;
/// Requests to the disk are few, and so vary more.
const DISK_DIFFERENT: f64 = 0.15;
const SWITCHES_DIFFERENT: f64 = 0.3;

/// In words; nothing if the line is within its bounds.
pub(super) fn reason(row: &Row) -> String {
    if row.holds() {
        return String::new();
    }
    let (seen, predicted) = (&row.observed, &row.predicted);
    let load_us = seen.load_us - seen.vain_us;
    let mut parts = Vec::new();
    if seen.foreign > FOREIGN_MAX {
        parts.push(match row.engine {
            "thread-per-request" => "the kernel's own threads, or others, worked, too".to_owned(),
            _ => "disturbed by others".to_owned(),
        });
    }
    let mut counter = |what: &str, found: f64, expected: f64, bound: f64, digits: usize| {
        let differs = (found - expected).abs() > bound * expected.max(found).max(1e-9);
        if differs {
            parts.push(format!("{what} {found:.digits$} where {expected:.digits$} were predicted"));
        }
    };
    counter("us of the server's processor time a request:", row.server_us(), predicted.server_us, DIFFERENT, 1);
    counter("us of the load's:", load_us, predicted.load_us, DIFFERENT, 1);
    if seen.disk_reads.max(predicted.disk_requests_per_request) > DISK_LEAST {
        counter(
            "requests to the disk a request:",
            seen.disk_reads,
            predicted.disk_requests_per_request,
            DISK_DIFFERENT,
            4,
        );
    }
    if seen.switches.max(predicted.departures_per_request) > SWITCHES_LEAST && seen.switches > 0.0 {
        counter("switches a request:", seen.switches, predicted.departures_per_request, SWITCHES_DIFFERENT, 2);
    }
    let busy_us = (row.server_us() + load_us) * seen.requests_per_s / processors() as f64 / 1e4;
    let busy_predicted =
        (predicted.server_us + predicted.load_us) * predicted.requests_per_s.mean / processors() as f64 / 1e4;
    if (busy_us - busy_predicted).abs() > 100.0 * DIFFERENT {
        parts.push(format!("processors {busy_us:.0} % busy for it where {busy_predicted:.0} were predicted"));
    }
    if parts.is_empty() {
        return "no counter by itself: several small differences".into();
    }
    parts.join("; ")
}

/// Fewer requests to the disk for each request of a client are next to none.
const DISK_LEAST: f64 = 0.005;
/// So few switches a request cost nothing.
const SWITCHES_LEAST: f64 = 0.2;
