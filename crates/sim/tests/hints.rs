//! Hints on made-up traces, where what they are worth can be told beforehand.

use lamna_policy::cache::Algorithm;
use lamna_policy::hints::Probability;
use lamna_sim::hints::{HintOutcome, Settings, hint_outcomes, hint_outcomes_csv};
use lamna_sim::workload::Trace;
use proptest::prelude::*;

/// Pages of three files each, asked for in an order that no recency tells, each with its files at once.
fn pages(count: u32, views: u32) -> Trace {
    let mut requests = Vec::new();
    let mut state = 1_u32;
    for view in 0..views {
        // A linear congruential generator (Numerical Recipes): the same sequence in every run.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let page = (state >> 8) % count;
        (0..3).for_each(|file| requests.push((u64::from(view) * 60, 3 * page + file)));
    }
    Trace {
        name: "pages".into(),
        sizes: vec![1_000; 3 * count as usize],
        is_page: (0..3 * count).map(|file| file % 3 == 0).collect(),
        requests,
    }
}

fn of<'a>(outcomes: &'a [HintOutcome], policy: &str) -> &'a HintOutcome {
    outcomes.iter().find(|outcome| outcome.policy == policy).expect("all are run")
}

#[test]
fn where_each_page_is_followed_by_its_files_reading_ahead_takes_two_of_three_waits_away() {
    let outcomes = hint_outcomes(&pages(100, 4_000), &Settings::default());
    let (without, with) = (of(&outcomes, "hinted"), of(&outcomes, "hinted+ahead"));
    assert!(with.waits * 2 < without.waits, "{} and {}", with.waits, without.waits);
    assert!(with.used * 10 >= with.ahead * 9, "{} of {} were used", with.used, with.ahead);
    let oracle = of(&outcomes, "oracle of the table");
    assert_eq!(oracle.used, oracle.ahead, "it reads nothing in vain");
    assert_eq!(of(&outcomes, "oracle of all files").waits, 0);
}

#[test]
fn where_nothing_follows_anything_reading_ahead_costs_no_more_than_its_budget() {
    let mut trace = pages(100, 4_000);
    // The same requests, a page each, far apart.
    trace.is_page.fill(true);
    (0..).zip(&mut trace.requests).for_each(|(number, request)| request.0 = number * 60);
    let outcomes = hint_outcomes(&trace, &Settings::default());
    assert_eq!(of(&outcomes, "hinted+ahead").ahead, 0);
    let wild = Settings { probability_least: Probability::default(), ..Settings::default() };
    trace.requests.iter_mut().for_each(|request| request.0 /= 30);
    let outcomes = hint_outcomes(&trace, &wild);
    let (without, with) = (of(&outcomes, "hinted"), of(&outcomes, "hinted+ahead"));
    assert!(with.ahead > 0);
    assert!(with.ahead - with.used <= (with.waits + with.used) / 10 + 32, "{with:?}");
    assert!(with.reads * 100 <= without.reads * 115, "{} and {}", with.reads, without.reads);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn every_way_counts_the_same_requests_and_oracles_are_bounds(
        files in 2..30_usize, requests in prop::collection::vec((0..30_u64, 0..30_u32), 2..300), share in 0.1..0.9_f64,
    ) {
        let mut seconds = 0;
        let requests: Vec<_> = requests.into_iter().map(|(gap, file)| {
            seconds += gap;
            (seconds, file % files as u32)
        }).collect();
        let trace = Trace { name: "any".into(), sizes: vec![10; files], is_page: vec![true; files], requests };
        let outcomes = hint_outcomes(&trace, &Settings { share, ..Settings::default() });
        prop_assert_eq!(outcomes.len(), 2 * Algorithm::ALL.len() + 6);
        let belady = of(&outcomes, "belady-size");
        let known = of(&outcomes, "oracle of files asked for before");
        for outcome in &outcomes {
            prop_assert_eq!((outcome.requests, outcome.firsts), (belady.requests, belady.firsts));
            prop_assert_eq!(outcome.hits + outcome.waits, outcome.requests);
            prop_assert_eq!(outcome.waits + outcome.ahead, outcome.reads);
        }
        prop_assert_eq!(known.waits, belady.firsts);
        prop_assert_eq!((known.reads, of(&outcomes, "oracle of all files").reads), (belady.reads, belady.reads));
        prop_assert_eq!(hint_outcomes_csv(&outcomes).lines().count(), outcomes.len() + 1);
    }
}
