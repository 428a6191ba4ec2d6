//! Answers as HTTP/1.x writes them (RFC 9112): heads, what becomes of the connection, and content that is short.
//!
//! Owns: the form. Guarantees: the plain cached answer ([`write_plain`]) is two copies and allocates nothing. Does not
//! decide on answers, which is [`exchange::answer`](crate::exchange)'s.

use crate::exchange::answer::{self, Answer, Kind, Piece};
use crate::exchange::early_hints::LinkField;
use crate::exchange::range::ByteRange;
use crate::message::{Method, Request, RequestId, Status};
use crate::resource::{Representation, Resource, split_location, status_line};
use crate::workspace::output_buffer::OutputBuffer;

/// How the answer says what becomes of the connection (RFC 9112 9.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// HTTP/1.1 and persistent: nothing to say.
    #[default]
    Implied,
    /// HTTP/1.0 that asked for it.
    KeepAlive,
    /// This is the last answer.
    Close,
}

impl Persistence {
    pub(crate) fn line(self) -> &'static [u8] {
        match self {
            Persistence::Implied => b"",
            Persistence::KeepAlive => b"Connection: keep-alive\r\n",
            Persistence::Close => b"Connection: close\r\n",
        }
    }
}

/// Writes the answer to the output at once if it is the plain one from memory and small enough to copy. Returns the
/// status and bytes of content, or nothing if that is not so.
pub(super) fn write_plain(
    request: Request<'_>,
    resource: &Resource,
    persistence: Persistence,
    link: Option<&LinkField>,
    output_buffer: &mut OutputBuffer,
) -> Option<(Status, u64)> {
    let representation = answer::plain_choice(request, resource)?;
    let link = link.filter(|_| resource.status == answer::OK);
    let told = (output_buffer.told_id(request), link);
    if request.head.method == Method::Head {
        write_prebuilt(representation.head(), representation, b"", persistence, told, output_buffer);
        return Some((resource.status, 0));
    }
    let message = representation.message()?;
    if message.len() > output_buffer.copy_bytes_max {
        return None;
    }
    write_prebuilt(message, representation, b"", persistence, told, output_buffer);
    Some((resource.status, representation.size))
}

/// Writes what comes next to the output, as far as it is ready: the head once content is, and text between parts.
pub(super) fn advance(answer: &mut Answer, persistence: Persistence, output_buffer: &mut OutputBuffer) {
    if answer.is_short() {
        return;
    }
    if !answer.begun {
        answer.begun = true;
        write_head(answer, persistence, output_buffer);
        copy_small_content(answer, output_buffer);
    }
    while answer.current.length == 0 {
        match answer.later.pop_front() {
            Some(Piece::Text(text)) => {
                output_buffer.bytes.extend_from_slice(&text);
                answer.content_bytes += text.len() as u64;
            }
            Some(Piece::Content(range)) => answer.current = range,
            None => return,
        }
    }
}

/// Content in memory that is short goes right behind its head, so that pipelined answers share one send.
fn copy_small_content(answer: &mut Answer, output_buffer: &mut OutputBuffer) {
    let length = answer.current.length;
    if length == 0 || length > output_buffer.copy_bytes_max as u64 {
        return;
    }
    if let Some(content) = answer.representation.content() {
        let start = answer.current.offset as usize;
        output_buffer.bytes.extend_from_slice(&content[start..start + length as usize]);
        answer.take(length);
    }
}

