//! The request head of HTTP/1.x: request line, header fields, empty line (RFC 9112 2 to 5).
//!
//! Owns: the syntax of heads. Guarantees: an accepted head has exactly one reading (CR LF line ends only, no folding,
//! no control bytes, no space before a colon), so that no other party can read it differently. Says where parts are and
//! copies nothing. Does not judge the target (`parse::target`), the host (`parse::host`) or the framing
//! (`conn::http1`).
//!
//! Written here rather than taken from `httparse` because that accepts bare LF, knows two versions only, and reports
//! errors that do not tell 400, 414, 431 and 505 apart; the tests hold this parser against it.

use crate::error::Refusal;
use crate::limits::Limits;
use crate::message::{Field, FieldSet, Head, Method, RequestId, Span, Version};
use crate::parse::list::is_token_byte;

/// The outcome of looking at the bytes received so far.
#[derive(Clone, Copy, Debug)]
pub enum Parsed {
    /// More bytes are needed.
    Partial,
    /// A whole head.
    Complete(Head),
}

/// Bytes of empty lines before the request line, which RFC 9112 2.2 asks to ignore. The caller skips them.
pub fn leading_empty_lines(input: &[u8]) -> usize {
    let mut skipped = 0;
    while input[skipped..].starts_with(b"\r\n") {
        skipped += 2;
    }
    skipped
}

/// Parses the head at the start of `input`. The work is bounded by `limits.head_bytes_max`.
///
/// # Errors
/// The mistake of the peer. A partial head is refused as soon as it shows that it cannot become valid.
pub fn parse(input: &[u8], limits: &Limits) -> Result<Parsed, Refusal> {
    debug_assert!(limits.head_bytes_max <= usize::from(u16::MAX), "spans are 16 bits");
    let input = &input[..input.len().min(limits.head_bytes_max)];
    let Some((mut head, mut at)) = request_line(input, limits)? else {
        return Ok(Parsed::Partial);
    };
    let mut fields = 0;
    loop {
        let Some(line_feed) = memchr::memchr(b'\n', &input[at..]) else {
            return if input.len() == limits.head_bytes_max {
                Err(Refusal::FieldsTooLarge)
            } else {
                Ok(Parsed::Partial)
            };
        };
        let line = strip_carriage_return(&input[at..at + line_feed])?;
        let start = at;
        at += line_feed + 1;
        if line.is_empty() {
            head.length = at as u16;
            return Ok(Parsed::Complete(head));
        }
        fields += 1;
        if fields > limits.fields_max {
            return Err(Refusal::FieldsTooLarge);
        }
        field_line(line, start, &mut head)?;
    }
}

/// `method SP request-target SP HTTP-version CRLF` (RFC 9112 3), and where the field lines begin.
fn request_line(input: &[u8], limits: &Limits) -> Result<Option<(Head, usize)>, Refusal> {
    let method_length = match method_length(input)? {
        Some(length) => length,
        None => return Ok(None),
    };
    // The bound on the line comes first, so that it does not matter whether the line arrived at once.
    let line_bytes_max = method_length + 1 + limits.target_bytes_max + VERSION_BYTES;
    let Some(line_feed) = memchr::memchr(b'\n', input) else {
        return if input.len() > line_bytes_max || input.len() == limits.head_bytes_max {
            Err(Refusal::TargetTooLong)
        } else {
            Ok(None)
        };
    };
    if line_feed > line_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    let line = strip_carriage_return(&input[..line_feed])?;
    let rest = &line[method_length + 1..];
    let space = memchr::memchr(b' ', rest).ok_or(Refusal::RequestLine)?;
    let (target, version) = (&rest[..space], &rest[space + 1..]);
    if !is_target(target) {
        return Err(Refusal::TargetForm);
    }
    if target.is_empty() {
        return Err(Refusal::RequestLine);
    }
    let version = self::version(version)?;
    if target.len() > limits.target_bytes_max {
        return Err(Refusal::TargetTooLong);
    }
    let target_start = method_length + 1;
    let fields_at = line_feed + 1;
    let head = Head {
        length: 0,
        method: Method::of(&input[..method_length]),
        version,
        target: Span { start: target_start as u16, end: (target_start + target.len()) as u16 },
        present: FieldSet::default(),
        repeated: FieldSet::default(),
        values: [Span::default(); Field::COUNT],
        fields_at: fields_at as u16,
        id: RequestId::NONE,
        is_open: false,
    };
    Ok(Some((head, fields_at)))
}

