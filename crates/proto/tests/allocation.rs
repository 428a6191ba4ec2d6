//! The plain case allocates nothing: a cached resource, a persistent connection, nothing to decide.
//!
//! Owns: an allocator that counts. Does not count what happens once for each connection.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use lamna_proto::conn::{Connection, Interest};
use lamna_proto::error::Refusal;
use lamna_proto::exchange::early_hints::LinkField;
use lamna_proto::exchange::{Done, Need};
use lamna_proto::limits::Limits;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_proto::time::Instant;
use lamna_proto::transmit::Segment;
use lamna_proto::workspace::{Pages, Workspace};

/// The system's allocator, counting for each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // The thread may be ending; what it does then is of no interest.
    let _ = ALLOCATIONS.try_with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call is passed on to `System` with the same arguments, so its guarantees are this one's. Counting
// touches a thread-local without a destructor, which does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with `layout`, as every pointer of this allocator does.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: `pointer` came from `System` with `layout`; the caller keeps the rest of the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const COPY_BYTES_MAX: usize = 16 * 1024;
const NOW: Instant = Instant::from_ms(0);

fn resource(status: u16, content: &[u8]) -> Arc<Resource> {
    let description = Description {
        media_type: Some("text/plain"),
        modified: Some(0),
        etag: Some("\"e\""),
        ranges: true,
        ..Description::of(Status(status))
    };
    Arc::new(Resource::one(Status(status), Representation::with_content(&description, content).expect("it is short")))
}

fn workspace() -> Box<Workspace> {
    let refusals = Refusal::ALL.iter().map(|refusal| resource(refusal.status().0, b"")).collect();
    let pages = Pages { refusals, options: resource(200, b"") };
    Workspace::new(Arc::new(Limits::default()), Arc::new(pages), COPY_BYTES_MAX, 0)
}

/// Receives `input`, serves `resource` to each request in it, after hints and with a link if there are `links`, and
/// parks. Gives the bytes sent and requests answered.
fn serve(
    connection: &mut Connection,
    workspace: Box<Workspace>,
    input: &[u8],
    resource: &Arc<Resource>,
    links: &[Arc<LinkField>],
) -> (Box<Workspace>, u64, usize) {
    let (mut sent, mut answered) = (0, 0);
    connection.lend(workspace);
    connection.receive_space()[..input.len()].copy_from_slice(input);
    connection.handle_received(input.len(), NOW);
    loop {
        while let Some((id, need)) = connection.poll_need() {
            assert!(matches!(need, Need::Resolve(_)), "the content is in memory");
            assert!(links.is_empty() || connection.give_early_hints(id, links.iter().map(|link| &**link)));
            links.iter().for_each(|link| connection.give_link(id, link));
            connection.handle_done(id, Done::Resolved(resource), NOW);
            while connection.poll_answered().is_some() {
                answered += 1;
            }
        }
        let Some(transmit) = connection.poll_transmit() else {
            break;
        };
        let bytes = transmit.bytes.len() as u64 + transmit.segment.as_ref().map_or(0, Segment::length);
        connection.handle_sent(bytes, NOW);
        sent += bytes;
        while connection.poll_answered().is_some() {
            answered += 1;
        }
    }
    assert_eq!(connection.interest(), Interest::RECEIVE);
    (connection.reclaim(), sent, answered)
}

/// HEADERS of `count` requests from stream `first` on, as a client sends them that has sent the same before: by
/// references to its table.
fn http2_requests(first: u32, count: usize, is_new: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..count as u32 {
        // GET, http, /index.html, and the authority: with a place in the table the first time, by reference after that.
        let block: &[u8] = match is_new && at == 0 {
            true => b"\x82\x86\x85\x41\x0fwww.example.com",
            false => b"\x82\x86\x85\xbe",
        };
        bytes.extend_from_slice(&[0, 0, block.len() as u8, 1, 5]);
        bytes.extend_from_slice(&(first + 2 * at).to_be_bytes());
        bytes.extend_from_slice(block);
    }
    bytes
}

