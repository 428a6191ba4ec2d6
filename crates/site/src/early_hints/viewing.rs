//! A client's requests and hints on one connection: so that it is not hinted what it has, and the outcome of hints is
//! known.
//!
//! Owns: [`Viewing`], of one connection: the page that it shows, which of its hints are open, and [`Known`], a digest
//! of what was asked for and hinted. Guarantees: its size is fixed, and it holds no text; each hint that was given is
//! counted once as used or as wasted, at the latest when the connection goes. A connection that was never shown a page
//! of a site with hints has none.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::time::Instant;

use super::SiteHints;
use super::page::{Choice, Page};

/// A request later than this after a page does not count as caused by it: hints that are open then were given in vain.
const VIEW_MS: u64 = 30_000;

/// A request later than this after a page does not count as one that the page needs early.
const FIND_MS: u64 = 10_000;

/// See the module.
#[derive(Debug)]
pub struct Viewing {
    known: Known,
    page: Arc<Page>,
    site: Arc<SiteHints>,
    since: Instant,
    /// Hinted, and not asked for.
    open: u32,
    /// Not hinted, and likely not there: whether it is asked for says how likely it is.
    watched: u32,
    /// Watched candidates that were asked for.
    asked: u32,
    /// The page that was fetched ahead over this connection last, and has not been seen to be shown. Zero is none.
    ahead: u64,
}

impl Viewing {
    /// A view of `page` begins, on a connection that shows its first.
    pub fn new(page: Arc<Page>, site: Arc<SiteHints>, now: Instant) -> Viewing {
        Viewing { known: Known::default(), page, site, since: now, open: 0, watched: 0, asked: 0, ahead: 0 }
    }

    /// Resources that the client is likely to have.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Whether it is `page` that is shown, since `now`: that of a request that is looked at again.
    pub fn is_of(&self, page: &Arc<Page>, now: Instant) -> bool {
        Arc::ptr_eq(&self.page, page) && now.since(self.since) < FIND_MS
    }

    /// A view of `page` begins: the one before is over. `given` was hinted.
    pub fn show(&mut self, page: &Arc<Page>, site: &Arc<SiteHints>, given: Choice, now: Instant) {
        self.end();
        if !Arc::ptr_eq(&self.page, page) {
            self.page = page.clone();
        }
        if !Arc::ptr_eq(&self.site, site) {
            self.site = site.clone();
        }
        let of = |choice: Choice| choice.places().map(|place| &page.candidates[place]);
        let had = page.all().places().filter(|place| self.known.holds(page.candidates[*place].url));
        let had = had.fold(0, |bits, place| bits | 1 << place);
        (self.since, self.open, self.asked) = (now, given.0, 0);
        self.watched = page.all().0 & !given.0 & !had;
        if !given.is_empty() {
            site.handle_sent(given.count(), of(given).map(|one| u64::from(one.bytes)).sum());
            for one in of(given) {
                one.tally.given.fetch_add(1, Relaxed);
                self.known.insert(one.url);
            }
        }
    }

    /// The client is likely to have the resource of this number soon.
    pub fn handle_link(&mut self, url: u64) {
        self.known.insert(url);
    }

    /// The page of this number is being fetched ahead.
    pub fn handle_fetched_ahead(&mut self, url: u64) {
        self.ahead = url;
    }

    /// Whether something that names the page of this number shows that what was fetched ahead is shown. Once for each.
    pub fn take_ahead(&mut self, url: u64) -> bool {
        let is_it = self.ahead == url && url != 0;
        self.ahead = if is_it { 0 } else { self.ahead };
        is_it
    }

    /// The resource of this number was asked for at `now` from the network of that number, and what that is to the page
    /// that is shown.
    pub fn handle_request(&mut self, url: u64, now: Instant, network: u32) -> Role {
        if now.since(self.since) > VIEW_MS {
            self.end();
        }
        let was_known = self.known.holds(url);
        self.known.insert(url);
        let Some(place) = self.page.place_of(url) else {
            let is_found = !was_known && now.since(self.since) < FIND_MS;
            return if is_found { Role::Unknown } else { Role::Nothing };
        };
        let (one, bit) = (&self.page.candidates[place], 1 << place);
        if self.open & bit != 0 {
            self.open &= !bit;
            one.tally.used.fetch_add(1, Relaxed);
            self.site.handle_used(one.bytes.into());
        } else if self.watched & !self.asked & bit != 0 {
            self.asked |= bit;
            one.tally.count_asked(network);
            self.page.handle_news();
        }
        Role::Nothing
    }

    /// The page that is shown.
    pub fn page(&self) -> &Arc<Page> {
        &self.page
    }

    /// Ends the view: later requests do not count as caused by the page.
    fn end(&mut self) {
        for place in Choice(self.open).places() {
            self.site.handle_wasted(self.page.candidates[place].bytes.into());
        }
        // A client that has asked for nothing may have gone before the page was there.
        if self.asked != 0 {
            Choice(self.watched & !self.asked)
                .places()
                .for_each(|place| self.page.candidates[place].tally.count_missed());
        }
        (self.open, self.watched, self.asked) = (0, 0, 0);
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        self.end();
    }
}

/// The role of a request for the page that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing that is of interest any more.
    Nothing,
    /// It may be for a resource that the page needs and that is not known yet.
    Unknown,
}

/// Resources that were asked for and hinted on a connection: a Bloom filter (Bloom, CACM 1970) of 512 bits, with two
/// for each resource. At 64 resources one in 20 unknown ones passes for known, and the next begins a new filter. So a
/// client may be hinted a resource that it has, seldom, and misses few hints for ones that it has not.
#[derive(Clone, Debug, Default)]
pub struct Known {
    bits: [u64; 8],
    count: u8,
}