/// ` HTTP/1.1` and CR LF.
const VERSION_BYTES: usize = 11;
/// No registered method is longer than 17 bytes; what is longer is no request.
const METHOD_BYTES_MAX: usize = 32;

/// Bytes of the method, if the space after it is there. Anything that cannot be a method is refused at once: it is
/// most often a TLS greeting, whose sender would wait for ever.
fn method_length(input: &[u8]) -> Result<Option<usize>, Refusal> {
    if input.starts_with(b"GET ") {
        return Ok(Some(3));
    }
    for (index, &byte) in input.iter().take(METHOD_BYTES_MAX + 1).enumerate() {
        if byte == b' ' && index > 0 {
            return Ok(Some(index));
        }
        if !is_token_byte(byte) {
            return Err(Refusal::RequestLine);
        }
    }
    if input.len() > METHOD_BYTES_MAX { Err(Refusal::RequestLine) } else { Ok(None) }
}

/// RFC 9112 2.3 and RFC 9110 2.5: the name is case-sensitive, and a later minor version is served as the latest we
/// know.
fn version(bytes: &[u8]) -> Result<Version, Refusal> {
    match bytes {
        b"HTTP/1.1" => Ok(Version::Http11),
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            if *major == b'1' {
                Ok(Version::Http11)
            } else {
                Err(Refusal::VersionUnsupported)
            }
        }
        _ => Err(Refusal::RequestLine),
    }
}

/// `field-name ":" OWS field-value OWS` (RFC 9112 5), noted in `head` if it is a field we act on.
fn field_line(line: &[u8], start: usize, head: &mut Head) -> Result<(), Refusal> {
    let Some(colon) = line.iter().position(|&byte| !is_token_byte(byte)) else {
        return Err(Refusal::FieldName);
    };
    if line[colon] != b':' || colon == 0 {
        let folded = colon == 0 && matches!(line[0], b' ' | b'\t');
        return Err(if folded { Refusal::FieldFolding } else { Refusal::FieldName });
    }
    let value = &line[colon + 1..];
    if !is_field_value(value) {
        return Err(Refusal::FieldValue);
    }
    let Some(field) = Field::of(&line[..colon]) else {
        return Ok(());
    };
    if !head.present.insert(field) {
        head.repeated.insert(field);
        return Ok(());
    }
    let leading = value.len() - trim_start(value).len();
    let value_start = start + colon + 1 + leading;
    let trimmed = trim_end(&value[leading..]);
    head.values[field as usize] = Span { start: value_start as u16, end: (value_start + trimmed.len()) as u16 };
    Ok(())
}

/// The line without its CR. A CR anywhere else is found by the checks on the parts.
fn strip_carriage_return(line: &[u8]) -> Result<&[u8], Refusal> {
    line.strip_suffix(b"\r").ok_or(Refusal::LineEnd)
}

fn trim_start(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    value
}

fn trim_end(mut value: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// VCHAR, and bytes above 0x7F, which a path may have (`parse::target`). Folds without early exit, so that the compiler
/// can use vector instructions.
pub(crate) fn is_target(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |valid, &byte| valid & ((byte > 0x20) & (byte != 0x7f)))
}

