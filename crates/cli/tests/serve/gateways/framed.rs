//! Content of requests and of answers reaches the other side as it was framed, with every engine: methods never say
//! whether there is some, and an application's answer is as long as it said, whatever it prints.
//!
//! Owns: applications that say how a request was framed, and answer more or less than they announce ([`over_http`],
//! [`over_fastcgi`], [`over_stream`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use super::variables::{Protocol, take};
use crate::client::{APPLICATION_PATIENCE, Client};
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};
use crate::tree::pattern;

for_engines!(all every_architecture_frames_content: [
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
    frames_say_whether_there_is_content_and_methods_never,
    what_is_beyond_the_announced_length_is_dropped_and_logged,
    what_is_shorter_than_announced_breaks_off_and_is_not_kept,
]);

const METHODS: [&str; 15] = [
    "GET", "DELETE", "OPTIONS", "PROPFIND", "REPORT", "SEARCH", "QUERY", "LINK", "MKCOL", "LOCK", "FROB", "TRACE",
    "POST", "PUT", "PATCH",
];

/// Has each connection at a port of its own treated by `treat`, as long as the process lives.
pub(super) fn listen(treat: impl Fn(TcpStream) -> Option<()> + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            let treat = treat.clone();
            thread::spawn(move || treat(stream));
        }
    });
    address
}

/// Says of each request its method, its framing, and how many bytes of content there were.
fn over_http() -> SocketAddr {
    listen(|stream| {
        let mut line = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if line.read_line(&mut head).ok()? == 0 {
                    return None;
                }
            }
            let said = |name: &str| {
                let all: Vec<&str> =
                    head.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect();
                if all.is_empty() { "-".to_owned() } else { all.join(",") }
            };
            let (length, coding) = (said("Content-Length"), said("Transfer-Encoding"));
            let bytes = match &*length {
                "-" if coding == "-" => 0,
                "-" => super::content_of(&head, &mut line)?.len() as u64,
                length => std::io::copy(&mut line.by_ref().take(length.parse().ok()?), &mut std::io::sink()).ok()?,
            };
            let told = format!("{} {length} {coding} {bytes}", head.split(' ').next()?);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{told}", told.len());
            line.get_mut().write_all(answer.as_bytes()).ok()?;
        }
    })
}

fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    [&[1, kind, 0, 1, high, low, 0, 0], content].concat()
}

fn stdout(content: &[u8]) -> Vec<u8> {
    content.chunks(60_000).flat_map(|piece| record(6, piece)).collect()
}

fn end_request() -> Vec<u8> {
    record(3, &[0; 8])
}

