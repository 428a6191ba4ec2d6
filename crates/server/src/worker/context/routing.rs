//! Requests that are not answered by what their target stands for: refused, over a limit, redirected to https, uploads, and those that an application
//! answers.
//!
//! Owns: which these are, found in memory before anything is looked up. Does not carry programs out.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use lamna_proto::error::Refusal;
use lamna_proto::exchange::{Done, Translate};
use lamna_proto::message::Method;
use lamna_proto::time::Instant;
use lamna_proto::workspace::PagesByHost;

use super::answers::Inquiry;
use super::{Target, WorkerContext, name_of};
use crate::cache::Entry;
use crate::config::access::ServiceSettings;
use crate::content::access::{Asking, Known, Rules, Verdict, Vouched, Who};
use crate::content::answers;
use crate::content::at_once::Party;
use crate::content::route::{Effective, is_preflight};
use crate::content::site::Site;
use crate::content::{download, handler, live_reload, search, upload};
use crate::gateway::{self, Asking as Asked};
use crate::tls::Over;
use crate::upstream::group::Group;
use crate::worker::limiter::Exceeded;
use crate::worker::limiter::terms::Terms;
use crate::worker::shared::Shared;

impl WorkerContext<'_> {
    /// What a request is answered with that is not let in, or not yet: it is refused, over a limit, led to https, or somebody has to be asked first.
    /// Nothing for those that are.
    pub fn turn_away(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>, over: Over<'_>) -> Option<Done<'_>> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        // Found out where something goes by it: for most requests nothing does.
        let client = || proxies.client(peer, translate.request);
        if self.refuses {
            let address = self.addresses.address(sites, translate, client);
            let rules = Target::new(self.shared, &address, None, Box::default()).rules().clone();
            self.addresses.take_back(address);
            return Some(Done::Translated(&self.refused_with.insert(rules).errors.overloaded));
        }
        let counts = limiter.has_any(sites) && !translate.is_again;
        let counted = if counts { self.count(translate, client()) } else { Ok(None) };
        match counted {
            Ok(terms) => self.terms = terms,
            Err(exceeded) => return self.limited_with(sites.find(translate.host), exceeded),
        }
        match over.certificate {
            // Who was shown one certificate, and asked for one perhaps, asks for a site with another.
            Some(shown) if sites.certificate_of(translate.host) != Some(shown) => {
                return Some(Done::Refused(Refusal::Misdirected));
            }
            None if over.is_to_be_secured && !proxies.is_secure(peer, translate.request) => {
                let challenge = self.shared.tls.as_ref();
                let challenge = challenge.and_then(|tls| tls.answer_challenge(translate.host, translate.path));
                let challenge = challenge.and_then(|content| answers::challenge(&content).ok());
                if let Some(resource) = challenge.or_else(|| sites.find(translate.host).secure_redirect(translate)) {
                    self.requests += 1;
                    self.passing = Some(Arc::new(resource));
                    return self.passing.as_ref().map(Done::Translated);
                }
            }
            _ => {}
        }
        let site = sites.find(translate.host);
        let verdict = if site.guard.is_some() { self.keep_out(translate, peer, over) } else { None };
        if verdict.is_none() && site.limits_users() {
            let counted = self.count_user(translate, client(), over);
            if let Err(exceeded) = counted {
                return self.limited_with(site, exceeded);
            }
        }
        self.carry_out(verdict?, translate, peer, over)
    }

    /// What a request is answered with of which this was decided.
    pub(super) fn carry_out(
        &mut self,
        verdict: Verdict,
        translate: &Translate<'_>,
        peer: Option<IpAddr>,
        over: Over<'_>,
    ) -> Option<Done<'_>> {
        Some(match verdict {
            Verdict::Verify(program) => Done::Run(program),
            Verdict::Answer(resource) => Done::Translated(self.passing.insert(resource)),
            Verdict::Passes => return self.without_application(translate),
            Verdict::Ask(service) => self.question(translate, peer, over, &service),
        })
    }

    /// What a request is answered with that is let in and reads nothing, or that no file answers. Nothing for those whose target is to be looked up.
    pub fn route(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>, over: Over<'_>) -> Option<Done<'_>> {
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
        if sites.asks_for_every_method(translate.host) {
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
                .or_else(|| search::begin(site, translate, client(), means))
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
    fn keep_out(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>, over: Over<'_>) -> Option<Verdict> {
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
        (peer, over): (Option<IpAddr>, Over<'_>),
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
        let (client_subject, now) = (over.client_subject, self.now);
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
        peer: Option<IpAddr>,
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
            client: peer,
            who: None,
            ends: None,
            is_trusted: !proxies.is_empty() && proxies.trust(peer),
            is_secure: over.certificate.is_some() || proxies.is_secure(peer, translate.request),
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
    pub(super) fn limited_with(&mut self, site: &Site, exceeded: Exceeded) -> Option<Done<'_>> {
        self.shared.counters.requests_limited.fetch_add(1, Relaxed);
        let of = (site.index, exceeded);
        if self.limited.as_ref().is_none_or(|(other, _)| *other != of) {
            self.limited = Some((of, Arc::new(exceeded.answer(site)?)));
        }
        self.limited.as_ref().map(|(_, resource)| Done::Translated(resource))
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
    guard.who(translate.request, (site.index, now), known).or(over.client_subject.map(Who::Certificate))
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
