//! Caddyfiles as they are written, and what comes of them.

use super::super::caddy;
use crate::config::parse;
use crate::config::settings::SiteSettings;
use std::fs;

/// What is imported of `text`, in which `ROOT` is a directory that exists, and what is lost.
fn imported(text: &str) -> (Vec<SiteSettings>, Vec<(usize, String)>) {
    let root = tempfile::tempdir().unwrap();
    for name in ["www", "media", "app/files"] {
        fs::create_dir_all(root.path().join(name)).unwrap();
    }
    let text = text.replace("ROOT", root.path().to_str().unwrap());
    let imported = caddy(&text).unwrap();
    let lost = imported.lost.into_iter().map(|note| (note.line, note.words)).collect();
    match parse(&imported.text, &root.path().join("a.toml")) {
        Ok(settings) => (settings.sites, lost),
        Err(error) => panic!("{error}\n{}", imported.text),
    }
}

#[test]
fn a_usual_site_is_carried_over_whole() {
    let (sites, lost) = imported(
        r#"
{
    email me@example.org
}
(common) {
    encode gzip zstd
    header {
        X-Frame-Options "DENY"
        +Link "</a.css>; rel=preload"
        -X-Powered-By
    }
}
http://example.org, http://www.example.org {
    import common
    root * ROOT/www
    file_server browse
    try_files {path} {path}.html /index.html
    header /assets/* Cache-Control "public, max-age=31536000"
    redir /old /new permanent
    redir /blog/* https://blog.example.org{uri}
    @users path_regexp id ^/users/([0-9]+)$
    rewrite @users /user/{re.id.1}.html
    handle_path /media/* {
        root * ROOT/media
        file_server
    }
    handle_errors {
        rewrite * /404.html
        file_server
    }
    log {
        output file access.log
    }
}
:8080 {
    redir https://example.org{uri} 308
}
"#,
    );
    assert_eq!(lost, []);
    assert_eq!((sites.len(), sites[0].hosts.len(), sites[0].browse), (2, 2, true));
    assert_eq!(sites[0].aliases[0].prefix, "/media/");
    assert!(sites[0].routes.len() == 7 && !sites[1].has_root(), "{:#?}", sites[0].routes);
}

#[test]
fn a_site_without_braces_is_one() {
    let (sites, lost) = imported(":80\nroot * ROOT/www\nfile_server\n");
    assert_eq!((lost, sites.len()), (Vec::new(), 1));
}

#[test]
fn what_is_not_carried_over_is_said_with_its_line() {
    let (sites, lost) = imported(
        "example.org {\n root * ROOT/www\n file_server\n basicauth {\n  a b\n }\n reverse_proxy /api/* ftp://b\n \
         header X-A {host}\n @odd expression a\n redir @odd /b\n respond \"hello\"\n tls internal\n \
         handle /c/* {\n  php_fastcgi {args[0]}\n }\n templates\n}\n",
    );
    let lines: Vec<usize> = lost.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [4, 7, 8, 9, 10, 11, 14, 16], "{lost:#?}");
    assert!(lost[0].1.contains("lamna hash-password") && lost[0].1.contains("answered with 404"), "{lost:#?}");
    let denied = ["/*", "/api/*", "/c/*"];
    let titles: Vec<String> = sites[0].routes.iter().map(|route| route.title()).collect();
    assert_eq!(titles, denied, "nothing is served that is restricted or another program's");
}

#[test]
fn certificates_come_from_where_caddy_has_them() {
    let of = |text: &str| {
        let imported = caddy(text).unwrap();
        let lost: Vec<String> = imported.lost.into_iter().map(|note| note.words).collect();
        (imported.text, lost)
    };
    for (site, expected) in [
        ("example.org, www.example.org", "tls = \"auto\""),
        ("localhost", "tls = \"local\""),
        ("https://app.internal:8443", "tls = \"local\""),
    ] {
        let (text, lost) = of(&format!("{site} {{\n root * /www\n file_server\n}}\n"));
        assert!(text.contains(expected) && lost.is_empty(), "{text}");
    }
    let (text, lost) =
        of("{\n email ada@example.org\n}\nexample.org {\n tls a.pem a.key\n root * /www\n file_server\n}\n");
    assert_eq!(lost, Vec::<String>::new());
    for part in ["acme_contact = \"ada@example.org\"", "certificate = \"a.pem\"\nkey = \"a.key\"", "\"0.0.0.0:443\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for (site, why) in [
        ("*.example.org", "challenge by DNS"),
        ("example.org, localhost", "two sites"),
        (":443", "it names none"),
        ("https://a.example, http://b.example:8080", ":8080: TLS is spoken"),
    ] {
        let (text, lost) = of(&format!("{site} {{\n root * /www\n file_server\n}}\n"));
        assert!(!lost.is_empty() && lost.iter().all(|one| one.contains(why)), "{site}: {lost:?}\n{text}");
    }
}

#[test]
fn applications_and_passwords_are_carried_over() {
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$on/b61dKzYasEN2gMTR7BQ$Lm/Gny5Yq2noexBHQUVwOin50H8YfQ1u0wA1k0fpv+A";
    let (sites, lost) = imported(&format!(
        "http://a.example {{\n reverse_proxy 10.0.0.1:80 10.0.0.2:80 {{\n  lb_policy round_robin\n  header_up Host b\n }}\n}}\n\
         http://b.example {{\n root * ROOT/www\n file_server\n php_fastcgi unix//run/php.sock\n \
         reverse_proxy /api/* localhost:3000\n basic_auth /in/* argon2id {{\n  ada {hash}\n }}\n}}\n"
    ));
    assert_eq!(lost, []);
    let settings = crate::config::settings::Settings { sites, ..Default::default() };
    let text = crate::config::render(&settings);
    for line in ["10.0.0.2:80", "host = \"b\"", "unix:/run/php.sock", "localhost:3000", "\"/index.php\"", "ada"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn services_that_say_who_is_let_in_are_carried_over() {
    let (sites, lost) = imported(
        "http://a.example {\n root * ROOT/www\n file_server\n forward_auth /in/* authelia:9091 {\n  uri /api/authz/forward-auth\n  \
         copy_headers Remote-User Remote-Groups\n }\n}\n",
    );
    assert_eq!(lost, []);
    let text = crate::config::render(&crate::config::settings::Settings { sites, ..Default::default() });
    for part in ["authelia:9091", "path = \"/api/authz/forward-auth\"", "fields = [\"Remote-User\", \"Remote-Groups\"]"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What is not carried over, or asked for beside something else, is not served.
    for (directives, why) in [
        ("forward_auth /in/* a:1 {\n  uri /x{uri}\n }", "written out"),
        ("forward_auth /in/* a:1 {\n  uri /x\n }\n forward_auth /in/b/* a:2 {\n  uri /x\n }", "another way"),
    ] {
        let (sites, lost) =
            imported(&format!("http://a.example {{\n root * ROOT/www\n file_server\n {directives}\n}}\n"));
        assert!(lost.iter().any(|(_, words)| words.contains(why)), "{lost:?}");
        let text = crate::config::render(&crate::config::settings::Settings { sites, ..Default::default() });
        assert!(text.contains("/.denied"), "{text}");
    }
}

#[test]
fn an_application_that_is_asked_for_another_path_is_not_asked() {
    for block in [
        "handle /api/* {\n  uri strip_prefix /api\n  reverse_proxy localhost:3000\n }",
        "handle_path /api/* {\n  reverse_proxy localhost:3000\n }",
    ] {
        let imported = caddy(&format!(":80 {{\n {block}\n root * /www\n file_server\n}}\n")).unwrap();
        assert_eq!(imported.lost.len(), 1, "{:?}", imported.lost);
        assert!(
            imported.text.contains("rewrite = \"/.denied\"") && !imported.text.contains("proxy ="),
            "{}",
            imported.text
        );
    }
}

/// What is imported, which can be loaded, and the part of it about `matches`.
fn route_of(text: &str, matches: &str) -> String {
    let imported = caddy(text).unwrap_or_else(|note| panic!("{text}: {note:?}"));
    assert!(imported.text.contains("Everything in it is carried over"), "{}", imported.text);
    let (_, route) = imported.text.split_once(&format!("match = {matches}\n")).expect(&imported.text);
    route.split("\n\n").next().unwrap_or_default().to_owned()
}

#[test]
fn of_several_blocks_one_is_taken() {
    let spa = "http://a.example {\n handle /api/* {\n  reverse_proxy localhost:3000\n }\n handle {\n  root * /www\n  \
               try_files {path} /index.html\n  file_server\n }\n}\n";
    let api = route_of(spa, "\"/api/*\"");
    assert!(api.contains("proxy = \"http://localhost:3000\"") && !api.contains("try = [\""), "{api}");
    let rest = route_of(spa, "\"*\"");
    assert!(rest.contains("try = [\"$path\", \"/index.html\"]"), "{rest}");
    let files =
        ":80 {\n handle /static/* {\n  file_server\n }\n root * /www\n file_server\n reverse_proxy localhost:3000\n}\n";
    assert!(route_of(files, "\"/static/*\"").contains("proxy = false"));
    let routed = ":80 {\n route /a/* {\n  header X-A 1\n  reverse_proxy localhost:3000\n }\n encode gzip\n root * /www\n file_server\n}\n";
    assert!(route_of(routed, "\"/a/*\"").contains("X-A"));
}

#[test]
fn answers_of_applications_are_compressed_and_places_checked_where_caddy_does() {
    let text = ":80 {\n encode zstd gzip\n reverse_proxy localhost:3000 {\n  health_uri /up\n }\n}\n";
    let route = route_of(text, "\"*\"");
    assert!(route.contains("filters = [\"compress\"]") && route.contains("check = \"/up\""), "{route}");
    let imported = caddy(text).unwrap();
    assert!(imported.text.contains("listen = [\"0.0.0.0:80\", \"[::]:80\"]"), "{}", imported.text);
    assert!(imported.needless.iter().any(|note| note.words.contains("encode")), "{:?}", imported.needless);
}

#[test]
fn what_is_said_twice_for_the_same_paths_is_said_once_or_lost() {
    let text = ":80 {\n root * /www\n file_server\n reverse_proxy localhost:1\n reverse_proxy localhost:2\n try_files {path} /a.html\n}\n";
    let imported = caddy(text).unwrap();
    assert_eq!(imported.lost.len(), 2, "{:?}", imported.lost);
}

mod scripts {
    use super::super::super::caddy;
    use crate::config::load::parse_unseen;
    use crate::config::route::sent::Sent;
    use proptest::prelude::*;

    fn directive() -> impl Strategy<Value = String> {
        let plain = prop::sample::select(vec![
            "php_fastcgi unix//php.sock",
            "php_fastcgi /blog/* localhost:9",
            "php_fastcgi {$PHP}",
            "reverse_proxy /api/* localhost:1",
            "reverse_proxy localhost:1",
            "file_server",
            "root * /www",
            "root /blog/* /other",
            "try_files {path} /index.php",
            "try_files {path} /index.html",
            "rewrite /old /index.php",
            "redir /a /b",
            "encode gzip",
            "header X-A 1",
            "respond /x 403",
            "handle_errors {\nrewrite * /404.php\nfile_server\n}",
            "uri strip_prefix /api",
            "templates",
            "file_server {\nindex index.php\n}",
            "basic_auth {\na b\n}",
            "php_server",
        ]);
        let block = prop::sample::select(vec![
            "handle",
            "handle /blog/*",
            "handle /api/*",
            "handle_path /media/*",
            "route",
            "route /blog/*",
        ]);
        let inner = prop::collection::vec(plain.clone(), 0..4).prop_map(|lines| lines.join("\n"));
        prop_oneof![3 => plain.prop_map(str::to_owned), 2 => (block, inner).prop_map(|(block, inner)| format!("{block} {{\n{inner}\n}}"))]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

        /// Where PHP runs the scripts of all paths, and no block is taken before it.
        #[test]
        fn no_script_is_sent_that_php_runs_and_all_that_is_imported_is_loaded(directives in prop::collection::vec(directive(), 0..6)) {
            let source = format!("http://a.example {{\n{}\n}}\n", directives.join("\n"));
            let Ok(imported) = caddy(&source) else { return Ok(()) };
            let settings = parse_unseen(&imported.text, "/a.toml".as_ref());
            let Ok(settings) = settings else {
                // A site of which nothing is left is none.
                prop_assert!(!imported.text.contains("[[site]]"), "{source}\n{}", imported.text);
                return Ok(());
            };
            let runs = directives.iter().any(|one| one.starts_with("php_fastcgi unix") || one.starts_with("php_fastcgi {") || one.starts_with("php_server"));
            let has_blocks = directives.iter().any(|one| one.starts_with("handle") && !one.starts_with("handle_errors"));
            if runs && !has_blocks && !settings.sites.is_empty() {
                let sent = Sent::new(&settings.sites[0]).unwrap();
                for path in ["/", "/q.php", "/blog/q.php", "/api/q.php", "/old", "/index.php", "/none", "/q.php/x", "/blog/"] {
                    let files = sent.files(path.as_bytes());
                    let script = files.iter().find(|file| file.ends_with(b".php"));
                    prop_assert!(script.is_none(), "{path}: {script:?}\n{source}\n{}", imported.text);
                }
            }
        }
    }
}

#[test]
fn a_site_of_which_nothing_is_carried_over_is_left_out() {
    let text = "http://a.example {\n templates\n}\nhttp://c.example {\n root * ROOT/www\n file_server {\n  hide .git\n }\n php_fastcgi {a}\n}\n";
    let (sites, lost) = imported(text);
    assert_eq!((sites.len(), &*sites[0].hosts[0]), (1, "c.example"));
    let titles: Vec<String> = sites[0].routes.iter().map(|route| route.title()).collect();
    assert_eq!(titles, ["**/.git, **/.git/*", "*.php, *.php/*"]);
    assert_eq!(lost.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 9]);
}

#[test]
fn what_is_no_caddyfile_is_refused_at_its_line() {
    for (text, line) in [("a.example {\n root * /\n", 1), ("}\n", 1), (":80\nroot * \"a\n", 2), ("", 1)] {
        assert_eq!(caddy(text).unwrap_err().line, line, "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_imported_or_refused(text in "([a-z$/@*. ]{0,8}|[{}\"`#,\n]|handle |header |redir |try_files |:80 ){0,24}") {
        let _ = caddy(&text);
    }
}
