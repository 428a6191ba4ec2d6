//! The worth of hints to a cache: every policy over a trace, the `hinted` one, reading ahead, and oracles that know
//! what will be asked for.
//!
//! Owns: the experiment. Policies, table and budget are those of `lamna_policy`. A trace is read once: its first half
//! warms caches up and teaches the table, its second half counts, and the table goes on learning. So nothing is
//! predicted from the requests that are to be predicted.
//!
//! Traces of the project name no clients. So what belongs together is not known and has to be guessed from the order of
//! all requests: each request is taken to follow from each page requested in the [`Settings::window_s`] seconds before.
//! A server knows better (Referer, connections).
//!
//! A read ahead is done by the time of the next request, and the disk is always idle: the traces have less than one
//! request a second.

use std::collections::VecDeque;

use lamna_policy::cache::{Admission, Algorithm, Bounded, Hinted, ObjectId, Objective};
use lamna_policy::hints::{PrecacheBudget, Probability, Table, UrlId};

use crate::workload::{FileId, Trace};

/// The settings of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The cache, as a share of the data set.
    pub share: f64,
    /// Successors that are less likely are not expected, and not read ahead.
    pub probability_least: Probability,
    /// Reads ahead in vain, in thousandths of the reads needed.
    pub budget_per_mille: u16,
    /// Seconds for which a page may be what a request follows from.
    pub window_s: u64,
    /// Memory of the table.
    pub table_bytes: usize,
    /// Uses that a certain expectation counts as in the `hinted` policy.
    pub expected_uses: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            share: 1.0 / 3.0,
            probability_least: Probability::per_mille(200),
            budget_per_mille: 100,
            window_s: 10,
            table_bytes: 1 << 20,
            expected_uses: lamna_policy::cache::EXPECTED_USES,
        }
    }
}

/// The outcome of one way, over the second half of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct HintOutcome {
    /// The name of the trace.
    pub trace: String,
    /// A policy; `+filter` with the admission filter, `+ahead` with reads ahead.
    pub policy: String,
    /// Requests.
    pub requests: u64,
    /// Requests for files that had not been requested before.
    pub firsts: u64,
    /// Requests that did not wait for a read.
    pub hits: u64,
    /// Bytes of these, as a share.
    pub byte_hit_ratio: f64,
    /// Requests that waited for a read.
    pub waits: u64,
    /// Reads from disk, for requests and ahead of them.
    pub reads: u64,
    /// Reads ahead.
    pub ahead: u64,
    /// Reads ahead whose file was asked for while it was there.
    pub used: u64,
}

/// The way of reading ahead of requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// No reads ahead.
    Nobody,
    /// The table's likely successors, within the budget.
    Budget,
    /// Those successors of the table, however unlikely, that will be asked for within the window, and no others.
    KnowsWhich,
}

/// Runs every policy, the hinted one, both with reads ahead, and the oracles.
pub fn hint_outcomes(trace: &Trace, settings: &Settings) -> Vec<HintOutcome> {
    let total: u64 = trace.sizes.iter().sum();
    let bound = (total as f64 * settings.share) as u64;
    let mean = (total / trace.sizes.len().max(1) as u64).max(1);
    let mut outcomes = Vec::new();
    let hinted = || {
        let policy = Hinted::new(Objective::Requests).with_expected_uses(settings.expected_uses);
        Bounded::of_policy(Box::new(policy), bound)
    };
    let mut add = |policy: String, cache: Bounded, ahead: Ahead| {
        let outcome = Drive::new(trace, settings, cache, ahead).run();
        outcomes.push(HintOutcome { trace: trace.name.clone(), policy, ..outcome });
    };
    for algorithm in Algorithm::ALL {
        let cache = || Bounded::new(algorithm, Objective::Requests, bound);
        let filter = Admission::new(Objective::Requests, bound / 10, bound / mean * 10);
        add(algorithm.name().into(), cache(), Ahead::Nobody);
        add(format!("{algorithm}+filter"), cache().with_admission(filter), Ahead::Nobody);
    }
    add("hinted".into(), hinted(), Ahead::Nobody);
    add("hinted+ahead".into(), hinted(), Ahead::Budget);
    add("oracle of the table".into(), hinted(), Ahead::KnowsWhich);
    for (policy, oracle) in [
        ("belady-size", Oracle::Evicts),
        ("oracle of files asked for before", Oracle::ReadsAheadKnown),
        ("oracle of all files", Oracle::ReadsAheadAll),
    ] {
        let outcome = clairvoyant(trace, bound, oracle);
        outcomes.push(HintOutcome { trace: trace.name.clone(), policy: policy.into(), ..outcome });
    }
    outcomes
}

