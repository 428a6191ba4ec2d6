//! Which engine should serve: decided from what a server measures of itself.
//!
//! Owns: the [`Controller`], its estimates and its reasons. Carries nothing out.
//!
//! Guarantees:
//! - It is pure: time and readings are arguments. So the simulator runs the same code.
//! - It changes the engine only if that is expected to save [`GAIN_MIN`] of the cost and [`WORTH`] of a processor.
//! - It does not change within [`STAY_MS`] of the last change under the same kind of load, nor within a minute of it if
//!   the load might as well be of another kind.
//! - It tries an engine at most once for each kind of load, in the first half minute of that load.
//! - It does not follow a load that alternates.
//!
//! # How it decides
//! ```text
//!            readings, one interval after another
//!                  │ load::classify
//!                  ▼
//!   ┌──────── Watching ◄───────────────────────────────┐
//!   │              │ a load that has been the same for  │ after TRIAL_MS, or as soon as it is surely worse: what the trial
//!   │ one that is  │ ten seconds, and an engine that    │ cost is compared with the cost before, and kept as an estimate
//!   │ expected to  │ might be better under it           │
//!   │ cost less    ▼                                    │
//!   │            Trying ────────────────────────────────┘
//!   ▼
//!  change
//! ```
//! The expected cost decides, however uncertain it is: it is as likely to be too high as too low, and a change costs
//! little. The uncertainty says what is worth a trial, and how much a trial teaches. A trial disturbs more than a
//! correct change, so the controller makes one only if the load seems to last.
//!
//! When the load has clearly become another one, the controller answers after [`STEADY_CLEAR`] readings, in little more
//! than a second, however recent the last change was. Near a bound between kinds it answers after [`STEADY`].
//!
//! Costs are CPU time per request. The cost of another engine is estimated from the present cost and the ratio of the
//! two engines' costs under this kind of load. Ratios hold from machine to machine and from site to site far better
//! than costs do. They come from a [`Profile`], built in or measured by `lamna tune`, and from trials.

use std::collections::VecDeque;

mod load;
mod pool;
mod profile;
mod workers;

pub use load::{Load, Reading};
pub use pool::{InVain, Pool, PoolLoad, Resize};
pub use profile::{Estimate, Profile};
pub use workers::{WorkerLoad, Workers};

/// An engine that the controller may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// Event loops alone.
    Sped,
    /// Event loops with helpers.
    Amped,
    /// Stage threads.
    Pipelined,
    /// io_uring.
    Proactor,
    /// A pool of threads.
    ThreadPool,
    /// A thread for each request.
    ThreadPerRequest,
    /// A thread for each connection.
    ThreadPerSession,
}

impl Engine {
    /// All of them.
    pub const ALL: [Engine; 7] = [
        Engine::Sped,
        Engine::Amped,
        Engine::Pipelined,
        Engine::Proactor,
        Engine::ThreadPool,
        Engine::ThreadPerRequest,
        Engine::ThreadPerSession,
    ];

    /// The name in profiles, configuration and reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sped => "sped",
            Engine::Amped => "amped",
            Engine::Pipelined => "pipelined",
            Engine::Proactor => "proactor",
            Engine::ThreadPool => "thread-pool",
            Engine::ThreadPerRequest => "thread-per-request",
            Engine::ThreadPerSession => "thread-per-session",
        }
    }

    /// The engine of this name.
    pub fn from_name(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }

    /// The cost of a stall that may come, as a part of the cost of a request: of two engines that cost the same, the
    /// one that does not stall serves.
    fn risk(self) -> f64 {
        if self.stalls() { STALL_RISK } else { 0.0 }
    }

    /// Whether a request that has to wait for the disk makes all others of its worker wait: then it is never chosen
    /// while there are such requests, whatever it costs.
    pub fn stalls(self) -> bool {
        self == Engine::Sped
    }
}

/// A change that the controller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The engine that is to serve.
    pub to: Engine,
    /// Why, in one sentence with the numbers behind it.
    pub because: String,
}

