//! The learner at work: a thread that takes what serving threads tell, learns from it, and lets the cache know what is
//! likely next.
//!
//! Owns: the learner behind a lock that no serving thread takes, the queues, the file, and the thread, which lives as
//! long as the [`Learning`] is held. Guarantees: it looks forty times a second while requests come, and twice when none
//! have come for ten seconds, at low priority, and takes a bounded number of records each time; so what learning costs
//! is bounded whatever the load is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use lamna_config::hints::HintSettings;
use lamna_io::log::errors::{self, Level};
use lamna_policy::hints::{PrecacheCounts, Probability};
use lamna_sys::contain::contain;
use lamna_sys::shared_memory::SharedMemory;
use ring::rand::{SecureRandom, SystemRandom};

use super::counters::HintCounters;
use super::learner::{Learner, Named};
use super::observation::{Observation, Queues};
use super::saved;
use crate::cache::two_generation_map::Key;
use crate::cache::{Following, Predictions, Store};

/// How long the learner waits between two looks while requests come, when none have come for a second, and when none
/// have for ten.
pub(super) const LOOK_MS: u64 = 25;
const IDLE_LOOK_MS: u64 = 100;
const IDLE_LOOKS: u32 = 40;
const REST_LOOK_MS: u64 = 500;
const REST_LOOKS: u32 = 130;

/// Records that are taken in one look: of 20,000 requests a second at most is learned.
const RECORDS_MAX: usize = 512;

/// How often what was learned is written to its file.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// How often counts are halved, beside the halvings that come with many requests: what was so last month is not what is
/// so today.
const DECAY_INTERVAL: Duration = Duration::from_secs(7 * 24 * 3_600);

/// The priority of the thread (setpriority(2)): about a tenth of what a serving thread gets on the same processor.
const NICE: i32 = 10;

/// Views of a page after which its predictions are made anew, beside the powers of two.
const VIEWS_PER_PREDICTION: u16 = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Learning {
    pub(super) queues: Queues,
    learner: Mutex<Learner>,
    pub(super) counters: SharedMemory<HintCounters>,
    settings: HintSettings,
    store: Mutex<Weak<Store>>,
    /// The queue of files to read ahead of requests.
    ahead: (Sender<Ahead>, Receiver<Ahead>),
    /// The counts of files read ahead into the store, when they were last added to the sums.
    precached: Mutex<PrecacheCounts>,
    /// Where what was learned is kept; none if it is not, or not by this process.
    file: Option<PathBuf>,
    /// Whether this process is the one whose knowledge counts.
    keeps: AtomicBool,
    /// How often the learner has looked.
    looks: AtomicUsize,
    /// This process's share of the sums over all processes.
    told: [AtomicU64; 3],
}

/// A hint to the reader-ahead.
#[derive(Clone, Debug)]
pub enum Ahead {
    /// This is likely to be asked for, and is not in the cache.
    Likely(Likely),
    /// This page was asked for, and the cache has it: what it names will be.
    Page {
        /// The index of the site.
        site: u32,
        /// The path, normalised.
        path: Box<[u8]>,
    },
}

/// A likely next request.
#[derive(Clone, Debug)]
pub struct Likely {
    /// The index of the site.
    pub site: u32,
    /// The path, normalised.
    pub path: Arc<str>,
    /// How likely it is.
    pub probability: Probability,
}

/// Most entries of the queue of files to read ahead: more would come too late.
const AHEAD_MAX: usize = 64;

/// A page that was asked for.
struct Page {
    site: u32,
    site_number: u64,
    path: Box<[u8]>,
}

impl Learning {
    /// Goes on with what is `known`, as [`Learning::known`] gives it, or else with what `file` has, and keeps it there
    /// if it `is_keeper`.
    pub(super) fn open(
        settings: &HintSettings,
        file: Option<PathBuf>,
        is_keeper: bool,
        counters: SharedMemory<HintCounters>,
        known: Option<Vec<u8>>,
    ) -> Arc<Learning> {
        let bytes = usize::try_from(settings.bytes_max).unwrap_or(usize::MAX).saturating_sub(Queues::MEMORY_BYTES);
        let known = match known {
            Some(known) => saved::from_bytes(&known, bytes).ok(),
            None => file.as_ref().and_then(|file| read(file, bytes)),
        };
        let learner = known.unwrap_or_else(|| Learner::new(bytes, new_key()));
        Arc::new(Learning {
            queues: Queues::default(),
            learner: Mutex::new(learner),
            counters,
            settings: settings.clone(),
            store: Mutex::default(),
            ahead: bounded(AHEAD_MAX),
            precached: Mutex::default(),
            file: file.filter(|_| is_keeper),
            keeps: AtomicBool::new(true),
            looks: AtomicUsize::new(0),
            told: Default::default(),
        })
    }

