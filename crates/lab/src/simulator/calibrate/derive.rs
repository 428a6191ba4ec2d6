//! Derivation of parameters from observations: sums, differences and slopes, and the sentence that says which.

use lamna_sim::parameters::{DiskParameters, LoadParameters, Parameters, TransmitBy};
use lamna_sim::resource::Discipline;
use lamna_sim::run::Outcome;

use super::calibration::{Calibration, Results};
use super::invert::{Model, bound, solve, solve_between, solve_for, solve_load, solve_waiting};
use super::name::{
    BATCHES, COLD_SIZES, CONNECTIONS, ENGINES, FAR_LONGER_FILES, FAR_SMALL_FILES, LONG_SENDERS, LONGER_FILES,
    MANY_FILES, MIXED_CACHE_BYTES, Name, SHARED_SIZES, SHARERS, SIZES, UNIT_BYTES, VARIED,
};
use super::reads::{copies, reads};
use super::sentences::sentences;
use super::steps::Steps;
use crate::simulator::trial::{FOREIGN_MAX, Observed, processors};

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

/// Derives parameters from measurements.
pub(super) fn derive(
    name: &str,
    results: &Results,
    steps: &Steps,
    disk: DiskParameters,
    yardstick_us: f64,
) -> Calibration {
    let mut parameters = Parameters::linux();
    parameters.name = name.into();
    let disturbed =
        results.0.iter().filter(|(name, seen)| !name.occupies_the_kernel() && seen.foreign > FOREIGN_MAX).count();
    parameters.source = match disturbed {
        0 => "lamna sim calibrate: Lamna on this machine; the comments say how".into(),
        _ => format!("lamna sim calibrate, DISTURBED by other work in {disturbed} trials: not to be used"),
    };
    parameters.processor.yardstick_us = yardstick_us;
    let within_us = within_batch_us(results);
    built(&mut parameters, steps);
    sizes(&mut parameters, results, steps, within_us);
    occupied(&mut parameters, results);
    parameters.disks.insert("this".into(), disk);
    parameters.memory.near_bytes = cache_bytes(NEAR).unwrap_or(1 << 20) / NEAR_SHARE;
    parameters.memory.far_bytes = cache_bytes(SHARED).unwrap_or(0);
    far(&mut parameters, results);
    misses(&mut parameters, results);
    resting(&mut parameters, results);
    varied_lengths(&mut parameters, results);
    shared(&mut parameters, results);
    engines(&mut parameters, results);
    shared_by(&mut parameters, results);
    varied(&mut parameters, results);
    contents(&mut parameters, results);
    long_contents(&mut parameters, results);
    reads(&mut parameters, results);
    copies(&mut parameters, results);
    round(&mut parameters);
    let how = sentences(&results.of(Name::Size(SIZES[0])), &results.of(Name::OneClient), within_us);
    Calibration { parameters, how }
}

/// The time of one more request in a batch, which costs a + n * (one request within it).
fn within_batch_us(results: &Results) -> f64 {
    let batch_us = |batch: u32| results.of(Name::Batch(batch)).server_us * f64::from(batch);
    (batch_us(BATCHES[1]) - batch_us(BATCHES[0])) / f64::from(BATCHES[1] - BATCHES[0])
}

/// Sets the parameters that follow from how Lamna is built, and those measured in single calls.
fn built(parameters: &mut Parameters, steps: &Steps) {
    let Parameters { costs, processor, locks, memory, concurrency, .. } = parameters;
    (costs.translate_us, costs.requests_per_connection) = (0.0, 1_000_000);
    (costs.transmit_unit_bytes, costs.transmit_by) = (UNIT_BYTES, TransmitBy::Processor);
    (costs.poll_us, costs.hand_off_us) = (steps.calls.poll_us, steps.hand_off);
    (processor.switch_us, processor.sleeps_after_us) = (steps.switch, SLEEPS_AFTER_US);
    (processor.discipline, processor.granularity_us) = (Discipline::Fair, slice_us());
    if steps.turn > 0.0 {
        processor.quantum_us = steps.turn;
    }
    (locks.acquire_us, locks.front) = (steps.lock, true);
    (memory.translation_fresh_us, memory.content_bytes_max, memory.entry_bytes) = (1e7, 256 * 1024, 793);
    (memory.content_share, memory.process_entries) = (8, 200);
    (concurrency.read_helpers, concurrency.send_with_header_bytes) = (32, 256 * 1024);
    (concurrency.send_quantum_bytes, concurrency.send_file_quantum_bytes) = (1 << 20, 256 * 1024);
    concurrency.passes_batches = true;
    (concurrency.read_quantum_bytes, concurrency.copy_quantum_bytes) = (256 * 1024, 1 << 20);
}

