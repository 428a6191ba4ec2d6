//! That what Caddy carries out first counts first. The orders in it were asked of Caddy 2.6.

use crate::asked::Asked;
use crate::caddy;

/// The result for a site with files that says this.
fn site(inner: &str) -> String {
    let text = format!("http://a.example {{\nroot * /srv\n{inner}\n}}\n");
    caddy(&text).unwrap_or_else(|note| panic!("{text}: {note:?}")).text
}

/// The status of a refusal, `to` and where it is led, the address of the application, or the file.
fn outcome(text: &str, path: &str, fields: &str, client: &str) -> String {
    let asked = Asked { fields, client, ..Asked::of(path) };
    match asked.place(text, "a.example").as_str() {
        "nothing" => asked.answer(text, "a.example"),
        place => place.to_owned(),
    }
}

const APP: &str = "127.0.0.1:3000";
const OUTSIDE: &str = "@n not remote_ip 10.0.0.0/8\n";

#[test]
fn an_answer_to_everything_counts_before_applications_and_files() {
    for (answer, expected) in [
        ("respond \"closed\" 503", "503"),
        ("respond 403", "403"),
        ("error 403", "403"),
        ("abort", "nothing"),
        ("redir https://new.test{uri}", "to https://new.test$path"),
    ] {
        for served in [
            "reverse_proxy /api/* 127.0.0.1:3000\nfile_server",
            "file_server /api/*",
            "php_fastcgi /api/* 127.0.0.1:9000\nfile_server",
        ] {
            for inner in [format!("{answer}\n{served}"), format!("{served}\n{answer}")] {
                let text = site(&inner);
                assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), expected, "{inner}: {text}");
                assert_eq!(outcome(&text, "/a", "", "192.0.2.7"), expected, "{inner}: {text}");
            }
        }
        // Of blocks one is taken before.
        let taken = if answer.starts_with("redir") { expected } else { APP };
        let text = site(&format!("{answer}\nhandle /api/* {{\nreverse_proxy 127.0.0.1:3000\n}}\nfile_server"));
        assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), taken, "{answer}: {text}");
        assert_eq!(outcome(&text, "/a", "", "192.0.2.7"), expected, "{answer}: {text}");
        let text = site(&format!("{answer}\nhandle {{\nreverse_proxy 127.0.0.1:3000\n}}"));
        assert_eq!(outcome(&text, "/a", "", "192.0.2.7"), taken, "{answer}: {text}");
    }
}

#[test]
fn who_is_led_elsewhere_is_led_there_before_anything_answers() {
    let blocks = "handle /admin/pub/* {\nreverse_proxy 127.0.0.1:3000\n}\nhandle /admin/* {\nfile_server\n}\nhandle {\nreverse_proxy 127.0.0.1:3000\n}";
    for (directive, led) in [
        ("redir @n /login", "to /login"),
        ("redir @n https://login.test/", "to https://login.test/"),
        ("rewrite @n /err.html", "file /err.html"),
    ] {
        for served in ["reverse_proxy /api/* 127.0.0.1:3000\nfile_server", blocks] {
            let text = site(&format!("{OUTSIDE}{directive}\n{served}"));
            let paths =
                if served == blocks { ["/admin/pub/x", "/admin/x", "/x"] } else { ["/api/x", "/admin/x", "/x"] };
            // An application may be asked for what is looked for then.
            let asked = directive.starts_with("rewrite") && served == blocks;
            for path in paths {
                let found = outcome(&text, path, "", "192.0.2.7");
                assert_eq!(found, if asked { "nothing" } else { led }, "{directive} {path}: {text}");
                assert!(!outcome(&text, path, "", "10.0.0.1").contains("err"), "{directive} {path}: {text}");
                assert_ne!(outcome(&text, path, "", "10.0.0.1"), led, "{directive} {path}: {text}");
            }
        }
    }
    let cookie = "@c not header_regexp Cookie s=1\nredir @c /login 302";
    let text =
        site(&format!("{cookie}\nhandle /admin/* {{\nfile_server\n}}\nhandle {{\nreverse_proxy 127.0.0.1:3000\n}}"));
    for (path, fields, expected) in [
        ("/x", "", "to /login"),
        ("/admin/x", "", "to /login"),
        ("/x", "Cookie: s=1\r\n", APP),
        ("/admin/x", "Cookie: s=1\r\n", "file /admin/x"),
    ] {
        assert_eq!(outcome(&text, path, fields, "192.0.2.7"), expected, "{path} {fields}: {text}");
    }
    let text = site("redir /admin/* /login\nhandle /admin/pub/* {\nreverse_proxy 127.0.0.1:3000\n}\nfile_server");
    assert_eq!(outcome(&text, "/admin/pub/x", "", "192.0.2.7"), "to /login", "{text}");
    for served in [
        "handle /admin/* {\nreverse_proxy 127.0.0.1:3000\n}\nhandle {\nfile_server\n}",
        "reverse_proxy /admin/* 127.0.0.1:3000\nfile_server",
    ] {
        let text = site(&format!("{OUTSIDE}rewrite @n /err.html\n{served}"));
        for path in ["/admin/x", "/a.txt"] {
            assert_eq!(outcome(&text, path, "", "192.0.2.7"), "file /err.html", "{served} {path}: {text}");
        }
    }
    let text = site("rewrite * /maintenance.html\nreverse_proxy /api/* 127.0.0.1:3000\nfile_server");
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "file /maintenance.html", "{text}");
}

