//! The steps of each request before its target is looked up, in order.
//!
//! Owns: [`STEPS`], which admit a request or answer it, [`Outcome`], the word of a step, and [`Admitted`], without
//! which nothing of a site answers. Guarantees: all of it is found in memory. What answers requests that are let in is
//! a row of `responders`.
//!
//! ```text
//!   Need::Resolve --> STEPS --Next--> Admitted --> early hints --> RESPONDERS --LookUp--> look up
//!                       '--Answer, Run, Refuse--> done               '--Answer, Stored, Run, Refuse--> done
//! ```

use std::sync::Arc;

use lamna_config::access::ServiceSettings;
use lamna_proto::counter::add;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::Done;
use lamna_proto::exchange::program::Program;
use lamna_proto::message::{Field, Method, Request};
use lamna_proto::resource::Resource;
use lamna_site::cache::two_generation_map::Key;
use lamna_site::content::access::{AccessRequest, Rules, Verdict};
use lamna_site::content::admission::{Admission, AdmissionFacts, admit};
use lamna_site::content::answers;
use lamna_site::content::responder::Responder;
use lamna_site::content::route::{Effective, is_preflight};
use lamna_site::content::site::Site;
use lamna_site::early_hints::Viewing;
use lamna_site::gateway::{self, GatewayRequest};

use super::asked::Asked;
use super::early_hints::ChosenHints;
use super::responders::without_application;
use super::trace::Does;
use super::{TranslationTarget, WorkerContext};
use lamna_tls::Way;

use crate::worker::limiter::Exceeded;
use crate::worker::shared::Shared;

/// The word of a step about a request.
pub enum Outcome {
    /// Nothing: the next one is asked.
    Next,
    /// No other one is asked: what its target stands for is its answer.
    LookUp,
    /// This is its answer.
    Answer(Arc<Resource>),
    /// Its answer is the entry of this site that was handed out last, by the key of answers.
    Stored(u32),
    /// This finds its answer.
    Run(Box<dyn Program>),
    /// It is refused by the core's own words.
    Refuse(Refusal),
}

/// One of the steps that a request takes.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Its name in a trace.
    name: &'static str,
    take: Take,
    /// Whether it may say anything under a configuration.
    is_configured: fn(&Shared) -> bool,
    /// Whether it says nothing about requests that read.
    is_for_others: bool,
}

/// Answers a request, or leaves it to the next step.
#[derive(Clone, Copy)]
enum Take {
    Step(fn(&mut WorkerContext<'_>, &Asked<'_>) -> Outcome),
    Responder(&'static Responder),
}

impl Step {
    /// The step of this name.
    pub(super) const fn new(name: &'static str, take: fn(&mut WorkerContext<'_>, &Asked<'_>) -> Outcome) -> Step {
        Step { name, take: Take::Step(take), is_configured: |_| true, is_for_others: false }
    }

    /// The step that `responder` is.
    pub(super) const fn of(responder: &'static Responder) -> Step {
        Step { name: responder.name, take: Take::Responder(responder), is_configured: |_| true, is_for_others: false }
    }

    /// The same, left out under configurations of which `is_configured` is false.
    pub(super) const fn where_configured(self, is_configured: fn(&Shared) -> bool) -> Step {
        Step { is_configured, ..self }
    }

    /// The same, left out for requests that read.
    pub(super) const fn for_others(self) -> Step {
        Step { is_for_others: true, ..self }
    }
}

/// The steps of a table that may say anything under a configuration. What is left out for it, or for requests that
/// read, would say nothing: builds with debug assertions take those steps as well, and hold them to that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chosen {
    /// A bit for each.
    configured: u32,
    /// Those of them that are left out for requests that read.
    for_others: u32,
}

impl Chosen {
    /// Those of `steps` for the configuration of `shared`.
    pub(super) fn of(steps: &[Step], shared: &Shared) -> Chosen {
        debug_assert!(steps.len() <= u32::BITS as usize);
        let bits = |is: &dyn Fn(&Step) -> bool| {
            steps.iter().enumerate().filter(|(_, step)| is(step)).fold(0, |bits, (at, _)| bits | 1 << at)
        };
        Chosen { configured: bits(&|step| (step.is_configured)(shared)), for_others: bits(&|step| step.is_for_others) }
    }

    /// A bit for each that a request takes.
    fn taken(self, reads: bool) -> u32 {
        if reads { self.configured & !self.for_others } else { self.configured }
    }
}

/// Whether a request is let in. Asked for each request, and again when a program has found out something about it.
/// Limits count before credentials are looked at, so that guesses count; those of users when it is known whose the
/// request is.
pub(super) const STEPS: &[Step] = &[
    Step::new("configuration", refuse_superseded),
    Step::new("room", refuse_for_want_of_room),
    Step::new("limits", count).where_configured(|shared| shared.limiter.has_any(&shared.sites)),
    Step::new("transport", check_transport),
    Step::new("maintenance", answer_in_maintenance),
    Step::new("access", check_access).where_configured(|shared| shared.sites.have_guards()),
    Step::new("limits of users", count_user).where_configured(|shared| shared.sites.all().any(Site::limits_users)),
];

