//! A running: one engine at work, from the start of its workers to their return, and the change from one to the next.
//!
//! Owns: the threads of the workers, and what they share. Guarantees: a running that has started serves, all its
//! workers having begun; a running that cannot start has given back every connection that it had taken; a change of
//! engines loses nothing, because the new one serves before the old one leaves, and listening sockets stay open
//! throughout. Does not decide when to change.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lamna_config::access_log::AccessLogs;
use lamna_config::own_files::{hide_the_same, same_sites};
use lamna_config::settings::{Architecture, HelperKind, Settings};
use lamna_engine::engine::{self, Engine};
use lamna_engine::worker::confinement::Confinement;
use lamna_engine::worker::connection_counter::ConnectionCounter;
use lamna_engine::worker::control::Control;
use lamna_engine::worker::helpers::fork_server::ForkServer;
use lamna_engine::worker::limiter::Limiter;
use lamna_engine::worker::migration::handover::{Handover, HandoverTarget};
use lamna_engine::worker::migration::transfer::Receiver;
use lamna_engine::worker::read_ahead;
use lamna_engine::worker::shared::Shared;
use lamna_engine::worker::uplink::Uplink;
use lamna_io::KernelFeatures;
use lamna_io::listen::{self, Listener};
use lamna_io::log::errors::{self, Level};
use lamna_io::log::{AccessLog, LogCounters};
use lamna_site::cache::Store;
use lamna_site::content::site::Sites;
use lamna_site::early_hints::{self, EarlyHints};
use lamna_site::hints::{self, HintCounters, Hints};
use lamna_site::service::Registry;
use lamna_sys::clock::Clock;
use lamna_sys::metrics::counters::Counters;
use lamna_sys::metrics::scoreboard::WORKERS_MAX;
use lamna_sys::shared_memory::SharedMemory;
use lamna_tls::{Alpn, Endpoint, Tickets};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::process::embedded::Embedded;
use crate::process::error::ServeError;
use crate::process::opened_store::store;
use crate::process::reload;
use crate::process::remainder::Remainder;
use crate::process::shared_metrics::SharedMetrics;
use crate::process::supervisor::restart::Restart;

/// A thread that serves, and how it ends.
type Worker = JoinHandle<Result<(), Errno>>;

/// One engine at work.
#[derive(Debug)]
pub(crate) struct RunningEngine {
    /// The state that its workers share.
    pub(crate) shared: Arc<Shared>,
    /// The settings that it was started with, and has been adjusted to.
    pub(crate) settings: Settings,
    embedded: Embedded,
    /// The place of its first worker among those that are pinned: workers stay on their processors when engines change.
    pub(super) first_place: usize,
    workers: Vec<Worker>,
    /// The engine that has the connections that stay when all others go to another process.
    pub(super) remainder: OnceLock<Arc<Remainder>>,
}

/// The treatment of files that are read when sites are opened (pages, authorities of applications), by an engine that
/// takes the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteFiles {
    /// The same sites are the same as they were opened, whatever the files hold now.
    AsOpened,
    /// The operator has ordered that they are read again.
    ReadAgain,
}

/// A running that does not take the place of another.
pub(crate) struct SwitchFailure {
    /// Why.
    pub(crate) error: SwitchError,
    /// It has begun all the same, and is leaving again: to be looked after until it is over.
    pub(crate) begun: Option<RunningEngine>,
}

/// Why one engine does not take the place of another, which goes on.
#[derive(Debug)]
pub enum SwitchError {
    /// The new one cannot serve here, or not what is to be served: why, in words.
    Impossible(String),
    /// Not now: another process takes this one's place, and can be asked soon.
    NotNow(String),
    /// The new one could not start.
    Start(ServeError),
}

