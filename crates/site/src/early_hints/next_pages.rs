//! The pages that are likely to be shown after a page, and the one of them that clients are told to fetch ahead
//! (`Link: rel=prefetch`, HTML 4.6.7).
//!
//! ```text
//!   Pages ── the page is shown ──────────────> link in the answer's head ──> browser fetches ahead (Sec-Purpose: prefetch)
//!     ^            │ control group: no link                                        │
//!     │            v                                                               v
//!   maker <── tallies: what the control group asks for next             budget: fetched, asked for, wanted
//! ```
//!
//! Owns: [`NextPages`], which workers read, [`NextLeads`], of which the maker makes it, and who belongs to the control
//! group. Guarantees: a page has [`NEXT_PAGES_MAX`] of them, and a link to the likeliest at most; how likely one is is
//! counted by clients that were sent no link to it, because what a browser has fetched ahead it shows without asking
//! again.
//!
//! # The control group
//! One in [`CLIENTS_PER_CONTROL`] networks of clients (a /32 of IPv4, a /64 of IPv6) is sent no link on a page, for an
//! hour. A keyed hash of network, page and hour selects it. So it is known of each request whether its client was told,
//! over whichever connection it comes and however late, and no data about clients are kept.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_config::early_hints::LinkPrefetchSettings;
use lamna_policy::hints::{LinkPrefetchBudget, Probability};
use lamna_proto::exchange::early_hints::LinkField;
use lamna_proto::time::Instant;

use super::counters::{LinkPrefetchCounters, add};
use super::page::Tally;
use crate::cache::Predictions;

/// Pages after a page that are counted.
pub(super) const NEXT_PAGES_MAX: usize = 4;

/// One of so many networks of clients is told nothing.
const CLIENTS_PER_CONTROL: u64 = 16;

/// For each of those so many are.
pub(super) const TOLD_PER_CONTROL: u32 = CLIENTS_PER_CONTROL as u32 - 1;

/// How long a network belongs to the control group of a page, or does not.
const CONTROL_MS: u64 = 3_600_000;

/// Views before which no probability is believed, learned or counted.
const VIEWS_BELIEVED: u16 = 8;

/// Views after which what is the least likely may go for another.
const VIEWS_TO_STAY: u16 = 4;

/// A learned successor less likely than so many thousandths is not even counted.
const LEARNED_LEAST: u16 = 250;

/// A network of clients.
pub type Network = (bool, u64);

/// A page that may be shown after another.
#[derive(Clone, Debug)]
pub struct NextPage {
    /// Its number, as [`EarlyHints::number`](super::EarlyHints::number) has it.
    pub(super) number: u64,
    pub(super) link: Arc<LinkField>,
    /// As far as that is known; none if it may not be fetched ahead.
    pub(super) bytes: Option<u32>,
    pub(super) probability: Probability,
    pub(super) tally: Arc<Tally>,
}

/// Those after one page, the likeliest first.
#[derive(Debug, Default)]
pub struct NextPages {
    pages: Box<[NextPage]>,
    /// The place of the one that clients are sent a link to.
    hinted: Option<usize>,
}

/// The maker's candidates for the page after one.
#[derive(Debug, Default)]
pub(super) struct NextLeads(Vec<NextLead>);

#[derive(Debug)]
struct NextLead {
    /// As browsers ask for it.
    path: String,
    number: u64,
    /// The learned probability.
    learned: Probability,
    tally: Arc<Tally>,
}

/// The settings of a site, and the outcome of its links.
#[derive(Debug)]
pub struct LinkPrefetch {
    pub(super) settings: LinkPrefetchSettings,
    pub(super) budget: LinkPrefetchBudget,
}

impl LinkPrefetch {
    pub(super) fn new(settings: LinkPrefetchSettings, grace_bytes: u64) -> LinkPrefetch {
        let share = u16::from(settings.waste_percent_max) * 10;
        LinkPrefetch { settings, budget: LinkPrefetchBudget::new(share, grace_bytes, TOLD_PER_CONTROL) }
    }
}

/// Whether `network` belongs to the control group of the page of this number now.
pub(super) fn is_control(keys: &impl BuildHasher, page: u64, network: Network, now: Instant) -> bool {
    keys.hash_one((network, page, now.ms() / CONTROL_MS)).is_multiple_of(CLIENTS_PER_CONTROL)
}

impl NextPages {
    /// The page that clients are sent a link to, if the site's budget allows it.
    pub fn hinted(&self) -> Option<&NextPage> {
        self.hinted.and_then(|place| self.pages.get(place))
    }

