//! The matrix of admission: ways in, rules, ways to a thing, methods, and clients that show what is asked for,
//! something else, or nothing.
//!
//! Owns: the model ([`may`]) and what is expected of an answer. Does not look at what comes of time: see `kept`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use super::things::{Kind, Reached, Rule, THINGS, Thing, config, plant};
use super::ways::{Backend, CLEAR, SECURED, Seen, Visitor, Way};
use super::{Differences, engines, is_whole};
use crate::engine::Engine;
use crate::server::{Launch, Server};
use crate::skip::skipped;
use crate::tls::{client_config, make_clients, make_pair};

/// What a client shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Nobody,
    /// Who is known, and is another one.
    Another,
    /// Whom the rule lets in.
    Right,
}

pub(super) const WHO: [Who; 3] = [Who::Nobody, Who::Another, Who::Right];

/// The model: whether a client may have a thing.
pub(super) fn may(way: Way, rule: Rule, thing: &Thing, who: Who) -> bool {
    let is_let_in = match rule {
        Rule::Open => true,
        Rule::Limit => !thing.is_limited,
        Rule::Fixed | Rule::Nowhere => false,
        Rule::Certificate => who == Who::Right && way.is_secured(),
        Rule::User | Rule::Token | Rule::Network | Rule::Service | Rule::Maintenance => who == Who::Right,
    };
    let is_for_everybody = matches!(rule, Rule::Open | Rule::Limit | Rule::Maintenance);
    // Who runs a script is judged by the script's own path, whatever leads there. A file that is reached by another
    // path has to be for everybody.
    let is_judged = is_for_everybody || thing.kind == Kind::Runs;
    let is_reached = match thing.reached {
        Reached::ByItsPath => true,
        Reached::ByAnother => is_judged,
        // Of a folder each client is shown what is for it. A service is asked about the path of the request alone.
        Reached::InAnother => is_judged || thing.kind == Kind::Names && rule != Rule::Service,
    };
    !way.is_refused() && is_let_in && is_reached
}

/// The fields by which `who` comes.
pub(super) fn fields_of(way: Way, rule: Rule, who: Who) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    // The peer is a trusted proxy, which names the client; one that the PROXY protocol names is none, and is not
    // believed.
    let is_right = who == Who::Right || way == Way::ProxyProtocol;
    add("x-forwarded-for", if rule.goes_by_network() && is_right { "192.0.2.7" } else { "198.51.100.1" });
    match (rule, who) {
        (Rule::User, Who::Right) => add("authorization", "Basic YWRhOm9wZW4gc2VzYW1l"),
        (Rule::User, Who::Another) => add("authorization", "Basic Ym9iOm90aGVy"),
        (Rule::Token, Who::Right) => add("authorization", "Bearer abcdefghijklmnop"),
        (Rule::Token, Who::Another) => add("authorization", "Basic YWRhOm9wZW4gc2VzYW1l"),
        (Rule::Service, Who::Right) => add("cookie", "session=ada"),
        (Rule::Service, Who::Another) => add("cookie", "session=bob"),
        _ => {}
    }
    fields
}

/// What is wrong with an answer, if something is.
pub(super) fn judge(is_let_in: bool, rule: Rule, thing: &Thing, method: &str, seen: &Seen) -> Option<String> {
    let secret = match thing.kind {
        Kind::Names => format!("x-{}.html", rule.name()),
        // A redirect has the name that was asked for.
        Kind::Mounted => format!("x-{}.html</D:displayname>", rule.name()),
        _ => format!("SECRET-{}", rule.name()),
    };
    let is_shown = seen.text.contains(&secret);
    let has_done = (200..300).contains(&seen.status);
    let reads = matches!(method, "GET" | "HEAD");
    let told = |what: &str| Some(format!("{what}, status {} ({:.200})", seen.status, seen.text));
    if seen.status == 0 {
        return told("no answer");
    }
    let is_in_maintenance = rule == Rule::Maintenance && !is_let_in;
    if seen.status >= 500 && seen.status != 501 && !(is_in_maintenance && seen.status == 503) {
        return told("the server fails");
    }
    if !is_let_in {
        let is_whole = has_done && (thing.reached != Reached::InAnother || is_in_maintenance);
        return if is_shown || is_whole { told("it is let in") } else { None };
    }
    let is_mounted = thing.kind == Kind::Mounted || thing.target.starts_with("/R/dav");
    let tells = is_mounted && method == "PROPFIND";
    let shows = match thing.kind {
        Kind::File | Kind::Names => method == "GET" || tells,
        Kind::Mounted => tells,
        Kind::Runs => true,
    };
    let does = thing.kind == Kind::Runs || reads && thing.kind != Kind::Mounted || tells;
    if does && !(has_done || thing.reached == Reached::InAnother) || shows && !is_shown {
        return told("it is not let in");
    }
    None
}

/// A server of the matrix.
struct Place {
    server: Server,
    plain_port: Option<SocketAddr>,
    /// By what the client shows.
    configs: Option<[Arc<rustls::ClientConfig>; 3]>,
}

fn clear(engine: Engine, rules: &[Rule], backend: &Backend) -> Place {
    let launch = Launch::new(engine).argument("--h2c");
    let launch = plant(launch, rules).config(&config(rules, "", backend.address, backend.address));
    Place { server: launch.start(), plain_port: None, configs: None }
}

/// One behind a proxy that speaks the PROXY protocol.
fn behind_proxy(engine: Engine, rules: &[Rule], backend: &Backend) -> Place {
    let lines = config(rules, "", backend.address, backend.address);
    let launch = Launch::new(engine).config(&format!("proxy_protocol = [\"127.0.0.1:0\"]\n{lines}"));
    Place { server: plant(launch, rules).start(), plain_port: None, configs: None }
}

