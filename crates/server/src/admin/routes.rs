//! The routes of the endpoint, and their answers.
//!
//! Owns: paths, methods, rights and media types. Everything under `/v1/` is JSON; what fails is
//! `{"error": "a sentence"}`. Does not know sockets.

use lamna_site::content::explain::Asked;
use lamna_site::content::maintenance::MaintenanceOrder;
use lamna_site::content::purge::Purge;
use serde::Serialize;

use super::api::{AdminApi, Change, Phase, Progress, Refusal};
use super::connection::{Answer, Ask, Rights};
use super::metrics;
use super::request::{Request, is_own_name};
use super::services::ServiceOrder;
use super::token::Token;
use super::trace::TraceOrder;
use super::upstreams::UpstreamOrder;

/// The caller of a route.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller<'a> {
    /// Over the Unix socket, with the rights of the process that has connected.
    Unix(Rights),
    /// Over TCP, which browsers and proxies speak as well.
    Tcp {
        /// Whether the connection comes from this machine.
        from_here: bool,
        keys: &'a Keys,
    },
}

/// The keys to the endpoint over TCP.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Without one, no orders are taken.
    pub(super) token: Option<Token>,
    /// Names by which the server may be asked, beside those that can only be its own.
    pub(super) hosts: Vec<String>,
}

/// The answer to what has come; none if it takes its time, and is to be asked for again.
pub(super) fn answer(ask: Ask, caller: Caller<'_>, api: &mut dyn AdminApi) -> Option<Answer> {
    match ask {
        Ask::Request(request) => {
            let answer = answer_at_once(&request, caller, api);
            (answer.status != BEGUN).then_some(answer)
        }
        Ask::Completed => api.outcome().map(done),
    }
}

/// Stands for an answer that takes its time. It is never sent.
const BEGUN: u16 = 202;

fn answer_at_once(request: &Request, caller: Caller<'_>, api: &mut dyn AdminApi) -> Answer {
    let rights = match rights(request, caller) {
        Ok(rights) => rights,
        Err(why) => return failure(403, why),
    };
    let Some(route) = ROUTES.iter().find(|route| route.path == request.path) else {
        return failure(404, "there is nothing of this name; see docs/control.md");
    };
    let reads = matches!(request.method.as_str(), "GET" | "HEAD");
    match (reads, route.read, route.order) {
        (true, Some(read), _) => read(api),
        (false, _, Some(_)) if request.method != "POST" => not_allowed(route),
        (false, _, Some(_)) if rights != Rights::All => failure(403, refusal_of_orders(caller)),
        (false, _, Some(order)) => order(api, request),
        _ => not_allowed(route),
    }
}

