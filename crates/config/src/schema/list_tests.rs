//! That the schema and the reader agree about lists: which may be empty, and which may be one text.

use serde_json::Value;

use super::super::{parse_unseen, shapes};
use super::schema;
use std::path::Path;

/// A list, or a table of conditions, as the schema has it.
struct Place {
    /// Its keys, from the top.
    path: String,
    /// The description that is nearest.
    description: String,
    /// Whether it is a list.
    is_list: bool,
    /// Whether it must not be empty.
    is_filled: bool,
    /// Whether its elements are texts.
    has_texts: bool,
    /// Whether it may be one text in place of the list.
    is_text: bool,
    /// The beginning and the end of a file that gives it.
    around: (String, String),
}

impl Place {
    fn with(&self, value: &str) -> String {
        format!("{}{value}{}\n", self.around.0, self.around.1)
    }

    fn key(&self) -> &str {
        self.path.rsplit('.').next().unwrap()
    }
}

fn is_text(schema: &Value) -> bool {
    let names = schema["enum"].as_array().is_some_and(|names| names.iter().any(Value::is_string));
    names || schema["type"] == "string" || schema["anyOf"].as_array().is_some_and(|all| all.iter().any(is_text))
}

fn is_of(schema: &Value, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|kinds| kinds.iter().any(|one| one == kind))
}

/// The lists and tables of `schema`, which is the value of the last key of `path`.
fn places(path: &str, schema: &Value, above: (&str, bool), around: &(String, String), found: &mut Vec<Place>) {
    let own = schema["description"].as_str().unwrap_or_default();
    let (above, may_be_text) = above;
    let description = if own.is_empty() { above } else { own };
    let within = |before: &str, behind: &str| (format!("{}{before}", around.0), format!("{behind}{}", around.1));
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        places(path, one, (description, may_be_text || is_text(schema)), around, found);
    }
    let place = |is_list: bool, least: &str| Place {
        path: path.to_owned(),
        description: description.to_owned(),
        is_list,
        is_filled: schema[least] == 1,
        has_texts: is_list && is_text(&schema["items"]),
        is_text: may_be_text || is_of(schema, "string"),
        around: around.clone(),
    };
    if is_of(schema, "array") {
        found.push(place(true, "minItems"));
        places(path, &schema["items"], ("", false), &within("[", "]"), found);
    }
    if is_of(schema, "object") {
        found.push(place(false, "minProperties"));
        let further = schema["additionalProperties"].as_object().map(|_| ("X-A", &schema["additionalProperties"]));
        let named = schema["properties"].as_object().into_iter().flatten().map(|(name, value)| (&**name, value));
        for (name, value) in named.chain(further) {
            let path = format!("{path}.{name}");
            places(&path, value, ("", false), &within(&format!("{{ {name} = "), " }"), found);
        }
    }
}

fn all_places() -> Vec<Place> {
    let mut found = Vec::new();
    for (name, value) in schema()["properties"].as_object().unwrap() {
        places(name, value, ("", false), &(format!("{name} = "), String::new()), &mut found);
    }
    found
}

fn problems(text: &str) -> String {
    parse_unseen(text, Path::new("/x.toml")).map_or_else(|error| error.to_string(), |_| String::new())
}

#[test]
fn an_empty_list_is_refused_unless_the_manual_says_what_it_means() {
    let lists: Vec<Place> = all_places().into_iter().filter(|place| place.is_list).collect();
    assert!(lists.len() > 40, "{}", lists.len());
    for list in &lists {
        let (text, refusal) = (list.with("[]"), format!("the list `{}` is empty", list.key()));
        let told = problems(&text);
        assert_eq!(told.matches("is empty").count(), usize::from(list.is_filled), "{text}{told}");
        assert_eq!(told.contains(&refusal), list.is_filled, "{text}{told}");
        assert!(list.is_filled || list.description.contains("`[]`"), "{}: {}", list.path, list.description);
    }
    let mut may_be_empty: Vec<&str> = lists.iter().filter(|list| !list.is_filled).map(|list| &*list.path).collect();
    may_be_empty.sort_unstable();
    may_be_empty.dedup();
    let known = [
        "admin_hosts",
        "limit_exempt",
        "listen",
        "proxy_protocol",
        "service.filters",
        "site.application.fastcgi.extensions",
        "site.application.fastcgi.index",
        "site.application.proxy.extensions",
        "site.application.proxy.index",
        "site.application.scgi.extensions",
        "site.application.scgi.index",
        "site.application.uwsgi.extensions",
        "site.application.uwsgi.index",
        "site.index",
        "site.route.cors.headers",
        "site.route.fastcgi.extensions",
        "site.route.fastcgi.index",
        "site.route.filters",
        "site.route.index",
        "site.route.proxy.extensions",
        "site.route.proxy.index",
        "site.route.scgi.extensions",
        "site.route.scgi.index",
        "site.route.try",
        "site.route.uwsgi.extensions",
        "site.route.uwsgi.index",
        "trusted_proxies",
    ];
    assert_eq!(may_be_empty, known);
}

#[test]
fn an_empty_table_of_conditions_is_refused() {
    let tables: Vec<Place> = all_places().into_iter().filter(|place| !place.is_list).collect();
    for table in &tables {
        let (text, refusal) = (table.with("{}"), format!("the table `{}` is empty", table.key()));
        let told = problems(&text);
        assert_eq!(told.contains(&refusal), table.is_filled, "{text}{told}");
    }
    let mut filled: Vec<&str> = tables.iter().filter(|table| table.is_filled).map(|table| &*table.path).collect();
    filled.sort_unstable();
    let inner = ["header", "not", "not.header", "not.not", "not.query", "query"];
    let known: Vec<String> = inner.iter().map(|name| format!("site.route.match.{name}")).collect();
    assert_eq!(filled, [&["site.route.match".to_owned()][..], &known].concat());
}

#[test]
fn one_text_is_taken_for_a_list_where_the_schema_says_so() {
    let lists: Vec<Place> = all_places().into_iter().filter(|place| place.has_texts).collect();
    assert!(lists.iter().filter(|list| list.is_text).count() > 20);
    for list in lists {
        let findings = shapes::read(&list.with("\"x\"")).findings;
        assert_eq!(findings.is_empty(), list.is_text, "{}: {findings:?}", list.path);
    }
}
