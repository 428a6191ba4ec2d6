//! State that all workers of one engine share.
//!
//! Owns: nothing of its own; it holds the sites, the cache, the settings and the counters for all workers. Guarantees:
//! read by all, written only through atomics and locks off the cached path.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_config::proxies::TrustedProxies;
use lamna_config::sending::Plan;
use lamna_config::settings::{ListenAddress, Settings};
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level};
use lamna_io::log::{AccessLog, LogCounters};
use lamna_io::waker::Waker;
use lamna_io::{KernelFeatures, accept};
use lamna_policy::schedule::Schedule;
use lamna_proto::limits::Limits;
use lamna_site::cache::{self, Store};
use lamna_site::content::fair_lock::FairLock;
use lamna_site::content::handler::Handlers;
use lamna_site::content::site::Sites;
use lamna_site::early_hints::{self, EarlyHints};
use lamna_site::hints::{HintCounters, Hints};
use lamna_site::service::Registry;
use lamna_sys::clock::Clock;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::metrics::operator_state::OperatorState;
use lamna_sys::metrics::scoreboard::{Scoreboard, WorkerScore};
use lamna_sys::metrics::trace::Trace;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::{Endpoint, Over, Tickets};
use rustix::io::Errno;

use crate::worker::confinement::Confinement;
use crate::worker::connection_counter::ConnectionCounter;
use crate::worker::connection_state::ConnectionState;
use crate::worker::control::Control;
use crate::worker::helpers::fork_server::ForkServer;
use crate::worker::limiter::{Counted, Limiter};
use crate::worker::migration::handover::Handover;
use crate::worker::migration::transfer::Receiver;
use crate::worker::uplink::{self, Uplink};

/// State that all workers of an engine share. Read by all, written only through atomics and locks off the hot path.
/// An engine that takes the place of another has its own, with the same content but for what concerns the engine
/// itself.
#[derive(Debug)]
pub struct Shared {
    /// The sites that are served.
    pub sites: Arc<Sites>,
    /// The cache of targets' entries.
    pub store: Arc<Store>,
    /// The handlers of the program itself, by name.
    pub handlers: Arc<Handlers>,
    /// The registry of services that its filters may be, exchanged while it serves.
    pub services: Arc<Registry>,
    /// Hints that are learned from requests, if any are.
    pub hints: Option<Arc<Hints>>,
    /// The features of the kernel.
    pub abilities: Arc<KernelFeatures>,
    /// How workers send.
    pub sending: Plan,
    /// Whether HTTP/2 in clear text is spoken.
    pub h2c: bool,
    /// The proxies that are believed about who their clients are.
    pub proxies: TrustedProxies,
    /// How much clients may ask for.
    pub limiter: Limiter,
    /// Held by the request that makes what takes long.
    pub making_lock: Arc<FairLock>,
    /// Early hints to clients, if any are given.
    pub early_hints: Option<Arc<EarlyHints>>,
    /// The order in which connections that are ready go on, and jobs that wait for the disk.
    pub schedule: Schedule,
    /// The link that is sent over, if its rate is known.
    pub uplink: Option<Uplink>,
    /// When that is free, whether its rate is known or not.
    pub uplink_clock: uplink::LinkClock,
    /// Bounds on what peers may use.
    pub limits: Arc<Limits>,
    /// Where connections come from.
    pub listeners: Arc<Vec<Arc<Listener>>>,
    /// The TLS endpoint, if any listener speaks TLS.
    pub tls: Option<Arc<Endpoint>>,
    /// The keys of its tickets, with which the successor of this engine goes on.
    pub tickets: Arc<Tickets>,
    /// The access log, if there is one.
    pub log: Option<Arc<AccessLog>>,
    /// The server's clock.
    pub clock: Clock,
    /// The orders of the main thread to the workers.
    pub control: Control,
    /// Connections that come from, or go to, another engine.
    pub handover: Handover,
    /// Connections that come from another process, for engines that take them themselves.
    pub receiver: Option<Arc<Receiver>>,
    /// Counters of the work done.
    pub counters: SharedMemory<Counters>,
    /// Whether clients are told what their requests are called, and every log has it.
    pub request_id: bool,
    /// Counters of log lines by their fate.
    pub log_counters: SharedMemory<LogCounters>,
    /// Counters of early hints to clients.
    pub early_hint_counters: SharedMemory<early_hints::Counters>,
    /// Counters of the cache.
    pub cache_counters: SharedMemory<cache::counters::Counters>,
    /// Counters of hints.
    pub hint_counters: SharedMemory<HintCounters>,
    /// The request that an operator traces.
    pub trace: SharedMemory<Trace>,
    /// The orders of an operator that stay in force.
    pub operator_state: SharedMemory<OperatorState>,
    /// How busy each worker is.
    pub scoreboard: SharedMemory<Scoreboard>,
    /// The connections of each worker of this process that move between its threads.
    pub connection_counters: Vec<ConnectionCounter>,
    /// The score at the scoreboard of the first worker of this process; those of the others follow.
    pub first_score: usize,
    /// Rung when all workers are busy, for a supervisor that can start more of them.
    pub alarm: Arc<Waker>,
    /// Where helper processes come from; none if helpers are threads.
    pub fork_server: Option<Arc<ForkServer>>,
    /// The confinement that its threads enter before they serve.
    pub confinement: Arc<Confinement>,
}