/// Variables, and how many bytes of content there were.
fn take_fastcgi(line: &mut BufReader<TcpStream>) -> Option<(Vec<(String, String)>, usize)> {
    let (mut parameters, mut bytes, mut has_parameters) = (Vec::new(), 0, false);
    loop {
        let mut header = [0; 8];
        line.read_exact(&mut header).ok()?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let mut content = vec![0; length + usize::from(header[6])];
        line.read_exact(&mut content).ok()?;
        content.truncate(length);
        match header[1] {
            4 if content.is_empty() => has_parameters = true,
            4 => parameters.extend(content),
            5 if content.is_empty() && has_parameters => break,
            5 => bytes += content.len(),
            _ => {}
        }
    }
    let mut rest = &parameters[..];
    let length = |rest: &mut &[u8]| {
        let (first, after) = rest.split_first()?;
        if *first < 128 {
            *rest = after;
            return Some(usize::from(*first));
        }
        let (long, after) = rest.split_first_chunk::<4>()?;
        *rest = after;
        Some((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
    };
    let mut variables = Vec::new();
    while !rest.is_empty() {
        let lengths = [length(&mut rest)?, length(&mut rest)?];
        let (name, after) = rest.split_at_checked(lengths[0])?;
        let (value, after) = after.split_at_checked(lengths[1])?;
        variables.push((String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    Some((variables, bytes))
}

/// Says of each request what `over_http` says, or, for `.../ANNOUNCED/GIVEN/HOW`, answers with so much of a pattern,
/// how it is told to.
fn over_fastcgi() -> SocketAddr {
    listen(|stream| {
        let mut line = BufReader::new(stream);
        loop {
            let (variables, bytes) = take_fastcgi(&mut line)?;
            let of = |name: &str| variables.iter().find(|(other, _)| other == name).map_or("-", |(_, value)| value);
            let path = of("REQUEST_URI").to_owned();
            let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
            let [_, announced, given, how] = parts[..] else {
                let told = format!("{} {} - {bytes}", of("REQUEST_METHOD"), of("CONTENT_LENGTH"));
                let said = stdout(format!("X-From: fastcgi\n\n{told}").as_bytes());
                line.get_mut().write_all(&[said, end_request()].concat()).ok()?;
                continue;
            };
            let status = if how.starts_with("empty") { "Status: 204\n" } else { "" };
            let head = format!("Cache-Control: max-age=600\n{status}Content-Length: {announced}\n\n");
            let (announced, given) = (announced.parse::<usize>().ok()?, given.parse::<usize>().ok()?);
            let content = pattern(given, 3);
            let socket = line.get_mut();
            match how.starts_with("apart") {
                true => {
                    socket.write_all(&stdout(head.as_bytes())).ok()?;
                    let (exact, surplus) = content.split_at(announced.min(given));
                    for piece in [exact, surplus] {
                        // Most likely what was sent before has been read by then. Nothing depends on it.
                        thread::sleep(Duration::from_millis(20));
                        socket.write_all(&stdout(piece)).ok()?;
                    }
                }
                false => socket.write_all(&stdout(&[head.as_bytes(), &content].concat())).ok()?,
            }
            socket.write_all(&end_request()).ok()?;
        }
    })
}

/// The same as `over_fastcgi`, over SCGI or uwsgi: its end is that of the connection.
pub(super) fn over_stream(protocol: Protocol) -> SocketAddr {
    listen(move |stream| {
        let mut line = BufReader::new(stream);
        let (variables, content) = take(protocol, &mut line)?;
        let of = |name: &str| variables.iter().find(|(other, _)| other == name).map_or("-", |(_, value)| value);
        let path = of("REQUEST_URI").to_owned();
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let [_, announced, given, how] = parts[..] else {
            let told = format!("{} {} - {}", of("REQUEST_METHOD"), of("CONTENT_LENGTH"), content.len());
            return line.get_mut().write_all(format!("X-From: stream\n\n{told}").as_bytes()).ok();
        };
        let status = if how.starts_with("empty") { "Status: 204\n" } else { "" };
        let head = format!("Cache-Control: max-age=600\n{status}Content-Length: {announced}\n\n");
        let (announced, given) = (announced.parse::<usize>().ok()?, given.parse::<usize>().ok()?);
        let content = pattern(given, 3);
        let socket = line.get_mut();
        if !how.starts_with("apart") {
            return socket.write_all(&[head.as_bytes(), &content].concat()).ok();
        }
        socket.write_all(head.as_bytes()).ok()?;
        let (exact, surplus) = content.split_at(announced.min(given));
        for piece in [exact, surplus] {
            // Most likely what was sent before has been read by then. Nothing depends on it.
            thread::sleep(Duration::from_millis(20));
            socket.write_all(piece).ok()?;
        }
        Some(())
    })
}

fn over_http1(client: &mut Client<TcpStream>, method: &str, path: &str, framing: &str) -> (u16, String) {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{framing}").as_bytes());
    let answer = client.receive(true).unwrap();
    (answer.status, String::from_utf8(answer.content).unwrap())
}

fn frames_say_whether_there_is_content_and_methods_never(engine: Engine) {
    let (http, fastcgi) = (over_http(), over_fastcgi());
    let [scgi, uwsgi] = Protocol::ALL.map(over_stream);
    let route = |name: &str, gateway: &str| format!("[[site.route]]\nmatch = \"/{name}\"\n{gateway}\n");
    let routes = [
        route("http", &format!("proxy = \"http://{http}\"")),
        route("http-kept", &format!("proxy = {{ to = \"http://{http}\", buffer = true }}")),
        route("fastcgi", &format!("fastcgi = {{ to = \"{fastcgi}\", extensions = [] }}")),
        route("fastcgi-kept", &format!("fastcgi = {{ to = \"{fastcgi}\", extensions = [], buffer = true }}")),
        route("scgi", &format!("scgi = \"{scgi}\"")),
        route("scgi-kept", &format!("scgi = {{ to = \"{scgi}\", buffer = true }}")),
        route("uwsgi", &format!("uwsgi = \"{uwsgi}\"")),
        route("uwsgi-kept", &format!("uwsgi = {{ to = \"{uwsgi}\", buffer = true }}")),
        route("fastcgi-bare", &format!("fastcgi = {{ to = \"{fastcgi}\", extensions = [], buffer = false }}")),
        route("scgi-bare", &format!("scgi = {{ to = \"{scgi}\", buffer = false }}")),
        route("uwsgi-bare", &format!("uwsgi = {{ to = \"{uwsgi}\", buffer = false }}")),
    ];
    // All of it is passed on: no directory is needed.
    let lines = format!("[[site]]\n{}", routes.concat());
    let server = Launch::new(engine).config(&lines).argument("--h2c").start();
    let (mut one, mut two) = (server.connect(), Http2::connect(server.address()));
    for method in METHODS {
        let is_usual = matches!(method, "POST" | "PUT" | "PATCH");
        let none = if is_usual { "0" } else { "-" };
        // By path: of unknown length, of a known one, without any, and with an end that comes apart.
        let expected = [
            ("/http", "- chunked 3", "3 - 3", format!("{none} - 0"), "- chunked 0"),
            ("/http-kept", "3 - 3", "3 - 3", format!("{none} - 0"), "0 - 0"),
            // All but HTTP have to know the length before the content comes: it is kept, or refused.
            ("/fastcgi", "3 - 3", "3 - 3", format!("{none} - 0"), "0 - 0"),
            ("/fastcgi-bare", "", "3 - 3", format!("{none} - 0"), "0 - 0"),
            ("/fastcgi-kept", "3 - 3", "3 - 3", format!("{none} - 0"), "0 - 0"),
            // A length is always said.
            ("/scgi", "3 - 3", "3 - 3", "0 - 0".to_owned(), "0 - 0"),
            ("/scgi-bare", "", "3 - 3", "0 - 0".to_owned(), "0 - 0"),
            ("/scgi-kept", "3 - 3", "3 - 3", "0 - 0".to_owned(), "0 - 0"),
            ("/uwsgi", "3 - 3", "3 - 3", format!("{none} - 0"), "0 - 0"),
            ("/uwsgi-bare", "", "3 - 3", format!("{none} - 0"), "0 - 0"),
            ("/uwsgi-kept", "3 - 3", "3 - 3", format!("{none} - 0"), "0 - 0"),
        ];
        for (path, streamed, sized, without, apart) in expected {
            let of =
                |said: &str| if said.is_empty() { (411, String::new()) } else { (200, format!("{method} {said}")) };
            let shown = |(status, said): (u16, String)| (status, if status == 411 { String::new() } else { said });
            let cases = [
                (of(streamed), "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
                (of(sized), "Content-Length: 3\r\n\r\nabc"),
                (of(&without), "\r\n"),
                (of("0 - 0"), "Content-Length: 0\r\n\r\n"),
                (of(apart), "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            ];
            for (expected, framing) in cases {
                let seen = shown(over_http1(&mut one, method, path, framing));
                assert_eq!(seen, expected, "{method} {path} {framing:?}");
                if seen.0 == 411 {
                    one = server.connect();
                }
            }
            let asked =
                |fields: &[(&str, &str)], content: &[u8]| request(method, path, fields).map(|_| content.to_vec());
            let cases = [
                (of(streamed), asked(&[], b"abc"), false),
                (of(sized), asked(&[("content-length", "3")], b"abc"), false),
                (of(&without), asked(&[], b""), false),
                (of("0 - 0"), asked(&[("content-length", "0")], b""), false),
                (of(apart), asked(&[], b""), true),
            ];
            for (index, (expected, request, is_apart)) in cases.into_iter().enumerate() {
                let answer = if is_apart { two.ask_ending_apart(request) } else { two.ask(vec![request]).remove(0) };
                let answer = answer.unwrap();
                let seen = shown((answer.status, String::from_utf8_lossy(&answer.content).into_owned()));
                assert_eq!(seen, expected, "HTTP/2: {method} {path}, case {index}");
            }
        }
    }
    drop(two);
    server.finish();
}

/// A site whose `/f/`, `/s/` and `/u/` are the application over FastCGI, SCGI and uwsgi, kept beneath `/kf/` and so on,
/// and whose `/c/` are programs.
fn start(engine: Engine) -> Server {
    let fastcgi = over_fastcgi();
    let [scgi, uwsgi] = Protocol::ALL.map(over_stream);
    let route = |path: &str, gateway: &str| format!("[[site.route]]\nmatch = \"/{path}/*\"\n{gateway}\n");
    let fastcgi = format!("fastcgi = {{ to = \"{fastcgi}\", extensions = [] }}");
    let (scgi, uwsgi) = (format!("scgi = \"{scgi}\""), format!("uwsgi = \"{uwsgi}\""));
    let applications = [("f", fastcgi), ("s", scgi), ("u", uwsgi)];
    let mut routes = vec![route("c", "cgi = true")];
    for (path, gateway) in applications {
        routes.extend([route(path, &gateway), route(&format!("k{path}"), &format!("{gateway}\ncache = true"))]);
    }
    let lines = format!("[[site]]\nroot = \"site\"\n{}", routes.concat());
    let mut launch = Launch::new(engine).config(&lines).argument("--h2c");
    for (name, print) in [
        ("line-end", "printf 'Content-Length: 3\\n\\n'; echo abc"),
        ("much", "printf 'Content-Length: 3\\n\\nabc'; head -c 1000000 /dev/zero"),
        ("late", "printf 'Content-Length: 3\\n\\nabc'; sleep 0.1; echo more; sleep 0.1; echo more"),
        ("all", "printf 'Content-Length: 0\\n\\n'; echo more"),
        ("short", "printf 'Content-Length: 5\\n\\nabc'"),
    ] {
        launch = launch.file(&format!("c/{name}"), format!("#!/bin/sh\n{print}\n"));
        std::fs::set_permissions(launch.site().join("c").join(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    launch.start()
}

fn what_is_beyond_the_announced_length_is_dropped_and_logged(engine: Engine) {
    let server = start(engine);
    let (mut one, mut two) = (server.connect(), Http2::connect(server.address()));
    for (place, announced) in
        ["f", "s", "u"].iter().flat_map(|place| [0, 3, 65_000, 5_000_000].map(|bytes| (place, bytes)))
    {
        for surplus in [1, 70_000, 1_000_000] {
            for how in ["at-once", "apart"] {
                // Neither is answered with what is kept for the other.
                let path = |client| format!("/{place}/{announced}/{}/{how}-{client}", announced + surplus);
                let expected = pattern(announced, 3);
                let answer = one.get(&path(1)).unwrap();
                assert!((answer.status, &answer.content) == (200, &expected), "{}", path(1));
                let answer = two.get(&path(2));
                assert!((answer.status, &answer.content) == (200, &expected), "HTTP/2: {}", path(2));
            }
        }
    }
    // Answers that have none, whatever is printed.
    for place in ["f", "s", "u", "f", "s", "u"] {
        let empty = two.get(&format!("/{place}/0/70000/empty-2"));
        assert_eq!(one.get(&format!("/{place}/0/70000/empty-1")).map(|answer| answer.status), Ok(204), "{place}");
        assert_eq!((empty.status, empty.content), (204, vec![]), "{place}");
        one.send(format!("HEAD /{place}/70000/80000/head HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(one.receive(false).unwrap().field("Content-Length"), Some("70000"));
    }
    for (name, content) in [("line-end", "abc"), ("much", "abc"), ("late", "abc"), ("all", "")] {
        let path = format!("/c/{name}");
        assert_eq!(one.get(&path).unwrap().content, content.as_bytes(), "{name}");
        assert_eq!(two.get(&path).content, content.as_bytes(), "HTTP/2: {name}");
    }
    drop(two);
    let said = server.finish();
    assert!(said.contains("The answer is longer than the length that it announced."), "{said}");
}

fn what_is_shorter_than_announced_breaks_off_and_is_not_kept(engine: Engine) {
    let server = start(engine);
    for (place, how) in ["f", "s", "u"].iter().flat_map(|place| ["at-once", "apart"].map(|how| (place, how))) {
        for (announced, given) in [(1, 0), (5, 3), (100_000, 99_999), (5_000_000, 4_900_000)] {
            for _ in 0..2 {
                let path = format!("/k{place}/{announced}/{given}/{how}");
                let mut one = server.connect();
                let broken = |seen: Result<crate::client::Response, String>| match seen {
                    Ok(answer) => assert_eq!(answer.status, 502, "{path}: neither an error nor broken off"),
                    Err(why) => assert!(why.contains("within") || why.contains("after"), "{path}: {why}"),
                };
                broken(one.get(&path));
                let mut two = Http2::connect(server.address());
                let path = path.replacen("/k", "/", 1);
                match two.ask(vec![request("GET", &path, &[])]).remove(0) {
                    Ok(answer) => assert_eq!(answer.status, 502, "HTTP/2: {path}"),
                    Err(why) => assert!(why.is_reset(), "HTTP/2: {path}: {why}"),
                }
            }
        }
    }
    match server.connect().get("/c/short") {
        Ok(answer) => assert_eq!(answer.status, 502),
        Err(why) => assert!(why.contains("after"), "{why}"),
    }
    server.finish();
}
