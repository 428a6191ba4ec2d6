//! Services and orders about them, for people and for machines.
//!
//! Owns: the vocabulary of `lamna ctl service`, and the words. The supervisor of the services knows the facts.

use std::collections::BTreeMap;

use lamna_policy::words::{Align, Table, count};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The verb of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Something becomes a service that was absent, or unknown.
    Add,
    /// It is not used until it is resumed.
    Suspend,
    /// It is used again, made anew.
    Resume,
    /// It is absent from now on, and forgotten if no route names it.
    Remove,
    /// Something else becomes the service, or the same is loaded again.
    Replace,
}

impl Verb {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Add => "add",
            Verb::Suspend => "suspend",
            Verb::Resume => "resume",
            Verb::Remove => "remove",
            Verb::Replace => "replace",
        }
    }
}

/// An order about a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceOrder {
    /// The verb.
    pub verb: Verb,
    /// To which service.
    pub name: String,
    /// For `add` and `replace`: the keys of a `[[service]]` table, without its name. None for the same again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<BTreeMap<String, Value>>,
}

/// A service and how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Its kind: `filter`, `gateway`, `cache-policy` or `listener`.
    pub kind: String,
    /// How it is, in a word.
    pub state: String,
    /// A description, in words.
    pub about: String,
    /// Why it cannot be used, if it has failed.
    #[serde(default)]
    pub why: Option<String>,
    /// Which of all generations it is; none for what has none.
    #[serde(default)]
    pub generation: Option<u64>,
    /// The answer of its routes while it cannot be used.
    #[serde(default)]
    pub on_failure: Option<String>,
    /// Streams that it has begun to filter.
    #[serde(default)]
    pub runs: Option<u64>,
    /// How often it has failed.
    #[serde(default)]
    pub failures: Option<u64>,
    /// Possible orders, and how it is changed otherwise.
    pub can: String,
}

/// All services, one a line.
pub fn tell_list(services: &[ServiceStatus]) -> String {
    let mut table = Table::new(&[Align::Left; 4]);
    table.row(["service", "kind", "state", "what it is"]);
    for service in services {
        let ServiceStatus { name, kind, state, about, .. } = service;
        table.row([name, kind, state, about].map(String::as_str));
    }
    table.to_string()
}

/// One service, a fact a line.
pub fn tell_info(service: &ServiceStatus) -> String {
    let mut table = Table::default();
    let mut line = |name: &str, value: &str| table.row([name.to_owned(), value.to_owned()]);
    line("service", &service.name);
    line("kind", &service.kind);
    line("state", &service.state);
    line("is", &service.about);
    if let Some(why) = &service.why {
        line("because", why);
    }
    if let Some(generation) = service.generation {
        line("generation", &generation.to_string());
    }
    if let Some(runs) = service.runs {
        line("filtered", &count(runs as usize, "stream"));
    }
    if let Some(failures) = service.failures {
        line("failed", &count(failures as usize, "time"));
    }
    if let Some(on_failure) = &service.on_failure {
        line("on failure", on_failure);
    }
    line("can", &service.can);
    table.to_string()
}