impl std::fmt::Display for SwitchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SwitchError::Impossible(why) | SwitchError::NotNow(why) => f.write_str(why),
            SwitchError::Start(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SwitchError {}

impl RunningEngine {
    /// The first running of a process, whose first worker takes score `first_score`. With a `receiver` it goes on with
    /// what arrives there, if its engine takes that itself. To be called before the process has threads.
    ///
    /// # Errors
    /// The reason why it cannot start.
    pub(crate) fn first(
        settings: &Settings,
        listeners: Vec<Arc<Listener>>,
        shared_metrics: &SharedMetrics,
        first_score: usize,
        receiver: Option<Arc<Receiver>>,
    ) -> Result<RunningEngine, ServeError> {
        let receiver = receiver.filter(|_| settings.architecture.takes_arrivals_itself());
        let shared = Shared { receiver, ..prepare(settings, listeners, shared_metrics, first_score)? };
        RunningEngine::start(settings, Arc::new(shared), &shared_metrics.embedded, first_score).map_err(|failure| {
            let (cause, begun) = *failure;
            begun.shared.control.stop();
            cause
        })
    }

    /// A running that can take the place of this one, at work already, with so many connections that are open.
    ///
    /// # Errors
    /// Why it cannot.
    pub(crate) fn next(
        &self,
        settings: &Settings,
        first_score: usize,
        open: usize,
        files: SiteFiles,
    ) -> Result<RunningEngine, Box<SwitchFailure>> {
        // Threads look when they begin whether they keep books.
        let account = &self.shared.counters.account;
        account.keep(settings.account);
        let begun = self.begin_next(settings, first_score, open, files);
        let next = begun.inspect_err(|_| account.keep(self.settings.account))?;
        listen::follow(&next.shared.listeners, settings);
        Ok(next)
    }

    fn begin_next(
        &self,
        settings: &Settings,
        first_score: usize,
        open: usize,
        files: SiteFiles,
    ) -> Result<RunningEngine, Box<SwitchFailure>> {
        let not_begun = |error| Box::new(SwitchFailure { error, begun: None });
        self.check(settings, open).map_err(|why| not_begun(SwitchError::Impossible(why)))?;
        let shared =
            self.successor(settings, first_score, files).map_err(|error| not_begun(SwitchError::Start(error)))?;
        let started = RunningEngine::start(settings, Arc::new(shared), &self.embedded, self.first_place);
        let next = started.map_err(|failure| {
            let (cause, begun) = *failure;
            begun.leave_to(self);
            Box::new(SwitchFailure { error: SwitchError::Start(cause), begun: Some(begun) })
        })?;
        if settings.cache_policy != self.settings.cache_policy {
            // Not before it is certain that the new running serves: the store may be the one of both.
            next.shared.store.change_policy(settings.cache_policy);
        }
        Ok(next)
    }

    /// Goes on with `settings` as it is, if nothing in them concerns what has begun. Whether it does.
    pub(crate) fn adjust(&mut self, settings: &Settings) -> bool {
        let adjusted = reload::adjusted(&self.settings, settings);
        if adjusted != *settings || !hide_the_same(settings, &self.settings) {
            return false;
        }
        if self.settings.cache_policy != settings.cache_policy {
            self.shared.store.change_policy(settings.cache_policy);
        }
        if self.settings.threads != settings.threads {
            self.shared.control.set_threads(settings.threads);
        }
        self.shared.control.set_helpers(settings.helpers_max);
        self.settings = adjusted;
        true
    }

    /// Gives all connections to `successor`, and ends.
    pub(crate) fn leave_to(&self, successor: &RunningEngine) {
        self.shared.handover.appoint(HandoverTarget::Engine(successor.shared.clone()));
        self.shared.hints.iter().for_each(|hints| hints.leave_to(successor.shared.hints.as_deref()));
        self.shared.control.hand_over();
    }

    /// Whether all workers have returned.
    pub(crate) fn has_left(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Open connections of each worker.
    pub(crate) fn connections(&self) -> Vec<u32> {
        let (shared, workers) = (&self.shared, self.settings.workers);
        match self.settings.architecture.character().reports.connections {
            true => (0..workers).map(|index| shared.score(index).connections()).collect(),
            false => shared
                .connection_counters
                .iter()
                .map(|connection_counters| u32::try_from(connection_counters.count()).unwrap_or(u32::MAX))
                .collect(),
        }
    }

    /// Whether all workers have returned, and nothing is left behind.
    pub(crate) fn is_over(&self) -> bool {
        self.has_left() && self.remainder.get().is_none_or(|remainder| remainder.is_over())
    }

    /// How many of the workers that have returned should not have.
    pub(crate) fn join(self) -> usize {
        let finished = self.workers.into_iter().filter(JoinHandle::is_finished);
        // One that could not go on, or panicked, has said why on standard error.
        finished.map(Worker::join).filter(|end| !matches!(end, Ok(Ok(())))).count()
    }

    /// Starts the workers, and waits until all have begun.
    ///
    /// # Errors
    /// Why not, and what has begun.
    pub(super) fn start(
        settings: &Settings,
        shared: Arc<Shared>,
        embedded: &Embedded,
        first_place: usize,
    ) -> Result<RunningEngine, Box<(ServeError, RunningEngine)>> {
        let (remainder, workers) = (OnceLock::new(), Vec::new());
        let (settings, embedded) = (settings.clone(), embedded.clone());
        let mut running = RunningEngine { shared, settings, embedded, first_place, workers, remainder };
        for index in 0..running.settings.workers {
            match running.start_worker(index) {
                Ok(worker) => running.workers.push(worker),
                Err(error) => return Err(Box::new((error.into(), running))),
            }
        }
        match running.await_beginning() {
            Ok(()) => {
                let is_bounded = !running.settings.architecture.waits_for_peers();
                running.shared.listeners.iter().for_each(|listener| listener.bound_unsent(is_bounded));
                read_ahead::begin(&running.shared);
                Ok(running)
            }
            Err(errno) => Err(Box::new((errno.into(), running))),
        }
    }

    fn start_worker(&self, index: usize) -> std::io::Result<Worker> {
        let (shared, settings, place) = (self.shared.clone(), self.settings.clone(), self.first_place + index);
        let engine = self.embedded.engine.clone();
        shared.scoreboard.take(shared.first_score + index);
        let work = move || {
            if settings.pin {
                stay_on_processor(place);
            }
            if let Err(error) = shared.confinement.workers.enter() {
                errors::report(Level::Error, format_args!("worker {index} cannot be confined: {error}"));
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::PERM));
            }
            let result = keep_running(&shared, index, &settings, engine.as_deref());
            shared.score(index).clear();
            result
        };
        thread::Builder::new().name(format!("worker-{index}")).spawn(work)
    }

    fn await_beginning(&mut self) -> Result<(), Errno> {
        while self.shared.control.begun() < self.workers.len() {
            if let Some(at) = self.workers.iter().position(JoinHandle::is_finished) {
                let ended = self.workers.swap_remove(at).join();
                // One that panicked has said so on standard error.
                return Err(ended.ok().and_then(Result::err).unwrap_or(Errno::AGAIN));
            }
            thread::sleep(BEGINNING_POLL);
        }
        Ok(())
    }
}

