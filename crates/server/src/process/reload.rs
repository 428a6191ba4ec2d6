//! Other settings for an engine that serves: which parts of it go on as they are.
//!
//! Owns: the comparisons. Guarantees: they agree with the columns of the rows of settings (`config::setting`), which
//! the manual shows: a test changes each setting. Pure.

use lamna_config::own_files::same_sites;
use lamna_config::settings::{Architecture, HelperKind, Settings};

/// The settings that an engine with `before` goes on with, of `after`, without another in its place.
pub(crate) fn adjusted(before: &Settings, after: &Settings) -> Settings {
    Settings {
        adapts: after.adapts,
        workers_adapt: after.workers_adapt,
        threads_adapt: after.threads_adapt,
        profile: after.profile.clone(),
        // The one who orders it has had them changed.
        services: after.services.clone(),
        cache_policy: after.cache_policy,
        threads: after.threads,
        drain_timeout_ms: after.drain_timeout_ms,
        helpers_max: if has_helper_threads(after) { after.helpers_max } else { before.helpers_max },
        ..before.clone()
    }
}

/// Whether helpers are threads that are made as they are needed, or none.
fn has_helper_threads(settings: &Settings) -> bool {
    settings.helpers == HelperKind::Threads && settings.architecture != Architecture::Proactor
}

/// Whether the same certificates are shown to the same clients.
pub(crate) fn keeps_tls(before: &Settings, after: &Settings) -> bool {
    let ways = |settings: &Settings| -> Vec<_> {
        settings.sites.iter().map(|site| (site.hosts.clone(), site.tls.clone())).collect()
    };
    ways(before) == ways(after) && before.acme == after.acme
}

