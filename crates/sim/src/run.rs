//! Runs one scenario: independent replications, in parallel, and what they have in common.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lamna_policy::stats::{Histogram, Interval, Moments};
use serde::{Deserialize, Serialize};

use crate::arch::Kind;
use crate::machine::{Machine, Observation};
use crate::parameters::Parameters;
use crate::scenario::{Scenario, ScenarioError, disk_of};
use crate::workload::Workload;

/// A mean and the half width of its 95 % confidence interval; `null` in JSON where one replication tells nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over the replications.
    pub mean: f64,
    /// In the same unit.
    pub half_width: Option<f64>,
}

impl From<Interval> for Estimate {
    fn from(interval: Interval) -> Self {
        Estimate { mean: interval.mean, half_width: Some(interval.half_width).filter(|width| width.is_finite()) }
    }
}

/// The outcome of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The scenario.
    pub scenario: Scenario,
    /// Name of the parameter set.
    pub parameters: String,
    /// The data cache that a process sees, after the division of memory.
    pub data_cache_bytes: u64,
    /// Completed requests per second.
    pub requests_per_s: Estimate,
    /// Content sent, in 10^6 bits per second.
    pub megabits_per_s: f64,
    /// Mean latency of a request, from issue to completion, in microseconds.
    pub latency_mean_us: f64,
    /// Median.
    pub latency_p50_us: f64,
    /// 99 of 100 are faster.
    pub latency_p99_us: f64,
    /// The slowest.
    pub latency_max_us: f64,
    /// Requests found in the data cache, as a share.
    pub hit_ratio: f64,
    /// Requests not found there but in the page cache, as a share of all.
    #[serde(default)]
    pub page_hit_ratio: f64,
    /// Bytes found in the data cache, as a share.
    pub byte_hit_ratio: f64,
    /// Paths not found in the translation cache, as a share.
    pub translation_miss_ratio: f64,
    /// Share of time that a processor works, switches included.
    pub processor_utilisation: f64,
    /// Share of the disk's places that are taken.
    pub disk_utilisation: f64,
    /// Share of time that the link sends.
    pub link_utilisation: f64,
    /// Processor time of the server for each request, in microseconds.
    #[serde(default)]
    pub server_us: f64,
    /// The part of that on the processor of clients that are on the same machine.
    #[serde(default)]
    pub beside_us: f64,
    /// Processor time of clients on the same machine for each request, in microseconds.
    #[serde(default)]
    pub load_us: f64,
    /// Switches per request.
    pub switches_per_request: f64,
    /// Times that a task of the server's left a processor, for another or to sleep, per request.
    #[serde(default)]
    pub departures_per_request: f64,
    /// Reads from disk per request.
    pub reads_per_request: f64,
    /// Requests to the disk that these are made of, per request.
    #[serde(default)]
    pub disk_requests_per_request: f64,
    /// Lock acquisitions that had to wait, as a share.
    pub contention: f64,
    /// Time waited for locks per request, in microseconds.
    pub lock_waited_us: f64,
    /// The resource that limits the throughput.
    pub bottleneck: Bottleneck,
    /// Calendar events of all replications.
    pub events: u64,
}

/// The resource that limits the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bottleneck {
    /// They work more than nine tenths of the time.
    Processors,
    /// Its places are taken more than nine tenths of the time.
    Disk,
    /// It sends more than nine tenths of the time.
    Link,
    /// Nothing is busy: tasks wait for one another, for locks or for a stalled loop.
    Waiting,
}

impl Bottleneck {
    /// For people.
    pub fn in_words(self) -> &'static str {
        match self {
            Bottleneck::Processors => "the processors",
            Bottleneck::Disk => "the disk",
            Bottleneck::Link => "the link",
            Bottleneck::Waiting => "waiting for one another",
        }
    }
}

/// Runs `scenario` with up to `jobs` threads.
pub fn run(scenario: &Scenario, parameters: &Parameters, jobs: usize) -> Result<Outcome, ScenarioError> {
    let workload = scenario.load_workload()?;
    run_with(scenario, parameters, &workload, jobs)
}

