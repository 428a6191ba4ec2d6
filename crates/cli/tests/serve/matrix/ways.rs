//! The ways in: versions, transports, and how a request names its host.
//!
//! Owns: the clients of the matrices, and the application and the service behind their servers, which end with the
//! test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use http::Request;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::client::{APPLICATION_PATIENCE, Client, Response};
use crate::http2::Http2;
use crate::server::Server;
use crate::tls::{TlsStream, connect_as};

/// How a request comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// HTTP/1.1 over TCP.
    Plain,
    /// HTTP/1.0 with a host.
    Old,
    /// HTTP/1.0 without one.
    OldWithoutHost,
    /// HTTP/1.1 without a host.
    WithoutHost,
    /// HTTP/1.1 with a host that is empty.
    EmptyHost,
    /// A target in absolute form.
    AbsoluteForm,
    /// The same, beside a field that names another host.
    AbsoluteFormOfAnother,
    /// The host in capitals.
    OtherCase,
    /// The host with a port and a dot behind it.
    HostWithPortAndDot,
    /// A host that no site has.
    UnknownHost,
    /// HTTP/2 in clear text.
    H2c,
    /// HTTP/1.1 behind a header of the PROXY protocol.
    ProxyProtocol,
    /// The port of plain HTTP of a server that has certificates.
    PlainPort,
    /// HTTP/1.0 without a host at that port.
    PlainPortOldWithoutHost,
    /// HTTP/1.1 over TLS.
    Tls,
    /// The same in a session that is resumed.
    TlsResumed,
    /// HTTP/2 over TLS.
    TlsH2,
}

/// The ways of a server without certificates.
pub(super) const CLEAR: &[Way] = &[
    Way::Plain,
    Way::Old,
    Way::OldWithoutHost,
    Way::WithoutHost,
    Way::EmptyHost,
    Way::AbsoluteForm,
    Way::AbsoluteFormOfAnother,
    Way::OtherCase,
    Way::HostWithPortAndDot,
    Way::UnknownHost,
    Way::H2c,
];

/// The ways of a server that has certificates.
pub(super) const SECURED: &[Way] =
    &[Way::Tls, Way::TlsResumed, Way::TlsH2, Way::PlainPort, Way::PlainPortOldWithoutHost];

impl Way {
    /// Whether nothing at all is served so.
    pub(super) fn is_refused(self) -> bool {
        matches!(self, Way::WithoutHost | Way::EmptyHost | Way::PlainPort | Way::PlainPortOldWithoutHost)
    }

    pub(super) fn is_secured(self) -> bool {
        matches!(self, Way::Tls | Way::TlsResumed | Way::TlsH2)
    }

    fn is_old(self) -> bool {
        matches!(self, Way::Old | Way::OldWithoutHost | Way::PlainPortOldWithoutHost)
    }

    fn is_http2(self) -> bool {
        matches!(self, Way::H2c | Way::TlsH2)
    }

    /// The head of a request of HTTP/1.x up to its other fields.
    fn head(self, method: &str, target: &str) -> String {
        match self {
            Way::Old => format!("{method} {target} HTTP/1.0\r\nHost: site.test\r\n"),
            Way::OldWithoutHost | Way::PlainPortOldWithoutHost => format!("{method} {target} HTTP/1.0\r\n"),
            Way::WithoutHost => format!("{method} {target} HTTP/1.1\r\n"),
            Way::EmptyHost => format!("{method} {target} HTTP/1.1\r\nHost:\r\n"),
            Way::AbsoluteForm => format!("{method} http://site.test{target} HTTP/1.1\r\nHost: site.test\r\n"),
            Way::AbsoluteFormOfAnother => format!("{method} http://site.test{target} HTTP/1.1\r\nHost: other.test\r\n"),
            Way::OtherCase => format!("{method} {target} HTTP/1.1\r\nHost: SITE.Test\r\n"),
            Way::HostWithPortAndDot => format!("{method} {target} HTTP/1.1\r\nHost: site.test.:8080\r\n"),
            Way::UnknownHost => format!("{method} {target} HTTP/1.1\r\nHost: unknown.test\r\n"),
            _ => format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\n"),
        }
    }
}

