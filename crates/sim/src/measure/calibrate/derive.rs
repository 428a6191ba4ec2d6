//! From what was observed to parameters: sums, differences and slopes, and the sentence that says which.

use super::{
    BATCHES, CACHE_BYTES_LEAST, COLD_SIZES, CONNECTIONS, Calibration, MIXED_CACHE_BYTES, Medians, Name, PASSES, Plan,
    SIZES, Steps, UNIT_BYTES,
};
use crate::arch::Kind;
use crate::measure::trial::{FOREIGN_MAX, Observed, processors};
use crate::parameters::{DiskParameters, LoadParameters, Parameters, TransmitBy};
use crate::run::run_with;
use crate::scenario::Scenario;
use crate::workload::Workload;

/// Intercept and slope of the line with the least squares.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    let slope = across / along;
    (y - slope * x, slope)
}

/// From what was measured to parameters.
pub(super) fn derive(plan: &Plan, medians: &Medians, steps: &Steps, disk: DiskParameters) -> Calibration {
    let base = medians.of(Name::Size(SIZES[0]));
    let units = |size: u64| size.div_ceil(UNIT_BYTES) as f64;
    let over_sizes =
        |value: fn(&Observed) -> f64| line(&SIZES.map(|size| (units(size), value(&medians.of(Name::Size(size))))));
    let (server_us, transmit_us) = over_sizes(|o| o.server_us);
    let (client_us, receive_unit_us) = over_sizes(|o| o.load_us - o.vain_us);
    // A batch costs a + n * (one request within it).
    let batch_us = |batch: u32| medians.of(Name::Batch(batch)).server_us * f64::from(batch);
    let within_us = (batch_us(BATCHES[1]) - batch_us(BATCHES[0])) / f64::from(BATCHES[1] - BATCHES[0]);
    let parse_us = steps.parse + steps.calls.receive_request_us;
    let lookup_us = (within_us - steps.parse).max(0.0);
    let poll_share_us = steps.calls.poll_us / base.per_wait.max(1.0);
    let header_us = (server_us - parse_us - lookup_us - poll_share_us).max(0.0);
    let connection_us = (medians.of(Name::NewConnections).server_us - base.server_us).max(0.0);
    let session_us = medians.of(Name::ThreadPerSession).server_us;
    let wait_us = (session_us - (base.server_us - poll_share_us) - steps.switch).max(0.0);
    let sessions = medians.of(Name::ThreadPerSession);
    let rouse_us = (sessions.load_us - sessions.vain_us - (base.load_us - base.vain_us)).max(0.0);
    let pipelined_us = medians.of(Name::Pipelined).server_us;
    let pass_us = ((pipelined_us - base.server_us) / f64::from(PASSES)).max(0.0);
    let spawn_us = (medians.of(Name::ThreadPerRequest).server_us - session_us).max(0.0);
    let untranslated_us = (medians.of(Name::Untranslated).server_us - base.server_us).max(0.0);
    // A file that is in memory and not in the cache.
    let longer_us = medians.of(Name::UntranslatedLonger).server_us - base.server_us;
    let more_units = units(COLD_SIZES[0]) - units(SIZES[0]);
    let load_unit_us = ((longer_us - untranslated_us) / more_units - transmit_us).max(0.0);
    let load_us = (untranslated_us - load_unit_us * units(SIZES[0])).max(0.0);
    let process_us = (medians.of(Name::Mp).server_us - session_us).max(0.0);
    let bytes = |name: Name| medians.of(name).resident_bytes;
    let small = bytes(Name::Size(SIZES[0]));
    let held = |name: Name| ((bytes(name) - small) / MIXED_CACHE_BYTES as f64).max(1.0);
    let alone = medians.of(Name::OneClient);
    // The load does not sleep, so only the server has to be woken.
    let wake_us = (alone.latency_p50_us - base.server_us - (base.load_us - base.vain_us)).max(0.0);
    let load = LoadParameters {
        poll_us: steps.calls.poll_us,
        receive_us: (client_us - steps.calls.send_request_us - poll_share_us).max(0.0),
        receive_unit_us,
        send_us: steps.calls.send_request_us,
        rouse_us,
    };

    let mut parameters = Parameters::linux();
    parameters.name = plan.name.clone();
    parameters.source = match medians.0.iter().filter(|(_, observed)| observed.foreign > FOREIGN_MAX).count() {
        0 => "lamna sim calibrate: Lamna on this machine; the comments say how".into(),
        disturbed => format!("lamna sim calibrate, DISTURBED by other work in {disturbed} trials: not to be used"),
    };
    let costs = &mut parameters.costs;
    (costs.connection_us, costs.parse_us, costs.lookup_us, costs.header_us) =
        (connection_us, parse_us, lookup_us, header_us);
    // Finding a file again that is in the cache: its pages are not looked at.
    (costs.translate_us, costs.translate_miss_us) = (0.0, load_us);
    (costs.load_us, costs.load_unit_us, costs.process_us) = (load_us, load_unit_us, process_us);
    (costs.transmit_us, costs.transmit_unit_bytes, costs.transmit_by) =
        (transmit_us, UNIT_BYTES, TransmitBy::Processor);
    (costs.poll_us, costs.wait_us, costs.hand_off_us) = (steps.calls.poll_us, wait_us, steps.hand_off);
    costs.pass_us = pass_us;
    (costs.spawn_us, costs.requests_per_connection) = (spawn_us, 1_000_000);
    (parameters.processor.switch_us, parameters.processor.wake_us) = (steps.switch, wake_us);
    parameters.processor.sleeps_after_us = SLEEPS_AFTER_US;
    (parameters.locks.acquire_us, parameters.locks.front) = (steps.lock, true);
    let memory = &mut parameters.memory;
    (memory.translation_fresh_us, memory.content_bytes_max, memory.entry_bytes) = (1e7, 256 * 1024, 841);
    memory.thread_bytes = ((bytes(Name::ThreadPerSession) - small) / f64::from(CONNECTIONS)).max(0.0) as u64;
    memory.helper_bytes = ((bytes(Name::Mp) - small) / f64::from(CONNECTIONS)).max(0.0) as u64;
    (memory.held_ratio, memory.held_ratio_threads) = (held(Name::Filled), held(Name::FilledByThreads));
    parameters.concurrency.read_helpers = 32;
    parameters.concurrency.send_with_header_bytes = 256 * 1024;
    parameters.load = load;
    reads(&mut parameters, medians, base.server_us);
    parameters.disks.insert("this".into(), disk);
    parameters.processor.granularity_us = granularity_us(&parameters, &medians.of(Name::Shared));
    round(&mut parameters);
    let how = sentences(&base, session_us, pipelined_us, &alone, within_us);
    Calibration { parameters, how }
}

