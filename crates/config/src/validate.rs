//! From the shapes of a file to settings: every value is judged, and every problem found is reported.
//!
//! Owns: the judgement of the top level, of `[limits]` and of `[[service]]`. Sites are judged in `site`. A value that
//! is refused is replaced by its default, so that one problem does not cause another.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use lamna_filter::{Chain, Step};
use lamna_proto::limits::Limits;
use toml::Spanned;

use super::checker::{Checker, EnvironmentChecks, Finding, Taken};
use super::explain::key_hint;
use super::file::{File, Given, ServiceTable};
use super::limits::LIMITS;
use super::listen::entry;
use super::route::filters;
use super::route::shapes::FilterStep;
use super::service::{NativeSettings, OnFailure, SERVICES_MAX, ServiceDefinition, WasmSettings, What, check_name};
use super::setting::{Kind, SETTINGS, Setting, Unit, Value};
use super::settings::Settings;
use super::site;
use super::suggest::nearest;
use super::written::{Amount, Text};

/// The settings of a file whose relative paths are relative to `base`, and what is wrong with them.
/// Having no site is not a problem yet: the command line may give one. `taken` is what was there and did not fit.
pub(crate) fn settings(
    file: &File,
    taken: Vec<Taken>,
    base: &Path,
    checks: EnvironmentChecks,
) -> (Settings, Vec<Finding>) {
    let mut checker = Checker {
        base,
        taken,
        checks,
        services: Vec::new(),
        applications: Vec::new(),
        read_files: Vec::new(),
        findings: Vec::new(),
    };
    let mut settings = Settings::default();
    for (place, given) in &file.settings {
        checker.setting(&SETTINGS[*place], given, &mut settings);
    }
    checker.limits(&file.limits, &mut settings);
    settings.services = services(&file.service, settings.native_services, &mut checker);
    checker.services = settings.services.iter().map(|service| service.name.clone()).collect();
    settings.sites = site::sites(&file.site, &mut checker);
    let listen = file.settings.values().find_map(|given| match given {
        Given::Listeners(entries) => Some(entries),
        _ => None,
    });
    if let Some(entries) = listen.filter(|entries| entries.len() == settings.listen.len()) {
        for (place, message, hint) in entry::contradictions(&settings) {
            checker.problem_with_hint(entries[place].span(), message, Some(hint));
        }
    }
    settings.read_files.append(&mut checker.read_files);
    (settings, checker.into_findings())
}

impl Checker<'_> {
    /// Sets what is given, unless that is refused and reported.
    fn setting(&mut self, setting: &'static Setting, given: &Given, settings: &mut Settings) {
        match given {
            Given::Switch(on) => self.put(setting, &Value::Switch(*on), 0..0, settings),
            Given::Amount(given) => {
                if let Some(value) = self.number(setting, given) {
                    self.put(setting, &value, given.span(), settings);
                }
            }
            Given::Text(text) => self.text(setting, text, settings),
            Given::List(texts) => {
                if let Kind::List { clear, .. } = &setting.kind {
                    clear(settings);
                }
                texts.iter().for_each(|text| self.text(setting, text, settings));
            }
            Given::Listeners(entries) => entry::judge(entries, settings, self),
        }
    }

    fn number(&mut self, setting: &Setting, given: &Spanned<Amount>) -> Option<Value> {
        let (unit, bounds) = match &setting.kind {
            Kind::Number { unit, bounds, .. } => (*unit, bounds),
            Kind::NumberOrAuto { .. } if given.get_ref().is_text("auto") => return Some(Value::Auto),
            Kind::NumberOrAuto { bounds, .. } => (Unit::Count, bounds),
            // The file has taken a number for numbers only.
            _ => return None,
        };
        self.amount(setting.name, given, unit, bounds).map(Value::Number)
    }

    fn text(&mut self, setting: &'static Setting, text: &Text, settings: &mut Settings) {
        let given = text.get_ref();
        match &setting.kind {
            Kind::Word { words, .. } if setting.parse(given).is_err() => {
                let hint = match nearest(given, words()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("known: {}", words().join(", ")),
                };
                let message = format!("unknown {} `{}`", setting.name, given.escape_debug());
                self.problem_with_hint(text.span(), message, Some(hint));
            }
            Kind::Words { .. } if setting.parse(given).is_err() => {
                self.problem(text.span(), format!("expected {}", setting.expectation()));
            }
            _ => self.put(setting, &Value::Text(given.clone()), text.span(), settings),
        }
    }

    /// Sets a value, and looks at what it leads to.
    fn put(&mut self, setting: &'static Setting, value: &Value, span: Range<usize>, settings: &mut Settings) {
        if let Err(expectation) = setting.put(settings, value, self.base) {
            return self.problem(span, format!("`{}` {expectation}", value.to_string().escape_debug()));
        }
        if let Some(environment_check) = setting.environment_check.filter(|_| self.is_looked_at(setting))
            && let Err((message, hint)) = environment_check(settings, self.checks.depth)
        {
            self.problem_with_hint(span, message, hint);
        }
    }

    fn is_looked_at(&self, setting: &Setting) -> bool {
        !self.checks.overridden.contains(&setting.name) && !self.reads_only()
    }

    fn limits(&mut self, given: &BTreeMap<Text, Spanned<Amount>>, settings: &mut Settings) {
        for (key, amount) in given {
            let Some(limit) = LIMITS.iter().find(|limit| limit.name == key.get_ref()) else {
                let names: Vec<&str> = LIMITS.iter().map(|limit| limit.name).collect();
                let message = format!("unknown limit `{}`", key.get_ref().escape_debug());
                self.problem_with_hint(key.span(), message, Some(key_hint(key.get_ref(), &names)));
                continue;
            };
            if let Some(value) = self.number(limit, amount) {
                self.put(limit, &value, amount.span(), settings);
            }
        }
        if settings.limits.target_bytes_max >= settings.limits.head_bytes_max {
            self.target_within_head(&settings.limits, given);
        }
    }

    /// The target is a part of the head, so its bound must be the smaller one.
    fn target_within_head(&mut self, limits: &Limits, given: &BTreeMap<Text, Spanned<Amount>>) {
        let at = ["target_bytes_max", "head_bytes_max"]
            .iter()
            .find_map(|name| given.iter().find(|(key, _)| key.get_ref() == name));
        let message = format!(
            "`target_bytes_max` ({}) must be less than `head_bytes_max` ({}), of which the target is a part",
            limits.target_bytes_max, limits.head_bytes_max
        );
        // The defaults fit each other: one of the two was given.
        let span = at.map_or(0..0, |(_, amount)| amount.span());
        self.problem(span, message);
    }
}