// Taking the place of another running.
impl RunningEngine {
    /// Whether an engine with `settings` could go on with what this one has, and with `open` connections.
    fn check(&self, settings: &Settings, open: usize) -> Result<(), String> {
        let name = settings.architecture.name();
        if settings.architecture.is_of_processes() != self.settings.architecture.is_of_processes() {
            return Err(format!("{name} cannot serve in a process of {}", self.settings.architecture.name()));
        }
        if let Err(errno) = is_possible(settings) {
            return Err(format!("{name} cannot serve here: io_uring is refused ({errno}). {IO_URING_NEEDS}"));
        }
        if settings.helpers == HelperKind::Processes && self.shared.fork_server.is_none() {
            return Err("helper processes can be chosen at start only, with --helpers processes".to_owned());
        }
        match settings.architecture.connections_max(settings) {
            Some(most) if open > most => Err(format!(
                "{name} holds {} at most, and {open} are open. Raise threads_max, or wait.",
                lamna_policy::words::count(most, "connection")
            )),
            _ => Ok(()),
        }
    }

    /// The state that the workers of an engine with `settings` will share: the same as that of these, as far as the
    /// settings are.
    fn successor(&self, settings: &Settings, first_score: usize, files: SiteFiles) -> Result<Shared, ServeError> {
        let (old, before) = (&*self.shared, &self.settings);
        let same_sites = same_sites(settings, before) && files == SiteFiles::AsOpened;
        let listeners = listen::change(&old.listeners, &settings.listen).map_err(ServeError::Listen)?;
        let tls = match &old.tls {
            Some(tls) if reload::keeps_tls(before, settings) => {
                // A reload is a good moment to look.
                tls.look().iter().for_each(|(level, words)| errors::report(*level, format_args!("{words}")));
                Some(tls.clone())
            }
            _ => open_tls(settings, &old.tickets, &old.counters)?,
        };
        hints::make_folder(settings);
        // What has begun in the old one stays there.
        let confinement = Arc::new(Confinement::of(settings)?);
        let sites = if same_sites {
            old.sites.clone()
        } else {
            let keys = (old.clock, &old.tickets);
            Arc::new(open_sites(settings, &old.services, &confinement, &old.counters, keys, Some(&old.sites))?)
        };
        let confinement = around_roots(confinement, settings)?;
        let same_store = same_sites && reload::keeps_cache(before, settings);
        let store = match same_store {
            true => old.store.clone(),
            false => Arc::new(store(settings, &self.embedded, &sites, old.clock, &old.cache_counters)),
        };
        let hints = old.hints.as_deref().and_then(|hints| hints.for_sites(settings));
        let hints = hints
            .or_else(|| begin_hints(settings, old.hints.as_deref(), first_score, &old.hint_counters, &confinement));
        hints::attach(hints.as_deref(), &store);
        let early_hints = match same_store {
            true => old.early_hints.clone(),
            false => early_hints(&sites, &store, &old.early_hint_counters, &confinement),
        };
        early_hints.iter().for_each(|early_hints| early_hints.attach(hints.as_ref()));
        // Its thread reaches the directory that was there when it began.
        let same_log = AccessLogs::of(settings) == AccessLogs::of(before);
        let log = match same_log && old.confinement.is_current() {
            true => old.log.clone(),
            false => open_log(settings, &old.log_counters, &confinement)?,
        };
        Ok(Shared {
            sites,
            store,
            hints,
            early_hints,
            early_hint_counters: old.early_hint_counters.clone(),
            handlers: old.handlers.clone(),
            services: old.services.clone(),
            tickets: old.tickets.clone(),
            abilities: old.abilities.clone(),
            sending: settings.sending,
            h2c: settings.h2c,
            proxies: settings.proxies.clone(),
            limiter: old.limiter.with(settings),
            making_lock: old.making_lock.clone(),
            schedule: settings.schedule,
            uplink: Uplink::new(settings.uplink_bytes_per_s, &old.uplink_clock, old.clock),
            uplink_clock: old.uplink_clock.clone(),
            limits: Arc::new(settings.limits.clone()),
            listeners: Arc::new(listeners),
            tls,
            log,
            clock: old.clock,
            control: control(settings)?,
            handover: Handover::new(settings.workers),
            receiver: None,
            counters: old.counters.clone(),
            log_counters: old.log_counters.clone(),
            cache_counters: old.cache_counters.clone(),
            hint_counters: old.hint_counters.clone(),
            trace: old.trace.clone(),
            operator_state: old.operator_state.clone(),
            scoreboard: old.scoreboard.clone(),
            connection_counters: connection_counters(settings),
            first_score,
            alarm: old.alarm.clone(),
            fork_server: old.fork_server.clone(),
            request_id: settings.request_id,
            confinement,
        })
    }
}