impl Shared {
    /// That of workers for `sites`, which are those of `settings`, with a cache and counters of their own: no
    /// connections come to them.
    ///
    /// # Errors
    /// The system has no descriptors or no memory for it.
    pub fn alone(settings: &Settings, sites: Sites, abilities: KernelFeatures) -> Result<Shared, Errno> {
        let store = Store::new(settings.cache_bytes_max, DESCRIPTORS_ALONE).with_caches(settings.caches);
        Ok(Shared {
            sites: Arc::new(sites),
            store: Arc::new(store),
            handlers: Arc::default(),
            services: Arc::default(),
            hints: None,
            abilities: Arc::new(abilities),
            sending: settings.sending,
            h2c: settings.h2c,
            proxies: settings.proxies.clone(),
            limiter: Limiter::new(settings, Counted::new()?, SharedMemory::default()),
            making_lock: Arc::default(),
            early_hints: None,
            schedule: settings.schedule,
            uplink: None,
            uplink_clock: SharedMemory::default(),
            limits: Arc::new(settings.limits.clone()),
            listeners: Arc::default(),
            tls: None,
            tickets: Arc::new(Tickets::new().map_err(|_| Errno::IO)?),
            log: None,
            clock: Clock::start(),
            control: Control::new(settings.workers, settings.threads, settings.threads_max)?,
            handover: Handover::new(settings.workers),
            receiver: None,
            counters: SharedMemory::default(),
            request_id: settings.request_id,
            log_counters: SharedMemory::default(),
            early_hint_counters: SharedMemory::default(),
            cache_counters: SharedMemory::default(),
            hint_counters: SharedMemory::default(),
            trace: SharedMemory::zeroed()?,
            operator_state: SharedMemory::zeroed()?,
            scoreboard: SharedMemory::default(),
            connection_counters: (0..settings.workers).map(|_| ConnectionCounter::default()).collect(),
            first_score: 0,
            alarm: Arc::new(Waker::new()?),
            fork_server: None,
            confinement: Arc::new(Confinement::none()),
        })
    }

    /// Whether anything depends on where connections come from.
    pub fn looks_at_clients(&self) -> bool {
        let Shared { log, sites, proxies, limiter, listeners, .. } = self;
        let have_proxies = listeners.iter().any(|listener| listener.proxies().is_some());
        have_proxies
            || log.is_some()
            || sites.look_at_clients()
            || !proxies.is_empty()
            || limiter.has_any(sites)
            || limiter.connections().is_some()
    }

