//! Requests that the endpoint can make of a running server, and the answers: plain data, the same in JSON.
//!
//! Owns: the vocabulary. The supervisor of a server implements [`AdminApi`]; the endpoint knows nothing else of it.
//! Numbers are gathered when they are asked for and may be half a second old: workers hand theirs over twice a second.

use std::collections::BTreeMap;
use std::path::Path;

use lamna_config::setting::table::{find, find_by_order};
use lamna_config::setting::{self, Kind, SETTINGS, Setting, Unit};
use lamna_config::settings::Settings;
use lamna_config::suggest::nearest;
use lamna_policy::words::count;
use lamna_site::content::explain::{Asked, Explanation};
use lamna_site::content::maintenance::{MaintenanceOrder, MaintenanceStatus};
use lamna_site::content::purge::Purge;
use lamna_site::hints::HintReport;
use lamna_site::upstream::status::PlaceStatus;
use lamna_sys::metrics::step_timer::StepTimes;
use lamna_tls::FileCertificate;
use lamna_tls::acme::Ordered;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::applications::ApplicationStatus;
use super::figures::Figures;
use super::process_stats::ProcessStats;
use super::services::{ServiceOrder, ServiceStatus};
use super::thread_stats::Task;
use super::trace::{TraceOrder, TraceReport};
use super::upstreams::UpstreamOrder;

/// A running server, as the endpoint sees it. Called by the thread that supervises it, so nothing may wait for a peer.
pub trait AdminApi {
    /// The identity and the state of the server.
    fn status(&self) -> Status;

    /// The work done so far, in figures.
    fn stats(&self) -> Stats;

    /// Why this architecture serves, in one sentence.
    fn architecture_why(&self) -> String;

    /// Changes how the server works, all of it or nothing.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn set(&mut self, change: &Change) -> Result<Progress, Refusal>;

    /// The answer that such a request gets, and its reasons, by the settings in force and with the rights of the
    /// server. Waits for the disk.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn explain(&self, asked: &Asked) -> Result<Explanation, String>;

    /// The predictions of requests that follow this one. Waits for the learner.
    ///
    /// # Errors
    /// Why nothing is.
    fn hints(&self, asked: &Asked) -> Result<HintReport, String>;

    /// Waits for the next request for a target, and takes down what each step says of it. One trace at a time: the one
    /// before is forgotten.
    ///
    /// # Errors
    /// Why it cannot be traced.
    fn trace(&mut self, order: &TraceOrder) -> Result<u64, String>;

    /// How far the trace that was begun last has come.
    fn trace_report(&self) -> TraceReport;

    /// Uses no kept answer of an application any more that is meant. What was done, in words.
    ///
    /// # Errors
    /// Why nothing was done.
    fn purge(&mut self, purge: &Purge) -> Result<String, String>;

    /// The maintenance of each site of which an order or the configuration says something.
    fn maintenance(&self) -> Vec<MaintenanceStatus>;

    /// Begins or ends the maintenance of a site.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn order_maintenance(&mut self, order: &MaintenanceOrder) -> Result<Progress, Refusal>;

    /// The places of applications, and how they are doing.
    fn upstreams(&self) -> Vec<PlaceStatus>;

    /// Has a place of an application get no request, or get some again.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn order_upstream(&mut self, order: &UpstreamOrder) -> Result<Progress, Refusal>;

    /// Everything that can be exchanged, and how it is.
    fn services(&self) -> Vec<ServiceStatus>;

    /// Carries an order about a service out.
    ///
    /// # Errors
    /// Why nothing has changed.
    fn order_service(&mut self, order: &ServiceOrder) -> Result<Progress, Refusal>;

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

    /// The outcome of what was begun, once: what has been done, or why this process goes on, in words. None if that is
    /// not known yet.
    fn outcome(&mut self) -> Option<Result<String, String>>;
}

/// The progress of an order so far.
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
    /// It can be carried out soon, by the process that serves then: another process is just taking over.
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

