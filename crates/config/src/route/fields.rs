//! `headers` of a route: from what is written to rules, and back to text.
//!
//! Owns: their judgement, with words for what is wrong, and that of the tables of `request_headers`, which are written
//! alike. Names and values are judged as those of a site are, or of a request (`request_fields`); what the rules do is
//! `headers`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Value, json};
use toml::Spanned;

use super::headers::{self, HeaderRule, Statuses};
use super::pattern::Pattern;
use super::row::{Answer, Matching, Objection, Order, RouteKey, Section};
use super::shapes::{FieldValue, HeaderTable, Headers};
use super::{RouteSettings, RouteTable, request_fields};
use crate::checker::Checker;
use crate::page::{list, quoted};
use crate::schema::values::{list_of, one_or_several, several, table, text};
use crate::site::{self, FieldUse};
use crate::written::Text;

/// `headers`.
pub(super) struct Fields;

impl RouteKey for Fields {
    const ORDER: Order = Order { shown: 0, reported: Section::Fields, judged: 8 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Vec<HeaderRule> {
        given.headers.as_ref().map(|headers| header_rules(headers, Sender::Server, checker)).unwrap_or_default()
    }

    fn render(said: &Vec<HeaderRule>) -> Option<String> {
        header_tables(said)
    }

    /// By name.
    fn merge(routes: &Matching<'_>) -> Vec<HeaderRule> {
        let mut rules: Vec<HeaderRule> = routes.iter().rev().flat_map(|(_, route)| route.headers.clone()).collect();
        headers::settle(&mut rules);
        rules
    }

    fn contradiction(one: &RouteSettings, two: &RouteSettings) -> Option<String> {
        shared_name(&one.headers, &two.headers).map(|name| format!("the field `{name}`"))
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        let (bytes, most) = (route.headers.iter().map(HeaderRule::bytes).sum::<usize>(), site::HEADERS_BYTES_MAX);
        (bytes > most)
            .then(|| (format!("the fields of this route have {bytes} bytes: at most {most} can be sent"), None))
    }

    fn report(rule: &Vec<HeaderRule>) -> Vec<String> {
        let fields = |status| headers::fields(rule, status);
        let ok = fields(200);
        let mut lines: Vec<String> = ok.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        for status in [301, 404, 500] {
            let other = fields(status);
            if other != ok {
                let shown: Vec<String> = other.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                let shown = if shown.is_empty() { "none".to_owned() } else { shown.join("; ") };
                lines.push(format!("with {status} instead: {shown}"));
            }
        }
        lines
    }
}

/// A name of which both lists say something, if they are not the same.
pub(super) fn shared_name<'r>(one: &'r [HeaderRule], two: &[HeaderRule]) -> Option<&'r str> {
    let names: Vec<&str> = two.iter().flat_map(HeaderRule::names).collect();
    let is_in_both = |name: &&str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    one.iter().flat_map(HeaderRule::names).find(is_in_both).filter(|_| one != two)
}

/// The party whose fields a table is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender<'p> {
    /// The server, which answers.
    Server,
    /// The client, in what an application is sent; with the paths of the route.
    Client(&'p [Pattern]),
}

impl Sender<'_> {
    fn name(self, name: &Text, checker: &mut Checker<'_>) {
        match self {
            Sender::Server => site::field_name(name, FieldUse::Route, checker),
            Sender::Client(_) => request_fields::judge_name(name, checker),
        }
    }

    /// A field that gets `values`; with `add` beside others.
    fn values(self, name: &Text, values: &[String], span: &Range<usize>, checker: &mut Checker<'_>) {
        self.name(name, checker);
        match self {
            Sender::Server => site::field_values(name, values, span, checker),
            Sender::Client(paths) => request_fields::judge_values(name, values, span, paths, checker),
        }
    }

    fn is_single(self, name: &str) -> bool {
        match self {
            Sender::Server => site::is_single(name),
            Sender::Client(_) => request_fields::is_single(name),
        }
    }

    /// The reason for which a field cannot be taken away.
    fn must_have(self, name: &str) -> Option<&'static str> {
        const OURS: [&str; 3] = ["Server", "X-Content-Type-Options", "Content-Type"];
        let is_named = |own: &&str| own.eq_ignore_ascii_case(name);
        match self {
            Sender::Server => OURS
                .iter()
                .any(is_named)
                .then_some("is sent by the server itself: it can be set to another value, and not be removed"),
            Sender::Client(_) => is_named(&"Host").then_some("is in every request: it can be set, and not be removed"),
        }
    }

    /// The reason for which a field cannot be given where it is missing.
    fn has_always(self, name: &str) -> Option<&'static str> {
        let is_named = |own: &str| own.eq_ignore_ascii_case(name);
        match self {
            Sender::Server => is_named("Content-Type").then_some("is in every answer that has content: `set` it"),
            Sender::Client(_) => is_named("Host").then_some("is in every request: `set` it"),
        }
    }
}

/// The schema of `headers`: fields, or tables that say more.
pub(super) fn schema() -> Value {
    let status = json!({ "anyOf": [{ "type": "integer", "minimum": 200, "maximum": 599 }, text("")] });
    schema_with(vec![("status", one_or_several(status, "Answers that it is for, as in 404 or 5xx"))])
}

