//! What is answered is the same whatever it is asked by: the scripts of `suite/`, as far as they are not about the
//! syntax of HTTP/1, over HTTP/1.1 and HTTP/2, in clear text and over TLS, with every engine.
//!
//! One server answers all four at once: in clear text at a Unix socket, over TLS at a port. Each answer is what the
//! script says, and the same as that of HTTP/1.1 in clear text: status, fields and content.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderValue, Request};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::client::{Client, PATIENCE, Response};
use crate::engine::{Engine, for_engines};
use crate::http2::Http2;
use crate::script::{self, Asked};
use crate::server::{Launch, Server};
use crate::tls::{TlsStream, connect, trusting};
use crate::tree;

for_engines!([
    mp = MP,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    proactor = PROACTOR,
] => [files_are_answered_alike, sites_are_answered_alike]);

for_engines!([amped_caches_off = AMPED_CACHES_OFF] => [files_are_answered_alike]);

fn files_are_answered_alike(engine: Engine) {
    let scripts = [
        include_str!("suite/requests.txt"),
        include_str!("suite/fields.txt"),
        include_str!("suite/methods.txt"),
        include_str!("suite/files.txt"),
        include_str!("suite/conditions.txt"),
        include_str!("suite/ranges.txt"),
        include_str!("suite/codings.txt"),
        include_str!("suite/paths.txt"),
        include_str!("suite/errors.txt"),
    ];
    let cases = ask_all(engine, &scripts, "");
    assert!(cases >= 140, "only {cases} cases are of every version");
}

fn sites_are_answered_alike(engine: Engine) {
    let listings = "[[site]]\nroot = \"site\"\nbrowse = true\n";
    let app = "[[site]]\nroot = \"site/app\"\nspa = true\n";
    let cases = ask_all(engine, &[include_str!("suite/listings.txt")], listings)
        + ask_all(engine, &[include_str!("suite/sites.txt")], include_str!("suite/sites.toml"))
        + ask_all(engine, &[include_str!("suite/single_page.txt")], app);
    assert!(cases >= 30, "only {cases} cases are of every version");
}

/// Asks all of `scripts` by each protocol. Returns how many cases they have for all of them.
fn ask_all(engine: Engine, scripts: &[&str], config: &str) -> usize {
    let launch = Launch::new(engine).config(config).argument("--tls").argument("--h2c");
    tree::plant(launch.directory());
    let path = launch.directory().join("clear");
    let server = launch.argument("--listen").argument(&format!("unix:{}", path.display())).start();
    let mut ways = Ways { trusted: trusting(&server), server, path, http1: None, tls: None, h2c: None, h2: None };
    let (mut failures, mut cases) = (Vec::new(), 0);
    for case in scripts.iter().flat_map(|script| script::parse(script)).filter(|case| case.is_of_every_version()) {
        cases += 1;
        let mut first: Option<Vec<Comparable>> = None;
        for protocol in PROTOCOLS {
            let told = case.run_by(&ways.server.site(), |asked, has_content| ways.ask(protocol, asked, has_content));
            let fault = match (told, &first) {
                (Err(fault), _) => fault,
                (Ok(answers), None) => {
                    first = Some(answers.into_iter().map(comparable).collect());
                    continue;
                }
                (Ok(answers), Some(first)) => {
                    let answers: Vec<Comparable> = answers.into_iter().map(comparable).collect();
                    match answers.iter().zip(first).find(|(one, other)| one != other) {
                        None => continue,
                        Some((one, other)) => {
                            format!("{}\n  is not what HTTP/1.1 says:\n{}", told_of(one), told_of(other))
                        }
                    }
                }
            };
            failures.push(format!("{} ({}), by {protocol:?}:\n  {fault}", case.name, case.reference));
        }
    }
    let Ways { server, .. } = ways;
    server.finish();
    assert!(failures.is_empty(), "{} cases failed\n\n{}\n", failures.len(), failures.join("\n"));
    cases
}

