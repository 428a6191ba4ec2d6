//! Caddyfiles as they are written, and what comes of them.

use lamna_config::parse;
use lamna_config::settings::SiteSettings;

use super::super::caddy;
use std::fs;

/// The import of `text`, in which `ROOT` is a directory that exists, and what is lost.
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
    // Folders of /media/ are not listed there.
    assert!(lost.len() == 1 && lost[0].1.contains("`browse` of `file_server browse`"), "{lost:?}");
    // Hosts that no site names are led away.
    assert_eq!((sites.len(), sites[1].hosts.len(), sites[1].browse), (2, 2, false));
    assert_eq!(sites[1].aliases[0].prefix, "/media/");
    assert!(sites[1].routes.len() == 8 && !sites[0].has_root(), "{:#?}", sites[1].routes);
}

#[test]
fn fixed_answers_and_pages_for_errors_are_carried_over() {
    let text = ":80 {\n root * /www\n file_server\n respond /health \"ok\"\n respond /old/* \"gone\" 410\n \
                error /secret* \"no\" 403\n handle_errors 404 {\n  rewrite * /404.html\n  file_server\n }\n \
                handle_errors 502 503 {\n  rewrite * /busy.html\n  file_server\n }\n}\n";
    let imported = caddy(text).unwrap();
    for line in [
        "match = \"/health\"\nrespond = { status = 200, text = \"ok\" }",
        "match = \"/old/*\"\npriority = 100000\nrespond = { status = 410, text = \"gone\" }",
        "match = \"/secret*\"\npriority = 100000\nrespond = 403",
        "error_pages = { \"404\" = \"/404.html\", \"502\" = \"/busy.html\", \"503\" = \"/busy.html\" }",
    ] {
        assert!(imported.text.contains(line), "{line}\n{}", imported.text);
    }
    assert!(imported.lost.is_empty(), "{:?}", imported.lost);
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
    assert_eq!(lines, [4, 7, 8, 9, 10, 14, 16], "{lost:#?}");
    assert!(lost[0].1.contains("lamna hash-password") && lost[0].1.contains("answered with 404"), "{lost:#?}");
    let denied = ["/*", "/*", "/c/*", "/c/*", "/*", "/api/*", "(?i)^/c/", "(?i)^/api/", "**/Caddyfile"];
    let titles: Vec<String> = sites[0].routes.iter().map(|route| route.title()).collect();
    assert_eq!(titles, denied, "nothing is served that is restricted or another program's");
}

/// The `match` of each route by which nothing is there, but that of the configuration itself, and what is lost.
fn refused(site: &str) -> (Vec<String>, Vec<String>) {
    let text = format!(":80 {{\n root * /www\n file_server\n {site}\n}}\n");
    let imported = caddy(&text).unwrap_or_else(|note| panic!("{text}: {note:?}"));
    let is_refused = |route: &&str| route.contains("rewrite = \"/.denied\"") || route.contains("respond = ");
    let routes = imported.text.split("[[site.route]]\n").skip(1).filter(is_refused);
    // Paths in other letters are tested in `case`.
    let routes = routes.filter(|route| !route.contains("**/Caddyfile") && !route.contains("(?i)"));
    let matches = routes.filter_map(|route| Some(route.lines().next()?.strip_prefix("match = ")?.to_owned()));
    (matches.collect(), imported.lost.into_iter().map(|note| note.words).collect())
}

#[test]
fn who_is_refused_is_refused_here() {
    for (site, matches) in [
        ("respond /a/* 403", "\"/a/*\""),
        ("respond /a/* \"no\" 403", "\"/a/*\""),
        ("abort /a/*", "\"/a/*\""),
        ("error /a/* 500", "\"/a/*\""),
        ("@n remote_ip 10.0.0.0/8\n abort @n", "{ client = [\"10.0.0.0/8\"] }"),
        (
            "@n not remote_ip private_ranges\n respond @n 401",
            "{ not = { client = [\"192.168.0.0/16\", \"172.16.0.0/12\", \"10.0.0.0/8\", \"127.0.0.0/8\", \"fd00::/8\", \"::1\"] } }",
        ),
        (
            "@n {\n path /a/*\n not {\n  method GET\n  header X-A b\n }\n }\n abort @n",
            "{ path = [\"/a/*\"], not = { method = [\"GET\"], header = { \"X-A\" = \"b\" } } }",
        ),
        ("@n header User-Agent *bot*\n respond @n 403", "{ header = { \"User-Agent\" = { regex = \"bot\" } } }"),
    ] {
        let (found, _) = refused(site);
        assert_eq!(found, [matches], "{site}");
    }
}

