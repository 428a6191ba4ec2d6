//! The controller in worlds whose costs are known.

use super::*;

/// True costs, with noise.
struct World {
    cost_us: fn(Engine, Load) -> f64,
    noise: f64,
    random: u64,
}

impl World {
    fn reading(&mut self, engine: Engine, load: Load) -> Reading {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.random >> 33) as f64 / f64::from(1u32 << 31);
        let cost_us = (self.cost_us)(engine, load) * (1.0 + self.noise * (2.0 * unit - 1.0));
        let requests = 20_000;
        let plain = Reading {
            interval_ms: 500,
            requests,
            accepted: 0,
            connections: 64,
            sent_bytes: requests * 700,
            blocked: 0,
            cpu_us: (cost_us * requests as f64) as u64,
            stalled_ms: 0,
        };
        match load {
            Load::Cached => plain,
            Load::Disk => Reading { blocked: 200, ..plain },
            Load::Large => Reading { sent_bytes: requests << 20, ..plain },
            Load::Connections => Reading { accepted: requests, ..plain },
            Load::Crowd => Reading { connections: 20_000, ..plain },
        }
    }

    /// Runs `controller` under `load` for some seconds; when it changed to what.
    fn run(&mut self, controller: &mut Controller, now_ms: &mut u64, load: Load, seconds: u64) -> Vec<(u64, Engine)> {
        let mut changes = Vec::new();
        for _ in 0..seconds * 2 {
            *now_ms += 500;
            let reading = self.reading(controller.current(), load);
            if let Some(change) = controller.observe(*now_ms, &reading) {
                assert_eq!(change.to, controller.current());
                changes.push((*now_ms, change.to));
            }
        }
        changes
    }
}

fn world(cost_us: fn(Engine, Load) -> f64) -> World {
    World { cost_us, noise: 0.03, random: 1 }
}

/// One that expects `proactor` to cost a little more than `amped`, and doubts it.
fn controller(current: Engine) -> Controller {
    let mut profile = Profile::built_in();
    let ratios =
        [(Load::Cached, 1.05), (Load::Disk, 0.93), (Load::Large, 1.2), (Load::Connections, 1.14), (Load::Crowd, 1.05)];
    for (load, ratio) in ratios {
        profile.set(
            load,
            Engine::Proactor,
            Estimate { ratio, doubt: if load == Load::Connections { 0.06 } else { 0.1 } },
        );
    }
    with_profile(profile, current)
}

fn with_profile(profile: Profile, current: Engine) -> Controller {
    let candidates = vec![Engine::Sped, Engine::Amped, Engine::Pipelined, Engine::Proactor, Engine::ThreadPool];
    Controller::new(profile, candidates, current)
}

#[test]
fn what_is_built_in_has_answers_from_the_ring_and_new_connections_from_a_loop() {
    let (mut world, mut controller, mut now_ms) =
        (world(|_, _| 6.0), with_profile(Profile::built_in(), Engine::Amped), 0);
    let mut engines = Vec::new();
    for load in [Load::Cached, Load::Disk, Load::Crowd, Load::Large, Load::Connections] {
        let changes = world.run(&mut controller, &mut now_ms, load, 8);
        assert!(changes.len() <= 1, "{load:?}: {changes:?}");
        engines.push(controller.current());
    }
    assert_eq!(engines, [Engine::Proactor, Engine::Proactor, Engine::Proactor, Engine::Proactor, Engine::Amped]);
}

#[test]
fn a_constant_load_changes_nothing_after_the_first_half_minute() {
    for load in Load::ALL {
        for cost_us in [|_, _| 6.0, |engine, _| if engine == Engine::Proactor { 5.0 } else { 6.0 }] {
            for mut controller in [controller(Engine::Amped), with_profile(Profile::built_in(), Engine::Amped)] {
                let (mut world, mut now_ms) = (world(cost_us), 0);
                world.run(&mut controller, &mut now_ms, load, 30);
                assert_eq!(world.run(&mut controller, &mut now_ms, load, 600), [], "{load:?}: {}", controller.why());
            }
        }
    }
}

