//! That every key of a route is shown, reported, compared and named, in an order that does not change.

use crate::{parse, render};

/// Every key but those that redirect or look elsewhere.
const ANSWERED: &str = r#"
match = { path = "/a/*", method = "GET" }
priority = 7
headers = [{ set = { X-A = "1" }, status = "4xx" }, { set = { Content-Type = "text/plain", X-B = "2" } }]
immutable = true
index = ["a.html", "b.html"]
error_pages = { "404" = "/gone.html", "500" = "/sorry.html" }
cors = { origins = "https://a.example", headers = "X-A" }
intercept_errors = true
proxy = "http://127.0.0.1:3000"
path = "as-sent"
strip_prefix = "/a"
restore_prefix = true
request_headers = [{ set = { X-A = "$client" }, add = { X-B = "2" }, remove = ["X-C"], default = { X-D = "$1" } }]
cache = { fresh_s = 3 }
filters = ["markdown"]
structured = { save_data = true }
upload = true
delete = false
search = true
early_hints = true
link_prefetch = true
mkdir = true
webdav = true
access = { allow = "10.0.0.0/8" }
"#;

/// The other keys, and the other value of those above.
const LED_AWAY: &str = r#"
match = "/b/*"
immutable = "all"
redirect = { to = "/c/$1", status = 308, if_missing = true }
rewrite = "/d"
try = ["$path", "/e"]
respond = false
intercept_errors = false
fastcgi = false
path = "normal"
cors = false
cache = false
filters = []
search = false
early_hints = false
link_prefetch = false
log = "off"
access = { anyone = true, actions = "read" }
"#;

/// Both, as `lamna check` shows them.
const SHOWN: &str = r#"match = { path = ["/a/*"], method = ["GET"] }
priority = 7
headers = [{ set = { "X-A" = ["1"] }, status = ["4xx"] }, { set = { "Content-Type" = ["text/plain"], "X-B" = ["2"] } }]
immutable = true
index = ["a.html", "b.html"]
error_pages = { "404" = "/gone.html", "500" = "/sorry.html" }
intercept_errors = true
proxy = { to = ["127.0.0.1:3000"], connect_timeout_ms = 5000, timeout_ms = 60000 }
path = "as-sent"
strip_prefix = "/a"
restore_prefix = true
request_headers = [{ set = { "X-A" = ["$client"] }, add = { "X-B" = ["2"] }, remove = ["X-C"], default = { "X-D" = ["$1"] } }]
cors = { origins = ["https://a.example"], headers = ["X-A"], credentials = false }
cache = { fresh_s = 3, stale_if_error_s = 0, bytes_max = 1048576, ignore_reload = false }
filters = ["markdown", { name = "structured", save_data = "true" }]
search = true
early_hints = true
link_prefetch = true
access = [{ actions = ["read", "upload", "delete", "mkdir"], allow = ["10.0.0.0/8"] }]
upload = true
delete = false
mkdir = true
webdav = true

[[site.route]]
match = { path = ["/b/*"] }
immutable = "all"
redirect = { to = "/c/$1", status = 308, if_missing = true }
rewrite = "/d"
try = ["$path", "/e"]
respond = false
intercept_errors = false
proxy = false
path = "normal"
cors = false
cache = false
filters = []
search = false
early_hints = false
link_prefetch = false
access = [{ actions = ["read"], anyone = true }]
log = "off"
"#;

/// The rules that apply in the end.
const REPORTED: &str = "\
#   /a/*, if method GET
#       proxy to 127.0.0.1:3000
#       it is asked for paths as clients send them
#       it is asked for paths without /a
#       its own addresses in its answers are put behind the prefix
#       it is not sent X-C
#       it is sent X-A: $client
#       it is sent X-D: $1, where the client sends none
#       it is sent X-B: 2, beside what there is
#       answers are kept, for 3 s where they do not say for how long
#       index files a.html, b.html
#       filters markdown, then structured (save_data `true`)
#       its pages are searched with ?q=
#       clients are told what its pages need (103 Early Hints)
#       its pages may be fetched ahead, those of applications as well
#       page for 404: /gone.html
#       page for 500: /sorry.html
#       errors of the application are answered with these pages
#       Content-Type: text/plain (files)
#       Cache-Control: public, max-age=31536000, immutable (names with a hash)
#       X-B: 2
#       with 404 instead: X-A: 1; X-B: 2
#       upload is on
#       delete is off
#       mkdir is on
#       webdav is on
#       read is for clients of 10.0.0.0/8
#       upload is for clients of 10.0.0.0/8
#       delete is for clients of 10.0.0.0/8
#       mkdir is for clients of 10.0.0.0/8
#       pages of https://a.example may ask
#   /b/*
#       redirect to /c/$1 with 308, where there is nothing
#       look for /d
#       try $path, then /e
#       no early hints
#       its pages are not fetched ahead
#       Cache-Control: public, max-age=31536000, immutable (files)
#       read is for anyone
#       its requests are not in the access log
";

