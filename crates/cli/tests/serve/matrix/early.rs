//! The matrix of early answers: every framing meets every refusal, and of the content nothing has come, or a part. What
//! is missing never comes, and is waited for an hour: who is refused is told so before.
//!
//! Owns: the model ([`refused`]). Does not look at content that comes as a whole ([`super::content`]).

use http::Request;

use super::backends::Backends;
use super::{Differences, engines};
use crate::access::SESAME;
use crate::client::Client;
use crate::engine::Engine;
use crate::http2::Http2;
use crate::server::{Launch, Server};

/// How a request says that content follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// HTTP/1.1 with its length.
    Length,
    /// HTTP/1.1 in chunks.
    Chunked,
    /// HTTP/2 with its length.
    Http2Length,
    /// HTTP/2 without it.
    Http2Unsized,
    /// HTTP/2: a stream for a WebSocket (RFC 8441).
    ExtendedConnect,
}

const FRAMINGS: [Framing; 5] =
    [Framing::Length, Framing::Chunked, Framing::Http2Length, Framing::Http2Unsized, Framing::ExtendedConnect];

/// What is asked for, and what is said besides.
const TARGETS: [(&str, &str, &str); 9] = [
    ("POST", "/closed/echo", ""),
    ("POST", "/far/echo", ""),
    ("POST", "/limited/echo", ""),
    ("POST", "/moved/x", ""),
    ("POST", "/fixed/x", ""),
    ("POST", "/file.txt", ""),
    ("GET", "/none", ""),
    ("POST", "/small/echo", ""),
    ("POST", "/open/echo", "other"),
];

/// The model of how a request is refused before its content has come, if it is.
fn refused(target: &str, framing: Framing) -> Option<u16> {
    let is_connect = framing == Framing::ExtendedConnect;
    match target {
        "/closed/echo" => Some(401),
        "/far/echo" => Some(403),
        "/limited/echo" => Some(429),
        "/moved/x" => Some(308),
        "/fixed/x" => Some(410),
        "/file.txt" => Some(405),
        // Nobody speaks another protocol there.
        "/none" => Some(if is_connect { 405 } else { 404 }),
        // What has no length may be short enough.
        "/small/echo" => matches!(framing, Framing::Length | Framing::Http2Length).then_some(413),
        "/open/echo" => Some(417),
        _ => None,
    }
}

const LENGTH: usize = 1_000;

fn start(engine: Engine, backends: &Backends) -> Server {
    let to = backends.http;
    let config = format!(
        "trusted_proxies = [\"127.0.0.1\"]\nlimit_exempt = []\nrequest_limit = \"off\"\n\
         [limits]\nbody_timeout_ms = 3600000\n\
         [[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n\
         [[site.route]]\nmatch = \"/closed/*\"\naccess = {{ users = [\"ada\"] }}\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/far/*\"\naccess = {{ allow = [\"192.0.2.0/24\"] }}\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/limited/*\"\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/open/*\"\nproxy = \"http://{to}\"\n\
         [[site.route]]\nmatch = \"/small/*\"\nproxy = {{ to = \"http://{to}\", body_bytes_max = 10 }}\n\
         [[site.route]]\nmatch = \"/fixed/*\"\nrespond = {{ status = 410, text = \"gone\" }}\n\
         [[site.route]]\nmatch = \"/moved/*\"\nredirect = {{ to = \"/elsewhere\", status = 308 }}\n\
         [[site.limit]]\npath = \"/limited/\"\nrequests = \"1/h burst 1\"\n"
    );
    Launch::new(engine).argument("--h2c").config(&config).file("file.txt", "file\n").start()
}

/// The fields by which a trusted proxy names a client, so that limits are for it.
const FROM: (&str, &str) = ("x-forwarded-for", "198.51.100.1");

/// What is wrong with the answer to a request of HTTP/1.1 of whose content this part comes, or with what follows it.
fn fault_over_1(
    server: &Server,
    framing: Framing,
    (method, target, expect): (&str, &str, &str),
    part: &str,
    status: u16,
) -> Option<String> {
    let mut client: Client<_> = server.connect();
    let (framed, said) = match framing {
        Framing::Chunked => (format!("{LENGTH:x}\r\n{part}"), "Transfer-Encoding: chunked\r\n".to_owned()),
        _ => (part.to_owned(), format!("Content-Length: {LENGTH}\r\n")),
    };
    let framed = if part.is_empty() { "" } else { &framed };
    let expects = if expect.is_empty() { String::new() } else { format!("Expect: {expect}\r\n") };
    let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{}: {}\r\n{said}{expects}\r\n", FROM.0, FROM.1);
    client.send(head.as_bytes());
    client.send(framed.as_bytes());
    let answer = match client.receive(true) {
        Ok(answer) if answer.status == status => answer,
        Ok(answer) => return Some(format!("status {} for {status}", answer.status)),
        Err(fault) => return Some(fault),
    };
    if answer.field("Connection") == Some("close") {
        return None;
    }
    // The rest of what was said to follow, and then another request.
    client.send("a".repeat(LENGTH - part.len()).as_bytes());
    match client.get("/file.txt") {
        Ok(next) if next.content == b"file\n" => None,
        next => Some(format!("the next answer is {next:?}")),
    }
}

fn fault_over_2(
    client: &mut Http2,
    framing: Framing,
    (method, target, expect): (&str, &str, &str),
    part: &str,
    status: u16,
) -> Option<String> {
    let protocol = (framing == Framing::ExtendedConnect).then_some("websocket");
    let method = if protocol.is_some() { "CONNECT" } else { method };
    let mut request = Request::builder().method(method).uri(format!("http://a{target}")).header(FROM.0, FROM.1);
    if framing == Framing::Http2Length {
        request = request.header("content-length", LENGTH);
    }
    if !expect.is_empty() {
        request = request.header("expect", expect);
    }
    let request = request.body(part.as_bytes().to_vec()).expect("it is valid");
    match client.ask_without_end(request, protocol) {
        Ok((seen, _)) if seen == status => None,
        other => Some(format!("{other:?} for {status}")),
    }
}

#[test]
fn who_is_refused_is_told_so_before_the_content_comes() {
    let mut differences = Differences::default();
    for engine in engines() {
        let backends = Backends::start();
        let server = start(*engine, &backends);
        let mut http2 = Http2::connect(server.address());
        // The limit is used up.
        let first = Request::builder().method("POST").uri("http://a/limited/echo").header(FROM.0, FROM.1);
        let first = http2.try_ask(first.body(Vec::new()).expect("it is valid"));
        assert_eq!(first.expect("it is answered").status, 200);
        let before = backends.asked();
        for (framing, asked) in FRAMINGS.iter().flat_map(|framing| TARGETS.map(|asked| (*framing, asked))) {
            for part in ["", "a", "abcdefgh"] {
                let Some(status) = refused(asked.1, framing) else { continue };
                let fault = match framing {
                    Framing::Length | Framing::Chunked => fault_over_1(&server, framing, asked, part, status),
                    _ => fault_over_2(&mut http2, framing, asked, part, status),
                };
                differences.count(|| format!("{engine:?} {framing:?} {} {} {part:?}", asked.0, asked.1), fault);
            }
        }
        // All streams were beside each other on one connection, and it goes on.
        assert_eq!(http2.get("/file.txt").content, b"file\n");
        assert_eq!(backends.asked(), before, "no application was asked");
        server.finish();
    }
    differences.settle("refusals before content", 100);
}
