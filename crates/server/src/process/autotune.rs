//! A server that looks at itself: what its sensors say, and what the controllers make of it.
//!
//! Owns: when it looks, and what is to be changed. Guarantees: nothing is measured on the way of a request (`sensors`).
//! Decides nothing itself: `lamna_policy::control` does, which the simulator can run as well; and changes nothing but
//! the bound on helpers, which costs nothing: `lifecycle` does.

use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use lamna_config as config;
use lamna_config::settings::{Architecture, Settings};
use lamna_engine::worker::context::FLUSH_MS;
use lamna_io::log::errors::{self, Level};
use lamna_policy::control::{Change, Controller, Engine, InVain, Pool, PoolLoad, Profile, Resize, WorkerLoad, Workers};
use lamna_policy::words::count;
use lamna_sys::clock::Clock;

use crate::admin::api::Now;
use crate::process::running_engine;
use crate::process::running_engine::RunningEngine;
use crate::process::sensors::{Between, Sample};
use crate::process::shared_metrics::SharedMetrics;

/// The sensors and the controllers of a server that adapts.
#[derive(Debug)]
pub(crate) struct Adapter {
    /// Chooses the engine, if that is left to the server.
    controller: Option<Controller>,
    workers: Workers,
    threads: Pool,
    helpers: Pool,
    /// The most helper threads of each worker at present.
    helpers_now: usize,
    clock: Clock,
    began: Instant,
    before: Sample,
    /// The interval in which it has looked last, counted in those of the clock.
    looked: u64,
    now: Option<Now>,
    /// The last change of a number, and why.
    why_so_many: String,
}

/// A wanted change, and its reason.
#[derive(Debug)]
pub(crate) struct WantedChange {
    /// With what to go on.
    pub(crate) settings: Settings,
    /// Why, in one sentence.
    pub(crate) because: String,
    /// The engine that was asked for, if it is another one.
    pub(crate) engine: Option<Engine>,
}

/// Workers hand counters over at the same moments, so a reading has as many of their reports as the next one if it ends
/// somewhat later.
const AFTER_FLUSH_MS: u64 = 150;
/// Helpers that each worker may have at first: they keep most disks busy, and leave the order to us where they do.
/// There are twice as many each half second as long as that brings something.
const HELPERS_FIRST: usize = 8;
/// Helpers and threads that each worker may always have.
const HELPERS_LEAST: usize = 4;
const THREADS_LEAST: usize = 16;

impl Adapter {
    /// Begins to look at a server with `settings`, if they leave anything to it.
    pub(crate) fn new(settings: &Settings, shared_metrics: &SharedMetrics) -> Option<Adapter> {
        Adapter::is_wanted(settings).then(|| Adapter {
            controller: settings.adapts.then(|| Adapter::controller(settings)),
            workers: Workers::default(),
            threads: Pool::default(),
            helpers: Pool::default(),
            helpers_now: HELPERS_FIRST,
            clock: shared_metrics.clock,
            began: Instant::now(),
            before: Sample::take(shared_metrics, None),
            looked: interval(&shared_metrics.clock),
            now: None,
            why_so_many: String::new(),
        })
    }

    /// Whether `settings` leave anything to the server.
    pub(crate) fn is_wanted(settings: &Settings) -> bool {
        settings.adapts || settings.threads_adapt && settings.architecture == Architecture::ThreadPool
    }

    fn controller(settings: &Settings) -> Controller {
        let profile = settings.profile.clone().unwrap_or_else(Profile::built_in);
        let current = engine(settings.architecture).unwrap_or(Engine::Amped);
        Controller::new(profile, Adapter::candidates(settings), current)
    }