/// That a request has been let in: only [`WorkerContext::admit`] can say so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted(());

/// The words for a client that has no certificate on the way that it has come.
const UNKNOWN: &str = "This site is for clients that show a certificate, and this way there is none.";

impl<'a> WorkerContext<'a> {
    /// Whether a request is let in.
    ///
    /// # Errors
    /// It is not, or not yet: it is refused, over a limit, led to https, or a service has to be asked first. This is
    /// its answer, or the program that finds it.
    fn admit(&mut self, asked: &Asked<'_>) -> Result<Admitted, Outcome> {
        match self.take_steps(STEPS, self.admission, asked, Does::Verify) {
            Outcome::Next => Ok(Admitted(())),
            outcome => Err(outcome),
        }
    }

    /// The first word of the `chosen` ones of `steps` that is not [`Outcome::Next`]. A program that one of them runs
    /// `does` this.
    pub(super) fn take_steps(&mut self, steps: &[Step], chosen: Chosen, asked: &Asked<'_>, does: Does) -> Outcome {
        let is_traced = self.traces(asked, false);
        let reads = asked.requested.request.is_none_or(|request| request.head.method.reads());
        let taken = chosen.taken(reads);
        for (at, step) in steps.iter().enumerate() {
            let is_taken = taken & 1 << at != 0;
            if !(is_taken || is_traced || cfg!(debug_assertions)) {
                continue;
            }
            let outcome = self.take_step(step, asked);
            debug_assert!(is_taken || matches!(outcome, Outcome::Next), "{} says something", step.name);
            if is_traced {
                self.trace_step(step.name, &outcome, does);
            }
            match outcome {
                Outcome::Next => {}
                outcome => return outcome,
            }
        }
        Outcome::Next
    }

    #[inline]
    fn take_step(&mut self, step: &Step, asked: &Asked<'_>) -> Outcome {
        match step.take {
            Take::Step(take) => take(self, asked),
            Take::Responder(responder) => self.begin(responder, asked),
        }
    }

    /// Decides about a request before its target is looked up. The hints for its client, if it is let in, are to be
    /// followed by [`ChosenHints::give`].
    pub fn decide(&mut self, asked: &Asked<'_>, viewing: &mut Option<Box<Viewing>>) -> (Outcome, Option<ChosenHints>) {
        let is_traced = self.traces(asked, true);
        if is_traced {
            self.trace_request(asked);
        }
        let (outcome, hints, is_over) = match self.admit(asked) {
            // What runs finds out whether it is let in.
            Err(outcome) => {
                let is_over = !matches!(outcome, Outcome::Run(_));
                (outcome, None, is_over)
            }
            Ok(admitted) => {
                let hints = self.hint(asked, viewing);
                let outcome = self.respond(asked, admitted);
                let is_over = !matches!(outcome, Outcome::LookUp);
                (outcome, hints, is_over)
            }
        };
        if is_traced && is_over {
            self.shared.trace.end();
        }
        (outcome, hints)
    }

