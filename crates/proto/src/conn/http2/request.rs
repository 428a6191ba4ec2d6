//! From the fields of a header block to a request as the core knows it (RFC 9113 8).
//!
//! Owns: the rules of RFC 9113 8.2 and 8.3, and the flat form: a head like that of HTTP/1.x, so that whatever reads
//! requests reads these as well. Guarantees: what is malformed is found before anybody acts on it; a head is never
//! longer than `Limits::head_bytes_max`, whatever the block stands for. Does not judge the target or the host.
//!
//! ```text
//! GET /path?query HTTP/2.0        <- :method, :path
//! host: example.org               <- :authority, or the Host field
//! upgrade: websocket              <- :protocol (RFC 8441); nobody can send this field
//! accept: */*                     <- in the order in which they came
//! cookie: a=1; b=2                <- at last, from all its crumbs
//!
//! ```

use super::hpack::Scratch;
use super::priority::Priority;
use crate::error::Refusal;
use crate::limits::Limits;
use crate::message::{Field, FieldSet, Head, Method, RequestId, Span, Version};
use crate::parse::connection_fields::is_http1_only;
use crate::parse::head::{is_field_value, is_target};
use crate::parse::list::is_token_byte;

/// Where requests are put together; one for a worker, and used again for each.
#[derive(Debug, Default)]
pub(crate) struct RequestBuffers {
    /// The head, once it is built.
    pub(crate) text: Vec<u8>,
    pseudo: Vec<u8>,
    cookies: Vec<u8>,
    pub(super) scratch: Scratch,
}

/// The fault in the fields of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is none (RFC 9113 8.1.1): an error of the stream.
    Malformed,
    /// It is larger than we read.
    TooLarge(Refusal),
}

/// The content of the fields beyond the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub(super) priority: Priority,
}

/// Puts a request together, field by field.
pub(super) struct RequestBuilder<'a> {
    text: &'a mut Vec<u8>,
    pseudo: &'a mut Vec<u8>,
    cookies: &'a mut Vec<u8>,
    limits: &'a Limits,
    /// Where in `pseudo` the values of :method, :scheme, :authority, :path and :protocol are.
    found: [Option<Span>; 5],
    /// The request line has been written.
    begun: bool,
    fields: usize,
    head: Head,
    priority: Priority,
    wrong: Option<Wrong>,
}

const METHOD: usize = 0;
const SCHEME: usize = 1;
const AUTHORITY: usize = 2;
const PATH: usize = 3;
/// RFC 8441 4.
const PROTOCOL: usize = 4;
const PSEUDO: [&[u8]; 5] = [b":method", b":scheme", b":authority", b":path", b":protocol"];

/// No registered method is longer than 17 bytes.
const METHOD_BYTES_MAX: usize = 32;

impl<'a> RequestBuilder<'a> {
    /// Begins a request. Returns the builder, and what its fields are decoded with.
    pub(super) fn new(buffers: &'a mut RequestBuffers, limits: &'a Limits) -> (RequestBuilder<'a>, &'a mut Scratch) {
        let RequestBuffers { text, pseudo, cookies, scratch } = buffers;
        text.clear();
        pseudo.clear();
        cookies.clear();
        let head = Head {
            length: 0,
            method: Method::Unknown,
            version: Version::Http2,
            target: Span::default(),
            present: FieldSet::default(),
            repeated: FieldSet::default(),
            values: [Span::default(); Field::COUNT],
            fields_at: 0,
            id: RequestId::NONE,
            is_open: false,
        };
        let found = [None; 5];
        let priority = Priority::default();
        (
            RequestBuilder {
                text,
                pseudo,
                cookies,
                limits,
                found,
                begun: false,
                fields: 0,
                head,
                priority,
                wrong: None,
            },
            scratch,
        )
    }

    /// Takes the next field. False if no more are of use.
    pub(super) fn field(&mut self, name: &[u8], value: &[u8]) -> bool {
        // What is wrong is known: a block may stand for much more than it is long.
        if self.wrong.is_some() {
            return false;
        }
        let taken = match name {
            [b':', ..] => self.pseudo_field(name, value),
            _ => self.regular_field(name, value),
        };
        self.wrong = taken.err();
        self.wrong.is_none()
    }

