//! An entry of `listen` in the file: an address, or a table that says more of it.
//!
//! Owns: the keys of the table, how they are judged, and how they are written again. A refused value is as if it had
//! not been given.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Value, json};
use toml::Spanned;

use super::{BACKLOG, ListenSettings, Protocols};
use crate::checker::Checker;
use crate::environment::check_listen;
use crate::key::Key;
use crate::page::{Page, list, quoted};
use crate::reload::Reload;
use crate::schema::values::{names, table, text};
use crate::setting::listen_at;
use crate::settings::Settings;
use crate::unit::Unit;
use crate::written::{Amount, Text};

/// The versions of HTTP, by their names in ALPN (RFC 7301).
const NAMES: [&str; 2] = ["http/1.1", "h2"];
/// More than the kernel keeps.
const BACKLOG_MAX: u64 = 65_535;

/// The keys of the table.
pub(crate) static KEYS: [Key; 6] = [
    Key::text("an address", "Where to listen: what an entry that is a text says").named("address").default("required"),
    Key::switch("Whether TLS is spoken there, with the certificates of the sites")
        .named("tls")
        .default("where a site has a certificate, but for port 80 and Unix sockets")
        .reload(Reload::Connections),
    Key::switch("Whether requests in clear text for sites with certificates are led to https. `false` serves them in clear text")
        .named("redirect")
        .default("`true`")
        .reload(Reload::Connections),
    Key::switch("Whether trusted proxies connect there with the PROXY protocol")
        .named("proxy_protocol")
        .default("what `proxy_protocol` of the server names")
        .more(": [limits.md](limits.md)")
        .reload(Reload::Connections)
        .admits(),
    Key::other(
        "list of `\"http/1.1\"` and `\"h2\"`",
        protocols_schema,
        "The versions of HTTP that are spoken there; HTTP/1.1 is always among them",
    )
    .named("protocols")
    .default("both over TLS, `h2c` in clear text")
    .reload(Reload::Connections),
    Key::number(
        Unit::Count,
        1..=BACKLOG_MAX,
        "Connections that may wait to be accepted; `net.core.somaxconn` of the kernel bounds it",
    )
    .named("backlog")
    .default("4096")
    .reload(Reload::AtOnce),
];

/// An address, or a table.
#[derive(Debug)]
pub(crate) enum Entry {
    Address(String),
    Table(Box<EntryTable>),
}

