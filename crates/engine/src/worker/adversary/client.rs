//! Clients of HTTP/1.0, HTTP/1.1 and HTTP/2, which look at every byte.
//!
//! Owns: what one asks, what it may get, and how far it is. Guarantees: panics if an answer is neither the expected
//! one, nor a page that says why there is none, nor broken off.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use super::Got;
use super::application::{pattern, receipt, refusal, unchunk};
use super::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http10,
    Http11,
    Http2,
}

/// A request, and the content of the answers that it may get.
#[derive(Debug)]
struct Asked {
    method: &'static str,
    path: String,
    content: Vec<u8>,
    expected: Vec<Vec<u8>>,
}

pub(super) struct Client {
    name: String,
    version: Version,
    socket: Option<TcpStream>,
    asked: Vec<Asked>,
    outgoing: VecDeque<u8>,
    received: Vec<u8>,
    /// Answers of HTTP/1.x that have come whole.
    answers: usize,
    got: Got,
    streams: BTreeMap<u32, Stream>,
    owed: BTreeMap<u32, u32>,
    has_half_closed: bool,
    /// It is to get every answer.
    is_strict: bool,
    /// No more comes.
    is_over: bool,
}

#[derive(Debug, Default)]
struct Stream {
    /// Whether the status is 200.
    is_ok: bool,
    content: Vec<u8>,
    has_ended: bool,
    is_reset: bool,
}

/// Files of the site: their names and lengths.
pub(super) const FILES: [(&str, usize); 3] = [("/small", 40), ("/middle", 9_000), ("/large", 150_000)];
/// Why there is no answer: by the limits, by time, by the application.
const PAGES: [u16; 6] = [408, 413, 429, 502, 503, 504];

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The addresses that clients come from.
pub(super) fn address(number: usize) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, 2 + (number % 3) as u8).into()
}

impl Client {
    /// The client of this number, which connects to `server`.
    pub(super) fn connect(number: usize, server: SocketAddr, seed: u64, is_strict: bool) -> Client {
        let mut dice = Dice::seeded(seed);
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        bind(&socket, &SocketAddr::new(address(number), 0)).unwrap();
        connect(&socket, &server).unwrap();
        let socket = TcpStream::from(socket);
        socket.set_nonblocking(true).unwrap();
        let version = dice.one_of(&[Version::Http10, Version::Http11, Version::Http11, Version::Http2, Version::Http2]);
        let count = if version == Version::Http10 { 1 } else { 1 + dice.below(5) };
        let asked: Vec<Asked> =
            (0..count).map(|at| ask(&mut dice, &format!("{number}-{at}"), 60_000 / count)).collect();
        let mut client = Client {
            name: format!("client {number} ({version:?})"),
            version,
            socket: Some(socket),
            asked,
            outgoing: VecDeque::new(),
            received: Vec::new(),
            answers: 0,
            got: Got::default(),
            streams: BTreeMap::new(),
            owed: BTreeMap::new(),
            has_half_closed: false,
            is_strict,
            is_over: false,
        };
        match version {
            Version::Http2 => client.write_streams(&mut dice),
            _ => client.write_requests(&mut dice),
        }
        client
    }

    fn write_requests(&mut self, dice: &mut Dice) {
        let number = if self.version == Version::Http10 { "1.0" } else { "1.1" };
        for Asked { method, path, content, .. } in &self.asked {
            let is_chunked = self.version == Version::Http11 && dice.once_in(2);
            let framing = match *method {
                "GET" => String::new(),
                _ if is_chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
                _ => format!("Content-Length: {}\r\n", content.len()),
            };
            self.outgoing.extend(format!("{method} {path} HTTP/{number}\r\nHost: a\r\n{framing}\r\n").bytes());
            match is_chunked && *method == "POST" {
                true => {
                    for piece in content.chunks(dice.size(20_000)) {
                        self.outgoing.extend(format!("{:x}\r\n", piece.len()).bytes());
                        self.outgoing.extend(piece);
                        self.outgoing.extend(b"\r\n");
                    }
                    self.outgoing.extend(b"0\r\n\r\n");
                }
                false => self.outgoing.extend(content),
            }
        }
    }

    fn write_streams(&mut self, dice: &mut Dice) {
        let window: u32 = dice.one_of(&[1_500, 16_384, 65_535]);
        let setting = [&4_u16.to_be_bytes()[..], &window.to_be_bytes()].concat();
        self.outgoing.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        self.outgoing.extend(frame(SETTINGS, 0, 0, &setting));
        let mut contents: Vec<VecDeque<Vec<u8>>> = Vec::new();
        for (at, Asked { method, path, content, .. }) in self.asked.iter().enumerate() {
            let (id, mut block) = (stream_of(at), Vec::new());
            for (name, value) in
                [(":method", *method), (":scheme", "http"), (":authority", "a"), (":path", path.as_str())]
            {
                block
                    .extend([&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat());
            }
            let ends = *method == "GET" || content.is_empty();
            self.outgoing.extend(frame(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, id, &block));
            let pieces: Vec<&[u8]> = content.chunks(dice.size(16_000)).collect();
            let last = pieces.len().saturating_sub(1);
            let flags = |at: usize| if at == last { END_STREAM } else { 0 };
            contents.push(pieces.iter().enumerate().map(|(at, piece)| frame(DATA, flags(at), id, piece)).collect());
        }
        // Of several streams at once.
        while contents.iter().any(|frames| !frames.is_empty()) {
            let at = dice.below(contents.len());
            self.outgoing.extend(contents[at].pop_front().into_iter().flatten());
        }
    }
}

// What it does.
impl Client {
    /// Whether it is there.
    pub(super) fn is_there(&self) -> bool {
        self.socket.is_some()
    }

