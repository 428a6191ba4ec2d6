//! How long a request's content is, and skipping it: RFC 9112 6 and 7.
//!
//! Owns: the rules that decide where one request ends and the next begins. Guarantees: every combination that two
//! parties could read differently is refused. Does not bound content: who takes or discards it does.

use std::ops::Range;

use crate::error::Refusal;
use crate::limits::Limits;
use crate::message::{Field, FieldSet, Request, Version};
use crate::parse::chunked::ChunkedDecoder;

/// The content that follows a head.
#[derive(Debug)]
pub(crate) enum Content {
    /// None.
    Empty,
    /// This many bytes are still to come.
    Sized(u64),
    /// Chunks.
    Chunked(ChunkedDecoder),
    /// All that comes until the peer ends its side: the connection has changed to another protocol.
    Tunnel,
}

/// A piece of content that was found at the start of some input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Bytes of input that are done with.
    pub(crate) consumed: usize,
    /// Where in the input the content is. May be empty.
    pub(crate) content: Range<usize>,
    /// That was all of it.
    pub(crate) ended: bool,
}

const FRAMING: FieldSet = FieldSet::of(&[Field::ContentLength, Field::TransferEncoding]);

impl Content {
    /// The content that follows `request`'s head (RFC 9112 6.3).
    pub(crate) fn of(request: Request<'_>, limits: &Limits) -> Result<Content, Refusal> {
        if !request.head.present.intersects(FRAMING) {
            return Ok(Content::Empty);
        }
        match (request.field(Field::TransferEncoding), request.field(Field::ContentLength)) {
            (Some(_), Some(_)) => Err(Refusal::FramingConflict),
            (Some(coding), None) => {
                check_coding(request, coding)?;
                Ok(Content::Chunked(ChunkedDecoder::new(limits.chunk_overhead_bytes_max)))
            }
            (None, Some(length)) => match content_length(request, length)? {
                0 => Ok(Content::Empty),
                length => Ok(Content::Sized(length)),
            },
            (None, None) => Ok(Content::Empty),
        }
    }

    /// Bytes that are surely still to come.
    pub(crate) fn known_bytes(&self) -> u64 {
        match self {
            Content::Sized(left) => *left,
            Content::Empty | Content::Chunked(_) | Content::Tunnel => 0,
        }
    }

    /// Takes what of the content is at the start of `input` up to the next interruption by framing.
    pub(crate) fn next(&mut self, input: &[u8]) -> Result<Piece, Refusal> {
        match self {
            Content::Empty => Ok(Piece { consumed: 0, content: 0..0, ended: true }),
            Content::Tunnel => Ok(Piece { consumed: input.len(), content: 0..input.len(), ended: false }),
            Content::Sized(left) => {
                let bytes = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= bytes as u64;
                Ok(Piece { consumed: bytes, content: 0..bytes, ended: *left == 0 })
            }
            Content::Chunked(decoder) => {
                let step = decoder.decode(input).map_err(|_| Refusal::ChunkInvalid)?;
                Ok(Piece { consumed: step.consumed, content: step.content, ended: step.ended })
            }
        }
    }
}

/// RFC 9112 6.1: chunked exactly once and last; nothing else is known; none of it in HTTP/1.0.
fn check_coding(request: Request<'_>, coding: &[u8]) -> Result<(), Refusal> {
    if request.head.version == Version::Http10 || request.head.repeated.contains(Field::TransferEncoding) {
        return Err(Refusal::TransferEncodingInvalid);
    }
    if coding.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let codings: Vec<&[u8]> = coding.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    let chunked = codings.iter().filter(|one| one.eq_ignore_ascii_case(b"chunked")).count();
    let last_is_chunked = codings.last().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
    let known_shape = chunked == 1 && last_is_chunked && !codings.iter().any(|one| one.is_empty());
    Err(if known_shape { Refusal::TransferCodingUnknown } else { Refusal::TransferEncodingInvalid })
}

/// RFC 9110 8.6: `1*DIGIT`, once. A list of equal values is allowed to be refused, and refused.
pub(crate) fn content_length(request: Request<'_>, value: &[u8]) -> Result<u64, Refusal> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if request.head.repeated.contains(Field::ContentLength) || !digits {
        return Err(Refusal::ContentLengthInvalid);
    }
    let text = std::str::from_utf8(value).map_err(|_| Refusal::ContentLengthInvalid)?;
    // Digits that do not fit 64 bits are a valid number, and too large by any limit.
    text.parse().map_err(|_| Refusal::ContentTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::head::{Parsed, parse};

    fn content(fields: &str) -> Result<Content, Refusal> {
        content_of(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }

    fn content_of(input: &str) -> Result<Content, Refusal> {
        let limits = Limits::default();
        match parse(input.as_bytes(), &limits) {
            Ok(Parsed::Complete(head)) => Content::of(Request { bytes: input.as_bytes(), head: &head }, &limits),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rfc_9112_6_3_every_ambiguous_framing_is_refused() {
        for (fields, refusal) in [
            ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Refusal::FramingConflict),
            ("Content-Length: 5\r\nContent-Length: 5\r\n", Refusal::ContentLengthInvalid),
            ("Content-Length: 5, 5\r\n", Refusal::ContentLengthInvalid),
            ("Content-Length: +5\r\n", Refusal::ContentLengthInvalid),
            ("Content-Length: 0x5\r\n", Refusal::ContentLengthInvalid),
            ("Content-Length:\r\n", Refusal::ContentLengthInvalid),
            ("Content-Length: 99999999999999999999\r\n", Refusal::ContentTooLarge),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Refusal::TransferEncodingInvalid),
            ("Transfer-Encoding: chunked, chunked\r\n", Refusal::TransferEncodingInvalid),
            ("Transfer-Encoding: chunked, gzip\r\n", Refusal::TransferEncodingInvalid),
            ("Transfer-Encoding: xchunked\r\n", Refusal::TransferEncodingInvalid),
            ("Transfer-Encoding: identity\r\n", Refusal::TransferEncodingInvalid),
            ("Transfer-Encoding: gzip, chunked\r\n", Refusal::TransferCodingUnknown),
        ] {
            assert_eq!(content(fields).err(), Some(refusal), "{fields}");
        }
    }

    #[test]
    fn rfc_9112_6_1_transfer_encoding_does_not_exist_in_http_1_0() {
        let refusal = content_of("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").err();
        assert_eq!(refusal, Some(Refusal::TransferEncodingInvalid));
    }

    fn pieces(content: &mut Content, input: &[u8]) -> (Vec<u8>, usize, bool) {
        let (mut bytes, mut consumed) = (Vec::new(), 0);
        loop {
            let piece = content.next(&input[consumed..]).unwrap();
            bytes.extend_from_slice(&input[consumed..][piece.content]);
            consumed += piece.consumed;
            if piece.ended || piece.consumed == 0 {
                return (bytes, consumed, piece.ended);
            }
        }
    }

    #[test]
    fn sized_content_is_taken_to_its_end_and_no_further() {
        let mut content = content("Content-Length: 3\r\n").unwrap();
        assert_eq!(pieces(&mut content, b"a"), (b"a".to_vec(), 1, false));
        assert_eq!(pieces(&mut content, b"bcGET"), (b"bc".to_vec(), 2, true));
    }

    #[test]
    fn chunked_content_is_taken_to_its_end_and_no_further() {
        let mut content = content("Transfer-Encoding: Chunked\r\n").unwrap();
        let input = b"3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nT: x\r\n\r\nGET";
        assert_eq!(pieces(&mut content, input), (b"abcd".to_vec(), input.len() - 3, true));
    }
}
