//! What a peer of HTTP/2 can do at our cost, and where that ends.
//!
//! Owns: one attack for each bound of `limits`. Each is seen to be counted, and to end before it costs much.

use lamna_proto::limits::{
    DROPPED_BURST, HEADER_BLOCK_BYTES_MAX, HEADER_FRAMES_MAX, IDLE_FRAMES_BURST, IDLE_FRAMES_PER_SECOND, RESETS_BURST,
    STREAMS_HELD_BYTES_MAX, STREAMS_MAX,
};
use lamna_proto::tally::Abuse;
use lamna_proto::time::Instant;

use crate::http2_client::{
    ACK, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, PRIORITY_UPDATE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, setting,
};
use crate::peer::{Cycle, Habits};
use crate::site::LARGE_BYTES;

const ENHANCE_YOUR_CALM: u32 = 11;

fn client() -> Client {
    Client::new(Habits::default())
}

/// Repeats what `one` makes until the connection is closed for it. Returns how often that was.
#[track_caller]
fn repeated_until_closed(client: &mut Client, most: u32, mut one: impl FnMut(&mut Client, u32) -> Vec<u8>) -> u32 {
    for count in 0..=most {
        let bytes = one(client, count);
        client.send(&bytes);
        if let Some((_, code)) = client.goaways.last() {
            assert_eq!(*code, ENHANCE_YOUR_CALM);
            assert_eq!(client.peer.counted(Abuse::Closed), 1);
            return count;
        }
    }
    panic!("{most} times, and no end");
}

#[test]
fn streams_that_are_opened_and_reset_at_once() {
    for path in ["/small", "/file"] {
        let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
        let count = repeated_until_closed(&mut client, RESETS_BURST + 1, |client, at| {
            let id = 2 * at + 1;
            [client.request(id, "GET", path, &[]), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()
        });
        assert_eq!(count, RESETS_BURST);
        assert_eq!(client.peer.counted(Abuse::Reset), u64::from(RESETS_BURST) + 1);
        assert!(client.peer.memory_bytes_max < 32 * 1024, "{}", client.peer.memory_bytes_max);
    }
}

#[test]
fn streams_that_have_to_be_reset_count_as_well() {
    let mut client = client();
    repeated_until_closed(&mut client, RESETS_BURST + 1, |client, at| {
        client.request(2 * at + 1, "GET", "/small", &[("te", "x")])
    });
    let mut client = self::client();
    repeated_until_closed(&mut client, RESETS_BURST + 1, |client, at| {
        let id = 2 * at + 1;
        [client.headers(id, 0, "GET", "/small", &[]), frame(WINDOW_UPDATE, 0, id, &[0; 4])].concat()
    });
}

#[test]
fn a_browser_that_leaves_a_page_is_not_taken_for_that() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    for page in 0..50_u32 {
        client.peer.now = Instant::from_ms(1_000 + 4_000 * u64::from(page));
        for at in 0..100 {
            let id = 2 * (100 * page + at) + 1;
            let frames = [client.request(id, "GET", "/file", &[]), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat();
            client.send(&frames);
        }
    }
    assert!(client.goaways.is_empty());
}

#[test]
fn header_blocks_that_do_not_end() {
    let mut client = client();
    let mut headers = client.request(1, "GET", "/small", &[]);
    headers[4] = END_STREAM;
    client.send(&headers);
    let count = repeated_until_closed(&mut client, HEADER_FRAMES_MAX, |_, _| frame(CONTINUATION, 0, 1, &[]));
    assert_eq!(count, HEADER_FRAMES_MAX - 1);
    assert_eq!(client.peer.counted(Abuse::HeaderFlood), 1);
    // Or are long.
    let mut client = self::client();
    client.send(&frame(HEADERS, 0, 1, &[0x82; 16_000]));
    repeated_until_closed(&mut client, 5, |_, _| frame(CONTINUATION, 0, 1, &[0x82; 16_000]));
    assert!(client.peer.memory_bytes_max < 2 * HEADER_BLOCK_BYTES_MAX + 16_384, "{}", client.peer.memory_bytes_max);
}

#[test]
fn blocks_that_stand_for_much_more_than_they_are() {
    let mut client = client();
    let value = "x".repeat(3_800);
    let first = client.request(1, "GET", "/small", &[("x-bomb", &value)]);
    client.send(&first).settle();
    assert_eq!(client.streams[&1].status, "431");
    // Each byte is a field of 3,800 bytes: 38 KB in all, and the rest is not read.
    let mut bomb = client.request(3, "GET", "/small", &[]);
    bomb.extend([0x80 | 62; 10]);
    let bomb = frame(HEADERS, END_HEADERS | END_STREAM, 3, &bomb[9..]);
    client.send(&bomb).settle();
    assert_eq!(client.streams[&3].status, "431");
    assert_eq!(client.peer.counted(Abuse::HeadersTooLarge), 2);
    assert!(client.peer.memory_bytes_max < 32 * 1024, "{}", client.peer.memory_bytes_max);
    assert_eq!(client.ask(5, "GET", "/small", &[]).status, "200");
    let count = repeated_until_closed(&mut client, DROPPED_BURST, |_, at| {
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * at + 7, &bomb[9..])
    });
    assert_eq!(count, DROPPED_BURST - 1);
}

