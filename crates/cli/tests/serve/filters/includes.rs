//! Pages that are put together from files (`include`): they follow all of them, and have nothing of what their readers
//! may not see.

use std::fs;

use super::{ask, settled, text_of};
use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all includes_are_tried_with_every_architecture: [
    sped = SPED,
    sped_caches_off = SPED_CACHES_OFF,
    amped = AMPED,
    amped_entries_off = AMPED_ENTRIES_OFF,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    a_page_follows_all_its_files,
    a_page_has_nothing_that_its_readers_may_not_see,
]);

const CONFIGURATION: &str = r#"
[[site]]
root = "site"
index = ["index.shtml"]
users = { jane = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$kyj4KAQPkDHofxQqmZFrtcrDql5eltyrs3W6/tB5JPs" }

[[site.route]]
match = ["*.shtml", "*/"]
filters = [{ name = "include", error = "[none]" }]

[[site.route]]
match = "/members/*"
access = { users = ["jane"] }
"#;

fn becomes(server: &Server, target: &str, expected: &str) {
    eventually("the page is followed", PATIENCE, || (text_of(server, target) == expected).then_some(()));
}

fn a_page_follows_all_its_files(engine: Engine) {
    let server = Launch::new(engine)
        .config(CONFIGURATION)
        .file("index.shtml", "<!--#echo var=\"DOCUMENT_URI\" --> <!--#include virtual=\"parts/menu.html\" -->|\n")
        .file("parts/menu.html", "menu <!--#include file=\"item.html\" -->")
        .file("parts/item.html", "one")
        .start();
    for target in ["/", "/index.shtml", "/"] {
        assert_eq!(text_of(&server, target), "/index.shtml menu one|\n");
    }
    let first = settled(&server, "/");
    assert_eq!(first.field("content-type"), Some("text/html; charset=utf-8"));
    let etag = first.field("etag").expect("it was waited for");
    assert_eq!(ask(&server, "GET", "/", &format!("If-None-Match: {etag}\r\n")).status, 304);
    let part = ask(&server, "GET", "/", &format!("Range: bytes=1-5\r\nIf-Range: {etag}\r\n"));
    assert_eq!((part.status, &part.content[..]), (206, &b"index"[..]));
    let parts = server.site().join("parts");
    // As long as it was.
    fs::write(parts.join("item.html"), "two").expect("it can be written");
    becomes(&server, "/", "/index.shtml menu two|\n");
    eventually("it has another validator", PATIENCE, || {
        (settled(&server, "/").field("etag") != first.field("etag")).then_some(())
    });
    // Another process may have looked a moment before.
    eventually("what was kept is old", PATIENCE, || {
        (ask(&server, "GET", "/", &format!("If-None-Match: {etag}\r\n")).status == 200).then_some(())
    });
    fs::remove_file(parts.join("item.html")).expect("it can be removed");
    becomes(&server, "/", "/index.shtml menu [none]|\n");
    fs::write(parts.join("item.html"), "three").expect("it can be written");
    becomes(&server, "/", "/index.shtml menu three|\n");
    server.finish();
}

fn a_page_has_nothing_that_its_readers_may_not_see(engine: Engine) {
    let secret = "a secret";
    let include = |path: &str| format!("<!--#include virtual=\"{path}\" -->");
    let paths = [
        "/members/a.html",
        "/.env",
        "/parts/",
        "/parts",
        "/../outside.html",
        "/link.html",
        "/members/../members/a.html",
    ];
    let launch = Launch::new(engine)
        .config(CONFIGURATION)
        .file("page.shtml", paths.map(include).concat() + &include("/open.html"))
        .file("members/page.shtml", include("a.html"))
        .file("members/a.html", secret)
        .file(".env", secret)
        .file("parts/a.html", secret)
        .file("open.html", "open");
    let outside = launch.site().join("../outside.html");
    fs::write(&outside, secret).expect("it can be written");
    std::os::unix::fs::symlink("../outside.html", launch.site().join("link.html")).expect("a link can be made");
    let mut server = launch.start();
    for _ in 0..2 {
        assert_eq!(text_of(&server, "/page.shtml"), "[none]".repeat(paths.len()) + "open");
        assert_eq!(ask(&server, "GET", "/members/page.shtml", "").status, 401);
    }
    server.wait_to_hear("`/page.shtml`: it includes `/members/a.html`, which it cannot have");
    server.finish();
}