#[test]
fn what_a_trial_shows_to_be_better_serves_from_then_on() {
    let cost_us = |engine, _| if engine == Engine::Proactor { 5.0 } else { 6.0 };
    let (mut world, mut controller, mut now_ms) = (world(cost_us), controller(Engine::Amped), 0);
    world.run(&mut controller, &mut now_ms, Load::Cached, 30);
    assert_eq!(controller.current(), Engine::Proactor, "{}", controller.why());
    assert!(controller.why().contains("trial"), "{}", controller.why());
}

#[test]
fn what_a_trial_shows_to_be_worse_goes_at_once_and_is_not_tried_again() {
    let cost_us = |engine, _| if engine == Engine::Proactor { 9.0 } else { 6.0 };
    let (mut world, mut controller, mut now_ms) = (world(cost_us), controller(Engine::Amped), 0);
    let changes = world.run(&mut controller, &mut now_ms, Load::Cached, 600);
    let engines: Vec<Engine> = changes.iter().map(|(_, engine)| *engine).collect();
    assert_eq!(engines, [Engine::Proactor, Engine::Amped], "{}", controller.why());
    assert!(changes[1].0 - changes[0].0 <= TRIAL_MS);
}

#[test]
fn an_engine_that_stalls_is_left_at_the_first_wait_for_the_disk_and_never_chosen_during_it() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::Sped), 0);
    let changes = world.run(&mut controller, &mut now_ms, Load::Disk, 60);
    assert_eq!(changes.first().map(|(at, _)| *at), Some(500));
    assert!(changes.iter().all(|(_, engine)| !engine.stalls()), "{changes:?}");
}

#[test]
fn engines_that_are_equal_under_a_load_that_goes_to_and_fro_are_not_changed_more_than_once_a_minute() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::Amped), 0);
    let mut changes = Vec::new();
    for turn in 0..300 {
        let load = if turn % 2 == 0 { Load::Cached } else { Load::Connections };
        changes.extend(world.run(&mut controller, &mut now_ms, load, 4));
    }
    // At the beginning each kind of load may have its trial: two changes. After that, nothing.
    let late = changes.iter().filter(|(at, _)| *at > 120_000).count();
    assert!(changes.len() <= 8 && late == 0, "{changes:?}");
}

#[test]
fn an_engine_that_stalls_is_not_tried_where_requests_have_waited_for_the_disk_of_late() {
    let cost_us = |engine, _| if engine == Engine::Sped { 5.0 } else { 6.0 };
    let profile = || {
        let mut profile = Profile::built_in();
        profile.set(Load::Cached, Engine::Sped, Estimate { ratio: 0.95, doubt: 0.1 });
        profile.set(Load::Cached, Engine::Proactor, Estimate { ratio: 1.0, doubt: 0.01 });
        profile
    };
    let candidates = vec![Engine::Sped, Engine::Amped, Engine::Proactor];
    let (mut world, mut now_ms) = (world(cost_us), 0);
    let mut controller = Controller::new(profile(), candidates, Engine::Amped);
    world.run(&mut controller, &mut now_ms, Load::Disk, 10);
    let changes = world.run(&mut controller, &mut now_ms, Load::Cached, 500);
    assert!(changes.iter().all(|(_, engine)| *engine != Engine::Sped), "{changes:?}");
    world.run(&mut controller, &mut now_ms, Load::Cached, 200);
    // What is tried is tried in the first half minute of a kind of load.
    world.run(&mut controller, &mut now_ms, Load::Connections, 5);
    world.run(&mut controller, &mut now_ms, Load::Cached, 30);
    assert_eq!(controller.current(), Engine::Sped, "{}", controller.why());
}

#[test]
fn a_load_between_two_kinds_is_not_followed_to_and_fro() {
    let cost_us = |engine, load| match (engine, load) {
        (Engine::Proactor, Load::Cached) => 5.0,
        (Engine::Proactor, _) => 8.0,
        _ => 6.0,
    };
    let (mut world, mut controller, mut now_ms) = (world(cost_us), controller(Engine::Amped), 0);
    let mut changes = Vec::new();
    for turn in 0_u64..1200 {
        // Without an order, three alike in a row every few seconds.
        let load = if turn.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones() % 2 == 0 {
            Load::Cached
        } else {
            Load::Connections
        };
        now_ms += 500;
        let reading = world.reading(controller.current(), load);
        changes.extend(controller.observe(now_ms, &reading).map(|_| now_ms));
    }
    let late = changes.iter().filter(|at| **at > 15_000).count();
    assert!(changes.len() <= 3 && late == 0, "{changes:?}");
}