    /// The page is shown to a client, of the control group or not: what it is to be sent a link to.
    pub fn handle_view(
        &self,
        is_control: bool,
        site: &LinkPrefetch,
        counters: &LinkPrefetchCounters,
    ) -> Option<&NextPage> {
        site.budget.handle_view();
        if let Some(next) = self.count_view(is_control, site) {
            return Some(next);
        }
        if self.hinted().is_some() {
            let is_of_control = is_control && site.budget.allows();
            add(if is_of_control { &counters.withheld_control } else { &counters.withheld_budget }, 1);
        }
        None
    }

    /// The same for a client that shows the page without asking for it, because it had fetched it ahead: it is sent
    /// nothing.
    pub fn handle_unseen_view(&self, is_control: bool, site: &LinkPrefetch) {
        self.count_view(is_control, site);
    }

    /// Counts a view for those that its client is not told of. The one that it is.
    fn count_view(&self, is_control: bool, site: &LinkPrefetch) -> Option<&NextPage> {
        let told = self.hinted().filter(|_| !is_control && site.budget.allows());
        let others = self.pages.iter().filter(|next| told.is_none_or(|told| told.number != next.number));
        others.for_each(|next| next.tally.count_missed());
        told
    }

    /// After the page a client of this network has asked for the page of this number, in the ordinary way. False if
    /// that is none of these.
    pub fn handle_asked(
        &self,
        (number, network): (u64, u32),
        is_control: bool,
        site: &LinkPrefetch,
        counters: &LinkPrefetchCounters,
    ) -> bool {
        let Some(next) = self.pages.iter().find(|next| next.number == number) else { return false };
        next.tally.see(network);
        let is_hinted = self.hinted().is_some_and(|hinted| hinted.number == number) && site.budget.allows();
        let bytes = next.bytes();
        if is_hinted && !is_control {
            site.budget.handle_asked(bytes);
            add(&counters.asked, 1);
            add(&counters.asked_bytes, bytes);
            return true;
        }
        next.tally.count_asked_after_all(network);
        if is_hinted {
            site.budget.handle_wanted(bytes);
            add(&counters.control_asked, 1);
            add(&counters.control_asked_bytes, bytes);
        }
        true
    }

    /// After the page a client has fetched the page of this number ahead. Whether it was told to. `is_whole`: it has
    /// not got it already.
    pub fn handle_fetched(
        &self,
        number: u64,
        is_whole: bool,
        site: &LinkPrefetch,
        counters: &LinkPrefetchCounters,
    ) -> bool {
        let Some(next) = self.hinted().filter(|next| next.number == number) else { return false };
        let bytes = if is_whole { next.bytes() } else { 0 };
        site.budget.handle_fetched(bytes);
        add(&counters.fetched, 1);
        add(&counters.fetched_bytes, bytes);
        true
    }

    /// Whether `other` says the same. Probabilities that differ a little do not matter.
    pub(super) fn is_like(&self, other: &NextPages) -> bool {
        let of = |next: &NextPages| -> Vec<(u64, Option<u32>, u16)> {
            next.pages.iter().map(|one| (one.number, one.bytes, one.probability.thousandths() / 50)).collect()
        };
        self.hinted == other.hinted && of(self) == of(other)
    }

    /// In words.
    pub(super) fn describe(&self) -> impl Iterator<Item = String> {
        self.pages.iter().map(|next| next.describe(self.hinted().is_some_and(|hinted| hinted.number == next.number)))
    }
}

impl NextPage {
    /// The link to it.
    pub fn link(&self) -> &Arc<LinkField> {
        &self.link
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How likely it is.
    pub fn probability(&self) -> Probability {
        self.probability
    }

    fn bytes(&self) -> u64 {
        self.bytes.unwrap_or_default().into()
    }

    /// A link to it was sent.
    pub(super) fn count_sent(&self) {
        self.tally.given.fetch_add(1, Relaxed);
    }

    fn describe(&self, is_hinted: bool) -> String {
        let NextPage { link, probability, tally, .. } = self;
        let bytes = self.bytes.map_or("may not be fetched ahead".to_owned(), |bytes| format!("{bytes} bytes"));
        let percent = f64::from(probability.thousandths()) / 10.0;
        let (views, given) = (tally.views().0, tally.given.load(Relaxed));
        let (link, is) = (link.value(), if is_hinted { "hinted" } else { "not hinted" });
        format!("{link}: {is}, {percent:.1} %, {bytes}; given {given} times; {views} views without it")
    }
}

impl NextLeads {
    /// A view was followed by one of the page at `path`, which is not counted yet.
    pub(super) fn find(&mut self, path: String, number: u64, network: u32) {
        if let Some(tally) = self.add(path, number, Probability::default()) {
            tally.count_asked(network);
        }
    }

