//! From settings back to a configuration file: what `lamna check` shows.
//!
//! Guarantees that the text loads to the same settings, for settings that were loaded. Not for others: paths that are
//! not UTF-8 cannot be written in TOML and are written lossily, and of a field given several times the values are
//! brought together.

use std::fmt::Write;
use std::path::Path;

use lamna_proto::limits::Limits;

use super::limits::{ROWS, Unit};
use super::proxies::UNIX;
use super::route::{self, Source};
use super::settings::{LogTarget, Settings, SiteSettings, SiteTls};
use lamna_policy::size::format_size;

/// The settings as TOML, defaults included.
pub fn render(settings: &Settings) -> String {
    let mut page = Page::default();
    let addresses = settings.listen.iter().map(ToString::to_string);
    page.line("listen", list(addresses));
    page.line("arch", quoted(settings.choice().name()));
    page.line("workers", if settings.workers_adapt { quoted("auto") } else { settings.workers.to_string() });
    page.line("pin", settings.pin);
    page.line("h2c", settings.h2c);
    let unix = settings.proxies.unix.then(|| UNIX.to_owned());
    page.line("trusted_proxies", list(settings.proxies.networks.iter().map(ToString::to_string).chain(unix)));
    page.line("forwarded_field", quoted(settings.proxies.field.name()));
    page.line("proxy_protocol", list(settings.proxy_protocol.iter().map(ToString::to_string)));
    page.line(
        "request_limit",
        quoted(&settings.request_limit.map_or_else(|| "off".to_owned(), |rate| rate.to_string())),
    );
    page.line("limit_exempt", list(settings.limit_exempt.iter().map(ToString::to_string)));
    page.line("account", settings.account);
    page.line("helpers", quoted(settings.helpers.name()));
    page.line("helpers_max", settings.helpers_max);
    page.line("threads", if settings.threads_adapt { quoted("auto") } else { settings.threads.to_string() });
    page.line("threads_max", settings.threads_max);
    page.line("processes", settings.processes);
    page.line("processes_max", settings.processes_max);
    page.line("process_cache_bytes", bytes(settings.process_cache_bytes_max));
    page.line("process_translations_max", settings.process_translations_max);
    page.line("send", quoted(settings.sending.strategy.name()));
    page.line("stretch_copy_bytes_max", bytes(settings.sending.stretch_copy_bytes_max));
    page.line("message_copy_bytes_max", bytes(settings.sending.message_copy_bytes_max as u64));
    page.line("cache_bytes", bytes(settings.cache_bytes_max));
    page.line("caches", quoted(&settings.caches.text()));
    page.line("cache_policy", quoted(settings.cache_policy.algorithm.name()));
    page.line("cache_objective", quoted(settings.cache_policy.objective.name()));
    page.line("cache_filter", settings.cache_policy.is_filtered);
    page.line("cache_pages", quoted(settings.cache_pages.name()));
    page.line("cache_watch", settings.cache_watch);
    page.line("compress", quoted(&settings.compression.codings_text()));
    page.line("compress_bytes_min", bytes(settings.compression.bytes_min));
    page.line("compress_bytes_max", bytes(settings.compression.bytes_max));
    page.line("drain_timeout_ms", settings.drain_timeout_ms);
    page.line("log", log_target(&settings.log));
    page.line("log_format", quoted(settings.log_format.name()));
    page.line("error_log", settings.error_log.file.as_deref().map_or_else(|| quoted("-"), path));
    page.line("error_log_format", quoted(settings.error_log.format.name()));
    page.line("error_log_level", quoted(settings.error_log.level.name()));
    page.line("admin", quoted(&settings.admin.address.to_string()));
    page.line("admin_hosts", list(&settings.admin.hosts));
    if let Some(file) = &settings.admin.token_file {
        page.line("admin_token_file", path(file));
    }
    if let Some(file) = &settings.profile_file {
        page.line("profile", path(file));
    }
    page.line("acme_directory", quoted(&settings.acme.directory));
    if let Some(contact) = &settings.acme.contact {
        page.line("acme_contact", quoted(contact));
    }
    if let Some(profile) = &settings.acme.profile {
        page.line("acme_profile", quoted(profile));
    }
    if let Some(roots) = &settings.acme.roots {
        page.line("acme_roots", path(roots));
    }
    limits(&settings.limits, &mut page);
    for each in &settings.sites {
        site(each, &mut page);
    }
    page.text
}

/// The text so far, written line by line.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, key: &str, value: impl std::fmt::Display) {
        writeln!(self.text, "{key} = {value}").expect("writing to a string does not fail");
    }

    fn table(&mut self, header: &str) {
        writeln!(self.text, "\n{header}").expect("writing to a string does not fail");
    }
}

fn limits(limits: &Limits, page: &mut Page) {
    page.table("[limits]");
    for row in &ROWS {
        let value = (row.read)(limits);
        match row.unit {
            Unit::Bytes => page.line(row.name, bytes(value)),
            Unit::Count | Unit::Milliseconds => page.line(row.name, value),
        }
    }
}

