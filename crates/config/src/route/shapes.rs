//! The shapes of the values in a `[[site.route]]` table (`rows`), exactly as written: names, types and positions.
//!
//! Owns: which of several shapes a value has. Does not judge values (`judge`).

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::sticky::StickyTable;
use crate::written::{Amount, Filled, MayBeEmpty, Text, Texts};

/// `proxy = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct GatewayTable {
    pub(super) to: Option<Spanned<Texts>>,
    pub(super) weights: Option<Spanned<Vec<i64>>>,
    pub(super) balance: Option<Text>,
    pub(super) retry: Option<Spanned<RetryTable>>,
    pub(super) sticky: Option<Spanned<SwitchOr<StickyTable>>>,
    pub(super) host: Option<Spanned<Text>>,
    pub(super) connect_timeout_ms: Option<Spanned<Amount>>,
    pub(super) timeout_ms: Option<Spanned<Amount>>,
    pub(super) websocket_timeout_ms: Option<Spanned<Amount>>,
    pub(super) body_bytes_max: Option<Spanned<Amount>>,
    pub(super) buffer: Option<Spanned<SwitchOrAmount>>,
    pub(super) buffer_directory: Option<Text>,
    pub(super) check: Option<Spanned<SwitchOr<CheckTable>>>,
    pub(super) send_proxy: Option<Text>,
    pub(super) ca: Option<Text>,
    pub(super) server_name: Option<Text>,
    pub(super) verify: Option<Spanned<bool>>,
    pub(super) extensions: Option<Spanned<MayBeEmpty<Texts>>>,
    pub(super) index: Option<Spanned<MayBeEmpty<Texts>>>,
    pub(super) resolve_root: Option<Spanned<bool>>,
    pub(super) command: Option<Spanned<Texts>>,
    pub(super) instances: Option<Spanned<Amount>>,
}

/// `retry = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RetryTable {
    pub(super) status: Option<Spanned<Statuses>>,
    pub(super) tries: Option<Spanned<Amount>>,
    pub(super) percent_max: Option<Spanned<Amount>>,
}

/// `cgi = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct CgiTable {
    pub(super) extensions: Option<Spanned<Texts>>,
    pub(super) index: Option<Spanned<Texts>>,
    pub(super) interpreters: BTreeMap<Text, Text>,
    pub(super) programs_max: Option<Spanned<Amount>>,
    pub(super) time_max_ms: Option<Spanned<Amount>>,
    pub(super) output_bytes_max: Option<Spanned<Amount>>,
    pub(super) body_bytes_max: Option<Spanned<Amount>>,
    pub(super) socket: Option<Text>,
}

/// `check = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct CheckTable {
    pub(super) path: Option<Text>,
    pub(super) interval_ms: Option<Spanned<Amount>>,
    pub(super) timeout_ms: Option<Spanned<Amount>>,
    pub(super) status: Option<Spanned<Statuses>>,
    pub(super) passes: Option<Spanned<Amount>>,
    pub(super) misses: Option<Spanned<Amount>>,
}

/// `cache = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct AnswerCacheTable {
    pub(super) fresh_s: Option<Spanned<Amount>>,
    pub(super) stale_if_error_s: Option<Spanned<Amount>>,
    pub(super) bytes_max: Option<Spanned<Amount>>,
    pub(super) ignore_query: Option<Spanned<Texts>>,
    pub(super) ignore_cookies: Option<Spanned<Texts>>,
    pub(super) ignore_reload: bool,
}

/// `match = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a pattern, a list of patterns, or a table")]
pub(super) struct MatchTable {
    pub(super) path: Option<Spanned<Texts>>,
    pub(super) regex: Option<Spanned<Texts>>,
    pub(super) method: Option<Spanned<Texts>>,
    pub(super) host: Option<Vec<Text>>,
    pub(super) header: Filled<BTreeMap<Text, Spanned<Value>>>,
    pub(super) query: Filled<BTreeMap<Text, Spanned<Value>>>,
    pub(super) client: Option<Spanned<Texts>>,
    pub(super) protocol: Option<Spanned<Texts>>,
    pub(super) not: Option<Spanned<Filled<Box<MatchTable>>>>,
}

