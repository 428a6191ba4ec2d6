//! Laws that hold for every architecture whatever the parameters: nothing is lost, nothing works more than always, and
//! Little's.

use lamna_sim::arch::Kind;
use lamna_sim::parameters::{DataCopies, LoadParameters, Parameters};
use lamna_sim::resource::{Discipline, Handover};
use lamna_sim::run::{data_cache_bytes, run, run_with};
use lamna_sim::scenario::Scenario;
use lamna_sim::workload::Workload;
use proptest::prelude::*;

fn scenarios() -> impl Strategy<Value = (Scenario, Parameters)> {
    (
        prop::sample::select(Kind::ALL.to_vec()),
        1..6_u32,
        1..120_u32,
        20..200_u64,
        any::<(bool, bool, bool, bool)>(),
        any::<(bool, bool, bool, bool)>(),
        any::<u64>(),
    )
        .prop_map(|(architecture, processors, clients, mebibytes, choices, here, seed)| {
            let (linux, grant, private, nvme) = choices;
            let (clients_on_server, bound_workers, sleepy, real) = here;
            let mut parameters = if linux { Parameters::linux() } else { Parameters::paper() };
            parameters.locks.handover = if grant { Handover::Grant } else { Handover::Compete };
            parameters.memory.data_copies = if private { DataCopies::Private } else { DataCopies::Shared };
            if sleepy {
                (parameters.processor.wake_us, parameters.processor.sleeps_after_us) = (20.0, 5.0);
            }
            if real {
                parameters.locks.front = true;
                parameters.concurrency.send_with_header_bytes = 10_000;
                parameters.memory.translation_fresh_us = 1e5;
                parameters.memory.content_bytes_max = 100_000;
                let concurrency = &mut parameters.concurrency;
                (concurrency.read_quantum_bytes, concurrency.copy_quantum_bytes) = (60_000, 90_000);
                (parameters.costs.copy_unit_us, parameters.costs.file_unit_us) = (0.2, 0.03);
                (parameters.costs.varied_us, parameters.costs.far_us) = (1.0, 0.5);
                parameters.costs.spawn_waiting = 0.2;
                (parameters.memory.near_bytes, parameters.memory.process_entries) = (500_000, 200);
                let contents = vec![(1_000, 0.0), (10_000, -0.5), (30_000, 2.0)];
                parameters.contents.insert(architecture.name().into(), contents);
                parameters.long_units.insert(architecture.name().into(), 0.02);
                parameters.long_segments.insert(architecture.name().into(), 0.3);
                parameters.shared.insert(architecture.name().into(), -0.2);
                parameters.processor.program_us = 2.0;
                parameters.varied.insert(architecture.name().into(), -0.5);
                parameters.reads.insert(architecture.name().into(), 5.0);
                parameters.read_units.insert(architecture.name().into(), 0.1);
                (parameters.costs.pass_us, parameters.costs.wait_us) = (1.0, 2.0);
                (parameters.processor.discipline, parameters.processor.call_us) = (Discipline::Fair, 3.0);
                // Short beside a run, so that a round of all tasks is, too.
                (parameters.processor.quantum_us, parameters.processor.granularity_us) = (100.0, 40.0);
                parameters.concurrency.passes_batches = true;
                (parameters.costs.segment_bytes, parameters.costs.segment_us) = (65_536, 4.0);
            }
            if clients_on_server {
                let rouse_us = if sleepy { 2.0 } else { 0.0 };
                parameters.load = LoadParameters {
                    poll_us: 0.5,
                    receive_us: 2.0,
                    receive_unit_us: 0.1,
                    segment_us: 0.4,
                    segment_at_once_us: 0.2,
                    varied_us: 0.3,
                    shared_us: 0.6,
                    shared_unit_us: 0.01,
                    send_us: 3.0,
                    rouse_us,
                };
            }
            let scenario = Scenario {
                clients_on_server,
                bound_workers,
                clients_spin: !sleepy,
                architecture,
                workload: "nasa".into(),
                processors,
                clients,
                system_memory_bytes: mebibytes << 20,
                replaces_page_cache: real && sleepy,
                separate_caches: real,
                page_cache_bytes: if linux && real { mebibytes << 19 } else { 0 },
                disk: match (linux, nvme) {
                    (true, true) => "nvme",
                    (true, false) => "hdd",
                    _ => "slow",
                }
                .into(),
                requests: 10_000,
                warm_up_requests: 300,
                replications: 1,
                seed,
                ..Default::default()
            };
            (scenario, parameters)
        })
}

