//! The shapes of a configuration file, exactly as written: which keys there are and of which TOML type, with positions.
//!
//! Owns: names and types; those at the top of the file are the rows of `setting`. Does not judge values (`validate`,
//! `site`), and does not read past what does not fit (`shapes`).

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use toml::Spanned;

use super::listen::entry::Entry;
use super::route;
use super::route::shapes::FilterStep;
use super::setting::table::NAMES;
use super::setting::{Kind, SETTINGS};
use super::site::{self, SiteTable};
use super::written::{Amount, MayBeEmpty, Text};

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// The settings at the top, by their place in [`SETTINGS`].
    pub settings: BTreeMap<usize, Given>,
    /// Keys are judged against the table of limits.
    pub limits: BTreeMap<Text, Spanned<Amount>>,
    pub service: Vec<Spanned<ServiceTable>>,
    pub site: Vec<Spanned<SiteTable>>,
}

/// The value that a file gives to a setting.
#[derive(Debug)]
pub(super) enum Given {
    Switch(bool),
    Amount(Spanned<Amount>),
    Text(Text),
    List(MayBeEmpty<Vec<Text>>),
    Listeners(MayBeEmpty<Vec<Spanned<Entry>>>),
}

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let mut file = File::default();
        while let Some(key) = map.next_key()? {
            match key {
                Key::Limits => file.limits = map.next_value()?,
                Key::Service => file.service = map.next_value()?,
                Key::Site => file.site = map.next_value()?,
                Key::Setting(place) => {
                    let given = match SETTINGS[place].kind {
                        Kind::Switch { .. } => Given::Switch(map.next_value()?),
                        Kind::Number { .. } | Kind::NumberOrAuto { .. } => Given::Amount(map.next_value()?),
                        Kind::Word { .. } | Kind::Words { .. } | Kind::Text { .. } => Given::Text(map.next_value()?),
                        Kind::List { .. } => Given::List(map.next_value()?),
                        Kind::Listeners => Given::Listeners(map.next_value()?),
                    };
                    file.settings.insert(place, given);
                }
            }
        }
        Ok(file)
    }
}

/// A key at the top of the file.
enum Key {
    /// A setting, by its place.
    Setting(usize),
    Limits,
    Service,
    Site,
}

/// The tables at the top of a file.
const TABLES: [&str; 3] = ["limits", "service", "site"];

/// Every key at the top of a file, for messages.
static TOP_KEYS: [&str; NAMES.len() + TABLES.len()] = {
    let mut keys = [""; NAMES.len() + TABLES.len()];
    let mut index = 0;
    while index < keys.len() {
        keys[index] = if index < NAMES.len() { NAMES[index] } else { TABLES[index - NAMES.len()] };
        index += 1;
    }
    keys
};

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        match NAMES.iter().position(|name| *name == key) {
            Some(place) => Ok(Key::Setting(place)),
            None if key == "limits" => Ok(Key::Limits),
            None if key == "service" => Ok(Key::Service),
            None if key == "site" => Ok(Key::Site),
            None => Err(E::unknown_field(key, &TOP_KEYS)),
        }
    }
}

/// `[[service]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct ServiceTable {
    pub name: Option<Text>,
    pub filters: Option<MayBeEmpty<Vec<Spanned<FilterStep>>>>,
    pub(super) native: Option<Text>,
    pub(super) wasm: Option<Text>,
    pub gateway: bool,
    pub(super) memory_bytes_max: Option<Spanned<Amount>>,
    pub(super) fuel_max: Option<Spanned<Amount>>,
    pub(super) parameters: BTreeMap<Text, Text>,
    pub(super) time_max_ms: Option<Spanned<Amount>>,
    pub(super) on_failure: Option<Text>,
    pub(super) suspended: bool,
}

/// Keys that people put into the wrong table, and where they belong.
pub(super) const KEYS: [(&str, &[&str]); 12] = [
    ("at the top of the file, before the first table", &NAMES),
    ("in a [[site]] table", site::NAMES),
    (
        "in a [[service]] table",
        &[
            "name",
            "native",
            "wasm",
            "gateway",
            "parameters",
            "time_max_ms",
            "memory_bytes_max",
            "fuel_max",
            "on_failure",
            "suspended",
        ],
    ),
    ("in a [[site.redirect]] table", &["from", "to", "status"]),
    ("in a [[site.alias]] table", &["prefix"]),
    ("in a [[site.limit]] table", &["requests", "bytes", "bandwidth", "shared_bandwidth"]),
    ("in a [[site.route]] table", route::NAMES),
    (
        "in the `match` of a [[site.route]] table",
        &["path", "regex", "method", "host", "header", "query", "client", "protocol", "not"],
    ),
    (
        "in the `cache` of a [[site.route]] table",
        &["fresh_s", "stale_if_error_s", "bytes_max", "ignore_query", "ignore_cookies", "ignore_reload"],
    ),
    ("in the `structured` of a [[site.route]] table", &["save_data"]),
    ("in the `cors` of a [[site.route]] table", &["origins", "methods", "expose", "credentials", "max_age_s"]),
    ("in a [[listen]] table", &["address", "protocols", "backlog"]),
];