#[test]
fn what_is_refused_to_some_who_cannot_be_named_is_refused_to_more() {
    for (site, matches) in [
        ("@n expression {path} == '/a'\n abort @n", "\"*\""),
        ("@n {\n path /a/*\n expression x\n }\n respond @n 401", "\"/a/*\""),
        ("@n {\n path /a/*\n not path /a/b\n }\n error @n 403", "\"/a/*\""),
        ("@n {\n path /a/*\n path_regexp x$\n }\n abort @n", "{ regex = \"x$\" }"),
        ("abort @none", "\"*\""),
        ("@n expression x\n basic_auth @n {\n  a b\n }", "\"*\""),
        ("@n expression x\n forward_auth @n a:1 {\n  uri /x\n }", "\"*\""),
        ("@n expression x\n handle @n {\n  reverse_proxy a:1\n }", "\"*\""),
        ("@n expression x\n php_fastcgi @n a:1", "\"*\""),
        ("handle /a/* {\n @n expression x\n abort @n\n }", "\"/a/*\""),
        ("import auth.conf", "\"*\""),
        ("templates /a/*", "\"/a/*\""),
        ("crowdsec", "\"*\""),
        ("handle_path /a {\n root * /b\n }", "\"/a\""),
    ] {
        let (found, lost) = refused(site);
        assert!(found == [matches] && lost.iter().any(|words| words.contains("404")), "{site}: {found:?} {lost:?}");
    }
    let (found, _) = refused("@n expression x\n header @n X-A b");
    assert_eq!(found, [""; 0], "a field restricts nobody");
}

#[test]
fn a_beginning_that_is_taken_away_and_put_back_stays() {
    let of = |inner: &str| caddy(&format!(":80 {{\n{inner}\n}}\n")).unwrap().text;
    for rewrite in ["rewrite * /api{path}", "rewrite /api{uri}"] {
        let text = of(&format!("handle_path /api/* {{\n{rewrite}\nreverse_proxy localhost:1\n}}"));
        assert!(text.contains("proxy = \"http://localhost:1\"") && !text.contains("strip_prefix"), "{text}");
    }
    let text = of(
        "handle_path /api/* {\nrewrite * /v1{path}\nreverse_proxy localhost:1\n}\nhandle {\nreverse_proxy localhost:2\n}",
    );
    let answer = |path| crate::asked::Asked::of(path).answer(&text, "a.example");
    assert_eq!((&*answer("/api/x"), &*answer("/x")), ("nothing", "application"), "{text}");
}

#[test]
fn of_several_refusals_for_the_same_paths_the_first_counts() {
    let text = ":80 {\nroot * /srv\nfile_server\n@a path_regexp /user/.*\nrewrite @a /gate.php?{path}\n\
                @b path_regexp \\.env$\nrespond @b 403\n}\n";
    let text = caddy(text).unwrap().text;
    let answer = |path| crate::asked::Asked::of(path).answer(&text, "a.example");
    assert_eq!((&*answer("/user/a"), &*answer("/a.env"), &*answer("/a")), ("nothing", "nothing", "file /a"), "{text}");
}

#[test]
fn a_block_for_what_begins_with_a_slash_is_for_everything() {
    for block in ["handle", "handle_path"] {
        let text = caddy(&format!(":80 {{\n{block} /* {{\nroot * /srv\nfile_server\n}}\n}}\n")).unwrap().text;
        assert!(text.contains("root = \"/srv\"") && !text.contains("alias"), "{text}");
    }
}

#[test]
fn blocks_of_which_one_is_taken_come_before_the_answer_for_the_rest() {
    for rest in ["respond 404", "handle {\n respond 404\n }"] {
        let text = format!(":80 {{\n handle /api/* {{\n reverse_proxy localhost:1\n }}\n {rest}\n}}\n");
        let imported = caddy(&text).unwrap();
        let (_, api) = imported.text.split_once("match = \"/api/*\"\n").expect(&imported.text);
        let api = api.split("[[").next().unwrap_or_default();
        assert!(api.contains("proxy = \"http://localhost:1\"") && !api.contains("/.denied"), "{}", imported.text);
        assert!(imported.text.contains("match = \"*\"\nrewrite = \"/.denied\""), "{}", imported.text);
    }
}

