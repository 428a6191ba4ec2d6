//! The parent of worker processes: forks them, replaces those that die, passes orders on, and outlives them.
//!
//! Owns: the listening sockets, so that connections that wait for a worker survive any worker; the number of processes;
//! the scoreboard's slots. Guarantees: has one thread, so that it may fork at any time; a worker that dies is replaced
//! at once, unless workers keep dying young; workers do not outlive it, because their lines end with it. Serves nothing
//! and reads nothing that a peer has sent.

mod body;
pub(crate) mod restart;
mod services;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::settings::{Architecture, Settings};
use lamna_engine::worker::confinement::Confinement;
use lamna_engine::worker::migration::transfer::{Receiver, Sender};
use lamna_io::listen::{self, Listener};
use lamna_io::log::errors::{self, Level};
use lamna_sys::fork::fork;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::process::body::Phase;
use crate::process::control_plane::ControlPlane;
use crate::process::error::ServeError;
use crate::process::orders::{ControlChannel, Order, Orders, Report};
use crate::process::server::Server;
use crate::process::share::{processes_max, share};
use crate::process::shared_metrics::SharedMetrics;
use crate::process::supervisor::restart::Restart;
use crate::process::supervisor::worker::Worker;

/// The worker processes of a server, seen from their parent.
pub(crate) struct Supervisor<'a> {
    settings: &'a Settings,
    /// Those of one worker.
    share: Settings,
    listeners: Vec<Arc<Listener>>,
    shared_metrics: &'a SharedMetrics,
    /// Where connections come from of the process whose place is taken.
    receiver: Option<Arc<Receiver>>,
    /// The confinement as in its workers. It is not confined itself.
    confinement: Confinement,
    /// Where workers hand over to, once another process has taken the place of this one and takes connections.
    target: Option<Arc<Sender>>,
    /// By slot.
    workers: Vec<Option<Worker>>,
    /// How many there should be, between these bounds.
    wanted: usize,
    wanted_min: usize,
    /// How many are added the next time that all are busy.
    growth: usize,
    restart: Restart,
    /// When surplus processes are looked for next.
    look_at: Instant,
    /// A worker has begun to serve.
    is_ready: bool,
    /// Why there are fewer workers than there should be, if that is still to be said.
    unsaid: Option<String>,
    is_draining: bool,
    /// While it drains: the deadline of connections that still wait to be accepted.
    last_call: Option<Instant>,
}

/// The most processes added at once.
const GROWTH_MAX: usize = 32;
/// How often surplus processes are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

