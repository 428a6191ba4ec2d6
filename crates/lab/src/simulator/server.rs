//! A server under measurement: a real `lamna serve`, started for the purpose and stopped with it.
//!
//! Owns: how the simulator's trials start it, and what they ask of it beyond what every measurement does
//! ([`crate::process`], which has the process, its processor time and its end).

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::cgroup::Groups;
use crate::process::{self, Invocation, sum_lines, time_of_thread};

/// How it is to be run.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The program `lamna`.
    pub program: PathBuf,
    /// The value of `--arch`.
    pub architecture: String,
    /// Event loops, pools, or accepting threads.
    pub workers: u32,
    /// The directory to serve.
    pub root: PathBuf,
    /// Bound of its cache; of that of each process of `mp`.
    pub cache_bytes: u64,
    /// Where a configuration file may be written, which only `mp` needs, and beside it what the server prints.
    pub configuration: PathBuf,
    /// Control groups that it begins in.
    pub groups: Arc<Groups>,
    /// Processors that it may use; all if empty.
    pub processors: Vec<usize>,
    /// Whether each worker, with all threads that belong to it, stays on one of them (`--pin`).
    pub pinned: bool,
}

/// One that runs.
#[derive(Debug)]
pub struct Server {
    process: process::Server,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Exit code for wrong usage.
const USAGE: i32 = 2;

impl Server {
    /// Starts one; `None` if this program has no such engine.
    ///
    /// # Errors
    /// It cannot be run, or ends, or does not listen in time.
    pub fn start(settings: &ServerSettings) -> io::Result<Option<Server>> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        fs::write(&settings.configuration, format!("process_cache_bytes = {}\n", settings.cache_bytes))?;
        let (invocation, output) = (invocation(settings, address), settings.configuration.with_extension("output"));
        let groups = settings.groups.entrances();
        match process::Server::start(&invocation, address, &settings.processors, &groups, &output) {
            Ok(process) => Ok(Some(Server { process, address })),
            // An engine that it does not know.
            Err(error) if error.exit_code == Some(USAGE) => Ok(None),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Processor time of the process, its children, and all their threads, ended ones included.
    pub fn cpu_time(&self) -> Duration {
        self.process.cpu_time()
    }

    /// How often threads that are bound to one processor have slept, for each of the first processors.
    pub fn switches_by_processor(&self, processors: usize) -> Vec<u64> {
        let mut switches = vec![0; processors];
        for text in self.process.threads().map(|thread| status_of(&thread)) {
            if let Some(of_processor) = bound_to(&text).and_then(|processor| switches.get_mut(processor)) {
                *of_processor += sum_lines(&text, &["voluntary_ctxt_switches:"]);
            }
        }
        switches
    }

    /// Processor time of its living threads that are bound to this processor.
    pub fn bound_threads_time(&self, processor: usize) -> Duration {
        let own = self.process.threads().filter(|thread| bound_to(&status_of(thread)) == Some(processor));
        own.map(|thread| time_of_thread(&thread)).sum()
    }

    /// Bytes that the process and its living descendants have had from files by calls, in memory or not: `rchar` of
    /// `/proc/PID/io`, proc(5).
    pub fn loaded_bytes(&self) -> u64 {
        self.process.sum("io", "rchar:")
    }

    /// Their memory that is no file's: `RssAnon` of `/proc/PID/status`.
    pub fn resident_bytes(&self) -> u64 {
        self.process.sum("status", "RssAnon:") * 1_024
    }

    /// Switches of its living threads, their own will or not.
    pub fn switches(&self) -> u64 {
        self.process.context_switches()
    }
}

fn status_of(thread: &Path) -> String {
    fs::read_to_string(thread.join("status")).unwrap_or_default()
}

/// The only processor that a thread with this `status`, proc(5), may use.
fn bound_to(status: &str) -> Option<usize> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
}

fn invocation(settings: &ServerSettings, address: SocketAddr) -> Invocation {
    let mut words = vec![settings.program.clone().into_os_string(), "serve".into(), settings.root.clone().into()];
    let (workers, cache_bytes) = (settings.workers.to_string(), settings.cache_bytes.to_string());
    let address = address.to_string();
    let options = ["--arch", &settings.architecture, "--workers", &workers, "--listen", &address, "--log", "off"];
    words.extend(options.map(Into::into));
    words.extend(["--cache-bytes", &cache_bytes].map(Into::into));
    words.extend(settings.pinned.then(|| "--pin".into()));
    if settings.architecture == "mp" {
        words.extend(["--config".into(), settings.configuration.clone().into_os_string()]);
    }
    Invocation::new(words)
}

#[cfg(test)]
mod tests {
    use super::bound_to;

    #[test]
    fn a_thread_is_bound_if_it_may_use_one_processor() {
        assert_eq!(bound_to("Cpus_allowed:\t1\nCpus_allowed_list:\t3\n"), Some(3));
        assert_eq!(bound_to("Cpus_allowed_list:\t0-1\n"), None);
        assert_eq!(bound_to(""), None);
    }
}
