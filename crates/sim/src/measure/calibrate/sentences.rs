//! For each measured parameter the sentence that says how it was got: the comments of the file that `calibrate` writes.

use crate::measure::trial::Observed;

const ENGINE: &str = "with which the model takes this engine's time, 1,000 bytes, 24 connections";

pub(super) fn sentences(base: &Observed, alone: &Observed, within_us: f64) -> Vec<(&'static str, String)> {
    let all =
        format!("server's processor time per request: {:.2} with 1,000 bytes, kept, 24 connections", base.server_us);
    vec![
        ("costs.connection_us", "sped, a new connection for each request, less a kept one".into()),
        ("costs.requests_per_connection", "kept connections; not measured".into()),
        ("costs.parse_us", "recv(2) of a request and the core's work on it, single calls".into()),
        ("costs.translate_us", "within lookup_us: one look-up finds both".into()),
        ("costs.translate_miss_us", "as costs.load_us: the same calls but for reading".into()),
        ("costs.load_us", "sped on 20,000 files of 1,000 bytes with the smallest cache, less one file".into()),
        ("costs.load_unit_us", "the same with files of 16 KiB, less that, less costs.transmit_us".into()),
        (
            "costs.try_us",
            "amped on cold files of 16 KiB less sped on the same, for each read, less two switches".into(),
        ),
        ("costs.read_unit_us", "slope of costs.read_us over files of 16 and 128 KiB".into()),
        ("costs.process_us", "with which the model takes mp's time".into()),
        ("costs.rouse_us", "with which the model takes pipelined's time, 4 connections".into()),
        ("costs.spawn_shared_us", "thread-per-request with two workers, the kernel's own threads included".into()),
        ("costs.far_us", "sped on 8,000 files of 1,000 bytes in its cache, less one file".into()),
        ("costs.far_unit_us", "the same with 600 files of 16 KiB, less that".into()),
        (
            "costs.lookup_us",
            format!("one more request in a batch ({within_us:.3}: 64 against 16) less the core's work"),
        ),
        ("costs.header_us", format!("with which the model takes sped's time: {all}")),
        ("costs.transmit_us", "slope of the server's processor time over 1 to 80 KB".into()),
        ("costs.poll_us", "epoll_wait(2) with one event, single calls".into()),
        ("costs.wait_us", "with which the model takes thread-per-session's time".into()),
        ("costs.hand_off_us", "unparking and parking a thread beyond the switch, single calls".into()),
        ("costs.pass_us", "with which the model takes pipelined's time, 24 connections".into()),
        (
            "costs.read_us",
            "sped on files that its control group cannot hold, beyond what their load costs, for each read".into(),
        ),
        ("costs.spawn_us", "with which the model takes thread-per-request's time".into()),
        ("processor.switch_us", "two threads on one processor and two pipes, less the calls".into()),
        ("processor.quantum_us", "assumed".into()),
        (
            "processor.granularity_us",
            "with which the models of sped with two workers, one beside the load, are as fast as the trials".into(),
        ),
        ("processor.refill_us", "with which they take the trials' processor time of the server".into()),
        (
            "processor.rest_us",
            "with which the model of one client takes the server's time, or at most those with two workers do".into(),
        ),
        ("processor.wake_us", format!("what one client's latency ({:.1}) has beyond the work", alone.latency_p50_us)),
        ("processor.sleeps_after_us", "assumed".into()),
        ("locks.acquire_us", "a mutex that is free, single calls; unused with fronts".into()),
        ("locks.shards", "assumed; unused with fronts".into()),
        ("locks.front", "as Lamna is built".into()),
        ("memory.entry_bytes", "docs/caches.md: an entry and its translation, gdsf".into()),
        ("memory.content_bytes_max", "as Lamna is built".into()),
        ("memory.near_bytes", "the second nearest cache of a processor, sysfs".into()),
        ("memory.process_bytes", "memory of sped's control group that is neither files nor cache".into()),
        (
            "memory.held_ratio",
            "what filling a cache of 32 MiB with files of 500 B to 250 KB adds to sped, for each byte".into(),
        ),
        ("memory.held_ratio_threads", "the same with thread-pool".into()),
        ("memory.translation_entries", "assumed".into()),
        ("memory.translation_fresh_us", "as Lamna is built: entries that are watched".into()),
        ("memory.thread_bytes", "thread-per-session less sped, for each of 24 threads".into()),
        ("memory.helper_bytes", "mp less sped, for each of 24 processes".into()),
        ("memory.file_bytes_mean", "assumed".into()),
        ("concurrency.processes_per_processor", "as Lamna is built".into()),
        ("concurrency.threads_per_processor", "as Lamna is built".into()),
        ("concurrency.read_helpers", "as Lamna is built: at most".into()),
        ("concurrency.send_quantum_bytes", "as Lamna is built".into()),
        ("concurrency.send_with_header_bytes", "as Lamna is built".into()),
        ("load.poll_us", "as costs.poll_us".into()),
        ("load.receive_us", "the rest of the load's processor time per request; intercept over sizes".into()),
        ("load.receive_unit_us", "slope of the load's processor time over 1 to 80 KB".into()),
        ("load.send_us", "send(2) of a request, single calls".into()),
        ("engines.amped", ENGINE.into()),
        ("engines.co-amped", ENGINE.into()),
        ("engines.proactor", ENGINE.into()),
        ("engines.thread-pool", ENGINE.into()),
        ("load.rouse_us", "the load's processor time on thread-per-session less that on sped".into()),
        ("disks.this.latency_us", "median of 512 cold reads of 4 KiB".into()),
        ("disks.this.spread", "from their tenths at both ends".into()),
        ("disks.this.bytes_per_s", "a cold file of 64 MiB".into()),
        ("disks.this.request_bytes", "the same: bytes for each request to the disk".into()),
        ("disks.this.parallelism", "cold reads per second of 32 threads against one".into()),
    ]
}
