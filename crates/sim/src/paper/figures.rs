//! The scenarios behind figures 3 and 5 to 8, and their pictures.

use std::str::FromStr;

use crate::arch::Kind;
use crate::parameters::Parameters;
use crate::report::{Panel, Series};
use crate::run::{Outcome, data_cache_bytes};
use crate::scenario::Scenario;
use crate::sweep::Sweep;
use crate::workload::PROFILES;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Memory with which a single AMPED process has the data cache of 100 MB of the validation (section 5.3):
/// 100 * (1 + 850 / 15360) + 3.
const VALIDATION_MEMORY: u64 = 109 * MIB;

/// Where the disk limits, nearly all clients wait for it in the end, one at each miss: with misses of a few in a
/// thousand that takes hundreds of requests for each client. (The paper discards 5,000 seconds.)
const WARM_UP_PER_CLIENT: u64 = 500;

/// A figure that needs simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Bandwidth against data set size.
    Fig5a,
    /// Bandwidth against clients.
    Fig5b,
    /// Six workloads, 1 to 16 processors.
    Fig6,
    /// CSE with 1 to 3 GB (4 GB is in figure 6), 1 to 16 processors.
    Fig7,
    /// CSE with 2 GB and 500 to 2,500 clients, 1 to 16 processors.
    Fig8,
}

impl Figure {
    /// All of them.
    pub const ALL: [Figure; 5] = [Figure::Fig5a, Figure::Fig5b, Figure::Fig6, Figure::Fig7, Figure::Fig8];

    /// As in file names.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Fig5a => "fig5a",
            Figure::Fig5b => "fig5b",
            Figure::Fig6 => "fig6",
            Figure::Fig7 => "fig7",
            Figure::Fig8 => "fig8",
        }
    }

    /// Its points, with `requests` measured in each of `replications`.
    pub fn scenarios(self, requests: u64, replications: u32) -> Vec<Scenario> {
        let base = Scenario { requests, replications, ..Default::default() };
        let validation = Scenario {
            workload: "clarknet".into(),
            disk: "slow".into(),
            clients: 64,
            system_memory_bytes: VALIDATION_MEMORY,
            ..base.clone()
        };
        let architectures = Kind::PAPER.to_vec();
        let processors: Vec<u32> = (1..=16).collect();
        let sweep = match self {
            Figure::Fig5a => Sweep {
                base: validation,
                data_set_bytes: (2..=15).map(|tens| tens * 10 * MIB).collect(),
                architectures,
                ..Default::default()
            },
            Figure::Fig5b => Sweep {
                base: Scenario { data_set_bytes: 90 * MIB, ..validation },
                clients: vec![8, 16, 32, 64, 100, 150, 200, 300, 400, 500],
                architectures,
                ..Default::default()
            },
            Figure::Fig6 => Sweep {
                base,
                workloads: PROFILES.iter().map(|profile| profile.name.to_owned()).collect(),
                architectures,
                processors,
                ..Default::default()
            },
            Figure::Fig7 => Sweep {
                base,
                system_memory_bytes: vec![GIB, 2 * GIB, 3 * GIB],
                architectures,
                processors,
                ..Default::default()
            },
            Figure::Fig8 => Sweep {
                base: Scenario { system_memory_bytes: 2 * GIB, ..base },
                clients: vec![500, 1_500, 2_000, 2_500],
                architectures,
                processors,
                ..Default::default()
            },
        };
        let mut scenarios = sweep.scenarios();
        for scenario in &mut scenarios {
            scenario.warm_up_requests = u64::from(scenario.clients) * WARM_UP_PER_CLIENT;
        }
        scenarios
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let unknown = || format!("no figure is called `{name}`; there are {}", names());
        Self::ALL.into_iter().find(|figure| figure.name() == name).ok_or_else(unknown)
    }
}

/// The outcomes of all figures.
pub struct Figures {
    outcomes: Vec<(Figure, Vec<Outcome>)>,
}

/// Collects outcomes; figures that are missing make the claims about them unknown.
pub fn figures(outcomes: Vec<(Figure, Vec<Outcome>)>) -> Figures {
    Figures { outcomes }
}

impl Figures {
    /// The outcomes of one figure.
    pub fn of(&self, figure: Figure) -> &[Outcome] {
        self.outcomes.iter().find(|(own, _)| *own == figure).map_or(&[], |(_, outcomes)| outcomes)
    }

    /// The first outcome of `figure` that fits.
    pub fn find(&self, figure: Figure, fits: impl Fn(&Scenario) -> bool) -> Option<&Outcome> {
        self.of(figure).iter().find(|outcome| fits(&outcome.scenario))
    }
}

