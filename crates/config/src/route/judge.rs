//! From `[[site.route]]` tables to routes.
//!
//! Owns: the judgement of everything in a route, with words for what is wrong. What several routes of a site do to each other
//! is judged in `conflicts`. Header names and values are judged as those of a site are.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use toml::Spanned;

use super::access;
use super::bounds;
use super::condition::{Condition, Network, ValueTest};
use super::conflicts;
use super::filters;
use super::gateways;
use super::headers::{HeaderRule, Statuses};
use super::kept_answers;
use super::matcher::Matcher;
use super::pattern::{Pattern, compile};
use super::shapes::{CorsTable, FieldValue, HeaderTable, Headers, MatchTable, RouteTable, SwitchOr, TextsOr, Value};
use super::template::Template;
use super::{ChangeRules, Cors, Immutable, RouteRedirect, RouteSettings, Switch};
use crate::file::{Text, Texts};
use crate::limits::Unit;
use crate::redirect;
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
    route.headers = given.headers.as_ref().map(|headers| header_rules(headers, checker)).unwrap_or_default();
    route.immutable = given.immutable.as_ref().and_then(|given| immutable(given, checker));
    let redirect = |redirect: &_, span, checker: &mut _| self::redirect(redirect, span, &route.paths, checker);
    route.redirect =
        given.redirect.as_ref().map_or(Switch::Unset, |given| redirect(given.get_ref(), given.span(), checker));
    if let Some(given) = &given.rewrite {
        route.rewrite = match given.get_ref() {
            SwitchOr::Is(false) => Switch::Off,
            SwitchOr::Text(text) => {
                inner(&given.span(), text, &route.paths, checker).map_or(Switch::Unset, Switch::Set)
            }
            _ => {
                checker.problem(given.span(), "`rewrite` is a path, or false");
                Switch::Unset
            }
        };
    }
    if let Some(given) = &given.try_files {
        let texts = given.get_ref().0.iter();
        route.try_files = Some(texts.filter_map(|text| inner(&given.span(), text, &route.paths, checker)).collect());
    }
    route.index = given.index.as_ref().map(|names| names.iter().map(|name| site::index_name(name, checker)).collect());
    route.error_pages = site::error_pages(&given.error_pages, checker);
    route.cors = given.cors.as_ref().map_or(Switch::Unset, |given| cors(given, checker));
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

fn redirect(
    given: &SwitchOr<super::shapes::RedirectTable>,
    span: Range<usize>,
    paths: &[Pattern],
    checker: &mut Checker<'_>,
) -> Switch<RouteRedirect> {
    let (span, text, status, if_missing) = match given {
        SwitchOr::Is(false) => return Switch::Off,
        SwitchOr::Is(true) => {
            checker.problem(span, "`redirect` is where to, as in \"/new/$1\", or false");
            return Switch::Unset;
        }
        SwitchOr::Text(text) => (span, text, None, false),
        SwitchOr::Table(table) => (table.to.span(), table.to.get_ref(), table.status.as_ref(), table.if_missing),
    };
    let status = redirect::status(status, checker);
    match template(&span, text, paths, checker).filter(|to| is_location(&span, to, checker)) {
        Some(to) => Switch::Set(RouteRedirect { to, status, if_missing }),
        None => Switch::Unset,
    }
}

fn template(span: &Range<usize>, text: &str, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Template> {
    let shown = text.escape_debug();
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(why) => {
            checker.problem(span.clone(), format!("`{shown}` {why}"));
            return None;
        }
    };
    let patterns: Vec<Option<&Pattern>> = if paths.is_empty() { vec![None] } else { paths.iter().map(Some).collect() };
    let missing = patterns.into_iter().find_map(|pattern| template.missing_from(pattern));
    if let Some(missing) = missing {
        let message = format!("`{shown}` has {missing}, and `match` has no such capture");
        let hint =
            "`$1` is what the first `*` or group stands for, `${name}` what (?<name>...) does, `$path` the whole path";
        checker.problem_with_hint(span.clone(), message, Some(hint.into()));
        return None;
    }
    Some(template)
}

