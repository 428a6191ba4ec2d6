//! Hints: what requests teach about what is asked for next.
//!
//! ```text
//!   serving threads ── Observation ──> queues ──> learner thread ──> table, names ──> file
//!                                                     │
//!                      entry of the page <── Predictions, expectations ──> replacement policy
//! ```
//!
//! Owns: what serving threads tell of requests, the thread that learns from it, what it knows, its file, and how the
//! cache comes to know of it. Used by: the cache (`hinted` keeps longer what is expected; predictions lie on entries of
//! pages), reading ahead, and early hints to clients.
//!
//! Guarantees: a site without hints costs one comparison for each request, and none if no site has them. With them, a
//! request that is answered from memory allocates nothing, takes no lock and makes no further system call. Memory is
//! bounded by a setting, names included. The learned data are paths, counts and delays: no addresses, users, cookies or
//! queries.
//!
//! Each process of a server learns by itself: of the same traffic each sees a fair sample, so what they find is the
//! same, and no table has to be shared that a process which is killed could leave half written. The first process saves
//! what it has learned, and every new process begins with that.
//!
//! Does not: read files, parse pages, send. Who does knows more of requests than this layer.

mod counters;
mod learner;
mod learning;
mod names;
mod observation;
mod report;
mod request;
mod sampler;
mod saved;
mod url;
mod views;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use lamna_proto::exchange::RequestedResource;
use lamna_proto::message::{Field, Method};

pub use counters::HintCounters;
pub use learning::{Ahead, Likely};
pub use observation::TEXT_BYTES;
pub use report::{FollowingReport, HintReport};
pub use sampler::Sampler;
pub use url::path_of_same_host;

use lamna_config::hints::{HintSettings, are_wanted, state_file};
use lamna_config::settings::Settings;
use lamna_io::log::errors::{self, Level};
use lamna_sys::shared_memory::SharedMemory;

use crate::cache::two_generation_map::Key;
use crate::cache::{Predictions, Store};
use crate::hints::learning::Learning;
use crate::hints::observation::{Observation, Queues};
use crate::hints::request::RequestTraits;

/// The learning of a process for the sites that have hints.
#[derive(Debug)]
pub struct Hints {
    learning: Arc<Learning>,
    /// The number of each site in the table, by its index; none for a site without hints.
    sites: Box<[Option<u64>]>,
}

/// A request that is to be learned from, once it is known what it is answered with.
#[derive(Clone, Copy, Debug)]
pub struct RequestSample<'t> {
    site: u32,
    site_number: u64,
    /// The path of the page of the same site that `Referer` names; empty if it names none.
    referer: &'t [u8],
    has_query: bool,
    is_document: Option<bool>,
}

impl RequestSample<'_> {
    /// Whether the client says that it navigates to a document.
    pub fn is_document(&self) -> bool {
        self.is_document == Some(true)
    }
}

impl Hints {
    /// Begins learning with `settings`, and a thread; none if no site wants that. It goes on with the state of
    /// `before`, or else with that of the file. The process that `is_keeper` saves it.
    pub fn begin(
        settings: &Settings,
        is_keeper: bool,
        counters: SharedMemory<HintCounters>,
        before: Option<&Hints>,
    ) -> Option<Arc<Hints>> {
        let sites = sites(settings)?;
        let known = before.map(|before| before.learning.known());
        let learning = Learning::open(&settings.hints, file(settings), is_keeper, counters, known);
        if let Err(error) = learning.begin() {
            errors::report(Level::Error, format_args!("nothing is learned for hints: no thread for it: {error}"));
        }
        Some(Arc::new(Hints { learning, sites }))
    }

    /// The same without a thread and a file.
    #[cfg(test)]
    fn still(settings: &Settings) -> Hints {
        let learning = Learning::open(&settings.hints, None, false, SharedMemory::default(), None);
        Hints { learning, sites: sites(settings).expect("a site wants hints") }
    }

    /// The same for other sites, if nothing else is to become different. None if it is, or if no site wants hints.
    pub fn for_sites(&self, settings: &Settings) -> Option<Arc<Hints>> {
        let is_same = *self.learning.settings() == settings.hints;
        let sites = if is_same { sites(settings)? } else { return None };
        Some(Arc::new(Hints { learning: self.learning.clone(), sites }))
    }

