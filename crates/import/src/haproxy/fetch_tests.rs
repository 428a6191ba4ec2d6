//! HAProxy's fetch methods, held against what comes of them. Each expectation was asked of HAProxy 2.6.

use super::tests::{answer, front};
use crate::asked::Asked;

const APP: &str = "127.0.0.1:3000";

/// Whether HAProxy refuses a request (`path`, `query`, `fields`) by a condition.
type Row = (&'static str, &'static str, &'static str, &'static str, bool);

/// Holds refusals against what HAProxy does: all of its refusals are made, and where `is_exact` no others are.
fn hold(rows: &[Row], is_exact: bool) {
    for (condition, path, query, fields, is_refused) in rows {
        let text = front(&format!(" http-request deny if {condition}"));
        let answer = answer(&text, Asked { query, fields, ..Asked::of(path) }, "");
        match is_refused {
            true => assert_eq!(answer, "403", "{condition} {path}?{query} {fields}: {text}"),
            false if is_exact => assert_eq!(answer, APP, "{condition} {path}?{query} {fields}: {text}"),
            false => {}
        }
    }
}

#[test]
fn a_refusal_by_path_and_query_is_for_both() {
    hold(
        &[
            ("{ url_sub -i token }", "/x", "token=1", "", true),
            ("{ url_reg token }", "/x", "token=1", "", true),
            ("{ url -m reg \\.\\./ }", "/x", "../etc", "", true),
            ("{ url_end bak }", "/x", "bak", "", true),
            ("{ url_dir bak }", "/x", "bak", "", true),
            ("{ pathq -m sub token }", "/x", "token=1", "", true),
            ("{ pathq -m end =1 }", "/x", "token=1", "", true),
            ("{ url_beg /x?token }", "/x", "token=1", "", true),
            ("{ url /x?token }", "/x", "token", "", true),
            ("!{ url /x }", "/x", "token=1", "", true),
            ("!{ url_sub good }", "/x", "token=1", "", true),
            ("{ url_sub good } or { url_beg /a }", "/a", "", "", true),
            ("HTTP_URL_ABS", "/x", "", "", false),
        ],
        false,
    );
    hold(
        &[
            ("{ url_beg /x }", "/xy", "a=b", "", true),
            ("{ url_beg /x }", "/y", "/x", "", false),
            ("{ url_reg ^/api/(v[0-9]+/)?admin }", "/api/v1/admin", "", "", true),
            ("{ url_reg ^/api/(v[0-9]+/)?admin }", "/x", "/api/admin", "", false),
            ("{ url_reg ^/a } { path_beg /a/b }", "/a/b", "", "", true),
            ("{ url /x?token }", "/y", "token", "", false),
            ("{ path_sub token }", "/x", "token=1", "", false),
        ],
        true,
    );
}

#[test]
fn a_refusal_by_a_parameter_is_for_each_of_its_name() {
    hold(
        &[
            ("{ urlp(a) x }", "/x", "a=1&a=x", "", true),
            ("{ urlp(a) x }", "/x", "b=1;a=x", "", true),
            ("{ urlp(a) -m found }", "/x", "b=1;a=x", "", true),
            ("{ urlp(a) x%20y }", "/x", "a=x%20y", "", true),
            ("{ urlp(a,;) x }", "/x;a=x", "", "", true),
            ("{ url_param(a) -m beg x }", "/x", "a=xy", "", true),
            ("!{ urlp(a) x }", "/x", "a=y", "", true),
            ("!{ urlp(a) x }", "/x", "", "", true),
            ("!{ urlp(a) x%20y }", "/x", "a=y", "", true),
        ],
        false,
    );
    hold(&[("!{ urlp(a) x }", "/", "a=x", "", false), ("!{ urlp(a) x%20y }", "/", "a=x%20y", "", false)], true);
    // A backend gets what is for it for certain, and nothing goes elsewhere that may be for it.
    let text = front(" use_backend api if { urlp(a) x }");
    for (query, expected) in [("a=x", "127.0.0.1:3001"), ("b=1;a=x", "404")] {
        assert_eq!(answer(&text, Asked { query, ..Asked::of("/") }, ""), expected, "{query}: {text}");
    }
}