    /// Takes the learned successors of the page. `number_of` numbers paths, and has none for a path that is no page.
    pub(super) fn learn(&mut self, predictions: &Predictions, number_of: impl Fn(&str) -> Option<u64>) {
        self.0.iter_mut().for_each(|lead| lead.learned = Probability::default());
        if predictions.visits < VIEWS_BELIEVED {
            return;
        }
        for one in predictions.following.iter().filter(|one| one.probability.thousandths() >= LEARNED_LEAST) {
            if let Some(lead) = self.0.iter_mut().find(|lead| lead.path == *one.target) {
                lead.learned = one.probability;
            } else if let Some(number) = number_of(&one.target) {
                self.add(one.target.to_string(), number, one.probability);
            }
        }
    }

    /// Whether the page at `path` is among them.
    pub(super) fn holds(&self, path: &str) -> bool {
        self.0.iter().any(|lead| lead.path == path)
    }

    /// None.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, path: String, number: u64, learned: Probability) -> Option<&Tally> {
        if self.0.len() >= NEXT_PAGES_MAX {
            let known = self.0.iter().enumerate().filter(|(_, lead)| lead.tally.views().0 >= VIEWS_TO_STAY);
            let least = known.min_by_key(|(_, lead)| lead.probability()).map(|(at, _)| at)?;
            self.0.remove(least);
        }
        self.0.push(NextLead { path, number, learned, tally: Arc::default() });
        self.0.last().map(|lead| &*lead.tally)
    }

    /// The next pages to publish. `bytes_of` knows the size of a page; a page without one may not be fetched ahead, and
    /// is only counted.
    pub(super) fn make(&self, site: &LinkPrefetch, bytes_of: impl Fn(&str) -> Option<u32>) -> NextPages {
        let least = Probability::per_mille(u16::from(site.settings.probability_percent_min) * 10);
        let next = |lead: &NextLead| {
            Some(NextPage {
                number: lead.number,
                link: Arc::new(LinkField::new(&format!("<{}>; rel=prefetch", lead.path))?),
                bytes: bytes_of(&lead.path),
                probability: lead.probability(),
                tally: lead.tally.clone(),
            })
        };
        let mut pages: Vec<NextPage> = self.0.iter().filter_map(next).collect();
        pages.sort_by_key(|page| std::cmp::Reverse(page.probability));
        let least = least.max(Probability::per_mille(1));
        let may_be = |page: &NextPage| page.bytes.is_some() && page.tally.is_of_several();
        let hinted = pages.iter().position(|page| may_be(page) && page.probability >= least);
        NextPages { pages: pages.into(), hinted }
    }
}

