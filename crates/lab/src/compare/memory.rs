//! A trace as fast as it is answered, with less memory than its files have bytes and a slow disk; beside it a hot file.
//!
//! The trace begins with a server that has just been started and files that are not in memory, but for the hot one,
//! which has been asked for: its first request has to wait for the disk, and so have other clients meanwhile, whatever
//! the server. Both go on for a fixed time. How many requests of the trace are answered in it says how well memory is
//! used and how few reads a miss takes; the hot file, asked for at a small rate whatever the server does, says whether
//! requests that need no disk wait for those that do. The trace is asked for in its order over all connections, and
//! from the beginning again when it ends.

use std::thread;
use std::time::Duration;

use super::prepare::Site;
use super::{Bench, Failure, Values};
use crate::cgroup::Groups;
use crate::load::plan::Plan;
use crate::process::Server;
use crate::scenario::Point;

/// Requests a second for the hot file: far fewer than any server answers, enough for a 99th percentile.
const HOT_PER_SECOND: f64 = 50.0;

/// Length of the load by the hot file alone: a few requests on each of its connections.
const HOT_FIRST: Duration = Duration::from_millis(500);

const MIB: f64 = (1 << 20) as f64;

/// One measurement.
pub(super) fn measure(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
    groups: &Groups,
) -> Result<(Values, Vec<String>), Failure> {
    // Starting has not read any of the site, building it may have.
    site.evict();
    let duration = Some(Duration::from_secs_f64(bench.seconds));
    let trace = Plan { duration, ..site.plan(point, server, bench.options) };
    let hot = Plan { duration, ..site.hot_plan(server, bench.options, HOT_PER_SECOND) };
    bench.execute(&Plan { duration: Some(HOT_FIRST), ..hot.clone() }, |_| {})?;
    let (before, cpu) = (groups.usage(), server.cpu_time());
    let (outcome, hot) = thread::scope(|scope| {
        let hot = scope.spawn(|| crate::load::run(&hot, &mut |_| true));
        (bench.execute(&trace, |_| {}), hot.join().expect("no panic"))
    });
    let (outcome, after) = (outcome?, groups.usage());
    let hot = hot.map_err(|error| Failure::Server(error.to_string()))?;
    if after.oom_kills == 0 {
        bench.verify(point, site, server).map_err(Failure::Server)?;
    }
    let answers = (outcome.counts.answered as f64).max(1.0);
    let reads = (after.reads - before.reads) as f64;
    let cpu_us = server.cpu_time().saturating_sub(cpu).as_secs_f64() * 1e6;
    let values = [
        ("requests_per_second", outcome.requests_per_second),
        ("megabits_per_second", outcome.content_bytes_per_second * 8.0 / 1e6),
        ("latency_p99_ms", outcome.latency.quantile_ns(0.99) as f64 / 1e6),
        ("reads_per_second", reads / outcome.seconds.max(1e-9)),
        ("reads_per_request", reads / answers),
        ("cpu_us", cpu_us / answers),
        ("hot_p50_ms", hot.latency.quantile_ns(0.5) as f64 / 1e6),
        ("hot_p99_ms", hot.latency.quantile_ns(0.99) as f64 / 1e6),
        ("hot_max_ms", hot.latency.max_ns() as f64 / 1e6),
        ("errors", (outcome.counts.failures() + hot.counts.failures()) as f64),
        ("oom_kills", after.oom_kills as f64),
        ("memory_peak_mib", after.memory_peak_bytes as f64 / MIB),
        ("own_memory_mib", after.own_bytes as f64 / MIB),
        ("page_cache_mib", after.page_cache_bytes as f64 / MIB),
    ];
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok((values, outcome.doubts.iter().map(|doubt| doubt.title().to_owned()).collect()))
}
