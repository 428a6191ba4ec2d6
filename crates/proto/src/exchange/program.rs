//! Programs, which answer a request by doing something: they take its content, and make its answer.
//!
//! Owns: the contract between the core and the driver that carries programs out. The core keeps a program with its
//! exchange, so that it goes wherever the connection goes, and never calls it: each step may block, so where it is
//! carried out is the driver's choice. Guarantees: a program is begun once for a request and no step of it is done
//! twice, whatever drivers do; a program whose exchange ends is dropped.
//!
//! ```text
//!   Need::Resolve --Done::Run--> waits <--Continue, Waits, Gives---------+
//!                                  | what the step before named        |
//!                                  v                                   |
//!                 Need::Run: step, run, handle_step_result ------------+
//!                                  | Answer, the part with the end;
//!                                  | or Again, Found or Redirected: Need::Resolve once more
//!                                  v
//!                          the answer is sent
//! ```
//!
//! An answer is a resource that is sent whole (`StepResult::Answer`), or a stream of parts that is sent while it is
//! made (`StepResult::Gives`). A stream goes on only as fast as the peer takes it: a program is asked for the next part
//! when there is room for it. A program that waits for another application has a socket: the driver of the connection
//! waits for that socket as for its own.
//!
//! # Streams
//! - A program is dropped as soon as its answer is whole, and when the peer is gone or the answer cannot be completed.
//!   An answer without content (to HEAD; 204, 304) is whole with its head: the program is dropped then.
//! - A peer that has ended its side may still read: that is no reason to end the program. One that is gone is noticed
//!   when the driver notices it: HTTP/1.x receives while a program thinks, as long as there is room in the input.
//! - If the answer is whole before the content of the request has arrived, the rest is not waited for: HTTP/1.x closes
//!   behind the answer, HTTP/2 ends the stream on its side. What still comes is discarded for a while; then the stream
//!   is reset with NO_ERROR.
//! - The peer has to take what there is for it within `send_timeout_ms`. Content has to come within `body_timeout_ms`,
//!   and as fast as `body_rate_min` says, while the program wants some: before the head, and behind it if the program
//!   waits for nothing else. All other waiting is the program's business: it names `until`.
//! - What a program gives at the wrong place (content before the head, a second head) is a failure, as
//!   [`StepResult::Failed`] is: before the head a 500, behind it the answer is broken off. HTTP/1.x sends what was
//!   given before and closes without the last chunk; HTTP/2 resets the stream with INTERNAL_ERROR. An answer of
//!   HTTP/1.0 that ends with the connection cannot say so.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::exchange::given::{ContentBuffer, Finding};
use crate::message::{Method, Request, Status};
use crate::resource::Resource;
use crate::time::Instant;

/// Something that has been begun for one request.
pub trait Program: fmt::Debug + Send {
    /// Bytes of content that it takes; more are refused (413).
    fn content_bytes_max(&self) -> u64;

    /// The events that the first step waits for: content, or its end. One that has something to do before has room
    /// here, which there is at the beginning.
    fn begins_with(&self) -> Next {
        Next::CONTENT
    }

    /// Keeps a piece of content for the next step, without waiting for anything. False if it has no room, or has to be
    /// asked first: then it is a step. For drivers that have steps carried out elsewhere, at a price for each.
    fn gather(&mut self, _content: &[u8]) -> bool {
        false
    }

    /// Whether a step may wait for a disk or for anything else. One that says no is carried out in line by every
    /// driver.
    fn may_block(&self) -> bool {
        true
    }

    /// The resources that it holds between two steps, beyond itself, and that are counted nowhere else.
    fn holds(&self) -> Holds;

    /// The next step. Called in order; what was gathered comes before its content.
    fn run(&mut self, input: Input<'_>) -> StepResult;

    /// The application that its steps ask, in words for an operator; none if they ask nobody outside the server.
    fn asks(&self) -> Option<String> {
        None
    }

    /// The socket that the last step wants waited for ([`Next::readable`], [`Next::writable`]).
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Resources that are held for one client, and counted for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// Bytes of memory.
    pub bytes: usize,
    /// Open files and sockets.
    pub descriptors: usize,
}

impl Holds {
    /// So many bytes, and no descriptor.
    pub const fn of_bytes(bytes: usize) -> Holds {
        Holds { bytes, descriptors: 0 }
    }

    /// Both together.
    pub const fn and(self, other: Holds) -> Holds {
        Holds { bytes: self.bytes + other.bytes, descriptors: self.descriptors + other.descriptors }
    }

    /// The resources that `program` holds, and it itself.
    pub(crate) fn of(program: &dyn Program) -> Holds {
        program.holds().and(Holds::of_bytes(size_of_val(program)))
    }
}

/// The input of a step.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The next content of the request. Empty unless the step before wanted some. Nothing of it is given again.
    pub content: &'a [u8],
    /// No content follows this, in this step or later: true from the step on that was told so, until a tunnel begins.
    pub is_last: bool,
    /// There is room for a part, which is sent next: the parts given before have been sent as far as they have to be. A
    /// program gives nothing without it. One part that is given nevertheless is kept and sent behind; then the program
    /// waits until there is room.
    pub room: bool,
    /// The time.
    pub now: Instant,
}

