//! What the endpoint can ask of a running server, and what it gets: plain data, the same in JSON.
//!
//! Owns: the vocabulary. Who runs a server implements [`AdminApi`]; the endpoint knows nothing else of it. Numbers are
//! gathered when they are asked for and may be half a second old, because workers hand theirs over twice a second.

use std::collections::BTreeMap;

use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::words::count;
use serde::{Deserialize, Serialize};

use super::duration::Distribution;
use super::thread_stats::Task;
use crate::acme::Ordered;
use crate::config::sending::SendStrategy;
use crate::config::settings::{
    Architecture, COPY_BYTES, Choice, DRAIN_TIMEOUT_MS, HELPERS, Settings, THREADS, WORKERS,
};
use crate::content::explain::{Asked, Explanation};
use crate::metrics::step_timer::StepTimes;
use lamna_policy::size::format_size;

/// Who answers for a running server. Called by the thread that supervises it, so nothing may wait for a peer.
pub trait AdminApi {
    /// What the server is and how it is.
    fn status(&self) -> Status;

    /// What was done so far.
    fn stats(&self) -> Stats;

    /// Why this architecture serves, in one sentence.
    fn architecture_why(&self) -> String;

    /// Changes how the server works, all of it or nothing.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn set(&mut self, change: &Change) -> Result<Progress, Refusal>;

    /// What a request for this is answered with, and why, by the settings in force and with the rights of the server. Waits for the disk.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn explain(&self, asked: &Asked) -> Result<Explanation, String>;

    /// Opens the access log again and reads the configuration again.
    ///
    /// # Errors
    /// Why the configuration is what it was.
    fn reload(&mut self) -> Result<Progress, Refusal>;

    /// Begins to drain: no new connection, what has begun is finished, then the server ends.
    ///
    /// # Errors
    /// Another process serves: it is that one's to drain.
    fn drain(&mut self) -> Result<Progress, Refusal>;

    /// Begins to hand everything over to a new process of the executable as it is now.
    ///
    /// # Errors
    /// Why that cannot be begun.
    fn upgrade(&mut self) -> Result<Progress, Refusal>;

    /// What has come of what was begun, once: what has been done, or why this process goes on, in words. None if that is not
    /// known yet.
    fn outcome(&mut self) -> Option<Result<String, String>>;
}

/// What has come of an order so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has been carried out: what was done, in words.
    Done(String),
    /// Another process has been started to take over. What comes of it is known later ([`AdminApi::outcome`]).
    Begun,
}

/// Why an order is not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why, in words.
    pub why: String,
    /// It can be carried out soon, by whoever serves then: another process is just taking over.
    pub soon: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { why, soon: false }
    }
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
    /// Open connections of each worker, and how many they are in all; none in answers of earlier versions.
    pub workers: Option<Vec<u32>>,
    /// See `workers`.
    pub connections_open: Option<u64>,
    /// Connections accepted so far.
    pub connections: u64,
    /// Requests so far.
    pub requests: u64,
    /// Bytes in the cache; none if it is divided among processes, which do not say before they end.
    pub cache_bytes: Option<u64>,
    /// Responses by the protocol that they went over.
    #[serde(default)]
    pub protocols: ProtocolStats,
    /// What clients of TLS have agreed on; none if it is not spoken.
    #[serde(default)]
    pub tls: Option<TlsStats>,
    /// How it stands with certificates that are ordered; none in answers of earlier versions.
    #[serde(default)]
    pub certificates: Vec<Ordered>,
}

/// Responses by protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolStats {
    /// HTTP/1.0 and HTTP/1.1.
    pub http1: u64,
    /// HTTP/2.
    pub http2: u64,
}

/// TLS handshakes so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsStats {
    /// Those that have ended well, by what was agreed on; kinds that there were none of are left out.
    pub handshakes: Vec<Handshakes>,
    /// Those that have failed.
    pub failed: u64,
    /// Those that have ended well, by cipher suite.
    pub ciphers: BTreeMap<String, u64>,
    /// The same, by group of the key exchange. Old sessions of TLS 1.2 are resumed without one.
    pub groups: BTreeMap<String, u64>,
}

/// Handshakes of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handshakes {
    /// The version of TLS: `1.2` or `1.3`.
    pub version: String,
    /// The protocol above by its name in ALPN.
    pub protocol: String,
    /// Whether the clients came with tickets.
    pub resumed: bool,
    /// How many.
    pub count: u64,
}