/// Serves as worker `index` until the engine ends. A worker that fails once all have begun is made anew, in the same
/// thread and with the same score and inbox, so that what has arrived for it is taken by its successor. A process of
/// which there are others ends instead: its supervisor replaces it.
fn keep_running(
    shared: &Arc<Shared>,
    index: usize,
    settings: &Settings,
    own: Option<&dyn Engine>,
) -> Result<(), Errno> {
    let mut restart = Restart::default();
    loop {
        let started = Instant::now();
        let run = || own.map_or_else(|| engine::run(shared, index, settings), |own| own.run(shared, index));
        let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Errno::CANCELED));
        let Err(errno) = ended else { return ended };
        if shared.control.begun() < settings.workers {
            return ended;
        }
        // What it was doing is over, whatever becomes of the worker.
        shared.score(index).clear();
        let cause = match errno {
            // The message of the panic is on standard error already.
            Errno::CANCELED => "has failed, which is a defect of Lamna: please report it".to_owned(),
            errno => format!("cannot go on: {errno}"),
        };
        if settings.architecture.is_of_processes() || shared.control.is_closing() {
            errors::report(Level::Error, format_args!("worker {index} {cause}"));
            shared.close_arrivals(index);
            return ended;
        }
        let pause = restart.handle_death(started, Instant::now());
        errors::report(Level::Error, format_args!("worker {index} {cause}; starting it again"));
        await_end(&shared.control, pause);
        shared.scoreboard.take(shared.first_score + index);
        // It may have been woken for what it has not looked at.
        shared.control.waker(index).wake();
    }
}

