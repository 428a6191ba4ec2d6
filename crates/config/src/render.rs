//! From settings back to a configuration file: what `lamna check` shows.
//!
//! Guarantees that the text loads to the same settings, for settings that were loaded, but for the files that those
//! were read from. Not for others: paths that are not UTF-8 cannot be written in TOML and are written lossily, and of a
//! field given several times the values are brought together.

use std::fmt::Write;

use lamna_filter::Parameters;

use super::limits::LIMITS;
use super::listen::entry;
pub use super::page::quoted;
use super::page::{Page, bytes};
use super::route::filters;
use super::service::{NativeSettings, ServiceDefinition, WasmSettings, What};
use super::setting::{Kind, SETTINGS, Setting, Unit, Value};
use super::settings::Settings;
use super::site;

/// The settings as TOML, defaults included.
pub fn render(settings: &Settings) -> String {
    let mut page = Page::default();
    page.settings(SETTINGS, settings);
    page.table("[limits]");
    page.settings(&LIMITS, settings);
    page.push(&render_services(&settings.services));
    settings.sites.iter().for_each(|each| site::render(each, &mut page));
    page.into_text()
}

/// Services as a configuration file has them. Embedded ones are left out: the program brings them itself.
pub fn render_services(services: &[ServiceDefinition]) -> String {
    let mut text = String::new();
    for service in services.iter().filter(|service| service.what != What::Embedded) {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n[[service]]\nname = {}", quoted(&service.name));
        let _ = match &service.what {
            What::Absent | What::Embedded => Ok(()),
            What::Gateway => writeln!(text, "gateway = true"),
            What::Chain(steps) => writeln!(text, "filters = {}", filters::render(steps)),
            What::Native(native) => {
                let NativeSettings { object, parameters, time_max_ms } = native;
                let (object, parameters) = (quoted(&object.to_string_lossy()), table(parameters));
                writeln!(text, "native = {object}\nparameters = {parameters}\ntime_max_ms = {time_max_ms}")
            }
            What::Wasm(wasm) => {
                let WasmSettings { component, parameters, time_max_ms, memory_bytes_max, fuel_max } = wasm;
                let (component, parameters) = (quoted(&component.to_string_lossy()), table(parameters));
                writeln!(
                    text,
                    "wasm = {component}\nparameters = {parameters}\ntime_max_ms = {time_max_ms}\n\
                     memory_bytes_max = {memory_bytes_max}\nfuel_max = {fuel_max}"
                )
            }
        };
        let _ = writeln!(text, "on_failure = \"{}\"\nsuspended = {}", service.on_failure.name(), service.is_suspended);
    }
    text
}

/// Parameters as a table in one line.
fn table(parameters: &Parameters) -> String {
    let pairs = parameters.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
    format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
}

impl Page {
    fn settings(&mut self, table: &'static [Setting], settings: &Settings) {
        for setting in table {
            let values = setting.values(settings).into_iter().map(|value| toml(setting, &value));
            match setting.kind {
                Kind::Listeners => entry::render(&settings.listen, self),
                Kind::List { .. } => {
                    self.line(setting.name, format_args!("[{}]", values.collect::<Vec<_>>().join(", ")))
                }
                _ => values.for_each(|value| self.line(setting.name, value)),
            }
        }
    }
}

