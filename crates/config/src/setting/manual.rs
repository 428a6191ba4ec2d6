//! The settings as tables of the manual, for tests alone: docs/configuration.md holds what is made here.
//!
//! Owns: the Markdown of a row, and how documents that come from the source are written anew.

use std::path::Path;

use super::row::{Kind, Setting, Unit};
use super::table::SETTINGS;
use crate::key::{Form, Key};
use crate::limits::LIMITS;
use crate::listen::entry;
use crate::page::Page;
use crate::route::{self, PRIORITY};
use crate::settings::{Settings, SiteSettings};
use crate::site;

/// Whether `make` changes nothing in a file of docs/. With `WRITE_DOCS` in the environment the file is changed.
pub(crate) fn holds(file: &str, make: impl Fn(&str) -> String) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let text = std::fs::read_to_string(&path).expect("the document is there");
    let made = make(&text);
    if made != text && std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).expect("the document can be written");
        return true;
    }
    made == text
}

/// The advice about a document that does not hold the text that it should.
pub(crate) const WRITE: &str = "write it anew: WRITE_DOCS=1 cargo test -p lamna-config --lib";

/// `document` with these rows in the table that has this head.
fn with_rows(document: &str, head: &str, rows: &str) -> String {
    let (before, rest) = document.split_once(head).expect("the document has the table");
    let after = rest.find("\n\n").map_or("", |end| &rest[end + 1..]);
    format!("{before}{head}{rows}{after}")
}

fn row(setting: &Setting) -> String {
    let default = setting.default.map_or_else(|| default(setting), str::to_owned);
    let mut meaning = format!("{}{}", setting.text, setting.more);
    if setting.section.is_some() {
        meaning.push_str(&format!("; `--{}`", setting.name.replace('_', "-")));
    }
    if setting.order.is_some() {
        meaning.push_str("; `lamna ctl set`");
    }
    format!("| `{}` | {} | {default} | {meaning} | {} |\n", setting.name, values(setting), reload(setting))
}

/// When a new value is in force after a reload.
fn reload(setting: &Setting) -> String {
    let cache = if setting.empties_cache { "; empties the cache" } else { "" };
    format!("{}{cache}", setting.reload.words())
}

fn limit(limit: &Setting) -> String {
    let Kind::Number { unit, bounds, .. } = &limit.kind else { panic!("{} is a number", limit.name) };
    let (least, most) = (unit.show(*bounds.start()), unit.show(*bounds.end()));
    let (unit, default) = (format!("{unit:?}").to_lowercase(), default(limit));
    format!("| `{}` | {unit} | {default} | {least} to {most} | {} | {} |\n", limit.name, limit.text, reload(limit))
}

fn values(setting: &Setting) -> String {
    let quoted = |words: Vec<&str>| words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ");
    match &setting.kind {
        Kind::Switch { .. } => "`true`, `false`".to_owned(),
        Kind::Number { unit, bounds, .. } => {
            let (least, most) = (unit.show(*bounds.start()), unit.show(*bounds.end()));
            format!("{}{least} to {most}", if *unit == Unit::Bytes { "size, " } else { "" })
        }
        Kind::NumberOrAuto { bounds, .. } => format!("{} to {}, `\"auto\"`", bounds.start(), bounds.end()),
        Kind::Word { words, .. } => quoted(words()),
        Kind::Words { words, .. } => format!("`\"off\"`, or some of `\"{}\"`", words.join(",")),
        Kind::Text { form, .. } => {
            let part = |part: &str| match part {
                "FILE" => "a path".to_owned(),
                "ADDR" => "an address".to_owned(),
                "URL" => "an `https` URL".to_owned(),
                "EMAIL" => "an e-mail address".to_owned(),
                "NAME" => "a name".to_owned(),
                word => format!("`\"{word}\"`"),
            };
            form.split('|').map(part).collect::<Vec<_>>().join(", ")
        }
        Kind::List { form, none, .. } => format!("list of {form}; `[]` is {none}"),
        Kind::Listeners => "list of addresses and tables; `[]` is the default".to_owned(),
    }
}

