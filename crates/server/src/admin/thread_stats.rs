//! The kernel's figures about the threads that serve: time on a processor, time waiting for one, context switches.
//!
//! Owns: reading `/proc` (proc_pid_task(5), proc_pid_schedstat in the kernel's sched-stats.rst, proc_pressure). Costs
//! nothing until it is asked for, and workers do nothing for it. What the kernel does not say is left out.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use lamna_sys::usage;
use serde::{Deserialize, Serialize};

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its name: `worker-0`, `helper`, ...
    pub name: String,
    /// The process it belongs to.
    pub pid: u32,
    /// Its own id.
    pub tid: u32,
    /// Time on a processor.
    pub cpu_us: u64,
    /// Time that it could have run, and waited for a processor.
    pub run_queue_us: u64,
    /// Times that it waited for something else.
    pub voluntary_switches: u64,
    /// Times that its processor was given to another.
    pub involuntary_switches: u64,
}

/// The most threads that are reported of one process: engines may have thousands.
pub const TASKS_MAX: usize = 256;

/// The most threads of this process that are looked at twice a second.
const TIMES_MAX: usize = 64;

/// The scheduler's times of a thread of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Its name.
    pub(crate) name: String,
    /// Time on a processor.
    pub(crate) cpu_us: u64,
    /// Time that it could have run, and waited for a processor.
    pub(crate) run_queue_us: u64,
}

/// The scheduler's times of the first threads of this process, by their ids: workers are among them, having begun
/// before any that they start. The names of those that are `known` are not asked for again.
pub(crate) fn times(known: &HashMap<u32, Times>) -> HashMap<u32, Times> {
    let directory = Path::new("/proc/self/task");
    let mut times = HashMap::new();
    for tid in ids(directory).into_iter().take(TIMES_MAX) {
        let text = |name: &str| line_of(&directory.join(tid.to_string()).join(name));
        // One that has ended meanwhile is left out.
        if let Some((cpu_us, run_queue_us)) = text("schedstat").as_deref().and_then(schedule) {
            let name = known.get(&tid).map(|times| times.name.clone());
            let name = name.unwrap_or_else(|| text("comm").unwrap_or_default().trim_end().to_owned());
            times.insert(tid, Times { name, cpu_us, run_queue_us });
        }
    }
    times
}

/// The beginning of a file of one short line, in three system calls: the kernel writes such a line at once, and neither
/// its length nor its end has to be asked for.
fn line_of(path: &Path) -> Option<String> {
    let mut buffer = [0; 128];
    let length = File::open(path).ok()?.read(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// Context switches of this process so far, of threads that have ended as well (getrusage(2)).
pub(crate) fn switches() -> u64 {
    usage::context_switches()
}

/// The threads of these processes, in the order of their ids.
pub fn of(processes: impl Iterator<Item = u32>) -> Vec<Task> {
    processes.flat_map(of_process).collect()
}

/// Share of the last ten seconds in which some task waited for memory, in percent.
pub fn memory_pressure_percent() -> Option<f64> {
    pressure(&fs::read_to_string("/proc/pressure/memory").ok()?)
}

/// The first number of a line `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`.
fn pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

fn of_process(pid: u32) -> Vec<Task> {
    let directory = format!("/proc/{pid}/task");
    let tasks = ids(Path::new(&directory)).into_iter().take(TASKS_MAX);
    tasks.filter_map(|tid| read(pid, tid, &Path::new(&directory).join(tid.to_string()))).collect()
}

/// The ids of threads, in their order.
fn ids(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut ids: Vec<u32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// None if the thread has ended meanwhile.
fn read(pid: u32, tid: u32, directory: &Path) -> Option<Task> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let status = text("status")?;
    let (cpu_us, run_queue_us) = text("schedstat").as_deref().and_then(schedule).unwrap_or_default();
    Some(Task {
        name: text("comm")?.trim_end().to_owned(),
        pid,
        tid,
        cpu_us,
        run_queue_us,
        voluntary_switches: line(&status, "voluntary_ctxt_switches:"),
        involuntary_switches: line(&status, "nonvoluntary_ctxt_switches:"),
    })
}

/// Nanoseconds on a processor and waiting for one, as microseconds.
fn schedule(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
    Some((fields.next()?? / 1000, fields.next()?? / 1000))
}

fn line(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_among_those_of_its_process() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert!(of([std::process::id()].into_iter()).iter().any(|task| task.tid == tid && !task.name.is_empty()));
        assert_eq!(of([0].into_iter()), []);
    }

    #[test]
    fn times_of_this_thread_are_told_and_known_names_are_kept() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut first = times(&HashMap::new());
        let name = first.get(&tid).map(|times| times.name.clone());
        // There may be more threads of other tests than are looked at.
        assert!(first.len() == TIMES_MAX || name.is_some_and(|name| !name.is_empty()));
        first.values_mut().for_each(|times| times.name = "known".to_owned());
        assert!(times(&first).iter().all(|(tid, times)| !first.contains_key(tid) || times.name == "known"));
    }

    #[test]
    fn figures_are_found_in_what_the_kernel_writes() {
        assert_eq!(schedule("12345678 9000 42\n"), Some((12345, 9)));
        assert_eq!(schedule(""), None);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!((line(status, "voluntary_ctxt_switches:"), line(status, "nonvoluntary_ctxt_switches:")), (7, 3));
        assert_eq!(pressure("some avg10=1.25 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00\n"), Some(1.25));
        assert_eq!(pressure("?"), None);
    }
}