/// Whether requests under way are tasks, between which the scheduler decides.
fn has_a_task_each(architecture: Kind) -> bool {
    matches!(architecture, Kind::Mp | Kind::ThreadPool | Kind::ThreadPerRequest | Kind::ThreadPerSession)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_run_ends_and_obeys_the_laws((scenario, parameters) in scenarios()) {
        let outcome = run(&scenario, &parameters, 1).expect("a valid scenario");
        // A stretch is counted when it begins, so the last ones may reach over the end.
        prop_assert!(outcome.processor_utilisation <= 1.02, "{outcome:?}");
        prop_assert!((0.0..=1.0).contains(&outcome.hit_ratio));
        prop_assert!(outcome.reads_per_request <= 1.0 - outcome.hit_ratio + 0.05, "{outcome:?}");
        // Little: each client always has one request under way. Those under way at the two ends blur it, by at most the
        // longest there can be: the longest that ended, or one that waits at the end for the reads of all others, or
        // for the turns on a processor of all others, each of which may go on until the tick after its slice.
        let under_way = outcome.requests_per_s.mean * outcome.latency_mean_us / 1e6;
        let clients = f64::from(scenario.clients);
        let elapsed_us = scenario.requests as f64 / outcome.requests_per_s.mean * 1e6;
        let disk = &parameters.disks[&scenario.disk];
        let reads_us = clients * disk.latency_us / f64::from(disk.parallelism);
        let turn_us = parameters.processor.quantum_us + parameters.processor.granularity_us;
        let turns_us = if has_a_task_each(scenario.architecture) { clients * turn_us } else { 0.0 };
        let blur = 0.02 + 1.5 * outcome.latency_max_us.max(reads_us).max(turns_us) / elapsed_us;
        prop_assert!((under_way / clients - 1.0).abs() < blur, "{under_way} of {clients}, {blur}");
    }

    #[test]
    fn memory_is_divided_without_remainder(
        architecture in prop::sample::select(Kind::PAPER.to_vec()), processors in 1..128_u32, gibibytes in 1..16_u64,
    ) {
        let parameters = Parameters::paper();
        let scenario = Scenario { architecture, processors, system_memory_bytes: gibibytes << 30, ..Default::default() };
        let division = architecture.divide(&scenario, &parameters);
        prop_assert_eq!(division.data_cache_bytes + division.overhead_bytes, scenario.system_memory_bytes);
        let overhead = architecture.overhead(&scenario, &parameters);
        let entries = division.data_cache_bytes as f64 / 15_360.0;
        let expected = entries * overhead.entry_bytes * overhead.copies + overhead.fixed_bytes;
        prop_assert!((division.overhead_bytes as f64 / expected - 1.0).abs() < 1e-6);
    }
}

#[test]
fn table_1_is_reproduced_for_16_processors_and_4_gib() {
    let cache = |architecture| {
        let scenario = Scenario { architecture, processors: 16, ..Default::default() };
        data_cache_bytes(&scenario, &Parameters::paper()) as f64 / f64::from(1 << 20)
    };
    let expect = |architecture, entries: f64, fixed_mib: f64| {
        let expected = (4096.0 - fixed_mib) / (1.0 + 850.0 * entries / 15_360.0);
        assert!((cache(architecture) - expected).abs() < 0.01, "{architecture}");
    };
    expect(Kind::Mp, 16.0 * 32.0, 0.0);
    expect(Kind::ThreadPool, 1.0, 1024.0 * 25.0 / 1024.0);
    expect(Kind::Sped, 16.0, 0.0);
    expect(Kind::CoAmped, 16.0, 48.0);
    expect(Kind::Pipelined, 1.0, 7.0 * 16.0 * 25.0 / 1024.0);
}

