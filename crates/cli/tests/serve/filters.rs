//! Files that pass through filters: what is served is a file of its own, in every engine, and never the one that was to
//! be filtered.

mod images;
mod includes;
mod omit;
mod streams;
mod structured;
mod turns;

use std::fs::{self, File};

use crate::client::{PATIENCE, Response};
use crate::control::{ctl, runtime};
use crate::engine::{AMPED, Engine, PIPELINED, PROACTOR, SPED, THREAD_POOL, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!(all filters_are_tried_with_every_architecture: [
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
    what_is_filtered_is_a_file_of_its_own,
    a_file_that_cannot_be_filtered_is_not_shown_as_it_is,
    what_is_made_follows_the_file,
    the_manual_says_what_happens,
]);

const SITE: &str = "[[site]]\nroot = \"site\"\nbrowse = true\n";
const FILTERS: &str = r#"
[[site.route]]
match = "*.md"
filters = ["markdown", { name = "insert", where = "body", html = "<hr>" }]

[[site.route]]
match = "*.txt"
filters = [{ name = "substitute", from = "secret", to = "public" }]

[[site.route]]
match = "/plain/*.txt"
filters = []
"#;

fn ask(server: &Server, method: &str, target: &str, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes());
    let response = client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response.check().unwrap_or_else(|fault| panic!("{method} {target}: {fault}"));
    response
}

fn text_of(server: &Server, target: &str) -> String {
    String::from_utf8(ask(server, "GET", target, "").content).expect("the page is text")
}

fn what_is_filtered_is_a_file_of_its_own(engine: Engine) {
    let long = "# Title\n\n".to_owned() + &"A line of text.\n\n".repeat(200);
    let launch = Launch::new(engine)
        .config(&format!("{SITE}{FILTERS}"))
        .file("page.md", long)
        .file("a.txt", "a secret\n")
        .file("plain/a.txt", "a secret\n");
    let server = launch.start();
    for _ in 0..3 {
        let page = text_of(&server, "/page.md");
        assert!(page.starts_with("<!doctype html>") && page.contains("<h1 id=\"title\">Title</h1>"), "{page}");
        assert!(page.ends_with("<hr></body>\n</html>\n"), "{page}");
        assert_eq!(text_of(&server, "/a.txt"), "a public\n");
        assert_eq!(text_of(&server, "/plain/a.txt"), "a secret\n");
    }
    let whole = settled(&server, "/page.md");
    assert_eq!(whole.field("content-type"), Some("text/html; charset=utf-8"));
    let etag = whole.field("etag").expect("it was waited for");
    assert!(etag.starts_with('"'), "{etag} is strong");
    let head = ask(&server, "HEAD", "/page.md", "");
    assert_eq!(head.field("content-length"), Some(&*whole.content.len().to_string()));
    assert_eq!(ask(&server, "GET", "/page.md", &format!("If-None-Match: {etag}\r\n")).status, 304);
    let part = ask(&server, "GET", "/page.md", &format!("Range: bytes=5-14\r\nIf-Range: {etag}\r\n"));
    assert_eq!((part.status, &part.content[..]), (206, &whole.content[5..15]));
    server.finish();
}

fn a_file_that_cannot_be_filtered_is_not_shown_as_it_is(engine: Engine) {
    let launch = Launch::new(engine).config(&format!("{SITE}{FILTERS}")).file("a.txt", "a secret\n");
    let mut large = launch.site();
    large.push("large.txt");
    File::create(&large).and_then(|file| file.set_len((16 << 20) + 1)).expect("a file can be made");
    let mut server = launch.start();
    for _ in 0..2 {
        assert_eq!(ask(&server, "GET", "/large.txt", "").status, 500);
    }
    server.wait_to_hear("`/large.txt`: it cannot be filtered: the content has more than 16777216 bytes");
    assert_eq!(text_of(&server, "/a.txt"), "a public\n");
    fs::write(&large, "no more secret\n").expect("it can be written");
    eventually("it is filtered now", PATIENCE, || (text_of(&server, "/large.txt") == "no more public\n").then_some(()));
    server.finish();
}

/// The answer with a validator: when the file is settled.
fn settled(server: &Server, target: &str) -> Response {
    eventually("it is settled", PATIENCE, || {
        Some(ask(server, "GET", target, "")).filter(|answer| answer.field("etag").is_some())
    })
}

fn what_is_made_follows_the_file(engine: Engine) {
    let server = Launch::new(engine).config(&format!("{SITE}{FILTERS}")).file("a.txt", "a secret\n").start();
    let first = settled(&server, "/a.txt");
    fs::write(server.site().join("a.txt"), "b secret\n").expect("it can be written");
    eventually("the file is followed", PATIENCE, || (text_of(&server, "/a.txt") == "b public\n").then_some(()));
    eventually("it has another validator", PATIENCE, || {
        (settled(&server, "/a.txt").field("etag") != first.field("etag")).then_some(())
    });
    server.finish();
}

