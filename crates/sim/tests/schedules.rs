//! Orders of service against closed forms and laws that hold for every order.

use lamna_policy::schedule::Schedule;
use lamna_sim::parameters::Parameters;
use lamna_sim::schedules::{Bottleneck, Class, Question, ScheduleOutcome, WEBSTONE, schedules, schedules_csv};

/// A link on which a byte takes 80 ns.
const LINK: Bottleneck = Bottleneck::Link(100e6);

fn question(classes: &[Class], load: f64) -> Question {
    Question {
        bottleneck: LINK,
        classes: classes.to_vec(),
        load,
        turn_bytes: 65_536,
        patience: u32::MAX,
        requests: 40_000,
        seed: 7,
    }
}

fn of(outcomes: &[ScheduleOutcome], schedule: Schedule) -> &ScheduleOutcome {
    outcomes.iter().find(|outcome| outcome.schedule == schedule).expect("all are run")
}

fn is_close(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} where theory has {expected}");
}

/// Means are over few enough busy periods that their error is some per cent.
const TOLERANCE: f64 = 0.06;

#[test]
fn first_come_first_served_waits_as_pollaczek_and_khinchine_say() {
    let classes = [Class { bytes: 1_000, share: 0.9 }, Class { bytes: 20_000, share: 0.1 }];
    let outcomes = schedules(&question(&classes, 0.7));
    let (mean, second) = (0.9 * 80e3 + 0.1 * 1.6e6, 0.9 * 80e3 * 80e3 + 0.1 * 1.6e6 * 1.6e6);
    let waits = 0.7 / mean * second / (2.0 * (1.0 - 0.7));
    is_close(of(&outcomes, Schedule::Fifo).classes[0].mean, waits + mean, TOLERANCE);
}

#[test]
fn with_short_turns_everybody_takes_as_many_times_longer_as_the_load_leaves_idle() {
    let classes = [Class { bytes: 20_000, share: 0.7 }, Class { bytes: 100_000, share: 0.3 }];
    let outcomes = schedules(&Question { turn_bytes: 1_000, ..question(&classes, 0.6) });
    let outcome = of(&outcomes, Schedule::RoundRobin);
    is_close(outcome.classes[1].mean, 20_000.0 * 80.0 / 0.4, TOLERANCE);
    is_close(outcome.classes[2].mean, 100_000.0 * 80.0 / 0.4, TOLERANCE);
}

#[test]
fn no_order_makes_or_loses_work_and_the_shortest_first_has_the_least_mean() {
    for load in [0.5, 0.9] {
        let outcomes = schedules(&question(&WEBSTONE, load));
        let best = of(&outcomes, Schedule::Srpt);
        for outcome in &outcomes {
            is_close(outcome.utilisation, load, TOLERANCE);
            assert_eq!(outcome.classes[0].requests, 40_000);
            assert!(best.classes[0].mean <= outcome.classes[0].mean, "{} is better", outcome.schedule);
        }
    }
}

#[test]
fn with_all_sizes_equal_no_order_differs_from_the_order_of_arrival() {
    let outcomes = schedules(&question(&[Class { bytes: 1_000, share: 1.0 }], 0.8));
    for outcome in &outcomes {
        assert_eq!(outcome.classes[0].mean, outcomes[0].classes[0].mean, "{}", outcome.schedule);
    }
}

#[test]
fn who_waits_has_its_turn_within_the_bound() {
    let impatient = Question { patience: 16, ..question(&WEBSTONE, 0.9) };
    let patient = schedules(&question(&WEBSTONE, 0.9));
    let outcomes = schedules(&impatient);
    let (bounded, unbounded) = (of(&outcomes, Schedule::Srpt), of(&patient, Schedule::Srpt));
    assert!(bounded.waited_most < unbounded.waited_most, "{} turns", bounded.waited_most);
}

#[test]
fn a_disk_serves_what_it_has_places_for_and_no_order_changes_its_load() {
    for disk in ["hdd", "network"] {
        let bottleneck = Bottleneck::Disk(Parameters::linux().disks[disk]);
        let asked = Question { bottleneck, turn_bytes: 1 << 20, ..question(&WEBSTONE, 0.6) };
        let outcomes = schedules(&asked);
        let means: Vec<f64> = outcomes.iter().map(|outcome| outcome.classes[0].mean).collect();
        assert!(of(&outcomes, Schedule::Srpt).classes[0].mean <= of(&outcomes, Schedule::RoundRobin).classes[0].mean);
        assert!(means.iter().all(|mean| *mean > 0.0));
        if disk == "hdd" {
            outcomes.iter().for_each(|outcome| is_close(outcome.utilisation, 0.6, TOLERANCE));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let asked = Question { requests: 5_000, ..question(&WEBSTONE, 0.9) };
    assert_eq!(schedules_csv(&asked, &schedules(&asked)), schedules_csv(&asked, &schedules(&asked)));
}