/// As [`allocations`], over HTTP/2.
fn http2_allocations(
    content_bytes: usize,
    beside: usize,
    rounds: usize,
    logs: bool,
    links: &[Arc<LinkField>],
) -> usize {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let content = vec![b'a'; content_bytes];
    let resource = resource(200, &content);
    let mut workspace = workspace();
    if logs {
        workspace.keep_requests();
    }
    let mut connection = Connection::new(NOW);
    connection.lend(workspace);
    connection.expect_http2();
    workspace = connection.reclaim();
    // Settings that open all windows, and the acknowledgement of ours.
    let settings = b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\0\0\0\x04\x01\0\0\0\0";
    let window = b"\0\0\x04\x08\0\0\0\0\0\x7f\x00\x00\x00";
    let greeting = [PREFACE, settings, window, &http2_requests(1, beside, true)].concat();
    let inputs: Vec<Vec<u8>> =
        (1..rounds + 8).map(|round| http2_requests((2 * round * beside) as u32 + 1, beside, false)).collect();
    let (given_back, ..) = serve(&mut connection, workspace, &greeting, &resource, links);
    workspace = given_back;
    let (warm, counted) = inputs.split_at(7);
    let mut expected = 0;
    for input in warm {
        (workspace, expected, _) = serve(&mut connection, workspace, input, &resource, links);
    }
    let before = ALLOCATIONS.get();
    for input in counted {
        let (given_back, sent, answered) = serve(&mut connection, workspace, input, &resource, links);
        workspace = given_back;
        assert_eq!(sent, expected);
        assert_eq!(answered, if logs { beside } else { 0 });
    }
    assert!(expected > (content_bytes * beside) as u64);
    ALLOCATIONS.get() - before
}

/// Serves `rounds` times `pipelined` requests for `content_bytes` of content; gives the allocations once that is warm.
fn allocations(content_bytes: usize, pipelined: usize, rounds: usize, logs: bool, links: &[Arc<LinkField>]) -> usize {
    let content = vec![b'a'; content_bytes];
    let resource = resource(200, &content);
    let request = b"GET /index.html HTTP/1.1\r\nHost: www.example.com\r\nAccept: */*\r\nUser-Agent: test\r\n\r\n";
    let input = request.repeat(pipelined);
    let mut workspace = workspace();
    if logs {
        workspace.keep_requests();
    }
    let mut connection = Connection::new(NOW);
    // Twice, because the request that was reported last is kept until the next one is.
    let (workspace, expected, _) = serve(&mut connection, workspace, &input, &resource, links);
    let (mut workspace, ..) = serve(&mut connection, workspace, &input, &resource, links);
    let before = ALLOCATIONS.get();
    for _ in 0..rounds {
        let (given_back, sent, answered) = serve(&mut connection, workspace, &input, &resource, links);
        workspace = given_back;
        assert_eq!(sent, expected);
        assert_eq!(answered, if logs { pipelined } else { 0 });
    }
    assert!(expected > (content_bytes * pipelined) as u64);
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1);
}

#[test]
fn a_thousand_small_cached_answers_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(allocations(500, 1, 1_000, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_pipelined_small_cached_answers_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(allocations(500, 10, 100, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_cached_answers_too_large_to_copy_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(allocations(50_000, 1, 1_000, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_pipelined_cached_answers_too_large_to_copy_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(allocations(50_000, 10, 100, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_small_cached_answers_over_http_2_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(http2_allocations(500, 1, 1_000, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_small_cached_answers_on_streams_beside_each_other_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(http2_allocations(500, 10, 100, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_cached_answers_over_http_2_too_large_to_be_written_at_once_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(http2_allocations(50_000, 1, 1_000, logs, &[]), 0);
    }
}

#[test]
fn large_cached_answers_on_streams_beside_each_other_allocate_nothing() {
    for logs in [false, true] {
        assert_eq!(http2_allocations(50_000, 10, 100, logs, &[]), 0);
    }
}

#[test]
fn a_thousand_cached_answers_behind_hints_and_with_a_link_allocate_nothing() {
    let links = ["</a.css>; rel=preload; as=style", "</a.woff2>; rel=preload; as=font; crossorigin"];
    let links: Vec<_> = links.iter().filter_map(|link| LinkField::new(link).map(Arc::new)).collect();
    for logs in [false, true] {
        assert_eq!(allocations(500, 1, 1_000, logs, &links), 0);
        assert_eq!(http2_allocations(500, 10, 100, logs, &links), 0);
    }
}
