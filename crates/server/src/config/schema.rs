//! A configuration file as JSON Schema (2020-12), for editors: completion, and mistakes under the cursor.
//!
//! Owns: the schema. The keys at the top come from the rows of `setting`; those of sites are written beside the reader. Tests hold it
//! against the reader: every key of one is a key of the other, and values within and beyond what the schema permits are read and refused. It says less than the reader: whether a directory is
//! there, or what two keys have to do with each other, only the reader knows.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::limits::LIMITS;
use super::route::bounds;
use super::setting::{Kind, SETTINGS, Setting, Unit};

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
        ("filters", filters("The filters that it stands for")),
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
    let keys = keys.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    table(keys, &["name"], "What routes name as a filter, and what can be exchanged while the server serves")
}

/// A list of filters.
fn filters(description: &str) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": { "anyOf": [text(""), { "type": "object", "required": ["name"], "additionalProperties": { "type": "string" } }] },
    })
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
        ("access", access()),
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
    let keys = keys.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
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
    let several = |description: &str| json!({ "anyOf": [text(""), list_of(text(""))], "description": description });
    let values = |description: &str| json!({ "type": "object", "description": description });
    let of = |pairs: Vec<(&str, Value)>| -> Map<String, Value> {
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let matches = of(vec![
        ("path", several("Patterns of the decoded path")),
        ("regex", several("Regular expressions over the decoded path")),
        ("method", several("Methods, in capitals")),
        ("host", list_of(text("A host name"))),
        ("header", values("Fields: true, false, texts, or { regex = \"...\" }")),
        ("query", values("Parameters of the query: values as for header")),
        ("client", several("Networks of clients")),
        ("protocol", several("HTTP/1.0 or HTTP/1.1")),
        ("not", values("What must not fit: a table as `match`, without paths")),
    ]);
    let cors = of(vec![
        ("origins", several("Who may read")),
        ("methods", several("What a preflight is told")),
        ("headers", several("Fields that requests may have")),
        ("expose", several("Fields that scripts may read")),
        ("credentials", switch("Whether requests may carry cookies")),
        ("max_age_s", number(&bounds::SECONDS, "How long browsers remember a preflight")),
    ]);
    let keys = of(vec![
        ("match", json!({ "anyOf": [text(""), list_of(text("")), table(matches, &[], "What has to fit, all of it")] })),
        ("priority", json!({ "type": "integer", "description": "Routes with a greater one count first" })),
        (
            "headers",
            json!({ "type": ["object", "array"], "description": "Fields that are set, or tables that say more" }),
        ),
        (
            "immutable",
            json!({ "enum": [true, false, "all"], "description": "Whether caches may keep files for a year" }),
        ),
        ("redirect", json!({ "type": ["string", "object", "boolean"], "description": "Where to, or false" })),
        ("rewrite", json!({ "type": ["string", "boolean"], "description": "The path that is looked for, or false" })),
        ("try", several("Paths that are tried in turn")),
        ("index", list_of(text("A file that is tried for a directory"))),
        ("error_pages", values("By status: the path of the page, beneath the root")),
        (
            "proxy",
            json!({
                "anyOf": [
                    { "type": "boolean", "const": false },
                    text("Where the application is, as in http://127.0.0.1:3000 or unix:/run/app.sock"),
                    table(gateway(), &["to"], "Where the application is, and how it is asked"),
                ],
            }),
        ),
        (
            "fastcgi",
            json!({
                "anyOf": [
                    { "type": "boolean", "const": false },
                    text("Where the application is, as in unix:/run/php/php-fpm.sock or 127.0.0.1:9000"),
                    table(gateway(), &["to"], "Where the application is, how it is asked, and which files it runs"),
                ],
            }),
        ),
        ("cgi", json!({ "anyOf": [switch(""), table(cgi(), &[], "Files that are programs, and what they may take")] })),
        (
            "cache",
            json!({ "anyOf": [switch(""), table(answer_cache(), &[], "Whether the answers of the application are kept, and how")] }),
        ),
        ("cors", json!({ "anyOf": [switch(""), table(cors, &[], "What pages of other origins may do")] })),
        (
            "filters",
            filters(
                "What files and answers of applications pass through, one filter after the other: its name, or a table with `name` and its parameters",
            ),
        ),
        ("search", switch("Whether the pages of folders are searched with ?q=")),
        ("early_hints", switch("Whether clients are told what pages need before these are there")),
        ("link_prefetch", switch("Whether pages there may be fetched ahead; true: those of applications as well")),
        (
            "structured",
            json!({
                "description": "Whether clients may ask for an overview of a page and for its sections",
                "anyOf": [
                    { "type": "boolean", "const": true },
                    table(structured(), &[], "Who else is given the overview"),
                ],
            }),
        ),
        ("upload", switch("Whether clients may store files")),
        ("delete", switch("Whether clients may delete files and empty directories")),
        ("mkdir", switch("Whether clients may make directories")),
        ("access", access()),
    ]);
    table(keys, &["match"], "What applies to some requests only")
}

