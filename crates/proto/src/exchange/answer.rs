//! From a request and the resource it asks for to the answer: preconditions, choice of representation, ranges.
//!
//! Owns: the decisions of RFC 9110 12 to 14 in their order, and how far an answer has been handed over. Guarantees:
//! pure, and the same for every version of HTTP; the plain cached case ([`plain_choice`]) is a lookup of flags and
//! allocates nothing. Writes nothing: `conn/http1/writer.rs` and `conn/http2/response.rs` do.

mod encoding;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::Refusal;
use crate::exchange::conditional::{self, Outcome, Preconditions};
use crate::exchange::early_hints::LinkField;
use crate::exchange::given::ContentBuffer;
use crate::exchange::negotiate::{self, CodingSet};
use crate::exchange::range::{self, ByteRange, Resolved};
use crate::exchange::saved::Saved;
use crate::message::{Field, FieldSet, Method, Request, RequestId, Status, TellsIds, Version};
use crate::parse::host;
use crate::parse::target::{self, Target};
use crate::resource::{Representation, Resource, Variants};
use crate::time::Instant;
use crate::workspace::pages::PagesByHost;

/// An answer that has been decided on. It owns what it takes to finish it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) representation: Arc<Representation>,
    pub(crate) kind: Kind,
    /// Whether the head has been written to the output.
    pub(crate) begun: bool,
    /// The rest of the stretch that is being sent.
    pub(crate) current: ByteRange,
    /// The pieces behind it.
    pub(crate) later: VecDeque<Piece>,
    /// Bytes of `current` that the driver said are ready, for content that is in a file.
    pub(crate) ready: u64,
    /// The buffer of those bytes, if they have been read into memory.
    pub(crate) read: Option<ReadContent>,
    /// Whether a Read has been handed out and not answered.
    pub(crate) reading: bool,
    /// Whether what was ready has been withdrawn, and is not wanted again before the peer takes something.
    pub(crate) paused: bool,
    /// Bytes of content handed over so far; for the log.
    pub(crate) content_bytes: u64,
    /// The request ID that the client is told; none if it is not told.
    pub(crate) id: RequestId,
    /// Goes with the answer if that is the whole resource.
    pub(crate) link: Option<Arc<LinkField>>,
}

/// Content of a file that was read for one answer.
#[derive(Debug)]
pub(crate) struct ReadContent {
    pub(crate) buffer: Arc<dyn ContentBuffer>,
    /// Where in the representation it begins.
    pub(crate) offset: u64,
    /// When it was read.
    pub(crate) since: Instant,
}

/// Which head goes with the answer.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The prebuilt one, with this query added to its Location.
    Prebuilt(Vec<u8>),
    NotModified,
    Partial,
    Multipart {
        boundary: String,
        length: u64,
    },
    Unsatisfiable {
        size: u64,
    },
}

/// A piece behind the current stretch of a multipart answer.
#[derive(Debug)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    Content(ByteRange),
}

/// The circumstances that a decision depends on beside the request and the resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerContext<'a> {
    /// The pages that explain refusals.
    pub(crate) pages: &'a dyn PagesByHost,
    pub(crate) unix_seconds: u64,
    pub(crate) ranges_max: usize,
    /// Which clients are told the ID of their request.
    pub(crate) tells_ids: TellsIds,
}

/// The status of answers that links go with.
pub(crate) const OK: Status = Status(200);

/// Whether an answer of this status holds whatever the content of its request is: refusals and redirects do. So it is
/// given where the content is too large, late or not to be invited, and the client learns what it has to do first: say
/// who it is, ask elsewhere, wait.
pub(crate) fn holds_without_content(status: Status) -> bool {
    !(200..300).contains(&status.0)
}

/// Fields that make an answer other than plain.
const CONDITIONS: FieldSet =
    FieldSet::of(&[Field::Range, Field::IfMatch, Field::IfNoneMatch, Field::IfModifiedSince, Field::IfUnmodifiedSince]);

/// The representation of the plain answer, whose head is the prebuilt one. Nothing if more has to be decided.
pub(crate) fn plain_choice<'a>(request: Request<'_>, resource: &'a Resource) -> Option<&'a Arc<Representation>> {
    let conditional = resource.status.0 == 200 && request.head.present.intersects(CONDITIONS);
    let is_plain = !conditional && !resource.query_follows;
    is_plain.then(|| choose(request, &resource.variants))
}

