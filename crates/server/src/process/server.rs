//! A server in one process: an engine at work, those that are leaving, and what is beside them.
//!
//! Owns: the change from one engine to another, and how its threads drain, stop and leave. Guarantees: listening
//! sockets stay open until the last worker has returned; the access log is written out before the process ends. Serves
//! nothing itself, and hears no orders: the control plane does ([`control_plane`](super::control_plane)).

mod body;
mod ending;
mod opening;
mod services;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use lamna_config::own_files::same_sites;
use lamna_config::settings::{Architecture, HelperKind, Settings};
use lamna_engine::worker::acceptor;
use lamna_engine::worker::migration::arrivals::Arrivals;
use lamna_engine::worker::migration::transfer::{Receiver, Sender};
use lamna_engine::worker::shared::Shared;
use lamna_io::KernelFeatures;
use lamna_io::listen::{self, Listener};
use lamna_io::log::errors::{self, Level};
use lamna_tls::acme::AcmeService;

use crate::process::autotune::{Adapter, WantedChange};
use crate::process::error::ServeError;
use crate::process::messages::report_lost;
use crate::process::running_engine;
use crate::process::running_engine::{DrainingEngines, RunningEngine, SiteFiles, SwitchError, SwitchFailure};
use crate::process::server::ending::{finish_and_stop, release};
use crate::process::shared_metrics::SharedMetrics;
use crate::process::startup_limits;
use crate::process::sweeper::Sweeper;

/// The server in one process: all there is, or one worker process of several.
#[derive(Debug)]
pub struct Server {
    running: RunningEngine,
    leaving: DrainingEngines,
    shared_metrics: SharedMetrics,
    /// If it adapts.
    adapter: Option<Adapter>,
    /// The thread that takes connections from the process whose place this one has taken.
    arrivals: Option<Arrivals>,
    /// Where connections go once another process has taken the place of this one.
    target: Option<Arc<Sender>>,
    /// Workers that have not stopped in time are waited for no longer.
    abandoned: bool,
    /// The agent that orders certificates.
    acme_service: AcmeService,
    /// When the files of certificates were looked at last.
    certificates_seen: Option<Instant>,
    /// The epoch of the services when the cache was last told of them.
    services_seen: u64,
    sweeper: Sweeper,
    /// Listeners that are named no more: they are closed when no engine takes connections there.
    removed: Vec<Arc<Listener>>,
}

/// How other settings were taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switched {
    /// By the engine that serves.
    Adjusted,
    /// By another engine, or another process.
    Over,
}

impl Server {
    /// Starts the workers. The first takes score `first_score` at the scoreboard. They go on with what arrives at
    /// `receiver`.
    pub(crate) fn start(
        settings: &Settings,
        listeners: Vec<Arc<Listener>>,
        shared_metrics: &SharedMetrics,
        first_score: usize,
        receiver: Option<Arc<Receiver>>,
    ) -> Result<Server, ServeError> {
        if settings.account {
            shared_metrics.done.account.begin();
        }
        startup_limits::check_memory(settings)?;
        startup_limits::check_mappings(settings)?;
        let running = RunningEngine::first(settings, listeners, shared_metrics, first_score, receiver.clone())?;
        if let Err(error) = startup_limits::check_descriptors(&running.shared.listeners) {
            finish_and_stop(&running);
            return Err(error);
        }
        let order = || AcmeService::start(first_score == 0, settings, &running.shared.listeners);
        let acme_service = running.shared.confinement.agents.within(order)?;
        let receiver = receiver.filter(|_| !settings.architecture.takes_arrivals_itself());
        let arrivals = receiver.map(|receiver| Arrivals::start(running.shared.clone(), receiver)).transpose()?;
        Ok(Server {
            // Of several processes the first one does it. It is the last to go, and replaced when it dies.
            acme_service,
            running,
            leaving: DrainingEngines::default(),
            shared_metrics: shared_metrics.clone(),
            adapter: Adapter::new(settings, shared_metrics),
            arrivals,
            target: None,
            abandoned: false,
            certificates_seen: None,
            services_seen: shared_metrics.services.epoch(),
            sweeper: Sweeper::default(),
            removed: Vec::new(),
        })
    }

    /// The settings that it serves with.
    pub fn settings(&self) -> &Settings {
        &self.running.settings
    }

    /// Goes on with other settings, and so perhaps with another engine, without losing a connection or a byte. Returns
    /// when the new engine serves; the old one may still be handing over (see [`Server::is_changing`]).
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    pub fn change(&mut self, settings: &Settings) -> Result<(), SwitchError> {
        let left_to_it = |one: &Settings| (one.adapts, Adapter::is_wanted(one), one.profile.clone());
        let before = left_to_it(self.settings());
        let services = self.begin_services(settings)?;
        let switched = self.switch(settings).inspect_err(|_| drop(self.shared_metrics.services.set(&services)))?;
        self.end_services();
        self.look_at_services();
        let is_same_engine = switched == Switched::Adjusted;
        if !is_same_engine || before != left_to_it(settings) {
            // What has been found out so far was about something else.
            self.adapter = Adapter::new(settings, &self.shared_metrics);
        }
        Ok(())
    }

