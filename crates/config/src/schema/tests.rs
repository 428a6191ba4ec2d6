//! That the schema for editors and the reader agree: keys, and values within and beyond what is permitted.

use super::super::file::KEYS;
use super::super::parse;
use super::super::setting::manual;
use super::values::{BANDWIDTH, RATE, SHARED_BANDWIDTH, SIZE, VOLUME};
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
            right.push(vec![format!("\"{} KiB\"", most >> 10), format!("\"{}k\"", most >> 10), format!("\"{most}B\"")]);
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
    let listener = &schema["properties"]["listen"]["items"]["anyOf"][1];
    let tables = [&schema, listener, service, site, redirect, alias, limit, route, matches, cors, cache, structured];
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
                // The target is a part of the head: each bound is within its own, and they may contradict each other.
                // Clients' certificates need somebody who signs them.
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
        "resolve_root",
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
        assert_eq!(refused(&format!("{{ {to}check = {{ path = \"/\", status = {value} }} }}")), is_wrong, "{value}");
    }
}

#[test]
fn the_schema_that_editors_get_is_this_one() {
    assert!(manual::holds("lamna.schema.json", |_| format!("{:#}\n", schema())), "{}", manual::WRITE);
}