#[test]
fn what_the_page_cache_holds_is_never_read_from_disk_again() {
    for architecture in Kind::ALL {
        let scenario = Scenario {
            architecture,
            workload: "nasa".into(),
            data_cache_bytes: 20 << 20,
            page_cache_bytes: 1 << 30,
            disk: "ssd".into(),
            clients: 16,
            requests: 20_000,
            warm_up_requests: 1_000,
            replications: 1,
            ..Default::default()
        };
        let outcome = run(&scenario, &Parameters::linux(), 1).expect("a valid scenario");
        assert_eq!(outcome.reads_per_request, 0.0, "{architecture}");
        assert!(outcome.hit_ratio < 0.999 && outcome.hit_ratio + outcome.page_hit_ratio > 0.999_9, "{architecture}");
    }
}

#[test]
fn a_cache_that_holds_alone_leaves_what_it_has_no_room_for_in_pages_that_nobody_needs() {
    let workload = Workload::independent("more", vec![100_000; 100], vec![1.0; 100]);
    let reads_per_request = |page_cache_mib: u64| {
        let mut parameters = Parameters::linux();
        parameters.memory.content_bytes_max = 256 << 10;
        let scenario = Scenario {
            architecture: Kind::Amped,
            replaces_page_cache: true,
            data_cache_bytes: 5 << 20,
            page_cache_bytes: page_cache_mib << 20,
            disk: "ssd".into(),
            clients: 4,
            requests: 5_000,
            warm_up_requests: 2_000,
            replications: 1,
            ..Default::default()
        };
        run_with(&scenario, &parameters, &workload, 1).expect("a valid scenario").reads_per_request
    };
    assert_eq!(reads_per_request(12), 0.0);
    // A sixteenth of 10 MiB stays free, and half of 100 files are in the data cache.
    assert!((0.1..0.3).contains(&reads_per_request(4)), "{}", reads_per_request(4));
}

#[test]
fn a_throttled_disk_reads_as_often_as_it_may_and_only_stalling_loops_keep_hot_clients_waiting() {
    let mut parameters = Parameters::linux();
    let disk = parameters.disks.get_mut("ssd").expect("a disk of the set");
    (disk.requests_per_s, disk.throttle_slice_us) = (200.0, 1e5);
    let workload = Workload::hot_and_cold(8, 500, 20_000, 15_000);
    let run_one = |architecture, requests| {
        let scenario = Scenario {
            architecture,
            data_cache_bytes: 1 << 20,
            disk: "ssd".into(),
            clients: 24,
            requests,
            warm_up_requests: requests / 2,
            replications: 1,
            ..Default::default()
        };
        run_with(&scenario, &parameters, &workload, 1).expect("a valid scenario")
    };
    let (stalling, helped) = (run_one(Kind::EventLoops, 3_000), run_one(Kind::Amped, 400_000));
    for outcome in [&stalling, &helped] {
        let reads_per_s = outcome.reads_per_request * outcome.requests_per_s.mean;
        assert!((190.0..210.0).contains(&reads_per_s), "{reads_per_s}");
    }
    assert!(helped.requests_per_s.mean > 100.0 * stalling.requests_per_s.mean);
}

#[test]
fn a_cache_that_holds_alone_has_long_content_brought_by_helpers_piece_by_piece_from_wherever_it_is() {
    let workload = Workload::log("long", vec![1 << 20], vec![0]);
    let switches = |architecture, replaces_page_cache, copy_quantum_bytes| {
        let mut parameters = Parameters::linux();
        parameters.memory.content_bytes_max = 256 << 10;
        parameters.concurrency.copy_quantum_bytes = copy_quantum_bytes;
        let scenario = Scenario {
            architecture,
            replaces_page_cache,
            data_cache_bytes: 20 << 20,
            page_cache_bytes: 1 << 30,
            disk: "ssd".into(),
            clients: 1,
            requests: 1_000,
            warm_up_requests: 10,
            replications: 1,
            ..Default::default()
        };
        let outcome = run_with(&scenario, &parameters, &workload, 1).expect("a valid scenario");
        assert_eq!(outcome.reads_per_request, 0.0, "it is in the page cache");
        outcome.switches_per_request
    };
    for architecture in [Kind::Amped, Kind::Proactor] {
        let inline = switches(architecture, false, 0);
        // To a helper and back again.
        assert!((switches(architecture, true, 0) - inline - 2.0).abs() < 0.01, "{architecture}");
        assert!((switches(architecture, true, 256 << 10) - inline - 8.0).abs() < 0.01, "{architecture}");
    }
    assert_eq!(switches(Kind::EventLoops, true, 256 << 10), switches(Kind::EventLoops, false, 0));
}
