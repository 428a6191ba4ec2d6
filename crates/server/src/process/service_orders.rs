//! Orders about services, and what can be exchanged at all.
//!
//! Owns: from an order to other services, and the list of what has a life: filters that are services, the gateways of
//! sites, the cache policy, listeners. Guarantees: an order that is refused has changed nothing; what is not done here
//! is refused with how it is done. A gateway is among the services while it is suspended; that a listener is, its
//! socket knows. The registry owns the services of this process; worker processes are told by their supervisor.

use std::path::Path;

use lamna_config::gateway::GatewaySettings;
use lamna_config::route::{RouteSettings, Switch, filters};
use lamna_config::service::{OnFailure, SERVICES_MAX, ServiceDefinition, What};
use lamna_config::setting::table::find;
use lamna_config::settings::{Settings, SiteSettings};
use lamna_config::{parse_services, render_services};
use lamna_io::log::errors::{self, Level};
use lamna_site::service::{Known, Life, Registry, Row};
use serde_json::Value;

use crate::admin::api::Progress;
use crate::admin::services::{ServiceOrder, ServiceStatus, Verb};

/// The status of everything that can be exchanged, in its order. Of a listener, where it is and whether it is
/// suspended.
pub(super) fn list(registry: &Registry, settings: &Settings, listeners: &[(String, bool)]) -> Vec<ServiceStatus> {
    let policy = find("cache_policy").map(|setting| setting.show(settings)).unwrap_or_default();
    let cache = ServiceStatus {
        name: "cache".to_owned(),
        kind: "cache-policy".to_owned(),
        state: Life::InUse.name().to_owned(),
        about: policy,
        can: HOW_CACHE.to_owned(),
        ..ServiceStatus::default()
    };
    let gateways = settings.sites.iter().flat_map(|site| gateways(site, registry));
    let known = registry.known().into_iter();
    let filters = known.filter(|known| known.definition.what != What::Gateway).map(filter);
    filters.chain(gateways).chain([cache]).chain(listeners.iter().map(listener)).collect()
}

const HOW_CACHE: &str = "be replaced, with lamna ctl set --cache-policy NAME; nothing else: there is always one";
const HOW_GATEWAY: &str = "added, replaced and removed by a reload of the configuration that its route is in";
const HOW_LISTENER: &str = "changed with the configuration and a restart";

/// Possible orders for a thing that is suspended by order and by nothing else.
fn can(is_suspended: bool, otherwise: &str) -> String {
    format!("be {}, and {otherwise}", if is_suspended { "resumed" } else { "suspended" })
}

fn life(is_suspended: bool) -> String {
    let life = if is_suspended { Life::Suspended } else { Life::InUse };
    life.name().to_owned()
}

fn listener((name, is_suspended): &(String, bool)) -> ServiceStatus {
    ServiceStatus {
        name: name.clone(),
        kind: LISTENER.to_owned(),
        state: life(*is_suspended),
        about: "connections come from here".to_owned(),
        can: can(*is_suspended, HOW_LISTENER),
        ..ServiceStatus::default()
    }
}

/// The kinds that are suspended and resumed only.
pub(super) const LISTENER: &str = "listener";
const GATEWAY: &str = "gateway";

fn filter(known: Known) -> ServiceStatus {
    let Known { definition, generation, life, why, runs, failures } = known;
    let can = match life {
        Life::Absent => "be added",
        Life::InUse => "be suspended, replaced and removed",
        Life::Suspended | Life::Failed => "be resumed, replaced and removed",
    };
    ServiceStatus {
        name: definition.name,
        kind: "filter".to_owned(),
        state: life.name().to_owned(),
        about: describe(&definition.what),
        why,
        generation: Some(generation),
        on_failure: Some(definition.on_failure.name().to_owned()),
        runs: Some(runs),
        failures: Some(failures),
        can: can.to_owned(),
    }
}

/// The applications of a site.
fn gateways(site: &SiteSettings, registry: &Registry) -> Vec<ServiceStatus> {
    let gateway = |(name, gateway): (String, &GatewaySettings)| {
        let is_suspended = registry.suspends_gateway(&name);
        let places: Vec<String> = gateway.upstreams.iter().map(|upstream| upstream.address.to_string()).collect();
        let is_of = |route: &&RouteSettings| matches!(&route.gateway, Switch::Set(other) if other == gateway);
        let routes: Vec<String> = site.routes.iter().filter(is_of).map(RouteSettings::title).collect();
        let applications = match places.is_empty() {
            true => "programs of the site".to_owned(),
            false => format!("applications at {}", places.join(", ")),
        };
        ServiceStatus {
            name,
            kind: GATEWAY.to_owned(),
            state: life(is_suspended),
            about: format!("{applications}, for {}", routes.join("; ")),
            can: can(is_suspended, HOW_GATEWAY),
            ..ServiceStatus::default()
        }
    };
    site.applications().into_iter().map(gateway).collect()
}

