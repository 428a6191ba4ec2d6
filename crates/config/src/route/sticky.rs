//! `sticky` of an application: by which property of requests they get to the same place.
//!
//! Owns: its judgement, with words for what is wrong, its text and its schema.

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::shapes::SwitchOr;
use crate::checker::Checker;
use crate::gateway::Sticky;
use crate::page::quoted;
use crate::schema::values::text;
use crate::written::Text;

/// `sticky = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct StickyTable {
    header: Option<Text>,
    cookie: Option<Text>,
}

/// The property that is named.
pub(super) fn judge(given: Option<&Spanned<SwitchOr<StickyTable>>>, checker: &mut Checker<'_>) -> Option<Sticky> {
    let given = given?;
    let is_token = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    match given.get_ref() {
        SwitchOr::Is(false) => None,
        SwitchOr::Text(word) if word == "client" => Some(Sticky::Client),
        SwitchOr::Table(StickyTable { header: Some(name), cookie: None }) if is_token(name.get_ref()) => {
            Some(Sticky::Header(name.get_ref().to_ascii_lowercase()))
        }
        SwitchOr::Table(StickyTable { header: None, cookie: Some(name) }) if is_token(name.get_ref()) => {
            Some(Sticky::Cookie(name.get_ref().clone()))
        }
        _ => {
            let hint =
                Some("write sticky = \"client\", { header = \"X-User\" } or { cookie = \"session\" }".to_owned());
            checker.problem_with_hint(given.span(), "`sticky` names what the requests of a place have in common", hint);
            None
        }
    }
}

/// As it is written.
pub(super) fn render(sticky: &Sticky) -> String {
    match sticky {
        Sticky::Client => quoted("client"),
        Sticky::Header(name) => format!("{{ header = {} }}", quoted(name)),
        Sticky::Cookie(name) => format!("{{ cookie = {} }}", quoted(name)),
    }
}

/// Its schema.
pub(super) fn schema() -> Value {
    let table = |key: &str| json!({ "type": "object", "properties": { key: text("") }, "required": [key], "additionalProperties": false });
    json!({
        "anyOf": [{ "enum": ["client", false] }, table("header"), table("cookie")],
        "description": "What the requests of a place have in common",
    })
}
