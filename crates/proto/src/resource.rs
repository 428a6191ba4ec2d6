//! Resources, as the core sees them: representations with prebuilt heads, ready to be chosen from.
//!
//! Owns: [`Resource`] and [`Representation`]. Guarantees: a head and the content behind it were described together and
//! never change; content is filled in at most once. Does not open, read or watch files: the server makes these values.

mod aged;
mod encoding;

use std::fmt;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use crate::codings::Codings;
use crate::date;
use crate::exchange::conditional::Validators;
use crate::exchange::given::ContentBuffer;
use crate::exchange::negotiate::Coding;
use crate::message::{Span, Status};
use crate::transmit::FileState;

pub use aged::{Aged, Answered};
pub(crate) use encoding::Body;

/// The resource of a target: a file, a listing, a redirect or an error page.
#[derive(Debug)]
pub struct Resource {
    /// The status of a plain answer. Conditionals and ranges apply to 200 only (RFC 9110 13.2.1).
    pub status: Status,
    /// The variants to choose from.
    pub variants: Variants,
    /// A redirect whose location gets the query of the request (directory redirects keep it), before its fragment.
    pub query_follows: bool,
}

/// The representations of a resource, by what they differ in.
#[derive(Debug)]
pub enum Variants {
    /// Nothing to choose.
    One(Arc<Representation>),
    /// By content coding (RFC 9110 12.5.3); the first is the identity.
    Coded(Box<[Arc<Representation>]>),
    /// By media type (RFC 9110 12.5.1); the first is preferred.
    Typed(Box<[Arc<Representation>]>),
    /// By content coding, made while it is being served.
    Made(Box<Codings>),
}

impl Variants {
    /// All that there are, the preferred one first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Representation>> {
        let (fixed, codings) = match self {
            Variants::One(one) => (std::slice::from_ref(one), None),
            Variants::Coded(several) | Variants::Typed(several) => (&**several, None),
            Variants::Made(codings) => (&[][..], Some(codings)),
        };
        fixed.iter().chain(codings.into_iter().flat_map(|codings| codings.all()))
    }

    /// The preferred one.
    pub fn first(&self) -> &Arc<Representation> {
        match self {
            Variants::One(one) => one,
            Variants::Coded(several) | Variants::Typed(several) => &several[0],
            Variants::Made(codings) => codings.identity(),
        }
    }

    /// Bytes of memory that the list of them takes.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Variants::One(_) => 0,
            Variants::Coded(several) | Variants::Typed(several) => size_of_val(&**several),
            Variants::Made(codings) => size_of_val(&**codings),
        }
    }

    /// Codings that are made while it is being served, if that is so.
    pub fn codings(&self) -> Option<&Codings> {
        match self {
            Variants::Made(codings) => Some(codings),
            _ => None,
        }
    }
}

impl Resource {
    /// Bytes of content that it holds in memory.
    pub fn held_bytes(&self) -> u64 {
        self.variants.all().map(|one| one.held_bytes()).sum()
    }

    /// A resource with one representation.
    pub fn one(status: Status, representation: Representation) -> Resource {
        Resource { status, variants: Variants::One(Arc::new(representation)), query_follows: false }
    }
}

/// The description of a representation.
#[derive(Clone, Debug)]
pub struct Description<'a> {
    /// The status of the prebuilt head.
    pub status: Status,
    /// Its reason phrase, if it is not the registered one.
    pub reason: Option<&'a str>,
    /// Content-Type with its parameters; none where there is no content.
    pub media_type: Option<&'a str>,
    /// Content-Encoding.
    pub coding: Coding,
    /// Bytes of content.
    pub size: u64,
    /// Last-Modified, seconds since 1970.
    pub modified: Option<u64>,
    /// ETag with its quotes.
    pub etag: Option<&'a str>,
    /// Whether ranges are served.
    pub ranges: bool,
    /// Vary.
    pub vary: Option<&'a str>,
    /// Further fields, as they are.
    pub fields: &'a [(String, String)],
    /// Location; the last line of the head, so that a query can be put into it.
    pub location: Option<&'a str>,
    /// For the kept answer of an application: since when it ages, and its own date. Fields of ours are not added to it.
    pub aged: Option<Aged>,
}

