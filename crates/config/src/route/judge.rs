//! From `[[site.route]]` tables to routes.
//!
//! Owns: the judgement of everything in a route, with words for what is wrong. What several routes of a site do to each other
//! is judged in `conflicts`. Header names and values are judged as those of a site are.

use std::ops::Range;

use toml::Spanned;

use super::access;
use super::condition::{Condition, Network, ValueTest};
use super::conflicts;
use super::cors;
use super::fields;
use super::filters;
use super::gateways;
use super::headers::HeaderRule;
use super::kept_answers;
use super::matcher::Matcher;
use super::pattern::{Pattern, compile};
use super::shapes::{MatchTable, RouteTable, SwitchOr, TextsOr, Value};
use super::ways;
use super::{ChangeRules, Immutable, RouteSettings, Switch};
use crate::file::Texts;
use crate::site::{self, FieldUse};
use crate::validate::Checker;

/// The routes of a site, in the order of the file.
pub(crate) fn routes(tables: &[Spanned<RouteTable>], checker: &mut Checker<'_>) -> Vec<RouteSettings> {
    let before = checker.count_findings();
    let routes: Vec<RouteSettings> = tables.iter().map(|table| route(table, checker)).collect();
    if checker.count_findings() == before {
        for (at, message, hint) in conflicts::of(&routes) {
            checker.problem_with_hint(tables[at].span(), message, Some(hint));
        }
        match (Matcher::new(&routes), tables.first()) {
            (Err(message), Some(first)) => checker.problem(first.span(), message),
            (Ok(matcher), _) if checker.count_findings() == before => {
                for at in conflicts::loops(&routes, &matcher) {
                    let message =
                        "this redirect leads to a path that it applies to again: clients would go round for ever";
                    let hint = Some(
                        "leave the path that it leads to out of `match`, or give it a route with redirect = false"
                            .into(),
                    );
                    checker.problem_with_hint(tables[at].span(), message, hint);
                }
            }
            _ => {}
        }
    }
    routes
}

fn route(table: &Spanned<RouteTable>, checker: &mut Checker<'_>) -> RouteSettings {
    let given = table.get_ref();
    let mut route = RouteSettings::default();
    match given.matches.as_ref().map(|matches| (matches.span(), matches.get_ref())) {
        None if checker.was_taken("match", &table.span()) => {}
        None => {
            let hint = Some("write match = \"/path/*\", or match = \"*\" for every path".into());
            checker.problem_with_hint(table.span(), "this route has no `match`", hint);
        }
        Some((span, TextsOr::Texts(texts))) => globs(&span, texts, &mut route.paths, checker),
        Some((_, TextsOr::Table(table))) => matches(table, &mut route, checker),
    }
    if let Some(priority) = &given.priority {
        match i32::try_from(*priority.get_ref()) {
            Ok(number) => route.priority = number,
            Err(_) => checker.problem(priority.span(), "`priority` must be between -2147483648 and 2147483647"),
        }
    }
    route.headers = given.headers.as_ref().map(|headers| fields::judge(headers, checker)).unwrap_or_default();
    route.immutable = given.immutable.as_ref().and_then(|given| immutable(given, checker));
    let redirect = |redirect: &_, span, checker: &mut _| ways::redirect(redirect, span, &route.paths, checker);
    route.redirect =
        given.redirect.as_ref().map_or(Switch::Unset, |given| redirect(given.get_ref(), given.span(), checker));
    if let Some(given) = &given.rewrite {
        route.rewrite = match given.get_ref() {
            SwitchOr::Is(false) => Switch::Off,
            SwitchOr::Text(text) => {
                ways::inner(&given.span(), text, &route.paths, checker).map_or(Switch::Unset, Switch::Set)
            }
            _ => {
                checker.problem(given.span(), "`rewrite` is a path, or false");
                Switch::Unset
            }
        };
    }
    if let Some(given) = &given.try_files {
        let texts = given.get_ref().0.iter();
        route.try_files =
            Some(texts.filter_map(|text| ways::inner(&given.span(), text, &route.paths, checker)).collect());
    }
    route.index = given.index.as_ref().map(|names| names.iter().map(|name| site::index_name(name, checker)).collect());
    route.error_pages = site::error_pages(&given.error_pages, checker);
    route.cors = given.cors.as_ref().map_or(Switch::Unset, |given| cors::judge(given, checker));
    route.gateway = gateways::judge(given, checker);
    route.answer_cache = kept_answers::judge(given.cache.as_ref(), checker);
    route.filters = given.filters.as_ref().and_then(|given| filters::judge(given, checker));
    route.search = given.search;
    route.early_hints = given.early_hints;
    route.link_prefetch = given.link_prefetch;
    if let Some(structured) = &given.structured {
        route.filters.get_or_insert_default().extend(filters::structured(structured, checker));
    }
    route.changes = ChangeRules { upload: given.upload, delete: given.delete, mkdir: given.mkdir };
    route.access = given.access.as_ref().map(|given| access::access(given, checker)).unwrap_or_default();
    conflicts_within(table, &route, checker);
    route
}