    /// Engines that can serve, and may be worth it. Where the cache has most of the memory, `proactor` is not: it
    /// answers a quarter less than `amped` from a disk that is slow (`results/caches/memory.md`), which the estimates
    /// know nothing of. Under a limit of a few megabytes neither it nor threads fit beside many connections.
    fn candidates(settings: &Settings) -> Vec<Engine> {
        let is_small = config::is_small();
        let is_possible = |engine: &Engine| {
            let is_lean = matches!(engine, Engine::Sped | Engine::Amped | Engine::Pipelined);
            let fits = *engine != Engine::Proactor || !settings.replaces_page_cache();
            (is_lean || !is_small)
                && fits
                && running_engine::is_possible(&Settings { architecture: architecture(*engine), ..settings.clone() })
                    .is_ok()
        };
        Engine::ALL.into_iter().filter(is_possible).collect()
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Duration {
        let (looked, now_ms) = (self.looked, self.clock.now().ms());
        Duration::from_millis(((looked + 1) * FLUSH_MS + AFTER_FLUSH_MS).saturating_sub(now_ms))
    }

    /// Why the present engine serves, if the server has chosen it.
    pub(crate) fn why(&self) -> Option<&str> {
        self.controller.as_ref().map(Controller::why)
    }

    /// Why there are so many workers, threads or helpers, if the server has changed that.
    pub(crate) fn why_so_many(&self) -> Option<&str> {
        Some(self.why_so_many.as_str()).filter(|why| !why.is_empty())
    }

    /// The last measurement.
    pub(crate) fn now(&self) -> Option<&Now> {
        self.now.as_ref()
    }

    /// Looks, if it is time to. Returns what is to be changed.
    pub(crate) fn look(&mut self, running: &RunningEngine, shared_metrics: &SharedMetrics) -> Option<WantedChange> {
        if interval(&self.clock) == self.looked {
            return None;
        }
        self.looked = interval(&self.clock);
        let sample = Sample::take(shared_metrics, Some(&self.before));
        let between = sample.since(&self.before, &running.connections(), shared_metrics);
        self.before = sample;
        self.now = Some(between.now.clone());
        let now_ms = self.began.elapsed().as_millis() as u64;
        let settings = &running.settings;
        let change = self.controller.as_mut().and_then(|controller| controller.observe(now_ms, &between.reading));
        if self.controller.is_some() {
            self.look_at_helpers(now_ms, running, &between);
        }
        let change = change.map(|change| wanted_change(settings, change));
        let change = change.or_else(|| self.look_at_workers(now_ms, settings, &between));
        change.or_else(|| self.look_at_threads(now_ms, settings, &between))
    }

    /// A wanted change could not be made.
    pub(crate) fn handle_failed(&mut self, wanted: Engine, settings: &Settings, why: &str) {
        let current = engine(settings.architecture).unwrap_or(Engine::Amped);
        self.controller.iter_mut().for_each(|controller| controller.handle_failed(wanted, current, why));
    }
}

// How many of what.
impl Adapter {
    fn look_at_workers(&mut self, now_ms: u64, settings: &Settings, between: &Between) -> Option<WantedChange> {
        if !(settings.adapts && settings.workers_adapt) {
            return None;
        }
        let processors = available_parallelism().map_or(1, usize::from);
        let interval_us = (between.reading.interval_ms.max(1) * 1000) as f64;
        let (busy, kept_waiting) =
            (between.reading.cpu_us as f64 / interval_us, between.run_queue_us as f64 / interval_us);
        let load = WorkerLoad { workers: settings.workers, processors, busy, kept_waiting };
        let workers = self.workers.observe(now_ms, load)?;
        let because = format!(
            "{} instead of {}: they take {busy:.1} of {}, and wait for {kept_waiting:.1}.",
            count(workers, "worker"),
            settings.workers,
            count(processors, "processor")
        );
        self.why_so_many.clone_from(&because);
        Some(WantedChange { settings: Settings { workers, ..settings.clone() }, because, engine: None })
    }

    fn look_at_threads(&mut self, now_ms: u64, settings: &Settings, between: &Between) -> Option<WantedChange> {
        if !settings.threads_adapt || settings.architecture != Architecture::ThreadPool {
            self.threads = Pool::default();
            return None;
        }
        let load = PoolLoad {
            size: settings.threads,
            size_min: THREADS_LEAST.min(settings.threads_max),
            size_max: settings.threads_max,
            busy_peak: between.threads_busy_peak,
            delay_us: between.thread_delay_us,
            // A thread may be busy with a client that reads slowly: what all get done says nothing.
            done_per_s: None,
            is_short_of_memory: between.is_short_of_memory,
        };
        let resize = self.threads.observe(now_ms, load)?;
        let because = describe(("thread", ""), "connections", resize, load);
        self.why_so_many.clone_from(&because);
        Some(WantedChange { settings: Settings { threads: resize.size, ..settings.clone() }, because, engine: None })
    }