/// An answer, as far as the matrices look at it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// 0 if there is no answer.
    pub(super) status: u16,
    /// Fields and content.
    pub(super) text: String,
}

impl Seen {
    fn nothing(why: &str) -> Seen {
        Seen { status: 0, text: why.to_owned() }
    }

    fn of(status: u16, fields: &[(String, String)], content: &[u8]) -> Seen {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        Seen { status, text: fields.join("\n") + "\n\n" + &String::from_utf8_lossy(content) }
    }
}

impl From<Response> for Seen {
    fn from(response: Response) -> Seen {
        Seen::of(response.status, &response.fields, &response.content)
    }
}

enum Line {
    Plain(Client<TcpStream>),
    Tls(Box<Client<TlsStream>>),
    Http2(Box<Http2>),
}

/// A client that comes in one way, on one connection as long as that lasts.
pub(super) struct Visitor<'a> {
    way: Way,
    server: &'a Server,
    /// Where plain HTTP of a server with certificates is.
    plain_port: Option<SocketAddr>,
    /// For TLS.
    config: Option<Arc<ClientConfig>>,
    /// What is sent first on a connection.
    preamble: String,
    line: Option<Line>,
}

impl<'a> Visitor<'a> {
    pub(super) fn new(way: Way, server: &'a Server) -> Visitor<'a> {
        Visitor { way, server, plain_port: None, config: None, preamble: String::new(), line: None }
    }

    pub(super) fn plain_port(self, plain_port: Option<SocketAddr>) -> Visitor<'a> {
        Visitor { plain_port, ..self }
    }

    pub(super) fn config(self, config: &Arc<ClientConfig>) -> Visitor<'a> {
        // A client of its own has no tickets of others.
        let mut config = ClientConfig::clone(config);
        config.resumption = rustls::client::Resumption::in_memory_sessions(8);
        Visitor { config: Some(Arc::new(config)), ..self }
    }

    pub(super) fn preamble(self, preamble: String) -> Visitor<'a> {
        Visitor { preamble, ..self }
    }

    fn connect(&self) -> Line {
        let at_plain_port = || {
            let mut client = Client::connect(self.plain_port.unwrap_or(self.server.address()));
            client.send(self.preamble.as_bytes());
            client
        };
        let config = || self.config.as_ref().expect("it speaks TLS");
        match self.way {
            Way::H2c => Line::Http2(Box::new(Http2::connect(self.server.address()))),
            Way::TlsH2 => {
                let name = ServerName::try_from("site.test").expect("it is a name");
                Line::Http2(Box::new(Http2::connect_secured(self.server.address(), config(), name)))
            }
            Way::TlsResumed => {
                // The first one fetches a ticket.
                let mut first = connect_as(self.server, config(), "site.test");
                first.send(b"GET /open.html HTTP/1.1\r\nHost: site.test\r\n\r\n");
                first.receive(true).expect("it is for everybody");
                Line::Tls(Box::new(connect_as(self.server, config(), "site.test")))
            }
            Way::Tls => Line::Tls(Box::new(connect_as(self.server, config(), "site.test"))),
            _ => Line::Plain(at_plain_port()),
        }
    }

    /// Asks, on a new connection if the old one has ended. POST and PUT have content.
    pub(super) fn ask(&mut self, method: &str, target: &str, fields: &[(String, String)]) -> Seen {
        let content = if matches!(method, "POST" | "PUT") { "new\n" } else { "" };
        self.ask_with(method, target, fields, content)
    }

    /// The same, with this content.
    pub(super) fn ask_with(&mut self, method: &str, target: &str, fields: &[(String, String)], content: &str) -> Seen {
        for is_last in [false, true] {
            let was_kept = self.line.is_some();
            let mut line = self.line.take().unwrap_or_else(|| self.connect());
            let (seen, is_kept) = match &mut line {
                Line::Plain(client) => ask_1(client, self.way, method, target, fields, content),
                Line::Tls(client) => ask_1(client, self.way, method, target, fields, content),
                Line::Http2(client) => ask_2(client, self.way, method, target, fields, content),
            };
            if is_kept {
                self.line = Some(line);
            }
            if seen.status != 0 || is_last || !was_kept {
                return seen;
            }
        }
        unreachable!("the last try returns")
    }

    /// The same, and once more on a new connection if a kept one is told that the request is for another (RFC 9110
    /// 15.5.20).
    pub(super) fn ask_where_led(&mut self, method: &str, target: &str, fields: &[(String, String)]) -> Seen {
        let was_kept = self.line.is_some();
        let seen = self.ask(method, target, fields);
        if seen.status != 421 || !was_kept {
            return seen;
        }
        self.line = None;
        self.ask(method, target, fields)
    }
}