/// The services of `registry` after an order: all of them, and which is made anew in any case.
///
/// # Errors
/// Why nothing is done.
pub(super) fn carry_out(
    order: &ServiceOrder,
    registry: &Registry,
    settings: &Settings,
    others: &[ServiceStatus],
) -> Result<Vec<ServiceDefinition>, String> {
    let ServiceOrder { verb, name, definition } = order;
    let mut definitions = registry.definitions();
    if let Some(other) = others.iter().find(|other| other.name == *name && other.kind != "filter") {
        let is_suspended = suspends(*verb, other)?;
        definitions.retain(|one| one.name != *name);
        let (name, what, on_failure) = (name.clone(), What::Gateway, OnFailure::Error);
        definitions.extend(is_suspended.then_some(ServiceDefinition { name, what, on_failure, is_suspended }));
        return within_bounds(definitions);
    }
    let known = registry.known().into_iter().find(|known| known.definition.name == *name);
    let life = known.as_ref().map(|known| known.life);
    let before = known.map(|known| known.definition);
    let unknown = || format!("there is no service `{name}`: lamna ctl service list lists them all");
    let after = match (verb, life) {
        (Verb::Add, None | Some(Life::Absent)) => Some(defined(order, before.as_ref(), settings)?),
        (Verb::Add, Some(_)) => return Err(format!("there is a service `{name}` already: it can be replaced")),
        (_, None) => return Err(unknown()),
        (Verb::Replace, Some(Life::Absent)) | (Verb::Suspend | Verb::Resume, Some(Life::Absent)) => {
            return Err(format!("nothing has been added for the service `{name}` yet"));
        }
        (Verb::Replace, Some(_)) => match (definition, before) {
            (None, Some(before)) => Some(ServiceDefinition { is_suspended: false, ..before }),
            (_, before) => Some(defined(order, before.as_ref(), settings)?),
        },
        (Verb::Suspend, Some(Life::Suspended)) => return Err(format!("the service `{name}` is suspended already")),
        (Verb::Suspend, Some(_)) => before.map(|before| ServiceDefinition { is_suspended: true, ..before }),
        (Verb::Resume, Some(Life::InUse)) => return Err(format!("the service `{name}` is in use")),
        (Verb::Resume, Some(_)) => before.map(|before| ServiceDefinition { is_suspended: false, ..before }),
        (Verb::Remove, Some(_)) if is_named(name, settings) => {
            before.map(|before| ServiceDefinition { what: What::Absent, is_suspended: false, ..before })
        }
        (Verb::Remove, Some(_)) => None,
    };
    let place = definitions.iter().position(|one| one.name == *name);
    match (place, after) {
        (Some(at), Some(after)) => definitions[at] = after,
        (Some(at), None) => drop(definitions.remove(at)),
        (None, Some(after)) => definitions.push(after),
        (None, None) => return Err(unknown()),
    }
    within_bounds(definitions)
}

/// Whether an order suspends a gateway or a listener, or resumes it.
///
/// # Errors
/// It is suspended or in use already, or something else is ordered.
pub(super) fn suspends(verb: Verb, other: &ServiceStatus) -> Result<bool, String> {
    let ServiceStatus { name, kind, state, .. } = other;
    let is_suspended = *state == Life::Suspended.name();
    match verb {
        Verb::Suspend | Verb::Resume if [GATEWAY, LISTENER].contains(&&**kind) => match verb == Verb::Suspend {
            suspends if suspends != is_suspended => Ok(suspends),
            _ => Err(format!("the {kind} `{name}` is {state} already")),
        },
        _ => Err(format!("the {kind} `{name}` can {}", other.can)),
    }
}

fn within_bounds(definitions: Vec<ServiceDefinition>) -> Result<Vec<ServiceDefinition>, String> {
    match render_services(&definitions).len() {
        bytes if bytes > DEFINITIONS_BYTES_MAX => {
            Err(format!("all services together would have more than {DEFINITIONS_BYTES_MAX} bytes of text"))
        }
        _ => Ok(definitions),
    }
}

/// The text of all services: it goes to another process in a variable of its environment, in twice as many bytes.
const DEFINITIONS_BYTES_MAX: usize = 32 << 10;

/// The description of a service, for people.
fn describe(what: &What) -> String {
    match what {
        What::Absent => "nothing has been added yet".to_owned(),
        What::Chain(steps) => filters::describe(steps),
        What::Native(native) => format!("the shared object {}", native.object.display()),
        What::Wasm(wasm) => format!("the component {}", wasm.component.display()),
        What::Embedded => "a filter of the program itself".to_owned(),
        What::Gateway => "the application of a route".to_owned(),
    }
}

