//! The control plane of a process: one loop that hears orders and administrators, and leads what serves from its start
//! to its end.
//!
//! Owns: the [`Phase`] that a server is in, and the order of what is done in each turn: workers that are missing,
//! administrators, the process that may take its place, orders, the ends of phases, workers that have something to say.
//! Guarantees: threads and worker processes are ordered alike; an order that this process was given in time is carried
//! out by it or by its successor, and never by both, but for [`Order::Stop`], which ends both; a server that is to end
//! starts no successor. Serves nothing, and does not know how what it orders is done ([`Body`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use lamna_config::settings::Settings;
use lamna_engine::worker::migration::transfer::{Receiver, Sender};
use lamna_io::listen::Listener;

use crate::admin::Admin;
use crate::admin::api::{self, AdminApi};
use crate::process::admin_service::AdminService;
use crate::process::administration::Administration;
use crate::process::applications::Applications;
use crate::process::body::{Body, Phase, begin_succession};
use crate::process::error::ServeError;
use crate::process::messages::{
    announce, report_cut, report_draining, report_not_succeeded, report_not_upgraded, report_succession,
};
use crate::process::orders::{ControlChannel, Order, Orders, Report};
use crate::process::renewal::Renewal;
use crate::process::sd_notify::Watchdog;
use crate::process::upgrade::{self, Purpose, Succession, Successor};

/// How often it is looked whether another process serves already that has been started to.
const SUCCESSION_POLL: Duration = Duration::from_millis(10);
/// How long the workers of the process before this one may take what has connected to an address that is named no more.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long administrators wait for workers that have not heard yet that another process serves. They hear it at once,
/// unless they are stopped.
const HEARING_TIME_MAX: Duration = Duration::from_secs(1);
/// How much longer a worker process drains than it should: its supervisor ends it in time, and says what was cut.
const SUPERVISED_PATIENCE: Duration = Duration::from_secs(1);

/// The control plane of a process.
pub(crate) struct ControlPlane {
    orders: Orders,
    /// None in a worker process: its supervisor is administered.
    administration: Option<Administration>,
    /// The applications that a server starts itself. None in a worker process.
    applications: Option<Applications>,
    succession: Succession,
    /// Once another process has taken the place of this one, and unless its supervisor is succeeded.
    successor: Option<Successor>,
    /// Until the place is taken.
    place: Option<Place>,
    phase: Phase,
    /// The configuration is to be read again as soon as it is known which process serves.
    reload_later: bool,
    renewal: Renewal,
    watchdog: Option<Watchdog>,
    /// Listeners that are named no more, and when they are closed.
    removed: Option<(Instant, Vec<Arc<Listener>>)>,
}

/// The place that a process takes as soon as it serves: that of another process, or one that was free.
#[derive(Debug)]
pub(crate) struct Place {
    /// Where the connections of the other process come from.
    pub(crate) receiver: Option<Arc<Receiver>>,
    /// Where the other process says that it has left the place.
    pub(crate) predecessor: Option<ControlChannel>,
    /// The first process of a container, if there is one that passes orders on.
    pub(crate) keeper: Option<Arc<ControlChannel>>,
    /// Listeners of the other process that are named no more.
    pub(crate) removed: Vec<Arc<Listener>>,
}

impl ControlPlane {
    /// That of a server that is to take this place.
    pub(crate) fn new(
        orders: Orders,
        administration: Administration,
        succession: Succession,
        applications: Applications,
        place: Place,
    ) -> ControlPlane {
        ControlPlane {
            administration: Some(administration),
            applications: Some(applications),
            place: Some(place),
            watchdog: Watchdog::of_environment(),
            ..ControlPlane::supervised(orders, succession)
        }
    }

    /// That of a worker process, which hears its supervisor.
    pub(crate) fn of_worker(orders: Orders, settings: &Settings) -> ControlPlane {
        ControlPlane::supervised(orders, Succession::impossible(settings))
    }

    fn supervised(orders: Orders, succession: Succession) -> ControlPlane {
        ControlPlane {
            orders,
            administration: None,
            applications: None,
            succession,
            successor: None,
            place: None,
            phase: Phase::Serving,
            reload_later: false,
            renewal: Renewal::default(),
            watchdog: None,
            removed: None,
        }
    }

