//! Clients that wait to be told to send their content, with every engine: the application is asked by the head, and
//! one that refuses the request gets none of its content.
//!
//! Owns: an application that says by its path what it does with an expectation ([`answer`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::framed::listen;
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
    an_application_that_refuses_by_the_head_gets_no_content,
    an_application_says_when_content_is_wanted,
    an_application_that_does_not_answer_costs_a_second_once,
    another_place_that_is_asked_says_for_itself_what_it_wants,
]);

/// Answers a request whose head has this path, and whether the connection goes on. `seen` counts bytes of content.
fn answer(line: &mut BufReader<TcpStream>, seen: &AtomicU64, is_first: bool) -> Option<()> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if line.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.to_owned();
    let is_asked = head.contains("\r\nExpect: 100-continue\r\n");
    if path.contains("/refuses") || path.contains("/elsewhere") && is_first {
        let page = "refused";
        let bytes = page.len();
        let status = if path.contains("/refuses") { 401 } else { 503 };
        let said = format!("HTTP/1.1 {status} No\r\nContent-Length: {bytes}\r\n\r\n{page}");
        line.get_mut().write_all(said.as_bytes()).ok()?;
        // What comes nevertheless is seen before the connection ends.
        line.get_mut().set_read_timeout(Some(Duration::from_millis(500))).ok()?;
        let mut rest = Vec::new();
        let _ = line.read_to_end(&mut rest);
        seen.fetch_add(rest.len() as u64, Relaxed);
        return None;
    }
    if (path.contains("/wants") || path.contains("/elsewhere")) && is_asked {
        if path.contains("/wants-late") {
            line.get_mut().write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n").ok()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        line.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let bytes = match length {
        Some(length) => std::io::copy(&mut line.by_ref().take(length.parse().ok()?), &mut std::io::sink()).ok()?,
        None if head.contains("Transfer-Encoding") => super::content_of(&head, line)?.len() as u64,
        None => 0,
    };
    let told = format!("{bytes} {is_asked}");
    let said = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len());
    line.get_mut().write_all(said.as_bytes()).ok()
}

fn start(engine: Engine) -> (Server, Arc<AtomicU64>) {
    let seen = Arc::new(AtomicU64::new(0));
    let application = |is_first: bool| -> SocketAddr {
        let seen = seen.clone();
        listen(move |stream| {
            let mut line = BufReader::new(stream);
            while answer(&mut line, &seen, is_first).is_some() {}
            None
        })
    };
    let config = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\n\
         [[site.route]]\nmatch = \"/quiet/*\"\nproxy = \"http://{}\"\n\
         [[site.route]]\nmatch = \"/kept/*\"\nproxy = {{ to = \"http://{}\", buffer = true }}\n\
         [[site.route]]\nmatch = \"/elsewhere\"\n\
         proxy = {{ to = [\"http://{}\", \"http://{}\"], retry = {{ status = [503], tries = 2 }} }}\n",
        application(false),
        application(false),
        application(false),
        application(true),
        application(false)
    );
    (Launch::new(engine).argument("--h2c").config(&config).start(), seen)
}

const FRAMINGS: [&str; 2] = ["Content-Length: 300000", "Transfer-Encoding: chunked"];

/// What follows the head, as it is framed.
fn content(framing: &str) -> Vec<u8> {
    let content = pattern(300_000, 3);
    if framing.starts_with("Content-Length") {
        return content;
    }
    [format!("{:x}\r\n", content.len()).as_bytes(), &content, b"\r\n0\r\n\r\n"].concat()
}

/// Asks as curl does: content follows when the server says so. The statuses of all answers, and the last content.
fn ask(server: &Server, target: &str, framing: &str) -> (Vec<u16>, String) {
    let mut client = server.connect();
    client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n").as_bytes());
    let mut statuses = Vec::new();
    loop {
        let head = client.receive_head().unwrap_or_else(|why| panic!("{target}: {why}"));
        statuses.push(head.status);
        match head.status {
            100 => client.send(&content(framing)),
            101..=199 => {}
            _ => {
                let bytes = head.field("Content-Length").map_or(0, |length| length.parse().unwrap());
                let content = client.receive_exactly(bytes).unwrap();
                return (statuses, String::from_utf8_lossy(&content).into_owned());
            }
        }
    }
}