/// `redirect = { ... }`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct RedirectTable {
    pub(super) to: Text,
    pub(super) status: Option<Spanned<Amount>>,
    #[serde(default)]
    pub(super) if_missing: bool,
}

/// `respond = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct RespondTable {
    pub(super) status: Option<Spanned<Amount>>,
    pub(super) text: Option<Text>,
    pub(super) file: Option<Text>,
    pub(super) headers: BTreeMap<Text, Spanned<Texts>>,
}

/// A status, a table, or `false`.
#[derive(Debug)]
pub(super) enum RespondValue {
    Off,
    Status(i64),
    Table(RespondTable),
}

/// `cors = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct CorsTable {
    pub(super) origins: Option<Spanned<Texts>>,
    pub(super) methods: Option<Spanned<Texts>>,
    pub(super) headers: Option<Spanned<MayBeEmpty<Texts>>>,
    pub(super) expose: Option<Spanned<Texts>>,
    pub(super) credentials: bool,
    pub(super) max_age_s: Option<Spanned<Amount>>,
}

/// One of several tables `headers = [{ ... }]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct HeaderTable {
    pub(super) set: BTreeMap<Text, Spanned<Texts>>,
    pub(super) add: BTreeMap<Text, Spanned<Texts>>,
    pub(super) remove: Vec<Text>,
    pub(super) default: BTreeMap<Text, Spanned<Texts>>,
    pub(super) keep: Vec<Text>,
    pub(super) status: Option<Spanned<Statuses>>,
}

/// One status or a list of them.
#[derive(Debug)]
pub(super) struct Statuses(pub(super) Vec<String>);

/// Fields to set, or tables that say more.
#[derive(Debug)]
pub(super) enum Headers {
    Fields(BTreeMap<Text, Spanned<FieldValue>>),
    Tables(Vec<Spanned<HeaderTable>>),
}

/// The values of a field, `false` for a field that goes, or `true` for one that is as the answer has it.
#[derive(Debug)]
pub(super) enum FieldValue {
    Values(Vec<String>),
    Removed,
    Kept,
}

/// `structured = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct StructuredTable {
    pub(super) save_data: bool,
}

/// The name of a filter, or a table of it and its parameters.
#[derive(Debug)]
pub(crate) enum FilterStep {
    Name(String),
    Table(BTreeMap<Text, Text>),
}

/// `true`, `false`, one text or several, or `{ regex = "..." }`.
#[derive(Debug)]
pub(super) enum Value {
    Is(bool),
    OneOf(Vec<String>),
    Regex(Text),
}

/// One text or several, or a table.
#[derive(Debug)]
pub(super) enum TextsOr<T> {
    Texts(Vec<String>),
    Table(T),
}

/// `true`, `false`, a text or a table.
#[derive(Debug)]
pub(crate) enum SwitchOr<T> {
    Is(bool),
    Text(String),
    Table(T),
}

/// `true`, `false` or an amount.
#[derive(Debug)]
pub(super) enum SwitchOrAmount {
    Is(bool),
    Amount(Amount),
}

/// One table of `access`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct AccessTable {
    pub(super) actions: Option<Spanned<Texts>>,
    pub(super) anyone: bool,
    pub(super) users: Option<Spanned<Texts>>,
    pub(super) tokens: Option<Spanned<Texts>>,
    pub(super) certificates: Option<Spanned<Texts>>,
    pub(super) service: Option<Spanned<Box<ServiceTable>>>,
    pub(super) allow: Option<Spanned<Texts>>,
    pub(super) deny: Option<Spanned<Texts>>,
}

/// `service = { ... }`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct ServiceTable {
    pub(super) to: Option<Spanned<Texts>>,
    pub(super) path: Option<Text>,
    pub(super) fields: Option<Spanned<Texts>>,
    pub(super) user: Option<Text>,
    pub(super) host: Option<Spanned<Text>>,
    pub(super) connect_timeout_ms: Option<Spanned<Amount>>,
    pub(super) timeout_ms: Option<Spanned<Amount>>,
    pub(super) ca: Option<Text>,
    pub(super) server_name: Option<Text>,
    pub(super) verify: Option<Spanned<bool>>,
}

