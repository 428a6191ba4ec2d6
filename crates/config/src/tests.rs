//! Behaviour of configuration as a whole: files in, settings or reports out, and back.

use std::fs;
use std::path::Path;

use lamna_policy::cache::{Algorithm, Objective};
use lamna_policy::control::Profile;

use super::address::AdminAddress;
use crate::cache_policy::Policy;
use crate::cache_switches::CacheSwitches;
use crate::compression::{CodingSet, Compression};
use proptest::prelude::*;
use tempfile::TempDir;

use super::access::AccessRules;
use super::error_log::{ErrorLogFormat, ErrorLogSettings, Level};
use super::password::PasswordHash;
use super::setting::Value;
use super::setting::table::find;
use super::settings::*;
use super::{ConfigError, Overrides, field_from_text, load, parse};
use crate::sending::{Plan, SendStrategy};

/// A directory with `site/`, `other/` and the text as `lamna.toml`.
fn directory_with(text: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    for name in ["site", "other"] {
        fs::create_dir(directory.path().join(name)).expect("it is empty");
    }
    fs::write(directory.path().join("lamna.toml"), text).expect("it can be written");
    directory
}

fn load_text(text: &str) -> (TempDir, Result<Settings, ConfigError>) {
    let directory = directory_with(text);
    let result = load(Some(&directory.path().join("lamna.toml")), &Overrides::default());
    (directory, result)
}

fn accepted(text: &str) -> (TempDir, Settings) {
    let (directory, result) = load_text(text);
    match result {
        Ok(settings) => (directory, settings),
        Err(error) => panic!("refused: {error}"),
    }
}