fn site(site: &SiteSettings, page: &mut Page) {
    page.table("[[site]]");
    if !site.hosts.is_empty() {
        page.line("hosts", list(&site.hosts));
    }
    if site.has_root() {
        page.line("root", path(&site.root));
    }
    page.line("index", list(&site.index));
    page.line("browse", site.browse);
    page.line("upload", site.upload);
    if let Some(most) = site.upload_bytes_max {
        page.line("upload_bytes_max", bytes(most));
    }
    page.line("upload_resume_s", site.upload_resume_s);
    page.line("upload_resume_bytes_max", bytes(site.upload_resume_bytes_max));
    page.line("delete", site.delete);
    page.line("mkdir", site.mkdir);
    page.line("spa", site.spa);
    page.line("rule_files", site.rule_files);
    if let Some(directory) = &site.user_directory {
        page.line("user_directory", quoted(directory));
    }
    match &site.tls {
        None => {}
        Some(SiteTls::Local) => page.line("tls", quoted("local")),
        Some(SiteTls::Auto) => page.line("tls", quoted("auto")),
        Some(SiteTls::Files(files)) => {
            page.line("certificate", path(&files.certificate));
            page.line("key", path(&files.key));
            files.client_ca.iter().for_each(|file| page.line("client_ca", path(file)));
        }
    }
    headers(&site.headers, page);
    if !site.error_pages.is_empty() {
        page.table("[site.error_pages]");
    }
    for (status, target) in &site.error_pages {
        page.line(&quoted(&status.to_string()), quoted(target));
    }
    for redirect in &site.redirects {
        page.table("[[site.redirect]]");
        page.line("from", quoted(&redirect.from));
        page.line("to", quoted(&redirect.to));
        page.line("status", redirect.status);
    }
    for limit in &site.limits {
        page.table("[[site.limit]]");
        page.line("path", quoted(&limit.path));
        page.line("requests", quoted(&limit.rate.to_string()));
    }
    for alias in &site.aliases {
        page.table("[[site.alias]]");
        page.line("prefix", quoted(&alias.prefix));
        page.line("root", path(&alias.root));
    }
    for each in site.routes.iter().filter(|each| each.source == Source::Configuration) {
        page.text.push_str(&route::render(each));
    }
    page.text.push_str(&route::report(&site.routes, &site.headers));
}

fn headers(headers: &[(String, String)], page: &mut Page) {
    if !headers.is_empty() {
        page.table("[site.headers]");
    }
    for (index, (name, value)) in headers.iter().enumerate() {
        let is_same = |(other, _): &&(String, String)| other == name;
        if headers[..index].iter().any(|field| is_same(&field)) {
            continue;
        }
        let values: Vec<&String> = headers.iter().filter(is_same).map(|(_, value)| value).collect();
        match values.as_slice() {
            [_] => page.line(&quoted(name), quoted(value)),
            several => page.line(&quoted(name), list(several)),
        }
    }
}

/// A number of bytes, in the largest unit that divides it.
fn bytes(value: u64) -> String {
    let text = format_size(value);
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text } else { quoted(&text) }
}

fn log_target(log: &LogTarget) -> String {
    match log {
        LogTarget::Off => quoted("off"),
        LogTarget::Stdout => quoted("-"),
        LogTarget::File(file) => path(file),
    }
}

fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

fn list(texts: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", texts.join(", "))
}