/// What contradicts itself within one route.
fn conflicts_within(table: &Spanned<RouteTable>, route: &RouteSettings, checker: &mut Checker<'_>) {
    let redirects = matches!(&route.redirect, Switch::Set(redirect) if !redirect.if_missing);
    let looks =
        matches!(route.rewrite, Switch::Set(_)) || route.try_files.as_ref().is_some_and(|tried| !tried.is_empty());
    if redirects && looks {
        let hint = Some("with if_missing = true it is redirected only where there is nothing".into());
        let message = "this route redirects every request, so that `rewrite` and `try` have nothing to do";
        checker.problem_with_hint(table.span(), message, hint);
    }
    let is_answered = matches!(&route.gateway, Switch::Set(gateway) if gateway.scripts.is_none());
    if is_answered && (redirects || looks) {
        let message = "an application answers this route, so that `redirect`, `rewrite` and `try` have nothing to do";
        checker.problem(table.span(), message);
    }
    let (bytes, most) = (route.headers.iter().map(HeaderRule::bytes).sum::<usize>(), site::HEADERS_BYTES_MAX);
    if bytes > most {
        checker
            .problem(table.span(), format!("the fields of this route have {bytes} bytes: at most {most} can be sent"));
    }
}

fn globs(span: &Range<usize>, texts: &[String], paths: &mut Vec<Pattern>, checker: &mut Checker<'_>) {
    for text in texts {
        match Pattern::from_glob(text) {
            Ok(patterns) => paths.extend(patterns),
            Err(why) => checker.problem(span.clone(), format!("`{}` {why}", text.escape_debug())),
        }
    }
    if texts.is_empty() {
        checker.problem(span.clone(), "this list is empty: nothing would match");
    }
}

fn matches(table: &MatchTable, route: &mut RouteSettings, checker: &mut Checker<'_>) {
    if let Some(path) = &table.path {
        globs(&path.span(), &path.get_ref().0, &mut route.paths, checker);
    }
    if let Some(given) = &table.regex {
        for text in &given.get_ref().0 {
            match Pattern::from_regex(text) {
                Ok(pattern) => route.paths.push(pattern),
                Err(why) => checker.problem(given.span(), format!("`{}` {why}", text.escape_debug())),
            }
        }
    }
    let mut names = |given: &Option<Spanned<Texts>>, what: &str, is: &dyn Fn(&str) -> bool| {
        let given = given.as_ref()?;
        let wrong = given.get_ref().0.iter().find(|text| !is(text));
        if let Some(wrong) = wrong {
            checker.problem(given.span(), format!("`{}` is not {what}", wrong.escape_debug()));
        } else if given.get_ref().0.is_empty() {
            checker.problem(given.span(), "this list is empty: nothing would match");
        }
        Some(given.get_ref().0.clone())
    };
    let is_method = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    let methods = names(&table.method, "a method: they are written in capitals, as in GET", &is_method);
    let is_protocol = |text: &str| PROTOCOLS.contains(&text);
    let protocols = names(&table.protocol, &format!("a protocol: known are {}", PROTOCOLS.join(", ")), &is_protocol);
    route.conditions.extend(methods.map(Condition::Method));
    if let Some(hosts) = &table.host {
        route.conditions.push(Condition::Host(hosts.iter().map(|host| site::host(host, checker)).collect()));
    }
    for (name, value) in &table.header {
        site::field_name(name, FieldUse::Request, checker);
        route.conditions.extend(value_test(value, checker).map(|test| Condition::Header(name.get_ref().clone(), test)));
    }
    for (name, value) in &table.query {
        route.conditions.extend(value_test(value, checker).map(|test| Condition::Query(name.get_ref().clone(), test)));
    }
    if let Some(given) = &table.client {
        let mut networks = Vec::new();
        for text in &given.get_ref().0 {
            match text.parse::<Network>() {
                Ok(network) => networks.push(network),
                Err(why) => checker.problem(given.span(), format!("`{}` {why}", text.escape_debug())),
            }
        }
        route.conditions.push(Condition::Client(networks));
    }
    route.conditions.extend(protocols.map(Condition::Protocol));
    if let Some(given) = &table.not {
        let mut inner = RouteSettings::default();
        matches(given.get_ref(), &mut inner, checker);
        let message = match (inner.paths.is_empty(), inner.conditions.is_empty()) {
            (false, _) => "paths are not a part of `not`: give them a route of their own, which is more specific",
            (_, true) => "`not` asks for nothing: it would never match",
            _ => return route.conditions.push(Condition::Not(inner.conditions)),
        };
        checker.problem(given.span(), message);
    }
}

/// As requests name them.
const PROTOCOLS: [&str; 2] = ["HTTP/1.0", "HTTP/1.1"];

fn value_test(given: &Spanned<Value>, checker: &mut Checker<'_>) -> Option<ValueTest> {
    match given.get_ref() {
        Value::Is(true) => Some(ValueTest::Present),
        Value::Is(false) => Some(ValueTest::Absent),
        Value::OneOf(texts) => Some(ValueTest::OneOf(texts.clone())),
        Value::Regex(text) => match compile(text.get_ref()) {
            Ok(_) => Some(ValueTest::Regex(text.get_ref().clone())),
            Err(why) => {
                checker.expect(false, text, &why);
                None
            }
        },
    }
}

fn immutable(given: &Spanned<SwitchOr<super::shapes::Never>>, checker: &mut Checker<'_>) -> Option<Immutable> {
    match given.get_ref() {
        SwitchOr::Is(true) => Some(Immutable::Hashed),
        SwitchOr::Is(false) => Some(Immutable::None),
        SwitchOr::Text(text) if text == "all" => Some(Immutable::All),
        _ => {
            let message = "`immutable` is true for names with a hash, \"all\" for every file, or false";
            checker.problem(given.span(), message);
            None
        }
    }
}
