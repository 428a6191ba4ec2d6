//! The maker: a thread that finds out what pages need, and publishes which of it is hinted.
//!
//! Owns: a record of each page that is asked for, at most [`PAGES_MAX`], and its leads: what its HTML says, what has
//! been learned of what follows it ([`Hints`]), also by way of what it needs (the font of its style sheet), and what
//! views of it have found. Guarantees: it looks at a page at most four times a second, and only if it has been asked
//! for; a page's HTML is read once for each state of it; what has become unlikely is hinted no more, and what cannot be
//! kept by a client is never hinted. It works at low priority, and no serving thread waits for it.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use lamna_filter::subresources::{CrossOrigin, Destination, Subresource};
use lamna_policy::hints::Probability;
use lamna_proto::exchange::early_hints::LinkField;
use lamna_proto::parse::path;
use lamna_proto::resource::{Representation, Resource};
use lamna_sys::contain::contain;
use lamna_sys::shared_memory::SharedMemory;

use super::html::links_of;
use super::navigation::Part;
use super::next_pages::{NextLeads, NextPages};
use super::page::{CANDIDATES_MAX, Candidate, HINTS_MAX, Page, Tally};
use super::url::{UrlNumbers, is_hintable, resolve};
use super::{Counters, EarlyHints, Pages, SiteHints};
use crate::cache::two_generation_map::Key;
use crate::cache::{Entry, Store};
use crate::content::media_type;
use crate::content::site::Sites;
use crate::hints::Hints;
use crate::upstream::resolve::Published;

/// Pages that are known at the same time. Of those that have not been asked for since the last look one goes for
/// another.
pub(super) const PAGES_MAX: usize = 1_024;

/// Most tasks that may wait for the maker.
pub(super) const QUEUE_MAX: usize = 256;

/// How long it waits between two looks while pages are asked for, and when none have been for [`IDLE_LOOKS`] looks.
const LOOK: Duration = Duration::from_millis(250);
const IDLE_LOOK: Duration = Duration::from_secs(2);
const IDLE_LOOKS: u32 = 40;

/// The priority of the thread (setpriority(2)): about a tenth of what a serving thread gets on the same processor.
const NICE: i32 = 10;

/// Assumed bytes of a resource whose size is not known.
const BYTES_UNKNOWN: u32 = 16 * 1024;

/// By so many steps what follows is followed: the style sheet of a style sheet has a font.
const STEPS_MAX: usize = 3;

/// A learned successor less likely than so many thousandths is not even watched.
const LEARNED_LEAST: u16 = 500;

/// Views after which what was counted in them is believed, rather than where a lead has come from.
const VIEWS_BELIEVED: u16 = 4;

/// Something for the maker to do.
#[derive(Debug)]
pub(super) enum MakerTask {
    /// This page is asked for.
    Page {
        /// The index of its site.
        site: u32,
        /// Its path as it was received.
        path: Box<[u8]>,
        /// Its cache key when it was first asked for.
        key: Box<[u8]>,
    },
    /// In a view of a page this was asked for.
    Found {
        /// The number of the page.
        page: u64,
        /// Path and query, as they were received.
        url: Box<[u8]>,
        /// The fetch destination and mode of the request.
        part: Part,
        /// The number of the network that has asked.
        network: u32,
    },
    /// A view of a page was followed by one of another.
    Next {
        /// The number of the page.
        page: u64,
        /// The path of the other, as it was received.
        path: Box<[u8]>,
        /// The number of the network that has asked.
        network: u32,
    },
}

/// See the module.
pub(super) struct Maker {
    sites: Weak<Sites>,
    store: Weak<Store>,
    learned: Arc<Mutex<Weak<Hints>>>,
    hints: Box<[Option<Arc<SiteHints>>]>,
    numbers: UrlNumbers,
    pages: Arc<Published<Arc<Pages>>>,
    queue: Receiver<MakerTask>,
    records: HashMap<u64, Record>,
    counters: SharedMemory<Counters>,
    /// Pages that are counted as known.
    counted: u64,
}

