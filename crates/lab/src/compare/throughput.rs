//! Load for a time, with the server's processor time, context switches and memory beside it; and a shorter load after
//! it, once for each server and point, in which its system calls are counted, because counting takes time itself.

use std::time::Duration;

use super::prepare::Site;
use super::{Bench, Failure, Values};
use crate::load::Outcome;
use crate::load::plan::Plan;
use crate::perf::{Counting, NotCounted};
use crate::process::Server;
use crate::scenario::Point;

/// Length of the load under which system calls are counted.
const COUNTED: Duration = Duration::from_millis(200);

/// Load without measuring anything.
pub(super) fn load(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
    length: Duration,
) -> Result<Outcome, Failure> {
    let plan = site.plan(point, server, bench.options);
    bench.execute(&Plan { duration: Some(length), ..plan }, |_| {})
}

/// One measurement. `counts`: with system calls and all context switches, those of ended threads included.
pub(super) fn measure(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
    counts: bool,
) -> Result<(Values, Vec<String>), Failure> {
    let (cpu, switches) = (server.cpu_time(), server.context_switches());
    let outcome = load(bench, point, site, server, Duration::from_secs_f64(bench.seconds))?;
    let cpu_us = (server.cpu_time().saturating_sub(cpu)).as_secs_f64() * 1e6;
    let switches = server.context_switches().saturating_sub(switches);
    if outcome.counts.answered == 0 {
        return Err(Failure::Server("it answered nothing".to_owned()));
    }
    let answers = outcome.counts.answered as f64;
    let mut values = of_outcome(&outcome);
    let mut put = |name: &str, value: f64| values.insert(name.to_owned(), value);
    put("cpu_us", cpu_us / answers);
    put("context_switches", switches as f64 / answers);
    put("memory_mib", server.memory_bytes() as f64 / f64::from(1 << 20));
    if point.load.new_connections {
        put("connections_per_second", outcome.requests_per_second);
    }
    let mut doubts: Vec<String> = outcome.doubts.iter().map(|doubt| doubt.title().to_owned()).collect();
    if counts && bench.shows("system_calls") {
        match count(bench, point, site, server)? {
            Ok(counted) => values.extend(counted),
            Err(error) => doubts.push(error.to_string()),
        }
    }
    Ok((values, doubts))
}

/// System calls and context switches by answer.
fn count(bench: &Bench, point: &Point, site: &Site, server: &Server) -> Result<Result<Values, NotCounted>, Failure> {
    let output = bench.options.work.join(format!("counts-{}", server.address.port()));
    let counting = match Counting::begin(&server.processes(), &output) {
        Ok(counting) => counting,
        Err(error) => return Ok(Err(error)),
    };
    let answers = load(bench, point, site, server, COUNTED)?.counts.answered.max(1) as f64;
    Ok(counting.end(&output).map(|counted| {
        let by_answer = |name: &str, count: u64| (name.to_owned(), count as f64 / answers);
        [by_answer("system_calls", counted.system_calls), by_answer("context_switches", counted.context_switches)]
            .into()
    }))
}

/// The load generator's values.
fn of_outcome(outcome: &Outcome) -> Values {
    let ms = |ns: f64| ns / 1e6;
    let latency = &outcome.latency;
    let mean_s = latency.mean_ns() / 1e9;
    let content_bits = outcome.counts.content_bytes as f64 * 8.0 / (outcome.counts.in_window as f64).max(1.0);
    let values = [
        ("requests_per_second", outcome.requests_per_second),
        ("megabits_per_second", outcome.content_bytes_per_second * 8.0 / 1e6),
        ("client_megabits_per_second", content_bits / mean_s.max(1e-9) / 1e6),
        ("latency_mean_ms", ms(latency.mean_ns())),
        ("latency_p50_ms", ms(latency.quantile_ns(0.5) as f64)),
        ("latency_p99_ms", ms(latency.quantile_ns(0.99) as f64)),
        ("errors", outcome.counts.failures() as f64),
        ("generator_cpu_us", outcome.generator_cpu_us),
    ];
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
