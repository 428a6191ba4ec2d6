//! An application over HTTP/1.1 that answers when it is told to, and not always as it should.
//!
//! Owns: its connections, and how often each POST has come. What it says is decided by the path, and by dice whether it
//! says it whole.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::dice::Dice;

pub(super) struct Application {
    /// It is at two places, so that what fails at one is perhaps tried at the other.
    listeners: [UnixListener; 2],
    dice: Dice,
    /// It answers whole, and keeps its connections.
    is_faultless: bool,
    connections: Vec<Served>,
    /// How often each POST has come.
    posts: BTreeMap<String, usize>,
}

/// The sockets of its two places.
pub(super) const PLACES: [&str; 2] = ["one", "other"];

struct Served {
    stream: UnixStream,
    received: Vec<u8>,
    outgoing: VecDeque<u8>,
    state: State,
    is_faultless: bool,
}

#[derive(PartialEq, Eq)]
enum State {
    /// Before the head of a request.
    Head,
    /// Within the content of the request for this target.
    Content(String),
    /// It closes when it has said this.
    Closing,
    Gone,
}

/// Bytes of a large answer differ from place to place.
pub(super) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + (at >> 8) * 31) as u8).collect()
}

/// The answer to a POST whose content is all there.
pub(super) fn receipt(id: &str, content: &[u8]) -> Vec<u8> {
    let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
    format!("{id} {} {sum}", content.len()).into_bytes()
}

/// The answer to one that is given before.
pub(super) fn refusal(id: &str) -> Vec<u8> {
    format!("{id} not read").into_bytes()
}

impl Application {
    pub(super) fn new(root: &Path, seed: u64, is_faultless: bool) -> Application {
        let listeners = PLACES.map(|place| {
            let listener = UnixListener::bind(root.join(place)).expect("it is a new directory");
            listener.set_nonblocking(true).expect("it can be");
            listener
        });
        let (dice, connections, posts) = (Dice::seeded(seed), Vec::new(), BTreeMap::new());
        Application { listeners, dice, is_faultless, connections, posts }
    }

    /// No POST has come twice.
    pub(super) fn check_posts(&self) {
        let twice: Vec<_> = self.posts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "a POST has come twice: {twice:?}");
    }

    /// Goes on with one connection. Whether anything has happened.
    pub(super) fn serve_one(&mut self) -> bool {
        self.accept();
        let count = self.connections.len();
        if count == 0 {
            return false;
        }
        let at = self.dice.below(count);
        self.serve(at)
    }

    /// The same with all.
    pub(super) fn serve_all(&mut self) -> bool {
        self.accept();
        let mut has_moved = false;
        for at in (0..self.connections.len()).rev() {
            has_moved |= self.serve(at);
        }
        has_moved
    }

    fn accept(&mut self) {
        let listeners = self.listeners.iter();
        let accepted = listeners.flat_map(|listener| std::iter::from_fn(move || listener.accept().ok()));
        for (stream, _) in accepted {
            stream.set_nonblocking(true).expect("it can be");
            let (received, outgoing) = Default::default();
            let (state, is_faultless) = (State::Head, self.is_faultless);
            self.connections.push(Served { stream, received, outgoing, state, is_faultless });
        }
    }

    fn serve(&mut self, at: usize) -> bool {
        let Application { dice, connections, posts, .. } = self;
        let served = &mut connections[at];
        let mut has_moved = served.receive(dice);
        while served.read(dice, posts) {
            has_moved = true;
        }
        has_moved |= served.send(dice);
        if served.state == State::Gone {
            connections.swap_remove(at);
        }
        has_moved
    }
}

impl Served {
    fn receive(&mut self, dice: &mut Dice) -> bool {
        if matches!(self.state, State::Closing | State::Gone) {
            return false;
        }
        let mut space = vec![0; dice.size(90_000)];
        match self.stream.read(&mut space) {
            Ok(0) => self.state = State::Gone,
            Ok(bytes) => self.received.extend(&space[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => self.state = State::Gone,
        }
        true
    }

    fn send(&mut self, dice: &mut Dice) -> bool {
        if self.state == State::Gone {
            return false;
        }
        let bytes = dice.size(60_000).min(self.outgoing.len());
        let piece: Vec<u8> = self.outgoing.iter().take(bytes).copied().collect();
        let sent = match self.stream.write(&piece) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                self.state = State::Gone;
                0
            }
        };
        self.outgoing.drain(..sent);
        let is_said = self.state == State::Closing && self.outgoing.is_empty();
        if is_said {
            self.state = State::Gone;
        }
        sent > 0 || is_said
    }