/// The value of `access`.
#[derive(Debug)]
pub(crate) enum AccessValue {
    /// `{ ... }`
    One(Box<AccessTable>),
    /// `[{ ... }, { ... }]`
    Several(Vec<AccessTable>),
    /// `"deny"`, `"anyone"`
    Word(String),
}

/// Where no table is taken.
#[derive(Debug)]
pub(super) enum Never {}

impl<'de> Deserialize<'de> for Never {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Never, D::Error> {
        Err(D::Error::custom("expected true, false or a string, and not a table"))
    }
}

/// A value that can be written in several shapes, with a constructor for each: boolean, number, texts, map or list.
trait Shape: Sized {
    const EXPECTED: &'static str;

    fn of_bool(_: bool) -> Option<Self> {
        None
    }

    fn of_number(_: i64) -> Option<Self> {
        None
    }

    fn of_texts(_: Vec<String>) -> Option<Self> {
        None
    }

    fn of_map<'de, A: MapAccess<'de>>(_: A) -> Option<Result<Self, A::Error>> {
        None
    }

    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Option<Result<Self, A::Error>> {
        let mut texts = Vec::new();
        loop {
            match list.next_element() {
                Ok(Some(text)) => texts.push(text),
                Ok(None) => return Self::of_texts(texts).map(Ok),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

struct ShapeVisitor<S>(PhantomData<S>);

impl<'de, S: Shape> Visitor<'de> for ShapeVisitor<S> {
    type Value = S;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(S::EXPECTED)
    }

    fn visit_bool<E: Error>(self, is: bool) -> Result<S, E> {
        S::of_bool(is).ok_or_else(|| E::custom(format!("expected {}", S::EXPECTED)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<S, E> {
        S::of_number(number).ok_or_else(|| E::custom(format!("expected {}", S::EXPECTED)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<S, E> {
        S::of_texts(vec![text.to_owned()]).ok_or_else(|| E::custom(format!("expected {}", S::EXPECTED)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<S, A::Error> {
        S::of_list(list).unwrap_or_else(|| Err(A::Error::custom(format!("expected {}", S::EXPECTED))))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<S, A::Error> {
        S::of_map(map).unwrap_or_else(|| Err(A::Error::custom(format!("expected {}", S::EXPECTED))))
    }
}

impl<T: DeserializeOwned> Shape for TextsOr<T> {
    const EXPECTED: &'static str = "a string, a list of strings or a table";

    fn of_texts(texts: Vec<String>) -> Option<Self> {
        Some(TextsOr::Texts(texts))
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(T::deserialize(MapAccessDeserializer::new(map)).map(TextsOr::Table))
    }
}

impl<T: DeserializeOwned> Shape for SwitchOr<T> {
    const EXPECTED: &'static str = "true, false, a string or a table";

    fn of_bool(is: bool) -> Option<Self> {
        Some(SwitchOr::Is(is))
    }

    fn of_texts(mut texts: Vec<String>) -> Option<Self> {
        (texts.len() == 1).then(|| SwitchOr::Text(texts.remove(0)))
    }

    fn of_list<'de, A: SeqAccess<'de>>(_: A) -> Option<Result<Self, A::Error>> {
        None
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(T::deserialize(MapAccessDeserializer::new(map)).map(SwitchOr::Table))
    }
}

impl Shape for SwitchOrAmount {
    const EXPECTED: &'static str = "true, false or a size as in \"64 KiB\"";

    fn of_bool(is: bool) -> Option<Self> {
        Some(SwitchOrAmount::Is(is))
    }

    fn of_number(number: i64) -> Option<Self> {
        Some(SwitchOrAmount::Amount(Amount::Number(number)))
    }

    fn of_texts(mut texts: Vec<String>) -> Option<Self> {
        (texts.len() == 1).then(|| SwitchOrAmount::Amount(Amount::Text(texts.remove(0))))
    }

    fn of_list<'de, A: SeqAccess<'de>>(_: A) -> Option<Result<Self, A::Error>> {
        None
    }
}

impl Shape for Value {
    const EXPECTED: &'static str = "true, false, a string, a list of strings or { regex = \"...\" }";

    fn of_bool(is: bool) -> Option<Self> {
        Some(Value::Is(is))
    }

    fn of_texts(texts: Vec<String>) -> Option<Self> {
        Some(Value::OneOf(texts))
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table")]
        struct RegexTable {
            regex: Text,
        }
        Some(RegexTable::deserialize(MapAccessDeserializer::new(map)).map(|table| Value::Regex(table.regex)))
    }
}

impl Shape for FilterStep {
    const EXPECTED: &'static str = "the name of a filter, or a table with `name` and its parameters";

    fn of_texts(mut texts: Vec<String>) -> Option<Self> {
        (texts.len() == 1).then(|| FilterStep::Name(texts.remove(0)))
    }

    fn of_list<'de, A: SeqAccess<'de>>(_: A) -> Option<Result<Self, A::Error>> {
        None
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(FilterStep::Table))
    }
}

impl Shape for FieldValue {
    const EXPECTED: &'static str =
        "a string, a list of strings, false for a field that is removed, or true for one that is kept";

    fn of_bool(is: bool) -> Option<Self> {
        Some(if is { FieldValue::Kept } else { FieldValue::Removed })
    }

    fn of_texts(texts: Vec<String>) -> Option<Self> {
        Some(FieldValue::Values(texts))
    }
}

impl Shape for Statuses {
    const EXPECTED: &'static str = "a status as in 404 or \"5xx\", or a list of them";

    fn of_number(number: i64) -> Option<Self> {
        Some(Statuses(vec![number.to_string()]))
    }

    fn of_texts(texts: Vec<String>) -> Option<Self> {
        Some(Statuses(texts))
    }

    fn of_list<'de, A: SeqAccess<'de>>(list: A) -> Option<Result<Self, A::Error>> {
        let amounts = Vec::<Amount>::deserialize(SeqAccessDeserializer::new(list));
        let text = |amount| match amount {
            Amount::Number(number) => number.to_string(),
            Amount::Text(text) => text,
        };
        Some(amounts.map(|amounts| Statuses(amounts.into_iter().map(text).collect())))
    }
}

impl Shape for Headers {
    const EXPECTED: &'static str =
        "a table of fields, or a list of tables with `set`, `default`, `add`, `remove`, `keep` and `status`";

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(BTreeMap::deserialize(MapAccessDeserializer::new(map)).map(Headers::Fields))
    }

    fn of_list<'de, A: SeqAccess<'de>>(list: A) -> Option<Result<Self, A::Error>> {
        Some(Vec::deserialize(SeqAccessDeserializer::new(list)).map(Headers::Tables))
    }
}

impl Shape for RespondValue {
    const EXPECTED: &'static str = "a status as in 410, a table as in { status = 410, text = \"gone\" }, or false";

    fn of_bool(is: bool) -> Option<Self> {
        (!is).then_some(RespondValue::Off)
    }

    fn of_number(number: i64) -> Option<Self> {
        Some(RespondValue::Status(number))
    }

    fn of_list<'de, A: SeqAccess<'de>>(_: A) -> Option<Result<Self, A::Error>> {
        None
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(RespondTable::deserialize(MapAccessDeserializer::new(map)).map(RespondValue::Table))
    }
}

impl Shape for AccessValue {
    const EXPECTED: &'static str = "a table as in { users = [\"*\"] }, a list of such tables, \"deny\" or \"anyone\"";

    fn of_texts(mut texts: Vec<String>) -> Option<Self> {
        (texts.len() == 1).then(|| AccessValue::Word(texts.remove(0)))
    }

    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Option<Result<Self, A::Error>> {
        Some(Box::deserialize(MapAccessDeserializer::new(map)).map(AccessValue::One))
    }

    fn of_list<'de, A: SeqAccess<'de>>(list: A) -> Option<Result<Self, A::Error>> {
        Some(Vec::deserialize(SeqAccessDeserializer::new(list)).map(AccessValue::Several))
    }
}

macro_rules! read_by_shape {
    ($($name:ident $(<$parameter:ident>)?),*) => {$(
        impl<'de $(, $parameter: DeserializeOwned)?> Deserialize<'de> for $name $(<$parameter>)? {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ShapeVisitor(PhantomData))
            }
        }
    )*};
}

read_by_shape!(
    TextsOr<T>,
    SwitchOr<T>,
    SwitchOrAmount,
    Value,
    FieldValue,
    FilterStep,
    Statuses,
    Headers,
    RespondValue,
    AccessValue
);
