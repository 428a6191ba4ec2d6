//! Explanations, held against what is configured.

use super::*;
use lamna_config::settings::{Alias, Redirect, SiteTls};
use lamna_site::content::explain::Scheme;
use std::fs::{create_dir_all, write};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Two sites with one of each.
fn settings(root: &Path) -> Settings {
    for (name, content) in
        [("www/index.html", "home"), ("www/docs/a.txt", "a"), ("www/old.css", "body{}"), ("more/b.txt", "b")]
    {
        create_dir_all(root.join(name).parent().unwrap()).unwrap();
        write(root.join(name), content).unwrap();
    }
    symlink("/etc", root.join("www/out")).unwrap();
    let mut site = SiteSettings::new(root.join("www"));
    site.hosts = vec!["a.example".into(), "*.a.example".into()];
    site.redirects = vec![Redirect { from: "/old*".into(), to: "/new*".into(), status: 308 }];
    site.aliases = vec![Alias { prefix: "/more/".into(), root: root.join("more") }];
    site.error_pages = [(404, "/index.html".into())].into();
    let mut other = SiteSettings::new(root.join("www"));
    (other.hosts, other.spa, other.browse) = (vec!["b.example".into()], true, true);
    Settings { sites: vec![site, other], ..Settings::default() }
}

fn asked(host: Option<&str>, target: &str) -> Asked {
    Asked { host: host.map(str::to_owned), target: target.to_owned(), ..Asked::default() }
}

fn explain(settings: &Settings, asked: &Asked) -> Result<Explanation, String> {
    Explainer::new(settings, Parts::default())?.explain(asked)
}

#[test]
fn an_answer_that_does_not_begin_in_time_is_not_made() {
    let root = tempfile::tempdir().unwrap();
    let mut explainer = Explainer::new(&settings(root.path()), Parts::default()).unwrap();
    let asked = asked(Some("a.example"), "/docs/a.txt");
    assert_eq!(explainer.explain(&asked).unwrap().answer.status, Some(200));
    explainer.begin_time_max = Duration::ZERO;
    let late = explainer.explain(&asked).unwrap();
    assert_eq!(late.answer.status, None);
    assert!(late.steps.iter().any(|step| step.contains("it does not begin within 0 ms")), "{late}");
}

#[test]
fn every_rule_is_named_by_what_it_did() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(root.path());
    for (host, target, status, said) in [
        ("a.example", "/", 200, "is the index file of the directory"),
        ("a.example", "/docs/a.txt", 200, "is a file of 1 byte"),
        ("a.example", "/docs", 301, "found at its name with a slash"),
        ("a.example", "/docs/", 403, "--browse"),
        ("b.example", "/docs/?sort=size", 200, "`browse` is on"),
        ("a.example", "/docs/b.txt", 404, "there is `a.txt`"),
        ("a.example", "/dosc/x/y", 404, "there is `docs`"),
        ("a.example", "/docs/a.txt/b", 404, "is a file, and nothing lies beneath it"),
        ("a.example", "/docs/a.txt/", 404, "asks for a directory"),
        ("a.example", "/old.css", 308, "it hides "),
        ("a.example", "/more/b.txt", 200, "the alias `/more/` stands for"),
        ("a.example", "/.git/config", 404, "begins with a dot"),
        ("a.example", "/out/passwd", 404, "leads out of the root"),
        ("a.example", "/%zz", 400, "malformed"),
        ("a.example", "/nothing", 404, "the page for 404 is `/index.html`"),
        ("b.example", "/users/jane", 200, "`spa` is on, and"),
        ("b.example", "/users/jane.doe", 200, "`spa` is on, and"),
        ("b.example", "/users/jane.css", 404, "`spa` is on, but"),
    ] {
        let explained = explain(&settings, &asked(Some(host), target)).unwrap();
        let because = explained.because.join("; ");
        assert_eq!(explained.answer.status, Some(status), "{host}{target}: {explained}");
        assert!(because.contains(said), "{host}{target}: {because}");
    }
}

#[test]
fn the_site_is_named_with_the_reason_for_it() {
    let root = tempfile::tempdir().unwrap();
    let settings = settings(root.path());
    let why = |host| explain(&settings, &asked(host, "/")).map(|found| (found.site, found.site_because)).unwrap();
    assert_eq!(why(Some("B.example")), ("b.example".into(), "`b.example` is among its hosts".into()));
    assert_eq!(why(Some("x.a.example")), ("a.example".into(), "`*.a.example` is among its hosts".into()));
    let (site, because) = why(Some("c.example"));
    assert!(site == "a.example" && because.contains("no site has the host"), "{because}");
    assert!(why(None).1.contains("no host is named"));
    assert_eq!(why(Some("b.example:8080")), ("b.example".into(), "`b.example` is among its hosts".into()));
}