    /// Leads `body` to its end.
    ///
    /// # Errors
    /// Why it could not go on, or what has gone wrong.
    pub(crate) fn run<B: Body>(mut self, mut body: B) -> Result<(), ServeError> {
        let mut result = Ok(());
        while !body.is_over(self.phase) {
            if let Err(error) = self.turn(&mut body) {
                if self.phase.is_serving() {
                    self.end(Order::Stop, &mut body);
                }
                result = result.and(Err(error));
            }
        }
        self.applications.iter_mut().for_each(Applications::end);
        result.and(body.finish())
    }

    /// Waits until something is to be done, and does it.
    fn turn(&mut self, body: &mut dyn Body) -> Result<(), ServeError> {
        if body.is_ready() {
            self.take_place(body);
        }
        if self.phase.is_serving() {
            body.fill(&mut || self.forget())?;
        }
        self.wait(body);
        if self.has_place() {
            self.applications.iter_mut().for_each(|applications| applications.follow(body.settings()));
        }
        let may_change = self.phase.is_serving() && self.place.is_none() && !self.succession.is_begun();
        body.look(may_change);
        if let Some(administration) = self.administration.as_ref().filter(|_| may_change) {
            self.renewal.look(body, &mut self.succession, &administration.start_config);
        }
        self.with_admin_service(body, |admin, service| admin.handle(service));
        self.look_at_succession(body);
        self.look_at_reload();
        while let Some(order) = self.orders.receive() {
            self.carry_out(order, body);
        }
        let has_begun_to_drain = self.phase.drains() && body.drain();
        // Not before it is true.
        if has_begun_to_drain && matches!(self.phase, Phase::Draining { .. }) && !self.orders.have_supervisor() {
            report_draining(body.settings().drain_timeout_ms);
        }
        if let Some((_, removed)) = self.removed.take_if(|(at, _)| *at <= Instant::now()) {
            removed.iter().for_each(|listener| listener.close());
        }
        self.look_at_time(body);
        body.look_after(self.phase)
    }

    fn wait(&mut self, body: &dyn Body) {
        self.watchdog.iter_mut().for_each(Watchdog::look);
        let now = Instant::now();
        let dues = [
            self.phase.until().map(|until| until.saturating_duration_since(now)),
            self.succession.is_begun().then_some(SUCCESSION_POLL),
            self.applications.as_ref().map(Applications::due),
            self.watchdog.as_ref().map(Watchdog::due),
            self.removed.as_ref().map(|(at, _)| at.saturating_duration_since(now)),
        ];
        let due = dues.into_iter().flatten().fold(body.due(self.phase), Duration::min);
        let applications = self.applications.iter().flat_map(Applications::descriptors);
        let admin = self.administration.iter().flat_map(|one| one.admin.descriptors());
        let descriptors = body.descriptors().into_iter().chain(applications).chain(admin);
        self.orders.wait(descriptors.chain(self.succession.descriptor()), Some(due));
    }

    /// Whether the place is this process's: until it is, applications and administrators are another one's.
    fn has_place(&self) -> bool {
        self.place.as_ref().is_none_or(|place| place.receiver.is_none())
    }

    /// Says that the server serves, once, and takes the place of the process before it.
    fn take_place(&mut self, body: &dyn Body) {
        let Some(Place { receiver, predecessor, keeper, removed }) = self.place.take() else { return };
        let listeners = body.listeners();
        announce(body.settings(), listeners, body.confined());
        if let Some(receiver) = &receiver {
            let admin = self.administration.iter().flat_map(|one| one.admin.listeners());
            let listeners = listeners.iter().chain(&removed).map(|listener| &**listener);
            upgrade::take_over(receiver, predecessor.as_ref(), listeners.chain(admin));
            // Those who have connected are the other process's: its workers look once more when they leave.
            removed.iter().for_each(|listener| listener.begin_to_close());
            self.removed = Some((Instant::now() + LAST_LOOK, removed));
        }
        // Not before the place is its own: until then orders are the other one's, and the applications of the other one
        // end with it.
        predecessor.into_iter().for_each(|predecessor| self.orders.follow(predecessor));
        keeper.into_iter().for_each(|keeper| self.orders.keep(keeper));
        self.applications.iter_mut().for_each(|applications| applications.follow(body.settings()));
    }

    /// In a new process that has been forked: lets go of what is its parent's, so that nothing of that stays open.
    fn forget(&mut self) {
        self.applications.iter_mut().for_each(Applications::forget);
        self.administration.iter_mut().for_each(|one| one.admin.retire());
        self.administration = None;
        self.succession.forget();
        self.orders.leave();
        (self.place, self.removed) = (None, None);
    }

