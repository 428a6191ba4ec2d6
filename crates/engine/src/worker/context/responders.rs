//! The responders: they answer requests that are let in, in place of the file that the target stands for.
//!
//! Owns: the order: embedded handlers, fixed answers, applications and OPTIONS, those of content (the table
//! [`RESPONDERS`], to which new ones are added), uploads. Guarantees: none of them is
//! asked about a request that has not been let in. Does not carry programs out.

use std::sync::Arc;

use lamna_config::route::Changes;
use lamna_proto::counter::add;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::RequestedResource;
use lamna_proto::exchange::program::Program;
use lamna_proto::message::{Method, Request};
use lamna_proto::parse::path;
use lamna_proto::workspace::PagesByHost;
use lamna_site::cache::Entry;
use lamna_site::content::access::{Rules, Verdict};
use lamna_site::content::action::Action;
use lamna_site::content::listing::SIGN_IN_QUERY;
use lamna_site::content::responder::{Client, Incoming, Responder};
use lamna_site::content::route::{Clearance, Effective, is_preflight};
use lamna_site::content::upload::webdav::{self, Rights};
use lamna_site::content::upload::{Resources, Sender};
use lamna_site::content::{RESPONDERS, answers, handler, upload};

use super::WorkerContext;
use super::answers::ApplicationRequest;
use super::asked::Asked;
use super::steps::{Admitted, Outcome, Step};
use super::trace::Does;

/// Steps before the responders of content. [`Outcome::LookUp`] leaves a request to what its target stands for.
const BEFORE_CONTENT: [Step; 5] = [
    Step::new("handler", handler).where_configured(|shared| !shared.handlers.is_empty()),
    Step::new("respond", respond).where_configured(|shared| shared.sites.all().any(|site| site.routes.respond())),
    Step::new("application", application)
        .where_configured(|shared| shared.sites.all().any(|site| !site.routes.groups().is_empty())),
    Step::new("options", options).for_others(),
    Step::new("identity", identify).where_configured(|shared| shared.sites.have_guards()),
];

/// The step behind them, which refuses what changes something.
const BEHIND_CONTENT: Step = Step::new("upload", upload).for_others();

/// All of them, in order.
pub(super) const RESPONDING: &[Step] = &{
    let mut steps = [BEHIND_CONTENT; BEFORE_CONTENT.len() + RESPONDERS.len() + 1];
    let mut at = 0;
    while at + 1 < steps.len() {
        let of_content = at.checked_sub(BEFORE_CONTENT.len());
        steps[at] = match of_content {
            None => BEFORE_CONTENT[at],
            Some(number) => Step::of(&RESPONDERS[number]),
        };
        at += 1;
    }
    steps
};

impl WorkerContext<'_> {
    /// The answer to a request that reads nothing, or that no file answers; [`Outcome::LookUp`] for those whose target
    /// is to be looked up.
    pub(super) fn respond(&mut self, asked: &Asked<'_>, _: Admitted) -> Outcome {
        match self.take_steps(RESPONDING, self.responding, asked, Does::Make) {
            Outcome::Next => Outcome::LookUp,
            outcome => outcome,
        }
    }

    /// The means of responders.
    fn resources(&self) -> Resources<'_> {
        let shared = self.shared;
        Resources { sites: &shared.sites, store: &shared.store, abilities: &shared.abilities, clock: shared.clock }
    }

    /// The program by which `responder` answers.
    pub(super) fn begin(&mut self, responder: &Responder, asked: &Asked<'_>) -> Outcome {
        let is_folder = asked.requested.path.ends_with(b"/");
        let none = Clearance::default();
        let clearance = if is_folder { self.clearance(asked) } else { &none };
        let client = || Client { address: asked.client(), network: asked.network(), clearance: clearance.clone() };
        let incoming =
            Incoming { site: asked.site, requested: asked.requested, resources: self.resources(), client: &client };
        (responder.begin)(&incoming).map_or(Outcome::Next, |program| self.run(program))
    }

    /// A program answers.
    fn run(&mut self, program: Box<dyn Program>) -> Outcome {
        add(&self.work.requests, 1);
        Outcome::Run(program)
    }
}

