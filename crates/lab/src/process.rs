//! Servers under test as child processes, and what the kernel says about them.
//!
//! Owns: start on chosen processors and in a control group, end of the whole process group, and figures over the
//! process tree and its threads. A process that leaves its group and its parent is not seen.
//!
//! CPU time has two sources. proc_pid_stat(5) includes threads and children that have ended, in clock ticks of usually
//! 10 ms, rounded down for each process: a server of 256 processes may lose seconds. `schedstat` counts nanoseconds, of
//! the threads that are alive. So the larger of the two counts for each process, and with it what its ended children
//! used.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{clock_getcpuclockid, clock_gettime};
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Time for a server to accept its first connection.
const START_TIME_MAX: Duration = Duration::from_secs(15);

/// Time after it accepts, in which servers with several processes start the rest of them.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// Time to end when asked to.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// A program to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments.
    pub words: Vec<OsString>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
}

impl Invocation {
    /// These words, in the environment of the laboratory.
    pub fn new(words: impl IntoIterator<Item = impl Into<OsString>>) -> Invocation {
        Invocation { words: words.into_iter().map(Into::into).collect(), environment: Vec::new() }
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let environment = self.environment.iter().map(|(name, value)| format!("{name}={value}"));
        let words = self.words.iter().map(|word| word.to_string_lossy().into_owned());
        f.write_str(&environment.chain(words).collect::<Vec<_>>().join(" "))
    }
}

/// A server that did not come up.
#[derive(Debug)]
pub struct StartError {
    /// The command line.
    pub invocation: String,
    /// Why not, with the end of what it printed.
    pub reason: String,
    /// The exit code, if it ended by itself.
    pub exit_code: Option<i32>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invocation, self.reason)
    }
}

impl std::error::Error for StartError {}

/// A running server. It ends with the value.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts `invocation` on `processors` (none: any) in the control groups whose `cgroup.procs` files are given, with
    /// its output in `output`, and waits until it accepts connections at `address`.
    ///
    /// # Errors
    /// If it cannot be started, ends, or does not accept in time.
    pub fn start(
        invocation: &Invocation,
        address: SocketAddr,
        processors: &[usize],
        groups: &[PathBuf],
        output: &Path,
    ) -> Result<Server, StartError> {
        let failed = |reason: String| StartError { invocation: invocation.to_string(), reason, exit_code: None };
        let child = spawn(invocation, processors, groups, output).map_err(|error| failed(error.to_string()))?;
        let mut server = Server { child, address };
        let deadline = Instant::now() + START_TIME_MAX;
        while TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                let error = failed(format!("ended with {status}: {}", end_of(output)));
                return Err(StartError { exit_code: status.code(), ..error });
            }
            if Instant::now() > deadline {
                return Err(failed(format!("does not accept connections: {}", end_of(output))));
            }
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(SETTLE_TIME);
        Ok(server)
    }

    /// Its process and all that descend from it.
    pub fn processes(&self) -> Vec<u32> {
        tree(self.child.id())
    }

    /// CPU time so far, user and system.
    pub fn cpu_time(&self) -> Duration {
        self.processes().into_iter().map(cpu_time).sum()
    }

    /// Context switches so far of the threads that are alive, voluntary and not.
    pub fn context_switches(&self) -> u64 {
        self.processes().into_iter().map(switches).sum()
    }

    /// The folders `/proc/PID/task/TID` of its living threads, of all processes.
    pub fn threads(&self) -> impl Iterator<Item = PathBuf> {
        self.processes().into_iter().flat_map(threads_of)
    }

    /// The sum of the numbers behind `name` at the beginning of a line of `/proc/PID/FILE`, of all processes.
    pub fn sum(&self, file: &str, name: &str) -> u64 {
        let text = |pid| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        self.processes().into_iter().map(|pid| sum_lines(&text(pid), &[name])).sum()
    }

    /// Memory in use, shared pages divided among those who share them, in bytes (`Pss` of proc_pid_smaps(5)).
    pub fn memory_bytes(&self) -> u64 {
        self.processes().into_iter().filter_map(pss_bytes).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(group) = Pid::from_raw(self.child.id() as i32) else { return };
        _ = kill_process_group(group, Signal::TERM);
        let deadline = Instant::now() + STOP_TIME_MAX;
        while Instant::now() < deadline && !matches!(self.child.try_wait(), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(10));
        }
        // The group may hold processes after its leader has ended.
        _ = kill_process_group(group, Signal::KILL);
        _ = self.child.wait();
    }
}