/// Who may do what.
fn access() -> Value {
    let names = |what: &str| json!({ "anyOf": [text(""), list_of(text(""))], "description": what });
    let keys = [
        ("actions", json!({ "type": "array", "items": { "enum": super::access::ACTIONS } })),
        ("anyone", switch("Anybody may")),
        ("users", names("Users who may, with their passwords; * for all")),
        ("tokens", names("Tokens that may; * for all")),
        ("certificates", names("Subjects of clients' certificates that may, as in CN=ada,O=Example; * for all")),
        (
            "service",
            table(service(), &["to", "path"], "A service that is asked about each request whether it is let in"),
        ),
        ("allow", names("Networks of clients that may")),
        ("deny", names("Networks of clients that may not")),
    ];
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Map<String, Value>>();
    let rule = table(keys, &[], "Who may do what");
    json!({ "anyOf": [rule, { "type": "array", "items": rule }] })
}

/// How CGI programs are run.
fn cgi() -> Map<String, Value> {
    let keys = [
        ("extensions", list_of(text("What the names of programs end with, as in pl; without any, every file is one"))),
        ("index", list_of(text("A program that stands for a directory"))),
        (
            "interpreters",
            json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": "By the end of a name: the program that runs such files" }),
        ),
        ("programs_max", number(&bounds::PROGRAMS, "How many of them run at once")),
        ("time_max_ms", number(&bounds::TIME_MS, "How long one may run")),
        ("output_bytes_max", bytes(&bounds::BYTES_SOME, "What one may write")),
        ("body_bytes_max", bytes(&bounds::BYTES_SOME, "What one may be sent")),
        ("socket", text("Where the server speaks with the process that runs programs")),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A service that says who is let in.
fn service() -> Map<String, Value> {
    let of_gateway = ["to", "host", "connect_timeout_ms", "timeout_ms", "ca", "server_name", "verify"];
    let mut keys: Map<String, Value> =
        gateway().into_iter().filter(|(key, _)| of_gateway.contains(&key.as_str())).collect();
    let names = "Fields of its answer that the application gets, and that no client can say";
    let further = [
        ("path", text("What it is asked for, as in /api/verify")),
        ("fields", json!({ "anyOf": [text(""), list_of(text(""))], "description": names })),
        ("user", text("The field of its answer that names the user, for the log and REMOTE_USER")),
    ];
    keys.extend(further.map(|(key, value)| (key.to_owned(), value)));
    keys
}

/// An application that answers the requests of a route.
fn gateway() -> Map<String, Value> {
    let places = "Where the application is: one place, or several that share the requests";
    let keys = [
        ("to", json!({ "anyOf": [text(""), list_of(text(""))], "description": places })),
        ("weights", list_of(number(&bounds::WEIGHT, "Its share of the requests; 0 for a spare"))),
        ("host", text("What Host says, in place of what the client asked for")),
        ("connect_timeout_ms", number(&bounds::TIME_MS, "How long a connection to it may take")),
        ("timeout_ms", number(&bounds::TIME_MS, "How long nothing may come from it")),
        (
            "websocket_timeout_ms",
            number(&bounds::TIME_MS, "How long nothing may pass over a WebSocket, in either direction"),
        ),
        ("body_bytes_max", bytes(&bounds::BYTES, "What it is sent at most")),
        (
            "buffer",
            json!({
                "anyOf": [
                    switch("Whether content is kept until it is whole"),
                    bytes(&bounds::MEMORY_BYTES, "How much of it in memory; the rest is in a file"),
                ],
            }),
        ),
        ("buffer_directory", text("The file system of such files")),
        (
            "check",
            json!({ "anyOf": [text(""), { "const": false }, check()], "description": "How places are asked whether they are well" }),
        ),
        (
            "send_proxy",
            json!({ "enum": ["v1", "v2"], "description": "Tells the application the client by the PROXY protocol" }),
        ),
        ("ca", text("A file with the certificates, in PEM, that have signed that of the application (https)")),
        ("server_name", text("What the application's certificate names (https)")),
        ("verify", switch("Whether the application's certificate is looked at (https)")),
        (
            "extensions",
            json!({ "anyOf": [text(""), list_of(text(""))], "description": "Of files that it runs (fastcgi)" }),
        ),
        (
            "index",
            json!({ "anyOf": [text(""), list_of(text(""))], "description": "Scripts for directories (fastcgi)" }),
        ),
        (
            "command",
            json!({
                "anyOf": [text(""), list_of(text(""))],
                "description": "The program and its arguments, if the server is to start the application",
            }),
        ),
        (
            "instances",
            json!({
                "anyOf": [number(&bounds::INSTANCES, ""), { "const": "auto" }],
                "description": "How many processes of command there are; auto for fastcgi",
            }),
        ),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How the places of an application are asked whether they are well.
fn check() -> Value {
    let status = json!({ "anyOf": [{ "type": "integer", "minimum": 200, "maximum": 599 }, pattern("^([2-5]xx|[2-5][0-9][0-9])$", "")] });
    let keys = [
        ("path", pattern("^/", "What is asked for")),
        ("interval_ms", number(&bounds::INTERVAL_MS, "How long from one to the next")),
        ("timeout_ms", number(&bounds::TIME_MS, "How long an answer may take")),
        (
            "status",
            json!({ "anyOf": [status, list_of(status.clone())], "description": "What a place that is well answers" }),
        ),
        ("passes", number(&bounds::TIMES, "How often it is well before it is asked again")),
        ("misses", number(&bounds::TIMES, "How often it is not before it is not asked any more")),
    ];
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    table(keys, &["path"], "How places are asked whether they are well")
}

/// How answers are kept.
fn answer_cache() -> Map<String, Value> {
    let names = |what: &str| json!({ "anyOf": [text(""), list_of(text(""))], "description": what });
    let seconds = |what: &str| number(&bounds::SECONDS, what);
    let keys = [
        ("fresh_s", seconds("Seconds for which an answer is fresh that does not say so itself")),
        ("stale_if_error_s", seconds("Seconds of staleness for which an answer is used while the application fails")),
        ("bytes_max", bytes(&bounds::ANSWER_BYTES, "Of the largest answer that is kept")),
        ("ignore_query", names("Parameters of queries that do not tell answers apart, as in utm_*")),
        ("ignore_cookies", names("Cookies that do not tell clients apart, as in _ga*")),
        ("ignore_reload", switch("What requests say about caches does not matter")),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// `structured` of a route.
fn structured() -> Map<String, Value> {
    [("save_data".to_owned(), switch("Clients that save data (Save-Data: on) are given the overview"))]
        .into_iter()
        .collect()
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

fn table(keys: Map<String, Value>, required: &[&str], description: &str) -> Value {
    json!({
        "type": "object",
        "properties": keys,
        "required": required,
        "additionalProperties": false,
        "description": description,
    })
}

fn list_of(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn pattern(pattern: &str, description: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": description })
}

fn switch(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

fn names(names: &[&str], description: &str) -> Value {
    json!({ "enum": names, "description": description })
}

fn number(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end(), "description": description })
}

fn or_auto(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() });
    json!({ "anyOf": [{ "const": "auto" }, number], "description": description })
}

fn bytes(bounds: &RangeInclusive<u64>, description: &str) -> Value {
    let number = json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() });
    json!({ "anyOf": [number, { "type": "string", "pattern": SIZE }], "description": description })
}

/// What `lamna_policy::limit::Rate` reads.
const RATE: &str = "^(off|[0-9]+/[smh]( burst [0-9]+)?)$";

/// What `lamna_policy::volume::Volume` and `Bandwidth` read.
const VOLUME: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/[smhd]( burst [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";
const BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after [0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

/// The same for all together, of which nothing comes as fast as it can first.
const SHARED_BANDWIDTH: &str =
    "^(off|[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?/s( after 0+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?)?)$";

/// What `lamna_policy::size::parse_size` reads.
const SIZE: &str = "^[0-9]+ *([Bb]|[KkMmGgTt]([Ii]?[Bb])?)?$";

#[cfg(test)]
mod tests {
    use super::super::file::KEYS;
    use super::super::parse;
    use super::super::setting::manual;
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn properties(table: &Value) -> impl Iterator<Item = (&str, &Value)> {
        table["properties"].as_object().expect("a table").iter().map(|(name, value)| (&**name, value))
    }

    /// Whether the reader objects to `key = value` behind the lines `before`. Whether files are there does not matter.
    fn is_refused(before: &str, key: &str, value: &str, root: &Path) -> bool {
        let site = if before.contains("[[site]]") { "" } else { "[[site]]\nroot = \".\"\n" };
        let text = format!("{before}{key} = {value}\n{site}");
        let line = before.lines().count() + 1;
        let read = parse(&text, &root.join("lamna.toml"));
        read.is_err_and(|error| error.to_string().contains(&format!("lamna.toml:{line}:")))
    }

    /// Values in TOML that a part of the schema permits, and those that it does not.
    fn probes(schema: &Value) -> (Vec<String>, Vec<String>) {
        if let Some(alternatives) = schema["anyOf"].as_array() {
            let (mut right, _): (Vec<_>, Vec<_>) = alternatives.iter().map(probes).unzip();
            if alternatives.iter().any(|one| one["pattern"] == SIZE) {
                let most = alternatives[0]["maximum"].as_u64().expect("a size has bounds");
                right.push(vec![
                    format!("\"{} KiB\"", most >> 10),
                    format!("\"{}k\"", most >> 10),
                    format!("\"{most}B\""),
                ]);
            }
            let takes = |kind: &str| alternatives.iter().any(|one| one["type"] == kind && one["pattern"].is_null());
            let beyond = alternatives.iter().filter_map(|one| one["maximum"].as_u64());
            let mut wrong: Vec<String> = beyond.map(|most| (u128::from(most) + 1).to_string()).collect();
            let others = [("boolean", "true"), ("string", "\"nonsense\""), ("", "-1"), ("", "1.5")];
            wrong.extend(others.iter().filter(|(kind, _)| !takes(kind)).map(|(_, value)| (*value).to_owned()));
            return (right.concat(), wrong);
        }
        if let Some(names) = schema["enum"].as_array() {
            let right = names.iter().map(ToString::to_string).collect();
            return (right, vec!["\"nonsense\"".into(), "true".into(), "1.5".into()]);
        }
        if let Some(name) = schema.get("const") {
            return (vec![name.to_string()], vec!["\"nonsense\"".into()]);
        }
        match (schema["type"].as_str(), schema["pattern"].as_str()) {
            (Some("boolean"), _) => (vec!["true".into(), "false".into()], vec!["1".into(), "\"true\"".into()]),
            (Some("integer"), _) => {
                let (least, most) = (schema["minimum"].as_u64().unwrap(), schema["maximum"].as_u64().unwrap());
                let beneath = least.checked_sub(1).map_or_else(|| "-1".to_owned(), |one| one.to_string());
                (
                    vec![least.to_string(), most.to_string()],
                    vec![(u128::from(most) + 1).to_string(), beneath, "\"1\"".into(), "true".into()],
                )
            }
            (Some("string"), Some(SIZE)) => (vec![], vec![]),
            (Some("string"), Some(RATE)) => (
                ["off", "1/s", "300/m burst 7"].map(|rate| format!("\"{rate}\"")).to_vec(),
                vec!["\"1/d\"".into(), "\"\"".into(), "1".into()],
            ),
            (Some("string"), Some(VOLUME)) => (
                ["off", "1GB/d", "300MiB/m burst 7GB"].map(|volume| format!("\"{volume}\"")).to_vec(),
                vec!["\"1GB/w\"".into(), "\"\"".into(), "1".into()],
            ),
            (Some("string"), Some(BANDWIDTH)) => (
                ["off", "1MB/s", "300KiB/s after 7GB"].map(|bandwidth| format!("\"{bandwidth}\"")).to_vec(),
                vec!["\"1MB/m\"".into(), "\"1XB/s\"".into(), "\"\"".into(), "1".into()],
            ),
            (Some("string"), Some(SHARED_BANDWIDTH)) => (
                ["off", "1MB/s", "300KiB/s after 0"].map(|bandwidth| format!("\"{bandwidth}\"")).to_vec(),
                vec!["\"1MB/s after 7GB\"".into(), "\"1MB/m\"".into(), "\"\"".into()],
            ),
            (Some("string"), Some(pattern)) if pattern.starts_with("^(off|") => {
                let names = pattern.trim_start_matches("^(off|(").split(')').next().unwrap().replace('|', ", ");
                (vec!["\"off\"".into(), format!("\"{names}\"")], vec!["\"nonsense\"".into(), "1".into()])
            }
            (Some("string"), _) => (vec![], vec!["1".into(), "true".into(), "[]".into()]),
            (Some("array"), _) => (vec![], vec!["1".into(), "\"1\"".into(), "[1]".into()]),
            (Some("object"), _) => (vec![], vec!["1".into(), "[1]".into()]),
            other => panic!("{other:?} of {schema}"),
        }
    }

    #[test]
    fn the_schema_and_the_reader_have_the_same_keys() {
        let schema = schema();
        let site = &schema["properties"]["site"]["items"];
        let inner = |key: &str| &site["properties"][key]["items"];
        let route = inner("route");
        let (matches, cors) = (&route["properties"]["match"]["anyOf"][2], &route["properties"]["cors"]["anyOf"][1]);
        let cache = &route["properties"]["cache"]["anyOf"][1];
        let service = &schema["properties"]["service"]["items"];
        let structured = &route["properties"]["structured"]["anyOf"][1];
        let [redirect, alias, limit] = ["redirect", "alias", "limit"].map(inner);
        let tables = [&schema, service, site, redirect, alias, limit, route, matches, cors, cache, structured];
        let known: BTreeSet<&str> =
            KEYS.iter().flat_map(|(_, keys)| keys.iter().copied()).chain(["limits", "service", "site"]).collect();
        let told: BTreeSet<&str> = tables.iter().flat_map(|table| properties(table).map(|(name, _)| name)).collect();
        assert_eq!(told, known);
        let limits: Vec<&str> = properties(&schema["properties"]["limits"]).map(|(name, _)| name).collect();
        assert_eq!(limits.len(), LIMITS.len());
    }

    #[test]
    fn the_reader_takes_what_the_schema_permits_and_refuses_what_it_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema();
        let (limits, site) = (&schema["properties"]["limits"], &schema["properties"]["site"]["items"]);
        for (before, table) in [("", &schema), ("[limits]\n", limits), ("[[site]]\nroot = \".\"\n", site)] {
            for (key, value) in properties(table).filter(|(key, _)| !["limits", "site", "root"].contains(key)) {
                let (right, wrong) = probes(value);
                for value in right {
                    // The target is a part of the head: each bound is within its own, and they may contradict each other. Clients'
                    // certificates need somebody who signs them.
                    let is_of_two = ["head_bytes_max", "target_bytes_max", "client_certificates"].contains(&key);
                    assert!(is_of_two || !is_refused(before, key, &value, directory.path()), "{key} = {value}");
                }
                for value in wrong {
                    assert!(is_refused(before, key, &value, directory.path()), "{key} = {value}");
                }
            }
        }
        assert!(is_refused("", "nonsense", "1", directory.path()), "as additionalProperties says");
    }

    /// Values at and beyond the bounds of every key of the tables within a route, of a limit and of a service.
    #[test]
    fn the_reader_has_the_bounds_of_the_schema_in_every_table() {
        let directory = tempfile::tempdir().unwrap();
        let schema = schema();
        let site = &schema["properties"]["site"]["items"]["properties"];
        let route = &site["route"]["items"]["properties"];
        let table_of = |value: &'_ Value| -> Value {
            let is_table = |one: &&Value| one["properties"].is_object();
            value["anyOf"].as_array().into_iter().flatten().chain([value]).find(is_table).expect("a table").clone()
        };
        let to = "to = \"http://127.0.0.1:9\", ";
        let check = table_of(&table_of(&route["proxy"])["properties"]["check"]);
        let service = table_of(&table_of(&route["access"])["properties"]["service"]);
        let head = "[[site]]\nroot = \".\"\n";
        let in_route = format!("{head}[[site.route]]\nmatch = \"/a\"\n");
        let with_proxy = format!("{in_route}proxy = \"http://127.0.0.1:9\"\n");
        let tables: [(String, String, Value, &str); 9] = [
            (in_route.clone(), format!("proxy = {{ {to}"), table_of(&route["proxy"]), " }"),
            (in_route.clone(), "fastcgi = { to = \"127.0.0.1:9\", ".to_owned(), table_of(&route["fastcgi"]), " }"),
            (in_route.clone(), "cgi = { ".to_owned(), table_of(&route["cgi"]), " }"),
            (with_proxy, "cache = { ".to_owned(), table_of(&route["cache"]), " }"),
            (
                in_route.clone(),
                "cors = { origins = \"https://a.example\", headers = \"X-A\", ".to_owned(),
                table_of(&route["cors"]),
                " }",
            ),
            (in_route.clone(), format!("proxy = {{ {to}check = {{ path = \"/\", "), check, " } }"),
            (in_route.clone(), format!("access = {{ service = {{ {to}path = \"/\", "), service, " } }"),
            (format!("{head}[[site.limit]]\nrequests = \"1/s\"\n"), String::new(), site["limit"]["items"].clone(), ""),
            (
                "[[service]]\nname = \"x\"\nwasm = \"a.wasm\"\n".to_owned(),
                String::new(),
                schema["properties"]["service"]["items"].clone(),
                "",
            ),
        ];
        // Each asks for something else beside it, and is judged with that: places, files, TLS, a command.
        let depends = [
            "to",
            "path",
            "weights",
            "ca",
            "server_name",
            "verify",
            "command",
            "instances",
            "buffer_directory",
            "extensions",
            "index",
            "socket",
            "send_proxy",
            "host",
            "user",
            "fields",
            "interpreters",
            "name",
            "filters",
            "native",
            "wasm",
            "gateway",
            "suspended",
            "requests",
            "on_failure",
            "parameters",
            "origins",
            "methods",
            "headers",
            "expose",
            "check",
            "status",
            "buffer",
        ];
        let mut asked = 0;
        for (before, open, table, close) in tables {
            for (key, value) in properties(&table).filter(|(key, _)| !depends.contains(key)) {
                let (right, wrong) = probes(value);
                let is_refused = |value: &str| {
                    is_refused(&before, &format!("{open}{key}"), &format!("{value}{close}"), directory.path())
                };
                right.iter().for_each(|value| assert!(!is_refused(value), "{open}{key} = {value}"));
                wrong.iter().for_each(|value| assert!(is_refused(value), "{open}{key} = {value}"));
                asked += right.len() + wrong.len();
            }
        }
        assert!(asked > 150, "{asked}");
        // What is left of these has bounds as well.
        let refused = |lines: &str| is_refused(&in_route, "proxy", lines, directory.path());
        for (value, is_wrong) in [("0", false), ("1000000", false), ("1000001", true), ("-1", true)] {
            let places = format!("{{ to = [\"http://127.0.0.1:9\", \"http://127.0.0.1:8\"], weights = [1, {value}] }}");
            assert_eq!(refused(&places), is_wrong, "{value}");
        }
        for (value, is_wrong) in
            [("true", false), ("67108864", false), ("\"64MiB\"", false), ("67108865", true), ("-1", true)]
        {
            assert_eq!(refused(&format!("{{ {to}buffer = {value} }}")), is_wrong, "{value}");
        }
        for (value, is_wrong) in
            [("200", false), ("[\"2xx\", 404]", false), ("199", true), ("600", true), ("\"6xx\"", true)]
        {
            assert_eq!(
                refused(&format!("{{ {to}check = {{ path = \"/\", status = {value} }} }}")),
                is_wrong,
                "{value}"
            );
        }
    }

    #[test]
    fn the_schema_that_editors_get_is_this_one() {
        assert!(manual::holds("lamna.schema.json", |_| format!("{:#}\n", schema())), "{}", manual::WRITE);
    }
}