/// Whether a route names the service.
fn is_named(name: &str, settings: &Settings) -> bool {
    let mut steps =
        settings.sites.iter().flat_map(|site| &site.routes).flat_map(|route| route.filters.iter().flatten());
    steps.any(|step| step.name == name)
}

/// The definition of the service in an order.
fn defined(
    order: &ServiceOrder,
    before: Option<&ServiceDefinition>,
    settings: &Settings,
) -> Result<ServiceDefinition, String> {
    let Some(given) = &order.definition else {
        return Err("it is not said what the service is to be: its `filters`, `native` or `wasm`".to_owned());
    };
    let mut table: serde_json::Map<String, Value> = given.clone().into_iter().collect();
    table.insert("name".to_owned(), Value::from(order.name.clone()));
    let file = serde_json::json!({ "service": [table] });
    let text = toml::to_string(&file).map_err(|error| format!("this is no definition: {error}"))?;
    let defined = parse_services(&text, Path::new("/"), settings.native_services)?;
    let mut defined = defined.into_iter().next().ok_or("this is no definition")?;
    if defined.what == What::Absent {
        return Err("it is not said what the service is to be: its `filters`, `native` or `wasm`".to_owned());
    }
    if let Some(before) = before.filter(|_| !given.contains_key("on_failure")) {
        defined.on_failure = before.on_failure;
    }
    Ok(defined)
}

/// The result in words, after which there are `services`.
pub(super) fn done(order: &ServiceOrder, services: &[ServiceStatus]) -> Progress {
    let name = &order.name;
    let done = match services.iter().find(|service| service.name == *name) {
        Some(ServiceStatus { state, about, generation, .. }) => {
            let generation = generation.map(|generation| format!(", generation {generation}"));
            format!("the service `{name}` is {state}: {about}{}", generation.unwrap_or_default())
        }
        None => format!("the service `{name}` is no more"),
    };
    errors::report(Level::Info, format_args!("{} {name}: {done}", order.verb.name()));
    Progress::Done(done)
}

/// Services as a supervisor tells them to its workers: their numbers on the first line, then what they are.
pub(super) fn encode(rows: &[Row]) -> Vec<u8> {
    let numbers: Vec<String> = rows.iter().map(|row| format!("{}:{}", row.slot, row.generation)).collect();
    let definitions: Vec<ServiceDefinition> = rows.iter().map(|row| row.definition.clone()).collect();
    format!("{}\n{}", numbers.join(" "), render_services(&definitions)).into_bytes()
}