#[test]
fn what_is_made_follows_the_configuration() {
    for engine in [SPED, AMPED, PROACTOR, THREAD_POOL, PIPELINED] {
        let server = Launch::new(engine).config(&format!("{SITE}{FILTERS}")).file("a.txt", "a secret\n").start();
        let before = settled(&server, "/a.txt");
        let config = server.directory().join("lamna.toml");
        let written = fs::read_to_string(&config).expect("the configuration is there");
        fs::write(&config, written.replace("\"public\"", "\"nobody\"")).expect("it can be written");
        let reloaded = ctl(&runtime(&server), &["reload"]);
        assert_eq!(reloaded.code, Some(0), "{reloaded:?}");
        eventually("the new chain is taken", PATIENCE, || (text_of(&server, "/a.txt") == "a nobody\n").then_some(()));
        // As long as it is, it is another representation of the same file.
        eventually("it has another validator", PATIENCE, || {
            (settled(&server, "/a.txt").field("etag") != before.field("etag")).then_some(())
        });
        server.finish();
    }
}

/// Codings are made where entries are kept.
#[test]
fn what_is_filtered_is_compressed_like_a_file() {
    let text = "# Title\n\n".to_owned() + &"A line of text.\n\n".repeat(200);
    for engine in [SPED, AMPED, PROACTOR, THREAD_POOL] {
        let server = Launch::new(engine).config(&format!("{SITE}{FILTERS}")).file("page.md", &text).start();
        let coded = eventually("a coding is made", PATIENCE, || {
            let answer = ask(&server, "GET", "/page.md", "Accept-Encoding: gzip\r\n");
            Some(answer).filter(|answer| answer.field("content-encoding") == Some("gzip"))
        });
        assert_eq!(coded.field("vary"), Some("Accept-Encoding"));
        assert!(coded.content.len() < text.len());
        server.finish();
    }
}

const MANUAL: &str = include_str!("../../../../docs/filters.md");

/// The pieces of the manual between fences of this kind.
fn fenced(kind: &str) -> Vec<&'static str> {
    let fence = format!("```{kind}\n");
    let (_, pieces) = MANUAL.split_once(&fence).expect("there are such pieces");
    pieces.split(&fence).map(|piece| piece.split("```").next().unwrap_or_default()).collect()
}

/// As the manual says.
const HOME: &str = r#"<style><!--#include virtual="/style.css" --></style>This is <!--#echo var="DOCUMENT_NAME" -->."#;

/// Each configuration of the manual stands before lines `GET /path -> what the answer contains`.
fn the_manual_says_what_happens(engine: Engine) {
    let (configurations, exchanges) = (fenced("toml"), fenced("text"));
    assert!(configurations.len() >= 3 && configurations.len() == exchanges.len());
    for (configuration, lines) in configurations.into_iter().zip(exchanges) {
        let application = streams::Application::start();
        let launch = Launch::new(engine)
            .config(&configuration.replace("127.0.0.1:3000", &application.address.to_string()))
            .file("guide.md", "# Guide\n\nSee [one](one.md).\n")
            .file("index.html", "<!doctype html><title>Home</title><p>Served by localhost:8080\n")
            .file("style.css", "p{}\n")
            .file("home.shtml", HOME);
        let server = launch.start();
        for line in lines.lines() {
            let (request, expected) = line.split_once(" -> ").expect(line);
            let (method, target) = request.split_once(' ').expect(line);
            let answer = ask(&server, method, target, "");
            let content = String::from_utf8_lossy(&answer.content);
            let is_field = |(name, value)| answer.field(name) == Some(value);
            let is_so = content.contains(expected) || expected.split_once(": ").is_some_and(is_field);
            assert!(is_so, "{line}\n{content}");
        }
        server.finish();
    }
}

#[test]
fn archives_leave_out_what_is_not_served_as_it_is() {
    let launch = Launch::new(SPED)
        .config(&format!("{SITE}{FILTERS}"))
        .file("list/a.txt", "a secret\n")
        .file("list/plain.bin", "plain\n");
    let server = launch.start();
    let archive = ask(&server, "GET", "/list/?download=tar", "");
    assert_eq!(archive.status, 200);
    let has = |text: &[u8]| archive.content.windows(text.len()).any(|window| window == text);
    assert!(has(b"plain.bin") && !has(b"secret"));
    server.finish();
}

#[test]
fn explain_says_which_filters_there_are() {
    let server = Launch::new(PROACTOR).config(&format!("{SITE}{FILTERS}")).file("a.md", "# a\n").start();
    let told = ctl(&runtime(&server), &["explain", "/a.md"]);
    let said = "filters markdown, then insert (html `<hr>`, where `body`)";
    assert!(told.output.contains(said), "{told:?}");
    server.finish();
}
