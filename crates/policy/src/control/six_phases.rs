//! The controller under six kinds of load of eight seconds each, with engines whose costs differ by a tenth. The costs
//! and the profile are those that were measured once, of an earlier `amped` and `proactor`.
//!
//! Owns: these costs, and what the controller is to reach with them. The measurement itself is `lamna lab phases`. Here
//! it can be repeated, with readings at any distance from the beginnings of phases and with any noise.

use super::*;

/// Good answers a second and CPU time for each in microseconds: of `sped`, `amped`, `pipelined`, `proactor`,
/// `thread-pool`, `thread-per-request` and `thread-per-session`.
type Measured = [(f64, f64); 7];

const PHASES: [(&str, Measured); 6] = [
    (
        "cold start",
        [(1088., 47.1), (1148., 52.3), (1141., 60.5), (1147., 57.7), (1171., 58.9), (1146., 131.), (1148., 70.1)],
    ),
    (
        "cached small files",
        [
            (151_524., 6.19),
            (154_541., 6.14),
            (83_828., 11.4),
            (129_563., 6.53),
            (40_760., 23.9),
            (18_877., 48.1),
            (35_540., 27.2),
        ],
    ),
    (
        "slow disk mix",
        [
            (999., 39.3),
            (129_203., 6.86),
            (75_527., 11.3),
            (154_702., 6.09),
            (88_521., 11.1),
            (17_368., 51.7),
            (34_498., 27.2),
        ],
    ),
    (
        "10,000 connections",
        [
            (144_334., 6.42),
            (138_008., 6.79),
            (86_066., 11.1),
            (128_400., 7.17),
            (77_249., 12.5),
            (16_303., 55.1),
            (46_690., 20.2),
        ],
    ),
    (
        "large downloads",
        [(2143., 457.), (2186., 448.), (1775., 549.), (1820., 535.), (2113., 463.), (2648., 358.), (1668., 571.)],
    ),
    (
        "new connections",
        [
            (24_468., 21.5),
            (23_655., 22.6),
            (19_178., 35.0),
            (22_331., 25.8),
            (22_082., 31.0),
            (18_269., 45.6),
            (14_817., 57.4),
        ],
    ),
];

const PHASE_MS: u64 = 8_000;
const SETTLING_MS: u64 = 2_000;
/// The first part of the crowd's phase is when it comes.
const ARRIVING_MS: u64 = 500;
const STEP_MS: u64 = 10;
/// The time for which no request is served when engines change places.
const CHANGE_MS: u64 = 20;

/// One server's life.
struct Life {
    controller: Controller,
    random: u64,
    /// Answers after the first two seconds of each phase.
    steady: [f64; 6],
    answered: f64,
    changes: Vec<(u64, Engine)>,
}

/// A life with a controller whose readings begin `offset_ms` after the phases, and are off by up to `noise`.
fn live(controller: Controller, offset_ms: u64, noise: f64) -> Life {
    let mut life = Life { controller, random: offset_ms + 1, steady: [0.0; 6], answered: 0.0, changes: Vec::new() };
    let (mut seen, mut paused_ms) = (Seen::default(), 0);
    for now_ms in (0..6 * PHASE_MS).step_by(STEP_MS as usize) {
        let (phase, at_ms) = ((now_ms / PHASE_MS) as usize, now_ms % PHASE_MS);
        if paused_ms > 0 {
            paused_ms -= STEP_MS;
        } else {
            let requests = life.serve(phase, &mut seen, at_ms);
            life.answered += requests;
            life.steady[phase] += if at_ms >= SETTLING_MS { requests } else { 0.0 };
        }
        if now_ms % 500 == offset_ms && now_ms > 0 {
            let reading = std::mem::take(&mut seen).reading(phase, life.noise(noise));
            if let Some(change) = life.controller.observe(now_ms, &reading) {
                paused_ms = CHANGE_MS;
                life.changes.push((now_ms, change.to));
            }
        }
    }
    life
}

/// Sums since the last reading.
#[derive(Default)]
struct Seen {
    requests: f64,
    accepted: f64,
    sent_bytes: f64,
    blocked: f64,
    cpu_us: f64,
}