/// Keeps the calling thread, and those that it starts, on `processors`; none: any. Processors that do not exist leave
/// it where it is.
pub fn stay_on(processors: &[usize]) {
    if !processors.is_empty() {
        _ = sched_setaffinity(None, &set_of(processors));
    }
}

/// Calls `work` while the calling thread, and with it what it starts, is confined to `processors`; none: any.
///
/// # Errors
/// Those of `work`, and a processor that does not exist.
pub fn confined<T>(processors: &[usize], work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    if processors.is_empty() {
        return work();
    }
    let before = sched_getaffinity(None)?;
    sched_setaffinity(None, &set_of(processors))?;
    let result = work();
    sched_setaffinity(None, &before)?;
    result
}

fn set_of(processors: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&processor| set.set(processor));
    set
}

fn spawn(invocation: &Invocation, processors: &[usize], groups: &[PathBuf], output: &Path) -> io::Result<Child> {
    let log = fs::File::create(output)?;
    let mut words = invocation.words.iter();
    let mut command = if groups.is_empty() {
        Command::new(words.next().ok_or(io::ErrorKind::InvalidInput)?)
    } else {
        // A process enters its groups before it becomes the server, so that all of its memory and reads count.
        let enter = groups.iter().map(|file| format!("echo $$ > '{}' && ", file.display())).collect::<String>();
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{enter}exec \"$@\"")).arg("sh");
        command
    };
    command.args(words).envs(invocation.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    // A child inherits the processors of the thread that starts it.
    confined(processors, || command.spawn())
}

fn end_of(output: &Path) -> String {
    let text = fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(400)..]).trim().to_owned();
    if text.is_empty() { "it printed nothing".to_owned() } else { text }
}

/// CPU time of a process with its threads, ended ones too, to the nanosecond, and of its children that have ended, in
/// ticks.
fn cpu_time(pid: u32) -> Duration {
    // Field 14 of proc_pid_stat(5) counts ticks: too coarse for a short round.
    let clock = i32::try_from(pid).ok().and_then(|pid| clock_getcpuclockid(nix::unistd::Pid::from_raw(pid)).ok());
    let own = clock.and_then(|clock| clock_gettime(clock).ok()).map_or(Duration::ZERO, Duration::from);
    let children_ticks = stat(pid).map_or(0, |stat| stat.children_ticks);
    own + Duration::from_secs_f64(children_ticks as f64 / clock_ticks_per_second() as f64)
}

/// Time on a processor of the thread with the folder `/proc/PID/task/TID`; zero where it is not kept, or if it has
/// ended.
pub fn time_of_thread(thread: &Path) -> Duration {
    let text = fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    let ns = text.split_ascii_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

fn threads_of(pid: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|thread| thread.path())
}

struct Stat {
    parent: u32,
    children_ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, so fields are counted from its end.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // Field 3 of proc_pid_stat(5) is the first here.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let parent = u32::try_from(number(4)?).ok()?;
    Some(Stat { parent, children_ticks: number(16)? + number(17)? })
}

fn tree(root: u32) -> Vec<u32> {
    // Threads know their children, unless the kernel was built without that (CONFIG_PROC_CHILDREN). It takes a tenth of
    // the time, and this is called while a server is measured.
    match Path::new("/proc/thread-self/children").exists() {
        true => tree_by(root, children_of),
        false => {
            let parents = parents();
            tree_by(root, |pid| parents.get(&pid).cloned().unwrap_or_default())
        }
    }
}

fn tree_by(root: u32, children: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    let (mut found, mut next) = (HashSet::from([root]), vec![root]);
    while let Some(pid) = next.pop() {
        next.extend(children(pid).into_iter().filter(|child| found.insert(*child)));
    }
    found.into_iter().collect()
}

/// The living children of all threads of a process.
fn children_of(pid: u32) -> Vec<u32> {
    let text = |thread: PathBuf| fs::read_to_string(thread.join("children")).unwrap_or_default();
    let numbers = |text: String| text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>();
    threads_of(pid).map(text).flat_map(numbers).collect()
}

/// The children of every process of the machine.
fn parents() -> HashMap<u32, Vec<u32>> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in pids {
        if let Some(stat) = stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    children
}

