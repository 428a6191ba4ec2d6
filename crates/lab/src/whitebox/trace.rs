//! A trace of a server's system calls and switches, by an instance of the kernel's own
//! (Documentation/trace/ftrace.rst).
//!
//! Owns: the instance, which is removed with the value. Guarantees: other traces of this machine are not disturbed;
//! threads and processes that begin meanwhile are followed; a trace that lost events is an error.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use super::category::{Descriptors, Kind};
use super::events::{Follower, Shares, parse};

/// Where the kernel's traces are mounted.
const ROOT: &str = "/sys/kernel/tracing";

/// Room for events, by processor: about half a million system calls.
const BUFFER_KIB: u32 = 64 * 1024;

const EVENTS: [&str; 3] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_switch"];

/// Why there is no trace.
#[derive(Debug)]
pub struct NotTraced {
    what: String,
    error: io::Error,
}

impl fmt::Display for NotTraced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system calls cannot be traced here: {}: {} (tracefs needs root)", self.what, self.error)
    }
}

impl std::error::Error for NotTraced {}

/// A trace that goes on.
#[derive(Debug)]
pub struct Trace {
    directory: PathBuf,
    follower: Follower,
}

impl Trace {
    /// Begins to follow `processes` and their threads.
    ///
    /// # Errors
    /// If this kernel or this user cannot.
    pub fn begin(processes: &[u32]) -> Result<Trace, NotTraced> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("instances/lamna-lab-{}-{number}", std::process::id());
        let directory = Path::new(ROOT).join(name);
        fs::create_dir(&directory).map_err(|error| NotTraced { what: directory.display().to_string(), error })?;
        let mut trace = Trace { directory, follower: Follower::default() };
        trace.set("buffer_size_kb", &BUFFER_KIB.to_string())?;
        trace.set("trace_clock", "mono")?;
        trace.set("options/event-fork", "1")?;
        let known: Vec<(u32, Vec<u32>, Descriptors)> =
            processes.iter().map(|&process| (process, threads(process), descriptors(process))).collect();
        for thread in known.iter().flat_map(|(_, threads, _)| threads) {
            // Appended to those before. One that has ended meanwhile has nothing to trace.
            _ = fs::OpenOptions::new()
                .append(true)
                .open(trace.directory.join("set_event_pid"))
                .and_then(|mut file| io::Write::write_all(&mut file, thread.to_string().as_bytes()));
        }
        trace.follower = Follower::new(known);
        for event in EVENTS {
            trace.set(&format!("events/{event}/enable"), "1")?;
        }
        Ok(trace)
    }

    /// Ends it.
    ///
    /// # Errors
    /// If events were lost, or the trace cannot be read.
    pub fn end(mut self) -> Result<Shares, NotTraced> {
        for event in EVENTS {
            self.set(&format!("events/{event}/enable"), "0")?;
        }
        let text = self.read("trace")?;
        let lost: u64 = self.read_lost()?;
        if lost > 0 {
            let error = io::Error::other(format!("{lost} events were lost"));
            return Err(NotTraced { what: "the trace".to_owned(), error });
        }
        let mut follower = std::mem::take(&mut self.follower);
        text.lines().filter_map(parse).for_each(|line| follower.handle(line));
        Ok(follower.shares())
    }

    fn read_lost(&self) -> Result<u64, NotTraced> {
        let mut lost = 0;
        let processors = fs::read_dir(self.directory.join("per_cpu")).into_iter().flatten().flatten();
        for processor in processors {
            let text = fs::read_to_string(processor.path().join("stats"))
                .map_err(|error| NotTraced { what: "stats".to_owned(), error })?;
            let counts =
                text.lines().filter(|line| line.starts_with("overrun:") || line.starts_with("dropped events:"));
            lost += counts.filter_map(|line| line.rsplit_once(": ")?.1.trim().parse::<u64>().ok()).sum::<u64>();
        }
        Ok(lost)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), NotTraced> {
        let what = || format!("{value} to {file}");
        fs::write(self.directory.join(file), value).map_err(|error| NotTraced { what: what(), error })
    }

    fn read(&self, file: &str) -> Result<String, NotTraced> {
        fs::read_to_string(self.directory.join(file)).map_err(|error| NotTraced { what: file.to_owned(), error })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // A file of it may be open for a moment more.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn threads(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

fn descriptors(process: u32) -> Descriptors {
    let mut descriptors = Descriptors::default();
    for entry in fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let link = fs::read_link(entry.path());
        if let (Some(number), Ok(link)) = (number, link) {
            descriptors.insert(number, Kind::of_link(&link.to_string_lossy()));
        }
    }
    descriptors
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::whitebox::category::Category;

    #[test]
    fn the_calls_of_a_process_are_followed_or_the_reason_is_named() {
        let mut child = Command::new("sh")
            .args(["-c", "while read line; do echo done; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh exists");
        match Trace::begin(&[child.id()]) {
            Ok(trace) => {
                let directory = trace.directory.clone();
                writeln!(child.stdin.as_mut().expect("it is piped"), "go").expect("it reads");
                let mut said = [0; 5];
                child.stdout.as_mut().expect("it is piped").read_exact(&mut said).expect("it answers");
                let shares = trace.end().expect("it was permitted");
                assert!(shares.calls >= 2 && shares.time_us.contains_key(&Category::Synchronization), "{shares:?}");
                assert!(!directory.exists(), "the instance is still there");
            }
            Err(error) => assert!(error.to_string().starts_with("system calls cannot be traced here: "), "{error}"),
        }
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
    }
}
