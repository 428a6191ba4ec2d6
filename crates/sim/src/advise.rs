//! Advice for a machine and a log: which architecture, policy and number of workers, what limits, and what to buy next.
//!
//! Every statement is a difference between two simulations of the same requests, with its confidence interval; how far the
//! parameter set is from the machine in question is not in that interval, and is said beside it.

use std::cell::Cell;
use std::fmt;

use lamna_policy::cache::Algorithm;
use serde::Serialize;

use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::run::{Outcome, run_with};
use crate::scenario::{PolicyName, Scenario, ScenarioError};
use crate::workload::Workload;

/// What is asked.
#[derive(Clone)]
pub struct Question {
    /// Usually a log; see [`crate::workload::read_log`].
    pub workload: Workload,
    /// Of the machine.
    pub processors: u32,
    /// What the server may use of its memory.
    pub memory_bytes: u64,
    /// A disk of the parameter set.
    pub disk: String,
    /// Requests under way at once.
    pub clients: u32,
    /// Measured in each simulation. More make the intervals narrower.
    pub requests: u64,
}

/// What is advised. Outcomes carry their scenarios.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Every architecture with LRU and a worker for each processor, best first.
    pub architectures: Vec<Outcome>,
    /// Every policy under the best architecture, best first.
    pub policies: Vec<Outcome>,
    /// Numbers of workers under both, best first. One element where the architecture has no workers.
    pub workers: Vec<Outcome>,
    /// What one change of the machine would bring to the best of all that, best first.
    pub investments: Vec<Investment>,
    /// Where the costs come from.
    pub source: String,
}

/// A change of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Investment {
    /// In words.
    pub what: String,
    /// How many more requests per second, as a share.
    pub gain: f64,
    /// The outcome with it.
    pub outcome: Outcome,
}

/// Simulates what is needed for an answer: about thirty runs. `progress` hears how many are done, and of about how many.
pub fn advise(
    question: &Question,
    parameters: &Parameters,
    jobs: usize,
    progress: impl Fn(usize, usize),
) -> Result<Advice, ScenarioError> {
    let base = Scenario {
        workload: question.workload.name.clone(),
        processors: question.processors,
        system_memory_bytes: question.memory_bytes,
        disk: question.disk.clone(),
        clients: question.clients,
        requests: question.requests,
        warm_up_requests: question.requests,
        replications: 3,
        ..Default::default()
    };
    let done = Cell::new(0);
    let about = Kind::ALL.len() + Algorithm::ALL.len() + WORKER_COUNTS + PURCHASES;
    let simulate_one = |scenario: &Scenario| {
        let outcome = run_with(scenario, parameters, &question.workload, jobs);
        done.set(done.get() + 1);
        progress(done.get(), about.max(done.get()));
        outcome
    };
    let simulate = |scenarios: Vec<Scenario>| ranked(&scenarios, simulate_one);
    let architectures =
        simulate(Kind::ALL.iter().map(|&architecture| Scenario { architecture, ..base.clone() }).collect())?;
    let best = architectures[0].scenario.clone();
    let with_policy = |&algorithm: &Algorithm| Scenario { policy: PolicyName(algorithm), ..best.clone() };
    let policies = simulate(Algorithm::ALL.iter().map(with_policy).collect())?;
    let best = policies[0].scenario.clone();
    let workers =
        simulate(worker_counts(&best).into_iter().map(|workers| Scenario { workers, ..best.clone() }).collect())?;
    let best = &workers[0];
    let mut investments = Vec::new();
    for (what, scenario) in purchases(&best.scenario, parameters) {
        let outcome = simulate_one(&scenario)?;
        let gain = outcome.requests_per_s.mean / best.requests_per_s.mean - 1.0;
        investments.push(Investment { what, gain, outcome });
    }
    investments.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(Advice { architectures, policies, workers, investments, source: parameters.source.clone() })
}

/// At most so many numbers of workers are tried, and so many changes of the machine.
const WORKER_COUNTS: usize = 3;
const PURCHASES: usize = 3;

fn ranked(
    scenarios: &[Scenario],
    simulate: impl Fn(&Scenario) -> Result<Outcome, ScenarioError>,
) -> Result<Vec<Outcome>, ScenarioError> {
    let outcomes: Result<Vec<_>, _> = scenarios.iter().map(simulate).collect();
    let mut outcomes = outcomes?;
    outcomes.sort_by(|a, b| b.requests_per_s.mean.total_cmp(&a.requests_per_s.mean));
    Ok(outcomes)
}

fn worker_counts(scenario: &Scenario) -> Vec<u32> {
    use Kind::{Mp, ThreadPerRequest, ThreadPerSession, ThreadPool};
    if matches!(scenario.architecture, Mp | ThreadPool | ThreadPerRequest | ThreadPerSession) {
        return vec![scenario.workers];
    }
    let processors = scenario.processors;
    let mut counts = vec![processors.div_ceil(2), processors, processors * 2];
    counts.dedup();
    counts
}

