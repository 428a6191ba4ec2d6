//! What must hold whatever a peer sends and however the world behaves. Run on seeded inputs by `properties`, and on
//! inputs that look for trouble by the targets in `fuzz/`.
//!
//! Owns: the checks; each panics if what it says does not hold. Does not make inputs, but for the [`PHRASES`] that
//! help.

use lamna_proto::conn::Connection;
use lamna_proto::encoding;
use lamna_proto::limits::Limits;
use lamna_proto::message::{Field, Request};
use lamna_proto::parse::head::{self, Parsed};
use lamna_proto::parse::target::{self, Target};
use lamna_proto::parse::{host, path, proxy};

use crate::peer::{self, Habits, Peer};
use crate::responses;
use crate::site::{COPY_BYTES_MAX, Site};

/// Pieces of conversations, most of them whole requests.
pub(crate) const PHRASES: &[&str] = &[
    "GET /small HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /lazy HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /redirect?a HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /file HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD /small HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HEAD /small HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",
    "GET /coded HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br, gzip\r\n\r\n",
    "GET /typed HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=10-19\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=500-700,0-9,-5\r\n\r\n",
    "GET /large HTTP/1.1\r\nHost: a\r\nRange: bytes=500-700,0-9,-5\r\n\r\n",
    "GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=99999-\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"small\"\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    "OPTIONS /small HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
    "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
    "POST /small HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\nT: x\r\n\r\n",
    "POST /small HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nabcd",
    "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nabcd",
    "GET /file HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\nabcd",
    "\r\n",
    "\r",
    "\n",
    "0\r\n\r\n",
    "G",
    "GET / HTTP/1.1\r\n",
    "Host: a\r\n",
    "Content-Length: 300\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET /file HTTP/1.0\r\n\r\n",
    "PUT /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3 ; a = \"b\\\"\" ;c=d\r\nabc\r\n0;e\r\n\r\n",
    "PUT /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;\r\nabc\r\n0\r\n\r\n",
    "PUT /small HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;bad[=x\r\nabc\r\n0\r\n\r\n",
    "GET /small HTTP/1.1\r\nHost: a..b\r\n\r\n",
    "OPTIONS http://b.a./small HTTP/1.1\r\nHost: .\r\n\r\n",
    "BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/2.0\r\n\r\n",
    "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabcdefghi",
    "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX",
    "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    "PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\n",
    "GET /stream?i.h.c3.c9000.w.c1.e HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /stream?h10.c3.u.c7.e HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /stream?h.c3.e HTTP/1.0\r\n\r\n",
    "HEAD /stream?h.c3.e HTTP/1.1\r\nHost: a\r\n\r\n",
    "PUT /stream?d.h.c5000.t HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nContent-Length: 9\r\n\r\nabcdefghi",
    "POST /stream?w.d.h+c2+e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
    "GET /stream?h10.c3.f HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// Something that happens to a connection.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Send(Vec<u8>),
    /// Sends one of [`PHRASES`].
    Phrase(u8),
    End,
    TimeOut,
    BreakOff,
    Drain,
    DrainWorker,
    /// Meets one of the deferred needs.
    Meet(u8),
    MeetUnknown(u32),
    /// The peer stops reading answers, or goes on.
    ReadsAnswers(bool),
    WaitMs(u16),
}

/// A connection takes any operations, in any order, without panicking, and without holding more than it may; what it
/// sends reads as responses, no more of them than there can be requests, each reported with its status.
pub(crate) fn operations(habits: Habits, operations: &[Operation]) {
    let mut peer = Peer::new(habits);
    let mut sent = Vec::new();
    for operation in operations {
        operate(&mut peer, &mut sent, operation);
        assert!(peer.memory_bytes_max <= memory_bytes_bound(), "holds {} bytes", peer.memory_bytes_max);
    }
    peer.reads_answers = true;
    peer.settle();
    let is_head = |index: usize| peer.reports.get(index).is_some_and(|report| report.is_head());
    let (responses, _) = responses::read(&peer.output, is_head);
    let requests_max = sent.windows(4).filter(|window| window == b"\r\n\r\n").count() + 1;
    assert!(responses.len() <= requests_max, "{} responses to {requests_max} requests", responses.len());
    let reported: Vec<u16> = peer.reports.iter().take(responses.len()).map(|report| report.status).collect();
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, reported);
}

