//! The part of an answer that has been read, and its head as the client gets it.
//!
//! Owns: [`Reading`], [`stream_head`].

use std::borrow::Cow;
use std::ops::Range;

use lamna_proto::exchange::program::{Part, StreamHead};
use lamna_proto::gateway::AnswerHead;
use lamna_proto::message::Status;

use super::restored::Restored;
use super::websocket;
use crate::content::route::Effective;

/// The result of receiving.
#[derive(Debug, Default)]
pub(super) struct Receipt {
    pub(super) part: Option<Part>,
    /// The answer is what the server gives for this.
    pub(super) redirect: Option<Box<[u8]>>,
    pub(super) has_received: bool,
    /// More is there, most likely.
    pub(super) has_more: bool,
}

/// The part that is being read from the received bytes.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) part: Part,
    /// The path that the application has named in place of an answer.
    pub(super) redirect: Option<Box<[u8]>>,
    /// Where in the buffer its content is.
    pub(super) content: Vec<Range<usize>>,
    pub(super) content_bytes: usize,
    /// Up to here it has been read.
    pub(super) at: usize,
}

impl Reading {
    pub(super) fn add(&mut self, range: Range<usize>) {
        self.content_bytes += range.len();
        match self.content.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.content.push(range),
        }
    }
}

/// The head as the client gets it, with what the routes do to its fields.
pub(super) fn stream_head(head: &AnswerHead<'_>, rules: Option<&Effective>, restored: Option<&Restored>) -> StreamHead {
    let mut lines = Vec::with_capacity(head.fields.lines_bytes());
    match rules.filter(|rules| rules.changes_answers()) {
        None => {
            head.fields.iter().for_each(|(name, value)| push_line(&mut lines, name, &restore(restored, name, value)))
        }
        Some(rules) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut fields =
                head.fields.iter().map(|(name, value)| (text(name), text(&restore(restored, name, value)))).collect();
            rules.change(head.status, &mut fields);
            fields.iter().for_each(|(name, value)| push_line(&mut lines, name.as_bytes(), value.as_bytes()));
        }
    }
    let status = Status(head.status);
    let reason = status.own_reason_phrase(head.reason).map(Box::from);
    StreamHead { status, reason, fields: lines, length: head.content_bytes, tunnels: false }
}

/// The value of a field as the client gets it.
fn restore<'v>(restored: Option<&Restored>, name: &[u8], value: &'v [u8]) -> Cow<'v, [u8]> {
    restored.and_then(|restored| restored.field(name, value)).map_or(Cow::Borrowed(value), Cow::Owned)
}

fn push_line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
}

/// The head of a tunnel: what the application has agreed to, or, where the client has opened a stream for it, that it
/// has.
pub(super) fn tunnel_head(head: &AnswerHead<'_>, is_stream: bool) -> StreamHead {
    if !is_stream {
        return StreamHead { tunnels: true, ..stream_head(head, None, None) };
    }
    let mut fields = Vec::new();
    let kept = head.fields.iter().filter(|(name, _)| !websocket::is_of_handshake(name));
    kept.for_each(|(name, value)| push_line(&mut fields, name, value));
    StreamHead { status: Status(200), reason: None, fields, length: None, tunnels: true }
}
