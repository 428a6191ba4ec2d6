//! Answers that are not given to a client while another place may do better, and places that are chosen by their time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::{Application, post};
use crate::client::{APPLICATION_PATIENCE, Client};
use crate::control::{order, wait_until_counted};
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_request_with_an_idempotent_method_is_sent_to_another_place_after_such_an_answer,
    what_fails_is_asked_little_more_and_not_at_all_where_it_says_when,
    by_time_the_place_that_answers_sooner_is_asked_more,
    content_that_has_come_goes_with_its_request_to_a_place_that_can_be_reached,
]);

/// An application whose status and pace the test says.
struct Place {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    status: AtomicU16,
    says_when: AtomicBool,
    pause_ms: AtomicU64,
    asked: AtomicU64,
    is_over: AtomicBool,
}

impl Place {
    fn start(status: u16) -> Place {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = Place { address: listener.local_addr().unwrap(), state: Arc::default() };
        place.state.status.store(status, Relaxed);
        let state = place.state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten().take_while(|_| !state.is_over.load(Relaxed)) {
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                let state = state.clone();
                thread::spawn(move || converse(stream, &state));
            }
        });
        place
    }

    fn asked(&self) -> u64 {
        self.state.asked.load(Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn converse(mut stream: TcpStream, state: &State) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        if let Some(length) = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
            std::io::copy(&mut reader.by_ref().take(length.parse().ok()?), &mut std::io::sink()).ok()?;
        }
        state.asked.fetch_add(1, Relaxed);
        thread::sleep(Duration::from_millis(state.pause_ms.load(Relaxed)));
        let when = if state.says_when.load(Relaxed) { "Retry-After: 5\r\n" } else { "" };
        let content = if head.starts_with("HEAD ") { "" } else { "content" };
        let status = state.status.load(Relaxed);
        stream
            .write_all(format!("HTTP/1.1 {status} Said\r\n{when}Content-Length: 7\r\n\r\n{content}").as_bytes())
            .ok()?;
    }
}

fn serve(engine: Engine, places: &[&Place], keys: &str) -> Server {
    let to: Vec<String> = places.iter().map(|place| format!("\"http://{}\"", place.address)).collect();
    let config = format!("[[site]]\n[[site.route]]\nmatch = \"/*\"\nproxy = {{ to = [{}], {keys} }}\n", to.join(", "));
    Launch::new(engine).argument("--h2c").config(&config).start()
}

fn ask(client: &mut Client<TcpStream>, method: &str, content: &str) -> u16 {
    let length = match (method, content) {
        ("GET" | "HEAD" | "DELETE", "") => String::new(),
        _ => format!("Content-Length: {}\r\n", content.len()),
    };
    client.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n{length}\r\n{content}").as_bytes());
    client.receive(method != "HEAD").unwrap_or_else(|fault| panic!("{method}: {fault}")).status
}

fn a_request_with_an_idempotent_method_is_sent_to_another_place_after_such_an_answer(engine: Engine) {
    let (busy, well) = (Place::start(503), Place::start(200));
    let server = serve(engine, &[&busy, &well], "retry = { status = [502, 503], percent_max = 100 }");
    let mut client = server.connect();
    for (method, content) in [("GET", ""), ("HEAD", ""), ("DELETE", ""), ("PUT", "")] {
        let before = busy.asked();
        let statuses: Vec<u16> = (0..24).map(|_| ask(&mut client, method, content)).collect();
        assert!(statuses.iter().all(|status| *status == 200), "{method}: {statuses:?}");
        assert!(busy.asked() > before, "{method}: it was asked first");
    }
    let mut over_http2 = Http2::connect(server.address());
    for _ in 0..24 {
        assert_eq!(over_http2.try_ask(request("GET", "/", &[])).unwrap().status, 200);
    }
    // Each of these may have had an effect, or cannot be sent again.
    for (method, content) in [("POST", ""), ("POST", "new"), ("PATCH", "new"), ("PUT", "content that has gone on")] {
        let before = busy.asked() + well.asked();
        let statuses: Vec<u16> = (0..24).map(|_| ask(&mut client, method, content)).collect();
        assert!(statuses.contains(&503) && statuses.contains(&200), "{method}: {statuses:?}");
        assert_eq!(busy.asked() + well.asked(), before + 24, "{method}: each was sent once");
    }
    busy.state.status.store(500, Relaxed);
    assert!((0..24).map(|_| ask(&mut client, "GET", "")).any(|status| status == 500), "it is not among them");
    server.finish();
}

fn what_fails_is_asked_little_more_and_not_at_all_where_it_says_when(engine: Engine) {
    let busy = Place::start(503);
    let server = serve(engine, &[&busy], "retry = { status = \"5xx\" }");
    let mut client = server.connect();
    assert!((0..100).all(|_| ask(&mut client, "GET", "") == 503));
    let asked = busy.asked();
    assert!((110..=130).contains(&asked), "ten, and one in five: {asked}");
    if engine.architecture != "mp" {
        wait_until_counted(&server, "/");
        assert!(order(&server, &["stats"]).unwrap().contains("sent again"));
    }
    busy.state.says_when.store(true, Relaxed);
    let before = busy.asked();
    assert!((0..20).all(|_| ask(&mut client, "GET", "") == 503));
    assert_eq!(busy.asked(), before + 20, "it has said when it is to be asked again");
    server.finish();
    // Another place is asked all the same.
    let well = Place::start(200);
    let server = serve(engine, &[&busy, &well], "retry = { status = [503], percent_max = 100 }");
    let mut client = server.connect();
    assert!((0..24).all(|_| ask(&mut client, "GET", "") == 200));
    server.finish();
}

fn by_time_the_place_that_answers_sooner_is_asked_more(engine: Engine) {
    let (slow, fast) = (Place::start(200), Place::start(200));
    slow.state.pause_ms.store(150, Relaxed);
    let server = serve(engine, &[&slow, &fast], "balance = \"least-time\"");
    let mut client = server.connect();
    assert!((0..60).all(|_| ask(&mut client, "GET", "") == 200));
    assert!(fast.asked() > 2 * slow.asked(), "{} {}", fast.asked(), slow.asked());
    server.finish();
}

/// Nothing of it has left where no connection came about, whatever the method and however much has been taken from the
/// client.
fn content_that_has_come_goes_with_its_request_to_a_place_that_can_be_reached(engine: Engine) {
    let application = Application::start();
    let to = application.address;
    let config = format!(
        "[[site]]\n[[site.route]]\nmatch = \"/app/*\"\n\
         proxy = {{ to = [\"http://127.0.0.1:1\", \"http://127.0.0.2:1\", \"http://{to}\"] }}\n"
    );
    let mut server = Launch::new(engine).argument("--h2c").config(&config).start();
    for bytes in [1, 20_000, 700_000] {
        let content = pattern(bytes, 5);
        let answer = post(&mut server.connect(), "/app/echo", &content);
        assert!(answer.status == 200 && answer.content == content, "{bytes}: {}", answer.status);
        let mut over_http2 = Http2::connect(server.address());
        let asked = request("PUT", "/app/echo", &[]).map(|_| content.clone());
        let answer = over_http2.try_ask(asked).unwrap();
        assert!(answer.status == 200 && answer.content == content, "{bytes} over HTTP/2: {}", answer.status);
    }
    let mut chunked = server.connect();
    chunked.send(b"POST /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    assert_eq!(chunked.receive(true).unwrap().content, b"abc");
    server.wait_to_hear("The upstream cannot be reached.");
    server.finish();
}
