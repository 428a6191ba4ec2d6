//! Hints to clients: `103 Early Hints` (RFC 8297) with what a page needs, before the page is there, and with the page a
//! link to the one that is likely to be next ([`NextPages`]).
//!
//! ```text
//!   a navigation ──> Pages (published) ──> which of the page's hints this client gets ──> 103, then the page
//!        │                  ^                               │
//!        └── MakerTask ──> maker thread <── tallies <── Viewing (of the connection): what was asked for after it
//!                       ^    ^
//!     the page's HTML ──┘    └── what was learned (`crate::hints`), what views have found
//! ```
//!
//! Owns: what is hinted for which page and why, what each connection was given, and what became of it. Guarantees: a
//! site without hints costs one comparison for each request. With them, a request that is answered from memory
//! allocates nothing but once for its connection, takes no lock and makes no system call; what it changes that others
//! see are counts of its page, for navigations only. Memory is bounded: what 1,024 pages may need, 32 resources each,
//! and [`VIEWING_BYTES`] for a connection. The data kept are paths and counts: no addresses, no users, no cookies and
//! no queries that a client has sent.
//!
//! # What keeps hints honest
//! A client asks for what it is hinted, whether its page needs it or not: so what is asked for behind a hint says
//! nothing about the page. Therefore one of [`VIEWS_PER_CONTROL`] views of a page gets no hints, and only what is asked
//! for in views where it was not hinted is counted for or against it. What was hinted and not asked for is waste, and
//! its bytes are counted against the site's budget (`lamna_policy::hints::ClientHintBudget`).
//!
//! # Who decides what others are told
//! Not one client. What the page itself does not name is told when three networks have asked for it, only if it is a
//! file that everybody may have and that is the same for all (`maker`, `Lead::may_be_told`); a next page as well
//! (`Site::may_be_fetched_ahead`). Of a network its keyed hash is kept, in 32 bits, for three of them.
//!
//! Does not: decide who is let in (hints are for those who are), write answers, or serve what it has hinted.

mod counters;
mod html;
mod maker;
mod navigation;
mod next_pages;
mod page;
mod url;
mod viewing;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crossbeam_channel::{Sender, bounded};
use lamna_policy::hints::{ClientHintBudget, Probability};
use lamna_proto::time::Instant;

pub use counters::{Counters, EarlyHintCounters, LinkPrefetchCounters};
pub use html::links_of;
pub use navigation::{Navigation, Part, fetches_ahead, part_of};
pub use next_pages::{LinkPrefetch, Network, NextPage, NextPages};
pub use page::{Choice, Page};
pub use url::resolve;
pub use viewing::{Known, Role, Viewing};

use lamna_config::early_hints::EarlyHintSettings;
use lamna_config::settings::SiteSettings;
use lamna_io::log::errors::{self, Level};
use lamna_sys::shared_memory::SharedMemory;

use crate::cache::Store;
use crate::content::site::Sites;
use crate::early_hints::counters::add;
use crate::early_hints::maker::{Maker, MakerTask};
use crate::early_hints::url::UrlNumbers;
use crate::hints::Hints;
use crate::upstream::resolve::Published;

/// Bytes that a connection holds on to that was given hints, or may be.
pub const VIEWING_BYTES: usize = size_of::<Viewing>();

/// One of so many views of pages gets no hints.
pub const VIEWS_PER_CONTROL: u32 = 16;

/// Bytes that a site may hint in vain before it is known what its clients make of hints.
const GRACE_BYTES: u64 = 1 << 20;

/// Pages by their number, as workers see them.
pub type Pages = HashMap<u64, Arc<Page>>;

/// See the module.
#[derive(Debug)]
pub struct EarlyHints {
    /// By the index of the site: none where nothing is hinted.
    sites: Box<[Option<Arc<SiteHints>>]>,
    numbers: UrlNumbers,
    pages: Arc<Published<Arc<Pages>>>,
    tasks: Sender<MakerTask>,
    /// The current learner.
    learned: Arc<Mutex<Weak<Hints>>>,
}

/// The budgets of a site's hints, and the counters of their outcome.
#[derive(Debug)]
pub struct SiteHints {
    /// As the site is configured.
    pub settings: EarlyHintSettings,
    /// Whether clients are told what some page needs.
    pub preloads: bool,
    /// How many hints a client is given.
    pub budget: ClientHintBudget,
    /// If some page may be fetched ahead.
    pub link_prefetch: Option<LinkPrefetch>,
    counters: SharedMemory<Counters>,
}

impl EarlyHints {
    /// Hints of `sites`; none if no site has any. Begins a thread, which ends with this.
    pub fn begin(sites: &Arc<Sites>, store: &Arc<Store>, counters: &SharedMemory<Counters>) -> Option<Arc<EarlyHints>> {
        let (early_hints, maker) = EarlyHints::new(sites, store, counters)?;
        if let Err(error) = maker.begin() {
            errors::report(Level::Error, format_args!("clients get no hints: no thread for them: {error}"));
        }
        Some(early_hints)
    }