fn write_head(answer: &Answer, persistence: Persistence, output_buffer: &mut OutputBuffer) {
    let representation = &*answer.representation;
    match &answer.kind {
        Kind::Prebuilt(query) => {
            let told = (answer.id, answer.link());
            write_prebuilt(representation.head(), representation, query, persistence, told, output_buffer)
        }
        Kind::NotModified => {
            open_head(answer, output_buffer);
            close_head(representation, representation.fields_kept(), persistence, answer.id, output_buffer);
        }
        Kind::Partial => {
            open_head(answer, output_buffer);
            push_content_length(&mut output_buffer.bytes, answer.current.length);
            push_content_range(&mut output_buffer.bytes, &answer.current, representation.size);
            close_head(representation, representation.fields(), persistence, answer.id, output_buffer);
        }
        Kind::Multipart { boundary, length } => {
            open_head(answer, output_buffer);
            push_content_length(&mut output_buffer.bytes, *length);
            let line = format!("Content-Type: multipart/byteranges; boundary={boundary}\r\n");
            output_buffer.bytes.extend_from_slice(line.as_bytes());
            close_head(representation, representation.fields_after_type(), persistence, answer.id, output_buffer);
        }
        Kind::Unsatisfiable { size } => {
            open_head(answer, output_buffer);
            push_content_length(&mut output_buffer.bytes, representation.size);
            output_buffer.bytes.extend_from_slice(format!("Content-Range: bytes */{size}\r\n").as_bytes());
            close_head(representation, representation.fields(), persistence, answer.id, output_buffer);
        }
    }
}

/// Status line, Date and Server.
fn open_head(answer: &Answer, output_buffer: &mut OutputBuffer) {
    let OutputBuffer { bytes: output, date, .. } = output_buffer;
    status_line(output, answer.status, None);
    let date = answer.representation.own_date().unwrap_or(&date[..]);
    for part in [b"Date: ", date, b"\r\nServer: ", answer.representation.server(), b"\r\n"] {
        output.extend_from_slice(part);
    }
}

/// `fields`, which end the head of `representation`, and before the empty line what becomes of the connection.
fn close_head(
    representation: &Representation,
    fields: &[u8],
    persistence: Persistence,
    id: RequestId,
    output_buffer: &mut OutputBuffer,
) {
    let at = representation.head().len() - fields.len();
    representation.push_part(at, &fields[..fields.len() - 2], output_buffer.unix_seconds, &mut output_buffer.bytes);
    output_buffer.bytes.extend_from_slice(persistence.line());
    push_id(id, &mut output_buffer.bytes);
    output_buffer.bytes.extend_from_slice(b"\r\n");
}

/// Tells the client what its request is called, if it is told.
pub(super) fn push_id(id: RequestId, output: &mut Vec<u8>) {
    if id != RequestId::NONE {
        for part in [RequestId::FIELD.as_bytes(), b": ", &id.digits(), b"\r\n"] {
            output.extend_from_slice(part);
        }
    }
}

/// Copies a prebuilt head, and content if `message` goes on, with today's date, what the request is called and a link,
/// if there are any. `query` goes into the Location, which is the last line of a head that has one.
fn write_prebuilt(
    message: &[u8],
    representation: &Representation,
    query: &[u8],
    persistence: Persistence,
    (id, link): (RequestId, Option<&LinkField>),
    output_buffer: &mut OutputBuffer,
) {
    let OutputBuffer { bytes: output, date, unix_seconds, .. } = output_buffer;
    let date_at = output.len() + representation.date_at();
    if persistence == Persistence::Implied && query.is_empty() && id == RequestId::NONE && link.is_none() {
        representation.push_part(0, message, *unix_seconds, output);
    } else {
        let (head, content) = message.split_at(representation.head().len());
        let lines = &head[..head.len() - 4];
        let query_at = if query.is_empty() { lines.len() } else { place_in_location(lines) };
        representation.push_part(0, &lines[..query_at], *unix_seconds, output);
        for part in [query, &lines[query_at..], b"\r\n", persistence.line(), link.map_or(b"", LinkField::line)] {
            output.extend_from_slice(part);
        }
        push_id(id, output);
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(content);
    }
    // What was kept has the date of its application.
    if representation.own_date().is_none() {
        output[date_at..date_at + date.len()].copy_from_slice(date);
    }
}

/// Where a query goes in the last of these lines.
fn place_in_location(lines: &[u8]) -> usize {
    let line_at = memchr::memrchr(b'\n', lines).map_or(0, |end| end + 1);
    line_at + split_location(&lines[line_at..]).0.len()
}

fn push_content_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
}

fn push_content_range(out: &mut Vec<u8>, range: &ByteRange, size: u64) {
    let last = range.offset + range.length - 1;
    out.extend_from_slice(format!("Content-Range: bytes {}-{last}/{size}\r\n", range.offset).as_bytes());
}