/// `[[listen]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct EntryTable {
    address: Option<Text>,
    tls: Option<bool>,
    redirect: Option<bool>,
    proxy_protocol: Option<bool>,
    protocols: Option<Vec<Text>>,
    backlog: Option<Spanned<Amount>>,
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a table with `address`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Entry, E> {
        Ok(Entry::Address(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Entry, A::Error> {
        EntryTable::deserialize(MapAccessDeserializer::new(map)).map(|table| Entry::Table(Box::new(table)))
    }
}

/// Puts what is given into `settings`.
pub(crate) fn judge(given: &[Spanned<Entry>], settings: &mut Settings, checker: &mut Checker<'_>) {
    settings.listen.clear();
    for entry in given {
        let span = entry.span();
        let judged = match entry.get_ref() {
            Entry::Address(text) => address(text, span.clone(), checker),
            Entry::Table(table) => of_table(table, &span, checker),
        };
        let Some(judged) = judged else { continue };
        let span = match entry.get_ref() {
            Entry::Table(table) => table.address.as_ref().map_or(span, Spanned::span),
            Entry::Address(_) => span,
        };
        if !checker.checks.overridden.contains(&"listen")
            && let Err((message, hint)) = check_listen(&judged.at, &settings.listen, checker.checks.depth)
        {
            checker.problem_with_hint(span, message, Some(hint));
        }
        settings.listen.push(judged);
    }
}

fn address(text: &str, span: Range<usize>, checker: &mut Checker<'_>) -> Option<ListenSettings> {
    match listen_at(text, checker.base()) {
        Ok(at) => Some(at.into()),
        Err(expectation) => {
            checker.problem(span, format!("`{}` {expectation}", text.escape_debug()));
            None
        }
    }
}

fn of_table(table: &EntryTable, span: &Range<usize>, checker: &mut Checker<'_>) -> Option<ListenSettings> {
    let Some(text) = &table.address else {
        if !checker.was_taken("address", span) {
            let hint = "write address = \"443\", or whichever it is".to_owned();
            checker.problem_with_hint(span.clone(), "this entry of `listen` has no `address`", Some(hint));
        }
        return None;
    };
    let at = address(text.get_ref(), text.span(), checker)?.at;
    let of_ports = [("tls", table.tls), ("redirect", table.redirect)];
    if let Some((key, _)) = of_ports.iter().find(|(_, is)| at.socket().is_some() && *is == Some(true)) {
        checker.problem(
            text.span(),
            format!("`{key} = true` is for ports: Unix sockets are for programs of this machine"),
        );
    }
    let backlog = table.backlog.as_ref();
    let backlog = backlog.and_then(|given| checker.amount("backlog", given, Unit::Count, &(1..=BACKLOG_MAX)));
    Some(ListenSettings {
        at,
        tls: table.tls,
        redirect: table.redirect,
        proxy_protocol: table.proxy_protocol,
        protocols: table.protocols.as_ref().and_then(|given| protocols(given, span, checker)),
        backlog: backlog.and_then(|count| u32::try_from(count).ok()),
    })
}

fn protocols(given: &[Text], span: &Range<usize>, checker: &mut Checker<'_>) -> Option<Protocols> {
    if let Some(unknown) = given.iter().find(|text| !NAMES.contains(&text.get_ref().as_str())) {
        let message = format!("unknown protocol `{}`", unknown.get_ref().escape_debug());
        checker.problem_with_hint(unknown.span(), message, Some(format!("known: {}", NAMES.join(", "))));
        return None;
    }
    let has = |name: &str| given.iter().any(|text| text.get_ref() == name);
    if !has(NAMES[0]) {
        let at = given.first().map_or_else(|| span.clone(), Spanned::span);
        checker.problem(at, "`protocols` needs `http/1.1`: clients that do not say which they speak speak that");
        return None;
    }
    Some(if has(NAMES[1]) { Protocols::Http1AndHttp2 } else { Protocols::Http1 })
}

/// Contradictions in `settings`: the place of the entry in `listen`, why, and what to do.
pub(crate) fn contradictions(settings: &Settings) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (place, one) in settings.listen.iter().enumerate() {
        if one.tls == Some(true) && !settings.speak_tls() {
            let message = format!("TLS is to be spoken at {}, and no site has a certificate", one.at);
            found.push((place, message, "give a site `tls`, or `certificate` and `key`".to_owned()));
        }
        if one.proxy_protocol == Some(true) && settings.proxies.is_empty() {
            let hint = "name the proxies: trusted_proxies = [\"10.0.0.0/8\"]. No other client may connect there";
            found.push((place, "`proxy_protocol` needs `trusted_proxies`".to_owned(), hint.to_owned()));
        }
    }
    found
}

impl fmt::Display for ListenSettings {
    /// As the file has it: the address, or a table in one line.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = Vec::new();
        let ListenSettings { at, tls, redirect, proxy_protocol, protocols, backlog } = self;
        let switches = [("tls", tls), ("redirect", redirect), ("proxy_protocol", proxy_protocol)];
        keys.extend(switches.into_iter().filter_map(|(key, is)| Some(format!("{key} = {}", (*is)?))));
        keys.extend(protocols.map(|protocols| format!("protocols = {}", list(protocols.names()))));
        keys.extend(backlog.map(|count| format!("backlog = {count}")));
        match keys.is_empty() {
            true => formatter.write_str(&quoted(&at.to_string())),
            false => write!(formatter, "{{ address = {}, {} }}", quoted(&at.to_string()), keys.join(", ")),
        }
    }
}

impl Protocols {
    /// Their names.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Protocols::Http1 => &NAMES[..1],
            Protocols::Http1AndHttp2 => &NAMES,
        }
    }
}

/// Writes `listen`.
pub(crate) fn render(listen: &[ListenSettings], page: &mut Page) {
    let entries: Vec<String> = listen.iter().map(ToString::to_string).collect();
    page.line("listen", format_args!("[{}]", entries.join(", ")));
}

/// The schema of an entry.
pub(crate) fn schema() -> Value {
    let keys = table(KEYS.iter().map(Key::schema), &["address"], "An address, and what is done there");
    json!({ "anyOf": [text("An address"), keys] })
}

fn protocols_schema() -> Value {
    json!({ "type": "array", "items": names(&NAMES, ""), "minItems": 1 })
}

const _: () = assert!(BACKLOG as u64 <= BACKLOG_MAX);
