//! The matrix of content: versions, framings, methods and gateways, with early answers and answers of any length
//! between. Bytes are counted at both ends.
//!
//! Owns: the models ([`expected`], [`early`], [`arrives`]). Frames say whether there is content; methods never do.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use http::Request;

use super::backends::{Backends, report};
use super::{Differences, engines, is_whole};
use crate::access::SESAME;
use crate::client::Client;
use crate::engine::Engine;
use crate::http2::Http2;
use crate::server::{Launch, Server};
use crate::tree::pattern;

/// How a request says what content it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// HTTP/1.1 with neither a length nor chunks.
    None,
    /// HTTP/1.1 with its length.
    Length,
    /// HTTP/1.1 in chunks.
    Chunked,
    /// HTTP/1.1 with its length, sent when the server says so.
    Expected,
    /// HTTP/1.0 with its length.
    Old,
    /// HTTP/2 whose head ends the stream.
    Http2None,
    /// HTTP/2 with its length.
    Http2Length,
    /// HTTP/2 without it.
    Http2Unsized,
}

const FRAMINGS: [Framing; 8] = [
    Framing::None,
    Framing::Length,
    Framing::Chunked,
    Framing::Expected,
    Framing::Old,
    Framing::Http2None,
    Framing::Http2Length,
    Framing::Http2Unsized,
];

impl Framing {
    fn has_content(self) -> bool {
        !matches!(self, Framing::None | Framing::Http2None)
    }

    fn is_unsized(self) -> bool {
        matches!(self, Framing::Chunked | Framing::Http2Unsized)
    }
}

const METHODS: [&str; 9] = ["GET", "POST", "PUT", "PATCH", "DELETE", "QUERY", "PROPFIND", "REPORT", "FROB"];
const GATEWAYS: [&str; 13] = [
    "proxy",
    "kept",
    "script",
    "script-bare",
    "saved",
    "scgi",
    "uwsgi",
    "uwsgi-bare",
    "program",
    // One of whose places nobody is, with all that chooses among places.
    "balanced",
    "balanced-kept",
    // Behind files, and behind a prefix that it does not know.
    "behind",
    "prefixed",
];
const SIZES: [usize; 4] = [0, 1, 15_000, 90_000];

/// The model of what an application is told, or the status where it is not asked.
fn expected(framing: Framing, gateway: &str, content: &[u8]) -> Result<String, u16> {
    // All but HTTP have to know the length before the content comes, and these routes keep none.
    if matches!(gateway, "script-bare" | "uwsgi-bare") && framing.is_unsized() {
        return Err(411);
    }
    let content = if framing.has_content() { content } else { &[] };
    // A program of the shell counts and does not compare.
    Ok(if gateway == "program" { format!("bytes={}", content.len()) } else { report(content) })
}

