//! The parent of worker processes: forks them, replaces those that die, passes orders on, and outlives them.
//!
//! Owns: the listening sockets, so that connections that wait for a worker survive any worker; the number of processes;
//! the scoreboard's slots. Guarantees: has one thread, so that it may fork at any time; a worker that dies is replaced at
//! once, unless workers keep dying young; workers do not outlive it, because their lines end with it. Serves nothing
//! and reads nothing that a peer has sent.

pub(crate) mod restart;
mod services;
mod worker;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::settings::{Architecture, Settings};
use lamna_engine::worker::confinement::Confinement;
use lamna_engine::worker::migration::transfer::Receiver;
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level};
use lamna_sys::fork::fork;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, kill_process, waitpid};

use crate::admin::Admin;
use crate::admin::api::{AdminApi, Phase};
use crate::process::admin_service::{AdminService, Body};
use crate::process::administration::Administration;
use crate::process::applications::Applications;
use crate::process::error::ServeError;
use crate::process::messages::{
    announce, report_cut, report_draining, report_lost, report_not_succeeded, report_not_upgraded, report_succession,
};
use crate::process::orders::{ControlChannel, Order, Orders, Report};
use crate::process::running_engine::SwitchError;
use crate::process::sd_notify::Watchdog;
use crate::process::server::{Server, renewal};
use crate::process::share::{processes_max, share};
use crate::process::shared_metrics::SharedMetrics;
use crate::process::supervisor::restart::Restart;
use crate::process::supervisor::worker::Worker;
use crate::process::upgrade;
use crate::process::upgrade::{Purpose, Succession, Successor};

/// Where and how worker processes serve.
pub(crate) struct Premises<'a> {
    /// How.
    pub(crate) settings: &'a Settings,
    /// What they have in common.
    pub(crate) shared_metrics: &'a SharedMetrics,
    /// Where new connections come from.
    pub(crate) listeners: Vec<Listener>,
    /// Where those of the process come from whose place is taken.
    pub(crate) receiver: Option<Arc<Receiver>>,
    /// Where that process says that the place is this one's.
    pub(crate) predecessor: Option<ControlChannel>,
    /// The first process of a container, if there is one that passes orders on.
    pub(crate) keeper: Option<Arc<ControlChannel>>,
}

/// Serves with worker processes until an order ends it.
///
/// # Errors
/// What keeps the first workers from starting.
pub(crate) fn serve(
    premises: Premises<'_>,
    orders: Orders,
    administration: Administration,
    upgrade_in_progress: Succession,
    applications: Applications,
) -> Result<(), ServeError> {
    let confinement = Confinement::of(premises.settings)?;
    let mut supervisor = Supervisor::new(premises, orders, administration, upgrade_in_progress, confinement);
    supervisor.applications = applications;
    let result = supervisor.supervise();
    if result.is_err() {
        supervisor.end(Order::Stop);
    }
    while !supervisor.is_alone() {
        supervisor.wait();
        supervisor.look_after_workers()?;
    }
    supervisor.applications.end();
    supervisor.settle();
    result
}

struct Supervisor<'a> {
    settings: &'a Settings,
    /// Those of one worker.
    share: Settings,
    listeners: Vec<Listener>,
    shared_metrics: &'a SharedMetrics,
    orders: Orders,
    /// None in the copy that a worker process has.
    administration: Option<Administration>,
    receiver: Option<Arc<Receiver>>,
    predecessor: Option<ControlChannel>,
    keeper: Option<Arc<ControlChannel>>,
    upgrade_in_progress: Succession,
    /// What it starts beside the workers.
    applications: Applications,
    /// What is as in its workers, which are confined. It is not.
    confinement: Confinement,
    /// Once another process has taken the place of this one.
    successor: Option<Successor>,
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
    announced: bool,
    watchdog: Option<Watchdog>,
    /// Why there are fewer workers than there should be, if that is still to be said.
    unsaid: Option<String>,
    /// The configuration is to be read again as soon as it is known who serves.
    reload_later: bool,
    /// Once ending: when patience does.
    end: Option<Instant>,
    /// What patience is followed by.
    then: Then,
    /// While it drains: when who still waits to be accepted has waited long enough.
    last_call: Option<Instant>,
}

/// What is done with workers that have not ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// They are told to stop, and it is said what was cut.
    Cut,
    /// They are killed.
    Kill,
}