/// The answer, and whether the connection goes on.
fn ask_1<S: Read + Write>(
    client: &mut Client<S>,
    way: Way,
    method: &str,
    target: &str,
    fields: &[(String, String)],
    content: &str,
) -> (Seen, bool) {
    let mut head = way.head(method, target);
    for (name, value) in fields {
        head += &format!("{name}: {value}\r\n");
    }
    if !content.is_empty() {
        head += &format!("Content-Length: {}\r\n", content.len());
    }
    client.send(format!("{head}\r\n{content}").as_bytes());
    let answered = client.receive_head().and_then(|mut response| {
        let is_sized = response.field("Content-Length").is_some() || response.field("Transfer-Encoding").is_some();
        if matches!(response.status, 204 | 304) || method == "HEAD" {
            return Ok((response, false));
        }
        if let Some(length) = response.field("Content-Length") {
            let length = length.parse().map_err(|_| "no length".to_owned())?;
            response.content = client.receive_exactly(length)?;
        } else if is_sized {
            response.content = client.receive_chunks()?;
        } else {
            response.content = client.receive_rest();
        }
        Ok((response, !is_sized))
    });
    match answered {
        Ok((response, is_over)) => {
            let closes = response.field("Connection").is_some_and(|value| value.contains("close"));
            (response.into(), !is_over && !closes && !way.is_old())
        }
        Err(fault) => (Seen::nothing(&fault), false),
    }
}

fn ask_2(
    client: &mut Http2,
    way: Way,
    method: &str,
    target: &str,
    fields: &[(String, String)],
    content: &str,
) -> (Seen, bool) {
    let scheme = if way.is_secured() { "https" } else { "http" };
    // The path begins behind the authority, whatever it begins with.
    let request = Request::builder().method(method).uri(format!("{scheme}://site.test{target}"));
    let request = fields.iter().fold(request, |request, (name, value)| request.header(name, value));
    match client.try_ask(request.body(content.as_bytes().to_vec()).expect("it is valid")) {
        Ok(answer) => (Seen::of(answer.status, &answer.fields, &answer.content), true),
        Err(error) => (Seen::nothing(&error.to_string()), false),
    }
}

/// What asks for a thing in the name of somebody.
pub(super) fn is_http2(way: Way) -> bool {
    way.is_http2()
}

/// An application at any path, and a service at `/verify`. It ends with the test.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

impl Backend {
    pub(super) fn start() -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
        let address = listener.local_addr().expect("it is bound");
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).expect("a fresh socket takes options");
                thread::spawn(move || converse(stream));
            }
        });
        Backend { address, is_over }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Answers until the connection ends: the first part of the path is the rule that the thing is behind.
fn converse(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if let Some(length) = field("Content-Length:") {
            std::io::copy(&mut reader.by_ref().take(length.parse().ok()?), &mut std::io::sink()).ok()?;
        } else if field("Transfer-Encoding:").is_some() {
            let mut line = String::new();
            while !line.ends_with("0\r\n\r\n") {
                reader.read_line(&mut line).ok()?;
            }
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let answer = match path {
            "/verify" if field("Cookie:") == Some("session=ada") => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            "/verify" => "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_owned(),
            _ => {
                let secret = format!("SECRET-{}", path.split('/').nth(1)?);
                let head = format!("HTTP/1.1 200 OK\r\nX-Secret: {secret}\r\nContent-Length: {}\r\n\r\n", secret.len());
                if method == "HEAD" { head } else { head + &secret }
            }
        };
        stream.write_all(answer.as_bytes()).ok()?;
    }
}
