//! Counts what the kernel does for a server, by perf-stat(1): system calls and context switches.
//!
//! Owns: attaching to running processes and detaching again. Guarantees: threads and processes that begin or end
//! meanwhile are counted; where the kernel, its settings or a missing program do not allow it, that is an error with
//! its reason, never a zero. Costs about a fifth of a microsecond for each system call, so counts are taken apart from
//! times.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Every entry to the kernel (include/trace/events/syscalls.h).
const SYSTEM_CALLS: &str = "raw_syscalls:sys_enter";
const SWITCHES: &str = "context-switches";

/// Time for perf to write its figures down when it is told to end.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// The counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Entries to the kernel.
    pub system_calls: u64,
    /// Threads that gave up or lost their processor.
    pub context_switches: u64,
}

/// Why nothing can be counted here.
#[derive(Debug)]
pub struct NotCounted(String);

impl fmt::Display for NotCounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system calls cannot be counted here: {}", self.0)
    }
}

impl std::error::Error for NotCounted {}

/// A count that goes on.
#[derive(Debug)]
pub struct Counting {
    child: Child,
}

impl Counting {
    /// Begins to count for `processes` and their descendants; `output` is for perf's figures.
    ///
    /// # Errors
    /// perf is not installed, or the kernel does not let this user count system calls.
    pub fn begin(processes: &[u32], output: &Path) -> Result<Counting, NotCounted> {
        let list = processes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = Command::new("perf");
        // Begins disabled, and takes orders from standard input, so that what it does to attach is not counted.
        command.args(["stat", "-x,", "-D", "-1", "--control", "fd:0,1", "-e", &format!("{SYSTEM_CALLS},{SWITCHES}")]);
        command.args(["-p", &list, "-o"]).arg(output);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => NotCounted("perf is not installed (apt-get install linux-perf)".to_owned()),
            _ => NotCounted(error.to_string()),
        })?;
        let mut counting = Counting { child };
        counting.order("enable")?;
        Ok(counting)
    }

    /// Ends it.
    ///
    /// # Errors
    /// perf has not counted.
    pub fn end(mut self, output: &Path) -> Result<Counted, NotCounted> {
        self.order("disable")?;
        self.interrupt();
        let deadline = Instant::now() + END_TIME_MAX;
        while Instant::now() < deadline && !matches!(self.child.try_wait(), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(output).map_err(|error| NotCounted(error.to_string()))?;
        parse(&text).ok_or_else(|| NotCounted("perf wrote no figures".to_owned()))
    }

    /// Gives an order and waits until it is carried out; perf says `ack` then, or ends.
    fn order(&mut self, order: &str) -> Result<(), NotCounted> {
        let said = self.child.stdin.as_mut().map(|input| writeln!(input, "{order}").and_then(|()| input.flush()));
        let mut answer = [0; 16];
        let heard = self.child.stdout.as_mut().map_or(Ok(0), |output| output.read(&mut answer));
        if matches!(said, Some(Ok(()))) && heard.is_ok_and(|bytes| bytes > 0) {
            return Ok(());
        }
        let mut reason = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            _ = errors.read_to_string(&mut reason);
        }
        let line = reason.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("Events "));
        Err(NotCounted(line.unwrap_or("perf ended").to_owned()))
    }

    fn interrupt(&self) {
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended by itself.
            _ = kill_process(pid, Signal::INT);
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Both fail if it has ended, as it should have.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The figures in perf's comma-separated form: number, unit, event.
fn parse(text: &str) -> Option<Counted> {
    let count = |event: &str| {
        let line = text.lines().find(|line| line.split(',').nth(2) == Some(event))?;
        line.split(',').next()?.parse().ok()
    };
    Some(Counted { system_calls: count(SYSTEM_CALLS)?, context_switches: count(SWITCHES)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_event() {
        let text = "# started on\n\n427764,,raw_syscalls:sys_enter,121,100.00,,\n34,,context-switches,121,100.00,,\n";
        assert_eq!(parse(text), Some(Counted { system_calls: 427_764, context_switches: 34 }));
        assert_eq!(parse("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n34,,context-switches,1,1,,\n"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn system_calls_of_another_process_are_counted_or_the_reason_is_named() {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let output = directory.path().join("counts");
        let mut child = Command::new("sh")
            .args(["-c", "while :; do read line || exit; umask 22; umask 22; umask 22; echo done; done"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh exists");
        match Counting::begin(&[child.id()], &output) {
            Ok(counting) => {
                writeln!(child.stdin.as_mut().expect("it is piped"), "go").expect("it reads");
                let mut said = [0; 5];
                child.stdout.as_mut().expect("it is piped").read_exact(&mut said).expect("it answers");
                let counted = counting.end(&output).expect("it was permitted");
                assert!(counted.system_calls >= 4, "{counted:?}");
            }
            Err(error) => assert!(error.to_string().starts_with("system calls cannot be counted here: "), "{error}"),
        }
        child.kill().and_then(|()| child.wait()).expect("it was running");
    }
}
