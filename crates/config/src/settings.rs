//! The settings of a running server as plain values: what the configuration file and the command line come to.
//!
//! Owns: the types, and the defaults. The bounds of values are in the rows of `config::setting`. Does not read files or
//! arguments (`config::load`), open sockets (`listen`) or touch directories.

use std::path::PathBuf;

use lamna_policy::control::Profile;
use lamna_policy::limit::Rate;
use lamna_policy::schedule::Schedule;

use super::service::ServiceDefinition;

pub use super::access_log::{LogFormat, LogTarget};
use super::acme::AcmeSettings;
use super::address::AdminAddress;
pub use super::address::ListenAddress;
pub use super::architecture::Architecture;
pub use super::listen::{ListenAt, ListenRules, ListenSettings};
pub use super::redirect::Redirect;
pub use super::site::{Alias, ClientCa, SiteSettings, SiteTls, TlsFiles};
use crate::cache_policy::Policy;
use crate::cache_switches::CacheSwitches;
use crate::compression::Compression;
use crate::error_log::ErrorLogSettings;
use crate::hints::HintSettings;
use crate::proxies::TrustedProxies;
use crate::route::condition::Network;
use crate::sending::Plan;

/// The architecture that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one that the server finds best, as it goes.
    Auto,
    /// This one.
    Fixed(Architecture),
}

impl Choice {
    /// Every choice, in the order of documentation.
    pub fn all() -> impl Iterator<Item = Choice> {
        [Choice::Auto].into_iter().chain(Architecture::ALL.into_iter().map(Choice::Fixed))
    }

    /// The name in configuration, on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Fixed(architecture) => architecture.name(),
        }
    }

    /// The choice as announced when `serving` serves.
    pub fn describe(self, serving: Architecture) -> String {
        match self {
            Choice::Auto => format!("auto: {}", serving.name()),
            Choice::Fixed(_) => serving.name().to_owned(),
        }
    }

    /// The choice of this name.
    pub fn from_name(name: &str) -> Option<Choice> {
        match name {
            "auto" => Some(Choice::Auto),
            name => Architecture::from_name(name).map(Choice::Fixed),
        }
    }
}

/// The most helpers that can be asked for ([`Settings::helpers_max`]).
pub const HELPERS_MAX: usize = 1024;

/// The default of [`Settings::request_limit`]: more than any page needs, even for many browsers behind one address.
pub const REQUEST_LIMIT: &str = "500/s burst 5000";

/// The default of [`Settings::connection_limit`]: more than any browser opens, even for hundreds of them behind one
/// address.
pub const CONNECTION_LIMIT: u64 = 2000;

/// The default of [`Settings::application_limit`].
pub const APPLICATION_LIMIT: u64 = 500;

/// The default of [`Settings::network_bytes_max`].
pub const NETWORK_BYTES_MAX: u64 = 64 << 20;

/// The default of [`Settings::network_buffer_bytes_max`]: sixteen requests of FastCGI, SCGI or uwsgi that do not say
/// how long their content is.
pub const NETWORK_BUFFER_BYTES_MAX: u64 = 256 << 20;

/// The default of [`Settings::limit_exempt`]: this machine.
pub const LIMIT_EXEMPT: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// The kind of the helpers of `amped` and `co-amped`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperKind {
    /// Threads of the worker's process.
    Threads,
    /// Processes of their own, as Flash had them.
    Processes,
}

impl HelperKind {
    /// Every kind, in the order of documentation.
    pub const ALL: [HelperKind; 2] = [HelperKind::Threads, HelperKind::Processes];

    /// The name in configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HelperKind::Threads => "threads",
            HelperKind::Processes => "processes",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }
}

/// The handling of the page cache's copy of content that the cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePages {
    /// It is released if the cache may take most of the memory within which the server has to live, and is its only
    /// one.
    #[default]
    Auto,
    /// It stays as long as the kernel likes: the second of two caches, from which the first is filled again.
    Keep,
    /// It is released, so that content is in memory once.
    Release,
}