    /// Lets the server look at itself, and change what it finds better.
    fn adapt(&mut self) {
        let Some(adapter) = &mut self.adapter else { return };
        let looked = adapter.look(&self.running, &self.shared_metrics);
        let Some(WantedChange { settings, because, engine }) = looked else {
            return;
        };
        match self.switch(&settings) {
            Ok(_) => errors::tell(Level::Info, format_args!("{} serves: {because}", settings.architecture.name())),
            Err(error) => {
                let why = format!("going on as before, because {error}. It was to be changed: {because}");
                errors::report(Level::Warning, format_args!("{why}"));
                if let (Some(adapter), Some(engine)) = (&mut self.adapter, engine) {
                    adapter.handle_failed(engine, &self.running.settings, &error.to_string());
                }
            }
        }
    }

    fn switch(&mut self, settings: &Settings) -> Result<Switched, SwitchError> {
        self.reap();
        self.check_staying()?;
        if settings.architecture.is_of_processes() {
            // A process that forks has one thread. Who answers for a server of this program has another one started.
            let why = "this process has threads, and was not started by the program itself, which could start another";
            return Err(SwitchError::Impossible(format!("{} takes processes: {why}", settings.architecture.name())));
        }
        if self.running.adjust(settings) {
            return Ok(Switched::Adjusted);
        }
        self.go_over(settings, SiteFiles::AsOpened)
    }

    /// Has another engine take the place of the one that serves.
    fn go_over(&mut self, settings: &Settings, files: SiteFiles) -> Result<Switched, SwitchError> {
        let Some(score) = self.leaving.free_seats(&self.running, settings.workers) else {
            let why = "an engine with many workers is still handing over: try again in a moment";
            return Err(SwitchError::Impossible(why.to_owned()));
        };
        let open = self.open_connections();
        match self.running.next(settings, score, open, files) {
            Ok(next) => {
                let previous = std::mem::replace(&mut self.running, next);
                self.remove_listeners(&previous.shared.listeners);
                previous.leave_to(&self.running);
                if previous.settings.acme != settings.acme {
                    // Its thread reaches the files that were named when it began.
                    self.acme_service.stop();
                }
                self.leaving.push(previous);
                let (shared, acme_service) = (&self.running.shared, &mut self.acme_service);
                let follow = || acme_service.follow(settings, &shared.listeners);
                if let Err(error) = shared.confinement.agents.within(follow) {
                    errors::report(Level::Error, format_args!("no certificate is ordered: no thread for it: {error}"));
                }
                Ok(Switched::Over)
            }
            Err(not_next) => {
                let SwitchFailure { error, begun } = *not_next;
                begun.into_iter().for_each(|running| self.leaving.push(running));
                Err(error)
            }
        }
    }

    /// Whether other settings take other helper processes: those that there are have opened the sites of the start, and
    /// this process, having threads, can fork no others.
    fn takes_other_helpers(&self, settings: &Settings) -> bool {
        settings.helpers == HelperKind::Processes && !same_sites(settings, self.settings())
    }

    /// Whether an engine is still handing its connections over.
    pub fn is_changing(&mut self) -> bool {
        self.reap();
        !self.leaving.is_empty()
    }

    /// Ends at once. Returns when all is over.
    pub fn stop(mut self) {
        self.running.stop();
        while !self.running.is_over() || self.is_changing() {
            thread::sleep(DRAIN_POLL);
        }
        self.end();
    }

    /// Takes certificates that have been renewed.
    fn look_at_certificates(&mut self) {
        let Some(tls) = &self.running.shared.tls else { return };
        if self.certificates_seen.is_none_or(|seen| seen.elapsed() >= CERTIFICATES_INTERVAL) {
            self.certificates_seen = Some(Instant::now());
            let words = tls.look();
            // Of several processes that see the same, one says it.
            if self.running.shared.first_score == 0 {
                words.iter().for_each(|(level, words)| errors::report(*level, format_args!("{words}")));
            }
        }
    }

    /// Has what the files of certificates, authorities and pages hold now count from now on.
    fn read_files(&mut self) -> Result<(), SwitchError> {
        self.check_staying()?;
        if let Some(tls) = &self.running.shared.tls {
            let words = tls.read_again().map_err(|error| SwitchError::Start(ServeError::Tls(error)))?;
            words.iter().for_each(|(level, words)| errors::report(*level, format_args!("{words}")));
            self.certificates_seen = Some(Instant::now());
        }
        let (sites, now_ms) = (&self.running.shared.sites, self.running.shared.clock.now().ms());
        if !(sites.have_current_trust() && sites.have_current_pages(now_ms)) {
            let settings = self.settings().clone();
            self.go_over(&settings, SiteFiles::ReadAgain)?;
        }
        Ok(())
    }