impl NextLead {
    /// By views in which it was not hinted, if there are enough of them.
    fn probability(&self) -> Probability {
        let (views, counted) = self.tally.views();
        if views >= VIEWS_BELIEVED { counted } else { self.learned }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use super::*;

    fn site(waste_percent_max: u8, grace_bytes: u64) -> LinkPrefetch {
        let settings = LinkPrefetchSettings { waste_percent_max, ..LinkPrefetchSettings::default() };
        LinkPrefetch::new(settings, grace_bytes)
    }

    /// Successors of a page: the pages with the numbers 1 on, each after so many of 16 views.
    fn leads(asked: &[u16]) -> NextLeads {
        let mut leads = NextLeads::default();
        for (at, asked) in asked.iter().enumerate() {
            leads.find(format!("/{}.html", at + 1), at as u64 + 1, 1);
            let tally = &leads.0.last().unwrap().tally;
            (1..4).for_each(|network| tally.see(network));
            (1..*asked).for_each(|_| tally.count_asked(1));
            (*asked..16).for_each(|_| tally.count_missed());
        }
        leads
    }

    fn made(asked: &[u16], site: &LinkPrefetch) -> NextPages {
        leads(asked).make(site, |_| Some(1_000))
    }

    #[test]
    fn one_network_in_16_is_told_nothing_and_each_hour_it_is_another() {
        let (keys, now) = (RandomState::new(), Instant::from_ms(10));
        let of = |page, now| -> Vec<u64> {
            (0..16_000).filter(|network| is_control(&keys, page, (false, *network), now)).collect()
        };
        let control = of(7, now);
        assert!((800..1_200).contains(&control.len()), "{}", control.len());
        assert_eq!(control, of(7, Instant::from_ms(CONTROL_MS - 1)));
        assert!(control != of(7, Instant::from_ms(CONTROL_MS)) && control != of(8, now));
    }

    #[test]
    fn the_likeliest_page_is_hinted_if_it_is_likely_enough() {
        let site = site(50, 1 << 20);
        assert_eq!(made(&[3, 12, 1], &site).hinted().map(NextPage::number), Some(2));
        assert!(made(&[3, 7, 1], &site).hinted().is_none(), "less than half");
        assert_eq!(made(&[12], &site).hinted().map(|next| next.link().value()), Some("</1.html>; rel=prefetch"));
        let all = leads(&[3, 12, 1]);
        let others = all.make(&site, |path| (path != "/2.html").then_some(1));
        assert!(others.hinted().is_none(), "it may not be fetched ahead");
    }

    #[test]
    fn few_views_say_nothing_whoever_has_counted_them() {
        let (site, counters) = (site(50, 1 << 20), LinkPrefetchCounters::default());
        let mut leads = NextLeads::default();
        leads.find("/1.html".to_owned(), 1, 1);
        for view in 1..20 {
            let next = leads.make(&site, |_| Some(1_000));
            assert_eq!(next.hinted().is_some(), view >= VIEWS_BELIEVED, "{view}");
            assert!(next.handle_view(true, &site, &counters).is_none());
            next.handle_asked((1, view.into()), true, &site, &counters);
        }
        let following = |visits| {
            let one = crate::cache::Following {
                target: "/1.html".into(),
                probability: Probability::per_mille(900),
                after_ms: 1,
                bytes: None,
            };
            Predictions { visits, following: vec![one].into() }
        };
        let mut leads = NextLeads::default();
        for (visits, is_hinted) in [(7, false), (8, true), (3, false)] {
            leads.learn(&following(visits), |_| Some(1));
            leads.0.iter().for_each(|lead| (1..4).for_each(|network| lead.tally.see(network)));
            assert_eq!(leads.make(&site, |_| Some(1_000)).hinted().is_some(), is_hinted, "{visits}");
        }
    }

    #[test]
    fn one_client_does_not_say_what_all_fetch_ahead() {
        let (site, counters) = (site(50, 1 << 20), LinkPrefetchCounters::default());
        let mut leads = NextLeads::default();
        leads.find("/logout".to_owned(), 1, 7);
        for _ in 0..40 {
            let next = leads.make(&site, |_| Some(1_000));
            assert!(next.hinted().is_none());
            next.handle_view(true, &site, &counters);
            next.handle_asked((1, 7), true, &site, &counters);
        }
        for network in [8, 9] {
            leads.make(&site, |_| Some(1_000)).handle_asked((1, network), true, &site, &counters);
        }
        assert!(leads.make(&site, |_| Some(1_000)).hinted().is_some());
    }

    #[test]
    fn what_those_do_who_are_told_says_nothing_of_how_likely_a_page_is() {
        let (site, counters) = (site(50, 1 << 20), LinkPrefetchCounters::default());
        let next = made(&[14, 2], &site);
        let views = |next: &NextPages| -> Vec<u16> { next.pages.iter().map(|one| one.tally.views().0).collect() };
        for _ in 0..10 {
            assert_eq!(next.handle_view(false, &site, &counters).map(NextPage::number), Some(1));
            assert!(next.handle_asked((1, 1), false, &site, &counters));
            next.handle_unseen_view(false, &site);
        }
        assert_eq!(views(&next), [16, 36], "of the one that is not hinted views are counted");
        assert!(next.handle_view(true, &site, &counters).is_none());
        assert!(
            next.handle_asked((1, 1), true, &site, &counters) && !next.handle_asked((9, 1), true, &site, &counters)
        );
        assert_eq!(views(&next), [17, 37]);
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Relaxed);
        assert_eq!([&counters.asked, &counters.control_asked, &counters.withheld_control].map(count), [10, 1, 1]);
    }

    #[test]
    fn a_site_whose_clients_fetch_in_vain_tells_them_no_more() {
        let (site, counters) = (site(50, 4_500), LinkPrefetchCounters::default());
        let next = made(&[14], &site);
        let fetched = (0..100).find(|_| {
            assert!(!next.handle_fetched(9, true, &site, &counters), "nobody was told");
            assert!(next.handle_fetched(1, false, &site, &counters), "what it has takes nothing");
            assert!(next.handle_fetched(1, true, &site, &counters));
            next.handle_view(false, &site, &counters).is_none()
        });
        assert_eq!(fetched, Some(9));
        assert_eq!(counters.withheld_budget.load(Relaxed), 1);
        // Everybody is the control group now.
        assert!(next.handle_asked((1, 1), false, &site, &counters));
        assert_eq!(next.pages[0].tally.views().0, 17);
    }

    #[test]
    fn of_many_pages_the_likeliest_are_counted() {
        let site = site(50, 1 << 20);
        let mut leads = leads(&[9, 1, 8, 7]);
        leads.find("/5.html".to_owned(), 5, 1);
        assert!(leads.holds("/5.html") && !leads.holds("/2.html"));
        assert_eq!(leads.make(&site, |_| Some(1)).pages.len(), NEXT_PAGES_MAX);
    }
}
