//! `cors` of a route: what pages of other origins may do.
//!
//! Owns: [`Cors`], its judgement with words for what is wrong, and how it is written.

use std::ops::Range;

use lamna_proto::parse::is_token_byte;
use serde_json::{Value, json};
use toml::Spanned;

use super::bounds;
use super::pattern::Pattern;
use super::row::{Answer, Field, Matching, Order, RouteKey, Section};
use super::shapes::{CorsTable, SwitchOr};
use super::{RouteTable, Switch};
use crate::checker::Checker;
use crate::page::list;
use crate::schema::values::{number, several, several_or_none, switch, table};
use crate::unit::Unit;
use crate::written::Texts;

/// Rights of pages of other origins (Fetch, CORS protocol).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// Origins; `*` alone is any.
    pub origins: Vec<String>,
    /// Methods besides those that need no leave.
    pub methods: Vec<String>,
    /// Fields that requests may have; `*` alone is any.
    pub headers: Vec<String>,
    /// Fields of answers that scripts may read; `*` alone is any.
    pub expose: Vec<String>,
    /// Whether requests may carry cookies and the like.
    pub credentials: bool,
    /// How long a browser may remember the answer to a preflight.
    pub max_age_s: Option<u32>,
}

impl Cors {
    /// Whether any origin is let in, so that answers do not depend on it.
    pub fn is_for_any(&self) -> bool {
        self.origins == ["*"]
    }
}

/// `cors`.
pub(super) struct OtherOrigins;

impl RouteKey for OtherOrigins {
    const ORDER: Order = Order { shown: 2, reported: Section::Others, judged: 5 };
    const ANSWER: Answer = Answer::There;

    fn judge(given: &RouteTable, _: &[Pattern], checker: &mut Checker<'_>) -> Switch<Cors> {
        given.cors.as_ref().map_or(Switch::Unset, |given| cors(given, checker))
    }

    fn render(said: &Switch<Cors>) -> Option<String> {
        said.render(cors_table)
    }

    fn merge(routes: &Matching<'_>) -> Option<Cors> {
        OtherOrigins::first(routes).into_set()
    }

    fn report(rule: &Option<Cors>) -> Vec<String> {
        rule.iter().map(|cors| format!("pages of {} may ask", cors.origins.join(", "))).collect()
    }
}

/// The schema of `cors`.
pub(super) fn schema() -> Value {
    let cors = [
        ("origins", several("Who may read")),
        ("methods", several("What a preflight is told")),
        ("headers", several_or_none("Fields that requests may have; `[]` is none")),
        ("expose", several("Fields that scripts may read")),
        ("credentials", switch("Whether requests may carry cookies")),
        ("max_age_s", number(&bounds::SECONDS, "How long browsers remember a preflight")),
    ];
    json!({ "anyOf": [switch(""), table(cors, &[], "What pages of other origins may do")] })
}

type Span = Range<usize>;

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
    let mut list = |key: &str, given: Option<(Span, &Texts)>, otherwise: Vec<String>, is: &dyn Fn(&str) -> bool| {
        let Some((span, Texts(texts))) = given else { return otherwise };
        for text in texts.iter().filter(|text| !is(text)) {
            checker.problem(span.clone(), format!("`{}` is not one of {key}", text.escape_debug()));
        }
        if texts.len() > 1 && texts.iter().any(|text| text == "*") {
            checker.problem(span, "`*` is all of them: leave the others out");
        }
        texts.clone()
    };
    let [origins, methods, expose] = [&table.origins, &table.methods, &table.expose]
        .map(|given| given.as_ref().map(|given| (given.span(), given.get_ref())));
    let headers = table.headers.as_ref().map(|given| (given.span(), &**given.get_ref()));
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token_byte);
    let are_origins = "the origins of pages: expected a scheme and a host as in https://app.example.org, and no path";
    let cors = Cors {
        origins: list(are_origins, origins, any(), &|text| text == "*" || text == "null" || is_origin(text)),
        methods: list("the methods, which are written in capitals", methods, Vec::new(), &is_token),
        headers: list("the names of fields", headers, any(), &is_token),
        expose: list("the names of fields", expose, Vec::new(), &is_token),
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

fn cors_table(cors: &Cors) -> String {
    let lists =
        [("origins", &cors.origins), ("methods", &cors.methods), ("headers", &cors.headers), ("expose", &cors.expose)];
    // No fields are something else than any.
    let lists = lists.iter().filter(|(key, texts)| *key == "headers" || !texts.is_empty());
    let mut keys: Vec<String> = lists.map(|(key, texts)| format!("{key} = {}", list(*texts))).collect();
    keys.push(format!("credentials = {}", cors.credentials));
    keys.extend(cors.max_age_s.map(|seconds| format!("max_age_s = {seconds}")));
    format!("{{ {} }}", keys.join(", "))
}
