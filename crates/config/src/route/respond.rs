//! `respond` of a route: fixed answers, from what is written to settings, and back to text.
//!
//! Owns: [`Respond`] and its judgement, with words for what is wrong. Opens no file: what a fixed answer has from one
//! is read when the site is opened.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use toml::Spanned;

use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Objection, Order, RouteKey, Section};
use super::shapes::{RespondTable, RespondValue};
use super::{RouteSettings, RouteTable, Switch, ways};
use crate::checker::Checker;
use crate::error_pages;
use crate::page::{list, quoted};
use crate::schema::values::{pattern, several, table, text};
use crate::site::{self, FieldUse};
use crate::unit::Unit;
use crate::written::{Amount, Text, Texts};

/// A fixed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// Its status: 200 to 299 or 400 to 599.
    pub status: u16,
    /// Its content.
    pub content: RespondContent,
    /// Further fields. They count before those that other keys set.
    pub headers: Vec<(String, String)>,
}

/// The content of a fixed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RespondContent {
    /// The page for its status, or nothing if that is no error.
    OfStatus,
    /// This.
    Text(String),
    /// That of the file at this path, beneath the root.
    File(String),
}

/// Answers by ranges and conditions are made of others; redirects have a key of their own.
const FORBIDDEN: [u16; 3] = [206, 304, 416];

/// Statuses of answers that have no content (RFC 9110 15.3.5, 15.3.6).
const WITHOUT_CONTENT: [u16; 2] = [204, 205];

impl RespondValue {
    /// Whether it answers requests without a file.
    pub(super) fn needs_no_root(&self) -> bool {
        match self {
            RespondValue::Off => false,
            RespondValue::Status(_) => true,
            RespondValue::Table(table) => table.file.is_none(),
        }
    }
}

/// The key.
pub(super) struct Responds;

impl RouteKey for Responds {
    const ORDER: Order = Order { shown: 1, reported: Section::Application, judged: 0 };
    const ANSWER: Answer = Answer::Elsewhere;
    const NOTHING: &'static str = "false";

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Switch<Respond> {
        let Some(given) = &given.respond else { return Switch::Unset };
        match given.get_ref() {
            RespondValue::Off => Switch::Off,
            RespondValue::Status(number) => {
                let amount = Spanned::new(given.span(), Amount::Number(*number));
                let status = status(&amount, checker);
                status.map_or(Switch::Unset, |status| Switch::Set(Respond::bare(status)))
            }
            RespondValue::Table(table) => of_table(table, given, checker).map_or(Switch::Unset, Switch::Set),
        }
    }

    fn render(said: &Switch<Respond>) -> Option<String> {
        said.render(render)
    }

    /// That of the most specific route that says where answers come from.
    fn merge(routes: &Matching<'_>) -> Option<Respond> {
        routes.iter().find(|(_, route)| route.directs())?.1.respond.clone().into_set()
    }

    fn conflict(route: &RouteSettings) -> Option<Objection> {
        let is_led = matches!(route.gateway, Switch::Set(_)) || ways::redirects(route) || ways::looks(route);
        (Responds::is_said(route) && matches!(route.respond, Switch::Set(_)) && is_led).then(|| {
            let message = "every request of this route is answered by `respond`, so that an application, `redirect`, \
                           `rewrite` and `try` have nothing to do";
            (message.to_owned(), None)
        })
    }

    fn report(rule: &Option<Respond>) -> Vec<String> {
        rule.iter().map(Respond::in_words).collect()
    }
}

impl Respond {
    /// An answer of `status`, and nothing else.
    pub fn bare(status: u16) -> Respond {
        Respond { status, content: RespondContent::OfStatus, headers: Vec::new() }
    }

    /// The path of its file.
    pub fn file(&self) -> Option<&str> {
        match &self.content {
            RespondContent::File(path) => Some(path),
            RespondContent::OfStatus | RespondContent::Text(_) => None,
        }
    }