/// A handler of the program that the server is embedded in.
fn handler(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let handlers = &context.shared.handlers;
    let Some(request) = asked.requested.request.filter(|_| !handlers.is_empty()) else { return Outcome::Next };
    // A handler is given the path as it came, and may read an encoded slash otherwise than its route.
    if path::encoded_slash(asked.requested.path).is_some() {
        return Outcome::Next;
    }
    let rules = context.rules(asked);
    match rules.rules.handler.as_ref().and_then(|name| handlers.get(name)) {
        Some(handler) => context.run(handler::begin(handler, &rules, asked.requested, request)),
        None => Outcome::Next,
    }
}

/// The fixed answer of a route, to requests of every method. A question whether another request may be made is answered
/// as for files.
fn respond(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if !asked.site.routes.respond() {
        return Outcome::Next;
    }
    let rules = context.rules(asked);
    let Some(fixed) = &rules.respond else { return Outcome::Next };
    let is_asked_about = |request: Request<'_>| matches!(request.head.method, Method::Options) && is_preflight(request);
    if rules.rules.cors.is_some() && asked.requested.request.is_some_and(is_asked_about) {
        return without_application(context, asked);
    }
    // A tunnel ends at an application: a success without one would say that it is open (RFC 8441 5).
    let method = asked.requested.request.map(|request| request.head.method);
    if method == Some(Method::Connect) && matches!(fixed.to_others.status.0, 200..300) {
        return Outcome::Refuse(Refusal::MethodNotAllowed);
    }
    add(&context.work.requests, 1);
    // Without a request there is a path that is read.
    Outcome::Answer(if method.is_none_or(Method::reads) { &fixed.to_reads } else { &fixed.to_others }.clone())
}

/// The application that a route names. Which file it runs, whether that is a script, and whether a file is sent in its
/// place, is found out for every method.
fn application(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if asked.site.routes.groups().is_empty() {
        return Outcome::Next;
    }
    let rules = context.rules(asked);
    match &rules.gateway {
        None => Outcome::Next,
        Some(group) if rules.looks_for_files(group) => Outcome::LookUp,
        Some(group) => {
            add(&context.work.requests, 1);
            let identity = asked.identity(&Rules::of(&rules, asked.requested), (context.now, &mut context.known));
            context.ask(&ApplicationRequest { asked, identity, rules: &rules, group, script: None })
        }
    }
}

/// OPTIONS, and methods that are not known. A path may lead to a script by `try` or `rewrite`, or be that of an index
/// file: that is found out for every method.
fn options(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let is_meant = |method: &Method| matches!(method, Method::Options | Method::Unknown);
    match asked.requested.request.is_some_and(|request| is_meant(&request.head.method)) {
        false => Outcome::Next,
        true if asked.site.routes.run_files() => Outcome::LookUp,
        true => without_application(context, asked),
    }
}

/// The answer to OPTIONS, or to a method that is not known, where no application gives one.
pub(super) fn without_application(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let Some(request) = asked.requested.request else { return Outcome::Next };
    match request.head.method {
        Method::Options => {
            add(&context.work.requests, 1);
            Outcome::Answer(context.shared.sites.options_of(asked.requested.host, request))
        }
        Method::Unknown => Outcome::Refuse(Refusal::MethodUnknown),
        _ => Outcome::Next,
    }
}

