//! `cache` of a route: from what is written to settings, and back to text.
//!
//! Owns: its judgement, with words for what is wrong.

use serde_json::{Value, json};
use toml::Spanned;

use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Order, RouteKey, Section};
use super::shapes::{AnswerCacheTable, SwitchOr};
use super::{RouteSettings, RouteTable, Switch, bounds, gateways};
use crate::answer_cache::AnswerCache;
use crate::checker::Checker;
use crate::page::quoted;
use crate::schema::values::{bytes, number, several, switch, table};
use crate::unit::Unit;
use crate::written::Texts;

/// `cache`.
pub(super) struct KeptAnswers;

impl RouteKey for KeptAnswers {
    const ORDER: Order = Order { shown: 3, reported: Section::Application, judged: 4 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Switch<AnswerCache> {
        judge(given.cache.as_ref(), checker)
    }

    fn render(said: &Switch<AnswerCache>) -> Option<String> {
        said.render(render)
    }

    /// Answers of an application are kept only if a route says so that names it, or a more specific one.
    fn merge(routes: &Matching<'_>) -> Option<AnswerCache> {
        gateways::applying(routes)?;
        let says = |route: &RouteSettings| KeptAnswers::is_said(route) || matches!(route.gateway, Switch::Set(_));
        routes.iter().find(|(_, route)| says(route))?.1.answer_cache.clone().into_set()
    }

    fn report(rule: &Option<AnswerCache>) -> Vec<String> {
        rule.iter().map(describe).collect()
    }
}

/// The cache of answers that the route asks for.
fn judge(given: Option<&Spanned<SwitchOr<AnswerCacheTable>>>, checker: &mut Checker<'_>) -> Switch<AnswerCache> {
    let Some(given) = given else { return Switch::Unset };
    match given.get_ref() {
        SwitchOr::Is(false) => Switch::Off,
        SwitchOr::Is(true) => Switch::Set(AnswerCache::default()),
        SwitchOr::Text(_) => {
            let hint = Some("write cache = true, or cache = { fresh_s = 10 }".into());
            checker.problem_with_hint(given.span(), "`cache` is true, false, or a table", hint);
            Switch::Unset
        }
        SwitchOr::Table(table) => Switch::Set(of_table(table, checker)),
    }
}

fn of_table(table: &AnswerCacheTable, checker: &mut Checker<'_>) -> AnswerCache {
    let mut settings = AnswerCache::default();
    let seconds = |key: &str, given: &Option<_>, checker: &mut Checker<'_>| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, Unit::Count, &bounds::SECONDS));
        given.map(|seconds| seconds as u32) // Within bounds that fit.
    };
    settings.terms.fresh_s = seconds("fresh_s", &table.fresh_s, checker);
    settings.terms.stale_if_error_s = seconds("stale_if_error_s", &table.stale_if_error_s, checker).unwrap_or(0);
    let bytes = table.bytes_max.as_ref();
    let bytes = bytes.and_then(|given| checker.amount("bytes_max", given, Unit::Bytes, &bounds::ANSWER_BYTES));
    settings.bytes_max = bytes.unwrap_or(settings.bytes_max);
    settings.ignore_query = names("ignore_query", table.ignore_query.as_ref(), checker);
    settings.ignore_cookies = names("ignore_cookies", table.ignore_cookies.as_ref(), checker);
    settings.ignore_reload = table.ignore_reload;
    settings
}

fn names(key: &str, given: Option<&Spanned<Texts>>, checker: &mut Checker<'_>) -> Vec<String> {
    let Some(given) = given else { return Vec::new() };
    let names = given.get_ref().0.clone();
    let is_name = |name: &String| {
        let text = name.strip_suffix('*').unwrap_or(name);
        !name.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"*&=;,".contains(&byte))
    };
    if !names.iter().all(is_name) {
        checker.problem(
            given.span(),
            format!("`{key}` has names, as in \"fbclid\", or their beginnings, as in \"utm_*\""),
        );
    }
    names
}

/// As it is written in a configuration.
fn render(settings: &AnswerCache) -> String {
    if *settings == AnswerCache::default() {
        return "true".to_owned();
    }
    let list = |names: &[String]| names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let mut keys = Vec::new();
    keys.extend(settings.terms.fresh_s.map(|seconds| format!("fresh_s = {seconds}")));
    keys.push(format!("stale_if_error_s = {}", settings.terms.stale_if_error_s));
    keys.push(format!("bytes_max = {}", settings.bytes_max));
    let lists = [("ignore_query", &settings.ignore_query), ("ignore_cookies", &settings.ignore_cookies)];
    let lists = lists.iter().filter(|(_, names)| !names.is_empty());
    keys.extend(lists.map(|(key, names)| format!("{key} = [{}]", list(names))));
    keys.push(format!("ignore_reload = {}", settings.ignore_reload));
    format!("{{ {} }}", keys.join(", "))
}

/// In words.
fn describe(settings: &AnswerCache) -> String {
    match settings.terms.fresh_s {
        Some(seconds) => format!("answers are kept, for {seconds} s where they do not say for how long"),
        None => "answers are kept for as long as they say".to_owned(),
    }
}

/// The schema of `cache`.
pub(super) fn schema() -> Value {
    let seconds = |what: &str| number(&bounds::SECONDS, what);
    let keys = [
        ("fresh_s", seconds("Seconds for which an answer is fresh that does not say so itself")),
        ("stale_if_error_s", seconds("Seconds of staleness for which an answer is used while the application fails")),
        ("bytes_max", bytes(&bounds::ANSWER_BYTES, "Of the largest answer that is kept")),
        ("ignore_query", several("Parameters of queries that do not tell answers apart, as in utm_*")),
        ("ignore_cookies", several("Cookies that do not tell clients apart, as in _ga*")),
        ("ignore_reload", switch("What requests say about caches does not matter")),
    ];
    json!({ "anyOf": [switch(""), table(keys, &[], "Whether the answers of the application are kept, and how")] })
}