    /// Takes a request, or the content of one, from what has been received. Whether there was one.
    fn read(&mut self, dice: &mut Dice, posts: &mut BTreeMap<String, usize>) -> bool {
        match &self.state {
            State::Head => {
                let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
                let head = String::from_utf8_lossy(&self.received[..end]).into_owned();
                let target = head.split(' ').nth(1).expect("it is a request").to_owned();
                let is_post = head.starts_with("POST ");
                if is_post {
                    *posts.entry(target.clone()).or_default() += 1;
                }
                if !self.is_faultless && dice.once_in(20) {
                    // It has seen the request, and says nothing.
                    self.state = State::Gone;
                } else if is_post && !self.is_faultless && dice.once_in(12) {
                    let id = id_of(&target);
                    self.answer(dice, &target, &refusal(id), true);
                } else if is_post {
                    self.state = State::Content(target);
                    return self.read_content(dice);
                } else {
                    self.received.drain(..end + 4);
                    self.answer(dice, &target, &pattern(length_of(&target)), false);
                }
                true
            }
            State::Content(_) => self.read_content(dice),
            State::Closing | State::Gone => false,
        }
    }

    fn read_content(&mut self, dice: &mut Dice) -> bool {
        let State::Content(target) = &self.state else { return false };
        let target = target.clone();
        let end = 4 + self.received.windows(4).position(|four| four == b"\r\n\r\n").expect("it was there");
        let head = String::from_utf8_lossy(&self.received[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let (content, length) = match length {
            Some(length) if self.received.len() >= end + length => (self.received[end..end + length].to_vec(), length),
            None if head.contains("transfer-encoding: chunked") => match unchunk(&self.received[end..]) {
                Some(all) => all,
                None => return false,
            },
            None => (Vec::new(), 0),
            Some(_) => return false,
        };
        self.received.drain(..end + length);
        self.answer(dice, &target, &receipt(id_of(&target), &content), false);
        true
    }

    /// Says an answer, or a part of it.
    fn answer(&mut self, dice: &mut Dice, target: &str, content: &[u8], is_early: bool) {
        let kept = if target.starts_with("/kept") { "Cache-Control: max-age=60\r\n" } else { "" };
        let mut answer = Vec::new();
        if dice.once_in(8) {
            answer.extend(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
        }
        match dice.once_in(2) {
            true => {
                answer.extend(format!("HTTP/1.1 200 OK\r\n{kept}Content-Length: {}\r\n\r\n", content.len()).bytes());
                answer.extend(content);
            }
            false => {
                answer.extend(format!("HTTP/1.1 200 OK\r\n{kept}Transfer-Encoding: chunked\r\n\r\n").bytes());
                for piece in content.chunks(dice.size(30_000)) {
                    answer.extend(format!("{:x}\r\n", piece.len()).bytes());
                    answer.extend(piece);
                    answer.extend(b"\r\n");
                }
                answer.extend(b"0\r\n\r\n");
            }
        }
        self.state = if is_early || !self.is_faultless && dice.once_in(8) { State::Closing } else { State::Head };
        if !self.is_faultless && dice.once_in(12) {
            answer.truncate(dice.below(answer.len()));
            self.state = State::Closing;
        }
        self.outgoing.extend(answer);
    }
}

fn id_of(target: &str) -> &str {
    target.rsplit('/').next().unwrap_or_default()
}

fn length_of(target: &str) -> usize {
    target.rsplit('=').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The content of chunks, and how long all of it is, if it is there.
pub(super) fn unchunk(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut content, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let text = std::str::from_utf8(&bytes[at..at + line]).expect("a chunk begins with its size");
        let size = usize::from_str_radix(text, 16).expect("a chunk begins with its size");
        at += line + 2;
        let piece = bytes.get(at..at + size + 2)?;
        assert!(piece.ends_with(b"\r\n"), "a chunk ends with its line");
        content.extend(&piece[..size]);
        at += size + 2;
        if size == 0 {
            return Some((content, at));
        }
    }
}