/// A basic string, which can be a key as well as a value (TOML 1.0, String).
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                write!(quoted, "\\u{:04X}", control as u32).expect("writing to a string does not fail");
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::proxies::TrustedProxies;
    use super::super::settings::{
        Alias, CACHE_BYTES, COMPRESS_BYTES, COPY_BYTES, CachePages, Choice, HELPERS, HelperKind, ListenAddress,
        LogFormat, PROCESS_CACHE_BYTES, PROCESSES, Redirect, SiteLimit, THREADS, TRANSLATIONS, TlsFiles, WORKERS,
    };
    use super::*;
    use crate::config::acme::AcmeSettings;
    use crate::config::cache_policy::Policy;
    use crate::config::cache_switches::CacheSwitches;
    use crate::config::compression::{CodingSet, Compression};
    use crate::config::sending::{Plan, SendStrategy};
    use lamna_policy::cache::{Algorithm, Objective};
    use proptest::prelude::*;
    use std::path::PathBuf;

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
                upload: !browse,
                limits: browse
                    .then(|| SiteLimit { path: "/a".into(), rate: "3/m burst 7".parse().unwrap() })
                    .into_iter()
                    .collect(),
                upload_bytes_max: browse.then_some(1 << 20),
                upload_resume_s: if browse { 0 } else { 3_600 },
                upload_resume_bytes_max: if browse { 1 << 30 } else { 12_345 },
                delete: spa,
                mkdir: browse,
                spa,
                headers,
                redirects,
                error_pages,
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
        let files = (file(), file(), prop::option::of(file()))
            .prop_map(|(certificate, key, client_ca)| SiteTls::Files(TlsFiles { certificate, key, client_ca }));
        prop::option::of(prop_oneof![Just(SiteTls::Local), Just(SiteTls::Auto), files])
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let algorithms = prop::sample::select(Algorithm::ALL.to_vec());
        (algorithms, prop::sample::select(Objective::ALL.to_vec()), any::<bool>())
            .prop_map(|(algorithm, objective, is_filtered)| Policy { algorithm, objective, is_filtered })
    }

    fn caches() -> impl Strategy<Value = CacheSwitches> {
        any::<[bool; 3]>().prop_map(|[translations, entries, content]| CacheSwitches { translations, entries, content })
    }

    fn compression() -> impl Strategy<Value = Compression> {
        (0u8..8, COMPRESS_BYTES, COMPRESS_BYTES).prop_map(|(codings, bytes_min, bytes_max)| Compression {
            codings: CodingSet::from_bits(codings),
            bytes_min,
            bytes_max,
        })
    }

    fn settings(root: &Path) -> impl Strategy<Value = Settings> + use<> {
        let address = prop_oneof![
            any::<([u8; 4], u16)>().prop_map(|address| ListenAddress::Tcp(address.into())),
            "/[a-z \"\\\\\t]{1,9}".prop_map(|path| ListenAddress::Unix(path.into())),
        ];
        let log = prop_oneof![
            Just(LogTarget::Off),
            Just(LogTarget::Stdout),
            "[a-z '\"]{1,9}".prop_map({
                let directory = root.to_owned();
                move |name| LogTarget::File(directory.join(name))
            }),
        ];
        let limits = (256usize..63 << 10, 0u32..60_000).prop_map(|(head_bytes_max, linger_timeout_ms)| {
            lamna_proto::limits::Limits {
                head_bytes_max,
                target_bytes_max: (head_bytes_max - 1).min(8192),
                linger_timeout_ms,
                ..Default::default()
            }
        });
        let sites = prop::collection::vec(site(root.to_owned()), 1..3);
        let parts = (
            prop::collection::vec(address, 0..3),
            (prop::sample::select(Choice::all().collect::<Vec<_>>()), any::<bool>(), any::<bool>()),
            (WORKERS, HELPERS, THREADS, THREADS),
            (CACHE_BYTES, caches(), compression(), policy(), any::<bool>()),
            prop::sample::select(CachePages::ALL.to_vec()),
            (prop::sample::select(HelperKind::ALL.to_vec()), PROCESSES, PROCESSES, PROCESS_CACHE_BYTES, TRANSLATIONS),
            (any::<bool>(), prop::sample::select(SendStrategy::ALL.to_vec()), COPY_BYTES, COPY_BYTES),
            log,
            prop::sample::select(LogFormat::ALL.to_vec()),
            limits,
            sites,
        );
        parts.prop_map(
            |(
                listen,
                (choice, workers_adapt, threads_adapt),
                (workers, helpers_max, threads, threads_max),
                (cache_bytes_max, caches, compression, cache_policy, cache_watch),
                cache_pages,
                (helpers, processes, processes_max, process_cache_bytes_max, process_translations_max),
                (pin, strategy, stretch_copy_bytes_max, message_copy_bytes_max),
                log,
                log_format,
                limits,
                mut sites,
            )| {
                for (index, site) in sites.iter_mut().enumerate().skip(1) {
                    site.hosts = vec![format!("*.{index}.example.org"), format!("[::{index}]")];
                }
                // Certificates are ordered for names.
                for (index, site) in sites.iter_mut().enumerate().filter(|(_, site)| site.tls == Some(SiteTls::Auto)) {
                    site.hosts = vec![format!("www.{index}.example.org")];
                }
                let acme = AcmeSettings {
                    directory: format!("https://ca.example.org/{threads}"),
                    contact: pin.then(|| "\"a@b.example".to_owned()),
                    profile: pin.then(|| "a \"b".to_owned()),
                    roots: pin.then(|| "/etc/ca \".pem".into()),
                };
                let message_copy_bytes_max = message_copy_bytes_max as usize;
                let mut settings = Settings {
                    pin,
                    account: !pin,
                    h2c: !pin,
                    proxy_protocol: pin.then(|| "127.0.0.1:0".parse().unwrap()).into_iter().collect(),
                    request_limit: pin.then(|| "7/h".parse().unwrap()),
                    proxies: TrustedProxies {
                        unix: pin,
                        networks: vec!["10.0.0.0/8".parse().unwrap()],
                        ..TrustedProxies::default()
                    },
                    sending: Plan { strategy, stretch_copy_bytes_max, message_copy_bytes_max },
                    listen,
                    workers: if workers_adapt { 1 } else { workers },
                    workers_adapt,
                    helpers_max,
                    threads: if threads_adapt { Settings::default().threads } else { threads },
                    threads_adapt,
                    threads_max,
                    helpers,
                    processes,
                    processes_max,
                    process_cache_bytes_max,
                    process_translations_max,
                    cache_bytes_max,
                    caches,
                    compression,
                    cache_policy,
                    cache_watch,
                    cache_pages,
                    log,
                    log_format,
                    drain_timeout_ms: threads as u32 * 1000,
                    acme,
                    limits,
                    sites,
                    ..Settings::default()
                };
                settings.choose(choice);
                settings
            },
        )
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
