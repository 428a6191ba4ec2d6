//! A server under measurement: a real `lamna serve`, started for the purpose and stopped with it.
//!
//! Owns: the process and its processor time. Guarantees: it listens on loopback and is gone when the value is dropped.
//! Processor time counts threads and children that have ended, so engines that make a thread for each request are
//! measured fairly; and it counts nanoseconds where it can, since clock ticks are 10 ms, rounded down for each process: of 24
//! processes that have worked for as long, half a second may lose a quarter.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How it is to be run.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The program `lamna`.
    pub program: PathBuf,
    /// What `--arch` takes.
    pub architecture: String,
    /// Event loops, pools, or accepting threads.
    pub workers: u32,
    /// What it serves.
    pub root: PathBuf,
    /// Bound of its cache; of that of each process of `mp`.
    pub cache_bytes: u64,
    /// Where a configuration file may be written, which only `mp` needs.
    pub configuration: PathBuf,
    /// Control groups (version 1) that it begins in: the folders.
    pub groups: Vec<PathBuf>,
    /// Processors that it may use; all if empty.
    pub processors: Vec<usize>,
    /// Whether each worker, with all threads that belong to it, stays on one of them (`--pin`).
    pub pinned: bool,
}

/// One that runs.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// How long a server may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

impl Server {
    /// Starts one; `None` if this program has no such engine.
    ///
    /// # Errors
    /// It cannot be run, or ends, or does not listen in time.
    pub fn start(settings: &ServerSettings) -> io::Result<Option<Server>> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        fs::write(&settings.configuration, format!("process_cache_bytes = {}\n", settings.cache_bytes))?;
        let mut child = confined(&settings.processors, || command(settings, port).spawn())?;
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if TcpStream::connect(address).is_ok() {
                return Ok(Some(Server { child, address }));
            }
            if let Some(status) = child.try_wait()? {
                let mut said = String::new();
                child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut said))?;
                // Wrong usage: an engine that it does not know.
                return if status.code() == Some(2) { Ok(None) } else { Err(io::Error::other(said)) };
            }
            sleep(STEP);
        }
        _ = child.kill();
        Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not listen"))
    }

    /// How often threads that are bound to one processor have slept, for each of the first processors.
    pub fn switches_by_processor(&self, processors: usize) -> Vec<u64> {
        let mut switches = vec![0; processors];
        for text in self.thread_statuses() {
            let allowed = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
            if let Some(of_processor) = allowed.trim().parse().ok().and_then(|index: usize| switches.get_mut(index)) {
                *of_processor += field_of(&text, "voluntary_ctxt_switches:");
            }
        }
        switches
    }

    /// Processor time of its living threads that are bound to this processor.
    pub fn bound_threads_s(&self, processor: usize) -> f64 {
        let bound = format!("Cpus_allowed_list:\t{processor}\n");
        let own = self
            .threads()
            .filter(|thread| fs::read_to_string(thread.join("status")).is_ok_and(|status| status.contains(&bound)));
        own.map(|thread| thread_s(&thread)).sum()
    }

    /// Processor time of the process, its children, and all their threads, ended ones included.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_s(&self) -> io::Result<f64> {
        tree_cpu_s(self.child.id())
    }
}

impl Server {
    /// Bytes that the process and its living descendants have had from files by calls, in memory or not: `rchar` of
    /// `/proc/PID/io`, proc(5).
    pub fn loaded_bytes(&self) -> u64 {
        self.sum("io", "rchar:")
    }

    /// What they hold in memory that is no file's: `RssAnon` of `/proc/PID/status`.
    pub fn resident_bytes(&self) -> u64 {
        self.sum("status", "RssAnon:") * 1_024
    }

    /// Switches of its living threads, their own will or not.
    pub fn switches(&self) -> u64 {
        let of =
            |text: &str| field_of(text, "voluntary_ctxt_switches:") + field_of(text, "nonvoluntary_ctxt_switches:");
        self.thread_statuses().map(|text| of(&text)).sum()
    }

    /// `/proc/PID/task/TID/status` of every thread, proc(5).
    fn thread_statuses(&self) -> impl Iterator<Item = String> {
        self.threads().map(|thread| fs::read_to_string(thread.join("status")).unwrap_or_default())
    }

    fn threads(&self) -> impl Iterator<Item = PathBuf> {
        tree(self.child.id()).into_iter().flat_map(threads_of)
    }

