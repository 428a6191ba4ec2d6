//! Hints before the answer: which of what is known of a page its client is given, and what each request is to the page that its connection shows.
//!
//! Owns: that choice, in a worker. Guarantees: looks at what others publish only when it has changed; of most requests it looks at nothing but
//! one field. What is known of pages and why is `crate::early_hints`'s.

use std::net::IpAddr;
use std::sync::Arc;

use lamna_proto::exchange::Translate;
use lamna_proto::exchange::early_hints::LinkField;

use super::WorkerContext;
use crate::early_hints::{
    Choice, EarlyHints, Navigation, Page, Pages, Role, SiteHints, VIEWS_PER_CONTROL, Viewing, part_of,
};

/// What a worker knows of pages.
#[derive(Debug, Default)]
pub(super) struct KnownPages {
    pages: Arc<Pages>,
    generation: Option<u64>,
    /// Views so far: one in so many gets no hints.
    views: u32,
}

/// What a client is given before its answer.
#[derive(Debug)]
pub struct ChosenHints {
    page: Arc<Page>,
    site: Arc<SiteHints>,
    choice: Choice,
}

impl ChosenHints {
    /// The links, in the order in which they are needed.
    pub fn links(&self) -> impl Iterator<Item = &LinkField> {
        self.page.links(self.choice)
    }
}

impl KnownPages {
    fn find(&mut self, early_hints: &EarlyHints, number: u64) -> Option<&Arc<Page>> {
        let mut seen = self.generation.unwrap_or(u64::MAX);
        if let Some(pages) = early_hints.changed_pages(&mut seen) {
            (self.pages, self.generation) = (pages, Some(seen));
        }
        self.pages.get(&number)
    }
}

impl WorkerContext<'_> {
    /// What the client of a request that has been let in is to be given before its answer; none if nothing. To be followed by `handle_hints`.
    pub fn hint(
        &mut self,
        translate: &Translate<'_>,
        peer: Option<IpAddr>,
        viewing: &mut Option<Box<Viewing>>,
    ) -> Option<ChosenHints> {
        let early_hints = self.shared.early_hints.as_ref()?;
        let proxies = &self.shared.proxies;
        if !proxies.is_empty() && proxies.trust(peer) {
            // A connection of a proxy is many clients': what one has another has not.
            return None;
        }
        let index = self.shared.sites.find(translate.host).index;
        let (site, request) = (early_hints.site(index)?, translate.request?);
        let Some(navigation) = Navigation::of(request) else {
            if let Some(viewing) = viewing {
                let role = viewing.handle_request(early_hints.number(index, translate.path_and_query), self.now);
                if role == Role::Unknown
                    && let Some(part) = part_of(request)
                {
                    early_hints.tell_found(viewing.page(), translate.path_and_query, part);
                }
            }
            return None;
        };
        if navigation.is_http1 && !(site.settings.http1 && navigation.is_said) {
            return None;
        }
        let Some(page) = self.pages.find(early_hints, early_hints.number(index, translate.path)) else {
            // What is shown now is another page, of which nothing is known.
            *viewing = None;
            let client = || proxies.client(peer, translate.request);
            let address = self.addresses.address(&self.shared.sites, translate, client);
            early_hints.want(index, translate.path, address.key().path);
            self.addresses.take_back(address);
            return None;
        };
        page.handle_news();
        if translate.is_again && viewing.as_ref().is_some_and(|viewing| viewing.is_of(page, self.now)) {
            return None;
        }
        site.budget.handle_view();
        let (page, site) = (page.clone(), site.clone());
        let (wanted, had) = page.choose(viewing.as_ref().map(|viewing| viewing.known()));
        self.pages.views = self.pages.views.wrapping_add(1);
        let is_control = self.pages.views.is_multiple_of(VIEWS_PER_CONTROL);
        let choice = if is_control { Choice::default() } else { page.within_budget(wanted, &site.budget) };
        let (over_budget, control) = match is_control {
            true => (0, wanted.count()),
            false => (wanted.count() - choice.count(), 0),
        };
        site.count_withheld(had.count(), over_budget, control);
        let hints = ChosenHints { page, site, choice };
        if choice.is_empty() {
            self.handle_hints(&hints, false, viewing);
            return None;
        }
        Some(hints)
    }

    /// `hints` have been chosen, and were given or could not be: a view of their page begins.
    pub fn handle_hints(&mut self, hints: &ChosenHints, is_given: bool, viewing: &mut Option<Box<Viewing>>) {
        let ChosenHints { page, site, choice } = hints;
        let begin = || Box::new(Viewing::new(page.clone(), site.clone(), self.now));
        let given = if is_given { *choice } else { Choice::default() };
        viewing.get_or_insert_with(begin).show(page, site, given, self.now);
    }
}
