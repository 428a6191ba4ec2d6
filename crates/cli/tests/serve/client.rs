//! A client that sees every byte: sends what it is told, and reads responses strictly (RFC 9112 4 to 6).
//!
//! Guarantees: every wait is bounded by [`PATIENCE`], so that a server that hangs fails a test instead of hanging it.
//! Does not follow, retry or repair anything.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// How long a test waits for a byte, or for something that happens by itself. Only a broken server makes a test wait
/// this long, however busy the machine is: a background thread gets a thirtieth of a processor that other tests keep
/// busy, and has taken more than 20 s for 0.8 s of work.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// How long an application of a test waits for its next request. Connections that the server keeps and does not use end
/// then, if the application has not ended before.
pub(crate) const APPLICATION_PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
#[derive(Debug)]
pub(crate) struct Client<S> {
    /// The socket.
    pub(crate) stream: S,
    /// Received and not yet read as a response.
    unread: Vec<u8>,
}

/// One response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// The reason phrase.
    pub(crate) reason: String,
    /// Names as received, values without surrounding white space.
    pub(crate) fields: Vec<(String, String)>,
    /// The content.
    pub(crate) content: Vec<u8>,
}

impl Client<TcpStream> {
    /// Leaves, so that the other side learns it at once: an end alone would be that of who goes on reading.
    pub(crate) fn reset(self) {
        set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("an open socket takes options");
    }

    /// Connects, with bounded waits and without Nagle's algorithm, so that each send is a segment of its own.
    pub(crate) fn connect(address: SocketAddr) -> Client<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the server listens");
        stream.set_nodelay(true).expect("a fresh socket takes options");
        stream.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
        stream.set_write_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
        Client::new(stream)
    }
}

/// A connection from an address of loopback of its own, 127.0.0.`host`: another client network.
pub(crate) fn connect_from(host: u8, address: SocketAddr) -> TcpStream {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).expect("sockets");
    bind(&socket, &SocketAddr::from(([127, 0, 0, host], 0))).expect("loopback has many addresses");
    connect(&socket, &address).expect("the server listens");
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true).expect("a fresh socket takes options");
    stream.set_read_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
    stream.set_write_timeout(Some(PATIENCE)).expect("a fresh socket takes options");
    stream
}

/// What a client speaks over.
pub(crate) trait Duplex: Read + Write {
    /// Sends nothing more (a half-closed connection, RFC 9112 9.6).
    fn end_sending(&mut self);
}

impl Duplex for TcpStream {
    fn end_sending(&mut self) {
        // The server may have closed already, which the next read tells.
        let _ = self.shutdown(Shutdown::Write);
    }
}

impl<S: Duplex> Client<S> {
    /// Sends nothing more.
    pub(crate) fn end_sending(&mut self) {
        self.stream.end_sending();
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a connected stream.
    pub(crate) fn new(stream: S) -> Client<S> {
        Client { stream, unread: Vec::new() }
    }

    /// Sends `bytes`. A server that has closed meanwhile is no failure here: what it answered counts.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Sends `bytes` one at a time.
    pub(crate) fn send_slowly(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.send(std::slice::from_ref(byte)));
    }