/// The same with a workload that is loaded already; it must be the scenario's.
pub fn run_with(
    scenario: &Scenario,
    parameters: &Parameters,
    workload: &Workload,
    jobs: usize,
) -> Result<Outcome, ScenarioError> {
    scenario.check()?;
    let disk = disk_of(parameters, &scenario.disk)?;
    let data_cache_bytes = data_cache_bytes(scenario, parameters);
    let replications = scenario.replications as usize;
    let observations = in_parallel(replications, jobs, |replication| {
        // Seeds far apart, so that the replications of neighbouring seeds are not the same.
        let seed = scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(replication as u64);
        let mut machine = Machine::new(scenario, parameters, disk, workload, data_cache_bytes, seed);
        scenario.architecture.run(scenario, parameters, &mut machine)
    });
    Ok(summarise(scenario, parameters, data_cache_bytes, &observations))
}

/// The data cache that one process sees.
pub fn data_cache_bytes(scenario: &Scenario, parameters: &Parameters) -> u64 {
    match scenario.data_cache_bytes {
        0 => Kind::divide(scenario.architecture, scenario, parameters).data_cache_bytes,
        bytes => bytes,
    }
}

/// Calls `work` with 0..`count` on up to `jobs` threads; the results in order.
pub(crate) fn in_parallel<T: Send>(count: usize, jobs: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return done;
            }
            done.push((index, work(index)));
        }
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..jobs.min(count)).map(|_| scope.spawn(worker)).collect();
        let mut results = worker();
        for other in others {
            results.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|&(index, _)| index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn summarise(
    scenario: &Scenario,
    parameters: &Parameters,
    data_cache_bytes: u64,
    observations: &[Observation],
) -> Outcome {
    let mean = |value: fn(&Observation) -> f64| observations.iter().map(value).collect::<Moments>().mean();
    let throughput: Moments = observations.iter().map(|o| o.completed as f64 * 1e9 / o.elapsed as f64).collect();
    let mut latency = Histogram::new();
    observations.iter().for_each(|observation| latency.merge(&observation.latency));
    let microseconds = |nanos: u64| nanos as f64 / 1e3;
    let processor_utilisation = mean(|o| o.processor_utilisation);
    let disk_utilisation = mean(|o| o.disk_utilisation);
    let link_utilisation = mean(|o| o.link_utilisation);
    let busiest = [
        (processor_utilisation, Bottleneck::Processors),
        (disk_utilisation, Bottleneck::Disk),
        (link_utilisation, Bottleneck::Link),
    ]
    .into_iter()
    .max_by(|a, b| a.0.total_cmp(&b.0));
    Outcome {
        scenario: scenario.clone(),
        parameters: parameters.name.clone(),
        data_cache_bytes,
        requests_per_s: throughput.interval().into(),
        megabits_per_s: mean(|o| o.bytes as f64 * 8e3 / o.elapsed as f64),
        latency_mean_us: mean(|o| o.latency_mean) / 1e3,
        latency_p50_us: microseconds(latency.quantile(0.5)),
        latency_p99_us: microseconds(latency.quantile(0.99)),
        latency_max_us: microseconds(latency.max()),
        hit_ratio: mean(|o| o.hit_ratio),
        page_hit_ratio: mean(|o| o.page_hit_ratio),
        byte_hit_ratio: mean(|o| o.byte_hit_ratio),
        translation_miss_ratio: mean(|o| o.translation_miss_ratio),
        processor_utilisation,
        disk_utilisation,
        link_utilisation,
        server_us: mean(|o| o.server_time) / 1e3,
        beside_us: mean(|o| o.beside_time) / 1e3,
        load_us: mean(|o| o.load_time) / 1e3,
        switches_per_request: mean(|o| o.switches_per_request),
        departures_per_request: mean(|o| o.departures_per_request),
        reads_per_request: mean(|o| o.reads_per_request),
        disk_requests_per_request: mean(|o| o.disk_requests_per_request),
        contention: mean(|o| o.contention),
        lock_waited_us: mean(|o| o.lock_waited_per_request) / 1e3,
        bottleneck: busiest.filter(|&(share, _)| share > 0.9).map_or(Bottleneck::Waiting, |(_, what)| what),
        events: observations.iter().map(|observation| observation.events).sum(),
    }
}
