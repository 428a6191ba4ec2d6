//! Hints to clients: which of what is known of a page its client is given, and what each request is to the page that
//! its connection shows, or that its `Referer` names.
//!
//! Owns: that choice, in a worker. Guarantees: looks at what others publish only when it has changed; of most requests
//! it looks at nothing but one field, or two where pages are fetched ahead. What is known of pages and why is
//! `lamna_site::early_hints`'s.

use std::net::IpAddr;
use std::sync::Arc;

use lamna_policy::random::Random;
use lamna_proto::conn::Connection;
use lamna_proto::exchange::early_hints::LinkField;
use lamna_proto::exchange::{ExchangeId, RequestedResource};
use lamna_proto::message::{Field, Request};
use lamna_site::content::access::network_of;
use lamna_site::content::route::Clearance;
use lamna_site::early_hints::{
    Choice, EarlyHints, LinkPrefetch, Navigation, NextPage, Page, Pages, Role, SiteHints, VIEWS_PER_CONTROL, Viewing,
    fetches_ahead, part_of,
};
use lamna_site::hints::path_of_same_host;

use super::WorkerContext;
use super::asked::Asked;

/// A worker's knowledge of pages.
#[derive(Debug, Default)]
pub(super) struct KnownPages {
    pages: Arc<Pages>,
    generation: Option<u64>,
    /// Views so far: one in so many gets no early hints.
    views: u32,
    random: Random,
}

/// The hints that a client is given before its answer, and with it.
#[derive(Debug)]
pub struct ChosenHints {
    page: Arc<Page>,
    site: Arc<SiteHints>,
    choice: Choice,
    /// Its page's next page, if the client is sent a link to that.
    has_link: bool,
}

impl ChosenHints {
    /// Gives them to the client of `exchange`: those that go before its answer at once.
    pub fn give(
        &self,
        connection: &mut Connection,
        exchange: ExchangeId,
        context: &WorkerContext<'_>,
        viewing: &mut Option<Box<Viewing>>,
    ) {
        let given = self.early().map(|early| connection.give_early_hints(exchange, early));
        self.link().into_iter().for_each(|link| connection.give_link(exchange, link));
        context.handle_hints(self, given.unwrap_or_default(), viewing);
    }

    /// The links that are given before the answer, in the order in which they are needed; none if there are none.
    fn early(&self) -> Option<impl Iterator<Item = &LinkField>> {
        (!self.choice.is_empty()).then(|| self.page.links(self.choice))
    }

    /// The link that goes with the answer.
    fn link(&self) -> Option<&Arc<LinkField>> {
        self.next().map(NextPage::link)
    }

