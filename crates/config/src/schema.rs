//! A configuration file as JSON Schema (2020-12), for editors: completion, and mistakes under the cursor.
//!
//! Owns: the schema. The keys at the top come from the rows of `setting`, those of sites and of routes from the rows
//! of `site` and `route`. Tests hold it against the reader: every key of one is a key of the
//! other, and values within and beyond what the schema permits are read and refused. It says less than the reader:
//! whether a directory is there, or what two keys have to do with each other, only the reader knows.

pub(crate) mod values;

use serde_json::{Map, Value, json};

use super::key::Key;
use super::limits::LIMITS;
use super::listen::entry;
use super::route;
use super::setting::{Kind, SETTINGS, Setting, Unit};
use super::site;
use values::{bytes, list_of, list_or_none, names, number, or_auto, pattern, switch, table, text};

/// The schema.
pub fn schema() -> Value {
    let mut keys = keys(SETTINGS);
    let limits = table(self::keys(&LIMITS), &[], "What a peer may use or keep waiting");
    keys.insert("limits".to_owned(), limits);
    keys.insert("service".to_owned(), list_of(filter_service()));
    let site = table(site::keys().map(Key::schema), &[], "What is served for a set of host names");
    keys.insert("site".to_owned(), list_of(site));
    let mut schema = table(keys, &[], "The configuration of Lamna: docs/configuration.md");
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Lamna");
    schema
}

/// The keys of a table of settings.
fn keys(settings: &'static [Setting]) -> Map<String, Value> {
    settings.iter().map(|setting| (setting.name.to_owned(), of_setting(setting))).collect()
}

fn of_setting(setting: &Setting) -> Value {
    match &setting.kind {
        Kind::Switch { .. } => switch(setting.text),
        Kind::Number { unit: Unit::Bytes, bounds, .. } => bytes(bounds, setting.text),
        Kind::Number { bounds, .. } => number(bounds, setting.text),
        Kind::NumberOrAuto { bounds, .. } => or_auto(bounds, setting.text),
        Kind::Word { words, aliases, .. } => names(&[words(), aliases()].concat(), setting.text),
        Kind::Words { words, .. } => {
            let any = words.join("|");
            pattern(&format!("^(off|({any})( *, *({any}))*)$"), setting.text)
        }
        Kind::Text { .. } => text(setting.text),
        Kind::List { none, .. } => {
            let mut list = list_or_none(text(""));
            list["description"] = json!(format!("{}; `[]` is {none}", setting.text));
            list
        }
        Kind::Listeners => {
            let mut list = list_or_none(entry::schema());
            list["description"] = json!(format!("{}; `[]` is the default", setting.text));
            list
        }
    }
}

fn filter_service() -> Value {
    let keys = [
        (
            "name",
            text(
                "What routes call it in `filters`: of a-z, 0-9, - and _; of a gateway what `lamna ctl service list` calls it",
            ),
        ),
        ("filters", route::filters_schema("The filters that it stands for; `[]` is none")),
        ("native", text("A shared object over lamna_filter.h, if native_services allows it")),
        (
            "wasm",
            text(
                "A WebAssembly component of the world in lamna_filter.wit, in servers that are built with the feature `wasm`",
            ),
        ),
        (
            "gateway",
            switch("It is no filter but the application of a route, which can be suspended from the beginning"),
        ),
        (
            "memory_bytes_max",
            bytes(&super::validate::MEMORY_BYTES, "Memory that each stream through a component may have"),
        ),
        (
            "fuel_max",
            number(
                &super::validate::FUEL,
                "Instructions that one call of a component may take, about; beyond it the service is suspended",
            ),
        ),
        (
            "parameters",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "What the shared object or the component is given when it begins" }),
        ),
        (
            "time_max_ms",
            number(
                &super::validate::TIME_MS,
                "Processor time of one call of a shared object or a component; beyond it the service is suspended",
            ),
        ),
        (
            "on_failure",
            names(&["error", "pass"], "What its routes answer while it cannot be used: 503, or the content without it"),
        ),
        ("suspended", switch("Whether it is not used until it is resumed")),
    ];
    table(keys, &["name"], "What routes name as a filter, and what can be exchanged while the server serves")
}

#[cfg(test)]
mod list_tests;
#[cfg(test)]
mod tests;
