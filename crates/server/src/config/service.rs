//! `[[service]]`: what routes name as a filter and what can be exchanged while the server serves.
//!
//! ```text
//! name ─> filters = [...]     a chain of the server's own filters
//!      ─> native = "x.so"     a shared object over `lamna_filter.h`, with parameters
//!      └> neither             nothing yet: `lamna ctl service add` says what it is
//! ```
//!
//! Owns: services as values, their judgement, and their text. What becomes of them while the server runs is in `service`.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lamna_filter::{Chain, Parameters, Step, is_in_table};
use serde::Deserialize;
use toml::Spanned;

use super::file::{Amount, Text};
use super::limits::Unit;
use super::load::parse_services;
use super::render::quoted;
use super::route::filters;
use super::route::shapes::FilterStep;
use super::validate::Checker;

/// A service as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDefinition {
    /// What routes call it.
    pub name: String,
    /// What it is.
    pub what: What,
    /// What its route answers while it cannot be used.
    pub on_failure: OnFailure,
    /// It is not used until it is resumed.
    pub is_suspended: bool,
}

/// What a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum What {
    /// Nothing yet.
    #[default]
    Absent,
    /// A chain of the server's own filters.
    Chain(Vec<Step>),
    /// A shared object.
    Native(NativeSettings),
    /// A filter of the program that the server is a part of, under the name of the service.
    Embedded,
}

/// A shared object and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeSettings {
    /// The file.
    pub object: PathBuf,
    /// What it is given when it begins.
    pub parameters: Parameters,
    /// How much processor time one call may take, in milliseconds.
    pub time_max_ms: u64,
}

/// What a route answers while a service of it cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// 503.
    #[default]
    Error,
    /// The content without what the service makes of it.
    Pass,
}

impl OnFailure {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            OnFailure::Error => "error",
            OnFailure::Pass => "pass",
        }
    }
}

impl What {
    /// What kind of service it is, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            What::Absent => "absent",
            What::Chain(_) => "chain",
            What::Native(_) => "native",
            What::Embedded => "embedded",
        }
    }

    /// What it is, for people.
    pub fn describe(&self) -> String {
        match self {
            What::Absent => "nothing has been added yet".to_owned(),
            What::Chain(steps) => filters::describe(steps),
            What::Native(native) => format!("the shared object {}", native.object.display()),
            What::Embedded => "a filter of the program itself".to_owned(),
        }
    }
}

/// The most services of a server.
pub const SERVICES_MAX: usize = 64;
/// The longest name.
const NAME_BYTES_MAX: usize = 64;
/// Bounds of [`NativeSettings::time_max_ms`].
pub(super) const TIME_MS: RangeInclusive<u64> = 1..=60_000;
/// What one call of a shared object may take unless it is said.
const TIME_MAX_MS: u64 = 1000;

/// `[[service]]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct ServiceTable {
    name: Option<Text>,
    filters: Option<Vec<Spanned<FilterStep>>>,
    native: Option<Text>,
    parameters: std::collections::BTreeMap<Text, Text>,
    time_max_ms: Option<Spanned<Amount>>,
    on_failure: Option<Text>,
    suspended: bool,
}

/// The services of a file, in its order.
pub(super) fn services(
    tables: &[Spanned<ServiceTable>],
    natives_are_allowed: bool,
    checker: &mut Checker<'_>,
) -> Vec<ServiceDefinition> {
    let mut services: Vec<ServiceDefinition> = Vec::new();
    for table in tables {
        let Some(service) = service(table, natives_are_allowed, checker) else { continue };
        match services.iter().any(|other| other.name == service.name) {
            true => checker.problem(table.span(), format!("there are two services `{}`", service.name)),
            false => services.push(service),
        }
    }
    if let Some(surplus) = tables.get(SERVICES_MAX) {
        checker.problem(surplus.span(), format!("there may be {SERVICES_MAX} services at most"));
    }
    services
}

fn service(
    table: &Spanned<ServiceTable>,
    natives_are_allowed: bool,
    checker: &mut Checker<'_>,
) -> Option<ServiceDefinition> {
    let given = table.get_ref();
    let Some(name) = &given.name else {
        if !checker.was_taken("name", &table.span()) {
            let hint = Some("write name = \"...\": routes name it in `filters`".into());
            checker.problem_with_hint(table.span(), "this service has no `name`", hint);
        }
        return None;
    };
    let what = match (&given.filters, &given.native) {
        (Some(_), Some(native)) => {
            checker.problem(native.span(), "a service is `filters` or `native`, and not both");
            return None;
        }
        (Some(steps), None) => What::Chain(chain(steps, checker)?),
        (None, Some(object)) => {
            if !natives_are_allowed {
                let why = "shared objects are not loaded unless `native_services = true` says that they are trusted";
                checker.problem(object.span(), why);
            }
            let object = checker.path(object);
            let parameters =
                given.parameters.iter().map(|(key, value)| (key.get_ref().clone(), value.get_ref().clone()));
            let time = given.time_max_ms.as_ref();
            let time = time.and_then(|time| checker.amount("time_max_ms", time, Unit::Milliseconds, &TIME_MS));
            What::Native(NativeSettings {
                object,
                parameters: parameters.collect(),
                time_max_ms: time.unwrap_or(TIME_MAX_MS),
            })
        }
        (None, None) => What::Absent,
    };
    if !matches!(what, What::Native(_)) && (!given.parameters.is_empty() || given.time_max_ms.is_some()) {
        checker.problem(table.span(), "`parameters` and `time_max_ms` are for services with `native`");
    }
    if let Err(why) = check_name(name.get_ref()) {
        checker.problem(name.span(), why);
    }
    let on_failure = match given.on_failure.as_ref().map(|text| (text.get_ref().as_str(), text.span())) {
        None | Some(("error", _)) => OnFailure::Error,
        Some(("pass", _)) => OnFailure::Pass,
        Some((other, span)) => {
            let message = format!("`on_failure` is \"error\" or \"pass\", not \"{}\"", other.escape_debug());
            checker.problem(span, message);
            OnFailure::Error
        }
    };
    Some(ServiceDefinition { name: name.get_ref().clone(), what, on_failure, is_suspended: given.suspended })
}