fn operate(peer: &mut Peer, sent: &mut Vec<u8>, operation: &Operation) {
    match operation {
        Operation::Send(bytes) => {
            sent.extend_from_slice(bytes);
            peer.send(bytes);
        }
        Operation::Phrase(index) => {
            let phrase = PHRASES[usize::from(*index) % PHRASES.len()];
            sent.extend_from_slice(phrase.as_bytes());
            peer.send(phrase);
        }
        Operation::End => drop(peer.end()),
        Operation::TimeOut => drop(peer.time_out()),
        Operation::BreakOff => drop(peer.break_off()),
        Operation::Drain => drop(peer.drain()),
        Operation::DrainWorker => drop(peer.drain_worker()),
        Operation::Meet(index) if peer.deferred_count() > 0 => peer.meet(usize::from(*index) % peer.deferred_count()),
        Operation::Meet(_) => {}
        Operation::MeetUnknown(id) => peer.meet_unknown(*id),
        Operation::ReadsAnswers(reads) => {
            peer.reads_answers = *reads;
            peer.run();
        }
        Operation::WaitMs(ms) => peer.now = peer.now.after_ms(u32::from(*ms)),
    }
}

/// What a parked connection may hold: its waiting requests and one that is being received, the input twice (buffers
/// grow by doubling), and the output up to where no further request is taken, with an answer for each that waits.
fn memory_bytes_bound() -> usize {
    let limits = Site::shared().limits();
    let requests = (limits.exchanges_max + 2) * 2 * (limits.head_bytes_max + 512);
    let output = 32 * 1024 + (limits.exchanges_max + 2) * (COPY_BYTES_MAX + 1024);
    requests + 2 * limits.head_bytes_max + 2 * output
}

/// However the input is split, the output taken, and needs deferred, and whenever the connection is parked: the same
/// bytes are sent and the same is reported.
pub(crate) fn independence(habits: Habits, input: &[u8]) {
    let outcome = |habits: Habits| {
        let mut peer = Peer::new(habits);
        peer.converse(input).end().settle();
        (String::from_utf8_lossy(&peer.output).into_owned(), peer.reports, peer.connection.interest())
    };
    let (plain, other) = (outcome(Habits::default()), outcome(habits));
    assert_eq!(other.0, plain.0);
    assert_eq!(other.1, plain.1);
}

/// A connection in mid-conversation whose encoding is changed is refused, or can be driven without panicking.
pub(crate) fn damaged(
    habits: Habits,
    input: &[u8],
    reads_answers: bool,
    damage: impl FnOnce(&mut [u8]),
    operations: &[Operation],
) {
    let mut peer = Peer::new(habits);
    peer.reads_answers = reads_answers;
    peer.send(input);
    let Some(mut encoded) = peer.connection.encode() else { return };
    damage(&mut encoded.bytes);
    if let Ok(connection) = peer::decode(&encoded, Site::shared()) {
        let again = connection.encode().map(|one| one.bytes);
        assert_eq!(again.as_ref(), Some(&encoded.bytes), "a connection is encoded in one way");
        peer.adopt(connection);
        operations.iter().for_each(|operation| operate(&mut peer, &mut Vec::new(), operation));
    }
}

/// Any bytes, after a valid beginning or not, are refused or can be driven.
pub(crate) fn any_bytes(bytes: &[u8]) {
    let versioned = [&encoding::VERSION.to_le_bytes(), bytes].concat();
    for bytes in [bytes, &versioned] {
        if let Ok(connection) = Connection::decode(bytes, Vec::new(), Site::shared().pages()) {
            let mut peer = Peer::new(Habits::default());
            peer.adopt(connection);
            peer.converse("GET /small HTTP/1.1\r\nHost: a\r\n\r\n");
        }
    }
}

