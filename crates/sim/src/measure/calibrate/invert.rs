//! The value of a parameter with which the model of a trial takes what the trial took.
//!
//! Owns: the models of the trials, and the search. Guarantees: a function of the parameter set and of what was observed; a cost that
//! another parameter has in the model already is not counted a second time.

use super::{CONNECTIONS, Name, SIZES};
use crate::arch::Kind;
use crate::measure::trial::{Observed, processors};
use crate::parameters::Parameters;
use crate::run::{Outcome, run_with};
use crate::scenario::Scenario;
use crate::workload::Workload;

/// A trial as the models meet it.
pub(super) struct Model {
    scenario: Scenario,
    workload: Workload,
}

impl Model {
    /// Of a trial on one file that is in memory.
    pub(super) fn of(name: Name) -> Model {
        let bytes = if let Name::Size(size) | Name::Shared(size) = name { size } else { SIZES[0] };
        let processors = processors() as u32;
        let scenario = Scenario {
            // Workers of `sped` share the cache.
            architecture: name.architecture().parse().unwrap_or(Kind::EventLoops),
            processors,
            data_cache_bytes: CACHE_BYTES,
            disk: "this".into(),
            clients: name.connections(),
            workers: name.workers(),
            clients_on_server: true,
            clients_spin: name.workers() == 1 && processors > 1,
            bound_workers: true,
            requests: 20_000,
            warm_up_requests: 2_000,
            replications: 1,
            ..Scenario::default()
        };
        let architecture = if scenario.architecture == Kind::Sped { Kind::EventLoops } else { scenario.architecture };
        let workload = Workload::log("calibrate", vec![bytes], vec![0]);
        Model { scenario: Scenario { architecture, ..scenario }, workload }
    }

    /// The same where each client belongs to this worker.
    pub(super) fn with_clients(mut self, client_workers: &[u32]) -> Model {
        self.scenario.client_workers = client_workers.to_vec();
        self
    }

    /// `None` if the set cannot be simulated.
    fn outcome(&self, parameters: &Parameters) -> Option<Outcome> {
        run_with(&self.scenario, parameters, &self.workload, 1).ok()
    }
}

const CACHE_BYTES: u64 = 1 << 20;

/// The value, in microseconds, with which the server takes `target_us` of processor time for each request; 0 if it takes as much
/// without.
pub(super) fn solve(parameters: &Parameters, model: &Model, target_us: f64, set: impl Fn(&mut Parameters, f64)) -> f64 {
    let server_us = |us: f64| {
        let mut parameters = parameters.clone();
        set(&mut parameters, us);
        model.outcome(&parameters).map_or(f64::INFINITY, |outcome| outcome.server_us)
    };
    // What one parameter adds cannot be more than all, unless not every request pays it.
    let (mut low, mut high) = (0.0, target_us * f64::from(CONNECTIONS));
    if server_us(low) >= target_us {
        return 0.0;
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if server_us(middle) < target_us { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Halvings: to a hundredth of a microsecond and less.
const STEPS: u32 = 16;

/// How the server and a load that sleeps share processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sharing {
    /// With which the models have the throughput of the trials. What Linux does depends on how much both have run before, and has
    /// no time of its own that could be read somewhere.
    pub(super) granularity_us: f64,
    /// What a switch between the two has to cost for the server to take the time that it took in the trials.
    pub(super) refill_us: f64,
    /// As in the set, but no more than explains that time without any `refill_us`: one client alone lets a processor sleep more
    /// deeply than many do.
    pub(super) rest_us: f64,
}

/// From trials in which a loop and the load share a processor.
pub(super) fn sharing(parameters: &Parameters, trials: &[(Model, Observed)]) -> Sharing {
    let tried = GRANULARITIES_US.map(|us| sharing_with(us, parameters, trials));
    let best = tried.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or_else(|| unreachable!("some are tried"), |(sharing, _)| sharing)
}

/// With this granularity; and how far the models' throughput is then from that of the trials.
fn sharing_with(granularity_us: f64, parameters: &Parameters, trials: &[(Model, Observed)]) -> (Sharing, f64) {
    let mut set = parameters.clone();
    set.processor.granularity_us = granularity_us;
    let mean = |set: &Parameters, change: fn(&mut Parameters, f64)| {
        let values = trials.iter().map(|(model, seen)| solve(set, model, seen.server_us, change));
        values.sum::<f64>() / trials.len().max(1) as f64
    };
    set.processor.refill_us = mean(&set, |set, us| set.processor.refill_us = us);
    if set.processor.refill_us == 0.0 {
        set.processor.rest_us = mean(&set, |set, us| set.processor.rest_us = us).min(parameters.processor.rest_us);
    }
    let errors = trials.iter().map(|(model, seen)| {
        // A set that cannot be simulated says nothing for any granularity.
        let predicted = model.outcome(&set).map_or(0.0, |outcome| outcome.requests_per_s.mean);
        (predicted / seen.requests_per_s).ln().abs()
    });
    let (refill_us, rest_us) = (set.processor.refill_us, set.processor.rest_us);
    (Sharing { granularity_us, refill_us, rest_us }, errors.sum())
}

/// Those that are tried, in steps of a half more.
const GRANULARITIES_US: [f64; 11] = [15.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0, 225.0, 340.0, 500.0, 700.0];
