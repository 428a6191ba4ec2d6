//! Per-worker state, the same for every architecture: the worker's L1 cache ([`LocalCache`]), clock readings, log
//! buffer and counters.
//!
//! Owns: looking targets up, and reporting what was answered. Guarantees: takes no lock that another worker waits for,
//! except when the local cache has to ask the store. Does not wait, receive or send.

mod answers;
mod asked;
mod early_hints;
mod record;
mod responders;
mod sampling;
mod scripts;
mod send_permit;
mod steps;
mod target;
mod trace;

use responders::RESPONDING;
use steps::{Chosen, STEPS};

pub use asked::Asked;
pub use responders::needs_program;
pub use steps::Outcome;
pub use target::{Sources, TranslationTarget};
pub use trace::{Traced, target_of};

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use lamna_config::cache_switches::CacheSwitches;
use lamna_config::proxies::Peer;
use lamna_io::Wait;
use lamna_io::listen::Listener;
use lamna_io::log::{AccessLog, LogBuffer};
use lamna_io::send::Sender;
use lamna_proto::counter::{CounterSet, add};
use lamna_proto::exchange::RequestedResource;
use lamna_proto::resource::{Representation, Resource};
use lamna_proto::tally::Tally;
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use lamna_site::cache::{Entry, LocalCache, Lookup, LookupPrefetch, WatchRequest};
use lamna_site::content::access::Known;
use lamna_site::content::maintenance::Maintenance;
use lamna_site::content::route::{Clearance, Effective};
use lamna_site::content::translate::{Translation, translate};
use lamna_site::hints::{RequestSample, Sampler};
use lamna_sys::clock::unix_ms;
use lamna_sys::contain::{Point, fail_if_asked};
use lamna_sys::metrics::counters::Work;
use lamna_sys::metrics::scoreboard::WorkerScore;
use lamna_sys::metrics::stall::stall_ms;
use lamna_sys::metrics::step_timer::{self, Step};
use lamna_tls::Over;

use crate::worker::cache_key::{CacheKey, CacheKeyParts, CacheKeys};
use crate::worker::context::early_hints::KnownPages;
use crate::worker::limiter::{Exceeded, rate_limits::RateLimits};
use crate::worker::shared::Shared;
use crate::worker::turn_budget::Handshakes;
use crate::worker::uplink::SendPermit;

/// A worker's own things.
pub struct WorkerContext<'a> {
    /// State that it shares with the other workers.
    pub shared: &'a Shared,
    /// The time of the last look at the clock.
    pub now: Instant,
    /// The sender, through which it sends.
    pub sender: Sender<'a>,
    local: LocalCache,
    lookup_prefetch: LookupPrefetch,
    caches: CacheSwitches,
    /// The last entry that was described anew, where the cache of entries is off.
    last_described: Option<Arc<Entry>>,
    /// Every request is answered with 503.
    refuses: bool,
    /// The steps that may admit, refuse or answer a request under this configuration.
    admission: Chosen,
    responding: Chosen,
    log: Option<LogBuffer>,
    unix_ms: u64,
    flushed: Instant,
    /// Counts of work done here that have not been handed over yet.
    work: Work,
    /// The tally of answers given with the workspaces of this context.
    tally: Arc<Tally>,
    /// When the batch of work began.
    begun: Instant,
    /// Answers may have left that have not been handed over.
    has_sent: bool,
    /// Steps of handshakes that may still be taken in this batch.
    pub handshakes: Handshakes,
    /// How its connections get permits to send.
    pub send_permit: SendPermit,
    /// The last answer that is kept nowhere else: a redirect to https, the answer to a challenge, the answer to
    /// OPTIONS.
    passing: Option<Arc<Resource>>,
    /// The last answer to a request over a limit, with the index of its site, the number of its rules and the limit.
    limited: Option<((u32, u32, Exceeded), Arc<Resource>)>,
    /// The sites in maintenance.
    maintenance: Maintenance,
    /// The last answer to a request to one, with the index of its site, the number of its rules and the version of the
    /// orders.
    unavailable: Option<((u32, u32, u64), Arc<Resource>)>,
    /// The rates that limits set for the answer to the last request.
    pub rate_limits: Option<Box<RateLimits>>,
    cache_keys: CacheKeys,
    /// Buffer for the keys of answers of applications.
    answer_key: Vec<u8>,
    /// Room for the path that an application is asked for.
    asked_path: Vec<u8>,
    /// Room for what trusted proxies tell an application besides.
    told_way: Vec<u8>,
    /// Passwords that were verified.
    known: Known,
    sampler: Sampler,
    /// The pages for which resources are hinted.
    pages: KnownPages,
    /// The connection that is driven.
    connection: u64,
}

