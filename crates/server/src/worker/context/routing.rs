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
use lamna_proto::workspace::PagesByHost;

use super::{Target, WorkerContext, name_of};
use crate::cache::{Entry, Script};
use crate::config::access::AccessRule;
use crate::content::access::{Asking, Verdict};
use crate::content::action::Action;
use crate::content::answers;
use crate::content::route::{Effective, is_preflight};
use crate::content::site::Site;
use crate::content::{download, upload};
use crate::gateway;
use crate::tls::Over;
use crate::upstream::group::Group;
use crate::worker::limiter::Exceeded;
use crate::worker::shared::Shared;

impl WorkerContext<'_> {
    /// What a request is answered with that reads nothing, or that is refused. Nothing for those whose target is to be looked up.
    pub fn route(&mut self, translate: &Translate<'_>, peer: Option<IpAddr>, over: Over) -> Option<Done<'_>> {
        let Shared { sites, store, abilities, clock, proxies, .. } = self.shared;
        let client = proxies.client(peer, translate.request);
        if self.refuses {
            let address = self.addresses.address(sites, translate, client);
            let rules = Target::new(self.shared, &address, None, Box::default()).rules;
            self.addresses.take_back(address);
            return Some(Done::Translated(&self.refused_with.insert(rules).errors.overloaded));
        }
        if let Some(exceeded) = self.exceeded(translate, client) {
            let site = sites.find(translate.host);
            return self.limited_with(site, exceeded);
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
        let is_kept = sites.find(translate.host).guard.is_some();
        if is_kept && let Some(verdict) = self.keep_out(translate, client) {
            return Some(match verdict {
                Verdict::Verify(program) => Done::Run(program),
                Verdict::Answer(resource) => Done::Translated(self.passing.insert(resource)),
                Verdict::Passes => return self.without_application(translate),
            });
        }
        match self.route_to_gateway(translate, peer, client, over) {
            Gate::Answers(done) => return Some(done),
            // Which file it is, and whether it is a script, is found out for every method.
            Gate::RunsFiles => return None,
            Gate::None => {}
        }
        if translate.request.is_some_and(|request| matches!(request.head.method, Method::Options | Method::Unknown)) {
            return self.without_application(translate);
        }
        let means = upload::Means { sites, store, abilities, clock: *clock };
        if translate.query.is_some()
            && let Some(program) = download::begin(sites.find(translate.host), translate, client, means)
        {
            self.requests += 1;
            return Some(Done::Run(program));
        }
        translate.request.filter(|request| !request.head.method.reads())?;
        let site = sites.find(translate.host);
        let program = upload::begin(site, translate, client, means);
        if program.is_none() && site.routes.run_files() {
            // It may be a script, as an index file is.
            return None;
        }
        self.requests += 1;
        Some(program.map_or(Done::Refused(Refusal::MethodNotAllowed), Done::Run))
    }

    /// Why a request is not let in, or what finds out whether it is; none if it is. A question whether another request may be made passes: it
    /// is answered here and by no application, because browsers show nothing with it.
    fn keep_out(&mut self, translate: &Translate<'_>, client: Option<IpAddr>) -> Option<Verdict> {
        let Shared { sites, proxies, .. } = self.shared;
        let site = sites.find(translate.host);
        let guard = site.guard.as_ref()?;
        let effective = self.addresses.rules(sites, translate, client);
        let mut all = Action::ALL.map(|action| effective.whom(action));
        if let Some(action) = Action::of(translate) {
            // What it does is known; what it does not do does not matter.
            let own = all[action as usize];
            all = [own, None, None, None];
        }
        let mut rules: [&AccessRule; 4] = [const { &AccessRule::NONE }; 4];
        let mut count = 0;
        for rule in all.into_iter().flatten() {
            rules[count] = rule;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        if translate.request.is_some_and(|one| matches!(one.head.method, Method::Options) && is_preflight(one)) {
            return Some(Verdict::Passes);
        }
        let is_of_proxy = !proxies.is_empty() && proxies.trust(client);
        let asking = Asking { site: site.index, translate, client, is_of_proxy, effective: &effective, now: self.now };
        let verdict = guard.judge(&rules[..count], &asking, &mut self.known);
        // Fields that are too long with another one besides: nobody is let in for that.
        let verdict = verdict.unwrap_or_else(|_| Verdict::Answer(effective.errors.forbidden.clone()));
        self.requests += u64::from(matches!(verdict, Verdict::Answer(_)));
        (!matches!(verdict, Verdict::Passes)).then_some(verdict)
    }

    /// Which limit the client of a request is over, if any.
    fn exceeded(&self, translate: &Translate<'_>, client: Option<IpAddr>) -> Option<Exceeded> {
        let Shared { sites, proxies, limiter, .. } = self.shared;
        if !limiter.has_any(sites) {
            return None;
        }
        // A proxy that does not say for whom it asks is not limited: it would be all of its clients.
        let client = client.filter(|client| !proxies.trust(Some(*client)));
        limiter.count(sites, translate, client, self.now)
    }

    /// What who is over a limit is answered with. One answer is kept, because those who are refused are often many.
    fn limited_with(&mut self, site: &Site, exceeded: Exceeded) -> Option<Done<'_>> {
        self.shared.counters.requests_limited.fetch_add(1, Relaxed);
        let of = (site.index, exceeded);
        if self.limited.as_ref().is_none_or(|(other, _)| *other != of) {
            self.limited = Some((of, Arc::new(exceeded.answer(site)?)));
        }
        self.limited.as_ref().map(|(_, resource)| Done::Translated(resource))
    }

    /// Whether an application answers a request, and the program that asks it.
    fn route_to_gateway(
        &mut self,
        translate: &Translate<'_>,
        peer: Option<IpAddr>,
        client: Option<IpAddr>,
        over: Over,
    ) -> Gate {
        let sites = &self.shared.sites;
        if !sites.asks_for_every_method(translate.host) {
            return Gate::None;
        }
        let rules = self.addresses.rules(sites, translate, client);
        match &rules.gateway {
            None => Gate::None,
            Some(group) if group.settings.scripts.is_some() => Gate::RunsFiles,
            Some(group) => {
                self.requests += 1;
                Gate::Answers(self.ask(translate, peer, over, &rules, group, None))
            }
        }
    }

    /// What a request with OPTIONS, or of a method that is not known, is answered with where no application answers it. Such requests come here
    /// only for sites that have applications.
    fn without_application(&mut self, translate: &Translate<'_>) -> Option<Done<'_>> {
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

    /// What a request is answered with whose target is a script, or that changes something where there is none.
    pub fn run_script(
        &mut self,
        translate: &Translate<'_>,
        peer: Option<IpAddr>,
        over: Over,
        entry: &Entry,
    ) -> Done<'_> {
        let client = self.shared.proxies.client(peer, translate.request);
        let rules = self.addresses.rules(&self.shared.sites, translate, client);
        match entry.script.as_deref() {
            Some(script) => self.ask(translate, peer, over, &rules, &script.group, Some(script)),
            None => self.without_application(translate).unwrap_or(Done::Refused(Refusal::MethodNotAllowed)),
        }
    }

    fn ask(
        &self,
        translate: &Translate<'_>,
        peer: Option<IpAddr>,
        over: Over,
        rules: &Arc<Effective>,
        group: &Arc<Group>,
        script: Option<&Script>,
    ) -> Done<'static> {
        let Some(request) = translate.request else { return Done::Refused(Refusal::RunFailed) };
        let site = self.shared.sites.find(translate.host);
        let proxies = &self.shared.proxies;
        // A proxy adds its peer to what trusted proxies have said; a script is told who the client is.
        let client = if script.is_some() { proxies.client(peer, translate.request) } else { peer };
        let is_trusted = !proxies.is_empty() && proxies.trust(peer);
        let is_secure = over.certificate.is_some() || proxies.is_secure(peer, translate.request);
        let called = &*name_of(self.shared, translate, peer);
        let asking =
            gateway::Asking { site, rules, group, script, translate, request, client, is_trusted, is_secure, called };
        match gateway::begin(&asking) {
            Ok(program) => Done::Run(Box::new(program)),
            Err(refusal) => Done::Refused(refusal),
        }
    }
}

/// Whether an application answers a request.
enum Gate {
    /// Its program, or why it is not asked.
    Answers(Done<'static>),
    /// If the target is a file that it runs.
    RunsFiles,
    /// No.
    None,
}

/// Whether `entry` is not answered with as it is: by a script, or because a request that changes something has found a file.
pub fn needs_program(entry: &Entry, translate: &Translate<'_>) -> bool {
    entry.script.is_some() || translate.request.is_some_and(|request| !request.head.method.reads())
}