    fn next(&self) -> Option<&NextPage> {
        self.page.next().hinted().filter(|_| self.has_link)
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

    /// Whether something that happens so many times of 1000 happens now.
    fn happens(&mut self, thousandths: u16) -> bool {
        self.random.bits() % 1_000 < thousandths.into()
    }
}

impl WorkerContext<'_> {
    /// The hints for the client of a request that has been let in, to be given before its answer and with it; none if
    /// there are none. To be followed by [`ChosenHints::give`].
    pub(super) fn hint(&mut self, asked: &Asked<'_>, viewing: &mut Option<Box<Viewing>>) -> Option<ChosenHints> {
        let early_hints = self.shared.early_hints.as_deref()?;
        let proxies = &self.shared.proxies;
        let Asked { requested, peer, .. } = *asked;
        if !proxies.is_empty() && proxies.trust(peer.address) {
            // A connection of a proxy is many clients': what one has another has not.
            return None;
        }
        let index = asked.site.index;
        let (site, request) = (early_hints.site(index)?, requested.request?);
        let Some(navigation) = Navigation::of(request) else {
            self.handle_part(early_hints, (index, site), (asked, request), viewing);
            return None;
        };
        let preloads = site.preloads && (!navigation.is_http1 || site.settings.http1 && navigation.is_said);
        // Those that do not say that they navigate, as robots do not, do not fetch ahead either.
        let ahead = site.link_prefetch.as_ref().filter(|_| navigation.is_said).zip(peer.address);
        if let Some((link_prefetch, client)) = ahead.filter(|_| !requested.is_again) {
            self.handle_next(early_hints, (index, site, link_prefetch), (asked, request), client);
        }
        if !preloads && ahead.is_none() {
            return None;
        }
        let Some(page) = self.pages.find(early_hints, early_hints.number(index, requested.path)) else {
            // What is shown now is another page, of which nothing is known.
            *viewing = None;
            // A page as anybody is shown it.
            let client = || asked.client();
            let cache_key = self.cache_keys.cache_key(asked.site, requested, client, &Clearance::default());
            early_hints.want(index, requested.path, cache_key.key().path);
            self.cache_keys.take_back(cache_key);
            return None;
        };
        page.handle_news();
        if requested.is_again && viewing.as_ref().is_some_and(|viewing| viewing.is_of(page, self.now)) {
            return None;
        }
        let page = page.clone();
        let choice = if preloads { self.choose_early(&page, site, viewing.as_deref()) } else { Choice::default() };
        let has_link = ahead.is_some_and(|(link_prefetch, client)| {
            self.choose_next(early_hints, &page, (site, link_prefetch), client, viewing.as_deref())
        });
        let hints = ChosenHints { page, site: site.clone(), choice, has_link };
        if choice.is_empty() && !has_link {
            self.handle_hints(&hints, false, viewing);
            return None;
        }
        Some(hints)
    }

    /// The choice among the needs of `page` of those that its client is given before the answer.
    fn choose_early(&mut self, page: &Page, site: &SiteHints, viewing: Option<&Viewing>) -> Choice {
        site.budget.handle_view();
        let (wanted, had) = page.choose(viewing.map(Viewing::known));
        self.pages.views = self.pages.views.wrapping_add(1);
        let is_control = self.pages.views.is_multiple_of(VIEWS_PER_CONTROL);
        let choice = if is_control { Choice::default() } else { page.within_budget(wanted, &site.budget) };
        let (over_budget, control) = match is_control {
            true => (0, wanted.count()),
            false => (wanted.count() - choice.count(), 0),
        };
        site.count_withheld(had.count(), over_budget, control);
        choice
    }

    /// `page` is shown to `client`. Whether it is sent a link to the next page.
    fn choose_next(
        &mut self,
        early_hints: &EarlyHints,
        page: &Page,
        (site, link_prefetch): (&SiteHints, &LinkPrefetch),
        client: IpAddr,
        viewing: Option<&Viewing>,
    ) -> bool {
        let network = network_of(client);
        let is_control = early_hints.is_control(page.number(), network, self.now);
        let Some(next) = page.next().handle_view(is_control, link_prefetch, site.link_counters()) else {
            return false;
        };
        if viewing.is_some_and(|viewing| viewing.known().holds(next.number())) {
            site.count_known_link();
            return false;
        }
        // As often as it is shown then, nobody sees that it is: its views are counted as often, for what is next after
        // it.
        if self.pages.happens(next.probability().thousandths())
            && let Some(shown) = self.pages.find(early_hints, next.number())
        {
            let is_control = early_hints.is_control(shown.number(), network, self.now);
            shown.next().handle_unseen_view(is_control, link_prefetch);
        }
        true
    }

