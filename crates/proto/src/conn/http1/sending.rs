//! An answer that is sent while a program makes it: its head, the framing of its content, and what has not been handed over.
//!
//! Owns: [`Sending`], and what parts become on the wire (RFC 9112 6 and 7). Guarantees: an answer that was broken off is never
//! taken for whole, if its framing can say so; content that is large is not copied. Does not know programs.

use std::sync::Arc;

use super::writer::{Persistence, push_id};
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::StreamHead;
use crate::exchange::{ContentBuffer, answer};
use crate::message::{Request, RequestId, Status, Version};
use crate::resource::status_line;
use crate::transmit::Segment;
use crate::workspace::outlet::Outlet;

/// How the end of the content is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none, because of the method or the status.
    Nothing,
    /// So much is still to be given.
    Length(u64),
    Chunks,
    /// It ends with the connection.
    Close,
    /// It is another protocol's, and ends with the connection.
    Tunnel,
}

/// An answer that has begun.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(super) status: Status,
    framing: Framing,
    /// Whether the client reads trailer fields.
    takes_trailers: bool,
    /// Content that is sent from where it is, and what of it has been sent.
    segment: Option<(Arc<dyn ContentBuffer>, usize, usize)>,
    /// What follows it.
    behind: Vec<u8>,
    /// Nothing more is given.
    pub(super) is_ended: bool,
    /// It is not whole, or more was given than it has room for: the connection ends behind it.
    pub(super) is_cut: bool,
    /// Bytes of content handed over so far; for the log.
    pub(super) content_bytes: u64,
}

impl Framing {
    /// Of the answer to `request` that begins with `head` (RFC 9112 6.3).
    pub(super) fn of(head: &StreamHead, request: Request<'_>) -> Framing {
        match (head.length, request.head.version) {
            _ if head.tunnels => Framing::Tunnel,
            _ if !head.has_content(request) => Framing::Nothing,
            (Some(length), _) => Framing::Length(length),
            (None, Version::Http10) => Framing::Close,
            (None, _) => Framing::Chunks,
        }
    }
}

impl Sending {
    /// Bytes of it that are still to be sent; what has been, if nobody knows.
    pub(super) fn remaining_bytes(&self) -> u64 {
        let left = if let Framing::Length(left) = self.framing { left } else { self.content_bytes };
        self.segment_bytes() + self.behind.len() as u64 + left
    }

    pub(super) fn new(status: Status, framing: Framing, request: Request<'_>) -> Sending {
        Sending {
            status,
            framing,
            takes_trailers: framing == Framing::Chunks && takes_trailers(request),
            segment: None,
            behind: Vec::new(),
            is_ended: framing == Framing::Nothing,
            is_cut: false,
            content_bytes: 0,
        }
    }

