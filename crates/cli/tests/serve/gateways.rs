//! Applications behind the server, with every engine: what they answer comes through byte for byte, what they do wrong is told by its status, and
//! who waits for one holds up nobody.
//!
//! Owns: an application of many manners ([`Application`]). It listens at a port of its own and ends with the test.

mod faults;
mod php;
mod smuggling;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::client::{Client, PATIENCE, Response};
use crate::control::order;
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
]);

/// An application. Each path has a manner: see [`answer`].
pub(crate) struct Application {
    pub(crate) address: SocketAddr,
    over: Arc<AtomicBool>,
    /// Requests that somebody has waited for and given up.
    left: Arc<AtomicU64>,
}

impl Application {
    pub(crate) fn start() -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (over, left) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (is_over, leavers) = (over.clone(), left.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(Relaxed) {
                    return;
                }
                let (leavers, ends) = (leavers.clone(), is_over.clone());
                // Its end is that of the connection: nothing that it says is of interest.
                thread::spawn(move || converse(stream, &leavers, &ends));
            }
        });
        Application { address, over, left }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        // The listener looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers requests until something ends the connection.
fn converse(stream: TcpStream, left: &AtomicU64, over: &AtomicBool) -> Option<()> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        if over.load(Relaxed) {
            return None;
        }
        let path = head.split(' ').nth(1)?.strip_prefix("/app")?.to_owned();
        answer(&path, &head, &mut reader, &mut stream, left)?;
    }
}

/// Nothing if the connection ends.
fn answer(
    path: &str,
    head: &str,
    reader: &mut BufReader<TcpStream>,
    stream: &mut TcpStream,
    left: &AtomicU64,
) -> Option<()> {
    let number = path.rsplit('/').next()?.parse::<usize>().unwrap_or(0);
    let mut say = |bytes: &[u8]| stream.write_all(bytes).ok();
    match path.split('/').nth(1)? {
        "sized" => say(&[sized("200 OK", number).as_bytes(), &pattern(number, 3)].concat()),
        "chunked" => {
            say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for chunk in pattern(number, 3).chunks(1_000) {
                say(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())?;
            }
            say(b"0\r\n\r\n")
        }
        "unsized" => {
            say(b"HTTP/1.1 200 OK\r\n\r\n")?;
            say(&pattern(number, 3))?;
            None
        }
        "hints" => {
            say(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
        "told" => say(&[sized("200 OK", head.len()).as_bytes(), head.as_bytes()].concat()),
        "echo" => {
            let content = content_of(head, reader)?;
            say(&[sized("200 OK", content.len()).as_bytes(), &content].concat())
        }
        "events" => {
            say(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: first\n\n")?;
            // The next one comes when the client has left, and so never.
            let is_gone = matches!(reader.read(&mut [0]), Ok(0) | Err(_));
            left.fetch_add(u64::from(is_gone), Relaxed);
            None
        }
        "silence" => {
            let is_gone = matches!(reader.read(&mut [0]), Ok(0) | Err(_));
            left.fetch_add(u64::from(is_gone), Relaxed);
            None
        }
        "web-socket" => {
            say(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
            let mut bytes = [0; 1_000];
            loop {
                let count = reader.read(&mut bytes).ok().filter(|count| *count > 0)?;
                say(&bytes[..count])?;
            }
        }
        "refuses" => {
            say(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n")?;
            None
        }
        "cut" => say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this").and(None),
        "cut-chunk" => say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").and(None),
        "half" => say(b"HTTP/1.1 200 OK\r\nContent-Le").and(None),
        "nonsense" => say(b"220 mail.example ESMTP\r\n\r\n").and(None),
        "line-feeds" => say(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n").and(None),
        "long-head" => say(format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(300_000)).as_bytes()).and(None),
        "two-lengths" => say(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab").and(None),
        "two-answers" => say(&[sized("200 OK", 2).as_bytes(), b"ok", sized("200 OK", 4).as_bytes(), b"evil"].concat()),
        "nothing" => None,
        other => panic!("{other} is no manner of this application"),
    }
}

fn sized(status: &str, bytes: usize) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\n\r\n")
}

fn content_of(head: &str, reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let mut content = Vec::new();
    if let Some(length) = field("Content-Length") {
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
        told.starts_with("GET /app/told/~x HTTP/1.1\r\nHost: ") && told.contains("\r\nX-Forwarded-For: 127.0.0.1\r\n")
    );
    for (method, of_application, of_file) in [("OPTIONS", 200, 204), ("PROPFIND", 200, 501), ("DELETE", 200, 405)] {
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
    for manner in ["half", "nonsense", "line-feeds", "long-head", "two-lengths", "nothing"] {
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
    drop(waiting);
    server.finish();
}

fn events_arrive_as_they_are_sent(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(client.receive_head().unwrap().status, 200);
    assert_eq!(client.receive_exactly(13).unwrap(), b"data: first\n\n");
    drop(client);
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
    drop(client);
    eventually("the application learns it", PATIENCE, || (application.left.load(Relaxed) == 1).then_some(()));
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