#[test]
fn within_a_block_the_same_order_holds_and_for_no_other_block() {
    let inner = "redir @n /login\nreverse_proxy /a/x/* 127.0.0.1:3000\nreverse_proxy 127.0.0.1:3001";
    for block in ["handle", "route"] {
        let text =
            site(&format!("{OUTSIDE}{block} /a/* {{\n{inner}\n}}\nhandle /a/b/* {{\nreverse_proxy 127.0.0.1:3002\n}}"));
        assert_eq!(outcome(&text, "/a/x/y", "", "192.0.2.7"), "to /login", "{block}: {text}");
        assert_eq!(outcome(&text, "/a/y", "", "192.0.2.7"), "to /login", "{block}: {text}");
        assert_eq!(outcome(&text, "/a/x/y", "", "10.0.0.1"), APP, "{block}: {text}");
        assert_eq!(outcome(&text, "/a/b/y", "", "192.0.2.7"), "127.0.0.1:3002", "{block}: {text}");
    }
    // In a route it is the order of the lines.
    let text = site("route {\nreverse_proxy /api/* 127.0.0.1:3000\nredir https://login.test\n}");
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), APP, "{text}");
    assert_eq!(outcome(&text, "/x", "", "192.0.2.7"), "to https://login.test", "{text}");
    let text = site("route {\nredir https://login.test\nreverse_proxy /api/* 127.0.0.1:3000\n}");
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "to https://login.test", "{text}");
    let text = site("route {\nfile_server /pub/*\nrespond \"x\" 200\n}");
    assert_eq!(outcome(&text, "/pub/x", "", "192.0.2.7"), "file /pub/x", "{text}");
    assert_eq!(outcome(&text, "/x", "", "192.0.2.7"), "200", "{text}");
}

#[test]
fn what_a_snippet_says_has_its_place_among_the_others() {
    let text = "(login) {\n@n not remote_ip 10.0.0.0/8\nredir @n /login\n}\nhttp://a.example {\nreverse_proxy /api/* 127.0.0.1:3000\nimport login\n}\n";
    let text = caddy(text).unwrap().text;
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "to /login", "{text}");
    assert_eq!(outcome(&text, "/api/x", "", "10.0.0.1"), APP, "{text}");
}

#[test]
fn an_order_of_its_own_holds() {
    for (order, expected) in [("order respond before redir", "403"), ("order respond last", "to https://login.test")] {
        let text = caddy(&format!("{{\n{order}\n}}\nhttp://a.example {{\nredir https://login.test\nrespond 403\n}}\n"))
            .unwrap()
            .text;
        assert_eq!(outcome(&text, "/x", "", "192.0.2.7"), expected, "{order}: {text}");
    }
}

