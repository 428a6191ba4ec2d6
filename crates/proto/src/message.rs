//! The vocabulary of HTTP messages (RFC 9110): methods, versions, statuses, the fields we act on, and a view of a
//! request.
//!
//! Owns: the types. Guarantees: a [`Request`] is a view of bytes that the head parser accepted. Does not parse.

use std::fmt;

/// A request method (RFC 9110 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// RFC 9110 9.3.1.
    Get,
    /// RFC 9110 9.3.2.
    Head,
    /// RFC 9110 9.3.7.
    Options,
    /// RFC 9110 9.3.3.
    Post,
    /// RFC 9110 9.3.4.
    Put,
    /// RFC 9110 9.3.5.
    Delete,
    /// RFC 5789.
    Patch,
    /// RFC 4918 9.3.
    Mkcol,
    /// RFC 4918 9.1.
    Propfind,
    /// RFC 4918 9.2.
    Proppatch,
    /// RFC 4918 9.8.
    Copy,
    /// RFC 4918 9.9.
    Move,
    /// RFC 4918 9.10.
    Lock,
    /// RFC 4918 9.11.
    Unlock,
    /// RFC 9110 9.3.8.
    Trace,
    /// RFC 9110 9.3.6. No tunnels here.
    Connect,
    /// A token that is no method we know.
    Unknown,
}

impl Method {
    /// Whether a request with it reads a representation, and does nothing else.
    pub fn reads(self) -> bool {
        matches!(self, Method::Get | Method::Head)
    }

    /// Whether only WebDAV has it (RFC 4918 9). PUT, DELETE and MKCOL are asked for without it, too.
    pub fn is_of_webdav(self) -> bool {
        use Method::{Copy, Lock, Move, Propfind, Proppatch, Unlock};
        matches!(self, Propfind | Proppatch | Copy | Move | Lock | Unlock)
    }

    /// The method that `token` names; methods are case-sensitive (RFC 9110 9.1).
    pub fn of(token: &[u8]) -> Method {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"PATCH" => Method::Patch,
            b"MKCOL" => Method::Mkcol,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Unknown,
        }
    }
}

/// The HTTP version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0: not persistent unless asked for.
    Http10,
    /// HTTP/1.1, and any later minor version (RFC 9110 2.5).
    Http11,
    /// HTTP/2: its requests have been written as heads like those of HTTP/1.x.
    Http2,
}

impl Version {
    /// As written in messages and logs.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// Bytes of a reason phrase of an application.
const REASON_BYTES_MAX: usize = 128;

/// A status code (RFC 9110 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// The reason phrase of the IANA registry (HTTP Status Codes), or an empty one.
    pub fn reason_phrase(self) -> &'static str {
        match self.0 {
            100 => "Continue",
            101 => "Switching Protocols",
            102 => "Processing",
            103 => "Early Hints",
            104 => "Upload Resumption Supported",
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            203 => "Non-Authoritative Information",
            204 => "No Content",
            205 => "Reset Content",
            206 => "Partial Content",
            207 => "Multi-Status",
            208 => "Already Reported",
            226 => "IM Used",
            300 => "Multiple Choices",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            304 => "Not Modified",
            305 => "Use Proxy",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            402 => "Payment Required",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            407 => "Proxy Authentication Required",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            // Registered as unused, and known by this (RFC 2324).
            418 => "I'm a teapot",
            421 => "Misdirected Request",
            422 => "Unprocessable Content",
            423 => "Locked",
            424 => "Failed Dependency",
            425 => "Too Early",
            426 => "Upgrade Required",
            428 => "Precondition Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            451 => "Unavailable For Legal Reasons",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            506 => "Variant Also Negotiates",
            507 => "Insufficient Storage",
            508 => "Loop Detected",
            510 => "Not Extended",
            511 => "Network Authentication Required",
            _ => "",
        }
    }

    /// The phrase that an application says in the place of the registered one, if it is visible ASCII and spaces. One
    /// that is too long, or has other bytes, is not passed on (RFC 9112 4: a phrase means nothing).
    pub fn own_reason_phrase(self, said: &[u8]) -> Option<&str> {
        let is_clean = said.len() <= REASON_BYTES_MAX && said.iter().all(|&byte| matches!(byte, b' '..=b'~'));
        let said = std::str::from_utf8(said).ok().filter(|_| is_clean).map(str::trim)?;
        (!said.is_empty() && said != self.reason_phrase()).then_some(said)
    }
}

