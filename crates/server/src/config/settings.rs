//! The settings of a running server as plain values: what the configuration file and the command line come to.
//!
//! Owns: the types. Does not read files or arguments (`config::load`), open sockets (`listen`) or touch directories.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Which concurrency architecture serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Single-process event-driven: one event loop per worker, every step in line (Flash 3.3).
    Sped,
    /// Asymmetric multi-process event-driven: the same loop, with helpers for steps that would block (Flash 3.4).
    Amped,
    /// A thread for each connection as long as it is open (JAWS).
    ThreadPerSession,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix stream socket at this path.
    Unix(PathBuf),
}

/// Where access log lines go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Appended to a file, which is reopened on HUP.
    File(PathBuf),
}

/// How an access log line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Apache's combined log format.
    Combined,
    /// One JSON object a line with OpenTelemetry attribute names.
    Json,
}

/// Everything a server needs to know to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Addresses to bind. Empty: loopback port 8080, or the next free port.
    pub listen: Vec<ListenAddress>,
    /// The engine.
    pub architecture: Architecture,
    /// Event loops. At least 1.
    pub workers: usize,
    /// The most helper threads of each worker of `amped`. At least 1.
    pub helpers_max: usize,
    /// Threads that a pool of them begins with. At least 1.
    pub threads: usize,
    /// The most threads of engines that have them for connections or requests. At least 1.
    pub threads_max: usize,
    /// Bytes that the shared cache may hold, its own structures included.
    pub cache_bytes_max: u64,
    /// Access log target.
    pub log: LogTarget,
    /// Access log format.
    pub log_format: LogFormat,
    /// Bounds on what a peer may use or keep waiting.
    pub limits: lamna_proto::limits::Limits,
    /// System calls to do without, for testing what happens where the kernel lacks them: `openat2`, `nowait`,
    /// `cachestat`.
    pub without: Vec<String>,
    /// Sites; at least one. The first answers requests for hosts that no site names.
    pub sites: Vec<SiteSettings>,
}

/// One site: what is served for a set of host names.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteSettings {
    /// Host names in lower case without port; `*.example.org` matches any one or more labels in front. Empty: any host.
    pub hosts: Vec<String>,
    /// The directory that is served.
    pub root: PathBuf,
    /// Names tried, in order, when the target is a directory.
    pub index: Vec<String>,
    /// Whether a directory without an index file is listed.
    pub browse: bool,
    /// Whether a target that is not found, and whose last segment has no extension, is answered with the root's index
    /// file and status 200, as single-page applications want.
    pub spa: bool,
    /// Extra header fields of every response of this site: name and value.
    pub headers: Vec<(String, String)>,
    /// Redirects, tried in order before the file system.
    pub redirects: Vec<Redirect>,
    /// Path beneath the root of the page sent as the body of an error of this status.
    pub error_pages: BTreeMap<u16, String>,
    /// Path prefixes served from other directories, longest prefix first.
    pub aliases: Vec<Alias>,
    /// Directory beneath a user's home directory that is served as `/~user/`; none: `/~user/` is an ordinary path.
    pub user_directory: Option<String>,
}

/// One redirect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The path this applies to, decoded, starting with `/`. With a `*` at the end: every path with that prefix.
    pub from: String,
    /// Where it goes: a path or an absolute URL. A `*` at its end is replaced by what `*` in `from` matched.
    pub to: String,
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
}

/// A path prefix served from another directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// Path prefix, starting and ending with `/`.
    pub prefix: String,
    /// The directory that stands for it.
    pub root: PathBuf,
}