    /// Has no client connect any more where the engine of `before` listens and the one that serves does not.
    fn remove_listeners(&mut self, before: &[Arc<Listener>]) {
        let now = &self.running.shared.listeners;
        for listener in listen::removed(now, before) {
            errors::tell(Level::Info, format_args!("listening at {}", listener.address()));
        }
        for listener in listen::removed(before, now) {
            errors::tell(Level::Info, format_args!("listening at {} no more", listener.address()));
            listener.begin_to_close();
            self.removed.push(listener);
        }
    }

    fn reap(&mut self) {
        let was_leaving = !self.leaving.is_empty();
        if self.leaving.reap(&self.running) {
            self.take_missed();
        }
        if self.leaving.is_empty() {
            for listener in self.removed.drain(..) {
                // Connected before it was closed.
                take_waiting(&self.running.shared, &listener);
                listener.close();
            }
        }
        if was_leaving {
            self.end_services();
        }
    }

    /// Takes connections that workers which have left may have been woken for. The kernel wakes one of the workers that
    /// wait for a socket, and no other for the same connection: without this look it would wait for the next one.
    fn take_missed(&self) {
        let shared = &self.running.shared;
        shared.listeners.iter().for_each(|listener| take_waiting(shared, listener));
    }

    /// Lets go of everything. Returns how many workers have failed.
    fn end(mut self) -> usize {
        self.arrivals.take().into_iter().for_each(Arrivals::stop);
        self.target.iter().for_each(|target| report_lost(target));
        let shared = self.running.shared.clone();
        let failed = self.running.join();
        shared.hints.iter().for_each(|hints| hints.save());
        shared.counters.work.cache_bytes.fetch_add(shared.store.bytes(), Relaxed);
        shared.log.iter().for_each(|log| log.close());
        release(shared);
        failed
    }

    /// Has the workers finish what has begun, which includes connections that wait to be accepted. Lets no others in.
    fn begin_to_drain(&self) {
        let shared = &self.running.shared;
        shared.listeners.iter().for_each(|listener| listener.begin_to_close());
        // Processes that serve one connection at a time take them one by one (`engine::mp`).
        if self.settings().architecture != Architecture::Mp && self.target.is_none() {
            shared.listeners.iter().for_each(|listener| take_waiting(shared, listener));
        }
        shared.control.drain();
        // Nothing happens to those that another process listens at.
        shared.listeners.iter().for_each(|listener| listener.close());
    }

    /// Connections that are open, with those that are on their way to another engine.
    fn open_connections(&self) -> usize {
        self.running.connections().into_iter().map(|count| count as usize).sum::<usize>() + self.leaving.connections()
    }
}

/// Gives the workers the connections that wait to be accepted from `listener`.
fn take_waiting(shared: &Shared, listener: &Listener) {
    for connection in acceptor::waiting(shared, listener, listener.backlog() as usize) {
        shared.counters.work.connections.fetch_add(1, Relaxed);
        shared.adopt(connection);
    }
}

impl Server {
    /// Whether connections may still arrive from another process.
    fn is_receiving(&self) -> bool {
        self.arrivals.as_ref().is_some_and(|arrivals| !arrivals.is_over())
    }

    fn check_staying(&self) -> Result<(), SwitchError> {
        match self.running.shared.control.is_closing() || self.target.is_some() {
            true => Err(SwitchError::Impossible("the server is about to end".to_owned())),
            false => Ok(()),
        }
    }
}

/// The settings with an architecture that this kernel carries.
pub(super) fn possible(settings: &Settings) -> Result<Settings, ServeError> {
    let mut settings = settings.clone();
    KernelFeatures::without(&settings.without).map_err(ServeError::Without)?;
    if let Err(errno) = running_engine::is_possible(&settings) {
        settings.architecture = Architecture::Amped;
        let needs = running_engine::IO_URING_NEEDS;
        errors::tell(
            Level::Warning,
            format_args!("io_uring is not available here ({errno}): serving as amped instead of proactor. {needs}"),
        );
    }
    Ok(settings)
}

/// How often the end of the workers is looked for while draining, and while nothing is expected.
const DRAIN_POLL: Duration = Duration::from_millis(10);
const IDLE_POLL: Duration = Duration::from_secs(1);
/// How often the files of certificates are looked at.
const CERTIFICATES_INTERVAL: Duration = Duration::from_secs(2);
/// How long a worker that was told to stop is waited for: it may be waiting for a disk.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);