/// The identity and the state of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of the program.
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
    /// The same, each with what is done there that is not done elsewhere; empty in answers of earlier versions.
    #[serde(default)]
    pub listeners: Vec<String>,
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
    /// The TLS parameters that clients have negotiated; none if TLS is not spoken.
    #[serde(default)]
    pub tls: Option<TlsStats>,
    /// How it stands with certificates that are ordered; none in answers of earlier versions.
    #[serde(default)]
    pub certificates: Vec<Ordered>,
    /// The certificates from files; none in answers of earlier versions.
    #[serde(default)]
    pub certificate_files: Vec<FileCertificate>,
    /// The places of applications; none in answers of earlier versions.
    #[serde(default)]
    pub upstreams: Vec<PlaceStatus>,
    /// The applications that it has started; none in answers of earlier versions.
    #[serde(default)]
    pub applications: Vec<ApplicationStatus>,
    /// The maintenance of each site of which an order or the configuration says something; none in answers of earlier
    /// versions.
    #[serde(default)]
    pub maintenance: Vec<MaintenanceStatus>,
    /// The services that filters may be; none in answers of earlier versions.
    #[serde(default)]
    pub services: Vec<ServiceStatus>,
    /// The user that it runs as; none in answers of earlier versions.
    #[serde(default)]
    pub user: Option<String>,
    /// The confinement of the threads that serve, in words; none in answers of earlier versions.
    #[serde(default)]
    pub sandbox: Option<String>,
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
    /// Bytes that the cache may hold.
    pub cache_bytes_max: u64,
    /// The order of service that `auto` has chosen, in words; none if it does not choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_in_force: Option<String>,
    /// The values of all other settings that can be changed, by the names of orders.
    #[serde(flatten)]
    pub settings: BTreeMap<String, Value>,
}

impl Arch {
    /// The value of this setting, as people read it; none if the server does not say.
    pub fn show(&self, setting: &Setting) -> Option<String> {
        let value = self.settings.get(setting.order.as_ref()?.name)?;
        let unit = if let Kind::Number { unit, .. } = setting.kind { unit } else { Unit::Count };
        Some(match value {
            Value::String(text) => text.clone(),
            value => value.as_u64().map_or_else(|| value.to_string(), |number| unit.show(number)),
        })
    }
}

/// The values that are to change, by the names of orders. Settings that are not named stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Change {
    values: BTreeMap<String, Value>,
}

