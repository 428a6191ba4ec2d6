//! Verdicts on the runs: how an engine did in each phase, and how `auto` did beside the best fixed one.
//!
//! Owns: the rules. Runs of the same turn are compared. Throughput decides where the server was what limited it. Where
//! the load generator had no reserve, all engines answer as fast as it asks; there the processor time for each request
//! decides as well. An engine that refused or left unanswered more than [`FAILED_MAX`] of what a phase asks is not the
//! best of it, however fast the rest was.

use super::AUTO;
use super::run::{Latencies, Run};
use super::workload::{CROWD_HELD, Phase};
use crate::statistics::{Estimate, estimate};

/// Share of the best fixed engine's figure that `auto` has to reach.
pub const REACHED: f64 = 0.92;

/// Share of the requests, or of the connections to be held, that may fail.
pub const FAILED_MAX: f64 = 0.01;

/// Share of the time above which the load generator was what limited the throughput.
const GENERATOR_BUSY_MAX: f64 = 0.95;

/// How an engine did in a phase after the first two seconds, or over the whole run: medians of all rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// As in `--arch`.
    pub engine: String,
    /// Good answers a second.
    pub per_second: f64,
    /// Good answers.
    pub answered: f64,
    /// CPU time of the server for each, in microseconds.
    pub cpu_us: f64,
    /// Within which 99 of 100 requests of the visitor had a good answer, in milliseconds; endless if fewer ever had.
    pub visitor_p99_ms: f64,
    /// The same of those who ask as fast as they are answered.
    pub load_p99_ms: f64,
    /// Whether it failed more than it may.
    pub has_failed: bool,
    /// Share of the time that the load generator ran.
    pub generator_busy: f64,
}

/// `auto` beside the fixed engines in a phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// Which phase.
    pub phase: Phase,
    /// The fixed engine with the highest throughput.
    pub best: Figures,
    /// `auto`.
    pub auto: Figures,
    /// The least CPU time for each request of the fixed engines that reach the throughput, in microseconds.
    pub best_cpu_us: f64,
    /// Whether the load generator was what limited the throughput.
    pub is_of_generator: bool,
}

impl Standing {
    /// Throughput of `auto` by that of the best fixed engine.
    pub fn throughput(&self) -> f64 {
        self.auto.per_second / self.best.per_second.max(1e-9)
    }

    /// Least CPU time for each request by that of `auto`: above one, `auto` needs less.
    pub fn economy(&self) -> f64 {
        self.best_cpu_us / self.auto.cpu_us.max(1e-9)
    }

    /// Whether `auto` reaches [`REACHED`].
    pub fn is_reached(&self) -> bool {
        self.throughput() >= REACHED && (!self.is_of_generator || self.economy() >= REACHED) && !self.auto.has_failed
    }
}

/// The runs that `auto` can be compared with: those of its own turns, which met the same machine. Without any, all.
pub fn comparable(runs: &[Run]) -> Vec<Run> {
    let turns: Vec<u64> = runs.iter().filter(|run| run.engine == AUTO).map(|run| run.turn_s).collect();
    let of_turns: Vec<Run> = runs.iter().filter(|run| turns.contains(&run.turn_s)).cloned().collect();
    if of_turns.iter().any(|run| run.engine != AUTO) { of_turns } else { runs.to_vec() }
}

/// `auto` beside the best fixed engine in `phase`, of [`comparable`] runs; none if either was not measured.
pub fn standing(runs: &[Run], phase: Phase) -> Option<Standing> {
    let (autos, fixed): (Vec<Figures>, Vec<Figures>) =
        of_phase(runs, phase).into_iter().partition(|figures| figures.engine == AUTO);
    let held: Vec<&Figures> = fixed.iter().filter(|figures| !figures.has_failed).collect();
    let best = *held.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second))?;
    let as_fast = held.iter().filter(|figures| figures.per_second >= REACHED * best.per_second);
    let best_cpu_us = as_fast.map(|figures| figures.cpu_us).min_by(f64::total_cmp)?;
    let auto = autos.into_iter().next()?;
    let is_of_generator = best.generator_busy > GENERATOR_BUSY_MAX;
    Some(Standing { phase, best: best.clone(), auto, best_cpu_us, is_of_generator })
}