impl TlsStats {
    /// How many have ended well of which `is_meant` says so.
    pub fn count(&self, is_meant: impl Fn(&Handshakes) -> bool) -> u64 {
        self.handshakes.iter().filter(|kind| is_meant(kind)).map(|kind| kind.count).sum()
    }
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
    /// How long what has begun may take to end when the server drains; 0 in answers of earlier versions.
    #[serde(default)]
    pub drain_timeout_ms: u32,
    /// Which entries of the cache go when room is needed.
    pub cache_policy: String,
    /// What the cache is to have many of.
    pub cache_objective: String,
    /// Whether what was asked for once only is kept out of a full cache.
    pub cache_filter: bool,
    /// How stretches of files are sent.
    pub send: String,
    /// Bytes of the longest stretch of a file that `auto` copies.
    pub stretch_copy_bytes_max: u64,
    /// Bytes of the longest message that is copied behind those before it.
    pub message_copy_bytes_max: u64,
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
    /// How long what has begun may take to end when the server drains, within [`DRAIN_TIMEOUT_MS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout_ms: Option<u32>,
    /// The name of another cache policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_policy: Option<String>,
    /// What the cache is to have many of: `requests` or `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_objective: Option<String>,
    /// Whether what was asked for once only is kept out of a full cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_filter: Option<bool>,
    /// The name of another way to send stretches of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// Bytes of the longest stretch of a file that `send = "auto"` copies, within [`COPY_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch_copy_bytes_max: Option<u64>,
    /// Bytes of the longest message that is copied behind those before it, within [`COPY_BYTES`].
    #[serde(skip_serializing_if = "Option::is_none", alias = "copy_bytes_max")]
    pub message_copy_bytes_max: Option<u64>,
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
        is_among("architecture", &self.architecture, Choice::all().map(Choice::name).collect())?;
        is_among("cache policy", &self.cache_policy, Algorithm::ALL.map(Algorithm::name).to_vec())?;
        is_among("cache objective", &self.cache_objective, Objective::ALL.map(Objective::name).to_vec())?;
        is_among("way to send", &self.send, SendStrategy::ALL.map(SendStrategy::name).to_vec())?;
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
        if self.drain_timeout_ms.is_some_and(|ms| !DRAIN_TIMEOUT_MS.contains(&u64::from(ms))) {
            return Err(format!("drain_timeout_ms is a number of milliseconds up to {}", DRAIN_TIMEOUT_MS.end()));
        }
        let sizes = [
            ("stretch_copy_bytes_max", self.stretch_copy_bytes_max),
            ("message_copy_bytes_max", self.message_copy_bytes_max),
        ];
        for (name, size) in sizes {
            if size.is_some_and(|size| !COPY_BYTES.contains(&size)) {
                return Err(format!("{name} is a size up to {}", format_size(*COPY_BYTES.end())));
            }
        }
        Ok(())
    }

    /// `settings` with the change, which has been checked.
    ///
    /// # Errors
    /// What cannot be had, in words.
    pub fn apply(&self, settings: &Settings) -> Result<Settings, String> {
        let mut settings = settings.clone();
        if let Some(choice) = self.architecture.as_deref().and_then(Choice::from_name) {
            settings.choose(choice);
        }
        settings.workers_adapt &= self.workers.is_none();
        settings.threads_adapt &= self.threads.is_none();
        put(&mut settings.workers, self.workers);
        put(&mut settings.helpers_max, self.helpers_max);
        put(&mut settings.drain_timeout_ms, self.drain_timeout_ms);
        put(&mut settings.threads, self.threads);
        self.check_concern(&settings)?;
        if settings.threads > settings.threads_max {
            let most = count(settings.threads_max, "thread");
            return Err(format!("each worker may have {most} at most (threads_max)"));
        }
        let policy = &mut settings.cache_policy;
        put(&mut policy.algorithm, self.cache_policy.as_deref().and_then(|name| name.parse().ok()));
        put(&mut policy.objective, self.cache_objective.as_deref().and_then(Objective::from_name));
        put(&mut policy.is_filtered, self.cache_filter);
        let sending = &mut settings.sending;
        put(&mut sending.strategy, self.send.as_deref().and_then(SendStrategy::from_name));
        put(&mut sending.stretch_copy_bytes_max, self.stretch_copy_bytes_max);
        put(&mut sending.message_copy_bytes_max, self.message_copy_bytes_max.map(|bytes| bytes as usize));
        Ok(settings)
    }
}