impl CachePages {
    /// Every one, in the order of documentation.
    pub const ALL: [CachePages; 3] = [CachePages::Auto, CachePages::Keep, CachePages::Release];

    /// The name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            CachePages::Auto => "auto",
            CachePages::Keep => "keep",
            CachePages::Release => "release",
        }
    }

    /// The one of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }
}

/// The endpoint that controls a server, and the proof that it asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where.
    pub address: AdminAddress,
    /// Names by which the endpoint may be asked over TCP, in lower case and without ports.
    pub hosts: Vec<String>,
    /// The file with the token that orders over TCP need; none for one that is made.
    pub token_file: Option<PathBuf>,
}

/// Everything a server needs to know to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Addresses to bind. Empty: loopback port 8080, or the next free port.
    pub listen: Vec<ListenSettings>,
    /// The engine; that to begin with if the server adapts.
    pub architecture: Architecture,
    /// Whether the server changes the engine by itself when another is better: `arch = "auto"`.
    pub adapts: bool,
    /// Event loops. The default is 1: a second one before the first has filled its processor only warms two caches.
    pub workers: usize,
    /// Whether a server that adapts changes the number of workers, too: `workers = "auto"`.
    pub workers_adapt: bool,
    /// The estimates by which a server that adapts decides; none for the built-in ones.
    pub profile: Option<Profile>,
    /// The file that it is from.
    pub profile_file: Option<PathBuf>,
    /// Whether each worker, with all its threads, stays on one processor. No engine does so unless asked.
    pub pin: bool,
    /// Whether HTTP/2 in clear text is spoken with clients that begin with it.
    pub h2c: bool,
    /// The proxies that are believed about who their clients are.
    pub proxies: TrustedProxies,
    /// Those of the addresses to listen at where connections begin with a header of the PROXY protocol.
    pub proxy_protocol: Vec<ListenAt>,
    /// How much each client network may ask for, over all sites; none for any amount.
    pub request_limit: Option<Rate>,
    /// The most connections of each client network that are open at once; 0 for any number.
    pub connection_limit: u64,
    /// The most connections to applications that each client network has at once; 0 for any number.
    pub application_limit: u64,
    /// The most memory that the connections of each client network hold in a process while they wait; 0 for any amount.
    pub network_bytes_max: u64,
    /// The most bytes of files in which a process keeps content of each client network for applications; 0 for any
    /// amount.
    pub network_buffer_bytes_max: u64,
    /// Networks of clients that no limit is for.
    pub limit_exempt: Vec<Network>,
    /// Whether books are kept of where the time goes.
    pub account: bool,
    /// The kind of the helpers of `amped` and `co-amped`.
    pub helpers: HelperKind,
    /// The most helpers of each worker of `amped` and `co-amped`, and the most threads of the kernel that wait for the
    /// disk in the place of each worker of `proactor`; at most [`HELPERS_MAX`]. A server that adapts has fewer while
    /// that does.
    pub helpers_max: usize,
    /// Processes that `mp` begins with and does not go below. Flash and Apache had 32 as well.
    pub processes: usize,
    /// The most processes of `mp`: that many connections can be served at a time. If it is less
    /// than `processes`, that is the bound.
    pub processes_max: usize,
    /// Bytes that the cache of each process of `mp` may hold, its own structures included.
    /// Small, because there are many of them that hold the same.
    pub process_cache_bytes_max: u64,
    /// Translations that the cache of each process of `mp` may hold.
    pub process_translations_max: usize,
    /// Threads of each worker of `thread-pool`; those to begin with if their number adapts. More than
    /// `threads_max` are not had.
    pub threads: usize,
    /// Whether a server that adapts changes the number of threads, too: `threads = "auto"`.
    pub threads_adapt: bool,
    /// The most threads for connections of each worker of `thread-pool`, `thread-per-request` and `thread-per-session`.
    pub threads_max: usize,
    /// How answers are sent.
    pub sending: Plan,
    /// The order of service of connections that can go on, and of jobs that wait for the disk.
    pub schedule: Schedule,
    /// Bytes a second that the link carries which is sent over; 0 if nothing is known of it.
    pub uplink_bytes_per_s: u64,
    /// Bytes that the shared cache may hold, its own structures included. The processes of
    /// `co-amped` have equal parts of it.
    pub cache_bytes_max: u64,
    /// Open files that the cache may hold; none for a quarter of what the process may open.
    pub cache_files_max: Option<u64>,
    /// Which of the three caches are in use. All, except to measure what each contributes.
    pub caches: CacheSwitches,
    /// Which entries of a cache go when room is needed.
    pub cache_policy: Policy,
    /// Learning from requests, and the uses of what is learned.
    pub hints: HintSettings,
    /// The handling of the page cache's copy of content that the cache holds.
    pub cache_pages: CachePages,
    /// Whether directories of cached files are watched, so that they need not be compared every second.
    pub cache_watch: bool,
    /// Compression while serving: codings and sizes of content. A small cache lowers `bytes_max`.
    pub compression: Compression,
    /// Access log target.
    pub log: LogTarget,
    /// Access log format.
    pub log_format: LogFormat,
    /// Whether clients are told what their requests are called, and the combined log has it.
    pub request_id: bool,
    /// The error log: faults, and actions of the server by itself.
    pub error_log: ErrorLogSettings,
    /// How the server is controlled.
    pub admin: AdminSettings,
    /// The user that the server becomes once it listens, by name or by number; none to stay who it is.
    pub user: Option<String>,
    /// The group that it becomes with it; none for that of the user.
    pub group: Option<String>,
    /// Whether the threads that serve are confined, as far as the kernel can.
    pub sandbox: bool,
    /// How certificates of sites with [`SiteTls::Auto`] are ordered.
    pub acme: AcmeSettings,
    /// Bounds on what a peer may use or keep waiting.
    pub limits: lamna_proto::limits::Limits,
    /// How long what has begun may take to end when the server drains: ten minutes are enough for most downloads.
    pub drain_timeout_ms: u32,
    /// System calls to do without, for testing what happens where the kernel lacks them: `openat2`, `nowait`,
    /// `cachestat`, `io_uring`, `landlock`, `seccomp`. From the command line only.
    pub without: Vec<String>,
    /// Files that these settings were read from: the configuration, and what it names for that.
    pub read_files: Vec<PathBuf>,
    /// Whether shared objects are loaded as services: they can do what the server can.
    pub native_services: bool,
    /// Services: routes may name them as filters, and they can be exchanged while the server serves.
    pub services: Vec<ServiceDefinition>,
    /// Sites; at least one. The first answers requests for hosts that no site names.
    pub sites: Vec<SiteSettings>,
}