impl Description<'_> {
    /// The description of no content, with `status` and nothing else: to be filled in by `..`.
    pub fn of(status: Status) -> Description<'static> {
        Description {
            status,
            reason: None,
            media_type: None,
            coding: Coding::Identity,
            size: 0,
            modified: None,
            etag: None,
            ranges: false,
            vary: None,
            fields: &[],
            location: None,
            aged: None,
        }
    }
}

/// One representation: its head as it goes on the wire, and where its content is.
///
/// ```text
/// HTTP/1.1 200 OK
/// Date: <29 bytes, rewritten in every copy>      <- date_at
/// Server: Lamna
/// Content-Length: 500
/// Content-Type: text/html; charset=utf-8         <- fields_at
/// Content-Encoding: br                           <- after_type_at
/// Accept-Ranges: bytes
/// Last-Modified: ...                             <- kept_at: what a 304 repeats (RFC 9110 15.4.5)
/// ETag: "..."
/// Vary: Accept-Encoding
/// X-Extra: ...
/// Age: 0                                         <- age_at, of kept answers only: the number is written anew in every copy
/// Location: ...
///
/// ```
#[derive(Debug)]
pub struct Representation {
    /// The head, and behind it the content if it was there from the beginning.
    bytes: Box<[u8]>,
    head_length: u16,
    date_at: u16,
    fields_at: u16,
    after_type_at: u16,
    kept_at: u16,
    /// Where the number of its age is, and since when it ages, in seconds since 1970: of kept answers only.
    age: Span,
    aged_since: u32,
    etag: Span,
    media: Span,
    /// The field lines of the head after `Server`, by their parts: they need not be looked for in the text.
    lines: Box<[FieldLine]>,
    /// The status of the head.
    pub status: Status,
    /// Whether ranges are served.
    ranges: bool,
    /// The content coding.
    pub coding: Coding,
    /// Bytes of content.
    pub size: u64,
    modified: Modified,
    /// The state of the file that was described. Held, never used by the core.
    pub state: FileState,
    /// The counter of the memory of this for as long as it is held. Held, never used by the core.
    pub keeper: OnceLock<Arc<dyn std::any::Any + Send + Sync>>,
    /// The open file that holds the content, if it is a file. Held, never used by the core.
    pub file: Option<Arc<OwnedFd>>,
    /// Head and content in one buffer, of content that was read later.
    later: OnceLock<Box<[u8]>>,
    /// The head as a header block of HTTP/2, without date and server, once it was asked for.
    block: OnceLock<Box<[u8]>>,
}

/// A last modification in seconds since 1970, if there is one, in the space of the number: there are many
/// representations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modified(u64);

impl Modified {
    const NONE: Modified = Modified(u64::MAX);

    fn of(seconds: Option<u64>) -> Modified {
        seconds.map_or(Modified::NONE, Modified)
    }

    fn seconds(self) -> Option<u64> {
        (self != Modified::NONE).then_some(self.0)
    }
}

/// Where a field line of a head has its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldLine {
    name: Span,
    value: Span,
}

/// A part of the field lines of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From Content-Length on.
    All,
    /// From Content-Type on.
    Described,
    /// After Content-Type.
    AfterType,
    /// The part that a 304 repeats.
    Kept,
}

impl ContentBuffer for Representation {
    /// The content, if held; else nothing.
    fn bytes(&self) -> &[u8] {
        self.content().unwrap_or_default()
    }

    /// Its entry counts it, or what made it.
    fn own_bytes(&self) -> usize {
        0
    }
}

impl Representation {
    /// Last modification, seconds since 1970.
    pub fn modified(&self) -> Option<u64> {
        self.modified.seconds()
    }