    /// The port at which https is spoken for a client that has come in clear text, if it is not that of https. A client
    /// `has_named_port` if it knows this server by a port: it is led to that where TLS is spoken. Another has come to
    /// port 80, by whatever mapping, and is led to port 443.
    pub fn secure_port(&self, over: Over<'_>, has_named_port: bool) -> Option<u16> {
        let own = over.socket.and_then(accept::port_of);
        let of = |listener: &Arc<Listener>| match listener.address() {
            ListenAddress::Tcp(address) if listener.speaks_tls() => Some(address.port()),
            _ => None,
        };
        let ports = || self.listeners.iter().filter_map(of);
        // One that was there before its listener spoke TLS.
        let is_own = |port: &u16| Some(*port) == own;
        let named = || ports().find(|port| *port == HTTPS_PORT).or_else(|| ports().next()).filter(|_| has_named_port);
        ports().find(is_own).or_else(named).filter(|port| *port != HTTPS_PORT)
    }

    /// The listener that a connection has come to, as far as its own address tells.
    fn listener_of(&self, connection: &ConnectionState) -> Option<&Listener> {
        let own = accept::address_of(connection.transport.over().socket?)?;
        let is_of = |address: &ListenAddress| matches!(address, ListenAddress::Tcp(tcp) if *tcp == own);
        let is_every = |address: &ListenAddress| match address {
            ListenAddress::Tcp(tcp) => tcp.ip().is_unspecified() && tcp.port() == own.port(),
            ListenAddress::Unix(_) => false,
        };
        let listeners = || self.listeners.iter().map(|listener| &**listener);
        listeners().find(|one| is_of(one.address())).or_else(|| listeners().find(|one| is_every(one.address())))
    }

    /// Counts a connection that another process has had among those of its client network.
    pub fn keep(&self, mut connection: ConnectionState) -> ConnectionState {
        if let Some(listener) = self.listener_of(&connection) {
            connection.transport.has_come_to(listener);
            if !listener.speaks_http2() {
                connection.http.keep_version();
            }
        }
        let permit = self.limiter.connections().and_then(|limit| limit.keep(connection.peer.address));
        connection.with_permit(permit)
    }

    /// The score at the scoreboard of worker `index` of this process.
    pub fn score(&self, index: usize) -> &WorkerScore {
        self.scoreboard.score(self.first_score + index)
    }

    /// Whether files are read only by who may wait, into memory of the server's own, and sent from there.
    ///
    /// Where the store has most of the memory, the page cache holds little, and nothing for long: what it has when a
    /// worker looks may be gone when it is sent. Nor may a worker look: looking for what is not there begins a
    /// readahead, for which the kernel has to make room first, in the worker's time. Helper processes cannot hand over
    /// what they have read.
    pub fn reads_elsewhere(&self) -> bool {
        self.store.replaces_page_cache() && self.fork_server.is_none()
    }
}

impl Shared {
    /// Accepting has to pause for want of descriptors or memory: gives up those of the cache, counts it, and says so
    /// now and then.
    pub fn handle_exhaustion(&self, errno: Errno) {
        self.store.clear();
        let before = self.counters.work.accept_pauses.fetch_add(1, Relaxed);
        if before.is_multiple_of(PAUSES_REPORTED) {
            let what = format!(
                "cannot accept connections for the moment: {errno}. They wait. If it lasts, raise the limit on open \
                 files (ulimit -n, or LimitNOFILE= in a systemd unit), or the memory limit (MemoryMax=) if there is one."
            );
            errors::report(Level::Error, format_args!("{what}"));
        }
    }
}

/// Files that a cache without connections holds open.
const DESCRIPTORS_ALONE: u64 = 100;
const HTTPS_PORT: u16 = 443;
/// One of so many pauses is reported: about one message in 10 seconds.
const PAUSES_REPORTED: u64 = 100;