impl Settings {
    /// The index of the site that answers for `host`, which is without a port, as a server finds it.
    pub fn site_of(&self, host: Option<&str>) -> usize {
        let named = |name: &str| self.sites.iter().position(|site| site.hosts.iter().any(|one| one == name));
        let found = host.map(|host| host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()).and_then(|host| {
            let mut suffixes = host.match_indices('.').map(|(at, _)| format!("*{}", &host[at..]));
            named(&host).or_else(|| suffixes.find_map(|suffix| named(&suffix)))
        });
        found.unwrap_or_else(|| self.default_site())
    }

    /// The index of the site that answers for hosts that no site names: the one without hosts, or else the first.
    pub fn default_site(&self) -> usize {
        self.sites.iter().position(|site| site.hosts.is_empty()).unwrap_or(0)
    }

    /// Whether the cache holds content in the place of the page cache: what is read for it from the disk does not stay
    /// there as well. A cache of less than most of the memory is the smaller of two, and filled from the page cache
    /// again; processes that have a cache each share that, too.
    pub fn replaces_page_cache(&self) -> bool {
        match self.cache_pages {
            CachePages::Auto => {
                !self.architecture.is_of_processes() && lamna_sys::memory::is_most_of_memory(self.cache_bytes_max)
            }
            CachePages::Keep => false,
            CachePages::Release => true,
        }
    }