/// Bounds of [`NativeSettings::time_max_ms`].
pub(super) const TIME_MS: RangeInclusive<u64> = 1..=60_000;
/// The milliseconds that one call may take where the file does not say.
const TIME_MAX_MS: u64 = 1000;
/// Bounds of [`WasmSettings::memory_bytes_max`], and what it is unless it is said. Memory is given in pages of 64 KiB.
pub(super) const MEMORY_BYTES: RangeInclusive<u64> = 65_536..=1 << 30;
const MEMORY_BYTES_MAX: u64 = 16 << 20;
/// Bounds of [`WasmSettings::fuel_max`], and what it is unless it is said: some tenths of a second.
pub(super) const FUEL: RangeInclusive<u64> = 1_000..=1_000_000_000_000;
const FUEL_MAX: u64 = 1_000_000_000;

/// The services of a file, in its order.
fn services(
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
    let what = what(given, natives_are_allowed, checker)?;
    let is_code = matches!(what, What::Native(_) | What::Wasm(_));
    if !is_code && (!given.parameters.is_empty() || given.time_max_ms.is_some()) {
        checker.problem(table.span(), "`parameters` and `time_max_ms` are for services with `native` or `wasm`");
    }
    if !matches!(what, What::Wasm(_)) && (given.memory_bytes_max.is_some() || given.fuel_max.is_some()) {
        checker.problem(table.span(), "`memory_bytes_max` and `fuel_max` are for services with `wasm`");
    }
    if what != What::Gateway
        && let Err(why) = check_name(name.get_ref())
    {
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
    if what == What::Gateway && on_failure == OnFailure::Pass {
        checker.problem(table.span(), "`on_failure` is for filters: a gateway that is suspended answers with 503");
    }
    Some(ServiceDefinition { name: name.get_ref().clone(), what, on_failure, is_suspended: given.suspended })
}

/// The kind of a service with its settings; none if the table does not tell.
fn what(given: &ServiceTable, natives_are_allowed: bool, checker: &mut Checker<'_>) -> Option<What> {
    if given.gateway {
        if given.filters.is_some() || given.native.is_some() || given.wasm.is_some() {
            checker.problem(
                given.name.as_ref().map_or(0..0, Spanned::span),
                "a gateway is none of `filters`, `native` and `wasm`",
            );
        }
        return Some(What::Gateway);
    }
    let ways = [given.filters.is_some(), given.native.is_some(), given.wasm.is_some()];
    if let Some(second) =
        given.wasm.as_ref().or(given.native.as_ref()).filter(|_| ways.map(usize::from).iter().sum::<usize>() > 1)
    {
        checker.problem(second.span(), "a service is one of `filters`, `native` and `wasm`");
        return None;
    }
    let parameters =
        given.parameters.iter().map(|(key, value)| (key.get_ref().clone(), value.get_ref().clone())).collect();
    let time = given.time_max_ms.as_ref();
    let time = time.and_then(|time| checker.amount("time_max_ms", time, Unit::Milliseconds, &TIME_MS));
    let time_max_ms = time.unwrap_or(TIME_MAX_MS);
    Some(if let Some(steps) = &given.filters {
        What::Chain(chain(steps, checker)?)
    } else if let Some(object) = &given.native {
        if !natives_are_allowed {
            let why = "shared objects are not loaded unless `native_services = true` says that they are trusted";
            checker.problem(object.span(), why);
        }
        What::Native(NativeSettings { object: checker.path(object), parameters, time_max_ms })
    } else if let Some(component) = &given.wasm {
        let memory = given.memory_bytes_max.as_ref();
        let memory = memory.and_then(|bytes| checker.amount("memory_bytes_max", bytes, Unit::Bytes, &MEMORY_BYTES));
        let fuel = given.fuel_max.as_ref().and_then(|fuel| checker.amount("fuel_max", fuel, Unit::Count, &FUEL));
        What::Wasm(WasmSettings {
            component: checker.path(component),
            parameters,
            time_max_ms,
            memory_bytes_max: memory.unwrap_or(MEMORY_BYTES_MAX),
            fuel_max: fuel.unwrap_or(FUEL_MAX),
        })
    } else {
        What::Absent
    })
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
