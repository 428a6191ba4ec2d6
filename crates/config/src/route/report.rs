//! Routes as text: the tables that `lamna check` shows, and for each route what finally applies to its requests.
//!
//! Guarantees that the tables load to the same routes. What finally applies stands in comments.

use std::fmt::Write;

use super::condition::{Condition, ValueTest};
use super::headers::{self, HeaderRule};
use super::matcher::Matcher;
use super::pattern::Pattern;
use super::row::{Row, Section};
use super::{RouteSettings, Rules, Source, Switch, merge};
use crate::page::{list, quoted};

/// A TOML table of this route.
pub fn render(route: &RouteSettings) -> String {
    let mut text = String::from("\n[[site.route]]\n");
    let mut line =
        |key: &str, value: String| writeln!(text, "{key} = {value}").expect("writing to a string does not fail");
    line("match", matches(route));
    if route.priority != 0 {
        line("priority", route.priority.to_string());
    }
    for row in Row::in_order(|order| order.shown) {
        if let Some((key, value)) = (row.render)(route) {
            line(key, value);
        }
    }
    text
}

/// For each route what applies in the end to a path that it is for, as comments, the fields `of_site` included. Routes
/// that cannot be compiled are not there: they have been refused.
pub fn report(routes: &[RouteSettings], of_site: &[(String, String)]) -> String {
    let mut text = String::new();
    let Ok(matcher) = Matcher::new(routes) else { return text };
    if !matcher.is_empty() {
        text.push_str("\n# What applies in the end, the most specific route first:\n");
    }
    for (id, route) in matcher.routes() {
        let ids = applying(&matcher, id, route);
        let mut rules = merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
        rules.headers.insert(0, HeaderRule::of_fields(of_site));
        headers::settle(&mut rules.headers);
        let place = route.source.in_words();
        let others: Vec<String> =
            ids.iter().filter(|other| **other != id).map(|other| matcher.route(*other).title()).collect();
        let others = if others.is_empty() { String::new() } else { format!(", with {}", others.join(" and ")) };
        push_comment(&mut text, &format!("{}{place}{others}", route.title()));
        for line in lines_of(&rules) {
            push_comment(&mut text, &format!("    {line}"));
        }
    }
    text
}

/// The lines of `_redirects` by which nothing is done, each with the title of the route that stands before it.
pub fn unused_lines(routes: &[RouteSettings]) -> Vec<(usize, String)> {
    let Ok(matcher) = Matcher::new(routes) else { return Vec::new() };
    let of = |(id, route): (u16, &RouteSettings)| {
        let Source::RedirectsLine(line) = route.source else { return None };
        let ids = applying(&matcher, id, route);
        let rules = merge(ids.iter().map(|id| (usize::from(*id), matcher.route(*id))));
        let own = usize::from(id);
        let counts = [
            rules.redirect.as_ref().map(|(_, from)| *from),
            rules.rewrite.as_ref().map(|(_, from)| *from),
            rules.try_files.as_ref().filter(|_| !matches!(route.redirect, Switch::Set(_))).map(|(_, from)| *from),
        ];
        let is_used = counts.contains(&Some(own)) || !route.error_pages.is_empty();
        let before =
            ids.iter().map(|id| matcher.route(*id)).find(|one| one.source == Source::Configuration && one.directs())?;
        (!is_used).then(|| (line.0, before.title()))
    };
    matcher.routes().filter_map(of).collect()
}

/// The routes that surely apply where `route`, the one of number `id`, does.
fn applying(matcher: &Matcher, id: u16, route: &RouteSettings) -> Vec<u16> {
    let samples = route.paths.iter().map(Pattern::sample).collect::<Vec<_>>();
    let sample = samples.first().map_or("/*", String::as_str);
    // A sample of a regular expression need not be matched by it.
    let mut ids = matcher.by_path(sample.as_bytes());
    let is_sure = |other: u16| other == id || matcher.route(other).conditions.is_empty();
    ids.push(id);
    ids.sort_unstable();
    ids.dedup();
    ids.retain(|other| is_sure(*other));
    ids
}

/// One line, whatever stands in it.
fn push_comment(text: &mut String, line: &str) {
    let line: String =
        line.chars().map(|each| if each.is_control() { char::REPLACEMENT_CHARACTER } else { each }).collect();
    writeln!(text, "#   {line}").expect("writing to a string does not fail");
}