    /// Describes a representation whose content is in `file` (or that has none).
    ///
    /// `Server` and `X-Content-Type-Options` among the described fields stand in the place of ours, so that no field is
    /// sent twice.
    ///
    /// # Errors
    /// The described head is longer than [`HEAD_BYTES_MAX`].
    pub fn new(description: &Description<'_>, file: Option<Arc<OwnedFd>>) -> Result<Representation, HeadTooLong> {
        let mut head = Vec::with_capacity(HEAD_BYTES_USUAL);
        let mut lines = Vec::with_capacity(LINES_USUAL);
        let mut line = |head: &mut Vec<u8>, name: &str, value: &str| {
            let start = head.len();
            for part in [name, ": ", value, "\r\n"] {
                head.extend_from_slice(part.as_bytes());
            }
            let end = head.len() - 2;
            lines.push((start..start + name.len(), end - value.len()..end));
            end - value.len()..end
        };
        let configured = |name: &str| description.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        status_line(&mut head, description.status, description.reason);
        let own_date = description.aged.map(|aged| date::format(aged.date));
        let date_text = own_date.as_ref().and_then(|text| std::str::from_utf8(text).ok());
        let date_at = line(&mut head, "Date", date_text.unwrap_or(EPOCH)).start;
        line(&mut head, SERVER_FIELD, configured(SERVER_FIELD).map_or(SERVER, |(_, value)| value));
        if description.status.0 != 204 {
            line(&mut head, "Content-Length", &description.size.to_string());
        }
        let fields_at = head.len();
        let media = description.media_type.map(|media| line(&mut head, "Content-Type", media));
        let after_type_at = head.len();
        if description.coding != Coding::Identity {
            line(&mut head, "Content-Encoding", description.coding.name());
        }
        if description.media_type.is_some() && configured(SNIFFING_FIELD).is_none() && description.aged.is_none() {
            line(&mut head, SNIFFING_FIELD, "nosniff");
        }
        if description.ranges {
            line(&mut head, "Accept-Ranges", "bytes");
        }
        let kept_at = head.len();
        if let Some(modified) = description.modified {
            let text = date::format(modified);
            line(&mut head, "Last-Modified", std::str::from_utf8(&text).unwrap_or(EPOCH));
        }
        let etag = description.etag.map(|etag| line(&mut head, "ETag", etag));
        if let Some(vary) = description.vary {
            line(&mut head, "Vary", vary);
        }
        for (name, value) in description.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(SERVER_FIELD)) {
            line(&mut head, name, value);
        }
        // Not among the lines: it has another value each time.
        let age = description.aged.map(|_| {
            head.extend_from_slice(b"Age: 0\r\n");
            head.len() - 3..head.len() - 2
        });
        if let Some(location) = description.location {
            line(&mut head, "Location", location);
        }
        head.extend_from_slice(b"\r\n");
        let head_length = u16::try_from(head.len()).map_err(|_| HeadTooLong)?;
        // Every place is within the head, whose length is a u16.
        let span = |range: Range<usize>| Span { start: range.start as u16, end: range.end as u16 };
        // Date and Server come first, and differ from one answer, or connection, to another.
        let lines = lines.into_iter().skip(2).map(|(name, value)| FieldLine { name: span(name), value: span(value) });
        let lines = lines.collect();
        Ok(Representation {
            bytes: head.into_boxed_slice(),
            head_length,
            date_at: date_at as u16,
            fields_at: fields_at as u16,
            after_type_at: after_type_at as u16,
            kept_at: kept_at as u16,
            age: age.map(span).unwrap_or_default(),
            aged_since: description.aged.map_or(0, |aged| u32::try_from(aged.since).unwrap_or(u32::MAX)),
            etag: etag.map(span).unwrap_or_default(),
            media: media.map(span).unwrap_or_default(),
            lines,
            status: description.status,
            ranges: description.ranges,
            coding: description.coding,
            size: description.size,
            modified: Modified::of(description.modified),
            file,
            state: FileState::default(),
            keeper: OnceLock::new(),
            later: OnceLock::new(),
            block: OnceLock::new(),
        })
    }

    /// Describes a representation whose content is `content`, and holds it.
    ///
    /// # Errors
    /// As [`Representation::new`].
    pub fn with_content(description: &Description<'_>, content: &[u8]) -> Result<Representation, HeadTooLong> {
        let described = Representation::new(&Description { size: content.len() as u64, ..description.clone() }, None)?;
        Ok(Representation { bytes: [described.head(), content].concat().into_boxed_slice(), ..described })
    }

    /// Describes a representation and holds its content, which `read` writes to where it stays: `description.size`
    /// bytes, zeros at first. Nothing if `read` says that this is not what was described.
    ///
    /// # Errors
    /// Those of `read` and of [`Representation::new`].
    ///
    /// # Panics
    /// If there cannot be as many bytes in memory: the caller bounds the size.
    pub fn with_content_read<E: From<HeadTooLong>>(
        description: &Description<'_>,
        read: impl FnOnce(&mut [u8]) -> Result<bool, E>,
    ) -> Result<Option<Representation>, E> {
        let described = Representation::new(description, None)?;
        let size = usize::try_from(description.size).expect("the caller bounds the size");
        // Not grown from the head: memory that is asked for as zeros need not be written to.
        let mut bytes = vec![0; described.bytes.len() + size];
        let (head, content) = bytes.split_at_mut(described.bytes.len());
        head.copy_from_slice(described.head());
        let is_described = read(content)?;
        Ok(is_described.then(|| Representation { bytes: bytes.into_boxed_slice(), ..described }))
    }

    /// Holds `content` (of `size` bytes) from now on, head and content in one buffer. False if it was held already.
    ///
    /// # Panics
    /// If the length of `content` is not `size`: a head and content that disagree must never meet.
    pub fn fill(&self, content: &[u8]) -> bool {
        assert_eq!(content.len() as u64, self.size, "content must match its description");
        self.message().is_none() && self.later.set([self.head(), content].concat().into_boxed_slice()).is_ok()
    }

    /// This representation, of status 200, under `coding`, as `content`: with the same fields but for those that
    /// describe the coding. The validator is the same with `suffix` added, as different bytes need different strong
    /// ones (RFC 9110 8.8.1).
    ///
    /// # Errors
    /// As [`Representation::new`]: the head becomes a little longer.
    pub fn coded(&self, coding: Coding, suffix: &str, content: &[u8]) -> Result<Representation, HeadTooLong> {
        let media_type = self.media_type();
        let etag = std::str::from_utf8(self.etag.of(&self.bytes)).unwrap_or_default();
        let etag = etag.strip_suffix('"').map(|open| format!("{open}-{suffix}\""));
        let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
        let mut fields = vec![(SERVER_FIELD.to_owned(), text(self.server()).to_owned())];
        let mut vary = None;
        for (name, value) in self.lines(Part::Kept).map(|(name, value)| (text(name), text(value))) {
            match name {
                "Last-Modified" | "ETag" => {}
                "Vary" if vary.is_none() => vary = Some(value),
                _ => fields.push((name.to_owned(), value.to_owned())),
            }
        }
        let description = Description {
            media_type: (!media_type.is_empty()).then_some(media_type),
            coding,
            size: content.len() as u64,
            modified: self.modified(),
            etag: etag.as_deref(),
            ranges: self.ranges,
            vary,
            fields: &fields,
            ..Description::of(Status(200))
        };
        Representation::with_content(&description, content)
    }

    /// The prebuilt head, empty line included. Its date is a placeholder.
    pub fn head(&self) -> &[u8] {
        &self.bytes[..usize::from(self.head_length)]
    }

    /// Head and content in one buffer, if held.
    pub fn message(&self) -> Option<&[u8]> {
        let is_whole = (self.bytes.len() - usize::from(self.head_length)) as u64 == self.size;
        if is_whole && self.file.is_none() { Some(&self.bytes) } else { self.later.get().map(|message| &**message) }
    }

    /// The content, if held.
    pub fn content(&self) -> Option<&[u8]> {
        self.message().map(|message| &message[usize::from(self.head_length)..])
    }

    /// The head as a header block of HTTP/2, without date and server. `build` makes it when it is asked for the first
    /// time.
    pub(crate) fn block(&self, build: fn(&Representation) -> Box<[u8]>) -> &[u8] {
        self.block.get_or_init(|| build(self))
    }

    /// Names and values of the fields of a part of the head, in their order.
    pub(crate) fn lines(&self, part: Part) -> impl Iterator<Item = (&[u8], &[u8])> {
        let from = match part {
            Part::All => 0,
            Part::Described => self.fields_at,
            Part::AfterType => self.after_type_at,
            Part::Kept => self.kept_at,
        };
        let lines = self.lines.iter().filter(move |line| line.name.start >= from);
        lines.map(|line| (line.name.of(&self.bytes), line.value.of(&self.bytes)))
    }

    /// Where the 29 bytes of the date are in the head.
    pub fn date_at(&self) -> usize {
        usize::from(self.date_at)
    }

    /// The value of the Server field, whose line follows that of the date.
    pub fn server(&self) -> &[u8] {
        let after_date = self.date_at() + EPOCH.len() + "\r\n".len();
        let line = self.head()[after_date..].split(|&byte| byte == b'\r').next().unwrap_or_default();
        line.strip_prefix(b"Server: ").unwrap_or_default()
    }

    /// Field lines from Content-Type on, empty line included.
    pub fn fields(&self) -> &[u8] {
        &self.head()[usize::from(self.fields_at)..]
    }

    /// The Content-Type line.
    pub fn type_line(&self) -> &[u8] {
        &self.head()[usize::from(self.fields_at)..usize::from(self.after_type_at)]
    }

    /// Field lines after Content-Type, empty line included.
    pub fn fields_after_type(&self) -> &[u8] {
        &self.head()[usize::from(self.after_type_at)..]
    }

    /// Field lines that a 304 repeats, empty line included.
    pub fn fields_kept(&self) -> &[u8] {
        &self.head()[usize::from(self.kept_at)..]
    }

    /// The validators that preconditions are compared with.
    pub fn validators(&self) -> Validators<'_> {
        let etag = self.etag.of(&self.bytes);
        Validators { etag: (!etag.is_empty()).then_some(etag), modified_unix_seconds: self.modified() }
    }

    /// The media type with its parameters; empty if there is none.
    pub fn media_type(&self) -> &str {
        std::str::from_utf8(self.media.of(&self.bytes)).unwrap_or_default()
    }

    /// Bytes of content that this holds in memory.
    pub fn held_bytes(&self) -> u64 {
        self.content().map_or(0, |content| content.len() as u64)
    }

    /// The buffers that this holds, in bytes: head, content.
    pub fn buffer_bytes(&self) -> [usize; 2] {
        let block = self.block.get().map_or(0, |block| block.len());
        [self.bytes.len() + size_of_val(&*self.lines) + block, self.later.get().map_or(0, |message| message.len())]
    }
}