#[test]
fn kinds_of_load_that_stay_for_seconds_are_followed() {
    let cost_us = |engine, load| match (engine, load) {
        (Engine::Proactor, Load::Cached) => 5.0,
        (Engine::Proactor, _) => 8.0,
        _ => 6.0,
    };
    let (mut world, mut controller, mut now_ms) = (world(cost_us), controller(Engine::Amped), 0);
    world.run(&mut controller, &mut now_ms, Load::Cached, 30);
    for _ in 0..5 {
        world.run(&mut controller, &mut now_ms, Load::Cached, 8);
        assert_eq!(controller.current(), Engine::Proactor, "{}", controller.why());
        world.run(&mut controller, &mut now_ms, Load::Large, 8);
        assert_eq!(controller.current(), Engine::Amped, "{}", controller.why());
    }
}

#[test]
fn of_two_that_cost_the_same_the_one_that_does_not_stall_takes_over() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::ThreadPool), 0);
    let changes = world.run(&mut controller, &mut now_ms, Load::Connections, 10);
    assert_eq!(changes.first().map(|(_, engine)| *engine), Some(Engine::Amped), "{changes:?}");
}

#[test]
fn the_interval_in_which_the_load_becomes_another_does_not_count_for_a_trial() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::Amped), 0);
    let mixed = Reading { cpu_us: 5_000_000, ..world.reading(Engine::Amped, Load::Cached) };
    controller.observe(500, &world.reading(Engine::Amped, Load::Disk));
    controller.observe(1_000, &mixed);
    now_ms += 1_000;
    world.run(&mut controller, &mut now_ms, Load::Cached, 60);
    assert_eq!(controller.current(), Engine::Amped, "{}", controller.why());
}

#[test]
fn a_server_without_load_stays_as_it_is() {
    let mut controller = controller(Engine::Amped);
    let idle = Reading { interval_ms: 500, connections: 3, ..Reading::default() };
    assert!((1..10_000).all(|tick| controller.observe(tick * 500, &idle).is_none()));
}

#[test]
fn a_trial_to_which_nobody_comes_ends() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::Amped), 0);
    while controller.current() == Engine::Amped {
        world.run(&mut controller, &mut now_ms, Load::Cached, 1);
        assert!(now_ms < 60_000, "it tries something");
    }
    let idle = Reading { interval_ms: 500, ..Reading::default() };
    let change = controller.observe(now_ms + 500, &idle).expect("it goes home");
    assert_eq!(change.to, Engine::Amped);
}

#[test]
fn what_could_not_begin_is_not_asked_for_again() {
    let (mut world, mut controller, mut now_ms) = (world(|_, _| 6.0), controller(Engine::Amped), 0);
    for _ in 0..100 {
        world.run(&mut controller, &mut now_ms, Load::Cached, 1);
        if controller.current() == Engine::Proactor {
            controller.handle_failed(Engine::Proactor, Engine::Amped, "io_uring is refused.");
            assert!(controller.why().contains("io_uring is refused"));
        }
    }
    let engines = world.run(&mut controller, &mut now_ms, Load::Cached, 100);
    assert!(engines.iter().all(|(_, engine)| *engine != Engine::Proactor));
}

#[test]
fn a_profile_that_is_sure_needs_no_trials() {
    let mut profile = Profile::built_in();
    for load in Load::ALL {
        for engine in Engine::ALL {
            let ratio = if engine == Engine::Proactor && load == Load::Connections { 0.8 } else { 1.0 };
            profile.set(load, engine, Estimate { ratio, doubt: 0.01 });
        }
    }
    let mut controller = Controller::new(profile, Engine::ALL.to_vec(), Engine::Amped);
    let (mut world, mut now_ms) = (world(|_, _| 6.0), 0);
    assert_eq!(world.run(&mut controller, &mut now_ms, Load::Cached, 60), []);
    let changes = world.run(&mut controller, &mut now_ms, Load::Connections, 60);
    assert_eq!(changes.iter().map(|(_, engine)| *engine).collect::<Vec<_>>(), [Engine::Proactor]);
    assert!(controller.why().contains("20 % less"), "{}", controller.why());
}