/// All engines in `phase`, after its first two seconds, in the order of the runs.
pub fn of_phase(runs: &[Run], phase: Phase) -> Vec<Figures> {
    figures(runs, |run| {
        let phase = run.phases.iter().find(|found| found.phase == phase.name())?;
        let part = &phase.steady;
        let lost = phase.held.is_some_and(|held| (held as f64) < (1.0 - FAILED_MAX) * CROWD_HELD as f64);
        Some(Figures {
            engine: run.engine.clone(),
            per_second: part.per_second(),
            answered: part.answered,
            cpu_us: part.cpu_us(),
            visitor_p99_ms: p99_ms(&part.visitor),
            load_p99_ms: p99_ms(&part.load),
            has_failed: lost || has_failed(&part.visitor) || has_failed(&part.load) || !phase.problems.is_empty(),
            generator_busy: phase.generator_busy,
        })
    })
}

/// All engines over the whole run, beginnings of phases included.
pub fn of_all(runs: &[Run]) -> Vec<Figures> {
    figures(runs, |run| {
        let (mut visitor, mut load) = (Latencies::default(), Latencies::default());
        let parts = || run.phases.iter().flat_map(|phase| [&phase.settling, &phase.steady]);
        for part in parts() {
            visitor.merge(&part.visitor);
            load.merge(&part.load);
        }
        let sum = |figure: fn(&super::run::Part) -> f64| parts().map(figure).sum::<f64>();
        let (answered, seconds) = (sum(|part| part.answered), sum(|part| part.seconds));
        Some(Figures {
            engine: run.engine.clone(),
            per_second: answered / seconds.max(1e-9),
            answered,
            cpu_us: sum(|part| part.cpu_s) * 1e6 / answered.max(1.0),
            visitor_p99_ms: p99_ms(&visitor),
            load_p99_ms: p99_ms(&load),
            has_failed: has_failed(&visitor) || has_failed(&load),
            generator_busy: run.phases.iter().map(|phase| phase.generator_busy).fold(0.0, f64::max),
        })
    })
}

/// `auto` by each fixed engine over the whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// The fixed engine.
    pub engine: String,
    /// Good answers.
    pub answered: Estimate,
    /// CPU time for each.
    pub cpu: Estimate,
    /// The visitor's 99th percentile.
    pub visitor: Estimate,
}

/// The ratios of runs that took turns with each other: what the machine did in one round and not in the next is in
/// both.
pub fn beside(runs: &[Run]) -> Vec<Beside> {
    let mut engines: Vec<&str> = runs.iter().map(|run| run.engine.as_str()).filter(|engine| *engine != AUTO).collect();
    engines.dedup();
    let whole = |run: &Run| of_all(std::slice::from_ref(run)).into_iter().next();
    let pairs = |engine: &str| -> Vec<(Figures, Figures)> {
        let of = |name: &str, turn_s: u64| runs.iter().find(|run| run.engine == name && run.turn_s == turn_s);
        let autos = runs.iter().filter(|run| run.engine == AUTO);
        autos.filter_map(|auto| Some((whole(auto)?, whole(of(engine, auto.turn_s)?)?))).collect()
    };
    let one = |engine: &str| {
        let pairs = pairs(engine);
        let ratio =
            |figure: fn(&Figures) -> f64| estimate(pairs.iter().map(|(auto, other)| figure(auto) / figure(other)));
        Some(Beside {
            engine: engine.to_owned(),
            answered: ratio(|figures| figures.answered)?,
            cpu: ratio(|figures| figures.cpu_us)?,
            visitor: ratio(|figures| figures.visitor_p99_ms)?,
        })
    };
    engines.into_iter().filter_map(one).collect()
}

fn has_failed(latencies: &Latencies) -> bool {
    let all = latencies.answers.count() + latencies.unanswered;
    latencies.failed() as f64 > FAILED_MAX * all as f64
}

fn p99_ms(latencies: &Latencies) -> f64 {
    latencies.quantile_ns(0.99).map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
}

/// The medians of each engine over its rounds.
fn figures(runs: &[Run], of_run: impl Fn(&Run) -> Option<Figures>) -> Vec<Figures> {
    let of_runs: Vec<Figures> = runs.iter().filter_map(of_run).collect();
    let of_engines = of_runs.chunk_by(|a, b| a.engine == b.engine);
    let of_engine = |rounds: &[Figures]| Figures {
        engine: rounds[0].engine.clone(),
        per_second: median(rounds, |figures| figures.per_second),
        answered: median(rounds, |figures| figures.answered),
        cpu_us: median(rounds, |figures| figures.cpu_us),
        visitor_p99_ms: median(rounds, |figures| figures.visitor_p99_ms),
        load_p99_ms: median(rounds, |figures| figures.load_p99_ms),
        has_failed: rounds.iter().any(|figures| figures.has_failed),
        generator_busy: median(rounds, |figures| figures.generator_busy),
    };
    of_engines.map(of_engine).collect()
}

