//! The value of a parameter with which the model of a trial takes what the trial took.
//!
//! Owns: the models of the trials, and the search. Guarantees: a function of the parameter set and of what was
//! observed; a cost that another parameter has in the model already is not counted a second time.

use std::iter;
use std::ops::Range;

use lamna_policy::cache::Algorithm;
use lamna_sim::arch::Kind;
use lamna_sim::parameters::Parameters;
use lamna_sim::run::{Outcome, run_with};
use lamna_sim::scenario::{PolicyName, Scenario};
use lamna_sim::workload::Workload;

use super::name::{
    COLD_BYTES, COLD_EACH, COLD_SIZES, CONNECTIONS, COPIED_BYTES, COPIED_FILES, LIMIT_BYTES, LIMITED_CACHE_BYTES,
    LONG_FILES, MANY_FILES, Name, SIZES, VARIED_EACH,
};
use super::site::mixed_files;
use crate::simulator::limited::{page_cache_bytes, replaces_page_cache};
use crate::simulator::trial::processors;

/// A trial as the models meet it.
pub(super) struct Model {
    scenario: Scenario,
    workload: Workload,
}

impl Model {
    /// The model of a trial on one file that is in memory, or on long ones that helpers copy.
    pub(super) fn of(name: Name) -> Model {
        let bytes = match name {
            Name::Size(size) | Name::Shared(size) | Name::Content(_, size) => size,
            _ => SIZES[0],
        };
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
            // Turns of two workers and the load are long.
            requests: if name.workers() > 1 { 60_000 } else { 20_000 },
            warm_up_requests: 2_000,
            replications: 1,
            ..Scenario::default()
        };
        let architecture = if scenario.architecture == Kind::Sped { Kind::EventLoops } else { scenario.architecture };
        match name {
            Name::Copied => Model {
                scenario: Scenario {
                    data_cache_bytes: LIMITED_CACHE_BYTES,
                    page_cache_bytes: LIMIT_BYTES - LIMITED_CACHE_BYTES,
                    replaces_page_cache: true,
                    requests: 2_000,
                    warm_up_requests: 200,
                    ..scenario
                },
                workload: Workload::independent("calibrate", vec![COPIED_BYTES; COPIED_FILES], vec![1.0; COPIED_FILES]),
            },
            Name::Long | Name::LongBy(_) => Model {
                scenario: Scenario {
                    architecture,
                    data_cache_bytes: name.cache_bytes(),
                    page_cache_bytes: 1 << 30,
                    ..scenario
                },
                workload: between_answers(COLD_SIZES[2], LONG_FILES),
            },
            Name::Varied => {
                let sizes: Vec<u64> = mixed_files().into_iter().step_by(VARIED_EACH).collect();
                let popularity = vec![1.0; sizes.len()];
                Model {
                    scenario: Scenario { architecture, data_cache_bytes: name.cache_bytes(), ..scenario },
                    workload: Workload::independent("calibrate", sizes, popularity),
                }
            }
            Name::Many(_) => Model {
                scenario: Scenario { architecture, data_cache_bytes: name.cache_bytes(), ..scenario },
                workload: Workload::independent("calibrate", vec![SIZES[0]; MANY_FILES], vec![1.0; MANY_FILES]),
            },
            _ => Model {
                scenario: Scenario { architecture, ..scenario },
                workload: Workload::log("calibrate", vec![bytes], vec![0]),
            },
        }
    }

    /// The model of a trial on files of which its control group cannot hold all. `parameters` say how many it can.
    pub(super) fn limited(name: Name, parameters: &Parameters) -> Model {
        let bytes = match name {
            Name::Missed(size) => size,
            Name::MissedLongerBy(_) => COLD_SIZES[1],
            Name::MissedByStages => COLD_SIZES[2],
            _ => COLD_SIZES[0],
        };
        let mut scenario = Scenario {
            data_cache_bytes: name.cache_bytes(),
            separate_caches: name.architecture() == "mp",
            policy: PolicyName(Algorithm::Gdsf),
            requests: 40_000,
            ..Model::of(name).scenario
        };
        scenario.replaces_page_cache = replaces_page_cache(scenario.architecture, LIMITED_CACHE_BYTES, LIMIT_BYTES);
        scenario.page_cache_bytes = page_cache_bytes(&scenario, LIMIT_BYTES, parameters);
        Model { scenario, workload: between_answers(bytes, (COLD_BYTES / bytes) as usize) }
    }

    /// The same where each client belongs to this worker.
    pub(super) fn with_clients(mut self, client_workers: &[u32]) -> Model {
        self.scenario.client_workers = client_workers.to_vec();
        self
    }

    /// The value `of` the outcome with one value `set` in the parameters; infinite if that set cannot be simulated.
    fn with(
        &self,
        value: f64,
        parameters: &Parameters,
        set: &impl Fn(&mut Parameters, f64),
        of: fn(&Outcome) -> f64,
    ) -> f64 {
        let mut parameters = parameters.clone();
        set(&mut parameters, value);
        run_with(&self.scenario, &parameters, &self.workload, 1).map_or(f64::INFINITY, |outcome| of(&outcome))
    }
}