/// Decides which engine serves.
#[derive(Clone, Debug)]
pub struct Controller {
    profile: Profile,
    /// Engines that can serve here.
    candidates: Vec<Engine>,
    current: Engine,
    state: State,
    /// The kind of load of the last readings, and since when.
    load: Option<(Load, u64)>,
    /// The engine that the last readings speak for, and how many in a row.
    wanted: Option<(Engine, u32)>,
    /// When that became another engine, within the last minute.
    turns_ms: VecDeque<u64>,
    /// Mean cost of the current engine under that load, in microseconds of CPU per request.
    cost_us: Mean,
    /// Mean requests a second of the current engine under that load.
    rate: Mean,
    /// When the engine was last changed, and under which kind of load.
    changed: Option<(u64, Load)>,
    /// The next reading is not of this engine under this load alone: of a change, in which connections move and caches
    /// are cold, or of the interval in which the load became another.
    settling: bool,
    /// When requests last had to wait for the disk.
    waited_ms: Option<u64>,
    /// Trials made so far, which are not repeated.
    tried: Vec<(Load, Engine)>,
    why: String,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Watching,
    /// The current engine is tried out.
    Trying(Trial),
}

/// An engine that is tried out, which is the current one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    /// Under this load.
    load: Load,
    /// The engine before.
    home: Engine,
    /// Mean cost of that one.
    home_cost_us: Mean,
    /// Requests a second that that one answered.
    home_rate: f64,
    /// When it is over.
    until_ms: u64,
}

/// Gain, as a part of the present cost, for which an engine is changed. Below this the difference is not worth a line
/// in the log; between equal engines noise would decide.
pub const GAIN_MIN: f64 = 0.03;
/// The saving that a change must be expected to make, as a part of one processor. A server that has little to do has
/// little to gain.
pub const WORTH: f64 = 0.01;
/// See [`Engine::risk`].
const STALL_RISK: f64 = 0.03;
/// How long an engine stays at least under the same kind of load, in milliseconds.
pub const STAY_MS: u64 = 5_000;
/// How long a trial lasts. Long against the time that a change takes (some 10 ms), short against what users notice.
pub const TRIAL_MS: u64 = 1_500;
/// When trials begin, counted from the beginning of a kind of load, in milliseconds. One that has lasted for ten
/// seconds will probably last long enough for a trial to pay; and half a minute after its beginning all are over.
pub const TRIALS_MS: std::ops::Range<u64> = 10_000..27_500;
/// How often a minute what is wanted may become another engine and be followed: as often as an engine may change. A
/// load that goes to and fro more often is between two kinds, and is not followed.
const TURNS_MAX: usize = (MINUTE_MS / STAY_MS) as usize;
const MINUTE_MS: u64 = 60_000;
/// Readings in a row that speak for an engine before it takes over. The first one may be of two kinds of load.
pub const STEADY: u32 = 3;
/// The same where the load is clearly of one kind, or the kinds that it might be of want the same engine.
pub const STEADY_CLEAR: u32 = 2;
/// Readings of an engine's cost before another is compared with it. A server that has just been started gets cheaper by
/// the second, which three readings may hide.
const COMPARABLE: u32 = 4;
/// How well readings of a cost have to agree to be compared with another, as a part of it.
const AGREEING: f64 = 0.05;
/// How long after the last wait for the disk an engine that stalls is not chosen, in milliseconds.
const CALM_MS: u64 = 600_000;
/// A trial that costs so much more than what was before, or answers so much less, is over at the first good look.
const SURELY_WORSE: f64 = 1.15;
/// Requests a second by which an engine may fall behind before that counts: clients do not come evenly.
const RATE_DOUBT: f64 = 0.08;

impl Controller {
    /// A controller that begins with `current`, and may choose any of `candidates`.
    pub fn new(profile: Profile, candidates: Vec<Engine>, current: Engine) -> Controller {
        let why = format!(
            "{} serves because the server began to choose with it; nothing has been measured yet.",
            current.name()
        );
        Controller {
            profile,
            candidates,
            current,
            state: State::Watching,
            load: None,
            wanted: None,
            turns_ms: VecDeque::new(),
            cost_us: Mean::default(),
            rate: Mean::default(),
            changed: None,
            settling: false,
            waited_ms: None,
            tried: Vec::new(),
            why,
        }
    }

