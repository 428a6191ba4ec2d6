//! The life of a server in one process: from settings to running workers, orders, draining, and the end.
//!
//! Owns: the order in which things start and stop. Guarantees: listening sockets stay open until
//! the last worker has returned; the access log is written out before the process ends. Serves nothing itself.

mod ending;
mod opening;
pub(in crate::process) mod renewal;
mod services;
mod succession;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use lamna_config::settings::{Architecture, HelperKind, Settings};
use lamna_engine::worker::acceptor;
use lamna_engine::worker::migration::arrivals::Arrivals;
use lamna_engine::worker::migration::transfer::{Receiver, Sender};
use lamna_engine::worker::shared::Shared;
use lamna_io::KernelFeatures;
use lamna_io::listen::{BACKLOG, Listener};
use lamna_io::log::errors::{self, Level};
use lamna_sys::allocator;
use lamna_sys::clock::Clock;
use lamna_tls::acme::Orderer;

use crate::admin::api::{AdminApi, Now, Phase};
use crate::process::admin_service::{AdminService, Body};
use crate::process::administration::{Administration, Standing};
use crate::process::applications::Applications;
use crate::process::autotune::{Adapter, Wish};
use crate::process::error::ServeError;
use crate::process::messages::{announce, report_cut, report_done, report_draining, report_lost, report_not_upgraded};
use crate::process::orders::{Order, Orders};
use crate::process::running_engine;
use crate::process::running_engine::{DrainingEngines, RunningEngine, SwitchError, SwitchFailure};
use crate::process::sd_notify::Watchdog;
use crate::process::server::ending::{finish_and_stop, release};
use crate::process::server::renewal::Renewal;
use crate::process::share::processes_max;
use crate::process::shared_metrics::SharedMetrics;
use crate::process::startup_limits;
use crate::process::supervisor;
use crate::process::supervisor::Premises;
use crate::process::sweeper::Sweeper;
use crate::process::upgrade;
use crate::process::upgrade::{Inherited, Purpose, Succession, Successor};

/// Serves until an order ends it, in the place of the process that `inherited` comes from, if there is one. To be called
/// before the process has threads.
///
/// # Errors
/// What keeps it from starting.
pub fn serve(
    settings: &Settings,
    listeners: Vec<Listener>,
    mut administration: Administration,
    inherited: Option<Inherited>,
) -> Result<(), ServeError> {
    allocator::set();
    // Before anything else: the process whose place is taken, or an administrator, may already have something to say.
    let mut orders = Orders::by_signals()?;
    startup_limits::raise_descriptor_limit();
    let (mut inherited, mut predecessor) = (inherited, None);
    let mut keeper = administration.keeper.take();
    if let Some(inherited) = &mut inherited {
        predecessor = inherited.predecessor.take();
        keeper = inherited.keeper.take();
    }
    let keeper = keeper.map(Arc::new);
    let mut upgrade_in_progress = Succession::of_program(settings, administration.admin.listeners(), keeper.clone());
    let mut settings = settings.clone();
    inherited.iter().for_each(|inherited| inherited.apply(&mut settings));
    if inherited.is_some() && settings.architecture != upgrade_in_progress.configured().architecture {
        administration.standing.set_chosen(settings.architecture);
    }
    // Whether there can be a ring is found out by making one, which takes memory.
    startup_limits::check_memory_at_start(&settings)?;
    let settings = &possible(&settings)?;
    if settings.architecture != upgrade_in_progress.configured().architecture && inherited.is_none() {
        // What this kernel does not carry was not chosen.
        upgrade_in_progress.set_configured(settings.clone());
    }
    startup_limits::check_memory_at_start(settings)?;
    let clock = inherited.as_ref().map_or_else(Clock::start, |inherited| inherited.clock);
    let mut shared_metrics = SharedMetrics::new(clock)?;
    shared_metrics.services.set(&settings.services).map_err(ServeError::Service)?;
    if let Some(tickets) = inherited.as_mut().and_then(|inherited| inherited.tickets.take()) {
        shared_metrics.tickets = Arc::new(tickets);
    }
    if settings.speak_tls() {
        upgrade_in_progress.set_tickets(shared_metrics.tickets.clone());
    }
    shared_metrics.counted = shared_metrics.counted.among(processes_max(settings));
    let receiver = inherited.map(|inherited| inherited.receiver);
    let mut applications = Applications::new();
    if receiver.is_none() {
        applications.follow(settings);
    }
    let result = if settings.architecture.is_of_processes() {
        let premises = Premises { settings, shared_metrics: &shared_metrics, listeners, receiver, predecessor, keeper };
        supervisor::serve(premises, orders, administration, upgrade_in_progress, applications)
    } else {
        let server = Server::start(settings, listeners, &shared_metrics, 0, receiver.clone())?;
        announce(settings, &server.running.shared.listeners, server.running.shared.confinement.kind());
        if let Some(receiver) = &receiver {
            let listeners = server.running.shared.listeners.iter().chain(administration.admin.listeners());
            upgrade::take_over(receiver, predecessor.as_ref(), listeners);
        }
        predecessor.into_iter().for_each(|predecessor| orders.follow(predecessor));
        // Not before the place is its own: until then orders are the other one's. At once then: the applications of the other one end with it.
        keeper.into_iter().for_each(|keeper| orders.keep(keeper));
        applications.follow(settings);
        Server { upgrade_in_progress, applications: Some(applications), ..server }.run(orders, Some(administration))
    };
    report_done(&shared_metrics);
    result
}

