//! A grid of scenarios: every combination of the listed values. Points run in parallel; a point's result does not
//! depend on which others run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::run::{Outcome, in_parallel, run_with};
use crate::scenario::{Scenario, ScenarioError};

/// A base scenario and what varies. An empty list leaves the base's value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sweep {
    /// Everything that does not vary. One replication of it runs on one thread.
    pub base: Scenario,
    /// See [`Scenario::workload`]. If set and `system_memory_bytes` is not, profiles take the paper's memory for them.
    pub workloads: Vec<String>,
    /// See [`Scenario::architecture`].
    pub architectures: Vec<Kind>,
    /// See [`Scenario::processors`].
    pub processors: Vec<u32>,
    /// See [`Scenario::clients`].
    pub clients: Vec<u32>,
    /// See [`Scenario::system_memory_bytes`].
    pub system_memory_bytes: Vec<u64>,
    /// See [`Scenario::data_set_bytes`].
    pub data_set_bytes: Vec<u64>,
    /// See [`Scenario::disk`].
    pub disks: Vec<String>,
}

impl Sweep {
    /// All points, the last list varying fastest.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let mut points = vec![self.base.clone()];
        points = vary(points, &self.workloads, |point, value| {
            point.workload = value.clone();
            if let Some(profile) = crate::workload::Profile::named(value) {
                point.system_memory_bytes = profile.system_memory_bytes;
            }
        });
        points = vary(points, &self.system_memory_bytes, |point, value| point.system_memory_bytes = *value);
        points = vary(points, &self.disks, |point, value| point.disk = value.clone());
        points = vary(points, &self.data_set_bytes, |point, value| point.data_set_bytes = *value);
        points = vary(points, &self.clients, |point, value| point.clients = *value);
        points = vary(points, &self.architectures, |point, value| point.architecture = *value);
        vary(points, &self.processors, |point, value| point.processors = *value)
    }
}

/// Runs `scenarios` on up to `jobs` threads. `progress` hears, after each point, how many are done, and of how many.
pub fn sweep(
    scenarios: &[Scenario],
    parameters: &Parameters,
    jobs: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Vec<Outcome>, ScenarioError> {
    let mut workloads = HashMap::new();
    for scenario in scenarios {
        let key = (scenario.workload.clone(), scenario.data_set_bytes);
        if let Entry::Vacant(vacant) = workloads.entry(key) {
            vacant.insert(scenario.load_workload()?);
        }
    }
    let done = Mutex::new(0);
    let outcomes = in_parallel(scenarios.len(), jobs, |index| {
        let scenario = &scenarios[index];
        let workload = &workloads[&(scenario.workload.clone(), scenario.data_set_bytes)];
        let outcome = run_with(scenario, parameters, workload, 1);
        // A panic elsewhere does not make the count wrong.
        let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *done += 1;
        progress(*done, scenarios.len());
        outcome
    });
    outcomes.into_iter().collect()
}

/// Every architecture on one scenario, in the order of [`Kind::ALL`]; the scenario's own architecture is ignored.
pub fn compare(
    base: &Scenario,
    parameters: &Parameters,
    jobs: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Vec<Outcome>, ScenarioError> {
    let point = |architecture| Scenario { architecture, ..base.clone() };
    sweep(&Kind::ALL.map(point), parameters, jobs, progress)
}

fn vary<T>(points: Vec<Scenario>, values: &[T], set: impl Fn(&mut Scenario, &T)) -> Vec<Scenario> {
    if values.is_empty() {
        return points;
    }
    let with = |point: &Scenario, value: &T| {
        let mut point = point.clone();
        set(&mut point, value);
        point
    };
    points.iter().flat_map(|point| values.iter().map(move |value| with(point, value)).collect::<Vec<_>>()).collect()
}