#[derive(Clone, Copy, Debug)]
enum Protocol {
    Http1,
    Http1OverTls,
    H2c,
    H2,
}

const PROTOCOLS: [Protocol; 4] = [Protocol::Http1, Protocol::Http1OverTls, Protocol::H2c, Protocol::H2];

/// Connections to a server, which go on from case to case.
struct Ways {
    server: Server,
    trusted: Arc<ClientConfig>,
    /// Where it speaks in clear text.
    path: PathBuf,
    http1: Option<Client<UnixStream>>,
    tls: Option<Client<TlsStream>>,
    h2c: Option<Http2>,
    h2: Option<Http2>,
}

impl Ways {
    fn ask(&mut self, protocol: Protocol, asked: &Asked, has_content: bool) -> Result<Response, String> {
        let Ways { server, trusted, path, http1, tls, h2c, h2 } = self;
        match protocol {
            Protocol::Http1 => by_http1(http1, asked, has_content, || {
                let stream = UnixStream::connect(&path).expect("the server listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
                Client::new(stream)
            }),
            Protocol::Http1OverTls => by_http1(tls, asked, has_content, || connect(server, trusted)),
            Protocol::H2c => by_http2(h2c.get_or_insert_with(|| Http2::connect_unix(path.clone())), asked, "http"),
            Protocol::H2 => {
                let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
                let client = h2.get_or_insert_with(|| Http2::connect_secured(server.address(), trusted, name));
                by_http2(client, asked, "https")
            }
        }
    }
}

fn by_http1<S: Read + Write>(
    kept: &mut Option<Client<S>>,
    asked: &Asked,
    has_content: bool,
    connect: impl FnOnce() -> Client<S>,
) -> Result<Response, String> {
    let Asked { method, target, host, fields, content } = asked;
    let mut client = kept.take().unwrap_or_else(connect);
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
    fields.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    if !content.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", content.len()));
    }
    client.send(&[head.as_bytes(), b"\r\n", content].concat());
    let response = client.receive(has_content)?;
    response.check()?;
    if response.field("Connection") != Some("close") {
        *kept = Some(client);
    }
    Ok(response)
}

fn by_http2(client: &mut Http2, asked: &Asked, scheme: &str) -> Result<Response, String> {
    let Asked { method, target, host, fields, content } = asked;
    let mut request = Request::builder().method(&**method).uri(format!("{scheme}://{host}{target}"));
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
        request = request.header(name, value);
    }
    let request = request.body(content.clone()).map_err(|error| format!("it cannot be asked: {error}"))?;
    let answer = client.ask(vec![request]).remove(0).map_err(|error| error.to_string())?;
    let (status, reason) = (answer.status, String::new());
    Ok(Response { status, reason, fields: answer.fields, content: answer.content })
}

/// An answer without what differs between two answers to the same request: status, fields by name, content.
type Comparable = (u16, Vec<(String, String)>, Vec<u8>);

fn comparable(response: Response) -> Comparable {
    const BOUNDARY: &str = "multipart/byteranges; boundary=";
    let Response { status, fields, mut content, .. } = response;
    let boundary = fields.iter().find_map(|(_, value)| value.strip_prefix(BOUNDARY)).map(str::to_owned);
    if let Some(boundary) = &boundary {
        let mut at = 0;
        while let Some(found) = content[at..].windows(boundary.len()).position(|part| part == boundary.as_bytes()) {
            at += found;
            content.splice(at..at + boundary.len(), *b"boundary");
        }
    }
    let fields = fields.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let mut fields: Vec<_> =
        fields.filter(|(name, _)| !["date", "connection", "keep-alive"].contains(&&**name)).collect();
    for (_, value) in &mut fields {
        if value.starts_with(BOUNDARY) {
            *value = BOUNDARY.to_owned();
        }
    }
    fields.sort();
    (status, fields, content)
}

fn told_of((status, fields, content): &Comparable) -> String {
    format!(
        "    {status} {fields:?}, {} bytes: {:?}",
        content.len(),
        String::from_utf8_lossy(&content[..content.len().min(100)])
    )
}