#[test]
fn an_answer_that_something_else_stands_in_the_place_of_is_not_sent() {
    let status = "@d status 200";
    for inner in
        ["respond 403", "abort", "redir /login", "handle {\nrespond 403\n}", "reverse_proxy 127.0.0.1:1", "error 403"]
    {
        let text =
            site(&format!("reverse_proxy /api/* 127.0.0.1:3000 {{\n{status}\nhandle_response @d {{\n{inner}\n}}\n}}"));
        assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "404", "{inner}: {text}");
        assert!(text.contains("answers of an application are not looked at"), "{text}");
        let text = site(&format!(
            "intercept {{\n{status}\nhandle_response @d {{\n{inner}\n}}\n}}\nreverse_proxy 127.0.0.1:3000"
        ));
        assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "nothing", "{inner}: {text}");
    }
    let errors =
        "@e status 5xx\nhandle_response @e {\nroot * /errors\nrewrite * /{rp.status_code}.html\nfile_server\n}";
    let text = site(&format!("reverse_proxy /api/* 127.0.0.1:3000 {{\n{errors}\n}}"));
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), APP, "{text}");
    assert!(text.contains("`handle_response @e`"), "{text}");
    let text = site("reverse_proxy /api/* 127.0.0.1:3000 {\nrewrite /verify\n}");
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "404", "{text}");
    let text = site(&format!("reverse_proxy /api/* 127.0.0.1:3000 {{\n{}\n}}", errors.replace("5xx", "2xx")));
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "404", "{text}");
}

#[test]
fn where_two_passwords_are_asked_for_nobody_is_let_in() {
    let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
    let asks = |matcher: &str, name: &str| format!("basicauth {matcher} {{\n{name} {hash}\n}}");
    let app = "reverse_proxy 127.0.0.1:3000";
    for (first, second, both) in [
        ("/admin/*", "/admin/x", "/admin/x"),
        ("*", "/admin/*", "/admin/y"),
        ("/admin/*", "*", "/admin/y"),
        ("@a", "/admin/*", "/admin/y"),
        ("*", "*", "/z"),
    ] {
        let two = format!("@a path /admin/* /other/*\n{}\n{}\n{app}", asks(first, "bob"), asks(second, "ada"));
        let text = site(&two);
        assert_eq!(outcome(&text, both, "", "192.0.2.7"), "nothing", "{two}: {text}");
        assert!(text.contains("another password is asked for as well"), "{text}");
    }
    for apart in [
        format!("{}\n{}\n{app}", asks("/a/*", "bob"), asks("/b/*", "ada")),
        format!("{}\n{}\n{app}", asks("/a/*", "bob"), asks("/a/b/*", "bob")),
        format!("handle /a/b/* {{\n{}\n{app}\n}}\nhandle /a/* {{\n{}\n{app}\n}}", asks("", "bob"), asks("", "ada")),
    ] {
        let text = site(&apart);
        for path in ["/a/b/x", "/a/x"] {
            assert_eq!(outcome(&text, path, "", "192.0.2.7"), APP, "{apart}: {text}");
            assert!(!Asked::of(path).lets_anyone_in(&text, "a.example"), "{apart}: {text}");
        }
    }
}

