//! How the applications are doing that the server has started, for people and for machines.
//!
//! Owns: the words. The process that starts them knows the facts.

use lamna_policy::words::count;
use serde::{Deserialize, Serialize};

/// How an application is doing that the server has started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationStatus {
    /// Where it listens, as it is configured.
    pub address: String,
    /// The program and its arguments, as they are configured.
    pub command: Vec<String>,
    /// Those of its processes that run.
    pub processes: Vec<ProcessStatus>,
    /// Processes that have ended, or could not be started.
    pub ends: u64,
    /// How the last one has.
    pub last: Option<String>,
    /// When that was, in seconds since 1970.
    pub last_at: Option<u64>,
}

impl ApplicationStatus {
    /// In words. `for_long` says how long something has lasted, in seconds; `ago` how long ago a time was.
    pub fn describe(&self, for_long: impl Fn(u64) -> String, ago: impl FnOnce(u64) -> String) -> String {
        let process = |one: &ProcessStatus| format!("process {} for {}", one.pid, for_long(one.uptime_s));
        let processes: Vec<String> = self.processes.iter().map(process).collect();
        let running = if processes.is_empty() { "no process".to_owned() } else { processes.join(", ") };
        let ended = match self.ends {
            0 => String::new(),
            ends => format!("; {} before", count(ends, "end")),
        };
        let last = match (&self.last, self.last_at) {
            (Some(last), Some(at)) => format!("; {}: {last}", ago(at)),
            _ => String::new(),
        };
        format!("{} (`{}`): {running}{ended}{last}", self.address, self.command.join(" "))
    }
}

/// A process of an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its number.
    pub pid: u32,
    /// Seconds since it was started.
    pub uptime_s: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_told_of_in_one_line() {
        let process = ProcessStatus { pid: 5, uptime_s: 9 };
        let mut status = ApplicationStatus {
            address: "unix:/a".into(),
            command: vec!["a".into(), "b".into()],
            ..Default::default()
        };
        let told = |status: &ApplicationStatus| status.describe(|s| format!("{s} s"), |_| "3 s ago".to_owned());
        assert_eq!(told(&status), "unix:/a (`a b`): no process");
        status.processes = vec![process, process];
        (status.ends, status.last, status.last_at) = (2, Some("process 4 has ended".into()), Some(7));
        assert_eq!(
            told(&status),
            "unix:/a (`a b`): process 5 for 9 s, process 5 for 9 s; 2 ends before; 3 s ago: process 4 has ended"
        );
    }
}