/// Waits for `time`, or until workers are to end.
fn await_end(control: &Control, time: Duration) {
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
    // An interrupted wait is a short one.
    let _ = poll(&mut [PollFd::new(control.interrupt(false).descriptor(), PollFlags::IN)], Some(&timeout));
}

/// Shifts that are leaving, and the scores at the scoreboard that are taken.
#[derive(Debug, Default)]
pub(crate) struct DrainingEngines {
    engines: Vec<RunningEngine>,
}

impl DrainingEngines {
    /// Looks after `running` until it is over.
    pub(crate) fn push(&mut self, running: RunningEngine) {
        self.engines.push(running);
    }

    /// Lets go of those that are over. Whether there were any.
    pub(crate) fn reap(&mut self, current: &RunningEngine) -> bool {
        let before = self.engines.len();
        for running in self.engines.extract_if(.., |running| running.is_over()) {
            let log = running.shared.log.clone();
            running.join();
            let used = |log: &Arc<AccessLog>| current.shared.log.as_ref().is_some_and(|now| Arc::ptr_eq(now, log));
            log.iter().filter(|log| !used(log)).for_each(|log| log.close());
        }
        self.engines.len() < before
    }

    /// Connections that they have not given away yet.
    pub(crate) fn connections(&self) -> usize {
        self.engines.iter().flat_map(RunningEngine::connections).map(|count| count as usize).sum()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// So many scores in a row that neither `current` nor a leaving running has, if there are that many.
    pub(crate) fn free_seats(&self, current: &RunningEngine, count: usize) -> Option<usize> {
        let engines = || self.engines.iter().chain([current]);
        let range =
            |running: &RunningEngine| running.shared.first_score..running.shared.first_score + running.settings.workers;
        let is_free =
            |first: usize| engines().map(range).all(|taken| first + count <= taken.start || taken.end <= first);
        let candidates = [0].into_iter().chain(engines().map(|running| range(running).end));
        candidates.filter(|first| first + count <= WORKERS_MAX).find(|first| is_free(*first))
    }
}

/// Has this thread, and those that it starts, run on one of the processors that the server may use, workers taking
/// turns.
fn stay_on_processor(place: usize) {
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&processor| allowed.is_set(processor)).collect();
    if let Some(&processor) = processors.get(place % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(processor);
        // If it fails the worker is only slower.
        let _ = sched_setaffinity(None, &one);
    }
}

