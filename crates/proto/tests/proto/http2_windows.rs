//! Windows of HTTP/2 that we give: whatever becomes of the streams that content belongs to, no byte of a window is
//! lost, and none is given twice. And frames of streams that are passed over.
//!
//! Owns: these cases. The account itself is checked by the connection after each step, in builds with assertions
//! (`check_windows`).

use proptest::prelude::*;

use crate::http2_client::{
    Client, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, setting,
};
use crate::peer::{Cycle, Habits};
use crate::properties::habits;
use crate::script::alive;

const PROTOCOL_ERROR: u32 = 1;
const STREAM_CLOSED: u32 = 5;
/// RFC 9113 6.9.2.
const INITIAL_BYTES: u64 = 65_535;

/// A client that counts what it may send on the connection.
struct Uploader {
    client: Client,
    sent: u64,
}

impl Uploader {
    fn new(habits: Habits) -> Uploader {
        Uploader { client: Client::new(habits), sent: 0 }
    }

    /// What the connection's window is now.
    fn window(&self) -> u64 {
        let given: u64 =
            self.client.updates.iter().filter(|(id, _)| *id == 0).map(|(_, bytes)| u64::from(*bytes)).sum();
        INITIAL_BYTES + given - self.sent
    }

    /// Sends the first `bytes` of `data`, which has `flow` bytes of payload to count when it begins.
    fn send(&mut self, bytes: &[u8], flow: usize) {
        self.sent += flow as u64;
        self.client.send(bytes);
    }
}

#[test]
fn the_window_of_the_connection_is_whole_again_whatever_becomes_of_an_upload() {
    let paths = [
        "/early",
        "/fails",
        "/small",
        "/echo",
        "/stream?a",
        "/stream?h.c5.e",
        "/stream?n204",
        "/stream?h.f",
        "/stream?d.h.e",
    ];
    for path in paths {
        for defers in [false, true] {
            // Where in its frame the rest of the content is when the answer is there, and what ends the stream.
            for (first, ends) in [(0, 0), (1, END_STREAM), (6_000, 0), (16_383, END_STREAM), (16_384, 0)] {
                let mut uploader = Uploader::new(Habits { defers: Cycle::new(vec![defers]), ..Habits::default() });
                for at in 0..12_u32 {
                    let id = 2 * at + 1;
                    let head = uploader.client.headers(id, 0, "PUT", path, &[]);
                    uploader.send(&head, 0);
                    let data = frame(DATA, ends, id, &[b'x'; 16_384]);
                    uploader.send(&data[..9 + first], 16_384);
                    uploader.client.settle();
                    uploader.send(&data[9 + first..], 0);
                    uploader.client.settle();
                    if at % 2 == 0 {
                        uploader.client.send(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8])).settle();
                    }
                    assert!(uploader.window() > INITIAL_BYTES / 2, "{path} {first} {at}: {}", uploader.window());
                    assert!(uploader.client.goaways.is_empty(), "{path} {first} {at}");
                }
            }
        }
    }
    assert_eq!(alive(), 0);
}

#[test]
fn content_of_an_answer_that_is_whole_is_given_back_once() {
    let mut uploader = Uploader::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    uploader.client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    for at in 0..20_u32 {
        let id = 2 * at + 1;
        let head = uploader.client.headers(id, 0, "PUT", "/stream?h+c9+e", &[]);
        uploader.send(&head, 0);
        // The program has begun, and has not been carried out when the content arrives.
        uploader.client.peer.meet_next();
        uploader.send(&frame(DATA, 0, id, &[b'x'; 3_000]), 3_000);
        uploader.client.settle();
        // Its answer is whole, and its stream stays: nothing may be sent on it.
        uploader.send(&frame(DATA, 0, id, &[b'x'; 500]), 500);
        uploader.client.send(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8])).settle();
    }
    assert!(uploader.client.goaways.is_empty());
    assert!(uploader.window() > INITIAL_BYTES / 2 && uploader.window() <= 1024 * 1024);
}

