//! Counters of hints to clients and of their outcome, in all processes of a server.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lamna_proto::counter::{Row, Unit};
use lamna_sys::shared_memory::{process_shared, shared_counters};

use super::next_pages::TOLD_PER_CONTROL;

shared_counters! {
    /// Counters of hints to clients. Touched for navigations, and for what was hinted.
    pub struct EarlyHintCounters {
        /// Hints that were sent.
        pub sent = hints(&[("fate", "sent")]).family("Hints to clients, by what became of them.")
            .json("early_hints.sent").text("early hints", "sent");
        /// Bytes of what sent hints name, as far as that is known.
        pub sent_bytes = hint_bytes(&[("fate", "sent")]).family("Bytes of what hints name.")
            .json("early_hints.sent_bytes").text("early hints", "sent");
        /// Hints whose resource was asked for then.
        pub used = hints(&[("fate", "used")]).json("early_hints.used").text("early hints", "used");
        /// Bytes of what hints name that was asked for.
        pub used_bytes = hint_bytes(&[("fate", "used")]).json("early_hints.used_bytes").text("early hints", "used");
        /// Hints whose resource was not.
        pub wasted = hints(&[("fate", "wasted")]).json("early_hints.wasted").text("early hints", "wasted");
        /// Bytes of what hints name that was not.
        pub wasted_bytes = hint_bytes(&[("fate", "wasted")])
            .json("early_hints.wasted_bytes").text("early hints", "wasted");
        /// Hints that were not sent, because the client is likely to have what they name.
        pub withheld_known = hints(&[("fate", "withheld_known")])
            .json("early_hints.withheld_known").text("hints withheld", "known");
        /// Hints that were not sent, because too much was wasted.
        pub withheld_budget = hints(&[("fate", "withheld_budget")])
            .json("early_hints.withheld_budget").text("hints withheld", "over the budget");
        /// Hints that were not sent, because the view is one of those that get none.
        pub withheld_control = hints(&[("fate", "withheld_control")])
            .json("early_hints.withheld_control").text("hints withheld", "for the control group");
        /// Pages whose needs are known.
        pub pages = Row::gauge("lamna_early_hint_pages").json("early_hints.pages").text("early hints", "pages known");
    }
}

shared_counters! {
    /// Counters of links to likely next pages.
    pub struct LinkPrefetchCounters {
        /// Links that were sent.
        pub sent = links(&[("fate", "sent")]).family("Links to likely next pages, by what became of them.")
            .json("early_hints.link_prefetch.sent").text("next pages", "links");
        /// Pages that were fetched ahead because of them.
        pub fetched = links(&[("fate", "fetched")])
            .json("early_hints.link_prefetch.fetched").text("next pages", "fetched ahead");
        /// Bytes of pages fetched ahead.
        pub fetched_bytes = link_bytes(&[("fate", "fetched")]).family("Bytes of the pages that links to next pages name.")
            .json("early_hints.link_prefetch.fetched_bytes").text("next pages", "fetched ahead");
        /// Pages fetched ahead that are known to have been shown: their parts were asked for.
        pub shown = links(&[("fate", "shown")]).json("early_hints.link_prefetch.shown").text("next pages", "shown");
        /// Pages that clients which are sent links asked for in the ordinary way.
        pub asked = links(&[("fate", "asked")]).json("early_hints.link_prefetch.asked").text("next pages", "asked for");
        /// Bytes of pages asked for in the ordinary way.
        pub asked_bytes = link_bytes(&[("fate", "asked")])
            .json("early_hints.link_prefetch.asked_bytes").text("next pages", "asked for");
        /// Pages that the control group asked for, of those that it was not sent links to.
        pub control_asked = links(&[("fate", "control_asked")])
            .json("early_hints.link_prefetch.control_asked").text("next pages", "asked for by the control group");
        /// Bytes of pages that the control group asked for.
        pub control_asked_bytes = link_bytes(&[("fate", "control_asked")])
            .json("early_hints.link_prefetch.control_asked_bytes").text("next pages", "asked for by the control group");
        /// Links that the control group was not sent.
        pub withheld_control = links(&[("fate", "withheld_control")])
            .json("early_hints.link_prefetch.withheld_control").text("links withheld", "for the control group");
        /// Links that were not sent, because the client is likely to have what they name.
        pub withheld_known = links(&[("fate", "withheld_known")])
            .json("early_hints.link_prefetch.withheld_known").text("links withheld", "known");
        /// Links that were not sent, because too much was fetched in vain.
        pub withheld_budget = links(&[("fate", "withheld_budget")])
            .json("early_hints.link_prefetch.withheld_budget").text("links withheld", "over the budget");
    }
}

process_shared! {
    /// Counters of hints to clients.
    #[derive(Debug, Default)]
    pub struct Counters {
        /// Hints of what pages need.
        pub hints: EarlyHintCounters,
        /// Links to next pages.
        pub link_prefetch: LinkPrefetchCounters,
        /// The key by which all processes number URLs; zero before the first has chosen it.
        pub(super) key: [AtomicU64; 2],
    }
}

type Fate = &'static [(&'static str, &'static str)];

const fn hints(fate: Fate) -> Row {
    Row::counter("lamna_early_hints_total").labels(fate)
}

const fn hint_bytes(fate: Fate) -> Row {
    Row::counter("lamna_early_hints_bytes_total").unit(Unit::Bytes).labels(fate)
}

const fn links(fate: Fate) -> Row {
    Row::counter("lamna_link_prefetch_total").labels(fate)
}

const fn link_bytes(fate: Fate) -> Row {
    Row::counter("lamna_link_prefetch_bytes_total").unit(Unit::Bytes).labels(fate)
}

impl Counters {
    /// The key by which all processes number URLs.
    pub(super) fn key(&self) -> [u8; 16] {
        let word = |word: &AtomicU64| {
            // Zero is none.
            let own = RandomState::new().hash_one(0) | 1;
            word.compare_exchange(0, own, Relaxed, Relaxed).err().unwrap_or(own).to_le_bytes()
        };
        let [one, other] = self.key.each_ref().map(word);
        std::array::from_fn(|at| if at < 8 { one[at] } else { other[at - 8] })
    }
}

/// Adds to a counter that others add to as well.
pub(super) fn add(counter: &AtomicU64, number: u64) {
    if number > 0 {
        counter.fetch_add(number, Relaxed);
    }
}

impl LinkPrefetchCounters {
    /// The bytes that were fetched ahead and not wanted, as far as the control group tells
    /// ([`LinkPrefetchBudget`](lamna_policy::hints::LinkPrefetchBudget)). It has been of all sites, and nothing has
    /// faded.
    pub fn wasted_bytes(&self) -> u64 {
        let [control, asked, fetched] =
            [&self.control_asked_bytes, &self.asked_bytes, &self.fetched_bytes].map(|bytes| bytes.load(Relaxed));
        let used = control.saturating_mul(TOLD_PER_CONTROL.into()).saturating_sub(asked);
        fetched.saturating_sub(used)
    }
}