/// How often a worker that begins is looked at.
const BEGINNING_POLL: Duration = Duration::from_micros(200);
/// The requirements of the proactor.
pub(crate) const IO_URING_NEEDS: &str =
    "It takes Linux 6.1, kernel.io_uring_disabled=0 and a seccomp profile that allows it.";

/// Whether the kernel carries the architecture of `settings`.
///
/// # Errors
/// Why not.
pub(crate) fn is_possible(settings: &Settings) -> Result<(), Errno> {
    if settings.architecture != Architecture::Proactor {
        return Ok(());
    }
    let abilities = KernelFeatures::without(&settings.without).map_err(|_| Errno::INVAL)?;
    engine::proactor::test(&abilities)
}

/// Everything that the workers of the first running share.
fn prepare(
    settings: &Settings,
    listeners: Vec<Arc<Listener>>,
    shared_metrics: &SharedMetrics,
    first_score: usize,
) -> Result<Shared, ServeError> {
    // First of all, because later there are threads.
    let fork_server = (settings.helpers == HelperKind::Processes).then(|| ForkServer::start(settings)).transpose()?;
    let abilities = KernelFeatures::without(&settings.without).map_err(ServeError::Without)?;
    // Makes the state directory where there is none, to be among what can be reached.
    let tls = open_tls(settings, &shared_metrics.tickets, &shared_metrics.done)?;
    hints::make_folder(settings);
    let confinement = Arc::new(Confinement::of(settings)?);
    let sites = Arc::new(open_sites(
        settings,
        &shared_metrics.services,
        &confinement,
        &shared_metrics.done,
        (shared_metrics.clock, &shared_metrics.tickets),
        None,
    )?);
    let confinement = around_roots(confinement, settings)?;
    listen::follow(&listeners, settings);
    let store =
        Arc::new(store(settings, &shared_metrics.embedded, &sites, shared_metrics.clock, &shared_metrics.cache));
    let hints = begin_hints(settings, None, first_score, &shared_metrics.hints, &confinement);
    hints::attach(hints.as_deref(), &store);
    let early_hints = early_hints(&sites, &store, &shared_metrics.early_hints, &confinement);
    early_hints.iter().for_each(|early_hints| early_hints.attach(hints.as_ref()));
    Ok(Shared {
        store,
        sites,
        hints,
        early_hints,
        early_hint_counters: shared_metrics.early_hints.clone(),
        handlers: shared_metrics.embedded.handlers.clone(),
        services: shared_metrics.services.clone(),
        abilities: Arc::new(KernelFeatures { counters: shared_metrics.disk.clone(), ..abilities }),
        sending: settings.sending,
        h2c: settings.h2c,
        proxies: settings.proxies.clone(),
        limiter: Limiter::new(settings, shared_metrics.counted.clone().of(first_score), shared_metrics.done.clone()),
        making_lock: Arc::default(),
        schedule: settings.schedule,
        uplink: Uplink::new(settings.uplink_bytes_per_s, &shared_metrics.uplink_clock, shared_metrics.clock),
        uplink_clock: shared_metrics.uplink_clock.clone(),
        limits: Arc::new(settings.limits.clone()),
        listeners: Arc::new(listeners),
        tls,
        tickets: shared_metrics.tickets.clone(),
        log: open_log(settings, &shared_metrics.log, &confinement)?,
        clock: shared_metrics.clock,
        control: control(settings)?,
        handover: Handover::new(settings.workers),
        receiver: None,
        counters: shared_metrics.done.clone(),
        log_counters: shared_metrics.log.clone(),
        cache_counters: shared_metrics.cache.clone(),
        hint_counters: shared_metrics.hints.clone(),
        trace: shared_metrics.trace.clone(),
        operator_state: shared_metrics.operator_state.clone(),
        scoreboard: shared_metrics.scoreboard.clone(),
        connection_counters: connection_counters(settings),
        first_score,
        alarm: shared_metrics.alarm.clone(),
        fork_server: fork_server.map(Arc::new),
        request_id: settings.request_id,
        confinement,
    })
}

