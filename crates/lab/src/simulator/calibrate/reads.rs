//! From the trials under a limit of memory to parameters: what reading from disk and copying from the page cache cost.
//!
//! Owns: those values. Where the trials could not be limited the estimates stay.

use lamna_sim::parameters::Parameters;

use super::calibration::Results;
use super::derive::{ROUNDS, long_content_by};
use super::invert::{Model, bound, solve, solve_between};
use super::name::{
    CACHE_BYTES_LEAST, COLD_BYTES, COLD_EACH, COLD_SIZES, CONNECTIONS, LIMITED_CACHE_BYTES, Name, PAGE_CACHERS, READERS,
};
use crate::simulator::trial::Observed;

/// Derives the cost of reading from disk between answers from memory, of files that are neither in the cache nor in
/// memory. Where the trials could not be limited they were in memory after all, and the estimates stay.
pub(super) fn reads(parameters: &mut Parameters, results: &Results) {
    let [small_size, longer_size, long_size] = COLD_SIZES;
    let [small, longer, long] = COLD_SIZES.map(|size| results.of(Name::Missed(size)));
    if small.disk_reads < READS_LEAST {
        return;
    }
    let cache_bytes = LIMITED_CACHE_BYTES as f64 * parameters.memory.held_ratio;
    parameters.memory.process_bytes = (small.group_bytes - cache_bytes).max(0.0) as u64;
    // Memory that processes have in common from before they were made is counted once there.
    let processes = results.of(Name::MissedBy("mp"));
    let own_bytes = (processes.group_bytes - parameters.memory.process_bytes as f64) / f64::from(CONNECTIONS);
    let cache_bytes = CACHE_BYTES_LEAST as f64 * parameters.memory.held_ratio;
    parameters.memory.helper_bytes = (own_bytes - cache_bytes).max(0.0) as u64;
    if let Some(disk) = parameters.disks.get_mut("this") {
        // Each file is as likely as the others, so what the memory holds of them is what is found.
        let missed = (1.0 - long.page_cache_bytes / COLD_BYTES as f64).max(0.1);
        disk.request_bytes = ((long.loaded_bytes * missed / long.disk_reads.max(1e-6)) as u64).min(long_size);
        (disk.latency_us, disk.bytes_per_s) =
            waits(&small, &longer, parameters.processor.wake_us).unwrap_or((disk.latency_us, disk.bytes_per_s));
    }
    let of = |parameters: &Parameters, name: Name, target_us: f64, set: &dyn Fn(&mut Parameters, f64)| {
        solve(parameters, &Model::limited(name, parameters), target_us, set)
    };
    // Each is in the other's trial.
    for _ in 0..ROUNDS {
        let name = Name::Missed(small_size);
        parameters.costs.read_us = of(parameters, name, small.server_us, &|set, us| set.costs.read_us = us);
        let name = Name::Missed(longer_size);
        parameters.costs.read_unit_us = of(parameters, name, longer.server_us, &|set, us| set.costs.read_unit_us = us);
    }
    let name = Name::Missed(long_size);
    parameters.costs.read_long_unit_us =
        of(parameters, name, long.server_us, &|set, us| set.costs.read_long_unit_us = us);
    let [first, others @ ..] = READERS;
    let target_us = results.of(Name::MissedBy(first)).server_us;
    parameters.costs.try_us = of(parameters, Name::MissedBy(first), target_us, &|set, us| set.costs.try_us = us);
    for engine in others {
        let name = Name::MissedBy(engine);
        let target_us = results.of(name).server_us;
        let model = Model::limited(name, parameters);
        // It may also save something of sped's reads.
        let bounds = -parameters.costs.read_us..bound(target_us);
        let set = |set: &mut Parameters, us| _ = set.reads.insert(engine.into(), us);
        let own_us = solve_between(bounds, parameters, &model, target_us, set);
        parameters.reads.insert(engine.into(), own_us);
    }
    // Each is in the other's trial.
    for _ in 0..ROUNDS {
        PAGE_CACHERS.iter().for_each(|engine| longer_reads(engine, parameters, results));
    }
    let name = Name::MissedByStages;
    let model = Model::limited(name, parameters);
    long_content_by(name.architecture(), &model, &results.of(name), parameters);
}

/// Derives the cost of reading of an engine whose pages stay in the page cache, for a file and for each unit of it,
/// beyond that of `sped`.
fn longer_reads(engine: &'static str, parameters: &mut Parameters, results: &Results) {
    let of = |parameters: &Parameters, name: Name, least_us: f64, set: &dyn Fn(&mut Parameters, f64)| {
        let target_us = results.of(name).server_us;
        solve_between(least_us..bound(target_us), parameters, &Model::limited(name, parameters), target_us, set)
    };
    let least_us = -parameters.costs.read_unit_us;
    let set = |set: &mut Parameters, us| _ = set.read_units.insert(engine.into(), us);
    let own_us = of(parameters, Name::MissedLongerBy(engine), least_us, &set);
    parameters.read_units.insert(engine.into(), own_us);
    let least_us = -parameters.costs.read_us;
    let set = |set: &mut Parameters, us| _ = set.reads.insert(engine.into(), us);
    let own_us = of(parameters, Name::MissedBy(engine), least_us, &set);
    parameters.reads.insert(engine.into(), own_us);
}

/// Latency and rate of the disk as a loop waits for it that reads files of two sizes one by one; one file of 64 MiB is
/// read ahead, and faster. `None` if that says nothing.
fn waits(small: &Observed, longer: &Observed, wake_us: f64) -> Option<(f64, f64)> {
    let [small_size, longer_size, _] = COLD_SIZES;
    // The load never sleeps, and the loop does only for the disk.
    let wait_us = |seen: &Observed, size: u64| {
        (1e6 / seen.requests_per_s - seen.server_us) * size as f64 / seen.loaded_bytes.max(1.0) - wake_us
    };
    let (small_us, longer_us) = (wait_us(small, small_size), wait_us(longer, longer_size));
    let bytes_per_us = (longer_size - small_size) as f64 / (longer_us - small_us);
    let latency_us = small_us - small_size as f64 / bytes_per_us;
    (bytes_per_us > 0.0 && latency_us > 0.0).then_some((latency_us, bytes_per_us * 1e6))
}

/// Long content that helpers copy from the page cache. Where the trial could not be limited it was sent from there, and
/// nothing is known.
pub(super) fn copies(parameters: &mut Parameters, results: &Results) {
    let copied = results.of(Name::Copied);
    if copied.group_bytes == 0.0 {
        return;
    }
    let set = |set: &mut Parameters, us| set.costs.copy_unit_us = us;
    parameters.costs.copy_unit_us =
        solve_between(0.0..COPY_UNIT_MAX_US, parameters, &Model::of(Name::Copied), copied.server_us, set);
}

/// Four times what new memory takes.
const COPY_UNIT_MAX_US: f64 = 1.0;

/// For each request; with fewer the trial was not one of reading.
const READS_LEAST: f64 = 0.1 / COLD_EACH as f64;