    pub(super) fn settings(&self) -> &HintSettings {
        &self.settings
    }

    /// Begins to learn.
    ///
    /// # Errors
    /// No thread.
    pub(super) fn begin(self: &Arc<Learning>) -> std::io::Result<()> {
        self.tell_sizes(&self.lock());
        let learning = Arc::downgrade(self);
        thread::Builder::new().name("hints".to_owned()).spawn(move || work(&learning)).map(drop)
    }

    /// Gives predictions to `store` from now on.
    pub(super) fn attach(&self, store: &Arc<Store>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(store);
        // Its accounts are as old as it is, or begin now.
        *self.precached.lock().unwrap_or_else(PoisonError::into_inner) = store.precache_counts();
    }

    /// The learner, locked. Serving threads must not call it: it waits for the learner.
    pub(super) fn lock(&self) -> MutexGuard<'_, Learner> {
        // A panic in the middle of learning cannot have left anything that a later one minds: counts only.
        self.learner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The predictions for the page at `path`.
    pub(super) fn predictions(&self, site: u32, site_number: u64, path: &[u8]) -> Predictions {
        let store = self.store();
        predictions(&mut self.lock(), store.as_deref(), site, site_number, path)
    }

    pub(super) fn store(&self) -> Option<Arc<Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Learns from what has been told. How much that was.
    pub(super) fn look(&self) -> usize {
        let (mut records, mut pairs) = (0, 0);
        let mut pages: Vec<Page> = Vec::new();
        let mut learner = self.lock();
        // Another queue is the first each time, so that none has the room of others.
        let first = self.looks.fetch_add(1, Relaxed);
        for queue in Queues::all().map(|queue| Queues::of_connection((first + queue) as u64)) {
            while records < RECORDS_MAX
                && let Some(observation) = self.queues.take(queue)
            {
                records += 1;
                pairs += learner.learn(&observation);
                note_page(&mut pages, &observation);
            }
        }
        if records > 0 {
            self.counters.observations.fetch_add(records as u64, Relaxed);
            self.counters.pairs.fetch_add(pairs, Relaxed);
            self.tell_sizes(&learner);
        }
        if let Some(store) = self.store() {
            pages.iter().for_each(|page| self.handle_page(&mut learner, &store, page));
            self.tell_precached(&store);
        }
        records
    }

    /// A page was asked for: the cache is told what is likely next.
    fn handle_page(&self, learner: &mut Learner, store: &Store, page: &Page) {
        let key = Key { site: page.site, path: &page.path };
        let Some(entry) = store.lookup(key, 0) else { return };
        let predictions = predictions(learner, Some(store), page.site, page.site_number, &page.path);
        let visits = predictions.visits;
        if self.settings.reads_ahead {
            // Of one that finds no room is learned what follows it.
            let _ = self.ahead.0.try_send(Ahead::Page { site: page.site, path: page.path.clone() });
        }
        for one in predictions.following.iter().filter(|one| one.probability >= self.settings.probability_least) {
            let is_held = store.expect(Key { site: page.site, path: one.target.as_bytes() }, one.probability);
            if !is_held && self.settings.reads_ahead {
                let (site, path, probability) = (page.site, one.target.clone(), one.probability);
                // Where there is no room, more is likely than can be read in time.
                let is_refused = self.ahead.0.try_send(Ahead::Likely(Likely { site, path, probability })).is_err();
                self.counters.ahead_refused.fetch_add(is_refused.into(), Relaxed);
            }
        }
        let is_news = visits.is_power_of_two() || visits.is_multiple_of(VIEWS_PER_PREDICTION);
        if !predictions.following.is_empty() && (is_news || entry.predictions().is_none()) {
            self.counters.published.fetch_add(1, Relaxed);
            store.predict(key, &entry, Arc::new(predictions));
        }
    }

    /// Adds the sizes of this process's tables to the sums of all.
    fn tell_sizes(&self, learner: &Learner) {
        let HintCounters { urls, names, bytes, .. } = &*self.counters;
        let now = [learner.table.len(), learner.names.len(), learner.memory_bytes() + Queues::MEMORY_BYTES];
        for ((sum, told), now) in [urls, names, bytes].into_iter().zip(&self.told).zip(now) {
            // Modulo 2^64, as it may have become less.
            sum.fetch_add((now as u64).wrapping_sub(told.swap(now as u64, Relaxed)), Relaxed);
        }
    }

    /// Adds to the sums of all what has become of what was read ahead.
    fn tell_precached(&self, store: &Store) {
        if !self.settings.reads_ahead {
            return;
        }
        let now = store.precache_counts();
        let before = std::mem::replace(&mut *self.precached.lock().unwrap_or_else(PoisonError::into_inner), now);
        let HintCounters { ahead, ahead_used, ahead_wasted, ahead_evictions, ahead_evicted_again, .. } =
            &*self.counters;
        for (sum, now, before) in [
            (ahead, now.begun, before.begun),
            (ahead_used, now.used, before.used),
            (ahead_wasted, now.wasted, before.wasted),
            (ahead_evictions, now.evicted, before.evicted),
            (ahead_evicted_again, now.evicted_again, before.evicted_again),
        ] {
            sum.fetch_add(now.saturating_sub(before), Relaxed);
        }
    }

