//! The key `check` of an application: from its shapes to settings, and back to text.
//!
//! Owns: its judgement, with words for what is wrong.

use std::ops::{Range, RangeInclusive};

use lamna_proto::parse::target::{self, Target};
use serde_json::{Value, json};
use toml::Spanned;

use super::shapes::{CheckTable, SwitchOr};
use super::{bounds, headers};
use crate::checker::Checker;
use crate::gateway::{CheckSettings, GatewayProtocol};
use crate::schema::values::{list_of, number, pattern, table};
use crate::unit::Unit;

/// How an application is asked whether it is well; none if it is not.
pub(super) fn judge(
    given: Option<&Spanned<SwitchOr<CheckTable>>>,
    protocol: GatewayProtocol,
    checker: &mut Checker<'_>,
) -> Option<CheckSettings> {
    let given = given?;
    let span = given.span();
    if protocol != GatewayProtocol::Http {
        checker.problem(span, "`check` asks over HTTP: it is for `proxy`");
        return None;
    }
    match given.get_ref() {
        SwitchOr::Is(false) => None,
        SwitchOr::Is(true) => {
            checker.problem(span, "`check` says which path is asked for, as in check = \"/health\"");
            None
        }
        SwitchOr::Text(path) => path_of(path, span, checker).map(CheckSettings::new),
        SwitchOr::Table(table) => of_table(table, span, checker),
    }
}

fn of_table(table: &CheckTable, span: Range<usize>, checker: &mut Checker<'_>) -> Option<CheckSettings> {
    let Some(path) = &table.path else {
        checker.problem(span, "`path` says what a check asks for, and it is missing");
        return None;
    };
    let mut check = CheckSettings::new(path_of(path.get_ref(), path.span(), checker)?);
    let mut amount = |key: &str, given: &Option<_>, unit, bounds: RangeInclusive<u64>, otherwise: u32| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, unit, &bounds));
        given.map_or(otherwise, |amount| amount as u32) // Within bounds that fit.
    };
    check.interval_ms =
        amount("interval_ms", &table.interval_ms, Unit::Milliseconds, bounds::INTERVAL_MS, check.interval_ms);
    check.timeout_ms = amount("timeout_ms", &table.timeout_ms, Unit::Milliseconds, bounds::TIME_MS, check.timeout_ms);
    check.passes = amount("passes", &table.passes, Unit::Count, bounds::TIMES, check.passes);
    check.misses = amount("misses", &table.misses, Unit::Count, bounds::TIMES, check.misses);
    if let Some(given) = &table.status {
        match statuses_of(&given.get_ref().0) {
            Some(statuses) => check.statuses = statuses,
            None => checker.problem(given.span(), "`status` has statuses of answers, as in 200 or \"2xx\""),
        }
    }
    Some(check)
}

/// Statuses, as single ones and as classes; none if a text is neither, or if there is no text.
pub(super) fn statuses_of(texts: &[String]) -> Option<Vec<RangeInclusive<u16>>> {
    let read = |text: &String| match headers::Statuses::from_text(text)? {
        headers::Statuses::One(status) => Some(status..=status),
        headers::Statuses::Class(digit) => Some(digit * 100..=digit * 100 + 99),
    };
    let statuses: Option<Vec<_>> = texts.iter().map(read).collect();
    statuses.filter(|statuses| !statuses.is_empty())
}

/// Statuses as they are written.
pub(super) fn render_statuses(statuses: &[RangeInclusive<u16>]) -> String {
    let status = |statuses: &RangeInclusive<u16>| match (*statuses.start(), *statuses.end()) {
        (one, end) if one == end => one.to_string(),
        (start, _) => format!("\"{}xx\"", start / 100),
    };
    statuses.iter().map(status).collect::<Vec<_>>().join(", ")
}

/// A path that can be asked for, with its query.
pub(super) fn path_of(path: &str, span: Range<usize>, checker: &mut Checker<'_>) -> Option<String> {
    if matches!(target::parse(path.as_bytes(), false), Ok(Target::Origin { .. })) {
        return Some(path.to_owned());
    }
    checker.problem(span, format!("`{}` is not a path that can be asked for, as in /health", path.escape_debug()));
    None
}

/// As it is written in a configuration.
pub(super) fn render(check: &CheckSettings) -> String {
    format!(
        "{{ path = {}, interval_ms = {}, timeout_ms = {}, status = [{}], passes = {}, misses = {} }}",
        toml::Value::from(check.path.as_str()),
        check.interval_ms,
        check.timeout_ms,
        render_statuses(&check.statuses),
        check.passes,
        check.misses
    )
}

/// How the places of an application are asked whether they are well.
pub(super) fn schema() -> Value {
    let status = json!({ "anyOf": [{ "type": "integer", "minimum": 200, "maximum": 599 }, pattern("^([2-5]xx|[2-5][0-9][0-9])$", "")] });
    let keys = [
        ("path", pattern("^/", "What is asked for")),
        ("interval_ms", number(&bounds::INTERVAL_MS, "How long from one to the next")),
        ("timeout_ms", number(&bounds::TIME_MS, "How long an answer may take")),
        (
            "status",
            json!({ "anyOf": [status, list_of(status.clone())], "description": "What a place that is well answers" }),
        ),
        ("passes", number(&bounds::TIMES, "How often it is well before it is asked again")),
        ("misses", number(&bounds::TIMES, "How often it is not before it is not asked any more")),
    ];
    table(keys, &["path"], "How places are asked whether they are well")
}
