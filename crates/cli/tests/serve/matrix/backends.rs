//! Applications of the matrix of content, over HTTP, FastCGI, SCGI and uwsgi: they tell how much content they got, and answer
//! as their path says.
//!
//! Owns: the applications, which end with the test. `/GATEWAY/echo` reads all content and tells of it;
//! `/GATEWAY/says/N/M` announces N bytes and sends M.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::client::APPLICATION_PATIENCE;
use crate::gateways::variables::{Protocol, take};

/// All of them.
pub(super) struct Backends {
    pub(super) http: SocketAddr,
    pub(super) fastcgi: SocketAddr,
    pub(super) scgi: SocketAddr,
    pub(super) uwsgi: SocketAddr,
    asked: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Backends {
    pub(super) fn start() -> Backends {
        let (asked, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let begin = |converse: fn(TcpStream, &AtomicU64) -> Option<()>| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
            let address = listener.local_addr().expect("it is bound");
            let (asked, is_over) = (asked.clone(), is_over.clone());
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if is_over.load(Relaxed) {
                        return;
                    }
                    stream.set_read_timeout(Some(APPLICATION_PATIENCE)).expect("a fresh socket takes options");
                    let asked = asked.clone();
                    thread::spawn(move || converse(stream, &asked));
                }
            });
            address
        };
        let (http, fastcgi) = (begin(over_http), begin(over_fastcgi));
        let (scgi, uwsgi) = (begin(over_scgi), begin(over_uwsgi));
        Backends { http, fastcgi, scgi, uwsgi, asked, is_over }
    }

    /// How many requests they have had.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }
}

impl Drop for Backends {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        for address in [self.http, self.fastcgi, self.scgi, self.uwsgi] {
            let _ = TcpStream::connect(address);
        }
    }
}

/// A number that tells contents apart.
pub(super) fn sum(content: &[u8]) -> u64 {
    content.iter().fold(7, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// What is told of content, and of what was said of its length.
pub(super) fn report(content: &[u8]) -> String {
    format!("bytes={} sum={}", content.len(), sum(content))
}

/// What is answered: fields of the head, each with its line end, and the content.
fn answer(path: &str, content: &[u8], framing: &str) -> (String, Vec<u8>) {
    let mut parts = path.split('/').skip(2);
    match parts.next() {
        Some("says") => {
            let mut number = || parts.next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
            let (announced, sent) = (number(), number());
            (format!("Content-Length: {announced}\r\n"), vec![b'x'; sent])
        }
        _ => {
            let said = format!("{} framing={framing}", report(content)).into_bytes();
            (format!("Content-Length: {}\r\n", said.len()), said)
        }
    }
}

fn over_http(stream: TcpStream, asked: &AtomicU64) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        asked.fetch_add(1, Relaxed);
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let mut content = Vec::new();
        let mut framing = "none";
        if let Some(length) = field("Content-Length:") {
            framing = "length";
            content.resize(length.parse().ok()?, 0);
            reader.read_exact(&mut content).ok()?;
        } else if field("Transfer-Encoding:").is_some() {
            framing = "chunked";
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).ok()?;
                let bytes = usize::from_str_radix(line.trim(), 16).ok()?;
                let mut chunk = vec![0; bytes + 2];
                reader.read_exact(&mut chunk).ok()?;
                content.extend_from_slice(&chunk[..bytes]);
                if bytes == 0 {
                    break;
                }
            }
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        let (fields, body) = answer(path, &content, framing);
        // The length of such an answer is not to be believed: the connection ends with it.
        let is_last = path.contains("/says/");
        let end = if is_last { "Connection: close\r\n" } else { "" };
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{end}{fields}\r\n").as_bytes()).ok()?;
        if method != "HEAD" {
            stream.write_all(&body).ok()?;
        }
        if is_last {
            return None;
        }
    }
}

fn over_scgi(stream: TcpStream, asked: &AtomicU64) -> Option<()> {
    over_stream(Protocol::Scgi, stream, asked)
}

fn over_uwsgi(stream: TcpStream, asked: &AtomicU64) -> Option<()> {
    over_stream(Protocol::Uwsgi, stream, asked)
}

/// One request for each connection, whose end is that of the answer.
fn over_stream(protocol: Protocol, stream: TcpStream, asked: &AtomicU64) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (variables, content) = take(protocol, &mut reader)?;
    asked.fetch_add(1, Relaxed);
    let of = |name: &str| variables.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value);
    let framing = if matches!(of("CONTENT_LENGTH"), "" | "0") { "none" } else { "length" };
    let (fields, body) = answer(of("REQUEST_URI"), &content, framing);
    // Applications of uwsgi write a status line.
    let status = if protocol == Protocol::Uwsgi { "HTTP/1.1 200 OK\r\n" } else { "" };
    let head = format!("{status}Content-Type: text/plain\r\n{fields}\r\n");
    reader.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok()
}

fn read_record(reader: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let mut header = [0; 8];
    reader.read_exact(&mut header).ok()?;
    let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let mut content = vec![0; length + usize::from(header[6])];
    reader.read_exact(&mut content).ok()?;
    content.truncate(length);
    Some((header[1], content))
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let (first, after) = rest.split_first()?;
    if *first < 128 {
        *rest = after;
        return Some(usize::from(*first));
    }
    let (long, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some((u32::from_be_bytes(*long) & 0x7fff_ffff) as usize)
}

fn parameter(parameters: &[u8], wanted: &str) -> Option<String> {
    let mut rest = parameters;
    while !rest.is_empty() {
        let lengths = [length(&mut rest)?, length(&mut rest)?];
        let (name, after) = rest.split_at_checked(lengths[0])?;
        let (value, after) = after.split_at_checked(lengths[1])?;
        if name == wanted.as_bytes() {
            return String::from_utf8(value.to_vec()).ok();
        }
        rest = after;
    }
    None
}

/// One request for each connection, as php-fpm has it with most servers, or more where the other side keeps it.
fn over_fastcgi(stream: TcpStream, asked: &AtomicU64) -> Option<()> {
    const BEGIN: u8 = 1;
    const END: u8 = 3;
    const PARAMS: u8 = 4;
    const STDIN: u8 = 5;
    const STDOUT: u8 = 6;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let (mut parameters, mut content, mut keeps) = (Vec::new(), Vec::new(), false);
        loop {
            let (kind, bytes) = read_record(&mut reader)?;
            match kind {
                BEGIN => keeps = bytes.get(2).is_some_and(|flags| flags & 1 != 0),
                PARAMS => parameters.extend_from_slice(&bytes),
                STDIN if bytes.is_empty() => break,
                STDIN => content.extend_from_slice(&bytes),
                _ => {}
            }
        }
        asked.fetch_add(1, Relaxed);
        let uri = parameter(&parameters, "REQUEST_URI")?;
        let framing = match parameter(&parameters, "CONTENT_LENGTH").as_deref() {
            None | Some("" | "0") => "none",
            Some(_) => "length",
        };
        let (fields, body) = answer(&uri, &content, framing);
        let text = [format!("Content-Type: text/plain\r\n{fields}\r\n").as_bytes(), &body].concat();
        for piece in text.chunks(32_000).chain([&[][..]]) {
            let [high, low] = (piece.len() as u16).to_be_bytes();
            stream.write_all(&[&[1, STDOUT, 0, 1, high, low, 0, 0], piece].concat()).ok()?;
        }
        stream.write_all(&[1, END, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).ok()?;
        if !keeps {
            return None;
        }
    }
}