/// Decides on the answer to a request that was kept.
pub(crate) fn decide_saved(saved: &Saved, resource: &Resource, answer_context: AnswerContext<'_>) -> Answer {
    Answer { link: saved.link.clone(), ..decide(saved.request(), resource, answer_context) }
}

/// Decides on the answer, in the order of RFC 9110 13.2.2.
pub(crate) fn decide(request: Request<'_>, resource: &Resource, answer_context: AnswerContext<'_>) -> Answer {
    let representation = choose(request, &resource.variants);
    let whole = ByteRange { offset: 0, length: representation.size };
    let mut answer = Answer::new(resource.status, representation, Kind::Prebuilt(Vec::new()), whole);
    if let (true, Some(query)) = (resource.query_follows, query_of(request.target())) {
        answer.kind = Kind::Prebuilt(query.to_vec());
    }
    if resource.status.0 == 200 && request.head.present.intersects(CONDITIONS) {
        answer = apply_conditions(request, answer, answer_context);
    }
    if request.head.method == Method::Head {
        answer.drop_content();
    }
    answer.id = answer_context.tells_ids.id_told(request);
    answer
}

/// Whether the target is an authority: CONNECT has one, but for that of RFC 8441.
pub(crate) fn asks_authority(request: Request<'_>) -> bool {
    let has_path = request.head.version == Version::Http2 && request.target().starts_with(b"/");
    request.head.method == Method::Connect && !has_path
}

/// The host that a request asks, without its port, if it says so in one way: it may be a request that is refused for
/// its host. As received.
pub(crate) fn host_of(request: Request<'_>) -> Option<&[u8]> {
    let is_told_once = !request.head.repeated.contains(Field::Host);
    let authority = match target::parse(request.target(), asks_authority(request)) {
        Ok(Target::Absolute { authority, .. }) if is_told_once => authority,
        Ok(_) if is_told_once => request.field(Field::Host)?,
        _ => return None,
    };
    host::parse_field(authority).ok().flatten().map(|host| host.name)
}

/// The page that explains `refusal`. `request` is there if its head could be read.
pub(crate) fn refuse(refusal: Refusal, request: Option<Request<'_>>, answer_context: AnswerContext<'_>) -> Answer {
    let page = answer_context.pages.refusal_of(request.and_then(host_of), request, refusal);
    let representation = match request {
        Some(request) => choose(request, &page.variants),
        None => page.variants.first(),
    };
    let whole = ByteRange { offset: 0, length: representation.size };
    let mut answer = Answer::new(page.status, representation, Kind::Prebuilt(Vec::new()), whole);
    if request.is_some_and(|request| request.head.method == Method::Head) {
        answer.drop_content();
    }
    answer.id = request.map_or(RequestId::NONE, |request| answer_context.tells_ids.id_told(request));
    answer
}

fn apply_conditions(request: Request<'_>, answer: Answer, answer_context: AnswerContext<'_>) -> Answer {
    let representation = answer.representation.clone();
    let preconditions = Preconditions {
        if_match: request.field_lines(Field::IfMatch),
        if_none_match: request.field_lines(Field::IfNoneMatch),
        if_modified_since: single(request, Field::IfModifiedSince),
        if_unmodified_since: single(request, Field::IfUnmodifiedSince),
    };
    let outcome = conditional::evaluate(preconditions, true, representation.validators());
    match outcome {
        Outcome::PreconditionFailed => refuse(Refusal::PreconditionFailed, Some(request), answer_context),
        Outcome::NotModified => {
            let nothing = ByteRange { offset: 0, length: 0 };
            Answer::new(Status(304), &representation, Kind::NotModified, nothing)
        }
        Outcome::Proceed => apply_range(request, answer, answer_context),
    }
}

