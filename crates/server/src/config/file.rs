//! The shapes of a configuration file, exactly as written: which keys there are and of which TOML type, with positions.
//!
//! Owns: names and types. Does not judge values (`validate`, `site`), and does not read past what does not fit (`shapes`).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use toml::Spanned;

use super::route::shapes::RouteTable;

/// A text and where it stands.
pub(super) type Text = Spanned<String>;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct File {
    pub(super) listen: Option<Vec<Text>>,
    pub(super) arch: Option<Text>,
    pub(super) workers: Option<Spanned<Amount>>,
    pub(super) pin: Option<bool>,
    pub(super) h2c: Option<bool>,
    pub(super) trusted_proxies: Vec<Text>,
    pub(super) forwarded_field: Option<Text>,
    pub(super) proxy_protocol: Vec<Text>,
    pub(super) request_limit: Option<Text>,
    pub(super) limit_exempt: Option<Vec<Text>>,
    pub(super) account: Option<bool>,
    pub(super) helpers_max: Option<Spanned<Amount>>,
    pub(super) threads: Option<Spanned<Amount>>,
    pub(super) threads_max: Option<Spanned<Amount>>,
    pub(super) helpers: Option<Text>,
    pub(super) processes: Option<Spanned<Amount>>,
    pub(super) processes_max: Option<Spanned<Amount>>,
    pub(super) process_cache_bytes: Option<Spanned<Amount>>,
    pub(super) process_translations_max: Option<Spanned<Amount>>,
    pub(super) send: Option<Text>,
    pub(super) stretch_copy_bytes_max: Option<Spanned<Amount>>,
    pub(super) message_copy_bytes_max: Option<Spanned<Amount>>,
    pub(super) cache_bytes: Option<Spanned<Amount>>,
    pub(super) caches: Option<Text>,
    pub(super) cache_policy: Option<Text>,
    pub(super) cache_objective: Option<Text>,
    pub(super) cache_filter: Option<bool>,
    pub(super) cache_pages: Option<Text>,
    pub(super) cache_watch: Option<bool>,
    pub(super) compress: Option<Text>,
    pub(super) compress_bytes_min: Option<Spanned<Amount>>,
    pub(super) compress_bytes_max: Option<Spanned<Amount>>,
    pub(super) drain_timeout_ms: Option<Spanned<Amount>>,
    pub(super) log: Option<Text>,
    pub(super) log_format: Option<Text>,
    pub(super) error_log: Option<Text>,
    pub(super) error_log_format: Option<Text>,
    pub(super) error_log_level: Option<Text>,
    pub(super) admin: Option<Text>,
    pub(super) admin_hosts: Vec<Text>,
    pub(super) admin_token_file: Option<Text>,
    pub(super) profile: Option<Text>,
    pub(super) acme_directory: Option<Text>,
    pub(super) acme_contact: Option<Text>,
    pub(super) acme_profile: Option<Text>,
    pub(super) acme_roots: Option<Text>,
    /// Keys are judged against the table of limits.
    pub(super) limits: BTreeMap<Text, Spanned<Amount>>,
    pub(super) site: Vec<Spanned<SiteTable>>,
}

/// `[[site]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct SiteTable {
    pub(super) hosts: Vec<Text>,
    pub(super) root: Option<Text>,
    pub(super) index: Option<Vec<Text>>,
    pub(super) browse: bool,
    pub(super) upload: bool,
    pub(super) upload_bytes_max: Option<Spanned<Amount>>,
    pub(super) upload_resume_s: Option<Spanned<Amount>>,
    pub(super) upload_resume_bytes_max: Option<Spanned<Amount>>,
    pub(super) delete: bool,
    pub(super) mkdir: bool,
    pub(super) spa: bool,
    pub(super) user_directory: Option<Text>,
    pub(super) certificate: Option<Text>,
    pub(super) key: Option<Text>,
    pub(super) client_ca: Option<Text>,
    pub(super) tls: Option<Text>,
    pub(super) headers: BTreeMap<Text, Spanned<Texts>>,
    pub(super) error_pages: BTreeMap<Text, Text>,
    pub(super) redirect: Vec<RedirectTable>,
    pub(super) alias: Vec<AliasTable>,
    pub(super) limit: Vec<LimitTable>,
    pub(super) rule_files: bool,
    pub(super) route: Vec<Spanned<RouteTable>>,
}

/// `[[site.redirect]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct RedirectTable {
    pub(super) from: Text,
    pub(super) to: Text,
    pub(super) status: Option<Spanned<Amount>>,
}

/// `[[site.alias]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct AliasTable {
    pub(super) prefix: Text,
    pub(super) root: Text,
}

/// `[[site.limit]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(super) struct LimitTable {
    pub(super) path: Option<Text>,
    pub(super) requests: Text,
}

/// Keys that people put into the wrong table, and where they belong.
pub(super) const KEYS: [(&str, &[&str]); 8] = [
    (
        "at the top of the file, before the first table",
        &[
            "listen",
            "arch",
            "workers",
            "pin",
            "h2c",
            "trusted_proxies",
            "forwarded_field",
            "proxy_protocol",
            "request_limit",
            "limit_exempt",
            "account",
            "helpers",
            "helpers_max",
            "threads",
            "threads_max",
            "processes",
            "processes_max",
            "process_cache_bytes",
            "process_translations_max",
            "send",
            "stretch_copy_bytes_max",
            "message_copy_bytes_max",
            "cache_bytes",
            "caches",
            "cache_policy",
            "cache_objective",
            "cache_filter",
            "cache_pages",
            "cache_watch",
            "compress",
            "compress_bytes_min",
            "compress_bytes_max",
            "drain_timeout_ms",
            "log",
            "log_format",
            "error_log",
            "error_log_format",
            "error_log_level",
            "admin",
            "admin_hosts",
            "admin_token_file",
            "profile",
            "acme_directory",
            "acme_contact",
            "acme_profile",
            "acme_roots",
        ],
    ),
    (
        "in a [[site]] table",
        &[
            "hosts",
            "root",
            "index",
            "browse",
            "upload",
            "upload_bytes_max",
            "upload_resume_s",
            "upload_resume_bytes_max",
            "delete",
            "mkdir",
            "spa",
            "user_directory",
            "certificate",
            "key",
            "client_ca",
            "tls",
            "headers",
            "error_pages",
            "redirect",
            "alias",
            "limit",
            "rule_files",
            "route",
        ],
    ),
    ("in a [[site.redirect]] table", &["from", "to", "status"]),
    ("in a [[site.alias]] table", &["prefix"]),
    ("in a [[site.limit]] table", &["requests"]),
    ("in a [[site.route]] table", &["match", "priority", "immutable", "rewrite", "try", "cors", "proxy", "fastcgi"]),
    (
        "in the `match` of a [[site.route]] table",
        &["path", "regex", "method", "host", "header", "query", "client", "protocol"],
    ),
    ("in the `cors` of a [[site.route]] table", &["origins", "methods", "expose", "credentials", "max_age_s"]),
];

/// A number, as an integer or as text with a unit.
#[derive(Clone, Debug)]
pub(super) enum Amount {
    Number(i64),
    Text(String),
}

impl Amount {
    /// Whether it is this text.
    pub(super) fn is_text(&self, expected: &str) -> bool {
        matches!(self, Amount::Text(text) if text == expected)
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug)]
pub(super) struct Texts(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Amount, E> {
        Ok(Amount::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        Ok(Amount::Text(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a list of strings")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Texts, E> {
        Ok(Texts(vec![text.to_owned()]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = items.next_element()? {
            texts.push(text);
        }
        Ok(Texts(texts))
    }
}