impl Change {
    /// A change to these values, of settings that can be changed.
    pub fn of(values: impl IntoIterator<Item = (&'static Setting, setting::Value)>) -> Change {
        let named = values.into_iter().filter_map(|(setting, value)| {
            let name = setting.order.as_ref()?.name.to_owned();
            Some((name, json(&value)))
        });
        Change { values: named.collect() }
    }

    /// The settings and the values that they are to have, as far as they can be judged without knowing the server.
    ///
    /// # Errors
    /// The fault, in words.
    pub fn judged(&self) -> Result<Vec<(&'static Setting, setting::Value)>, String> {
        if self.values.is_empty() {
            return Err("nothing was named that is to change".to_owned());
        }
        let mut judged: Vec<(&'static Setting, setting::Value)> = Vec::new();
        for (name, value) in &self.values {
            let setting = find_by_order(name).ok_or_else(|| unknown(name))?;
            if judged.iter().any(|(other, _)| other.name == setting.name) {
                return Err(format!("{name} is named twice"));
            }
            let text = match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let given = || if value.is_string() { format!(", not {text:?}") } else { String::new() };
            let read = setting.parse(&text).map_err(|_| format!("{name} is {}{}", setting.expectation(), given()))?;
            judged.push((setting, read));
        }
        Ok(judged)
    }

    /// `settings` with the change.
    ///
    /// # Errors
    /// A value that makes no sense or cannot be had, in words.
    pub fn apply(&self, before: &Settings) -> Result<Settings, String> {
        let mut settings = before.clone();
        let judged = self.judged()?;
        for (setting, value) in &judged {
            // What can be ordered has no path.
            setting.put(&mut settings, value, Path::new("/")).map_err(|why| format!("{}: {why}", setting.name))?;
        }
        // What is left to the server from now on goes on from what it is.
        if settings.workers_adapt {
            settings.workers = before.workers;
        }
        if settings.threads_adapt {
            settings.threads = before.threads;
        }
        check_concern(&judged, &settings)?;
        if settings.threads > settings.threads_max {
            let most = count(settings.threads_max, "thread");
            return Err(format!("each worker may have {most} at most (threads_max)"));
        }
        Ok(settings)
    }
}

/// Whether what is named means anything to what will serve. A server that chooses its architecture may come to one that
/// it concerns.
fn check_concern(judged: &[(&'static Setting, setting::Value)], settings: &Settings) -> Result<(), String> {
    let serving = settings.architecture;
    for (setting, _) in judged.iter().filter(|_| !settings.adapts) {
        let concern = setting.order.as_ref().and_then(|order| order.concerns.as_ref());
        if let Some(concern) = concern.filter(|concern| !(concern.is_of)(serving)) {
            let (name, serving, whose) = (setting.name, serving.name(), concern.whose);
            return Err(format!("{name} does not concern {serving}: it is a setting of {whose}"));
        }
    }
    Ok(())
}

fn unknown(name: &str) -> String {
    let names = SETTINGS.iter().filter_map(|setting| setting.order.as_ref().map(|order| order.name));
    let hint = match nearest(name, names.clone()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    };
    match find(name) {
        Some(_) => format!("{name} is not changed while serving: change the configuration, and reload it"),
        None => format!("there is no setting {name:?}; {hint}"),
    }
}

/// The values of settings that can be changed, by the names of orders.
pub(crate) fn changeable(settings: &Settings) -> BTreeMap<String, Value> {
    let named = SETTINGS.iter().filter_map(|setting| {
        let value = setting.values(settings).into_iter().next()?;
        Some((setting.order.as_ref()?.name.to_owned(), json(&value)))
    });
    named.collect()
}

fn json(value: &setting::Value) -> Value {
    match value {
        setting::Value::Switch(on) => Value::from(*on),
        setting::Value::Number(number) => Value::from(*number),
        other => Value::from(other.to_string()),
    }
}

/// The work done since the server started, by all its workers, and its present cost.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// The values of all rows.
    #[serde(flatten)]
    pub figures: Figures,
    /// The TLS parameters that clients have negotiated; none if TLS is not spoken.
    #[serde(default)]
    pub tls: Option<TlsStats>,
    /// The last measurements of the sensors of a server that adapts; none if it does not.
    #[serde(default)]
    pub now: Option<Now>,
    /// The kernel's figures of the processes of the server.
    #[serde(default)]
    pub process: ProcessStats,
    /// The kernel's figures of the threads of the server that serve.
    pub tasks: Vec<Task>,
    /// Share of the last ten seconds in which some task of this machine or container waited for memory, in percent
    /// (`/proc/pressure/memory`); none where the kernel does not say.
    pub memory_pressure_percent: Option<f64>,
    /// Where the time went, if books are kept.
    #[serde(default)]
    pub account: Option<StepTimes>,
}

/// The measurements of the sensors in the last half second.
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
    /// Names and reads that would have blocked, or what the kernel has read from disks in units of 128 KiB if that is
    /// more.
    pub disk_waits: u64,
    /// Time for which event loops stood still, neither on a processor nor waiting for one; 1.0 is one loop all the
    /// time.
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
    use lamna_config::settings::Architecture;
    use lamna_policy::cache::Algorithm;

    fn change(json: &str) -> Change {
        serde_json::from_str(json).unwrap()
    }

    fn error(json: &str) -> String {
        change(json).judged().unwrap_err()
    }

    #[test]
    fn a_change_is_within_bounds_and_changes_something() {
        assert!(error("{}").contains("nothing was named"));
        assert!(error(r#"{"architecture": "mpm"}"#).starts_with("architecture is one of auto, mp, "));
        assert!(error(r#"{"architecture": "mpm"}"#).ends_with(", not \"mpm\""));
        assert!(error(r#"{"threads": 0}"#).contains("threads is a number from 1"));
        assert!(error(r#"{"threads": 1.5}"#).contains("threads is a number from 1"));
        assert!(error(r#"{"cache_policy": "fifo"}"#).contains("cache_policy is one of lru, "));
        assert!(error(r#"{"cache_objective": "x"}"#).contains("is one of requests and bytes"));
        assert!(error(r#"{"cache_filter": 1}"#).contains("cache_filter is true or false"));
        assert!(error(r#"{"copy_bytes_max": 300000}"#).ends_with("copy_bytes_max is a size up to 256KiB"));
        assert!(error(r#"{"worker": 2}"#).contains("did you mean workers?"));
        assert!(error(r#"{"log": "-"}"#).contains("log is not changed while serving"));
        assert!(error(r#"{"copy_bytes_max": 1, "message_copy_bytes_max": 2}"#).contains("named twice"));
        assert!(change(r#"{"architecture": "mt", "workers": 2}"#).judged().is_ok());
    }

    #[test]
    fn what_is_not_named_stays() {
        let before = Settings::default();
        let after = change(r#"{"cache_policy": "sieve", "stretch_copy_bytes_max": 0}"#).apply(&before).unwrap();
        assert_eq!(after.cache_policy.algorithm, Algorithm::Sieve);
        assert_eq!(after.sending.stretch_copy_bytes_max, 0);
        let undone = Settings { cache_policy: before.cache_policy, sending: before.sending, ..after };
        assert_eq!(undone, before);
        assert!(change(r#"{"threads": 2000}"#).apply(&before).unwrap_err().contains("1024 threads at most"));
    }

    #[test]
    fn what_is_left_to_the_server_goes_on_from_what_it_is() {
        let four = change(r#"{"workers": 4, "threads": 5}"#).apply(&Settings::default()).unwrap();
        assert_eq!((four.workers, four.workers_adapt, four.threads_adapt), (4, false, false));
        let auto = change(r#"{"workers": "auto", "threads": "auto"}"#).apply(&four).unwrap();
        assert_eq!((auto.workers, auto.workers_adapt), (4, true));
        assert_eq!((auto.threads, auto.threads_adapt), (5, true));
    }

    #[test]
    fn a_change_is_written_as_it_is_read() {
        let values = change(r#"{"architecture": "sped", "cache_filter": true, "copy_bytes_max": 4}"#).judged().unwrap();
        let written = serde_json::to_string(&Change::of(values)).unwrap();
        assert_eq!(written, r#"{"architecture":"sped","cache_filter":true,"message_copy_bytes_max":4}"#);
    }

    #[test]
    fn a_number_that_does_not_concern_what_will_serve_is_refused() {
        let fixed = |architecture| Settings { adapts: false, architecture, ..Settings::default() };
        let threads = change(r#"{"threads": 100}"#);
        let refused = threads.apply(&fixed(Architecture::Amped)).unwrap_err();
        assert_eq!(refused, "threads does not concern amped: it is a setting of thread-pool");
        assert!(threads.apply(&fixed(Architecture::ThreadPool)).is_ok());
        let both = change(r#"{"architecture": "thread-pool", "threads": 100}"#);
        assert!(both.apply(&fixed(Architecture::Amped)).is_ok());
        // It may come to a pool.
        assert!(threads.apply(&Settings::default()).is_ok());
        let workers = change(r#"{"workers": 2}"#);
        assert!(workers.apply(&fixed(Architecture::Mp)).unwrap_err().contains("workers does not concern mp"));
        let helpers = change(r#"{"helpers_max": 2}"#);
        assert!(
            helpers.apply(&fixed(Architecture::Sped)).is_err() && helpers.apply(&fixed(Architecture::CoAmped)).is_ok()
        );
    }
}
