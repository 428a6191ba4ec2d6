//! Applications behind the server, with every engine: what they answer comes through byte for byte, what they do wrong
//! is told by its status, and who waits for one holds up nobody.
//!
//! Owns: an application of many manners ([`Application`]). It listens at a port of its own and ends with the test.

mod behind_files;
mod buffered;
mod cgi;
mod checks;
mod dialogue;
mod drained;
mod expected;
mod faults;
mod framed;
mod half_closed;
mod imported;
mod kept;
mod languages;
mod named;
mod own_cookie;
mod path_info;
pub(crate) mod paths;
pub(crate) mod php;
mod programs;
mod proxy_protocol;
mod recipes;
pub(crate) mod request_fields;
mod retried;
mod secure;
mod shares;
mod smuggling;
mod spooled;
pub(crate) mod sticky;
mod supervised;
pub(crate) mod variables;
mod websocket;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::client::{APPLICATION_PATIENCE, Client, PATIENCE, Response};
use crate::control::{get, order, text};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_pool_of_two = THREAD_POOL_OF_TWO,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    sped_2 = SPED_2,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    pipelined_2 = PIPELINED_2,
    proactor = PROACTOR,
    proactor_2 = PROACTOR_2,
] => [
    answers_come_through_whole,
    content_comes_through_whole,
    what_an_application_does_wrong_is_told_by_its_status,
    files_are_served_while_applications_are_waited_for,
    events_arrive_as_they_are_sent,
    a_web_socket_is_a_tunnel,
    an_application_learns_that_its_client_has_left,
    how_places_are_doing_is_in_the_status_and_the_metrics,
]);

/// A connection of an application.
pub(crate) trait Line: Read + Write {
    /// Says that nothing follows, where the end of the connection does not say so.
    fn end(&mut self) {}
}

impl Line for TcpStream {}

/// An application. Each path has a manner: see [`answer`].
pub(crate) struct Application {
    pub(crate) address: SocketAddr,
    /// Connections.
    accepted: Arc<AtomicU64>,
    /// Those of them that are open.
    pub(crate) open: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    /// What it says to those who ask whether it is well.
    pub(crate) well: Arc<AtomicBool>,
    /// Requests that somebody has waited for and given up.
    left: Arc<AtomicU64>,
}

impl Application {
    pub(crate) fn start() -> Application {
        Application::start_over(|stream| stream)
    }

    /// What is said goes over `line_over` a stream.
    pub(crate) fn start_over<L: Line>(line_over: impl Fn(TcpStream) -> L + Clone + Send + 'static) -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (over, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (accepted, open) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let well = Arc::new(AtomicBool::new(true));
        let (is_over, leavers, count, is_well) = (over.clone(), left.clone(), accepted.clone(), well.clone());
        let being_served = open.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Relaxed) {
                    return;
                }
                count.fetch_add(1, Relaxed);
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                let (leavers, ends, line_over) = (leavers.clone(), is_over.clone(), line_over.clone());
                let (is_well, being_served) = (is_well.clone(), being_served.clone());
                being_served.fetch_add(1, Relaxed);
                thread::spawn(move || {
                    let mut line = BufReader::new(line_over(stream));
                    // Its end is that of the connection: nothing that it says is of interest.
                    converse(&mut line, &leavers, &ends, &is_well);
                    being_served.fetch_sub(1, Relaxed);
                });
            }
        });
        Application { address, accepted, open, over, left, well }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        // The listener looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

/// Says something to whoever asked.
fn say<L: Line>(line: &mut BufReader<L>, bytes: &[u8]) -> Option<()> {
    line.get_mut().write_all(bytes).ok()
}

/// Answers requests until something ends the connection.
fn converse<L: Line>(line: &mut BufReader<L>, left: &AtomicU64, over: &AtomicBool, well: &AtomicBool) -> Option<()> {
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if line.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        if over.load(Relaxed) {
            return None;
        }
        let path = head.split(' ').nth(1)?.strip_prefix("/app")?.to_owned();
        if path == "/well" {
            let status = if well.load(Relaxed) { "200 OK" } else { "503 Service Unavailable" };
            say(line, sized(status, 0).as_bytes())?;
            continue;
        }
        answer(&path, &head, line, (left, over, well))?;
    }
}