#[test]
fn a_client_is_not_cut_off_while_it_may_send_nothing() {
    // Another stream fills the window of the connection, because its program takes nothing.
    let mut client = Client::new(Habits::default());
    client.peer.connection.recall_needs();
    let heads =
        [client.headers(1, 0, "PUT", "/stream?w.w.w.d.h.e", &[]), client.headers(3, 0, "PUT", "/stream?d.h.e", &[])];
    client.peer.habits.defers = Cycle::new(vec![true]);
    client.send(&heads.concat());
    while client.peer.deferred_count() > 0 {
        client.peer.meet(0);
    }
    for bytes in [16_384, 16_384, 16_384, 16_383] {
        client.send(&frame(DATA, 0, 1, &vec![b'x'; bytes]));
    }
    // No window is left for the other one: that is not its fault, however long it takes.
    let until = client.peer.timeout_ms();
    assert!(until.is_none_or(|ms| ms > 3_600_000), "{until:?}");
    client.peer.now = client.peer.now.after_ms(600_000);
    client.settle();
    assert!(client.streams.values().all(|one| one.status != "408"), "{:?}", client.streams);
    // There is room again, and a whole time to use it.
    assert!(client.updates.iter().any(|(id, _)| *id == 0));
    let until = client.peer.timeout_ms().expect("content is expected");
    assert!((29_000..=30_000).contains(&until), "{until}");
    let ends = [frame(DATA, END_STREAM, 1, b""), frame(DATA, END_STREAM, 3, b"")];
    client.send(&ends.concat()).settle();
    assert!([1, 3].iter().all(|id| client.streams[id].ended && client.streams[id].status == "200"));
}

#[derive(Clone, Debug)]
enum Operation {
    Begin(usize),
    Data { stream: u32, content: usize, padding: Option<u8>, ends: bool, cut: usize },
    Reset(u32),
    Widen(u32),
    Meet,
    Settle,
    TimeOut,
    Drain,
}

fn operation() -> impl Strategy<Value = Operation> {
    let data = (0..8_u32, 0..5_000_usize, any::<Option<u8>>(), any::<bool>(), 0..5_000_usize);
    prop_oneof![
        4 => (0..8_usize).prop_map(Operation::Begin),
        8 => data.prop_map(|(stream, content, padding, ends, cut)| Operation::Data { stream, content, padding, ends, cut }),
        2 => (0..8_u32).prop_map(Operation::Reset),
        1 => (0..8_u32).prop_map(Operation::Widen),
        4 => Just(Operation::Meet),
        2 => Just(Operation::Settle),
        1 => Just(Operation::TimeOut),
        1 => Just(Operation::Drain),
    ]
}

proptest! {
    /// The connection holds its own account; from outside, what is given is never more than was taken and what a window
    /// may be.
    #[test]
    fn windows_are_never_lost_nor_given_twice(
        habits in habits(),
        opens in any::<bool>(),
        operations in prop::collection::vec(operation(), 1..60),
    ) {
        const PATHS: [&str; 8] = ["/echo", "/early", "/fails", "/small", "/stream?h.x", "/stream?h+c9+e", "/stream?w.a", "/file"];
        let mut uploader = Uploader::new(habits);
        match opens {
            true => _ = uploader.client.open_windows(),
            false => _ = uploader.client.send(&frame(SETTINGS, 0, 0, &setting(4, 7))),
        }
        let mut count = 0;
        for operation in operations {
            if !uploader.client.goaways.iter().all(|(_, code)| *code == 0) {
                break;
            }
            let client = &mut uploader.client;
            match operation {
                Operation::Begin(path) => {
                    let head = client.headers(2 * count + 1, 0, "PUT", PATHS[path], &[]);
                    count += 1;
                    client.send(&head);
                }
                Operation::Data { stream, content, padding, ends, cut } => {
                    let id = 2 * (stream % count.max(1)) + 1;
                    let padded = padding.map_or(0, |bytes| 1 + usize::from(bytes));
                    if count == 0 || (content + padded) as u64 > uploader.window() {
                        continue;
                    }
                    let padding = padding.map(|bytes| (vec![bytes], vec![0; usize::from(bytes)])).unwrap_or_default();
                    let payload = [padding.0, vec![b'x'; content], padding.1].concat();
                    let flags = if ends { END_STREAM } else { 0 } | if padded > 0 { 8 } else { 0 };
                    let data = frame(DATA, flags, id, &payload);
                    let cut = cut.min(data.len());
                    uploader.send(&data[..cut], payload.len());
                    uploader.client.peer.meet_next();
                    uploader.client.send(&data[cut..]);
                }
                Operation::Reset(stream) if count > 0 => {
                    client.send(&frame(RST_STREAM, 0, 2 * (stream % count) + 1, &[0, 0, 0, 8]));
                }
                Operation::Widen(stream) if count > 0 => {
                    client.send(&frame(WINDOW_UPDATE, 0, 2 * (stream % count) + 1, &[0, 0, 0, 9]));
                }
                Operation::Meet => _ = client.peer.meet_next(),
                Operation::Settle => _ = client.settle(),
                Operation::TimeOut => _ = client.peer.time_out(),
                Operation::Drain => _ = client.peer.drain(),
                Operation::Reset(_) | Operation::Widen(_) => {}
            }
            uploader.client.send(b"");
            prop_assert!(uploader.window() <= 1024 * 1024);
        }
    }
}

