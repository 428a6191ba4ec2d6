//! What the endpoint can ask of a running server, and what it gets: plain data, the same in JSON.
//!
//! Owns: the vocabulary. Who runs a server implements [`Steward`]; the endpoint knows nothing else of it. Numbers are
//! gathered when they are asked for and may be half a second old, because workers hand theirs over twice a second.

use serde::{Deserialize, Serialize};

use super::duration::Distribution;
use super::tasks::Task;
use crate::config::settings::{Choice, HELPERS, THREADS, WORKERS};

/// Who answers for a running server. Called by the thread that supervises it, so nothing may wait for a peer.
pub trait Steward {
    /// What the server is and how it is.
    fn status(&self) -> Status;

    /// What was done so far.
    fn stats(&self) -> Stats;

    /// Why this architecture serves, in one sentence.
    fn architecture_why(&self) -> String;

    /// Changes how the server works, all of it or nothing. Returns what has been done, in words.
    ///
    /// # Errors
    /// Why nothing has changed, in words.
    fn set(&mut self, change: &Change) -> Result<String, String>;

    /// Opens the access log again and reads the configuration again. Returns what has been done, in words.
    ///
    /// # Errors
    /// Why the configuration is what it was, in words.
    fn reload(&mut self) -> Result<String, String>;

    /// Begins to drain: no new connection, what has begun is finished, then the server ends.
    fn drain(&mut self);

    /// Hands everything over to a new process of the executable as it is now. Returns what has been done, in words.
    ///
    /// # Errors
    /// Why this process goes on, in words.
    fn upgrade(&mut self) -> Result<String, String>;
}

/// Where in its life a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// No worker has said yet that it serves.
    Starting,
    /// It takes connections.
    Serving,
    /// It finishes what has begun.
    Draining,
}

/// What a server is and how it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// The process that answers.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime_s: u64,
    /// Where in its life it is.
    pub phase: Phase,
    /// How it works.
    pub arch: Arch,
    /// Where it listens, as URLs.
    pub addresses: Vec<String>,
    /// The directories that it serves.
    pub roots: Vec<String>,
    /// Open connections of each worker, and how many they are in all; none where the architecture does not count them:
    /// `pipelined` and the thread engines.
    pub workers: Option<Vec<u32>>,
    /// See `workers`.
    pub connections_open: Option<u64>,
    /// Connections accepted so far.
    pub connections: u64,
    /// Requests so far.
    pub requests: u64,
    /// Bytes in the cache; none if it is divided among processes, which do not say before they end.
    pub cache_bytes: Option<u64>,
}

/// How a server works: what can be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arch {
    /// Its name.
    pub architecture: String,
    /// Workers that there are now.
    pub workers: usize,
    /// Whether they are processes of their own.
    pub processes: bool,
    /// Threads for connections of each worker of `thread-pool`.
    pub threads: usize,
    /// The most threads for connections of each worker.
    pub threads_max: usize,
    /// The most helpers of each worker.
    pub helpers_max: usize,
    /// Bytes that the cache may hold.
    pub cache_bytes_max: u64,
}

/// What is to become different. What is not named stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// The name of another architecture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Event loops, pools or processes, within [`WORKERS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Threads of each worker of `thread-pool`, within [`THREADS`] and at most `threads_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The most helpers of each worker, within [`HELPERS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helpers_max: Option<usize>,
    /// The name of another cache policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_policy: Option<String>,
    /// Messages up to this many bytes are copied together before they are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_bytes_max: Option<u64>,
}

impl Change {
    /// Judges it as far as that can be done without knowing the server.
    ///
    /// # Errors
    /// What makes no sense, in words.
    pub fn check(&self) -> Result<(), String> {
        if *self == Change::default() {
            return Err("nothing was named that is to change".to_owned());
        }
        if let Some(name) = &self.architecture
            && Choice::from_name(name).is_none()
        {
            let known: Vec<&str> = Choice::all().map(Choice::name).collect();
            return Err(format!("there is no architecture {name:?}; there are {}", known.join(", ")));
        }
        let counts = [
            ("workers", self.workers, WORKERS),
            ("threads", self.threads, THREADS),
            ("helpers_max", self.helpers_max, HELPERS),
        ];
        for (name, count, bounds) in counts {
            if count.is_some_and(|count| !bounds.contains(&count)) {
                return Err(format!("{name} is a number from {} to {}", bounds.start(), bounds.end()));
            }
        }
        Ok(())
    }
}

