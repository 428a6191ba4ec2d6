//! A configuration file as JSON Schema (2020-12), for editors: completion, and mistakes under the cursor.
//!
//! Owns: the schema. The keys at the top come from the rows of `setting`, those of routes from the rows of `route`;
//! those of sites are written beside the reader. Tests hold it against the reader: every key of one is a key of the
//! other, and values within and beyond what the schema permits are read and refused. It says less than the reader:
//! whether a directory is there, or what two keys have to do with each other, only the reader knows.

pub(crate) mod values;

use serde_json::{Map, Value, json};

use super::limits::LIMITS;
use super::route;
use super::setting::{Kind, SETTINGS, Setting, Unit};
use values::{bytes, list_of, names, number, or_auto, pattern, several, switch, table, text};

/// The schema.
pub fn schema() -> Value {
    let mut keys = keys(SETTINGS);
    let limits = table(self::keys(&LIMITS), &[], "What a peer may use or keep waiting");
    keys.insert("limits".to_owned(), limits);
    keys.insert("service".to_owned(), list_of(filter_service()));
    keys.insert("site".to_owned(), list_of(site()));
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
        Kind::List { .. } => list_of(text(setting.text)),
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
        ("filters", route::filters_schema("The filters that it stands for")),
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

fn site() -> Value {
    let values = json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] });
    let keys = [
        ("hosts", list_of(text("A host name without port, *.NAME for all below, or an address"))),
        ("root", text("The directory that is served")),
        ("index", list_of(text("A file that is tried for a directory"))),
        ("browse", switch("List directories without an index file")),
        ("live_reload", switch("Pages load themselves again when files change")),
        ("hints", switch("Learn from requests what is asked for next")),
        ("early_hints", switch("Tell clients what a page needs before it is there: 103 Early Hints")),
        ("early_hints_http1", switch("The same over HTTP/1.1, to clients that say that they navigate")),
        (
            "early_hints_waste_percent_max",
            number(&super::early_hints::PERCENT, "Of the bytes hinted, how many may be hinted in vain"),
        ),
        (
            "early_hints_probability_percent_min",
            number(
                &super::early_hints::PERCENT,
                "In so many of the views of a page something has to be asked for to be hinted",
            ),
        ),
        (
            "link_prefetch",
            switch("Tell clients which page is likely to be next, so that they fetch it ahead: Link with rel=prefetch"),
        ),
        (
            "link_prefetch_waste_percent_max",
            number(&super::early_hints::PERCENT, "Of the bytes fetched ahead, how many may be fetched in vain"),
        ),
        (
            "link_prefetch_probability_percent_min",
            number(
                &super::early_hints::PERCENT,
                "After so many of the views of a page another has to be shown to be fetched ahead",
            ),
        ),
        ("upload", switch("Let clients store files")),
        ("upload_bytes_max", bytes(&super::site::UPLOAD_BYTES, "Bytes of one upload; more are refused")),
        ("upload_resume_s", number(&super::site::RESUME_S, "Seconds that a part of an upload is kept; 0 for no parts")),
        ("upload_resume_bytes_max", bytes(&super::site::UPLOAD_BYTES, "Bytes of all uploads that are kept in part")),
        ("delete", switch("Let clients delete files and empty directories")),
        ("mkdir", switch("Let clients make directories")),
        ("access", route::access_schema()),
        (
            "users",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "By name: the hash of a password, as `lamna hash-password` prints it" }),
        ),
        ("users_file", text("A file of lines NAME:HASH with further users")),
        (
            "tokens",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "By name: the hash of a token, as `lamna hash-password --token` prints it" }),
        ),
        ("spa", switch("Answer paths that are not found with the index file of the root")),
        ("user_directory", text("Directory beneath a home directory that is served as /~user/")),
        ("certificate", text("Certificate in PEM, followed by those that lead to one that clients know")),
        ("key", text("Private key of the certificate, in PEM")),
        ("client_ca", text("Certificates in PEM, of which one must have signed that of every client")),
        (
            "client_certificates",
            json!({ "enum": ["required", "optional"], "description": "Whether clients need a certificate; required if it is left out" }),
        ),
        (
            "tls",
            json!({
                "enum": ["auto", "local"],
                "description": "A certificate that is ordered by ACME, or one of a certificate authority of this machine",
            }),
        ),
        (
            "headers",
            json!({ "type": "object", "additionalProperties": values, "description": "Further fields of every response" }),
        ),
        (
            "error_pages",
            json!({
                "type": "object",
                "patternProperties": { "^[45][0-9][0-9]$": { "type": "string", "pattern": "^/" } },
                "additionalProperties": false,
                "description": "By status: the path of the page, beneath the root",
            }),
        ),
        ("redirect", list_of(redirect())),
        ("alias", list_of(alias())),
        ("limit", list_of(limit())),
        ("rule_files", switch("Read _headers and _redirects in the root as routes")),
        ("route", list_of(route())),
    ];
    table(keys, &[], "What is served for a set of host names")
}

