//! Same scenario, same seed: the same result to the byte, however many threads computed it.

use lamna_sim::arch::Kind;
use lamna_sim::parameters::Parameters;
use lamna_sim::run::run;
use lamna_sim::scenario::Scenario;

fn small(architecture: Kind) -> Scenario {
    Scenario {
        architecture,
        workload: "worldcup98".into(),
        system_memory_bytes: 80 << 20,
        processors: 3,
        clients: 200,
        requests: 3_000,
        warm_up_requests: 500,
        ..Default::default()
    }
}

#[test]
fn a_seed_gives_the_same_bytes_on_one_thread_and_on_three() {
    for architecture in Kind::ALL {
        let text = |jobs| {
            let outcome = run(&small(architecture), &Parameters::paper(), jobs).expect("a valid scenario");
            serde_json::to_string(&outcome).expect("plain data")
        };
        assert_eq!(text(1), text(3), "{architecture}");
    }
}

#[test]
fn another_seed_gives_another_result() {
    let outcome = |seed| {
        let scenario = Scenario { seed, ..small(Kind::Sped) };
        run(&scenario, &Parameters::paper(), 1).expect("a valid scenario").requests_per_s.mean
    };
    assert_ne!(outcome(1), outcome(2));
}