fn start(engine: Engine, backends: &Backends) -> Server {
    let (http, fastcgi) = (backends.http, backends.fastcgi);
    let (scgi, uwsgi) = (backends.scgi, backends.uwsgi);
    let places = format!(
        "to = [\"http://127.0.0.1:1\", \"http://{http}\"], balance = \"least-time\", sticky = {{ set_cookie = \"place\" }}, \
         retry = {{ status = [503], tries = 2 }}"
    );
    let config = format!(
        "limit_exempt = []\ntrusted_proxies = [\"127.0.0.1\"]\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n\
         [[site.route]]\nmatch = \"/proxy/*\"\nproxy = \"http://{http}\"\n\
         [[site.route]]\nmatch = \"/kept/*\"\nproxy = {{ to = \"http://{http}\", buffer = true }}\n\
         [[site.route]]\nmatch = \"/script/*\"\nfastcgi = {{ to = \"{fastcgi}\", extensions = [] }}\n\
         [[site.route]]\nmatch = \"/saved/*\"\nfastcgi = {{ to = \"{fastcgi}\", extensions = [], buffer = true }}\n\
         [[site.route]]\nmatch = \"/scgi/*\"\nscgi = \"{scgi}\"\n\
         [[site.route]]\nmatch = \"/uwsgi/*\"\nuwsgi = \"{uwsgi}\"\n\
         [[site.route]]\nmatch = \"/script-bare/*\"\nfastcgi = {{ to = \"{fastcgi}\", extensions = [], buffer = false }}\n\
         [[site.route]]\nmatch = \"/uwsgi-bare/*\"\nuwsgi = {{ to = \"{uwsgi}\", buffer = false }}\n\
         [[site.route]]\nmatch = \"/program/*\"\ncgi = true\n\
         [[site.route]]\nmatch = \"/balanced/*\"\nproxy = {{ {places} }}\n\
         [[site.route]]\nmatch = \"/balanced-kept/*\"\nproxy = {{ {places}, buffer = true }}\n\
         [[site.route]]\nmatch = \"/behind/*\"\ntry = [\"$path\"]\nproxy = \"http://{http}\"\n\
         [[site.route]]\nmatch = \"/prefixed/*\"\nproxy = \"http://{http}/within\"\nstrip_prefix = \"/prefixed\"\n\
         [[site.route]]\nmatch = \"/closed/*\"\naccess = {{ users = [\"ada\"] }}\n\
         proxy = {{ to = \"http://{http}\", body_bytes_max = 10 }}\n\
         [[site.route]]\nmatch = \"/limited/*\"\nproxy = {{ to = \"http://{http}\", body_bytes_max = 10 }}\n\
         [[site.route]]\nmatch = \"/small/*\"\nproxy = {{ to = \"http://{http}\", body_bytes_max = 10 }}\n\
         [[site.route]]\nmatch = \"/fixed/*\"\nrespond = {{ status = 410, text = \"gone\" }}\n\
         [[site.route]]\nmatch = \"/moved/*\"\nredirect = {{ to = \"/elsewhere\", status = 308 }}\n\
         [[site.limit]]\npath = \"/limited/\"\nrequests = \"1/h burst 1\"\n"
    );
    let echo = "#!/bin/sh\nbytes=$(cat | wc -c)\nprintf 'Content-Type: text/plain\\r\\n\\r\\nbytes=%s' \"$bytes\"\n";
    let says = "#!/bin/sh\nannounced=${PATH_INFO#/}\nprintf 'Content-Type: text/plain\\r\\nContent-Length: %s\\r\\n\\r\\n' \"${announced%/*}\"\n\
                [ \"$REQUEST_METHOD\" = HEAD ] || head -c \"${announced#*/}\" /dev/zero | tr '\\0' x\n";
    let launch = Launch::new(engine).argument("--h2c").config(&config).file("file.txt", "file\n");
    let launch = launch.file("program/echo", echo).file("program/says", says);
    for name in ["echo", "says"] {
        let path = launch.site().join("program").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is there");
    }
    launch.start()
}

/// The fields by which a trusted proxy names a client, so that limits are for it.
const FROM: (&str, &str) = ("x-forwarded-for", "198.51.100.1");

/// An answer: its status, its content, and whether the content was whole.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    status: u16,
    content: Vec<u8>,
    is_whole: bool,
}

const NOTHING: Came = Came { status: 0, content: Vec::new(), is_whole: false };

fn receive<S: Read + Write>(client: &mut Client<S>, method: &str) -> Came {
    let Ok(mut head) = client.receive_head() else { return NOTHING };
    while head.status == 100 {
        let Ok(next) = client.receive_head() else { return NOTHING };
        head = next;
    }
    let status = head.status;
    if method == "HEAD" || matches!(status, 204 | 304) {
        return Came { status, content: Vec::new(), is_whole: true };
    }
    if head.field("Transfer-Encoding").is_some() {
        let content = client.receive_chunks();
        return Came { status, is_whole: content.is_ok(), content: content.unwrap_or_default() };
    }
    let Some(length) = head.field("Content-Length").and_then(|length| length.parse::<usize>().ok()) else {
        return Came { status, content: client.receive_rest(), is_whole: true };
    };
    match client.receive_exactly(length) {
        Ok(content) => Came { status, content, is_whole: true },
        Err(_) => Came { status, content: client.receive_rest(), is_whole: false },
    }
}