fn purchases(best: &Scenario, parameters: &Parameters) -> Vec<(String, Scenario)> {
    let mut purchases = vec![
        (
            format!("{} processors", best.processors * 2),
            Scenario { processors: best.processors * 2, workers: best.workers * 2, ..best.clone() },
        ),
        (
            format!("{:.1} GiB of memory", best.system_memory_bytes as f64 * 2.0 / f64::from(1 << 30)),
            Scenario { system_memory_bytes: best.system_memory_bytes * 2, ..best.clone() },
        ),
    ];
    let latency = |name: &str| parameters.disks.get(name).map_or(f64::INFINITY, |disk| disk.latency_us);
    // The next faster disk only: what comes after that is another purchase.
    let faster = parameters.disks.keys().filter(|name| latency(name) < latency(&best.disk));
    if let Some(disk) = faster.max_by(|a, b| latency(a).total_cmp(&latency(b))) {
        purchases.push((format!("disk {disk}"), Scenario { disk: disk.clone(), ..best.clone() }));
    }
    purchases
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = &self.workers[0];
        let scenario = &best.scenario;
        writeln!(
            f,
            "{} with {} and {} workers, {:.1} MiB of data cache: {} requests/s, half of them within {:.0} us, 99 % within {:.0} us",
            scenario.architecture,
            scenario.policy.0,
            scenario.workers(),
            best.data_cache_bytes as f64 / f64::from(1 << 20),
            rate(best),
            best.latency_p50_us,
            best.latency_p99_us
        )?;
        writeln!(
            f,
            "limited by {}: processors {:.0} %, disk {:.0} %, link {:.0} % busy; {:.2} % of requests found in memory",
            best.bottleneck.in_words(),
            best.processor_utilisation * 100.0,
            best.disk_utilisation * 100.0,
            best.link_utilisation * 100.0,
            best.hit_ratio * 100.0
        )?;
        let empty: Vec<_> = self.architectures.iter().filter(|outcome| outcome.data_cache_bytes == 0).collect();
        if !empty.is_empty() {
            let names: Vec<_> = empty.iter().map(|outcome| outcome.scenario.architecture.name()).collect();
            writeln!(f, "so little memory is full before there is any data cache: {}", names.join(", "))?;
        }
        let level: Vec<_> =
            self.architectures.iter().skip(1).filter(|other| is_level(&self.architectures[0], other)).collect();
        if !level.is_empty() {
            let names: Vec<_> = level.iter().map(|outcome| outcome.scenario.architecture.name()).collect();
            writeln!(f, "as good as {}, as far as can be told: {}", scenario.architecture, names.join(", "))?;
        }
        writeln!(f, "\nThe next investment:")?;
        for investment in &self.investments {
            writeln!(
                f,
                "  {:24} {:+6.1} %  ({})",
                investment.what,
                investment.gain * 100.0,
                rate(&investment.outcome)
            )?;
        }
        writeln!(f, "\nArchitectures (lru, a worker for each processor):")?;
        list(f, &self.architectures, |outcome| outcome.scenario.architecture.to_string())?;
        writeln!(f, "Policies:")?;
        list(f, &self.policies, |outcome| outcome.scenario.policy.0.to_string())?;
        writeln!(f, "Workers:")?;
        list(f, &self.workers, |outcome| outcome.scenario.workers().to_string())?;
        write!(
            f,
            "\n+- is the 95 % interval of the simulation. Not in it: how far the costs are from your machine's\n({}).\n\
             Differences below 5 % should decide nothing.",
            self.source
        )
    }
}

/// Whether the difference is no more than what should decide nothing.
fn is_level(best: &Outcome, other: &Outcome) -> bool {
    other.requests_per_s.mean > best.requests_per_s.mean * (1.0 - DECIDES)
}

/// Costs are not known so well that a smaller share of the throughput should decide anything.
const DECIDES: f64 = 0.05;

fn list(f: &mut fmt::Formatter<'_>, outcomes: &[Outcome], name: fn(&Outcome) -> String) -> fmt::Result {
    outcomes.iter().try_for_each(|outcome| {
        writeln!(f, "  {:24} {:>20} requests/s  {:.2} % hits", name(outcome), rate(outcome), outcome.hit_ratio * 100.0)
    })
}

fn rate(outcome: &Outcome) -> String {
    match outcome.requests_per_s.half_width {
        Some(width) => format!("{:.0} +- {width:.0}", outcome.requests_per_s.mean),
        None => format!("{:.0}", outcome.requests_per_s.mean),
    }
}
