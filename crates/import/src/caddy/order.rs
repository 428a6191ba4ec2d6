//! The order in which Caddy carries directives out, as an order of routes.
//!
//! Owns: the order itself, with what `order` of the global options says, and priorities of routes by it. Guarantees:
//! routes are made in Caddy's order, and where two that say where answers come from may fit the same request, the first
//! one counts here, too. What only refuses has a priority of its own beyond these. Source: `directiveOrder` and
//! `sortRoutes` of Caddy's `httpcaddyfile`.

use super::is_denied;
use super::matcher::{Matcher, Matchers};
use super::settle::directs;
use super::syntax::Line;
use super::{DEPTH_MAX, Snippets};
use crate::{Route, Site};

/// Directives in their order.
const DIRECTIVES: [&str; 41] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "php_server",
    "php",
    "file_server",
    "acme_server",
    "tls",
];

/// The order of directives.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    names: Vec<String>,
}

impl Default for Order {
    fn default() -> Order {
        Order { names: DIRECTIVES.map(str::to_owned).to_vec() }
    }
}

impl Order {
    /// Takes `order NAME first`, `last`, `before OTHER` or `after OTHER`. Whether it is one of these.
    pub(super) fn take(&mut self, words: &[String]) -> bool {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (name, where_to) = match &words[..] {
            [_, name, rest @ ..] => (*name, rest),
            _ => return false,
        };
        let mut names = self.names.clone();
        names.retain(|other| other != name);
        let position = |other: &str| names.iter().position(|one| one == other);
        let at = match where_to {
            ["first"] => Some(0),
            ["last"] => Some(names.len()),
            ["before", other] => position(other),
            ["after", other] => position(other).map(|at| at + 1),
            _ => None,
        };
        let Some(at) = at else { return false };
        names.insert(at, name.to_owned());
        self.names = names;
        true
    }

    /// `handle_path` is a `handle`; what is not known has no place, and comes first.
    fn rank(&self, name: &str) -> Option<usize> {
        let name = if name == "handle_path" { "handle" } else { name };
        self.names.iter().position(|one| one == name)
    }

    /// Sorts directives of a block.
    pub(super) fn sort(&self, directives: &mut [Line], matchers: &Matchers) {
        let mut keyed: Vec<Key> = directives.iter().map(|line| self.key(line, matchers)).collect();
        // It is no order of all, so it has to be gone about as Caddy does.
        for at in 1..keyed.len() {
            let mut at = at;
            while at > 0 && keyed[at].comes_before(&keyed[at - 1]) {
                keyed.swap(at, at - 1);
                directives.swap(at, at - 1);
                at -= 1;
            }
        }
    }

    fn key(&self, line: &Line, matchers: &Matchers) -> Key {
        let matcher = match matchers.of(line).0 {
            Ok(matcher) => matcher,
            Err(unsaid) => unsaid.wider,
        };
        let has_matcher = !matcher.is_any() || line.word(1).starts_with('@');
        Key { rank: self.rank(line.word(0)), path: matcher.only_path().map(str::to_owned), has_matcher }
    }
}

/// The order of a directive among others.
#[derive(Debug)]
struct Key {
    rank: Option<usize>,
    path: Option<String>,
    has_matcher: bool,
}

impl Key {
    fn comes_before(&self, other: &Key) -> bool {
        match (self.rank.cmp(&other.rank), &self.path, &other.path) {
            (std::cmp::Ordering::Equal, Some(own), Some(others)) => {
                let is_same = own.trim_end_matches('*') == others.trim_end_matches('*');
                if is_same { own.len() < others.len() } else { own.len() > others.len() }
            }
            (std::cmp::Ordering::Equal, ..) => self.has_matcher && !other.has_matcher,
            (order, ..) => order.is_lt(),
        }
    }
}

/// Directives with those of snippets in their places.
pub(super) fn expanded(directives: &[Line], snippets: &Snippets, depth: usize) -> Vec<Line> {
    let of = |line: &Line| match snippets.get(line.word(1)) {
        Some(snippet) if line.word(0) == "import" && line.words.len() == 2 && depth < DEPTH_MAX => {
            expanded(snippet, snippets, depth + 1)
        }
        _ => vec![line.clone()],
    };
    directives.iter().flat_map(of).collect()
}

/// Gives routes that say where answers come from the order in which they stand, unless they have it already.
pub(super) fn settle(site: &mut Site) {
    let is_placed = |route: &Route| is_denied(route) || route.keys.iter().any(|(key, _)| *key == "priority");
    let places: Vec<usize> = site
        .routes
        .iter()
        .enumerate()
        .filter(|(_, route)| !is_placed(route) && directs(route).any(|key| key != "try"))
        .map(|(at, _)| at)
        .collect();
    let matches = |at: usize| site.routes[at].keys[0].1.as_str();
    let pairs =
        places.iter().enumerate().flat_map(|(at, one)| places[at + 1..].iter().map(move |other| (*one, *other)));
    if pairs.clone().all(|(one, other)| counts_before(matches(one), matches(other))) {
        return;
    }
    for (priority, at) in places.iter().rev().enumerate() {
        site.routes[*at].keys.insert(1, ("priority", (priority + 1).to_string()));
    }
}

/// The beginning of the paths of a `match`, and whether they go on behind it; none if it is something else.
fn beginning(matches: &str) -> Option<(String, bool)> {
    let pattern = matches.strip_prefix("\"/")?.strip_suffix('"')?;
    let start = pattern.split('*').next()?.to_owned();
    (start.len() + 1 >= pattern.len()).then_some((start, pattern.ends_with('*')))
}

fn is_whole(matches: &str) -> bool {
    matches == "\"*\""
}

/// The values of `match` for all requests that fit both of these, and for more. None if it is plain that none does.
pub(super) fn shared(one: &str, other: &str) -> Vec<String> {
    match (beginning(one), beginning(other)) {
        _ if one == other || is_whole(other) => vec![one.to_owned()],
        _ if is_whole(one) => vec![other.to_owned()],
        (Some((start, is_open)), Some((other_start, is_other_open))) => {
            if other_start.starts_with(&start) && is_open {
                vec![other.to_owned()]
            } else if start.starts_with(&other_start) && is_other_open {
                vec![one.to_owned()]
            } else {
                Vec::new()
            }
        }
        _ => vec![one.to_owned()],
    }
}

/// Whether it is plain that a route with the `match` `one` counts before one with `other`, or that no request fits
/// both.
fn counts_before(one: &str, other: &str) -> bool {
    match (beginning(one), beginning(other)) {
        _ if one == other => true,
        _ if is_whole(other) => !is_whole(one),
        (Some((one, is_open)), Some((other, is_other_open))) => {
            let is_within = other.starts_with(&one) && is_open || one.starts_with(&other) && is_other_open;
            !is_within || one.len() > other.len()
        }
        _ => false,
    }
}

impl Matcher {
    /// Its path, if it has one only.
    fn only_path(&self) -> Option<&str> {
        let [path] = self.paths() else { return None };
        Some(path)
    }
}