/// What reading from disk costs, from files that are neither in the cache nor in memory. Where the trials could not be
/// limited they were in memory after all, and the estimates stay.
fn reads(parameters: &mut Parameters, medians: &Medians, base_us: f64) {
    let small = medians.of(Name::Cold(COLD_SIZES[0]));
    if small.disk_reads < READS_LEAST {
        return;
    }
    let (costs, switch_us) = (&mut parameters.costs, parameters.processor.switch_us);
    let units = |size: u64| size.div_ceil(UNIT_BYTES) as f64;
    let miss_us = |size: u64| (costs.load_unit_us + costs.transmit_us) * units(size) + costs.load_us + base_us;
    let of = |observed: &Observed, size: u64| (observed.server_us - miss_us(size)) / observed.disk_reads;
    let points = COLD_SIZES.map(|size| (units(size), of(&medians.of(Name::Cold(size)), size)));
    let (read_us, read_unit_us) = line(&points);
    let helped_us = of(&medians.of(Name::ColdTried), COLD_SIZES[0]) - points[0].1;
    // There and back again.
    let try_us = helped_us - 2.0 * switch_us - 4.0 * costs.hand_off_us;
    (costs.read_us, costs.read_unit_us, costs.try_us) = (read_us.max(0.0), read_unit_us.max(0.0), try_us.max(0.0));
    parameters.memory.process_bytes = (small.group_bytes as u64).saturating_sub(CACHE_BYTES_LEAST);
}