    /// Whether it waits for nothing: all has been answered, or will not be.
    pub(super) fn is_served(&self) -> bool {
        let is_answered = match self.version {
            Version::Http2 => (0..self.asked.len())
                .all(|at| self.streams.get(&stream_of(at)).is_some_and(|stream| stream.has_ended || stream.is_reset)),
            _ => self.answers == self.asked.len(),
        };
        self.socket.is_none() || self.is_over || is_answered && !self.has_half_closed
    }

    /// The sum of what it has got by the end.
    pub(super) fn got(&self) -> Got {
        let missing = self.asked.len() - self.got.answers - self.got.pages;
        Got { broken: if self.is_there() { missing } else { 0 }, ..self.got }
    }

    /// Sends up to so many bytes of what it has to say. Whether any have left.
    pub(super) fn send(&mut self, bytes_max: usize) -> bool {
        self.open_windows();
        let Some(socket) = self.socket.as_mut().filter(|_| !self.has_half_closed) else { return false };
        let piece: Vec<u8> = self.outgoing.iter().take(bytes_max).copied().collect();
        match socket.write(&piece) {
            _ if piece.is_empty() => false,
            Ok(sent) => {
                self.outgoing.drain(..sent);
                sent > 0
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                // What has come before is still to be read.
                self.outgoing.clear();
                false
            }
        }
    }

