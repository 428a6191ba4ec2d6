//! Requests in forms that two parsers have been known to read differently, sent through the server by HTTP/1.1 and
//! HTTP/2: what reaches the application has one reading, and holds as many requests as were meant.
//!
//! Owns: the forms, and what becomes of each ([`Becomes`]). Behind each form a further request is sent on the same
//! connection, so that one that is read too long or too short shows. The parsers are in `parsers`.

mod parsers;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use parsers::{Reading, Seen};

use crate::client::{APPLICATION_PATIENCE, Client};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server};
use crate::skip::skipped;

for_engines!(all every_architecture_is_asked_in_ambiguous_forms: [
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
    ambiguous_requests_have_one_reading_or_none,
    ambiguous_requests_of_http_2_have_one_reading_or_none,
]);

/// What becomes of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Becomes {
    /// It is refused: nothing of it reaches the application, whole at least.
    Nothing,
    /// Requests for these targets of these hosts, with this content.
    Requests(&'static [(&'static str, &'static str, &'static str)]),
}

use Becomes::{Nothing, Requests};

/// What is sent, and what becomes of it. [`BEHIND`] follows.
const HTTP_1: &[(&str, Becomes)] = &[
    // Two lengths, or a length and chunks (RFC 9112 6.3).
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 5 0\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 05\r\n\r\nhello", Requests(&[("a", "/f", "hello")])),
    // Names that are not those of the framing, and lines that are none (RFC 9112 5).
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length : 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", Nothing),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nContent_Length: 50\r\nContent-Length: 5\r\n\r\nhello",
        Requests(&[("a", "/f", "hello")]),
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\nhello",
        Requests(&[("a", "/f", "hello")]),
    ),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\n Host: a\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nX: b\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nX: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nX: b\r\nContent-Length: 5\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nX: b\0\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\n: b\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nX\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    // Codings (RFC 9112 6.1).
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", Nothing),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Nothing,
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        Nothing,
    ),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    ("POST /f HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Nothing),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tChunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Requests(&[("a", "/f", "hello")]),
    ),
    // Chunks (RFC 9112 7.1). What is within them is content, whatever it looks like.
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"\\\"b\"\r\nhello\r\n0;x\r\nX: y\r\n\r\n",
        Requests(&[("a", "/f", "hello")]),
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00000005\r\nhello\r\n000\r\n\r\n",
        Requests(&[("a", "/f", "hello")]),
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n",
        Nothing,
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n21\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n",
        Requests(&[("a", "/f", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")]),
    ),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n", Nothing),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n", Nothing),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nhello\r\n0\r\n\r\n",
        Nothing,
    ),
    ("POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\r\n0\r\n\r\n", Nothing),
    // Trailers do not become fields.
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\nContent-Length: 50\r\nHost: b\r\n\r\n",
        Requests(&[("a", "/f", "")]),
    ),
    // What `Connection` names does not go on; the framing does, in our words.
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello",
        Requests(&[("a", "/f", "hello")]),
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nConnection: Transfer-Encoding, Host\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Requests(&[("a", "/f", "hello")]),
    ),
    // Content that looks like a request.
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
        Requests(&[("a", "/f", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")]),
    ),
    (
        "GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 33\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n",
        Requests(&[("a", "/f", "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")]),
    ),
    (
        "HEAD /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        Requests(&[("a", "/f", "hello")]),
    ),
    (
        "POST /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        Requests(&[("a", "/f", "hello")]),
    ),
    ("POST /f HTTP/1.1\r\nHost: a\r\nExpect: x\r\nContent-Length: 5\r\n\r\nhello", Nothing),
    // Hosts (RFC 9112 3.2).
    ("GET /f HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Nothing),
    ("GET /f HTTP/1.1\r\n\r\n", Nothing),
    ("GET /f HTTP/1.1\r\nHost: a b\r\n\r\n", Nothing),
    ("GET /f HTTP/1.1\r\nHost: a/x\r\n\r\n", Nothing),
    ("GET /f HTTP/1.1\r\nHost: u@a\r\n\r\n", Nothing),
    ("GET http://b/f HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("b", "/f", "")])),
    ("GET http://b?x HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("b", "/?x", "")])),
    ("GET http://u@b/f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET http:///f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    (
        "GET /f HTTP/1.1\r\nHost: a\r\nX-Host: b\r\nX_Host: c\r\nHost_: d\r\nX-Forwarded-Host: e\r\n\r\n",
        Requests(&[("a", "/f", "")]),
    ),
    // Targets.
    ("GET /f%0d%0aX:%20y HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/f%0d%0aX:%20y", "")])),
    (
        "GET /f%20HTTP/1.1%0d%0aHost:%20b HTTP/1.1\r\nHost: a\r\n\r\n",
        Requests(&[("a", "/f%20HTTP/1.1%0d%0aHost:%20b", "")]),
    ),
    ("GET /f HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f /g HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET\t/f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET  /f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f#g HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f%23b?c%23d HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/f%23b?c%23d", "")])),
    ("GET /f/%2e%2e/b;c/d%3b/d HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/b;c/d%3B/d", "")])),
    ("GET /f/..%3b/d HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f%2Fg//%7E HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/f%2Fg//%7E", "")])),
    ("GET /%2Fb/x HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET //b/x HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/b/x", "")])),
    ("GET /../f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("CONNECT b:80 HTTP/1.1\r\nHost: b:80\r\n\r\n", Nothing),
    // Versions and upgrades.
    ("GET /f HTTP/1.9\r\nHost: a\r\nTE: trailers, gzip\r\nConnection: TE\r\n\r\n", Requests(&[("a", "/f", "")])),
    ("GET /f HTTP/2.0\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f http/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f\r\n\r\n", Nothing),
    (
        "GET /f HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\n\r\n",
        Requests(&[("a", "/f", "")]),
    ),
    ("\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n", Requests(&[("a", "/f", "")])),
    ("G=T /f HTTP/1.1\r\nHost: a\r\n\r\n", Nothing),
    ("GET /f HTTP/1.1\r\nHost: a\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n", Requests(&[("a", "/f", "")])),
];

