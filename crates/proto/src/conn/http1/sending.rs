//! An answer that is sent while a program makes it, as HTTP/1.x writes it (RFC 9112 6 and 7): its head, and the framing
//! of its content.
//!
//! Owns: what [`Sending`] becomes on the wire. Guarantees: content that is large is not copied; the last chunk of an
//! answer that was broken off is not written. Does not know programs.

use super::writer::{Persistence, push_id};
use crate::exchange::answer;
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::StreamHead;
use crate::exchange::sending::{Framing, Sending};
use crate::message::{Request, RequestId, Version};
use crate::resource::status_line;
use crate::workspace::output_buffer::OutputBuffer;

/// The framing of the answer to `request` that begins with `head` (RFC 9112 6.3).
pub(super) fn framing_of(head: &StreamHead, request: Request<'_>) -> Framing {
    match (head.length, request.head.version) {
        _ if head.tunnels => Framing::Tunnel,
        _ if !head.has_content(request) => Framing::Nothing,
        (Some(length), _) => Framing::Length(length),
        (None, Version::Http10) => Framing::Close,
        (None, _) => Framing::Told,
    }
}

/// Writes what has been given, up to content that is sent from where it is. Whether all of it has been handed over.
pub(super) fn write_given(sending: &mut Sending, output_buffer: &mut OutputBuffer) -> bool {
    let OutputBuffer { bytes: output, copy_bytes_max, .. } = output_buffer;
    let is_chunked = sending.framing() == Framing::Told;
    if sending.end_in_place() && is_chunked {
        output.extend_from_slice(b"\r\n");
    }
    while let Some(length) = sending.front().map(<[u8]>::len) {
        if sending.in_place().is_some() {
            return false;
        }
        if is_chunked {
            output.extend_from_slice(format!("{length:x}\r\n").as_bytes());
        }
        if length > *copy_bytes_max {
            sending.begin_in_place();
            return false;
        }
        sending.copy_front(length, output);
        if is_chunked {
            output.extend_from_slice(b"\r\n");
        }
    }
    if let Some(trailers) = sending.trailers().filter(|_| is_chunked && !sending.is_cut()) {
        for part in [b"0\r\n", trailers, b"\r\n"] {
            output.extend_from_slice(part);
        }
    }
    true
}

/// An answer before the answer (RFC 9110 15.2).
pub(super) fn write_interim(head: &StreamHead, output: &mut Vec<u8>) {
    if head.is_interim() {
        status_line(output, head.status, head.reason.as_deref());
        output.extend_from_slice(&head.fields);
        output.extend_from_slice(b"\r\n");
    }
}

/// The head of an answer. `server` is the value of its `Server` field, if it has none of its own, and so is `id`.
/// `link` goes with a whole resource.
pub(super) fn write_head(
    head: &StreamHead,
    framing: Framing,
    persistence: Persistence,
    server: &[u8],
    (id, link): (RequestId, Option<&LinkField>),
    output_buffer: &mut OutputBuffer,
) {
    let OutputBuffer { bytes: output, date, .. } = output_buffer;
    status_line(output, head.status, head.reason.as_deref());
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
        (Framing::Told, _) => output.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        (Framing::Nothing | Framing::Close | Framing::Tunnel, _) => {}
    }
    // RFC 9110 7.8.
    if head.is_upgrade_required() {
        output.extend_from_slice(b"Connection: upgrade\r\n");
    }
    let connection = if framing == Framing::Tunnel { b"Connection: upgrade\r\n" } else { persistence.line() };
    output.extend_from_slice(connection);
    output.extend_from_slice(b"\r\n");
}

fn push_length(output: &mut Vec<u8>, length: u64) {
    output.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
}

/// Whether the client reads trailer fields (RFC 9110 10.1.4).
pub(super) fn takes_trailers(request: Request<'_>) -> bool {
    let mut members = request.lines_named(b"te").flat_map(|line| line.split(|&byte| byte == b','));
    members.any(|member| member.trim_ascii().eq_ignore_ascii_case(b"trailers"))
}