/// The maker's record of a page.
struct Record {
    site: u32,
    /// As it was received, without its query.
    path: String,
    /// Its cache key.
    key: Box<[u8]>,
    /// The resource whose HTML was read last.
    read: Weak<Resource>,
    leads: Vec<Lead>,
    next: NextLeads,
    page: Arc<Page>,
    /// Workers know of it.
    is_published: bool,
    /// When it was asked for last.
    wanted: Instant,
}

/// Something that a page may need.
struct Lead {
    url: String,
    number: u64,
    part: Part,
    media_type: Option<String>,
    origin: Origin,
    tally: Arc<Tally>,
}

/// How a lead is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The page says so.
    Page,
    /// It was learned, with this probability.
    Learned(Probability),
    /// Views of the page have asked for it, first one from the network of this number.
    Found(u32),
}

/// The cache's facts about a URL.
struct Facts {
    bytes: u32,
    media_type: String,
    /// It is there, and clients may keep it.
    can_be_kept: bool,
    /// It is in the cache.
    is_held: bool,
}

/// The resources of one look.
struct Resources {
    sites: Arc<Sites>,
    store: Arc<Store>,
    learned: Option<Arc<Hints>>,
}

impl Maker {
    pub(super) fn new(
        early_hints: &EarlyHints,
        sites: &Arc<Sites>,
        store: &Arc<Store>,
        queue: Receiver<MakerTask>,
        counters: SharedMemory<Counters>,
    ) -> Maker {
        Maker {
            sites: Arc::downgrade(sites),
            store: Arc::downgrade(store),
            learned: early_hints.learned.clone(),
            hints: early_hints.sites.clone(),
            numbers: early_hints.numbers,
            pages: early_hints.pages.clone(),
            queue,
            records: HashMap::new(),
            counters,
            counted: 0,
        }
    }

    /// # Errors
    /// No thread.
    pub(super) fn begin(self) -> std::io::Result<()> {
        thread::Builder::new().name("early-hints".to_owned()).spawn(move || self.work()).map(drop)
    }