fn secured(engine: Engine, rules: &[Rule], backend: &Backend, plain_port: Option<SocketAddr>) -> Place {
    let keys = "certificate = \"certificate.pem\"\nkey = \"key.pem\"\nclient_ca = \"ca.pem\"\nclient_certificates = \"optional\"\n";
    let launch = Launch::new(engine).config(&config(rules, keys, backend.address, backend.address));
    let launch = match plain_port {
        Some(address) => launch.argument("--listen").argument(&address.to_string()),
        None => launch,
    };
    let pem = make_pair(launch.directory(), &["site.test"]);
    let [alice, bob] = make_clients(launch.directory(), ["alice", "bob"]);
    let server = plant(launch, rules).start();
    let nobody = client_config(pem.as_bytes());
    let configs = [nobody.clone(), bob.config(nobody.clone()), alice.config(nobody)].map(Arc::new);
    Place { server, plain_port, configs: Some(configs) }
}

/// The port of plain HTTP, at an address that nobody else has.
fn free_plain_port(of: u8) -> Option<SocketAddr> {
    let address = SocketAddr::from(([127, 0, 81, of], 80));
    TcpListener::bind(address).ok().map(|_| address)
}

/// Methods that are tried with a thing.
fn methods(way: Way, thing: &Thing) -> &'static [&'static str] {
    match (thing.kind, way) {
        (Kind::Mounted, _) => &["PROPFIND"],
        (Kind::Names, Way::Plain | Way::Tls | Way::H2c) => &["GET", "HEAD", "POST", "QUERY", "PROPFIND"],
        _ if is_whole() => &["GET", "HEAD", "POST", "PUT", "DELETE", "QUERY"],
        (_, Way::Plain | Way::Tls | Way::H2c) => &["GET", "HEAD", "POST", "QUERY"],
        (Kind::Runs, _) => &["GET", "POST"],
        _ => &["GET"],
    }
}

fn try_way(place: &Place, way: Way, rule: Rule, differences: &mut Differences) {
    for who in WHO {
        let visitor = Visitor::new(way, &place.server).plain_port(place.plain_port);
        let mut visitor = match &place.configs {
            Some(configs) => visitor.config(&configs[who as usize]),
            None => visitor,
        };
        if way == Way::ProxyProtocol {
            let from = if rule.goes_by_network() && who == Who::Right { "192.0.2.7" } else { "198.51.100.1" };
            visitor = visitor.preamble(format!("PROXY TCP4 {from} 127.0.0.1 4000 80\r\n"));
        }
        let mut fields = fields_of(way, rule, who);
        // PROPFIND asks for what is in a folder as well.
        fields.push(("depth".to_owned(), "1".to_owned()));
        if rule == Rule::Limit {
            // It is used up.
            let _ = visitor.ask("GET", "/limit/secret.txt", &fields);
        }
        for thing in THINGS {
            let target = thing.target.replace('R', rule.name());
            // A client of HTTP/2 cannot say it otherwise.
            if super::ways::is_http2(way) && target.starts_with("//") {
                continue;
            }
            for method in methods(way, thing) {
                let seen = visitor.ask(method, &target, &fields);
                let fault = judge(may(way, rule, thing, who), rule, thing, method, &seen);
                differences.count(|| format!("{way:?} {rule:?} {who:?} {method} {target}"), fault);
            }
        }
    }
}

fn admission(rule: Rule) {
    let mut differences = Differences::default();
    for (at, engine) in engines().iter().enumerate() {
        let backend = Backend::start();
        let rules = [Rule::Open, rule];
        let rules = if rule == Rule::Open { &rules[1..] } else { &rules[..] };
        if rule != Rule::Certificate {
            let place = clear(*engine, rules, &backend);
            CLEAR.iter().for_each(|way| try_way(&place, *way, rule, &mut differences));
            place.server.finish();
            let place = behind_proxy(*engine, rules, &backend);
            try_way(&place, Way::ProxyProtocol, rule, &mut differences);
            place.server.finish();
        }
        let plain_port = free_plain_port(1 + rule as u8 + 8 * at as u8);
        if plain_port.is_none() {
            skipped("matrix::admission at the port of plain HTTP", "port 80 is not to be had");
        }
        let place = secured(*engine, rules, &backend, plain_port);
        for way in SECURED.iter().filter(|way| way.is_secured() || plain_port.is_some()) {
            try_way(&place, *way, rule, &mut differences);
        }
        place.server.finish();
    }
    differences.settle(&format!("admission, {rule:?}"), 500);
}

#[test]
fn things_for_everybody_are_served_on_every_way() {
    admission(Rule::Open);
}

#[test]
fn things_of_users_are_for_them_on_every_way() {
    admission(Rule::User);
}

#[test]
fn things_for_tokens_are_for_them_on_every_way() {
    admission(Rule::Token);
}

#[test]
fn things_of_networks_are_for_them_on_every_way() {
    admission(Rule::Network);
}

#[test]
fn things_for_certificates_are_for_them_on_every_way() {
    admission(Rule::Certificate);
}

#[test]
fn things_for_whom_a_service_lets_in_are_for_them_on_every_way() {
    admission(Rule::Service);
}

#[test]
fn things_in_maintenance_are_for_those_who_are_excepted_on_every_way() {
    admission(Rule::Maintenance);
}

#[test]
fn things_beyond_a_limit_are_for_nobody_on_every_way() {
    admission(Rule::Limit);
}