    /// In words.
    pub fn in_words(&self) -> String {
        let status = self.status;
        match &self.content {
            RespondContent::OfStatus => format!("answer every request with {status}"),
            RespondContent::Text(_) => format!("answer every request with {status} and a text"),
            RespondContent::File(path) => format!("answer every request with {status} and {path}"),
        }
    }
}

fn of_table(table: &RespondTable, given: &Spanned<RespondValue>, checker: &mut Checker<'_>) -> Option<Respond> {
    let status = match &table.status {
        Some(given) => status(given, checker)?,
        None => 200,
    };
    let content = match (&table.text, &table.file) {
        (None, None) => RespondContent::OfStatus,
        (Some(_), Some(file)) => {
            checker.problem(file.span(), "the content of an answer is `text` or `file`, and not both");
            return None;
        }
        (Some(text), None) => RespondContent::Text(text.get_ref().clone()),
        (None, Some(file)) => {
            error_pages::path(file, checker);
            RespondContent::File(file.get_ref().clone())
        }
    };
    if WITHOUT_CONTENT.contains(&status) && content != RespondContent::OfStatus {
        checker.problem(given.span(), format!("an answer with {status} has no content"));
        return None;
    }
    let headers = fields(&table.headers, checker);
    let names_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("Content-Type"));
    if names_type && content == RespondContent::OfStatus {
        checker.problem(given.span(), "`Content-Type` is of a `text` or a `file`, and there is neither");
        return None;
    }
    Some(Respond { status, content, headers })
}

fn status(given: &Spanned<Amount>, checker: &mut Checker<'_>) -> Option<u16> {
    let number = checker.amount("status", given, Unit::Count, &(200..=599))? as u16; // Within bounds that fit.
    if (300..400).contains(&number) || FORBIDDEN.contains(&number) {
        let hint = "`redirect` is for answers with 301, 302, 303, 307 and 308";
        let message = format!("{number} is no status of a fixed answer: expected 200 to 299 or 400 to 599");
        checker.problem_with_hint(given.span(), message, Some(hint.to_owned()));
        return None;
    }
    Some(number)
}

fn fields(given: &BTreeMap<Text, Spanned<Texts>>, checker: &mut Checker<'_>) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut headers = Vec::new();
    for (name, values) in given {
        site::field_name(name, FieldUse::Answer, checker);
        checker.expect(seen.insert(name.get_ref().to_ascii_lowercase()), name, "is given twice");
        site::field_values(name, &values.get_ref().0, &values.span(), checker);
        headers.extend(values.get_ref().0.iter().map(|value| (name.get_ref().clone(), value.clone())));
    }
    headers
}

/// As it is written in a configuration.
fn render(respond: &Respond) -> String {
    if *respond == Respond::bare(respond.status) {
        return respond.status.to_string();
    }
    let mut keys = vec![format!("status = {}", respond.status)];
    match &respond.content {
        RespondContent::OfStatus => {}
        RespondContent::Text(text) => keys.push(format!("text = {}", quoted(text))),
        RespondContent::File(path) => keys.push(format!("file = {}", quoted(path))),
    }
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in &respond.headers {
        by_name.entry(name).or_default().push(value);
    }
    if !by_name.is_empty() {
        let fields = by_name.iter().map(|(name, values)| format!("{} = {}", quoted(name), list(values)));
        keys.push(format!("headers = {{ {} }}", fields.collect::<Vec<_>>().join(", ")));
    }
    format!("{{ {} }}", keys.join(", "))
}

/// The schema of `respond`.
pub(super) fn schema() -> Value {
    let status = || json!({ "type": "integer", "minimum": 200, "maximum": 599 });
    let keys = [
        ("status", status()),
        ("text", text("The content")),
        ("file", pattern("^/", "The path of the content, beneath the root")),
        ("headers", json!({ "type": "object", "additionalProperties": several("") })),
    ];
    json!({ "anyOf": [status(), { "const": false }, table(keys, &[], "A fixed answer")] })
}
