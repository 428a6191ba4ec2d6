//! The shared store: all that has been found out about targets, and the threads that work on it.
//!
//! Owns: the entries of all workers of a process, who looks for which of them, the threads that make codings of them,
//! and the one that watches their directories. Guarantees: no lock is held across a system call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_config::cache_policy::Policy;
use lamna_config::cache_switches::CacheSwitches;
use lamna_io::page_cache::mapped_chunks::Chunks;
use lamna_io::page_cache::residency_predictor::ResidencyPredictor;
use lamna_policy::hints::{PrecacheCounts, Probability};
use lamna_proto::held::Held;
use lamna_proto::resource::Resource;
use lamna_sys::memory::{memory_bytes, work_bytes_max};
use lamna_sys::metrics::memory_accounting::Reservation;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_sys::prefetch::Ahead;
use lamna_sys::shared_memory::SharedMemory;

use super::answer::{self, StoredResponse};
use super::answer_flights::AnswerFlights;
use super::answer_key::is_of_target;
use super::compressor::Compressor;
use super::counters::Counters;
use super::entry::Entry;
use super::freshness::RECHECK_MS_MIN;
use super::headroom::Headroom;
use super::predictions::Predictions;
use super::replacement::Replacing;
use super::shard::Depth;
use super::shards::{self, ShardHash, Shards};
use super::single_flight::SingleFlight;
use super::two_generation_map::Key;
use super::watch::{WatchRequest, Watcher};
use super::ways::Ways;
use crate::upstream::background::Background;

/// The shared store.
#[derive(Debug)]
pub struct Store {
    shards: Arc<Shards>,
    compressor: Compressor,
    watcher: Option<Watcher>,
    flights: SingleFlight,
    replaces_page_cache: bool,
    headroom: Option<Headroom>,
    caches: CacheSwitches,
    chunks: Chunks,
    residency_predictor: ResidencyPredictor,
    /// Fronts that there are.
    local_caches: AtomicU64,
    /// Answers of applications that are being asked for.
    answer_flights: AnswerFlights,
    /// The ways of the keys of these answers.
    ways: Ways,
    /// Upstream requests without a client.
    background: Background,
    /// The last number of a note.
    last_number: AtomicU64,
    /// The empty resource of entries that are never served.
    nothing: Arc<Resource>,
}

/// Bounds of a store.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes held, the store's own structures included.
    pub bytes_max: u64,
    /// Open files.
    pub descriptors_max: u64,
    /// Entries, if their number is bounded.
    pub entries_max: Option<usize>,
}

impl Store {
    /// An empty store of at most `bytes_max` bytes, its own structures included, and `descriptors_max` open files, that
    /// watches nothing.
    pub fn new(bytes_max: u64, descriptors_max: u64) -> Store {
        Store::with(
            Bounds { bytes_max, descriptors_max, entries_max: None },
            Policy::default(),
            None,
            SharedMemory::default(),
        )
    }

    /// An empty store within `bounds` that does what `replacing` and `watcher` say, and counts what it does in
    /// `counters`.
    pub fn with(
        bounds: Bounds,
        replacing: impl Into<Replacing>,
        watcher: Option<Watcher>,
        counters: SharedMemory<Counters>,
    ) -> Store {
        let Bounds { bytes_max, descriptors_max, entries_max } = bounds;
        let shards = Arc::new(Shards::new(bytes_max, descriptors_max, entries_max, replacing.into()));
        let compressor = Compressor::new(shards.clone(), counters);
        // Threads that serve can no longer ask.
        work_bytes_max();
        Store {
            chunks: Chunks::new(bytes_max / CHUNK_SHARE, shards.memory_account()),
            residency_predictor: ResidencyPredictor::new(memory_bytes()),
            shards,
            compressor,
            watcher,
            flights: SingleFlight::default(),
            replaces_page_cache: false,
            headroom: None,
            caches: CacheSwitches::ALL,
            local_caches: AtomicU64::new(0),
            answer_flights: AnswerFlights::default(),
            ways: Ways::default(),
            background: Background::default(),
            last_number: AtomicU64::new(1),
            nothing: answer::nothing(),
        }
    }

