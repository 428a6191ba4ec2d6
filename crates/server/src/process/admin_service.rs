//! The api of the servers that there are: threads of one process, or worker processes with a supervisor.
//!
//! Owns: putting status and figures together from what workers share, and saying what cannot be changed while serving.
//! Guarantees: an order that is refused has changed nothing. Carries nothing out itself but the size of thread pools:
//! draining and opening the log again are orders like those of signals.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_config::setting::{SETTINGS, refused_by_reload};
use lamna_config::settings::{Architecture, Settings, SiteSettings};
use lamna_engine::worker::confinement;
use lamna_engine::worker::explain::{Explainer, Parts};
use lamna_engine::worker::shared::Shared;
use lamna_io::listen::Listener;
use lamna_io::log::errors::{self, Level};
use lamna_policy::schedule::Schedule;
use lamna_site::content::explain::{self, Asked, Explanation};
use lamna_site::content::maintenance::{MaintenanceOrder, MaintenanceStatus};
use lamna_site::content::purge::Purge;
use lamna_site::hints::HintReport;
use lamna_site::upstream::{self, status::PlaceStatus};
use lamna_sys::credentials;
use lamna_sys::metrics::counters::{Counters, TlsCounters};
use lamna_tls::FileCertificate;
use lamna_tls::acme;
use lamna_tls::negotiated::{self, GROUPS, Kind, SUITES};

use crate::admin::api::{
    AdminApi, Arch, Change, Handshakes, Phase, Progress, ProtocolStats, Refusal, Stats, Status, TlsStats, changeable,
};
use crate::admin::figures::{Figures, Moment, Sources};
use crate::admin::services::{ServiceOrder, ServiceStatus, Verb};
use crate::admin::trace::{self, TraceOrder, TraceReport};
use crate::admin::upstreams::UpstreamOrder;
use crate::admin::{process_stats, thread_stats};
use crate::process::administration::StartConfig;
use crate::process::applications::Applications;
use crate::process::autotune::Adapter;
use crate::process::body::{Body, Changed, begin_succession};
use crate::process::error::ServeError;
use crate::process::hint_report;
use crate::process::messages::{described, report_not_upgraded, report_reload, report_reloading, report_set, url};
use crate::process::operator_orders;
use crate::process::orders::{Order, Orders};
use crate::process::running_engine::SwitchError;
use crate::process::service_orders::{self, LISTENER};
use crate::process::shared_metrics::SharedMetrics;
use crate::process::upgrade::{Purpose, Succession};

/// Answers for a running server.
pub(crate) struct AdminService<'a> {
    /// The configuration that the server was started with.
    pub(crate) start_config: &'a mut StartConfig,
    /// Where in its life it is.
    pub(crate) phase: Phase,
    /// Where orders go.
    pub(crate) orders: &'a mut Orders,
    /// How another process takes the place of this one.
    pub(crate) succession: &'a mut Succession,
    /// The applications that the server has started.
    pub(crate) applications: Option<&'a Applications>,
    /// The serving part of the server.
    pub(crate) body: &'a mut dyn Body,
}

impl AdminService<'_> {
    fn settings(&self) -> &Settings {
        self.body.settings()
    }

    fn shared_metrics(&self) -> &SharedMetrics {
        self.body.shared_metrics()
    }

    fn cache_bytes(&self) -> Option<u64> {
        self.body.shared().map(|shared| shared.store.bytes())
    }
}