/// Follows each form, and is the last of its connection.
const BEHIND: &str = "GET /behind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// An application that keeps every byte it gets, and answers each request that it finds.
struct Recorder {
    address: SocketAddr,
    records: Arc<Mutex<Vec<Vec<u8>>>>,
    is_over: Arc<AtomicBool>,
}

impl Recorder {
    fn start() -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (records, is_over) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let recorder = Recorder { address, records: records.clone(), is_over: is_over.clone() };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if is_over.load(SeqCst) {
                    return;
                }
                let records = records.clone();
                thread::spawn(move || record(stream, &records));
            }
        });
        recorder
    }

    fn records(&self) -> Vec<Vec<u8>> {
        self.records.lock().unwrap().clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        // The listener looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

fn record(mut stream: TcpStream, records: &Mutex<Vec<Vec<u8>>>) {
    stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
    let at = {
        let mut records = records.lock().unwrap();
        records.push(Vec::new());
        records.len() - 1
    };
    let (mut buffer, mut answered) = ([0; 16 * 1024], 0);
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        let so_far = {
            let record = &mut records.lock().unwrap()[at];
            record.extend_from_slice(&buffer[..bytes]);
            record.clone()
        };
        // What this parser does not take is compared in the end.
        let Ok(reading) = parsers::by_httparse(&so_far) else { return };
        for _ in answered..reading.requests.len() {
            if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is_err() {
                return;
            }
        }
        answered = reading.requests.len();
    }
}

/// Every parser reads every connection alike: the requests of each, in order.
fn read_alike(records: &[Vec<u8>]) -> Vec<Reading> {
    let readings: Vec<Reading> = records
        .iter()
        .map(|record| {
            let (one, other) = (parsers::by_httparse(record), parsers::by_core(record));
            assert_eq!(one, other, "{}", record.escape_ascii());
            one.unwrap_or_else(|fault| panic!("{fault}: {}", record.escape_ascii()))
        })
        .collect();
    match parsers::by_h11(records) {
        Some(others) => {
            assert_eq!(others.len(), records.len());
            for ((record, reading), other) in records.iter().zip(&readings).zip(others) {
                assert_eq!(other.as_ref(), Ok(reading), "{}", record.escape_ascii());
            }
        }
        None => skipped("gateways::smuggling by h11", "Python has no h11"),
    }
    readings
}