    /// The message to the core about `outcome`; none if the target is to be looked up.
    pub fn done(&mut self, outcome: Outcome) -> Option<Done<'_>> {
        Some(match outcome {
            Outcome::Next | Outcome::LookUp => return None,
            Outcome::Answer(resource) => Done::Resolved(self.passing.insert(resource)),
            Outcome::Stored(site) => {
                let entry = self.local.handed_out(Key { site, path: &self.answer_key });
                entry.map_or(Done::Refused(Refusal::RunFailed), |entry| Done::Resolved(&entry.resource))
            }
            Outcome::Run(program) => Done::Run(program),
            Outcome::Refuse(refusal) => Done::Refused(refusal),
        })
    }

    /// The outcome of `verdict`.
    pub(super) fn carry_out(&mut self, verdict: Verdict, asked: &Asked<'_>) -> Outcome {
        match verdict {
            Verdict::Verify(program) => Outcome::Run(program),
            Verdict::Answer(resource) => Outcome::Answer(resource),
            Verdict::Passes => match without_application(self, asked) {
                Outcome::Next => Outcome::Refuse(Refusal::RunFailed),
                outcome => outcome,
            },
            Verdict::Ask(service) => self.auth_request(asked, &service),
        }
    }

    /// The verdict by `rules`, which are some of `effective`: those of the path that is asked for, or of the one at
    /// which a script is. None if the request is let in. A question whether another request may be made passes: it is
    /// answered here and by no application, because browsers show nothing with it.
    pub(super) fn judge(
        &mut self,
        asked: &Asked<'_>,
        effective: &Arc<Effective>,
        rules: &Rules<'_>,
    ) -> Option<Verdict> {
        let Asked { requested, site, .. } = *asked;
        let guard = site.guard.as_ref()?;
        if rules.is_empty() {
            return None;
        }
        if requested.request.is_some_and(|one| matches!(one.head.method, Method::Options) && is_preflight(one)) {
            return Some(Verdict::Passes);
        }
        let access_request = self.access_request(asked, effective);
        let verdict = guard.judge(rules, &access_request, &mut self.known);
        // Fields that are too long with another one besides: nobody is let in for that.
        let verdict = verdict.unwrap_or_else(|_| Verdict::Answer(effective.errors.forbidden.clone()));
        (!matches!(verdict, Verdict::Passes)).then_some(verdict)
    }

    /// The facts of a request that access rules look at, where `effective` applies.
    pub(super) fn access_request<'f>(&self, asked: &'f Asked<'_>, effective: &'f Effective) -> AccessRequest<'f>
    where
        'a: 'f,
    {
        let Asked { requested, site, over, .. } = *asked;
        let (client, is_of_proxy) = (asked.client(), asked.is_of_proxy());
        let (client_subject, now) = (over.client_subject(), self.now);
        let shared = self.shared;
        let wrong = shared.limiter.wrong_passwords();
        AccessRequest { site: site.index, requested, client, client_subject, is_of_proxy, wrong, effective, now }
    }

    /// A program that asks `service` whether a request is let in.
    fn auth_request(&mut self, asked: &Asked<'_>, service: &Arc<ServiceSettings>) -> Outcome {
        let Asked { requested, site, peer, .. } = *asked;
        let rules = &self.rules(asked);
        let (Some(group), Some(request)) = (site.routes.service(service), requested.request) else {
            return Outcome::Refuse(Refusal::RunFailed);
        };
        let before = requested.found.and_then(|found| found.clone().downcast().ok());
        let payer = self.shared.limiter.payer(asked.client());
        let gateway_request = GatewayRequest {
            site,
            rules,
            group,
            script: None,
            requested,
            request,
            client: peer.address,
            identity: None,
            client_subject: None,
            ends: None,
            believed: asked.believed(),
            behind: asked.client(),
            is_secure: asked.is_secure(),
            called: &asked.name(),
            payer: payer.as_ref(),
            spools: self.shared.limiter.spools(asked.counted_client()),
        };
        match gateway::begin_auth_request(&gateway_request, service, before) {
            Ok(auth_request) => Outcome::Run(Box::new(auth_request)),
            Err(refusal) => Outcome::Refuse(refusal),
        }
    }

    /// The answer to a client over a limit. One answer is kept, because refusals come in bursts.
    pub(super) fn limited_with(&mut self, asked: &Asked<'_>, exceeded: Exceeded) -> Outcome {
        add(&self.work.requests_limited, 1);
        let routes = &asked.site.routes;
        let rules = if routes.have_pages() { self.rules(asked) } else { routes.plain().clone() };
        let of = (asked.site.index, rules.number, exceeded);
        let kept = self.limited.take().filter(|(other, _)| *other == of);
        let page = rules.page(429).map(|page| &**page);
        let (_, resource) = self.limited.insert(kept.unwrap_or_else(|| (of, exceeded.answer(asked.site, page))));
        Outcome::Answer(resource.clone())
    }
}

/// Where another process lets other clients in, a request that begins here on a connection that cannot go there is for
/// a connection of that one. A worker that has not handed its connections over yet answers: most of them can go.
fn refuse_superseded(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let control = &context.shared.control;
    match control.is_superseded() && control.is_finishing() && !asked.requested.is_again {
        true => Outcome::Refuse(Refusal::Misdirected),
        false => Outcome::Next,
    }
}

/// A worker that has no room for more answers each request with 503.
fn refuse_for_want_of_room(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if !context.refuses {
        return Outcome::Next;
    }
    let cache_key = context.cache_key(asked);
    let rules = TranslationTarget::new(context.shared, &cache_key, None, Box::default()).rules().clone();
    context.cache_keys.take_back(cache_key);
    Outcome::Answer(rules.errors.overloaded.clone())
}

/// Counts the request for the limits of clients, and remembers what they say about its answer. A request that an
/// application has led to another path is counted there as well.
fn count(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let limiter = &context.shared.limiter;
    let is_led = asked.requested.led.is_some_and(|led| led.is_first);
    if asked.requested.is_again && !is_led || !limiter.has_any(&context.shared.sites) {
        context.rate_limits = None;
        return Outcome::Next;
    }
    match limiter.count(asked.site, asked.requested, asked.counted_client(), context.now) {
        Ok(rate_limits) => {
            context.rate_limits = rate_limits;
            Outcome::Next
        }
        Err(exceeded) => context.limited_with(asked, exceeded),
    }
}

