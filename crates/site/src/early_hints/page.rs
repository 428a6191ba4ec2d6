//! The record of one page: resources that it may need, their probabilities, and those that are hinted.
//!
//! Owns: [`Page`], which the maker makes and workers read, and the tallies that they count in. Guarantees: bounded;
//! what changes in it are counts, and each is changed for navigations only, or for what follows them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, Ordering::Relaxed};

use lamna_policy::hints::{ClientHintBudget, Probability};
use lamna_proto::exchange::early_hints::LinkField;

use super::next_pages::NextPages;
use super::viewing::Known;

/// Most resources of a page that are watched, hinted or not: as many as there are bits in a [`Choice`].
pub(super) const CANDIDATES_MAX: usize = 32;

/// Most of them that are hinted at once. More would only compete with each other.
pub(super) const HINTS_MAX: u32 = 12;

/// Most resources that views may find before the maker has looked at the page again.
const FINDS_MAX: u16 = 16;

/// Client networks that have to have asked for something, each in a view of its own, before others are told of it: what
/// one client asks for is its own affair.
pub(super) const NETWORKS_LEAST: usize = 3;

/// Counts at which both of a [`Tally`] are halved, so that what has changed is noticed.
const COUNTS_MAX: u16 = 64;

/// See the module.
#[derive(Debug)]
pub struct Page {
    number: u64,
    pub(super) candidates: Box<[Candidate]>,
    /// Those that are hinted: bits, by their place.
    pub(super) hinted: u32,
    /// Pages that are likely to be shown after it.
    pub(super) next: NextPages,
    /// It has been asked for, or a tally has changed, since the maker looked. Shared with the page before it, whose
    /// views go on.
    has_news: Arc<AtomicBool>,
    finds: AtomicU16,
}

/// Something that a page may need.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Its number, as [`EarlyHints::number`](super::EarlyHints::number) has it.
    pub(super) url: u64,
    pub(super) link: LinkField,
    /// As far as that is known.
    pub(super) bytes: u32,
    pub(super) probability: Probability,
    pub(super) tally: Arc<Tally>,
}

/// How often something was asked for behind a page in whose view it was not hinted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    asked: AtomicU16,
    missed: AtomicU16,
    /// The numbers of different networks that have asked for it; zero where there is none yet.
    networks: [AtomicU32; NETWORKS_LEAST],
    /// Counts of hints: given, and asked for then.
    pub(super) given: AtomicU32,
    pub(super) used: AtomicU32,
}

/// Which of a page's candidates: bits, by their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice(pub(super) u32);

impl Choice {
    /// Whether it is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Their places, in order.
    pub(super) fn places(self) -> impl Iterator<Item = usize> {
        (0..CANDIDATES_MAX).filter(move |place| self.0 & 1 << place != 0)
    }
}

impl Page {
    /// A page of these candidates, at most [`CANDIDATES_MAX`], of which `hinted` are hinted.
    pub(super) fn new(number: u64, candidates: Vec<Candidate>, hinted: u32) -> Page {
        debug_assert!(candidates.len() <= CANDIDATES_MAX && hinted.count_ones() <= HINTS_MAX);
        let (has_news, finds) = (Arc::default(), AtomicU16::new(FINDS_MAX));
        Page { number, candidates: candidates.into(), hinted, next: NextPages::default(), has_news, finds }
    }

    /// The same, with what is likely to be shown after it.
    pub(super) fn with_next(self, next: NextPages) -> Page {
        Page { next, ..self }
    }

    /// The same, in the place of `before`.
    pub(super) fn after(self, before: &Page) -> Page {
        Page { has_news: before.has_news.clone(), ..self }
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// It is asked for, or something has been counted: the maker is to look at it.
    pub fn handle_news(&self) {
        if !self.has_news.load(Relaxed) {
            self.has_news.store(true, Relaxed);
        }
    }

    /// Whether it has been asked for since this was asked.
    pub(super) fn take_news(&self) -> bool {
        self.has_news.swap(false, Relaxed)
    }

    /// Whether one more of what views find is taken.
    pub(super) fn takes_one_more(&self) -> bool {
        self.finds.fetch_update(Relaxed, Relaxed, |finds| finds.checked_sub(1)).is_ok()
    }

    /// More of what views find is taken.
    pub(super) fn refill(&self) {
        self.finds.store(FINDS_MAX, Relaxed);
    }

    /// Whether `other` says the same. Probabilities that differ a little do not matter.
    pub(super) fn is_like(&self, other: &Page) -> bool {
        let of = |page: &Page| -> Vec<(u64, u32, u16)> {
            page.candidates.iter().map(|one| (one.url, one.bytes, one.probability.thousandths() / 50)).collect()
        };
        self.hinted == other.hinted && of(self) == of(other) && self.next.is_like(&other.next)
    }

    /// The hinted candidates, without and within `known`.
    pub fn choose(&self, known: Option<&Known>) -> (Choice, Choice) {
        let is_known = |place: &usize| known.is_some_and(|known| known.holds(self.candidates[*place].url));
        let had = Choice(self.hinted).places().filter(is_known).fold(0, |bits, place| bits | 1 << place);
        (Choice(self.hinted & !had), Choice(had))
    }

    /// The part of `wanted` that the budget allows, in its order.
    pub fn within_budget(&self, wanted: Choice, budget: &ClientHintBudget) -> Choice {
        let mut bytes = 0;
        let allowed = wanted.places().filter(|place| {
            let one = &self.candidates[*place];
            let is_allowed = budget.allows(one.probability, bytes + u64::from(one.bytes));
            bytes += if is_allowed { u64::from(one.bytes) } else { 0 };
            is_allowed
        });
        Choice(allowed.fold(0, |bits, place| bits | 1 << place))
    }

    /// The links of `choice`.
    pub fn links(&self, choice: Choice) -> impl Iterator<Item = &LinkField> {
        choice.places().map(|place| &self.candidates[place].link)
    }

    /// Pages that are likely to be shown after it.
    pub fn next(&self) -> &NextPages {
        &self.next
    }

    /// Its candidates in words, those that are hinted first, and what is likely to be shown after it.
    pub(super) fn describe(&self) -> Vec<String> {
        let hinted = Choice(self.hinted).places();
        let watched = Choice(self.all().0 & !self.hinted).places();
        let needed = hinted.chain(watched).map(|place| self.candidates[place].describe(self.hinted & 1 << place != 0));
        needed.chain(self.next.describe()).collect()
    }

    /// The place of the candidate of this number.
    pub(super) fn place_of(&self, url: u64) -> Option<usize> {
        self.candidates.iter().position(|candidate| candidate.url == url)
    }

    /// All candidates.
    pub(super) fn all(&self) -> Choice {
        Choice(u32::MAX.checked_shr((CANDIDATES_MAX - self.candidates.len()) as u32).unwrap_or(0))
    }
}

impl Candidate {
    fn describe(&self, is_hinted: bool) -> String {
        let Candidate { link, bytes, probability, tally, .. } = self;
        let percent = f64::from(probability.thousandths()) / 10.0;
        let [given, used] = [&tally.given, &tally.used].map(|count| count.load(Relaxed));
        let (views, _) = tally.views();
        let is = if is_hinted { "hinted" } else { "not hinted" };
        let link = link.value();
        format!(
            "{link}: {is}, {percent:.1} %, {bytes} bytes; given {given} times, used {used}; {views} views without it"
        )
    }
}

impl Tally {
    /// It was asked for by a client of the network of this number.
    pub(super) fn count_asked(&self, network: u32) {
        self.see(network);
        self.count(&self.asked);
    }