    /// Helpers are bounded where they are made, so their number needs no consent.
    fn look_at_helpers(&mut self, now_ms: u64, running: &RunningEngine, between: &Between) {
        let (control, settings) = (&running.shared.control, &running.settings);
        let load = PoolLoad {
            size: self.helpers_now.min(settings.helpers_max),
            size_min: HELPERS_LEAST.min(settings.helpers_max),
            size_max: settings.helpers_max,
            // Jobs of all workers are counted together.
            busy_peak: between.helpers_busy_peak.div_ceil(settings.workers),
            delay_us: between.helper_delay_us,
            done_per_s: Some(between.helper_jobs_per_s),
            is_short_of_memory: between.is_short_of_memory,
        };
        self.helpers_now = load.size;
        if let Some(resize) = self.helpers.observe(now_ms, load) {
            self.helpers_now = resize.size;
            self.why_so_many = describe(("helper", " at most"), "jobs", resize, load);
            // That some were too many all the time is not worth a line.
            if resize.size > load.size || resize.in_vain.is_some() {
                let serving = settings.architecture.name();
                errors::tell(Level::Info, format_args!("{serving} serves: {}", self.why_so_many));
            }
        }
        // An engine that has just begun does not know.
        control.set_helpers(self.helpers_now);
    }
}

/// `what` is the noun in singular, and what follows it.
fn describe((noun, what): (&str, &str), who: &str, resize: Resize, load: PoolLoad) -> String {
    let PoolLoad { size: before, busy_peak, delay_us, .. } = load;
    let size = resize.size;
    let why = match resize.in_vain {
        Some(InVain { before_per_s, after_per_s }) => {
            format!("{before} did {after_per_s:.0} {who} a second, and {size} did {before_per_s:.0}.")
        }
        None => format!(
            "{busy_peak} {} busy at once, and {who} waited {:.1} ms for one.",
            if busy_peak == 1 { "was" } else { "were" },
            delay_us / 1000.0
        ),
    };
    format!("{}{what} instead of {before} for each worker: {why}", count(size, noun))
}

fn wanted_change(settings: &Settings, change: Change) -> WantedChange {
    let settings = Settings { architecture: architecture(change.to), ..settings.clone() };
    WantedChange { settings, because: change.because, engine: Some(change.to) }
}

/// The interval of the clock that it is now.
fn interval(clock: &Clock) -> u64 {
    clock.now().ms().saturating_sub(AFTER_FLUSH_MS) / FLUSH_MS
}

/// The controller's name of an architecture; none of those that it does not choose.
fn engine(architecture: Architecture) -> Option<Engine> {
    Engine::from_name(architecture.name())
}

/// The architecture of an engine.
fn architecture(engine: Engine) -> Architecture {
    Architecture::from_name(engine.name()).expect("every engine is an architecture, which a test holds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::settings::CachePages;

    #[test]
    fn the_ring_is_no_candidate_where_the_cache_has_most_of_the_memory() {
        let settings = |cache_pages| Settings { cache_pages, ..Settings::default() };
        let candidates = |cache_pages| Adapter::candidates(&settings(cache_pages));
        let others = |mut engines: Vec<Engine>| {
            engines.retain(|engine| *engine != Engine::Proactor);
            engines
        };
        assert_eq!(candidates(CachePages::Release), others(candidates(CachePages::Keep)));
    }

    #[test]
    fn engines_and_architectures_have_the_same_names() {
        for each in Engine::ALL {
            assert_eq!(architecture(each).name(), each.name());
            assert_eq!(engine(architecture(each)), Some(each));
        }
        assert_eq!(engine(Architecture::Mp), None);
    }
}