    fn sum(&self, file: &str, field: &str) -> u64 {
        let texts = tree(self.child.id()).into_iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/{file}")));
        texts.map(|text| field_of(&text.unwrap_or_default(), field)).sum()
    }
}

/// The number behind `field` at the beginning of a line; 0 if there is none.
fn field_of(text: &str, field: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(field)?.split_whitespace().next()?.parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else { return };
        _ = kill_process(pid, Signal::TERM);
        for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            // Twice: stop now. The connections of the load need not be drained.
            _ = kill_process(pid, Signal::INT);
            sleep(STEP);
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Calls `work` while the calling thread, and with it what it starts, is confined to `processors` (all if empty).
pub fn confined<T>(processors: &[usize], work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if processors.is_empty() {
        return work();
    }
    let before = sched_getaffinity(None)?;
    let mut confined = CpuSet::new();
    processors.iter().for_each(|&processor| confined.set(processor));
    sched_setaffinity(None, &confined)?;
    let result = work();
    sched_setaffinity(None, &before)?;
    result
}

fn command(settings: &ServerSettings, port: u16) -> Command {
    // A shell that enters the groups and then becomes the server: a process can only put itself somewhere safely.
    let script = "for group in $GROUPS_OF_SERVER; do echo $$ > $group/cgroup.procs || exit 1; done; exec \"$@\"";
    let groups: Vec<_> = settings.groups.iter().map(|group| group.display().to_string()).collect();
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).env("GROUPS_OF_SERVER", groups.join(" "));
    command.arg(&settings.program).arg("serve").arg(&settings.root);
    command.args(["--arch", &settings.architecture, "--workers", &settings.workers.to_string()]);
    command.args(settings.pinned.then_some("--pin"));
    command.args(["--listen", &format!("127.0.0.1:{port}"), "--log", "off"]);
    if settings.architecture == "mp" {
        command.arg("--config").arg(&settings.configuration);
    }
    command.args(["--cache-bytes", &settings.cache_bytes.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A process and its living descendants.
fn tree(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let descendants = children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(tree);
    [pid].into_iter().chain(descendants).collect()
}

/// Seconds that a process and its living children have worked, ended threads and the children waited for included.
fn tree_cpu_s(pid: u32) -> io::Result<f64> {
    let stat = stat_ticks(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(malformed)?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let of_children = children.split_whitespace().filter_map(|child| child.parse().ok());
    let of_ticks = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    let own_s = of_ticks(stat.own).max(living_threads_s(pid));
    // A child that ends meanwhile is counted by the next reading of its parent.
    Ok(own_s + of_ticks(stat.ended_children) + of_children.map(|child| tree_cpu_s(child).unwrap_or(0.0)).sum::<f64>())
}

/// Of the threads that have not ended.
fn living_threads_s(pid: u32) -> f64 {
    threads_of(pid).map(|thread| thread_s(&thread)).sum()
}

/// To the nanosecond: the first field of `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst); 0 where that is not kept.
fn thread_s(thread: &Path) -> f64 {
    let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0) as f64 / 1e9
}

/// The folders `/proc/PID/task/TID`.
fn threads_of(pid: u32) -> impl Iterator<Item = PathBuf> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.map(|thread| thread.path())
}

/// Clock ticks, user and system.
#[derive(Debug, PartialEq)]
struct Ticks {
    own: u64,
    /// Of children waited for.
    ended_children: u64,
}

/// Fields 14 to 17 of `/proc/PID/stat`, proc(5).
fn stat_ticks(stat: &str) -> Option<Ticks> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: Vec<u64> = fields.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    let &[user, system, children_user, children_system] = ticks.as_slice() else { return None };
    Some(Ticks { own: user + system, ended_children: children_user + children_system })
}

fn malformed() -> io::Error {
    io::Error::other("/proc/PID/stat is not as expected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_their_unit() {
        assert_eq!(field_of("VmRSS:\t 12 kB\nRssAnon:\t     4 kB\n", "RssAnon:"), 4);
        assert_eq!(field_of("rchar: 17\n", "wchar:"), 0);
    }

    #[test]
    fn ticks_are_read_behind_a_name_with_spaces_and_parentheses() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 4 20 0";
        assert_eq!(stat_ticks(stat), Some(Ticks { own: 120, ended_children: 7 }));
        assert_eq!(stat_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_has_worked_for_less_than_a_tick_has_worked() {
        // Something that has begun, has worked for next to nothing, and is still there; it is ended before anything can fail.
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let worked_s = tree_cpu_s(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(worked_s.unwrap() > 0.0);
    }
}