/// What has reached the application since `before` was all that had.
fn since(before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<Seen> {
    let requests = |records: &[Vec<u8>], at: usize| {
        let record = records.get(at).map_or(&[][..], |record| record);
        parsers::by_httparse(record).unwrap_or_else(|fault| panic!("{fault}: {}", record.escape_ascii())).requests
    };
    (0..after.len()).flat_map(|at| requests(after, at).split_off(requests(before, at).len())).collect()
}

fn assert_becomes(form: &str, seen: &[Seen], becomes: Becomes, behind: Option<&str>) {
    let expected = match becomes {
        Nothing => &[][..],
        Requests(requests) => requests,
    };
    let of = |one: &Seen| {
        (
            one.field("host").unwrap_or_default().to_owned(),
            one.target.clone(),
            String::from_utf8_lossy(&one.content).into_owned(),
        )
    };
    let mut wanted: Vec<_> = expected
        .iter()
        .map(|(host, target, content)| (host.to_string(), target.to_string(), content.to_string()))
        .collect();
    wanted.extend(behind.map(|target| ("a".to_owned(), target.to_owned(), String::new())));
    // Two connections may have carried them.
    let (mut found, mut sorted) = (seen.iter().map(of).collect::<Vec<_>>(), wanted);
    found.sort();
    sorted.sort();
    assert_eq!(found, sorted, "{}", form.escape_debug());
    for one in seen {
        for name in ["content_length", "transfer_encoding", "upgrade", "http2-settings", "trailer"] {
            assert_eq!(one.field(name), None, "{}", form.escape_debug());
        }
        // Only for content, and only this.
        let expected = one.field("expect");
        let may_expect = !one.content.is_empty() && expected == Some("100-continue");
        assert!(expected.is_none() || may_expect, "{}: {expected:?}", form.escape_debug());
    }
}

fn start(engine: Engine, recorder: &Recorder) -> Server {
    let lines =
        format!("[[site]]\nroot = \"site\"\nroute = [{{ match = \"/*\", proxy = \"http://{}\" }}]\n", recorder.address);
    Launch::new(engine).argument("--h2c").config(&lines).start()
}

fn ambiguous_requests_have_one_reading_or_none(engine: Engine) {
    let recorder = Recorder::start();
    let server = start(engine, &recorder);
    for (form, becomes) in HTTP_1 {
        let before = recorder.records();
        let mut client = server.connect();
        client.send(form.as_bytes());
        client.send(BEHIND.as_bytes());
        let mut statuses = Vec::new();
        // The method decides whether an answer has content, and here none has any but those of the server itself.
        while let Ok(answer) = client.receive(!(form.starts_with("HEAD") && statuses.is_empty())) {
            statuses.extend((answer.status >= 200).then_some(answer.status));
        }
        let behind = match becomes {
            Nothing => {
                // Where its framing is clear, the connection goes on.
                assert!(
                    matches!(statuses[..], [400..=599] | [400..=599, 200]),
                    "{}: {statuses:?}",
                    form.escape_debug()
                );
                statuses.get(1).map(|_| "/behind")
            }
            Requests(requests) => {
                assert_eq!(statuses, vec![200; requests.len() + 1], "{}", form.escape_debug());
                Some("/behind")
            }
        };
        let seen = since(&before, &recorder.records());
        assert_becomes(form, &seen, *becomes, behind);
    }
    let readings = read_alike(&recorder.records());
    let count: usize = readings.iter().map(|reading| reading.requests.len()).sum();
    let passed = HTTP_1.iter().filter(|(_, becomes)| *becomes != Nothing).count();
    assert!(count >= 2 * passed, "{count}");
    server.finish();
}

/// A request of HTTP/2: its fields, its content, and fields behind that.
struct Form {
    fields: &'static [(&'static str, &'static str)],
    content: Option<&'static str>,
    trailers: &'static [(&'static str, &'static str)],
}

const fn form(fields: &'static [(&'static str, &'static str)]) -> Form {
    Form { fields, content: None, trailers: &[] }
}

const fn with(fields: &'static [(&'static str, &'static str)], content: &'static str) -> Form {
    Form { fields, content: Some(content), trailers: &[] }
}

const GET: (&str, &str) = (":method", "GET");
const POST: (&str, &str) = (":method", "POST");
const HTTP: (&str, &str) = (":scheme", "http");
const A: (&str, &str) = (":authority", "a");
const F: (&str, &str) = (":path", "/f");
const ONE: Becomes = Requests(&[("a", "/f", "")]);
const HELLO: Becomes = Requests(&[("a", "/f", "hello")]);

const HTTP_2: &[(Form, Becomes)] = &[
    (form(&[GET, HTTP, A, F]), ONE),
    (with(&[POST, HTTP, A, F], "hello"), HELLO),
    (with(&[POST, HTTP, A, F, ("content-length", "5")], "hello"), HELLO),
    // Bytes that would begin another line (RFC 9113 8.2.1).
    (form(&[GET, HTTP, A, F, ("x", "b\r\ntransfer-encoding: chunked")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x", "b\nhost: b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x", "b\rc")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x", "b\0c")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x", " b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x\r\nhost", "b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x: y\r\nz", "b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x y", "b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("x:", "b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("Content-Length", "5")]), Nothing),
    (form(&[GET, HTTP, A, F, ("", "b")]), Nothing),
    // Pseudo-fields (8.3).
    (form(&[GET, HTTP, A, (":path", "/f HTTP/1.1\r\nHost: b\r\n\r\nGET /hidden")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "/f HTTP/1.1")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "f")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "http://b/f")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "*")]), Nothing),
    (form(&[GET, HTTP, A, (":path", "//b/x")]), Requests(&[("a", "/b/x", "")])),
    (form(&[GET, HTTP, A, (":path", "/f#g")]), Nothing),
    (form(&[(":method", "GET /hidden HTTP/1.1\r\nx:"), HTTP, A, F]), Nothing),
    (form(&[(":method", "GET /hidden"), HTTP, A, F]), Nothing),
    (form(&[(":method", ""), HTTP, A, F]), Nothing),
    (form(&[GET, HTTP, (":authority", "a\r\nx: y"), F]), Nothing),
    (form(&[GET, HTTP, (":authority", "a/hidden"), F]), Nothing),
    (form(&[GET, HTTP, (":authority", "u@a"), F]), Nothing),
    (form(&[GET, HTTP, (":authority", ""), F]), Nothing),
    (form(&[GET, HTTP, A, ("host", "b"), F]), Nothing),
    (form(&[GET, HTTP, A, F, ("host", "b")]), Nothing),
    (form(&[GET, HTTP, A, F, ("host", "a")]), ONE),
    (form(&[GET, HTTP, F, ("host", "a")]), ONE),
    (form(&[GET, HTTP, F, ("host", "a"), ("host", "b")]), Nothing),
    (form(&[GET, HTTP, A, A, F]), Nothing),
    (form(&[GET, HTTP, A, F, (":path", "/g")]), Nothing),
    (form(&[GET, POST, HTTP, A, F]), Nothing),
    (form(&[GET, HTTP, A, ("x", "y"), F]), Nothing),
    (form(&[GET, HTTP, A, F, (":hidden", "y")]), Nothing),
    (form(&[GET, HTTP, A, F, (":status", "200")]), Nothing),
    (form(&[HTTP, A, F]), Nothing),
    (form(&[GET, A, F]), Nothing),
    (form(&[GET, HTTP, A]), Nothing),
    (form(&[(":method", "CONNECT"), (":authority", "b:80")]), Nothing),
    (form(&[GET, HTTP, A, F, (":protocol", "websocket")]), Nothing),
    // Fields of one connection (8.2.2).
    (
        with(&[POST, HTTP, A, F, ("transfer-encoding", "chunked")], "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"),
        Nothing,
    ),
    (form(&[GET, HTTP, A, F, ("connection", "close")]), Nothing),
    (form(&[GET, HTTP, A, F, ("keep-alive", "1")]), Nothing),
    (form(&[GET, HTTP, A, F, ("proxy-connection", "close")]), Nothing),
    (form(&[GET, HTTP, A, F, ("upgrade", "h2c")]), Nothing),
    (form(&[GET, HTTP, A, F, ("te", "gzip")]), Nothing),
    (form(&[GET, HTTP, A, F, ("te", "trailers")]), ONE),
    // Lengths (8.1.1).
    (with(&[POST, HTTP, A, F, ("content-length", "3")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "0")], "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "9")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "5"), ("content-length", "6")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "5"), ("content-length", "5")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "5, 5")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content-length", "+5")], "hello"), Nothing),
    (with(&[POST, HTTP, A, F, ("content_length", "50")], "hello"), HELLO),
    (form(&[POST, HTTP, A, F, ("content-length", "5")]), Nothing),
    (form(&[POST, HTTP, A, F]), ONE),
    (with(&[GET, HTTP, A, F, ("content-length", "5")], "hello"), HELLO),
    // Content that looks like a request.
    (
        with(&[POST, HTTP, A, F], "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n"),
        Requests(&[("a", "/f", "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n")]),
    ),
    // Trailers are no fields, and no pseudo-fields.
    (Form { fields: &[POST, HTTP, A, F], content: Some("hello"), trailers: &[("x", "y")] }, HELLO),
    (
        Form {
            fields: &[POST, HTTP, A, F],
            content: Some("hello"),
            trailers: &[("host", "b"), ("content-length", "50")],
        },
        HELLO,
    ),
    (Form { fields: &[POST, HTTP, A, F], content: Some("hello"), trailers: &[(":path", "/hidden")] }, Nothing),
    (
        Form {
            fields: &[POST, HTTP, A, F],
            content: Some("hello"),
            trailers: &[("x", "y\r\n\r\nGET /hidden HTTP/1.1")],
        },
        Nothing,
    ),
    (form(&[GET, HTTP, A, F, ("cookie", "a=1"), ("cookie", "b=2")]), ONE),
    (with(&[POST, HTTP, A, F, ("expect", "100-continue"), ("content-length", "5")], "hello"), HELLO),
];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Literal fields without indexing, their names and values as they are (RFC 7541 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| {
        assert!(text.len() < 127, "its length is one byte");
        [&[text.len() as u8], text.as_bytes()].concat()
    };
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

impl Form {
    fn frames(&self) -> Vec<u8> {
        let ends_at = |is_last: bool| if is_last { END_STREAM } else { 0 };
        let mut frames = frame(HEADERS, END_HEADERS | ends_at(self.content.is_none()), 1, &block(self.fields));
        if let Some(content) = self.content {
            frames.extend(frame(DATA, ends_at(self.trailers.is_empty()), 1, content.as_bytes()));
        }
        if !self.trailers.is_empty() {
            frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(self.trailers)));
        }
        frames
    }

    fn told(&self) -> String {
        format!("{:?} {:?} {:?}", self.fields, self.content, self.trailers)
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Answered, with 200 or something else.
    Answered(bool),
    Reset,
    /// The connection ended before.
    Gone,
}

