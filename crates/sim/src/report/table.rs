//! Outcomes as a table for a terminal, one line an architecture.

use lamna_policy::words::{Align, Table};

use crate::run::Outcome;

/// A header line and a line for each outcome.
pub fn table(outcomes: &[Outcome]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[Left, Right, Right, Right, Right, Right, Right, Right, Left]);
    table.row(["architecture", "requests/s", "+-", "p50 us", "p99 us", "hits %", "cpu %", "disk %", "bottleneck"]);
    for o in outcomes {
        table.row([
            o.scenario.architecture.name().to_owned(),
            format!("{:.0}", o.requests_per_s.mean),
            format!("{:.0}", o.requests_per_s.half_width.unwrap_or(f64::NAN)),
            format!("{:.0}", o.latency_p50_us),
            format!("{:.0}", o.latency_p99_us),
            format!("{:.2}", o.hit_ratio * 100.0),
            format!("{:.1}", o.processor_utilisation * 100.0),
            format!("{:.1}", o.disk_utilisation * 100.0),
            format!("{:?}", o.bottleneck),
        ]);
    }
    table.to_string()
}
