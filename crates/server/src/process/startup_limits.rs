//! Whether there is room to serve within the limits that this process is under (getrlimit(2)).
//!
//! Owns: what the least is. Guarantees: a server that says it serves can hold a few connections and has the address
//! space for what it begins with; else it says which limit is too low, by how much, and how to raise it. Raises the one
//! on descriptors as far as it may, and no other.

use std::fs;
use std::io;
use std::sync::Arc;

use lamna_config::settings::{Architecture, Settings};
use lamna_engine::worker::limiter::Counted;
use lamna_io::accept::DescriptorReserve;
use lamna_io::listen::Listener;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::process::error::ServeError;
use crate::process::share::share;

/// Connections that there must be descriptors for, besides those that files are kept.
const CONNECTIONS_LEAST: usize = 4;

/// Whether a few connections can be accepted. To be called when everything is open that serving takes.
///
/// # Errors
/// [`ServeError::Limit`].
pub(crate) fn check_descriptors(listeners: &[Arc<Listener>]) -> Result<(), ServeError> {
    let Some(any) = listeners.first() else { return Ok(()) };
    match DescriptorReserve::new().leaves_room(CONNECTIONS_LEAST, any) {
        Ok(true) => Ok(()),
        Ok(false) | Err(Errno::MFILE) => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            Err(ServeError::Limit(format!(
                "with at most {limit} open files no connection could be accepted. Raise the limit (ulimit -n 1024, or \
                 LimitNOFILE=1024 in a systemd unit)."
            )))
        }
        Err(errno) => Err(errno.into()),
    }
}

const MIB: u64 = 1 << 20;
/// Address space that a worker of an event engine takes for its thread's stack, its buffers and what it allocates
/// first.
const WORKER_BYTES: u64 = 4 * MIB;
/// The same for a thread that is made with a small stack.
const THREAD_BYTES: u64 = MIB / 2;
/// Helpers that a worker has at once when files are not in memory, and what each takes: the stack that a thread has by
/// default, and its buffer.
const HELPERS: u64 = 4;
const HELPER_BYTES: u64 = 2 * MIB + MIB / 8;
/// Bytes of everything else: the threads of the log and of the watcher, and content on its way.
const OTHER_BYTES: u64 = 12 * MIB;

/// Whether the limit on the address space leaves room for what `settings` ask for and for what all processes share. To
/// be called before anything large is made: a small allocation that fails ends the process, and nothing says why.
///
/// # Errors
/// [`ServeError::Limit`].
pub(crate) fn check_memory_at_start(settings: &Settings) -> Result<(), ServeError> {
    check(&share(settings), Counted::MAPPED_BYTES as u64)
}

/// Whether it leaves room for what the `settings` of this process ask for. To be called before there are threads.
///
/// # Errors
/// [`ServeError::Limit`].
pub(crate) fn check_memory(settings: &Settings) -> Result<(), ServeError> {
    check(settings, 0)
}

fn check(settings: &Settings, shared_bytes: u64) -> Result<(), ServeError> {
    let Some(limit) = getrlimit(Resource::As).current else { return Ok(()) };
    // If it is not known, the limit alone decides.
    let used = used_bytes().unwrap_or(0);
    let needed = used.saturating_add(shared_bytes + needed_bytes(settings));
    if needed <= limit {
        return Ok(());
    }
    Err(ServeError::Limit(format!(
        "{} takes {} MiB of address space, and the limit is {}. Raise it (ulimit -v {}, or LimitAS= in a systemd unit), or give \
         it a smaller cache (cache_bytes is {} MiB) and fewer threads or workers.",
        settings.architecture.name(),
        needed.div_ceil(MIB),
        limit / MIB,
        needed.div_ceil(1024),
        settings.cache_bytes_max.div_ceil(MIB),
    )))
}

/// Mappings of a thread: its stack, the stack of its signal handlers, and a guard page of each. Measured: 4144 mappings
/// of a process with 1026 threads.
const THREAD_MAPPINGS: u64 = 4;
/// Mappings of everything else: the program, its libraries, the heap, what is sent.
const OTHER_MAPPINGS: u64 = 512;