#[test]
fn a_block_that_nobody_needs_ends_the_connection_at_once() {
    // A field of 3,800 bytes again and again, also where fields are not wanted: behind content, and behind the end of a
    // stream; a name of so many bytes with ever new values; and the smallest field there is.
    for (value, repeated, ends, path) in [
        ("x".repeat(3_800), &[0xbe][..], END_STREAM, "/small"),
        ("x".repeat(3_800), &[0xbe], 0, "/echo"),
        ("x".repeat(3_800), &[0xbe], 0, "/early"),
        ("x".repeat(3_800), &[0x0f, 0x2f, 0], END_STREAM, "/small"),
        (String::new(), &[0xbe], END_STREAM, "/small"),
    ] {
        let mut client = self::client();
        let first = client.headers(1, ends, "PUT", path, &[("x-bomb", &value)]);
        client.send(&first).settle();
        if path == "/early" {
            client.send(&frame(DATA, 0, 1, b"x")).settle();
        }
        let bomb = frame(HEADERS, END_HEADERS | END_STREAM, if ends == 0 { 1 } else { 3 }, &repeated.repeat(4_000));
        client.send(&bomb);
        assert_eq!(client.goaways.last().map(|(_, code)| *code), Some(ENHANCE_YOUR_CALM), "{repeated:?} {path}");
        assert_eq!((client.peer.counted(Abuse::HeaderFlood), client.peer.counted(Abuse::Closed)), (1, 1));
    }
}

#[test]
fn exchanges_with_applications_that_are_reset_count_more() {
    // Whatever takes them back: the client, or a fault of the client.
    let ways: [fn(u32) -> Vec<u8>; 4] = [
        |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 8]),
        |id| frame(WINDOW_UPDATE, 0, id, &[0; 4]),
        |id| frame(WINDOW_UPDATE, 0, id, &[0x7f, 0xff, 0xff, 0xff]),
        |id| frame(PRIORITY, 0, id, &id.to_be_bytes()),
    ];
    for way in ways {
        for script in ["w.w.h.c5.e", "h.c5.w.c5.e"] {
            let mut client = Client::new(Habits { defers: Cycle::new(vec![false, true]), ..Habits::default() });
            let count = repeated_until_closed(&mut client, DROPPED_BURST + 1, |client, at| {
                let id = 2 * at + 1;
                [client.request(id, "GET", &format!("/stream?{script}"), &[]), way(id)].concat()
            });
            assert_eq!(count, DROPPED_BURST, "{script}");
            client.settle();
            assert_eq!(crate::script::alive(), 0);
        }
    }
}

