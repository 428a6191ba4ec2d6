//! Codings that the server makes itself: who gets them when, and who never does.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, eventually};

for_engines!(all every_architecture_compresses: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    text_is_compressed_once_somebody_asks_and_the_first_does_not_wait,
    a_text_that_changes_is_compressed_again,
    a_listing_is_compressed_for_the_first_who_asks,
]);

fn text_is_compressed_once_somebody_asks_and_the_first_does_not_wait(engine: Engine) {
    let content = words(60_000);
    let server = Launch::new(engine).file("page.html", &content).start();
    settle();
    let mut client = server.connect();
    let first = ask(&mut client, "/page.html", "gzip");
    assert_eq!((first.field("Content-Encoding"), first.field("Vary")), (None, Some("Accept-Encoding")));
    assert_eq!(first.content, content.as_bytes());
    let plain_etag = first.field("ETag").expect("a file has a validator").to_owned();
    for coding in ["gzip", "br", "zstd"] {
        let coded = coded(&mut client, "/page.html", coding);
        assert_eq!(decoded(coding, &coded.content), content.as_bytes(), "{coding}");
        assert!(coded.content.len() * 2 < content.len(), "{coding}: {}", coded.content.len());
        assert_eq!(coded.field("Vary"), Some("Accept-Encoding"), "RFC 9110 12.5.5");
        assert_eq!(coded.field("Content-Type"), first.field("Content-Type"));
        assert_eq!(coded.field("Last-Modified"), first.field("Last-Modified"));
        let etag = coded.field("ETag").expect("a coding has a validator");
        assert!(etag != plain_etag && etag.starts_with('"'), "RFC 9110 8.8.3.3: {etag}");
        let fields = format!("Accept-Encoding: {coding}\r\nIf-None-Match: {etag}\r\n");
        assert_eq!(ask_with(&mut client, "/page.html", &fields).status, 304);
        let part = ask_with(&mut client, "/page.html", &format!("Accept-Encoding: {coding}\r\nRange: bytes=1-9\r\n"));
        assert_eq!((part.status, &part.content[..]), (206, &coded.content[1..10]), "RFC 9110 14.1: of the coding");
    }
    assert_eq!(ask(&mut client, "/page.html", "br;q=0.5, gzip;q=0.7").field("Content-Encoding"), Some("gzip"));
    assert_eq!(ask(&mut client, "/page.html", "br, identity;q=0.5, gzip").field("Content-Encoding"), Some("br"));
    assert_eq!(ask(&mut client, "/page.html", "br;q=0").field("Content-Encoding"), None);
    assert_eq!(client.get("/page.html").unwrap().content, content.as_bytes());
    let _ = server.finish();
}

fn a_text_that_changes_is_compressed_again(engine: Engine) {
    let server = Launch::new(engine).file("page.html", words(5000)).start();
    let path = server.site().join("page.html");
    settle();
    let mut client = server.connect();
    let before = coded(&mut client, "/page.html", "gzip");
    let content = words(7000);
    fs::write(&path, &content).unwrap();
    eventually("the new content is served", PATIENCE, || {
        let response = ask(&mut client, "/page.html", "gzip");
        let is_old = response.field("ETag") == before.field("ETag");
        assert!(!is_old || response.content == before.content, "a validator of another content");
        let is_coded = response.field("Content-Encoding") == Some("gzip");
        (is_coded && !is_old).then(|| assert_eq!(decoded("gzip", &response.content), content.as_bytes()))
    });
    let _ = server.finish();
}

fn a_listing_is_compressed_for_the_first_who_asks(engine: Engine) {
    let launch = Launch::new(engine).argument("--browse");
    let launch = (0..300).fold(launch, |launch, number| launch.file(&format!("photos/{number}.jpg"), ""));
    let server = launch.start();
    let mut client = server.connect();
    let coded = ask(&mut client, "/photos/", "br, gzip");
    assert_eq!(coded.field("Content-Encoding"), Some("gzip"));
    let plain = client.get("/photos/").unwrap();
    assert_eq!(plain.field("Content-Encoding"), None);
    assert_eq!(decoded("gzip", &coded.content), plain.content);
    assert!(coded.content.len() * 5 < plain.content.len(), "{} of {}", coded.content.len(), plain.content.len());
    let _ = server.finish();
}