/// At least one round; of an even number the lower of the two in the middle and the higher in equal parts.
fn median(rounds: &[Figures], figure: fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    if low == high { low } else { (low + high) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::super::run::{Part, PhaseRun};
    use super::*;
    use crate::machine::Machine;

    fn run(engine: &str, answered: f64, cpu_s: f64, busy: f64, unanswered: u64) -> Run {
        let mut load = Latencies { unanswered, ..Latencies::default() };
        (0..100).for_each(|_| load.answers.record(1_000_000));
        let steady = Part { seconds: 2.0, answered, cpu_s, load: load.clone(), visitor: load };
        let phase = PhaseRun {
            phase: Phase::Cached.name().to_owned(),
            began_s: 0.0,
            settling: Part::default(),
            steady,
            held: None,
            generator_busy: busy,
            series: Vec::new(),
            problems: Vec::new(),
        };
        Run {
            engine: engine.to_owned(),
            digest: String::new(),
            turn_s: 0,
            machine: Machine::default(),
            version: String::new(),
            command: String::new(),
            seconds: 4.0,
            read_iops: None,
            server_processors: Vec::new(),
            client_processors: Vec::new(),
            phases: vec![phase],
            said: Vec::new(),
        }
    }

    #[test]
    fn throughput_decides_where_the_server_was_the_limit() {
        let runs = [run("auto", 95.0, 1.0, 0.5, 0), run("amped", 100.0, 0.5, 0.5, 0), run("sped", 80.0, 0.1, 0.5, 0)];
        let standing = standing(&runs, Phase::Cached).expect("all were measured");
        assert_eq!((standing.best.engine.as_str(), standing.throughput()), ("amped", 0.95));
        assert!(standing.is_reached());
    }

    #[test]
    fn cost_decides_as_well_where_the_generator_was() {
        let runs = [run("auto", 100.0, 1.0, 1.0, 0), run("amped", 100.0, 0.5, 1.0, 0)];
        let standing = standing(&runs, Phase::Cached).expect("all were measured");
        assert!(standing.is_of_generator && standing.economy() == 0.5 && !standing.is_reached());
    }

    #[test]
    fn who_leaves_requests_unanswered_is_not_the_best() {
        let runs = [run("auto", 95.0, 1.0, 0.5, 0), run("amped", 100.0, 1.0, 0.5, 0), run("mp", 900.0, 1.0, 0.5, 5)];
        let standing = standing(&runs, Phase::Cached).expect("all were measured");
        assert_eq!(standing.best.engine, "amped");
    }

    #[test]
    fn only_runs_of_the_same_turn_are_compared_if_there_are_any() {
        let at = |turn_s, run: Run| Run { turn_s, ..run };
        let slow = |engine| run(engine, 50.0, 1.0, 0.5, 0);
        let runs = [at(2, slow("auto")), at(2, slow("amped")), at(1, run("sped", 100.0, 1.0, 0.5, 0))];
        let engines = |runs: &[Run]| comparable(runs).iter().map(|run| run.engine.clone()).collect::<Vec<_>>();
        assert_eq!(engines(&runs), ["auto", "amped"]);
        assert_eq!(engines(&[runs[0].clone(), runs[2].clone()]), ["auto", "sped"]);
    }

    #[test]
    fn over_the_whole_run_those_of_the_same_turn_are_compared() {
        let at = |turn_s, engine, answered| Run { turn_s, ..run(engine, answered, 1.0, 0.5, 0) };
        // The machine was twice as fast in the second turn.
        let runs = [
            at(1, "auto", 110.0),
            at(2, "auto", 220.0),
            at(1, "amped", 100.0),
            at(2, "amped", 200.0),
            at(3, "amped", 900.0),
            at(4, "sped", 50.0),
        ];
        let found = beside(&runs);
        assert_eq!(found.len(), 1, "sped had no turn with auto");
        assert_eq!(found[0].engine, "amped");
        assert_eq!((found[0].answered.samples, found[0].answered.low, found[0].answered.high), (2, 1.1, 1.1));
    }

    #[test]
    fn of_several_rounds_the_median_counts() {
        let runs = [run("auto", 90.0, 1.0, 0.5, 0), run("auto", 10.0, 1.0, 0.5, 0), run("auto", 100.0, 1.0, 0.5, 0)];
        let found = of_phase(&runs, Phase::Cached);
        assert_eq!((found.len(), found[0].per_second), (1, 45.0));
    }
}
