//! Requests that are not answered by what their target stands for: refused, over a limit, redirected to https, uploads, and those that an application
//! answers.
//!
//! Owns: which these are, found in memory before anything is looked up. Does not carry programs out.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_config::access::ServiceSettings;
use lamna_config::proxies::Peer;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::{Done, Translate};
use lamna_proto::message::Method;
use lamna_proto::time::Instant;
use lamna_proto::workspace::PagesByHost;
use lamna_site::cache::Entry;
use lamna_site::content::access::{Asking, Known, Rules, Verdict, Vouched, Who};
use lamna_site::content::admission::{Grounds, Standing, admit};
use lamna_site::content::answers;
use lamna_site::content::at_once::Party;
use lamna_site::content::route::{Effective, is_preflight};
use lamna_site::content::site::Site;
use lamna_site::content::{download, handler, live_reload, search, upload};
use lamna_site::gateway::{self, Asking as Asked};
use lamna_site::upstream::group::Group;
use lamna_tls::Over;

use super::answers::Inquiry;
use super::{Target, WorkerContext, name_of};
use crate::worker::limiter::Exceeded;
use crate::worker::limiter::terms::Terms;
use crate::worker::shared::Shared;

/// Whether a request is let in.
pub enum Passage<'a> {
    /// It is not, or not yet: it is refused, over a limit, led to https, or somebody has to be asked first. This is its answer, or what finds it.
    Answered(Done<'a>),
    /// It is.
    Admitted(Admitted),
}

/// That a request has been let in: only [`WorkerContext::turn_away`] can say so.
#[derive(Clone, Copy, Debug)]
pub struct Admitted(());

/// What is told to a client that has no certificate on the way that it has come.
const UNKNOWN: &str = "This site is for clients that show a certificate, and this way there is none.";