    /// Lets `work` be done with the endpoint and the service that answers for this server.
    fn with_admin_service(&mut self, body: &mut dyn Body, work: impl FnOnce(&mut Admin, &mut AdminService<'_>)) {
        // Before that the endpoint is that of another process.
        let has_place = self.has_place();
        let Some(Administration { admin, start_config, .. }) = self.administration.as_mut().filter(|_| has_place)
        else {
            return;
        };
        let phase = match self.phase {
            Phase::Serving if self.place.is_some() => api::Phase::Starting,
            Phase::Serving => api::Phase::Serving,
            Phase::Draining { .. } | Phase::Leaving { .. } | Phase::Stopping { .. } => api::Phase::Draining,
        };
        let (orders, succession, applications) = (&mut self.orders, &mut self.succession, self.applications.as_ref());
        work(admin, &mut AdminService { start_config, phase, orders, succession, applications, body });
    }

    fn look_at_reload(&mut self) {
        if self.reload_later && !self.succession.is_begun() {
            self.reload_later = false;
            match &self.successor {
                Some(successor) => successor.order(Order::Reload),
                None => self.orders.give(Order::Reload),
            }
        }
    }

    fn carry_out(&mut self, order: Order, body: &mut dyn Body) {
        match order {
            Order::Reload if self.succession.is_begun() => self.reload_later = true,
            Order::Reload => self.with_admin_service(body, |_, service| {
                // What comes of it is in the error log.
                let _ = service.reload();
            }),
            Order::Upgrade => {
                // A worker process is not upgraded by itself.
                let Some(Administration { start_config, .. }) = &self.administration else { return };
                let (settings, succession) = (body.settings(), &mut self.succession);
                let begun = begin_succession(body, succession, start_config, settings, Purpose::Upgrade);
                begun.unwrap_or_else(|error| report_not_upgraded(&error));
            }
            Order::HandOver => {
                let handover_target = self.orders.take_handover_target();
                if let Some(handover_target) = handover_target.filter(|_| !self.phase.is_stopping()) {
                    self.begin_to_leave(true, body);
                    body.leave_to(&Arc::new(Sender::new(handover_target)), true);
                    self.orders.report(&Report::Leaving);
                }
            }
            Order::Drain => match self.phase {
                Phase::Serving | Phase::Leaving { .. } => self.end(order, body),
                Phase::Draining { .. } | Phase::Stopping { .. } => {}
            },
            Order::Stop => self.end(order, body),
            // It has been said late.
            Order::TakeOver => {}
            Order::Reopen | Order::PurgeAnswers | Order::TakeServices | Order::Retire | Order::Supersede => {
                body.carry_out(order, &mut self.orders);
            }
        }
    }
}

// Leaving the place to another process (docs/upgrade.md).
impl ControlPlane {
    /// If another process has taken the place of this one, leaves it to it: first the files of sockets and the
    /// endpoint, then orders, then connections. Administrators hear of it last: a request that they send then is
    /// answered by the other process. True if that has just happened.
    fn look_at_succession(&mut self, body: &mut dyn Body) -> bool {
        let successor = match self.succession.look() {
            None => return false,
            Some(Err(why)) => {
                report_not_succeeded(&why);
                return false;
            }
            Some(Ok(successor)) => successor,
        };
        report_succession(&successor, self.succession.keeper());
        // Before anybody else is answered.
        if self.administration.as_ref().is_some_and(|one| one.start_config.is_outdated()) {
            body.carry_out(Order::Supersede, &mut self.orders);
        }
        self.begin_to_leave(successor.takes_connections, body);
        self.administration.iter_mut().for_each(|one| one.admin.leave());
        body.listeners().iter().for_each(|listener| listener.leave_file());
        self.orders.leave();
        successor.confirm();
        body.leave_to(&successor.sender, successor.takes_connections);
        if successor.takes_connections {
            body.await_leaving(HEARING_TIME_MAX);
        }
        self.with_admin_service(body, |admin, service| admin.handle(service));
        self.administration.iter_mut().for_each(|one| one.admin.retire());
        self.successor = Some(successor);
        true
    }