    /// Sends a GET for `path` and receives the response.
    pub(crate) fn get(&mut self, path: &str) -> Result<Response, String> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
        self.receive(true)
    }

    /// The next response. `has_content` is false for the response to a HEAD.
    ///
    /// # Errors
    /// What is wrong with it, or that it does not come.
    pub(crate) fn receive(&mut self, has_content: bool) -> Result<Response, String> {
        let mut response = self.receive_head()?;
        let without = matches!(response.status, 100..=199 | 204 | 304) || !has_content;
        response.content = match response.field("Content-Length") {
            _ if without => Vec::new(),
            Some(length) => {
                let length = length.parse().map_err(|_| format!("Content-Length is no number: {length:?}"))?;
                self.receive_exactly(length)?
            }
            None if response.field("Transfer-Encoding") == Some("chunked") => self.receive_chunks()?,
            None => return Err(format!("a response without Content-Length: {response:?}")),
        };
        Ok(response)
    }

    /// Content in chunks, without trailer fields.
    ///
    /// # Errors
    /// What is wrong with it, or that it does not come whole.
    pub(crate) fn receive_chunks(&mut self) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        loop {
            let line = loop {
                if let Some(at) = find(&self.unread, b"\r\n") {
                    break self.receive_exactly(at + 2)?;
                }
                self.receive_some().map_err(|fault| format!("{fault} within the content"))?;
            };
            let digits = String::from_utf8_lossy(&line).trim_end().to_owned();
            let bytes = usize::from_str_radix(&digits, 16).map_err(|_| format!("no size of a chunk: {digits:?}"))?;
            let mut chunk = self.receive_exactly(bytes + 2)?;
            if !chunk.ends_with(b"\r\n") {
                return Err("a chunk does not end where it says".to_owned());
            }
            chunk.truncate(bytes);
            content.extend_from_slice(&chunk);
            if bytes == 0 {
                return Ok(content);
            }
        }
    }

    /// The head of the next response; its content is left to be read.
    ///
    /// # Errors
    /// What is wrong with it, or that it does not come.
    pub(crate) fn receive_head(&mut self) -> Result<Response, String> {
        let end = loop {
            if let Some(at) = find(&self.unread, b"\r\n\r\n") {
                break at + 4;
            }
            self.receive_some()?;
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        parse_head(&head).map_err(|fault| format!("{fault} in {:?}", String::from_utf8_lossy(&head)))
    }

    /// The next `length` bytes.
    ///
    /// # Errors
    /// The connection ends first, or nothing comes.
    pub(crate) fn receive_exactly(&mut self, length: usize) -> Result<Vec<u8>, String> {
        while self.unread.len() < length {
            self.receive_some().map_err(|fault| format!("{fault} after {} of {length} bytes", self.unread.len()))?;
        }
        Ok(self.unread.drain(..length).collect())
    }

    /// Everything until the connection ends, however it ends.
    pub(crate) fn receive_rest(&mut self) -> Vec<u8> {
        while self.receive_some().is_ok() {}
        std::mem::take(&mut self.unread)
    }

    /// That the connection ends here, orderly: a reset could have destroyed what was sent before it (RFC 9112 9.6).
    ///
    /// # Errors
    /// What happens instead.
    pub(crate) fn expect_end(&mut self) -> Result<(), String> {
        match self.receive_some() {
            Err(fault) if fault == ENDED => Ok(()),
            Err(fault) => Err(format!("expected the connection to end, but: {fault}")),
            Ok(()) => {
                Err(format!("expected the connection to end, but got {:?}", String::from_utf8_lossy(&self.unread)))
            }
        }
    }

    fn receive_some(&mut self) -> Result<(), String> {
        let mut buffer = [0; 64 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ENDED.to_owned()),
                Ok(bytes) => {
                    self.unread.extend_from_slice(&buffer[..bytes]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err("nothing came".to_owned()),
                Err(error) => return Err(format!("receiving failed: {error}")),
            }
        }
    }
}

/// What is wrong when a connection ends where a response could begin, or in the middle of a head.
pub(crate) const ENDED: &str = "the connection ended";

impl Response {
    /// The value of the field of this name, in any case.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// What every response of the server has to be, whatever was asked.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = |name: &str| self.fields.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name)).count();
        if self.status >= 200 && count("Date") != 1 {
            return Err("RFC 9110 6.6.1: not one Date".to_owned());
        }
        let forbidden = matches!(self.status, 100..=199 | 204);
        if count("Content-Length") > usize::from(!forbidden) {
            return Err("RFC 9110 8.6: Content-Length where it must not be".to_owned());
        }
        const AT_MOST_ONCE: [&str; 13] = [
            "Server",
            "Content-Type",
            "Content-Encoding",
            "Content-Range",
            "ETag",
            "Last-Modified",
            "Location",
            "X-Content-Type-Options",
            "Allow",
            "Accept-Ranges",
            "Vary",
            "Connection",
            "Retry-After",
        ];
        if let Some(name) = AT_MOST_ONCE.iter().find(|name| count(name) > 1) {
            return Err(format!("RFC 9110 5.3: {name} twice"));
        }
        if self.status == 405 && count("Allow") != 1 {
            return Err("RFC 9110 15.5.6: a 405 without Allow".to_owned());
        }
        if self.field("Date").is_some_and(|date| date.starts_with("Thu, 01 Jan 1970")) {
            return Err("the date has not been filled in".to_owned());
        }
        for name in ["Date", "Server", "Content-Type", "ETag", "Last-Modified", "Location", "Content-Range"] {
            if count(name) > 1 {
                return Err(format!("RFC 9110 5.3: {name} more than once"));
            }
        }
        Ok(())
    }
}

fn parse_head(head: &[u8]) -> Result<Response, &'static str> {
    let text = std::str::from_utf8(head).map_err(|_| "bytes that are not UTF-8")?;
    let mut lines = text.strip_suffix("\r\n\r\n").ok_or("no empty line")?.split("\r\n");
    let status_line = lines.next().unwrap_or_default();
    let rest = status_line.strip_prefix("HTTP/1.1 ").ok_or("RFC 9112 4: no HTTP version")?;
    let (code, reason) = rest.split_once(' ').ok_or("RFC 9112 4: no space after the status")?;
    let status = code.parse().ok().filter(|status| (100..600).contains(status)).ok_or("RFC 9112 4: no status")?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("RFC 9112 5: a line that is no field")?;
        let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_token || value.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("RFC 9112 5: a malformed field");
        }
        fields.push((name.to_owned(), value.trim().to_owned()));
    }
    Ok(Response { status, reason: reason.to_owned(), fields, content: Vec::new() })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