fn parsed(routes: &[&str]) -> Result<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let routes: String = routes.iter().map(|route| format!("[[site.route]]{route}\n")).collect();
    let text = format!("[[site]]\nroot = \".\"\n{routes}");
    parse(&text, &directory.path().join("a.toml"))
        .map(|settings| render(&settings))
        .map_err(|error| error.to_string().replace(&format!("{}/", directory.path().display()), ""))
}

#[test]
fn every_key_is_shown_in_its_order() {
    let shown = parsed(&[ANSWERED, LED_AWAY]).unwrap();
    let (_, routes) = shown.split_once("\n[[site.route]]\n").unwrap();
    let (routes, report) = routes.split_once("\n# What applies in the end, the most specific route first:\n").unwrap();
    assert_eq!(routes, SHOWN);
    assert_eq!(report, REPORTED);
}

#[test]
fn of_contradictions_the_first_in_an_order_is_told() {
    let keys = [
        ("immutable = true", "immutable = false", "`immutable`"),
        ("index = [\"a\"]", "index = [\"b\"]", "`index`"),
        ("filters = []", "filters = [\"markdown\"]", "`filters`"),
        ("search = true", "search = false", "`search`"),
        ("early_hints = true", "early_hints = false", "`early_hints`"),
        ("link_prefetch = true", "link_prefetch = false", "`link_prefetch`"),
        ("path = \"as-sent\"", "path = \"normal\"", "`path`"),
        ("restore_prefix = true", "restore_prefix = false", "`restore_prefix`"),
        ("cache = true", "cache = false", "`cache`"),
        ("cors = true", "cors = false", "`cors`"),
        ("upload = true", "upload = false", "`upload`"),
        ("delete = true", "delete = false", "`delete`"),
        ("mkdir = true", "mkdir = false", "`mkdir`"),
        ("webdav = true", "webdav = false", "`webdav`"),
        ("error_pages = { \"404\" = \"/a\" }", "error_pages = { \"404\" = \"/b\" }", "the page for 404"),
        ("headers = { X-A = \"1\" }", "headers = { X-A = \"2\" }", "the field `X-A`"),
        ("request_headers = { X-A = \"1\" }", "request_headers = { X-A = \"2\" }", "the field `X-A` of requests"),
    ];
    let ways = [
        ("redirect = \"/a\"", "redirect = \"/b\""),
        ("rewrite = \"/a\"", "rewrite = \"/b\""),
        ("try = [\"/a\"]", "try = [\"/b\"]"),
        ("proxy = \"http://127.0.0.1:1\"", "proxy = \"http://127.0.0.1:2\""),
        ("fastcgi = \"127.0.0.1:1\"", "fastcgi = \"127.0.0.1:2\""),
        ("respond = 410", "respond = 404"),
        ("respond = 410", "proxy = false"),
        ("redirect = \"/a\"", "try = []"),
        ("rewrite = false", "proxy = false"),
    ];
    let differ = |one: &str, two: &str| {
        let route = |keys: &str| format!("\nmatch = \"/x\"\n{keys}");
        parsed(&[&route(one), &route(two)]).err().unwrap_or_default()
    };
    for from in 0..keys.len() {
        let one: String = keys[from..].iter().map(|(one, ..)| format!("{one}\n")).collect();
        let two: String = keys[from..].iter().map(|(_, two, _)| format!("{two}\n")).collect();
        let told = differ(&one, &two);
        assert!(told.contains(&format!("and differ in {}\n", keys[from].2)), "{told}");
        for (a, b) in ways {
            let told = differ(&format!("{one}{a}"), &format!("{two}{b}"));
            let words = "and differ in where answers come from (`redirect`, `rewrite`, `try`, `respond`, `proxy`, `fastcgi`, `scgi`, `uwsgi`, `application`, `cgi`)\n";
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(differ(&one, &one), "");
        assert_eq!(differ(&one, ""), "");
    }
}

#[test]
fn what_contradicts_itself_is_told_in_an_order() {
    let told = parsed(&["\nmatch = \"/x\"\nproxy = \"http://127.0.0.1:1\"\nredirect = \"/a\"\nrewrite = \"/b\"\n"])
        .unwrap_err();
    let redirects = told.find("this route redirects every request, so that `rewrite` and `try` have nothing to do");
    let answers = told.find("an application answers this route, so that `redirect` and `rewrite` have nothing");
    assert!(redirects.is_some() && redirects < answers, "{told}");
}

#[test]
fn a_key_that_is_not_known_in_a_route_is_answered_with_all_that_are() {
    let told = parsed(&["\nmatch = \"/x\"\nqqqqqqqqqqqq = 1\n"]).unwrap_err();
    let known = "match, priority, headers, immutable, redirect, rewrite, try, index, error_pages, cors, respond, intercept_errors, proxy, fastcgi, scgi, uwsgi, application, cgi, path, strip_prefix, restore_prefix, request_headers, cache, filters, \
                 structured, upload, delete, search, early_hints, link_prefetch, mkdir, webdav, log, access";
    assert!(told.ends_with(&format!("known here: {known}")), "{told}");
}