/// As CSV.
pub fn hint_outcomes_csv(outcomes: &[HintOutcome]) -> String {
    let mut text = String::from("trace,policy,requests,firsts,hit_ratio,byte_hit_ratio,waits,reads,ahead,used\n");
    for o in outcomes {
        let ratio = o.hits as f64 / o.requests.max(1) as f64;
        text.push_str(&format!(
            "{},{},{},{},{ratio:.4},{:.4},{},{},{},{}\n",
            o.trace, o.policy, o.requests, o.firsts, o.byte_hit_ratio, o.waits, o.reads, o.ahead, o.used
        ));
    }
    text
}

/// The counts of one way, as they grow.
#[derive(Default)]
struct Tally {
    requests: u64,
    firsts: u64,
    hits: u64,
    bytes: u64,
    bytes_hit: u64,
    waits: u64,
    reads: u64,
    ahead: u64,
    used: u64,
}

impl Tally {
    fn count(&mut self, size: u64, hit: bool, is_first: bool) {
        self.requests += 1;
        self.firsts += u64::from(is_first);
        self.hits += u64::from(hit);
        self.bytes += size;
        self.bytes_hit += if hit { size } else { 0 };
        self.waits += u64::from(!hit);
        self.reads += u64::from(!hit);
    }

    fn outcome(&self) -> HintOutcome {
        HintOutcome {
            trace: String::new(),
            policy: String::new(),
            requests: self.requests,
            firsts: self.firsts,
            hits: self.hits,
            byte_hit_ratio: self.bytes_hit as f64 / self.bytes.max(1) as f64,
            waits: self.waits,
            reads: self.reads,
            ahead: self.ahead,
            used: self.used,
        }
    }
}

struct Drive<'a> {
    trace: &'a Trace,
    settings: &'a Settings,
    cache: Bounded,
    ahead: Ahead,
    table: Table,
    budget: PrecacheBudget,
    asked: Vec<bool>,
    /// Pages asked for within the window, with what each was followed by.
    pages: VecDeque<(u64, FileId, Vec<FileId>)>,
    tally: Tally,
}

fn url(file: FileId) -> UrlId {
    // The number above what `of_hash` takes for none; the table mixes it.
    UrlId::of_hash(u64::from(file) + 2)
}

fn file(url: UrlId) -> FileId {
    (url.hash() - 2) as FileId
}