impl WorkerContext<'_> {
    /// Whether a request is let in: the connection that it has come by, limits, and the rules of its site. Asked once for each request, and
    /// again when a program has found out something about it.
    pub fn turn_away(&mut self, translate: &Translate<'_>, peer: Peer, over: Over<'_>) -> Passage<'_> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        // Found out where something goes by it: for most requests nothing does.
        let client = || proxies.client(peer, translate.request);
        if self.refuses {
            let address = self.addresses.address(sites, translate, client);
            let rules = Target::new(self.shared, &address, None, Box::default()).rules().clone();
            self.addresses.take_back(address);
            return Passage::Answered(Done::Translated(&self.refused_with.insert(rules).errors.overloaded));
        }
        let counts = limiter.has_any(sites) && !translate.is_again;
        let counted = if counts { self.count(translate, client()) } else { Ok(None) };
        let site = sites.find(translate.host);
        match counted {
            Ok(terms) => self.terms = terms,
            Err(exceeded) => return Passage::Answered(self.limited_with(site, exceeded)),
        }
        match self.standing(site, translate, peer, over) {
            Standing::Served => {}
            Standing::Misdirected => return Passage::Answered(Done::Refused(Refusal::Misdirected)),
            Standing::Unknown => return Passage::Answered(self.unknown(site)),
            Standing::Led => return Passage::Answered(self.led(site, translate, over)),
        }
        let verdict = if site.guard.is_some() { self.keep_out(translate, peer, over) } else { None };
        let Some(verdict) = verdict else {
            let counted = if site.limits_users() { self.count_user(translate, client(), over) } else { Ok(()) };
            return match counted {
                Ok(()) => Passage::Admitted(Admitted(())),
                Err(exceeded) => Passage::Answered(self.limited_with(site, exceeded)),
            };
        };
        Passage::Answered(self.carry_out(verdict, translate, peer, over))
    }

    /// What becomes of a request by what the connection is that it has come by.
    fn standing(&self, site: &Site, translate: &Translate<'_>, peer: Peer, over: Over<'_>) -> Standing {
        let grounds = Grounds {
            says_https: || self.shared.proxies.is_secure(peer, translate.request),
            authorities: |identity| self.shared.tls.as_ref()?.authorities(identity),
            unix_seconds: self.unix_ms / 1000,
        };
        admit(site.demand, over.way, grounds)
    }

    /// What a client without a certificate is told.
    fn unknown(&mut self, site: &Site) -> Done<'_> {
        self.requests += 1;
        let rules = site.routes.plain();
        let page = answers::error(403, UNKNOWN, &rules.extras(403));
        let page = page.map_or_else(|_| rules.errors.forbidden.clone(), Arc::new);
        Done::Translated(self.passing.insert(page))
    }

    /// What a request in clear text is answered with that belongs to https: the answer to a challenge, the way there, or why there is none.
    fn led(&mut self, site: &Site, translate: &Translate<'_>, over: Over<'_>) -> Done<'_> {
        let challenge = self.shared.tls.as_ref();
        let challenge = challenge.and_then(|tls| tls.answer_challenge(translate.host, translate.path));
        let challenge = challenge.and_then(|content| answers::challenge(&content).ok());
        let there = || site.secure_redirect(translate, self.shared.secure_port(over));
        match challenge.map_or_else(there, Ok) {
            Ok(resource) => {
                self.requests += 1;
                Done::Translated(self.passing.insert(Arc::new(resource)))
            }
            Err(refusal) => Done::Refused(refusal),
        }
    }

    /// What a request is answered with of which this was decided.
    pub(super) fn carry_out(
        &mut self,
        verdict: Verdict,
        translate: &Translate<'_>,
        peer: Peer,
        over: Over<'_>,
    ) -> Done<'_> {
        match verdict {
            Verdict::Verify(program) => Done::Run(program),
            Verdict::Answer(resource) => Done::Translated(self.passing.insert(resource)),
            Verdict::Passes => self.without_application(translate).unwrap_or(Done::Refused(Refusal::RunFailed)),
            Verdict::Ask(service) => self.question(translate, peer, over, &service),
        }
    }

    /// What a request is answered with that is let in and reads nothing, or that no file answers. Nothing for those whose target is to be looked up.
    pub fn route(&mut self, translate: &Translate<'_>, peer: Peer, over: Over<'_>, _: Admitted) -> Option<Done<'_>> {
        let Shared { sites, store, abilities, clock, proxies, .. } = self.shared;
        // Found out where something goes by it: for most requests nothing does.
        let client = || proxies.client(peer, translate.request);
        let site = sites.find(translate.host);
        if !self.shared.handlers.is_empty()
            && let Some(request) = translate.request
        {
            let rules = self.addresses.rules(sites, translate, client());
            let handler = rules.rules.handler.as_ref().and_then(|name| self.shared.handlers.get(name));
            if let Some(handler) = handler {
                self.requests += 1;
                return Some(Done::Run(handler::begin(handler, &rules, translate, request)));
            }
        }
        if !site.routes.groups().is_empty() {
            match self.route_to_gateway(translate, client()) {
                Gate::Asks(rules, group) => {
                    self.requests += 1;
                    let known = Rules::of(&rules, translate);
                    let who = who(self.shared, translate, over, &known, (self.now, &mut self.known));
                    let inquiry = Inquiry { translate, peer, over, who, rules: &rules, group: &group, script: None };
                    return Some(self.ask(&inquiry));
                }
                // Which file it is, and whether it is a script, is found out for every method.
                Gate::RunsFiles => return None,
                Gate::None => {}
            }
        }
        if translate.request.is_some_and(|request| matches!(request.head.method, Method::Options | Method::Unknown)) {
            // A path may lead to a script by `try` or `rewrite`, or be that of an index file: that is found out for every method.
            return if site.routes.run_files() { None } else { self.without_application(translate) };
        }
        let means = upload::Means { sites, store, abilities, clock: *clock };
        if let Some(program) = live_reload::begin(site, translate, means) {
            self.requests += 1;
            return Some(Done::Run(program));
        }
        if translate.query.is_some()
            && let Some(program) = download::begin(site, translate, (client(), self.party(client())), means)
                .or_else(|| search::begin(site, translate, (client(), self.party(client())), means))
        {
            self.requests += 1;
            return Some(Done::Run(program));
        }
        translate.request.filter(|request| !request.head.method.reads())?;
        if !site.routes.is_empty() && leads_elsewhere(&self.addresses.rules(sites, translate, client())) {
            return None;
        }
        let program = upload::begin(site, translate, client(), means);
        if program.is_none() && site.routes.run_files() {
            // It may be a script, as an index file is.
            return None;
        }
        self.requests += 1;
        Some(program.map_or(Done::Refused(Refusal::MethodNotAllowed), Done::Run))
    }

    /// Why a request is not let in, or what finds out whether it is; none if it is. A question whether another request may be made passes: it
    /// is answered here and by no application, because browsers show nothing with it.
    fn keep_out(&mut self, translate: &Translate<'_>, peer: Peer, over: Over<'_>) -> Option<Verdict> {
        let Shared { sites, proxies, .. } = self.shared;
        sites.find(translate.host).guard.as_ref()?;
        let client = proxies.client(peer, translate.request);
        let effective = self.addresses.rules(sites, translate, client);
        let verdict = self.judge(translate, (peer, over), &effective, &Rules::of(&effective, translate));
        self.requests += u64::from(matches!(verdict, Some(Verdict::Answer(_))));
        verdict
    }

    /// The same by `rules`, which are some of `effective`: those of the path that is asked for, or of the one at which a script is.
    pub(super) fn judge(
        &mut self,
        translate: &Translate<'_>,
        (peer, over): (Peer, Over<'_>),
        effective: &Arc<Effective>,
        rules: &Rules<'_>,
    ) -> Option<Verdict> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        let site = sites.find(translate.host);
        let guard = site.guard.as_ref()?;
        let client = proxies.client(peer, translate.request);
        if rules.is_empty() {
            return None;
        }
        if translate.request.is_some_and(|one| matches!(one.head.method, Method::Options) && is_preflight(one)) {
            return Some(Verdict::Passes);
        }
        let is_of_proxy = !proxies.is_empty() && proxies.trust(client);
        let (client_subject, now) = (over.client_subject(), self.now);
        let wrong = limiter.wrong_passwords();
        let asking = Asking { site: site.index, translate, client, client_subject, is_of_proxy, wrong, effective, now };
        let verdict = guard.judge(rules, &asking, &mut self.known);
        // Fields that are too long with another one besides: nobody is let in for that.
        let verdict = verdict.unwrap_or_else(|_| Verdict::Answer(effective.errors.forbidden.clone()));
        (!matches!(verdict, Verdict::Passes)).then_some(verdict)
    }

    /// What asks `service` whether a request is let in.
    fn question(
        &mut self,
        translate: &Translate<'_>,
        peer: Peer,
        over: Over<'_>,
        service: &Arc<ServiceSettings>,
    ) -> Done<'static> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        let site = sites.find(translate.host);
        let client = proxies.client(peer, translate.request);
        let rules = &self.addresses.rules(sites, translate, client);
        let (Some(group), Some(request)) = (site.routes.service(service), translate.request) else {
            return Done::Refused(Refusal::RunFailed);
        };
        let before = translate.found.and_then(|found| found.clone().downcast().ok());
        let payer = limiter.payer(client);
        let asking = Asked {
            site,
            rules,
            group,
            script: None,
            translate,
            request,
            client: peer.address,
            who: None,
            ends: None,
            is_trusted: proxies.believe(peer),
            is_secure: over.is_secure() || proxies.is_secure(peer, translate.request),
            called: &name_of(self.shared, translate, peer),
            payer: payer.as_ref(),
        };
        match gateway::begin_question(&asking, service, before) {
            Ok(question) => Done::Run(Box::new(question)),
            Err(refusal) => Done::Refused(refusal),
        }
    }

    /// What limits say about the answer to a request of `client`, or which one it is over.
    fn count(&self, translate: &Translate<'_>, client: Option<IpAddr>) -> Result<Option<Box<Terms>>, Exceeded> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        // A proxy that does not say for whom it asks is not limited: it would be all of its clients.
        let client = client.filter(|client| !proxies.trust(Some(*client)));
        limiter.count(sites, translate, client, self.now)
    }

    /// Counts a request that has been let in for the limits of users.
    fn count_user(
        &mut self,
        translate: &Translate<'_>,
        client: Option<IpAddr>,
        over: Over<'_>,
    ) -> Result<(), Exceeded> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        let site = sites.find(translate.host);
        let rules = self.addresses.rules(sites, translate, client);
        let user = who(self.shared, translate, over, &Rules::of(&rules, translate), (self.now, &mut self.known));
        let client = client.filter(|client| !proxies.trust(Some(*client)));
        limiter.count_user(site, translate, (client, user), &mut self.terms, self.now)
    }

    /// What who is over a limit is answered with. One answer is kept, because those who are refused are often many.
    pub(super) fn limited_with(&mut self, site: &Site, exceeded: Exceeded) -> Done<'_> {
        self.shared.counters.requests_limited.fetch_add(1, Relaxed);
        let of = (site.index, exceeded);
        let kept = self.limited.take().filter(|(other, _)| *other == of);
        let (_, resource) = self.limited.insert(kept.unwrap_or_else(|| (of, exceeded.answer(site))));
        Done::Translated(resource)
    }

    /// Whether an application answers a request to a site that has applications.
    fn route_to_gateway(&mut self, translate: &Translate<'_>, client: Option<IpAddr>) -> Gate {
        let rules = self.addresses.rules(&self.shared.sites, translate, client);
        match &rules.gateway {
            None => Gate::None,
            Some(group) if group.settings.scripts.is_some() => Gate::RunsFiles,
            Some(group) => {
                let group = group.clone();
                Gate::Asks(rules, group)
            }
        }
    }

    /// What a request with OPTIONS, or of a method that is not known, is answered with where no application answers it. Such requests come here
    /// only for sites that have applications.
    pub(super) fn without_application(&mut self, translate: &Translate<'_>) -> Option<Done<'_>> {
        let request = translate.request?;
        match request.head.method {
            Method::Options => {
                self.requests += 1;
                self.passing = Some(self.shared.sites.options_of(translate.host, request));
                self.passing.as_ref().map(Done::Translated)
            }
            Method::Unknown => Some(Done::Refused(Refusal::MethodUnknown)),
            _ => None,
        }
    }

    /// The network of a client; none if it is not known, as that of a proxy that does not say for whom it asks.
    pub(super) fn party(&self, client: Option<IpAddr>) -> Option<Party> {
        client.filter(|client| !self.shared.proxies.trust(Some(*client))).map(Party::of)
    }
}

