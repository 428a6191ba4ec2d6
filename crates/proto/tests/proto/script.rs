//! A program that does what the query of its request says, so that its answer is known by its path.
//!
//! Owns: [`Script`]. Steps are separated by `.`, what a step gives at once by `+`.
//!
//! | step | what it does |
//! | --- | --- |
//! | `i` | an interim answer (103) |
//! | `h`, `h5` | the head, without and with a length |
//! | `n204` | the head, with this status |
//! | `g` | the head of a tunnel (101, or 200 to CONNECT) |
//! | `c5` | so much content |
//! | `e`, `t` | the end, without and with trailer fields |
//! | `d` | takes the content of the request to its end |
//! | `x` | gives the content of the request as it comes, to its end |
//! | `w` | waits for its socket |
//! | `u` | waits for a second |
//! | `a` | an answer that is a resource |
//! | `f` | fails |
//! | `z` | has its request resolved once more, by which it begins anew |

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use lamna_proto::exchange::ContentBuffer;
use lamna_proto::exchange::program::{Holds, Input, Next, Part, Program, StepResult, StreamHead};
use lamna_proto::message::Status;
use lamna_proto::resource::Resource;

use crate::site::pattern;

thread_local! {
    /// Scripts that there are.
    static ALIVE: Cell<usize> = const { Cell::new(0) };
}

/// How many scripts of this thread are not gone.
pub(crate) fn alive() -> usize {
    ALIVE.get()
}

/// Content that a script takes.
pub(crate) const CONTENT_BYTES_MAX: u64 = 1_000_000;
/// How long it waits at once.
const WAIT_MS: u32 = 1_000;

/// See the table above.
#[derive(Debug)]
pub(crate) struct Script {
    steps: VecDeque<String>,
    tunnels_with: Status,
    answer: Arc<Resource>,
    /// Bytes of content that have been given.
    given: usize,
    /// Content that has been received and not given.
    pending: Vec<u8>,
    ended: bool,
    /// What the last step waits for.
    next: Next,
    /// Its own end, and that of who it waits for.
    pair: Option<(UnixStream, UnixStream)>,
}

/// Bytes in memory.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl ContentBuffer for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn own_bytes(&self) -> usize {
        self.0.capacity()
    }
}

impl Script {
    pub(crate) fn new(text: &[u8], is_connect: bool, answer: &Arc<Resource>) -> Script {
        ALIVE.set(ALIVE.get() + 1);
        let steps = String::from_utf8_lossy(text).split('.').map(str::to_owned).collect();
        Script {
            steps,
            tunnels_with: Status(if is_connect { 200 } else { 101 }),
            answer: answer.clone(),
            given: 0,
            pending: Vec::new(),
            ended: false,
            next: Next::ROOM,
            pair: None,
        }
    }

    fn waits(&mut self, next: Next) -> StepResult {
        self.next = next;
        StepResult::Waits(next)
    }

    fn gives(&mut self, part: Part, next: Next) -> StepResult {
        self.next = next;
        StepResult::Gives(Box::new(part), next)
    }

    /// What a step gives.
    fn part(&mut self, step: &str) -> Part {
        let mut part = Part::default();
        for one in step.split('+') {
            let (name, number) = one.split_at(one.len().min(1));
            let number = number.parse().ok();
            match name {
                "i" => part.interim.push(head(103, None)),
                "h" => part.head = Some(head(200, number)),
                "n" => part.head = Some(head(number.unwrap_or(200) as u16, None)),
                "g" => {
                    part.head = Some(StreamHead { tunnels: true, ..head(self.tunnels_with.0, None) });
                    self.ended = false;
                }
                "c" => part.content = Some(Arc::new(Bytes(self.content(number.unwrap_or(0) as usize)))),
                "e" => part.end = Some(Vec::new()),
                "t" => part.end = Some(b"X-Trailer: t\r\n".to_vec()),
                _ => {}
            }
        }
        part
    }

    fn content(&mut self, bytes: usize) -> Vec<u8> {
        let content = pattern(self.given + bytes).split_off(self.given);
        self.given += bytes;
        content
    }
}

fn head(status: u16, length: Option<u64>) -> StreamHead {
    let fields = if status < 200 { &b"Link: </s.css>\r\n"[..] } else { b"X-Script: yes\r\n" };
    StreamHead { status: Status(status), reason: None, fields: fields.to_vec(), length, tunnels: false }
}

impl Program for Script {
    fn content_bytes_max(&self) -> u64 {
        CONTENT_BYTES_MAX
    }

    fn begins_with(&self) -> Next {
        Next::ROOM
    }

    fn holds(&self) -> Holds {
        Holds::default()
    }

    fn run(&mut self, Input { content, is_last, room, now }: Input<'_>) -> StepResult {
        assert!(self.next.content || content.is_empty(), "content comes to who wants it");
        assert!(!self.ended || content.is_empty(), "nothing comes behind the end");
        let is_late = self.next.until.is_some_and(|until| until <= now);
        let Next { content: by_content, room: by_room, readable, .. } = self.next;
        let has_cause = by_room && room || by_content && (is_last || !content.is_empty()) || readable || is_late;
        assert!(has_cause, "a step has a cause: {:?} {room} {is_last}", self.next);
        self.pending.extend_from_slice(content);
        self.ended |= is_last;
        loop {
            let Some(step) = self.steps.front().cloned() else { return self.waits(Next::default()) };
            match step.as_str() {
                "f" => return StepResult::Failed,
                "z" => return StepResult::Again,
                "a" => return StepResult::Answer(self.answer.clone()),
                "u" if is_late => {}
                "u" => return self.waits(Next { until: Some(now.after_ms(WAIT_MS)), ..Next::default() }),
                "w" => match self.pair.take() {
                    Some((mut own, _)) => own.read_exact(&mut [0]).expect("what is waited for is there"),
                    None => {
                        let (own, mut other) = UnixStream::pair().expect("there are sockets");
                        other.write_all(b"x").expect("there is room for a byte");
                        own.set_nonblocking(true).expect("it can be");
                        self.pair = Some((own, other));
                        return self.waits(Next { readable: true, ..Next::default() });
                    }
                },
                "d" if self.ended => self.pending.clear(),
                "d" => return self.waits(Next::CONTENT),
                "x" if self.pending.is_empty() && self.ended => {}
                "x" if self.pending.is_empty() => return self.waits(Next::CONTENT),
                "x" if room => {
                    let content = Some(Arc::new(Bytes(std::mem::take(&mut self.pending))) as Arc<dyn ContentBuffer>);
                    return self.gives(Part { content, ..Part::default() }, Next { room: self.ended, ..Next::CONTENT });
                }
                "x" => return self.waits(Next { content: !self.ended, ..Next::ROOM }),
                _ if !room => return self.waits(Next::ROOM),
                _ => {
                    self.steps.pop_front();
                    let part = self.part(&step);
                    let content = self.steps.front().is_some_and(|next| next == "x");
                    return self.gives(part, Next { content, ..Next::ROOM });
                }
            }
            self.steps.pop_front();
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.pair.as_ref().map(|(own, _)| own.as_fd())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}
