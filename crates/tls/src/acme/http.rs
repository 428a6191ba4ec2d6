//! HTTPS as an ACME client needs it: one request after the other, each over a connection of its own, in a thread that
//! may wait.
//!
//! Owns: the connection, the time that one request may take, and the most that an answer may be. Is what `instant-acme`
//! asks by, in the place of an asynchronous client: the future of a request has done all of it when it is polled for
//! the first time.

use std::fmt;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use lamna_proto::client::{ResponseDecoder, Step};

use crate::client::Trust;

/// How long one address may take to accept a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// How long the peer may stay silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long a request may take in all.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Bytes of an answer. Chains have some ten thousand.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Fields of an answer.
const FIELDS_MAX: usize = 64;

/// An HTTPS client with the given trust.
#[derive(Clone, Debug)]
pub struct Https {
    trust: Trust,
    /// Seconds for which the peer has asked to be left alone, of the last answer that said so.
    retry_after: Arc<AtomicU64>,
}

type Answer = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

impl Https {
    /// One that trusts by `trust`.
    pub fn new(trust: Trust) -> Https {
        Https { trust, retry_after: Arc::new(AtomicU64::new(0)) }
    }

    /// For how many seconds the peer has asked to be left alone since the last call; 0 if it has not.
    pub fn take_retry_after(&self) -> u64 {
        self.retry_after.swap(0, Relaxed)
    }

    fn exchange(&self, request: &Request<()>, content: &[u8]) -> io::Result<Response<Bytes>> {
        let uri = request.uri();
        let host = uri.host().ok_or_else(|| invalid("a URL without a host"))?;
        if uri.scheme_str() != Some("https") {
            return Err(invalid("the certificate authority names a URL that is not https"));
        }
        let end = Instant::now() + TIME_MAX;
        let socket = connect(host, uri.port_u16().unwrap_or(443))?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        socket.set_write_timeout(Some(SILENCE_MAX))?;
        let mut stream = self.trust.connect(host, socket)?;
        stream.write_all(&message(request, content))?;
        stream.flush()?;
        let answer = receive(&mut stream, request.method() == http::Method::HEAD, end)?;
        if matches!(answer.status().as_u16(), 429 | 503) {
            let seconds =
                answer.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
            self.retry_after.store(seconds.unwrap_or(0), Relaxed);
        }
        Ok(answer)
    }
}

impl HttpClient for Https {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Answer {
        let client = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // A body as a response has it is one that can be taken as a whole.
            let mut body = BytesResponse::from(Response::new(body)).body;
            let content = body.into_bytes().await.map_err(Error::Other)?;
            let request = Request::from_parts(parts, ());
            let answer = client.exchange(&request, &content).map_err(|error| {
                let host = request.uri().authority().map_or("", |authority| authority.as_str());
                Error::Other(Box::new(Unreachable { host: host.to_owned(), error }))
            })?;
            let (parts, content) = answer.into_parts();
            Ok(BytesResponse { parts, body: Box::new(content) })
        })
    }
}

/// The certificate authority cannot be asked.
#[derive(Debug)]
struct Unreachable {
    host: String,
    error: io::Error,
}

impl fmt::Display for Unreachable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} cannot be asked: {}", self.host, self.error)
    }
}

impl std::error::Error for Unreachable {}