    /// Whether a cache that holds content alone leaves what comes back in the page cache while memory is free. The
    /// setting "release" wants it nowhere else.
    pub fn uses_headroom(&self) -> bool {
        self.cache_pages == CachePages::Auto && self.replaces_page_cache()
    }

    /// Whether any site speaks TLS.
    pub fn speak_tls(&self) -> bool {
        self.sites.iter().any(|site| site.tls.is_some())
    }

    /// The names that certificates are ordered for, each once.
    pub fn automatic_names(&self) -> Vec<&str> {
        let automatic = self.sites.iter().filter(|site| site.tls == Some(SiteTls::Auto));
        automatic.flat_map(|site| site.hosts.iter().map(String::as_str)).collect()
    }

    /// The architecture that is asked for.
    pub fn choice(&self) -> Choice {
        if self.adapts { Choice::Auto } else { Choice::Fixed(self.architecture) }
    }

    /// Asks for an architecture. A server that adapts goes on with the one that it has.
    pub fn choose(&mut self, choice: Choice) {
        self.adapts = choice == Choice::Auto;
        if let Choice::Fixed(architecture) = choice {
            self.architecture = architecture;
        }
    }
}

impl Default for Settings {
    /// The defaults of everything, with no site yet: a server needs at least one.
    fn default() -> Self {
        let processes_max = lamna_sys::memory::default_processes_max();
        Settings {
            listen: Vec::new(),
            architecture: Architecture::Amped,
            adapts: true,
            workers: 1,
            workers_adapt: true,
            profile: None,
            profile_file: None,
            pin: false,
            h2c: false,
            proxies: TrustedProxies::default(),
            proxy_protocol: Vec::new(),
            request_limit: REQUEST_LIMIT.parse().ok(),
            connection_limit: CONNECTION_LIMIT,
            application_limit: APPLICATION_LIMIT,
            network_bytes_max: NETWORK_BYTES_MAX,
            network_buffer_bytes_max: NETWORK_BUFFER_BYTES_MAX,
            limit_exempt: LIMIT_EXEMPT.iter().filter_map(|text| text.parse().ok()).collect(),
            account: false,
            helpers: HelperKind::Threads,
            helpers_max: 32,
            processes: processes_max.min(32),
            processes_max,
            process_cache_bytes_max: lamna_sys::memory::default_process_cache_bytes(processes_max),
            process_translations_max: 200,
            threads: 64,
            threads_adapt: true,
            threads_max: 1024,
            sending: Plan::default(),
            schedule: Schedule::default(),
            uplink_bytes_per_s: 0,
            cache_bytes_max: lamna_sys::memory::default_cache_bytes(),
            cache_files_max: None,
            caches: CacheSwitches::ALL,
            cache_policy: Policy::default(),
            hints: HintSettings::default(),
            cache_pages: CachePages::Auto,
            cache_watch: true,
            compression: Compression::default(),
            log: LogTarget::Stdout,
            log_format: LogFormat::Combined,
            request_id: false,
            error_log: ErrorLogSettings::default(),
            admin: AdminSettings::default(),
            user: None,
            group: None,
            sandbox: true,
            acme: AcmeSettings::default(),
            limits: lamna_proto::limits::Limits::default(),
            drain_timeout_ms: 600_000,
            without: Vec::new(),
            read_files: Vec::new(),
            native_services: false,
            services: Vec::new(),
            sites: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_holds_alone_leaves_pages_unless_it_is_told_to_release_them() {
        for cache_pages in CachePages::ALL {
            // More than any machine has.
            let settings = Settings { cache_bytes_max: u64::MAX, cache_pages, ..Settings::default() };
            assert_eq!(settings.replaces_page_cache(), cache_pages != CachePages::Keep, "{cache_pages:?}");
            assert_eq!(settings.uses_headroom(), cache_pages == CachePages::Auto, "{cache_pages:?}");
            let small = Settings { cache_bytes_max: 1, ..settings };
            assert!(!small.uses_headroom(), "{cache_pages:?}");
        }
    }
}
