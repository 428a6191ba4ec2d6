//! Memory that a silent connection holds in the server: the difference that thousands of them make, by their number.
//!
//! The kernel's own memory for sockets is not in it; it is the same for all servers.

use std::time::Duration;

use super::prepare::Site;
use super::{Bench, Failure, Values};
use crate::load::plan::{Pace, Plan};
use crate::process::Server;
use crate::scenario::Point;

/// Connections that ask beforehand, so that what every server makes once is made.
const WARM_CONNECTIONS: usize = 64;

/// For how long: a server that chooses its engine by the load has chosen, and made what that one needs.
const WARM: Duration = Duration::from_secs(3);

/// When memory is looked at, after all connections have been answered.
const SETTLED: Duration = Duration::from_millis(800);

/// One measurement.
pub(super) fn measure(
    bench: &Bench,
    point: &Point,
    site: &Site,
    server: &Server,
) -> Result<(Values, Vec<String>), Failure> {
    let plan = site.plan(point, server, bench.options);
    let warm = Plan { connections: WARM_CONNECTIONS, duration: Some(WARM), ..plan.clone() };
    bench.execute(&warm, |_| {})?;
    std::thread::sleep(Duration::from_millis(300));
    let before = server.memory_bytes();
    let count = point.load.connections;
    let mut after = None;
    // One connection asks once, so that the job has a length; all others are idle.
    let held = Plan {
        connections: 1,
        idle_connections: count,
        pace: Pace::Closed { think: Duration::from_secs(60) },
        duration: Some(SETTLED * 2),
        threads: 1,
        ..plan
    };
    let outcome = bench.execute(&held, |progress| {
        if progress.elapsed > SETTLED && after.is_none() {
            after = Some(server.memory_bytes());
        }
    })?;
    let established = outcome.counts.connections.saturating_sub(outcome.counts.idle_closed + 1);
    if established < count as u64 {
        return Err(Failure::Server(format!("it holds {established} of {count} connections only")));
    }
    let bytes = after.unwrap_or(before).saturating_sub(before) as f64 / count as f64;
    Ok(([("bytes_per_connection".to_owned(), bytes)].into(), Vec::new()))
}
