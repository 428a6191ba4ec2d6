//! `lamna ctl trace`: what each step of a running server makes of the next request for a URL, with every engine.

use std::thread;
use std::time::{Duration, Instant};

use crate::access::{ADA, SESAME};
use crate::client::PATIENCE;
use crate::control::{ctl, runtime};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server};

for_engines!(all traces_have_every_engine: [
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [the_steps_of_a_request_are_told, a_trace_without_a_request_ends]);

fn launch(engine: Engine) -> Server {
    Launch::new(engine)
        .file("a.txt", "hello\n")
        .file("private/b.txt", "secret\n")
        .config(&format!(
            "[[site]]\nroot = \"site\"\nusers = {{ ada = {SESAME:?} }}\n[[site.route]]\nmatch = \"/private/*\"\naccess = {{ users = [\"ada\"] }}\n"
        ))
        .start()
}

/// The names and words of the steps of a request that is sent until it is traced.
fn trace(server: &Server, url: &str, head: &str) -> Vec<(String, String)> {
    let runtime = runtime(server);
    let told = thread::scope(|scope| {
        let waiting = scope.spawn(|| ctl(&runtime, &["trace", url, "--wait", "30"]));
        while !waiting.is_finished() {
            let mut client = server.connect();
            client.send(format!("{head}\r\n\r\n").as_bytes());
            client.receive(true).expect("it is answered");
            thread::sleep(Duration::from_millis(50));
        }
        waiting.join().expect("it ends")
    });
    assert_eq!(told.code, Some(0), "{told:?}");
    let parts = told.output.lines().filter_map(|line| line.split_once("  "));
    parts.map(|(name, words)| (name.to_owned(), words.trim().to_owned())).collect()
}

fn words<'a>(lines: &'a [(String, String)], name: &str) -> &'a str {
    lines.iter().rfind(|(each, _)| each == name).map_or("nothing", |(_, words)| words)
}

fn the_steps_of_a_request_are_told(engine: Engine) {
    let server = launch(engine);
    let file = trace(&server, "/a.txt", "GET /a.txt?b HTTP/1.1\r\nHost: some.test");
    assert!(words(&file, "request").starts_with("GET /a.txt?b from 127.0.0."), "{file:?}");
    for name in ["configuration", "room", "limits", "transport", "access", "upload"] {
        assert_eq!(words(&file, name), "passes", "{name}: {file:?}");
    }
    assert!(words(&file, "target").starts_with("answers 200 OK, "), "{file:?}");

    let refused = trace(&server, "http://some.test/private/b.txt", "GET /private/%62.txt HTTP/1.1\r\nHost: Some.test");
    assert_eq!(words(&refused, "access"), "answers 401 Unauthorized", "{refused:?}");
    assert_eq!(words(&refused, "target"), "nothing", "{refused:?}");

    // The password is verified by a program, and the request comes once more then.
    let head = format!("GET /private/b.txt HTTP/1.1\r\nHost: some.test\r\n{}", ADA.trim_end());
    let let_in = trace(&server, "http://some.test/private/b.txt", &head);
    assert_eq!(words(&let_in, "access"), "passes", "{let_in:?}");
    assert!(words(&let_in, "target").starts_with("answers 200 OK, "), "{let_in:?}");
}

/// Requests for something else, and of another host, are not it.
fn a_trace_without_a_request_ends(engine: Engine) {
    let server = launch(engine);
    let runtime = runtime(&server);
    let told = thread::scope(|scope| {
        let waiting = scope.spawn(|| ctl(&runtime, &["trace", "http://other.test/a.txt", "--wait", "1"]));
        while !waiting.is_finished() {
            server.connect().get("/a.txt").expect("it is answered");
            server.connect().get("/private/b.txt").expect("it is answered");
            thread::sleep(Duration::from_millis(100));
        }
        waiting.join().expect("it ends")
    });
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.error.contains("no request for it has come"), "{told:?}");
    let malformed = ctl(&runtime, &["trace", "/%zz"]);
    assert_eq!(malformed.code, Some(2), "{malformed:?}");
}

#[test]
fn another_trace_takes_the_place_of_one_that_waits() {
    let server = launch(AMPED);
    let runtime = runtime(&server);
    let first = thread::scope(|scope| {
        let first = scope.spawn(|| ctl(&runtime, &["trace", "/a.txt", "--wait", "30"]));
        let begun = Instant::now();
        while !first.is_finished() && begun.elapsed() < PATIENCE {
            ctl(&runtime, &["trace", "/b.txt", "--wait", "1"]);
        }
        first.join().expect("it ends")
    });
    assert!(first.code == Some(1) && first.error.contains("taken the place"), "{first:?}");
}