/// A value of a setting in TOML.
fn toml(setting: &Setting, value: &Value) -> String {
    match (&setting.kind, value) {
        (Kind::Number { unit: Unit::Bytes, .. }, Value::Number(number)) => bytes(*number),
        (_, Value::Number(_) | Value::Switch(_)) => value.to_string(),
        (_, Value::Auto | Value::Text(_)) => quoted(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::depth::Depth;
    use super::super::early_hints::{EarlyHintSettings, LinkPrefetchSettings};
    use super::super::parse;
    use super::super::settings::{Alias, ClientCa, Redirect, SiteSettings, SiteTls, TlsFiles};
    use super::super::site_limit::SiteLimit;
    use super::*;
    use proptest::prelude::*;
    use std::ops::RangeInclusive;
    use std::path::{Path, PathBuf};

    fn text() -> impl Strategy<Value = String> {
        "[ -~é\u{4e2d}]{0,12}"
    }

    fn site(root: PathBuf) -> impl Strategy<Value = SiteSettings> {
        let field = ("[A-Z][a-z!'`|~]{0,5}", prop::collection::vec(text(), 1..3));
        let redirect = (
            "/[a-z\"]{0,5}",
            "/[a-z]{1,2}/[!-)+,/-\\[\\]-~-]{0,9}",
            prop::sample::select(vec![301, 302, 303, 307, 308]),
        )
            .prop_map(|(from, to, status)| Redirect { from, to, status });
        let parts = (
            prop::collection::vec("[a-z0-9.\"'\\\\]{0,3}[a-z]{1,3}", 0..3),
            (any::<bool>(), any::<bool>()),
            prop::collection::btree_map("X-[a-z]{4}", field.1, 0..3),
            prop::collection::vec(redirect, 0..3),
            prop::collection::btree_map(400u16..=599, text().prop_map(|text| format!("/{text}")), 0..3),
            prop::collection::btree_set("/[a-z]{1,5}/", 0..3),
            (prop::option::of("[a-z]{1,5}"), tls()),
        );
        parts.prop_map(move |(index, (browse, spa), headers, redirects, error_pages, prefixes, last)| {
            let (user_directory, tls) = last;
            let mut aliases: Vec<Alias> =
                prefixes.into_iter().map(|prefix| Alias { prefix, root: root.clone() }).collect();
            aliases.sort_by_key(|alias| std::cmp::Reverse(alias.prefix.len()));
            let headers = headers
                .into_iter()
                .flat_map(|(name, values)| values.into_iter().map(move |value| (name.clone(), value)))
                .collect();
            SiteSettings {
                hosts: Vec::new(),
                root: root.clone(),
                index,
                browse,
                live_reload: browse,
                hints: browse.then_some(spa),
                early_hints: EarlyHintSettings {
                    is_on: spa,
                    http1: browse,
                    waste_percent_max: if spa { 0 } else { 100 },
                    ..EarlyHintSettings::default()
                },
                link_prefetch: LinkPrefetchSettings {
                    is_on: browse,
                    probability_percent_min: if spa { 0 } else { 100 },
                    ..LinkPrefetchSettings::default()
                },
                upload: !browse,
                limits: browse
                    .then(|| SiteLimit {
                        path: "/a".into(),
                        rate: "3/m burst 7".parse().ok().filter(|_| spa),
                        volume: "3GB/d burst 7GiB".parse().ok().filter(|_| !spa),
                        bandwidth: "3kB/s after 1MiB".parse().ok(),
                        shared_bandwidth: "3MB/s".parse().ok().filter(|_| spa),
                        key: if spa { "user" } else { "header:x-key" }.parse().unwrap_or_default(),
                    })
                    .into_iter()
                    .collect(),
                upload_bytes_max: browse.then_some(1 << 20),
                upload_resume_s: if browse { 0 } else { 3_600 },
                upload_resume_bytes_max: if browse { 1 << 30 } else { 12_345 },
                delete: spa,
                mkdir: browse,
                webdav: spa,
                spa,
                headers,
                redirects,
                error_pages: error_pages.into_iter().collect(),
                aliases,
                user_directory,
                rule_files: browse,
                tls,
                ..SiteSettings::new(root.clone())
            }
        })
    }

    fn tls() -> impl Strategy<Value = Option<SiteTls>> {
        let file = || "/[a-z \"]{1,9}".prop_map(PathBuf::from);
        let client_ca = (file(), any::<bool>()).prop_map(|(file, is_optional)| ClientCa { file, is_optional });
        let files = (file(), file(), prop::option::of(client_ca))
            .prop_map(|(certificate, key, client_ca)| SiteTls::Files(TlsFiles { certificate, key, client_ca }));
        prop::option::of(prop_oneof![Just(SiteTls::Local), Just(SiteTls::Auto), files])
    }

    /// Some value of a setting, as it is typed.
    fn value(setting: &'static Setting, root: &Path) -> BoxedStrategy<Vec<String>> {
        let one = |strategy: BoxedStrategy<String>| strategy.prop_map(|text| vec![text]).boxed();
        let number = |bounds: &RangeInclusive<u64>| bounds.clone().prop_map(|number| number.to_string()).boxed();
        match &setting.kind {
            Kind::Switch { .. } => one(any::<bool>().prop_map(|on| on.to_string()).boxed()),
            Kind::Number { bounds, .. } => one(number(bounds)),
            Kind::NumberOrAuto { bounds, .. } => one(prop_oneof![Just("auto".to_owned()), number(bounds)].boxed()),
            Kind::Word { words, .. } => one(prop::sample::select(words()).prop_map(str::to_owned).boxed()),
            Kind::Words { words, .. } => {
                let some = prop::sample::subsequence(words.to_vec(), 0..=words.len());
                one(some.prop_map(|some| if some.is_empty() { "off".to_owned() } else { some.join(",") }).boxed())
            }
            Kind::Text { .. } => {
                let file = root.join("a '\"b").display().to_string();
                let texts = accepted(
                    setting,
                    &["auto", "off", "-", "unix:/x y", "https://ca.example.org/x", "\"a@b.example", &file],
                );
                let at_most = texts.len().min(1);
                prop::sample::subsequence(texts, 0..=at_most).boxed()
            }
            Kind::List { .. } | Kind::Listeners => {
                let texts = accepted(setting, &["unix:/a\"\\\t", "192.0.2.1:80", "[::1]:81", "name", "10.0.0.0/8"]);
                let most = texts.len();
                prop::sample::subsequence(texts, 0..=most).boxed()
            }
        }
    }

    /// Those of some texts that a setting takes, and finds nothing wrong with.
    fn accepted(setting: &Setting, texts: &[&str]) -> Vec<String> {
        let is_accepted = |text: &&&str| {
            let mut settings = Settings::default();
            let put = setting.parse(text).and_then(|value| setting.put(&mut settings, &value, Path::new("/")));
            put.is_ok()
                && setting
                    .environment_check
                    .is_none_or(|environment_check| environment_check(&mut settings, Depth::Serve).is_ok())
        };
        texts.iter().filter(is_accepted).map(|text| (*text).to_owned()).collect()
    }

    fn settings(root: &Path) -> impl Strategy<Value = Settings> + use<> {
        let limits = (256usize..63 << 10, 0u32..60_000).prop_map(|(head_bytes_max, linger_timeout_ms)| {
            lamna_proto::limits::Limits {
                head_bytes_max,
                target_bytes_max: (head_bytes_max - 1).min(8192),
                linger_timeout_ms,
                ..Default::default()
            }
        });
        let sites = prop::collection::vec(site(root.to_owned()), 1..3);
        let values: Vec<_> = SETTINGS.iter().map(|setting| value(setting, root)).collect();
        (values, limits, sites).prop_map(|(values, limits, mut sites)| {
            for (index, site) in sites.iter_mut().enumerate().skip(1) {
                site.hosts = vec![format!("*.{index}.example.org"), format!("[::{index}]")];
            }
            let mut settings = Settings { limits, sites, ..Settings::default() };
            for (setting, texts) in SETTINGS.iter().zip(values) {
                for text in texts {
                    let value = setting.parse(&text).unwrap_or_else(|why| panic!("{} = {text}: {why}", setting.name));
                    setting.put(&mut settings, &value, Path::new("/")).unwrap();
                }
            }
            // Certificates are ordered for names.
            let automatic = settings.sites.iter_mut().enumerate().filter(|(_, site)| site.tls == Some(SiteTls::Auto));
            for (index, site) in automatic {
                site.hosts = vec![format!("www.{index}.example.org")];
            }
            settings
        })
    }

    #[test]
    fn what_is_rendered_loads_to_the_same_settings() {
        let directory = tempfile::tempdir().unwrap();
        let mut runner = proptest::test_runner::TestRunner::default();
        let result = runner.run(&settings(directory.path()), |settings| {
            match parse(&render(&settings), Path::new("/x.toml")) {
                Ok(loaded) => prop_assert_eq!(loaded, settings),
                Err(error) => prop_assert!(false, "{}", error),
            }
            Ok(())
        });
        result.unwrap();
    }
}