#[test]
fn files_are_sent_only_where_caddy_sends_them() {
    let sent = |site: &str, path: &str| {
        let text = format!(":80 {{\n{site}\n}}\n");
        let imported = caddy(&text).unwrap_or_else(|note| panic!("{text}: {note:?}"));
        let settings = lamna_config::parse_unseen(&imported.text, "/a.toml".as_ref()).unwrap();
        let Some(site) = settings.sites.first().filter(|site| site.has_root()) else { return 0 };
        lamna_config::route::sent::Sent::new(site).unwrap().files(path.as_bytes()).len()
    };
    let some = "root * /www\nfile_server /static/*";
    assert_eq!((sent(some, "/static/a"), sent(some, "/secret")), (1, 0));
    let none = "root * /www\nreverse_proxy localhost:1";
    assert_eq!(sent(none, "/secret"), 0);
    let scripts = "root * /www\nphp_fastcgi localhost:9";
    assert_eq!((sent(scripts, "/secret.txt"), sent(scripts, "/a.php"), sent(scripts, "/a.PHP")), (0, 0, 0));
    let all = "root * /www\nphp_fastcgi localhost:9\nfile_server";
    assert_eq!((sent(all, "/a.txt"), sent(all, "/a.Php")), (1, 0));
}

#[test]
fn who_may_connect_is_carried_over_or_nobody_is_let_in() {
    let text = |site: &str| caddy(&format!("a.example {{\n root * /www\n file_server\n {site}\n}}\n")).unwrap().text;
    let of = |inner: &str| text(&format!("tls a.pem a.key {{\n client_auth {{\n {inner}\n }}\n }}"));
    assert!(of("mode require_and_verify\n trusted_ca_cert_file /ca.pem").contains("client_ca = \"/ca.pem\""));
    assert!(of("trust_pool file /ca.pem\n mode verify_if_given").contains("client_certificates = \"optional\""));
    for inner in ["mode require", "trusted_leaf_cert_file /a.pem", "trust_pool http x"] {
        assert!(of(inner).contains("/.denied"), "{inner}: {}", of(inner));
    }
    assert!(
        text("tls {\n client_auth {\n trust_pool file /ca.pem\n }\n }").contains("/.denied"),
        "it names no certificate"
    );
    let bound = text("bind 127.0.0.1 [::1]");
    assert!(bound.contains("listen = [\"127.0.0.1:80\", \"127.0.0.1:443\", \"[::1]:80\", \"[::1]:443\"]"), "{bound}");
}

#[test]
fn folders_are_listed_where_all_are() {
    let lists = |site: &str| {
        let imported = caddy(&format!(":80 {{\n root * /www\n {site}\n}}\n")).unwrap();
        (imported.text.contains("browse = true"), imported.lost.iter().any(|note| note.words.contains("listings")))
    };
    assert_eq!(lists("file_server browse"), (true, false));
    assert_eq!(lists("file_server"), (false, false));
    assert_eq!(lists("file_server /a/* browse"), (false, true));
    assert_eq!(lists("handle /a/* {\n file_server\n }\n file_server browse"), (false, true));
}

#[test]
fn fields_of_applications_are_left_to_them() {
    let text = ":80 {\n reverse_proxy localhost:1\n header Cache-Control max-age=9\n header X-A 1\n header ?X-B 1\n header >X-C 1\n}\n";
    let imported = caddy(text).unwrap();
    for part in [
        "[{ default = { \"Cache-Control\" = \"max-age=9\" } }]",
        "[{ add = { \"X-A\" = \"1\" } }]",
        "[{ default = { \"X-B\" = \"1\" } }]",
        "[{ set = { \"X-C\" = \"1\" } }]",
    ] {
        assert!(imported.text.contains(part), "{part}: {}", imported.text);
    }
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
    let files = "{\n root * /www\n file_server\n}\n";
    let (text, lost) = of(&format!("{{\n http_port 8080\n https_port 8443\n}}\nexample.org {files}"));
    for part in ["{ address = \"0.0.0.0:8080\", tls = false }", "\"[::]:8443\""] {
        assert!(text.contains(part) && !text.contains("redirect") && lost.is_empty(), "{part}: {text} {lost:?}");
    }
    let (text, lost) = of(&format!("https://a.example {files}http://b.example:8080 {files}"));
    assert!(text.contains("{ address = \"0.0.0.0:8080\", tls = false }") && lost.is_empty(), "{text} {lost:?}");
    for (site, why) in
        [("*.example.org", "challenge by DNS"), ("example.org, localhost", "two sites"), (":443", "it names none")]
    {
        let (text, lost) = of(&format!("{site} {{\n root * /www\n file_server\n}}\n"));
        assert!(!lost.is_empty() && lost.iter().all(|one| one.contains(why)), "{site}: {lost:?}\n{text}");
    }
}