/// The granularity with which the models have the throughput of a trial in which a loop and the load share a processor. What
/// Linux does there depends on how much both have run before, and has no time of its own that could be read somewhere.
fn granularity_us(parameters: &Parameters, shared: &Observed) -> f64 {
    let workload = Workload::log("shared", vec![SIZES[0]], vec![0]);
    let scenario = Scenario {
        architecture: Kind::EventLoops,
        processors: processors() as u32,
        data_cache_bytes: 1 << 20,
        disk: "this".into(),
        clients: CONNECTIONS,
        workers: 2,
        clients_on_server: true,
        bound_workers: true,
        worker_clients: shared.worker_connections.clone(),
        requests: 50_000,
        warm_up_requests: 5_000,
        replications: 1,
        ..Scenario::default()
    };
    let error = |granularity_us: f64| {
        let mut parameters = parameters.clone();
        parameters.processor.granularity_us = granularity_us;
        // A set that cannot be simulated says nothing for any granularity.
        let predicted = run_with(&scenario, &parameters, &workload, 1).map_or(0.0, |o| o.requests_per_s.mean);
        (predicted / shared.requests_per_s - 1.0).abs()
    };
    let errors = GRANULARITIES_US.map(|us| (us, error(us)));
    errors.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(GRANULARITIES_US[0], |(us, _)| us)
}

/// Those that are tried, in steps of a half more.
const GRANULARITIES_US: [f64; 11] = [15.0, 20.0, 30.0, 45.0, 70.0, 100.0, 150.0, 225.0, 340.0, 500.0, 700.0];

/// For each request; with fewer the trial was not one of reading.
const READS_LEAST: f64 = 0.1;

/// Four digits behind the point: nanoseconds and less, finer than anything here was measured.
pub(super) fn round(parameters: &mut Parameters) {
    let round = |value: &mut f64| *value = (*value * 1e4).round() / 1e4;
    let Parameters { costs, processor, locks, load, disks, memory, .. } = parameters;
    [&mut costs.connection_us, &mut costs.parse_us, &mut costs.translate_miss_us, &mut costs.lookup_us]
        .into_iter()
        .for_each(round);
    [&mut costs.header_us, &mut costs.transmit_us, &mut costs.poll_us, &mut costs.wait_us].into_iter().for_each(round);
    [&mut costs.hand_off_us, &mut costs.pass_us, &mut costs.read_us, &mut costs.spawn_us].into_iter().for_each(round);
    [&mut costs.load_us, &mut costs.load_unit_us, &mut costs.try_us, &mut costs.read_unit_us, &mut costs.process_us]
        .into_iter()
        .for_each(round);
    [&mut memory.held_ratio, &mut memory.held_ratio_threads].into_iter().for_each(round);
    [&mut processor.switch_us, &mut processor.wake_us, &mut locks.acquire_us].into_iter().for_each(round);
    [&mut load.poll_us, &mut load.receive_us, &mut load.receive_unit_us, &mut load.send_us, &mut load.rouse_us]
        .into_iter()
        .for_each(round);
    for disk in disks.values_mut() {
        [&mut disk.latency_us, &mut disk.spread, &mut disk.bytes_per_s].into_iter().for_each(round);
    }
}

/// A processor with less of a pause than this is found awake in the trials; not measured more finely.
const SLEEPS_AFTER_US: f64 = 5.0;

