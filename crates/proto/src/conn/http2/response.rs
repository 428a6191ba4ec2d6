//! Heads of answers as header blocks.
//!
//! Owns: what becomes of the field lines of a representation. Guarantees: a cached answer's block has been written
//! before, but for what differs from one connection to another: the date and the server, which have places in the
//! connection's table. Does not decide on answers.

use super::frame::{self, END_HEADERS, END_STREAM, HEAD_BYTES, Kind as FrameKind, PAYLOAD_BYTES_MAX};
use super::hpack::{Encoder, write_field};
use crate::exchange::answer::{self, Answer, Kind};
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::StreamHead;
use crate::message::{RequestId, Status};
use crate::parse::connection_fields::is_http1_only;
use crate::resource::{Part, Representation, split_location};

/// Writes HEADERS of the prebuilt head of `representation`.
pub(super) fn write_prebuilt(
    out: &mut Vec<u8>,
    stream: u32,
    representation: &Representation,
    ends: bool,
    encoder: &mut Encoder,
    (date, unix_seconds, id): (&[u8], u64, RequestId),
    link: Option<&LinkField>,
) {
    write_frame(out, stream, ends, |out| {
        encoder.begin(out);
        out.extend_from_slice(representation.block(prebuild));
        write_date(representation, date, encoder, out);
        encoder.write(b"server", representation.server(), out);
        write_age(representation, unix_seconds, out);
        write_id(id, out);
        write_link(link, out);
    });
}

/// The date: of what was kept its own, which is not put into the table.
fn write_date(representation: &Representation, date: &[u8], encoder: &mut Encoder, out: &mut Vec<u8>) {
    match representation.own_date() {
        Some(own) => write_field(b"date", own, out),
        None => encoder.write(b"date", date, out),
    }
}

/// The age of what was kept.
fn write_age(representation: &Representation, unix_seconds: u64, out: &mut Vec<u8>) {
    if let Some(age) = representation.age_at(unix_seconds) {
        write_field(b"age", age.text(), out);
    }
}

/// Tells the client what its request is called, if it is told. It is not put into the table, because it never comes
/// again.
fn write_id(id: RequestId, out: &mut Vec<u8>) {
    if id != RequestId::NONE {
        write_field(b"x-request-id", &id.digits(), out);
    }
}

/// Adds a link, which is not put into the table: it is seldom the same for two answers.
fn write_link(link: Option<&LinkField>, out: &mut Vec<u8>) {
    if let Some(link) = link {
        out.extend_from_slice(link.block());
    }
}

/// Writes HEADERS of an answer.
pub(super) fn write_answer(
    out: &mut Vec<u8>,
    stream: u32,
    answer: &Answer,
    ends: bool,
    encoder: &mut Encoder,
    (date, unix_seconds): (&[u8], u64),
) {
    let representation = &*answer.representation;
    let size = representation.size;
    let (fields, length) = match &answer.kind {
        Kind::Prebuilt(query) if query.is_empty() => {
            let told = (date, unix_seconds, answer.id);
            return write_prebuilt(out, stream, representation, ends, encoder, told, answer.link());
        }
        Kind::Prebuilt(_) | Kind::Unsatisfiable { .. } => (Part::Described, Some(size)),
        Kind::NotModified => (Part::Kept, None),
        Kind::Partial => (Part::Described, Some(answer.current.length)),
        Kind::Multipart { length, .. } => (Part::AfterType, Some(*length)),
    };
    write_frame(out, stream, ends, |out| {
        encoder.begin(out);
        write_status(answer.status, out);
        write_date(representation, date, encoder, out);
        encoder.write(b"server", representation.server(), out);
        if let Some(length) = length {
            write_field(b"content-length", length.to_string().as_bytes(), out);
        }
        match &answer.kind {
            Kind::Partial => {
                let last = answer.current.offset + answer.current.length - 1;
                let range = format!("bytes {}-{last}/{size}", answer.current.offset);
                write_field(b"content-range", range.as_bytes(), out);
            }
            Kind::Multipart { boundary, .. } => {
                let media_type = format!("multipart/byteranges; boundary={boundary}");
                write_field(b"content-type", media_type.as_bytes(), out);
            }
            Kind::Unsatisfiable { size } => write_field(b"content-range", format!("bytes */{size}").as_bytes(), out),
            Kind::Prebuilt(_) | Kind::NotModified => {}
        }
        let query: &[u8] = if let Kind::Prebuilt(query) = &answer.kind { query } else { b"" };
        write_fields(representation.lines(fields), query, out);
        write_age(representation, unix_seconds, out);
        write_id(answer.id, out);
    });
}