#[test]
fn another_kind_of_load_is_answered_within_two_seconds_however_short_ago_the_last_change_was() {
    let (profile, best) = profile_of_specialists();
    let mut controller = Controller::new(profile, Engine::ALL.to_vec(), Engine::Amped);
    let (mut world, mut now_ms) = (world(specialists), 0);
    let phases = [Load::Cached, Load::Disk, Load::Crowd, Load::Large, Load::Connections, Load::Disk];
    for (phase, load) in phases.into_iter().enumerate() {
        let began_ms = now_ms;
        let changes = world.run(&mut controller, &mut now_ms, load, 4);
        assert_eq!(controller.current(), best(load), "phase {phase}: {}", controller.why());
        assert!(changes.len() <= 1, "phase {phase}: {changes:?}");
        // Readings do not begin with phases: half a second more at worst.
        assert!(changes.iter().all(|(at, _)| at - began_ms <= 1_500), "phase {phase} from {began_ms}: {changes:?}");
    }
}

#[test]
fn a_load_that_goes_to_and_fro_between_kinds_with_engines_of_their_own_is_not_followed_for_long() {
    let (profile, _) = profile_of_specialists();
    for seconds in [1, 2, 3, 4] {
        let mut controller = Controller::new(profile.clone(), Engine::ALL.to_vec(), Engine::Amped);
        let (mut world, mut now_ms, mut changes) = (world(specialists), 0, Vec::new());
        while now_ms < 600_000 {
            changes.extend(world.run(&mut controller, &mut now_ms, Load::Cached, seconds));
            changes.extend(world.run(&mut controller, &mut now_ms, Load::Connections, seconds));
        }
        let in_any_minute = changes
            .iter()
            .map(|(from, _)| changes.iter().filter(|(at, _)| (*from..from + 60_000).contains(at)).count());
        assert!(changes.len() <= 14, "turns of {seconds} s: {changes:?}");
        assert!(in_any_minute.max().unwrap_or(0) <= 14, "turns of {seconds} s: {changes:?}");
    }
}

/// When engines change in ten minutes of readings like `reading`, which is given a number between 0 and 1.
fn changes_in_ten_minutes(
    mut controller: Controller,
    cost_us: fn(Engine, Load) -> f64,
    reading: fn(Reading, f64) -> Reading,
) -> Vec<u64> {
    let (mut world, mut random, mut changes) = (world(cost_us), 7u64, Vec::new());
    for now_ms in (1..=1_200).map(|tick| tick * 500) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let plain = world.reading(controller.current(), Load::Cached);
        let reading = reading(plain, (random >> 33) as f64 / f64::from(1u32 << 31));
        changes.extend(controller.observe(now_ms, &reading).map(|_| now_ms));
    }
    changes
}

fn most_in_a_minute(changes: &[u64]) -> usize {
    let within = |from: &u64| changes.iter().filter(|at| (*from..from + 60_000).contains(at)).count();
    changes.iter().map(within).max().unwrap_or(0)
}

#[test]
fn a_load_at_the_bound_of_two_kinds_changes_engines_no_more_than_once_a_minute() {
    let at_bounds: [fn(Reading, f64) -> Reading; 3] = [
        // Around twenty waits a second, as chance has it.
        |reading, chance| Reading { blocked: 6 + (8.0 * chance) as u64, ..reading },
        |reading, chance| Reading { accepted: (reading.requests as f64 * (0.3 + 0.4 * chance)) as u64, ..reading },
        |reading, chance| Reading {
            sent_bytes: (reading.requests as f64 * 65_536.0 * (1.0 + 2.0 * chance)) as u64,
            ..reading
        },
    ];
    for at_bound in at_bounds {
        let (profile, _) = profile_of_specialists();
        let specialized = Controller::new(profile, Engine::ALL.to_vec(), Engine::Amped);
        let changes = changes_in_ten_minutes(specialized, specialists, at_bound);
        assert!(most_in_a_minute(&changes) <= 1, "{changes:?}");
        // Nor is anything tried there, though engines that might cost less are many.
        let changes = changes_in_ten_minutes(controller(Engine::Amped), |_, _| 6.0, at_bound);
        assert!(most_in_a_minute(&changes) <= 1, "{changes:?}");
    }
}