/// The value of the Server field (RFC 9110 10.2.4) if none is configured. No version: it helps attackers only.
pub const SERVER: &str = "Lamna";
const SERVER_FIELD: &str = "Server";
const SNIFFING_FIELD: &str = "X-Content-Type-Options";

/// The longest head that is sent, in bytes. No client that is known reads longer ones.
pub const HEAD_BYTES_MAX: usize = u16::MAX as usize;

/// A location in two parts, between which a query goes: before the fragment, if there is one (RFC 3986 3).
pub(crate) fn split_location(location: &[u8]) -> (&[u8], &[u8]) {
    location.split_at(memchr::memchr(b'#', location).unwrap_or(location.len()))
}

/// A head would have been longer than [`HEAD_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadTooLong;

impl fmt::Display for HeadTooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the head of the answer is too long")
    }
}

impl std::error::Error for HeadTooLong {}

/// The room of a head before it has to grow.
const HEAD_BYTES_USUAL: usize = 320;
/// The room of the list of its lines before that.
const LINES_USUAL: usize = 12;

const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

/// `HTTP-version SP status-code SP reason-phrase CRLF`. A server answers with its own version (RFC 9110 6.2).
/// `reason` is said in the place of the registered phrase.
pub fn status_line(out: &mut Vec<u8>, status: Status, reason: Option<&str>) {
    let code = status.0;
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[digit(code / 100), digit(code / 10), digit(code), b' ']);
    out.extend_from_slice(reason.unwrap_or_else(|| status.reason_phrase()).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn digit(number: u16) -> u8 {
    b'0' + (number % 10) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description<'static> {
        Description {
            status: Status(200),
            reason: None,
            media_type: Some("text/plain"),
            coding: Coding::Identity,
            size: 3,
            modified: Some(0),
            etag: Some("\"e\""),
            ranges: true,
            vary: None,
            fields: &[],
            location: None,
            aged: None,
        }
    }

    #[test]
    fn the_parts_of_the_head_are_where_the_drawing_says() {
        let representation = Representation::with_content(&description(), b"abc").unwrap();
        let head = String::from_utf8_lossy(representation.head());
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nDate: "), "{head}");
        assert!(head.ends_with("ETag: \"e\"\r\n\r\n"), "{head}");
        assert!(representation.head()[representation.date_at()..].starts_with(EPOCH.as_bytes()));
        assert_eq!(representation.type_line(), b"Content-Type: text/plain\r\n");
        assert!(representation.fields_kept().starts_with(b"Last-Modified: "));
        assert_eq!(representation.validators().etag, Some(&b"\"e\""[..]));
        assert_eq!(representation.content(), Some(&b"abc"[..]));
        assert_eq!(representation.media_type(), "text/plain");
    }

    #[test]
    fn the_fields_of_a_part_are_the_lines_of_the_text() {
        let fields = [("X-Extra".to_owned(), "a: b".to_owned()), ("X-Empty".to_owned(), String::new())];
        let all = Description { vary: Some("Accept-Encoding"), fields: &fields, location: Some("/a"), ..description() };
        let representation = Representation::with_content(&all, b"abc").unwrap();
        let texts = [
            (Part::Described, representation.fields()),
            (Part::AfterType, representation.fields_after_type()),
            (Part::Kept, representation.fields_kept()),
        ];
        for (part, text) in texts {
            let lines = representation.lines(part).map(|(name, value)| [name, b": ", value, b"\r\n"].concat());
            assert_eq!([lines.collect::<Vec<_>>().concat(), b"\r\n".to_vec()].concat(), text, "{part:?}");
        }
        let first = representation.lines(Part::All).next();
        assert_eq!(first, Some((&b"Content-Length"[..], &b"3"[..])));
        assert_eq!(representation.status, Status(200));
    }

    #[test]
    fn a_coded_copy_differs_in_what_describes_the_coding_only() {
        let fields = [("X-Extra".to_owned(), "a: b".to_owned())];
        let whole = Description { vary: Some("Accept-Encoding"), fields: &fields, ..description() };
        let coded = Representation::with_content(&whole, b"abc").unwrap().coded(Coding::Gzip, "gz9", b"12").unwrap();
        let expected = Description { coding: Coding::Gzip, etag: Some("\"e-gz9\""), ..whole };
        assert_eq!(coded.message(), Representation::with_content(&expected, b"12").unwrap().message());
        assert_eq!(coded.validators().etag, Some(&b"\"e-gz9\""[..]));
    }

    #[test]
    fn configured_fields_stand_in_the_place_of_ours() {
        let fields = [("sERVER", "x"), ("x-content-type-options", "y"), ("X-A", "1"), ("X-A", "2")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let described = Description { fields: &fields, vary: Some("Accept-Encoding"), ..description() };
        let whole = Representation::with_content(&described, b"abc").unwrap();
        for one in [&whole, &whole.coded(Coding::Gzip, "gz9", b"12").unwrap()] {
            let head = String::from_utf8_lossy(one.head()).to_lowercase();
            assert_eq!(one.server(), b"x");
            assert_eq!(head.matches("\r\nserver: x\r\n").count(), 1, "{head}");
            assert_eq!(head.matches("server:").count() + head.matches("nosniff").count(), 1, "{head}");
            assert_eq!(head.matches("\r\nx-content-type-options: y\r\n").count(), 1, "{head}");
            assert_eq!(head.matches("\r\nx-a: 1\r\nx-a: 2\r\n").count(), 1, "{head}");
        }
        assert_eq!(Representation::new(&description(), None).unwrap().server(), SERVER.as_bytes());
    }

    #[test]
    fn a_head_that_is_too_long_is_an_error_and_the_longest_is_not() {
        let bare = Representation::new(&Description { location: Some(""), ..description() }, None).unwrap();
        let room = HEAD_BYTES_MAX - bare.head().len();
        let with_location = |bytes: usize| {
            let location = "x".repeat(bytes);
            let description = Description { location: Some(&location), ..description() };
            Representation::new(&description, None).map(|one| one.head().len())
        };
        assert_eq!(with_location(room), Ok(HEAD_BYTES_MAX));
        assert_eq!(with_location(room + 1), Err(HeadTooLong));
        assert_eq!(with_location(3 * HEAD_BYTES_MAX), Err(HeadTooLong));
    }

    #[test]
    fn content_that_is_read_to_where_it_stays_is_held_as_any_other() {
        let read = |content: &mut [u8]| {
            assert_eq!(content, [0; 3]);
            content.copy_from_slice(b"abc");
            Ok::<_, HeadTooLong>(true)
        };
        let whole = Representation::with_content(&description(), b"abc").unwrap();
        let representation = Representation::with_content_read(&description(), read).unwrap().unwrap();
        assert_eq!(representation.message(), whole.message());
        assert_eq!(representation.buffer_bytes(), whole.buffer_bytes());
        assert!(Representation::with_content_read(&description(), |_| Ok::<_, HeadTooLong>(false)).unwrap().is_none());
        let failed =
            Representation::with_content_read(&description(), |_| Err(Box::<dyn std::error::Error>::from("7")));
        assert!(failed.is_err_and(|error| error.to_string() == "7"));
    }

    #[test]
    #[should_panic(expected = "content must match its description")]
    fn content_of_another_length_is_never_held() {
        Representation::new(&description(), None).unwrap().fill(b"too long");
    }
}
