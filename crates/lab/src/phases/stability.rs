//! Loads that stay as they are for minutes: how often a server that chooses its engine changes its mind.
//!
//! Owns: the two loads and the count. Requests come at a rate that the server can bear, so that other work on the
//! machine changes the figures but not the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::measure::{self, listen};
use super::run::{Said, switches};
use super::workload::{Site, at_rate};
use super::{AUTO, Options, PhasesError};
use crate::cgroup::{Groups, Limits};
use crate::compare::Watcher;
use crate::load;

/// After this a constant load has to have been understood.
pub const UNDERSTOOD: Duration = Duration::from_secs(30);

/// A load that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constant {
    /// Small files on connections that persist.
    Steady,
    /// Half of the requests come on connections of their own: between two kinds of load, and under either of them
    /// engines that cost the same.
    Boundary,
}

/// The outcome.
#[derive(Clone, Debug)]
pub struct Stability {
    /// How long it was.
    pub length: Duration,
    /// Changes of the engine, in their order.
    pub switches: Vec<Said>,
    /// Requests that went wrong.
    pub failures: u64,
    /// Requests that were answered.
    pub answered: u64,
}

impl Stability {
    /// Changes after the time in which a load has to have been understood.
    pub fn late(&self) -> usize {
        self.switches.iter().filter(|switch| switch.at_s > UNDERSTOOD.as_secs_f64()).count()
    }

    /// The most changes within any minute.
    pub fn most_in_a_minute(&self) -> usize {
        let within = |from: &Said| {
            self.switches.iter().filter(|switch| (from.at_s..from.at_s + 60.0).contains(&switch.at_s)).count()
        };
        self.switches.iter().map(within).max().unwrap_or(0)
    }
}

/// Loads a fresh server that chooses its engine with `rate` requests a second for `length`.
///
/// # Errors
/// If the server or the load cannot be started, or it was asked to stop.
pub fn run(
    constant: Constant,
    rate: f64,
    length: Duration,
    options: &Options,
    watcher: &mut dyn Watcher,
) -> Result<Stability, PhasesError> {
    let site = Site::build(&options.work).map_err(PhasesError::Site)?;
    let groups =
        Groups::new(&Limits::default(), &site.directory).map_err(|error| PhasesError::Server(error.to_string()))?;
    let (server, mut output) = measure::start(AUTO, options, &site, &groups).map_err(PhasesError::Server)?;
    let plans = at_rate(constant, rate, &site, server.address, length, &options.client_processors);
    let (began, stopped, mut said) = (Instant::now(), AtomicBool::new(false), Vec::new());
    let outcomes = thread::scope(|scope| {
        let go_on = |_| !stopped.load(Ordering::Relaxed);
        let threads: Vec<_> = plans.iter().map(|plan| scope.spawn(move || load::run(plan, &mut { go_on }))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(100));
            let before = said.len();
            listen(&mut output, &mut said, began);
            said[before..].iter().for_each(|said: &Said| watcher.say(&format!("{:7.1} s {}", said.at_s, said.line)));
            stopped.store(watcher.is_stopped(), Ordering::Relaxed);
        }
        // What a server sends is a value, never a panic.
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<Vec<_>, _>>()
    });
    if watcher.is_stopped() {
        return Err(PhasesError::Stopped);
    }
    let outcomes = outcomes.map_err(|error| PhasesError::Server(error.to_string()))?;
    Ok(Stability {
        length: began.elapsed(),
        switches: switches(&said).into_iter().map(|(said, _)| said.clone()).collect(),
        failures: outcomes.iter().map(|outcome| outcome.counts.failures()).sum(),
        answered: outcomes.iter().map(|outcome| outcome.counts.answered).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_from_when_the_load_has_to_be_understood() {
        let said = |at_s| Said { at_s, line: "lamna: amped serves: so".into() };
        let switches = [1.0, 29.0, 31.0, 60.0, 95.0].map(said).to_vec();
        let stability = Stability { length: Duration::from_secs(600), switches, failures: 0, answered: 1 };
        assert_eq!((stability.late(), stability.most_in_a_minute()), (3, 4));
    }
}