/// Who the server has made sure that a request is from, where its rules ask for that.
pub(super) fn who<'a>(
    shared: &'a Shared,
    translate: &Translate<'a>,
    over: Over<'a>,
    rules: &Rules<'_>,
    (now, known): (Instant, &mut Known),
) -> Option<Who<'a>> {
    if let Some(user) = Vouched::of(translate.found).and_then(|vouched| vouched.user.as_deref()) {
        return Some(Who::Service(user));
    }
    let site = shared.sites.find(translate.host);
    let guard = site.guard.as_ref().filter(|_| rules.ask_for_credentials())?;
    guard.who(translate.request, (site.index, now), known).or(over.client_subject().map(Who::Certificate))
}

/// Whether a route redirects whatever is there.
pub(super) fn leads_elsewhere(rules: &Effective) -> bool {
    rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing)
}

/// Whether an application answers a request.
enum Gate {
    /// This one, by these rules.
    Asks(Arc<Effective>, Arc<Group>),
    /// If the target is a file that it runs.
    RunsFiles,
    /// No.
    None,
}

/// Whether `entry` is not answered with as it is: by a script, because it has to be made first, or because a request that changes something has found a file.
pub fn needs_program(entry: &Entry, translate: &Translate<'_>) -> bool {
    entry.script().is_some()
        || entry.is_unmade()
        || translate.request.is_some_and(|request| !request.head.method.reads())
}