/// A head that is accepted is read likewise by `httparse`.
pub(crate) fn head_agrees(input: &[u8]) {
    let Ok(Parsed::Complete(head)) = head::parse(input, &Limits::default()) else {
        return;
    };
    let request = Request { bytes: input, head: &head };
    let version = &input[usize::from(head.target.end) + 1..][..8];
    if version != b"HTTP/1.1" && version != b"HTTP/1.0" {
        // httparse knows no other, and we serve later ones as 1.1.
        return;
    }
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut other = httparse::Request::new(&mut fields);
    let length = other.parse(input).expect("accepted here, refused there");
    assert_eq!(length, httparse::Status::Complete(usize::from(head.length)));
    assert_eq!(other.method.map(str::as_bytes), Some(request.method_token()));
    assert_eq!(other.path.map(str::as_bytes), Some(request.target()));
    for (name, field) in [("host", Field::Host), ("content-length", Field::ContentLength), ("range", Field::Range)] {
        let theirs = other.headers.iter().filter(|one| one.name.eq_ignore_ascii_case(name)).map(|one| one.value);
        assert!(theirs.eq(request.field_lines(field)), "{name}");
    }
}

/// What a prefix of a head is taken for, its continuation is taken for too.
pub(crate) fn head_prefix_decides(input: &[u8], cut: usize) {
    let outcome = |input| match head::parse(input, &Limits::default()) {
        Ok(Parsed::Partial) => None,
        Ok(Parsed::Complete(head)) => Some(Ok(head.length)),
        Err(refusal) => Some(Err(refusal)),
    };
    if let Some(early) = outcome(&input[..cut.min(input.len())]) {
        assert_eq!(Some(early), outcome(input));
    }
}

/// A host that is accepted has a byte in every label, and a port that is a number.
pub(crate) fn host_has_labels(input: &[u8]) {
    if let Ok(host) = host::parse(input) {
        let labels = host.name.strip_suffix(b".").unwrap_or(host.name);
        assert!(labels.split(|&byte| byte == b'.').all(|label| !label.is_empty()));
        assert!(input.starts_with(host.name) && host.name.iter().all(u8::is_ascii_graphic));
    }
}

/// A path that is accepted is absolute, has no segments that lead elsewhere, and names the same when it is encoded
/// again.
pub(crate) fn target_path(input: &[u8]) {
    host_has_labels(input);
    let Ok(Target::Origin { path, .. } | Target::Absolute { path, .. }) = target::parse(input, false) else {
        return;
    };
    let (mut normal, mut again) = (Vec::new(), Vec::new());
    if path::normalise(path, &mut normal).is_err() {
        return;
    }
    assert!(normal.starts_with(b"/") && normal.len() <= path.len() && !normal.contains(&0));
    let mut segments = normal.split(|&byte| byte == b'/');
    assert!(segments.all(|segment| segment != b"." && segment != b".."));
    assert!(!normal.windows(2).any(|window| window == b"//"));
    let encode = |byte: &u8| if *byte == b'/' { "/".to_string() } else { format!("%{byte:02X}") };
    let encoded: String = normal.iter().map(encode).collect();
    path::normalise(encoded.as_bytes(), &mut again).expect("what was accepted is accepted again");
    assert_eq!(again, normal);
}

/// A connection of HTTP/2 survives whatever is sent behind the preface, and holds no more than it may.
pub(crate) fn http2(habits: Habits, pieces: &[Vec<u8>]) {
    let mut peer = Peer::new(Habits { hops: 0, ..habits });
    peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    for piece in pieces {
        peer.send(piece);
        assert!(peer.memory_bytes_max < 512 * 1024, "{}", peer.memory_bytes_max);
    }
    peer.settle();
    // Whatever has become of it: in the end it is over.
    for _ in 0..20 {
        if peer.interest().is_over() {
            break;
        }
        peer.time_out().settle();
    }
    assert!(peer.interest().is_over(), "{:?}", peer.interest());
}

/// A header of the PROXY protocol is bounded, and what has been decided about its beginning stays.
pub(crate) fn proxy_header(input: &[u8], cut: usize) {
    let whole = proxy::parse(input);
    match whole {
        Ok(proxy::Parsed::Complete(length, _)) => assert!(length <= input.len().min(proxy::BYTES_MAX)),
        Ok(proxy::Parsed::Partial) => assert!(input.len() < proxy::BYTES_MAX),
        Err(proxy::Malformed) => {}
    }
    let beginning = proxy::parse(&input[..cut.min(input.len())]);
    if beginning != Ok(proxy::Parsed::Partial) {
        assert_eq!(beginning, whole);
    }
}
