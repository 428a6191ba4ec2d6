//! `sticky` of an application: by which property of requests they get to the same place.
//!
//! Owns: its judgement, with words for what is wrong, its text and its schema.

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Spanned;

use super::pattern::Pattern;
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
    set_cookie: Option<Text>,
}

/// The property that is named.
pub(super) fn judge(
    given: Option<&Spanned<SwitchOr<StickyTable>>>,
    patterns: &[Pattern],
    checker: &mut Checker<'_>,
) -> Option<Sticky> {
    let given = given?;
    let is_token = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    match given.get_ref() {
        SwitchOr::Is(false) => None,
        SwitchOr::Text(word) if word == "client" => Some(Sticky::Client),
        SwitchOr::Table(StickyTable { header: Some(name), cookie: None, set_cookie: None })
            if is_token(name.get_ref()) =>
        {
            Some(Sticky::Header(name.get_ref().to_ascii_lowercase()))
        }
        SwitchOr::Table(StickyTable { header: None, cookie: Some(name), set_cookie: None })
            if is_token(name.get_ref()) =>
        {
            Some(Sticky::Cookie(name.get_ref().clone()))
        }
        SwitchOr::Table(StickyTable { header: None, cookie: None, set_cookie: Some(name) })
            if is_token(name.get_ref()) =>
        {
            Some(Sticky::SetCookie { name: name.get_ref().clone(), path: path_of(patterns) })
        }
        _ => {
            let hint =
                Some("write sticky = \"client\", { header = \"X-User\" }, { cookie = \"session\" } or { set_cookie = \"place\" }".to_owned());
            checker.problem_with_hint(given.span(), "`sticky` names what the requests of a place have in common", hint);
            None
        }
    }
}

/// The path of a cookie for a route with these patterns: the longest one that all of its paths are beneath, as far as
/// clients spell it in one way only.
fn path_of(patterns: &[Pattern]) -> String {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte));
    let path = match patterns {
        [Pattern::Exact(path) | Pattern::Prefix(path)] if plain(path) => path.as_str(),
        _ => "/",
    };
    path.to_owned()
}

/// As it is written.
pub(super) fn render(sticky: &Sticky) -> String {
    match sticky {
        Sticky::Client => quoted("client"),
        Sticky::Header(name) => format!("{{ header = {} }}", quoted(name)),
        Sticky::Cookie(name) => format!("{{ cookie = {} }}", quoted(name)),
        Sticky::SetCookie { name, .. } => format!("{{ set_cookie = {} }}", quoted(name)),
    }
}

/// Its schema.
pub(super) fn schema() -> Value {
    let table = |key: &str| json!({ "type": "object", "properties": { key: text("") }, "required": [key], "additionalProperties": false });
    json!({
        "anyOf": [{ "enum": ["client", false] }, table("header"), table("cookie"), table("set_cookie")],
        "description": "What the requests of a place have in common",
    })
}