/// The slice of Linux: `sysctl_sched_base_slice` and `get_update_sysctl_factor` in `kernel/sched/fair.c`, which users
/// without debugfs cannot read.
fn slice_us() -> f64 {
    700.0 * f64::from(1 + processors().min(8).ilog2())
}

fn units(size: u64) -> f64 {
    size.div_ceil(UNIT_BYTES) as f64
}

/// The steps of a request and of the load, from the slopes over sizes and from single calls.
fn sizes(parameters: &mut Parameters, results: &Results, steps: &Steps, within_us: f64) {
    let base = results.of(Name::Size(SIZES[0]));
    let (_, transmit_us, segment_us) = over_sizes(results, |o| o.server_us);
    let (client_us, receive_unit_us, receive_segment_us) = over_sizes(results, |o| o.load_us - o.vain_us);
    let poll_share_us = steps.calls.poll_us / base.per_wait.max(1.0);
    let sessions = results.of(Name::Engine("thread-per-session"));
    let rouse_us = sessions.load_us - sessions.vain_us - (base.load_us - base.vain_us);
    let costs = &mut parameters.costs;
    costs.connection_us = (results.of(Name::NewConnections).server_us - base.server_us).max(0.0);
    costs.parse_us = steps.parse + steps.calls.receive_request_us;
    costs.lookup_us = (within_us - steps.parse).max(0.0);
    costs.transmit_us = transmit_us.max(0.0);
    (costs.segment_bytes, costs.segment_us) = (SEGMENT_BYTES, segment_us.max(0.0));
    parameters.load = LoadParameters {
        poll_us: steps.calls.poll_us,
        receive_us: (client_us - steps.calls.send_request_us - poll_share_us).max(0.0),
        receive_unit_us: receive_unit_us.max(0.0),
        segment_us: 0.0,
        segment_at_once_us: receive_segment_us.max(0.0),
        send_us: steps.calls.send_request_us,
        rouse_us: rouse_us.max(0.0),
        varied_us: 0.0,
        shared_us: 0.0,
        shared_unit_us: 0.0,
    };
}

/// The cost of a request without content, of each unit of it, and of a second segment: the line through the sizes that
/// are one segment, and how far the longest one is above it.
fn over_sizes(results: &Results, value: fn(&Observed) -> f64) -> (f64, f64, f64) {
    let (one, more): (Vec<u64>, Vec<u64>) = SIZES.iter().partition(|&&size| size <= SEGMENT_BYTES);
    let point = |size: u64| (units(size), value(&results.of(Name::Size(size))));
    let (intercept, slope) = line(&one.into_iter().map(point).collect::<Vec<_>>());
    let mut beyond = more.into_iter().map(point).map(|(units, us)| us - intercept - slope * units);
    (intercept, slope, beyond.next_back().unwrap_or(0.0))
}

/// Content that loopback carries at once: its largest packet, `MAX_GSO` of `lo` in ip-link(8), less a head.
const SEGMENT_BYTES: u64 = 65_536 - HEAD_BYTES;
/// Bytes of the head of a file's answer from Lamna.
const HEAD_BYTES: u64 = 267;