    /// A client of the network of this number has asked for it, whatever that says of the page. Zero is none.
    pub(super) fn see(&self, network: u32) {
        for seen in &self.networks {
            match seen.compare_exchange(0, network, Relaxed, Relaxed) {
                Err(other) if other != network => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Whether so many networks have asked for it that it is private to none.
    pub(super) fn is_of_several(&self) -> bool {
        self.networks.iter().all(|seen| seen.load(Relaxed) != 0)
    }

    /// It was not, though the view was one.
    pub(super) fn count_missed(&self) {
        self.count(&self.missed);
    }

    /// It was asked for in a view that has been counted as one that did not.
    pub(super) fn count_asked_after_all(&self, network: u32) {
        // If none has, it was asked for more often than the page is known to have been shown.
        let _ = self.missed.fetch_update(Relaxed, Relaxed, |missed| missed.checked_sub(1));
        self.count_asked(network);
    }

    fn count(&self, count: &AtomicU16) {
        // Threads that count at the same time may halve twice: it fades a little sooner.
        if count.fetch_add(1, Relaxed) + 1 >= COUNTS_MAX {
            for count in [&self.asked, &self.missed] {
                count.store(count.load(Relaxed) / 2, Relaxed);
            }
        }
    }

    /// In how many views that is known, and with what probability it was asked for in one.
    pub(super) fn views(&self) -> (u16, Probability) {
        let asked = self.asked.load(Relaxed);
        let views = asked.saturating_add(self.missed.load(Relaxed));
        (views, Probability::of_counts(asked, views))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// A page of `count` candidates with the numbers 100 on, of which the first `hinted` are hinted.
    pub(crate) fn page(count: u64, hinted: u32) -> Arc<Page> {
        let candidate = |url| Candidate {
            url,
            link: LinkField::new(&format!("</{url}>; rel=preload; as=style")).unwrap(),
            bytes: 1_000,
            probability: Probability::CERTAIN,
            tally: Arc::default(),
        };
        Arc::new(Page::new(7, (100..100 + count).map(candidate).collect(), (1 << hinted) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_has_is_not_chosen() {
        let page = testing::page(4, 3);
        let mut known = Known::default();
        known.insert(101);
        assert_eq!(page.choose(None), (Choice(0b111), Choice(0)));
        assert_eq!(page.choose(Some(&known)), (Choice(0b101), Choice(0b010)));
        let links: Vec<_> = page.links(Choice(0b101)).map(LinkField::value).collect();
        assert_eq!(links, ["</100>; rel=preload; as=style", "</102>; rel=preload; as=style"]);
    }

    #[test]
    fn all_candidates_are_as_many_bits() {
        for count in [0, 1, 31, 32] {
            assert_eq!(u64::from(testing::page(count, 0).all().count()), count);
        }
    }

    #[test]
    fn a_page_takes_so_many_finds_and_no_more() {
        let page = testing::page(0, 0);
        assert_eq!((0..100).filter(|_| page.takes_one_more()).count(), usize::from(FINDS_MAX));
    }

    #[test]
    fn one_network_is_one_however_often_it_asks() {
        let tally = Tally::default();
        for network in [0, 7, 7, 7, 0, 9, 7, 9] {
            tally.count_asked(network);
            assert!(!tally.is_of_several());
        }
        tally.see(8);
        assert!(tally.is_of_several());
    }

    #[test]
    fn what_was_always_so_is_doubted_soon_when_it_is_so_no_more() {
        let tally = Tally::default();
        (0..1_000).for_each(|_| tally.count_asked(1));
        assert!(tally.views().1 > Probability::per_mille(950));
        let misses = (1..100).find(|_| {
            tally.count_missed();
            tally.views().1 < Probability::per_mille(750)
        });
        assert!(misses.is_some_and(|misses| misses <= 25), "{misses:?}");
    }
}