impl Change {
    /// Whether the numbers that are named mean anything to what will serve. A server that chooses its architecture may
    /// come to one that they concern.
    fn check_concern(&self, settings: &Settings) -> Result<(), String> {
        use Architecture::{Amped, CoAmped, Mp, Proactor, ThreadPool};
        let serving = settings.architecture;
        if settings.adapts {
            return Ok(());
        }
        let concerns = [
            ("threads", self.threads, serving == ThreadPool, "thread-pool"),
            (
                "helpers_max",
                self.helpers_max,
                matches!(serving, Amped | CoAmped | Proactor),
                "amped, co-amped and proactor",
            ),
            ("workers", self.workers, serving != Mp, "every architecture but mp, which has processes"),
        ];
        match concerns.into_iter().find(|(_, given, is_concerned, _)| given.is_some() && !is_concerned) {
            Some((name, _, _, who)) => {
                Err(format!("{name} does not concern {}: it is a setting of {who}", serving.name()))
            }
            None => Ok(()),
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

/// Whether a name, if one is given, is one that there is.
fn is_among(what: &str, name: &Option<String>, mut known: Vec<&str>) -> Result<(), String> {
    // Other names that are understood are not offered.
    let is_alias = |name: &str| what == "architecture" && Choice::from_name(name).is_some();
    match name.as_deref() {
        Some(name) if !known.contains(&name) && !is_alias(name) => {
            let last = known.pop().unwrap_or_default();
            Err(format!("there is no {what} {name:?}; there are {} and {last}", known.join(", ")))
        }
        _ => Ok(()),
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
    /// Responses by the protocol that they went over.
    #[serde(default)]
    pub protocols: ProtocolStats,
    /// What clients of TLS have agreed on; none if it is not spoken.
    #[serde(default)]
    pub tls: Option<TlsStats>,
    /// What workers knew of the targets that were asked for.
    pub lookups: LookupStats,
    /// How often each cache had what was needed.
    #[serde(default)]
    pub caches: CacheStats,
    /// Which way disk operations went.
    pub disk: DiskStats,
    /// What workers have waited for, while others waited for them.
    #[serde(default)]
    pub waits: WaitStats,
    /// What the sensors of a server that adapts have measured last; none if it does not.
    #[serde(default)]
    pub now: Option<Now>,
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
    /// Where the time went, if books are kept.
    #[serde(default)]
    pub account: Option<StepTimes>,
}

/// Connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionStats {
    /// Accepted so far.
    pub accepted: u64,
    /// Open now; none in answers of earlier versions.
    pub open: Option<u64>,
    /// Of these, those that wait for a request; none where workers do not say so: `mp` and `thread-per-session`.
    #[serde(default)]
    pub idle: Option<u64>,
    /// Of these, those whose peers do not take what is sent to them; none where workers do not say so: `mp` and the thread
    /// engines.
    #[serde(default)]
    pub slow: Option<u64>,
    /// Times that accepting had to pause for want of descriptors or memory.
    pub accept_pauses: u64,
    /// Idle ones closed to get descriptors.
    pub idle_shed: u64,
    /// Requests refused because their client network was over a limit.
    #[serde(default)]
    pub requests_limited: u64,
}

/// What was answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseStats {
    /// By the first digit of the status: 1xx to 5xx.
    pub by_class: [u64; 5],
    /// What peers of HTTP/2 did that costs and carries nothing, by the names of `lamna_proto::tally::Abuse`.
    #[serde(default)]
    pub http2_abuses: BTreeMap<String, u64>,
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
    /// Of these, those that no helper has begun yet.
    #[serde(default)]
    pub helper_queue: u64,
    /// How long jobs have waited for a helper thread, in microseconds; those for helper processes and the helpers of
    /// `pipelined` do not say.
    #[serde(default)]
    pub helper_wait_us: u64,
}

/// What workers have waited for, while others waited for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitStats {
    /// How long event loops have worked at a stretch, where that was 20 ms and more, in milliseconds.
    pub stalled_ms: u64,
    /// Connections that wait for a thread of `thread-pool`.
    pub thread_queue: u64,
    /// Connections that threads of `thread-pool` have taken up.
    pub thread_waits: u64,
    /// How long these have waited for a thread, in milliseconds.
    pub thread_wait_ms: u64,
}

/// What the sensors have measured in the last half second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Now {
    /// Length of the measurement.
    pub interval_ms: u64,
    /// Requests a second.
    pub requests_per_s: f64,
    /// CPU time of the process for each request.
    pub cpu_us_per_request: f64,
    /// Bytes sent for each request.
    pub bytes_per_request: f64,
    /// Part of the targets asked for that were in the cache and fresh.
    pub hit_ratio: f64,
    /// Part of the names and reads that would have blocked.
    pub would_block_ratio: f64,
    /// Names and reads that would have blocked, or what the kernel has read from disks in units of 128 KiB if that is more.
    pub disk_waits: u64,
    /// Time for which event loops stood still, neither on a processor nor waiting for one; 1.0 is one loop all the time.
    pub stalled_ratio: f64,
    /// Jobs that no helper has begun yet.
    pub helper_queue: u64,
    /// How long a job waited for a helper thread, on average.
    pub helper_delay_us: f64,
    /// The most jobs that helpers had under way at a time.
    pub helpers_busy_peak: u64,
    /// Connections that wait for a thread of `thread-pool`.
    pub thread_queue: u64,
    /// How long a connection waited for a thread, on average, by a clock of some milliseconds.
    pub thread_delay_us: f64,
    /// The most threads of a pool that were busy at a time.
    pub threads_busy_peak: u64,
    /// Connections that wait for a request, as far as workers say so.
    pub connections_idle: u64,
    /// Connections whose peers do not take what is sent, as far as workers say so.
    pub connections_slow: u64,
    /// Time that threads could have run and waited for a processor; 1.0 is one thread all the time.
    pub run_queue_processors: f64,
    /// Context switches for each request.
    pub switches_per_request: f64,
    /// As [`Stats::memory_pressure_percent`].
    pub memory_pressure_percent: Option<f64>,
    /// The share of a processor that the first thread of each worker had.
    pub workers_busy: Vec<f64>,
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
        assert!(error(r#"{"cache_policy": "fifo"}"#).contains("there is no cache policy \"fifo\"; there are lru, "));
        assert!(error(r#"{"cache_objective": "x"}"#).ends_with("there are requests and bytes"));
        assert!(error(r#"{"send": "splice"}"#).contains("there is no way to send \"splice\""));
        assert!(error(r#"{"copy_bytes_max": 300000}"#).contains("message_copy_bytes_max is a size up to 256KiB"));
        let change: Change = serde_json::from_str(r#"{"architecture": "mt", "workers": 2}"#).unwrap();
        assert_eq!(change.check(), Ok(()));
        assert!(serde_json::from_str::<Change>(r#"{"worker": 2}"#).is_err());
    }

    #[test]
    fn what_is_not_named_stays() {
        let change: Change = serde_json::from_str(r#"{"cache_policy": "sieve", "stretch_copy_bytes_max": 0}"#).unwrap();
        let before = Settings::default();
        let after = change.apply(&before).unwrap();
        assert_eq!(after.cache_policy.algorithm, Algorithm::Sieve);
        assert_eq!(after.sending.stretch_copy_bytes_max, 0);
        let undone = Settings { cache_policy: before.cache_policy, sending: before.sending, ..after };
        assert_eq!(undone, before);
        let threads = Change { threads: Some(2000), ..Change::default() };
        assert!(threads.apply(&before).unwrap_err().contains("1024 threads at most"));
    }

    #[test]
    fn a_number_that_does_not_concern_what_will_serve_is_refused() {
        let fixed = |architecture| Settings { adapts: false, architecture, ..Settings::default() };
        let threads = Change { threads: Some(100), ..Change::default() };
        let refused = threads.apply(&fixed(Architecture::Amped)).unwrap_err();
        assert_eq!(refused, "threads does not concern amped: it is a setting of thread-pool");
        assert!(threads.apply(&fixed(Architecture::ThreadPool)).is_ok());
        let both = Change { architecture: Some("thread-pool".into()), ..threads.clone() };
        assert!(both.apply(&fixed(Architecture::Amped)).is_ok());
        // It may come to a pool.
        assert!(threads.apply(&Settings::default()).is_ok());
        let workers = Change { workers: Some(2), ..Change::default() };
        assert!(workers.apply(&fixed(Architecture::Mp)).unwrap_err().contains("workers does not concern mp"));
        let helpers = Change { helpers_max: Some(2), ..Change::default() };
        assert!(
            helpers.apply(&fixed(Architecture::Sped)).is_err() && helpers.apply(&fixed(Architecture::CoAmped)).is_ok()
        );
    }
}
