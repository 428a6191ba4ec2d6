//! `Redirect` and `RedirectMatch`.
//!
//! Owns: what they lead to as `redirect` or `respond` of routes.

use lamna_config::render::quoted;
use lamna_config::route::pattern::Pattern;

use super::routes::{Routes, Strength};
use super::syntax::Directive;
use crate::matching::{Kind, Literal, PathTest, Test};
use crate::{DENIED_WORDS, Draft, respond};

/// A location that a redirect can lead to.
pub(super) fn checked(to: &str) -> Option<String> {
    let is_path = to.starts_with('/') && !to.starts_with("//") || to == "$path";
    let host = ["http://", "https://"].iter().find_map(|scheme| to.strip_prefix(scheme));
    let is_url = host.is_some_and(|rest| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let name = host.strip_suffix("$path").unwrap_or(host);
        !name.is_empty() && (name == "$host" || !name.contains('$'))
    });
    let is_sendable = to.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\' && byte != b'{');
    ((is_path || is_url) && is_sendable).then(|| to.to_owned())
}

/// Carries one over, for the paths of `around` where it stands in a section. Where the section `is_conditional`, its
/// paths are answered with 404: it may keep clients out.
pub(super) fn carry(
    directive: &Directive,
    around: &[Literal],
    is_conditional: bool,
    routes: &mut Routes,
    draft: &mut Draft,
) {
    let text = directive.text();
    let mut words: Vec<&str> = directive.arguments().iter().map(String::as_str).collect();
    let is_match = directive.name == "redirectmatch";
    let named = |word: &str| match word.to_ascii_lowercase().as_str() {
        "permanent" => Some("301"),
        "temp" => Some("302"),
        "seeother" => Some("303"),
        "gone" => Some("410"),
        _ => None,
    };
    let mut status = match &*directive.name {
        "redirectpermanent" => "301".to_owned(),
        _ => "302".to_owned(),
    };
    let code_of = |first: &str| {
        let is_code = first.len() == 3 && first.parse::<u16>().is_ok();
        named(first).map(str::to_owned).or(is_code.then(|| first.to_owned()))
    };
    if let Some(code) = words.first().and_then(|first| code_of(first)) {
        status = code;
        words.remove(0);
    }
    let leads = matches!(&*status, "301" | "302" | "303" | "307" | "308");
    if is_conditional && leads {
        draft.lose(directive.line, format!("`{text}`: its condition cannot be said; {DENIED_WORDS}"));
        status = "404".to_owned();
        words.truncate(if words.len() > 1 { 1 } else { 0 });
    }
    let (from, to) = match (&words[..], around.is_empty()) {
        ([], _) => (None, ""),
        ([from, to], _) => (Some(*from), *to),
        ([one], _) if respond::value(&status, "").is_some() => (Some(*one), ""),
        ([to], false) => (None, *to),
        _ => return draft.lose(directive.line, format!("`{text}`: it says no path, or more")),
    };
    let path = |tests: Vec<PathTest>| [around.to_vec(), vec![(Test::Path(tests), false)]].concat();
    let from = from.map(|from| if from.starts_with('/') || is_match { from.to_owned() } else { format!("/{from}") });
    if let Some(value) = respond::value(&status, "") {
        let all = match &from {
            None => around.to_vec(),
            Some(from) if is_match => path(vec![PathTest::new(Kind::Regex, &crate::nginx::restricting(from), false)]),
            Some(from) => path(beneath(from)),
        };
        return routes.emit(Strength::Redirect, directive, &all, vec![("respond", value)], true, draft);
    }
    if !leads {
        return draft.lose(directive.line, format!("`{text}`: a redirect has no such status"));
    }
    let plain = to.replace('$', "$$");
    let lead = |all: &[Literal], to: String, routes: &mut Routes, draft: &mut Draft| match checked(&to) {
        Some(to) => {
            let value = format!("{{ to = {}, status = {status} }}", quoted(&to));
            routes.lead(Strength::Redirect, directive, all, value, &to, draft);
        }
        None => draft.lose(directive.line, format!("`{text}`: where it leads cannot be said here")),
    };
    match from {
        None => lead(around, plain, routes, draft),
        Some(from) if is_match => {
            let captures = Pattern::from_regex(&from).map_or(0, |pattern| pattern.captures().0);
            let has_all = (1..=9).all(|digit| !to.contains(&format!("${digit}")) || digit <= captures);
            let is_all = matches!(&*from, "^/(.*)$" | "^/(.*)" | "/(.*)" | "/(.*)$");
            let to = if is_all { to.replace("/$1", "$path").replace("$1", "$path") } else { to.to_owned() };
            if !has_all || to.contains("$0") || to.contains("$&") {
                return draft.lose(directive.line, format!("`{text}`: where it leads cannot be said here"));
            }
            let all = if is_all { around.to_vec() } else { path(vec![PathTest::new(Kind::Regex, &from, false)]) };
            lead(&all, to, routes, draft);
        }
        Some(from) if from == "/" => lead(around, format!("{}$path", plain.trim_end_matches('/')), routes, draft),
        Some(from) if from.contains(['*', '{', '}', '?', '%']) => {
            draft.lose(directive.line, format!("`{text}`: this path cannot be said here"));
        }
        Some(from) => {
            let exact = path(vec![PathTest::new(Kind::Exact, &from, false)]);
            if !from.ends_with('/') {
                lead(&exact, plain.clone(), routes, draft);
            }
            let (from, to) = (from.trim_end_matches('/'), plain.trim_end_matches('/'));
            // With a query of its own it stays as it is.
            let has_end = plain.contains(['?', '#']);
            let to = if has_end { to.to_owned() } else { format!("{to}/$1") };
            lead(&path(vec![PathTest::new(Kind::Prefix, &format!("{from}/"), false)]), to, routes, draft);
        }
    }
}

/// A path and all beneath.
pub(super) fn beneath(path: &str) -> Vec<PathTest> {
    let whole = path.trim_end_matches('/');
    let mut tests = vec![PathTest::new(Kind::Prefix, &format!("{whole}/"), false)];
    if !path.ends_with('/') || whole.is_empty() {
        tests.push(PathTest::new(Kind::Exact, path, false));
    }
    tests
}
