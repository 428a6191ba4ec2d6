//! Advice for a machine and a log: which architecture, policy and number of workers, what limits, and what to buy next.
//!
//! Every statement is a difference between two simulations of the same requests. A difference that is no larger than
//! the uncertainty is not shown as one: that is the confidence interval of the two simulations together, and never less
//! than
//! [`DECIDES`], because the parameter set is at some distance from the machine in question.
//!
//! A machine that has more of something is compared at its own best architecture and number of workers, not at those of
//! the machine without it, which would suffocate it.

use std::cell::Cell;
use std::fmt;

use lamna_policy::cache::Algorithm;
use lamna_policy::words::{Align, Table, count};
use serde::Serialize;

use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::run::{Outcome, run_with};
use crate::scenario::{PolicyName, Scenario, ScenarioError};
use crate::workload::Workload;

/// A question for advice.
#[derive(Clone)]
pub struct Question {
    /// Usually a log; see [`crate::workload::read_log`].
    pub workload: Workload,
    /// Processors of the machine.
    pub processors: u32,
    /// Memory that the server may use.
    pub memory_bytes: u64,
    /// A disk of the parameter set.
    pub disk: String,
    /// Requests under way at once.
    pub clients: u32,
    /// Measured in each simulation. More make the intervals narrower.
    pub requests: u64,
}

/// Advice. Outcomes carry their scenarios.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// Every architecture with LRU and a worker for each processor, best first; but `amped` first of all if none is
    /// better by more than the uncertainty. Likewise below.
    pub architectures: Vec<Outcome>,
    /// Every policy under the best architecture, best first.
    pub policies: Vec<Outcome>,
    /// Numbers of workers under both, best first. One element where the architecture has no workers.
    pub workers: Vec<Outcome>,
    /// Gains of single changes of the machine over the best of all that, best first.
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
    /// How large a gain or loss has to be to say anything, as a share.
    pub uncertainty: f64,
    /// The best outcome with it: architecture and workers are chosen anew.
    pub outcome: Outcome,
}

/// Simulates what is needed for an answer: about seventy runs. `progress` hears how many are done, and of about how
/// many.
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
    let about = (Kind::ALL.len() + WORKER_COUNTS) * (1 + PURCHASES) + Algorithm::ALL.len();
    let simulate_one = |scenario: &Scenario| {
        let outcome = run_with(scenario, parameters, &question.workload, jobs);
        done.set(done.get() + 1);
        progress(done.get(), about.max(done.get()));
        outcome
    };
    let simulate = |scenarios: Vec<Scenario>| ranked(&scenarios, simulate_one);
    let architectures =
        simulate(Kind::ALL.iter().map(|&architecture| Scenario { architecture, ..base.clone() }).collect())?;
    let architectures = usual_first(architectures, is_usual_architecture);
    let best = architectures[0].scenario.clone();
    let with_policy = |&algorithm: &Algorithm| Scenario { policy: PolicyName(algorithm), ..best.clone() };
    let policies = simulate(Algorithm::ALL.iter().map(with_policy).collect())?;
    let policies = usual_first(policies, |scenario| scenario.policy.0 == Algorithm::Gdsf);
    let best = policies[0].scenario.clone();
    let workers = simulate(worker_counts(&best))?;
    let workers = usual_first(workers, is_usual_number);
    let best = &workers[0];
    let mut investments = Vec::new();
    for (what, scenario) in purchases(&best.scenario, parameters) {
        let with = |&architecture: &Kind| Scenario { architecture, workers: scenario.processors, ..scenario.clone() };
        let by_architecture = simulate(Kind::ALL.iter().map(with).collect())?;
        let by_architecture = usual_first(by_architecture, is_usual_architecture);
        let by_workers = simulate(worker_counts(&by_architecture[0].scenario))?;
        let outcome = usual_first(by_workers, is_usual_number).swap_remove(0);
        let gain = outcome.requests_per_s.mean / best.requests_per_s.mean - 1.0;
        investments.push(Investment { what, gain, uncertainty: uncertainty(best, &outcome), outcome });
    }
    investments.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(Advice { architectures, policies, workers, investments, source: parameters.source.clone() })
}

/// The first outcome that `is_usual` goes to the front if the best is not better by more than the uncertainty:
/// otherwise chance would choose among what is level. Usual are `amped`, the policy that Lamna has by default, and a
/// worker for each processor, as too few of them are what a machine with more of something else suffers from.
fn usual_first(mut outcomes: Vec<Outcome>, is_usual: impl Fn(&Scenario) -> bool) -> Vec<Outcome> {
    let at = outcomes.iter().position(|outcome| is_usual(&outcome.scenario) && is_level(&outcomes[0], outcome));
    if let Some(at) = at {
        outcomes[..=at].rotate_right(1);
    }
    outcomes
}

fn is_usual_architecture(scenario: &Scenario) -> bool {
    scenario.architecture == Kind::Amped
}