/// Resources after which a digest begins anew.
const KNOWN_MAX: u8 = 64;

impl Known {
    /// Two bits, from different parts of the number.
    fn places(url: u64) -> [(usize, u64); 2] {
        [url, url >> 32].map(|part| ((part >> 6) as usize % 8, 1 << (part % 64)))
    }

    /// `url` is known from now on.
    pub fn insert(&mut self, url: u64) {
        if self.holds(url) {
            return;
        }
        if self.count == KNOWN_MAX {
            *self = Known::default();
        }
        self.count += 1;
        for (word, bit) in Known::places(url) {
            self.bits[word] |= bit;
        }
    }

    /// Whether it is.
    pub fn holds(&self, url: u64) -> bool {
        Known::places(url).iter().all(|(word, bit)| self.bits[*word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::page::testing::page;
    use super::*;
    use crate::early_hints::Counters;
    use lamna_config::early_hints::EarlyHintSettings;
    use lamna_policy::hints::{ClientHintBudget, Probability};
    use lamna_sys::shared_memory::SharedMemory;

    fn site() -> (Arc<SiteHints>, SharedMemory<Counters>) {
        let counters = SharedMemory::<Counters>::default();
        let budget = ClientHintBudget::new(100, 1 << 20, Probability::default());
        let settings = EarlyHintSettings::default();
        let hints = SiteHints { preloads: true, settings, budget, link_prefetch: None, counters: counters.clone() };
        (Arc::new(hints), counters)
    }

    fn counted(counters: &Counters) -> [u64; 3] {
        [&counters.hints.sent, &counters.hints.used, &counters.hints.wasted].map(|count| count.load(Relaxed))
    }

    const BEGIN: Instant = Instant::from_ms(1_000);

    #[test]
    fn each_hint_is_used_or_wasted_once() {
        let (page, (site, counters)) = (page(3, 2), site());
        let mut viewing = Viewing::new(page.clone(), site.clone(), BEGIN);
        viewing.show(&page, &site, Choice(0b11), BEGIN);
        assert_eq!(counted(&counters), [2, 0, 0]);
        for _ in 0..2 {
            assert_eq!(viewing.handle_request(100, BEGIN, 1), Role::Nothing);
            assert_eq!(counted(&counters), [2, 1, 0]);
        }
        drop(viewing);
        assert_eq!(counted(&counters), [2, 1, 1]);
        assert_eq!(site.budget.waste(), Probability::per_mille(500));
    }

    #[test]
    fn a_view_is_over_with_the_next_one_and_after_a_while() {
        let (page, (site, counters)) = (page(3, 2), site());
        let mut viewing = Viewing::new(page.clone(), site.clone(), BEGIN);
        viewing.show(&page, &site, Choice(0b01), BEGIN);
        viewing.show(&page, &site, Choice(0b10), BEGIN);
        assert_eq!(counted(&counters), [2, 0, 1]);
        viewing.handle_request(101, BEGIN.after_ms(VIEW_MS as u32 + 1), 1);
        assert_eq!(counted(&counters), [2, 0, 2], "it was asked for too late");
    }

    #[test]
    fn what_was_not_hinted_is_counted_for_and_against() {
        let (page, (site, _)) = (page(3, 1), site());
        let mut viewing = Viewing::new(page.clone(), site.clone(), BEGIN);
        viewing.show(&page, &site, Choice(0b001), BEGIN);
        viewing.handle_request(100, BEGIN, 1);
        viewing.handle_request(101, BEGIN, 1);
        drop(viewing);
        let views: Vec<u16> = page.candidates.iter().map(|one| one.tally.views().0).collect();
        assert_eq!(views, [0, 1, 1], "what was hinted says nothing of the page");
        assert!(page.candidates[1].tally.views().1 > page.candidates[2].tally.views().1);
    }

    #[test]
    fn who_asks_for_nothing_says_nothing() {
        let (page, (site, _)) = (page(3, 0), site());
        let mut viewing = Viewing::new(page.clone(), site.clone(), BEGIN);
        viewing.show(&page, &site, Choice::default(), BEGIN);
        drop(viewing);
        assert!(page.candidates.iter().all(|one| one.tally.views().0 == 0));
    }

    #[test]
    fn what_nobody_knew_of_is_found_once_and_soon() {
        let (page, (site, _)) = (page(1, 1), site());
        let mut viewing = Viewing::new(page.clone(), site.clone(), BEGIN);
        viewing.show(&page, &site, Choice::default(), BEGIN);
        assert_eq!(viewing.handle_request(900, BEGIN, 1), Role::Unknown);
        assert_eq!(viewing.handle_request(900, BEGIN, 1), Role::Nothing);
        assert_eq!(viewing.handle_request(901, BEGIN.after_ms(FIND_MS as u32), 1), Role::Nothing);
    }

    #[test]
    fn a_digest_holds_what_was_put_in_and_little_else() {
        let number = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let mut known = Known::default();
        (0..64).for_each(|at| known.insert(number(at)));
        assert!((0..64).all(|at| known.holds(number(at))));
        let wrong = (1_000..2_000).filter(|at| known.holds(number(*at))).count();
        assert!(wrong < 100, "{wrong} of 1000");
    }

    #[test]
    fn a_connection_holds_so_much() {
        assert_eq!(size_of::<Viewing>(), 120);
    }
}