/// Reads the text that [`encode`] has written.
pub(super) fn decode(message: &[u8], natives_are_allowed: bool) -> Option<Vec<Row>> {
    let (numbers, text) = std::str::from_utf8(message).ok()?.split_once('\n')?;
    let definitions = parse_services(text, Path::new("/"), natives_are_allowed).ok()?;
    let mut numbers = numbers.split_ascii_whitespace().map(|pair| {
        let (slot, generation) = pair.split_once(':')?;
        Some((slot.parse().ok()?, generation.parse().ok()?))
    });
    let row = |definition| {
        let (slot, generation) = numbers.next()??;
        (slot < SERVICES_MAX).then_some(Row { slot, generation, definition })
    };
    definitions.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config as config;
    use proptest::prelude::*;

    fn order(text: &str) -> ServiceOrder {
        serde_json::from_str(text).unwrap()
    }

    /// A registry and what has come of some orders, one after the other.
    fn after(settings: &Settings, orders: &[&str]) -> (Registry, Vec<Result<(), String>>) {
        let registry = Registry::default();
        let come = |text: &&str| {
            let order = order(text);
            let definitions = carry_out(&order, &registry, settings, &list(&registry, settings, &[]))?;
            let renewed = matches!(order.verb, Verb::Replace | Verb::Resume).then_some(&*order.name);
            registry.renew(&definitions, renewed).map(drop)
        };
        let outcomes = orders.iter().map(come).collect();
        (registry, outcomes)
    }

    #[test]
    fn a_service_is_added_suspended_resumed_replaced_and_removed() {
        let add = r#"{"verb": "add", "name": "a", "definition": {"filters": ["markdown"], "on_failure": "pass"}}"#;
        let replace = r#"{"verb": "replace", "name": "a", "definition": {"filters": [{"name": "substitute", "from": "a", "to": "b"}]}}"#;
        let of = |verb: &str| format!(r#"{{"verb": "{verb}", "name": "a"}}"#);
        let settings = Settings::default();
        let lives = |orders: &[&str]| {
            let (registry, outcomes) = after(&settings, orders);
            assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            registry.known().into_iter().map(|known| (known.life, known.generation)).collect::<Vec<_>>()
        };
        assert_eq!(lives(&[add]), [(Life::InUse, 1)]);
        assert_eq!(lives(&[add, &of("suspend")]), [(Life::Suspended, 2)]);
        assert_eq!(lives(&[add, &of("suspend"), &of("resume")]), [(Life::InUse, 3)]);
        assert_eq!(lives(&[add, &of("replace")]), [(Life::InUse, 2)]);
        assert_eq!(lives(&[add, &of("remove")]), []);
        let (registry, _) = after(&settings, &[add, replace]);
        let definition = registry.definitions().remove(0);
        assert_eq!(definition.on_failure, OnFailure::Pass);
        assert!(describe(&definition.what).contains("substitute"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_changes_nothing() {
        let add = r#"{"verb": "add", "name": "a", "definition": {"filters": ["markdown"]}}"#;
        for (order, said) in [
            (r#"{"verb": "add", "name": "a", "definition": {"filters": []}}"#, "there is a service `a` already"),
            (r#"{"verb": "suspend", "name": "b"}"#, "there is no service `b`"),
            (r#"{"verb": "resume", "name": "a"}"#, "is in use"),
            (r#"{"verb": "replace", "name": "a", "definition": {"filters": ["x"]}}"#, "there is no filter `x`"),
            (r#"{"verb": "replace", "name": "a", "definition": {"native": "/x.so"}}"#, "native_services = true"),
            (r#"{"verb": "replace", "name": "a", "definition": {"on_failure": "pass"}}"#, "not said what"),
            (r#"{"verb": "add", "name": "b"}"#, "not said what"),
            (r#"{"verb": "suspend", "name": "cache"}"#, "lamna ctl set --cache-policy"),
            (r#"{"verb": "resume", "name": "cache"}"#, "lamna ctl set --cache-policy"),
        ] {
            let (registry, outcomes) = after(&Settings::default(), &[add, order]);
            let error = outcomes[1].clone().unwrap_err();
            assert!(error.contains(said), "{order}: {error}");
            assert_eq!(registry.known().len(), 1);
            assert_eq!(registry.known()[0].generation, 1);
        }
    }

    #[test]
    fn an_application_is_suspended_and_resumed_under_the_name_of_its_first_route() {
        let text = "[[site]]\nhosts = [\"a.test\"]\n\
                    [[site.route]]\nmatch = \"/x/*\"\nproxy = \"http://127.0.0.1:9\"\n\
                    [[site.route]]\nmatch = \"/y/*\"\nproxy = \"http://127.0.0.1:9\"\n\
                    [[site.route]]\nmatch = \"/z/*\"\nproxy = \"http://127.0.0.1:10\"\n";
        let settings = config::parse(text, Path::new("/lamna.toml")).unwrap();
        let suspend = r#"{"verb": "suspend", "name": "a.test /x/*"}"#;
        let resume = suspend.replace("suspend", "resume");
        let lives = |orders: &[&str]| {
            let (registry, outcomes) = after(&settings, orders);
            let gateways = list(&registry, &settings, &[]).into_iter().filter(|one| one.kind == GATEWAY);
            let lives: Vec<(String, String)> = gateways.map(|one| (one.name, one.state)).collect();
            assert_eq!(decode(&encode(&registry.rows()), false), Some(registry.rows()));
            (lives, outcomes.last().cloned().unwrap())
        };
        let of = |first: &str| vec![("a.test /x/*".into(), first.into()), ("a.test /z/*".into(), "in use".into())];
        assert_eq!(lives(&[suspend]), (of("suspended"), Ok(())));
        assert_eq!(lives(&[suspend, &resume]), (of("in use"), Ok(())));
        for (orders, said) in [
            (vec![suspend, suspend], "is suspended already"),
            (vec![&*resume], "is in use already"),
            (vec![r#"{"verb": "remove", "name": "a.test /x/*"}"#], "by a reload"),
            (vec![r#"{"verb": "suspend", "name": "a.test /y/*"}"#], "there is no service"),
        ] {
            let (_, outcome) = lives(&orders);
            assert!(outcome.clone().unwrap_err().contains(said), "{outcome:?}");
        }
    }

    #[test]
    fn a_worker_is_told_what_the_supervisor_has() {
        let add = r#"{"verb": "add", "name": "a", "definition": {"filters": ["markdown"]}}"#;
        let (registry, _) = after(&Settings::default(), &[add, r#"{"verb": "suspend", "name": "a"}"#]);
        assert_eq!(decode(&encode(&registry.rows()), false), Some(registry.rows()));
        assert_eq!(decode(&encode(&[]), false), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn any_message_is_services_or_none(message in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&message, true);
        }
    }
}
