//! Metrics of a server, by name.
//!
//! Owns: names, titles, units, and which direction is better. A sample is a map from these names to numbers, so that a
//! result file says itself what is in it.

/// Something measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// In scenarios and results.
    pub name: &'static str,
    /// In tables and plots.
    pub title: &'static str,
    /// Its unit; empty for plain numbers.
    pub unit: &'static str,
    /// Whether less is better.
    pub less_is_better: bool,
}

const fn metric(name: &'static str, title: &'static str, unit: &'static str, less_is_better: bool) -> Metric {
    Metric { name, title, unit, less_is_better }
}

/// All of them.
pub static METRICS: &[Metric] = &[
    metric("cpu_us", "CPU time per request", "us", true),
    metric("requests_per_second", "Requests a second", "1/s", false),
    metric("connections_per_second", "Connections a second", "1/s", false),
    metric("megabits_per_second", "Server throughput", "Mb/s", false),
    metric("client_megabits_per_second", "Throughput of a client", "Mb/s", false),
    metric("latency_mean_ms", "Mean latency", "ms", true),
    metric("latency_p50_ms", "Median latency", "ms", true),
    metric("latency_p99_ms", "99th percentile of latency", "ms", true),
    metric("context_switches", "Context switches per request", "", true),
    metric("system_calls", "System calls per request", "", true),
    metric("reading_us", "Reading requests", "us", true),
    metric("writing_us", "Writing files", "us", true),
    metric("files_us", "File operations", "us", true),
    metric("synchronization_us", "Synchronization", "us", true),
    metric("switching_us", "Waiting and context switching", "us", true),
    metric("http_us", "HTTP processing", "us", true),
    metric("logging_us", "Logging", "us", true),
    metric("ring_us", "Carried out by a ring", "us", true),
    metric("other_us", "Closing connections and other", "us", true),
    metric("trace_factor", "CPU time under the trace, as a multiple", "", true),
    metric("memory_mib", "Memory", "MiB", true),
    metric("errors", "Failed requests", "", true),
    metric("generator_cpu_us", "CPU time of the generator per request", "us", true),
    metric("bytes_per_connection", "Memory per idle connection", "B", true),
    metric("hot_alone_per_second", "Hot requests a second, alone", "1/s", false),
    metric("hot_per_second", "Hot requests a second beside cold ones", "1/s", false),
    metric("hot_kept", "Share of the hot rate kept", "", false),
    metric("hot_p50_ms", "Median latency of hot requests", "ms", true),
    metric("hot_p99_ms", "99th percentile of hot requests", "ms", true),
    metric("hot_max_ms", "Longest hot request", "ms", true),
    metric("reads_per_second", "Disk reads a second", "1/s", false),
    metric("reads_per_request", "Disk reads per request", "", true),
    metric("memory_peak_mib", "Most memory, page cache included", "MiB", true),
    metric("own_memory_mib", "Memory of the processes at the end", "MiB", true),
    metric("page_cache_mib", "Page cache at the end", "MiB", true),
    metric("oom_kills", "Processes killed for want of memory", "", true),
    metric("cold_per_second", "Cold requests a second", "1/s", false),
];

impl Metric {
    /// The metric called `name`.
    pub fn named(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Title and unit.
    pub fn label(&self) -> String {
        if self.unit.is_empty() { self.title.to_owned() } else { format!("{} ({})", self.title, self.unit) }
    }
}

/// A number with three significant digits, as far as they are before or behind the point.
pub fn format_number(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{number:.2}"),
        size if size >= 0.01 => format!("{number:.3}"),
        _ => format!("{number:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let cases = [(12345.6, "12346"), (12.34, "12.3"), (1.234, "1.23"), (0.1234, "0.123"), (0.0, "0.00")];
        for (number, text) in cases {
            assert_eq!(format_number(number), text);
        }
    }
}