/// Sends a request of HTTP/1.x with its content, by another thread, so that an early answer is read while content is
/// still sent.
fn ask_1(client: &mut Client<TcpStream>, framing: Framing, method: &str, target: &str, content: &[u8]) -> Came {
    let version = if framing == Framing::Old { "1.0" } else { "1.1" };
    let mut bytes = format!("{method} {target} HTTP/{version}\r\nHost: a\r\n{}: {}\r\n", FROM.0, FROM.1);
    match framing {
        Framing::Length | Framing::Old => bytes += &format!("Content-Length: {}\r\n", content.len()),
        Framing::Expected => bytes += &format!("Content-Length: {}\r\nExpect: 100-continue\r\n", content.len()),
        Framing::Chunked => bytes += "Transfer-Encoding: chunked\r\n",
        _ => {}
    }
    client.send((bytes + "\r\n").as_bytes());
    let mut sends = client.stream.try_clone().expect("there are descriptors");
    std::thread::scope(|scope| {
        if framing == Framing::Expected && !content.is_empty() {
            // What is not asked for is not sent.
            let Ok(interim) = client.receive_head() else { return NOTHING };
            if interim.status != 100 {
                let length = interim.field("Content-Length").and_then(|length| length.parse().ok()).unwrap_or(0);
                let content = if method == "HEAD" { Ok(Vec::new()) } else { client.receive_exactly(length) };
                return Came {
                    status: interim.status,
                    is_whole: content.is_ok(),
                    content: content.unwrap_or_default(),
                };
            }
        }
        let sent = scope.spawn(move || {
            // A server that has answered early may take no more.
            let _ = match framing {
                Framing::Chunked => content
                    .chunks(7_000)
                    .try_for_each(|chunk| {
                        sends.write_all(&[format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
                    })
                    .and_then(|()| sends.write_all(b"0\r\n\r\n")),
                _ if framing.has_content() => sends.write_all(content),
                _ => Ok(()),
            };
        });
        let came = receive(client, method);
        sent.join().expect("it does not panic");
        came
    })
}

fn ask_2(client: &mut Http2, framing: Framing, method: &str, target: &str, content: &[u8]) -> Came {
    let mut request = Request::builder().method(method).uri(format!("http://a{target}")).header(FROM.0, FROM.1);
    if framing == Framing::Http2Length {
        request = request.header("content-length", content.len());
    }
    let body = if framing.has_content() { content.to_vec() } else { Vec::new() };
    let request = request.body(body).expect("it is valid");
    match client.try_ask_for_part(request, framing.has_content()) {
        Some((status, content, is_whole)) => Came { status, content, is_whole },
        None => NOTHING,
    }
}

/// A client of either version, on a connection of its own.
enum Asker {
    Http1(Client<TcpStream>),
    Http2(Box<Http2>),
}

impl Asker {
    fn new(server: &Server, framing: Framing) -> Asker {
        match framing {
            Framing::Http2None | Framing::Http2Length | Framing::Http2Unsized => {
                Asker::Http2(Box::new(Http2::connect(server.address())))
            }
            _ => Asker::Http1(server.connect()),
        }
    }

    fn ask(&mut self, framing: Framing, method: &str, target: &str, content: &[u8]) -> Came {
        match self {
            Asker::Http1(client) => ask_1(client, framing, method, target, content),
            Asker::Http2(client) => ask_2(client, framing, method, target, content),
        }
    }
}

#[test]
fn content_reaches_every_application_as_it_was_sent() {
    let mut differences = Differences::default();
    for engine in engines() {
        let backends = Backends::start();
        let server = start(*engine, &backends);
        for (framing, gateway) in FRAMINGS.iter().flat_map(|framing| GATEWAYS.map(|gateway| (*framing, gateway))) {
            for method in METHODS {
                for bytes in SIZES {
                    let is_few = matches!(method, "POST" | "DELETE" | "GET") || bytes == 15_000;
                    if !(is_whole() || is_few) || !framing.has_content() && bytes > 0 {
                        continue;
                    }
                    let content = pattern(bytes, 5);
                    let mut asker = Asker::new(&server, framing);
                    let target = format!("/{gateway}/echo");
                    let came = asker.ask(framing, method, &target, &content);
                    let said = String::from_utf8_lossy(&came.content).into_owned();
                    let is_right = match expected(framing, gateway, &content) {
                        Ok(told) => came.status == 200 && said.starts_with(&told),
                        // That nothing comes may be known when the head is there, or not.
                        Err(status) => came.status == status || content.is_empty() && said.starts_with(&report(&[])),
                    };
                    // What has no content is not announced to have some.
                    let is_none = !framing.has_content() && gateway != "program";
                    let is_right = is_right
                        && (!is_none
                            || said.ends_with("framing=none")
                            || bytes == 0 && said.ends_with("framing=length"));
                    let fault = (!is_right).then(|| format!("status {}: {said:.100}", came.status));
                    differences.count(|| format!("{engine:?} {framing:?} {method} {target} {bytes}"), fault);
                }
            }
        }
        server.finish();
    }
    differences.settle("content", 500);
}

/// The model of what is answered without an application: what is asked first counts first.
fn early(target: &str, framing: Framing, bytes: usize) -> Option<u16> {
    match target {
        "/closed/echo" => Some(401),
        "/limited/echo" => Some(429),
        "/moved/x" => Some(308),
        "/fixed/x" => Some(410),
        "/file.txt" => Some(405),
        "/small/echo" if framing.has_content() && bytes > 10 => Some(413),
        _ => None,
    }
}

#[test]
fn early_answers_come_first_and_leave_the_connection_in_step() {
    let mut differences = Differences::default();
    for engine in engines() {
        let backends = Backends::start();
        let server = start(*engine, &backends);
        // The limit is used up.
        let _ = Asker::new(&server, Framing::Length).ask(Framing::Length, "POST", "/limited/echo", b"x");
        for (framing, target) in FRAMINGS.iter().flat_map(|framing| {
            ["/closed/echo", "/limited/echo", "/small/echo", "/moved/x", "/fixed/x", "/file.txt"]
                .map(|target| (*framing, target))
        }) {
            for method in ["POST", "PUT", "DELETE"] {
                for bytes in [0, 5, 20, 70_000, 3_000_000] {
                    if !framing.has_content() && bytes > 0 {
                        continue;
                    }
                    let content = pattern(bytes, 5);
                    let mut asker = Asker::new(&server, framing);
                    let before = backends.asked();
                    let came = asker.ask(framing, method, target, &content);
                    let case = || format!("{engine:?} {framing:?} {method} {target} {bytes}");
                    let Some(status) = early(target, framing, bytes) else {
                        let fault = (came.status != 200).then(|| format!("status {}", came.status));
                        differences.count(case, fault);
                        continue;
                    };
                    let mut fault = (came.status != status || !came.is_whole)
                        .then(|| format!("status {} for {status}, whole {}", came.status, came.is_whole));
                    // Content that comes in chunks is known to be too long only when it is there.
                    let may_be_asked = target == "/small/echo" && framing.is_unsized();
                    if backends.asked() != before && !may_be_asked {
                        fault.get_or_insert("the application was asked".to_owned());
                    }
                    // The connection goes on in step, or has ended: nothing else is answered on it.
                    if framing != Framing::Old {
                        let next = match asker {
                            Asker::Http1(_) if framing == Framing::Expected => NOTHING,
                            _ => asker.ask(
                                if let Asker::Http1(_) = asker { Framing::None } else { Framing::Http2None },
                                "GET",
                                "/file.txt",
                                &[],
                            ),
                        };
                        let is_in_step = next.status == 0 || (next.status == 200 && next.content == b"file\n");
                        if !is_in_step {
                            fault.get_or_insert(format!("the next answer is {next:?}"));
                        }
                    }
                    differences.count(case, fault);
                }
            }
        }
        server.finish();
    }
    differences.settle("early answers", 300);
}

/// The model of what arrives of an answer that announces `announced` bytes and has `sent`.
fn arrives(announced: usize, sent: usize) -> (usize, bool) {
    (announced.min(sent), sent >= announced)
}

#[test]
fn answers_have_the_length_that_they_announce_or_are_broken_off() {
    let mut differences = Differences::default();
    for engine in engines() {
        let backends = Backends::start();
        let server = start(*engine, &backends);
        for (framing, gateway) in [Framing::None, Framing::Old, Framing::Http2None]
            .iter()
            .flat_map(|framing| GATEWAYS.map(|gateway| (*framing, gateway)))
        {
            for announced in [0_usize, 3, 70_000, 1_000_000] {
                for sent in [0, announced.saturating_sub(1), announced, announced + 1, announced + 70_000] {
                    for method in ["GET", "HEAD", "POST"] {
                        let target = format!("/{gateway}/says/{announced}/{sent}");
                        let mut asker = Asker::new(&server, framing);
                        let came = asker.ask(framing, method, &target, &[]);
                        let (bytes, is_whole) = arrives(announced, sent);
                        // An answer of which nothing has left may be a 502 instead of one that is broken off.
                        let is_told = !is_whole && came.status == 502 && method != "HEAD";
                        let is_right = match method {
                            "HEAD" => came.status == 200 && came.content.is_empty(),
                            _ if is_whole => came == Came { status: 200, content: vec![b'x'; bytes], is_whole: true },
                            _ => !came.is_whole && came.content.len() <= bytes,
                        };
                        let fault = (!is_right && !is_told).then(|| {
                            format!("status {}, {} bytes, whole {}", came.status, came.content.len(), came.is_whole)
                        });
                        differences.count(|| format!("{engine:?} {framing:?} {method} {target}"), fault);
                    }
                }
            }
        }
        server.finish();
    }
    differences.settle("answers", 500);
}