/// RFC 9110 14.2: a range applies to GET only, and only if If-Range holds.
fn apply_range(request: Request<'_>, mut answer: Answer, answer_context: AnswerContext<'_>) -> Answer {
    let Some(field) = single(request, Field::Range).filter(|_| request.head.method == Method::Get) else {
        return answer;
    };
    let validators = answer.representation.validators();
    let holds = match request.field(Field::IfRange) {
        Some(_) if request.head.repeated.contains(Field::IfRange) => false,
        Some(value) => conditional::if_range_holds(value, validators, answer_context.unix_seconds),
        None => true,
    };
    if !holds {
        return answer;
    }
    let size = answer.representation.size;
    match range::resolve(field, size, answer_context.ranges_max) {
        Resolved::Whole => {}
        Resolved::Unsatisfiable => {
            answer = refuse(Refusal::RangeNotSatisfiable, Some(request), answer_context);
            answer.kind = Kind::Unsatisfiable { size };
        }
        Resolved::Single(one) => {
            answer.status = Status(206);
            answer.kind = Kind::Partial;
            answer.current = one;
        }
        Resolved::Several(parts) => answer.make_multipart(&parts, answer_context.unix_seconds),
    }
    answer
}

/// The value of a field that may stand only once; repeated, it is ignored like any invalid value.
fn single<'a>(request: Request<'a>, field: Field) -> Option<&'a [u8]> {
    request.field(field).filter(|_| !request.head.repeated.contains(field))
}

fn choose<'a>(request: Request<'_>, variants: &'a Variants) -> &'a Arc<Representation> {
    match variants {
        Variants::One(one) => one,
        Variants::Coded(several) => choose_coding(request, several),
        Variants::Typed(several) => choose_type(request, several),
        Variants::Made(codings) if request.field(Field::AcceptEncoding).is_none() => codings.identity(),
        Variants::Made(codings) => codings.choose(request.field_lines(Field::AcceptEncoding)),
    }
}

fn choose_coding<'a>(request: Request<'_>, several: &'a [Arc<Representation>]) -> &'a Arc<Representation> {
    if request.field(Field::AcceptEncoding).is_none() {
        return &several[0];
    }
    let available = several.iter().fold(CodingSet::IDENTITY, |set, one| set.with(one.coding));
    let chosen = negotiate::select_coding(request.field_lines(Field::AcceptEncoding), available);
    several.iter().find(|one| one.coding == chosen).unwrap_or(&several[0])
}

/// Whether JSON suits the request better than HTML, as [`choose_type`] would choose between them.
pub(crate) fn prefers_json(request: Request<'_>) -> bool {
    request.field(Field::Accept).is_some()
        && negotiate::prefer_media(request.field_lines(Field::Accept), &["text/html", PLAIN_JSON]) == 1
}

// Who asks for JSON is content with the JSON of problem details (RFC 9457), which has a type of its own.
const PLAIN_JSON: &str = "application/json";

fn choose_type<'a>(request: Request<'_>, several: &'a [Arc<Representation>]) -> &'a Arc<Representation> {
    let mut types = [PLAIN_JSON; TYPES_MAX + 1];
    let count = several.len().min(TYPES_MAX);
    for (slot, one) in types.iter_mut().zip(&several[..count]) {
        *slot = one.media_type().split(';').next().unwrap_or_default();
    }
    let chosen = negotiate::prefer_media(request.field_lines(Field::Accept), &types[..=count]);
    let json = || several.iter().position(|one| one.media_type().ends_with("json")).unwrap_or(0);
    &several[if chosen == count { json() } else { chosen }]
}

/// Media types that one resource can be had in.
const TYPES_MAX: usize = 4;

fn query_of(target: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'?', target).map(|at| &target[at..])
}

impl Piece {
    /// Bytes of it.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Piece::Text(text) => text.len() as u64,
            Piece::Content(range) => range.length,
        }
    }
}

impl Answer {
    fn new(status: Status, representation: &Arc<Representation>, kind: Kind, current: ByteRange) -> Answer {
        Answer {
            status,
            representation: representation.clone(),
            kind,
            begun: false,
            current,
            later: VecDeque::new(),
            ready: 0,
            read: None,
            reading: false,
            paused: false,
            content_bytes: 0,
            id: RequestId::NONE,
            link: None,
        }
    }

    /// The link that goes with it.
    pub(crate) fn link(&self) -> Option<&LinkField> {
        self.link.as_deref().filter(|_| self.status == OK && matches!(self.kind, Kind::Prebuilt(_)))
    }

    fn drop_content(&mut self) {
        self.current.length = 0;
        self.later.clear();
    }