/// Nothing if the connection ends.
fn answer<L: Line>(
    path: &str,
    head: &str,
    line: &mut BufReader<L>,
    (left, over, well): (&AtomicU64, &AtomicBool, &AtomicBool),
) -> Option<()> {
    let number = path.rsplit('/').next()?.parse::<usize>().unwrap_or(0);
    match path.split('/').nth(1)? {
        "sized" => say(line, &[sized("200 OK", number).as_bytes(), &pattern(number, 3)].concat()),
        // When it is well, or the second half then.
        "gated" => {
            await_well(over, well)?;
            say(line, &[sized("200 OK", number).as_bytes(), &pattern(number, 3)].concat())
        }
        "gated-within" => {
            let content = pattern(number, 3);
            say(line, &[sized("200 OK", number).as_bytes(), &content[..number / 2]].concat())?;
            await_well(over, well)?;
            say(line, &content[number / 2..])
        }
        // A moment later.
        "slow" => {
            content_of_any(head, line)?;
            thread::sleep(Duration::from_millis(50));
            say(line, &[sized("200 OK", number).as_bytes(), &pattern(number, 3)].concat())
        }
        "chunked" => {
            say(line, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for chunk in pattern(number, 3).chunks(1_000) {
                say(line, &[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())?;
            }
            say(line, b"0\r\n\r\n")
        }
        "unsized" => {
            say(line, b"HTTP/1.1 200 OK\r\n\r\n")?;
            say(line, &pattern(number, 3))?;
            line.get_mut().end();
            None
        }
        "unsized-cut" => {
            say(line, b"HTTP/1.1 200 OK\r\n\r\n")?;
            say(line, &pattern(number, 3)).and(None)
        }
        "hints" => {
            say(line, b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
        "told" => say(line, &[sized("200 OK", head.len()).as_bytes(), head.as_bytes()].concat()),
        "verify" if head.contains("\r\nCookie: ") => say(line, sized("200 OK\r\nRemote-User: ada", 0).as_bytes()),
        "verify" => say(line, sized("401 Unauthorized\r\nWWW-Authenticate: Session", 0).as_bytes()),
        "echo" => {
            let content = content_of(head, line)?;
            say(line, &[sized("200 OK", content.len()).as_bytes(), &content].concat())
        }
        // How it was told of the content, and how much of it there was.
        "framing" => {
            let said = |name| field(head, name).unwrap_or("-").to_owned();
            let framing = format!("{} {}", said("Content-Length"), said("Transfer-Encoding"));
            let bytes = match field(head, "Content-Length") {
                Some(length) => {
                    std::io::copy(&mut line.by_ref().take(length.parse().ok()?), &mut std::io::sink()).ok()?
                }
                None => content_of(head, line)?.len() as u64,
            };
            let said = format!("{framing} {bytes}");
            say(line, [sized("200 OK", said.len()).as_bytes(), said.as_bytes()].concat().as_slice())
        }
        "events" => {
            say(line, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")?;
            // The next one comes when the client has left, and so never.
            let is_gone = matches!(line.read(&mut [0]), Ok(0) | Err(_));
            left.fetch_add(u64::from(is_gone), Relaxed);
            None
        }
        "silence" => {
            let is_gone = matches!(line.read(&mut [0]), Ok(0) | Err(_));
            left.fetch_add(u64::from(is_gone), Relaxed);
            None
        }
        "web-socket" | "web-socket-of-others" | "web-socket-for-ever" => {
            let others = path.contains("of-others").then(|| "b3RoZXJz".to_owned());
            let accept = others.unwrap_or_else(|| accept_of(field(head, "Sec-WebSocket-Key").unwrap_or_default()));
            let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Told: ";
            let told = head.split(' ').next()?;
            say(line, format!("{switch}{told}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes())?;
            let mut bytes = [0; 1_000];
            while let Some(count) = line.read(&mut bytes).ok().filter(|count| *count > 0) {
                say(line, &bytes[..count])?;
            }
            if path.contains("for-ever") {
                // Longer than any client waits: it has nothing to do with an end of its peer.
                thread::sleep(2 * PATIENCE);
            }
            None
        }
        "refuses" => {
            say(line, b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n")?;
            None
        }
        "cut" => say(line, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this").and(None),
        "cut-chunk" => say(line, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").and(None),
        "half" => say(line, b"HTTP/1.1 200 OK\r\nContent-Le").and(None),
        "nonsense" => say(line, b"220 mail.example ESMTP\r\n\r\n").and(None),
        "line-feeds" => say(line, b"HTTP/1.1 200 OK\nContent-Length: 2\nA: b\n\nhi"),
        "long-head" => say(line, format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(300_000)).as_bytes()).and(None),
        "two-lengths" => say(line, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab").and(None),
        "two-answers" => {
            say(line, &[sized("200 OK", 2).as_bytes(), b"ok", sized("200 OK", 4).as_bytes(), b"evil"].concat())
        }
        "nothing" => None,
        other => panic!("{other} is no manner of this application"),
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// RFC 6455 4.2.2.
fn accept_of(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = hash.as_ref().iter().map(|byte| format!("{byte:08b}")).collect();
    // 160 bits are 26 digits and two thirds of one.
    let digit = |at: usize| {
        let six = format!("{:0<6}", &bits[at..bits.len().min(at + 6)]);
        char::from(digits[usize::from_str_radix(&six, 2).expect("they are bits")])
    };
    (0..bits.len()).step_by(6).map(digit).chain(['=']).collect()
}

fn sized(status: &str, bytes: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n\r\n")
}

/// Waits until the application is well. Nothing if it ends before.
fn await_well(over: &AtomicBool, well: &AtomicBool) -> Option<()> {
    while !well.load(Relaxed) {
        if over.load(Relaxed) {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some(())
}

/// The content of a request that may have none.
fn content_of_any<L: Line>(head: &str, reader: &mut BufReader<L>) -> Option<Vec<u8>> {
    let has_content = ["Content-Length", "Transfer-Encoding"].iter().any(|name| field(head, name).is_some());
    if has_content { content_of(head, reader) } else { Some(Vec::new()) }
}

fn content_of<L: Line>(head: &str, reader: &mut BufReader<L>) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    if let Some(length) = field(head, "Content-Length") {
        content.resize(length.parse().ok()?, 0);
        reader.read_exact(&mut content).ok()?;
        return Some(content);
    }
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let bytes = usize::from_str_radix(line.trim(), 16).ok()?;
        let mut chunk = vec![0; bytes + 2];
        reader.read_exact(&mut chunk).ok()?;
        content.extend_from_slice(&chunk[..bytes]);
        if bytes == 0 {
            return Some(content);
        }
    }
}

/// A server that has files, and an application at `/app/`.
fn start(engine: Engine, application: &Application) -> Server {
    let to = application.address;
    let lines = format!(
        "[[site]]\nroot = \"site\"\nroute = [{{ match = \"/app/*\", proxy = \"http://{to}\" }}, \
         {{ match = \"/app/silence/short\", proxy = {{ to = \"http://{to}\", timeout_ms = 200 }} }}, \
         {{ match = \"/app/small/*\", proxy = {{ to = \"http://{to}\", body_bytes_max = 10 }} }}]\n"
    );
    Launch::new(engine).file("a.txt", "a file\n").config(&lines).start()
}

fn answers_come_through_whole(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    for bytes in [0, 1, 1_000, 70_000, 1_000_000] {
        for manner in ["sized", "chunked", "unsized"] {
            let response = client.get(&format!("/app/{manner}/{bytes}")).unwrap();
            assert_eq!(response.status, 200, "{manner} {bytes}");
            assert!(response.content == pattern(bytes, 3), "{manner} {bytes}: {} bytes", response.content.len());
        }
    }
    // Of a version that has no chunks, the end of the connection is the end.
    let mut old = server.connect();
    old.send(b"GET /app/chunked/70000 HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(old.receive_head().unwrap().status, 200);
    assert!(old.receive_rest() == pattern(70_000, 3));
    client.send(b"HEAD /app/sized/1000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.receive(false).unwrap();
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("1000")));
    client.send(b"GET /app/hints HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = client.receive_head().unwrap();
    assert_eq!((hints.status, hints.field("Link")), (103, Some("</a.css>")));
    assert_eq!(client.receive(true).unwrap().status, 200);
    let told = String::from_utf8(client.get("/app/told/%7Ex").unwrap().content).unwrap();
    assert!(
        told.starts_with("GET /app/told/%7Ex HTTP/1.1\r\nHost: ")
            && told.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n")
    );
    for (method, of_application, of_file) in [("OPTIONS", 200, 204), ("PROPFIND", 200, 405), ("DELETE", 200, 405)] {
        for (path, status) in [("/app/sized/2", of_application), ("/a.txt", of_file)] {
            let mut other = server.connect();
            other.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(other.receive(true).unwrap().status, status, "{method} {path}");
        }
    }
    // Files are beside it.
    assert_eq!(client.get("/a.txt").unwrap().content, b"a file\n");
    server.finish();
}

fn post(client: &mut Client<TcpStream>, path: &str, content: &[u8]) -> Response {
    client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes());
    client.send(content);
    client.receive(true).expect("a request is answered")
}

fn content_comes_through_whole(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    for bytes in [0, 1, 20_000, 700_000] {
        let content = pattern(bytes, 5);
        assert!(post(&mut client, "/app/echo", &content).content == content, "{bytes}");
    }
    client.send(b"PATCH /app/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 100);
    client.send(b"3\r\nabc\r\n");
    client.send_slowly(b"2\r\nde\r\n0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().content, b"abcde");
    assert_eq!(client.get("/a.txt").unwrap().status, 200, "the connection is in step");
    let mut refused = server.connect();
    assert_eq!(post(&mut refused, "/app/small/echo", b"eleven byte").status, 413);
    let mut refused = server.connect();
    assert_eq!(post(&mut refused, "/app/refuses", b"x").content, b"no\n");
    // What is pipelined behind is answered behind.
    client.send(
        b"POST /app/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.receive(true).unwrap().content, b"hi");
    assert_eq!(client.receive(true).unwrap().content, b"a file\n");
    server.finish();
}

fn what_an_application_does_wrong_is_told_by_its_status(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    for manner in ["half", "nonsense", "long-head", "two-lengths", "nothing"] {
        assert_eq!(client.get(&format!("/app/{manner}")).unwrap().status, 502, "{manner}");
    }
    assert_eq!(client.get("/app/silence/short").unwrap().status, 504);
    for manner in ["cut", "cut-chunk"] {
        let mut cut = server.connect();
        assert!(cut.get(&format!("/app/{manner}")).is_err(), "{manner}: it is not whole");
    }
    for _ in 0..3 {
        assert_eq!(client.get("/app/two-answers").unwrap().content, b"ok", "the second is nobody's");
    }
    assert_eq!(client.get("/app/sized/3").unwrap().content, pattern(3, 3));
    // Nobody is there any more.
    let address = application.address;
    drop(application);
    eventually("the application has ended", PATIENCE, || TcpStream::connect(address).is_err().then_some(()));
    assert_eq!(client.get("/app/sized/3").unwrap().status, 502);
    assert_eq!(client.get("/a.txt").unwrap().status, 200);
    server.finish();
}

fn files_are_served_while_applications_are_waited_for(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    // As many as the engines with few threads have, less one.
    let waiting: Vec<_> = (0..if engine.arguments.contains(&"--threads") { 1 } else { 3 })
        .map(|_| {
            let mut client = server.connect();
            client.send(b"GET /app/silence HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.connect().get("/a.txt").unwrap().content, b"a file\n");
    }
    waiting.into_iter().for_each(Client::reset);
    server.finish();
}

fn events_arrive_as_they_are_sent(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    assert_eq!(client.receive_exactly(13).unwrap(), b"data: first\n\n");
    client.reset();
    server.finish();
}

fn a_web_socket_is_a_tunnel(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    client.send(
        b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let head = client.receive_head().unwrap();
    assert_eq!((head.status, head.field("Upgrade")), (101, Some("websocket")));
    for bytes in [1, 100, 70_000] {
        let message = pattern(bytes, 9);
        thread::scope(|scope| {
            let mut sender = client.stream.try_clone().unwrap();
            let sent = message.clone();
            scope.spawn(move || sender.write_all(&sent).unwrap());
            assert!(client.receive_exactly(bytes).unwrap() == message);
        });
    }
    client.end_sending();
    client.expect_end().unwrap();
    server.finish();
}

fn an_application_learns_that_its_client_has_left(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    client.reset();
    eventually("the application learns it", PATIENCE, || (application.left.load(Relaxed) == 1).then_some(()));
    server.finish();
}

fn how_places_are_doing_is_in_the_status_and_the_metrics(engine: Engine) {
    let application = Application::start();
    // Nobody listens there any more.
    let deserted = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let to = application.address;
    let server = Launch::new(engine)
        .config(&format!(
            "[[site]]\nroot = \"site\"\nhosts = [\"app.test\"]\n[[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://{to}\"\n\
             [[site.route]]\nmatch = \"/none/*\"\nproxy = \"http://{deserted}\"\n"
        ))
        .start();
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/app/sized/5").unwrap().status, 200);
    }
    assert_eq!(client.get("/none/").unwrap().status, 502);
    assert_eq!(client.get("/app/nonsense").unwrap().status, 502);
    let told = order(&server, &["status"]).unwrap();
    let line = |address: SocketAddr| {
        let found = told.lines().find(|line| line.contains(&format!("{address}: ")));
        found.unwrap_or_else(|| panic!("{address}: {told}")).to_owned()
    };
    let (good, bad) = (line(to), line(deserted));
    assert!(good.contains("4 requests so far, 1 failed") && good.contains("ago: The answer does not begin"), "{good}");
    assert!(
        bad.contains("1 request so far, 1 failed") && bad.contains("ago: The upstream cannot be reached."),
        "{bad}"
    );
    let knows_itself = !matches!(engine.architecture, "mp" | "co-amped");
    assert_eq!(good.contains(": up, 0 under way"), knows_itself, "{good}");
    let metrics = text(&get(&server, "/metrics"));
    let labels = format!("{{site=\"app.test\",upstream=\"{to}\"}}");
    for (name, value) in [("requests_total", 4), ("failures_total", 1), ("requests_active", 0), ("up", 1)] {
        let is_known = knows_itself || name.ends_with("_total");
        let line = format!("lamna_upstream_{name}{labels} {value}\n");
        assert_eq!(metrics.contains(&line), is_known, "{line}: {metrics}");
    }
    assert_eq!(metrics.contains(&format!("lamna_upstream_connections_kept{labels} ")), knows_itself, "{metrics}");
    server.finish();
}

#[test]
fn a_server_that_passes_everything_on_says_so_and_nothing_of_files() {
    let application = Application::start();
    let proxy = format!("--proxy=http://{}", application.address);
    let directory = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_lamna");
    let mut command = std::process::Command::new(program);
    command.args(["serve", &proxy, "--listen", "127.0.0.1:0", "--log", "off"]).current_dir(directory.path());
    let mut server = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stderr.take().unwrap()).lines();
    let line =
        said.find_map(|line| line.ok().filter(|line| line.contains(" at http://") || line.contains("index"))).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(line.contains(&format!("serving the application at {}", application.address)), "{line}");
}

/// `LAMNA_SWITCHES` is how many switches are made.
#[test]
fn nothing_is_lost_while_engines_change_under_proxied_load() {
    let switches = std::env::var("LAMNA_SWITCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(14);
    let engines = crate::engine::names_of_one_process();
    let application = Application::start();
    let server = start(AMPED, &application);
    let (over, answers, address) = (AtomicBool::new(false), AtomicU64::new(0), server.address());
    thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(address);
                    while !over.load(Relaxed) {
                        for bytes in [10, 100_000] {
                            let answer = client.get(&format!("/app/chunked/{bytes}")).expect("nothing is lost");
                            assert!(answer.content == pattern(bytes, 3));
                            let content = pattern(bytes, 5);
                            assert!(post(&mut client, "/app/echo", &content).content == content);
                            answers.fetch_add(2, Relaxed);
                        }
                    }
                })
            })
            .collect();
        for name in engines.iter().cycle().take(switches) {
            order(&server, &["arch", "set", name]).unwrap_or_else(|said| panic!("{name}: {said}"));
            if clients.iter().any(|client| client.is_finished()) {
                break;
            }
        }
        over.store(true, Relaxed);
    });
    println!("{switches} switches, {} answers checked", answers.load(Relaxed));
    assert!(answers.load(Relaxed) > switches as u64);
    server.finish();
}
