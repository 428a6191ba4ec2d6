//! `if` of nginx that leads elsewhere: to another address, or to another path.
//!
//! Owns: which of them restrict access, and what becomes of these. One that asks who the client is (a cookie, a field,
//! an address, a user) is a restriction: it is carried over if its condition and its target can be expressed, and
//! otherwise what it is for is not served. So is one by which another program answers. One that asks for the address
//! alone (scheme, host, path, query) restricts no client. Guarantees: a variable of unknown origin is one about the
//! client. Pure.

use lamna_config::render::quoted;

use super::refusal::{self, Whom};
use super::rewrite;
use super::syntax::Directive;
use super::{Names, location_of};
use crate::may_be_run;

/// The result for one.
pub(super) enum Turn {
    /// Requests that fit one of these keys of `match` are led there.
    Carried(Vec<String>, (&'static str, String)),
    /// Nothing is there for these; none is everybody.
    Denied(Option<Whom>),
}

/// One that restricts; none for others.
pub(super) fn of(directive: &Directive, names: &Names) -> Option<Turn> {
    let leads = leading(directive)?;
    let asks_who = asks_who(directive, &names.plain);
    if !asks_who && !has_run(directive, leads) {
        return None;
    }
    let whom = refusal::condition(directive, names.has_tls);
    let is_alone = directive.block.iter().flatten().all(|one| one.name == "break" || std::ptr::eq(one, leads));
    match (whom, target(leads, names)) {
        (Some(Whom::Some(keys)), Some(does)) if asks_who && is_alone => Some(Turn::Carried(keys, does)),
        (whom, _) => Some(Turn::Denied(whom)),
    }
}

/// Whether one may restrict, whatever its variables come from.
pub(super) fn may_restrict(directive: &Directive) -> bool {
    leading(directive).is_some_and(|leads| asks_who(directive, &[]) || has_run(directive, leads))
}

/// The directive of its block that leads elsewhere, if it does not refuse.
fn leading(directive: &Directive) -> Option<&Directive> {
    let leads = |one: &&Directive| matches!(&*one.name, "return" | "rewrite");
    let is_turn = directive.name == "if" && !refusal::refuses(directive);
    directive.block.iter().flatten().find(leads).filter(|_| is_turn)
}

/// Whether another program may answer for a file that is there.
fn has_run(directive: &Directive, leads: &Directive) -> bool {
    let absent = ["(!-e", "(!-f"].iter().any(|start| directive.argument(0).starts_with(start));
    leads.name == "rewrite" && !rewrite::leads_away(leads) && !absent && may_be_run(leads.argument(1))
}

/// Where one leads, if it is the same for all of its paths.
fn target(leads: &Directive, names: &Names) -> Option<(&'static str, String)> {
    if leads.name == "rewrite" {
        return rewrite::of_all(leads, names);
    }
    let (status, to) = match &leads.arguments[..] {
        [to] => ("302", to),
        [status, to] => (&**status, to),
        _ => return None,
    };
    let is_redirect = matches!(status, "301" | "302" | "303" | "307" | "308");
    let to = location_of(to, names).ok().filter(|_| is_redirect)?;
    Some(("redirect", format!("{{ to = {}, status = {status} }}", quoted(&to))))
}

/// Whether a condition asks who the client is. `plain` are variables that do not.
fn asks_who(directive: &Directive, plain: &[String]) -> bool {
    sources(directive).iter().any(|name| !is_plain(name, plain))
}

fn is_plain(name: &str, plain: &[String]) -> bool {
    let is_group = name.bytes().all(|byte| byte.is_ascii_digit());
    is_group || PLAIN.contains(&name) || name.starts_with("arg_") || plain.iter().any(|one| one == name)
}

/// Variables about the address that is asked for, about what is there, and about what a client understands.
const PLAIN: [&str; 28] = [
    "scheme",
    "https",
    "host",
    "http_host",
    "server_name",
    "server_port",
    "server_addr",
    "server_protocol",
    "http_x_forwarded_proto",
    "http_x_forwarded_ssl",
    "http_x_forwarded_host",
    "http_x_forwarded_port",
    "http_accept",
    "http_accept_encoding",
    "http_accept_language",
    "request",
    "request_uri",
    "request_method",
    "uri",
    "document_uri",
    "args",
    "query_string",
    "is_args",
    "request_filename",
    "document_root",
    "realpath_root",
    "time_iso8601",
    "hostname",
];

/// In the place of a parameter that has to be there: it is one that not everybody knows.
const NEEDED: &str = "a parameter that is needed";

/// The variables that a condition looks at.
fn sources(directive: &Directive) -> Vec<String> {
    let words = directive.arguments.join(" ");
    let inner = words.trim_start_matches('(').trim_end_matches(')').trim();
    let mut found = variables(inner);
    let is_of_query = |name: &String| matches!(&**name, "args" | "query_string") || name.starts_with("arg_");
    let (_, rest) = inner.split_once(' ').unwrap_or((inner, ""));
    let rest = rest.trim();
    let is_needed = rest.starts_with('!') || rest.strip_prefix('=').is_some_and(|value| value.trim().is_empty());
    if is_needed && found.iter().any(is_of_query) {
        found.push(NEEDED.to_owned());
    }
    found
}

/// The names that stand behind `$` in a text.
fn variables(text: &str) -> Vec<String> {
    let name = |rest: &str| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        rest[..length].to_owned()
    };
    // At its end it is that of an expression.
    text.split('$').skip(1).map(name).filter(|name| !name.is_empty()).collect()
}

/// The variables that a configuration defines itself and that do not come from who the client is.
pub(super) fn plain_variables(directives: &[Directive]) -> Vec<String> {
    let mut defined = Vec::new();
    gather(directives, &[], &mut defined);
    let mut plain: Vec<String> = defined.iter().map(|(name, _)| name.clone()).collect();
    loop {
        let is_known = |(_, sources): &&(String, Vec<String>)| sources.iter().any(|one| !is_plain(one, &plain));
        let others: Vec<&String> = defined.iter().filter(is_known).map(|(name, _)| name).collect();
        let before = plain.len();
        plain = plain.iter().filter(|name| !others.contains(name)).cloned().collect();
        if plain.len() == before {
            return plain;
        }
    }
}

/// Names, and what each comes from; `around` is what the conditions around look at.
fn gather(directives: &[Directive], around: &[String], defined: &mut Vec<(String, Vec<String>)>) {
    for one in directives {
        let inner = one.block.as_deref().unwrap_or_default();
        let name = |at: usize| one.argument(at).trim_start_matches('$').to_owned();
        match &*one.name {
            "set" => defined.push((name(0), [variables(one.argument(1)), around.to_vec()].concat())),
            "map" => {
                let values = inner.iter().flat_map(|value| variables(value.argument(0)));
                defined.push((name(1), variables(one.argument(0)).into_iter().chain(values).collect()));
            }
            // The choice among several pages restricts no client.
            "split_clients" => defined.push((name(1), Vec::new())),
            "geo" => defined.push((name(one.arguments.len().saturating_sub(1)), vec!["remote_addr".to_owned()])),
            _ => {}
        }
        let looks_at = if one.name == "if" { [sources(one), around.to_vec()].concat() } else { around.to_vec() };
        let groups = one.arguments.iter().flat_map(|word| groups(word));
        defined.extend(groups.map(|group| (group, looks_at.clone())));
        gather(inner, &looks_at, defined);
    }
}

/// The names of the groups of an expression.
fn groups(regex: &str) -> Vec<String> {
    let named = regex.split("(?").skip(1).filter_map(|rest| rest.trim_start_matches('P').strip_prefix('<'));
    named
        .filter_map(|rest| Some(rest.split_once('>')?.0))
        .filter(|name| !name.contains(['=', '!', '(']))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::syntax::parse;
    use super::*;

    #[test]
    fn a_variable_is_about_the_client_if_something_that_it_comes_from_is() {
        let text = "map $host $a { default 1; } map $cookie_x $b { default 1; } map $host $c { default $b; } geo $d { default 1; } \
                    server { set $e 1; if ($remote_addr ~ x) { set $e 2; } set $f $a$1; server_name ~^(?<sub>.+)\\.a$; \
                    if ($http_x ~ (?P<g>.*)) { set $h 1; } if ($arg_t != k) { set $i 1; } if ($arg_t = k) { set $j 1; } }";
        let mut plain = plain_variables(&parse(text).unwrap());
        plain.sort_unstable();
        plain.dedup();
        assert_eq!(plain, ["a", "f", "j", "sub"]);
    }
}