    /// One that is to end already does so in the time that it has been given for that.
    fn begin_to_leave(&mut self, takes_connections: bool, body: &dyn Body) {
        if self.phase.is_serving() {
            let until = body.leaving_time_max(takes_connections).map(|time| Instant::now() + time);
            self.phase = Phase::Leaving { until, drains: !takes_connections };
        }
    }
}

// The end.
impl ControlPlane {
    /// Begins to end. If another process has just taken the place, it is that one's to end, and it is told so; else
    /// none will.
    fn end(&mut self, order: Order, body: &mut dyn Body) {
        if self.look_at_succession(body) {
            self.successor.iter().for_each(|successor| successor.order(order));
            if order == Order::Drain {
                return;
            }
        }
        self.succession.end();
        match order {
            Order::Drain => {
                let patience = if self.orders.have_supervisor() { SUPERVISED_PATIENCE } else { Duration::ZERO };
                let time = Duration::from_millis(u64::from(body.settings().drain_timeout_ms)) + patience;
                self.phase = Phase::Draining { until: Instant::now() + time };
            }
            _ => self.stop(body),
        }
    }

    fn stop(&mut self, body: &mut dyn Body) {
        body.stop();
        self.phase = Phase::Stopping { until: Instant::now() + body.stop_time_max() };
    }