    /// The next file or page to read ahead, within `patience`.
    pub(super) fn next_ahead(&self, patience: Duration) -> Option<Ahead> {
        self.ahead.1.recv_timeout(patience).ok()
    }

    /// The learned state, for a successor that goes on with it.
    pub(super) fn known(&self) -> Vec<u8> {
        saved::to_bytes(&self.lock())
    }

    /// Writes what was learned to its file, if this process keeps it, by way of a file with this extension, which no
    /// other thread uses.
    pub(super) fn save(&self, extension: &str) {
        let Some(file) = self.file.as_ref().filter(|_| self.keeps.load(Relaxed)) else { return };
        if let Err(error) = saved::write(file, extension, &self.known()) {
            let file = file.display();
            errors::report(Level::Error, format_args!("what was learned for hints cannot be kept in {file}: {error}"));
        }
    }

    /// Another process goes on with what was learned: this one writes no more.
    pub(super) fn retire(&self) {
        self.keeps.store(false, Relaxed);
    }
}

impl Drop for Learning {
    fn drop(&mut self) {
        let HintCounters { urls, names, bytes, .. } = &*self.counters;
        for (sum, told) in [urls, names, bytes].into_iter().zip(&self.told) {
            sum.fetch_sub(told.load(Relaxed), Relaxed);
        }
    }
}

/// The life of the thread.
fn work(learning: &Weak<Learning>) {
    // On Linux this concerns the calling thread alone. If it may not, it goes on as it is.
    let _ = rustix::process::setpriority_process(None, NICE);
    let (mut idle_looks, mut saved, mut decayed) = (0, Instant::now(), Instant::now());
    let mut has_news = false;
    while let Some(learning) = learning.upgrade() {
        let records = contain("The last requests are not learned from.", || learning.look()).unwrap_or(0);
        has_news |= records > 0;
        idle_looks = if records > 0 { 0 } else { idle_looks + 1 };
        if decayed.elapsed() > DECAY_INTERVAL {
            decayed = Instant::now();
            learning.lock().table.decay();
        }
        if has_news && saved.elapsed() > SAVE_INTERVAL {
            (saved, has_news) = (Instant::now(), false);
            learning.save("saved");
        }
        // The last who holds it may be this one: it ends before it waits.
        drop(learning);
        thread::sleep(Duration::from_millis(pause_ms(idle_looks)));
    }
}

/// How long the learner waits after so many looks that have found nothing.
fn pause_ms(idle_looks: u32) -> u64 {
    match idle_looks {
        0..IDLE_LOOKS => LOOK_MS,
        IDLE_LOOKS..REST_LOOKS => IDLE_LOOK_MS,
        _ => REST_LOOK_MS,
    }
}

/// The learner saved in `file`; none if there is none, or it cannot be read, which is reported.
fn read(file: &Path, bytes: usize) -> Option<Learner> {
    let say = |why: &saved::Unreadable| {
        let file = file.display();
        let why = format!("what was learned before, in {file}, is not read: {why}");
        errors::tell(Level::Warning, format_args!("hints begin anew: {why}"));
    };
    saved::read(file, bytes)?.inspect_err(say).ok()
}

/// Notes the page that was asked for: once of those that were asked for since the last look.
fn note_page(pages: &mut Vec<Page>, observation: &Observation) {
    let path = observation.target();
    let is_it = |page: &Page| page.site == observation.site && *page.path == *path;
    if observation.is_page && !pages.iter().rev().take(8).any(is_it) {
        pages.push(Page { site: observation.site, site_number: observation.site_number, path: path.into() });
    }
}

fn predictions(learner: &mut Learner, store: Option<&Store>, site: u32, site_number: u64, path: &[u8]) -> Predictions {
    let (visits, named) = learner.following(site_number, path);
    let size_of = |path: &str| {
        let entry = store?.lookup(Key { site, path: path.as_bytes() }, 0)?;
        let is_found = entry.resource.status.0 == 200;
        is_found.then(|| entry.resource.variants.first().size)
    };
    let following = named.into_iter().map(|Named { path, probability, after_ms }| Following {
        bytes: size_of(&path),
        target: path,
        probability,
        after_ms,
    });
    Predictions { visits, following: following.collect() }
}

/// A secret key.
fn new_key() -> [u8; 16] {
    let mut key = [0; 16];
    // Without randomness numbers can be foreseen, which could spoil hints and nothing else.
    let _ = SystemRandom::new().fill(&mut key);
    key
}