    /// The engine that serves, as far as this controller knows.
    pub fn current(&self) -> Engine {
        self.current
    }

    /// Why the present engine serves, in one sentence.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The profile that it goes by.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Takes the measurements of the interval that ends at `now_ms`. Returns a change, if one is wanted now.
    pub fn observe(&mut self, now_ms: u64, reading: &Reading) -> Option<Change> {
        let Some(kind) = load::classify(reading, self.load.map(|(load, _)| load)) else {
            // Nothing to go by: an idle server stays as it is, and a trial without load is over.
            (self.load, self.wanted) = (None, None);
            return self.abandon_trial(now_ms, "there is no load to try it with");
        };
        let load = kind.load;
        self.note(now_ms, load, reading);
        if let State::Trying(trial) = self.state {
            return self.try_on(now_ms, load, trial);
        }
        // Stalling is not a matter of cost.
        if self.current.stalls() && load == Load::Disk {
            return self.flee(now_ms, reading);
        }
        let (wanted, steady) = self.count_wanted(now_ms, load, reading);
        let is_restless = self.turns_ms.len() > TURNS_MAX;
        if is_restless || self.has_just_changed(now_ms, load) {
            return None;
        }
        if wanted == self.current {
            return if kind.is_clear() { self.begin_trial(now_ms, load, reading) } else { None };
        }
        let is_clear = kind.or.iter().all(|load| self.wanted(now_ms, *load, reading) == wanted);
        let is_due = match is_clear {
            true => steady >= STEADY_CLEAR,
            false => steady >= STEADY && self.changed.is_none_or(|(at_ms, _)| now_ms >= at_ms + MINUTE_MS),
        };
        is_due.then(|| self.change_to_better(now_ms, load, wanted, reading))
    }

    /// The change could not be made: `why`. The engine that was wanted is no candidate any more.
    pub fn handle_failed(&mut self, wanted: Engine, current: Engine, why: &str) {
        self.candidates.retain(|engine| *engine != wanted);
        self.current = current;
        (self.state, self.wanted) = (State::Watching, None);
        self.why = format!("{} serves because {} could not take its place: {why}", current.name(), wanted.name());
    }

    fn note(&mut self, now_ms: u64, load: Load, reading: &Reading) {
        self.turns_ms.retain(|at_ms| at_ms + MINUTE_MS > now_ms);
        if load == Load::Disk {
            self.waited_ms = Some(now_ms);
        }
        if self.load.is_none_or(|(before, _)| before != load) {
            self.settling |= self.load.is_some();
            self.load = Some((load, now_ms));
            (self.cost_us, self.rate) = (Mean::default(), Mean::default());
        }
        if !std::mem::take(&mut self.settling) {
            self.cost_us.add(reading.cost_us());
            self.rate.add(reading.requests_per_s());
        }
    }

    /// The engine that this reading speaks for, and how many in a row have done so.
    fn count_wanted(&mut self, now_ms: u64, load: Load, reading: &Reading) -> (Engine, u32) {
        let wanted = self.wanted(now_ms, load, reading);
        let steady = match self.wanted {
            Some((before, steady)) if before == wanted => steady + 1,
            Some(_) => {
                self.turns_ms.push_back(now_ms);
                1
            }
            None => 1,
        };
        self.wanted = Some((wanted, steady));
        (wanted, steady)
    }

    fn has_just_changed(&self, now_ms: u64, load: Load) -> bool {
        self.changed.is_some_and(|(at_ms, under)| under == load && now_ms < at_ms + STAY_MS)
    }

    /// The engine that is expected to cost least under `load`; the present one, if none saves [`GAIN_MIN`] and
    /// [`WORTH`].
    fn wanted(&self, now_ms: u64, load: Load, reading: &Reading) -> Engine {
        let cost = |engine: Engine| self.profile.estimate(load, engine).ratio + engine.risk();
        let others = self.candidates.iter().copied().filter(|engine| !self.might_stall(*engine, now_ms));
        let best = others.min_by(|one, other| cost(*one).total_cmp(&cost(*other)));
        let pays = |gain: f64| gain >= GAIN_MIN && gain * reading.processors() >= WORTH;
        best.filter(|best| pays(self.gain(load, self.current, *best))).unwrap_or(self.current)
    }