/// The result of a step.
#[derive(Clone, Debug)]
#[must_use]
pub enum StepResult {
    /// More content is wanted. If there is none: another step at once.
    Continue,
    /// The program has found out what it was begun for, and is done: the request is to be resolved again. Only before
    /// anything has been given, and by programs that have taken no content.
    Again,
    /// The same, and the resolution is given this, as often as this request is resolved from now on.
    Found(Finding),
    /// The answer is what a GET of this path and query gives, or a HEAD if the request is one (RFC 3875 6.2.2): they
    /// are resolved in the place of the request's own. What remains of the content is not read. Only before anything
    /// has been given.
    Redirected(Box<[u8]>),
    /// This is the answer. What remains of the content is not read, and the connection closes behind the answer.
    Answer(Arc<Resource>),
    /// Nothing is given now: the next step is carried out when one of these comes about.
    Waits(Next),
    /// A part of the answer, and when the next step is carried out, unless the part has the end.
    Gives(Box<Part>, Next),
    /// It cannot go on, for no fault of the client's. An answer that has begun is broken off, so that no client takes
    /// it for whole.
    Failed,
}

/// When the next step is carried out: when any of these comes about. If none of them can come about, the program has
/// failed: all are absent, what is waited for is content whose end has been told, or a socket that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// Content has arrived, or its end has (which is told once).
    pub content: bool,
    /// There is room for a part.
    pub room: bool,
    /// The program's socket has something to receive, an end or an error.
    pub readable: bool,
    /// The program's socket takes bytes, or has an error.
    pub writable: bool,
    /// It is so late.
    pub until: Option<Instant>,
}

/// A part of an answer, given at once. In this order, each may be absent.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Answers before the answer (1xx; 100 and 101 are left out). HTTP/1.0 does not get them.
    pub interim: Vec<StreamHead>,
    /// The head, once.
    pub head: Option<StreamHead>,
    /// Content; only behind a head.
    pub content: Option<Arc<dyn ContentBuffer>>,
    /// The answer is whole, and the program is done: with these trailer fields, if the version has a place for them. As
    /// lines, each with its CRLF; mostly none. HTTP/1.1 sends them with chunks, to those who say `TE: trailers` (RFC
    /// 9110 6.5.1). An answer of HTTP/1.x whose length is known ends without it too, when all has been given, but the
    /// program stays until it has said so; a stream of HTTP/2 ends with it.
    pub end: Option<Vec<u8>>,
}

/// The head of an answer that is made while it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    /// The status.
    pub status: Status,
    /// The reason phrase of an application, if it is not the registered one. HTTP/2 has none.
    pub reason: Option<Box<str>>,
    /// Field lines as in HTTP/1.1, each with its CRLF: valid, without those of framing and connection. `Date` and
    /// `Server` are added if they are not there. A 426 has its `Upgrade`.
    pub fields: Vec<u8>,
    /// Bytes of content, if that is known. More are not sent, and end the program; fewer break the answer off. Not of
    /// the content that is left out because the request was HEAD, or for the status (204, 304).
    pub length: Option<u64>,
    /// It is the last head, and all that follows is content of another protocol, both ways. HTTP/1.1: the status is
    /// 101, the request has an `Upgrade` field and has been received, and `fields` has the `Upgrade` field of the
    /// answer; else it is a failure. What the peer sends until it ends its side is content. With the part that has the
    /// end our side ends; what the peer still sends is discarded. HTTP/2: the status is 2xx, to a CONNECT with a
    /// protocol ([`Workspace::offer_tunnels`](crate::workspace::Workspace)), which the request has in a field
    /// `upgrade`, and DATA goes both ways as with other streams.
    pub tunnels: bool,
}

impl Part {
    /// Whether it may be given when the head has been, or has not.
    pub(crate) fn is_in_order(&self, has_begun: bool) -> bool {
        match has_begun {
            true => self.head.is_none() && self.interim.is_empty(),
            false => self.head.is_some() || self.content.is_none() && self.end.is_none(),
        }
    }
}

impl StreamHead {
    /// Whether the answer to `request` that begins with it has content (RFC 9110 6.4.1).
    pub(crate) fn has_content(&self, request: Request<'_>) -> bool {
        request.head.method != Method::Head && !matches!(self.status.0, 204 | 304)
    }

    /// Whether it is one before the answer. Those that mean something to the connection are not a program's.
    pub(crate) fn is_interim(&self) -> bool {
        (102..200).contains(&self.status.0)
    }

    /// Whether it names the protocols that are asked for (RFC 9110 15.5.22).
    pub(crate) fn is_upgrade_required(&self) -> bool {
        self.status.0 == 426 && self.has(b"upgrade")
    }

    /// The length to announce, if there is one. RFC 9110 8.6: never with 204.
    pub(crate) fn said_length(&self) -> Option<u64> {
        self.length.filter(|_| self.status.0 != 204)
    }

    /// Whether it has a field of this name.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        let ends = std::iter::once(0).chain(memchr::memchr_iter(b'\n', &self.fields).map(|end| end + 1));
        let mut lines = ends.map(|start| &self.fields[start..]);
        lines.any(|line| line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name))
    }
}

impl Next {
    /// More content, or its end.
    pub const CONTENT: Next = Next { content: true, room: false, readable: false, writable: false, until: None };
    /// Room for a part.
    pub const ROOM: Next = Next { content: false, room: true, readable: false, writable: false, until: None };
}

/// The next step of a program: what [`Need::Run`](super::Need::Run) asks for.
#[derive(Debug)]
pub struct Step<'a> {
    /// To be given back with what came of it.
    pub program: Box<dyn Program>,
    /// Its input.
    pub input: Input<'a>,
}

/// A socket that a program waits for: what `poll_socket` of a connection asks for. Once for each time that it is to be
/// waited for.
#[derive(Clone, Copy, Debug)]
pub struct SocketWait<'a> {
    /// The socket.
    pub socket: BorrowedFd<'a>,
    /// For something to receive.
    pub readable: bool,
    /// For room to send.
    pub writable: bool,
}