/// The paper's name of an architecture.
pub(super) fn title(kind: Kind) -> &'static str {
    match kind {
        Kind::Mp => "MP",
        Kind::ThreadPool => "MT",
        Kind::Sped => "SPED",
        Kind::CoAmped => "AMPED",
        Kind::Pipelined => "PIPELINED",
        other => other.name(),
    }
}

/// A figure's panels.
pub fn panels(figure: Figure, outcomes: &[Outcome]) -> Vec<Panel> {
    let bandwidth: fn(&Outcome) -> f64 = |outcome| outcome.megabits_per_s;
    let throughput: fn(&Outcome) -> f64 = |outcome| outcome.requests_per_s.mean;
    let per_processor = |key: fn(&Scenario) -> String| {
        split(outcomes, key).into_iter().map(|(name, part)| {
            let x: fn(&Scenario) -> f64 = |point| point.processors.into();
            panel(name, ("processors", x), ("requests/s", throughput), &part)
        })
    };
    match figure {
        Figure::Fig5a => {
            let x: fn(&Scenario) -> f64 = |point| point.data_set_bytes as f64 / MIB as f64;
            let all: Vec<_> = outcomes.iter().collect();
            vec![panel("ClarkNet, 64 clients".into(), ("data set, MiB", x), ("Mbit/s", bandwidth), &all)]
        }
        Figure::Fig5b => {
            let x: fn(&Scenario) -> f64 = |point| point.clients.into();
            let all: Vec<_> = outcomes.iter().collect();
            vec![panel("ClarkNet, 90 MiB".into(), ("clients", x), ("Mbit/s", bandwidth), &all)]
        }
        Figure::Fig6 => per_processor(|point| point.workload.clone()).collect(),
        Figure::Fig7 => per_processor(|point| format!("CSE, {} GiB", point.system_memory_bytes / GIB)).collect(),
        Figure::Fig8 => per_processor(|point| format!("CSE, 2 GiB, {} clients", point.clients)).collect(),
    }
}

/// Figure 3: no simulation, only the division of memory. In bytes.
pub fn data_cache_csv(parameters: &Parameters) -> String {
    let mut text = String::from("architecture,processors,system_memory_bytes,data_cache_bytes\n");
    for (kind, processors, memory, cache) in data_caches(parameters) {
        text.push_str(&format!("{kind},{processors},{memory},{cache}\n"));
    }
    text
}

/// The same as panels, one for each architecture.
pub fn data_cache_panels(parameters: &Parameters) -> Vec<Panel> {
    let points = data_caches(parameters);
    let series = |kind: Kind, gibibytes: u64| Series {
        name: format!("{gibibytes} GiB"),
        points: points
            .iter()
            .filter(|point| point.0 == kind && point.2 == gibibytes * GIB)
            .map(|point| (point.1.into(), point.3 as f64 / MIB as f64))
            .collect(),
    };
    let panel = |kind| Panel {
        title: title(kind).into(),
        x: "processors".into(),
        y: "data cache, MiB".into(),
        series: (1..=4).map(|gibibytes| series(kind, gibibytes)).collect(),
    };
    Kind::PAPER.into_iter().map(panel).collect()
}

fn data_caches(parameters: &Parameters) -> Vec<(Kind, u32, u64, u64)> {
    let sweep = Sweep {
        architectures: Kind::PAPER.to_vec(),
        system_memory_bytes: (1..=4).map(|gibibytes| gibibytes * GIB).collect(),
        processors: (1..=16).collect(),
        ..Default::default()
    };
    let cache = |point: &Scenario| {
        (point.architecture, point.processors, point.system_memory_bytes, data_cache_bytes(point, parameters))
    };
    sweep.scenarios().iter().map(cache).collect()
}

fn split(outcomes: &[Outcome], key: fn(&Scenario) -> String) -> Vec<(String, Vec<&Outcome>)> {
    let mut parts: Vec<(String, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        let name = key(&outcome.scenario);
        match parts.iter_mut().find(|part| part.0 == name) {
            Some((_, part)) => part.push(outcome),
            None => parts.push((name, vec![outcome])),
        }
    }
    parts
}

fn panel(
    title_: String,
    (x_name, x): (&str, fn(&Scenario) -> f64),
    (y_name, y): (&str, fn(&Outcome) -> f64),
    outcomes: &[&Outcome],
) -> Panel {
    let series = |kind: Kind| Series {
        name: title(kind).into(),
        points: outcomes
            .iter()
            .filter(|outcome| outcome.scenario.architecture == kind)
            .map(|outcome| (x(&outcome.scenario), y(outcome)))
            .collect(),
    };
    let series = Kind::ALL.into_iter().map(series).filter(|series| !series.points.is_empty()).collect();
    Panel { title: title_, x: x_name.into(), y: y_name.into(), series }
}
