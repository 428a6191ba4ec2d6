//! Sites that come from other servers: what their visitors, browsers and applications are used to.
//!
//! Owns: an application that gives the answers of a table ([`application`]), and what each engine does with fields,
//! redirects and answers that are rare, over HTTP/1.1 and HTTP/2.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::Launch;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    sped = SPED,
    amped = AMPED,
    amped_caches_off = AMPED_CACHES_OFF,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    cookies_are_one_field,
    a_query_goes_before_the_fragment,
    an_application_says_its_own_reason,
]);

/// An application without content in its requests, which answers each path with its answer of the table. `/head` gets
/// the head of the request.
pub(crate) fn application(answers: &'static [(&'static str, &'static str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut line = BufReader::new(stream);
                while let Some(head) = read_head(&mut line) {
                    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
                    let answer = match answers.iter().find(|(of, _)| *of == path) {
                        Some((_, answer)) => (*answer).to_owned(),
                        None => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()),
                    };
                    if line.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A head of a request, without its empty line.
fn read_head(line: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if line.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    head.truncate(head.len() - 2);
    Some(head)
}

/// A site of which all is passed on to `application`, over HTTP/2 without TLS as well.
fn passing_on(engine: Engine, application: SocketAddr, more: &str) -> Launch {
    let route = format!("{{ match = \"/*\", proxy = \"http://{application}\"{more} }}");
    Launch::new(engine).argument("--h2c").config(&format!("[[site]]\nroot = \"site\"\nroute = [{route}]\n"))
}

// RFC 9113 8.2.3.
fn cookies_are_one_field(engine: Engine) {
    let server = passing_on(engine, application(&[]), "").start();
    let cookies: Vec<String> = (0..180).map(|number| format!("name{number}=value")).collect();
    let fields: Vec<(&str, &str)> = cookies.iter().map(|cookie| ("cookie", &**cookie)).collect();
    let asked = request("GET", "/head", &fields);
    let answer = Http2::connect(server.address()).try_ask(asked).unwrap();
    let head = String::from_utf8(answer.content).unwrap();
    assert_eq!(answer.status, 200, "{head}");
    assert!(head.contains(&format!("Cookie: {}\r\n", cookies.join("; "))), "{head}");
    // Of others, each counts.
    let asked = request("GET", "/head", &[("x", "y"); 180]);
    assert_eq!(Http2::connect(server.address()).try_ask(asked).unwrap().status, 431);
    server.finish();
}

// RFC 3986 3.
fn a_query_goes_before_the_fragment(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\n\
                  redirect = [{ from = \"/a\", to = \"/x#part\" }, { from = \"/b/*\", to = \"https://b.test/x#*\" }, \
                  { from = \"/c\", to = \"/x?own#part\" }, { from = \"/d\", to = \"/x#part?no-query\" }]\n\
                  route = [{ match = \"/e/*\", redirect = \"/y/$1#top\" }, \
                  { match = \"/f/*\", redirect = { to = \"https://b.test/$1#top\", status = 302 } }]\n";
    let server = Launch::new(engine).argument("--h2c").config(config).file("dir/index.html", "there").start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (target, location) in [
        ("/a?q=1", "/x?q=1#part"),
        ("/a", "/x#part"),
        ("/b/1?q", "https://b.test/x?q#1"),
        ("/c?q=1", "/x?own#part"),
        ("/d?q=1", "/x?q=1#part?no-query"),
        ("/e/1?q=1", "/y/1?q=1#top"),
        ("/f/1?q=1", "https://b.test/1?q=1#top"),
        ("/dir?q=1", "/dir/?q=1"),
    ] {
        // Found out, and then kept.
        for _ in 0..2 {
            let response = client.get(target).unwrap();
            assert_eq!(response.field("Location"), Some(location), "{target}");
            let answer = http2.get(target);
            let told = answer.fields.iter().find(|(name, _)| name == "location").map(|(_, value)| &**value);
            assert_eq!(told, Some(location), "{target}");
        }
    }
    server.finish();
}

const REASONS: &[(&str, &str)] = &[
    ("/own", "HTTP/1.1 409 Not like that, please\r\nContent-Length: 0\r\n\r\n"),
    ("/kept", "HTTP/1.1 404 No such thing\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"),
    ("/none", "HTTP/1.1 402 \r\nContent-Length: 0\r\n\r\n"),
    ("/foreign", "HTTP/1.1 451 Verf\u{fc}gbar\r\nContent-Length: 0\r\n\r\n"),
    ("/unregistered", "HTTP/1.1 499 Client Closed Request\r\nContent-Length: 0\r\n\r\n"),
    (
        "/newer",
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade\r\n\
                Cache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n",
    ),
];

// RFC 9112 4, RFC 9110 15.5.22.
fn an_application_says_its_own_reason(engine: Engine) {
    let server = passing_on(engine, application(REASONS), ", cache = true").start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (path, line) in [
        ("/own", "409 Not like that, please"),
        ("/kept", "404 No such thing"),
        ("/none", "402 Payment Required"),
        ("/foreign", "451 Unavailable For Legal Reasons"),
        ("/unregistered", "499 Client Closed Request"),
        ("/newer", "426 Upgrade Required"),
    ] {
        for _ in 0..2 {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let response = client.receive(true).unwrap();
            assert_eq!(format!("{} {}", response.status, response.reason), line, "{path}");
            let expected = (path == "/newer").then_some(("TLS/1.2, HTTP/1.1", "upgrade"));
            assert_eq!(response.field("Upgrade").zip(response.field("Connection")), expected, "{path}");
            let answer = http2.get(path);
            assert_eq!(answer.status, response.status, "{path}");
            assert!(!answer.fields.iter().any(|(name, _)| matches!(&**name, "upgrade" | "connection")), "{path}");
        }
    }
    server.finish();
}