/// The header fields that the core or the access log acts on. Others are checked for syntax and passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Field {
    /// RFC 9110 7.2.
    Host,
    /// RFC 9110 7.6.1.
    Connection,
    /// RFC 9110 8.6.
    ContentLength,
    /// RFC 9112 6.1.
    TransferEncoding,
    /// RFC 9110 10.1.1.
    Expect,
    /// RFC 9110 14.2.
    Range,
    /// RFC 9110 13.1.5.
    IfRange,
    /// RFC 9110 13.1.1.
    IfMatch,
    /// RFC 9110 13.1.2.
    IfNoneMatch,
    /// RFC 9110 13.1.3.
    IfModifiedSince,
    /// RFC 9110 13.1.4.
    IfUnmodifiedSince,
    /// RFC 9110 12.5.1.
    Accept,
    /// RFC 9110 12.5.3.
    AcceptEncoding,
    /// RFC 9110 10.1.3; for the log.
    Referer,
    /// RFC 9110 10.1.5; for the log.
    UserAgent,
}

impl Field {
    /// How many there are.
    pub const COUNT: usize = Field::UserAgent as usize + 1;

    /// The field that `name` stands for, if it is one of ours; names are case-insensitive (RFC 9110 5.1).
    pub fn of(name: &[u8]) -> Option<Field> {
        let (field, lower): (Field, &[u8]) = match name.len() {
            4 => (Field::Host, b"host"),
            5 => (Field::Range, b"range"),
            6 if name[0] | 0x20 == b'a' => (Field::Accept, b"accept"),
            6 => (Field::Expect, b"expect"),
            7 => (Field::Referer, b"referer"),
            8 if name[3] | 0x20 == b'm' => (Field::IfMatch, b"if-match"),
            8 => (Field::IfRange, b"if-range"),
            10 if name[0] | 0x20 == b'c' => (Field::Connection, b"connection"),
            10 => (Field::UserAgent, b"user-agent"),
            13 => (Field::IfNoneMatch, b"if-none-match"),
            14 => (Field::ContentLength, b"content-length"),
            15 => (Field::AcceptEncoding, b"accept-encoding"),
            17 if name[0] | 0x20 == b't' => (Field::TransferEncoding, b"transfer-encoding"),
            17 => (Field::IfModifiedSince, b"if-modified-since"),
            19 => (Field::IfUnmodifiedSince, b"if-unmodified-since"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(lower).then_some(field)
    }

    const fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A set of [`Field`]s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FieldSet(u16);

impl FieldSet {
    /// The set of these fields.
    pub const fn of(fields: &[Field]) -> FieldSet {
        let mut bits = 0;
        let mut index = 0;
        while index < fields.len() {
            bits |= fields[index].bit();
            index += 1;
        }
        FieldSet(bits)
    }

    /// Adds `field`; false if it was there.
    pub fn insert(&mut self, field: Field) -> bool {
        let new = self.0 & field.bit() == 0;
        self.0 |= field.bit();
        new
    }

    /// Whether `field` is in the set.
    pub fn contains(self, field: Field) -> bool {
        self.0 & field.bit() != 0
    }

    /// Whether the two sets have a field in common.
    pub fn intersects(self, other: FieldSet) -> bool {
        self.0 & other.0 != 0
    }
}

/// A stretch of the head's bytes: start and end relative to the first byte of the request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// First byte.
    pub start: u16,
    /// One past the last byte.
    pub end: u16,
}

impl Span {
    /// The bytes of `head` that this stands for.
    pub fn of(self, head: &[u8]) -> &[u8] {
        &head[usize::from(self.start)..usize::from(self.end)]
    }
}

/// The ID of a request in logs and in other systems. A number that a worker gives: different from that of any other
/// request, as far as 64 bits go. It is no secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// That of what has none.
    pub const NONE: RequestId = RequestId(0);
    /// The field that tells it.
    pub const FIELD: &str = "X-Request-Id";

    /// Its text: 16 digits.
    pub fn digits(self) -> [u8; 16] {
        let digit = |at: u32| b"0123456789abcdef"[(self.0 >> (60 - 4 * at)) as usize & 15];
        std::array::from_fn(|at| digit(at as u32))
    }
}

/// Which clients are told what their request is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TellsIds {
    Nobody,
    /// Those whose request does not come with a name.
    Unnamed,
    Everybody,
}

impl TellsIds {
    /// The ID that the answer to `request` tells; none if it tells none.
    pub(crate) fn id_told(self, request: Request<'_>) -> RequestId {
        let is_told = match self {
            TellsIds::Nobody => false,
            TellsIds::Unnamed => request.lines_named(RequestId::FIELD.as_bytes()).next().is_none(),
            TellsIds::Everybody => true,
        };
        if is_told { request.head.id } else { RequestId::NONE }
    }
}