#[test]
fn a_prefix_is_taken_away_before_an_application() {
    for block in [
        "handle_path /app/* {\n reverse_proxy localhost:3000\n}",
        "handle /app/* {\n uri strip_prefix /app\n reverse_proxy localhost:3000\n}",
    ] {
        let (sites, lost) = imported(&format!("http://a.example {{\n{block}\n}}\n"));
        let text = lamna_config::render(&lamna_config::settings::Settings { sites, ..Default::default() });
        assert!(text.contains("strip_prefix = \"/app\"") && text.contains("localhost:3000"), "{block}: {text}");
        assert!(!text.contains("rewrite = \""), "{block}: {text}");
        assert!(lost.iter().any(|(_, words)| words.contains("`Location`")), "{block}: {lost:?}");
    }
}

#[test]
fn applications_and_passwords_are_carried_over() {
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$on/b61dKzYasEN2gMTR7BQ$Lm/Gny5Yq2noexBHQUVwOin50H8YfQ1u0wA1k0fpv+A";
    let (sites, lost) = imported(&format!(
        "http://a.example {{\n reverse_proxy 10.0.0.1:80 10.0.0.2:80 {{\n  lb_policy round_robin\n  header_up Host b\n }}\n}}\n\
         http://b.example {{\n root * ROOT/www\n file_server\n php_fastcgi unix//run/php.sock\n \
         reverse_proxy /api/* localhost:3000\n basic_auth /in/* argon2id {{\n  ada {hash}\n }}\n basic_auth /it/* {{\n  bob $2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC\n }}\n}}\n"
    ));
    assert_eq!(lost, []);
    let settings = lamna_config::settings::Settings { sites, ..Default::default() };
    let text = lamna_config::render(&settings);
    for line in ["10.0.0.2:80", "host = \"b\"", "unix:/run/php.sock", "localhost:3000", "\"/index.php\"", "ada", "bob"]
    {
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
    let text = lamna_config::render(&lamna_config::settings::Settings { sites, ..Default::default() });
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
        let text = lamna_config::render(&lamna_config::settings::Settings { sites, ..Default::default() });
        assert!(text.contains("/.denied"), "{text}");
    }
}

#[test]
fn an_application_that_is_asked_for_another_path_is_not_asked() {
    let block = "handle /api/* {\n  rewrite * /x\n  reverse_proxy localhost:3000\n }";
    let imported = caddy(&format!(":80 {{\n {block}\n root * /www\n file_server\n}}\n")).unwrap();
    assert_eq!(imported.lost.len(), 1, "{:?}", imported.lost);
    let is_denied = imported.text.contains("rewrite = \"/.denied\"") && !imported.text.contains("proxy =");
    assert!(is_denied, "{}", imported.text);
}

/// Imports `text`, checks that nothing is lost, and returns the route with this `matches`.
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
    use lamna_config::parse_unseen;
    use lamna_config::route::sent::Sent;
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
fn a_site_of_which_nothing_is_carried_over_has_nothing_and_its_hosts_get_no_other_one() {
    let text = "http://a.example {\n templates\n}\nhttp://c.example {\n root * ROOT/www\n file_server {\n  hide .git\n }\n php_fastcgi {a}\n}\n";
    let (sites, lost) = imported(text);
    let of = |site: &lamna_config::settings::SiteSettings| site.hosts.clone();
    assert_eq!((of(&sites[0]), of(&sites[1])), (vec!["a.example".to_owned()], vec!["c.example".to_owned()]));
    let refuses = |route: &lamna_config::route::RouteSettings| matches!(&route.respond, lamna_config::route::Switch::Set(respond) if respond.status == 404);
    assert!(sites[0].routes.iter().any(refuses), "{:#?}", sites[0].routes);
    let titles: Vec<String> = sites[1].routes.iter().map(|route| route.title()).collect();
    assert_eq!(
        titles,
        ["*.php, *.php/*", "(?i)^(?:(?s:.*)\\.php|(?s:.*)\\.php/(?s:.*))$", "**/Caddyfile", "**/.git, **/.git/*"]
    );
    assert_eq!(lost.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 2, 9]);
}

