//! Fields of requests meet what a route says of them: every way to an application, version of HTTP, rule and spelling.
//!
//! Owns: the model ([`expected`]): of a field that a route sets or removes, no application finds a client's value under
//! any name that CGI, WSGI or PHP makes the same variable of; of one that it adds to, or gives by default, the client's
//! own spelling alone is a value.

use super::{Differences, engines};
use crate::engine::Engine;
use crate::gateways::request_fields::{Told, WAYS, ask, launch};
use crate::server::Server;

/// What a route says of the field `X-User-Id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Nothing,
    Sets,
    Removes,
    Adds,
    Defaults,
}

const RULES: [(Rule, &str); 5] = [
    (Rule::Nothing, ""),
    (Rule::Sets, "request_headers = { X-User-Id = \"ours\" }"),
    (Rule::Removes, "request_headers = { X-User-Id = false }"),
    (Rule::Adds, "request_headers = [{ add = { X-User-Id = \"ours\" } }]"),
    (Rule::Defaults, "request_headers = [{ default = { X-User-Id = \"ours\" } }]"),
];

/// Names by which clients try.
const SPELLINGS: [&str; 10] = [
    "X-User-Id",
    "x-user-id",
    "X-USER-ID",
    "X_User_Id",
    "X-User_Id",
    "x_user-id",
    "X.User.Id",
    "X-User+Id",
    "X-User-Idx",
    "X-UserId",
];

/// Names that are the server's on every route.
const OF_SERVER: [&str; 14] = [
    "Remote-User",
    "REMOTE-USER",
    "Remote_User",
    "remote.user",
    "X_Forwarded_For",
    "X-Forwarded-For",
    "X-Forwarded_Proto",
    "X.Real.IP",
    "X-Real-IP",
    "Forwarded",
    "X_Request_Id",
    "Content_Length",
    "Transfer_Encoding",
    "X-Forwarded-User",
];

/// What the application finds under a name that it takes for `X-User-Id`.
fn expected(rule: Rule, way: &str, spelling: &str) -> Vec<&'static str> {
    let is_other = matches!(spelling, "X-User-Idx" | "X-UserId");
    let is_own = spelling.eq_ignore_ascii_case("X-User-Id");
    // Scripts are told of no field that has another sign.
    let is_heard = is_own || !is_other && rule == Rule::Nothing && way.starts_with("/http/");
    match rule {
        Rule::Nothing if is_heard => vec!["theirs"],
        Rule::Nothing | Rule::Removes => Vec::new(),
        Rule::Sets => vec!["ours"],
        Rule::Adds if is_own => vec!["theirs", "ours"],
        Rule::Defaults if is_own => vec!["theirs"],
        Rule::Adds | Rule::Defaults => vec!["ours"],
    }
}

/// The values under every name of which an interface makes `HTTP_X_USER_ID`.
fn found(told: &str) -> Vec<String> {
    let is_same = |name: &str| {
        let name = name.strip_prefix("HTTP_").unwrap_or(name).to_ascii_lowercase();
        name.replace(|sign: char| !sign.is_ascii_alphanumeric(), "-") == "x-user-id"
    };
    let pair = |line: &str| {
        let at = line.find([':', '='])?;
        is_same(&line[..at]).then(|| line[at + 1..].trim().to_owned())
    };
    told.lines().filter_map(pair).flat_map(|value| value.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn start(engine: Engine, told: &Told, keys: &str) -> Server {
    let route = if keys.is_empty() { String::new() } else { format!("[[site.route]]\nmatch = \"*\"\n{keys}\n") };
    launch(engine, told, "", &route).start()
}

#[test]
fn no_spelling_passes_a_client_off_for_the_server() {
    let mut differences = Differences::default();
    let told = Told::start();
    for &engine in engines() {
        for (rule, keys) in RULES {
            let server = start(engine, &told, keys);
            for (way, is_http2) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
                let case = |spelling: &str| format!("{engine:?} {way} {rule:?} {spelling} (HTTP/2: {is_http2})");
                for spelling in SPELLINGS {
                    let (status, said) = ask(&server, is_http2, way, &[(spelling, "theirs")]);
                    let (is, should) = (found(&said), expected(rule, way, spelling));
                    let fault = (status != 200 || is != should).then(|| format!("{status} {is:?} for {should:?}"));
                    differences.count(|| case(spelling), fault);
                }
                for name in OF_SERVER {
                    let (status, said) = ask(&server, is_http2, way, &[(name, "theirs")]);
                    let fault = (status != 200 || said.contains("theirs")).then(|| format!("{status} {said}"));
                    differences.count(|| case(name), fault);
                }
            }
            server.finish();
        }
    }
    differences.settle("spellings of fields", 700);
}
