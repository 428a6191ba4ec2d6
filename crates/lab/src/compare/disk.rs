//! A hot file while others read cold files from a slow disk.
//!
//! First the hot file alone; then, with all files forgotten by the kernel and sixteen connections asking for cold ones,
//! the hot file again. Names of the cold files stay in the kernel's memory, so what a server loses by opening files is
//! smaller here than on a machine that has just started.

use std::thread;
use std::time::Duration;

use super::prepare::Site;
use super::{Bench, Failure, Values};
use crate::load::plan::Plan;
use crate::process::Server;
use crate::scenario::Point;

/// Length of the measurement of the hot file alone.
const ALONE: Duration = Duration::from_secs(2);

/// The cold readers begin so long before the measurement, and go on as long after it.
const LEAD: Duration = Duration::from_millis(1500);

/// One measurement.
pub(super) fn measure(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
) -> Result<(Values, Vec<String>), Failure> {
    let hot = site.plan(point, server, bench.options);
    let for_time = |duration| Plan { duration: Some(duration), ..hot.clone() };
    bench.execute(&for_time(Duration::from_millis(700)), |_| {})?;
    let alone = bench.execute(&for_time(ALONE), |_| {})?;
    site.evict();
    // The hot file comes back before the cold ones are asked for.
    bench.execute(&for_time(Duration::from_millis(300)), |_| {})?;
    let length = Duration::from_secs_f64(bench.seconds);
    let seed = u64::from(server.address.port());
    let cold = Plan { duration: Some(LEAD * 2 + length), ..site.cold_plan(server, bench.options, seed) };
    let (busy, cold) = thread::scope(|scope| {
        let cold = scope.spawn(|| crate::load::run(&cold, &mut |_| true));
        thread::sleep(LEAD);
        let busy = bench.execute(&for_time(length), |_| {});
        (busy, cold.join().expect("no panic"))
    });
    let busy = busy?;
    let cold = cold.map_err(|error| Failure::Server(error.to_string()))?;
    let good_cold = cold.counts.statuses.get(&200).copied().unwrap_or(0) as f64 / cold.seconds.max(1e-9);
    let values = [
        ("hot_alone_per_second", alone.requests_per_second),
        ("hot_per_second", busy.requests_per_second),
        ("hot_kept", busy.requests_per_second / alone.requests_per_second.max(1e-9)),
        ("hot_p50_ms", busy.latency.quantile_ns(0.5) as f64 / 1e6),
        ("hot_p99_ms", busy.latency.quantile_ns(0.99) as f64 / 1e6),
        ("cold_per_second", good_cold),
        ("errors", (busy.counts.failures() + cold.counts.failures()) as f64),
    ];
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok((values, busy.doubts.iter().map(|doubt| doubt.title().to_owned()).collect()))
}