/// Whether the connection that the request has come by is one that its site takes.
fn check_transport(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let facts = AdmissionFacts {
        says_https: || asked.is_said_to_be_secure(),
        authorities: |identity| context.shared.tls.as_ref()?.authorities(identity),
        unix_seconds: context.unix_ms / 1000,
    };
    match admit(asked.site.demand, asked.over.way, facts) {
        Admission::Served if matches!(asked.over.way, Way::Open) => answer_challenge(context, asked),
        Admission::Served => Outcome::Next,
        Admission::Misdirected => Outcome::Refuse(Refusal::Misdirected),
        Admission::Unknown => refuse_unknown(context, asked),
        Admission::Led => lead_to_https(context, asked),
    }
}

/// The answer to a client without a certificate.
fn refuse_unknown(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    add(&context.work.requests, 1);
    let rules = context.rules(asked);
    let page = answers::error(403, UNKNOWN, &rules.extras(403));
    Outcome::Answer(page.map_or_else(|_| rules.errors.forbidden.clone(), Arc::new))
}

/// The answer to a request in clear text that belongs to https: the answer to a challenge, the way there, or why there
/// is none.
fn lead_to_https(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if let answered @ Outcome::Answer(_) = answer_challenge(context, asked) {
        return answered;
    }
    let Asked { requested, site, over, .. } = *asked;
    let has_named_port = requested.request.is_some_and(names_port);
    match site.secure_redirect(requested, context.shared.secure_port(over, has_named_port)) {
        Ok(resource) => {
            add(&context.work.requests, 1);
            Outcome::Answer(Arc::new(resource))
        }
        Err(refusal) => Outcome::Refuse(refusal),
    }
}

/// Whether the client knows this server by a port: its `Host` has one that is not that of http.
fn names_port(request: Request<'_>) -> bool {
    let host = request.field(Field::Host).unwrap_or_default();
    let behind_address = host.rsplit(|byte| *byte == b']').next().unwrap_or_default();
    let port = behind_address.iter().position(|byte| *byte == b':').map(|at| &behind_address[at + 1..]);
    port.is_some_and(|port| !matches!(port, b"" | b"80"))
}

/// The answer to a challenge of a certificate authority, if the request is one.
fn answer_challenge(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let challenge = context.shared.tls.as_ref();
    let challenge = challenge.and_then(|tls| tls.answer_challenge(asked.requested.host, asked.requested.path));
    match challenge.and_then(|content| answers::challenge(&content).ok()) {
        Some(resource) => {
            add(&context.work.requests, 1);
            Outcome::Answer(Arc::new(resource))
        }
        None => Outcome::Next,
    }
}

/// The answer to a request to a site in maintenance. One that has begun before goes on.
fn answer_in_maintenance(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let state = &context.shared.operator_state;
    if context.maintenance.is_none(state) || asked.requested.is_again {
        return Outcome::Next;
    }
    let found = context.maintenance.of(asked.site.index, &context.shared.sites, state);
    let Some(found) = found.filter(|found| found.concerns(asked.client())).cloned() else { return Outcome::Next };
    // Requests to other sites need none.
    let rules = context.rules(asked);
    add(&context.work.requests_in_maintenance, 1);
    let of = (asked.site.index, rules.number, context.maintenance.version());
    let kept = context.unavailable.take().filter(|(other, _)| *other == of);
    let (_, resource) = context.unavailable.insert(kept.unwrap_or_else(|| (of, found.answer(&rules))));
    Outcome::Answer(resource.clone())
}

/// Whether the rules of the site let the request in.
fn check_access(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if asked.site.guard.is_none() {
        return Outcome::Next;
    }
    let effective = context.rules(asked);
    let Some(verdict) = context.judge(asked, &effective, &Rules::of(&effective, asked.requested)) else {
        return Outcome::Next;
    };
    add(&context.work.requests, u64::from(matches!(verdict, Verdict::Answer(_))));
    context.carry_out(verdict, asked)
}

/// Counts a request that has been let in for the limits of users.
fn count_user(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if !asked.site.limits_users() {
        return Outcome::Next;
    }
    let rules = context.rules(asked);
    let user = asked.identity(&Rules::of(&rules, asked.requested), (context.now, &mut context.known));
    let counted = (asked.counted_client(), user);
    match context.shared.limiter.count_user(asked.site, asked.requested, counted, &mut context.rate_limits, context.now)
    {
        Ok(()) => Outcome::Next,
        Err(exceeded) => context.limited_with(asked, exceeded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_maintenance_are_asked_before_access_and_limits_of_users_behind_it() {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names, ["configuration", "room", "limits", "transport", "maintenance", "access", "limits of users"]);
    }
}