/// Settings as the command line gives them.
fn given(texts: &[(&'static str, &str)]) -> Vec<(&'static str, Value)> {
    let parse = |name, text| find(name).expect("a setting").parse(text).expect("a value");
    texts.iter().map(|(name, text)| (*name, parse(name, text))).collect()
}

/// The report, with the directory of the file left out.
fn report(text: &str) -> String {
    let (directory, result) = load_text(text);
    let error = result.expect_err("this file has a problem").to_string();
    error.replace(&format!("{}/", directory.path().display()), "")
}

/// The first line of the report about `line`, the second line after an otherwise correct site.
fn site_report(lines: &str) -> String {
    report(&format!("[[site]]\nroot = \"site\"\n{lines}\n"))
}

#[test]
fn one_file_holds_everything() {
    let (directory, settings) = accepted(
        r#"
        listen = ["127.0.0.1:8080", "[::1]:8080", "unix:run/x.sock"]
        arch = "sped"
        workers = 2
        pin = true
        h2c = true
        request_limit = "20/s burst 100"
        connection_limit = 100
        application_limit = 77
        network_bytes_max = "4MiB"
        network_buffer_bytes_max = "8MiB"
        account = true
        helpers_max = 8
        threads = 9
        threads_max = 10
        helpers = "processes"
        processes = 11
        processes_max = 12
        drain_timeout_ms = 1500
        process_cache_bytes = "8MiB"
        process_translations_max = 13
        send = "mapped"
        stretch_copy_bytes_max = "8KiB"
        message_copy_bytes_max = 99
        cache_bytes = "64MiB"
        caches = "entries,content"
        cache_policy = "sieve"
        cache_objective = "bytes"
        cache_filter = true
        cache_pages = "release"
        cache_watch = false
        compress = "gzip"
        compress_bytes_min = 500
        compress_bytes_max = "1MiB"
        log = "access.log"
        log_format = "json"
        error_log = "error.log"
        error_log_format = "json"
        error_log_level = "warning"
        admin = "unix:control"
        admin_hosts = ["Web.example.org"]
        [limits]
        head_bytes_max = "32KiB"
        idle_timeout_ms = 5000
        [[site]]
        hosts = ["Example.org", "*.example.org"]
        root = "site"
        index = ["index.html", "index.htm"]
        browse = true
        mkdir = true
        upload_resume_s = 60
        spa = true
        user_directory = "public_html"
        headers = { X-Z = "1", X-A = ["2", "3"] }
        error_pages = { "404" = "/404.html" }
        [[site.redirect]]
        from = "/old/*"
        to = "https://example.org/new/*"
        status = 301
        [[site.redirect]]
        from = "/a"
        to = "/b"
        [[site.alias]]
        prefix = "/a/"
        root = "other"
        [[site.alias]]
        prefix = "/a/b/"
        root = "site"
        "#,
    );
    let base = directory.path();
    let redirect = |from: &str, to: &str, status| Redirect { from: from.into(), to: to.into(), status };
    let alias = |prefix: &str, root| Alias { prefix: prefix.into(), root: base.join(root) };
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = Settings {
        listen: vec![
            ListenAddress::Tcp("127.0.0.1:8080".parse().unwrap()).into(),
            ListenAddress::Tcp("[::1]:8080".parse().unwrap()).into(),
            ListenAddress::Unix(base.join("run/x.sock")).into(),
        ],
        architecture: Architecture::Sped,
        adapts: false,
        workers: 2,
        workers_adapt: false,
        threads_adapt: false,
        pin: true,
        h2c: true,
        proxies: Settings::default().proxies,
        proxy_protocol: Vec::new(),
        request_limit: "20/s burst 100".parse().ok(),
        connection_limit: 100,
        application_limit: 77,
        network_bytes_max: 4 << 20,
        network_buffer_bytes_max: 8 << 20,
        limit_exempt: Settings::default().limit_exempt,
        account: true,
        helpers_max: 8,
        threads: 9,
        threads_max: 10,
        helpers: HelperKind::Processes,
        processes: 11,
        processes_max: 12,
        drain_timeout_ms: 1500,
        process_cache_bytes_max: 8 << 20,
        process_translations_max: 13,
        sending: Plan { strategy: SendStrategy::Mapped, stretch_copy_bytes_max: 8 << 10, message_copy_bytes_max: 99 },
        cache_bytes_max: 64 << 20,
        caches: CacheSwitches { translations: false, ..CacheSwitches::ALL },
        cache_policy: Policy { algorithm: Algorithm::Sieve, objective: Objective::Bytes, is_filtered: true },
        cache_pages: CachePages::Release,
        cache_watch: false,
        compression: Compression {
            codings: Compression::codings_from_text("gzip").unwrap(),
            bytes_min: 500,
            bytes_max: 1 << 20,
        },
        log: LogTarget::File(base.join("access.log")),
        log_format: LogFormat::Json,
        error_log: ErrorLogSettings {
            file: Some(base.join("error.log")),
            format: ErrorLogFormat::Json,
            level: Level::Warning,
        },
        admin: AdminSettings {
            address: AdminAddress::At(ListenAddress::Unix(base.join("control"))),
            hosts: vec!["web.example.org".into()],
            token_file: None,
        },
        limits: lamna_proto::limits::Limits { head_bytes_max: 32 << 10, idle_timeout_ms: 5000, ..Default::default() },
        sites: vec![SiteSettings {
            hosts: vec!["example.org".into(), "*.example.org".into()],
            root: base.join("site"),
            index: vec!["index.html".into(), "index.htm".into()],
            browse: true,
            mkdir: true,
            upload_resume_s: 60,
            spa: true,
            headers: vec![field("X-Z", "1"), field("X-A", "2"), field("X-A", "3")],
            redirects: vec![redirect("/old/*", "https://example.org/new/*", 301), redirect("/a", "/b", 302)],
            error_pages: [(404, "/404.html".into())].into(),
            aliases: vec![alias("/a/b/", "site"), alias("/a/", "other")],
            user_directory: Some("public_html".into()),
            ..SiteSettings::new(base.join("site"))
        }],
        read_files: vec![base.join("lamna.toml")],
        ..Settings::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn without_a_file_a_directory_is_served_on_defaults() {
    let directory = directory_with("");
    let overrides = Overrides { directory: Some(directory.path().join("site")), ..Overrides::default() };
    let settings = load(None, &overrides).unwrap();
    let site = SiteSettings { browse: true, ..SiteSettings::new(directory.path().join("site")) };
    let expected = Settings { sites: vec![site], ..Settings::default() };
    assert_eq!(settings, expected);
    assert_eq!(settings.architecture, Architecture::Amped);
    assert_eq!((settings.workers, settings.helpers_max), (1, 32));
    assert_eq!(settings.log, LogTarget::Stdout);
}

#[test]
fn without_anything_the_working_directory_is_served() {
    let settings = load(None, &Overrides::default()).unwrap();
    assert_eq!(settings.sites[0].root, std::env::current_dir().unwrap());
}

#[test]
fn the_command_line_overrides_the_file() {
    let directory = directory_with("listen = [\"1\"]\nworkers = 3\nlog = \"off\"\n[[site]]\nroot = \"site\"\n");
    let profile = directory.path().join("profile.toml");
    fs::write(&profile, "").unwrap();
    let overrides = Overrides {
        listen: vec![ListenAddress::Unix("x".into()).into()],
        users: vec![("ada".to_owned(), PasswordHash::parse("{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=").unwrap())],
        settings: given(&[
            ("arch", "sped"),
            ("workers", "2"),
            ("profile", &profile.display().to_string()),
            ("pin", "true"),
            ("h2c", "true"),
            ("account", "true"),
            ("helpers", "processes"),
            ("helpers_max", "7"),
            ("threads", "5"),
            ("threads_max", "6"),
            ("processes", "8"),
            ("processes_max", "9"),
            ("cache_bytes", "1MiB"),
            ("caches", "off"),
            ("cache_policy", "lfu"),
            ("compress", "off"),
            ("send", "copy"),
            ("log", "-"),
            ("log_format", "json"),
            ("error_log", "-"),
            ("error_log_format", "text"),
            ("admin", "9100"),
            ("drain_timeout_ms", "250"),
            ("acme_directory", "https://ca.test/dir"),
            ("acme_contact", "a@b.test"),
        ]),
        quiet: true,
        browse: Some(true),
        live_reload: true,
        headers: vec![("X-A".into(), "2".into())],
        cors: Some("*".into()),
        upload: true,
        gateway: None,
        delete: true,
        mkdir: true,
        webdav: true,
        spa: true,
        directory: None,
        certificate: None,
        tls: true,
        domains: Vec::new(),
        without: Vec::new(),
    };
    let settings = load(Some(&directory.path().join("lamna.toml")), &overrides).unwrap();
    let error_log = ErrorLogSettings { level: Level::Warning, ..ErrorLogSettings::default() };
    assert_eq!(settings.error_log, error_log);
    let fields = &settings.sites[0].headers;
    assert_eq!(fields.iter().filter(|(name, _)| name == "X-A").count(), 1);
    assert!(fields.contains(&("Access-Control-Allow-Origin".into(), "*".into())), "{fields:?}");
    let socket = std::env::current_dir().unwrap().join("x");
    assert_eq!(settings.listen, [ListenAddress::Unix(socket).into()]);
    assert_eq!((settings.choice(), settings.workers_adapt), (Choice::Fixed(Architecture::Sped), false));
    assert_eq!((settings.profile, settings.profile_file), (Some(Profile::built_in()), Some(profile)));
    assert_eq!(settings.admin.address, "9100".parse().unwrap());
    assert_eq!((settings.workers, settings.helpers_max), (2, 7));
    assert_eq!((settings.threads, settings.threads_max), (5, 6));
    assert_eq!((settings.processes, settings.processes_max, settings.drain_timeout_ms), (8, 9, 250));
    assert_eq!(settings.helpers, HelperKind::Processes);
    assert_eq!((settings.pin, settings.h2c, settings.account), (true, true, true));
    assert_eq!(settings.sending.strategy, SendStrategy::Copy);
    assert_eq!(settings.cache_bytes_max, 1 << 20);
    assert_eq!(settings.compression.codings, CodingSet::IDENTITY);
    assert_eq!((settings.caches, settings.cache_policy.algorithm), (CacheSwitches::NONE, Algorithm::Lfu));
    assert_eq!(settings.log, LogTarget::Stdout);
    assert_eq!(settings.log_format, LogFormat::Json);
    let site = &settings.sites[0];
    assert!(site.browse && site.live_reload && site.spa && site.upload && site.delete && site.mkdir && site.webdav);
    assert!(site.accounts.users.contains_key("ada") && site.access == AccessRules::for_all_users());
    assert_eq!(settings.sites[0].tls, Some(SiteTls::Local));
    assert_eq!(
        (&*settings.acme.directory, settings.acme.contact.as_deref()),
        ("https://ca.test/dir", Some("a@b.test"))
    );
}

#[test]
fn a_site_has_its_own_certificate_or_that_of_the_command_line() {
    let directory = directory_with(
        "[[site]]\nroot = \"site\"\nhosts = [\"a\"]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\nclient_ca = \"ca.pem\"\n\
         [[site]]\nroot = \"site\"\nhosts = [\"b\"]\n[[site]]\nroot = \"site\"\nhosts = [\"c\"]\ntls = \"local\"\n",
    );
    let overrides = Overrides { certificate: Some(("/x/c".into(), "/x/k".into())), tls: true, ..Overrides::default() };
    let settings = load(Some(&directory.path().join("lamna.toml")), &overrides).unwrap();
    let at = |name: &str| directory.path().canonicalize().unwrap().join(name);
    let own = TlsFiles {
        certificate: at("c.pem"),
        key: at("k.pem"),
        client_ca: Some(ClientCa { file: at("ca.pem"), is_optional: false }),
    };
    let given = TlsFiles { certificate: "/x/c".into(), key: "/x/k".into(), client_ca: None };
    let expected = [SiteTls::Files(own), SiteTls::Files(given), SiteTls::Local].map(Some);
    assert_eq!(settings.sites.into_iter().map(|site| site.tls).collect::<Vec<_>>(), expected);
}

#[test]
fn a_directory_beside_a_file_needs_a_file_without_sites() {
    let overrides =
        |directory: &TempDir| Overrides { directory: Some(directory.path().join("other")), ..Overrides::default() };
    let with = directory_with("[[site]]\nroot = \"site\"\n");
    let error = load(Some(&with.path().join("lamna.toml")), &overrides(&with)).unwrap_err();
    assert!(matches!(error, ConfigError::DirectoryAndSites { .. }));

    let without = directory_with("workers = 2\n");
    let settings = load(Some(&without.path().join("lamna.toml")), &overrides(&without)).unwrap();
    assert_eq!(settings.workers, 2);
    assert_eq!(settings.sites[0].root, without.path().join("other"));
}

#[test]
fn a_file_without_a_site_is_refused() {
    assert!(report("workers = 2").starts_with("lamna.toml: there is no site\n"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = load(Some(Path::new("/nonexistent/a.toml")), &Overrides::default()).unwrap_err();
    assert!(matches!(error, ConfigError::Read { .. }));
    assert!(error.to_string().starts_with("/nonexistent/a.toml: cannot be read: "));
}

#[test]
fn a_file_that_is_not_utf8_is_refused_with_the_place() {
    let directory = directory_with("");
    let file = directory.path().join("lamna.toml");
    fs::write(&file, b"workers = 1\nlog = \"\xff\"\n").unwrap();
    let error = load(Some(&file), &Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("lamna.toml:2:8: this is not UTF-8"));
}

#[test]
fn an_unknown_key_is_shown_with_the_one_that_was_meant() {
    assert_eq!(
        report("[[site]]\nrot = \"site\"\n"),
        "lamna.toml:2:1: unknown key `rot`\n  |\n2 | rot = \"site\"\n  | ^^^ did you mean `root`?"
    );
    assert!(site_report("workers = 1").contains("`workers` belongs at the top of the file"));
    assert!(report("root = \"site\"").contains("`root` belongs in a [[site]] table"));
    assert!(report("[limits]\nhead_byte_max = 1").contains("did you mean `head_bytes_max`?"));
}

#[test]
fn the_tables_of_keys_are_those_of_the_shapes() {
    // The reader lists every key it knows: the list for misplaced keys must not fall behind.
    for (table, (_, keys)) in [("", 0), ("[[site]]\n", 1)].map(|(text, at)| (text, super::file::KEYS[at])) {
        let report = report(&format!("{table}qqqqqqqqqqqqqqqqq = 1"));
        for key in keys {
            assert!(report.contains(key), "{key} in {report}");
        }
    }
}

#[test]
fn syntax_and_types_are_explained_in_this_files_words() {
    assert!(report("workers = = 1").starts_with("lamna.toml:1:11: "));
    assert!(report("listen = \"8080\"").contains("expected a list, as in"));
    assert!(report("[site]\nroot = \"site\"").contains("as in [[site]]"));
    assert!(report("workers = 1.5").contains("expected a whole number"));
    assert!(site_report("browse = 1").contains("expected a boolean"));
    assert!(site_report("[[site.alias]]\nprefix = \"/a/\"").contains("`root` is missing"));
}

#[test]
fn all_problems_of_the_values_are_reported_in_the_order_of_the_file() {
    let report = report("workers = 0\narch = \"ampd\"\n[[site]]\nroot = \"nowhere\"\nhosts = [\"a:80\"]\n");
    let places: Vec<&str> = report.lines().filter(|line| line.starts_with("lamna.toml:")).collect();
    assert_eq!(places.len(), 4, "{report}");
    assert!(places[0].starts_with("lamna.toml:1:11: `workers` must be between 1 and 1024"));
    assert!(places[1].starts_with("lamna.toml:2:8: unknown arch `ampd`"));
    assert!(places[2].starts_with("lamna.toml:4:8: the directory `"));
    assert!(places[3].starts_with("lamna.toml:5:10: `a:80` has a port"));
    assert!(report.contains("did you mean `amped`?"));
}

#[test]
fn unknown_keys_and_wrong_types_are_reported_with_the_values_in_the_order_of_the_file() {
    let text = "workers = 0\nrot = 1\npin = \"yes\"\nlisten = [80, \"nowhere\"]\narch = \"ampd\"\n[limits]\nfields = 3\n\
                [[site]]\nroot = 5\nspa = 1\nhosts = [\"a:80\"]\n[[site.alias]]\nprefix = \"/a/\"\n\
                [[site.redirect]]\nfrom = \"a\"\nto = \"/b\"\nfoo = 1\n";
    let report = report(text);
    let places: Vec<&str> = report.lines().filter(|line| line.starts_with("lamna.toml:")).collect();
    let expected = [
        "1:11: `workers` must be between",
        "2:1: unknown key `rot`",
        "3:7: invalid type",
        "4:11: `80` is a number, and a text is expected",
        "4:15: `nowhere` is not an address",
        "5:8: unknown arch `ampd`",
        "7:1: unknown limit `fields`",
        "9:8: `5` is a number, and a text is expected",
        "10:7: invalid type",
        "11:10: `a:80` has a port",
        "12:1: `root` is missing",
        "15:8: `a` must start with `/`",
        "17:1: unknown key `foo`",
    ];
    assert_eq!(places.len(), expected.len(), "{report}");
    for (place, expected) in places.iter().zip(expected) {
        assert!(place.strip_prefix("lamna.toml:").unwrap().starts_with(expected), "{place}, not {expected}");
    }
}

#[test]
fn top_level_values_are_within_their_bounds() {
    for (line, message) in [
        ("workers = 1025", "between 1 and 1024"),
        ("workers = -1", "between 1 and 1024"),
        ("workers = \"2\"", "without quotation marks"),
        ("helpers_max = 0", "between 1 and 1024"),
        ("send = \"fast\"", "fast"),
        ("stretch_copy_bytes_max = \"1MiB\"", "256KiB"),
        ("cache_policy = \"fifo\"", "unknown cache_policy `fifo`"),
        ("cache_pages = \"drop\"", "unknown cache_pages `drop`"),
        ("caches = \"heads\"", "some of translations, entries and content"),
        ("compress = \"deflate\"", "some of br, zstd and gzip"),
        ("compress_bytes_max = \"65MiB\"", "between 1 and 64MiB"),
        ("cache_bytes = 1", "between 1MiB and 16TiB"),
        ("cache_bytes = \"64MX\"", "expected KiB, MiB"),
        ("listen = [\"example.org:80\"]", "is not an address"),
        ("log = \"\"", "is not a path"),
        ("log_format = \"jsn\"", "did you mean `json`?"),
        ("[limits]\nhead_bytes_max = 10", "between 256 and 63KiB"),
        ("[limits]\nidle_timeout_ms = 1", "between 100 ms and 3600000 ms"),
        ("[limits]\nidle_timeout_ms = \"1s\"", "number of milliseconds"),
        ("[limits]\nhead_bytes_max = 4096", "must be less than `head_bytes_max` (4096)"),
    ] {
        let report = report(line);
        assert!(report.contains(message), "{line}: {report}");
    }
}

#[test]
fn what_could_not_be_listened_at_or_logged_to_is_refused_with_the_place() {
    for (line, message) in [
        ("listen = [\"8080\", \":8080\"]", "1:19: `:8080` is named twice"),
        ("listen = [\"0.0.0.0:80\", \"80\"]", "`:80` and `0.0.0.0:80` overlap"),
        ("listen = [\"unix:a\", \"unix:a\"]", "is named twice"),
        ("log = \"logs/access.log\"", "1:7: the directory `"),
        ("log = \"site\"", "is a directory"),
        ("log = \"lamna.toml/a\"", "is not a directory"),
    ] {
        let report = report(line);
        assert!(report.contains(message), "{line}: {report}");
    }
}

#[test]
fn control_and_a_profile_are_set_in_the_file_and_what_is_rendered_loads_to_the_same() {
    let directory = directory_with(
        "admin = \"9100\"\nadmin_token_file = \"token\"\nprofile = \"profile.toml\"\n[[site]]\nroot = \"site\"",
    );
    fs::write(directory.path().join("token"), "0123456789abcdef\n").unwrap();
    fs::write(directory.path().join("profile.toml"), "").unwrap();
    let settings = load(Some(&directory.path().join("lamna.toml")), &Overrides::default()).unwrap();
    assert_eq!(settings.admin.token_file, Some(directory.path().join("token")));
    assert_eq!(settings.profile, Some(Profile::built_in()));
    let rendered = parse(&super::render(&settings), Path::new("/x.toml")).unwrap();
    assert_eq!(Settings { read_files: settings.read_files.clone(), ..rendered }, settings);
    for (line, message) in [
        ("admin = \"nowhere\"", "or off, or auto"),
        ("listen = [\"9100\"]\nadmin = \"9100\"", "2:9: `127.0.0.1:9100` and `:9100` overlap"),
        ("admin_hosts = [\"a:80\"]", "has a port"),
        ("admin_token_file = \"lamna.toml\"", "has no token: a token has at least 16"),
        ("profile = \"nowhere\"", "cannot read"),
    ] {
        let report = report(line);
        assert!(report.contains(message), "{line}: {report}");
    }
}

#[test]
fn values_of_a_site_are_judged() {
    let long_field = format!("headers = {{ X-A = \"{}\" }}", "x".repeat(17_000));
    let long_location = format!("redirect = [{{ from = \"/a\", to = \"/{}\" }}]", "x".repeat(9000));
    for (lines, message) in [
        ("hosts = [\"a..b\"]", "is not a host name"),
        ("hosts = [\"*\"]", "is not a host name"),
        ("hosts = [\"a\", \"A\"]", "named twice"),
        ("index = [\"a/b\"]", "not the name of a file"),
        ("user_directory = \"../x\"", "beneath a home directory"),
        ("user_directory = \"/x\"", "beneath a home directory"),
        ("headers = { \"X A\" = \"1\" }", "is not the name of a field"),
        ("headers = { \"\" = \"1\" }", "is not the name of a field"),
        ("headers = { X-A = \"1\\r\\nB: 2\" }", "control characters"),
        ("headers = { date = \"1\" }", "computed by the server"),
        ("headers = { X-A = \"1\", x-a = \"2\" }", "given twice"),
        ("headers = { content-type = \"text/plain\" }", "computed by the server"),
        ("headers = { Location = \"/\" }", "computed by the server"),
        ("headers = { Trailer = \"X\" }", "computed by the server"),
        ("headers = { Keep-Alive = \"timeout=5\" }", "computed by the server"),
        ("headers = { Allow = \"PUT\" }", "computed by the server"),
        ("headers = { Retry-After = \"1\" }", "computed by the server"),
        ("headers = { server = [\"a\", \"b\"] }", "`server` has one value"),
        ("headers = { X-Content-Type-Options = [\"nosniff\", \"x\"] }", "has one value"),
        (&long_field, "at most 16KiB can be sent"),
        ("headers = { X-A = 1 }", "a string or a list of strings"),
        ("error_pages = { \"200\" = \"/a\" }", "expected 400 to 599"),
        ("error_pages = { \"0404\" = \"/a\" }", "expected 400 to 599"),
        ("error_pages = { \"404\" = \"a\" }", "must start with `/`"),
        ("redirect = [{ from = \"a\", to = \"/b\" }]", "must start with `/`"),
        ("redirect = [{ from = \"/a*b\", to = \"/b\" }]", "at its end only"),
        ("redirect = [{ from = \"/a\", to = \"/b*\" }]", "has none"),
        ("redirect = [{ from = \"/a\", to = \"b\" }]", "must be a path"),
        ("redirect = [{ from = \"/a\", to = \"/b c\" }]", "percent-encoded"),
        ("redirect = [{ from = \"/sp%20ace\", to = \"/b\" }]", "write `/sp ace`"),
        ("redirect = [{ from = \"/a%2Fb*\", to = \"/b\" }]", "encoded slash"),
        ("redirect = [{ from = \"/a//b\", to = \"/b\" }]", "never fits"),
        ("redirect = [{ from = \"/a/../b\", to = \"/b\" }]", "never fits"),
        ("redirect = [{ from = \"/a?b\", to = \"/b\" }]", "the path alone"),
        ("redirect = [{ from = \"/loop*\", to = \"/loop*\" }]", "for ever"),
        ("redirect = [{ from = \"/sp ace\", to = \"/sp%20ace\" }]", "for ever"),
        ("redirect = [{ from = \"/a*\", to = \"https://b.example*\" }]", "write `https://b.example/*`"),
        ("redirect = [{ from = \"/a*\", to = \"https://*\" }]", "anybody's host"),
        ("redirect = [{ from = \"/a*\", to = \"/*\" }]", "`/a/*`"),
        ("redirect = [{ from = \"/a\", to = \"//b.example/\" }]", "the name of a host"),
        ("redirect = [{ from = \"/a\", to = \"/\\\\b.example/\" }]", "percent-encoded"),
        (&long_location, "at most 8KiB can be sent"),
        ("redirect = [{ from = \"/a\", to = \"/b\", status = 304 }]", "304 does not redirect"),
        ("redirect = [{ from = \"/a\", to = \"/b\", status = 200 }]", "between 300 and 399"),
        ("alias = [{ prefix = \"/a\", root = \"other\" }]", "start and end with `/`"),
        ("alias = [{ prefix = \"/\", root = \"other\" }]", "set the `root`"),
        ("alias = [{ prefix = \"/a/\", root = \"nowhere\" }]", "does not exist"),
        ("alias = [{ prefix = \"/a/\", root = \"lamna.toml\" }]", "is not a directory"),
        ("[[site]]\nroot = \"other\"", "site 1 has no `hosts` either"),
        ("hosts = [\"a\"]\n[[site]]\nroot = \"other\"\nhosts = [\"A\"]", "already a host of site 1"),
        ("[[site]]\nhosts = [\"a\"]", "this site has no `root`"),
        ("limit = [{ path = \"/a\" }]", "this limit limits nothing"),
        ("limit = [{ requests = \"fast\" }]", "`fast` is not a rate: expected one as in 20/s"),
        ("limit = [{ bytes = \"1GB/w\" }]", "`1GB/w` is not an amount in a time: expected one as in 10GB/d"),
        ("limit = [{ bandwidth = \"1GB/d\" }]", "`1GB/d` is not a bandwidth: expected one as in 500kB/s"),
        ("limit = [{ bandwidth = \"10/s\" }]", "`10/s` needs from 1KiB/s to 1TiB/s"),
    ] {
        let report = site_report(lines);
        assert!(report.contains(message), "{lines}: {report}");
        assert_eq!(report.matches("lamna.toml:").count(), 1, "{lines}: {report}");
    }
}

#[test]
fn values_of_a_site_that_are_right_are_accepted() {
    for lines in [
        "headers = { Server = \"x\", X-Content-Type-Options = \"nosniff\", Link = [\"<a>\", \"<b>\"], Set-Cookie = [\"a=1\", \"b=2\"] }",
        "redirect = [{ from = \"/*\", to = \"https://example.org/*\" }, { from = \"/100%\", to = \"/b\" }]",
        "redirect = [{ from = \"/old/*\", to = \"/*\" }, { from = \"/a*\", to = \"https://example.org?q=*\" }]",
        "redirect = [{ from = \"/a/.\u{e9}*\", to = \"/b/*\" }, { from = \"/b\", to = \"/c\" }, { from = \"/c\", to = \"/d\" }]",
    ] {
        accepted(&format!("[[site]]\nroot = \"site\"\n{lines}\n"));
    }
}

const MANUAL: &str = concat!(include_str!("../../../docs/configuration.md"), include_str!("../../../docs/routes.md"));

#[test]
fn the_manual_has_every_key_and_its_example_loads() {
    for key in super::file::KEYS.iter().flat_map(|(_, keys)| *keys) {
        assert!(MANUAL.contains(&format!("\n| `{key}` |")), "{key}");
    }
    let (_, rest) = MANUAL.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let directory = directory_with(example);
    for name in ["www", "downloads", "app", "log"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    let settings = load(Some(&directory.path().join("lamna.toml")), &Overrides::default());
    assert_eq!(settings.map(|settings| settings.sites.len()).unwrap(), 2);
}

proptest! {
    #[test]
    fn no_file_panics(text in "([a-z_]{1,8}|[\\[\\]=\"'.#{},0-9-]|\n| |é|site|root|limits|listen|headers){0,40}") {
        if let Err(error) = parse(&text, Path::new("/x.toml")) {
            prop_assert!(error.to_string().starts_with("/x.toml:"));
        }
    }
}

#[test]
fn a_folder_without_an_index_is_listed_for_this_machine_alone() {
    let directory = tempfile::tempdir().unwrap();
    let browses = |listen: &[&str], browse: Option<bool>| {
        let listen = listen.iter().map(|text| text.parse().unwrap()).collect();
        let overrides =
            Overrides { directory: Some(directory.path().to_owned()), listen, browse, ..Overrides::default() };
        load(None, &overrides).unwrap().sites[0].browse
    };
    assert!(browses(&[], None) && browses(&["localhost:8080", "[::1]:8080"], None));
    for others in
        [&["0.0.0.0:8080"][..], &["8080"], &["127.0.0.1:8080", "[::]:8080"], &["192.0.2.1:1"], &["unix:socket"]]
    {
        assert!(!browses(others, None), "{others:?}");
        assert!(browses(others, Some(true)), "{others:?}");
    }
    assert!(!browses(&[], Some(false)));
    std::fs::write(directory.path().join("index.html"), "").unwrap();
    assert!(!browses(&[], None), "a site is not a folder to look into");
}

#[test]
fn fields_of_the_command_line_are_judged_as_those_of_a_file() {
    let field = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
    assert_eq!(field_from_text("X-A:  b: c "), field("X-A", "b: c"));
    assert_eq!(field_from_text("X-A:"), field("X-A", ""));
    for wrong in ["X-A", ": b", "X A: b", "Content-Length: 1", "X-A: a\u{1}b", "ä: b"] {
        assert!(field_from_text(wrong).is_err(), "{wrong}");
    }
    let directory = tempfile::tempdir().unwrap();
    let refused = |headers: Vec<(String, String)>| {
        let overrides = Overrides { directory: Some(directory.path().to_owned()), headers, ..Overrides::default() };
        load(None, &overrides).unwrap_err().to_string()
    };
    assert!(refused(vec![("X-A".into(), "x".repeat(17_000))]).contains("can be sent"));
    let twice = vec![("Server".into(), "a".into()), ("server".into(), "b".into())];
    assert!(refused(twice).contains("`Server` has one value"));
}

#[test]
fn every_configuration_of_the_known_applications_loads() {
    let manual = include_str!("../../../docs/applications.md");
    let blocks: Vec<&str> = manual.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 8);
    for block in blocks {
        let read = crate::parse_unseen(block, Path::new("/etc/lamna/lamna.toml"));
        assert!(read.is_ok(), "{block}{}", read.map(|_| ()).unwrap_err());
    }
}

#[test]
fn a_file_of_users_may_begin_with_a_byte_order_mark_and_a_mistake_in_it_is_told_of_alone() {
    let hash = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs";
    let access = "access = { users = [\"ada\"] }";
    let directory = directory_with(&format!("[[site]]\nroot = \"site\"\nusers_file = \"users\"\n{access}\n"));
    let load_with = |users: &str| {
        fs::write(directory.path().join("users"), users).unwrap();
        load(Some(&directory.path().join("lamna.toml")), &Overrides::default())
    };
    let settings = load_with(&format!("\u{feff}ada:{hash}\n")).unwrap();
    assert!(settings.sites[0].accounts.users.contains_key("ada"));
    let refused = load_with("ada\n").unwrap_err().to_string();
    assert!(refused.contains("line 1 is not NAME:HASH") && !refused.contains("no such user"), "{refused}");
}