impl<'a> Supervisor<'a> {
    /// One that has no workers yet. They go on with what arrives at `receiver`.
    ///
    /// # Errors
    /// The sandbox of the workers is not available.
    pub(crate) fn new(
        settings: &'a Settings,
        shared_metrics: &'a SharedMetrics,
        listeners: Vec<Arc<Listener>>,
        receiver: Option<Arc<Receiver>>,
    ) -> Result<Supervisor<'a>, ServeError> {
        listen::follow(&listeners, settings);
        let most = processes_max(settings);
        let wanted = if settings.architecture == Architecture::Mp { settings.processes } else { settings.workers };
        Ok(Supervisor {
            settings,
            share: share(settings),
            listeners,
            shared_metrics,
            receiver,
            confinement: Confinement::of(settings)?,
            target: None,
            workers: (0..most).map(|_| None).collect(),
            wanted,
            wanted_min: wanted,
            growth: 1,
            restart: Restart::default(),
            look_at: Instant::now() + LOOK_INTERVAL,
            is_ready: false,
            unsaid: None,
            is_draining: false,
            last_call: None,
        })
    }

    fn look_after_worker(&mut self, slot: usize, phase: Phase) -> Result<(), ServeError> {
        let Some(worker) = &self.workers[slot] else { return Ok(()) };
        let ended = match waitpid(Some(worker.process), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some((_, status))) => Some(Some(status)),
            // Somebody else has waited for it: it is gone all the same.
            Err(_) => Some(None),
        };
        // After that, so that nothing comes any more from one that has ended.
        let reports = worker.reports();
        let worker = ended.and_then(|status| Some((self.workers[slot].take()?, status)));
        for report in &reports {
            self.handle(report, slot, phase)?;
        }
        if let Some((worker, status)) = worker {
            self.shared_metrics.scoreboard.score(slot).clear();
            self.shared_metrics.counted.clear(slot);
            let explained = reports.iter().any(|report| *report != Report::Ready);
            if !worker.leaving && !explained && phase.is_serving() {
                self.handle_death(&worker, status)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, report: &Report, slot: usize, phase: Phase) -> Result<(), ServeError> {
        match report {
            Report::Ready if !self.is_ready => {
                self.is_ready = true;
                // What workers have made when they began, as the state directory, has not been there before.
                if let Ok(confinement) = Confinement::of(self.settings) {
                    self.confinement = confinement;
                }
            }
            Report::Ready => self.shared_metrics.scoreboard.set_short(false),
            // A worker is succeeded with its supervisor only.
            Report::Succeeded(_) => {}
            Report::Leaving => self.workers[slot].iter_mut().for_each(|worker| worker.has_left = true),
            Report::Failed { .. } if !phase.is_serving() => {}
            Report::Failed { cause, .. } if self.is_ready || self.staff_without(slot) > 0 => {
                // What others have, this one could not get: it is not replaced before more are needed.
                self.workers[slot].iter_mut().for_each(|worker| worker.leaving = true);
                self.make_do(cause);
            }
            Report::Failed { cause, permission } => {
                return Err(ServeError::Worker { cause: cause.clone(), permission: *permission });
            }
        }
        Ok(())
    }

    /// A worker has ended that should not, and has not said why. Without a status, another thread has waited for it.
    fn handle_death(&mut self, worker: &Worker, status: Option<WaitStatus>) -> Result<(), ServeError> {
        let pause = self.restart.handle_death(worker.started, Instant::now());
        if !self.is_ready && !pause.is_zero() {
            let cause = "worker processes die as soon as they begin".to_owned();
            return Err(ServeError::Worker { cause, permission: false });
        }
        let cause = match status.map(|status| (status.terminating_signal(), status.exit_status())) {
            Some((Some(signal), _)) => format!("was killed by signal {signal}"),
            Some((None, Some(status))) if status != 0 => format!("ended with status {status}"),
            _ => "has ended".to_owned(),
        };
        let remedy = if pause.is_zero() { "replacing it".to_owned() } else { format!("replacing it in {pause:?}") };
        let process = worker.process.as_raw_pid();
        errors::report(Level::Error, format_args!("worker process {process} {cause}; {remedy}"));
        Ok(())
    }

    fn is_alone(&self) -> bool {
        self.workers.iter().all(Option::is_none)
    }

    /// Workers that have not been told to go, beside that of `slot`.
    fn staff_without(&self, slot: usize) -> usize {
        self.staff() - usize::from(self.workers[slot].as_ref().is_some_and(|worker| !worker.leaving))
    }

    /// Workers that have not been told to go.
    fn staff(&self) -> usize {
        self.workers.iter().flatten().filter(|worker| !worker.leaving).count()
    }
}