/// field-vchar, SP and HTAB (RFC 9110 5.5); obs-text is opaque data and passes.
pub(crate) fn is_field_value(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |valid, &byte| valid & ((byte >= 0x20) & (byte != 0x7f) | (byte == b'\t')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    fn complete(input: &[u8]) -> Head {
        match parse(input, &Limits::default()) {
            Ok(Parsed::Complete(head)) => head,
            other => panic!("{other:?} for {}", String::from_utf8_lossy(input)),
        }
    }

    fn refusal(input: &[u8]) -> Refusal {
        match parse(input, &Limits::default()) {
            Err(refusal) => refusal,
            other => panic!("{other:?} for {}", String::from_utf8_lossy(input)),
        }
    }

    #[test]
    fn a_head_is_taken_apart_without_copying() {
        let input = b"GET /a?b HTTP/1.1\r\nHost: x\r\nAccept:  */* \t\r\n\r\nrest";
        let head = complete(input);
        let request = Request { bytes: input, head: &head };
        assert_eq!((head.method, head.version, head.length), (Method::Get, Version::Http11, input.len() as u16 - 4));
        assert_eq!(request.target(), b"/a?b");
        assert_eq!(request.field(Field::Host), Some(&b"x"[..]));
        assert_eq!(request.field(Field::Accept), Some(&b"*/*"[..]));
        assert_eq!(request.field(Field::Range), None);
    }

    #[test]
    fn all_lines_of_a_repeated_field_are_seen_in_order() {
        let input = b"GET / HTTP/1.1\r\nIf-None-Match: \"a\"\r\nHost: x\r\nif-none-match:\"b\"\r\n\r\n";
        let head = complete(input);
        let lines: Vec<_> = Request { bytes: input, head: &head }.field_lines(Field::IfNoneMatch).collect();
        assert_eq!(lines, [&b"\"a\""[..], b"\"b\""]);
    }

    #[test]
    fn rfc_9110_2_5_a_later_minor_version_is_served_and_another_major_is_not() {
        assert_eq!(complete(b"GET / HTTP/1.7\r\n\r\n").version, Version::Http11);
        assert_eq!(refusal(b"GET / HTTP/2.0\r\n\r\n"), Refusal::VersionUnsupported);
        assert_eq!(refusal(b"GET / http/1.1\r\n\r\n"), Refusal::RequestLine);
        assert_eq!(refusal(b"GET / HTTP/1.10\r\n\r\n"), Refusal::RequestLine);
    }

    #[test]
    fn rfc_9112_2_2_lines_end_with_cr_lf_only() {
        assert_eq!(refusal(b"GET / HTTP/1.1\nHost: x\r\n\r\n"), Refusal::LineEnd);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: x\n\r\n"), Refusal::LineEnd);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: x\ry\r\n\r\n"), Refusal::FieldValue);
        assert_eq!(refusal(b"GET /\r HTTP/1.1\r\n\r\n"), Refusal::TargetForm);
    }

    #[test]
    fn rfc_9112_5_names_are_tokens_directly_before_the_colon() {
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n"), Refusal::FieldName);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\n: x\r\n\r\n"), Refusal::FieldName);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost\r\n\r\n"), Refusal::FieldName);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n"), Refusal::FieldFolding);
        assert_eq!(refusal(b"GET / HTTP/1.1\r\nHost: x\r\nA: \0\r\n\r\n"), Refusal::FieldValue);
    }

    #[test]
    fn rfc_9112_3_the_request_line_has_two_single_spaces() {
        for line in ["GET", "GET /", "GET  / HTTP/1.1", "GET / x HTTP/1.1", " GET / HTTP/1.1", "GET /  HTTP/1.1"] {
            assert_eq!(refusal(format!("{line}\r\n\r\n").as_bytes()), Refusal::RequestLine, "{line}");
        }
    }

    #[test]
    fn what_cannot_become_a_request_is_refused_before_its_end() {
        assert_eq!(refusal(b"\x16\x03\x01\x02\x00"), Refusal::RequestLine);
        assert_eq!(refusal(&[b'A'; 40]), Refusal::RequestLine);
        let long_target = [b"GET /".to_vec(), vec![b'a'; 9000]].concat();
        assert_eq!(refusal(&long_target), Refusal::TargetTooLong);
    }

    #[test]
    fn limits_have_their_own_answers() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(101));
        assert_eq!(refusal(many.as_bytes()), Refusal::FieldsTooLarge);
        let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(17_000));
        assert_eq!(refusal(long.as_bytes()), Refusal::FieldsTooLarge);
        let target = format!("GET /{} HTTP/1.1\r\n\r\n", "b".repeat(8_200));
        assert_eq!(refusal(target.as_bytes()), Refusal::TargetTooLong);
    }
}