fn redirect() -> Value {
    let mut keys = Map::new();
    keys.insert("from".to_owned(), pattern("^/", "The decoded path; with a * at its end all that begin so"));
    keys.insert("to".to_owned(), pattern("^(/|https?://)", "Where to; a * at its end is what * in from stands for"));
    keys.insert(
        "status".to_owned(),
        json!({ "enum": [301, 302, 303, 307, 308], "description": "301 unless it is given" }),
    );
    table(keys, &["from", "to"], "Requests for a path go elsewhere")
}

fn route() -> Value {
    let values = |description: &str| json!({ "type": "object", "description": description });
    let matches = [
        ("path", several("Patterns of the decoded path")),
        ("regex", several("Regular expressions over the decoded path")),
        ("method", several("Methods, in capitals")),
        ("host", list_of(text("A host name"))),
        ("header", values("Fields: true, false, texts, or { regex = \"...\" }")),
        ("query", values("Parameters of the query: values as for header")),
        ("client", several("Networks of clients")),
        ("protocol", several("HTTP/1.0 or HTTP/1.1")),
        ("not", values("What must not fit: a table as `match`, without paths")),
    ];
    let mut keys = route::schemas();
    keys.extend([
        ("match", json!({ "anyOf": [text(""), list_of(text("")), table(matches, &[], "What has to fit, all of it")] })),
        ("priority", json!({ "type": "integer", "description": "Routes with a greater one count first" })),
    ]);
    table(keys, &["match"], "What applies to some requests only")
}

fn alias() -> Value {
    let mut keys = Map::new();
    keys.insert("prefix".to_owned(), pattern("^/(.*/)?$", "Starts and ends with /"));
    keys.insert("root".to_owned(), text("The directory that stands for it"));
    table(keys, &["prefix", "root"], "A path that is served from elsewhere")
}

fn limit() -> Value {
    let mut keys = Map::new();
    keys.insert("path".to_owned(), pattern("^/", "What the decoded paths begin with; / unless it is given"));
    keys.insert("requests".to_owned(), pattern(RATE, "How much each client network may ask for, as in 5/m burst 10"));
    keys.insert("bytes".to_owned(), pattern(VOLUME, "How much each client network may get, as in 10GB/d burst 20GB"));
    keys.insert(
        "bandwidth".to_owned(),
        pattern(BANDWIDTH, "How fast each connection gets it, as in 500kB/s after 5MB"),
    );
    keys.insert(
        "shared_bandwidth".to_owned(),
        pattern(SHARED_BANDWIDTH, "How fast all connections get it together that are counted together, as in 5MB/s"),
    );
    let key = "^(network|user|header:[0-9A-Za-z_-]+)$";
    keys.insert(
        "key".to_owned(),
        pattern(
            key,
            "Who is counted together: network, user, or a field as in header:X-Api-Key; network unless it is given",
        ),
    );
    table(keys, &[], "How much clients may take")
}

/// The texts that `lamna_policy::limit::Rate` reads.
const RATE: &str = "^(off|[0-9]+/[smh]( burst [0-9]+)?)$";

/// The texts that `lamna_policy::volume::Volume` and `Bandwidth` read.
const VOLUME: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/[smhd]( burst [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";
const BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

/// The same for all together, of which nothing comes as fast as it can first.
const SHARED_BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after 0+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

#[cfg(test)]
mod tests;