fn an_application_that_refuses_by_the_head_gets_no_content(engine: Engine) {
    let (server, seen) = start(engine);
    for framing in FRAMINGS {
        assert_eq!(ask(&server, "/refuses", framing), (vec![401], "refused".to_owned()), "{framing}");
        // A client that does not wait is answered as well, and the connection is closed behind that.
        let mut client = server.connect();
        let head = format!("POST /refuses HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
        client.send(&[head.as_bytes(), &content(framing)].concat());
        assert_eq!(client.receive_head().unwrap().status, 401, "{framing}");
    }
    for fields in [&[("expect", "100-continue")][..], &[("expect", "100-continue"), ("content-length", "300000")]] {
        let asked = request("POST", "/refuses", fields).map(|_| pattern(300_000, 3));
        let answer = Http2::connect(server.address()).ask(vec![asked]).remove(0);
        assert!(answer.as_ref().is_ok_and(|answer| answer.status == 401), "HTTP/2: {answer:?}");
    }
    assert_eq!(seen.load(Relaxed), 0, "bytes of content have gone to an application that had refused them");
    server.finish();
}

fn an_application_says_when_content_is_wanted(engine: Engine) {
    let (server, _) = start(engine);
    for framing in FRAMINGS {
        let told = "300000 true".to_owned();
        assert_eq!(ask(&server, "/wants", framing), (vec![100, 200], told.clone()), "{framing}");
        assert_eq!(ask(&server, "/wants-late", framing), (vec![103, 100, 200], told), "{framing}");
        // What is kept here is invited here.
        assert_eq!(ask(&server, "/kept/wants", framing), (vec![100, 200], "300000 false".to_owned()), "{framing}");
    }
    // Without content there is nothing to wait for.
    let mut client = server.connect();
    client.send(b"POST /wants HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().content, b"0 false");
    client.send(b"GET /wants HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().content, b"0 false");
    let asked = request("POST", "/wants", &[("expect", "100-continue")]).map(|_| pattern(300_000, 3));
    let answer = Http2::connect(server.address()).ask(vec![asked]).remove(0).unwrap();
    assert_eq!((answer.status, &*answer.content), (200, &b"300000 true"[..]));
    server.finish();
}

fn an_application_that_does_not_answer_costs_a_second_once(engine: Engine) {
    let (server, _) = start(engine);
    let begun = Instant::now();
    assert_eq!(ask(&server, "/quiet/x", FRAMINGS[0]), (vec![100, 200], "300000 true".to_owned()));
    let first = begun.elapsed();
    assert!(first >= Duration::from_millis(900), "the application had {first:?} to say what it wants");
    // Each process finds it out for itself.
    let rounds = if matches!(engine.architecture, "mp" | "co-amped") { 0 } else { 5 };
    for _ in 0..rounds {
        assert_eq!(ask(&server, "/quiet/x", FRAMINGS[1]), (vec![100, 200], "300000 false".to_owned()));
    }
    server.finish();
}

fn another_place_that_is_asked_says_for_itself_what_it_wants(engine: Engine) {
    let (server, seen) = start(engine);
    for round in 0..6 {
        for framing in FRAMINGS {
            let mut client = server.connect();
            let head = format!("PUT /elsewhere HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{framing}\r\n\r\n");
            client.send(head.as_bytes());
            let first = client.receive_head().unwrap().status;
            // What the budget of retries does not allow is the first place's own answer.
            if first == 503 {
                continue;
            }
            assert_eq!(first, 100, "round {round}: {framing}");
            client.send(&content(framing));
            assert_eq!(client.receive(true).unwrap().content, b"300000 true", "round {round}: {framing}");
        }
    }
    assert_eq!(seen.load(Relaxed), 0, "bytes of content have gone to an application that had refused them");
    server.finish();
}
