//! Routes as text: the tables that `lamna check` shows, and for each route what finally applies to its requests.
//!
//! Guarantees that the tables load to the same routes. What finally applies stands in comments.

use std::fmt::Write;

use super::condition::{Condition, ValueTest};
use super::cors;
use super::fields;
use super::filters;
use super::gateways;
use super::headers::{self, HeaderRule};
use super::kept_answers;
use super::matcher::Matcher;
use super::pattern::Pattern;
use super::{Immutable, RouteSettings, Rules, Source, Switch, merge};
use crate::render::{list, quoted};

/// A TOML table of this route.
pub fn render(route: &RouteSettings) -> String {
    let mut text = String::from("\n[[site.route]]\n");
    let mut line =
        |key: &str, value: String| writeln!(text, "{key} = {value}").expect("writing to a string does not fail");
    line("match", matches(route));
    if route.priority != 0 {
        line("priority", route.priority.to_string());
    }
    if !route.headers.is_empty() {
        let tables: Vec<String> = route.headers.iter().map(fields::render).collect();
        line("headers", format!("[{}]", tables.join(", ")));
    }
    match route.immutable {
        Some(Immutable::None) => line("immutable", "false".into()),
        Some(Immutable::Hashed) => line("immutable", "true".into()),
        Some(Immutable::All) => line("immutable", quoted("all")),
        None => {}
    }
    match &route.redirect {
        Switch::Unset => {}
        Switch::Off => line("redirect", "false".into()),
        Switch::Set(to) => {
            let missing = if to.if_missing { ", if_missing = true" } else { "" };
            line("redirect", format!("{{ to = {}, status = {}{missing} }}", quoted(to.to.text()), to.status));
        }
    }
    match &route.rewrite {
        Switch::Unset => {}
        Switch::Off => line("rewrite", "false".into()),
        Switch::Set(path) => line("rewrite", quoted(path.text())),
    }
    if let Some(tried) = &route.try_files {
        line("try", list(tried.iter().map(|one| one.text())));
    }
    if let Some(index) = &route.index {
        line("index", list(index));
    }
    if !route.error_pages.is_empty() {
        let pages = route.error_pages.iter().map(|(status, page)| format!("\"{status}\" = {}", quoted(page)));
        line("error_pages", format!("{{ {} }}", pages.collect::<Vec<_>>().join(", ")));
    }
    match &route.gateway {
        Switch::Unset => {}
        Switch::Off => line("proxy", "false".into()),
        Switch::Set(gateway) => line(gateway.key(), gateways::render(gateway)),
    }
    match &route.cors {
        Switch::Unset => {}
        Switch::Off => line("cors", "false".into()),
        Switch::Set(cors) => line("cors", cors::render(cors)),
    }
    match &route.answer_cache {
        Switch::Unset => {}
        Switch::Off => line("cache", "false".into()),
        Switch::Set(cache) => line("cache", kept_answers::render(cache)),
    }
    if let Some(steps) = &route.filters {
        line("filters", filters::render(steps));
    }
    if let Some(is_on) = route.search {
        line("search", is_on.to_string());
    }
    if let Some(is_on) = route.early_hints {
        line("early_hints", is_on.to_string());
    }
    if let Some(is_on) = route.link_prefetch {
        line("link_prefetch", is_on.to_string());
    }
    if !route.access.is_empty() {
        line("access", route.access.render());
    }
    for (key, is_on) in route.changes.all() {
        if let Some(is_on) = is_on {
            line(key, is_on.to_string());
        }
    }
    text
}

/// For each route what applies in the end to a path that it is for, as comments, the fields `of_site` included. Routes that cannot be compiled are not there: they
/// have been refused.
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
    let mut lines = Vec::new();
    if let Some((redirect, _)) = &rules.redirect {
        let missing = if redirect.if_missing { ", where there is nothing" } else { "" };
        lines.push(format!("redirect to {} with {}{missing}", redirect.to.text(), redirect.status));
    }
    if let Some((path, _)) = &rules.rewrite {
        lines.push(format!("look for {}", path.text()));
    }
    if let Some((tried, _)) = rules.try_files.as_ref().filter(|(tried, _)| !tried.is_empty()) {
        lines.push(format!("try {}", tried.iter().map(|one| one.text()).collect::<Vec<_>>().join(", then ")));
    }
    lines.extend(rules.index.as_ref().map(|index| format!("index files {}", index.join(", "))));
    lines
}

fn lines_of(rules: &Rules) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(rules.gateway.as_ref().map(gateways::describe));
    lines.extend(rules.answer_cache.as_ref().map(kept_answers::describe));
    lines.extend(ways(rules));
    lines.extend(rules.describe_filters());
    lines.extend(rules.search.filter(|is_on| *is_on).map(|_| "its pages are searched with ?q=".to_owned()));
    lines.extend(rules.early_hints.map(|is_on| match is_on {
        true => "clients are told what its pages need (103 Early Hints)".to_owned(),
        false => "no early hints".to_owned(),
    }));
    lines.extend(rules.link_prefetch.map(|is_on| match is_on {
        true => "its pages may be fetched ahead, those of applications as well".to_owned(),
        false => "its pages are not fetched ahead".to_owned(),
    }));
    lines.extend(rules.error_pages.iter().map(|(status, page)| format!("page for {status}: {page}")));
    lines.extend(rules.media_type.as_ref().map(|media| format!("Content-Type: {media} (files)")));
    match rules.immutable {
        Some(Immutable::Hashed) => {
            lines.push(format!("Cache-Control: {} (names with a hash)", super::headers::IMMUTABLE))
        }
        Some(Immutable::All) => lines.push(format!("Cache-Control: {} (files)", super::headers::IMMUTABLE)),
        Some(Immutable::None) | None => {}
    }
    let fields = |status| super::headers::fields(&rules.headers, status);
    let ok = fields(200);
    lines.extend(ok.iter().map(|(name, value)| format!("{name}: {value}")));
    for status in [301, 404, 500] {
        let other = fields(status);
        if other != ok {
            let shown: Vec<String> = other.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            lines.push(format!(
                "with {status} instead: {}",
                if shown.is_empty() { "none".into() } else { shown.join("; ") }
            ));
        }
    }
    let may = rules.changes.all().into_iter().filter_map(|(key, is_on)| is_on.map(|is_on| (key, is_on)));
    lines.extend(may.map(|(key, is_on)| format!("{key} is {}", if is_on { "on" } else { "off" })));
    lines.extend(rules.access.sentences());
    lines.extend(rules.cors.as_ref().map(|cors| format!("pages of {} may ask", cors.origins.join(", "))));
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
        return "{}".into();
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
