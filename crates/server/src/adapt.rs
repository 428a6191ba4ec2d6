//! A server that looks at itself: sensors, and the controller that decides what they mean.
//!
//! Owns: readings, from counters that workers hand over twice a second and from what the kernel knows of the process, and
//! what is to be changed. Guarantees: nothing is measured on the way of a request. Decides nothing itself:
//! `lamna_policy::control` does, which the simulator runs as well; and changes nothing: `lifecycle` does.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use lamna_policy::control::{Change, Controller, Crew, Engine, Profile, Reading, Workers};
use rustix::time::{ClockId, clock_gettime};

use crate::commons::Commons;
use crate::config::settings::{Architecture, Settings};
use crate::shift::{self, Shift};

/// Length of a reading: twice the time after which workers hand counters over would be too long to react, half too short
/// to have them.
const INTERVAL: Duration = Duration::from_millis(500);

/// The sensors and the controller of a server that adapts.
#[derive(Debug)]
pub(crate) struct Adapter {
    controller: Controller,
    workers: Workers,
    began: Instant,
    before: Sample,
}

/// What is to be changed, and why.
#[derive(Debug)]
pub(crate) struct Wish {
    /// With what to go on.
    pub(crate) settings: Settings,
    /// Why, in one sentence.
    pub(crate) because: String,
    /// The engine that was asked for, if it is another one.
    pub(crate) engine: Option<Engine>,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    requests: u64,
    accepted: u64,
    sent_bytes: u64,
    blocked: u64,
    disk_bytes: u64,
    cpu_us: u64,
}

/// Bytes read from the disk that count as one wait for it: what the kernel reads ahead.
const WAIT_BYTES: u64 = 128 * 1024;

impl Adapter {
    /// Begins to look at a server with `settings`.
    pub(crate) fn new(settings: &Settings, commons: &Commons) -> Adapter {
        let profile = settings.profile.clone().unwrap_or_else(Profile::built_in);
        let is_possible = |engine: &Engine| {
            shift::is_possible(&Settings { architecture: architecture(*engine), ..settings.clone() }).is_ok()
        };
        let candidates = Engine::ALL.into_iter().filter(is_possible).collect();
        let current = engine(settings.architecture).unwrap_or(Engine::Amped);
        let controller = Controller::new(profile, candidates, current);
        Adapter { controller, workers: Workers::default(), began: Instant::now(), before: Sample::take(commons) }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Duration {
        INTERVAL.saturating_sub(self.before.at.elapsed())
    }

    /// Why the present engine serves, in one sentence.
    pub(crate) fn why(&self) -> &str {
        self.controller.why()
    }

    /// Looks, if it is time to. Returns what is to be changed.
    pub(crate) fn look(&mut self, shift: &Shift, commons: &Commons) -> Option<Wish> {
        if !self.due().is_zero() {
            return None;
        }
        let settings = &shift.settings;
        let sample = Sample::take(commons);
        let connections = shift.connections().into_iter().map(u64::from).sum();
        let reading = sample.since(&self.before, connections);
        self.before = sample;
        let now_ms = self.began.elapsed().as_millis() as u64;
        let change = self.controller.observe(now_ms, &reading).map(|change| wish(settings, change));
        change.or_else(|| self.look_at_workers(now_ms, settings, &reading))
    }

    /// A wish could not be met.
    pub(crate) fn handle_failed(&mut self, wanted: Engine, settings: &Settings, why: &str) {
        let current = engine(settings.architecture).unwrap_or(Engine::Amped);
        self.controller.handle_failed(wanted, current, why);
    }

    fn look_at_workers(&mut self, now_ms: u64, settings: &Settings, reading: &Reading) -> Option<Wish> {
        if !settings.workers_adapt {
            return None;
        }
        let processors = available_parallelism().map_or(1, usize::from);
        let busy = reading.cpu_us as f64 / (reading.interval_ms.max(1) * 1000) as f64;
        let crew = Crew { workers: settings.workers, processors, busy };
        let workers = self.workers.observe(now_ms, crew)?;
        let because = format!(
            "{} workers instead of {}: they take {busy:.1} of {processors} processors.",
            workers, settings.workers
        );
        Some(Wish { settings: Settings { workers, ..settings.clone() }, because, engine: None })
    }
}

fn wish(settings: &Settings, change: Change) -> Wish {
    let settings = Settings { architecture: architecture(change.to), ..settings.clone() };
    Wish { settings, because: change.because, engine: Some(change.to) }
}

impl Sample {
    fn take(commons: &Commons) -> Sample {
        let (done, disk) = (&commons.done, &commons.disk);
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Sample {
            at: Instant::now(),
            requests: done.requests.load(Relaxed),
            accepted: done.connections.load(Relaxed),
            sent_bytes: done.sent_bytes.load(Relaxed),
            blocked: disk.open_blocked.load(Relaxed) + disk.read_blocked.load(Relaxed),
            disk_bytes: disk_bytes(),
            cpu_us: cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1000,
        }
    }

    fn since(&self, before: &Sample, connections: u64) -> Reading {
        // Engines that simply wait for the disk do not count that they did; the kernel does.
        let waits = (self.disk_bytes - before.disk_bytes).div_ceil(WAIT_BYTES);
        Reading {
            interval_ms: (self.at - before.at).as_millis() as u64,
            requests: self.requests - before.requests,
            accepted: self.accepted - before.accepted,
            connections,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            blocked: waits.max(self.blocked - before.blocked),
            cpu_us: self.cpu_us - before.cpu_us,
        }
    }
}

/// Bytes that this process has had read from disks (proc_pid_io(5)); 0 where the kernel does not say.
fn disk_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// The controller's name of an architecture; none of those that it does not choose.
fn engine(architecture: Architecture) -> Option<Engine> {
    Engine::from_name(architecture.name())
}

/// The architecture of an engine.
fn architecture(engine: Engine) -> Architecture {
    match engine {
        Engine::Sped => Architecture::Sped,
        Engine::Amped => Architecture::Amped,
        Engine::Pipelined => Architecture::Pipelined,
        Engine::Proactor => Architecture::Proactor,
        Engine::ThreadPool => Architecture::ThreadPool,
        Engine::ThreadPerRequest => Architecture::ThreadPerRequest,
        Engine::ThreadPerSession => Architecture::ThreadPerSession,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_and_architectures_have_the_same_names() {
        for each in Engine::ALL {
            assert_eq!(architecture(each).name(), each.name());
            assert_eq!(engine(architecture(each)), Some(each));
        }
        assert_eq!(engine(Architecture::Mp), None);
    }

    #[test]
    fn a_reading_is_what_happened_between_two_samples() {
        let commons = Commons::new(crate::engine::Clock::start()).unwrap();
        let before = Sample::take(&commons);
        commons.done.requests.fetch_add(10, Relaxed);
        commons.done.sent_bytes.fetch_add(5_000, Relaxed);
        commons.disk.read_blocked.fetch_add(2, Relaxed);
        let reading = Sample::take(&commons).since(&before, 7);
        assert_eq!((reading.requests, reading.sent_bytes, reading.connections), (10, 5_000, 7));
        assert!(reading.blocked >= 2);
    }
}
