//! What answers a request that is let in, in place of what its target stands for.
//!
//! Owns: [`RESPONDERS`]: embedded handlers, applications, OPTIONS, live reload, archives, search, uploads. Guarantees: none of them is asked about
//! a request that has not been let in. A new one is a file of its own and a row here. Does not carry programs out.

use lamna_proto::error::Refusal;
use lamna_proto::exchange::Translate;
use lamna_proto::exchange::program::Program;
use lamna_proto::message::Method;
use lamna_proto::workspace::PagesByHost;
use lamna_site::cache::Entry;
use lamna_site::content::access::Rules;
use lamna_site::content::route::Effective;
use lamna_site::content::upload::Means;
use lamna_site::content::{download, handler, live_reload, search, upload};

use super::WorkerContext;
use super::answers::Inquiry;
use super::asked::Asked;
use super::steps::{Admitted, Outcome};

/// What may answer requests.
pub struct Responder {
    /// What it is called.
    pub name: &'static str,
    /// Answers a request, or leaves it to the next one, or to what its target stands for.
    run: fn(&mut WorkerContext<'_>, &Asked<'_>) -> Outcome,
}

/// In the order in which they are asked.
pub const RESPONDERS: [Responder; 7] = [
    Responder { name: "handler", run: handler },
    Responder { name: "application", run: application },
    Responder { name: "options", run: options },
    Responder { name: "live reload", run: live_reload },
    Responder { name: "archive", run: archive },
    Responder { name: "search", run: search },
    Responder { name: "upload", run: upload },
];

impl WorkerContext<'_> {
    /// What a request is answered with that reads nothing, or that no file answers; [`Outcome::LookUp`] for those whose target is to be looked up.
    pub fn respond(&mut self, asked: &Asked<'_>, _: Admitted) -> Outcome {
        for responder in &RESPONDERS {
            match (responder.run)(self, asked) {
                Outcome::Next => {}
                outcome => return outcome,
            }
        }
        Outcome::LookUp
    }

    /// What responders answer with.
    fn means(&self) -> Means<'_> {
        let shared = self.shared;
        Means { sites: &shared.sites, store: &shared.store, abilities: &shared.abilities, clock: shared.clock }
    }

    /// A program answers.
    fn run(&mut self, program: Box<dyn Program>) -> Outcome {
        self.requests += 1;
        Outcome::Run(program)
    }
}

/// A handler of the program that the server is embedded in.
fn handler(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let handlers = &context.shared.handlers;
    let Some(request) = asked.translate.request.filter(|_| !handlers.is_empty()) else { return Outcome::Next };
    let rules = context.rules(asked);
    match rules.rules.handler.as_ref().and_then(|name| handlers.get(name)) {
        Some(handler) => context.run(handler::begin(handler, &rules, asked.translate, request)),
        None => Outcome::Next,
    }
}

/// The application that a route names. Which file it is that one runs, and whether it is a script, is found out for every method.
fn application(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if asked.site.routes.groups().is_empty() {
        return Outcome::Next;
    }
    let rules = context.rules(asked);
    match &rules.gateway {
        None => Outcome::Next,
        Some(group) if group.settings.scripts.is_some() => Outcome::LookUp,
        Some(group) => {
            context.requests += 1;
            let who = asked.who(&Rules::of(&rules, asked.translate), (context.now, &mut context.known));
            context.ask(&Inquiry { asked, who, rules: &rules, group, script: None })
        }
    }
}

/// OPTIONS, and methods that are not known. A path may lead to a script by `try` or `rewrite`, or be that of an index file: that is found out for
/// every method.
fn options(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let is_meant = |method: &Method| matches!(method, Method::Options | Method::Unknown);
    match asked.translate.request.is_some_and(|request| is_meant(&request.head.method)) {
        false => Outcome::Next,
        true if asked.site.routes.run_files() => Outcome::LookUp,
        true => without_application(context, asked),
    }
}

/// What a request with OPTIONS, or of a method that is not known, is answered with where no application answers it.
pub(super) fn without_application(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let Some(request) = asked.translate.request else { return Outcome::Next };
    match request.head.method {
        Method::Options => {
            context.requests += 1;
            Outcome::Answer(context.shared.sites.options_of(asked.translate.host, request))
        }
        Method::Unknown => Outcome::Refuse(Refusal::MethodUnknown),
        _ => Outcome::Next,
    }
}

/// A page that is to be loaded again when its site changes.
fn live_reload(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let program = live_reload::begin(asked.site, asked.translate, context.means());
    program.map_or(Outcome::Next, |program| context.run(program))
}

/// An archive of a folder.
fn archive(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if asked.translate.query.is_none() {
        return Outcome::Next;
    }
    let of_client = (asked.client(), asked.party());
    let program = download::begin(asked.site, asked.translate, of_client, context.means());
    program.map_or(Outcome::Next, |program| context.run(program))
}

/// A search in a folder.
fn search(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    if asked.translate.query.is_none() {
        return Outcome::Next;
    }
    let of_client = (asked.client(), asked.party());
    let program = search::begin(asked.site, asked.translate, of_client, context.means());
    program.map_or(Outcome::Next, |program| context.run(program))
}

/// What changes files. Where a route redirects whatever is there, and where the target may be a script, as an index file is, it is looked up.
fn upload(context: &mut WorkerContext<'_>, asked: &Asked<'_>) -> Outcome {
    let Asked { translate, site, .. } = *asked;
    if translate.request.is_none_or(|request| request.head.method.reads()) {
        return Outcome::Next;
    }
    if !site.routes.is_empty() && leads_elsewhere(&context.rules(asked)) {
        return Outcome::LookUp;
    }
    match upload::begin(site, translate, asked.client(), context.means()) {
        Some(program) => context.run(program),
        None if site.routes.run_files() => Outcome::LookUp,
        None => {
            context.requests += 1;
            Outcome::Refuse(Refusal::MethodNotAllowed)
        }
    }
}

/// Whether a route redirects whatever is there.
pub(super) fn leads_elsewhere(rules: &Effective) -> bool {
    rules.rules.redirect.as_ref().is_some_and(|(redirect, _)| !redirect.if_missing)
}

/// Whether `entry` is not answered with as it is: by a script, because it has to be made first, or because a request that changes something has
/// found a file.
pub fn needs_program(entry: &Entry, translate: &Translate<'_>) -> bool {
    entry.script().is_some()
        || entry.is_unmade()
        || translate.request.is_some_and(|request| !request.head.method.reads())
}