/// The same with these keys beside those that say what becomes of fields.
pub(super) fn schema_with(more: Vec<(&'static str, Value)>) -> Value {
    let values = several("");
    let fields = |value: Value| json!({ "type": "object", "additionalProperties": value });
    let said = json!({ "anyOf": [{ "type": "boolean" }, values] });
    let names = || list_of(text("The name of a field"));
    let mut keys = vec![
        ("set", fields(values.clone())),
        ("default", fields(values.clone())),
        ("add", fields(values.clone())),
        ("remove", names()),
        ("keep", names()),
    ];
    keys.extend(more);
    json!({ "anyOf": [fields(said), list_of(table(keys, &[], "What becomes of fields"))] })
}

/// The rules that are written: of one table, or of several.
pub(super) fn header_rules(given: &Headers, of: Sender<'_>, checker: &mut Checker<'_>) -> Vec<HeaderRule> {
    match given {
        Headers::Fields(fields) => {
            let mut rule = HeaderRule::default();
            let mut seen = BTreeSet::new();
            for (name, value) in in_order(fields) {
                is_new(name, &mut seen, checker);
                match value.get_ref() {
                    FieldValue::Removed => remove(name, &mut rule, of, checker),
                    FieldValue::Kept => {
                        of.name(name, checker);
                        rule.keep.push(name.get_ref().clone());
                    }
                    FieldValue::Values(values) => {
                        of.values(name, values, &value.span(), checker);
                        rule.set.push((name.get_ref().clone(), values.clone()));
                    }
                }
            }
            if rule.is_empty() { Vec::new() } else { vec![rule] }
        }
        Headers::Tables(tables) => tables.iter().map(|table| header_rule(table, of, checker)).collect(),
    }
}

fn header_rule(table: &Spanned<HeaderTable>, of: Sender<'_>, checker: &mut Checker<'_>) -> HeaderRule {
    let given = table.get_ref();
    let mut rule = HeaderRule::default();
    let mut seen = BTreeSet::new();
    for (name, values) in in_order(&given.set) {
        is_new(name, &mut seen, checker);
        of.values(name, &values.get_ref().0, &values.span(), checker);
        rule.set.push((name.get_ref().clone(), values.get_ref().0.clone()));
    }
    let mut seen = BTreeSet::new();
    for (name, values) in in_order(&given.add) {
        is_new(name, &mut seen, checker);
        of.values(name, &values.get_ref().0, &values.span(), checker);
        let why = match of {
            Sender::Server => "has one value in an answer: `set` it",
            Sender::Client(_) => "has one value in a request: `set` it",
        };
        checker.expect(!of.is_single(name.get_ref()), name, why);
        rule.add.extend(values.get_ref().0.iter().map(|value| (name.get_ref().clone(), value.clone())));
    }
    given.remove.iter().for_each(|name| remove(name, &mut rule, of, checker));
    for (name, values) in in_order(&given.default) {
        let why = of.has_always(name.get_ref());
        checker.expect(why.is_none(), name, why.unwrap_or_default());
        let is_set = given.set.keys().any(|other| other.get_ref().eq_ignore_ascii_case(name.get_ref()));
        checker.expect(!is_set, name, "is `set` as well, and then it is never missing");
        of.values(name, &values.get_ref().0, &values.span(), checker);
        rule.default.push((name.get_ref().clone(), values.get_ref().0.clone()));
    }
    for name in &given.keep {
        of.name(name, checker);
        rule.keep.push(name.get_ref().clone());
    }
    if let (Sender::Client(_), Some(given)) = (of, &given.status) {
        checker.problem(given.span(), "`status` is of answers: a request has none");
    } else if let Some(given) = &given.status {
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

fn remove(name: &Text, rule: &mut HeaderRule, of: Sender<'_>, checker: &mut Checker<'_>) {
    of.name(name, checker);
    let why = of.must_have(name.get_ref());
    checker.expect(why.is_none(), name, why.unwrap_or_default());
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

/// As they are written, if there are any.
pub(super) fn header_tables(rules: &[HeaderRule]) -> Option<String> {
    let tables: Vec<String> = rules.iter().map(header_table).collect();
    (!tables.is_empty()).then(|| format!("[{}]", tables.join(", ")))
}

fn header_table(rule: &HeaderRule) -> String {
    let mut keys = Vec::new();
    if !rule.set.is_empty() {
        let fields = rule.set.iter().map(|(name, values)| format!("{} = {}", quoted(name), list(values)));
        keys.push(format!("set = {{ {} }}", fields.collect::<Vec<_>>().join(", ")));
    }
    if !rule.add.is_empty() {
        let mut names: Vec<&String> = rule.add.iter().map(|(name, _)| name).collect();
        names.dedup();
        let values = |name: &String| list(rule.add.iter().filter(|(other, _)| other == name).map(|(_, value)| value));
        let fields = names.into_iter().map(|name| format!("{} = {}", quoted(name), values(name)));
        keys.push(format!("add = {{ {} }}", fields.collect::<Vec<_>>().join(", ")));
    }
    if !rule.remove.is_empty() {
        keys.push(format!("remove = {}", list(&rule.remove)));
    }
    if !rule.default.is_empty() {
        let fields = rule.default.iter().map(|(name, values)| format!("{} = {}", quoted(name), list(values)));
        keys.push(format!("default = {{ {} }}", fields.collect::<Vec<_>>().join(", ")));
    }
    if !rule.keep.is_empty() {
        keys.push(format!("keep = {}", list(&rule.keep)));
    }
    if !rule.statuses.is_empty() {
        keys.push(format!("status = {}", list(rule.statuses.iter().map(|statuses| statuses.text()))));
    }
    format!("{{ {} }}", keys.join(", "))
}