#[test]
fn who_answers_and_who_is_kept_out_is_said() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("a.php"), "<?php").unwrap();
    let text = format!(
        "[[site]]\nroot = {:?}\nusers = {{ ada = \"$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$\
         kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs\" }}\n\
         [[site.route]]\nmatch = \"/api/*\"\nproxy = \"127.0.0.1:3000\"\naccess = {{ users = [\"ada\"] }}\n\
         [[site.route]]\nmatch = \"*.php\"\nfastcgi = \"127.0.0.1:9000\"\n",
        root.path()
    );
    let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
    let of = |target: &str| explain(&settings, &asked(None, target)).unwrap();
    let proxied = of("/api/x");
    assert_eq!((proxied.answer.status, proxied.answer.application.as_deref()), (Some(401), None));
    let let_in = proxied.let_in.clone().unwrap();
    assert_eq!((let_in.status, let_in.file.as_deref(), &let_in.fields[..]), (None, None, &[][..]));
    let shown = proxied.to_string();
    for part in ["step     access: answers 401", "let in   that of the application: proxy to 127.0.0.1:3000"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("there is no `"), "files do not matter: {shown}");
    let script = of("/a.php");
    let application = script.answer.application.unwrap();
    assert!(application.contains("127.0.0.1:9000") && application.contains("a.php"), "{application}");
    assert_eq!(of("/b.php").answer.status, Some(404));
}

#[test]
fn rules_are_named_with_where_they_stand_and_what_they_do() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("a.html"), "a").unwrap();
    write(root.path().join("_redirects"), "/old/* /new/:splat 301\n").unwrap();
    let text = format!(
        "[[site]]\nroot = {:?}\nrule_files = true\n[[site.route]]\nmatch = \"*\"\ntry = [\"$path\", \"$path.html\"]\n",
        root.path()
    );
    let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
    let of = |target: &str| explain(&settings, &asked(None, target)).unwrap();
    let tried = of("/a");
    assert!(
        tried.answer.status == Some(200) && tried.because.iter().any(|one| one == "try $path, then $path.html"),
        "{tried}"
    );
    let moved = of("/old/b");
    let said = moved.because.join("; ");
    assert!(
        moved.answer.status == Some(301) && said.contains("the route `/old/*` (_redirects, line 1) applies"),
        "{said}"
    );
    assert!(said.contains("with 301, where there is nothing"), "{said}");
}

/// The rules of access are open to others, and as unlike each other as before: what is for some is not given to
/// others by another path.
#[test]
fn a_file_that_is_for_others_is_not_given_to_clients_that_are_let_in() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("b.txt"), "b").unwrap();
    let text = |of: &str| {
        format!(
            "[[site]]\nroot = {:?}\n[[site.route]]\nmatch = \"/a\"\nrewrite = \"/b.txt\"\naccess = {{ allow = [\"10.0.0.0/8\"] }}\n\
             [[site.route]]\nmatch = \"/b.txt\"\naccess = {{ allow = [{of:?}] }}\n",
            root.path()
        )
    };
    for (of, status) in [("10.0.0.0/8", 200), ("10.0.0.0/9", 403)] {
        let settings = lamna_config::parse(&text(of), &root.path().join("a.toml")).unwrap();
        let explained = explain(&settings, &asked(None, "/a")).unwrap();
        assert_eq!(explained.answer.status, Some(403), "{explained}");
        let let_in = explained.let_in.as_ref().map_or(explained.answer.status, |answer| answer.status);
        assert_eq!(let_in, Some(status), "{explained}");
        let client = Some([10, 1, 1, 1].into());
        let told = explain(&settings, &Asked { client, ..asked(None, "/a") }).unwrap();
        assert_eq!((told.answer.status, told.let_in), (Some(status), None), "as a client that is let in is told");
    }
}

#[test]
fn the_file_that_is_sent_is_named_by_whatever_way_it_is_found() {
    let root = tempfile::tempdir().unwrap();
    create_dir_all(root.path().join("d")).unwrap();
    for name in ["d/index.html", "t.html", "r.txt"] {
        write(root.path().join(name), name).unwrap();
    }
    symlink("r.txt", root.path().join("link")).unwrap();
    let text = format!(
        "[[site]]\nroot = {:?}\n[[site.route]]\nmatch = \"/t\"\ntry = [\"$path\", \"$path.html\"]\n\
         [[site.route]]\nmatch = \"/w\"\nrewrite = \"/r.txt\"\n",
        root.path()
    );
    let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
    for (target, file) in [("/d/", "d/index.html"), ("/t", "t.html"), ("/w", "r.txt"), ("/link", "r.txt")] {
        let explained = explain(&settings, &asked(None, target)).unwrap();
        assert_eq!(explained.answer.file.as_deref(), root.path().join(file).to_str(), "{explained}");
    }
}