    /// Goes over to the next phase if the time of this one is over.
    fn look_at_time(&mut self, body: &mut dyn Body) {
        if self.phase.until().is_none_or(|until| Instant::now() < until) {
            return;
        }
        match self.phase {
            Phase::Serving => {}
            Phase::Draining { .. } => {
                if !self.orders.have_supervisor() {
                    report_cut(body.open_connections(), body.settings().drain_timeout_ms);
                }
                self.stop(body);
            }
            Phase::Leaving { .. } => self.stop(body),
            Phase::Stopping { .. } => {
                body.kill();
                self.phase = Phase::Stopping { until: Instant::now() + body.stop_time_max() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::body::Changed;
    use crate::process::running_engine::SwitchError;
    use crate::process::shared_metrics::SharedMetrics;
    use lamna_config::service::ServiceDefinition;
    use lamna_io::scm_rights;
    use lamna_sys::clock::Clock;
    use lamna_sys::sandbox::Kind;
    use std::cell::RefCell;
    use std::os::fd::AsFd;
    use std::rc::Rc;
    use std::thread;

    /// A server that writes down what it is told, and is over once it has been told `last`.
    struct Told {
        words: Rc<RefCell<Vec<&'static str>>>,
        last: &'static str,
        fails: bool,
        settings: Settings,
        shared_metrics: SharedMetrics,
    }

    impl Told {
        fn has_been(&self, word: &str) -> bool {
            self.words.borrow().contains(&word)
        }
    }

    impl Body for Told {
        fn settings(&self) -> &Settings {
            &self.settings
        }
        fn shared_metrics(&self) -> &SharedMetrics {
            &self.shared_metrics
        }
        fn listeners(&self) -> &[Arc<Listener>] {
            &[]
        }
        fn connections(&self) -> Vec<u32> {
            Vec::new()
        }
        fn confined(&self) -> Option<Kind> {
            None
        }
        fn is_over(&mut self, _phase: Phase) -> bool {
            self.has_been(self.last)
        }
        fn due(&self, _phase: Phase) -> Duration {
            Duration::from_millis(10)
        }
        fn fill(&mut self, _forget: &mut dyn FnMut()) -> Result<(), ServeError> {
            if self.fails { Err(ServeError::Workers(1)) } else { Ok(()) }
        }
        fn take_settings(&mut self, _settings: &Settings) -> Result<Changed, SwitchError> {
            Ok(Changed::Done)
        }
        fn change_services(&mut self, _: Vec<ServiceDefinition>, _: Option<&str>) -> Result<(), SwitchError> {
            Ok(())
        }
        fn renew(&mut self) -> Result<Changed, SwitchError> {
            Ok(Changed::Needless)
        }
        fn carry_out(&mut self, _order: Order, _orders: &mut Orders) {
            self.words.borrow_mut().push("order");
        }
        fn prepare_succession(&self) -> Result<(), SwitchError> {
            Ok(())
        }
        fn leave_to(&mut self, _sender: &Arc<Sender>, _takes_connections: bool) {
            self.words.borrow_mut().push("leave");
        }
        fn leaving_time_max(&self, _takes_connections: bool) -> Option<Duration> {
            Some(Duration::ZERO)
        }
        fn drain(&mut self) -> bool {
            let begins = !self.has_been("drain");
            self.words.borrow_mut().extend(begins.then_some("drain"));
            begins
        }
        fn stop(&mut self) {
            self.words.borrow_mut().push("stop");
        }
        fn stop_time_max(&self) -> Duration {
            Duration::from_millis(50)
        }
        fn kill(&mut self) {
            self.words.borrow_mut().push("kill");
        }
        fn finish(self) -> Result<(), ServeError> {
            self.words.borrow_mut().push("finish");
            Ok(())
        }
    }

    /// The words told to a server that is over once it has been told `last`, and whether it ends well. It may drain for
    /// `drain_timeout_ms`.
    fn told(orders: Orders, last: &'static str, drain_timeout_ms: u32, fails: bool) -> (Vec<&'static str>, bool) {
        let settings = Settings { drain_timeout_ms, ..Settings::default() };
        let shared_metrics = SharedMetrics::new(Clock::start()).unwrap();
        let control_plane = ControlPlane::of_worker(orders, &settings);
        let words = Rc::default();
        let result = control_plane.run(Told { words: Rc::clone(&words), last, fails, settings, shared_metrics });
        (words.take(), result.is_ok())
    }

    /// The same of one that is given these orders. In a thread of its own, because signals are taken over.
    fn told_after(given: &'static [Order], last: &'static str, drain_timeout_ms: u32) -> Vec<&'static str> {
        let run = move || {
            let mut orders = Orders::by_signals().unwrap();
            given.iter().for_each(|order| orders.give(*order));
            told(orders, last, drain_timeout_ms, false).0
        };
        thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_server_that_drains_in_time_is_not_stopped() {
        assert_eq!(told_after(&[Order::Drain, Order::Drain], "drain", 60_000), ["drain", "finish"]);
    }

    #[test]
    fn a_server_that_does_not_drain_in_time_is_stopped_and_then_killed() {
        assert_eq!(told_after(&[Order::Drain], "kill", 0), ["drain", "stop", "kill", "finish"]);
    }

    #[test]
    fn a_server_that_is_to_stop_does_not_drain() {
        assert_eq!(told_after(&[Order::Drain, Order::Stop], "stop", 60_000), ["stop", "finish"]);
        assert_eq!(told_after(&[Order::Stop, Order::Drain], "kill", 60_000), ["stop", "kill", "finish"]);
    }

    #[test]
    fn orders_that_end_nothing_are_carried_out_in_each_phase() {
        let given = &[Order::Reopen, Order::Drain, Order::Reopen, Order::Stop, Order::Reopen];
        assert_eq!(told_after(given, "stop", 0), ["order", "order", "stop", "order", "finish"]);
    }

    #[test]
    fn a_server_that_cannot_go_on_is_stopped_and_says_why() {
        let run = || told(Orders::by_signals().unwrap(), "stop", 0, true);
        assert_eq!(thread::spawn(run).join().unwrap(), (vec!["stop", "finish"], false));
    }

    /// The words told to a worker process whose supervisor gives these orders.
    fn told_by_supervisor(given: &'static [Order], last: &'static str) -> Vec<&'static str> {
        let (supervisor, worker) = ControlChannel::pair().unwrap();
        let (handover_target, _other) = scm_rights::pair().unwrap();
        for order in given {
            match order {
                Order::HandOver => supervisor.order_handover(handover_target.as_fd()),
                order => supervisor.order(*order),
            }
        }
        let run = move || told(Orders::by_supervisor(worker).unwrap(), last, 60_000, false).0;
        thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_server_that_leaves_is_stopped_when_its_time_is_over() {
        assert_eq!(told_by_supervisor(&[Order::HandOver], "stop"), ["leave", "stop", "finish"]);
    }

    #[test]
    fn a_server_that_leaves_may_be_told_to_drain_and_then_has_the_time_for_that() {
        assert_eq!(told_by_supervisor(&[Order::HandOver, Order::Drain], "drain"), ["leave", "drain", "finish"]);
        assert_eq!(told_by_supervisor(&[Order::Drain, Order::HandOver], "drain"), ["leave", "drain", "finish"]);
    }

    #[test]
    fn a_server_that_stops_leaves_to_no_other() {
        assert_eq!(told_by_supervisor(&[Order::Stop, Order::HandOver], "stop"), ["stop", "finish"]);
    }
}