    fn pseudo_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Wrong> {
        let which = PSEUDO.iter().position(|known| *known == name).ok_or(Wrong::Malformed)?;
        if self.begun || self.found[which].is_some() || !is_field_value(value) || is_padded(value) {
            return Err(Wrong::Malformed);
        }
        let start = self.pseudo.len();
        if which == PATH && value.len() > self.limits.target_bytes_max {
            return Err(Wrong::TooLarge(Refusal::TargetTooLong));
        }
        self.make_room(value.len() + 4)?;
        self.pseudo.extend_from_slice(value);
        // What fits the limit fits a span.
        self.found[which] = Some(Span { start: start as u16, end: self.pseudo.len() as u16 });
        Ok(())
    }

    fn regular_field(&mut self, name: &[u8], value: &[u8]) -> Result<(), Wrong> {
        let is_name = !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase());
        if !is_name || !is_field_value(value) || is_padded(value) || is_http1_only(name) {
            return Err(Wrong::Malformed);
        }
        if name == b"te" && !value.eq_ignore_ascii_case(b"trailers") {
            return Err(Wrong::Malformed);
        }
        self.begin()?;
        // RFC 9113 8.2.3: crumbs of cookies are one field. Those without content add no byte that would bound them.
        let is_crumb = name == b"cookie" && !value.is_empty() && !self.cookies.is_empty();
        if !is_crumb {
            self.fields += 1;
        }
        if self.fields > self.limits.fields_max {
            return Err(Wrong::TooLarge(Refusal::FieldsTooLarge));
        }
        match name {
            b"cookie" => {
                self.make_room(value.len() + 2)?;
                if is_crumb {
                    self.cookies.extend_from_slice(b"; ");
                }
                self.cookies.extend_from_slice(value);
                return Ok(());
            }
            // RFC 9113 8.3.1: it may only say the same.
            b"host" if self.found[AUTHORITY].is_some() => {
                let agrees = self.pseudo_value(AUTHORITY).is_some_and(|one| one.eq_ignore_ascii_case(value));
                return if agrees { Ok(()) } else { Err(Wrong::Malformed) };
            }
            b"priority" => self.priority = self.priority.said(value),
            _ => {}
        }
        self.line(name, value)
    }

    /// Writes the request line and the host, once it is clear that no pseudo-field follows.
    fn begin(&mut self) -> Result<(), Wrong> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let method = self.found[METHOD].ok_or(Wrong::Malformed)?;
        let is_connect = method.of(self.pseudo) == b"CONNECT";
        let protocol = self.found[PROTOCOL];
        if protocol.is_some_and(|protocol| !is_protocol(protocol.of(self.pseudo))) {
            return Err(Wrong::Malformed);
        }
        // RFC 9113 8.3.1 and 8.5, RFC 8441 4.
        let target = match (is_connect, protocol, self.found[SCHEME], self.found[PATH]) {
            (true, None, None, None) => self.found[AUTHORITY].ok_or(Wrong::Malformed)?,
            (true, Some(_), Some(_), Some(path)) if self.found[AUTHORITY].is_some() => path,
            (false, None, Some(_), Some(path)) => path,
            _ => return Err(Wrong::Malformed),
        };
        // RFC 9110 4.2.1: http and https have a host. Who has none to name sends no :authority (RFC 9113 8.3.1).
        if self.found[AUTHORITY].is_some_and(|authority| authority.of(self.pseudo).is_empty()) {
            return Err(Wrong::Malformed);
        }
        let (method, scheme) = (method.of(self.pseudo), self.found[SCHEME].map(|span| span.of(self.pseudo)));
        let is_token = (1..=METHOD_BYTES_MAX).contains(&method.len()) && method.iter().all(|&byte| is_token_byte(byte));
        let is_http =
            scheme.is_none_or(|scheme| [&b"http"[..], b"https"].iter().any(|one| scheme.eq_ignore_ascii_case(one)));
        let text = target.of(self.pseudo);
        let is_authority = is_connect && protocol.is_none();
        let is_path = text.first() == Some(&b'/') || text == b"*" && protocol.is_none();
        let is_target = is_target(text) && (is_authority || is_path);
        if !(is_token && is_http && is_target && !text.is_empty()) {
            return Err(Wrong::Malformed);
        }
        self.head.method = Method::of(method);
        let start = method.len() + 1;
        self.head.target = Span { start: start as u16, end: (start + text.len()) as u16 };
        for part in [method, b" ", text, b" ", Version::Http2.name().as_bytes(), b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        self.head.fields_at = self.text.len() as u16;
        if let Some(authority) = self.found[AUTHORITY] {
            // Written from one buffer of ours into another.
            let RequestBuilder { text, pseudo, head, .. } = self;
            write_line(text, head, b"host", authority.of(pseudo));
        }
        if let Some(protocol) = protocol {
            let RequestBuilder { text, pseudo, head, .. } = self;
            write_line(text, head, b"upgrade", protocol.of(pseudo));
        }
        Ok(())
    }

    fn line(&mut self, name: &[u8], value: &[u8]) -> Result<(), Wrong> {
        self.make_room(name.len() + value.len() + 4)?;
        write_line(self.text, &mut self.head, name, value);
        Ok(())
    }

    /// Whether so many bytes more may be kept. What the request line and the cookies add is set aside.
    fn make_room(&mut self, bytes: usize) -> Result<(), Wrong> {
        const SET_ASIDE: usize = 64;
        let kept = self.text.len() + self.pseudo.len() + self.cookies.len() + bytes + SET_ASIDE;
        if kept > self.limits.head_bytes_max { Err(Wrong::TooLarge(Refusal::FieldsTooLarge)) } else { Ok(()) }
    }

    fn pseudo_value(&self, which: usize) -> Option<&[u8]> {
        self.found[which].map(|span| span.of(self.pseudo))
    }

    /// The head of the request, whose text is in the buffers.
    ///
    /// # Errors
    /// Something is wrong with it.
    pub(super) fn finish(mut self) -> Result<(Head, Built), Wrong> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        self.begin()?;
        if !self.cookies.is_empty() {
            write_line(self.text, &mut self.head, b"cookie", self.cookies);
        }
        self.text.extend_from_slice(b"\r\n");
        self.head.length = self.text.len() as u16;
        Ok((self.head, Built { priority: self.priority }))
    }
}