/// The chain of a service: filters of the table that no query asks for anything.
fn chain(given: &[Spanned<FilterStep>], checker: &mut Checker<'_>) -> Option<Vec<Step>> {
    let steps = filters::judge_chain(given, checker)?;
    // What a query may ask for decides about keys of the cache, which services do not change.
    let asked = steps.iter().position(|step| Chain::new(std::slice::from_ref(step)).is_ok_and(|one| one.has_recipes()));
    if let Some(at) = asked {
        let message = format!("`{}` is asked for by queries: name it in the route itself", steps[at].name);
        checker.problem(given[at].span(), message);
        return None;
    }
    Some(steps)
}

/// What is wrong with the name of a service.
///
/// # Errors
/// A sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    let shown = name.escape_debug();
    match name {
        _ if is_in_table(name) => Err(format!("`{shown}` is a filter of the server: give the service another name")),
        _ if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) => {
            Err(format!("`{shown}` is not a name of 1 to {NAME_BYTES_MAX} of a-z, 0-9, - and _"))
        }
        _ => Ok(()),
    }
}

/// Services as a configuration file has them. Embedded ones are left out: the program brings them itself.
pub fn render(services: &[ServiceDefinition]) -> String {
    let mut text = String::new();
    for service in services.iter().filter(|service| service.what != What::Embedded) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n[[service]]\nname = {}", quoted(&service.name));
        let _ = match &service.what {
            What::Absent | What::Embedded => Ok(()),
            What::Chain(steps) => writeln!(text, "filters = {}", filters::render(steps)),
            What::Native(native) => {
                let pairs =
                    native.parameters.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
                writeln!(
                    text,
                    "native = {}\nparameters = {{ {} }}\ntime_max_ms = {}",
                    quoted(&native.object.to_string_lossy()),
                    pairs.collect::<Vec<_>>().join(", "),
                    native.time_max_ms
                )
            }
        };
        let _ = writeln!(text, "on_failure = \"{}\"\nsuspended = {}", service.on_failure.name(), service.is_suspended);
    }
    text
}

/// Services from such a text; relative paths are relative to `base`.
///
/// # Errors
/// What is wrong with the text, as with a file.
pub fn parse(text: &str, base: &Path, natives_are_allowed: bool) -> Result<Vec<ServiceDefinition>, String> {
    parse_services(text, &base.join("service"), natives_are_allowed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Vec<ServiceDefinition>, String> {
        parse(text, Path::new("/base"), true)
    }

    #[test]
    fn what_is_wrong_with_a_service_is_said() {
        for (text, said) in [
            ("filters = []", "has no `name`"),
            ("name = \"markdown\"", "is a filter of the server"),
            ("name = \"A\"", "is not a name"),
            ("name = \"a\"\nfilters = [\"nothing\"]", "there is no filter `nothing`"),
            ("name = \"a\"\nfilters = [\"images\"]", "name it in the route itself"),
            ("name = \"a\"\nfilters = []\nnative = \"b\"", "and not both"),
            ("name = \"a\"\non_failure = \"x\"", "is \"error\" or \"pass\""),
            ("name = \"a\"\ntime_max_ms = 5", "are for services with `native`"),
            ("name = \"a\"\n[[service]]\nname = \"a\"", "there are two services `a`"),
        ] {
            let error = parsed(&format!("[[service]]\n{text}")).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let untrusted = parse("[[service]]\nname = \"a\"\nnative = \"b.so\"", Path::new("/"), false).unwrap_err();
        assert!(untrusted.contains("native_services = true"), "{untrusted}");
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let services = parsed("[[service]]\nname = \"a\"\nnative = \"b.so\"").unwrap();
        let What::Native(native) = &services[0].what else { panic!("{services:?}") };
        assert_eq!(native.object, Path::new("/base/b.so"));
    }

    proptest! {
        #[test]
        fn what_is_rendered_is_parsed_to_the_same(
            name in "[a-z][a-z0-9_-]{0,9}", from in "\\PC{1,8}", time_max_ms in TIME_MS, pass: bool, is_suspended: bool,
            which in 0..3,
        ) {
            prop_assume!(check_name(&name).is_ok());
            let parameters: Parameters = [("from".to_owned(), from), ("to".to_owned(), String::new())].into();
            let what = match which {
                0 => What::Absent,
                1 => What::Chain(vec![Step { name: "substitute".into(), parameters }]),
                _ => What::Native(NativeSettings { object: "/a 'b\".so".into(), parameters, time_max_ms }),
            };
            let on_failure = if pass { OnFailure::Pass } else { OnFailure::Error };
            let services = [ServiceDefinition { name, what, on_failure, is_suspended }];
            prop_assert_eq!(parsed(&render(&services)).unwrap(), services);
        }
    }
}
