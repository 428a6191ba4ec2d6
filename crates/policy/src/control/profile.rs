//! The profile: estimated costs of the engines, for each kind of load, relative to each other.
//!
//! Owns: the estimates, those that are built in, their change by measurements, and their form as text.
//! Reads and writes no files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Engine, Load};

/// The cost of an engine under a kind of load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// CPU time per request, `amped` being 1.
    pub ratio: f64,
    /// By how much the ratio may be off, as a part of it.
    pub doubt: f64,
}

/// Estimates for all engines and kinds of load.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    estimates: BTreeMap<(Load, Engine), Estimate>,
}

impl Profile {
    /// The estimates from the machines that the engines were measured on (`results/engines`), with the doubt that the
    /// next one may differ.
    pub fn built_in() -> Profile {
        let mut profile = Profile { estimates: BTreeMap::new() };
        for (load, ratios) in BUILT_IN {
            for (engine, (ratio, doubt)) in Engine::ALL.into_iter().zip(ratios) {
                profile.set(load, engine, Estimate { ratio, doubt });
            }
        }
        profile
    }

    /// The estimate for `engine` under `load`.
    pub fn estimate(&self, load: Load, engine: Engine) -> Estimate {
        self.estimates.get(&(load, engine)).copied().unwrap_or(UNKNOWN)
    }

    /// Replaces an estimate.
    pub fn set(&mut self, load: Load, engine: Engine, estimate: Estimate) {
        self.estimates.insert((load, engine), estimate);
    }

    /// A trial has shown that under `load` `engine` costs `ratio` times what `other` costs, give or take `doubt` as a
    /// part of it. What was expected of each counts as much as its doubt lets it: what was known less well moves more,
    /// and is known better afterwards. That is the update of a Kalman filter for the difference of two logarithms, but
    /// for what the two have in common from then on.
    pub fn learn(&mut self, load: Load, other: Engine, engine: Engine, ratio: f64, doubt: f64) {
        let (theirs, its) = (self.estimate(load, other), self.estimate(load, engine));
        let [of_other, of_engine, of_trial] = [theirs.doubt, its.doubt, doubt].map(|doubt| doubt.max(0.001).powi(2));
        let sum = of_other + of_engine + of_trial;
        let surprise = ratio.max(1e-3).ln() - (its.ratio / theirs.ratio).ln();
        let moved = |estimate: Estimate, variance: f64, direction: f64| Estimate {
            ratio: estimate.ratio * (direction * surprise * variance / sum).exp(),
            doubt: (variance * (1.0 - variance / sum)).sqrt(),
        };
        self.set(load, engine, moved(its, of_engine, 1.0));
        self.set(load, other, moved(theirs, of_other, -1.0));
    }

    /// All estimates, by load and engine.
    pub fn estimates(&self) -> impl Iterator<Item = (Load, Engine, Estimate)> {
        self.estimates.iter().map(|((load, engine), estimate)| (*load, *engine, *estimate))
    }

    /// The profile as TOML, with `comment` in front, line by line. The server reads it again (`serve --profile`).
    pub fn to_toml(&self, comment: &str) -> String {
        let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
        let mut last = None;
        for (load, engine, Estimate { ratio, doubt }) in self.estimates() {
            if last != Some(load) {
                let _ = writeln!(text, "\n[{}]", load.name());
                last = Some(load);
            }
            let _ = writeln!(text, "{} = {{ ratio = {ratio:.3}, doubt = {doubt:.3} }}", engine.name());
        }
        text
    }
}

/// Nothing speaks for an engine that nothing is known of.
const UNKNOWN: Estimate = Estimate { ratio: 10.0, doubt: 0.0 };

/// In the order of [`Engine::ALL`]: ratio and doubt. Measured under 64 connections of small files, new connections, a
/// mix with a slow disk, 10,000 connections and files of 1 MiB (`results/engines`, `results/phases`); doubted as far as
/// the next machine may differ. `proactor` takes and gives what many active connections have to receive and to send
/// with one call, where a loop takes two for each request: that is a twentieth of a small answer. Among thousands of
/// idle connections as much is lost again, for its own state of each. It needs more steps where a connection comes and
/// goes (to arm, to cancel, to wait for both). Long files it sends from the page cache by hand, as a loop does, at the
/// same cost. What io_uring gains differs from kernel to kernel. The thread engines are known well enough not to be
/// tried: what a switch of threads for each request costs does not become less than nothing on another machine; that
/// large files are as cheap with them does not make up for the small ones beside, which cost up to eight times as much.
const BUILT_IN: [(Load, [(f64, f64); 7]); 5] = [
    (Load::Cached, [(1.0, 0.02), (1.0, 0.0), (1.6, 0.1), (0.95, 0.1), (3.0, 0.1), (8.0, 0.1), (3.5, 0.1)]),
    (Load::Disk, [(1.0, 0.02), (1.0, 0.0), (1.6, 0.1), (0.95, 0.15), (1.7, 0.1), (8.0, 0.1), (3.5, 0.1)]),
    (Load::Large, [(1.0, 0.02), (1.0, 0.0), (1.3, 0.1), (1.02, 0.1), (1.4, 0.1), (1.5, 0.1), (1.4, 0.1)]),
    (Load::Connections, [(1.0, 0.02), (1.0, 0.0), (1.55, 0.1), (1.06, 0.06), (1.5, 0.1), (2.5, 0.1), (2.8, 0.1)]),
    (Load::Crowd, [(1.0, 0.02), (1.0, 0.0), (1.6, 0.1), (0.98, 0.1), (1.8, 0.1), (8.0, 0.1), (3.0, 0.1)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_counts_more_than_a_guess_and_less_doubt_remains() {
        let mut profile = Profile::built_in();
        let before = profile.estimate(Load::Cached, Engine::Proactor);
        profile.learn(Load::Cached, Engine::Amped, Engine::Proactor, 0.8, 0.02);
        let after = profile.estimate(Load::Cached, Engine::Proactor);
        assert!((0.8..0.82).contains(&after.ratio) && after.doubt < before.doubt, "{after:?}");
        let amped = profile.estimate(Load::Cached, Engine::Amped);
        assert!((amped.ratio - 1.0).abs() < 0.001, "of what was sure nothing is learned: {amped:?}");
    }

    #[test]
    fn a_trial_of_a_known_engine_teaches_about_the_one_before_it() {
        let mut profile = Profile::built_in();
        profile.learn(Load::Cached, Engine::Proactor, Engine::Amped, 0.8, 0.02);
        let proactor = profile.estimate(Load::Cached, Engine::Proactor);
        assert!((1.2..1.25).contains(&proactor.ratio), "{proactor:?}");
    }

    #[test]
    fn every_engine_has_an_estimate_for_every_load() {
        assert_eq!(Profile::built_in().estimates().count(), Engine::ALL.len() * Load::ALL.len());
    }
}
