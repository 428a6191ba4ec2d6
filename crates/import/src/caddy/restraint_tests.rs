//! That what Caddy has run, refuses or leads elsewhere is not sent where it cannot be said here, and what is dropped of
//! it is said.

use crate::asked::Asked;
use crate::caddy;

fn of(text: &str) -> String {
    caddy(text).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
}

/// The result for a site with files that says this.
fn site(inner: &str) -> String {
    of(&format!(":80 {{\nroot * /srv\nfile_server\n{inner}\n}}\n"))
}

fn answer(text: &str, path: &str) -> String {
    Asked::of(path).answer(text, "a.example")
}

fn of_query(text: &str, query: &str) -> String {
    Asked { query, ..Asked::of("/a") }.answer(text, "a.example")
}

fn with(text: &str, fields: &str) -> String {
    Asked { fields, ..Asked::of("/a") }.answer(text, "a.example")
}

#[test]
fn what_a_rewrite_that_cannot_be_said_is_for_is_not_sent() {
    for rewrite in [
        "rewrite /files/* /gate.php?f={path}",
        "rewrite /files/* /gate.php?f={path}\nphp_fastcgi localhost:9000",
        "rewrite * /gate.php?f={path}",
        "@f path_regexp ^/files/\nrewrite @f /gate.php?f={path}",
        "@f expression {path}.startsWith('/files/')\nrewrite @f /gate.php",
        "handle /files/* {\nrewrite * /gate.php?f={path}\n}",
        "route {\nrewrite /files/* /gate.php?f={odd}\n}",
    ] {
        let text = site(rewrite);
        assert_eq!(answer(&text, "/files/a.pdf"), "nothing", "{rewrite}: {text}");
        assert!(text.contains("404"), "{text}");
    }
    assert_eq!(answer(&site("rewrite /files/* /gate.php?f={path}"), "/other"), "file /other");
    // What is there is sent there, too.
    let webp = site("@w {\nheader Accept *webp*\nfile {path}.webp\n}\nrewrite @w {path}.webp");
    assert_eq!(with(&webp, "Accept: image/webp\r\n"), "file /a", "{webp}");
    let first = site("@t file {path} /index.php\nrewrite @t {http.matchers.file.relative}");
    assert_eq!(answer(&first, "/a"), "file /a", "{first}");
    assert_eq!(answer(&site("@n not file\nrewrite @n /gate.php?f={path}"), "/a"), "file /a");
}

#[test]
fn where_nothing_that_is_tried_can_be_said_nothing_is_sent() {
    for tried in ["/gate.php?f={path}", "/gate.php?f={path} =404", "{odd}", "/gate.php {path}", "{path}/ =404"] {
        let text = site(&format!("handle /files/* {{\ntry_files {tried}\nfile_server\n}}"));
        let found = answer(&text, "/files/a");
        assert!(found == "nothing" || found == "file $path/", "{tried}: {found}\n{text}");
    }
    let text = site("try_files {path} /index.php?p={path}");
    assert_eq!(answer(&text, "/a"), "file $path", "{text}");
}

#[test]
fn who_is_led_elsewhere_is_not_sent_what_is_there() {
    for matcher in [
        "expression {http.request.cookie.session} == ''",
        "not header_regexp Cookie (?!a)session=",
        "vars {http.request.cookie.s} ''",
        "not remote_host a",
        "not header X-Key {env.KEY}",
    ] {
        let text = site(&format!("@n {matcher}\nredir @n /login"));
        assert_eq!(answer(&text, "/a"), "nothing", "{matcher}: {text}");
    }
    let text = site("@w expression {host}.startsWith('www.')\nredir @w https://a.example{uri}");
    assert_eq!(answer(&text, "/a"), "file /a", "{text}");
    let text = site("@n not header_regexp Cookie (^|;)session=.\nredir @n /login");
    assert_eq!(
        (with(&text, ""), with(&text, "Cookie: session=1\r\n")),
        ("to /login".into(), "file /a".into()),
        "{text}"
    );
    let text = site("@n not header X-Key k\nredir @n /login");
    assert_eq!(
        (with(&text, ""), with(&text, "X-Key: k\r\n")),
        ("to /login".to_owned(), "file /a".to_owned()),
        "{text}"
    );
}