#[test]
fn a_browser_that_leaves_pages_of_an_application_is_not_taken_for_that() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![false, true]), ..Habits::default() });
    for page in 0..50_u32 {
        client.peer.now = Instant::from_ms(1_000 + 3_000 * u64::from(page));
        for at in 0..40 {
            let id = 2 * (40 * page + at) + 1;
            let frames =
                [client.request(id, "GET", "/stream?w.h.e", &[]), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat();
            client.send(&frames);
        }
    }
    assert!(client.goaways.is_empty());
}

#[test]
fn frames_that_carry_nothing() {
    type Frames = fn(u32) -> Vec<u8>;
    let kinds: [(Abuse, Frames); 8] = [
        (Abuse::EmptyData, |_| frame(DATA, 0, 1, &[])),
        (Abuse::EmptyData, |_| frame(DATA, 8, 1, &[2, 0, 0])),
        (Abuse::IdleFrame, |_| frame(PING, 0, 0, &[0; 8])),
        (Abuse::IdleFrame, |_| frame(PING, ACK, 0, &[0; 8])),
        (Abuse::IdleFrame, |_| frame(SETTINGS, 0, 0, &[])),
        (Abuse::IdleFrame, |at| frame(PRIORITY, 0, 2 * at + 9, &[0; 5])),
        (Abuse::IdleFrame, |at| frame(PRIORITY_UPDATE, 0, 0, &[&(2 * at + 9).to_be_bytes()[..], b"u=1"].concat())),
        (Abuse::IdleFrame, |_| frame(0x77, 0, 0, &[1])),
    ];
    for (abuse, frames) in kinds {
        let mut client = client();
        let request = client.headers(1, 0, "GET", "/small", &[]);
        client.send(&request);
        repeated_until_closed(&mut client, IDLE_FRAMES_BURST + 1, |_, at| frames(at));
        assert!(client.peer.counted(abuse) >= u64::from(IDLE_FRAMES_BURST));
        assert!(client.peer.memory_bytes_max < 8 * 1024, "{}", client.peer.memory_bytes_max);
    }
}

#[test]
fn a_few_of_them_every_second_are_no_reason_to_close() {
    let mut client = client();
    for second in 0..100 {
        client.peer.now = Instant::from_ms(1_000 + 1_000 * second);
        for _ in 0..IDLE_FRAMES_PER_SECOND / 2 {
            client.send(&frame(PING, 0, 0, b"12345678"));
        }
    }
    assert!(client.goaways.is_empty());
}

#[test]
fn a_peer_that_pings_and_does_not_read() {
    let mut client = client();
    client.peer.reads_answers = false;
    for _ in 0..100 {
        client.peer.send(frame(PING, 0, 0, &[0; 8]).repeat(100));
    }
    assert!(client.peer.memory_bytes_max < 80 * 1024, "{}", client.peer.memory_bytes_max);
}

#[test]
fn a_peer_that_asks_and_does_not_read() {
    for path in ["/small", "/large", "/file"] {
        let mut client = client();
        client.open_windows();
        client.peer.reads_answers = false;
        for at in 0..4_000_u32 {
            let request = client.request(2 * at + 1, "GET", path, &[]);
            client.peer.send(&request);
        }
        assert!(!client.peer.interest().receive, "{path}");
        assert!(client.peer.memory_bytes_max < 256 * 1024, "{path}: {}", client.peer.memory_bytes_max);
        assert_eq!(client.peer.timeout_ms(), Some(60_000));
        client.peer.time_out();
        assert!(client.peer.interest().is_over());
    }
}

#[test]
fn windows_that_are_opened_by_a_few_bytes() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    client.ask(1, "GET", "/large", &[]);
    let count = repeated_until_closed(&mut client, IDLE_FRAMES_BURST, |_, _| frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]));
    assert!(count <= IDLE_FRAMES_BURST / 2 + 1, "{count}");
    // Or by settings that go up and down.
    let mut client = self::client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    client.ask(1, "GET", "/large", &[]);
    repeated_until_closed(&mut client, IDLE_FRAMES_BURST, |_, at| frame(SETTINGS, 0, 0, &setting(4, at)));
}