    /// The same, which holds content in the place of the page cache if `replaces_page_cache`: what is read for it from
    /// the disk does not stay there as well. Only for a store that has most of the memory that there is, and whose
    /// server has no other.
    pub fn alone(self, replaces_page_cache: bool) -> Store {
        Store { replaces_page_cache, ..self }
    }

    /// The same; files that it has no room for stay in the page cache while memory is free.
    pub fn with_headroom(self, headroom: Option<Headroom>) -> Store {
        Store { headroom, ..self }
    }

    /// Whether it holds content in the place of the page cache.
    pub fn replaces_page_cache(&self) -> bool {
        self.replaces_page_cache
    }

    /// Whether `bytes` bytes that were read from the disk for `key` should stay in the page cache, though the store
    /// holds content alone: if they were read before not long ago, so that they may have to be read once more, and the
    /// memory is free.
    pub fn keeps_in_page_cache(&self, key: Key<'_>, bytes: u64) -> bool {
        self.headroom.as_ref().is_some_and(|headroom| self.shards.remembers(key) && headroom.has(bytes))
    }

    /// The same, of which only `caches` are in use.
    pub fn with_caches(self, caches: CacheSwitches) -> Store {
        Store { caches, ..self }
    }

    /// The caches that are in use.
    pub fn caches(&self) -> CacheSwitches {
        self.caches
    }

    /// Chunks of large files.
    pub fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// Which ranges of files are likely to be in memory.
    pub fn residency_predictor(&self) -> &ResidencyPredictor {
        &self.residency_predictor
    }

    /// Files up to this many bytes are held in memory with their head: none while connections hold as much as they may.
    pub fn content_bytes_max(&self) -> u64 {
        if self.is_over_budget() {
            return 0;
        }
        Store::content_bytes_max_of(self.bytes_max(), self.caches)
    }

    /// The same of a store of `bytes_max` bytes: what is too large to be kept is not read into memory either, and
    /// nothing is if content is not cached.
    pub fn content_bytes_max_of(bytes_max: u64, caches: CacheSwitches) -> u64 {
        if caches.content { CONTENT_BYTES_MAX.min(Store::object_bytes_max(bytes_max)) } else { 0 }
    }

    /// The largest object that makes sense in a store of `bytes_max` bytes: larger ones would push too much out.
    pub fn object_bytes_max(bytes_max: u64) -> u64 {
        bytes_max / shards::count(bytes_max) / OBJECT_SHARE
    }

    /// The entry of `key`, however old, which was used `uses` times since it was last asked for.
    pub fn lookup(&self, key: Key<'_>, uses: u32) -> Option<Arc<Entry>> {
        let _step = step_timer::step(Step::Synchronize);
        self.shards.lookup(key, uses)
    }

    /// The shard of `key`, and what a lookup reads there first.
    pub(super) fn shard_hash(&self, key: Key<'_>, ahead: &mut Ahead) -> ShardHash {
        self.shards.shard_hash(key, ahead)
    }

    /// Says what a lookup reads there at `depth`.
    pub(super) fn prefetch(&self, shard_hash: ShardHash, depth: Depth, ahead: &mut Ahead) {
        self.shards.prefetch(shard_hash, depth, ahead);
    }

    /// The holder of the entries.
    pub(super) fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Entries held, at the last count.
    pub(super) fn entries(&self) -> u64 {
        self.shards.entries()
    }

    /// Keeps `entry`, if the policy finds it worth it.
    pub fn insert(&self, key: Key<'_>, entry: Arc<Entry>) {
        let _step = step_timer::step(Step::Synchronize);
        self.shards.insert(key, entry);
    }

    /// Keeps what an application has answered. What was there is not used any more.
    pub fn keep_answer(&self, key: Key<'_>, entry: Arc<Entry>) {
        let _step = step_timer::step(Step::Synchronize);
        if let Some(before) = self.shards.lookup(key, 0) {
            before.retire();
        }
        self.shards.insert(key, entry);
    }