/// Whether the kernel lets this process have the mappings that the threads of `settings` need (vm.max_map_count).
/// Beyond them a thread cannot make the stack of its signal handlers, and the process aborts. To be called before there
/// are threads.
///
/// # Errors
/// [`ServeError::Limit`].
pub(crate) fn check_mappings(settings: &Settings) -> Result<(), ServeError> {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    let Ok(limit) = text.trim().parse::<u64>() else { return Ok(()) };
    let needed = needed_mappings(settings);
    if needed <= limit {
        return Ok(());
    }
    Err(ServeError::Limit(format!(
        "{} with {} threads takes {needed} memory mappings, and the limit is {limit}. Raise it (sysctl vm.max_map_count={needed}), \
         or give it fewer threads or workers.",
        settings.architecture.name(),
        settings.workers as u64 * pool_threads(settings),
    )))
}

fn needed_mappings(settings: &Settings) -> u64 {
    match settings.architecture {
        Architecture::ThreadPool => settings.workers as u64 * pool_threads(settings) * THREAD_MAPPINGS + OTHER_MAPPINGS,
        // The others begin with few threads.
        _ => 0,
    }
}

fn pool_threads(settings: &Settings) -> u64 {
    settings.threads.min(settings.threads_max) as u64
}

fn needed_bytes(settings: &Settings) -> u64 {
    let workers = settings.workers as u64;
    let threads = match settings.architecture {
        Architecture::ThreadPool => pool_threads(settings) * THREAD_BYTES,
        // As many as there is work for; a connection for which there is none is answered with 503.
        Architecture::ThreadPerRequest | Architecture::ThreadPerSession => 16 * THREAD_BYTES,
        Architecture::Pipelined => 6 * HELPER_BYTES,
        Architecture::Amped | Architecture::CoAmped | Architecture::Proactor => HELPERS * HELPER_BYTES,
        Architecture::Sped | Architecture::Mp => 0,
    };
    settings.cache_bytes_max + workers * (WORKER_BYTES + threads) + OTHER_BYTES
}

/// The address space of this process (proc_pid_statm(5)).
fn used_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').next().and_then(|pages| pages.parse::<u64>().ok());
    pages.map(|pages| pages * rustix::param::page_size() as u64).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Connections need descriptors: take as many as we are allowed to.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it fails the old limit stays, and running out is survived.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    make_room_for_descriptors(limit.maximum.unwrap_or(u64::MAX));
}

/// Descriptors that the kernel's table has room for from the beginning: 128 KiB of its memory.
const DESCRIPTORS_AT_ONCE: u64 = 16 * 1024;

/// Has the kernel make its table of descriptors large while there is one thread. The table doubles whenever numbers run
/// out, and in a process with threads the one that needs the next number then waits for all processors to notice
/// (`expand_fdtable` and `synchronize_rcu` in Linux's `fs/file.c`): a worker was seen to stand still there for 12 ms.
fn make_room_for_descriptors(descriptors_max: u64) {
    let highest = descriptors_max.min(DESCRIPTORS_AT_ONCE) as i32 - 1;
    // If it fails the table grows as it is needed.
    let _ = eventfd(0, EventfdFlags::CLOEXEC).and_then(|any| fcntl_dupfd_cloexec(any, highest));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_counts() {
        let of = |architecture, threads| {
            needed_bytes(&Settings { architecture, threads, cache_bytes_max: MIB, workers: 1, ..Settings::default() })
        };
        assert!(of(Architecture::ThreadPool, 64) >= of(Architecture::ThreadPool, 2) + 62 * THREAD_BYTES);
        let pool = |threads, threads_max| {
            let architecture = Architecture::ThreadPool;
            needed_mappings(&Settings { architecture, threads, threads_max, workers: 1, ..Settings::default() })
        };
        // What Linux lets a process have by default.
        assert!(pool(16384, 16384) > 65530);
        assert!(pool(16384, 1024) < 65530);
        assert!(of(Architecture::Sped, 64) < of(Architecture::Amped, 64));
        assert!(used_bytes().is_ok_and(|bytes| bytes > MIB));
    }
}