/// The rights of this caller with this request, or why it has none.
fn rights(request: &Request, caller: Caller<'_>) -> Result<Rights, &'static str> {
    let (from_here, keys) = match caller {
        Caller::Unix(Rights::None) => return Err("only root and the user that runs this server may control it"),
        Caller::Unix(rights) => return Ok(rights),
        Caller::Tcp { from_here, keys } => (from_here, keys),
    };
    if request.from_page {
        return Err("requests of pages in a browser are not taken");
    }
    let is_own = request.host.as_deref().is_none_or(|host| is_own_name(host, &keys.hosts));
    // A probe that asks whether it lives learns nothing that a connection would not have told.
    if !is_own && !PROBES.contains(&request.path.as_str()) {
        return Err("somebody else may have given this name to this machine: use its address, or add the name to \
                    admin_hosts in the configuration");
    }
    let has_token = keys.token.as_ref().zip(request.token.as_ref()).is_some_and(|(token, given)| token.is(given));
    Ok(if from_here && has_token { Rights::All } else { Rights::Read })
}

fn refusal_of_orders(caller: Caller<'_>) -> &'static str {
    match caller {
        Caller::Tcp { from_here: true, .. } => {
            "orders over TCP need this server's token (Authorization: Bearer TOKEN), which `lamna ctl` finds if it is run \
             by root or the server's user; or use its Unix socket"
        }
        _ => "orders are taken from this machine only: use its Unix socket or a loopback address",
    }
}

/// The route of a path.
struct Route {
    path: &'static str,
    read: Option<fn(&mut dyn AdminApi) -> Answer>,
    order: Option<fn(&mut dyn AdminApi, &Request) -> Answer>,
}

const ROUTES: [Route; 18] = [
    Route { path: "/livez", read: Some(livez), order: None },
    Route { path: "/readyz", read: Some(readyz), order: None },
    Route { path: "/metrics", read: Some(exposition), order: None },
    Route { path: "/v1/status", read: Some(|api| json(200, &api.status())), order: None },
    Route { path: "/v1/stats", read: Some(|api| json(200, &api.stats())), order: None },
    Route { path: "/v1/arch", read: Some(|api| json(200, &api.status().arch)), order: Some(set) },
    Route { path: "/v1/arch/why", read: Some(|api| done(Ok(api.architecture_why()))), order: None },
    // It says names of files, so that not everybody may ask who may read.
    Route { path: "/v1/explain", read: None, order: Some(explain) },
    Route { path: "/v1/hints", read: None, order: Some(hints) },
    Route { path: "/v1/trace", read: None, order: Some(trace) },
    Route { path: "/v1/trace/report", read: None, order: Some(|api, _| json(200, &api.trace_report())) },
    Route { path: "/v1/cache/purge", read: None, order: Some(purge) },
    Route { path: "/v1/maintenance", read: Some(|api| json(200, &api.maintenance())), order: Some(order_maintenance) },
    Route { path: "/v1/upstreams", read: Some(|api| json(200, &api.upstreams())), order: Some(order_upstream) },
    Route { path: "/v1/services", read: Some(|api| json(200, &api.services())), order: Some(order_service) },
    Route { path: "/v1/reload", read: None, order: Some(|api, _| told(api.reload())) },
    Route { path: "/v1/drain", read: None, order: Some(drain) },
    Route { path: "/v1/upgrade", read: None, order: Some(|api, _| told(api.upgrade())) },
];

const PROBES: [&str; 2] = ["/livez", "/readyz"];

/// A result, in words.
#[derive(Serialize)]
struct Done {
    done: String,
}

/// Why not, in words.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
}

fn livez(_: &mut dyn AdminApi) -> Answer {
    text(200, "ok\n")
}

fn readyz(api: &mut dyn AdminApi) -> Answer {
    match api.status().phase {
        Phase::Serving => text(200, "ok\n"),
        Phase::Starting => text(503, "starting\n"),
        Phase::Draining => text(503, "draining\n"),
    }
}

fn exposition(api: &mut dyn AdminApi) -> Answer {
    let content = metrics::render(&api.status(), &api.stats()).into_bytes();
    Answer { status: 200, media_type: metrics::MEDIA_TYPE, allow: None, content }
}

fn set(api: &mut dyn AdminApi, request: &Request) -> Answer {
    let change: Change = match serde_json::from_slice(&request.content) {
        Ok(change) => change,
        Err(error) => return failure(400, &format!("this is not a change: {error}")),
    };
    match change.judged() {
        Ok(_) => told(api.set(&change)),
        Err(why) => failure(400, &why),
    }
}

fn explain(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<Asked>(&request.content) {
        Ok(asked) => match api.explain(&asked) {
            Ok(explanation) => json(200, &explanation),
            Err(why) => failure(409, &why),
        },
        Err(error) => failure(400, &format!("this is no question: {error}")),
    }
}

fn hints(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<Asked>(&request.content) {
        Ok(asked) => match api.hints(&asked) {
            Ok(report) => json(200, &report),
            Err(why) => failure(409, &why),
        },
        Err(error) => failure(400, &format!("this is no question: {error}")),
    }
}

fn trace(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<TraceOrder>(&request.content) {
        Ok(order) => match api.trace(&order) {
            Ok(_) => json(200, &api.trace_report()),
            Err(why) => failure(409, &why),
        },
        Err(error) => failure(400, &format!("this does not say what to trace: {error}")),
    }
}

fn purge(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<Purge>(&request.content) {
        Ok(purge) => done(api.purge(&purge)),
        Err(error) => failure(400, &format!("this does not say what to purge: {error}")),
    }
}

fn order_service(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<ServiceOrder>(&request.content) {
        Ok(order) => told(api.order_service(&order)),
        Err(error) => failure(400, &format!("this is no order about a service: {error}")),
    }
}

fn order_maintenance(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<MaintenanceOrder>(&request.content) {
        Ok(order) => told(api.order_maintenance(&order)),
        Err(error) => failure(400, &format!("this is no order about maintenance: {error}")),
    }
}

fn order_upstream(api: &mut dyn AdminApi, request: &Request) -> Answer {
    match serde_json::from_slice::<UpstreamOrder>(&request.content) {
        Ok(order) => told(api.order_upstream(&order)),
        Err(error) => failure(400, &format!("this is no order about an upstream: {error}")),
    }
}

fn drain(api: &mut dyn AdminApi, _: &Request) -> Answer {
    told(api.drain())
}

fn done(result: Result<String, String>) -> Answer {
    match result {
        Ok(done) => json(200, &Done { done }),
        Err(error) => failure(409, &error),
    }
}

fn told(result: Result<Progress, Refusal>) -> Answer {
    match result {
        Ok(Progress::Done(text)) => done(Ok(text)),
        Ok(Progress::Begun) => text(BEGUN, ""),
        // To be asked for again.
        Err(Refusal { why, soon: true }) => failure(503, &why),
        Err(Refusal { why, soon: false }) => failure(409, &why),
    }
}

pub(super) fn failure(status: u16, error: &str) -> Answer {
    json(status, &Failure { error })
}

fn not_allowed(route: &Route) -> Answer {
    let methods = match (route.read, route.order) {
        (Some(_), Some(_)) => "GET, HEAD, POST",
        (Some(_), None) => "GET, HEAD",
        _ => "POST",
    };
    Answer { allow: Some(methods), ..failure(405, &format!("{} takes {methods}", route.path)) }
}

fn json(status: u16, value: &impl Serialize) -> Answer {
    // Fails for maps whose keys are no text, of which there is none.
    let mut content = serde_json::to_vec(value).expect("plain data can be written as JSON");
    content.push(b'\n');
    Answer { status, media_type: "application/json", allow: None, content }
}

fn text(status: u16, text: &str) -> Answer {
    Answer { status, media_type: "text/plain; charset=utf-8", allow: None, content: text.into() }
}