    /// `successor` goes on in the place of this one, which keeps nothing any more if that keeps it itself. For the main
    /// thread.
    pub fn leave_to(&self, successor: Option<&Hints>) {
        match successor {
            Some(successor) if Arc::ptr_eq(&successor.learning, &self.learning) => {}
            Some(_) => self.retire(),
            None => self.save(),
        }
    }

    /// Predictions are put to entries of `store` from now on.
    fn attach(&self, store: &Arc<Store>) {
        let HintSettings { reads_ahead, reads_ahead_percent, probability_least, .. } = *self.learning.settings();
        store.set_precache(reads_ahead.then_some((reads_ahead_percent * 10, probability_least)));
        self.learning.attach(store);
    }

    /// The queue by which one more thread tells of requests.
    pub fn queue(&self) -> usize {
        self.learning.queues.deal()
    }

    /// The queue of a connection that threads take turns at.
    pub fn queue_of(&self, connection: u64) -> usize {
        Queues::of_connection(connection)
    }

    /// Whether a request to the site of this index is learned from.
    pub fn has_site(&self, site: u32) -> bool {
        self.number_of(site).is_some()
    }

    /// Whether what comes by `queue` now would be dropped: to be asked first.
    pub fn is_full(&self, queue: usize) -> bool {
        self.learning.queues.is_full(queue)
    }

    /// So many requests were dropped.
    pub fn count_dropped(&self, count: u64) {
        self.learning.counters.dropped.fetch_add(count, Relaxed);
    }