/// Finds out whose a request is, though anybody may ask, where its answer goes by what its client may have: for a
/// folder, for what is mounted, and for a change, which may be of other paths than the one that is asked for. Has
/// clients sign in that want to.
fn identify(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let Asked { requested, site, .. } = *asked;
    let (Some(guard), Some(request)) = (&site.guard, requested.request) else { return Outcome::Next };
    let goes_by_client = site.settings.browse || site.texts.is_some();
    let (is_folder, method) = (goes_by_client && requested.path.ends_with(b"/"), request.head.method);
    let may_change = |context: &mut WorkerContext<'_>| context.rules(asked).changes != Changes::default();
    if !(is_folder || method.is_of_webdav() || !method.reads() && may_change(context)) {
        return Outcome::Next;
    }
    let signs_in = is_folder
        && site.settings.browse
        && guard.has_users()
        && method.reads()
        && requested.query == Some(SIGN_IN_QUERY.as_bytes());
    let rules = context.rules(asked);
    let access_request = context.access_request(asked, &rules);
    let verdict = match signs_in {
        true => guard.sign_in(&access_request, &mut context.known).map(Some),
        false => guard.identify(&access_request, &mut context.known),
    };
    match verdict {
        Ok(None) => Outcome::Next,
        Ok(Some(Verdict::Passes)) => {
            add(&context.work.requests, 1);
            let mut path = Vec::new();
            // It is for who has given a password: from a cache it would let the next one sign in without.
            let extras = rules.extras(303).with_cache_control("no-store");
            let redirect = path::normalise(requested.path, &mut path)
                .ok()
                .and_then(|()| answers::redirect(303, &path::encode(&path), false, &extras).ok());
            Outcome::Answer(redirect.map_or_else(|| rules.errors.malformed.clone(), Arc::new))
        }
        Ok(Some(verdict)) => context.carry_out(verdict, asked),
        // Fields that are too long with another one besides.
        Err(_) => Outcome::Answer(rules.errors.failed.clone()),
    }
}

/// A change of files. Where a route redirects whatever is there, and where the target may be a script, as an index file
/// is, it is looked up. Where one leads to a hidden name, nothing is.
fn upload(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let Asked { requested, site, .. } = *asked;
    if requested.request.is_none_or(|request| request.head.method.reads()) {
        return Outcome::Next;
    }
    if !site.routes.is_empty() {
        let rules = context.rules(asked);
        if rules.lead_nowhere() {
            add(&context.work.requests, 1);
            return Outcome::Answer(rules.errors.not_found.clone());
        }
        if leads_elsewhere(&rules) {
            return Outcome::LookUp;
        }
    }
    let sender = match sender(context, asked) {
        Ok(sender) => sender,
        Err(outcome) => return outcome,
    };
    match upload::begin(site, requested, sender, context.resources()) {
        Some(program) => context.run(program),
        None if site.routes.run_files() => Outcome::LookUp,
        None => {
            add(&context.work.requests, 1);
            Outcome::Refuse(Refusal::MethodNotAllowed)
        }
    }
}

/// The sender of a request, and its rights at the destination of a copy, which are found by the rules of that path and
/// the credentials of the request.
///
/// # Errors
/// It may not store anything there, or that is not known yet: its answer, or what finds out.
fn sender(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Result<Sender, Outcome> {
    let mut rights = Rights::default();
    let mut user = None;
    if asked.site.guard.is_some() {
        if let Some(destination) = webdav::destination_of(asked.requested) {
            let there = context.rules_at(asked, &destination);
            let wanted = [(Action::Upload, None), (Action::Delete, Some(&mut rights.delete))];
            for (action, right) in wanted.into_iter().chain([(Action::Mkdir, Some(&mut rights.mkdir))]) {
                // A service decides about one path: it was asked about the one that the request is for.
                let is_for_service = there.whom(action).is_some_and(|rule| rule.service.is_some());
                let verdict = match is_for_service {
                    true => Some(Verdict::Answer(there.errors.forbidden.clone())),
                    false => context.judge(asked, &there, &Rules::of_action(&there, action)),
                };
                match (verdict, right) {
                    (None, _) => {}
                    // Whether it is needed is found out later.
                    (Some(Verdict::Answer(_)), Some(right)) => *right = false,
                    (Some(verdict), _) => return Err(context.carry_out(verdict, asked)),
                }
            }
        }
        let rules = context.rules(asked);
        let identity = asked.identity(&Rules::of(&rules, asked.requested), (context.now, &mut context.known));
        user = identity.map(|identity| identity.name().into());
    }
    let clearance = context.clearance(asked).clone();
    Ok(Sender { address: asked.client(), network: asked.network(), user, clearance, rights })
}

/// Whether a route redirects whatever is there.
pub(super) fn leads_elsewhere(rules: &Effective) -> bool {
    rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing)
}

/// Whether `entry` is not answered with as it is: by an application, because it has to be made first, or because a
/// request that changes something has found a file.
pub fn needs_program(entry: &Entry, requested: &RequestedResource<'_>) -> bool {
    entry.asks_an_application()
        || entry.is_unmade()
        || requested.request.is_some_and(|request| !request.head.method.reads())
}