/// Writes HEADERS of an interim answer (RFC 9110 15.2.1).
pub(super) fn write_continue(out: &mut Vec<u8>, stream: u32, encoder: &mut Encoder) {
    write_frame(out, stream, false, |out| {
        encoder.begin(out);
        write_status(Status(100), out);
    });
}

/// Writes HEADERS of an interim answer that has links (RFC 8297).
pub(super) fn write_early_hints<'l>(
    out: &mut Vec<u8>,
    stream: u32,
    links: impl Iterator<Item = &'l LinkField>,
    encoder: &mut Encoder,
) {
    write_frame(out, stream, false, |out| {
        encoder.begin(out);
        write_field(b":status", b"103", out);
        links.for_each(|link| out.extend_from_slice(link.block()));
    });
}

/// Writes HEADERS of an answer that is made while it is sent: with a date and the name of the server, unless it is an
/// interim one or has its own. `link` goes with a whole resource.
pub(super) fn write_stream_head(
    out: &mut Vec<u8>,
    stream: u32,
    head: &StreamHead,
    origin: Option<(&[u8; 29], &[u8], RequestId)>,
    link: Option<&LinkField>,
    ends: bool,
    encoder: &mut Encoder,
) {
    write_frame(out, stream, ends, |out| {
        encoder.begin(out);
        write_status(head.status, out);
        if let Some((date, server, id)) = origin {
            if !head.has(b"date") {
                encoder.write(b"date", date, out);
            }
            if !(head.has(b"server") || server.is_empty()) {
                encoder.write(b"server", server, out);
            }
            if !head.has(RequestId::FIELD.as_bytes()) {
                write_id(id, out);
            }
            if let Some(length) = head.said_length() {
                write_field(b"content-length", length.to_string().as_bytes(), out);
            }
        }
        write_lines(&head.fields, out);
        write_link(link.filter(|_| head.status == answer::OK), out);
    });
}

/// Writes HEADERS of the fields behind the content, which end the stream.
pub(super) fn write_trailers(out: &mut Vec<u8>, stream: u32, lines: &[u8], encoder: &mut Encoder) {
    write_frame(out, stream, true, |out| {
        encoder.begin(out);
        write_lines(lines, out);
    });
}

/// The block of a representation, without what differs from one connection to another.
fn prebuild(representation: &Representation) -> Box<[u8]> {
    let mut block = Vec::new();
    write_status(representation.status, &mut block);
    write_fields(representation.lines(Part::All), b"", &mut block);
    block.into_boxed_slice()
}

fn write_status(status: Status, out: &mut Vec<u8>) {
    write_field(b":status", status.0.to_string().as_bytes(), out);
}

/// Writes the field lines that a program has given.
fn write_lines(lines: &[u8], out: &mut Vec<u8>) {
    let lines = lines.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let fields = lines.filter_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], &line[colon + 1..]))
    });
    write_fields(fields, b"", out);
}

/// Writes fields. `query` goes into the Location.
fn write_fields<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>, query: &[u8], out: &mut Vec<u8>) {
    let mut name = Vec::new();
    for (spelled, value) in fields {
        name.clear();
        name.extend(spelled.iter().map(u8::to_ascii_lowercase));
        let value = value.trim_ascii();
        match &*name {
            b"location" if !query.is_empty() => {
                let (before, fragment) = split_location(value);
                write_field(&name, &[before, query, fragment].concat(), out);
            }
            name if is_http1_only(name) => {}
            name => write_field(name, value, out),
        }
    }
}

/// Writes what `block` writes as HEADERS, and CONTINUATION if it is too long for one frame.
fn write_frame(out: &mut Vec<u8>, stream: u32, ends: bool, block: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    block(out);
    let length = out.len() - at - HEAD_BYTES;
    let end_stream = if ends { END_STREAM } else { 0 };
    if length > PAYLOAD_BYTES_MAX {
        let block = out.split_off(at + HEAD_BYTES);
        out.truncate(at);
        let count = block.chunks(PAYLOAD_BYTES_MAX).count();
        for (index, part) in block.chunks(PAYLOAD_BYTES_MAX).enumerate() {
            let (kind, flags) =
                if index == 0 { (FrameKind::Headers, end_stream) } else { (FrameKind::Continuation, 0) };
            let end_headers = if index + 1 == count { END_HEADERS } else { 0 };
            frame::write_head(out, part.len(), kind, flags | end_headers, stream);
            out.extend_from_slice(part);
        }
        return;
    }
    frame::write_head_at(&mut out[at..at + HEAD_BYTES], length, FrameKind::Headers, END_HEADERS | end_stream, stream);
}