#[test]
fn a_refusal_by_a_path_as_it_is_sent_is_for_the_path_it_stands_for() {
    hold(
        &[
            ("{ path_beg /%61dmin }", "/admin", "", "", true),
            ("!{ path_beg /%61dmin }", "/admin", "", "", true),
            ("{ path_beg /a%2fb }", "/a/b", "", "", true),
            ("!{ path_beg /a%2fb }", "/a/b", "", "", true),
            ("{ path_beg /a%2 }", "/a b", "", "", true),
            ("{ path_reg %[0-9a-f] }", "/a b", "", "", true),
            ("{ path_beg /%ff }", "/\u{ff}", "", "", true),
            ("{ path_sub // }", "/a/b", "", "", true),
        ],
        false,
    );
    hold(
        &[
            ("{ path_beg /a%20b }", "/a bc", "", "", true),
            ("{ path_beg /a%20b }", "/a", "", "", false),
            ("{ path /caf%C3%A9 }", "/caf\u{e9}", "", "", true),
            ("{ path -i /CAF%c3%a9 }", "/caf\u{e9}", "", "", true),
            ("{ path_dir a%20b }", "/x/a b/c", "", "", true),
            ("{ url_beg /a%20b }", "/a bc", "", "", true),
            ("{ path,url_dec -m beg \"/a b\" }", "/a bc", "", "", true),
            ("{ path,url_dec -m beg /a%20b }", "/a bc", "", "", false),
            ("{ path_beg /a%2fb }", "/a", "", "", false),
            ("{ path_sub /../ }", "/a/b", "", "", false),
        ],
        true,
    );
    let text = front(" http-request deny if { path_sub /../ }");
    assert!(text.contains("it is for no request"), "{text}");
}