    /// The life of the thread: as long as somebody can give it a task.
    fn work(mut self) {
        // On Linux this concerns the calling thread alone. If it may not, it goes on as it is.
        let _ = rustix::process::setpriority_process(None, NICE);
        let mut idle_looks = 0;
        loop {
            let wait = if idle_looks < IDLE_LOOKS { LOOK } else { IDLE_LOOK };
            let mut until = Instant::now() + wait;
            let mut tasks = Vec::new();
            while tasks.len() < QUEUE_MAX {
                match self.queue.recv_deadline(until) {
                    Ok(task) => {
                        tasks.push(task);
                        // Soon, but when the page that is asked for has been answered with.
                        until = until.min(Instant::now() + LOOK);
                    }
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            let looked = contain("Hints stay as they are.", || self.look(tasks)).unwrap_or(0);
            idle_looks = if looked > 0 { 0 } else { idle_looks.saturating_add(1) };
        }
    }

    /// Carries out tasks, and looks at the pages that were asked for. How many that were.
    pub(super) fn look(&mut self, tasks: Vec<MakerTask>) -> usize {
        let learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let (Some(sites), Some(store)) = (self.sites.upgrade(), self.store.upgrade()) else { return 0 };
        let resources = Resources { sites, store, learned };
        tasks.into_iter().for_each(|task| self.carry_out(task));
        let now = Instant::now();
        let wanted: Vec<u64> =
            self.records.iter().filter(|(_, one)| one.page.take_news()).map(|(number, _)| *number).collect();
        let known: HashSet<u64> = self.records.keys().copied().collect();
        let mut is_changed = false;
        for number in &wanted {
            let Some(record) = self.records.get_mut(number) else { continue };
            record.wanted = now;
            let Some(site) = self.hints.get(record.site as usize).and_then(Option::as_ref) else { continue };
            is_changed |= record.look(*number, site, &resources, &self.numbers, &known);
        }
        self.count(self.records.len() as u64);
        if is_changed {
            let pages: Pages = self.records.iter().map(|(number, record)| (*number, record.page.clone())).collect();
            self.pages.change(|published| {
                *published = Arc::new(pages);
                true
            });
        }
        wanted.len()
    }

    /// So many pages are known: what this process knows is a part of what all know.
    fn count(&mut self, pages: u64) {
        // Modulo 2^64, as it may have become less.
        self.counters.hints.pages.fetch_add(pages.wrapping_sub(self.counted), Relaxed);
        self.counted = pages;
    }

    fn carry_out(&mut self, task: MakerTask) {
        match task {
            MakerTask::Page { site, path, key } => {
                let number = self.numbers.hash_one((site, &*path));
                let Ok(path) = String::from_utf8(path.into_vec()) else { return };
                if !is_hintable(path.as_bytes()) || self.records.contains_key(&number) {
                    return;
                }
                self.make_room();
                let page = Arc::new(Page::new(number, Vec::new(), 0));
                page.handle_news();
                let (read, leads, next) = (Weak::new(), Vec::new(), NextLeads::default());
                let (is_published, wanted) = (false, Instant::now());
                let record = Record { site, path, key, read, leads, next, page, is_published, wanted };
                self.records.insert(number, record);
            }
            MakerTask::Found { page, url, part, network } => {
                let Some(record) = self.records.get_mut(&page) else { return };
                let Ok(url) = String::from_utf8(url.into_vec()) else { return };
                // What a client has put into a query may be its own.
                if is_hintable(url.as_bytes()) && !url.contains('?') {
                    record.add(url, part, None, Origin::Found(network), &self.numbers);
                    record.page.handle_news();
                }
            }
            MakerTask::Next { page, path, network } => {
                let Some(record) = self.records.get_mut(&page) else { return };
                let Ok(path) = String::from_utf8(path.into_vec()) else { return };
                if is_hintable(path.as_bytes()) && path != record.path && !record.next.holds(&path) {
                    let number = self.numbers.hash_one((record.site, path.as_bytes()));
                    record.next.find(path, number, network);
                    record.page.handle_news();
                }
            }
        }
    }

    fn make_room(&mut self) {
        if self.records.len() < PAGES_MAX {
            return;
        }
        let oldest = self.records.iter().min_by_key(|(_, record)| record.wanted).map(|(number, _)| *number);
        if let Some(oldest) = oldest {
            self.records.remove(&oldest);
        }
    }
}

impl Drop for Maker {
    fn drop(&mut self) {
        self.count(0);
    }
}

impl Record {
    /// Finds out what the page needs now. Whether that has changed what is hinted.
    fn look(
        &mut self,
        number: u64,
        site: &SiteHints,
        resources: &Resources,
        numbers: &UrlNumbers,
        known: &HashSet<u64>,
    ) -> bool {
        self.page.refill();
        if !is_on(resources, self.site, &self.path) {
            self.leads.clear();
        } else {
            self.read_page(resources, numbers);
            self.ask_learned(resources, numbers);
        }
        let next = self.look_at_next(site, resources, numbers, known);
        let page = self.make(number, site, resources).with_next(next);
        let is_new = !self.is_published || !page.is_like(&self.page);
        if is_new {
            (self.page, self.is_published) = (Arc::new(page.after(&self.page)), true);
        }
        is_new
    }

    /// Reads the HTML of the page, if the cache has another state of it than the one that was read.
    fn read_page(&mut self, resources: &Resources, numbers: &UrlNumbers) {
        let Some(entry) = resources.store.lookup(Key { site: self.site, path: &self.key }, 0) else { return };
        if self.read.upgrade().is_some_and(|read| Arc::ptr_eq(&read, &entry.resource)) {
            return;
        }
        self.read = Arc::downgrade(&entry.resource);
        let Some(found) = links_of(&entry) else { return };
        let base = found.base.map_or_else(|| Some(self.path.clone()), |base| resolve(&self.path, &base));
        let Some(base) = base else { return };
        let needed: Vec<(String, Subresource)> =
            found.subresources.into_iter().filter_map(|one| Some((resolve(&base, &one.url)?, one))).collect();
        self.leads.retain(|lead| lead.origin != Origin::Page || needed.iter().any(|(url, _)| *url == lead.url));
        for (url, Subresource { destination, cross_origin, media_type, .. }) in &needed {
            let part = Part { destination: *destination, cross_origin: *cross_origin };
            self.add(url.clone(), part, media_type.clone(), Origin::Page, numbers);
        }
        if let Some(learned) = &resources.learned {
            let pages = found.pages.iter().filter_map(|page| resolve(&base, page));
            let urls: Vec<String> = needed.into_iter().map(|(url, _)| url).chain(pages).collect();
            let paths = urls.iter().filter_map(|url| path_of(url));
            let paths: Vec<String> = paths.filter_map(|path| String::from_utf8(path).ok()).collect();
            if let Some(page) = path_of(&self.path) {
                learned.handle_links(self.site, &page, paths.iter().map(String::as_str));
            }
        }
    }

    /// Asks what was learned of what follows the page, and what follows that.
    fn ask_learned(&mut self, resources: &Resources, numbers: &UrlNumbers) {
        let Some(learned) = &resources.learned else { return };
        let Some(page) = path_of(&self.path) else { return };
        let mut follows: Vec<(String, Probability)> = Vec::new();
        let mut asked = vec![(page, Probability::CERTAIN)];
        // What the page says is a way to what that needs.
        let said = self.leads.iter().filter(|lead| lead.origin == Origin::Page);
        asked.extend(said.filter_map(|lead| Some((path_of(&lead.url)?, Probability::CERTAIN))));
        for _ in 0..STEPS_MAX {
            let mut next = Vec::new();
            for (path, probability) in &asked {
                for one in &learned.following(self.site, path).following {
                    let both = u32::from(probability.thousandths()) * u32::from(one.probability.thousandths()) / 1_000;
                    let both = Probability::per_mille(both as u16);
                    let url = one.target.to_string();
                    // What has been decoded may have been spelled in other ways: a hint has to be what browsers ask
                    // for.
                    if path::encode(url.as_bytes()) != url {
                        continue;
                    }
                    let is_news = follows.iter().all(|(known, _)| *known != url);
                    if is_news && both.thousandths() >= LEARNED_LEAST && follows.len() < CANDIDATES_MAX {
                        next.push((one.target.as_bytes().to_vec(), both));
                        follows.push((url, both));
                    }
                }
            }
            asked = next;
        }
        self.leads.retain(|lead| {
            !matches!(lead.origin, Origin::Learned(_))
                || follows.iter().any(|(url, _)| *url == lead.url)
                || lead.tally.views().0 > 0
        });
        for (url, probability) in follows {
            let facts = Facts::of(resources, self.site, &url);
            let Some(destination) = destination_of(&facts.media_type) else { continue };
            let part = Part { destination, cross_origin: CrossOrigin::None };
            self.add(url, part, None, Origin::Learned(probability), numbers);
        }
    }

    /// Finds the pages that are likely to be shown after it. `known` are pages to which clients have navigated.
    fn look_at_next(
        &mut self,
        site: &SiteHints,
        resources: &Resources,
        numbers: &UrlNumbers,
        known: &HashSet<u64>,
    ) -> NextPages {
        let Some(link_prefetch) = &site.link_prefetch else {
            self.next.clear();
            return NextPages::default();
        };
        let number_of = |path: &str| numbers.hash_one((self.site, path.as_bytes()));
        if let (Some(learned), Some(page)) = (&resources.learned, path_of(&self.path)) {
            let number_of = |path: &str| {
                let number = Some(path).filter(|path| path::encode(path.as_bytes()) == **path).map(number_of);
                number.filter(|number| known.contains(number))
            };
            self.next.learn(&learned.following(self.site, &page), number_of);
        }
        self.next.make(link_prefetch, |path| bytes_ahead(resources, self.site, path, known.contains(&number_of(path))))
    }

    /// One more lead, or another origin of a known one.
    fn add(&mut self, url: String, part: Part, media_type: Option<String>, origin: Origin, numbers: &UrlNumbers) {
        if let Some(lead) = self.leads.iter_mut().find(|lead| lead.url == url) {
            match (lead.origin, origin) {
                (Origin::Page, _) => {}
                (_, Origin::Page) => (lead.origin, lead.part, lead.media_type) = (origin, part, media_type),
                (Origin::Learned(_), Origin::Learned(_)) => lead.origin = origin,
                // Who has asked for it has said what for.
                (Origin::Learned(_), Origin::Found(network)) => {
                    lead.part = part;
                    lead.tally.count_asked(network);
                }
                (Origin::Found(_), Origin::Found(network)) => lead.tally.see(network),
                (Origin::Found(_), _) => {}
            }
            return;
        }
        if self.leads.len() >= CANDIDATES_MAX && !self.forget_one() {
            return;
        }
        let number = numbers.hash_one((self.site, url.as_bytes()));
        let tally = Arc::<Tally>::default();
        if let Origin::Found(network) = origin {
            tally.count_asked(network);
        }
        self.leads.push(Lead { url, number, part, media_type, origin, tally });
    }

    /// Forgets the least likely lead of those that the page does not say. False if there is none.
    fn forget_one(&mut self) -> bool {
        let others = self.leads.iter().enumerate().filter(|(_, lead)| lead.origin != Origin::Page);
        let least = others.min_by_key(|(_, lead)| lead.probability()).map(|(at, _)| at);
        least.map(|at| self.leads.remove(at)).is_some()
    }

    /// The page as it is to be published.
    fn make(&self, number: u64, site: &SiteHints, resources: &Resources) -> Page {
        let least = Probability::per_mille(u16::from(site.settings.probability_percent_min) * 10);
        let mut candidates = Vec::new();
        let mut hinted = 0_u32;
        for lead in &self.leads {
            let facts = Facts::of(resources, self.site, &lead.url);
            let Some(link) = lead.link(&facts) else { continue };
            let probability = lead.probability();
            let may_be_hinted = lead.may_be_told(resources, self.site, &facts);
            if probability >= least && may_be_hinted && hinted.count_ones() < HINTS_MAX {
                hinted |= 1 << candidates.len();
            }
            let (url, tally) = (lead.number, lead.tally.clone());
            candidates.push(Candidate { url, link, bytes: facts.bytes, probability, tally });
        }
        Page::new(number, candidates, hinted)
    }
}

impl Lead {
    /// As far as it is known: by views in which it was not hinted, if there are enough of them.
    fn probability(&self) -> Probability {
        let (views, counted) = self.tally.views();
        match self.origin {
            _ if views >= VIEWS_BELIEVED => counted,
            Origin::Page => Probability::CERTAIN,
            Origin::Learned(probability) => probability.max(counted),
            Origin::Found(_) => counted,
        }
    }

    /// Whether other clients may be told of it: the one place where that is decided, whatever its origin. A resource to
    /// which a rule restricts access never is. A resource that the page does not name has to be a file of the site that
    /// is the same for every client, of the type that it was asked for as. Several networks must have asked for it. So
    /// no client makes others ask an application for something, and no private address is told.
    fn may_be_told(&self, resources: &Resources, site: u32, facts: &Facts) -> bool {
        let site = resources.sites.at(site);
        let Some(path) = path_of(&self.url) else { return false };
        if !facts.can_be_kept || !site.routes.is_for_anybody(&path) {
            return false;
        }
        match self.origin {
            // An answer to a script may be private to its client, unless it is a file.
            Origin::Page => facts.is_held || self.part.destination != Destination::Fetch,
            Origin::Learned(_) | Origin::Found(_) => {
                facts.is_held
                    && self.fits(&facts.media_type)
                    && site.is_file_for_everybody(&path)
                    && self.tally.is_of_several()
            }
        }
    }

    /// Whether something of this media type is what it is asked for as.
    fn fits(&self, media_type: &str) -> bool {
        let of_type = destination_of(media_type);
        match self.part.destination {
            Destination::Module => of_type == Some(Destination::Script),
            Destination::Image => media_type.starts_with("image/"),
            other => of_type == Some(other),
        }
    }

    /// The field that hints it (HTML 4.6.7, `preload` and `modulepreload`). Browsers use what was preloaded only if
    /// both were asked for in the same way.
    fn link(&self, facts: &Facts) -> Option<LinkField> {
        let Part { destination, cross_origin } = self.part;
        let url = &self.url;
        let mut value = match destination {
            Destination::Module => format!("<{url}>; rel=modulepreload"),
            other => format!("<{url}>; rel=preload; as={}", other.name()),
        };
        // Fonts are always asked for across origins, and so is what `fetch()` asks for.
        let is_cors = matches!(destination, Destination::Font | Destination::Fetch);
        value.push_str(match cross_origin {
            CrossOrigin::WithCredentials => "; crossorigin=use-credentials",
            CrossOrigin::Anonymous if destination != Destination::Module => "; crossorigin",
            CrossOrigin::None if is_cors => "; crossorigin",
            _ => "",
        });
        if matches!(destination, Destination::Font | Destination::Image) {
            let media_type = self.media_type.as_deref().unwrap_or(&facts.media_type);
            value.push_str(&format!("; type=\"{media_type}\""));
        }
        LinkField::new(&value)
    }
}

impl Facts {
    fn of(resources: &Resources, site: u32, url: &str) -> Facts {
        let path = url.split('?').next().unwrap_or_default();
        let by_name = || media_type::by_name(path.as_bytes()).essence;
        let essence = |full: &str| full.split(';').next().unwrap_or_default().trim().to_owned();
        let Some(entry) = entry_of(resources, site, path) else {
            return Facts { bytes: BYTES_UNKNOWN, media_type: essence(by_name()), can_be_kept: true, is_held: false };
        };
        let first = entry.resource.variants.first();
        let can_be_kept = entry.resource.status.0 == 200 && !forbids_keeping(first);
        let bytes = u32::try_from(first.size).unwrap_or(u32::MAX);
        Facts { bytes, media_type: essence(first.media_type()), can_be_kept, is_held: true }
    }
}

/// Whether a client may not keep it until the page asks for it (RFC 9111 5.2.2.5): it would ask twice.
fn forbids_keeping(representation: &Representation) -> bool {
    controls_with(representation, &["no-store"])
}

/// Whether `Cache-Control` has one of these directives.
fn controls_with(representation: &Representation, directives: &[&str]) -> bool {
    let head = String::from_utf8_lossy(representation.head());
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    let controls = lines.filter(|(name, _)| name.eq_ignore_ascii_case("cache-control"));
    let mut said = controls.flat_map(|(_, value)| value.split(','));
    said.any(|one| directives.iter().any(|directive| one.trim().eq_ignore_ascii_case(directive)))
}

/// The size of the page at `path` on the site of this index, if it may be fetched ahead: a page that the cache holds
/// and that clients may use without asking once more; or else one that an application makes, if the route says so and
/// it `is_known` to be one.
fn bytes_ahead(resources: &Resources, site: u32, path: &str, is_known: bool) -> Option<u32> {
    let normal = path_of(path)?;
    let of_site = resources.sites.at(site);
    let effective = of_site.routes.effective(&normal, b"");
    if !of_site.may_be_fetched_ahead(&normal, &effective) {
        return None;
    }
    match resources.store.lookup(Key { site, path: &normal }, 0) {
        Some(entry) if !entry.asks_an_application() => {
            let first = entry.resource.variants.first();
            let is_page = entry.resource.status.0 == 200 && first.media_type().starts_with("text/html");
            let is_used = is_page && !controls_with(first, &["no-store", "no-cache", "max-age=0"]);
            is_used.then(|| u32::try_from(first.size).unwrap_or(u32::MAX))
        }
        _ => (effective.rules.link_prefetch == Some(true) && is_known).then_some(BYTES_UNKNOWN),
    }
}

/// The fetch destination of this media type. None of a type that is not worth a hint: pictures would take the room of
/// more urgent resources.
fn destination_of(media_type: &str) -> Option<Destination> {
    Some(match media_type {
        "text/css" => Destination::Style,
        "text/javascript" | "application/javascript" => Destination::Script,
        "application/json" => Destination::Fetch,
        font if font.starts_with("font/") => Destination::Font,
        _ => return None,
    })
}

/// Whether hints are on for a page.
fn is_on(resources: &Resources, site: u32, path: &str) -> bool {
    let site = resources.sites.at(site);
    let of_site = site.settings.early_hints.is_on;
    path_of(path).is_some_and(|path| site.routes.effective(&path, b"").rules.early_hints.unwrap_or(of_site))
}

/// A path as caches have it: without its query, normalised.
fn path_of(url: &str) -> Option<Vec<u8>> {
    let mut normal = Vec::new();
    path::normalise(url.split('?').next()?.as_bytes(), &mut normal).ok()?;
    Some(normal)
}

fn entry_of(resources: &Resources, site: u32, path: &str) -> Option<Arc<Entry>> {
    resources.store.lookup(Key { site, path: &path_of(path)? }, 0)
}