/// The server in one process: all there is, or one worker process of several.
#[derive(Debug)]
pub struct Server {
    running: RunningEngine,
    leaving: DrainingEngines,
    shared_metrics: SharedMetrics,
    /// If it adapts.
    adapter: Option<Adapter>,
    /// What arrives from the process whose place this one has taken.
    arrivals: Option<Arrivals>,
    upgrade_in_progress: Succession,
    /// Once another process has taken the place of this one.
    successor: Option<Departure>,
    /// Who orders certificates.
    orderer: Orderer,
    /// What it starts itself. A worker process starts nothing: its supervisor does.
    applications: Option<Applications>,
    /// When the files of certificates were looked at last.
    certificates_seen: Option<Instant>,
    /// What services were when the cache was last told of them.
    services_seen: u64,
    sweeper: Sweeper,
    renewal: Renewal,
}

/// How a server leaves its place to another process.
#[derive(Debug)]
struct Departure {
    sender: Arc<Sender>,
    since: Instant,
    /// Connections are finished here, because the other one would not understand them.
    drains: bool,
    /// Unless this is a worker process: its supervisor is succeeded.
    successor: Option<Successor>,
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
    /// Starts the workers. The first takes score `first_score` at the scoreboard. They go on with what arrives at `receiver`.
    pub(crate) fn start(
        settings: &Settings,
        listeners: Vec<Listener>,
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
        let order = || Orderer::start(first_score == 0, settings, &running.shared.listeners);
        let orderer = running.shared.confinement.agents.within(order)?;
        let receiver = receiver.filter(|_| !settings.architecture.takes_arrivals_itself());
        let arrivals = receiver.map(|receiver| Arrivals::start(running.shared.clone(), receiver)).transpose()?;
        Ok(Server {
            // Of several processes the first one does it. It is the last to go, and replaced when it dies.
            orderer,
            running,
            leaving: DrainingEngines::default(),
            shared_metrics: shared_metrics.clone(),
            adapter: Adapter::new(settings, shared_metrics),
            arrivals,
            upgrade_in_progress: Succession::impossible(settings),
            successor: None,
            applications: None,
            certificates_seen: None,
            services_seen: shared_metrics.services.epoch(),
            sweeper: Sweeper::default(),
            renewal: Renewal::default(),
        })
    }

    /// What all processes of it have in common.
    pub(crate) fn shared_metrics(&self) -> &SharedMetrics {
        &self.shared_metrics
    }

    /// What the workers of the engine that serves share.
    pub(crate) fn shared(&self) -> &Shared {
        &self.running.shared
    }

    /// Open connections of each worker.
    pub(crate) fn connections(&self) -> Vec<u32> {
        self.running.connections()
    }

    /// What it serves with.
    pub fn settings(&self) -> &Settings {
        &self.running.settings
    }

    /// The applications that it has started, if that is its business.
    pub(crate) fn applications(&self) -> Option<&Applications> {
        self.applications.as_ref()
    }