impl AdminApi for AdminService<'_> {
    fn status(&self) -> Status {
        let done = &self.shared_metrics().done;
        let workers = self.body.connections();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: self.start_config.started.elapsed().as_secs(),
            phase: self.phase,
            arch: self.arch(workers.len()),
            addresses: self.body.listeners().iter().map(|listener| url(listener, self.settings())).collect(),
            listeners: self.body.listeners().iter().map(|listener| described(listener, self.settings())).collect(),
            roots: self.settings().sites.iter().map(SiteSettings::describe_root).collect(),
            connections_open: Some(sum(&workers)),
            workers: Some(workers),
            connections: read(&done.work.connections),
            requests: read(&done.work.requests),
            cache_bytes: self.cache_bytes(),
            protocols: protocols(done),
            tls: self.settings().speak_tls().then(|| tls(&done.tls)),
            certificates: acme::status(self.settings()),
            certificate_files: self.certificate_files(),
            upstreams: self.upstreams(),
            applications: self.applications.map_or_else(Vec::new, Applications::status),
            maintenance: self.maintenance(),
            services: self.services().into_iter().filter(|service| service.kind == "filter").collect(),
            user: Some(credentials::describe()),
            sandbox: Some(confinement::describe(self.body.confined())),
        }
    }

    fn stats(&self) -> Stats {
        let SharedMetrics { done, cache, disk, log, hints, early_hints, scoreboard, .. } = self.shared_metrics();
        let (idle, slow) = scoreboard.idle_and_slow();
        let reports = self.settings().architecture.character().reports;
        let processes = self.body.process_ids().into_iter().chain([std::process::id()]);
        let moment = Moment {
            connections: self.body.connections(),
            idle: reports.idle.then_some(u64::from(idle)),
            slow: reports.slow.then_some(u64::from(slow)),
            waits: scoreboard.waits(),
            kept_answers_waiting: (self.body.shared()).map(|shared| shared.store.answer_flights().waiting() as u64),
            cache_bytes: self.cache_bytes(),
        };
        Stats {
            figures: Figures::gather(&Sources { done, cache, disk, log, hints, early_hints, moment }),
            tls: self.settings().speak_tls().then(|| tls(&done.tls)),
            now: self.body.adapter().and_then(Adapter::now).cloned(),
            process: process_stats::of(std::process::id(), self.body.process_ids().into_iter()),
            tasks: thread_stats::of(processes),
            account: done.account.account(),
            memory_pressure_percent: thread_stats::memory_pressure_percent(),
        }
    }

    fn architecture_why(&self) -> String {
        let adapter = self.body.adapter();
        let (chosen, so_many) = (adapter.and_then(Adapter::why), adapter.and_then(Adapter::why_so_many));
        let why = match chosen {
            Some(why) => why.to_owned(),
            None if !self.start_config.why.is_empty() => self.start_config.why.clone(),
            None => self.configured_why(),
        };
        match so_many {
            Some(so_many) => format!("{} With {so_many}", with_full_stop(why)),
            None => why,
        }
    }

    fn explain(&self, asked: &Asked) -> Result<Explanation, String> {
        let metrics = self.shared_metrics();
        let parts = Parts {
            services: metrics.services.clone(),
            handlers: metrics.embedded.handlers.clone(),
            tls: self.body.shared().and_then(|shared| shared.tls.clone()),
            operator_state: Some(metrics.operator_state.clone()),
        };
        let explainer = Explainer::new(self.settings(), parts)?;
        let mut explained = explainer.explain(asked)?;
        explained.cache = Some(match self.body.shared() {
            Some(Shared { sites, store, clock, .. }) => explain::cache_state(sites, store, asked, clock.now().ms()),
            None => "not looked at: each worker process has its own".to_owned(),
        });
        Ok(explained)
    }

    fn hints(&self, asked: &Asked) -> Result<HintReport, String> {
        hint_report::of(self.settings(), self.shared_metrics(), self.body.shared(), asked)
    }

    fn trace(&mut self, order: &TraceOrder) -> Result<u64, String> {
        let SharedMetrics { trace, clock, .. } = self.shared_metrics();
        trace::start(trace, order, clock.now())
    }

    fn trace_report(&self) -> TraceReport {
        trace::report(&self.shared_metrics().trace)
    }

    fn set(&mut self, change: &Change) -> Result<Progress, Refusal> {
        self.check_open()?;
        let before = self.settings().clone();
        let mut settings = change.apply(&before)?;
        if settings.adapts && settings.architecture.is_of_processes() {
            // Engines of processes are not among those that it chooses from: it begins as it does at a start.
            settings.architecture = Settings::default().architecture;
        }
        if settings == before {
            return Ok(Progress::Done(format!("{} serves already", before.architecture.name())));
        }
        let done = describe(&before, &settings);
        let progress = self.change(&settings, Purpose::Change(done))?;
        report_set(&progress);
        if let Progress::Done(_) = progress {
            self.start_config.set_chosen(settings.architecture);
        }
        Ok(progress)
    }

    fn purge(&mut self, purge: &Purge) -> Result<String, String> {
        let is_meant = purge.judge()?;
        match self.body.shared() {
            Some(shared) => Ok(purge.describe(shared.store.purge_answers(&|key| is_meant(key.path)))),
            None => {
                self.orders.give(Order::PurgeAnswers);
                Ok("purged all kept answers: each worker process has a cache of its own, and is told no more"
                    .to_owned())
            }
        }
    }

    fn maintenance(&self) -> Vec<MaintenanceStatus> {
        operator_orders::maintenance(self.settings(), &self.shared_metrics().operator_state)
    }

    fn order_maintenance(&mut self, order: &MaintenanceOrder) -> Result<Progress, Refusal> {
        self.check_open()?;
        let state = &self.shared_metrics().operator_state;
        let done = operator_orders::order_maintenance(order, self.settings(), state)?;
        let progress = Progress::Done(format!("maintenance of {done}"));
        report_set(&progress);
        Ok(progress)
    }

    /// Worker processes know their own requests only.
    fn upstreams(&self) -> Vec<PlaceStatus> {
        let groups = self.body.shared().map(|shared| shared.sites.groups());
        let SharedMetrics { done, clock, .. } = self.shared_metrics();
        upstream::status::status(self.settings(), &done.places, groups.into_iter().flatten(), clock.now())
    }

    fn order_upstream(&mut self, order: &UpstreamOrder) -> Result<Progress, Refusal> {
        self.check_open()?;
        let SharedMetrics { operator_state, done, .. } = self.shared_metrics();
        let done = operator_orders::order_upstream(order, self.settings(), operator_state, &done.places)?;
        let progress = Progress::Done(done);
        report_set(&progress);
        Ok(progress)
    }

    fn services(&self) -> Vec<ServiceStatus> {
        let listeners = self.body.listeners().iter();
        let listeners: Vec<(String, bool)> =
            listeners.map(|listener| (url(listener, self.settings()), listener.is_suspended())).collect();
        service_orders::list(&self.shared_metrics().services, self.settings(), &listeners)
    }

    fn order_service(&mut self, order: &ServiceOrder) -> Result<Progress, Refusal> {
        self.check_open()?;
        let services = self.services();
        if let Some(status) = services.iter().find(|one| one.kind == LISTENER && one.name == order.name) {
            let suspends = service_orders::suspends(order.verb, status)?;
            let this = |listener: &&Arc<Listener>| url(listener, self.settings()) == order.name;
            for listener in self.body.listeners().iter().filter(this) {
                if suspends { listener.suspend() } else { listener.resume() }?;
            }
            return Ok(service_orders::done(order, &self.services()));
        }
        let registry = self.shared_metrics().services.clone();
        let definitions = service_orders::carry_out(order, &registry, self.settings(), &services)?;
        let renewed = matches!(order.verb, Verb::Replace | Verb::Resume).then_some(&*order.name);
        self.body.change_services(definitions, renewed)?;
        Ok(service_orders::done(order, &self.services()))
    }

    fn reload(&mut self) -> Result<Progress, Refusal> {
        report_reloading();
        let result = self.read_configuration_again();
        let SharedMetrics { operator_state, done, .. } = self.shared_metrics();
        operator_orders::settle(self.settings(), operator_state, &done.places);
        report_reload(&result);
        result
    }

    fn drain(&mut self) -> Result<Progress, Refusal> {
        match self.succession.check_open() {
            Err(SwitchError::NotNow(why)) if !self.succession.is_begun() => return Err(Refusal { why, soon: true }),
            // A process that is taking over is given up.
            _ => self.orders.give(Order::Drain),
        }
        Ok(Progress::Done("draining: what has begun is finished, then the server ends".to_owned()))
    }

    fn upgrade(&mut self) -> Result<Progress, Refusal> {
        let settings = self.settings().clone();
        self.begin_succession(&settings, Purpose::Upgrade)?;
        Ok(Progress::Begun)
    }

    fn outcome(&mut self) -> Option<Result<String, String>> {
        self.succession.outcome()
    }
}

