//! The keys `balance` and `retry` of an application: which place is asked, and after which answers another one is.
//!
//! Owns: their judgement, with words for what is wrong, their text and their schemas.

use std::ops::RangeInclusive;

use lamna_policy::upstream::Balance;
use serde_json::{Value, json};
use toml::Spanned;

use super::checks::{render_statuses, statuses_of};
use super::shapes::RetryTable;
use crate::checker::Checker;
use crate::gateway::RetrySettings;
use crate::schema::values::{list_of, names, number, pattern, table};
use crate::unit::Unit;
use crate::written::Text;

/// Tries of one request.
const TRIES: RangeInclusive<u64> = 2..=3;
/// The part of all requests that may be tried again.
const PERCENT: RangeInclusive<u64> = 1..=100;
const BALANCES: [(&str, Balance); 2] = [("least-busy", Balance::LeastBusy), ("least-time", Balance::LeastTime)];

/// Which of two places is asked.
pub(super) fn balance(given: Option<&Text>, checker: &mut Checker<'_>) -> Balance {
    let Some(given) = given else { return Balance::default() };
    let found = BALANCES.iter().find(|(name, _)| name == given.get_ref()).map(|(_, balance)| *balance);
    found.unwrap_or_else(|| {
        checker.problem(given.span(), "`balance` is \"least-busy\" or \"least-time\"");
        Balance::default()
    })
}

/// As it is written; none for the default.
pub(super) fn render_balance(balance: Balance) -> Option<String> {
    let (name, _) = BALANCES.iter().find(|(_, other)| *other == balance && balance != Balance::default())?;
    Some(format!("balance = \"{name}\""))
}

/// Which answers are not the last word.
pub(super) fn retry(given: Option<&Spanned<RetryTable>>, checker: &mut Checker<'_>) -> Option<RetrySettings> {
    let given = given?;
    let RetryTable { status, tries, percent_max } = given.get_ref();
    let mut amount = |key: &str, given: &Option<_>, unit, bounds: &RangeInclusive<u64>, otherwise: u32| {
        let given = given.as_ref().and_then(|given| checker.amount(key, given, unit, bounds));
        given.map_or(otherwise, |amount| amount as u32) // Within bounds that fit.
    };
    let tries = amount("tries", tries, Unit::Count, &TRIES, 2);
    let percent_max = amount("percent_max", percent_max, Unit::Percent, &PERCENT, 20);
    let Some(status) = status else {
        checker.problem(given.span(), "`status` says after which answers a request is tried again, and it is missing");
        return None;
    };
    let statuses = statuses_of(&status.get_ref().0).filter(|all| all.iter().all(|one| *one.start() >= 400));
    if statuses.is_none() {
        checker.problem(status.span(), "`status` has statuses of errors, as in 503 or \"5xx\"");
    }
    statuses.map(|statuses| RetrySettings { statuses, tries, percent_max })
}

/// As it is written.
pub(super) fn render_retry(retry: &RetrySettings) -> String {
    let RetrySettings { statuses, tries, percent_max } = retry;
    format!("retry = {{ status = [{}], tries = {tries}, percent_max = {percent_max} }}", render_statuses(statuses))
}

/// The schema of `balance`.
pub(super) fn balance_schema() -> Value {
    names(&BALANCES.map(|(name, _)| name), "Which of two places is asked")
}

/// The schema of `retry`.
pub(super) fn retry_schema() -> Value {
    let status = json!({ "anyOf": [{ "type": "integer", "minimum": 400, "maximum": 599 }, pattern("^([45]xx|[45][0-9][0-9])$", "")] });
    let status = json!({ "anyOf": [status, list_of(status.clone())], "description": "After which answers" });
    let keys = [
        ("status", status),
        ("tries", number(&TRIES, "How often one request is tried at most, the first time included")),
        ("percent_max", number(&PERCENT, "The part of all requests that may be tried again")),
    ];
    table(keys, &["status"], "After which answers a request with an idempotent method is tried again")
}