/// A range of a file to be made ready.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The representation that it belongs to.
    pub representation: Arc<Representation>,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// The result of looking up a target.
#[derive(Debug)]
pub enum Found<'a> {
    /// Answer with it.
    Fresh(&'a Arc<Entry>),
    /// Answer with it, and compare it with the file system soon.
    Aging(&'a Arc<Entry>, TranslationTarget),
    /// It has to be translated first.
    Missing(TranslationTarget),
}

/// The answer to a request that is found in line.
pub struct InLine {
    /// The word about it; never that something is to be looked up.
    pub outcome: Outcome,
    /// The outcome of the routes.
    pub rules: Arc<Effective>,
    /// The target, and what it stands for, if that was asked.
    pub found: Option<(TranslationTarget, Arc<Entry>)>,
}

/// How often log lines and counters are handed over: whenever the clock shows a multiple of it, so that a reader of the
/// counters finds in between the same number of reports of every worker.
pub const FLUSH_MS: u64 = 500;

impl<'a> WorkerContext<'a> {
    /// The things of a worker that begins.
    pub fn new(shared: &'a Shared) -> WorkerContext<'a> {
        let now = shared.clock.now();
        let log = shared.log.as_deref().map(AccessLog::buffer);
        shared.store.count_local_cache();
        let (unix_ms, local) = (unix_ms(), LocalCache::new(&shared.store));
        let sender =
            Sender::new(shared.sending, shared.store.chunks(), shared.store.residency_predictor(), &shared.abilities);
        WorkerContext {
            shared,
            now,
            sender,
            local,
            lookup_prefetch: LookupPrefetch::default(),
            caches: shared.store.caches(),
            last_described: None,
            refuses: false,
            admission: Chosen::of(STEPS, shared),
            responding: Chosen::of(RESPONDING, shared),
            log,
            unix_ms,
            flushed: now,
            work: Work::default(),
            tally: Arc::default(),
            begun: now,
            has_sent: false,
            handshakes: Handshakes::default(),
            send_permit: if shared.uplink.is_some() { SendPermit::BySleep } else { SendPermit::Unlimited },
            passing: None,
            limited: None,
            maintenance: Maintenance::new(&shared.sites, &shared.operator_state),
            unavailable: None,
            rate_limits: None,
            cache_keys: CacheKeys::default(),
            answer_key: Vec::new(),
            asked_path: Vec::new(),
            told_way: Vec::new(),
            known: Known::default(),
            sampler: Sampler::new(shared.hints.as_deref()),
            pages: KnownPages::default(),
            connection: 0,
        }
    }

    /// A workspace for the connections of this worker.
    pub fn workspace(&self) -> Box<Workspace> {
        let Shared { limits, sites, sending, .. } = self.shared;
        let copy_bytes_max = sending.message_copy_bytes_max;
        let mut workspace = Workspace::new(limits.clone(), sites.clone(), copy_bytes_max, self.unix_ms / 1000);
        // Each has keys of its own.
        workspace.number_requests(RandomState::new().build_hasher().finish());
        if self.shared.request_id {
            workspace.tell_ids(!self.shared.proxies.is_empty());
        }
        workspace.count_in(self.tally.clone());
        workspace.count_held_in(self.shared.store.parked());
        if self.log.is_some() {
            workspace.keep_requests();
        }
        if sites.have_proxies() {
            workspace.offer_tunnels();
        }
        let is_spoken = |listener: &Arc<Listener>| !listener.speaks_tls() && listener.speaks_http2();
        // Each connection keeps to what its listener says.
        if self.shared.h2c || self.shared.listeners.iter().any(is_spoken) {
            workspace.speak_h2c();
        }
        workspace
    }

    /// Reads the clocks. To be done once for each batch of work, not for each request. What is sent reads one of them
    /// again.
    pub fn update_time(&mut self, workspace: &mut Workspace) {
        step_timer::open(&self.shared.counters);
        self.now = self.shared.clock.now();
        self.begun = self.now;
        self.unix_ms = unix_ms();
        self.handshakes = Handshakes::default();
        self.set_time(workspace);
    }

    /// Lets another workspace of this worker know the time of the last look at the clock.
    pub fn set_time(&self, workspace: &mut Workspace) {
        workspace.handle_unix_seconds(self.unix_ms / 1000);
        workspace.handle_pressure(self.shared.store.is_over_budget());
    }

    /// From now on every request is refused for want of room.
    pub fn refuse_all(&mut self) {
        self.refuses = true;
    }

    /// How long nothing will have to be done, in milliseconds, if nothing else is due than `due`.
    pub fn wait_ms(&self, due: impl IntoIterator<Item = Instant>) -> Option<u64> {
        let first = due.into_iter().chain(self.flush_due()).min()?;
        // One more, because milliseconds are rounded: waking too early would only mean waiting again.
        Some(first.since(self.now) + 1)
    }

    /// Looks at the clock once more after a batch of work, from which the next wait counts, and reports a stall.
    pub fn end_batch(&mut self, score: &WorkerScore) {
        self.now = self.now.max(self.shared.clock.coarse_now());
        let stall_ms = stall_ms(self.begun, self.now);
        if stall_ms > 0 {
            score.add_stall(stall_ms);
        }
    }

    /// The key by which caches find the target of a request. A listing goes by the rules of access that its client
    /// fulfils as well.
    fn cache_key<'r>(&mut self, asked: &Asked<'r>) -> CacheKey<'r> {
        let is_listing = asked.site.settings.browse && asked.requested.path.ends_with(b"/");
        let clearance = if is_listing { self.clearance(asked) } else { &Clearance::default() };
        self.cache_keys.cache_key(asked.site, asked.requested, || asked.client(), clearance)
    }

    /// The rules of access that the client of a request fulfils.
    fn clearance<'s>(&mut self, asked: &'s Asked<'_>) -> &'s Clearance {
        let known = (self.now, &mut self.known);
        asked.clearance(known)
    }

    /// Looks up the target of a new request.
    pub fn look_up(&mut self, asked: &Asked<'_>) -> Found<'_> {
        add(&self.work.requests, 1);
        let sample = self.sample(asked);
        let is_traced = self.traces(asked, false);
        let cache_key = self.cache_key(asked);
        let shared = self.shared;
        let found = self.look_up_key(cache_key, sample, || asked.name());
        if is_traced {
            trace::found(&shared.trace, asked, &found);
        }
        found
    }

    /// A request for `requested` that has come from `peer`.
    pub fn asked<'r>(&self, requested: &'r RequestedResource<'r>, peer: Peer, over: Over<'r>) -> Asked<'r>
    where
        'a: 'r,
    {
        Asked::new((&self.shared.sites, &self.shared.proxies), requested, peer, over)
    }

    /// The outcome of the routes for a request.
    fn rules(&mut self, asked: &Asked<'_>) -> Arc<Effective> {
        asked.rules(|| self.cache_keys.rules(asked.site, asked.requested, || asked.client()))
    }

    /// Answers a request in line: by the word of its steps, or with what its target stands for. Waits for the disk. For
    /// callers that have no connection to go on with meanwhile.
    pub fn answer_in_line(&mut self, asked: &Asked<'_>) -> InLine {
        let (outcome, _) = self.decide(asked, &mut None);
        let rules = self.rules(asked);
        if !matches!(outcome, Outcome::LookUp) {
            return InLine { outcome, rules, found: None };
        }
        let cache_key = self.cache_key(asked);
        let target = TranslationTarget::new(self.shared, &cache_key, None, asked.name());
        self.cache_keys.take_back(cache_key);
        // Without the store it is of no request that the log is told about.
        let found = translate(&Translation { store: None, ..target.translation(self.shared, Wait::Yes, self.now) });
        let entry = found.expect("only a translation that must not wait would block");
        self.trace_looked_up(asked, &entry);
        let outcome = match needs_program(&entry, asked.requested) {
            true => self.run_script(asked, &entry),
            false => Outcome::Answer(entry.resource.clone()),
        };
        InLine { outcome, rules, found: Some((target, entry)) }
    }

    /// Whether looking several targets up at once is less work than one after the other.
    pub fn prefetches_lookups(&self) -> bool {
        LookupPrefetch::is_worthwhile(&self.shared.store)
    }

    /// The target of a request that is about to be looked up with others.
    pub fn prefetch_lookup(&mut self, asked: &Asked<'_>) {
        let cache_key = self.cache_key(asked);
        self.lookup_prefetch.add(&self.local, &self.shared.store, cache_key.key(), self.now.ms());
        self.cache_keys.take_back(cache_key);
    }

    /// Has the processor fetch what will be read for those that were foreseen.
    pub fn fetch_prefetched(&mut self) {
        self.lookup_prefetch.fetch(&self.shared.store);
    }

    /// The target of a new request, in values of its own.
    #[cfg(test)]
    pub fn take(&mut self, requested: &RequestedResource<'_>, peer: Peer) -> TranslationTarget {
        let over = Over { way: lamna_tls::Way::Clear, socket: None };
        let asked = self.asked(requested, peer, over);
        let cache_key = self.cache_key(&asked);
        let target = TranslationTarget::new(self.shared, &cache_key, None, asked.name());
        self.cache_keys.take_back(cache_key);
        target
    }

    /// Looks up a cache key. `called` gives the identifier of the request, and is asked for it only if a
    /// [`TranslationTarget`] has to be made.
    fn look_up_key(
        &mut self,
        cache_key: CacheKey<'_>,
        sample: Option<RequestSample<'_>>,
        called: impl Fn() -> Box<str>,
    ) -> Found<'_> {
        let key = cache_key.key();
        fail_if_asked(Point::LookUp, key.path);
        let shared = self.shared;
        let target = |previous| TranslationTarget::new(shared, &cache_key, previous, called());
        let store = &shared.store;
        if self.caches.are_off() {
            add(&self.work.misses, 1);
            let target = target(None);
            self.cache_keys.take_back(cache_key);
            return Found::Missing(target);
        }
        let found = match self.local.lookup(store, key, self.now.ms()) {
            Lookup::Fresh(entry) | Lookup::Aging(entry) if !self.caches.translations => Lookup::Stale(entry.clone()),
            // It could not be read any more.
            Lookup::Fresh(entry) | Lookup::Aging(entry) if !entry.is_as_found() => Lookup::Stale(entry.clone()),
            Lookup::Fresh(entry) if !self.caches.entries => {
                add(&self.work.described, 1);
                let target = target(None);
                let translation = target.translation(shared, Wait::No, self.now);
                let described = translation.describe_again(entry);
                store.count(&described);
                Lookup::Fresh(self.last_described.insert(described))
            }
            found => found,
        };
        match &found {
            Lookup::Fresh(entry) | Lookup::Aging(entry) if entry.has_requested_codings() => {
                store.make_requested_codings(key, entry)
            }
            Lookup::Stale(entry) if entry.has_requested_codings() => store.make_requested_codings(key, entry),
            _ => {}
        }
        if let (Some(sample), Lookup::Fresh(entry) | Lookup::Aging(entry)) = (&sample, &found) {
            self.sampler.observe(shared.hints.as_deref(), sample, CacheKeyParts::of(key.path).path, entry, self.now);
        }
        let found = match found {
            Lookup::Fresh(entry) => {
                add(&self.work.hits, 1);
                add(&self.work.file_hits, u64::from(entry.resource.variants.first().file.is_some()));
                Found::Fresh(entry)
            }
            Lookup::Aging(entry) => {
                add(&self.work.hits, 1);
                add(&self.work.file_hits, u64::from(entry.resource.variants.first().file.is_some()));
                let target = target(Some(entry.clone()));
                if store.should_watch(entry) {
                    watch(shared, &target, entry, self.now);
                }
                Found::Aging(entry, target)
            }
            Lookup::Stale(entry) => {
                add(&self.work.stale, 1);
                let target = target(Some(entry.clone()));
                if self.caches.translations && store.should_watch(&entry) {
                    // Asked for again, if seldom: with many entries most are.
                    watch(shared, &target, &entry, self.now);
                }
                Found::Missing(target)
            }
            Lookup::Unknown => {
                add(&self.work.misses, 1);
                Found::Missing(target(None))
            }
        };
        self.cache_keys.take_back(cache_key);
        found
    }

    /// Whether another thread has compared an aging target with the file system meanwhile. Many threads have the same
    /// hot files in their private caches: so one of them compares, and the others only ask the store.
    pub fn is_compared(&mut self, target: &TranslationTarget) -> bool {
        self.local.expire(target.key());
        matches!(self.local.lookup(&self.shared.store, target.key(), self.now.ms()), Lookup::Fresh(_))
    }

    /// Keeps what a target was found to stand for.
    pub fn keep(&mut self, target: &TranslationTarget, entry: &Arc<Entry>) {
        let is_known = target.previous.as_ref().is_some_and(|previous| Arc::ptr_eq(previous, entry));
        if !is_known {
            self.count_made(entry);
        }
        let is_kept = !self.caches.are_off() && (!is_known || self.caches.translations);
        // What must not be used again takes no room, but the place of what it came after.
        if !is_kept || !entry.stamps.settled && target.previous.is_none() {
            return self.shared.store.count(entry);
        }
        self.shared.store.insert(target.key(), entry.clone());
        self.local.expire(target.key());
    }

    /// An entry was made that the cache did not have.
    fn count_made(&mut self, entry: &Entry) {
        add(&self.work.described, 1);
        let first = entry.resource.variants.first();
        match &first.file {
            Some(_) => add(&self.work.file_hits, 1),
            None => {
                add(&self.work.contents_read, 1);
                add(&self.work.contents_read_bytes, first.size);
            }
        }
    }

    /// Bytes were encrypted to be given to a socket.
    pub fn count_sent(&mut self, bytes: u64) {
        add(&self.work.sent_bytes, bytes);
        if let Some(uplink) = &self.shared.uplink {
            uplink.count(bytes);
        }
    }

    /// Bytes were given to a socket. Reads the clock: what has left by this is measured with it.
    pub fn handle_sent(&mut self, bytes: u64) {
        self.count_sent(bytes);
        self.has_sent = true;
        self.now = self.shared.clock.now();
    }

    /// A connection was taken.
    pub fn count_connection(&mut self) {
        add(&self.work.connections, 1);
    }

    /// When `flush` is due, if something waits for it.
    pub fn flush_due(&self) -> Option<Instant> {
        let logged = self.log.as_ref().is_some_and(|log| !log.is_empty());
        let counted = self.has_sent || !self.work.is_zero();
        (logged || counted).then_some(Instant::from_ms((self.flushed.ms() / FLUSH_MS + 1) * FLUSH_MS))
    }

    /// Hands log lines and counters over if it is time to.
    pub fn flush_if_due(&mut self) {
        if self.now.ms() / FLUSH_MS != self.flushed.ms() / FLUSH_MS {
            self.flush();
        }
    }

    /// Hands log lines and counters over.
    pub fn flush(&mut self) {
        (self.flushed, self.has_sent) = (self.now, false);
        if let Some(log) = &mut self.log {
            let _step = step_timer::step(Step::Log);
            log.flush();
        }
        let counters = &self.shared.counters;
        add(&self.work.file_bytes, std::mem::take(&mut self.sender.file_bytes));
        self.work.hand_over(&counters.work);
        self.tally.hand_over(&counters.answers);
        self.sampler.flush(self.shared.hints.as_deref());
        step_timer::balance(&counters.account);
    }
}