    /// The gain of `to` over `from`, as a part of the cost of `from`.
    fn gain(&self, load: Load, from: Engine, to: Engine) -> f64 {
        let cost = |engine: Engine| self.profile.estimate(load, engine).ratio + engine.risk();
        1.0 - cost(to) / cost(from)
    }

    fn change_to_better(&mut self, now_ms: u64, load: Load, best: Engine, reading: &Reading) -> Change {
        let gain = self.gain(load, self.current, best);
        let doubt = self.profile.estimate(load, best).doubt + self.profile.estimate(load, self.current).doubt;
        let because = format!(
            "{} is expected to cost {:.0} % less CPU per request than {} under {} load ({:.1} us a request now, {:.0} \
             requests a second; the estimate may be off by {:.0} %).",
            best.name(),
            gain * 100.0,
            self.current.name(),
            load.name(),
            reading.cost_us(),
            reading.requests_per_s(),
            doubt * 100.0
        );
        self.change(now_ms, best, because)
    }

    /// Whether this engine would make all requests wait for those that need the disk, which there have been of late.
    fn might_stall(&self, engine: Engine, now_ms: u64) -> bool {
        engine.stalls() && self.waited_ms.is_some_and(|at_ms| now_ms < at_ms + CALM_MS)
    }

    /// Leaves an engine that stalls.
    fn flee(&mut self, now_ms: u64, reading: &Reading) -> Option<Change> {
        let load = Load::Disk;
        let others = self.candidates.iter().copied().filter(|engine| !engine.stalls());
        let best = others.min_by(|one, other| {
            self.profile.estimate(load, *one).ratio.total_cmp(&self.profile.estimate(load, *other).ratio)
        })?;
        let (now, other) = (self.current.name(), best.name());
        let because = match reading.is_stalled() {
            true => format!(
                "the loops of {now} stood still for {} of {} ms, and all their connections with them; {other} does not.",
                reading.stalled_ms, reading.interval_ms
            ),
            false => {
                format!(
                    "requests have to wait for the disk, and {now} makes all others wait with them; {other} does not."
                )
            }
        };
        Some(self.change(now_ms, best, because))
    }

    /// An engine of which it is not known whether it is better, and which could be.
    fn begin_trial(&mut self, now_ms: u64, load: Load, reading: &Reading) -> Option<Change> {
        let lasts_ms = self.load.map_or(0, |(_, since_ms)| now_ms - since_ms);
        // Against a cost that is not the same from one reading to the next, nothing can be compared.
        let is_comparable = self.cost_us.count >= COMPARABLE && self.cost_us.doubt() <= AGREEING;
        if !TRIALS_MS.contains(&lasts_ms) || !is_comparable {
            return None;
        }
        let mine = self.profile.estimate(load, self.current);
        let best_case = |engine: Engine| {
            let theirs = self.profile.estimate(load, engine);
            let best_case = 1.0 - (theirs.ratio * (1.0 - theirs.doubt)) / (mine.ratio * (1.0 + mine.doubt));
            best_case + self.current.risk() - engine.risk()
        };
        let promising = |engine: &Engine| {
            let is_new = *engine != self.current && !self.tried.contains(&(load, *engine));
            let best_case = best_case(*engine);
            is_new
                && !self.might_stall(*engine, now_ms)
                && best_case > GAIN_MIN
                && best_case * reading.processors() > WORTH
        };
        let others = self.candidates.iter().copied().filter(promising);
        let engine = others.max_by(|one, other| best_case(*one).total_cmp(&best_case(*other)))?;
        self.tried.push((load, engine));
        let (home, home_cost_us, home_rate) = (self.current, self.cost_us, self.rate.value());
        let because = format!(
            "{} might cost less than {} under {} load ({:.1} us a request now): it is tried for {TRIAL_MS} ms.",
            engine.name(),
            home.name(),
            load.name(),
            home_cost_us.value()
        );
        let change = self.change(now_ms, engine, because);
        self.state = State::Trying(Trial { load, home, home_cost_us, home_rate, until_ms: now_ms + TRIAL_MS });
        Some(change)
    }