/// The smallest file, and one time of [`COLD_EACH`] one of `files` of so many bytes.
fn between_answers(bytes: u64, files: usize) -> Workload {
    let sizes = iter::once(SIZES[0]).chain((0..files).map(|_| bytes)).collect();
    let weights = iter::once((COLD_EACH - 1) as f64).chain((0..files).map(|_| 1.0 / files as f64)).collect();
    Workload::independent("calibrate", sizes, weights)
}

const CACHE_BYTES: u64 = 1 << 20;

/// The value, in microseconds, with which the server takes `target_us` of processor time for each request; 0 if it
/// takes as much without.
pub(super) fn solve(parameters: &Parameters, model: &Model, target_us: f64, set: impl Fn(&mut Parameters, f64)) -> f64 {
    solve_between(0.0..bound(target_us), parameters, model, target_us, set)
}

/// The upper bound of a parameter: it cannot add more than all, unless not every request pays it.
pub(super) fn bound(target_us: f64) -> f64 {
    target_us * f64::from(CONNECTIONS)
}

/// The same within bounds.
pub(super) fn solve_between(
    bounds: Range<f64>,
    parameters: &Parameters,
    model: &Model,
    target_us: f64,
    set: impl Fn(&mut Parameters, f64),
) -> f64 {
    solve_for(|outcome| outcome.server_us, bounds, parameters, model, target_us, set)
}

/// The value with which the load takes `target_us`, likewise.
pub(super) fn solve_load(
    parameters: &Parameters,
    model: &Model,
    target_us: f64,
    set: impl Fn(&mut Parameters, f64),
) -> f64 {
    solve_for(|outcome| outcome.load_us, 0.0..bound(target_us), parameters, model, target_us, set)
}

/// The value within `bounds` with which this time `of` the outcome is `target_us`.
pub(super) fn solve_for(
    of: fn(&Outcome) -> f64,
    bounds: Range<f64>,
    parameters: &Parameters,
    model: &Model,
    target_us: f64,
    set: impl Fn(&mut Parameters, f64),
) -> f64 {
    bisect(bounds, target_us, |us| model.with(us, parameters, &set, of))
}

/// The share of threads, at most `most`, that have to wait for the median latency to be what it was: who does not wait
/// passes them.
pub(super) fn solve_waiting(most: f64, parameters: &Parameters, model: &Model, latency_p50_us: f64) -> f64 {
    let set = |set: &mut Parameters, passing| set.costs.spawn_waiting = 1.0 - passing;
    let passing = |passing| model.with(passing, parameters, &set, |outcome| outcome.latency_p50_us);
    1.0 - bisect(1.0 - most..1.0, latency_p50_us, passing)
}

/// Where within `bounds` a time that grows with a parameter reaches `target_us`; the bound if it does so beyond.
fn bisect(bounds: Range<f64>, target_us: f64, time_us: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (bounds.start, bounds.end);
    if time_us(low) >= target_us {
        return low;
    }
    for _ in 0..STEPS {
        let middle = (low + high) / 2.0;
        if time_us(middle) < target_us { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Halvings: to a hundredth of a microsecond and less.
const STEPS: u32 = 16;