#[test]
fn what_is_sent_from_its_file_is_compressed_too() {
    let content = words(700_000);
    let server = Launch::new(AMPED).file("code.js", &content).start();
    settle();
    let mut client = server.connect();
    let coded = coded(&mut client, "/code.js", "br");
    assert_eq!(decoded("br", &coded.content), content.as_bytes());
    let _ = server.finish();
}

#[test]
fn what_is_tiny_or_compressed_already_or_too_large_is_left_alone() {
    let launch = Launch::new(AMPED).file("tiny.html", "tiny").file("a.png", words(5000));
    let server =
        launch.file("large.html", words(9000)).config("compress_bytes_max = 8000\n").argument("--account").start();
    settle();
    let mut client = server.connect();
    for path in ["/tiny.html", "/a.png", "/large.html"] {
        for _ in 0..3 {
            let response = ask(&mut client, path, "gzip, br");
            assert_eq!((response.field("Content-Encoding"), response.field("Vary")), (None, None), "{path}");
        }
    }
    assert!(server.finish().contains("codings made: 0,"));
}

#[test]
fn nothing_is_compressed_where_that_is_switched_off() {
    let server = Launch::new(AMPED)
        .file("page.html", words(5000))
        .argument("--compress")
        .argument("off")
        .argument("--account")
        .start();
    settle();
    let mut client = server.connect();
    for _ in 0..3 {
        let response = ask(&mut client, "/page.html", "gzip, br");
        assert_eq!((response.field("Content-Encoding"), response.field("Vary")), (None, None));
    }
    assert!(server.finish().contains("codings made: 0,"));
}

#[test]
fn what_would_not_become_smaller_is_tried_once() {
    let server = Launch::new(AMPED).argument("--account").start();
    let path = server.site().join("noise.html");
    fs::write(&path, noise(5000)).unwrap();
    settle();
    let mut client = server.connect();
    for _ in 0..200 {
        assert_eq!(ask(&mut client, "/noise.html", "gzip").field("Content-Encoding"), None);
        // The thread that compresses gives way to every other: it is to have a second.
        thread::sleep(Duration::from_millis(5));
    }
    let said = server.finish();
    assert!(said.contains("codings made: 0, of 0 bytes, 1 in vain"), "{said}");
}

/// Asks until the answer has the coding.
fn coded(client: &mut Client<TcpStream>, path: &str, coding: &str) -> Response {
    eventually("it is compressed", PATIENCE, || {
        let response = ask(client, path, coding);
        (response.field("Content-Encoding") == Some(coding)).then_some(response)
    })
}

fn ask(client: &mut Client<TcpStream>, path: &str, accept_encoding: &str) -> Response {
    ask_with(client, path, &format!("Accept-Encoding: {accept_encoding}\r\n"))
}

fn ask_with(client: &mut Client<TcpStream>, path: &str, fields: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    let response = client.receive(true).expect("the server answers");
    response.check().expect("a sound response");
    response
}

fn decoded(coding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(bytes).read_to_end(&mut content).map(drop),
        "br" => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut content).map(drop),
        _ => zstd::stream::copy_decode(bytes, &mut content),
    }
    .expect("it is what it says it is");
    content
}

/// So many bytes of text that compresses as text does.
fn words(bytes: usize) -> String {
    const WORDS: [&str; 8] = ["serve", "cache", "event", "helper", "thread", "worker", "content", "the"];
    let mut text = String::new();
    for byte in noise(bytes) {
        text.push_str(WORDS[usize::from(byte) % WORDS.len()]);
        text.push(' ');
    }
    text.truncate(bytes);
    text
}

fn noise(bytes: usize) -> Vec<u8> {
    let numbers = std::iter::successors(Some(1u64), |last| {
        let one = last ^ (last << 13);
        let two = one ^ (one >> 7);
        Some(two ^ (two << 17))
    });
    numbers.take(bytes).map(|number| number as u8).collect()
}

/// Waits until what has just been written counts as being at rest, and can be kept.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}