    /// Goes on with a trial, or ends it.
    fn try_on(&mut self, now_ms: u64, load: Load, trial: Trial) -> Option<Change> {
        let Trial { home, home_cost_us, home_rate, until_ms, .. } = trial;
        let tried = self.current;
        if load != trial.load {
            // What it costs under another load says nothing.
            return self.abandon_trial(now_ms, "the load has changed");
        }
        if home_cost_us.value() <= 0.0 || self.cost_us.count == 0 {
            return None;
        }
        let ratio = trial.ratio(self.cost_us.value(), self.rate.value());
        if now_ms < until_ms && ratio < SURELY_WORSE {
            return None;
        }
        self.profile.learn(load, home, tried, ratio, self.cost_us.doubt().hypot(home_cost_us.doubt()));
        self.state = State::Watching;
        let measured = format!(
            "a trial of {} under {} load cost {:.1} us a request at {:.0} a second, and {} {:.1} at {home_rate:.0}",
            tried.name(),
            load.name(),
            self.cost_us.value(),
            self.rate.value(),
            home.name(),
            home_cost_us.value(),
        );
        if self.gain(load, home, tried) >= GAIN_MIN {
            self.why = format!("{} serves because {measured}.", tried.name());
            self.changed = Some((now_ms, load));
            return None;
        }
        Some(self.change(now_ms, home, format!("{measured}: not worth a change.")))
    }

    fn abandon_trial(&mut self, now_ms: u64, why: &str) -> Option<Change> {
        let State::Trying(Trial { home, .. }) = self.state else { return None };
        let because = format!("{} goes on, the trial of {} being over: {why}.", home.name(), self.current.name());
        self.state = State::Watching;
        Some(self.change(now_ms, home, because))
    }

    fn change(&mut self, now_ms: u64, to: Engine, because: String) -> Change {
        self.current = to;
        self.changed = self.load.map(|(load, _)| (now_ms, load));
        self.settling = true;
        self.state = State::Watching;
        (self.cost_us, self.rate) = (Mean::default(), Mean::default());
        self.why = format!("{} serves because {because}", to.name());
        Change { to, because }
    }
}

impl Trial {
    /// The cost of the engine that is tried, as a multiple of that of the one before. It is measured in CPU time, or in
    /// requests that it did not answer, if these are more than uneven arrivals explain. Where the disk or the network
    /// bounds a server, the CPU time says little.
    fn ratio(&self, cost_us: f64, rate: f64) -> f64 {
        let (cost, slowness) = (cost_us / self.home_cost_us.value(), self.home_rate / rate.max(1.0));
        if slowness > 1.0 + RATE_DOUBT { cost.max(slowness) } else { cost }
    }
}

/// A mean over the readings since it began, the last few counting most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Mean {
    value: f64,
    /// Mean square of the distance to it.
    variance: f64,
    count: u32,
}

impl Mean {
    /// As many readings as count in full.
    const WINDOW: u32 = 10;
    /// However well a few readings agree, the next ones may differ by as much.
    const DOUBT_MIN: f64 = 0.015;

    fn add(&mut self, value: f64) {
        self.count = (self.count + 1).min(Mean::WINDOW);
        let (weight, off) = (1.0 / f64::from(self.count), value - self.value);
        self.value += off * weight;
        self.variance = (1.0 - weight) * (self.variance + off * off * weight);
    }

    fn value(self) -> f64 {
        self.value
    }

    /// By how much it may be off, as a part of it: its standard error.
    fn doubt(self) -> f64 {
        // Of one reading nothing is known.
        let Some(others) = self.count.checked_sub(1).filter(|others| *others > 0) else { return 1.0 };
        ((self.variance / f64::from(others)).sqrt() / self.value.max(1e-9)).max(Mean::DOUBT_MIN)
    }
}

#[cfg(test)]
mod six_phases;
#[cfg(test)]
mod tests;