impl<'a> Drive<'a> {
    fn new(trace: &'a Trace, settings: &'a Settings, cache: Bounded, ahead: Ahead) -> Self {
        let files = trace.sizes.len();
        Drive {
            trace,
            settings,
            cache,
            ahead,
            table: Table::new(settings.table_bytes, 1),
            budget: PrecacheBudget::new(settings.budget_per_mille, settings.probability_least),
            asked: vec![false; files],
            pages: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    fn run(mut self) -> HintOutcome {
        let trace = self.trace;
        for (number, &(seconds, file)) in trace.requests.iter().enumerate() {
            if number == trace.requests.len() / 2 {
                self.tally = Tally::default();
            }
            self.request(file);
            self.learn(seconds, file);
            if trace.is_page[file as usize] {
                self.foresee(number, seconds, file);
            }
        }
        self.tally.outcome()
    }

    fn request(&mut self, file: FileId) {
        let size = self.trace.sizes[file as usize];
        let hit = self.cache.request(ObjectId(file));
        let is_first = !std::mem::replace(&mut self.asked[file as usize], true);
        self.tally.count(size, hit, is_first);
        let used = self.budget.counts().used;
        self.budget.handle_request(ObjectId(file), hit, 1);
        self.tally.used += self.budget.counts().used - used;
        if !hit {
            // A request asked for it: that is a use, whatever was expected.
            self.cache.expect(ObjectId(file), Probability::default());
            let _ = self.cache.offer(ObjectId(file), size, |_| ());
        }
    }

    fn read_ahead(&mut self, object: ObjectId, size: u64, probability: Probability) {
        self.tally.ahead += 1;
        self.tally.reads += 1;
        self.budget.handle_begun(object, 1);
        self.cache.expect(object, probability);
        let budget = &mut self.budget;
        let _ = self.cache.offer(object, size, |gone| budget.handle_evicted(gone, object));
    }

    fn learn(&mut self, seconds: u64, file: FileId) {
        self.table.visit(url(file));
        while self.pages.front().is_some_and(|&(since, ..)| since + self.settings.window_s < seconds) {
            self.pages.pop_front();
        }
        for (since, page, followed) in &mut self.pages {
            if *page != file && !followed.contains(&file) {
                followed.push(file);
                let after_ms = seconds.saturating_sub(*since) * 1_000;
                self.table.follow(url(*page), url(file), after_ms as u32);
            }
        }
        if self.trace.is_page[file as usize] {
            self.pages.push_back((seconds, file, Vec::new()));
        }
    }

    /// `page` was asked for: what will be next?
    fn foresee(&mut self, number: usize, seconds: u64, page: FileId) {
        let successors: Vec<_> = self.table.successors(url(page)).collect();
        for successor in successors {
            let next = file(successor.url);
            let (object, size) = (ObjectId(next), self.trace.sizes[next as usize]);
            let (probability, is_to_come) = match self.ahead {
                Ahead::KnowsWhich => (Probability::CERTAIN, self.will_come(number, seconds, next)),
                _ => (successor.probability, successor.probability >= self.settings.probability_least),
            };
            if !is_to_come {
                continue;
            }
            if self.cache.holds(object) {
                self.cache.expect(object, probability);
                continue;
            }
            let is_allowed = match self.ahead {
                Ahead::Nobody => false,
                Ahead::Budget => {
                    self.budget.allows(probability, 1, true) && self.cache.deserves_room(size, probability)
                }
                Ahead::KnowsWhich => size <= self.cache.bound_bytes(),
            };
            if is_allowed {
                self.read_ahead(object, size, probability);
            }
        }
    }

    fn will_come(&self, number: usize, seconds: u64, next: FileId) -> bool {
        let later = self.trace.requests[number + 1..].iter();
        later.take_while(|(at, _)| *at <= seconds + self.settings.window_s).any(|(_, file)| *file == next)
    }
}

/// The use that an oracle makes of its knowledge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Oracle {
    /// Evicts by what it knows.
    Evicts,
    /// The same, and each file that was asked for before is there when it is asked for again.
    ReadsAheadKnown,
    /// The same with files that have not been requested before.
    ReadsAheadAll,
}

/// Belady (1966) with files of different sizes: of those that are held, the one goes whose size times the distance to
/// its next use is largest ("Belady-Size": Berger, Beckmann, Harchol-Balter: "Practical bounds on optimal caching with
/// variable object sizes", SIGMETRICS 2018). With equal sizes no order has fewer reads. With these it is no bound, only
/// hard to beat; the optimum cannot be computed in reasonable time. Reading ahead, just in time, makes no request wait
/// for the same reads, and adds none.
fn clairvoyant(trace: &Trace, bound: u64, oracle: Oracle) -> HintOutcome {
    let files = trace.sizes.len();
    let mut next_use = vec![usize::MAX; trace.requests.len()];
    let mut last = vec![usize::MAX; files];
    for (number, &(_, file)) in trace.requests.iter().enumerate().rev() {
        next_use[number] = std::mem::replace(&mut last[file as usize], number);
    }
    // Files that are held, with when they are needed next.
    let mut held: Vec<(usize, FileId)> = Vec::new();
    let mut asked = vec![false; files];
    let (mut bytes, mut tally) = (0, Tally::default());
    for (number, &(_, file)) in trace.requests.iter().enumerate() {
        if number == trace.requests.len() / 2 {
            tally = Tally::default();
        }
        let (size, next) = (trace.sizes[file as usize], next_use[number]);
        let is_held = held.iter().position(|&(_, other)| other == file).map(|at| held.swap_remove(at)).is_some();
        bytes -= if is_held { size } else { 0 };
        let is_first = !std::mem::replace(&mut asked[file as usize], true);
        let is_ahead = match oracle {
            Oracle::Evicts => false,
            Oracle::ReadsAheadKnown => !is_first,
            Oracle::ReadsAheadAll => true,
        };
        tally.count(size, is_held || is_ahead, is_first);
        if !is_held && is_ahead {
            (tally.reads, tally.ahead, tally.used) = (tally.reads + 1, tally.ahead + 1, tally.used + 1);
        }
        // What is never needed again goes at once.
        if next < usize::MAX {
            held.push((next, file));
            bytes += size;
        }
        while bytes > bound {
            let worst = |&(_, &(next, file)): &(usize, &(usize, FileId))| {
                (trace.sizes[file as usize].saturating_mul((next - number) as u64), file)
            };
            // Something is held, since more than nothing is.
            let Some((at, _)) = held.iter().enumerate().max_by_key(worst) else { break };
            let (_, victim) = held.swap_remove(at);
            bytes -= trace.sizes[victim as usize];
        }
    }
    tally.outcome()
}