/// Whether this is the name of a protocol, with its version or without (RFC 9110 7.8).
fn is_protocol(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte) || byte == b'/')
}

/// RFC 9113 8.2.1: a value neither begins nor ends with white space.
fn is_padded(value: &[u8]) -> bool {
    matches!(value, [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
}

fn write_line(text: &mut Vec<u8>, head: &mut Head, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.extend_from_slice(b": ");
    let start = text.len();
    text.extend_from_slice(value);
    if let Some(field) = Field::of(name) {
        if head.present.insert(field) {
            head.values[field as usize] = Span { start: start as u16, end: text.len() as u16 };
        } else {
            head.repeated.insert(field);
        }
    }
    text.extend_from_slice(b"\r\n");
}

/// Whether a field may stand behind content (RFC 9113 8.1): no pseudo-field may.
pub(super) fn is_trailer(name: &[u8], value: &[u8]) -> bool {
    let is_name = !name.is_empty() && name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase());
    is_name && is_field_value(value) && !is_http1_only(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;
    use crate::parse::head::{self, Parsed};
    use proptest::prelude::*;

    fn build(fields: &[(&str, &str)], limits: &Limits) -> Result<(String, Head, Built), Wrong> {
        let mut buffers = RequestBuffers::default();
        let (mut builder, _) = RequestBuilder::new(&mut buffers, limits);
        for (name, value) in fields {
            builder.field(name.as_bytes(), value.as_bytes());
        }
        let (head, built) = builder.finish()?;
        Ok((String::from_utf8(buffers.text).unwrap(), head, built))
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "http"), (":authority", "a.example"), (":path", "/p?q")];

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        GET.iter().chain(more).copied().collect()
    }

    #[test]
    fn a_request_becomes_a_head_that_reads_like_one_of_http_1() {
        let fields = with(&[
            ("cookie", "a=1"),
            ("accept", "*/*"),
            ("cookie", "b=2"),
            ("accept", "text/html"),
            ("host", "A.example"),
        ]);
        let (text, head, _) = build(&fields, &Limits::default()).unwrap();
        assert_eq!(
            text,
            "GET /p?q HTTP/2.0\r\nhost: a.example\r\naccept: */*\r\naccept: text/html\r\ncookie: a=1; b=2\r\n\r\n"
        );
        let request = Request { bytes: text.as_bytes(), head: &head };
        assert_eq!((request.method_token(), request.target()), (&b"GET"[..], &b"/p?q"[..]));
        assert_eq!(request.field(Field::Host), Some(&b"a.example"[..]));
        assert_eq!(request.field_lines(Field::Accept).collect::<Vec<_>>(), [&b"*/*"[..], b"text/html"]);
        assert_eq!(usize::from(head.length), text.len());
    }

    #[test]
    fn the_host_may_be_said_by_either_field() {
        let fields = [(":path", "/"), (":scheme", "https"), (":method", "HEAD"), ("host", "b:80")];
        let (text, head, _) = build(&fields, &Limits::default()).unwrap();
        assert_eq!(text, "HEAD / HTTP/2.0\r\nhost: b:80\r\n\r\n");
        assert_eq!(head.method, Method::Head);
        let (text, ..) = build(&[(":method", "CONNECT"), (":authority", "b:80")], &Limits::default()).unwrap();
        assert_eq!(text, "CONNECT b:80 HTTP/2.0\r\nhost: b:80\r\n\r\n");
    }

    #[test]
    fn the_priority_of_all_its_lines_counts() {
        let (.., built) = build(&with(&[("priority", "u=1"), ("priority", "i")]), &Limits::default()).unwrap();
        assert_eq!(built.priority, Priority { urgency: 1, incremental: true });
    }

    // RFC 8441 4.
    #[test]
    fn a_connect_with_a_protocol_asks_for_a_path() {
        let asked = [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/chat")];
        let whole = [&asked[..], &[(":authority", "b:80")]].concat();
        let (text, head, _) = build(&whole, &Limits::default()).unwrap();
        assert_eq!(text, "CONNECT /chat HTTP/2.0\r\nhost: b:80\r\nupgrade: websocket\r\n\r\n");
        assert_eq!(head.method, Method::Connect);
        for left_out in 0..5 {
            let fields: Vec<_> =
                whole.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, one)| *one).collect();
            assert_eq!(build(&fields, &Limits::default()).err(), Some(Wrong::Malformed), "{left_out}");
        }
        for (at, value) in [(1, ""), (1, "a b"), (1, "a\u{e9}"), (3, "*"), (3, "chat")] {
            let mut fields = whole.clone();
            fields[at].1 = value;
            assert_eq!(build(&fields, &Limits::default()).err(), Some(Wrong::Malformed), "{value}");
        }
    }

    // RFC 9113 8.1.1 to 8.3.1.
    #[test]
    fn what_is_malformed_is_no_request() {
        for more in [
            ("Accept", "x"),
            ("", "x"),
            ("a b", "x"),
            ("a", "x\r\ny: z"),
            ("a", "\0"),
            ("a", " x"),
            ("a", "x\t"),
            ("connection", "close"),
            ("proxy-connection", "x"),
            ("keep-alive", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "x"),
            ("te", "gzip"),
            ("host", "other.example"),
            (":method", "GET"),
            (":path", "/again"),
            (":status", "200"),
            (":protocol", "websocket"),
        ] {
            assert_eq!(build(&with(&[more]), &Limits::default()).err(), Some(Wrong::Malformed), "{more:?}");
        }
        assert!(build(&with(&[("te", "trailers")]), &Limits::default()).is_ok());
        let late = [("a", "b"), (":path", "/")];
        assert_eq!(build(&[&GET[..3], &late].concat(), &Limits::default()).err(), Some(Wrong::Malformed));
        for left_out in [0, 1, 3] {
            let fields: Vec<_> =
                GET.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, one)| *one).collect();
            assert_eq!(build(&fields, &Limits::default()).err(), Some(Wrong::Malformed), "{left_out}");
        }
        for (at, value) in
            [(0, ""), (0, "G T"), (1, "ftp"), (2, ""), (3, ""), (3, "p"), (3, "http://a/"), (3, "/a b"), (3, "/\u{7f}")]
        {
            let mut fields = GET;
            fields[at].1 = value;
            assert_eq!(build(&fields, &Limits::default()).err(), Some(Wrong::Malformed), "{value}");
        }
        // A path is judged with the target, whatever the version.
        let mut raw = GET;
        raw[3].1 = "/\u{e9}";
        assert!(build(&raw, &Limits::default()).is_ok());
        let connect = [(":method", "CONNECT"), (":authority", "b:80"), (":path", "/")];
        assert_eq!(build(&connect, &Limits::default()).err(), Some(Wrong::Malformed));
    }

    #[test]
    fn what_is_larger_than_the_limits_is_not_kept() {
        let limits = Limits { head_bytes_max: 1_000, target_bytes_max: 100, fields_max: 5, ..Limits::default() };
        let long = "x".repeat(900);
        assert_eq!(
            build(&with(&[("a", &*long.clone().leak())]), &limits).err(),
            Some(Wrong::TooLarge(Refusal::FieldsTooLarge))
        );
        assert_eq!(build(&with(&[("a", "b"); 6]), &limits).err(), Some(Wrong::TooLarge(Refusal::FieldsTooLarge)));
        assert_eq!(build(&with(&[("cookie", ""); 6]), &limits).err(), Some(Wrong::TooLarge(Refusal::FieldsTooLarge)));
        let mut fields = GET;
        let path = format!("/{}", "x".repeat(100));
        fields[3].1 = path.leak();
        assert_eq!(build(&fields, &limits).err(), Some(Wrong::TooLarge(Refusal::TargetTooLong)));
    }

    // RFC 9113 8.2.3.
    #[test]
    fn cookies_count_once_and_their_bytes_are_bounded() {
        let limits = Limits { head_bytes_max: 1_000, fields_max: 2, ..Limits::default() };
        let (text, ..) = build(&with(&[&[("a", "b")], &[("cookie", "c=1"); 100][..]].concat()), &limits).unwrap();
        assert_eq!(text.matches("c=1").count(), 100);
        assert_eq!(text.matches("cookie: ").count(), 1);
        let more = [&[("cookie", "c=1"); 10][..], &[("a", "b"); 2]].concat();
        assert_eq!(build(&with(&more), &limits).err(), Some(Wrong::TooLarge(Refusal::FieldsTooLarge)));
        let large = [("cookie", "c=1"); 200];
        assert_eq!(build(&with(&large), &limits).err(), Some(Wrong::TooLarge(Refusal::FieldsTooLarge)));
    }

    proptest! {
        #[test]
        fn what_is_accepted_reads_the_same_to_the_parser_of_http_1(
            fields in proptest::collection::vec(
                (prop_oneof!["(:path|:method|accept|host|cookie|range|content-length|x)", "[ -~]{0,6}"], "[ -~\t]{0,20}"), 0..8),
        ) {
            let limits = Limits::default();
            let all: Vec<_> = GET.iter().copied().chain(fields.iter().map(|(name, value)| (&**name, &**value))).collect();
            if let Ok((text, head, _)) = build(&all, &limits) {
                let like = text.replacen(" HTTP/2.0\r\n", " HTTP/1.1\r\n", 1);
                let Ok(Parsed::Complete(other)) = head::parse(like.as_bytes(), &limits) else { panic!("{text}") };
                prop_assert_eq!((head.length, head.target, head.present), (other.length, other.target, other.present));
                prop_assert_eq!((head.repeated, head.values, head.fields_at), (other.repeated, other.values, other.fields_at));
            }
        }
    }
}
