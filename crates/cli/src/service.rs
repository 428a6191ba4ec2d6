//! `lamna ctl service`: what can be exchanged while a server serves.
//!
//! Owns: the arguments, and from them to an order. What an order does is the server's business (`admin::services`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use lamna_server::admin::services::{ServiceOrder, ServiceStatus, Verb, tell_info, tell_list};
use serde_json::Value;

use crate::exit::{Exit, Failed};

/// The subcommands of `ctl service`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Everything that can be exchanged: filters, gateways, the cache policy, listeners
    List,
    /// One of them: what it is, how it is, and what can be done to it
    Info {
        /// Its name
        name: String,
    },
    /// Add what a route names and is absent, or what a reload will name
    Add {
        /// Its name in routes
        name: String,
        #[command(flatten)]
        definition: DefinitionArgs,
    },
    /// Use it no more until it is resumed: its routes answer as `on_failure` says
    Suspend {
        /// Its name
        name: String,
    },
    /// Use it again, made anew
    Resume {
        /// Its name
        name: String,
    },
    /// Replace it by something else; without a flag, load the same again
    Replace {
        /// Its name
        name: String,
        #[command(flatten)]
        definition: DefinitionArgs,
    },
    /// Remove it: routes that name it answer as `on_failure` says
    Remove {
        /// Its name
        name: String,
    },
}

/// The definition of a service.
#[derive(Debug, Default, Args)]
pub(crate) struct DefinitionArgs {
    /// A chain of filters: names with commas between them, or JSON as in '[{"name": "substitute", "from": "a", "to":
    /// "b"}]'
    #[arg(long, value_name = "FILTERS", conflicts_with_all = ["native", "wasm"])]
    filters: Option<String>,

    /// A shared object over lamna_filter.h
    #[arg(long, value_name = "FILE", conflicts_with = "wasm")]
    native: Option<PathBuf>,

    /// A WebAssembly component of the world in lamna_filter.wit, or a module with its exports
    #[arg(long, value_name = "FILE")]
    wasm: Option<PathBuf>,

    /// A parameter of the shared object or the component; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    parameter: Vec<String>,

    /// Processor time that one call of the shared object or the component may take, in milliseconds
    #[arg(long, value_name = "MS")]
    time_max_ms: Option<u64>,

    /// Memory that each stream through the component may have, as 16MiB
    #[arg(long, value_name = "SIZE", requires = "wasm")]
    memory_bytes_max: Option<String>,

    /// Instructions that one call of the component may take, about
    #[arg(long, value_name = "COUNT", requires = "wasm")]
    fuel_max: Option<u64>,

    /// The answer of its routes while it cannot be used: error (503) or pass (the content without it)
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<String>,
}

impl ServiceCommand {
    /// The order; none for those that only look.
    pub(crate) fn order(&self) -> Result<Option<ServiceOrder>, Failed> {
        let of = |verb, name: &String, definition| ServiceOrder { verb, name: name.clone(), definition };
        Ok(Some(match self {
            ServiceCommand::List | ServiceCommand::Info { .. } => return Ok(None),
            ServiceCommand::Add { name, definition } => of(Verb::Add, name, definition.keys()?),
            ServiceCommand::Replace { name, definition } => of(Verb::Replace, name, definition.keys()?),
            ServiceCommand::Suspend { name } => of(Verb::Suspend, name, None),
            ServiceCommand::Resume { name } => of(Verb::Resume, name, None),
            ServiceCommand::Remove { name } => of(Verb::Remove, name, None),
        }))
    }
}

impl DefinitionArgs {
    /// The keys of a `[[service]]` table; none if nothing is said.
    fn keys(&self) -> Result<Option<BTreeMap<String, Value>>, Failed> {
        let mut keys = BTreeMap::new();
        if let Some(filters) = &self.filters {
            keys.insert("filters".to_owned(), filters_of(filters)?);
        }
        for (key, file) in [("native", &self.native), ("wasm", &self.wasm)] {
            if let Some(file) = file {
                let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
                keys.insert(key.to_owned(), Value::from(path.to_string_lossy().into_owned()));
            }
        }
        if !self.parameter.is_empty() {
            let pairs = self.parameter.iter().map(|pair| match pair.split_once('=') {
                Some((name, value)) => Ok((name.to_owned(), Value::from(value))),
                None => Err(usage(format!("--parameter {pair}: expected NAME=VALUE"))),
            });
            keys.insert("parameters".to_owned(), Value::Object(pairs.collect::<Result<_, _>>()?));
        }
        if let Some(time) = self.time_max_ms {
            keys.insert("time_max_ms".to_owned(), Value::from(time));
        }
        if let Some(size) = &self.memory_bytes_max {
            keys.insert("memory_bytes_max".to_owned(), Value::from(size.clone()));
        }
        if let Some(fuel) = self.fuel_max {
            keys.insert("fuel_max".to_owned(), Value::from(fuel));
        }
        if let Some(on_failure) = &self.on_failure {
            keys.insert("on_failure".to_owned(), Value::from(on_failure.clone()));
        }
        Ok((!keys.is_empty()).then_some(keys))
    }
}

fn filters_of(text: &str) -> Result<Value, Failed> {
    match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map_err(|error| usage(format!("--filters is no JSON: {error}"))),
        false => Ok(text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Value::from).collect()),
    }
}

fn usage(report: String) -> Failed {
    Failed { exit: Exit::Usage, report: format!("lamna: {report}") }
}

/// The services that can be exchanged, or the one with this `name`.
pub(crate) fn tell(json: &str, name: Option<&str>) -> Result<String, Failed> {
    let services: Vec<ServiceStatus> = serde_json::from_str(json)
        .map_err(|_| Failed { exit: Exit::Failure, report: "lamna: the server says nothing of services".to_owned() })?;
    let Some(name) = name else { return Ok(tell_list(&services)) };
    match services.iter().find(|service| service.name == name) {
        Some(service) => Ok(tell_info(service)),
        None => Err(Failed {
            exit: Exit::Failure,
            report: format!("lamna: there is no service `{name}`: lamna ctl service list lists them all"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_names_or_json() {
        assert_eq!(filters_of("markdown, compress").unwrap(), serde_json::json!(["markdown", "compress"]));
        assert_eq!(filters_of(r#"[{"name": "a"}]"#).unwrap(), serde_json::json!([{"name": "a"}]));
        assert!(filters_of("[1").is_err());
    }

    #[test]
    fn what_is_not_said_is_not_ordered() {
        let args = DefinitionArgs::default();
        assert_eq!(args.keys().unwrap(), None);
        let args = DefinitionArgs { native: Some("/x.so".into()), parameter: vec!["a=b=c".into()], ..args };
        let keys = serde_json::to_value(args.keys().unwrap()).unwrap();
        assert_eq!(keys, serde_json::json!({ "native": "/x.so", "parameters": { "a": "b=c" } }));
        assert!(DefinitionArgs { parameter: vec!["a".into()], ..args }.keys().is_err());
    }
}