// Coming and going.
impl Supervisor<'_> {
    /// Starts workers until there are as many as there should be.
    fn hire_missing(&mut self, forget: &mut dyn FnMut()) -> Result<(), ServeError> {
        while self.staff() < self.wanted && self.restart.not_before().is_none_or(|at| at <= Instant::now()) {
            // All slots may be taken by workers that are leaving.
            let Some(slot) = self.workers.iter().position(Option::is_none) else { break };
            match self.hire(slot, forget) {
                Ok(worker) => self.workers[slot] = Some(worker),
                Err(errno) if self.is_ready || self.staff() > 0 => self.make_do(&ServeError::from(errno).to_string()),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.say_why_short();
        Ok(())
    }

    /// There cannot be as many workers as there should be: goes on with those that there are. One more is tried each
    /// second as long as there are fewer than there should be at least, and when all are busy.
    fn make_do(&mut self, cause: &str) {
        if !self.shared_metrics.scoreboard.is_short() {
            self.unsaid = Some(cause.to_owned());
        }
        self.shared_metrics.scoreboard.set_short(true);
        if self.settings.architecture == Architecture::Mp {
            self.wanted = self.staff().max(1);
        }
        self.restart.pause(Instant::now());
    }

    /// Says why there are no more workers, once it is certain that there are any.
    fn say_why_short(&mut self) {
        if self.is_ready
            && let Some(cause) = self.unsaid.take()
        {
            let staff = self.staff();
            let why = format!("going on with {staff} processes, because no more can be started: {cause}");
            errors::report(Level::Warning, format_args!("{why}"));
        }
    }

    /// Forks a worker. The new process begins by calling `forget`.
    fn hire(&mut self, slot: usize, forget: &mut dyn FnMut()) -> Result<Worker, Errno> {
        let (ours, of_worker) = ControlChannel::pair()?;
        // Each process drops the end that is the other's: a line of which both hold both ends would never end.
        let mut ends = (Some(ours), Some(of_worker));
        self.shared_metrics.scoreboard.take(slot);
        let forked = fork(|| {
            ends.0 = None;
            forget();
            ends.1.take().map_or(1, |line| self.become_worker(slot, line))
        });
        if forked.is_err() {
            self.shared_metrics.scoreboard.score(slot).clear();
        }
        let (process, line) = (forked?, ends.0.take().ok_or(Errno::PIPE)?);
        Ok(Worker { process, line, started: Instant::now(), leaving: false, has_left: false })
    }

    /// In the new process: its life. Takes its copies of what is the supervisor's, so that nothing of that stays open.
    fn become_worker(&mut self, slot: usize, line: ControlChannel) -> i32 {
        self.workers.clear();
        let listeners = std::mem::take(&mut self.listeners);
        listeners.iter().for_each(|listener| listener.leave_file());
        let server = match Server::start(&self.share, listeners, self.shared_metrics, slot, self.receiver.take()) {
            Ok(server) => server,
            Err(error) => {
                line.report(&Report::Failed { cause: error.to_string(), permission: error.is_permission() });
                return 1;
            }
        };
        line.report(&Report::Ready);
        match Orders::by_supervisor(line) {
            // A failure has been reported where it happened; the status tells the supervisor.
            Ok(orders) => i32::from(ControlPlane::of_worker(orders, &self.share).run(server).is_err()),
            // Without a line it would outlive the supervisor: better end and be replaced.
            Err(errno) => {
                errors::report(Level::Error, format_args!("a worker cannot go on: {errno}"));
                1
            }
        }
    }

    /// Refuses clients that connect to a server that drains, as soon as none waits any more.
    fn finish_closing(&mut self) {
        let Some(until) = self.last_call else { return };
        if until <= Instant::now() || self.is_alone() || !self.listeners.iter().any(|listener| listener.has_waiting()) {
            self.listeners.iter().for_each(|listener| listener.close());
            self.last_call = None;
        }
    }

    fn order_all(&self, order: Order) {
        self.workers.iter().flatten().for_each(|worker| worker.line.order(order));
    }

    fn signal_all(&self, signal: Signal) {
        for worker in self.workers.iter().flatten() {
            // It has not been waited for, so the number is still its own.
            let _ = kill_process(worker.process, signal);
        }
    }
}

// The number of processes of `mp`.
impl Supervisor<'_> {
    /// More when all are busy, fewer when many are idle.
    fn adapt(&mut self) {
        self.shared_metrics.alarm.reset();
        let crowded = self.shared_metrics.scoreboard.is_crowded();
        if crowded && self.staff() == self.wanted && self.wanted < self.workers.len() {
            self.wanted = (self.wanted + self.growth).min(self.workers.len());
            self.growth = (self.growth * 2).min(GROWTH_MAX);
        }
        if self.look_at <= Instant::now() {
            self.look_at = Instant::now() + LOOK_INTERVAL;
            if self.wanted < self.wanted_min {
                // There was no room for it a moment ago.
                self.wanted = self.staff() + 1;
            }
            if !crowded {
                self.growth = 1;
                self.dismiss_surplus();
            }
        }
    }

    /// Lets half of the idle ones go, as long as more remain than it began with: slower than it grew, because a process
    /// that was needed once is likely to be needed again.
    fn dismiss_surplus(&mut self) {
        let scoreboard = &self.shared_metrics.scoreboard;
        let is_idle =
            |(slot, worker): &(usize, &mut Worker)| !worker.leaving && scoreboard.score(*slot).connections() == 0;
        let present = self.workers.iter_mut().enumerate().filter_map(|(slot, worker)| Some((slot, worker.as_mut()?)));
        let mut idle: Vec<(usize, &mut Worker)> = present.filter(is_idle).collect();
        let surplus = (idle.len() / 2).min(self.wanted.saturating_sub(self.wanted_min));
        for (slot, worker) in idle.iter_mut().rev().take(surplus) {
            worker.leaving = true;
            // It may have taken a connection since its slot was looked at.
            worker.line.order(Order::Retire);
            scoreboard.score(*slot).clear();
        }
        self.wanted -= surplus;
    }
}
