//! A control group's memory, as the models meet it: what the server leaves of it for the page cache.
//!
//! Owns: the sum. Does not know what the kernel's own structures take beyond those of threads and processes.

use lamna_sim::arch::Kind;
use lamna_sim::parameters::Parameters;
use lamna_sim::scenario::Scenario;

/// The page cache within a control group of `memory_bytes`: the rest beside the server's own, which is its processes
/// and threads, and the memory of its caches.
pub(super) fn page_cache_bytes(scenario: &Scenario, memory_bytes: u64, parameters: &Parameters) -> u64 {
    let memory = &parameters.memory;
    let workers = u64::from(scenario.workers);
    let clients = u64::from(scenario.clients);
    let threads = match scenario.architecture {
        Kind::ThreadPool => workers * u64::from(parameters.concurrency.threads_per_processor),
        Kind::ThreadPerRequest | Kind::ThreadPerSession => clients,
        // As many helpers as there can be reads under way.
        Kind::Amped | Kind::CoAmped | Kind::Proactor => {
            clients.min(workers * u64::from(parameters.concurrency.read_helpers))
        }
        Kind::Pipelined => workers * 7,
        _ => workers,
    };
    let forked = if scenario.architecture == Kind::Mp { clients } else { 0 };
    let caches = match scenario.architecture {
        Kind::Mp => clients,
        Kind::CoAmped => workers,
        _ => 1,
    };
    let ratio = match scenario.architecture {
        Kind::Mp | Kind::EventLoops if scenario.workers == 1 => memory.held_ratio,
        Kind::Mp | Kind::Proactor => memory.held_ratio,
        _ => memory.held_ratio_threads,
    };
    let held = (caches * scenario.data_cache_bytes) as f64 * ratio;
    let taken = memory.process_bytes + threads * memory.thread_bytes + forked * memory.helper_bytes + held as u64;
    memory_bytes.saturating_sub(taken).max(PAGE_CACHE_BYTES_LEAST)
}

/// The server's own rule: content is in memory once where the cache is at least a third of it, except in processes that
/// have caches of their own.
pub(super) fn replaces_page_cache(kind: Kind, cache_bytes: u64, memory_bytes: u64) -> bool {
    cache_bytes >= memory_bytes / 3 && !matches!(kind, Kind::Mp | Kind::CoAmped)
}

/// The kernel gives a control group that has nothing left the pages that it needs for one read after the other.
const PAGE_CACHE_BYTES_LEAST: u64 = 1 << 20;