/// Whether a block says 200, which is in the static table (RFC 7541 6.1). Behind changes of the table's size, if there
/// are any (6.3).
fn is_ok(block: &[u8]) -> bool {
    let mut rest = block;
    while let [first @ 0x20..=0x3f, behind @ ..] = rest {
        let more = behind.iter().take_while(|byte| **byte >= 0x80).count() + 1;
        rest = if *first == 0x3f { behind.get(more..).unwrap_or_default() } else { behind };
    }
    rest.first() == Some(&0x88)
}

/// Reads until streams 1 and 3 have ended, or the connection has: how each ended.
fn outcomes(client: &mut Client<TcpStream>) -> [Outcome; 2] {
    let (mut found, mut have_ended) = ([Outcome::Gone; 2], [false; 2]);
    while let Ok(head) = client.receive_exactly(9) {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = client.receive_exactly(length).expect("a frame comes whole");
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let outcome = match head[3] {
            HEADERS => Outcome::Answered(is_ok(&payload)),
            RESET => Outcome::Reset,
            GOAWAY => continue,
            _ => found.get((stream as usize).wrapping_sub(1) / 2).copied().unwrap_or(Outcome::Gone),
        };
        let at = match stream {
            1 => 0,
            3 => 1,
            _ => continue,
        };
        // An answer may be followed by a reset that says that no more content is wanted.
        if !matches!((found[at], outcome), (Outcome::Answered(_), Outcome::Reset)) {
            found[at] = outcome;
        }
        have_ended[at] |= matches!(head[3], DATA | HEADERS) && head[4] & END_STREAM != 0 || head[3] == RESET;
        if have_ended == [true; 2] {
            break;
        }
    }
    found
}

fn ambiguous_requests_of_http_2_have_one_reading_or_none(engine: Engine) {
    let recorder = Recorder::start();
    let server = start(engine, &recorder);
    for (form, becomes) in HTTP_2 {
        let before = recorder.records();
        let mut client = server.connect();
        let behind = frame(HEADERS, END_HEADERS | END_STREAM, 3, &block(&[GET, HTTP, A, (":path", "/behind")]));
        let opening = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
        client.send(&[opening, form.frames(), behind].concat());
        let [one, other] = outcomes(&mut client);
        let told = form.told();
        assert_eq!(one == Outcome::Answered(true), *becomes != Nothing, "{told}: {one:?}");
        let is_behind = other == Outcome::Answered(true);
        assert!(is_behind || other == Outcome::Gone, "{told}: the next is answered, or the connection ends: {other:?}");
        let seen = since(&before, &recorder.records());
        assert_becomes(&told, &seen, *becomes, is_behind.then_some("/behind"));
    }
    read_alike(&recorder.records());
    server.finish();
}