#[test]
fn a_matcher_about_a_field_that_is_changed_before_is_about_more() {
    let service = |copied: &str| format!("forward_auth a:1 {{\nuri /v\ncopy_headers {copied}\n}}");
    for changes in [
        "request_header -X-Role",
        "request_header X-Role user",
        "request_header -X-*",
        &service("X-Role"),
        &service("Y>X-Role"),
        "request_header /x X-Role a",
    ] {
        for refusal in [
            "@n not header X-Role admin\nrespond @n 403",
            "@n not header x-role admin\nredir @n /login",
            "@n not header X-Role admin\nhandle @n {\nrespond 403\n}",
        ] {
            let text = site(&format!("{refusal}\n{changes}\nreverse_proxy 127.0.0.1:3000"));
            let found = outcome(&text, "/x", "X-Role: admin\r\n", "192.0.2.7");
            // A redirect is carried out before.
            let is_open = refusal.contains("redir") && !changes.contains('*');
            assert_eq!(found == APP, is_open, "{changes} {refusal}: {text}");
        }
        let text = site(&format!("{changes}\n@a header X-Role admin\nreverse_proxy @a 127.0.0.1:3000\nfile_server"));
        assert_ne!(outcome(&text, "/x", "X-Role: admin\r\n", "192.0.2.7"), APP, "{changes}: {text}");
    }
    let text =
        site("request_header -X-Other\n@n not header X-Role admin\nrespond @n 403\nreverse_proxy 127.0.0.1:3000");
    assert_eq!(outcome(&text, "/x", "X-Role: admin\r\n", "192.0.2.7"), APP, "{text}");
    assert_eq!(outcome(&text, "/x", "", "192.0.2.7"), "403", "{text}");
}

#[test]
fn what_is_behind_a_prefix_that_is_taken_away_is_refused_there() {
    let hash = "$2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG";
    let app = "reverse_proxy 127.0.0.1:3000";
    for block in [
        format!("handle_path /api/* {{\nrespond /admin/* 403\n{app}\n}}"),
        format!("handle /api/* {{\nuri strip_prefix /api\nrespond /admin/* 403\n{app}\n}}"),
        format!("route /api/* {{\nuri strip_prefix /api\nrespond /admin/* 403\n{app}\n}}"),
        format!("handle_path /api/* {{\n@a path /admin/*\nrespond @a 403\n{app}\n}}"),
        format!("@a path /admin/*\nhandle_path /api/* {{\nrespond @a 403\n{app}\n}}"),
        format!("handle_path /api/* {{\nhandle /admin/* {{\nrespond 403\n}}\n{app}\n}}"),
        format!("handle_path /api/* {{\nredir /admin/* https://x.test 302\n{app}\n}}"),
        format!("handle_path /api/* {{\nhandle_path /admin/* {{\nrespond 403\n}}\nhandle {{\n{app}\n}}\n}}"),
        format!("handle_path /api/* {{\nhandle_path /v/* {{\nrespond /y 403\n}}\nrespond /admin/* 403\n{app}\n}}"),
    ] {
        let text = site(&block);
        let refused = outcome(&text, "/api/admin/x", "", "192.0.2.7");
        assert!(refused == "403" || refused == "to https://x.test", "{block}: {refused}: {text}");
        assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), APP, "{block}: {text}");
    }
    let text = site(&format!("handle_path /api/* {{\nbasicauth /admin/* {{\nada {hash}\n}}\n{app}\n}}"));
    let lets_all_in = |path: &str| Asked::of(path).lets_anyone_in(&text, "a.example");
    assert!(!lets_all_in("/api/admin/x") && lets_all_in("/api/x"), "{text}");
    // What cannot be said there is said for the whole block.
    for matcher in ["path_regexp ^/admin/", "path /ad[mn]in/*", "path *.bak"] {
        let text = site(&format!("handle_path /api/* {{\n@a {matcher}\nrespond @a 403\n{app}\n}}\nfile_server"));
        for path in ["/api/admin/x", "/api/admin/x.bak"] {
            let found = outcome(&text, path, "", "192.0.2.7");
            assert!(found != APP || !path.ends_with("bak") && matcher.contains("bak"), "{matcher}: {text}");
        }
        assert_ne!(outcome(&text, "/admin/x", "", "192.0.2.7"), "403", "{matcher}: {text}");
    }
    // In a route, what stands before it is asked about whole paths.
    let text = site(&format!("route /api/* {{\nrespond /api/f.js 403\nuri strip_prefix /api\n{app}\n}}"));
    assert_eq!(outcome(&text, "/api/f.js", "", "192.0.2.7"), "403", "{text}");
    let text = site(&format!("uri /api/* strip_prefix /api\n{app}"));
    assert_eq!(outcome(&text, "/api/x", "", "192.0.2.7"), "nothing", "{text}");
}