    /// RFC 9110 14.6: each part has its own Content-Type and Content-Range.
    fn make_multipart(&mut self, parts: &[ByteRange], unix_seconds: u64) {
        let boundary = boundary(&self.representation, unix_seconds);
        let size = self.representation.size;
        let mut length = 0;
        for part in parts {
            let mut text = format!("\r\n--{boundary}\r\n").into_bytes();
            text.extend_from_slice(self.representation.type_line());
            push_content_range(&mut text, part, size);
            text.extend_from_slice(b"\r\n");
            length += text.len() as u64 + part.length;
            self.later.push_back(Piece::Text(text));
            self.later.push_back(Piece::Content(*part));
        }
        let end = format!("\r\n--{boundary}--\r\n").into_bytes();
        length += end.len() as u64;
        self.later.push_back(Piece::Text(end));
        self.status = Status(206);
        self.current = ByteRange { offset: 0, length: 0 };
        self.kind = Kind::Multipart { boundary, length };
    }

    /// `bytes` of what was wanted can be sent.
    pub(crate) fn handle_ready(&mut self, bytes: u64) {
        let sendable = self.representation.file.is_some() || self.representation.content().is_some();
        debug_assert!(sendable && bytes > 0, "what is ready is in memory or in a file, and not nothing");
        self.reading = false;
        self.ready = bytes.min(self.wanted().length);
        self.read = None;
    }

    /// The wanted content has been read into `buffer`, as far as that goes.
    pub(crate) fn handle_content(&mut self, buffer: &Arc<dyn ContentBuffer>, now: Instant) {
        self.handle_ready(buffer.bytes().len() as u64);
        self.read = Some(ReadContent { buffer: buffer.clone(), offset: self.wanted().offset, since: now });
    }

    /// Withdraws content that was made ready. It is wanted again when the peer takes something.
    pub(crate) fn let_go(&mut self) {
        (self.ready, self.read, self.paused) = (0, None, true);
    }

    /// Whether everything has been handed over.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished_by(0)
    }

    /// Whether everything has been handed over once `bytes` more of the current stretch are.
    pub(crate) fn is_finished_by(&self, bytes: u64) -> bool {
        self.begun && self.current.length == bytes && self.later.is_empty()
    }

    /// Whether more follows the next `bytes` bytes of content.
    pub(crate) fn continues_after(&self, bytes: u64) -> bool {
        self.current.length > bytes || !self.later.is_empty()
    }

    /// Bytes of it that are still to be written.
    pub(crate) fn remaining_bytes(&self) -> u64 {
        self.current.length + self.later.iter().map(Piece::length).sum::<u64>()
    }

    /// Whether content follows the current stretch that is not next to it.
    pub(crate) fn has_later_content(&self) -> bool {
        self.later.iter().any(|piece| matches!(piece, Piece::Content(_)))
    }

    /// Whether a Read has to be answered before more can be sent.
    pub(crate) fn wants_read(&self) -> bool {
        !self.reading && !self.paused && self.is_short()
    }

    /// Whether what comes next is not ready to be sent.
    pub(crate) fn is_short(&self) -> bool {
        let next = match self.later.front() {
            _ if self.current.length > 0 => self.current,
            Some(Piece::Content(range)) => *range,
            Some(Piece::Text(_)) if !self.begun => match self.later.get(1) {
                Some(Piece::Content(range)) => *range,
                _ => return false,
            },
            _ => return false,
        };
        next.length > 0 && self.ready == 0 && self.representation.content().is_none()
    }

    /// Checks that its parts agree.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        let ByteRange { offset, length } = self.wanted();
        let is_within = offset.checked_add(length).is_some_and(|end| end <= self.representation.size);
        assert!(is_within, "{length} bytes from {offset} are wanted of {}", self.representation.size);
        assert!(self.ready <= length, "{} bytes are ready of {length}", self.ready);
        if let Some(read) = &self.read {
            let end = read.offset + read.buffer.bytes().len() as u64;
            let has_ready = read.offset <= offset && offset + self.ready <= end;
            assert!(
                has_ready,
                "{} bytes from {offset} are not in memory, which has {}..{end}",
                self.ready, read.offset
            );
        }
    }

    /// The stretch that a Read has to make ready.
    pub(crate) fn wanted(&self) -> ByteRange {
        let first_content = self.later.iter().find_map(|piece| match piece {
            Piece::Content(range) => Some(*range),
            Piece::Text(_) => None,
        });
        if self.current.length > 0 { self.current } else { first_content.unwrap_or(self.current) }
    }

    /// `bytes` of the current stretch have been handed over.
    pub(crate) fn take(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.current.length);
        self.current.offset += bytes;
        self.current.length -= bytes;
        self.ready = self.ready.saturating_sub(bytes);
        if self.ready == 0 {
            self.read = None;
        }
        self.content_bytes += bytes;
    }
}