#[test]
fn a_field_is_compared_by_its_elements() {
    hold(
        &[
            ("{ hdr_reg(X-Key) ^bad$ }", "/", "", "X-Key: ok, bad\r\n", true),
            ("{ hdr_reg(X-Key) ^bad$ }", "/", "", "X-Key: ok  bad\r\n", false),
            ("{ hdr_reg(X-Key) ^bad$ }", "/", "", "X-Key: \"ok, bad\"\r\n", false),
            ("{ hdr_reg(X-Key) ^bad$ }", "/", "", "X-Key: ok\r\nX-Key: bad\r\n", true),
            ("{ hdr_reg(X-Key) ^bad }", "/", "", "X-Key: ok, badly\r\n", true),
            ("{ hdr_reg(X-Key) bad$ }", "/", "", "X-Key: so bad, ok\r\n", true),
            ("{ hdr_reg(X-Key) bad$ }", "/", "", "X-Key: badly, ok\r\n", false),
            ("{ hdr_reg(X-Key) -i ^(BAD|worse)$ }", "/", "", "X-Key: ok, Bad, ok\r\n", true),
            ("{ hdr_reg(X-Key) ^bad$|^worse }", "/", "", "X-Key: ok, worsen\r\n", true),
            ("{ hdr_reg(X-Key) (^bad|worse$) }", "/", "", "X-Key: ok, no worse, x\r\n", true),
            ("{ hdr(X-Key) bad }", "/", "", "X-Key: ok, bad\r\n", true),
            ("{ hdr(X-Key) bad }", "/", "", "X-Key: \"x, bad, y\"\r\n", false),
            ("{ hdr_end(X-Key) bad }", "/", "", "X-Key: ok  bad, ok\r\n", true),
            ("{ hdr_end(X-Key) bad }", "/", "", "X-Key: \"a,b\" bad\r\n", true),
            ("{ hdr_beg(X-Key) bad }", "/", "", "X-Key: ok, badly\r\n", true),
            ("{ hdr_sub(X-Key) bad }", "/", "", "X-Key: ok, \"so, bad\"\r\n", true),
            ("!{ hdr_reg(X-Key) ^good$ }", "/", "", "X-Key: ok, good\r\n", false),
            ("!{ hdr_reg(X-Key) ^good$ }", "/", "", "X-Key: \"ok, good\"\r\n", true),
            ("{ req.fhdr(X-Key) -m reg ^bad$ }", "/", "", "X-Key: ok, bad\r\n", false),
            ("{ req.fhdr(X-Key) -m reg bad$ }", "/", "", "X-Key: ok, bad\r\n", true),
            ("{ req.fhdr(X-Key) \"ok, bad\" }", "/", "", "X-Key: ok, bad\r\n", true),
            ("{ req.fhdr(X-Key) bad }", "/", "", "X-Key: ok, bad\r\n", false),
        ],
        true,
    );
    hold(
        &[
            ("{ hdr_reg(X-Key) a.*b }", "/", "", "X-Key: xaxbx\r\n", true),
            ("{ hdr_reg(X-Key) a.*b }", "/", "", "X-Key: \"a,b\"\r\n", true),
            ("!{ hdr_reg(X-Key) ^a.*b$ }", "/", "", "X-Key: a,b\r\n", true),
            ("{ hdr_sub(X-Key) a,b }", "/", "", "X-Key: \"a,b\"\r\n", true),
            ("{ hdr_reg(X-Key) ^a(?=b) }", "/", "", "X-Key: ab\r\n", true),
            ("{ hdr(X-Key,-1) bad }", "/", "", "X-Key: ok, bad\r\n", true),
            ("!{ hdr(X-Key,-1) good }", "/", "", "X-Key: good, bad\r\n", true),
            ("{ hdr(X-Key),field(1,:) bad }", "/", "", "X-Key: bad:1\r\n", true),
            ("{ hdr_dom(X-Key) bad }", "/", "", "X-Key: so.bad.it.is\r\n", true),
        ],
        false,
    );
    hold(
        &[
            ("{ hdr_reg(X-Key) a.*b }", "/", "", "X-Key: a,b\r\n", false),
            ("{ hdr_sub(X-Key) a,b }", "/", "", "X-Key: a,b\r\n", false),
            ("{ hdr(X-Key,-1) bad }", "/", "", "X-Key: ok\r\n", false),
            ("{ hdr_dom(X-Key) bad }", "/", "", "", false),
        ],
        true,
    );
    let text = front(" use_backend api if { hdr_reg(User-Agent) -i android.*mobile }");
    let asked = Asked { fields: "User-Agent: X (Android 10) Mobile\r\n", ..Asked::of("/") };
    assert_eq!(answer(&text, asked, ""), "127.0.0.1:3001", "{text}");
}

#[test]
fn a_cookie_is_found_wherever_it_stands() {
    hold(
        &[
            ("{ cook(s) 1 }", "/", "", "Cookie: b=2; s=1\r\n", true),
            ("{ cook(s) 1 }", "/", "", "Cookie: b=2, s=1\r\n", true),
            ("{ cook(s) 1 }", "/", "", "Cookie: s = 1\r\n", true),
            ("{ cook(s) 1 }", "/", "", "Cookie: b=\"2; s=1\"\r\n", false),
            ("{ cook(s) 1 }", "/", "", "Cookie: xs=1\r\n", false),
            ("{ cook(s) 1 }", "/", "", "Cookie: s=12\r\n", false),
            ("{ cook(s) -m found }", "/", "", "Cookie: s=\r\n", false),
            ("{ cook(s) -m found }", "/", "", "Cookie: s=; t=1\r\n", true),
            ("{ cook(s) -m found }", "/", "", "Cookie: t=2; s=1\r\n", true),
            ("{ hdr(X-Key) -m found }", "/", "", "X-Key:\r\n", true),
            ("{ hdr_cnt(X-Key) 0 }", "/", "", "X-Key:\r\n", false),
            ("{ cook_reg(s) ^a.$ }", "/", "", "Cookie: b=1; s=ab\r\n", true),
            ("{ cook_sub(s) b }", "/", "", "Cookie: b=1; s=abc\r\n", true),
            ("{ cook_sub(s) b }", "/", "", "Cookie: s=a; t=b\r\n", false),
            ("!{ cook(s) 1 }", "/", "", "Cookie: s=1\r\n", false),
            ("!{ cook(s) 1 }", "/", "", "Cookie: b=\"2; s=1\"\r\n", true),
        ],
        true,
    );
}