fn switches(pid: u32) -> u64 {
    let status = |thread: PathBuf| fs::read_to_string(thread.join("status")).unwrap_or_default();
    threads_of(pid)
        .map(|thread| sum_lines(&status(thread), &["voluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:"]))
        .sum()
}

fn pss_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(sum_lines(&text, &["Pss:"]) * 1024)
}

/// The numbers behind these names at the beginnings of lines.
pub fn sum_lines(text: &str, names: &[&str]) -> u64 {
    let number = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        names.contains(&words.next()?).then(|| words.next()?.parse::<u64>().ok()).flatten()
    };
    text.lines().filter_map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_ended_children_count() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 4194304 1 2 3 4 10 20 300 4000 20 0 1 0 5 6 7";
        let stat = parse_stat(text).expect("it is of the format");
        assert_eq!((stat.parent, stat.children_ticks), (3, 4300));
        assert!(parse_stat("7 (a) S 3").is_none());
        assert!(parse_stat("").is_none());
    }

    #[test]
    fn time_of_ended_children_counts() {
        // The shell's child spins and ends; the shell itself waits.
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; echo done; sleep 60";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("sh exists");
        let mut line = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().expect("it is piped"), &mut line).expect("it says done");
        let time: Duration = tree(child.id()).into_iter().map(cpu_time).sum();
        let group = Pid::from_raw(child.id() as i32).expect("a child has a number");
        kill_process_group(group, Signal::KILL).expect("it is ours");
        child.wait().expect("it was killed");
        // 200,000 turns of a shell take a hundredth of a second on any machine; the two idle shells take none.
        assert!(time >= Duration::from_millis(10), "{time:?}");
    }

    #[test]
    fn a_process_is_in_its_parents_tree() {
        let mut child = Command::new("sh").args(["-c", "sleep 60 & wait"]).process_group(0).spawn().expect("sh exists");
        let deadline = Instant::now() + Duration::from_secs(10);
        while tree(child.id()).len() < 2 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(tree(child.id()).len(), 2);
        let parents = parents();
        let by_parents = tree_by(child.id(), |pid| parents.get(&pid).cloned().unwrap_or_default());
        assert_eq!(HashSet::<u32>::from_iter(by_parents), HashSet::from_iter(tree(child.id())));
        assert!(tree(std::process::id()).contains(&child.id()));
        let group = Pid::from_raw(child.id() as i32).expect("a child has a number");
        kill_process_group(group, Signal::KILL).expect("it is ours");
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_server_that_cannot_start_says_why() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let output = directory.path().join("out");
        let address = ([127, 0, 0, 1], 1).into();
        let start = |words: &[&str]| {
            let invocation = Invocation::new(words.iter().copied());
            Server::start(&invocation, address, &[], &[], &output).expect_err("nobody listens on port 1").to_string()
        };
        let said = start(&["sh", "-c", "echo no such thing >&2; exit 3"]);
        assert!(said.contains("exit status: 3") && said.ends_with("no such thing"), "{said}");
        assert!(start(&["/nonexistent/program"]).contains("No such file"));
    }

    #[test]
    fn a_process_that_has_worked_for_less_than_a_tick_has_worked() {
        // Something that has begun, has worked for next to nothing, and is still there; it is ended before anything can
        // fail.
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep exists");
        // It may not have been scheduled yet.
        let looks = || {
            std::thread::sleep(Duration::from_millis(5));
            cpu_time(child.id())
        };
        let worked = std::iter::repeat_with(looks).take(2_000).find(|worked| *worked > Duration::ZERO);
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
        assert!(worked.is_some());
    }

    #[test]
    fn the_work_of_threads_that_have_ended_counts_to_the_nanosecond() {
        let own = || cpu_time(std::process::id());
        let mut last = own();
        for _ in 0..100 {
            thread::spawn(|| ()).join().expect("it does nothing");
            let now = own();
            assert!(now > last, "a thread was started and ended: {now:?}");
            last = now;
        }
    }

    #[test]
    fn confinement_ends_with_the_work() {
        let processors = || std::thread::available_parallelism().expect("it is known");
        let before = processors();
        assert_eq!(confined(&[0], || Ok(processors().get())).expect("there is a first processor"), 1);
        assert_eq!(processors(), before);
    }

    #[test]
    fn lines_are_summed_by_name() {
        let text = "a: 1\nPss:  20 kB\nPss_Anon: 7 kB\nPss: 3\nPss:\n";
        assert_eq!(sum_lines(text, &["Pss:"]), 23);
    }
}