impl Drop for WorkerContext<'_> {
    fn drop(&mut self) {
        self.flush();
        self.shared.store.forget_local_cache();
    }
}

/// The entry for `target`. When several threads of the process ask for it at the same time, one of them finds it out
/// for all. Waits.
pub fn find_once(shared: &Shared, target: &TranslationTarget, now: Instant) -> Arc<Entry> {
    shared.store.find_once(target.key(), || {
        let found = translate(&target.translation(shared, Wait::Yes, now));
        found.expect("only a translation that must not wait would block")
    })
}

/// Has `entry` watched, which `target` stands for.
fn watch(shared: &Shared, target: &TranslationTarget, entry: &Arc<Entry>, now: Instant) {
    if let Some((root, names)) = target.translation(shared, Wait::No, now).names() {
        shared.store.watch(WatchRequest { root, names, entry: Arc::downgrade(entry) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use lamna_config::settings::{Settings, SiteSettings};
    use lamna_io::file_state::Stamps;
    use lamna_proto::exchange::RequestedResource;
    use lamna_site::content::listing::Order;
    use lamna_site::content::site::Sites;
    use lamna_tls::{Over, Way};

    fn requested_of<'a>(path: &'a str, query: Option<&'a str>) -> RequestedResource<'a> {
        let [path, query] = [Some(path), query].map(|text| text.map(str::as_bytes));
        let path = path.unwrap_or_default();
        RequestedResource {
            host: None,
            path,
            query,
            path_and_query: path,
            request: None,
            is_again: false,
            redirects: 0,
            led: None,
            found: None,
        }
    }

    fn asked<'r>(shared: &'r Shared, requested: &'r RequestedResource<'r>) -> Asked<'r> {
        Asked::new((&shared.sites, &shared.proxies), requested, Peer::default(), Over { way: Way::Clear, socket: None })
    }

    fn take(context: &mut WorkerContext<'_>, path: &str, query: Option<&str>) -> TranslationTarget {
        context.take(&requested_of(path, query), Peer::default())
    }

    #[test]
    fn however_a_target_is_spelled_it_is_found_by_one_key() {
        let (shared, _root) = testing::shared(1, 1);
        // Until its file is settled.
        std::thread::sleep(std::time::Duration::from_millis(40));
        let mut context = WorkerContext::new(&shared);
        let target = take(&mut context, "/a", None);
        for path in ["/a", "//a", "/./a", "/x/../a", "/%61", "/x/%2e%2E//./a"] {
            assert_eq!(take(&mut context, path, Some("x=1")), target, "{path}");
            match context.look_up(&asked(&shared, &requested_of(path, None))) {
                Found::Fresh(_) => {}
                Found::Missing(target) => {
                    let entry = find_once(&shared, &target, shared.clock.now());
                    assert_eq!(path, "/a", "it is there by then");
                    context.keep(&target, &entry);
                }
                Found::Aging(..) => {}
            }
        }
        assert_eq!(shared.store.len(), 1);
        // Bad ones are all the same, whatever they are.
        let bad = take(&mut context, "/%", None);
        assert_eq!((bad.path(), &bad), (&b""[..], &take(&mut context, "/..", None)));
        // What is encoded once more is something else.
        assert_eq!(take(&mut context, "/%2561", None).path(), b"/%61");
    }

    #[test]
    fn a_query_is_part_of_the_key_of_a_listing_only_and_as_far_as_it_says_something() {
        let (shared, root) = testing::shared(1, 1);
        let site = SiteSettings { browse: true, ..SiteSettings::new(root.path().to_owned()) };
        let sites = Arc::new(Sites::open(&Settings { sites: vec![site], ..Settings::default() }).unwrap());
        let shared = Shared { sites, ..shared };
        let mut context = WorkerContext::new(&shared);
        let mut take = |path, query| take(&mut context, path, query);
        let default = take("/", None);
        for query in ["", "x=1", "sort=name", "order=asc&x", "sort=size&sort=name"] {
            assert_eq!(take("/", Some(query)), default, "{query}");
        }
        let by_size = take("/", Some("sort=size"));
        assert_ne!(by_size, default);
        assert_eq!(take("//", Some("y&sort=size")), by_size);
        assert_eq!(
            (by_size.path(), CacheKeyParts::of(by_size.key().path).view.order),
            (&b"/"[..], Order::from_query("sort=size"))
        );
        assert_eq!(take("/a", Some("sort=size")), take("/a", None));
    }

    #[test]
    fn what_must_not_be_used_again_takes_no_room_but_that_of_what_it_came_after() {
        let (shared, _root) = testing::shared(1, 1);
        let mut context = WorkerContext::new(&shared);
        let mut target = take(&mut context, "/a", None);
        let options = lamna_proto::workspace::PagesByHost::pages_of(&*shared.sites, None).options.clone();
        let entry = |stamps| Arc::new(Entry::shared(options.clone(), stamps, 1));
        context.keep(&target, &entry(Stamps::unsettled()));
        assert_eq!(shared.store.len(), 0);
        let settled = entry(Stamps::none());
        context.keep(&target, &settled);
        target.previous = Some(settled.clone());
        context.keep(&target, &entry(Stamps::unsettled()));
        let kept = shared.store.lookup(target.key(), 1).unwrap();
        assert!(!Arc::ptr_eq(&kept, &settled), "what is known to have changed is not used again");
    }
}