    /// The same of something that is no answer: that there is none to be shared, or where answers are.
    pub fn keep_note(&self, key: Key<'_>, kept: StoredResponse) {
        self.keep_answer(key, Arc::new(Entry::of_stored_response(self.nothing.clone(), kept)));
    }

    /// The ways by which trusted proxies have asked for answers that may be kept.
    pub fn ways(&self) -> &Ways {
        &self.ways
    }

    /// Drops the answer kept for `key`, and voids each request for it that is under way, whichever variant it is for.
    pub fn invalidate_answer(&self, key: Key<'_>) {
        self.answer_flights.void(&|other| other.site == key.site && is_of_target(other.path, key.path));
        self.shards.remove(key);
    }

    /// The same of all answers of which `is_meant` holds. How many that were.
    pub fn purge_answers(&self, is_meant: &dyn Fn(Key<'_>) -> bool) -> usize {
        self.answer_flights.void(is_meant);
        self.shards.remove_where(&|key, entry| entry.stored_response().is_some() && is_meant(key))
    }

    /// Everything whose path in `site` begins with `prefix` may have changed.
    pub fn handle_change_beneath(&self, site: u32, prefix: &[u8]) {
        self.shards.remove_where(&|key, entry| {
            if key.site == site && key.path.starts_with(prefix) {
                entry.handle_change();
            }
            false
        });
    }

    /// Services have changed: what was made with them is made again before it is used again, and kept answers are asked
    /// for again.
    pub fn handle_services(&self) -> usize {
        self.answer_flights.void(&|_| true);
        self.shards.remove_where(&|_, entry| {
            let is_made_with = entry.services_mark() != 0;
            if is_made_with {
                // Private caches may have it as well.
                entry.handle_change();
            }
            is_made_with || entry.stored_response().is_some()
        })
    }

    /// A number that no other note has.
    pub fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Relaxed)
    }

    /// Which answers are being asked for.
    pub fn answer_flights(&self) -> &AnswerFlights {
        &self.answer_flights
    }

    /// The runner of upstream requests without a client.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// The largest answer that makes sense here.
    pub fn answer_bytes_max(&self) -> u64 {
        if self.is_over_budget() || !self.caches.content { 0 } else { Store::object_bytes_max(self.bytes_max()) }
    }

    /// Counts what `entry` holds, though it is not kept, for as long as anybody holds anything of it.
    pub fn count(&self, entry: &Entry) {
        self.shards.count(entry);
    }

    /// Whether connections hold as much as they may ([`HELD_SHARE_MAX`](lamna_proto::limits::HELD_SHARE_MAX)).
    pub fn is_over_budget(&self) -> bool {
        self.shards.is_over_budget()
    }

    /// The counter of bytes that connections hold in buffers of their own.
    pub fn parked(&self) -> Arc<Held> {
        self.shards.memory_account().parked().clone()
    }

    /// Runs `find` for one of all threads that ask for `key` at the same time; the others get its result. Blocks as
    /// long as `find` does.
    pub fn find_once(&self, key: Key<'_>, find: impl FnOnce() -> Arc<Entry>) -> Arc<Entry> {
        let _step = step_timer::step(Step::Synchronize);
        self.flights.find_once(key, find)
    }

    /// Has the requested codings of `entry` made, somewhere else.
    pub fn make_requested_codings(&self, key: Key<'_>, entry: &Arc<Entry>) {
        self.compressor.submit(key, entry);
    }

    /// `key` will be asked for soon with this probability, as far as anybody knows. Whether it is held: then the policy
    /// keeps it longer, if it goes by that.
    pub fn expect(&self, key: Key<'_>, probability: Probability) -> bool {
        self.shards.expect(key, probability)
    }

    /// From now on so much may be read ahead of requests, in thousandths of the reads needed, of what is so likely; or
    /// nothing. Each shard has an account of its own (`lamna_policy::hints::PrecacheBudget`).
    pub fn set_precache(&self, precache: Option<(u16, Probability)>) {
        self.shards.set_precache(precache);
    }

    /// Whether `key`, which is not held, may be read ahead of requests: the budget allows it, and it is worth more than
    /// what would have to go.
    pub fn allows_ahead(&self, key: Key<'_>, probability: Probability) -> bool {
        !self.is_over_budget() && self.shards.allows_ahead(key, probability)
    }

    /// Keeps `entry`, which was read ahead of requests, if it deserves room. Whether it is kept.
    pub fn insert_ahead(&self, key: Key<'_>, entry: Arc<Entry>, probability: Probability) -> bool {
        self.shards.insert_ahead(key, entry, probability)
    }

    /// Whether `key` was read ahead and has not been asked for since.
    pub fn is_ahead(&self, key: Key<'_>) -> bool {
        self.shards.is_ahead(key)
    }

    /// Counts of entries read ahead.
    pub fn precache_counts(&self) -> PrecacheCounts {
        self.shards.precache_counts()
    }

    /// `predictions` say what follows `entry`, which is kept under `key`.
    pub fn predict(&self, key: Key<'_>, entry: &Arc<Entry>, predictions: Arc<Predictions>) {
        entry.set_predictions(predictions);
        self.shards.weigh_again(key, entry);
    }

    /// Whether `entry` is to be watched and that has not been requested yet: true once.
    pub fn should_watch(&self, entry: &Entry) -> bool {
        self.watcher.is_some() && entry.wants_watch()
    }

    /// Has an entry watched that should be, somewhere else.
    pub fn watch(&self, request: WatchRequest) {
        if let Some(watcher) = &self.watcher {
            watcher.submit(request);
        }
    }

    /// Room for `bytes` bytes of something else than entries, for which the store will make some. Nothing if more than
    /// one part in `share` of it were lent then.
    pub fn lend(&self, bytes: u64, share: u64) -> Option<Reservation> {
        self.shards.lend(bytes, share)
    }

    /// When the watcher last had nothing left to tell, in the server's milliseconds.
    pub(super) fn awake_ms(&self) -> u64 {
        self.watcher.as_ref().map_or(0, Watcher::awake_ms)
    }

    /// How long after a comparison an entry that is watched is used.
    pub(super) fn recheck_ms(&self) -> u64 {
        self.entries().max(RECHECK_MS_MIN)
    }

    /// Goes over to another replacement policy with everything that is kept.
    pub fn change_policy(&self, policy: Policy) {
        self.shards.change_policy(policy);
    }

    /// Lets go of everything, because descriptors or memory are needed elsewhere. What is in use lives on in the hands
    /// of its users.
    pub fn clear(&self) {
        self.shards.clear();
        self.chunks.clear();
    }

    /// Bytes of memory of all entries that are alive, kept here or not, and of the store's structures.
    pub fn bytes(&self) -> u64 {
        self.shards.bytes()
    }

    /// Bytes that the store may hold.
    pub fn bytes_max(&self) -> u64 {
        self.shards.bytes_max
    }

    /// Entries held.
    pub fn len(&self) -> usize {
        self.shards.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more local cache.
    pub fn count_local_cache(&self) {
        self.local_caches.fetch_add(1, Relaxed);
    }

    /// One less.
    pub fn forget_local_cache(&self) {
        self.local_caches.fetch_sub(1, Relaxed);
    }

    /// Bytes that one local cache may hold on to, if all together may hold on to one part in `share` of the store.
    pub(super) fn front_bytes(&self, share: u64) -> u64 {
        self.shards.bytes_max / share / self.local_caches.load(Relaxed).max(1)
    }
}

/// The largest content that is held in memory; larger files are sent from the page cache.
const CONTENT_BYTES_MAX: u64 = 256 * 1024;
/// The part of the store that mapped chunks may take, as a divisor.
const CHUNK_SHARE: u64 = 4;
/// The part of a shard that one object may take, as a divisor.
const OBJECT_SHARE: u64 = 8;