#[test]
fn a_parameter_is_looked_for_behind_the_first_of_its_name_as_well() {
    for refusal in ["respond @d 403", "abort @d", "error @d 403"] {
        let text = site(&format!("@d query debug=1\n{refusal}"));
        for query in ["debug=1", "debug=0&debug=1", "debug=1&debug=0"] {
            assert_eq!(of_query(&text, query), "nothing", "{query}: {text}");
        }
        assert_eq!((of_query(&text, ""), of_query(&text, "a=1")), ("file /a".into(), "file /a".into()));
    }
    let text = site("@d query debug=1\nreverse_proxy @d localhost:1");
    assert_eq!(
        (of_query(&text, "debug=1"), of_query(&text, "debug=0&debug=1")),
        ("application".into(), "nothing".into())
    );
    assert_eq!(of_query(&text, "a"), "file /a");
    let text = site("@d not query key=k\nrespond @d 403");
    assert_eq!(
        (of_query(&text, "key=k"), of_query(&text, "key=a&key=k")),
        ("file /a".into(), "nothing".into()),
        "{text}"
    );
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$on/b61dKzYasEN2gMTR7BQ$Lm/Gny5Yq2noexBHQUVwOin50H8YfQ1u0wA1k0fpv+A";
    let text = site(&format!("@d query debug=1\nbasic_auth @d argon2id {{\nada {hash}\n}}"));
    assert!(text.contains("match = { query = { \"debug\" = true } }\naccess ="), "{text}");
}

#[test]
fn a_path_with_classes_restricts_more_and_not_nothing() {
    for (path, asked) in [
        ("/[ab]*", "/a"),
        ("/x/[a-c]/*", "/x/b/y"),
        ("/x/\\*", "/x/*"),
        ("/x/?", "/x/a"),
        ("/x{odd}/*", "/xy/a"),
        ("*.[ch]", "/x/a.c"),
        ("/[!]/a", "/!/a"),
    ] {
        for text in [
            site(&format!("respond {path} 403")),
            site(&format!("@p path {path}\nrespond @p 403")),
            site(&format!("handle {path} {{\nrespond 403\n}}")),
            site(&format!("reverse_proxy {path} localhost:1")),
        ] {
            let found = answer(&text, asked);
            assert!(found == "nothing" || found == "application", "{path}: {found}\n{text}");
            // What does not begin with a slash is the content there.
            let is_content = !path.starts_with('/') && text.contains("respond = ");
            assert!(is_content || text.contains("Not carried over"), "{text}");
        }
    }
    assert_eq!(answer(&site("respond /x/[a-c]/* 403"), "/y"), "file /y");
}

#[test]
fn of_several_values_of_one_kind_any_fits() {
    for (matcher, fields) in [
        ("@d {\nheader X-A a\nheader X-A b\n}", "X-A: b\r\n"),
        ("@d {\nheader X-A a\nheader x-a b\n}", "X-A: a\r\n"),
        ("@d {\nmethod POST\nmethod GET\n}", ""),
        ("@d {\nremote_ip 10.0.0.0/8\nremote_ip 192.0.2.0/24\n}", ""),
        ("@d {\nhost b.example\nhost a.example\n}", ""),
        ("@d {\nquery a=1\nquery a=2\n}", ""),
        ("@d not header X-A \"\"", "X-A: a\r\n"),
        ("@d not header X-A a*b", "X-A: axb\r\n"),
        ("@d not header X-A {env.A}", "X-A: {env.A}\r\n"),
    ] {
        let text = site(&format!("{matcher}\nrespond @d 403"));
        let asked = Asked { fields, query: "a=2", ..Asked::of("/a") };
        assert_eq!(asked.answer(&text, "a.example"), "nothing", "{matcher}: {text}");
    }
}

#[test]
fn a_site_that_nobody_reaches_from_elsewhere_is_for_nobody_elsewhere() {
    let public = "http://a.example {\nroot * /srv\nfile_server\n}\n";
    let admin = "http://admin.local:8081 {\nbind 127.0.0.1 [::1]\nroot * /srv/admin\nfile_server\n}\n";
    for text in [of(&format!("{public}{admin}")), of(&format!("{admin}{public}"))] {
        let from = |client: &str, host: &str| Asked { client, ..Asked::of("/a") }.answer(&text, host);
        assert_eq!(
            (from("127.0.0.1", "admin.local"), from("192.0.2.7", "admin.local")),
            ("file /a".into(), "nothing".into()),
            "{text}"
        );
        assert_eq!(from("192.0.2.7", "a.example"), "file /a");
        assert!(text.contains("answers on every address"), "{text}");
    }
    let text = of("{\ndefault_bind 127.0.0.1\n}\nhttp://a.example {\nroot * /srv\nfile_server\n}\n");
    assert!(text.contains("listen = [\"127.0.0.1:80\"]"), "{text}");
}