/// Memory of threads, processes and caches.
fn occupied(parameters: &mut Parameters, results: &Results) {
    let bytes = |name: Name| results.of(name).resident_bytes;
    let small = bytes(Name::Size(SIZES[0]));
    let each = |engine| ((bytes(Name::Engine(engine)) - small) / f64::from(CONNECTIONS)).max(0.0) as u64;
    let held = |name: Name| ((bytes(name) - small) / MIXED_CACHE_BYTES as f64).max(1.0);
    let memory = &mut parameters.memory;
    (memory.thread_bytes, memory.helper_bytes) = (each("thread-per-session"), each("mp"));
    (memory.held_ratio, memory.held_ratio_threads) = (held(Name::Filled), held(Name::FilledByThreads));
}

/// Files that are in memory and not in the cache: the line through three lengths.
fn misses(parameters: &mut Parameters, results: &Results) {
    let names = [Name::Untranslated, Name::UntranslatedLonger, Name::UntranslatedLongest];
    let [_, longest_size, _] = COLD_SIZES;
    let [small, longer, longest] = names.map(|name| results.of(name));
    let sent = sent(parameters, results);
    let missed = missed(&longest, longest_size);
    let longest_us = (longest.server_us - sent.us(longest_size, 1.0 - missed)) / missed;
    let points = [
        (units(SIZES[0]), small.server_us - sent.us(SIZES[0], 0.0)),
        (units(COLD_SIZES[0]), longer.server_us - sent.us(COLD_SIZES[0], 0.0)),
        (units(longest_size), longest_us),
    ];
    let (load_us, load_unit_us) = line(&points);
    let costs = &mut parameters.costs;
    // Each is another file than the one before.
    let load_us = load_us - costs.varied_us;
    (costs.load_us, costs.load_unit_us) = (load_us.max(0.0), load_unit_us.max(0.0));
    // Finding a file again that is in the cache: its pages are not looked at.
    costs.translate_miss_us = costs.load_us;
}

/// The share of the requests for files of `size` that was loaded.
fn missed(seen: &Observed, size: u64) -> f64 {
    (seen.loaded_bytes / size as f64).clamp(0.1, 1.0)
}

/// The costs of a request that is answered from memory.
struct Sent {
    base_us: f64,
    unit_us: f64,
    segment_us: f64,
    remote_unit_us: f64,
}

fn sent(parameters: &Parameters, results: &Results) -> Sent {
    let costs = &parameters.costs;
    Sent {
        base_us: results.of(Name::Size(SIZES[0])).server_us,
        unit_us: costs.transmit_us,
        segment_us: costs.segment_us,
        remote_unit_us: costs.remote_unit_us,
    }
}

impl Sent {
    /// The time for so many bytes, of which the part `remote` was in no cache of the processor's.
    fn us(&self, size: u64, remote: f64) -> f64 {
        let segments = size.saturating_sub(1) / SEGMENT_BYTES;
        let unit_us = self.unit_us + remote * self.remote_unit_us;
        self.base_us + unit_us * (units(size) - units(SIZES[0])) + self.segment_us * segments as f64
    }
}

/// Four trials, four unknowns: what a request costs that is for another file than before, or whose structures are far,
/// and each unit of content that is far, or in no cache.
fn far(parameters: &mut Parameters, results: &Results) {
    let memory = parameters.memory;
    let sent = Sent { remote_unit_us: 0.0, ..sent(parameters, results) };
    // Of so many bytes that are asked for at random, the share that a cache does not hold.
    let outside = |cache_bytes: u64, bytes: u64| 1.0 - (cache_bytes as f64 / bytes as f64).min(1.0);
    let of = |name: Name, files: usize, size: u64| {
        let bytes = files as u64 * (size + memory.entry_bytes);
        let shared = if memory.far_bytes == 0 { u64::MAX } else { memory.far_bytes };
        let (not_near, remote) = (outside(memory.near_bytes, bytes), outside(shared, bytes));
        Beyond {
            us: results.of(name).server_us - sent.us(size, 0.0),
            structures: not_near,
            far_units: (not_near - remote).max(0.0) * units(size),
            remote_units: remote * units(size),
        }
    };
    let many = of(Name::Many("sped"), MANY_FILES, SIZES[0]);
    let small = of(Name::Far, FAR_SMALL_FILES, SIZES[0]);
    let longer = of(Name::FarLonger, FAR_LONGER_FILES, COLD_SIZES[0]);
    let remote = of(Name::Remote, LONGER_FILES, COLD_SIZES[0]);
    let costs = &mut parameters.costs;
    // Each has a part in the other's trial.
    for _ in 0..FAR_ROUNDS {
        costs.varied_us = (many.us - many.structures * costs.far_us - many.far_units * costs.far_unit_us).max(0.0);
        costs.far_unit_us = share(longer.us - costs.varied_us - longer.structures * costs.far_us, longer.far_units);
        costs.far_us = share(small.us - costs.varied_us - small.far_units * costs.far_unit_us, small.structures);
    }
    let known_us = costs.varied_us + remote.structures * costs.far_us + remote.far_units * costs.far_unit_us;
    let rest_us = remote.us - known_us;
    // Nothing is nearer for being in no cache.
    costs.remote_unit_us = share(rest_us, remote.remote_units).max(costs.far_unit_us);
}