fn connection_counters(settings: &Settings) -> Vec<ConnectionCounter> {
    (0..settings.workers).map(|_| ConnectionCounter::default()).collect()
}

fn control(settings: &Settings) -> Result<Control, Errno> {
    let control = Control::new(settings.workers, settings.threads, settings.threads_max)?;
    control.set_helpers(settings.helpers_max);
    Ok(control)
}

/// The TLS endpoint. HTTP/2 is spoken above it, or HTTP/1.1.
fn open_tls(
    settings: &Settings,
    tickets: &Arc<Tickets>,
    counters: &SharedMemory<Counters>,
) -> Result<Option<Arc<Endpoint>>, ServeError> {
    Endpoint::open(settings, tickets.clone(), counters.clone(), &[Alpn::Http2, Alpn::Http1]).map_err(ServeError::Tls)
}

/// The confinement of threads whose roots have been opened: another one if a directory has taken the place of a root
/// since `confinement` was made, or that root could not be read. A root that is still open as it was before is looked
/// up when it is first used.
fn around_roots(confinement: Arc<Confinement>, settings: &Settings) -> Result<Arc<Confinement>, ServeError> {
    Ok(if confinement.is_current() { confinement } else { Arc::new(Confinement::of(settings)?) })
}

/// Names of applications are looked up by threads that begin here. Those of the sites `before` go on as they are where
/// they have not changed.
fn open_sites(
    settings: &Settings,
    services: &Arc<Registry>,
    confinement: &Confinement,
    counters: &SharedMemory<Counters>,
    (clock, keys): (Clock, &Arc<Tickets>),
    before: Option<&Sites>,
) -> Result<Sites, ServeError> {
    let open = || Sites::with_services(settings, services).map_err(|(path, errno)| ServeError::Root(path, errno));
    // Pages of sites are read.
    let mut sites = confinement.workers.within(open)??;
    before.into_iter().for_each(|before| sites.keep_applications(before));
    let prepare = || sites.prepare_applications(counters, (clock, keys)).map_err(ServeError::Tls);
    confinement.agents.within(prepare)??;
    Ok(sites)
}

fn open_log(
    settings: &Settings,
    counters: &SharedMemory<LogCounters>,
    confinement: &Confinement,
) -> Result<Option<Arc<AccessLog>>, ServeError> {
    let open = || AccessLog::open(AccessLogs::of(settings), counters.clone());
    let log = confinement.workers.within(open)?;
    log.map(|log| log.map(Arc::new)).map_err(|(target, error)| ServeError::Log(target, error))
}

/// Begins to learn, in a thread that reaches the file of the learned state. Of several processes the first one saves
/// it: it is the last to go.
fn begin_hints(
    settings: &Settings,
    before: Option<&Hints>,
    first_score: usize,
    counters: &SharedMemory<HintCounters>,
    confinement: &Confinement,
) -> Option<Arc<Hints>> {
    let is_keeper = first_score == 0 || !settings.architecture.is_of_processes();
    let begun = confinement.agents.within(|| Hints::begin(settings, is_keeper, counters.clone(), before));
    begun.unwrap_or_else(|error| {
        errors::report(Level::Error, format_args!("nothing is learned for hints: {error}"));
        None
    })
}

/// Begins hints to clients, in a thread that is confined as those that serve: it reads pages.
fn early_hints(
    sites: &Arc<Sites>,
    store: &Arc<Store>,
    counters: &SharedMemory<early_hints::Counters>,
    confinement: &Confinement,
) -> Option<Arc<EarlyHints>> {
    let begun = confinement.workers.within(|| EarlyHints::begin(sites, store, counters));
    begun.unwrap_or_else(|error| {
        errors::report(Level::Error, format_args!("clients get no hints: {error}"));
        None
    })
}
