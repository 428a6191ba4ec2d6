//! From `[[site.route]]` tables to routes.
//!
//! Owns: the judgement of `match` and `priority`, with words for what is wrong. Each other key judges itself (`rows`);
//! what several do to each other, in one route or in two, is judged in `conflicts`.

use std::ops::Range;

use toml::Spanned;

use super::applications::{self, ApplicationTable};
use super::condition::{Condition, Network, ValueTest};
use super::conflicts;
use super::matcher::Matcher;
use super::pattern::{Pattern, compile};
use super::shapes::{MatchTable, TextsOr, Value};
use super::{RouteSettings, RouteTable};
use crate::checker::Checker;
use crate::site::{self, FieldUse};
use crate::written::Texts;

impl RouteTable {
    /// Whether it answers requests without a file.
    pub(crate) fn needs_no_root(&self, applications: &[Spanned<ApplicationTable>]) -> bool {
        let responds = self.respond.as_ref().is_some_and(|respond| respond.get_ref().needs_no_root());
        let is_path = |tried: &String| applications::marked(tried).is_none();
        let tries = self.try_files.as_ref().is_some_and(|tried| tried.get_ref().0.iter().any(is_path));
        responds || self.redirect.is_some() || self.is_passed_on(applications) && !tries
    }
}

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
        Some((span, given)) => match &**given {
            TextsOr::Texts(texts) => globs(&span, texts, &mut route.paths, checker),
            TextsOr::Table(table) => matches(table, &mut route, checker),
        },
    }
    if let Some(priority) = &given.priority {
        match i32::try_from(*priority.get_ref()) {
            Ok(number) => route.priority = number,
            Err(_) => checker.problem(priority.span(), "`priority` must be between -2147483648 and 2147483647"),
        }
    }
    route.judge_keys(given, checker);
    for (message, hint) in conflicts::within(&route) {
        checker.problem_with_hint(table.span(), message, hint.map(str::to_owned));
    }
    route
}

fn globs(span: &Range<usize>, texts: &[String], paths: &mut Vec<Pattern>, checker: &mut Checker<'_>) {
    for text in texts {
        match Pattern::from_glob(text) {
            Ok(patterns) => paths.extend(patterns),
            Err(why) => checker.problem(span.clone(), format!("`{}` {why}", text.escape_debug())),
        }
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
    for (name, value) in table.header.iter() {
        site::field_name(name, FieldUse::Request, checker);
        route.conditions.extend(value_test(value, checker).map(|test| Condition::Header(name.get_ref().clone(), test)));
    }
    for (name, value) in table.query.iter() {
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
        if !inner.paths.is_empty() {
            let message = "paths are not a part of `not`: give them a route of their own, which is more specific";
            checker.problem(given.span(), message);
        }
        route.conditions.push(Condition::Not(inner.conditions));
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
