//! What is known about the engines' costs: for each kind of load, relative to each other.
//!
//! Owns: the estimates, those that are built in, and what becomes of them when something is measured. Reads and writes no
//! files.

use std::collections::BTreeMap;

use super::{Engine, Load};

/// What an engine costs under a kind of load.
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

/// How far measurements of the same thing are apart: two trials of a second and a half.
const TRIAL_DOUBT: f64 = 0.02;

impl Profile {
    /// What holds on the machines that the engines were measured on (`results/engines`), with the doubt that the next one
    /// may differ.
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

    /// A trial has shown that under `load` `engine` costs `ratio` times what `other` costs. What was expected counts as
    /// much as its doubt lets it.
    pub fn learn(&mut self, load: Load, other: Engine, engine: Engine, ratio: f64) {
        let before = self.estimate(load, engine);
        let measured = ratio * self.estimate(load, other).ratio;
        let (weight_before, weight) = (before.doubt.max(0.001).powi(-2), TRIAL_DOUBT.powi(-2));
        let sum = weight_before + weight;
        let ratio = (before.ratio * weight_before + measured * weight) / sum;
        self.set(load, engine, Estimate { ratio, doubt: sum.powf(-0.5) });
    }

    /// All estimates, by load and engine.
    pub fn estimates(&self) -> impl Iterator<Item = (Load, Engine, Estimate)> {
        self.estimates.iter().map(|((load, engine), estimate)| (*load, *engine, *estimate))
    }
}

/// Nothing speaks for an engine that nothing is known of.
const UNKNOWN: Estimate = Estimate { ratio: 10.0, doubt: 0.0 };

/// In the order of [`Engine::ALL`]: ratio and doubt. Those for cached answers and for new connections are measured
/// (`results/engines`: 500 bytes, 64 connections); the others are guesses, and doubted accordingly. The thread engines are
/// known well enough not to be tried: what a switch of threads for each request costs does not become less than nothing on
/// another machine.
const BUILT_IN: [(Load, [(f64, f64); 7]); 5] = [
    (Load::Cached, [(1.0, 0.02), (1.0, 0.0), (1.25, 0.1), (0.96, 0.08), (1.7, 0.1), (8.0, 0.1), (1.65, 0.1)]),
    (Load::Disk, [(1.0, 0.02), (1.0, 0.0), (1.25, 0.1), (1.1, 0.1), (1.7, 0.1), (8.0, 0.1), (1.65, 0.1)]),
    (Load::Large, [(1.0, 0.02), (1.0, 0.0), (1.3, 0.1), (1.0, 0.08), (1.4, 0.1), (1.5, 0.1), (1.4, 0.1)]),
    (Load::Connections, [(1.0, 0.02), (1.0, 0.0), (1.35, 0.1), (1.15, 0.08), (1.8, 0.1), (3.9, 0.1), (3.9, 0.1)]),
    (Load::Crowd, [(1.0, 0.02), (1.0, 0.0), (1.5, 0.1), (1.0, 0.08), (1.8, 0.1), (8.0, 0.1), (2.5, 0.1)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_counts_more_than_a_guess_and_less_doubt_remains() {
        let mut profile = Profile::built_in();
        let before = profile.estimate(Load::Cached, Engine::Proactor);
        profile.learn(Load::Cached, Engine::Amped, Engine::Proactor, 0.8);
        let after = profile.estimate(Load::Cached, Engine::Proactor);
        assert!((0.8..0.82).contains(&after.ratio) && after.doubt < before.doubt, "{after:?}");
    }

    #[test]
    fn every_engine_has_an_estimate_for_every_load() {
        assert_eq!(Profile::built_in().estimates().count(), Engine::ALL.len() * Load::ALL.len());
    }
}