    /// Takes up to so many bytes. Whether anything has come.
    pub(super) fn take(&mut self, bytes_max: usize) -> bool {
        let Some(socket) = self.socket.as_mut().filter(|_| !self.is_over) else { return false };
        let mut space = vec![0; bytes_max];
        match socket.read(&mut space) {
            Ok(0) => self.end(true),
            Ok(bytes) => {
                self.received.extend(&space[..bytes]);
                match self.version {
                    Version::Http2 => self.read_frames(),
                    _ => self.read_answers(false),
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => self.end(false),
        }
        true
    }

    pub(super) fn half_close(&mut self) {
        if let Some(socket) = self.socket.as_mut().filter(|_| !self.has_half_closed) {
            _ = socket.shutdown(Shutdown::Write);
            self.has_half_closed = true;
            self.outgoing.clear();
        }
    }

    pub(super) fn leave(&mut self) {
        self.socket = None;
    }

    pub(super) fn reset(&mut self) {
        if let Some(socket) = self.socket.take() {
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        }
    }

    fn end(&mut self, is_clean: bool) {
        if self.version != Version::Http2 {
            self.read_answers(is_clean);
        }
        let is_left_alone = self.is_strict && !self.has_half_closed && !self.is_served();
        let is_told_by_end = self.version == Version::Http10 && is_clean;
        assert!(!is_left_alone || is_told_by_end, "{}: the connection ends before all answers", self.name);
        self.is_over = true;
    }
}

// What it gets.
impl Client {
    /// Judges an answer that came whole, or as much of it as came.
    fn judge(&self, at: usize, is_ok: bool, content: &[u8], is_whole: bool) {
        assert!(is_ok || !self.is_strict || self.has_half_closed, "{}: there is no answer", self.name);
        let Some(asked) = self.asked.get(at) else { panic!("{}: an answer to no request", self.name) };
        let is_expected =
            |expected: &Vec<u8>| if is_whole { expected == content } else { expected.starts_with(content) };
        assert!(
            !is_ok || asked.expected.iter().any(is_expected),
            "{}: {} {} is answered with {} bytes that are not those of {:?}, whole: {is_whole}: {:?}",
            self.name,
            asked.method,
            asked.path,
            content.len(),
            asked.expected.iter().map(Vec::len).collect::<Vec<_>>(),
            String::from_utf8_lossy(&content[..content.len().min(200)])
        );
    }

    /// An answer has come whole.
    fn count(&mut self, at: usize, is_ok: bool) {
        self.got.answers += usize::from(is_ok);
        self.got.pages += usize::from(!is_ok);
        self.got.posts += usize::from(is_ok && self.asked[at].method == "POST");
    }

    /// Takes what has come of answers apart. `has_ended`: nothing follows, and that is the end of an answer that says
    /// so.
    fn read_answers(&mut self, has_ended: bool) {
        loop {
            let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else { return };
            let head = String::from_utf8_lossy(&self.received[..end]).to_lowercase();
            let status: u16 = head.get(9..12).and_then(|text| text.parse().ok()).expect("an answer has a status");
            let body = &self.received[end + 4..];
            if status < 200 {
                self.received.drain(..end + 4);
                continue;
            }
            let is_incomplete = status == 400 && self.has_half_closed;
            assert!(status == 200 || is_incomplete || PAGES.contains(&status), "{}: {head}", self.name);
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            let is_chunked = head.contains("transfer-encoding: chunked");
            let whole = match length {
                _ if is_chunked => unchunk(body),
                Some(length) => body.get(..length).map(|content| (content.to_vec(), length)),
                // It ends with the connection. Of HTTP/1.0 it cannot be told whether that is its end.
                None if has_ended && self.version != Version::Http10 => Some((body.to_vec(), body.len())),
                None => None,
            };
            let Some((content, length)) = whole else {
                if !is_chunked {
                    self.judge(self.answers, status == 200, body, false);
                }
                return;
            };
            self.judge(self.answers, status == 200, &content, true);
            self.count(self.answers, status == 200);
            self.received.drain(..end + 4 + length);
            self.answers += 1;
        }
    }

    fn read_frames(&mut self) {
        while let Some(head) = self.received.first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if self.received.len() < 9 + length {
                return;
            }
            let payload: Vec<u8> = self.received.drain(..9 + length).skip(9).collect();
            match kind {
                SETTINGS if flags & ACK == 0 => self.outgoing.extend(frame(SETTINGS, ACK, 0, &[])),
                PING if flags & ACK == 0 => self.outgoing.extend(frame(PING, ACK, 0, &payload)),
                RST_STREAM => {
                    let is_left_alone = self.is_strict && !self.has_half_closed;
                    let stream = self.streams.entry(id).or_default();
                    assert!(!is_left_alone || stream.has_ended, "{}: stream {id} is reset: {payload:?}", self.name);
                    stream.is_reset = true;
                }
                DATA | HEADERS => self.read_stream(id, kind, flags, &payload),
                _ => {}
            }
        }
    }

    fn read_stream(&mut self, id: u32, kind: u8, flags: u8, payload: &[u8]) {
        let stream = self.streams.entry(id).or_default();
        assert!(!stream.has_ended, "{}: stream {id} goes on behind its end", self.name);
        // The last head before the content is that of the answer.
        if kind == HEADERS && stream.content.is_empty() {
            stream.is_ok = is_ok(payload);
        }
        if kind == DATA {
            stream.content.extend(payload);
            [0, id].into_iter().for_each(|id| *self.owed.entry(id).or_default() += payload.len() as u32);
        }
        stream.has_ended = flags & END_STREAM != 0;
        let stream = &self.streams[&id];
        if kind == HEADERS && !stream.has_ended {
            return;
        }
        let (at, is_ok, has_ended) = ((id as usize - 1) / 2, stream.is_ok, stream.has_ended);
        self.judge(at, is_ok, &stream.content, has_ended);
        if has_ended {
            self.count(at, is_ok);
        }
    }

    /// Few bytes at a time would be an abuse.
    fn open_windows(&mut self) {
        let Client { owed, outgoing, .. } = self;
        for (id, owed) in owed.iter_mut().filter(|(_, owed)| **owed >= 700) {
            outgoing.extend(frame(WINDOW_UPDATE, 0, *id, &std::mem::take(owed).to_be_bytes()));
        }
    }
}

fn stream_of(at: usize) -> u32 {
    1 + 2 * at as u32
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Whether the status of a head is 200: its first field is entry 8 of the static table (RFC 7541 A). The size of the
/// dynamic table may be said before.
fn is_ok(block: &[u8]) -> bool {
    match block {
        [0x3f, rest @ ..] => {
            let digits = rest.iter().take_while(|byte| **byte >= 0x80).count();
            rest.get(digits + 1) == Some(&0x88)
        }
        _ => block.first() == Some(&0x88),
    }
}

fn ask(dice: &mut Dice, id: &str, content_max: usize) -> Asked {
    let get =
        |path: String, bytes: usize| Asked { method: "GET", path, content: Vec::new(), expected: vec![pattern(bytes)] };
    let bytes = dice.size(50_000);
    match dice.below(10) {
        0..3 => {
            let (path, bytes) = dice.one_of(&FILES);
            get(path.to_owned(), bytes)
        }
        3..5 => get(format!("/app/len?n={bytes}"), bytes),
        // Few different ones, so that clients wait for each other's.
        5..8 => {
            let bytes = dice.one_of(&[10, 3_000, 70_000]);
            get(format!("/kept/len?n={bytes}"), bytes)
        }
        way => {
            let content = pattern(dice.below(content_max));
            let path = format!("/{}/{id}", if way == 8 { "app" } else { "buffered" });
            let expected = vec![receipt(id, &content), refusal(id)];
            Asked { method: "POST", path, content, expected }
        }
    }
}
