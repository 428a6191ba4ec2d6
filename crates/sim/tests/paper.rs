//! The experiments run, small, so that none rots; what they find is not asserted here but reported.

use lamna_policy::cache::Algorithm;
use lamna_sim::advise::{Question, advise};
use lamna_sim::paper::{Figure, Reading, Verdict, claims, claims_markdown, figures, panels};
use lamna_sim::parameters::Parameters;
use lamna_sim::policies::hit_ratios;
use lamna_sim::report::{csv, svg};
use lamna_sim::sweep::sweep;
use lamna_sim::workload::Workload;

#[test]
fn the_claims_about_a_figure_are_decided_once_it_was_run() {
    let parameters = Reading::Letter.parameters();
    let run = |figure: Figure| {
        let mut points = figure.scenarios(40, 1);
        points.iter_mut().for_each(|point| {
            point.warm_up_requests = 0;
            point.clients = point.clients.min(20);
        });
        // The file sets of the large profiles take long in a debug build.
        points.retain(|point| point.workload == "clarknet");
        let outcomes = sweep(&points, &parameters, 1, |_, _| ()).expect("valid scenarios");
        assert_eq!(csv(&outcomes).lines().count(), outcomes.len() + 1);
        if !outcomes.is_empty() {
            assert!(svg("figure", &panels(figure, &outcomes)).ends_with("</svg>\n"));
        }
        (figure, outcomes)
    };
    let all = figures([Figure::Fig5a, Figure::Fig6].map(run).into());
    let claims = claims(&all, &parameters);
    let decided = |section: &str| claims.iter().filter(|c| c.section == section).all(|c| c.verdict != Verdict::Unknown);
    assert!(decided("3.4"), "needs no simulation");
    let clarknet = claims.iter().find(|claim| claim.says == "ClarkNet: MP worst").expect("it is there");
    assert_ne!(clarknet.verdict, Verdict::Unknown);
    assert!(claims_markdown(&[("letter", claims)]).contains("| 6.3 |"));
}

#[test]
fn more_memory_is_the_advice_when_the_disk_limits_a_small_cache() {
    let sizes = vec![100_000; 2_000];
    let spread = |n: u64| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 2_000;
    let requests = (0..20_000).map(|n| spread(n) as u32).collect();
    let question = Question {
        workload: Workload::log("spread", sizes, requests),
        processors: 2,
        memory_bytes: 100 << 20,
        disk: "hdd".into(),
        clients: 50,
        requests: 3_000,
    };
    let advice = advise(&question, &Parameters::linux(), 1, |_, _| ()).expect("a valid question");
    assert!(advice.investments.iter().all(|other| other.gain <= advice.investments[0].gain));
    let gain = |what: &str| advice.investments.iter().find(|i| i.what.contains(what)).map(|i| i.gain);
    assert!(gain("memory") > gain("processors"), "{advice}");
    // The disk limits it, so processors are of no use, and are not shown as a loss.
    let text = advice.to_string();
    let processors = text.lines().find(|line| line.contains("4 processors")).expect("it is asked about");
    assert!(processors.contains("no difference that could be told"), "{text}");
    let usual = |outcome: &lamna_sim::run::Outcome| {
        outcome.scenario.workers == outcome.scenario.processors && outcome.scenario.architecture.name() == "amped"
    };
    assert!(advice.investments.iter().all(|investment| usual(&investment.outcome)), "{text}");
}

#[test]
fn no_policy_beats_the_offline_optimum_and_all_agree_when_everything_fits() {
    let requests = (0..30_000_u64).map(|n| (n.wrapping_mul(n) % 997) as u32).collect();
    let workload = Workload::log("squares", (1..=997).collect(), requests);
    let results = hit_ratios(&workload, &[0.1, 0.5, 1.0], 30_000, 1);
    for result in results.iter().filter(|result| result.equal_sizes) {
        let bound = results.iter().find(|r| r.equal_sizes && r.policy == "optimal" && r.share == result.share);
        assert!(result.hit_ratio <= bound.expect("one for each share").hit_ratio + 1e-9, "{result:?}");
    }
    for algorithm in Algorithm::ALL {
        let full = results.iter().find(|r| r.equal_sizes && r.share == 1.0 && r.policy == algorithm.name());
        assert_eq!(full.expect("all are there").hit_ratio, 1.0);
    }
}