#[test]
fn a_rewrite_into_an_application_sends_no_file() {
    for (rewrite, application) in [
        ("rewrite /a /api/b", "reverse_proxy /api/* localhost:1"),
        ("rewrite /a /b", "reverse_proxy localhost:1"),
        ("rewrite /a /api/b", "handle /api/* {\nreverse_proxy localhost:1\n}"),
        ("@a path_regexp ^/a$\nrewrite @a /api{path}", "@api path /api/*\nreverse_proxy @api localhost:1"),
    ] {
        let text = site(&format!("{rewrite}\n{application}"));
        assert_eq!(answer(&text, "/a"), "nothing", "{rewrite}, {application}: {text}");
    }
    let text = site("rewrite /a /b\nreverse_proxy /api/* localhost:1");
    assert_eq!(answer(&text, "/a"), "file /b", "{text}");
    let text = site("rewrite /a /index.php\nphp_fastcgi localhost:9");
    assert!(answer(&text, "/a").starts_with("file /index.php"), "{text}");
}

#[test]
fn a_matcher_of_a_site_is_known_in_its_blocks() {
    let text = site("@n not header X-Key k\nhandle {\nrespond @n 403\n}");
    assert_eq!((with(&text, ""), with(&text, "X-Key: k\r\n")), ("nothing".to_owned(), "file /a".to_owned()), "{text}");
    let text = site("@w host www.a.example\nroute {\nredir @w https://a.example{uri}\n}");
    assert_eq!(answer(&text, "/a"), "file /a", "{text}");
}

#[test]
fn the_configuration_of_caddy_is_not_sent() {
    for text in [site(""), site("handle /x/* {\nfile_server\n}"), of(":80 {\nroot * /srv\nfile_server /a/*\n}\n")] {
        assert_eq!(answer(&text, "/Caddyfile"), "nothing", "{text}");
        assert_eq!(answer(&text, "/a/Caddyfile"), "nothing", "{text}");
        assert_eq!(answer(&text, "/a/Caddyfiles"), "file /a/Caddyfiles", "{text}");
    }
}

#[test]
fn a_site_with_a_path_answers_for_no_other() {
    let files = "root * /srv\nfile_server\n";
    for (address, within, beyond) in [
        ("http://a.example/pub/*", "/pub/a", "/a"),
        ("http://a.example/pub*", "/public", "/pu"),
        ("http://a.example/pub", "/pub", "/pub/a"),
    ] {
        let text = of(&format!("{address} {{\n{files}}}\n"));
        assert_eq!(answer(&text, within), format!("file {within}"), "{text}");
        assert_eq!(answer(&text, beyond), "nothing", "{text}");
        // Of two sites of a host one is taken.
        let text = of(&format!("http://a.example {{\n{files}}}\n{address} {{\n{files}}}\n"));
        assert_eq!(answer(&text, within), "nothing", "{text}");
        assert_eq!(answer(&text, beyond), format!("file {beyond}"), "{text}");
    }
    for address in ["http://a.example/*.pdf", "http://a.example/a/*, http://b.example/b/*"] {
        let text = of(&format!("{address} {{\n{files}}}\n"));
        assert_eq!((answer(&text, "/a/a"), answer(&text, "/x")), ("nothing".into(), "nothing".into()), "{text}");
        assert!(text.contains("Not carried over"), "{text}");
    }
}

#[test]
fn paths_that_cannot_be_changed_as_caddy_changes_them_are_not_served() {
    for (uri, changed, other) in [
        ("uri strip_prefix /old", "/old/a", "/a"),
        ("uri strip_suffix .html", "/a.html", "/a"),
        ("uri replace /docs/ /v1/", "/x/docs/a", "/a"),
        ("uri path_regexp ^/d[0-9]+/ /d/", "/d12/a", "/d/a"),
        ("uri /in/* replace a b", "/in/a", "/a"),
        ("@m path_regexp ^/in/\nuri @m strip_prefix /in", "/in/a", "/a"),
    ] {
        let text = site(uri);
        assert_eq!(answer(&text, changed), "nothing", "{uri}: {text}");
        assert_eq!(answer(&text, other), format!("file {other}"), "{uri}: {text}");
        assert!(text.contains("Not carried over"), "{text}");
    }
}