/// Whether what is cached is good for both. Entries are found by the place of their site among the sites.
pub(crate) fn keeps_cache(before: &Settings, after: &Settings) -> bool {
    same_sites(after, before)
        && after.cache_bytes_max == before.cache_bytes_max
        && after.cache_files_max == before.cache_files_max
        && after.caches == before.caches
        && after.replaces_page_cache() == before.replaces_page_cache()
        && after.uses_headroom() == before.uses_headroom()
        && after.cache_watch == before.cache_watch
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use lamna_config::parse_unseen;
    use lamna_config::reload::Reload;
    use lamna_config::setting::{Kind, SETTINGS, Setting, Value, refused_by_reload};

    use lamna_io::listen;

    use super::*;
    use crate::process::body::Body;
    use crate::process::server::Server;

    /// Settings that differ from the defaults in this one alone: with each value that can be tried.
    fn changed(setting: &Setting) -> Vec<Settings> {
        const TEXTS: [&str; 10] = [
            "off",
            "/other/file",
            "1/s",
            "https://ca.example/d",
            "a@b.example",
            "name",
            "192.0.2.0/24",
            "unix:/s",
            "99",
            "$status",
        ];
        let texts = |words: &[&str]| words.iter().map(|word| Value::Text((*word).to_owned())).collect();
        let values: Vec<Value> = match &setting.kind {
            Kind::Switch { .. } => vec![Value::Switch(true), Value::Switch(false)],
            Kind::Number { bounds, .. } | Kind::NumberOrAuto { bounds, .. } => {
                vec![Value::Number(*bounds.start()), Value::Number(*bounds.end())]
            }
            Kind::Word { words, .. } => texts(&words()),
            Kind::Words { words, .. } => texts(words),
            Kind::Text { .. } | Kind::List { .. } | Kind::Listeners => texts(&TEXTS),
        };
        let of = |value: &Value| {
            let mut settings = Settings::default();
            setting.put(&mut settings, value, Path::new("/")).ok()?;
            (settings != Settings::default()).then_some(settings)
        };
        values.iter().filter_map(of).collect()
    }

    #[test]
    fn the_column_of_each_setting_says_what_a_reload_does() {
        let before = Settings::default();
        for setting in SETTINGS {
            let changed = changed(setting);
            assert!(!changed.is_empty(), "{} can be changed", setting.name);
            let refused = changed.iter().all(|after| refused_by_reload(&before, after).is_some());
            assert_eq!(refused, matches!(setting.reload, Reload::Restart(_)), "{}", setting.name);
            if refused {
                continue;
            }
            let adjusts = changed.iter().all(|after| adjusted(&before, after) == *after);
            assert_eq!(adjusts, setting.reload == Reload::AtOnce, "{}", setting.name);
            let empties = changed.iter().any(|after| !keeps_cache(&before, after));
            assert_eq!(empties, setting.empties_cache, "{}", setting.name);
            let orders = changed.iter().any(|after| !keeps_tls(&before, after));
            assert_eq!(orders, setting.reload == Reload::Certificates, "{}", setting.name);
        }
    }

    /// For each key of a site, lines that are not its default.
    const SITE: &[(&str, &str)] = &[
        ("hosts", "hosts = [\"a.test\"]"),
        ("root", "root = \"/other\""),
        ("index", "index = [\"a.html\"]"),
        ("browse", "browse = true"),
        ("log", "log = \"off\""),
        ("log_format", "log_format = \"json\""),
        ("live_reload", "live_reload = true"),
        ("hints", "hints = true"),
        ("early_hints", "early_hints = true"),
        ("early_hints_http1", "early_hints_http1 = true"),
        ("early_hints_waste_percent_max", "early_hints_waste_percent_max = 1"),
        ("early_hints_probability_percent_min", "early_hints_probability_percent_min = 1"),
        ("link_prefetch", "link_prefetch = true"),
        ("link_prefetch_waste_percent_max", "link_prefetch_waste_percent_max = 1"),
        ("link_prefetch_probability_percent_min", "link_prefetch_probability_percent_min = 1"),
        ("upload", "upload = true"),
        ("upload_bytes_max", "upload_bytes_max = 1"),
        ("upload_resume_s", "upload_resume_s = 1"),
        ("upload_resume_bytes_max", "upload_resume_bytes_max = 1"),
        ("delete", "delete = true"),
        ("mkdir", "mkdir = true"),
        ("webdav", "webdav = true"),
        ("maintenance", "maintenance = true"),
        ("users", USER),
        ("tokens", TOKEN),
        ("access", "access = { allow = \"10.0.0.0/8\" }"),
        ("spa", "spa = true"),
        ("rule_files", "rule_files = true"),
        ("user_directory", "user_directory = \"public_html\""),
        ("certificate", "certificate = \"/c\"\nkey = \"/k\""),
        ("key", "certificate = \"/c\"\nkey = \"/other\""),
        ("client_ca", "certificate = \"/c\"\nkey = \"/k\"\nclient_ca = \"/a\""),
        (
            "client_certificates",
            "certificate = \"/c\"\nkey = \"/k\"\nclient_ca = \"/a\"\nclient_certificates = \"optional\"",
        ),
        ("tls", "tls = \"local\""),
        ("headers", "headers = { X-A = \"1\" }"),
        ("error_pages", "error_pages = { \"404\" = \"/a.html\" }"),
        ("redirect", "redirect = [{ from = \"/a\", to = \"/b\" }]"),
        ("limit", "limit = [{ requests = \"1/s\" }]"),
        ("alias", "alias = [{ prefix = \"/a/\", root = \"/b\" }]"),
        (
            "application",
            "application = [{ name = \"a\", proxy = \"http://127.0.0.1:1\" }]\nroute = [{ match = \"/a\", application = \"a\" }]",
        ),
        ("route", "route = [{ match = \"/a\", immutable = true }]"),
    ];
    const USER: &str = "users = { ada = \"$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$\
                        kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs\" }";
    const TOKEN: &str = "tokens = { a = \"sha256:5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f5f\" }";

    #[test]
    fn no_key_of_a_site_is_forgotten_by_a_reload_and_the_column_names_those_of_tls() {
        let settings = |lines: &str| {
            let root = if lines.starts_with("root") { "" } else { "root = \"/\"\n" };
            parse_unseen(&format!("[[site]]\n{root}{lines}\n"), Path::new("/a.toml")).unwrap()
        };
        let before = settings("");
        for key in lamna_config::site::keys() {
            // It is read from a file, into what `users` is as well.
            if key.name == "users_file" {
                continue;
            }
            let (_, lines) = SITE.iter().find(|(name, _)| *name == key.name).expect(key.name);
            let after = settings(lines);
            assert!(!keeps_cache(&before, &after), "{}", key.name);
            assert!(adjusted(&before, &after) != after && refused_by_reload(&before, &after).is_none(), "{}", key.name);
            // Hosts are looked up for each request, and for each handshake.
            let is_of_tls = !keeps_tls(&before, &after) && key.name != "hosts";
            assert_eq!(is_of_tls, key.reload == Reload::Connections, "{}", key.name);
        }
        assert!(lamna_config::route::keys().all(|key| key.reload == Reload::Requests));
    }

    /// A server by `before` that has read `after`.
    fn reloaded(before: &str, after: &str) -> Server {
        let settings = |lines: &str| {
            let text = format!("arch = \"sped\"\nlog = \"off\"\nsandbox = false\n{lines}\n[[site]]\nroot = \"/\"\n");
            parse_unseen(&text, Path::new("/a.toml")).unwrap()
        };
        let listeners = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let mut server = Server::open(&settings(before), listeners).unwrap();
        server.change(&settings(after)).unwrap();
        server
    }

    #[test]
    fn books_are_kept_from_a_reload_that_says_so() {
        for is_kept in [true, false] {
            let server = reloaded(&format!("account = {}", !is_kept), &format!("account = {is_kept}"));
            assert_eq!(server.shared_metrics().done.account.account().is_some(), is_kept);
            server.stop();
        }
    }

    #[test]
    fn proxies_that_are_trusted_no_more_are_not_believed_in_the_proxy_protocol() {
        let lines = |network: &str| format!("proxy_protocol = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"{network}\"]");
        let server = reloaded(&lines("192.0.2.0/24"), &lines("198.51.100.0/24"));
        let proxies = server.listeners()[0].proxies().expect("it is for proxies");
        assert!(!proxies.trust("192.0.2.1".parse().ok()) && proxies.trust("198.51.100.1".parse().ok()));
        server.stop();
        let server = reloaded(&lines("192.0.2.0/24"), "");
        assert!(server.listeners()[0].proxies().is_none());
        server.stop();
    }
}