#[test]
fn a_request_in_clear_text_is_served_at_an_address_that_is_for_it() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("a"), "a").unwrap();
    let site = SiteSettings { tls: Some(SiteTls::Local), ..SiteSettings::new(root.path().to_owned()) };
    let plain: lamna_config::settings::ListenSettings = "8080".parse().unwrap();
    let open = lamna_config::settings::ListenSettings { tls: Some(false), redirect: Some(false), ..plain };
    let settings = Settings { listen: vec!["80".parse().unwrap(), open], sites: vec![site], ..Settings::default() };
    for (host, status) in [("a.test", 308), ("a.test:8080", 200), ("[::1]:8080", 200), ("a.test:9", 308)] {
        let asked = Asked { scheme: Some(Scheme::Http), ..asked(Some(host), "/a") };
        assert_eq!(explain(&settings, &asked).unwrap().answer.status, Some(status), "{host}");
    }
}

#[test]
fn a_request_is_led_to_https_unless_it_comes_so() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("a"), "a").unwrap();
    let tls = Some(SiteTls::Local);
    let site = SiteSettings { tls, hosts: vec!["a.test".into()], ..SiteSettings::new(root.path().to_owned()) };
    let settings = Settings { sites: vec![site], ..Settings::default() };
    for (scheme, status) in [(None, 200), (Some(Scheme::Https), 200), (Some(Scheme::Http), 308)] {
        let explained = explain(&settings, &Asked { scheme, ..asked(Some("a.test"), "/a") }).unwrap();
        assert_eq!(explained.answer.status, Some(status), "{explained}");
    }
}

#[test]
fn a_host_that_has_no_certificate_where_others_have_one_is_told_how_its_handshake_ends() {
    let root = tempfile::tempdir().unwrap();
    write(root.path().join("a"), "a").unwrap();
    let site = |host: &str, tls| SiteSettings {
        tls,
        hosts: vec![host.to_owned()],
        ..SiteSettings::new(root.path().to_owned())
    };
    let sites = vec![site("plain.test", None), site("a.test", Some(SiteTls::Local))];
    let settings = Settings { sites, ..Settings::default() };
    for (host, scheme, status) in [
        ("plain.test", Scheme::Https, None),
        ("unknown.test", Scheme::Https, None),
        ("plain.test", Scheme::Http, Some(200)),
        ("a.test:8443", Scheme::Https, Some(200)),
        // Addresses are not asked for by name: the only certificate is shown, and the first site has none.
        ("192.0.2.1", Scheme::Https, Some(421)),
        ("[::1]:8443", Scheme::Https, Some(421)),
    ] {
        let asked = Asked { scheme: Some(scheme), ..asked(Some(host), "/a") };
        let explained = explain(&settings, &asked).unwrap();
        assert_eq!(explained.answer.status, status, "{host}: {explained}");
        let ends = explained.to_string().contains("the handshake ends with the alert unrecognized_name");
        assert_eq!(ends, status.is_none(), "{host}: {explained}");
    }
    let alone = Settings { sites: vec![site("plain.test", None)], ..Settings::default() };
    let asked = Asked { scheme: Some(Scheme::Https), ..asked(Some("plain.test"), "/a") };
    let behind_proxy = explain(&alone, &asked).unwrap();
    assert_eq!(behind_proxy.answer.status, Some(200), "no site speaks TLS: a proxy does. {behind_proxy}");
}

#[test]
fn the_host_field_is_sent_with_its_port() {
    let root = tempfile::tempdir().unwrap();
    let route = |host: &str, to: &str| {
        format!("[[site.route]]\nmatch = {{ path = \"/*\", header = {{ Host = {host:?} }} }}\nredirect = {to:?}\n")
    };
    // Routes that fit equally well are told apart by their priority.
    let routes = route("a.test:80", "/port80") + "priority = 1\n" + &route("a.test", "/noport");
    let text = format!("[[site]]\nroot = {:?}\n{routes}", root.path());
    let settings = lamna_config::parse(&text, &root.path().join("a.toml")).unwrap();
    for (host, location) in
        [("a.test:80", Some("/port80")), ("a.test", Some("/noport")), ("a.test:18971", None), ("a.test:65536", None)]
    {
        let explained = explain(&settings, &asked(Some(host), "/h")).unwrap();
        assert_eq!(explained.answer.location(), location, "{host}: {explained}");
        assert_eq!(explained.answer.status == Some(400), host.ends_with("65536"), "{host}: {explained}");
    }
}

#[test]
fn fields_and_codings_are_those_of_the_answer() {
    let root = tempfile::tempdir().unwrap();
    let mut settings = settings(root.path());
    write(root.path().join("www/large.css"), "a{b:c}".repeat(1000)).unwrap();
    settings.sites[0].headers = vec![("Cache-Control".into(), "no-store".into())];
    let explained = explain(&settings, &asked(Some("a.example"), "/large.css")).unwrap();
    assert!(explained.answer.fields.iter().any(|field| field == "Cache-Control: no-store"), "{explained}");
    assert!(explained.answer.fields.iter().any(|field| field == "Content-Length: 6000"), "{explained}");
}