// Changes.
impl AdminService<'_> {
    /// Whether the server may be changed now. Where another process is about to serve, that one is to be asked.
    fn check_open(&self) -> Result<(), Refusal> {
        if self.phase == Phase::Starting {
            return Err(Refusal { why: "the server has not begun to serve yet".to_owned(), soon: true });
        }
        Ok(self.succession.check_open()?)
    }

    fn begin_succession(&mut self, settings: &Settings, purpose: Purpose) -> Result<(), Refusal> {
        self.check_open()?;
        let begun = begin_succession(self.body, self.succession, self.start_config, settings, purpose);
        Ok(begun.inspect_err(report_not_upgraded)?)
    }

    /// Goes on with `settings`: in this process, or in another one where one has to take its place.
    fn change(&mut self, settings: &Settings, purpose: Purpose) -> Result<Progress, Refusal> {
        if self.body.take_settings(settings)? != Changed::TakesProcess {
            return Ok(Progress::Done(match purpose {
                Purpose::Change(done) => done,
                _ => "the new configuration is in force, and the access log has been opened again".to_owned(),
            }));
        }
        self.begin_succession(settings, purpose)?;
        Ok(Progress::Begun)
    }
}

impl From<SwitchError> for Refusal {
    fn from(error: SwitchError) -> Refusal {
        Refusal { why: error.to_string(), soon: matches!(error, SwitchError::NotNow(_)) }
    }
}