#[test]
fn a_field_that_caddy_overwrites_is_not_believed_of_a_client() {
    for told in ["-X-Auth-User", "X-Remote-User {http.auth.user.id}", "-X-Auth*", "X-User a b", "X-User {odd}"] {
        let of_proxy = site(&format!("reverse_proxy /api/* a:1 {{\nheader_up {told}\n}}"));
        let of_request = site(&format!("request_header {told}\nreverse_proxy /api/* a:1"));
        let of_some = site(&format!("request_header /api/* {told}\nreverse_proxy a:1"));
        for text in [of_proxy, of_request, of_some] {
            if told.contains('*') {
                assert_eq!(answer(&text, "/api/a"), "nothing", "{told}: {text}");
                assert!(text.contains("would believe what a client says in this field"), "{text}");
            } else {
                assert_eq!(answer(&text, "/api/a"), "application", "{told}: {text}");
                let name = told.trim_start_matches('-').split(' ').next().unwrap();
                let settings = lamna_config::parse_unseen(&text, "/a.toml".as_ref()).unwrap();
                let rules = settings.sites[0].routes.iter().flat_map(|route| &route.request_headers);
                let is_named = rules.flat_map(|rule| rule.names()).any(|one| one == name);
                assert!(is_named, "{told}: {text}");
            }
            assert_ne!(answer(&text, "/a"), "nothing", "{told}: {text}");
        }
    }
    for told in ["+X-A b", "X-Real-IP {remote_host}", "-Accept-Encoding"] {
        let text = site(&format!("reverse_proxy /api/* a:1 {{\nheader_up {told}\n}}"));
        assert_eq!(answer(&text, "/api/a"), "application", "{told}: {text}");
    }
    // What a service may say is taken out of what clients send.
    for (copied, told) in [
        ("X-User>Remote-User", "Host b"),
        ("X-User>Remote-User X-Groups", "Host b"),
        ("X-User", "-Remote-User"),
        ("X-User", "Remote-User {http.auth.user.id}"),
    ] {
        let service = format!("forward_auth b:1 {{\nuri /v\ncopy_headers {copied}\n}}");
        let text = site(&format!("{service}\nreverse_proxy /api/* a:1 {{\nheader_up {told}\n}}"));
        let settings = lamna_config::parse_unseen(&text, "/a.toml".as_ref()).unwrap();
        assert!(format!("{:?}", settings.sites[0].routes).contains("\"Remote-User\""), "{copied} {told}: {text}");
        assert_eq!(answer(&text, "/api/a"), "application", "{text}");
    }
    let text = site("@m expression {odd}\nrequest_header @m -X-User\nreverse_proxy /api/* a:1");
    assert_eq!(answer(&text, "/api/a"), "nothing", "{text}");
}

#[test]
fn what_another_module_restricts_is_not_served() {
    for name in ["oidc", "ext_auth", "tailscale_auth", "jwt", "authorize", "crowdsec", "rate_limit", "my_acl", "waf"] {
        for text in [site(&format!("{name} a")), site(&format!("handle {{\n{name} {{\na b\n}}\nfile_server\n}}"))] {
            assert_eq!(answer(&text, "/a"), "nothing", "{name}: {text}");
        }
        let text = site(&format!("{name} /in/* a"));
        assert_eq!((answer(&text, "/in/a"), answer(&text, "/a")), ("nothing".into(), "file /a".into()), "{text}");
    }
}

#[test]
fn files_and_an_application_stand_in_blocks_beside_each_other() {
    for (files, application) in [
        ("handle /pub/* {\nfile_server\n}", "handle {\nreverse_proxy a:1\n}"),
        ("handle /pub/* {\nfile_server\n}", "reverse_proxy a:1"),
        ("handle /pub/* {\ntry_files {path} /pub/a\nfile_server\n}", "handle {\nreverse_proxy a:1\n}"),
        ("handle /pub/* {\nheader X-A b\nfile_server\n}", "handle {\nreverse_proxy a:1\n}"),
    ] {
        let text = of(&format!(":80 {{\nroot * /srv\n{files}\n{application}\n}}\n"));
        assert!(answer(&text, "/pub/a").starts_with("file"), "{files} {application}: {text}");
        assert_eq!(answer(&text, "/a"), "application", "{files} {application}: {text}");
    }
}