impl Seen {
    fn reading(self, phase: usize, noise: f64) -> Reading {
        Reading {
            interval_ms: 500,
            requests: self.requests as u64,
            accepted: self.accepted as u64,
            connections: if phase == 3 { 10_000 } else { 128 },
            sent_bytes: self.sent_bytes as u64,
            blocked: self.blocked as u64,
            cpu_us: (self.cpu_us * noise) as u64,
            stalled_ms: 0,
        }
    }
}

impl Life {
    /// Serves for a step. Returns how many requests.
    fn serve(&mut self, phase: usize, seen: &mut Seen, at_ms: u64) -> f64 {
        let place =
            Engine::ALL.iter().position(|engine| *engine == self.controller.current()).expect("it is one of all");
        let (rate, cost_us) = PHASES[phase].1[place];
        let seconds = STEP_MS as f64 / 1000.0;
        let is_arriving = phase == 3 && at_ms < ARRIVING_MS;
        let requests = rate * seconds * if is_arriving { 0.2 } else { 1.0 };
        seen.requests += requests;
        seen.cpu_us += requests * cost_us;
        seen.sent_bytes += requests * if phase == 4 { 1_048_576.0 } else { 2_000.0 };
        seen.blocked += if matches!(phase, 0 | 2) { 200.0 * seconds } else { 0.0 };
        seen.accepted += match phase {
            3 if is_arriving => 10_000.0 * STEP_MS as f64 / ARRIVING_MS as f64,
            5 => requests,
            _ => 0.0,
        };
        requests
    }

    /// About one.
    fn noise(&mut self, most: f64) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + most * ((self.random >> 32) as f64 / f64::from(1u32 << 31) - 1.0)
    }
}

/// The prior profile of this world, where it is not the built-in one.
fn profile() -> Profile {
    let mut profile = Profile::built_in();
    for (load, ratio) in [(Load::Cached, 1.05), (Load::Disk, 0.93), (Load::Connections, 1.14), (Load::Crowd, 1.05)] {
        profile.set(load, Engine::Proactor, Estimate { ratio, doubt: 0.1 });
    }
    profile
}

fn fixed(engine: Engine) -> Life {
    live(Controller::new(profile(), vec![engine], engine), 0, 0.0)
}

fn auto(offset_ms: u64, noise: f64) -> Life {
    live(Controller::new(profile(), Engine::ALL.to_vec(), Engine::Amped), offset_ms, noise)
}

#[test]
fn it_answers_more_than_every_fixed_engine_and_keeps_up_with_the_best_in_each_phase() {
    let fixed: Vec<Life> = Engine::ALL.into_iter().map(fixed).collect();
    let most = fixed.iter().map(|life| life.answered).fold(0.0, f64::max);
    for offset_ms in (0..500).step_by(50) {
        for noise in [0.0, 0.05, 0.1] {
            let auto = auto(offset_ms, noise);
            let gained = auto.answered / most - 1.0;
            assert!(gained > 0.02, "{gained:.3} with readings at {offset_ms}: {:?}", auto.changes);
            assert!(auto.changes.len() <= 4, "{:?}", auto.changes);
            for (phase, (name, measured)) in PHASES.iter().enumerate() {
                // What only an engine reaches that holds one connection for each thread is no measure.
                let best = fixed.iter().map(|life| life.steady[phase]).fold(0.0, f64::max);
                let best = if *name == "large downloads" { measured[1].0 * 6.0 } else { best };
                let reached = auto.steady[phase] / best;
                assert!(
                    reached >= 0.92,
                    "{reached:.3} of the best in {name}, readings at {offset_ms}: {:?}",
                    auto.changes
                );
            }
        }
    }
}

#[test]
fn it_reaches_nearly_all_that_the_best_engine_of_each_phase_would() {
    let ideal: f64 = PHASES
        .iter()
        .map(|(_, measured)| [1, 3].map(|place: usize| measured[place].0).into_iter().fold(0.0, f64::max) * 8.0)
        .sum();
    for offset_ms in (0..500).step_by(50) {
        let auto = auto(offset_ms, 0.05);
        assert!(auto.answered > 0.97 * ideal, "{:.3}: {:?}", auto.answered / ideal, auto.changes);
    }
}