/// What was done since the server started, by all its workers, and what it costs now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Connections.
    pub connections: ConnectionStats,
    /// Requests whose target was looked up.
    pub requests: u64,
    /// What was answered.
    pub responses: ResponseStats,
    /// What workers knew of the targets that were asked for.
    pub lookups: LookupStats,
    /// How often each cache had what was needed.
    #[serde(default)]
    pub caches: CacheStats,
    /// Which way disk operations went.
    pub disk: DiskStats,
    /// Access log lines that could not be handed over, and that could not be written.
    pub log_lines_dropped: u64,
    /// See `log_lines_dropped`.
    pub log_lines_lost: u64,
    /// Bytes in the cache; none if it is divided among processes.
    pub cache_bytes: Option<u64>,
    /// What the kernel says of the threads of the server that serve.
    pub tasks: Vec<Task>,
    /// Share of the last ten seconds in which some task of this machine or container waited for memory, in percent
    /// (`/proc/pressure/memory`); none where the kernel does not say.
    pub memory_pressure_percent: Option<f64>,
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStats {
    /// Accepted so far.
    pub accepted: u64,
    /// Open now; none where the architecture does not count them.
    pub open: Option<u64>,
    /// Times that accepting had to pause for want of descriptors or memory.
    pub accept_pauses: u64,
    /// Idle ones closed to get descriptors.
    pub idle_shed: u64,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseStats {
    /// By the first digit of the status: 1xx to 5xx.
    pub by_class: [u64; 5],
    /// Bytes of content.
    pub content_bytes: u64,
    /// From the complete request to the last byte given to the socket.
    pub duration: Distribution,
}

/// What workers knew of the targets that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LookupStats {
    /// In the cache, and compared with the file system within the last second.
    pub hits: u64,
    /// In the cache, but to be compared with the file system first.
    pub stale: u64,
    /// Not in the cache.
    pub misses: u64,
}

/// How often each cache had what was needed. What waits for the same thing as another request counts as found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheStats {
    /// From targets to entries that need not be looked at.
    pub translations: HitStats,
    /// Entries, with their heads.
    pub entries: HitStats,
    /// Content in memory.
    pub content: HitStats,
    /// Bytes of content: sent from memory, and read or sent from files.
    pub content_bytes: HitStats,
}

/// Found in a cache, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HitStats {
    /// Found.
    pub hits: u64,
    /// Not found.
    pub misses: u64,
}

impl HitStats {
    /// Of `all`, so many were not found.
    pub fn of(all: u64, misses: u64) -> HitStats {
        HitStats { hits: all.saturating_sub(misses), misses }
    }

    /// What part was found, in percent; of nothing, nothing.
    pub fn hit_percent(self) -> f64 {
        100.0 * self.hits as f64 / (self.hits + self.misses).max(1) as f64
    }
}

/// Which way disk operations went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStats {
    /// Names resolved from the dentry cache.
    pub open_cached: u64,
    /// Names that would have blocked.
    pub open_blocked: u64,
    /// Reads served from the page cache.
    pub read_cached: u64,
    /// Reads that would have blocked.
    pub read_blocked: u64,
    /// Residency tests by `cachestat`.
    pub tested_by_cachestat: u64,
    /// Residency tests page by page.
    pub tested_by_page: u64,
    /// Stretches sent without a test.
    pub untested: u64,
    /// Jobs given to helpers.
    pub helper_jobs: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(json: &str) -> String {
        serde_json::from_str::<Change>(json).unwrap().check().unwrap_err()
    }

    #[test]
    fn a_change_is_within_bounds_and_changes_something() {
        assert!(error("{}").contains("nothing was named"));
        assert!(error(r#"{"architecture": "mpm"}"#).contains("there is no architecture \"mpm\"; there are auto, mp, "));
        assert!(error(r#"{"threads": 0}"#).contains("threads is a number from 1"));
        let change: Change = serde_json::from_str(r#"{"architecture": "mt", "workers": 2}"#).unwrap();
        assert_eq!(change.check(), Ok(()));
        assert!(serde_json::from_str::<Change>(r#"{"worker": 2}"#).is_err());
    }
}