fn is_usual_number(scenario: &Scenario) -> bool {
    scenario.workers == scenario.processors
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

fn worker_counts(scenario: &Scenario) -> Vec<Scenario> {
    use Kind::{Mp, ThreadPerRequest, ThreadPerSession, ThreadPool};
    if matches!(scenario.architecture, Mp | ThreadPool | ThreadPerRequest | ThreadPerSession) {
        return vec![scenario.clone()];
    }
    let processors = scenario.processors;
    let mut counts = vec![processors.div_ceil(2), processors, processors * 2];
    counts.dedup();
    counts.into_iter().map(|workers| Scenario { workers, ..scenario.clone() }).collect()
}

fn purchases(best: &Scenario, parameters: &Parameters) -> Vec<(String, Scenario)> {
    let mut purchases = vec![
        (format!("{} processors", best.processors * 2), Scenario { processors: best.processors * 2, ..best.clone() }),
        (
            format!("{} of memory", memory(best.system_memory_bytes * 2)),
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

/// For people: in GiB, or in MiB where that is less than one.
fn memory(bytes: u64) -> String {
    let (scale, unit) = if bytes < 1 << 30 { (1 << 20, "MiB") } else { (1 << 30, "GiB") };
    let number = format!("{:.1}", bytes as f64 / f64::from(scale));
    format!("{} {unit}", number.strip_suffix(".0").unwrap_or(&number))
}

impl Investment {
    /// In words. More of something never has to make a server slower, because it can be left unused: a loss says that
    /// the models differ, not that the machine would be worse.
    fn verdict(&self) -> String {
        let percent = self.gain * 100.0;
        if self.gain.abs() <= self.uncertainty {
            return format!("no difference that could be told ({percent:+.1} %)");
        }
        match self.gain > 0.0 {
            true => format!("{percent:+.1} %"),
            false => {
                format!("no gain: simulated at {percent:+.1} %, which is the model's doubt and not a loss to expect")
            }
        }
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let best = &self.workers[0];
        let scenario = &best.scenario;
        writeln!(
            f,
            "{} with {} and {}, {:.1} MiB of data cache: {} requests/s, half of them within {:.0} us, 99 % within {:.0} us",
            scenario.architecture,
            scenario.policy.0,
            count(scenario.workers(), "worker"),
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
        let mut table = Table::default();
        for investment in &self.investments {
            let with = &investment.outcome.scenario;
            let how = format!("{}, {}", with.architecture, count(with.workers(), "worker"));
            let cells = ["", &investment.what, &investment.verdict(), &rate(&investment.outcome), &how];
            table.row(cells);
        }
        write!(f, "{table}")?;
        writeln!(f, "\nArchitectures (lru, a worker for each processor):")?;
        list(f, &self.architectures, |outcome| outcome.scenario.architecture.to_string())?;
        writeln!(f, "Policies:")?;
        list(f, &self.policies, |outcome| outcome.scenario.policy.0.to_string())?;
        writeln!(f, "Workers:")?;
        list(f, &self.workers, |outcome| outcome.scenario.workers().to_string())?;
        write!(
            f,
            "\n+- is the 95 % interval of the simulation; it is 0 where a log is replayed in the same order each time. Not in\n\
             it: how far the costs are from your machine's ({}).\n\
             So a difference below {:.0} % is called none. For costs of your machine: lamna sim calibrate.",
            self.source,
            DECIDES * 100.0
        )
    }
}

/// Whether the difference is no more than what should decide nothing.
fn is_level(best: &Outcome, other: &Outcome) -> bool {
    (other.requests_per_s.mean / best.requests_per_s.mean - 1.0).abs() <= uncertainty(best, other)
}

/// How large the difference of two outcomes has to be to say anything, as a share of the first.
fn uncertainty(one: &Outcome, other: &Outcome) -> f64 {
    let width = |outcome: &Outcome| outcome.requests_per_s.half_width.unwrap_or(0.0);
    let interval = width(one).hypot(width(other)) / one.requests_per_s.mean;
    interval.max(DECIDES)
}

/// Costs are not known so well that a smaller share of the throughput should decide anything.
pub const DECIDES: f64 = 0.05;

fn list(f: &mut fmt::Formatter<'_>, outcomes: &[Outcome], name: fn(&Outcome) -> String) -> fmt::Result {
    let mut table = Table::new(&[Align::Left, Align::Left, Align::Right]);
    for outcome in outcomes {
        let hits = format!("{:.2} % hits", outcome.hit_ratio * 100.0);
        table.row(["", &name(outcome), &format!("{} requests/s", rate(outcome)), &hits]);
    }
    write!(f, "{table}")
}

fn rate(outcome: &Outcome) -> String {
    match outcome.requests_per_s.half_width {
        Some(width) => format!("{:.0} +- {width:.0}", outcome.requests_per_s.mean),
        None => format!("{:.0}", outcome.requests_per_s.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn investment(gain: f64) -> Investment {
        let workload = Workload::log("one file", vec![1000], vec![0]);
        let scenario =
            Scenario { disk: "ssd".into(), requests: 10, warm_up_requests: 10, replications: 1, ..Default::default() };
        let outcome = run_with(&scenario, &Parameters::linux(), &workload, 1).expect("a valid scenario");
        Investment { what: "more".into(), gain, uncertainty: DECIDES, outcome }
    }

    #[test]
    fn a_difference_within_the_uncertainty_is_called_none_and_more_of_something_never_a_loss() {
        assert!(investment(-0.035).verdict().starts_with("no difference"));
        assert!(investment(0.049).verdict().starts_with("no difference"));
        assert!(investment(-0.4).verdict().starts_with("no gain"));
        assert_eq!(investment(0.5).verdict(), "+50.0 %");
    }

    #[test]
    fn memory_is_told_in_the_unit_that_fits() {
        assert_eq!([64 << 20, 1 << 30, 3 << 29].map(memory), ["64 MiB", "1 GiB", "1.5 GiB"]);
    }
}