pub(super) fn sentences(
    base: &Observed,
    session_us: f64,
    pipelined_us: f64,
    alone: &Observed,
    within_us: f64,
) -> Vec<(&'static str, String)> {
    let all =
        format!("server's processor time per request: {:.2} with 500 bytes, kept, 32 connections", base.server_us);
    vec![
        ("costs.connection_us", "sped, a new connection for each request, less a kept one".into()),
        ("costs.requests_per_connection", "kept connections; not measured".into()),
        ("costs.parse_us", "recv(2) of a request and the core's work on it, single calls".into()),
        ("costs.translate_us", "within lookup_us: one look-up finds both".into()),
        ("costs.translate_miss_us", "as costs.load_us: the same calls but for reading".into()),
        ("costs.load_us", "sped on 20,000 files of 500 bytes with the smallest cache, less one file".into()),
        ("costs.load_unit_us", "the same with files of 16 KiB, less that, less costs.transmit_us".into()),
        (
            "costs.try_us",
            "amped on cold files of 16 KiB less sped on the same, for each read, less two switches".into(),
        ),
        ("costs.read_unit_us", "slope of costs.read_us over files of 16 and 128 KiB".into()),
        ("costs.process_us", "mp less thread-per-session".into()),
        (
            "costs.lookup_us",
            format!("one more request in a batch ({within_us:.3}: 64 against 16) less the core's work"),
        ),
        ("costs.header_us", format!("the rest of the {all}; intercept over sizes")),
        ("costs.transmit_us", "slope of the server's processor time over 500 B to 50 KB".into()),
        ("costs.poll_us", "epoll_wait(2) with one event, single calls".into()),
        ("costs.wait_us", format!("thread-per-session ({session_us:.2}) less sped and one switch")),
        ("costs.hand_off_us", "unparking and parking a thread beyond the switch, single calls".into()),
        (
            "costs.pass_us",
            format!("half of pipelined ({pipelined_us:.2}) less sped: a small response is passed on twice"),
        ),
        (
            "costs.read_us",
            "sped on files that its control group cannot hold, beyond what their load costs, for each read".into(),
        ),
        ("costs.spawn_us", "thread-per-request less thread-per-session".into()),
        ("processor.switch_us", "two threads on one processor and two pipes, less the calls".into()),
        ("processor.quantum_us", "assumed".into()),
        (
            "processor.granularity_us",
            "the one with which the model of sped with two workers, one beside the load, is as fast as the trial"
                .into(),
        ),
        ("processor.wake_us", format!("what one client's latency ({:.1}) has beyond the work", alone.latency_p50_us)),
        ("processor.sleeps_after_us", "assumed".into()),
        ("locks.acquire_us", "a mutex that is free, single calls; unused with fronts".into()),
        ("locks.shards", "assumed; unused with fronts".into()),
        ("locks.front", "as Lamna is built".into()),
        ("memory.entry_bytes", "docs/caches.md: an entry and its translation, gdsf".into()),
        ("memory.content_bytes_max", "as Lamna is built".into()),
        ("memory.process_bytes", "memory of sped's control group that is neither files nor cache".into()),
        (
            "memory.held_ratio",
            "what filling a cache of 32 MiB with files of 500 B to 250 KB adds to sped, for each byte".into(),
        ),
        ("memory.held_ratio_threads", "the same with thread-pool".into()),
        ("memory.translation_entries", "assumed".into()),
        ("memory.translation_fresh_us", "as Lamna is built: entries that are watched".into()),
        ("memory.thread_bytes", "thread-per-session less sped, for each of 32 threads".into()),
        ("memory.helper_bytes", "mp less sped, for each of 32 processes".into()),
        ("memory.file_bytes_mean", "assumed".into()),
        ("concurrency.processes_per_processor", "as Lamna is built".into()),
        ("concurrency.threads_per_processor", "as Lamna is built".into()),
        ("concurrency.read_helpers", "as Lamna is built: at most".into()),
        ("concurrency.send_quantum_bytes", "as Lamna is built".into()),
        ("concurrency.send_with_header_bytes", "as Lamna is built".into()),
        ("load.poll_us", "as costs.poll_us".into()),
        ("load.receive_us", "the rest of the load's processor time per request; intercept over sizes".into()),
        ("load.receive_unit_us", "slope of the load's processor time over 500 B to 50 KB".into()),
        ("load.send_us", "send(2) of a request, single calls".into()),
        ("load.rouse_us", "the load's processor time on thread-per-session less that on sped".into()),
        ("disks.this.latency_us", "median of 512 cold reads of 4 KiB".into()),
        ("disks.this.spread", "from their tenths at both ends".into()),
        ("disks.this.bytes_per_s", "a cold file of 64 MiB".into()),
        ("disks.this.parallelism", "cold reads per second of 32 threads against one".into()),
    ]
}