    /// The sample of a request to the site of this index; none of a request that reads nothing, is speculative itself,
    /// or comes with credentials.
    pub fn sample<'t>(&self, site: u32, requested: &RequestedResource<'t>) -> Option<RequestSample<'t>> {
        let site_number = self.number_of(site)?;
        let request = requested.request.filter(|request| request.head.method == Method::Get && !requested.is_again)?;
        let traits = RequestTraits::of(request);
        if traits.is_speculative || traits.has_credentials {
            return None;
        }
        let referer = request.field(Field::Referer);
        let referer = referer.and_then(|referer| url::path_of_same_host(referer, requested.host)).unwrap_or_default();
        let (has_query, is_document) = (requested.query.is_some(), traits.is_document);
        Some(RequestSample { site, site_number, referer, has_query, is_document })
    }

    /// Tells the learner of a request for `path`, which is normalised, that was answered with 200 at `now_ms`.
    /// `connection` tells connections from each other; it is zero where their order says nothing. Whether there was
    /// room.
    pub fn observe(
        &self,
        queue: usize,
        sample: &RequestSample<'_>,
        path: &[u8],
        is_html: bool,
        connection: u64,
        now_ms: u64,
    ) -> bool {
        let Some(observation) = Observation::new(path, sample.referer) else { return true };
        let observation = Observation {
            is_page: is_html && sample.is_document != Some(false),
            follows: !sample.has_query,
            site: sample.site,
            // What counts are differences, of less than 49 days.
            at_ms: now_ms as u32,
            site_number: sample.site_number,
            connection,
            ..observation
        };
        self.learning.queues.tell(queue, observation)
    }

    /// The predictions for the page at `path` on the site of this index. Takes the learner's lock: not for threads that
    /// serve.
    pub fn following(&self, site: u32, path: &[u8]) -> Predictions {
        self.number_of(site).map(|number| self.learning.predictions(site, number, path)).unwrap_or_default()
    }

    /// A page was parsed and has these links to paths of the same site, normalised. To be told once for each state of
    /// the page. As [`Hints::following`], not for threads that serve.
    pub fn handle_links<'l>(&self, site: u32, page: &[u8], links: impl Iterator<Item = &'l str>) {
        let Some(number) = self.number_of(site) else { return };
        let mut learner = self.learning.lock();
        links.for_each(|link| learner.handle_link(number, page, link));
    }

    /// The learned state in the file of a server with these settings; none if no site has hints. Nothing is learned.
    pub fn of_file(settings: &Settings) -> Option<Hints> {
        let sites = sites(settings)?;
        let learning = Learning::open(&settings.hints, state_file(settings), false, SharedMemory::default(), None);
        Some(Hints { learning, sites })
    }

    /// The report on the page at `path`, normalised, on the site of this index, with its name `label`; none if that
    /// site has no hints.
    pub fn report(&self, site: u32, label: String, path: &[u8]) -> Option<HintReport> {
        self.number_of(site)?;
        let (predictions, store) = (self.following(site, path), self.learning.store());
        let least = self.learning.settings().probability_least;
        let following = predictions.following.iter().map(|one| {
            let key = Key { site, path: one.target.as_bytes() };
            FollowingReport {
                path: one.target.to_string(),
                percent: f64::from(one.probability.thousandths()) / 10.0,
                after_ms: one.after_ms,
                bytes: one.bytes,
                is_held: store.as_ref().is_some_and(|store| store.lookup(key, 0).is_some()),
                is_ahead: store.as_ref().is_some_and(|store| store.is_ahead(key)),
                is_expected: one.probability >= least,
            }
        });
        let learner = self.learning.lock();
        Some(HintReport {
            site: label,
            path: String::from_utf8_lossy(path).into_owned(),
            visits: predictions.visits,
            following: following.collect(),
            early_hints: Vec::new(),
            urls: learner.table.len(),
            names: learner.names.len(),
            bytes: learner.memory_bytes(),
            source: match &store {
                Some(_) => "learned from requests since the first start with this file".to_owned(),
                None => "as the first worker process has kept it".to_owned(),
            },
        })
    }

    /// Whether what is likely next is read ahead of requests.
    pub fn reads_ahead(&self) -> bool {
        self.learning.settings().reads_ahead
    }

    /// Something was likely, and was read ahead or was not.
    pub fn count_ahead(&self, is_kept: bool) {
        self.learning.counters.ahead_refused.fetch_add((!is_kept).into(), Relaxed);
    }

    /// The next file or page that is likely and not in the cache, to be read ahead of requests; none within `patience`.
    pub fn next_ahead(&self, patience: Duration) -> Option<Ahead> {
        self.learning.next_ahead(patience)
    }

    /// Counters of all processes.
    pub fn counters(&self) -> &HintCounters {
        &self.learning.counters
    }

    /// Writes what is known to its file. For the main thread.
    pub fn save(&self) {
        self.learning.save("new");
    }

    /// Another process goes on with what is known: this one writes it no more.
    pub fn retire(&self) {
        self.learning.retire();
    }

    fn number_of(&self, site: u32) -> Option<u64> {
        self.sites.get(site as usize).copied().flatten()
    }
}

/// `store` is told what `hints` predict from now on, or nothing any more.
pub fn attach(hints: Option<&Hints>, store: &Arc<Store>) {
    match hints {
        Some(hints) => hints.attach(store),
        None => store.set_precache(None),
    }
}

/// The table's numbers of the sites of `settings` that have hints; none if there are none.
fn sites(settings: &Settings) -> Option<Box<[Option<u64>]>> {
    let number = |(at, site): (usize, &lamna_config::settings::SiteSettings)| {
        let is_on = site.hints.unwrap_or(settings.hints.is_on);
        is_on.then(|| url::site_number(&site.label(at + 1)))
    };
    let sites: Box<[Option<u64>]> = settings.sites.iter().enumerate().map(number).collect();
    sites.iter().any(Option::is_some).then_some(sites)
}

/// Makes the folder in which what is learned with `settings` is to be kept, to be among what threads can reach. What
/// keeps it from being made is said when it is needed.
pub fn make_folder(settings: &Settings) {
    if are_wanted(settings)
        && let Some(file) = state_file(settings)
    {
        let _ = saved::make_folder(&file);
    }
}

/// Where what is learned is kept; none if there is no place, which is said.
fn file(settings: &Settings) -> Option<PathBuf> {
    let file = state_file(settings)?;
    match saved::make_folder(&file) {
        Ok(()) => Some(file),
        Err(error) => {
            let file = file.display();
            errors::tell(
                Level::Warning,
                format_args!("what is learned for hints is not kept: {file} cannot be made: {error}"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests;
