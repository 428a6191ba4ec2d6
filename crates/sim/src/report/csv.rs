//! Outcomes as CSV, one line a point. Columns carry their units; rates are shares of one.

use std::fmt::Write;

use crate::run::Outcome;

const HEADER: &str = "parameters,workload,data_set_bytes,architecture,processors,workers,system_memory_bytes,\
data_cache_bytes,disk,clients,policy,replications,requests,seed,requests_per_s,requests_per_s_half_width,\
megabits_per_s,latency_mean_us,latency_p50_us,latency_p99_us,hit_ratio,byte_hit_ratio,translation_miss_ratio,\
processor_utilisation,disk_utilisation,link_utilisation,switches_per_request,reads_per_request,contention,\
lock_waited_us,bottleneck";

/// A header line and a line for each outcome.
pub fn csv(outcomes: &[Outcome]) -> String {
    let mut text = format!("{HEADER}\n");
    for outcome in outcomes {
        let point = &outcome.scenario;
        let half_width = outcome.requests_per_s.half_width.map_or(String::new(), |width| format!("{width:.2}"));
        let bottleneck = format!("{:?}", outcome.bottleneck).to_lowercase();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.2},{},{:.3},{:.1},{:.1},{:.1},{:.6},{:.6},{:.6},{:.4},{:.4},{:.4},{:.4},{:.6},{:.5},{:.2},{}",
            outcome.parameters,
            point.workload,
            point.data_set_bytes,
            point.architecture,
            point.processors,
            point.workers(),
            point.system_memory_bytes,
            outcome.data_cache_bytes,
            point.disk,
            point.clients,
            point.policy.0,
            point.replications,
            point.requests,
            point.seed,
            outcome.requests_per_s.mean,
            half_width,
            outcome.megabits_per_s,
            outcome.latency_mean_us,
            outcome.latency_p50_us,
            outcome.latency_p99_us,
            outcome.hit_ratio,
            outcome.byte_hit_ratio,
            outcome.translation_miss_ratio,
            outcome.processor_utilisation,
            outcome.disk_utilisation,
            outcome.link_utilisation,
            outcome.switches_per_request,
            outcome.reads_per_request,
            outcome.contention,
            outcome.lock_waited_us,
            bottleneck,
        );
    }
    text
}