// Streams that are passed over.

#[test]
fn rfc_9113_5_1_1_a_stream_that_was_passed_over_cannot_begin() {
    for (ids, code) in [
        (&[5, 3][..], PROTOCOL_ERROR),
        (&[3, 1], PROTOCOL_ERROR),
        (&[1, 3, 9, 11, 7], PROTOCOL_ERROR),
        (&[1, 3, 1], STREAM_CLOSED),
        (&[5, 9, 5], STREAM_CLOSED),
    ] {
        let mut client = Client::new(Habits::default());
        let requests: Vec<_> = ids.iter().map(|id| client.request(*id, "GET", "/small", &[])).collect();
        for request in requests {
            client.send(&request).settle();
        }
        let last = *ids.iter().max().unwrap_or(&0);
        assert_eq!(client.goaways, [(last, code)], "{ids:?}");
    }
}

#[test]
fn rfc_9113_6_8_what_follows_the_last_stream_is_ignored_and_counted() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    let request = client.request(1, "GET", "/small", &[]);
    client.send(&request);
    client.peer.drain();
    client.send(&frame(PING, ACK_FLAG, 0, b"draining"));
    assert_eq!(client.goaways.last(), Some(&(1, 0)));
    // The peer had not heard of it yet. The block has a field that the next one refers to.
    let head = client.headers(3, 0, "PUT", "/echo", &[("x-new", "value")]);
    let more = [
        frame(DATA, 0, 3, &[b'x'; 16_384]).repeat(2),
        frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 200]),
        frame(DATA, 8, 3, &[2, b'x', 0, 0]),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, &[0xbe]),
        frame(RST_STREAM, 0, 3, &[0, 0, 0, 8]),
        client.headers(5, END_STREAM, "GET", "/small", &[("x-new", "value")]),
    ];
    client.send(&[head, more.concat()].concat());
    assert_eq!(client.goaways.len(), 2, "{:?}", client.goaways);
    assert!(client.streams.keys().all(|id| *id == 1), "nothing is said of those: {:?}", client.streams);
    // The window is opened again.
    let given: u32 = client.updates.iter().filter(|(id, _)| *id == 0).map(|(_, bytes)| *bytes).sum();
    assert!(given >= 32_768 && client.updates.iter().all(|(id, _)| *id == 0), "{:?}", client.updates);
    client.settle();
    assert_eq!((&*client.streams[&1].status, client.streams[&1].ended), ("200", true));
    // One that has not begun at all is a fault still.
    let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    let request = client.request(1, "GET", "/small", &[]);
    client.send(&request);
    client.peer.drain();
    client.send(&[frame(PING, ACK_FLAG, 0, b"draining"), frame(DATA, 0, 7, b"x")].concat());
    assert_eq!(client.goaways.last(), Some(&(1, PROTOCOL_ERROR)));
}

const ACK_FLAG: u8 = 1;
