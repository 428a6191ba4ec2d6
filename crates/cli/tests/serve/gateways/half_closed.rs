//! Clients that close their side behind their request, and go on reading (RFC 9112 9.6): they get the answer, whoever
//! makes it, as they get files. A client whose connection is reset has left.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::Application;
use crate::client::{Client, Duplex, PATIENCE};
use crate::engine::{Engine, for_engines};
use crate::goaway::Frames;
use crate::server::{Launch, eventually};
use crate::tls::{connect, trusting};
use crate::tree::pattern;

for_engines!(all half_closed_connections_have_every_engine: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    who_closes_its_side_behind_a_request_gets_the_answer,
    over_tls_as_well,
    over_http2_as_well,
    content_that_ends_early_is_no_request,
    who_is_reset_after_closing_its_side_has_left,
]);

const BYTES: usize = 300_000;
/// An application and a program that take a moment, so that the end has been seen when they answer.
const SLOW: &str = "#!/bin/sh\ncat > /dev/null\nsleep 0.05\nprintf 'Content-Type: text/plain\\r\\nContent-Length: 5\\r\\n\\r\\nslow\\n'\n";

fn launch(engine: Engine, application: &Application) -> Launch {
    let to = application.address;
    let lines = format!(
        "[[site]]\nroot = \"site\"\nbrowse = true\nroute = [\
         {{ match = \"/app/*\", proxy = \"http://{to}\" }}, \
         {{ match = \"/app/slow/kept/*\", proxy = \"http://{to}\", cache = {{ fresh_s = 1000 }} }}, \
         {{ match = \"/app/slow/buffered/*\", proxy = {{ to = \"http://{to}\", buffer = true }} }}, \
         {{ match = \"/cgi-bin/*\", cgi = true }}, \
         {{ match = \"/found/*\", search = true }}, \
         {{ match = \"*.html\", structured = true }}, \
         {{ match = \"/guarded/*\", access = {{ service = {{ to = \"http://{to}\", path = \"/app/slow/verify/0\" }} }} }}]\n"
    );
    let section = |at: usize| format!("<h2 id=\"s{at}\">Section {at}</h2>\n{}", "<p>words of it</p>\n".repeat(300));
    let page: String = (0..60).map(section).collect();
    let launch = Launch::new(engine)
        .argument("--upload")
        .argument("--h2c")
        .file("large.bin", pattern(BYTES, 3))
        .file("tree/large.bin", pattern(BYTES, 3))
        .file("tree/small.txt", "small\n")
        .file("found/page.html", "<title>found</title>words\n")
        .file("page.html", format!("<!doctype html><title>A page</title>{page}"))
        .file("guarded/a.bin", pattern(BYTES, 3))
        .file("cgi-bin/slow", SLOW)
        .config(&lines);
    let program = launch.site().join("cgi-bin/slow");
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    launch
}

/// What is asked: the head without its end, content, the status, and how much content the answer has at least.
fn requests() -> Vec<(String, Vec<u8>, u16, usize)> {
    let get = |target: &str, bytes| (format!("GET {target} HTTP/1.1\r\nHost: a\r\n"), Vec::new(), 200, bytes);
    let post = |target: &str, bytes| {
        let content = pattern(BYTES, 7);
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n");
        (head, content, 200, bytes)
    };
    let put = format!("PUT /tree/new.bin HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n");
    vec![
        get("/large.bin", BYTES),
        get("/app/sized/1000", 1000),
        get("/app/slow/300000", BYTES),
        get("/app/slow/kept/300000", BYTES),
        get("/app/slow/kept/300000", BYTES),
        post("/app/slow/buffered/70000", 70_000),
        post("/app/echo", BYTES),
        get("/cgi-bin/slow", 5),
        post("/cgi-bin/slow", 5),
        get("/guarded/a.bin", BYTES),
        get("/tree/?download=tar", BYTES),
        get("/found/?q=words", 100),
        get("/page.html?view=outline", 1000),
        (put, pattern(BYTES, 5), 201, 0),
    ]
}

fn ask_all<S: Duplex + Read + Write>(connect: impl Fn() -> Client<S>, end: impl Fn(&mut Client<S>)) {
    for (at, (head, content, status, bytes)) in requests().into_iter().enumerate() {
        for _ in 0..2 {
            let status = if status == 201 { [200, 201, 204].as_slice() } else { &[status] };
            let mut client = connect();
            client.send(&[head.as_bytes(), b"\r\n", &content].concat());
            end(&mut client);
            let answer = client.receive(true).unwrap_or_else(|fault| panic!("{at}: {head}: {fault}"));
            assert!(status.contains(&answer.status), "{at}: {head}: {}", answer.status);
            assert!(answer.content.len() >= bytes, "{at}: {head}: {} bytes", answer.content.len());
            client.expect_end().unwrap_or_else(|fault| panic!("{at}: {head}: {fault}"));
        }
    }
}

fn who_closes_its_side_behind_a_request_gets_the_answer(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application).start();
    ask_all(|| server.connect(), Client::end_sending);
    // Of several requests, all are answered.
    let mut client = server.connect();
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    client.send([get("/app/slow/1000"), get("/large.bin"), get("/app/slow/2000")].concat().as_bytes());
    client.end_sending();
    for bytes in [1000, BYTES, 2000] {
        assert_eq!(client.receive(true).unwrap().content.len(), bytes);
    }
    client.expect_end().unwrap();
    server.finish();
}

fn over_tls_as_well(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application).argument("--tls").start();
    let trusted = trusting(&server);
    ask_all(|| connect(&server, &trusted), Client::end_sending);
    ask_all(
        || connect(&server, &trusted),
        |client| {
            client.end_sending();
            client.stream.sock.shutdown(Shutdown::Write).unwrap();
        },
    );
    server.finish();
}

fn over_http2_as_well(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application).file("a.txt", "a").start();
    let mut frames = Frames::answered(server.connect());
    let targets = ["/app/slow/1000", "/cgi-bin/slow", "/app/slow/2000"];
    targets.iter().zip([3, 5, 7]).for_each(|(target, stream)| frames.ask_for(target, stream));
    frames.end_sending();
    let mut answers = frames.receive_answers();
    answers.sort_unstable();
    assert_eq!(answers, [(3, 1000), (5, 5), (7, 2000)]);
    server.finish();
}

fn content_that_ends_early_is_no_request(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application).start();
    for target in ["/app/echo", "/app/slow/buffered/10", "/cgi-bin/slow", "/tree/part.bin"] {
        let method = if target.starts_with("/tree") { "PUT" } else { "POST" };
        let mut client = server.connect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nnot all").as_bytes());
        client.end_sending();
        let status = client.receive(true).map(|answer| answer.status);
        assert!(status.as_ref().is_err() || status == Ok(400), "{target}: {status:?}");
    }
    assert!(!server.site().join("tree/part.bin").exists());
    server.finish();
}

fn who_is_reset_after_closing_its_side_has_left(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application).start();
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    client.end_sending();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(application.left.load(Relaxed), 0, "it may be reading");
    client.reset();
    eventually("the application learns it", PATIENCE, || (application.left.load(Relaxed) == 1).then_some(()));
    server.finish();
}