    /// Goes on with other settings, and so perhaps with another engine, without losing a connection or a byte. Returns when
    /// the new engine serves; the old one may still be handing over (see [`Server::is_changing`]). Where it listens cannot
    /// be changed.
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

    /// Why the present engine serves, if the server has chosen it.
    pub(crate) fn why(&self) -> Option<&str> {
        self.adapter.as_ref()?.why()
    }

    /// Why there are so many workers, threads or helpers, if the server has changed that.
    pub(crate) fn why_so_many(&self) -> Option<&str> {
        self.adapter.as_ref()?.why_so_many()
    }

    /// What the sensors have measured last, if the server looks at itself.
    pub(crate) fn sensors(&self) -> Option<Now> {
        self.adapter.as_ref()?.now().cloned()
    }

    /// Lets the server look at itself, and change what it finds better.
    fn adapt(&mut self) {
        let Some(adapter) = &mut self.adapter else { return };
        let looked = adapter.look(&self.running, &self.shared_metrics);
        let Some(Wish { settings, because, engine }) = looked else {
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
        self.go_over(settings)
    }

    /// Has another engine take the place of the one that serves.
    fn go_over(&mut self, settings: &Settings) -> Result<Switched, SwitchError> {
        let Some(score) = self.leaving.free_seats(&self.running, settings.workers) else {
            let why = "an engine with many workers is still handing over: try again in a moment";
            return Err(SwitchError::Impossible(why.to_owned()));
        };
        let open = self.open_connections();
        match self.running.next(settings, score, open) {
            Ok(next) => {
                let previous = std::mem::replace(&mut self.running, next);
                previous.leave_to(&self.running);
                if previous.settings.acme != settings.acme {
                    // Its thread reaches the files that were named when it began.
                    self.orderer.stop();
                }
                self.leaving.push(previous);
                let (shared, orderer) = (&self.running.shared, &mut self.orderer);
                let follow = || orderer.follow(settings, &shared.listeners);
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

    /// Whether other settings take other helper processes: those that there are have opened the sites of the start, and this
    /// process, having threads, can fork no others.
    pub(crate) fn takes_other_helpers(&self, settings: &Settings) -> bool {
        let before = self.settings();
        let same_sites = settings.sites == before.sites && settings.compression == before.compression;
        settings.helpers == HelperKind::Processes && !same_sites
    }

    /// The configuration is another one from now on: what is the same as there was not chosen while serving.
    pub(crate) fn set_configured(&mut self, configured: Settings) {
        self.upgrade_in_progress.set_configured(configured);
    }

    /// Whether an engine is still handing its connections over.
    pub fn is_changing(&mut self) -> bool {
        self.reap();
        !self.leaving.is_empty()
    }

    /// Ends at once. Returns when all is over.
    pub fn stop(mut self) {
        self.upgrade_in_progress.end();
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

    fn reap(&mut self) {
        let was_leaving = !self.leaving.is_empty();
        if self.leaving.reap(&self.running) {
            self.take_missed();
        }
        if was_leaving {
            self.end_services();
        }
    }

    /// Takes connections that workers which have left may have been woken for. The kernel wakes one of those that wait for a
    /// socket, and nobody else for the same connection: without this look it would wait for the next one.
    fn take_missed(&self) {
        let shared = &self.running.shared;
        shared.listeners.iter().for_each(|listener| take_waiting(shared, listener));
    }

    /// Does what it is ordered until the workers have returned, and writes the log out. A worker process has no
    /// administration: its supervisor has.
    ///
    /// # Errors
    /// [`ServeError::Workers`].
    pub(crate) fn run(mut self, mut orders: Orders, administration: Option<Administration>) -> Result<(), ServeError> {
        self.follow_orders(&mut orders, administration);
        self.applications.iter_mut().for_each(Applications::end);
        match self.end() {
            0 => Ok(()),
            failed => Err(ServeError::Workers(failed)),
        }
    }

    /// Lets go of everything. Returns how many workers have failed.
    fn end(mut self) -> usize {
        self.arrivals.take().into_iter().for_each(Arrivals::stop);
        self.successor.iter().for_each(|departure| report_lost(&departure.sender));
        let shared = self.running.shared.clone();
        let failed = self.running.join();
        shared.hints.iter().for_each(|hints| hints.save());
        shared.counters.cache_bytes.fetch_add(shared.store.bytes(), Relaxed);
        shared.log.iter().for_each(|log| log.close());
        release(shared);
        failed
    }

    fn follow_orders(&mut self, orders: &mut Orders, mut administration: Option<Administration>) {
        let mut end: Option<Instant> = None;
        let mut drains = false;
        // The configuration is to be read again as soon as it is known who serves.
        let mut reload_later = false;
        let mut watchdog = Watchdog::of_environment().filter(|_| !orders.have_supervisor());
        while !self.is_over() {
            watchdog.iter_mut().for_each(Watchdog::look);
            let busy = end.is_some() || self.successor.is_some() || !self.leaving.is_empty() || self.is_receiving();
            let poll = if busy || self.upgrade_in_progress.is_begun() { DRAIN_POLL } else { IDLE_POLL };
            let descriptors = administration.iter().flat_map(|one| one.admin.descriptors());
            let look = self.adapter.as_ref().map_or(IDLE_POLL, Adapter::due).min(poll);
            let descriptors = descriptors.chain(self.upgrade_in_progress.descriptor());
            let applications = self.applications.iter().flat_map(Applications::descriptors);
            let due = self.applications.as_ref().map_or(look, |applications| applications.due().min(look));
            let due = watchdog.as_ref().map_or(due, |watchdog| watchdog.due().min(due));
            orders.wait(descriptors.chain(applications), Some(due));
            self.applications.iter_mut().for_each(|applications| applications.follow(&self.running.settings));
            self.look_at_certificates();
            self.look_at_services();
            self.sweeper.look(&self.running.shared);
            let now = self.running.shared.clock.now();
            self.running.shared.sites.groups().for_each(|(_, group)| group.close_old(now));
            self.reap();
            if end.is_none() && self.successor.is_none() && !self.upgrade_in_progress.is_begun() {
                self.adapt();
                self.look_at_confinement();
            }
            if let Some(Administration { admin, standing, .. }) = &mut administration {
                let ending = end.is_some() || self.successor.is_some();
                admin.handle(&mut self.service(standing, orders, ending));
            }
            self.look_at_succession(orders, &mut administration);
            if reload_later && !self.upgrade_in_progress.is_begun() {
                reload_later = false;
                match self.successor.is_some() {
                    true => self.pass_on(Order::Reload),
                    false => orders.give(Order::Reload),
                }
            }
            while let Some(order) = orders.receive() {
                match order {
                    Order::Reopen => self.running.shared.log.iter().for_each(|log| log.reopen()),
                    Order::PurgeAnswers => _ = self.running.shared.store.purge_answers(&|_| true),
                    Order::Reload if self.upgrade_in_progress.is_begun() => reload_later = true,
                    Order::Reload => {
                        if let Some(Administration { standing, .. }) = &mut administration {
                            // What comes of it is in the error log.
                            let _ = self.service(standing, orders, end.is_some()).reload();
                        }
                    }
                    Order::TakeServices => self.take_services(orders),
                    Order::Upgrade => {
                        let settings = self.settings().clone();
                        if let Err(error) = self.begin_succession(&settings, Purpose::Upgrade) {
                            report_not_upgraded(&error);
                        }
                    }
                    Order::HandOver => {
                        if let Some(handover_target) = orders.take_handover_target() {
                            self.leave_to(Arc::new(Sender::new(handover_target)), true, None);
                        }
                    }
                    Order::Retire => self.running.shared.control.retire(),
                    Order::Supersede => self.running.shared.control.supersede(),
                    Order::Drain if end.is_none() => {
                        if self.end_succession(order, orders, &mut administration) {
                            let drain_time_max = self.drain_time_max(orders.have_supervisor());
                            end = Some(Instant::now() + drain_time_max);
                            drains = true;
                        }
                    }
                    Order::Drain | Order::TakeOver => {}
                    Order::Stop => {
                        self.end_succession(order, orders, &mut administration);
                        // Who says so does not have to be told what was cut.
                        (end, drains) = (Some(Instant::now()), false);
                    }
                }
            }
            self.cut_remainder();
            drains |= self.successor.as_ref().is_some_and(|departure| departure.drains);
            // Not before everything is here that is still being handed over: it is to be finished as well.
            let is_draining = self.running.shared.control.is_draining();
            if drains && !is_draining && self.leaving.is_empty() && !self.is_receiving() {
                self.drain();
                // Not before it is true.
                if end.is_some() && !orders.have_supervisor() {
                    report_draining(self.settings().drain_timeout_ms);
                }
            }
            if let Some(late) = end.and_then(|end| Instant::now().checked_duration_since(end)) {
                if drains && !self.running.shared.control.is_stopping() && !orders.have_supervisor() {
                    report_cut(self.open_connections(), self.settings().drain_timeout_ms);
                }
                self.running.stop();
                if late > STOP_TIME_MAX {
                    return;
                }
            }
        }
    }

    /// Has the workers finish what has begun, which includes connections that wait to be accepted, and lets nobody else in.
    fn drain(&self) {
        let shared = &self.running.shared;
        shared.listeners.iter().for_each(Listener::begin_to_close);
        // Processes that serve one connection at a time take them one by one (`engine::mp`).
        if self.settings().architecture != Architecture::Mp && self.successor.is_none() {
            shared.listeners.iter().for_each(|listener| take_waiting(shared, listener));
        }
        shared.control.drain();
        if self.successor.is_none() {
            shared.listeners.iter().for_each(Listener::close);
        }
    }

    /// How long draining may take. A supervisor stops its workers itself, and says what was cut.
    /// Connections that could not go to the successor have had their time.
    fn cut_remainder(&self) {
        let time_max = self.drain_time_max(false);
        if self.successor.as_ref().is_some_and(|departure| !departure.drains && departure.since.elapsed() > time_max) {
            self.running.stop();
        }
    }

    fn drain_time_max(&self, has_supervisor: bool) -> Duration {
        let patience = if has_supervisor { STOP_TIME_MAX } else { Duration::ZERO };
        Duration::from_millis(u64::from(self.settings().drain_timeout_ms)) + patience
    }

    /// Connections that are open, with those that are on their way to another engine.
    fn open_connections(&self) -> usize {
        self.connections().into_iter().map(|count| count as usize).sum::<usize>() + self.leaving.connections()
    }
}

/// Gives the workers the connections that wait to be accepted from `listener`.
fn take_waiting(shared: &Shared, listener: &Listener) {
    for slot in acceptor::waiting(shared, listener, BACKLOG as usize) {
        shared.counters.connections.fetch_add(1, Relaxed);
        shared.adopt(slot);
    }
}

impl Server {
    /// Whether nothing is left to do. What is on its way to an engine that has left goes on to the other process.
    fn is_over(&self) -> bool {
        let moved = self.successor.is_none() || self.leaving.is_empty() && !self.is_receiving();
        if moved && self.running.has_left() {
            // Nobody accepts here any more. Those whom the kernel has sent a worker for go on to the successor, or stay.
            self.running.end_remainder(|| self.take_missed());
        }
        self.running.is_over() && (moved || self.running.shared.control.is_stopping())
    }

    /// Whether connections may still arrive from another process.
    fn is_receiving(&self) -> bool {
        self.arrivals.as_ref().is_some_and(|arrivals| !arrivals.is_over())
    }

    /// Answers for this server.
    fn service<'a>(
        &'a mut self,
        standing: &'a mut Standing,
        orders: &'a mut Orders,
        draining: bool,
    ) -> AdminService<'a> {
        let phase = if draining { Phase::Draining } else { Phase::Serving };
        AdminService { standing, orders, phase, body: Body::Threads(self) }
    }
}

/// The settings with an architecture that this kernel carries.
fn possible(settings: &Settings) -> Result<Settings, ServeError> {
    let mut settings = settings.clone();
    KernelFeatures::without(&settings.without).map_err(ServeError::Without)?;
    if let Err(errno) = running_engine::is_possible(&settings) {
        settings.architecture = Architecture::Amped;
        let needs = running_engine::IO_URING_NEEDS;
        errors::tell(
            Level::Warning,
            format_args!("io_uring is not to be had here ({errno}): serving as amped instead of proactor. {needs}"),
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
