//! The access model: which URL follows which, learned from observations alone.
//!
//! Owns: the table of counts (`lamna_policy::hints`), names, and which page each connection shows. Two URLs belong
//! together if the second was asked for with a `Referer` that names the first, or over the same connection some seconds
//! after the first, a page, without another page as its `Referer`. So a font that a stylesheet asks for belongs to the
//! stylesheet and to the page.
//!
//! Guarantees: memory is bounded when it is made, names included; nothing but names allocates. Targets with a query
//! follow nothing, because queries may identify the client. Does not lock, wait, read or write.

use lamna_policy::hints::{Probability, Successor, Table, UrlId};
use lamna_proto::parse::path;

use super::names::Names;
use super::observation::Observation;
use super::url::{Key, UrlHasher};
use super::views::Views;

/// The part of the memory for names, and for the pages that connections show, as a divisor.
const NAMES_SHARE: usize = 20;
const VIEWS_SHARE: usize = 80;

/// Shards of the table: one owner takes no more.
const SHARDS: usize = 1;

/// See the module.
#[derive(Debug)]
pub(super) struct Learner {
    pub(super) table: Table,
    pub(super) names: Names,
    pub(super) hasher: UrlHasher,
    views: Views,
    /// Room for a path.
    path: Vec<u8>,
}

/// A successor of a page: its name, and its prediction.
pub(super) struct Named {
    /// Its path.
    pub(super) path: std::sync::Arc<str>,
    pub(super) probability: Probability,
    pub(super) after_ms: u32,
}

/// The part of `bytes` that is the table's.
pub(super) fn table_bytes(bytes: usize) -> usize {
    bytes - bytes / NAMES_SHARE - bytes / VIEWS_SHARE
}

impl Learner {
    /// Knows nothing, and takes at most `bytes`.
    pub(super) fn new(bytes: usize, key: Key) -> Learner {
        Learner::of(Table::new(table_bytes(bytes), SHARDS), bytes, key)
    }

    /// Knows what `saved`, a table as bytes, knows.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn with_table(saved: &[u8], bytes: usize, key: Key) -> Result<Learner, lamna_policy::hints::Malformed> {
        Ok(Learner::of(Table::from_bytes(saved, table_bytes(bytes), SHARDS)?, bytes, key))
    }

    fn of(table: Table, bytes: usize, key: Key) -> Learner {
        Learner {
            table,
            names: Names::new(bytes / NAMES_SHARE),
            hasher: UrlHasher::new(key),
            views: Views::new(bytes / VIEWS_SHARE),
            path: Vec::new(),
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.names.memory_bytes() + self.views.memory_bytes()
    }

    /// The number of `path` on the site of this number.
    pub(super) fn url(&self, site: u64, path: &[u8]) -> UrlId {
        self.hasher.url(site, path)
    }

    /// Learns of one request. How many pairs it has counted.
    pub(super) fn learn(&mut self, observation: &Observation) -> u64 {
        let &Observation { is_page, at_ms, site_number, connection, follows, .. } = observation;
        let url = self.url(site_number, observation.target());
        self.table.visit(url);
        let referer = self.referer(observation);
        let mut pairs = 0;
        let name = str::from_utf8(observation.target()).ok();
        if let Some(name) = name.filter(|name| follows && !name.chars().any(char::is_control)) {
            if let Some(page) = referer {
                pairs += u64::from(self.follow((connection, at_ms), page, (url, name)));
            }
            let shown = self.views.page_of(connection, at_ms).filter(|_| !is_page).map(|(page, _)| page);
            // What another page has asked for is not this one's, though both share a connection.
            let is_of_other =
                |page: &UrlId| referer.is_some_and(|referer| referer != *page && self.views.is_page(referer));
            if let Some(page) = shown.filter(|page| referer != Some(*page) && !is_of_other(page)) {
                pairs += u64::from(self.follow((connection, at_ms), page, (url, name)));
            }
        }
        if is_page {
            self.views.handle_page(connection, url, at_ms);
        }
        pairs
    }

    /// `page` names `next` among its links: it is known as one that may follow, and how often it does is learned. Once
    /// for each state of the page.
    pub(super) fn handle_link(&mut self, site: u64, page: &[u8], next: &str) {
        let (page, url) = (self.url(site, page), self.url(site, next.as_bytes()));
        self.names.keep(url, next);
        if self.table.successors(page).all(|known| known.url != url) {
            self.table.follow(page, url, 0);
        }
    }

    /// How often `path` was asked for, and what follows it, as far as the names are known.
    pub(super) fn following(&mut self, site: u64, path: &[u8]) -> (u16, Vec<Named>) {
        let page = self.url(site, path);
        let Learner { table, names, .. } = self;
        let named = table.successors(page).filter_map(|Successor { url, probability, after_ms }| {
            let path = names.find(url)?;
            Some(Named { path, probability, after_ms })
        });
        (table.visits(page), named.collect())
    }

    fn referer(&mut self, observation: &Observation) -> Option<UrlId> {
        let referer = observation.referer();
        if referer.is_empty() {
            return None;
        }
        if path::is_normal(referer) {
            return Some(self.url(observation.site_number, referer));
        }
        path::normalise(referer, &mut self.path).ok()?;
        Some(self.hasher.url(observation.site_number, &self.path))
    }

    /// `next` was asked for because of `page`. Whether that is counted.
    fn follow(&mut self, (connection, at_ms): (u64, u32), page: UrlId, (next, name): (UrlId, &str)) -> bool {
        if page == next {
            return false;
        }
        let begun = self.views.begun(connection, page);
        if !self.views.count_once(connection, (page, next), begun.map_or(0, |(_, number)| number)) {
            return false;
        }
        self.names.keep(next, name);
        self.table.follow(page, next, begun.map_or(0, |(begun_ms, _)| at_ms.saturating_sub(begun_ms)));
        true
    }
}