/// Whether a redirect may lead there: to no host that is not named, whatever the client asks for.
fn is_location(span: &Range<usize>, to: &Template, checker: &mut Checker<'_>) -> bool {
    let (shown, beginning) = (to.text().escape_debug().to_string(), to.beginning());
    let is_path = beginning.starts_with('/') || beginning.is_empty() && to.leads_with_path() && !to.is_fixed();
    let is_url = ["http://", "https://"].iter().any(|scheme| beginning.starts_with(scheme));
    let mut problem = |is_right: bool, message: String| {
        if !is_right {
            checker.problem(span.clone(), message);
        }
        is_right
    };
    let has_host_end = to.closes_host();
    problem(is_path || is_url, format!("`{shown}` must start with `/` or `$path`, or with http:// or https://"))
        && problem(
            !to.text().starts_with("//"),
            format!("`{shown}` begins with the name of a host: write https: before it"),
        )
        && problem(
            to.text().bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\'),
            format!(
                "`{shown}` is sent as it is: write spaces, backslashes and other than ASCII characters percent-encoded"
            ),
        )
        && problem(
            has_host_end,
            format!("`{shown}` would make a part of the host of what a capture stands for: end the host with `/`"),
        )
        && problem(to.text().len() <= redirect::LOCATION_BYTES_MAX, "this location is too long to be sent".into())
}

/// A path that is looked for.
fn inner(span: &Range<usize>, text: &str, paths: &[Pattern], checker: &mut Checker<'_>) -> Option<Template> {
    let template = template(span, text, paths, checker)?;
    if template.names_host() {
        checker.problem(span.clone(), format!("`{}` has a host, and is a path of this site", text.escape_debug()));
        return None;
    }
    let is_path =
        template.beginning().starts_with('/') || template.beginning().is_empty() && template.leads_with_path();
    if !is_path || template.text().is_empty() {
        checker.problem(
            span.clone(),
            format!("`{}` must start with `/` or `$path`: it is a path of this site", text.escape_debug()),
        );
        return None;
    }
    if text.contains('?') {
        checker.problem(span.clone(), format!("`{}` has a query, and files have none", text.escape_debug()));
        return None;
    }
    Some(template)
}

fn header_rules(given: &Headers, checker: &mut Checker<'_>) -> Vec<HeaderRule> {
    match given {
        Headers::Fields(fields) => {
            let mut rule = HeaderRule::default();
            let mut seen = BTreeSet::new();
            for (name, value) in in_order(fields) {
                site::field_name(name, FieldUse::Route, checker);
                is_new(name, &mut seen, checker);
                match value.get_ref() {
                    FieldValue::Removed => remove(name, &mut rule, checker),
                    FieldValue::Kept => rule.keep.push(name.get_ref().clone()),
                    FieldValue::Values(values) => {
                        site::field_values(name, values, &value.span(), checker);
                        rule.set.push((name.get_ref().clone(), values.clone()));
                    }
                }
            }
            if rule.is_empty() { Vec::new() } else { vec![rule] }
        }
        Headers::Tables(tables) => tables.iter().map(|table| header_rule(table, checker)).collect(),
    }
}

fn header_rule(table: &Spanned<HeaderTable>, checker: &mut Checker<'_>) -> HeaderRule {
    let given = table.get_ref();
    let mut rule = HeaderRule::default();
    let mut seen = BTreeSet::new();
    for (name, values) in in_order(&given.set) {
        site::field_name(name, FieldUse::Route, checker);
        is_new(name, &mut seen, checker);
        site::field_values(name, &values.get_ref().0, &values.span(), checker);
        rule.set.push((name.get_ref().clone(), values.get_ref().0.clone()));
    }
    let mut seen = BTreeSet::new();
    for (name, values) in in_order(&given.add) {
        site::field_name(name, FieldUse::Route, checker);
        is_new(name, &mut seen, checker);
        site::field_values(name, &values.get_ref().0, &values.span(), checker);
        checker.expect(!site::is_single(name.get_ref()), name, "has one value in an answer: `set` it");
        rule.add.extend(values.get_ref().0.iter().map(|value| (name.get_ref().clone(), value.clone())));
    }
    given.remove.iter().for_each(|name| remove(name, &mut rule, checker));
    for (name, values) in in_order(&given.default) {
        site::field_name(name, FieldUse::Route, checker);
        let is_of_file = name.get_ref().eq_ignore_ascii_case("Content-Type");
        checker.expect(!is_of_file, name, "is in every answer that has content: `set` it");
        let is_set = given.set.keys().any(|other| other.get_ref().eq_ignore_ascii_case(name.get_ref()));
        checker.expect(!is_set, name, "is `set` as well, and then it is never missing");
        site::field_values(name, &values.get_ref().0, &values.span(), checker);
        rule.default.push((name.get_ref().clone(), values.get_ref().0.clone()));
    }
    for name in &given.keep {
        site::field_name(name, FieldUse::Route, checker);
        rule.keep.push(name.get_ref().clone());
    }
    if let Some(given) = &given.status {
        for text in &given.get_ref().0 {
            match Statuses::from_text(text) {
                Some(statuses) => rule.statuses.push(statuses),
                None => {
                    let message = format!("`{}` is not a status that fields can be for", text.escape_debug());
                    let hint = "expected 200 to 599 or a class as in \"4xx\"; 206 and 304 have the fields of 200";
                    checker.problem_with_hint(given.span(), message, Some(hint.into()));
                }
            }
        }
    }
    if rule.is_empty() {
        checker.problem(table.span(), "this table says nothing: it has no `set`, `default`, `add`, `remove` or `keep`");
    }
    rule
}

