//! The outcome of a job for people.

use std::fmt::Write as _;

use lamna_policy::words::count;

use super::outcome::Outcome;

/// Several lines; the doubts come last, where they are seen.
pub fn summary(outcome: &Outcome) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    _ = write_summary(&mut text, outcome);
    text
}

fn write_summary(text: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let counts = &outcome.counts;
    let asked = outcome.rate_asked.map_or(String::new(), |rate| format!(" of {rate:.0} asked"));
    writeln!(
        text,
        "  Requests      {:.0}/s{asked}, {} measured in {:.2} s",
        outcome.requests_per_second, counts.measured, outcome.seconds
    )?;
    writeln!(text, "  Content       {}/s", bytes(outcome.content_bytes_per_second))?;
    let latency = &outcome.latency;
    let quantiles = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];
    write!(text, "  Latency       ")?;
    for (name, share) in quantiles {
        write!(text, "{name} {}  ", duration(latency.quantile_ns(share) as f64))?;
    }
    writeln!(text, "max {}  mean {}", duration(latency.max_ns() as f64), duration(latency.mean_ns()))?;
    let connect = &outcome.connect;
    writeln!(
        text,
        "  Connections   {} established, p50 {}, max {}",
        counts.connections,
        duration(connect.quantile_ns(0.5) as f64),
        duration(connect.max_ns() as f64)
    )?;
    let statuses: Vec<String> = counts.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    writeln!(
        text,
        "  Answers       {} to {} ({})",
        counts.answered,
        count(counts.requests, "request"),
        statuses.join(", ")
    )?;
    let failures = [
        ("wrong content", counts.wrong_content),
        ("timed out", counts.timed_out),
        ("connection lost", counts.lost),
        ("not HTTP", counts.malformed),
        ("unanswered at the end", counts.unanswered),
        ("never sent", counts.unsent),
        ("could not connect", counts.refused),
        ("sent again after the server closed", counts.resent),
        ("idle connections closed by the server", counts.idle_closed),
    ];
    for (what, count) in failures.iter().filter(|(_, count)| *count > 0) {
        writeln!(text, "  {count} {what}")?;
    }
    if let Some(wrong) = &outcome.first_wrong {
        writeln!(text, "  First difference in content: {wrong}")?;
    }
    let busy: Vec<String> = outcome.threads.iter().map(|thread| format!("{:.0} %", thread.busy * 100.0)).collect();
    writeln!(
        text,
        "  Generator     {:.2} us of CPU for each answer, threads busy {}",
        outcome.generator_cpu_us,
        busy.join(", ")
    )?;
    for doubt in &outcome.doubts {
        writeln!(text, "  Doubt: {doubt}")?;
    }
    Ok(())
}

/// A duration in the unit that leaves one to three digits before the point.
pub fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.1} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// A number of bytes in decimal units.
pub fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes if bytes < 1e9 => format!("{:.1} MB", bytes / 1e6),
        bytes => format!("{:.2} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fit_the_magnitude() {
        assert_eq!([1.0, 1.5e3, 2.5e6, 3e9].map(duration), ["1 ns", "1.5 us", "2.50 ms", "3.00 s"]);
        assert_eq!([1.0, 1.5e3, 2.5e6, 3e9].map(bytes), ["1 B", "1.5 kB", "2.5 MB", "3.00 GB"]);
    }
}