fn invalid(words: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// The first address that accepts.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in (name, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn message(request: &Request<()>, content: &[u8]) -> Vec<u8> {
    let (uri, method) = (request.uri(), request.method());
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut message = format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n").into_bytes();
    // Of the program, and behind it of the library (RFC 8555 6.1).
    message.extend(concat!("User-Agent: lamna/", env!("CARGO_PKG_VERSION")).as_bytes());
    let library = request.headers().get("user-agent").map_or(&b""[..], |value| value.as_bytes());
    message.extend([b" ", library, b"\r\n"].concat());
    for (name, value) in request.headers().iter().filter(|(name, _)| *name != "user-agent") {
        message.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    if method == http::Method::POST {
        message.extend(format!("Content-Length: {}\r\n", content.len()).into_bytes());
    }
    message.extend(b"\r\n");
    message.extend(content);
    message
}

/// An answer as a whole.
fn receive(stream: &mut impl Read, to_head: bool, end: Instant) -> io::Result<Response<Bytes>> {
    let (mut input, mut content) = (Vec::new(), Vec::new());
    let (mut decoder, mut head) = (ResponseDecoder::new(), None);
    let mut received = [0; 8192];
    loop {
        loop {
            match decoder.decode(&input, to_head).map_err(invalid)? {
                Step::Incomplete => break,
                Step::Head(consumed, found) => {
                    if !found.interim {
                        head = Some(parts_of(&input[..consumed])?);
                    }
                    input.drain(..consumed);
                }
                Step::Content { consumed, content: range } => {
                    content.extend_from_slice(&input[range]);
                    input.drain(..consumed);
                    // The end of content of a known length is said by the next step.
                    if consumed == 0 {
                        break;
                    }
                }
                Step::Ended(_) => {
                    let head = head.ok_or_else(|| invalid("an answer without a head"))?;
                    return Ok(head.map(|()| Bytes::from(content)));
                }
            }
        }
        if input.len() + content.len() > ANSWER_BYTES_MAX {
            return Err(invalid("its answer is longer than any that is expected"));
        }
        if Instant::now() > end {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "its answer takes too long"));
        }
        match stream.read(&mut received) {
            // Where the length is not known an end without close_notify may be a part of the answer only: rustls makes
            // that an error.
            Ok(0) => {
                decoder.handle_end().map_err(invalid)?;
                let head = head.ok_or_else(|| invalid("the connection ended before the answer"))?;
                return Ok(head.map(|()| Bytes::from(content)));
            }
            Ok(count) => input.extend_from_slice(&received[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Status and fields of a head.
fn parts_of(head: &[u8]) -> io::Result<Response<()>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let _ = parsed.parse(head).map_err(invalid)?;
    let status = parsed.code.ok_or_else(|| invalid("an answer without a status"))?;
    let mut response = Response::builder().status(status);
    for field in parsed.headers.iter() {
        response = response.header(field.name, field.value);
    }
    response.body(()).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str, piece: usize) -> io::Result<Response<Bytes>> {
        /// Gives out so many bytes at a time.
        struct Pieces<'t>(&'t [u8], usize);
        impl Read for Pieces<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let count = self.1.min(self.0.len()).min(into.len());
                into[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        receive(&mut Pieces(text.as_bytes(), piece), false, Instant::now() + TIME_MAX)
    }

    #[test]
    fn answers_of_every_framing_arrive_whole_however_they_are_divided() {
        let head = "HTTP/1.1 201 Created\r\nReplay-Nonce: abc\r\n";
        let framings = [
            "Content-Length: 5\r\n\r\nhello",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "\r\nhello",
        ];
        for framing in framings {
            for piece in [1, 3, 1000] {
                let answer = received(&format!("{head}{framing}"), piece).unwrap();
                assert_eq!((answer.status().as_u16(), &answer.body()[..]), (201, &b"hello"[..]), "{framing:?}");
                assert_eq!(answer.headers()["replay-nonce"], "abc");
            }
        }
        let empty = received("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1).unwrap();
        assert!(empty.body().is_empty());
    }

    #[test]
    fn what_is_no_answer_or_is_cut_off_is_an_error() {
        for text in ["", "SSH-2.0\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "HTTP/1.1 200 OK\r\n"] {
            assert!(received(text, 7).is_err(), "{text:?}");
        }
        let long =
            format!("HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n{}", "a".repeat(ANSWER_BYTES_MAX + 10_000));
        assert!(received(&long, 8192).is_err());
    }
}