/// The Content-Range line of a part.
fn push_content_range(out: &mut Vec<u8>, range: &ByteRange, size: u64) {
    let last = range.offset + range.length - 1;
    out.extend_from_slice(format!("Content-Range: bytes {}-{last}/{size}\r\n", range.offset).as_bytes());
}

/// A boundary that is unlikely to stand in the content (RFC 2046 5.1.1): it cannot be guessed by who wrote the file
/// before the second in which it is sent.
fn boundary(representation: &Representation, unix_seconds: u64) -> String {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (representation.head(), unix_seconds, std::ptr::from_ref(representation) as usize).hash(&mut hasher);
    let first = hasher.finish();
    first.hash(&mut hasher);
    format!("lamna-{first:016x}{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::parse::head::{self, Parsed};
    use crate::resource::Description;
    use crate::workspace::Pages;

    fn resource(status: Status, content: &[u8]) -> Arc<Resource> {
        let description = Description { etag: Some("\"e\""), ranges: true, ..Description::of(status) };
        Arc::new(Resource::one(status, Representation::with_content(&description, content).unwrap()))
    }

    /// The answer to a request of this method with this line, for ten bytes.
    fn decided(method: &str, line: &str) -> Answer {
        let refusals = Refusal::ALL.iter().map(|refusal| resource(refusal.status(), b"no")).collect();
        let pages = Pages { refusals, options: resource(Status(204), b"") };
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n");
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else {
            panic!("{bytes} is a head");
        };
        let answer_context =
            AnswerContext { pages: &pages, unix_seconds: 0, ranges_max: 4, tells_ids: TellsIds::Nobody };
        decide(Request { bytes: bytes.as_bytes(), head: &head }, &resource(Status(200), b"0123456789"), answer_context)
    }

    #[test]
    fn an_answer_is_decided_without_a_connection() {
        for (method, line, status, offset, length) in [
            ("GET", "Accept: */*", 200, 0, 10),
            ("HEAD", "Accept: */*", 200, 0, 0),
            ("GET", "Range: bytes=2-4", 206, 2, 3),
            ("GET", "Range: bytes=10-", 416, 0, 2),
            ("GET", "If-None-Match: \"e\"", 304, 0, 0),
            ("GET", "If-Match: \"f\"", 412, 0, 2),
        ] {
            let answer = decided(method, line);
            assert_eq!(
                (answer.status, answer.current),
                (Status(status), ByteRange { offset, length }),
                "{method} {line}"
            );
            assert!(!answer.begun && answer.content_bytes == 0);
        }
    }

    #[track_caller]
    fn assert_host(head: &str, expected: Option<&str>) {
        let bytes = format!("{head}\r\n\r\n");
        let Ok(Parsed::Complete(head)) = head::parse(bytes.as_bytes(), &Limits::default()) else {
            panic!("{bytes} is a head");
        };
        let host = host_of(Request { bytes: bytes.as_bytes(), head: &head });
        assert_eq!(host.map(String::from_utf8_lossy).as_deref(), expected, "{bytes}");
    }

    #[test]
    fn the_host_of_a_request_that_is_refused_is_known_if_it_says_so_in_one_way() {
        assert_host("POST /a HTTP/1.1\r\nHost: B.example:80", Some("B.example"));
        assert_host("POST http://c.example/ HTTP/1.1\r\nHost: b", Some("c.example"));
        assert_host("OPTIONS * HTTP/1.1\r\nHost: [::1]:80", Some("[::1]"));
        assert_host("CONNECT a:80 HTTP/1.1\r\nHost: b", Some("b"));
        for head in [
            "POST / HTTP/1.0",
            "POST / HTTP/1.1\r\nHost:",
            "POST / HTTP/1.1\r\nHost: a\r\nHost: b",
            "POST http://c/ HTTP/1.1\r\nHost: a\r\nHost: b",
            "POST / HTTP/1.1\r\nHost: a..b",
            "POST http://./ HTTP/1.1\r\nHost: a",
            "POST a HTTP/1.1\r\nHost: a",
        ] {
            assert_host(head, None);
        }
    }
}
