//! Values in a JSON Schema: texts, numbers, lists and tables.
//!
//! Owns: how each is written. Does not know which keys there are.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// A table with these keys and no others.
pub(crate) fn table(
    keys: impl IntoIterator<Item = (impl Into<String>, Value)>,
    required: &[&str],
    description: &str,
) -> Value {
    let keys: Map<String, Value> = keys.into_iter().map(|(key, value)| (key.into(), value)).collect();
    json!({
        "type": "object",
        "properties": keys,
        "required": required,
        "additionalProperties": false,
        "description": description,
    })
}

/// A table that has at least one of these keys, and no others.
pub(crate) fn filled_table(keys: impl IntoIterator<Item = (impl Into<String>, Value)>, description: &str) -> Value {
    let mut table = table(keys, &[], description);
    table["minProperties"] = json!(1);
    table
}

/// One text or several.
pub(crate) fn several(description: &str) -> Value {
    one_or_several(text(""), description)
}

/// One or several.
pub(crate) fn one_or_several(one: Value, description: &str) -> Value {
    json!({ "anyOf": [one, list_of(one.clone())], "description": description })
}

/// One text, several or none.
pub(crate) fn several_or_none(description: &str) -> Value {
    json!({ "anyOf": [text(""), list_or_none(text(""))], "description": description })
}

/// Several: the reader refuses an empty list.
pub(crate) fn list_of(items: Value) -> Value {
    json!({ "type": "array", "items": items, "minItems": 1 })
}

/// Several or none: the description says what an empty list means.
pub(crate) fn list_or_none(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// A text.
pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// A text of this form.
pub(crate) fn pattern(pattern: &str, description: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": description })
}

/// True or false.
pub(crate) fn switch(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// One of these names.
pub(crate) fn names(names: &[&str], description: &str) -> Value {
    json!({ "enum": names, "description": description })
}

/// A number within bounds.
pub(crate) fn number(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end(), "description": description })
}

/// A number within bounds, or `auto`.
pub(crate) fn or_auto(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() });
    json!({ "anyOf": [{ "const": "auto" }, number], "description": description })
}

/// A size within bounds.
pub(crate) fn bytes(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() });
    json!({ "anyOf": [number, { "type": "string", "pattern": SIZE }], "description": description })
}

/// The form that `lamna_policy::size::parse_size` reads.
pub(super) const SIZE: &str = "^[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?$";

/// The texts that `lamna_policy::limit::Rate` reads.
pub(crate) const RATE: &str = "^(off|[0-9]+/[smh]( burst [0-9]+)?)$";

/// The texts that `lamna_policy::volume::Volume` reads.
pub(crate) const VOLUME: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/[smhd]( burst [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

/// The texts that `lamna_policy::volume::Bandwidth` reads.
pub(crate) const BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

/// The same for all together, of which nothing comes as fast as it can first.
pub(crate) const SHARED_BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after 0+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";