#[test]
fn a_condition_about_what_an_earlier_rule_changes_is_about_more() {
    for (rules, path, fields) in [
        (
            "http-request del-header X-Role\n http-request set-header X-Role admin if { src 10.0.0.0/8 }\n http-request deny if { path_beg /x } !{ hdr(X-Role) admin }",
            "/x",
            "X-Role: admin\r\n",
        ),
        ("http-request del-header X-Role\n http-request deny unless { hdr(X-Role) admin }", "/x", "X-Role: admin\r\n"),
        (
            "http-request set-header X-Role user\n acl a hdr(x-role) admin\n http-request deny unless a",
            "/x",
            "X-Role: admin\r\n",
        ),
        ("http-request set-header Host adm.test\n http-request deny if { hdr(host) adm.test }", "/x", ""),
        (
            "http-request set-header X-Forwarded-For %[src]\n http-request deny if { hdr(X-Forwarded-For) 192.0.2.7 }",
            "/x",
            "",
        ),
        (
            "http-request replace-header X-Key (.*) bad\n http-request deny if { hdr(X-Key) bad }",
            "/x",
            "X-Key: good\r\n",
        ),
        (
            "http-request del-header x- -m beg\n http-request deny unless { hdr(X-Role) admin }",
            "/x",
            "X-Role: admin\r\n",
        ),
        ("http-request set-header Cookie s=1\n http-request deny if { cook(s) 1 }", "/x", ""),
        ("http-request replace-path /api/(.*) /\\1\n http-request deny if { path_beg /admin }", "/api/admin", ""),
        ("http-request set-query a=x\n http-request deny unless { urlp(a) y }", "/x", ""),
        ("http-request set-method POST\n http-request deny if { method POST }", "/x", ""),
        ("http-request set-src hdr(x-ip)\n http-request deny if { src 10.0.0.0/8 }", "/x", ""),
    ] {
        let text = front(&format!(" {rules}"));
        assert_eq!(answer(&text, Asked { fields, query: "a=y", ..Asked::of(path) }, ""), "403", "{rules}: {text}");
    }
    let text = front(" http-request del-header X-Role\n use_backend api if { hdr(X-Role) admin }");
    assert_eq!(answer(&text, Asked { fields: "X-Role: admin\r\n", ..Asked::of("/") }, ""), "404", "{text}");
    // What is changed later, or is something else, is asked for as it is sent.
    let text = front(
        " http-request deny unless { hdr(X-Role) admin }\n http-request del-header X-Role\n http-request deny if { path /x }",
    );
    for (path, expected) in [("/", APP), ("/x", "403")] {
        assert_eq!(
            answer(&text, Asked { fields: "X-Role: admin\r\n", ..Asked::of(path) }, ""),
            expected,
            "{path}: {text}"
        );
    }
}

#[test]
fn who_asks_whether_the_server_is_well_is_told_when_it_is_not() {
    let text = front(" monitor-uri /mon\n monitor fail if { hdr(x-key) bad }");
    for (path, fields, expected) in
        [("/mon", "", "200"), ("/mon", "X-Key: bad\r\n", "503"), ("/x", "X-Key: bad\r\n", APP)]
    {
        assert_eq!(answer(&text, Asked { fields, ..Asked::of(path) }, ""), expected, "{path}: {text}");
    }
    let text = front(" monitor-uri /mon\n monitor fail if { nbsrv(app) lt 1 }");
    assert_eq!(answer(&text, Asked::of("/mon"), ""), "200", "{text}");
    assert!(text.contains("`monitor fail if { nbsrv(app) lt 1 }`"), "{text}");
}