fn remove(name: &Text, rule: &mut HeaderRule, checker: &mut Checker<'_>) {
    let is_ours =
        ["Server", "X-Content-Type-Options", "Content-Type"].iter().any(|own| own.eq_ignore_ascii_case(name.get_ref()));
    checker.expect(!is_ours, name, "is sent by the server itself: it can be set to another value, and not be removed");
    rule.remove.push(name.get_ref().clone());
}

fn is_new(name: &Text, seen: &mut BTreeSet<String>, checker: &mut Checker<'_>) {
    let is_new = seen.insert(name.get_ref().to_ascii_lowercase());
    checker.expect(is_new, name, "is given twice: write its values as one list");
}

fn in_order<V>(given: &BTreeMap<Text, Spanned<V>>) -> Vec<(&Text, &Spanned<V>)> {
    let mut in_order: Vec<_> = given.iter().collect();
    in_order.sort_by_key(|(name, _)| name.span().start);
    in_order
}

fn cors(given: &Spanned<SwitchOr<CorsTable>>, checker: &mut Checker<'_>) -> Switch<Cors> {
    let any = || vec!["*".to_owned()];
    let nothing = Cors {
        origins: any(),
        methods: Vec::new(),
        headers: any(),
        expose: Vec::new(),
        credentials: false,
        max_age_s: None,
    };
    let table = match given.get_ref() {
        SwitchOr::Is(false) => return Switch::Off,
        SwitchOr::Is(true) => return Switch::Set(nothing),
        SwitchOr::Table(table) => table,
        SwitchOr::Text(_) => {
            let hint = Some("write cors = true, or cors = { origins = [\"https://app.example.org\"] }".into());
            checker.problem_with_hint(given.span(), "`cors` is true, false or a table", hint);
            return Switch::Unset;
        }
    };
    let mut list = |key: &str, given: &Option<Spanned<Texts>>, otherwise: Vec<String>, is: &dyn Fn(&str) -> bool| {
        let Some(given) = given else { return otherwise };
        for text in given.get_ref().0.iter().filter(|text| !is(text)) {
            checker.problem(given.span(), format!("`{}` is not one of {key}", text.escape_debug()));
        }
        let texts = &given.get_ref().0;
        if texts.len() > 1 && texts.iter().any(|text| text == "*") {
            checker.problem(given.span(), "`*` is all of them: leave the others out");
        }
        texts.clone()
    };
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(site::is_token_byte);
    let origins = "the origins of pages: expected a scheme and a host as in https://app.example.org, and no path";
    let cors = Cors {
        origins: list(origins, &table.origins, any(), &|text| text == "*" || text == "null" || is_origin(text)),
        methods: list("the methods, which are written in capitals", &table.methods, Vec::new(), &is_token),
        headers: list("the names of fields", &table.headers, any(), &is_token),
        expose: list("the names of fields", &table.expose, Vec::new(), &is_token),
        credentials: table.credentials,
        max_age_s: table.max_age_s.as_ref().and_then(|given| {
            let seconds = checker.amount("max_age_s", given, Unit::Count, &bounds::SECONDS);
            seconds.map(|seconds| seconds as u32) // Within bounds that fit.
        }),
    };
    let named = |list: &[String]| !list.iter().any(|one| one == "*");
    if cors.credentials && !(named(&cors.origins) && named(&cors.headers) && named(&cors.expose)) {
        let hint =
            "name `origins` and `headers` one by one: to a browser `*` is no answer to a request with credentials";
        checker.problem_with_hint(given.span(), "`credentials` does not go with `*`", Some(hint.into()));
    }
    Switch::Set(cors)
}

fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| {
        let is_scheme =
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_lowercase() || b"+-.".contains(&byte));
        let is_host_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._:[]".contains(&byte);
        is_scheme && !host.is_empty() && host.bytes().all(is_host_byte)
    })
}