    /// The same, and the maker of the hints.
    fn new(
        sites: &Arc<Sites>,
        store: &Arc<Store>,
        counters: &SharedMemory<Counters>,
    ) -> Option<(Arc<EarlyHints>, Maker)> {
        let of = |settings: &SiteSettings| {
            let preloads = settings.early_hints_anywhere().is_some();
            let link_prefetch = settings.link_prefetch_anywhere().map(|one| LinkPrefetch::new(one, GRACE_BYTES));
            if !preloads && link_prefetch.is_none() {
                return None;
            }
            let settings = settings.early_hints;
            let share = u16::from(settings.waste_percent_max) * 10;
            let budget = ClientHintBudget::new(share, GRACE_BYTES, Probability::default());
            Some(Arc::new(SiteHints { settings, preloads, budget, link_prefetch, counters: counters.clone() }))
        };
        let hints: Box<[_]> = sites.all().map(|site| of(&site.settings)).collect();
        if hints.iter().all(Option::is_none) {
            return None;
        }
        let (tasks, queue) = bounded(maker::QUEUE_MAX);
        let pages = Arc::new(Published::new(Arc::default()));
        let early_hints = Arc::new(EarlyHints {
            sites: hints,
            numbers: UrlNumbers(counters.key()),
            pages: pages.clone(),
            tasks,
            learned: Arc::default(),
        });
        let maker = Maker::new(&early_hints, sites, store, queue, counters.clone());
        Some((early_hints, maker))
    }

    /// Uses what `hints` learns from now on.
    pub fn attach(&self, hints: Option<&Arc<Hints>>) {
        *self.learned.lock().unwrap_or_else(PoisonError::into_inner) = hints.map(Arc::downgrade).unwrap_or_default();
    }

    /// The hints of the site of this index.
    pub fn site(&self, site: u32) -> Option<&Arc<SiteHints>> {
        self.sites.get(site as usize)?.as_ref()
    }

    /// The number of `path` (with its query, for what is no page) on the site of this index.
    pub fn number(&self, site: u32, path: &[u8]) -> u64 {
        self.numbers.hash_one((site, path))
    }

    /// The pages as they are now, if they have changed since `seen`.
    pub fn changed_pages(&self, seen: &mut u64) -> Option<Arc<Pages>> {
        self.pages.read_if_changed(seen)
    }

    /// Sentences about the resources that the page at `path` needs, one for each, hinted ones first.
    pub fn report(&self, site: u32, path: &[u8]) -> Vec<String> {
        let mut seen = u64::MAX;
        let pages = self.changed_pages(&mut seen);
        let page = pages.as_ref().and_then(|pages| pages.get(&self.number(site, path)));
        page.map(|page| page.describe()).unwrap_or_default()
    }

    /// A page is asked for that is not among [`Pages`]: the one at `path` as it was received, which caches find by
    /// `key`. Says so to the maker, if that has room.
    pub fn want(&self, site: u32, path: &[u8], key: &[u8]) {
        if path.len().max(key.len()) <= url::URL_BYTES_MAX && !self.tasks.is_full() {
            // No request waits for it: it will be asked for again.
            _ = self.tasks.try_send(MakerTask::Page { site, path: path.into(), key: key.into() });
        }
    }

    /// The number of a network of clients, by a secret key; never zero. An end user has many networks of IPv6 (a /48):
    /// they are one.
    pub fn network_number(&self, (is_v6, bits): Network) -> u32 {
        let bits = if is_v6 { bits >> 16 } else { bits };
        (self.numbers.hash_one((is_v6, bits, "network")) as u32).max(1)
    }

    /// A view of `page` has asked for `url`, which it was not known to need.
    pub fn tell_found(&self, page: &Page, url: &[u8], part: Part, network: u32) {
        if url.len() <= url::URL_BYTES_MAX && page.takes_one_more() {
            _ = self.tasks.try_send(MakerTask::Found { page: page.number(), url: url.into(), part, network });
        }
    }

    /// A view of `page` was followed by one of the page at `path`, which is not counted yet.
    pub fn tell_next(&self, page: &Page, path: &[u8], network: u32) {
        if path.len() <= url::URL_BYTES_MAX && page.takes_one_more() {
            _ = self.tasks.try_send(MakerTask::Next { page: page.number(), path: path.into(), network });
        }
    }

    /// Whether `network` is told nothing of what is likely to be shown after the page of this number.
    pub fn is_control(&self, page: u64, network: Network, now: Instant) -> bool {
        next_pages::is_control(&self.numbers, page, network, now)
    }
}

impl SiteHints {
    /// Counters of links to next pages.
    pub fn link_counters(&self) -> &LinkPrefetchCounters {
        &self.counters.link_prefetch
    }

    /// A link to `next` was sent.
    pub fn handle_link_sent(&self, next: &NextPage) {
        next.count_sent();
        add(&self.link_counters().sent, 1);
    }

    /// A link was not sent, because the client is likely to have what it names.
    pub fn count_known_link(&self) {
        add(&self.link_counters().withheld_known, 1);
    }

    /// A page that was fetched ahead is shown.
    pub fn handle_shown(&self) {
        add(&self.link_counters().shown, 1);
    }

    /// So many hints were sent, and so many withheld.
    pub fn handle_sent(&self, count: u32, bytes: u64) {
        self.budget.handle_sent(bytes);
        add(&self.counters.hints.sent, u64::from(count));
        add(&self.counters.hints.sent_bytes, bytes);
    }

    /// A hinted resource was asked for.
    pub(crate) fn handle_used(&self, bytes: u64) {
        self.budget.handle_used(bytes);
        add(&self.counters.hints.used, 1);
        add(&self.counters.hints.used_bytes, bytes);
    }

    /// A hinted resource was not asked for.
    pub(crate) fn handle_wasted(&self, bytes: u64) {
        self.budget.handle_wasted(bytes);
        add(&self.counters.hints.wasted, 1);
        add(&self.counters.hints.wasted_bytes, bytes);
    }

    /// So many hints were not sent, because the client is likely to have it, because too much was wasted, and because
    /// the view is one of those that get none.
    pub fn count_withheld(&self, known: u32, over_budget: u32, control: u32) {
        add(&self.counters.hints.withheld_known, u64::from(known));
        add(&self.counters.hints.withheld_budget, u64::from(over_budget));
        add(&self.counters.hints.withheld_control, u64::from(control));
    }
}

#[cfg(test)]
mod tests;