impl Source {
    /// Where a route is written, if that is not the configuration.
    pub(super) fn in_words(self) -> String {
        match self {
            Source::Configuration => String::new(),
            Source::RedirectsLine(line) => format!(" (_redirects, line {})", line.0),
            Source::HeadersLine(line) => format!(" (_headers, line {line})"),
        }
    }
}

/// How rules come from a path to a file.
pub(super) fn ways(rules: &Rules) -> Vec<String> {
    let rows = Row::in_order(|order| order.reported).into_iter();
    let ways = rows.filter(|row| row.order.reported == Section::Ways).flat_map(|row| (row.report)(rules));
    ways.chain(behind_files(rules)).collect()
}

/// An application that comes behind files, in words.
fn behind_files(rules: &Rules) -> Option<String> {
    rules.try_files_first().then(|| "where none of these is a file, the application answers".to_owned())
}

fn lines_of(rules: &Rules) -> Vec<String> {
    let mut media = rules.media_type.as_ref().map(|media| format!("Content-Type: {media} (files)"));
    let mut lines = Vec::new();
    let mut behind = behind_files(rules);
    for row in Row::in_order(|order| order.reported) {
        if row.order.reported > Section::Ways {
            lines.extend(behind.take());
        }
        if row.order.reported >= Section::Files {
            lines.extend(media.take());
        }
        lines.extend((row.report)(rules));
    }
    if lines.is_empty() {
        lines.push("nothing else than for the whole site".into());
    }
    lines
}

/// Conditions in words.
pub(super) fn conditions(conditions: &[Condition]) -> String {
    let one = |condition: &Condition| match condition {
        Condition::Method(names) => format!("method {}", names.join(" or ")),
        Condition::Host(hosts) => format!("host {}", hosts.join(" or ")),
        Condition::Header(name, test) => format!("header {name} {}", test_words(test)),
        Condition::Query(name, test) => format!("query {name} {}", test_words(test)),
        Condition::Client(networks) => {
            format!("client in {}", networks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "))
        }
        Condition::Protocol(names) => names.join(" or "),
        Condition::Not(inner) => format!("not ({})", self::conditions(inner)),
    };
    conditions.iter().map(one).collect::<Vec<_>>().join(" and ")
}

fn test_words(test: &ValueTest) -> String {
    match test {
        ValueTest::Present => "is there".into(),
        ValueTest::Absent => "is not there".into(),
        ValueTest::OneOf(values) => format!("is {}", values.join(" or ")),
        ValueTest::Regex(text) => format!("matches {text}"),
    }
}

fn matches(route: &RouteSettings) -> String {
    if route.paths.is_empty() && route.conditions.is_empty() {
        return quoted("*");
    }
    let of = |is_regex: bool| {
        let texts = route.paths.iter().filter(move |path| path.is_regex() == is_regex).map(Pattern::text);
        texts.collect::<Vec<_>>()
    };
    let mut keys = Vec::new();
    for (key, texts) in [("path", of(false)), ("regex", of(true))] {
        if !texts.is_empty() {
            keys.push(format!("{key} = {}", list(texts)));
        }
    }
    keys.extend(condition_keys(&route.conditions));
    format!("{{ {} }}", keys.join(", "))
}

fn condition_keys(conditions: &[Condition]) -> Vec<String> {
    let (mut keys, mut header, mut query) = (Vec::new(), Vec::new(), Vec::new());
    for condition in conditions {
        match condition {
            Condition::Method(names) => keys.push(format!("method = {}", list(names))),
            Condition::Host(hosts) => keys.push(format!("host = {}", list(hosts))),
            Condition::Header(name, test) => header.push(format!("{} = {}", quoted(name), test_value(test))),
            Condition::Query(name, test) => query.push(format!("{} = {}", quoted(name), test_value(test))),
            Condition::Client(networks) => {
                keys.push(format!("client = {}", list(networks.iter().map(ToString::to_string))))
            }
            Condition::Protocol(names) => keys.push(format!("protocol = {}", list(names))),
            Condition::Not(inner) => keys.push(format!("not = {{ {} }}", condition_keys(inner).join(", "))),
        }
    }
    for (key, tests) in [("header", header), ("query", query)] {
        if !tests.is_empty() {
            keys.push(format!("{key} = {{ {} }}", tests.join(", ")));
        }
    }
    keys
}

fn test_value(test: &ValueTest) -> String {
    match test {
        ValueTest::Present => "true".into(),
        ValueTest::Absent => "false".into(),
        ValueTest::OneOf(values) => list(values),
        ValueTest::Regex(text) => format!("{{ regex = {} }}", quoted(text)),
    }
}