impl AdminService<'_> {
    /// Why this architecture serves if no order has changed it.
    fn configured_why(&self) -> String {
        let (asked, serving) = (self.start_config.configured.architecture, self.settings().architecture);
        let mut why = format!("{} serves because it was configured", asked.name());
        if asked != serving {
            why = format!("{} serves because {} cannot be had on this kernel", serving.name(), asked.name());
        }
        why + "; nothing has been changed by the server itself"
    }

    fn read_configuration_again(&mut self) -> Result<Progress, Refusal> {
        self.check_open()?;
        // Whatever becomes of the rest, a log that was moved away is let go.
        self.orders.give(Order::Reopen);
        // Whoever has just mended what kept a certificate from being issued does not want to wait for the end of a
        // pause.
        acme::try_now(self.settings());
        let settings = (self.start_config.load)()?;
        self.set_settings(settings)
    }

    /// Changes over to other settings under live connections.
    fn set_settings(&mut self, mut settings: Settings) -> Result<Progress, Refusal> {
        // What cannot be used is known before anything changes.
        lamna_tls::check(&settings).map_err(|error| SwitchError::Start(ServeError::Tls(error)))?;
        if settings == self.start_config.configured {
            return self.take_files(settings);
        }
        if let Some(why) = refused_by_reload(&self.start_config.configured, &settings) {
            return Err(Refusal::from(why));
        }
        let configured = settings.clone();
        if settings.adapts && !self.settings().architecture.is_of_processes() {
            // It goes on with what it has found best so far.
            settings.architecture = self.settings().architecture;
        }
        if settings.workers_adapt {
            settings.workers = self.settings().workers;
        }
        if settings.adapts && settings.threads_adapt {
            settings.threads = self.settings().threads.min(settings.threads_max);
        }
        // What an administrator has set meanwhile was meant for now, not for what the file says. Another process reads
        // the file itself.
        let files = self.start_config.files_of(self.body, &settings)?;
        let progress = self.change(&settings, Purpose::Reload(Box::new(configured.clone())))?;
        if let Progress::Done(_) = progress {
            // An engine that goes on has not looked at them.
            self.body.take_files()?;
            self.start_config.files = files;
            self.succession.set_configured(configured.clone());
            self.start_config.why = format!("{} serves because it was configured", settings.architecture.name());
            self.start_config.configured = configured;
            if let Err(error) = errors::open(&settings.error_log) {
                let why = format!("the error log stays where it is: its new place cannot be opened: {error}");
                errors::report(Level::Error, format_args!("{why}"));
            }
        }
        Ok(progress)
    }
}

impl AdminService<'_> {
    /// The certificates from files: those that are served, where this process serves them.
    fn certificate_files(&self) -> Vec<FileCertificate> {
        match self.body.shared() {
            Some(shared) => shared.tls.as_ref().map_or_else(Vec::new, |tls| tls.of_files()),
            None => lamna_tls::in_files(self.settings()),
        }
    }

    /// The configuration is as it was: what has changed is in the files that it names.
    fn take_files(&mut self, settings: Settings) -> Result<Progress, Refusal> {
        let files = self.start_config.files_of(self.body, &settings)?;
        let have_changed = files != self.start_config.files;
        let read = if have_changed { "; files that it names have been read again" } else { "" };
        let done = format!("the configuration is as it was{read}; the access log has been opened again");
        // Processes that serve have read them when they began.
        if self.settings().architecture.is_of_processes() && !have_changed {
            return Ok(Progress::Done(done));
        }
        if self.body.take_files()? == Changed::TakesProcess {
            let settings = self.settings().clone();
            self.begin_succession(&settings, Purpose::Change(done))?;
            return Ok(Progress::Begun);
        }
        self.start_config.files = files;
        Ok(Progress::Done(done))
    }
}