    /// Bytes of content that wait to be sent from where they are.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.segment.as_ref().map_or(0, |(buffer, sent, _)| (buffer.bytes().len() - sent) as u64)
    }

    /// Bytes of memory that it takes, with the content that waits where it is.
    pub(super) fn memory_bytes(&self) -> usize {
        let content = self.segment.as_ref().map_or(0, |(content, ..)| content.own_bytes());
        size_of::<Sending>() + self.behind.capacity() + content
    }

    /// Content that is sent from where it is.
    pub(super) fn segment(&self) -> Option<Segment<'_>> {
        self.segment.as_ref().map(|(buffer, sent, end)| Segment::Shared(&buffer.bytes()[*sent..*end]))
    }

    /// What holds it, and where in that it begins.
    pub(super) fn segment_buffer(&self) -> Option<(Arc<dyn ContentBuffer>, u64)> {
        self.segment.as_ref().map(|(buffer, sent, _)| (buffer.clone(), *sent as u64))
    }

    /// Whether bytes are known to follow the segment.
    pub(super) fn has_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// `bytes` of the segment have been sent.
    pub(super) fn take(&mut self, bytes: u64) {
        let Some((_, sent, end)) = &mut self.segment else { return };
        // No more is taken than was offered.
        *sent += bytes as usize;
        self.content_bytes += bytes;
        if sent >= end {
            self.segment = None;
        }
    }

    /// What followed a segment that has been sent goes to the output. Whether all that was given is there.
    pub(super) fn advance(&mut self, outlet: &mut Outlet) -> bool {
        if self.segment.is_none() && !self.behind.is_empty() {
            outlet.output.append(&mut self.behind);
            // A part that was given too early may have been large.
            self.behind = Vec::new();
        }
        self.segment.is_none()
    }

    /// More content. What is beyond the length that was announced is not sent.
    pub(super) fn add(&mut self, content: &Arc<dyn ContentBuffer>, outlet: &mut Outlet) {
        let given = content.bytes().len();
        let length = match &mut self.framing {
            Framing::Nothing => return,
            Framing::Chunks | Framing::Close | Framing::Tunnel => given,
            Framing::Length(left) => {
                let length = given.min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                self.is_cut |= length < given;
                length
            }
        };
        if length == 0 {
            return;
        }
        let is_chunk = self.framing == Framing::Chunks;
        if is_chunk {
            let size = format!("{length:x}\r\n");
            self.write(size.as_bytes(), outlet);
        }
        if length > outlet.copy_bytes_max && self.segment.is_none() {
            self.segment = Some((content.clone(), 0, length));
        } else {
            self.write(&content.bytes()[..length], outlet);
            self.content_bytes += length as u64;
        }
        if is_chunk {
            self.write(b"\r\n", outlet);
        }
    }

    /// Nothing follows, but for these trailer fields. RFC 9110 6.5.1: they are for those who said that they read them.
    pub(super) fn end(&mut self, trailers: &[u8], outlet: &mut Outlet) {
        self.is_ended = true;
        self.is_cut |= matches!(self.framing, Framing::Length(1..));
        if self.framing == Framing::Chunks {
            self.write(b"0\r\n", outlet);
            if self.takes_trailers {
                self.write(trailers, outlet);
            }
            self.write(b"\r\n", outlet);
        }
    }

    fn write(&mut self, bytes: &[u8], outlet: &mut Outlet) {
        let is_next = self.segment.is_none() && self.behind.is_empty();
        let to = if is_next { &mut outlet.output } else { &mut self.behind };
        to.extend_from_slice(bytes);
    }
}

/// An answer before the answer (RFC 9110 15.2).
pub(super) fn write_interim(head: &StreamHead, output: &mut Vec<u8>) {
    if head.is_interim() {
        status_line(output, head.status);
        output.extend_from_slice(&head.fields);
        output.extend_from_slice(b"\r\n");
    }
}

/// The head of an answer. `server` is the value of its `Server` field, if it has none of its own, and so is `id`. `link` goes with a whole resource.
pub(super) fn write_head(
    head: &StreamHead,
    framing: Framing,
    persistence: Persistence,
    server: &[u8],
    (id, link): (RequestId, Option<&LinkField>),
    outlet: &mut Outlet,
) {
    let Outlet { output, date, .. } = outlet;
    status_line(output, head.status);
    let lines = [(&b"Date"[..], &date[..]), (b"Server", server)];
    for (name, value) in lines.into_iter().filter(|(name, value)| !value.is_empty() && !head.has(name)) {
        for part in [name, b": ", value, b"\r\n"] {
            output.extend_from_slice(part);
        }
    }
    output.extend_from_slice(&head.fields);
    if !head.has(RequestId::FIELD.as_bytes()) {
        push_id(id, output);
    }
    if let Some(link) = link.filter(|_| head.status == answer::OK) {
        output.extend_from_slice(link.line());
    }
    match (framing, head.said_length()) {
        (Framing::Nothing, Some(length)) => push_length(output, length),
        (Framing::Length(length), _) => push_length(output, length),
        (Framing::Chunks, _) => output.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        (Framing::Nothing | Framing::Close | Framing::Tunnel, _) => {}
    }
    // RFC 9110 7.8.
    let connection = if framing == Framing::Tunnel { b"Connection: upgrade\r\n" } else { persistence.line() };
    output.extend_from_slice(connection);
    output.extend_from_slice(b"\r\n");
}

fn push_length(output: &mut Vec<u8>, length: u64) {
    output.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
}

/// RFC 9110 10.1.4.
fn takes_trailers(request: Request<'_>) -> bool {
    let mut members = request.lines_named(b"te").flat_map(|line| line.split(|&byte| byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}