    /// A client navigates, from the page that its `Referer` names: what that tells of what is next after it.
    fn handle_next(
        &mut self,
        early_hints: &EarlyHints,
        (index, site, link_prefetch): (u32, &SiteHints, &LinkPrefetch),
        (asked, request): (&Asked<'_>, Request<'_>),
        client: IpAddr,
    ) {
        let requested = asked.requested;
        if requested.query.is_some() {
            // The client may be named in it: it is no other client's next page.
            return;
        }
        let Some(number) = named_page(early_hints, index, requested, request) else { return };
        if !self.may_be_learned(asked) {
            return;
        }
        let Some(page) = self.pages.find(early_hints, number) else { return };
        let is_control = early_hints.is_control(number, network_of(client), self.now);
        let next = early_hints.number(index, requested.path);
        if next == number {
            return;
        }
        let party = early_hints.network_number(network_of(client));
        if page.next().handle_asked((next, party), is_control, link_prefetch, site.link_counters()) {
            page.handle_news();
        } else {
            early_hints.tell_next(page, requested.path, party);
        }
    }

    /// A request that is no navigation: what it is to the page that is shown.
    fn handle_part(
        &mut self,
        early_hints: &EarlyHints,
        (index, site): (u32, &Arc<SiteHints>),
        (asked, request): (&Asked<'_>, Request<'_>),
        viewing: &mut Option<Box<Viewing>>,
    ) {
        let (requested, client) = (asked.requested, asked.peer.address);
        let number = early_hints.number(index, requested.path_and_query);
        if let Some(link_prefetch) = &site.link_prefetch {
            self.handle_ahead(early_hints, (index, site, link_prefetch), (requested, request, number), viewing);
        }
        let Some(viewing) = viewing else { return };
        let party = client.map_or(0, |client| early_hints.network_number(network_of(client)));
        let role = viewing.handle_request(number, self.now, party);
        if role == Role::Unknown
            && let Some(part) = part_of(request)
            && self.may_be_learned(asked)
        {
            early_hints.tell_found(viewing.page(), requested.path_and_query, part, party);
        }
    }

    /// The same where pages are fetched ahead: it may fetch one, or be a part of one that was and is shown now.
    fn handle_ahead(
        &mut self,
        early_hints: &EarlyHints,
        (index, site, link_prefetch): (u32, &Arc<SiteHints>, &LinkPrefetch),
        (requested, request, number): (&RequestedResource<'_>, Request<'_>, u64),
        viewing: &mut Option<Box<Viewing>>,
    ) {
        let Some(named) = named_page(early_hints, index, requested, request) else { return };
        let Some(page) = self.pages.find(early_hints, named) else { return };
        if let Some(viewing) = viewing
            && viewing.take_ahead(named)
        {
            site.handle_shown();
            viewing.show(page, site, Choice::default(), self.now);
        }
        let is_next = page.next().hinted().is_some_and(|next| next.number() == number);
        if is_next
            && !requested.is_again
            && let Some(is_whole) = fetches_ahead(request)
        {
            page.next().handle_fetched(number, is_whole, link_prefetch, site.link_counters());
            let page = page.clone();
            let viewing = viewing.get_or_insert_with(|| Box::new(Viewing::new(page, site.clone(), self.now)));
            viewing.handle_fetched_ahead(number);
        }
    }

    /// `hints` have been chosen. The early ones were given if `is_given`: a view of their page begins.
    fn handle_hints(&self, hints: &ChosenHints, is_given: bool, viewing: &mut Option<Box<Viewing>>) {
        let ChosenHints { page, site, choice, .. } = hints;
        let begin = || Box::new(Viewing::new(page.clone(), site.clone(), self.now));
        let given = if is_given { *choice } else { Choice::default() };
        let viewing = viewing.get_or_insert_with(begin);
        viewing.show(page, site, given, self.now);
        if let Some(next) = hints.next() {
            site.handle_link_sent(next);
            viewing.handle_link(next.number());
        }
    }
}

/// The number of the page of the same site that `Referer` names.
fn named_page(
    early_hints: &EarlyHints,
    index: u32,
    requested: &RequestedResource<'_>,
    request: Request<'_>,
) -> Option<u64> {
    let path = path_of_same_host(request.field(Field::Referer)?, requested.host)?;
    Some(early_hints.number(index, path))
}