/// Where the parts of a request head are. Plain data: it goes with a copy of the bytes wherever the request goes.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// Bytes of the head, from the request line to the empty line, both included.
    pub length: u16,
    /// The request method.
    pub method: Method,
    /// HTTP version.
    pub version: Version,
    /// The request target as received.
    pub target: Span,
    /// Fields present.
    pub present: FieldSet,
    /// Fields present more than once.
    pub repeated: FieldSet,
    /// The value of the first line of each field; meaningful where `present` says so.
    pub values: [Span; Field::COUNT],
    /// Where the field lines begin.
    pub fields_at: u16,
    /// The ID of the request; none before a connection has accepted it.
    pub id: RequestId,
    /// HTTP/2: the frame of the head does not end the stream, so that content follows whether a field says so or not.
    pub is_open: bool,
}

/// The content behind a head, as its framing says: the fields in HTTP/1.x, the frames in HTTP/2. Methods never say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// None, and none was announced.
    None,
    /// This many bytes; may be zero.
    Sized(u64),
    /// Some, or none: it is known when the end has come.
    Unsized,
}

/// A request: its bytes and where the parts are.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The bytes of the head, at least `head.length` of them.
    pub bytes: &'a [u8],
    /// Where the parts are.
    pub head: &'a Head,
}

impl<'a> Request<'a> {
    /// The method as received.
    pub fn method_token(self) -> &'a [u8] {
        &self.bytes[..usize::from(self.head.target.start) - 1]
    }

    /// The request target as received.
    pub fn target(self) -> &'a [u8] {
        self.head.target.of(self.bytes)
    }

    /// The value of the first line of `field`, without surrounding white space.
    pub fn field(self, field: Field) -> Option<&'a [u8]> {
        let present = self.head.present.contains(field);
        present.then(|| self.head.values[field as usize].of(self.bytes))
    }

    /// The content behind the head. For a head that a connection has accepted: the length is a number there, and not
    /// beside a coding.
    pub fn content(self) -> Content {
        if self.head.present.contains(Field::TransferEncoding) {
            return Content::Unsized;
        }
        let length = self.field(Field::ContentLength).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
        match length {
            Some(bytes) => Content::Sized(bytes),
            None if self.head.is_open => Content::Unsized,
            None => Content::None,
        }
    }

    /// The values of all lines of `field`, in order.
    pub fn field_lines(self, field: Field) -> FieldLines<'a> {
        let rest = if self.head.repeated.contains(field) {
            &self.bytes[usize::from(self.head.fields_at)..usize::from(self.head.length)]
        } else {
            &[][..]
        };
        let first = if rest.is_empty() { self.field(field) } else { None };
        FieldLines { field, first, rest }
    }

    /// The values of all lines of the field of this name, in order: for fields that [`Field`] does not list. It reads
    /// the head line by line.
    pub fn lines_named(self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let lines = &self.bytes[usize::from(self.head.fields_at)..usize::from(self.head.length)];
        let mut start = 0;
        memchr::memchr_iter(b'\n', lines).filter_map(move |end| {
            let line = &lines[start..end];
            start = end + 1;
            // The colon tells most lines apart without a look at their names.
            let is_named = line.get(name.len()) == Some(&b':') && line[..name.len()].eq_ignore_ascii_case(name);
            is_named.then(|| line[name.len() + 1..].trim_ascii())
        })
    }

    /// Names and values of all lines, in order: for who looks for several of those that [`Field`] does not list.
    pub fn lines(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let lines = &self.bytes[usize::from(self.head.fields_at)..usize::from(self.head.length)];
        let mut start = 0;
        memchr::memchr_iter(b'\n', lines).filter_map(move |end| {
            let line = &lines[start..end];
            start = end + 1;
            let colon = memchr::memchr(b':', line)?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.head.method, String::from_utf8_lossy(self.target()))
    }
}

/// The values of the lines of one field. The common case of one line does not scan the head again.
#[derive(Clone, Debug)]
pub struct FieldLines<'a> {
    field: Field,
    first: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl<'a> Iterator for FieldLines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while let Some(end) = memchr::memchr(b'\n', self.rest) {
            let line = &self.rest[..end];
            self.rest = &self.rest[end + 1..];
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            if Field::of(&line[..colon]) == Some(self.field) {
                return Some(line[colon + 1..].trim_ascii());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_reason_phrase_is_clean_and_says_something_else() {
        assert_eq!(Status(404).own_reason_phrase(b"No such thing"), Some("No such thing"));
        let long = [b'x'; REASON_BYTES_MAX + 1];
        for said in [&b""[..], b"  ", b"Not Found", b"a\tb", b"a\x1b[0m", b"\xe9", &long] {
            assert_eq!(Status(404).own_reason_phrase(said), None, "{}", said.escape_ascii());
        }
    }
}
