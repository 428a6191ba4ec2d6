//! The kernel's figures about the processes of the server, all together: by the names that Prometheus has for them.
//!
//! Owns: reading `/proc` (proc_pid_stat(5), proc_pid_fd). Costs nothing until it is asked for. What the kernel does not
//! say, as of descriptors of a process that has become another user, is left out.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// The consumption of the processes of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessStats {
    /// Time on processors, of worker processes that have ended as well.
    pub cpu_ms: u64,
    /// Memory that is resident. What processes share counts for each.
    pub resident_bytes: u64,
    /// Open descriptors.
    pub descriptors: Option<u64>,
    /// The most descriptors that a process may have.
    pub descriptors_max: Option<u64>,
    /// When the main process started, in milliseconds since 1970.
    pub started_unix_ms: Option<u64>,
}

/// One process, in ticks and pages.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    /// Its own time, and that of its children that have ended.
    ticks: [u64; 2],
    started_ticks: u64,
    resident_pages: u64,
}

/// The figures of the process `main` and of its `workers`.
pub fn of(main: u32, workers: impl Iterator<Item = u32>) -> ProcessStats {
    let ticks_per_second = clock_ticks_per_second().max(1);
    let mut stats = ProcessStats { descriptors_max: getrlimit(Resource::Nofile).current, ..ProcessStats::default() };
    for pid in workers.chain([main]) {
        let Some(process) = read(pid) else { continue };
        let [own, ended] = process.ticks;
        stats.cpu_ms += (own + if pid == main { ended } else { 0 }) * 1000 / ticks_per_second;
        stats.resident_bytes += process.resident_pages * page_size() as u64;
        if let Some(open) = descriptors(pid) {
            *stats.descriptors.get_or_insert(0) += open;
        }
        if pid == main {
            let booted_s = fs::read_to_string("/proc/stat").ok().and_then(|text| boot_time(&text));
            stats.started_unix_ms = booted_s.map(|s| s * 1000 + process.started_ticks * 1000 / ticks_per_second);
        }
    }
    stats
}

/// None if the process has ended.
fn read(pid: u32) -> Option<Process> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn descriptors(pid: u32) -> Option<u64> {
    Some(fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

/// The line of a process. Its name may have anything in it, and ends with the last parenthesis.
fn parse(line: &str) -> Option<Process> {
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // The first one here is the third of the manual.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Process {
        ticks: [number(14)? + number(15)?, number(16)? + number(17)?],
        started_ticks: number(22)?,
        resident_pages: number(24)?,
    })
}

/// When the machine has started, in seconds since 1970.
fn boot_time(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_whatever_the_name_of_the_process_is() {
        let line =
            "7 (a) b (c) S 1 7 7 0 -1 4194304 1 2 3 4 100 20 30 4 20 0 5 0 5000 1000000 321 18446744073709551615";
        let expected = Process { ticks: [120, 34], started_ticks: 5000, resident_pages: 321 };
        assert_eq!(parse(line), Some(expected));
        assert_eq!((parse(""), parse("7 (a) S 1")), (None, None));
        assert_eq!(boot_time("cpu 1 2\nbtime 1795233600\n"), Some(1_795_233_600));
    }

    #[test]
    fn this_process_has_memory_and_descriptors_and_has_started_before_now() {
        let stats = of(std::process::id(), std::iter::empty());
        let now_ms = lamna_sys::clock::unix_ms();
        assert!(stats.resident_bytes > 1 << 20 && stats.descriptors.is_some_and(|open| open >= 3), "{stats:?}");
        assert!(stats.descriptors <= stats.descriptors_max);
        assert!(stats.started_unix_ms.is_some_and(|at| at <= now_ms + 2000 && at > now_ms - 86_400_000), "{stats:?}");
    }
}