#[test]
fn a_server_with_little_to_do_changes_nothing() {
    let slow = |reading: Reading, _| Reading { requests: 500, sent_bytes: 350_000, cpu_us: 500 * 6, ..reading };
    let cost_us = |engine, _| if engine == Engine::Proactor { 5.0 } else { 6.0 };
    assert_eq!(changes_in_ten_minutes(controller(Engine::Amped), cost_us, slow), []);
}

#[test]
fn trials_come_once_a_load_has_lasted_and_are_over_in_the_first_half_minute() {
    let mut profile = Profile::built_in();
    for engine in Engine::ALL.into_iter().filter(|engine| *engine != Engine::Amped) {
        profile.set(Load::Cached, engine, Estimate { ratio: 1.0, doubt: 0.3 });
    }
    let curious = Controller::new(profile, Engine::ALL.to_vec(), Engine::Amped);
    let changes = changes_in_ten_minutes(curious, |_, _| 6.0, |reading, _| reading);
    assert!(changes.len() >= 4, "{changes:?}");
    assert!(changes.iter().all(|at| (10_000..30_500).contains(at)), "{changes:?}");
}

#[test]
fn an_engine_that_costs_less_and_answers_fewer_is_not_kept() {
    let mut controller = controller(Engine::Amped);
    let mut world = world(|engine, _| if engine == Engine::Proactor { 5.0 } else { 6.0 });
    let mut engines = Vec::new();
    for tick in 1..=120 {
        let reading = world.reading(controller.current(), Load::Cached);
        // As where few threads wait for something that is not the processor.
        let slow = controller.current() == Engine::Proactor;
        let part = |number: u64| if slow { number / 2 } else { number };
        let (requests, sent_bytes) = (part(reading.requests), part(reading.sent_bytes));
        let reading = Reading { requests, sent_bytes, cpu_us: part(reading.cpu_us), ..reading };
        engines.extend(controller.observe(tick * 500, &reading).map(|change| change.to));
    }
    assert_eq!(engines, [Engine::Proactor, Engine::Amped], "{}", controller.why());
}

#[test]
fn a_trial_that_is_surely_worse_is_over_in_a_second() {
    let cost_us = |engine, _| if engine == Engine::Proactor { 9.0 } else { 6.0 };
    let (mut world, mut controller, mut now_ms) = (world(cost_us), controller(Engine::Amped), 0);
    let changes = world.run(&mut controller, &mut now_ms, Load::Cached, 30);
    assert_eq!(changes.len(), 2);
    assert!(changes[1].0 - changes[0].0 <= 1_000, "{changes:?}");
}

#[test]
fn a_loop_that_stands_still_is_left_though_nobody_said_that_it_waits_for_a_disk() {
    let mut controller = controller(Engine::Sped);
    let mut world = world(|_, _| 6.0);
    let reading = Reading { stalled_ms: 300, ..world.reading(Engine::Sped, Load::Cached) };
    assert!(controller.observe(500, &reading).is_some_and(|change| !change.to.stalls()));
    assert!(controller.why().contains("stood still for 300 of 500 ms"), "{}", controller.why());
}

/// Each kind of load has an engine of its own that is a fifth better than the others.
fn specialists(engine: Engine, load: Load) -> f64 {
    if engine == specialist(load) { 4.8 } else { 6.0 }
}

fn specialist(load: Load) -> Engine {
    match load {
        Load::Cached => Engine::Proactor,
        Load::Disk => Engine::Amped,
        Load::Large => Engine::ThreadPool,
        Load::Connections => Engine::ThreadPerSession,
        Load::Crowd => Engine::Pipelined,
    }
}

/// A profile that knows it, as `lamna tune` would.
fn profile_of_specialists() -> (Profile, fn(Load) -> Engine) {
    let mut profile = Profile::built_in();
    for load in Load::ALL {
        for engine in Engine::ALL {
            profile.set(load, engine, Estimate { ratio: specialists(engine, load) / 6.0, doubt: 0.01 });
        }
    }
    (profile, specialist)
}