fn with_full_stop(sentence: String) -> String {
    if sentence.ends_with('.') { sentence } else { sentence + "." }
}

/// The differences between the settings, in words.
fn describe(before: &Settings, after: &Settings) -> String {
    let mut parts = vec![match (before.adapts, after.adapts) {
        (false, true) => format!("the server chooses from now on; {} serves", after.architecture.name()),
        (true, false) => format!("{} serves from now on", after.architecture.name()),
        _ => format!("{} serves", after.architecture.name()),
    }];
    if before.architecture != after.architecture {
        parts[0].push_str(&format!(" in place of {}", before.architecture.name()));
    }
    // The engine is told of already.
    let changed =
        SETTINGS.iter().filter(|setting| setting.order.is_some() && setting.name != "arch").filter_map(|setting| {
            let [before, after] = [before, after].map(|settings| setting.show(settings));
            (before != after).then(|| format!("{}: {after} instead of {before}", setting.name))
        });
    parts.extend(changed);
    if after.threads != before.threads && after.architecture != Architecture::ThreadPool {
        parts.push("threads count when thread-pool serves".to_owned());
    }
    parts.join("; ")
}

impl AdminService<'_> {
    fn arch(&self, workers: usize) -> Arch {
        let settings = self.settings();
        Arch {
            architecture: settings.architecture.name().to_owned(),
            workers,
            processes: settings.architecture.is_of_processes(),
            threads: self.body.shared().map_or(settings.threads, |shared| shared.control.threads()),
            threads_max: settings.threads_max,
            cache_bytes_max: match settings.architecture {
                Architecture::Mp => settings.process_cache_bytes_max,
                _ => settings.cache_bytes_max,
            },
            schedule_in_force: (settings.schedule == Schedule::Auto).then(|| {
                match self.shared_metrics().scoreboard.shortest_first() {
                    (0, _) => "round-robin".to_owned(),
                    (first, all) if first == all => "srpt".to_owned(),
                    (first, all) => format!("srpt in {first} of {all} workers"),
                }
            }),
            // Of these it has been said what the server has come to.
            settings: changeable(settings).into_iter().filter(|(name, _)| !FOUND.contains(&&**name)).collect(),
        }
    }
}

/// Settings whose values the server finds by itself.
const FOUND: [&str; 3] = ["architecture", "workers", "threads"];

fn sum(connections: &[u32]) -> u64 {
    connections.iter().copied().map(u64::from).sum()
}

/// Responses by the protocol that they went over.
fn protocols(done: &Counters) -> ProtocolStats {
    let (all, http2) = (done.answers.answers(), read(&done.answers.over_http2));
    ProtocolStats { http1: all.saturating_sub(http2), http2 }
}

/// The TLS parameters that clients have negotiated.
fn tls(done: &TlsCounters) -> TlsStats {
    let kinds = Kind::all().into_iter().zip(done.handshakes.iter().map(read)).filter(|(_, count)| *count > 0);
    let handshakes = kinds.map(|(kind, count)| Handshakes {
        version: negotiated::version_name(kind.version).to_owned(),
        protocol: kind.alpn.told().to_owned(),
        resumed: kind.is_resumed,
        count,
    });
    TlsStats {
        handshakes: handshakes.collect(),
        failed: read(&done.failures),
        ciphers: counted(SUITES.iter().map(|(_, name)| *name), &done.suites),
        groups: counted(GROUPS.iter().map(|(_, name)| *name), &done.groups),
    }
}

/// Counts by name, as far as there are any.
fn counted(names: impl Iterator<Item = &'static str>, counters: &[AtomicU64]) -> BTreeMap<String, u64> {
    let counts = names.zip(counters.iter().map(read));
    counts
        .filter(|(name, count)| !name.is_empty() && *count > 0)
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}