fn default(setting: &Setting) -> String {
    let shown = setting.show(&Settings::default());
    match setting.kind {
        Kind::Switch { .. } => format!("`{shown}`"),
        Kind::Number { .. } => shown,
        _ if shown.is_empty() => "none".to_owned(),
        _ => format!("`\"{shown}\"`"),
    }
}

/// The values of a key of a site or a route.
fn form(key: &Key) -> String {
    match &key.form {
        Form::Switch => "`true`, `false`".to_owned(),
        Form::Number { unit, bounds } => {
            let (before, behind) = match unit {
                Unit::Bytes => ("size, ", ""),
                Unit::Milliseconds => ("", " ms"),
                Unit::Seconds => ("", " s"),
                Unit::Percent => ("", " %"),
                Unit::Count => ("", ""),
            };
            format!("{before}{} to {}{behind}", unit.show(*bounds.start()), unit.show(*bounds.end()))
        }
        Form::Words(words) => words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", "),
        Form::Text(what) | Form::Texts { what, .. } | Form::Other { what, .. } => (*what).to_owned(),
    }
}

/// The row of a key of a site. Its default is what a site has that says nothing.
fn of_site(key: &Key) -> String {
    let mut page = Page::default();
    site::render(&SiteSettings::default(), &mut page);
    let beginning = format!("{} = ", key.name);
    let shown = page.into_text().lines().find_map(|line| Some(format!("`{}`", line.strip_prefix(&beginning)?)));
    let default = key.default.map(str::to_owned).or(shown).unwrap_or_else(|| "none".to_owned());
    let reload = key.reload.words();
    format!("| `{}` | {} | {default} | {}{} | {reload} |\n", key.name, form(key), key.text, key.more)
}

/// The row of a key of an entry of `listen`.
fn of_listener(key: &Key) -> String {
    let (default, reload) = (key.default.unwrap_or("none"), key.reload.words());
    format!("| `{}` | {} | {default} | {}{} | {reload} |\n", key.name, form(key), key.text, key.more)
}

fn of_route(key: &Key) -> String {
    format!("| `{}` | {} | {}{} | {} |\n", key.name, form(key), key.text, key.more, key.reload.words())
}

#[test]
fn the_manual_has_the_keys_of_sites() {
    let rows: String = site::keys().map(of_site).collect();
    let head = "with an empty cache.\n\n| key | type | default | meaning | reload |\n| --- | --- | --- | --- | --- |\n";
    assert!(holds("configuration.md", |document| with_rows(document, head, &rows)), "{WRITE}");
}

#[test]
fn the_manual_has_the_keys_of_listeners() {
    let rows: String = entry::KEYS.iter().map(of_listener).collect();
    let head = "of the whole server says counts.\n\n| key | type | default | meaning | reload |\n| --- | --- | --- | --- | --- |\n";
    assert!(holds("configuration.md", |document| with_rows(document, head, &rows)), "{WRITE}");
}

#[test]
fn the_manual_has_the_keys_of_routes() {
    let rows: String = route::keys().chain([&PRIORITY]).map(of_route).collect();
    let head = "| key | type | meaning | reload |\n| --- | --- | --- | --- |\n";
    assert!(holds("routes.md", |document| with_rows(document, head, &rows)), "{WRITE}");
}

#[test]
fn the_manual_has_the_settings_and_limits() {
    let rows: String = SETTINGS.iter().map(row).collect();
    let head =
        "begin with empty caches.\n\n| key | type | default | meaning | reload |\n| --- | --- | --- | --- | --- |\n";
    let limits: String = LIMITS.iter().map(limit).collect();
    let limits_head = "| key | unit | default | bounds | meaning | reload |\n| --- | --- | --- | --- | --- | --- |\n";
    let make = |document: &str| with_rows(&with_rows(document, head, &rows), limits_head, &limits);
    assert!(holds("configuration.md", make), "{WRITE}");
}