/// Until nothing changes any more.
const FAR_ROUNDS: u32 = 20;

/// The time of a trial of [`far`] beyond one on one file of the length, and the counts that explain it.
struct Beyond {
    us: f64,
    structures: f64,
    far_units: f64,
    remote_units: f64,
}

/// The share of `us` of each of `count`; 0 if there are none.
fn share(us: f64, count: f64) -> f64 {
    if count > 0.0 { (us / count).max(0.0) } else { 0.0 }
}

/// The rest of a processor's own cache is taken by the kernel's structures and by messages on their way.
const NEAR_SHARE: u64 = 2;

/// The caches of the first processor, the second and the third, in sysfs.
const NEAR: u32 = 2;
const SHARED: u32 = 3;

/// Bytes of a cache of the first processor, if it has that and says so.
fn cache_bytes(index: u32) -> Option<u64> {
    let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
    let text = std::fs::read_to_string(path).ok()?;
    text.trim().strip_suffix('K')?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// Derives the header's time, which is what is left of `sped`'s time for a request, and the cost of going idle and
/// coming back, which one client alone adds to it. Each is in the other's trial.
fn resting(parameters: &mut Parameters, results: &Results) {
    let (base, alone) = (results.of(Name::Size(SIZES[0])), results.of(Name::OneClient));
    for _ in 0..ROUNDS {
        let model = Model::of(Name::Size(SIZES[0]));
        parameters.costs.header_us =
            solve(&as_awake(parameters, &base), &model, base.server_us, |set, us| set.costs.header_us = us);
        let model = Model::of(Name::OneClient);
        parameters.processor.rest_us = solve(parameters, &model, alone.server_us, |set, us| set.processor.rest_us = us);
    }
    let (model, load_us) = (Model::of(Name::OneClient), alone.load_us - alone.vain_us);
    parameters.processor.call_us = solve_load(parameters, &model, load_us, |set, us| set.processor.call_us = us);
    // The load does not sleep, so only the server has to be woken.
    let wake_us = alone.latency_p50_us - alone.server_us - (base.load_us - base.vain_us);
    parameters.processor.wake_us = wake_us.max(0.0);
}

/// With nothing for beginning on an idle processor, if the server did not do that in the trial. Where server and load
/// are equally fast a model has either of them wait now and then; what that costs would be taken for what was to be
/// found.
fn as_awake(parameters: &Parameters, seen: &Observed) -> Parameters {
    let mut parameters = parameters.clone();
    if seen.switches < SLEPT_LEAST {
        (parameters.processor.rest_us, parameters.processor.wake_us) = (0.0, 0.0);
    }
    parameters
}

/// For each request; with fewer switches a server has not slept.
const SLEPT_LEAST: f64 = 0.05;

/// Derives the cost of each engine beyond the steps.
fn engines(parameters: &mut Parameters, results: &Results) {
    let of = |parameters: &Parameters, name: Name, set: &dyn Fn(&mut Parameters, f64)| {
        let seen = results.of(name);
        solve(&as_awake(parameters, &seen), &Model::of(name), seen.server_us, set)
    };
    let session = Name::Engine("thread-per-session");
    parameters.costs.wait_us = of(parameters, session, &|set, us| set.costs.wait_us = us);
    for engine in ["amped", "co-amped", "proactor", "thread-pool"] {
        // It may also save something of sped's steps.
        let least_us = -(parameters.costs.parse_us + parameters.costs.header_us);
        let (name, set) = (Name::Engine(engine), |set: &mut Parameters, us| _ = set.engines.insert(engine.into(), us));
        let seen = results.of(name);
        let bounds = least_us..bound(seen.server_us);
        let own_us = solve_between(bounds, &as_awake(parameters, &seen), &Model::of(name), seen.server_us, set);
        parameters.engines.insert(engine.into(), own_us);
    }
    for _ in 0..ROUNDS {
        parameters.costs.pass_us = of(parameters, Name::Engine("pipelined"), &|set, us| set.costs.pass_us = us);
        parameters.costs.rouse_us = of(parameters, Name::Few("pipelined"), &|set, us| set.costs.rouse_us = us);
    }
    parameters.costs.process_us = of(parameters, Name::Engine("mp"), &|set, us| set.costs.process_us = us);
    let spawned = |name: Name| (Model::of(name).with_clients(&results.of(name).client_workers), results.of(name));
    let (model, seen) = spawned(Name::Engine("thread-per-request"));
    parameters.costs.spawn_us =
        solve(parameters, &model, seen.server_and_kernel_us(), |set, us| set.costs.spawn_us = us);
    let (model, seen) = spawned(Name::SpreadThreads);
    let spawn_us = parameters.costs.spawn_us;
    for _ in 0..ROUNDS {
        let bounds = spawn_us..spawn_us * SPAWN_SHARED_MAX;
        let set = |set: &mut Parameters, us| set.costs.spawn_shared_us = us;
        parameters.costs.spawn_shared_us = solve_between(bounds, parameters, &model, seen.server_and_kernel_us(), set);
        parameters.costs.spawn_waiting = solve_waiting(SPAWN_WAITING_MAX, parameters, &model, seen.latency_p50_us);
    }
}

/// With more the median latency rises again, because most wait.
const SPAWN_WAITING_MAX: f64 = 0.5 / CONNECTIONS as f64;

/// Derives the cost of each engine's content beyond `sped`'s, at each length: threads and processes send from memory of
/// their own, of which the kernel keeps a piece of 32 KiB for each (`sk_page_frag`).
fn contents(parameters: &mut Parameters, results: &Results) {
    let [first, sizes @ ..] = SIZES;
    for engine in ENGINES {
        // Whatever the shortest costs is the engine's own ([`engines`]).
        let mut points = vec![(first, 0.0)];
        for size in sizes {
            let name = Name::Content(engine, size);
            let seen = results.of(name);
            let bounds = -parameters.costs.transmit_us * units(size)..UNIT_MAX_US * units(size);
            let set = |set: &mut Parameters, us| {
                let points = points.iter().copied().chain([(size, us)]).collect();
                set.contents.insert(engine.into(), points);
            };
            // What a thread has sent from is given back by threads of the kernel's.
            let is_made_anew = engine == "thread-per-request";
            let server_us = if is_made_anew { seen.server_and_kernel_us() } else { seen.server_us };
            let own_us = solve_between(bounds, &as_awake(parameters, &seen), &Model::of(name), server_us, set);
            points.push((size, own_us));
        }
        parameters.contents.insert(engine.into(), points);
    }
}

/// Long content in the page cache between answers from memory: each unit of it for the server, each segment for the
/// load, and what both are beyond that with each engine.
fn long_contents(parameters: &mut Parameters, results: &Results) {
    let seen = results.of(Name::Long);
    let (model, load_us) = (Model::of(Name::Long), seen.load_us - seen.vain_us);
    // Nothing at all would mean that it costs as much as other content.
    let bounds = FILE_UNIT_LEAST_US..UNIT_MAX_US;
    let awake = as_awake(parameters, &seen);
    let set = |set: &mut Parameters, us| set.costs.file_unit_us = us;
    parameters.costs.file_unit_us = solve_between(bounds, &awake, &model, seen.server_us, set);
    let awake = as_awake(parameters, &seen);
    parameters.load.segment_us = solve_load(&awake, &model, load_us, |set, us| set.load.segment_us = us);
    for engine in LONG_SENDERS {
        let name = Name::LongBy(engine);
        long_content_by(engine, &Model::of(name), &results.of(name), parameters);
    }
}

pub(super) fn long_content_by(engine: &str, model: &Model, seen: &Observed, parameters: &mut Parameters) {
    let bounds = FILE_UNIT_LEAST_US - parameters.costs.file_unit_us..UNIT_MAX_US;
    let awake = as_awake(parameters, seen);
    let set = |set: &mut Parameters, us| _ = set.long_units.insert(engine.into(), us);
    let own_us = solve_between(bounds, &awake, model, seen.server_us, set);
    parameters.long_units.insert(engine.into(), own_us);
    let load_us = seen.load_us - seen.vain_us;
    let bounds = -parameters.load.segment_us..bound(load_us);
    let awake = as_awake(parameters, seen);
    let set = |set: &mut Parameters, us| _ = set.long_segments.insert(engine.into(), us);
    let own_us = solve_for(|outcome| outcome.load_us, bounds, &awake, model, load_us, set);
    parameters.long_segments.insert(engine.into(), own_us);
}

/// Less than any system sends 512 bytes in.
const FILE_UNIT_LEAST_US: f64 = 0.001;

/// More than memory that is new takes.
const UNIT_MAX_US: f64 = 1.0;

/// Derives each engine's cost of another file than before, beyond `sped`'s: threads have fronts of their own, of which
/// each has to meet it.
fn varied(parameters: &mut Parameters, results: &Results) {
    let [_, engines @ ..] = VARIED;
    for engine in engines {
        let name = Name::Many(engine);
        let seen = results.of(name);
        let bounds = -parameters.costs.varied_us..bound(seen.server_us);
        let set = |set: &mut Parameters, us| _ = set.varied.insert(engine.into(), us);
        let own_us = solve_between(bounds, &as_awake(parameters, &seen), &Model::of(name), seen.server_us, set);
        parameters.varied.insert(engine.into(), own_us);
    }
}

/// Derives the load's cost of content of another length than before, beyond the content's own.
fn varied_lengths(parameters: &mut Parameters, results: &Results) {
    let seen = results.of(Name::Varied);
    let (model, load_us) = (Model::of(Name::Varied), seen.load_us - seen.vain_us);
    let awake = as_awake(parameters, &seen);
    parameters.load.varied_us = solve_load(&awake, &model, load_us, |set, us| set.load.varied_us = us);
}

/// How many times more a thread may cost while another of its process runs: in trials with evenly distributed clients
/// it was 83 to 132 us where it is 25 to 46 otherwise. Where nearly all clients belong to one worker a trial says next
/// to nothing about it, and what it said was 13 times as much.
const SPAWN_SHARED_MAX: f64 = 5.0;

/// Two workers and the load on two processors: what it costs that one of them takes turns with the load, the worker and
/// the load. Each is in the other's trial, since both decide how often there is a switch.
fn shared(parameters: &mut Parameters, results: &Results) {
    let trial = |size| {
        let seen = results.of(Name::Shared(size));
        (Model::of(Name::Shared(size)).with_clients(&seen.client_workers), seen)
    };
    let [(model, seen), (longer_model, longer)] = SHARED_SIZES.map(trial);
    for _ in 0..SHARED_ROUNDS {
        let (bounds, set) = (0.0..bound(seen.beside_us), |set: &mut Parameters, us| set.processor.program_us = us);
        parameters.processor.program_us =
            solve_for(|outcome| outcome.beside_us, bounds, parameters, &model, seen.beside_us, set);
        parameters.load.shared_us = solve_load(parameters, &model, seen.load_us, |set, us| set.load.shared_us = us);
    }
    let set = |set: &mut Parameters, us| set.load.shared_unit_us = us;
    let load_us = |outcome: &Outcome| outcome.load_us;
    parameters.load.shared_unit_us =
        solve_for(load_us, 0.0..UNIT_MAX_US, parameters, &longer_model, longer.load_us, set);
}

/// Derives the further cost of the clients of each engine.
fn shared_by(parameters: &mut Parameters, results: &Results) {
    for engine in SHARERS {
        let name = Name::SharedBy(engine);
        let seen = results.of(name);
        let model = Model::of(name).with_clients(&seen.client_workers);
        let bounds = -(parameters.load.receive_us + parameters.load.shared_us)..bound(seen.load_us);
        let set = |set: &mut Parameters, us| _ = set.shared.insert(engine.into(), us);
        let own_us = solve_for(|outcome| outcome.load_us, bounds, parameters, &model, seen.load_us, set);
        parameters.shared.insert(engine.into(), own_us);
    }
}

/// Each changes how often the other is paid.
const SHARED_ROUNDS: u32 = 4;

/// Values that are in each other's trials are determined by turns, so often.
pub(super) const ROUNDS: u32 = 3;

/// Four digits behind the point: nanoseconds and less, finer than anything here was measured.
pub(super) fn round(parameters: &mut Parameters) {
    let round = |value: &mut f64| *value = (*value * 1e4).round() / 1e4;
    let Parameters {
        costs,
        engines,
        reads,
        read_units,
        contents,
        long_units,
        long_segments,
        shared,
        varied,
        processor,
        locks,
        load,
        disks,
        memory,
        ..
    } = parameters;
    [&mut costs.connection_us, &mut costs.parse_us, &mut costs.translate_miss_us, &mut costs.lookup_us]
        .into_iter()
        .chain([&mut costs.header_us, &mut costs.transmit_us, &mut costs.poll_us, &mut costs.wait_us])
        .chain([&mut costs.segment_us, &mut load.segment_us, &mut load.segment_at_once_us, &mut costs.file_unit_us])
        .chain([&mut costs.hand_off_us, &mut costs.pass_us, &mut costs.rouse_us, &mut costs.read_us])
        .chain([&mut costs.load_us, &mut costs.load_unit_us, &mut costs.try_us, &mut costs.read_unit_us])
        .chain([&mut costs.read_long_unit_us, &mut costs.copy_unit_us, &mut costs.process_us])
        .chain([&mut costs.spawn_us, &mut costs.spawn_shared_us, &mut costs.spawn_waiting])
        .chain([&mut costs.far_us, &mut costs.far_unit_us, &mut costs.remote_unit_us])
        .chain([&mut memory.held_ratio, &mut memory.held_ratio_threads])
        .chain([&mut processor.switch_us, &mut processor.wake_us, &mut processor.rest_us])
        .chain([&mut locks.acquire_us, &mut load.poll_us, &mut load.receive_us, &mut load.receive_unit_us])
        .chain([&mut load.send_us, &mut load.rouse_us, &mut processor.call_us, &mut processor.quantum_us])
        .chain([&mut processor.yardstick_us, &mut processor.program_us])
        .chain([&mut load.shared_us, &mut load.shared_unit_us])
        .chain(engines.values_mut())
        .chain(reads.values_mut())
        .chain(read_units.values_mut())
        .chain(contents.values_mut().flatten().map(|(_, us)| us))
        .chain(long_units.values_mut())
        .chain(long_segments.values_mut())
        .chain(shared.values_mut())
        .chain(varied.values_mut())
        .chain([&mut costs.varied_us, &mut load.varied_us])
        .chain(disks.values_mut().flat_map(|disk| [&mut disk.latency_us, &mut disk.spread, &mut disk.bytes_per_s]))
        .for_each(round);
}

/// A processor that has nothing to do halts at once (`guest_halt_poll_ns` of the governor haltpoll is 0, or its kernel
/// has none).
const SLEEPS_AFTER_US: f64 = 0.0;
