//! `lamna ctl trace`: what each step of a running server makes of the next request for a URL, with every engine.

use std::thread;
use std::time::{Duration, Instant};

use crate::access::{ADA, SESAME};
use crate::client::PATIENCE;
use crate::control::{ctl, post, runtime, text};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server, eventually};

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
] => [
    the_steps_of_a_request_are_told,
    a_trace_without_a_request_ends,
    a_trace_ends_with_what_is_made_for_its_request,
]);

/// A page of which sections are made, a script, and folders that are sent as archives.
const MADE: &str = "[[site]]\nroot = \"site\"\nbrowse = true\n\
    [[site.route]]\nmatch = \"*.html\"\nstructured = true\n\
    [[site.route]]\nmatch = \"/run/*\"\ncgi = { extensions = [\"cgi\"] }\n";

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

/// Waits until a trace waits for its request.
fn wait_until_open(server: &Server) {
    eventually("a trace waits", PATIENCE, || {
        text(&post(server, "/v1/trace/report")).contains("\"waiting\"").then_some(())
    });
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

/// Made by the server itself, at the time of the request: the last line says so, and the trace does not wait for
/// another request.
fn a_trace_ends_with_what_is_made_for_its_request(engine: Engine) {
    let page = format!("<h1>A</h1>{}<h2 id=two>B</h2><p>Words.", "<p>Words.".repeat(100));
    let launch = Launch::new(engine).config(MADE).file("docs/a.txt", "a").file("run/a.txt", "a");
    let server = launch.file("page.html", &page).start();
    let ends = |url: &str, head: &str| {
        let begun = Instant::now();
        let lines = trace(&server, url, head);
        assert!(begun.elapsed() < Duration::from_secs(8), "{lines:?}");
        let (name, words) = lines.last().expect("it has lines").clone();
        assert!(!lines.iter().any(|(_, words)| words.contains("program")), "{lines:?}");
        (name, words)
    };
    let (name, words) = ends("/docs/", "GET /docs/?download=tar HTTP/1.1\r\nHost: some.test");
    assert_eq!((&*name, &*words), ("archive", "makes the answer"));
    let (name, words) = ends("/run/a.txt", "OPTIONS /run/a.txt HTTP/1.1\r\nHost: some.test");
    assert!(name == "method" && words.starts_with("answers 20"), "{name}: {words}");
    // What has been made is there for the next one: this is the first.
    let runtime = runtime(&server);
    let told = thread::scope(|scope| {
        let waiting = scope.spawn(|| ctl(&runtime, &["trace", "/page.html", "--wait", "30"]));
        wait_until_open(&server);
        let mut client = server.connect();
        client.send(b"GET /page.html?view=outline HTTP/1.1\r\nHost: some.test\r\n\r\n");
        assert_eq!(client.receive(true).expect("it is answered").status, 200);
        let answered = Instant::now();
        let told = waiting.join().expect("it ends");
        assert!(answered.elapsed() < Duration::from_secs(8), "{told:?}");
        told
    });
    let lines: Vec<&str> = told.output.lines().rev().take(2).collect();
    let [made, target] = lines[..] else { panic!("{told:?}") };
    assert!(made.starts_with("made ") && made.ends_with("answers 200 OK"), "{told:?}");
    assert!(target.starts_with("target ") && target.contains("has to be made first"), "{told:?}");
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

/// What is known of a trace is the server process's: the one that comes after knows nothing.
#[test]
fn a_trace_that_another_process_has_taken_the_place_of_says_so() {
    let server = launch(AMPED);
    let runtime = runtime(&server);
    let told = thread::scope(|scope| {
        let waiting = scope.spawn(|| ctl(&runtime, &["trace", "/a.txt", "--wait", "30"]));
        wait_until_open(&server);
        let changed = ctl(&runtime, &["arch", "set", "mp"]);
        assert_eq!(changed.code, Some(0), "{changed:?}");
        waiting.join().expect("it ends")
    });
    assert_eq!(told.code, Some(1), "{told:?}");
    assert!(told.error.contains("another process has taken over from the one that was traced"), "{told:?}");
    let ended = ctl(&runtime, &["drain"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