/// The most processes added at once.
const GROWTH_MAX: usize = 32;
/// How often surplus processes are looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long workers may take to hand their connections over, or to finish them: a process that serves one connection at a
/// time takes the next one when it is free.
const HANDOVER_TIME_MAX: Duration = Duration::from_secs(3600);
/// How long a worker takes connections that have been waiting when the server begins to drain, and somewhat more.
const LAST_CALL_MAX: Duration = Duration::from_millis(1100);
/// How often it is looked whether somebody still waits to be accepted.
const LAST_CALL_POLL: Duration = Duration::from_millis(10);
/// How long a worker may take to stop before it is killed: longer than it waits for its own threads.
const STOP_TIME_MAX: Duration = Duration::from_secs(3);

impl<'a> Supervisor<'a> {
    fn new(
        premises: Premises<'a>,
        orders: Orders,
        administration: Administration,
        upgrade_in_progress: Succession,
        confinement: Confinement,
    ) -> Supervisor<'a> {
        let Premises { settings, shared_metrics, listeners, receiver, predecessor, keeper } = premises;
        let most = processes_max(settings);
        let wanted = if settings.architecture == Architecture::Mp { settings.processes } else { settings.workers };
        Supervisor {
            settings,
            share: share(settings),
            listeners,
            shared_metrics,
            orders,
            administration: Some(administration),
            receiver,
            predecessor,
            keeper,
            upgrade_in_progress,
            applications: Applications::new(),
            confinement,
            successor: None,
            workers: (0..most).map(|_| None).collect(),
            wanted,
            wanted_min: wanted,
            growth: 1,
            restart: Restart::default(),
            look_at: Instant::now() + LOOK_INTERVAL,
            announced: false,
            watchdog: Watchdog::of_environment(),
            unsaid: None,
            reload_later: false,
            end: None,
            then: Then::Kill,
            last_call: None,
        }
    }

    /// Keeps the workers going until an order ends them.
    fn supervise(&mut self) -> Result<(), ServeError> {
        while self.end.is_none() {
            self.fill()?;
            self.wait();
            self.look_after_workers()?;
            self.adapt();
        }
        Ok(())
    }

    fn wait(&mut self) {
        self.watchdog.iter_mut().for_each(Watchdog::look);
        let lines = self.workers.iter().flatten().map(|worker| worker.line.as_fd());
        let alarm = self.shared_metrics.alarm.descriptor().as_fd();
        let now = Instant::now();
        let due = match self.end {
            Some(end) => end,
            None => self.restart.not_before().filter(|at| *at > now).map_or(self.look_at, |at| at.min(self.look_at)),
        };
        let admin = self.administration.iter().flat_map(|one| one.admin.descriptors());
        let begun = self.upgrade_in_progress.descriptor();
        let due = if self.upgrade_in_progress.is_begun() { due.min(now + LOOK_INTERVAL) } else { due };
        let due = if self.last_call.is_some() { due.min(now + LAST_CALL_POLL) } else { due };
        let due = due.saturating_duration_since(now).min(self.applications.due());
        let due = self.watchdog.as_ref().map_or(due, |watchdog| watchdog.due().min(due));
        let lines = lines.chain([alarm]).chain(self.applications.descriptors());
        self.orders.wait(lines.chain(admin).chain(begun), Some(due));
    }

    /// Lets `work` be done with the endpoint and who answers for this server.
    fn with_admin_service(&mut self, work: impl FnOnce(&mut Admin, &mut AdminService<'_>)) {
        let Some(Administration { admin, standing, .. }) = &mut self.administration else { return };
        if self.receiver.is_some() && !self.announced {
            // The endpoint is still that of the process whose place is to be taken.
            return;
        }
        let phase = match (self.announced, self.end) {
            (_, Some(_)) => Phase::Draining,
            (true, None) => Phase::Serving,
            (false, None) => Phase::Starting,
        };
        let mut service = AdminService {
            standing,
            phase,
            orders: &mut self.orders,
            body: Body::Processes {
                settings: self.settings,
                shared_metrics: self.shared_metrics,
                listeners: &self.listeners,
                ids: self.workers.iter().flatten().map(|worker| worker.process.as_raw_pid() as u32).collect(),
                upgrade_in_progress: &mut self.upgrade_in_progress,
                applications: &self.applications,
                confined: self.confinement.kind(),
            },
        };
        work(admin, &mut service);
    }

    /// Requests of administrators, orders, reports and deaths.
    fn look_after_workers(&mut self) -> Result<(), ServeError> {
        // Not before the place is its own.
        if self.receiver.is_none() || self.announced {
            self.applications.follow(self.settings);
        }
        self.with_admin_service(|admin, service| admin.handle(service));
        self.look_at_succession();
        if self.reload_later && !self.upgrade_in_progress.is_begun() {
            self.reload_later = false;
            match &self.successor {
                Some(successor) => successor.order(Order::Reload),
                None => self.orders.give(Order::Reload),
            }
        }
        while let Some(order) = self.orders.receive() {
            match order {
                Order::TakeServices => self.pass_on_services(),
                Order::Reopen | Order::PurgeAnswers => self.order_all(order),
                Order::Reload if self.upgrade_in_progress.is_begun() => self.reload_later = true,
                Order::Reload => self.with_admin_service(|_, service| {
                    // What comes of it is in the error log.
                    let _ = service.reload();
                }),
                Order::Upgrade => {
                    if let Err(error) = self.begin_succession() {
                        report_not_upgraded(&error);
                    }
                }
                Order::Drain if self.end.is_none() => self.end(order),
                // It is nobody's to give.
                Order::Drain | Order::HandOver | Order::Retire | Order::TakeOver | Order::Supersede => {}
                Order::Stop => self.end(order),
            }
        }
        self.finish_closing();
        if self.end.is_some_and(|end| end <= Instant::now()) {
            match self.then {
                Then::Cut => self.cut(),
                Then::Kill => self.kill_all(),
            }
        }
        (0..self.workers.len()).try_for_each(|slot| self.look_after(slot))
    }

    fn look_after(&mut self, slot: usize) -> Result<(), ServeError> {
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
            self.handle(report, slot)?;
        }
        if let Some((worker, status)) = worker {
            self.shared_metrics.scoreboard.score(slot).clear();
            self.shared_metrics.counted.clear(slot);
            let explained = reports.iter().any(|report| *report != Report::Ready);
            if !worker.leaving && !explained && self.end.is_none() {
                self.handle_death(&worker, status)?;
            }
        }
        Ok(())
    }

    fn handle(&mut self, report: &Report, slot: usize) -> Result<(), ServeError> {
        match report {
            Report::Ready if !self.announced => {
                self.announced = true;
                // What workers have made when they began, as the state directory, has not been there before.
                if let Ok(confinement) = Confinement::of(self.settings) {
                    self.confinement = confinement;
                }
                announce(self.settings, &self.listeners, self.confinement.kind());
                if let Some(receiver) = &self.receiver {
                    let admin = self.administration.iter().flat_map(|one| one.admin.listeners());
                    upgrade::take_over(receiver, self.predecessor.as_ref(), self.listeners.iter().chain(admin));
                }
                // Not before the place is its own: until then orders are the other one's.
                self.predecessor.take().into_iter().for_each(|predecessor| self.orders.follow(predecessor));
                self.keeper.take().into_iter().for_each(|keeper| self.orders.keep(keeper));
                // The applications of the other one end with it.
                self.applications.follow(self.settings);
                self.say_why_short();
            }
            Report::Ready => self.shared_metrics.scoreboard.set_short(false),
            // A worker is succeeded with its supervisor only.
            Report::Succeeded(_) => {}
            Report::Failed { .. } if self.end.is_some() => {}
            Report::Failed { cause, .. } if self.announced || self.staff_without(slot) > 0 => {
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

    /// A worker has ended that should not, and has not said why. Without a status, somebody else has waited for it.
    fn handle_death(&mut self, worker: &Worker, status: Option<WaitStatus>) -> Result<(), ServeError> {
        let pause = self.restart.handle_death(worker.started, Instant::now());
        if !self.announced && !pause.is_zero() {
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
    fn fill(&mut self) -> Result<(), ServeError> {
        while self.staff() < self.wanted && self.restart.not_before().is_none_or(|at| at <= Instant::now()) {
            // All slots may be taken by workers that are leaving.
            let Some(slot) = self.workers.iter().position(Option::is_none) else { break };
            match self.hire(slot) {
                Ok(worker) => self.workers[slot] = Some(worker),
                Err(errno) if self.announced || self.staff() > 0 => self.make_do(&ServeError::from(errno).to_string()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// There cannot be as many workers as there should be: goes on with those that there are. One more is tried each second as long
    /// as there are fewer than there should be at least, and when all are busy.
    fn make_do(&mut self, cause: &str) {
        if !self.shared_metrics.scoreboard.is_short() {
            self.unsaid = Some(cause.to_owned());
            self.say_why_short();
        }
        self.shared_metrics.scoreboard.set_short(true);
        if self.settings.architecture == Architecture::Mp {
            self.wanted = self.staff().max(1);
        }
        self.restart.pause(Instant::now());
    }

    /// Says why there are no more workers, once it is certain that there are any.
    fn say_why_short(&mut self) {
        if self.announced
            && let Some(cause) = self.unsaid.take()
        {
            let staff = self.staff();
            let why = format!("going on with {staff} processes, because no more can be started: {cause}");
            errors::report(Level::Warning, format_args!("{why}"));
        }
    }

    /// Forks a worker.
    fn hire(&mut self, slot: usize) -> Result<Worker, Errno> {
        let (ours, of_worker) = ControlChannel::pair()?;
        // Each process drops the end that is the other's: a line of which both hold both ends would never end.
        let mut ends = (Some(ours), Some(of_worker));
        self.shared_metrics.scoreboard.take(slot);
        let forked = fork(|| {
            ends.0 = None;
            ends.1.take().map_or(1, |line| self.become_worker(slot, line))
        });
        if forked.is_err() {
            self.shared_metrics.scoreboard.score(slot).clear();
        }
        let (process, line) = (forked?, ends.0.take().ok_or(Errno::PIPE)?);
        Ok(Worker { process, line, started: Instant::now(), leaving: false })
    }

    /// In the new process: its life. Takes its copies of what is the supervisor's, so that nothing of that stays open.
    fn become_worker(&mut self, slot: usize, line: ControlChannel) -> i32 {
        self.workers.clear();
        self.applications.forget();
        self.administration.iter_mut().for_each(|one| one.admin.retire());
        self.administration = None;
        self.upgrade_in_progress.forget();
        self.orders.leave();
        (self.predecessor, self.keeper) = (None, None);
        let listeners = std::mem::take(&mut self.listeners);
        listeners.iter().for_each(Listener::leave_file);
        let server = match Server::start(&self.share, listeners, self.shared_metrics, slot, self.receiver.take()) {
            Ok(server) => server,
            Err(error) => {
                line.report(&Report::Failed { cause: error.to_string(), permission: error.is_permission() });
                return 1;
            }
        };
        line.report(&Report::Ready);
        match Orders::by_supervisor(line) {
            // A failure has been reported by whoever had it; the status tells the supervisor.
            Ok(orders) => i32::from(server.run(orders, None).is_err()),
            // Without a line it would outlive the supervisor: better end and be replaced.
            Err(errno) => {
                errors::report(Level::Error, format_args!("a worker cannot go on: {errno}"));
                1
            }
        }
    }

    /// Begins to end: gives the order, and patience to those who follow it. If another process has just taken over, it is
    /// that one's to end, and it is told so.
    fn end(&mut self, order: Order) {
        if self.look_at_succession() {
            return self.successor.iter().for_each(|successor| successor.order(order));
        }
        self.upgrade_in_progress.end();
        if order == Order::Drain {
            report_draining(self.settings.drain_timeout_ms);
            self.listeners.iter().for_each(Listener::begin_to_close);
            let now = Instant::now();
            self.last_call = Some(now + LAST_CALL_MAX);
            self.end = Some(now + Duration::from_millis(u64::from(self.settings.drain_timeout_ms)));
            self.then = Then::Cut;
        } else {
            self.end = Some(Instant::now() + STOP_TIME_MAX);
            self.then = Then::Kill;
        }
        self.order_all(order);
        // One that somebody has stopped could not follow.
        self.signal_all(Signal::CONT);
    }

    /// Refuses who connects to a server that drains, as soon as nobody waits any more.
    fn finish_closing(&mut self) {
        let Some(until) = self.last_call else { return };
        if until <= Instant::now() || self.is_alone() || !self.listeners.iter().any(Listener::has_waiting) {
            self.listeners.iter().for_each(Listener::close);
            self.last_call = None;
        }
    }

    /// Draining has taken too long.
    fn cut(&mut self) {
        let open: u32 = self.shared_metrics.scoreboard.connections().sum();
        report_cut(open as usize, self.settings.drain_timeout_ms);
        self.order_all(Order::Stop);
        self.end = Some(Instant::now() + STOP_TIME_MAX);
        self.then = Then::Kill;
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

    fn kill_all(&mut self) {
        self.signal_all(Signal::KILL);
        self.end = Some(Instant::now() + STOP_TIME_MAX);
    }
}

// Leaving the place to another process.
impl Supervisor<'_> {
    fn begin_succession(&mut self) -> Result<(), SwitchError> {
        if !self.announced {
            return Err(SwitchError::NotNow("the server has not begun to serve yet".to_owned()));
        }
        let settings = &self.settings_in_force();
        self.upgrade_in_progress.begin(settings, &self.listeners, self.shared_metrics.clock, Purpose::Upgrade)
    }

    /// If another process has taken the place of this one, leaves it to it: first the files of sockets and the endpoint, then
    /// orders, then connections. True if that has just happened.
    fn look_at_succession(&mut self) -> bool {
        let successor = match self.upgrade_in_progress.look() {
            None => return false,
            Some(Err(why)) => {
                report_not_succeeded(&why);
                return false;
            }
            Some(Ok(successor)) => successor,
        };
        report_succession(&successor, self.upgrade_in_progress.keeper());
        // Before anybody else is answered.
        if self.administration.as_ref().is_some_and(|one| one.standing.is_outdated()) {
            self.order_all(Order::Supersede);
        }
        self.end = Some(Instant::now() + HANDOVER_TIME_MAX);
        self.then = Then::Kill;
        // Whoever waits to hear of it.
        self.with_admin_service(|admin, service| admin.handle(service));
        self.administration.iter_mut().for_each(|one| one.admin.retire());
        self.listeners.iter().for_each(Listener::leave_file);
        self.orders.leave();
        successor.confirm();
        if successor.takes_connections {
            let handover_target = successor.sender.as_fd();
            self.workers.iter().flatten().for_each(|worker| worker.line.order_handover(handover_target));
        } else {
            self.order_all(Order::Drain);
        }
        self.successor = Some(successor);
        true
    }

    /// Sees to it that nothing is left over that arrived for workers of this process and was not taken by any.
    fn settle(&mut self) {
        let Some(Successor { sender, takes_connections: true, .. }) = &self.successor else { return };
        if let Some(receiver) = &self.receiver {
            sender.mailboxes(receiver);
            report_lost(sender);
        }
    }
}

// What workers can reach.
impl Supervisor<'_> {
    /// Has other processes serve if these cannot reach what is to be served ([`renewal`]).
    fn look_at_confinement(&mut self) {
        let is_open = self.announced && self.end.is_none() && !self.upgrade_in_progress.is_begun();
        if !is_open || self.confinement.is_current() {
            return;
        }
        let purpose = Purpose::Change(renewal::WHAT.to_owned());
        let (settings, clock) = (&self.settings_in_force(), self.shared_metrics.clock);
        if let Err(error) = self.upgrade_in_progress.begin(settings, &self.listeners, clock, purpose) {
            let why = format!("{}, and is not served yet, because {error}", renewal::WHAT);
            errors::report(Level::Error, format_args!("{why}"));
        }
        // Once for each that is replaced.
        if let Ok(confinement) = Confinement::of(self.settings) {
            self.confinement = confinement;
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
            self.look_at_confinement();
        }
    }

    /// Lets half of the idle ones go, as long as more remain than it began with: slower than it grew, because who was
    /// needed once is likely to be needed again.
    fn dismiss_surplus(&mut self) {
        let scoreboard = &self.shared_metrics.scoreboard;
        let is_idle =
            |(slot, worker): &(usize, &mut Worker)| !worker.leaving && scoreboard.score(*slot).connections() == 0;
        let seated = self.workers.iter_mut().enumerate().filter_map(|(slot, worker)| Some((slot, worker.as_mut()?)));
        let mut idle: Vec<(usize, &mut Worker)> = seated.filter(is_idle).collect();
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