#[test]
fn hosts_that_no_site_names_are_those_of_the_site_for_any() {
    let files = "http://files.test {\n root * ROOT/www\n file_server\n}\n";
    for (any, answers) in [("redir https://x.test{uri}", "redirect"), ("abort", "respond"), ("respond 403", "respond")]
    {
        let text = caddy(&format!("{files}:80 {{\n {any}\n}}\n").replace("ROOT", "/srv")).unwrap().text;
        let (first, second) =
            text.split_once("[[site]]\n").and_then(|(_, sites)| sites.split_once("[[site]]\n")).unwrap();
        assert!(first.contains(answers) && !first.contains("files.test") && second.contains("files.test"), "{text}");
    }
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

/// Directives with arguments: those that mean something here, those that do not, and unknown ones.
const DIRECTIVES: [&str; 53] = [
    "root * /a",
    "file_server browse",
    "file_server /a/*",
    "file_server {\nhide .git\n}",
    "encode gzip",
    "header X-A 1",
    "header /a/* X-A 1",
    "header -Server",
    "header ?X-A 1",
    "header >X-A 1",
    "header X-A b c",
    "redir /a /b 301",
    "redir /a /b{odd}",
    "redir https://a.example{uri}",
    "rewrite /a /b",
    "rewrite /a /b?c",
    "uri strip_prefix /a",
    "uri replace a b",
    "try_files {path} /a.html",
    "try_files {path} /a.php",
    "respond 404",
    "respond /a 403",
    "respond \"x\" 200",
    "abort",
    "abort /a/*",
    "error 503",
    "error /a \"no\" 403",
    "basic_auth {\na b\n}",
    "forward_auth a:1 {\nuri /x\n}",
    "reverse_proxy a:1",
    "reverse_proxy /a/* a:1 {\nheader_up Host b\n}",
    "reverse_proxy a:1 b:1 {\nlb_policy ip_hash\n}",
    "reverse_proxy a:1 {\nlb_policy first\n}",
    "php_fastcgi a:1",
    "php_fastcgi /a/* a:1 {\nenv A b\n}",
    "handle /a/* {\nrespond 403\n}",
    "handle_path /a/* {\nroot * /b\nfile_server\n}",
    "handle_errors {\nrewrite * /404.html\nfile_server\n}",
    "log {\noutput file /a.log\n}",
    "tls internal",
    "bind 127.0.0.1",
    "templates",
    "import other.conf",
    "import none a",
    "request_body {\nmax_size 1MB\n}",
    "request_header X-A b",
    "method POST",
    "vars a b",
    "map {host} {a} {\ndefault b\n}",
    "push",
    "tracing",
    "crowdsec",
    "odd 1 2",
];

#[test]
fn every_directive_and_each_of_its_arguments_is_in_the_result_or_in_a_list() {
    let contexts = |directive: &str| {
        [
            format!(":80 {{\n{directive}\nroot * /w\nfile_server\n}}\n"),
            format!(":80 {{\nhandle /x/* {{\n{directive}\n}}\nroot * /w\nfile_server\n}}\n"),
            format!(":80 {{\nroute {{\n{directive}\n}}\nroot * /w\nfile_server\n}}\n"),
            ":80 {\nimport s\nroot * /w\nfile_server\n}\n"
                .replace(":80 {", &format!("(s) {{\n{directive}\n}}\n:80 {{")),
        ]
    };
    let result_of = |source: &str| {
        let imported = caddy(source).ok()?;
        let lines = imported.text.lines().filter(|line| !line.starts_with("# "));
        let body = lines.collect::<Vec<_>>().join("\n");
        let said = imported.lost.into_iter().chain(imported.needless).map(|note| note.words);
        Some((body, said.collect::<Vec<String>>()))
    };
    for directive in DIRECTIVES {
        let head = directive.lines().next().unwrap();
        let name = head.split(' ').next().unwrap();
        for (context, source) in contexts(directive).iter().enumerate() {
            let Some((body, said)) = result_of(source) else { continue };
            let is_about = |words: &String| words.contains(name) || words.contains("and all that it says");
            let is_named = said.iter().any(is_about);
            let without = result_of(&contexts("")[context]).map(|(body, _)| body);
            assert!(
                is_named || without.as_ref() != Some(&body),
                "{directive} is dropped from\n{source}\n{body}\n{said:?}"
            );
            for argument in head.split(' ').skip(1).filter(|word| *word != "{" && *word != "*") {
                let bare = argument.trim_matches('"');
                let other = directive.replacen(bare, &format!("{bare}7"), 1);
                let is_same = result_of(&contexts(&other)[context]).is_some_and(|(of_other, _)| of_other == body);
                let is_said = said.iter().any(|words| words.contains(bare) || words.contains("and all that it says"));
                assert!(is_said || !is_same, "{argument} of {directive} is dropped from\n{source}\n{body}\n{said:?}");
            }
        }
    }
}