#[test]
fn windows_that_are_not_opened() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    client.ask(1, "GET", "/large", &[]);
    assert_eq!(client.peer.timeout_ms(), Some(60_000));
    // What keeps a connection busy does not keep it.
    for _ in 0..3 {
        client.peer.now = Instant::from_ms(client.peer.now.ms() + 15_000);
        client.send(&frame(PING, 0, 0, &[0; 8]));
    }
    client.peer.time_out();
    client.settle();
    assert_eq!(client.goaways, [(1, 3)]);
    assert_eq!(client.peer.counted(Abuse::Stalled), 1);
}

#[test]
fn more_streams_than_are_allowed() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    for at in 0..STREAMS_MAX as u32 + 10 {
        let request = client.request(2 * at + 1, "GET", "/file", &[]);
        client.send(&request);
    }
    let refused: Vec<u32> = client.streams.iter().filter(|(_, one)| one.reset == Some(7)).map(|(id, _)| *id).collect();
    assert_eq!(refused, (0..10).map(|at| 2 * (STREAMS_MAX as u32 + at) + 1).collect::<Vec<_>>());
    assert_eq!(client.peer.counted(Abuse::TooManyStreams), 10);
    client.open_windows().settle();
    assert_eq!(client.streams.values().filter(|one| one.ended && one.status == "200").count(), STREAMS_MAX);
}

#[test]
fn many_streams_that_are_read_slowly_hold_little() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 10)));
    for at in 0..STREAMS_MAX as u32 {
        let request = client.request(2 * at + 1, "GET", "/large", &[]);
        client.send(&request).settle();
    }
    let held = client.peer.connection.queued_content_bytes();
    assert!(held <= STREAMS_HELD_BYTES_MAX, "{held}");
    client.open_windows().settle();
    assert!(client.streams.values().all(|one| one.ended && one.content.len() == LARGE_BYTES));
    assert_eq!(client.streams.len(), STREAMS_MAX);
}

#[test]
fn under_pressure_streams_hold_one_content_at_a_time() {
    let mut client = client();
    client.peer.press(true);
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 10)));
    for id in [1, 3, 5, 7] {
        let request = client.request(id, "GET", "/large", &[]);
        client.send(&request).settle();
    }
    assert_eq!(client.peer.connection.queued_content_bytes(), 0);
    client.open_windows().settle();
    assert!(client.streams.values().all(|one| one.ended));
}

#[test]
fn settings_without_number() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(6, 1).repeat(33)));
    assert_eq!(client.goaways, [(0, ENHANCE_YOUR_CALM)]);
}

#[test]
fn content_that_comes_too_slowly_is_refused() {
    let mut client = client();
    let request = client.headers(1, 0, "GET", "/small", &[]);
    client.send(&request);
    for _ in 0..10 {
        client.peer.now = Instant::from_ms(client.peer.now.ms() + 20_000);
        if client.peer.timeout_ms() == Some(0) {
            break;
        }
        client.send(&frame(DATA, 0, 1, b"x"));
    }
    client.peer.time_out();
    client.settle();
    assert_eq!(client.streams[&1].status, "408");
}

#[test]
fn a_greeting_is_all_that_an_idle_connection_holds() {
    let mut client = Client::silent(Habits::default());
    client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat());
    assert!(client.peer.connection.memory_bytes() < 1_500, "{}", client.peer.connection.memory_bytes());
    client.ask(1, "GET", "/small", &[("user-agent", "test")]);
    client.ask(3, "GET", "/large", &[]);
    assert!(client.peer.connection.memory_bytes() < 2_500, "{}", client.peer.connection.memory_bytes());
}
