//! Conversations of HTTP/2: what is answered, in which frames, and how a connection ends.

use lamna_proto::conn::{Fate, Interest};
use proptest::prelude::*;

use crate::http2_client::{
    ACK, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY,
    PRIORITY_UPDATE, RST_STREAM, Response, SETTINGS, WINDOW_UPDATE, frame, setting,
};
use crate::peer::{Cycle, Habits, Peer};
use crate::site::{FILE_BYTES, LARGE_BYTES, SMALL, pattern};

const NO_ERROR: u32 = 0;
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const SETTINGS_TIMEOUT: u32 = 4;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

fn client() -> Client {
    Client::new(Habits::default())
}

fn pieces() -> Habits {
    Habits { receive_bytes: Cycle::new(vec![1, 2, 7]), send_bytes: Cycle::new(vec![1, 3, 500]), ..Habits::default() }
}

/// A world in which nothing is at once.
fn slow() -> Habits {
    Habits {
        receive_bytes: Cycle::new(vec![1, 20, 3]),
        send_bytes: Cycle::new(vec![40, 900, 2_000]),
        defers: Cycle::new(vec![true, true, false]),
        order: Cycle::new(vec![1, 0, 3]),
        ready_bytes: Cycle::new(vec![100, 3_000]),
        copies: Cycle::new(vec![true, false, false]),
        parks: Cycle::new(vec![true, false]),
        moves: vec![0, 5, 0, 100],
        ..Habits::default()
    }
}

#[test]
fn a_short_cached_answer_is_two_frames() {
    let mut client = client();
    let response = client.ask(1, "GET", "/small", &[]);
    assert_eq!((&*response.status, &*response.content, response.ended), ("200", SMALL, true));
    assert_eq!(response.field("date"), Some("Sun, 06 Nov 1994 08:50:37 GMT"));
    assert_eq!(response.field("server"), Some("Lamna"));
    assert_eq!(response.field("content-length"), Some("13"));
    assert_eq!(response.field("etag"), Some("\"small\""));
    assert_eq!(client.order, [1]);
    assert!(client.peer.connection.is_idle());
    assert_eq!(client.settings_acks, 1);
    let reports: Vec<_> = client.peer.reports.iter().map(|one| (one.request.as_deref(), one.status)).collect();
    assert_eq!(reports, [(Some("GET /small"), 200)]);
}

#[test]
fn the_second_answer_refers_to_what_the_first_one_said() {
    let mut client = client();
    let first = client.request(1, "GET", "/small", &[]);
    let before = client.peer.connection.memory_bytes();
    let mut lengths = Vec::new();
    for id in [1, 3, 5] {
        let request = if id == 1 { first.clone() } else { client.request(id, "GET", "/small", &[]) };
        client.peer.send(&request);
        lengths.push(client.peer.output.len());
        client.settle();
    }
    assert!(lengths[1] + 20 < lengths[0] && lengths[1] == lengths[2], "{lengths:?}");
    assert!(client.peer.connection.memory_bytes() < before + 4_096);
    assert_eq!(client.streams[&1].fields, client.streams[&5].fields);
}

#[test]
fn streams_are_answered_beside_each_other_however_slow_the_world_is() {
    for habits in [Habits::default(), pieces(), slow()] {
        let mut client = Client::new(habits);
        let paths = ["/small", "/large", "/file", "/lazy", "/coded", "/nothing"];
        let requests: Vec<Vec<u8>> =
            (0..24).map(|at| client.request(2 * at + 1, "GET", paths[at as usize % paths.len()], &[])).collect();
        client.open_windows();
        client.send(&requests.concat()).settle();
        for at in 0..24_u32 {
            let response = &client.streams[&(2 * at + 1)];
            let expected = match at as usize % paths.len() {
                0 => SMALL.to_vec(),
                1 => pattern(LARGE_BYTES),
                2 => pattern(FILE_BYTES),
                3 => pattern(5_000),
                4 => b"identity".to_vec(),
                _ => b"No such page.\n".to_vec(),
            };
            assert!(response.ended && response.content == expected, "{at}: {response:?}");
        }
        assert!(client.peer.connection.is_idle() && client.goaways.is_empty());
        assert_eq!(client.peer.reports.len(), 24);
    }
}

/// What HTTP/1.1 answers, as if it were HTTP/2.
fn answer_of_http1(method: &str, path: &str, more: &[(&str, &str)]) -> Response {
    let mut peer = Peer::new(Habits::default());
    let fields: String = more.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    peer.converse(format!("{method} {path} HTTP/1.1\r\nHost: www.example.com\r\n{fields}\r\n"));
    let output = peer.take_output();
    let (head, content) = output.split_once("\r\n\r\n").unwrap();
    let (line, fields) = head.split_once("\r\n").unwrap();
    let fields = fields.split("\r\n").map(|line| line.split_once(": ").unwrap());
    Response {
        status: line[9..12].to_owned(),
        fields: fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect(),
        content: content.as_bytes().to_vec(),
        ended: true,
        ..Response::default()
    }
}

#[test]
fn whatever_http_1_answers_is_answered_the_same() {
    let conditions: [&[(&str, &str)]; 14] = [
        &[],
        &[("range", "bytes=2-5")],
        &[("range", "bytes=-3")],
        &[("range", "bytes=0-1,4-5")],
        &[("range", "bytes=0-10,9000-9999")],
        &[("range", "bytes=99999-")],
        &[("if-none-match", "\"small\", \"file\"")],
        &[("if-match", "\"other\"")],
        &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
        &[("range", "bytes=2-5"), ("if-range", "\"large\"")],
        &[("accept-encoding", "gzip")],
        &[("accept-encoding", "br;q=0.5, gzip;q=0.1")],
        &[("accept", "application/json")],
        &[("cookie", "a=b"), ("user-agent", "test")],
    ];
    let paths = [
        "/small",
        "/large",
        "/file",
        "/lazy",
        "/empty",
        "/weak",
        "/coded",
        "/typed",
        "/redirect?a=b",
        "/redirect",
        "/nothing",
        "/?q",
        "/%zz",
    ];
    for habits in [Habits::default(), slow()] {
        let mut client = Client::new(habits);
        client.open_windows();
        let mut id = 1;
        for method in ["GET", "HEAD", "OPTIONS", "POST", "BREW"] {
            for path in paths {
                for more in conditions {
                    let (mut expected, mut found) =
                        (answer_of_http1(method, path, more), client.ask(id, method, path, more));
                    id += 2;
                    for fields in [&mut expected.fields, &mut found.fields] {
                        // The boundary of parts is made for each answer.
                        fields.retain(|(name, value)| name != "connection" && !value.starts_with("multipart/"));
                        fields.sort();
                    }
                    if expected.status == "206" && path != "/typed" && expected.content.starts_with(b"\r\n--lamna-") {
                        assert_eq!(found.content.len(), expected.content.len());
                        found.content.clone_from(&expected.content);
                    }
                    assert_eq!(found, expected, "{method} {path} {more:?}");
                }
            }
        }
    }
}

#[test]
fn what_the_windows_do_not_allow_waits_until_they_do() {
    for (path, bytes) in [("/large", LARGE_BYTES), ("/file", FILE_BYTES), ("/lazy", 5_000)] {
        for habits in [Habits::default(), Habits { copies: Cycle::new(vec![true]), ..slow() }] {
            let mut client = Client::new(habits);
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 1_000)));
            client.ask(1, "GET", path, &[]);
            assert_eq!((client.streams[&1].content.len(), client.streams[&1].ended), (1_000, false));
            assert!(client.peer.interest().receive && !client.peer.interest().send);
            client.send(&frame(WINDOW_UPDATE, 0, 1, &2_000_u32.to_be_bytes())).settle();
            assert_eq!(client.streams[&1].content.len(), 3_000);
            // RFC 9113 6.9.2: smaller than what has been sent, and larger again.
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
            client.send(&frame(WINDOW_UPDATE, 0, 1, &500_u32.to_be_bytes())).settle();
            assert_eq!(client.streams[&1].content.len(), 3_000);
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 100_000))).settle();
            assert!(client.streams[&1].ended && client.streams[&1].content == pattern(bytes));
        }
    }
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 1 << 20)));
    for id in [1, 3, 5, 7] {
        client.ask(id, "GET", "/large", &[]);
    }
    let sent: usize = client.streams.values().map(|one| one.content.len()).sum();
    assert_eq!(sent, 65_535);
    // What is short does not overtake the window either.
    client.ask(9, "GET", "/small", &[]);
    assert_eq!(client.streams[&9].content.len(), 0);
    client.send(&frame(WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes())).settle();
    assert!(client.streams.values().all(|one| one.ended));
}

// RFC 9218.
#[test]
fn the_most_urgent_is_sent_first_then_the_shortest_and_parts_take_turns() {
    let order_of = |priorities: [&str; 3]| {
        let mut client = client();
        client.send(&frame(SETTINGS, 0, 0, &setting(4, 1 << 20)));
        // The window of the connection is used up, so that all three wait.
        for id in [1, 3, 5, 7] {
            client.ask(id, "GET", "/large", &[]);
        }
        let paths = ["/large", "/file", "/large"];
        for (at, priority) in priorities.iter().enumerate() {
            let id = 9 + 2 * at as u32;
            client.ask(id, "GET", paths[at], &[("priority", priority)]);
        }
        client.order.clear();
        for _ in 0..20 {
            client.send(&frame(WINDOW_UPDATE, 0, 0, &5_000_u32.to_be_bytes())).settle();
        }
        client.order.retain(|id| *id > 7);
        let mut order = client.order;
        order.dedup();
        order
    };
    assert_eq!(order_of(["", "", ""]), [11, 9, 13]);
    assert_eq!(order_of(["", "u=5", "u=1"]), [13, 9, 11]);
    assert_eq!(order_of(["u=1,i", "u=5", "u=1,i"])[..4], [9, 13, 9, 13]);
}

#[test]
fn a_priority_may_be_changed_by_a_frame_before_and_after_the_request() {
    let update =
        |id: u32, value: &str| frame(PRIORITY_UPDATE, 0, 0, &[&id.to_be_bytes()[..], value.as_bytes()].concat());
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 1 << 20)));
    for id in [1, 3, 5, 7] {
        client.ask(id, "GET", "/large", &[]);
    }
    client.send(&update(13, "u=0"));
    for id in [9, 11, 13] {
        client.ask(id, "GET", "/large", &[]);
    }
    client.send(&update(11, "u=1"));
    client.order.clear();
    client.send(&frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 20).to_be_bytes())).settle();
    client.order.retain(|id| *id > 7);
    client.order.dedup();
    assert_eq!(client.order, [13, 11, 9]);
}

#[test]
fn content_of_a_request_is_received_to_its_end_and_windows_are_opened_again() {
    for habits in [Habits::default(), slow()] {
        let mut client = Client::new(habits);
        let request = client.headers(1, 0, "GET", "/small", &[("content-length", "4000")]);
        client.send(&[request, frame(DATA, 0, 1, &[b'x'; 3_999])].concat()).settle();
        assert!(!client.streams.contains_key(&1));
        let ping = frame(PING, 0, 0, b"12345678");
        client.send(&[frame(DATA, END_STREAM, 1, b"x"), ping].concat()).settle();
        assert_eq!((&*client.streams[&1].status, &*client.streams[&1].content), ("200", SMALL));
        assert_eq!(client.pongs, [b"12345678"]);
        // Padding counts as well.
        for id in (3..43).step_by(2) {
            let request = client.headers(id, 0, "GET", "/small", &[]);
            let padded = [&[200][..], &[b'x'; 3_000], &[0; 200]].concat();
            client.send(&[request, frame(DATA, 8 | END_STREAM, id, &padded)].concat()).settle();
            assert!(client.streams[&id].ended, "{id}");
        }
        let opened: u32 = client.updates.iter().filter(|(id, _)| *id == 0).map(|(_, bytes)| bytes).sum();
        assert!(opened >= 32_768, "{opened}");
    }
}

#[test]
fn trailers_end_a_request() {
    let mut client = client();
    let request = client.headers(1, 0, "GET", "/small", &[]);
    let trailers = client.block(&[("x-checksum", "1")]);
    client.send(&[request, frame(DATA, 0, 1, b"abc"), frame(HEADERS, END_STREAM | END_HEADERS, 1, &trailers)].concat());
    assert!(client.streams[&1].ended && client.streams[&1].status == "200");
    for (flags, field) in [(END_HEADERS, "x"), (END_HEADERS | END_STREAM, ":path")] {
        let mut client = self::client();
        let request = client.headers(1, 0, "GET", "/small", &[]);
        let trailers = client.block(&[(field, "1")]);
        client.send(&[request, frame(HEADERS, flags, 1, &trailers)].concat());
        assert_eq!(client.streams[&1].reset, Some(PROTOCOL_ERROR));
    }
}

#[test]
fn content_that_is_not_wanted_is_refused_at_once_and_discarded_for_a_while() {
    let mut client = client();
    let post = client.headers(1, 0, "POST", "/small", &[("content-length", "100")]);
    let large = client.headers(3, 0, "GET", "/small", &[("content-length", "5001")]);
    let growing = client.headers(5, 0, "GET", "/small", &[]);
    client.send(&[post, large, growing, frame(DATA, 0, 5, &[0; 5_001])].concat());
    for (id, status) in [(1, "405"), (3, "413"), (5, "413")] {
        let response = &client.streams[&id];
        assert_eq!((&*response.status, response.ended, response.reset), (status, true, None), "{id}");
    }
    // What was on its way is discarded, and the header block of it is decoded: this stream ends without a reset.
    let trailers = client.block(&[("x-y", "z")]);
    client.send(&[frame(DATA, 0, 1, &[0; 100]), frame(HEADERS, END_STREAM | END_HEADERS, 1, &trailers)].concat());
    client.peer.time_out();
    client.settle();
    let resets = [1, 3, 5].map(|id| client.streams[&id].reset);
    assert_eq!(resets, [None, Some(NO_ERROR), Some(NO_ERROR)]);
    client.send(&frame(DATA, 0, 3, &[0; 50]));
    let response = client.ask(7, "GET", "/small", &[("x-y", "z")]);
    assert_eq!(response.status, "200");
    assert!(client.goaways.is_empty());
}

#[test]
fn what_holds_without_content_is_said_whatever_the_content_is() {
    for (method, path, status) in [("GET", "/redirect", "308"), ("GET", "/absent", "404"), ("POST", "/small", "405")] {
        let mut client = client();
        let known = client.headers(1, 0, method, path, &[("content-length", "5001")]);
        let growing = client.headers(3, 0, method, path, &[]);
        let waiting = client.headers(5, 0, method, path, &[("content-length", "3"), ("expect", "100-continue")]);
        client.send(&[known, growing, frame(DATA, 0, 3, &[0; 5_001]), waiting].concat());
        for id in [1, 3, 5] {
            let response = &client.streams[&id];
            assert_eq!((&*response.status, response.ended, response.reset), (status, true, None), "{path} {id}");
            assert!(response.interim.is_empty(), "{path} {id}");
        }
        // It comes before the content. Which is read to its end then, so that the stream ends without a reset.
        for (id, fields) in [(7, &[("content-length", "5000")][..]), (9, &[])] {
            let head = client.headers(id, 0, method, path, fields);
            client.send(&head);
            assert_eq!((&*client.streams[&id].status, client.streams[&id].ended), (status, true), "{path}");
            client.send(&frame(DATA, END_STREAM, id, &[0; 5_000]));
        }
        client.peer.time_out();
        client.settle();
        let resets = [1, 3, 5, 7, 9].map(|id| client.streams[&id].reset);
        assert_eq!(resets, [Some(NO_ERROR), Some(NO_ERROR), Some(NO_ERROR), None, None], "{path}");
        assert!(client.goaways.is_empty() && client.peer.connection.is_idle());
    }
}

// Clients that are still sending would lose the answer by a reset, and some see it only when they have sent all.
#[test]
fn content_behind_an_answer_may_be_sent_to_its_end() {
    let mut client = client();
    let head = client.headers(1, 0, "GET", "/absent", &[("content-length", "983040")]);
    client.send(&head);
    assert!(client.streams[&1].ended);
    let (mut room, mut taken) = ([65_535_u32; 2], 0);
    let mut left = 983_040;
    while left > 0 {
        for (id, increment) in client.updates.drain(..) {
            room[usize::from(id == 1)] += increment;
            taken += usize::from(id == 1);
        }
        let bytes = left.min(16_384).min(room[0]).min(room[1]);
        assert!(bytes > 0, "the windows are opened");
        (left, room) = (left - bytes, room.map(|room| room - bytes));
        client.send(&frame(DATA, if left == 0 { END_STREAM } else { 0 }, 1, &vec![0; bytes as usize]));
    }
    assert!(taken > 1 && client.streams[&1].reset.is_none() && client.goaways.is_empty());
    assert!(client.peer.connection.is_idle());
}

#[test]
fn content_behind_an_answer_is_not_discarded_for_ever() {
    let mut client = client();
    let head = client.headers(1, 0, "GET", "/absent", &[]);
    client.send(&head);
    let mut waited_ms = 0;
    for _ in 0..20 {
        (client.peer.now, waited_ms) = (client.peer.now.after_ms(1_500), waited_ms + 1_500);
        assert_eq!(client.send(&frame(DATA, 0, 1, b"more")).streams[&1].reset, None);
        assert_eq!(client.peer.timeout_ms(), Some((30_000 - waited_ms).min(2_000)));
    }
    client.peer.time_out();
    assert_eq!(client.settle().streams[&1].reset, Some(NO_ERROR));
    // Who closes its side is not heard out.
    let head = client.headers(3, 0, "GET", "/absent", &[]);
    client.send(&head).peer.end();
    assert_eq!(client.peer.interest(), Interest::CLOSE);
}

// Go and curl stop so when they see the answer.
#[test]
fn a_reset_behind_an_answer_is_no_reset_in_vain() {
    let mut client = client();
    for id in (1..4_001).step_by(2) {
        let head = client.headers(id, 0, "GET", "/absent", &[]);
        client.send(&head);
        assert!(client.streams[&id].ended, "{id}");
        client.send(&frame(RST_STREAM, 0, id, &[0, 0, 0, 8]));
    }
    assert!(client.goaways.is_empty() && client.peer.connection.is_idle());
}

#[test]
fn a_client_that_waits_for_it_is_told_to_go_on() {
    let mut client = client();
    let request = client.headers(1, 0, "GET", "/small", &[("expect", "100-continue")]);
    client.send(&request);
    assert_eq!(client.streams[&1].interim, ["100"]);
    client.send(&frame(DATA, END_STREAM, 1, b"abc"));
    assert_eq!(client.streams[&1].status, "200");
}

// RFC 9113 8.1.1.
#[test]
fn content_that_disagrees_with_its_length_resets_the_stream() {
    for (length, frames) in [
        ("3", frame(DATA, END_STREAM, 1, b"ab")),
        ("3", frame(DATA, 0, 1, b"abcd")),
        ("3", frame(DATA, END_STREAM, 1, b"")),
    ] {
        let mut client = client();
        let request = client.headers(1, 0, "GET", "/small", &[("content-length", length)]);
        client.send(&[request, frames].concat());
        assert_eq!(client.streams[&1].reset, Some(PROTOCOL_ERROR));
        assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200");
    }
    assert_eq!(client().ask(1, "GET", "/small", &[("content-length", "3")]).reset, Some(PROTOCOL_ERROR));
    assert_eq!(client().ask(1, "GET", "/small", &[("content-length", "0")]).status, "200");
}

#[test]
fn what_is_malformed_resets_its_stream_and_no_other() {
    let mut client = client();
    for (at, more) in [("connection", "close"), ("te", "gzip"), ("Upper", "case"), ("x", "a\r\nb")].iter().enumerate() {
        let id = 4 * at as u32 + 1;
        assert_eq!(client.ask(id, "GET", "/small", &[*more]).reset, Some(PROTOCOL_ERROR), "{more:?}");
        assert_eq!(client.ask(id + 2, "GET", "/small", &[]).status, "200");
    }
    assert!(client.goaways.is_empty());
}

#[test]
fn the_host_is_checked_like_that_of_http_1() {
    let mut client = client();
    let headers = |client: &mut Client, id, fields: &[(&str, &str)]| {
        let block = client.block(fields);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, id, &block));
        client.streams[&id].clone()
    };
    let common = [(":method", "GET"), (":scheme", "https"), (":path", "/small")];
    assert_eq!(headers(&mut client, 1, &common).status, "400");
    assert_eq!(headers(&mut client, 3, &[&common[..], &[(":authority", "a b")]].concat()).status, "400");
    assert_eq!(headers(&mut client, 5, &[&common[..], &[(":authority", "u@a")]].concat()).status, "400");
    assert_eq!(headers(&mut client, 7, &[&common[..], &[("host", "b.example")]].concat()).status, "200");
    let hosts: Vec<_> = client.peer.asked.iter().map(|(host, ..)| host.as_deref()).collect();
    assert_eq!(hosts, [Some("b.example")]);
}

#[test]
fn a_request_that_is_larger_than_we_read_is_told_so_and_the_connection_goes_on() {
    let mut client = client();
    let long = "x".repeat(3_000);
    assert_eq!(client.ask(1, "GET", "/small", &[("x", &long)]).status, "431");
    assert_eq!(client.ask(3, "GET", &format!("/{}", "y".repeat(600)), &[]).status, "414");
    assert_eq!(client.ask(5, "GET", "/small", &[("a", "b"); 30]).status, "431");
    assert_eq!(client.ask(7, "GET", "/small", &[("x", "y")]).status, "200");
    assert!(client.goaways.is_empty());
}

#[test]
fn a_header_block_may_come_in_pieces_of_any_size() {
    for habits in [Habits::default(), pieces()] {
        let mut client = Client::new(habits);
        let headers = client.request(1, "GET", "/small", &[("x-long", &"z".repeat(900))]);
        let block = &headers[9..];
        let parts: Vec<&[u8]> = block.chunks(block.len() / 9).collect();
        let mut frames = frame(HEADERS, END_STREAM, 1, &[&[3][..], parts[0], &[0; 3]].concat());
        frames[4] |= 8;
        for (at, part) in parts[1..].iter().enumerate() {
            let flags = if at + 2 == parts.len() { END_HEADERS } else { 0 };
            frames.extend(frame(CONTINUATION, flags, 1, part));
        }
        client.send(&frames).settle();
        assert_eq!(client.streams[&1].status, "200");
    }
}

// RFC 9113 4, 5 and 6.
#[test]
fn what_breaks_the_rules_of_the_connection_ends_it_with_a_reason() {
    let get = |client: &mut Client, id| client.request(id, "GET", "/large", &[]);
    type Frames = fn(&mut Client) -> Vec<u8>;
    let faults: [(u32, &str, Frames); 20] = [
        (PROTOCOL_ERROR, "an even stream", |client| client.request(2, "GET", "/", &[])),
        (PROTOCOL_ERROR, "DATA before HEADERS", |_| frame(DATA, 0, 1, b"x")),
        (PROTOCOL_ERROR, "RST_STREAM of an idle stream", |_| frame(RST_STREAM, 0, 1, &[0; 4])),
        (PROTOCOL_ERROR, "WINDOW_UPDATE of an idle stream", |_| frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        (PROTOCOL_ERROR, "a window opened by nothing", |_| frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        (FLOW_CONTROL_ERROR, "a window opened too far", |_| frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        (FLOW_CONTROL_ERROR, "a window setting", |_| frame(SETTINGS, 0, 0, &setting(4, 1 << 31))),
        (PROTOCOL_ERROR, "a frame size", |_| frame(SETTINGS, 0, 0, &setting(5, 1))),
        (FRAME_SIZE_ERROR, "a long frame", |_| frame(DATA, 0, 1, &[0; 16_385])),
        (FRAME_SIZE_ERROR, "half a setting", |_| frame(SETTINGS, 0, 0, &[0; 7])),
        (FRAME_SIZE_ERROR, "a short PING", |_| frame(PING, 0, 0, &[0; 7])),
        (PROTOCOL_ERROR, "PING on a stream", |_| frame(PING, 0, 1, &[0; 8])),
        (PROTOCOL_ERROR, "PUSH_PROMISE", |_| frame(5, END_HEADERS, 1, &[0; 4])),
        (PROTOCOL_ERROR, "CONTINUATION alone", |_| frame(CONTINUATION, END_HEADERS, 1, &[])),
        (PROTOCOL_ERROR, "a frame between", |client| {
            let mut headers = client.request(1, "GET", "/", &[]);
            headers[4] = END_STREAM;
            [headers, frame(PING, 0, 0, &[0; 8])].concat()
        }),
        (COMPRESSION_ERROR, "an index that is not there", |_| {
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0xff, 0x7f])
        }),
        (COMPRESSION_ERROR, "half a block", |_| frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x40, 0x05, b'a'])),
        (STREAM_CLOSED, "HEADERS again", |client| {
            [client.request(1, "GET", "/small", &[]), client.request(1, "GET", "/", &[])].concat()
        }),
        (PROTOCOL_ERROR, "long padding", |_| frame(DATA, 8, 1, &[9, 0, 0])),
        (PROTOCOL_ERROR, "a priority of nothing", |_| frame(PRIORITY_UPDATE, 0, 0, &[0; 4])),
    ];
    for habits in [Habits::default(), pieces()] {
        for (code, name, frames) in faults {
            let mut client = Client::new(habits.clone());
            let frames = frames(&mut client);
            client.send(&frames).settle();
            assert_eq!(client.goaways.last().map(|(_, code)| *code), Some(code), "{name}");
            assert_eq!(client.peer.interest().fate, Fate::Linger, "{name}");
            let request = get(&mut client, 101);
            client.send(&request);
            assert!(!client.streams.contains_key(&101), "{name}");
            client.peer.time_out();
            assert!(client.peer.interest().is_over(), "{name}");
        }
    }
}

#[test]
fn faults_of_a_stream_end_that_stream() {
    type Frames = fn(&mut Client) -> Vec<u8>;
    let faults: [(u32, &str, Frames); 5] = [
        (PROTOCOL_ERROR, "a window opened by nothing", |_| frame(WINDOW_UPDATE, 0, 1, &[0; 4])),
        (STREAM_CLOSED, "DATA behind the end", |_| frame(DATA, 0, 1, b"x")),
        (STREAM_CLOSED, "HEADERS behind the end", |client| client.request(1, "GET", "/", &[])),
        (FRAME_SIZE_ERROR, "a short PRIORITY", |_| frame(PRIORITY, 0, 1, &[0; 4])),
        (PROTOCOL_ERROR, "a stream that depends on itself", |_| frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0])),
    ];
    for (code, name, frames) in faults {
        let mut client = client();
        client.send(&frame(SETTINGS, 0, 0, &setting(4, 100)));
        client.ask(1, "GET", "/large", &[]);
        let frames = frames(&mut client);
        client.send(&frames).settle();
        assert_eq!(client.streams[&1].reset, Some(code), "{name}");
        assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200", "{name}");
    }
    let mut client = client();
    let request = client.headers(1, 0, "GET", "/small", &[]);
    client.send(&[request, frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff])].concat());
    assert_eq!(client.streams[&1].reset, Some(FLOW_CONTROL_ERROR));
}

#[test]
fn a_connection_begins_with_the_preface_and_settings() {
    let mut wrong = Client::silent(Habits::default());
    wrong.send(&[PREFACE, &frame(PING, 0, 0, &[0; 8])].concat());
    assert_eq!(wrong.goaways, [(0, PROTOCOL_ERROR)]);
    let mut slow = Client::silent(pieces());
    slow.send(&PREFACE[..23]);
    assert!(slow.peer.output.is_empty() && slow.settings.is_empty());
    slow.send(&[&PREFACE[23..], &frame(SETTINGS, 0, 0, &[])].concat());
    assert!(slow.settings.iter().any(|(name, value)| *name == 3 && *value >= 100));
    assert_eq!(slow.ask(1, "GET", "/small", &[]).status, "200");
    // HTTP/1.x is spoken with whoever begins with anything else.
    let mut other = Peer::new(Habits::default());
    other.converse("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    assert!(other.take_output().starts_with("HTTP/1.1 505 "));
}

#[test]
fn a_stream_that_the_peer_takes_back_is_not_sent_any_more() {
    for path in ["/large", "/file"] {
        for habits in [Habits::default(), slow()] {
            let mut client = Client::new(habits);
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 1_000)));
            client.ask(1, "GET", path, &[]);
            client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).settle();
            assert!(client.peer.connection.is_idle());
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 100_000))).settle();
            assert_eq!(client.streams[&1].content.len(), 1_000);
            assert_eq!(client.peer.reports.last().map(|one| (one.status, one.content_bytes)), Some((200, 1_000)));
            assert_eq!(client.ask(3, "GET", path, &[]).status, "200");
        }
    }
}

#[test]
fn a_frame_that_has_begun_to_leave_from_a_file_is_completed_although_its_stream_is_taken_back() {
    let mut client = Client::new(Habits { send_bytes: Cycle::new(vec![200]), ..Habits::default() });
    let request = client.request(1, "GET", "/file", &[]);
    client.peer.reads_answers = false;
    client.peer.send(&request);
    let ping = frame(PING, 0, 0, b"abcdefgh");
    client.peer.send([frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), ping].concat());
    client.peer.reads_answers = true;
    client.settle();
    // Nothing of it or a whole frame of it has arrived, and what follows can be read.
    assert_eq!(client.pongs, [b"abcdefgh"]);
    assert_eq!(client.ask(3, "GET", "/small", &[]).content, SMALL);
}

#[test]
fn content_that_cannot_be_read_is_an_error_before_the_head_and_a_reset_after_it() {
    let mut client = Client::new(Habits { fails: Cycle::new(vec![true]), ..Habits::default() });
    assert_eq!(client.ask(1, "GET", "/file", &[]).status, "500");
    let habits = Habits {
        fails: Cycle::new(vec![false, true, true, true]),
        ready_bytes: Cycle::new(vec![100]),
        ..Habits::default()
    };
    let mut client = Client::new(habits);
    let response = client.ask(1, "GET", "/file", &[]);
    assert_eq!((&*response.status, response.content.len(), response.reset), ("200", 100, Some(2)));
    assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200");
}

#[test]
fn draining_says_so_twice_and_serves_what_was_on_its_way() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 100)));
    client.ask(1, "GET", "/large", &[]);
    client.peer.drain();
    client.settle();
    assert_eq!(client.goaways, [((1 << 31) - 1, NO_ERROR)]);
    assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200");
    let ping = client.pings.pop().unwrap();
    client.send(&frame(PING, ACK, 0, &ping));
    assert_eq!(client.goaways[1..], [(3, NO_ERROR)]);
    let late = client.request(5, "GET", "/small", &[]);
    client.send(&late);
    assert!(!client.streams.contains_key(&5));
    assert_eq!(client.peer.interest().fate, Fate::Open);
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 100_000))).settle();
    assert!(client.streams[&1].ended);
    assert_eq!(client.peer.interest().fate, Fate::Linger);
    client.peer.end();
    assert!(client.peer.interest().is_over());
}

// The end of a TLS session may have been said, and nothing can be said behind it.
#[test]
fn nothing_is_said_behind_the_end() {
    let mut client = client();
    client.ask(1, "GET", "/small", &[]);
    client.peer.drain();
    client.settle();
    let ping = client.pings.pop().unwrap();
    client.send(&frame(PING, ACK, 0, &ping));
    assert_eq!(client.peer.interest(), Interest::LINGER);
    client.send(&[frame(PING, 0, 0, b"abcdefgh"), frame(SETTINGS, 0, 0, &setting(4, 100))].concat());
    assert_eq!((client.pongs.len(), client.peer.interest()), (0, Interest::LINGER));
    let mut gone = self::client();
    gone.ask(1, "GET", "/small", &[]);
    gone.peer.end();
    assert_eq!(gone.peer.interest(), Interest::CLOSE);
    gone.peer.drain();
    gone.settle();
    assert_eq!((gone.goaways.len(), gone.peer.interest()), (0, Interest::CLOSE));
}

#[test]
fn draining_does_not_wait_for_ever_for_a_ping() {
    let mut client = client();
    client.peer.drain();
    client.settle();
    // The first time it is only noted since when.
    client.peer.time_out().time_out();
    client.settle();
    assert_eq!(client.goaways, [((1 << 31) - 1, NO_ERROR), (0, NO_ERROR)]);
    assert_eq!(client.peer.interest().fate, Fate::Linger);
}

#[test]
fn a_worker_that_drains_tells_its_connections() {
    let mut client = client();
    client.peer.drain_worker();
    client.settle();
    assert_eq!(client.goaways.len(), 1);
    assert_eq!(client.ask(1, "GET", "/small", &[]).status, "200");
}

#[test]
fn whoever_is_idle_or_silent_for_too_long_is_told_and_closed() {
    let mut client = client();
    client.ask(1, "GET", "/small", &[]);
    assert_eq!(client.peer.timeout_ms(), Some(75_000));
    client.peer.time_out();
    client.settle();
    assert_eq!(client.goaways, [(1, NO_ERROR)]);
    let mut half = self::client();
    let request = half.request(1, "GET", "/small", &[]);
    half.send(&request[..20]);
    assert_eq!(half.peer.timeout_ms(), Some(30_000));
    half.peer.time_out();
    half.settle();
    assert_eq!(half.goaways.len(), 1);
    let mut content = self::client();
    let request = content.headers(1, 0, "GET", "/small", &[]);
    content.send(&request);
    content.peer.time_out();
    content.settle();
    assert_eq!((&*content.streams[&1].status, content.streams[&1].ended), ("408", true));
    let mut rude = Client::silent(Habits::default());
    rude.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    rude.peer.time_out();
    rude.settle();
    assert_eq!(rude.goaways, [(0, SETTINGS_TIMEOUT)]);
}

#[test]
fn a_peer_that_closes_its_side_gets_what_it_may_be_sent() {
    let mut client = client();
    let request = client.request(1, "GET", "/large", &[]);
    client.peer.reads_answers = false;
    client.send(&request);
    client.peer.end();
    client.peer.reads_answers = true;
    client.settle();
    assert!(client.streams[&1].ended && client.peer.interest().is_over());
    let mut blocked = self::client();
    blocked.send(&frame(SETTINGS, 0, 0, &setting(4, 100)));
    blocked.ask(1, "GET", "/large", &[]);
    blocked.peer.end();
    assert!(blocked.peer.interest().is_over());
}

#[test]
fn unknown_frames_and_what_the_peer_says_of_its_end_are_passed_over() {
    let mut client = client();
    let odd = [frame(0xbe, 0xff, 7, &[1; 3_000]), frame(GOAWAY, 0, 0, &[0; 12]), frame(PRIORITY, 0, 9, &[0; 5])];
    client.send(&odd.concat());
    assert_eq!(client.ask(1, "GET", "/small", &[]).status, "200");
    assert!(client.goaways.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_behind_the_preface_are_answered_within_bounds(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            (0..18_u8, any::<u8>(), 0..9_u32, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(kind, flags, id, payload)| frame(kind, flags, id, &payload)),
            (0..3_u32, 0..3_usize).prop_map(|(id, path)| Client::silent(Habits::default()).request(2 * id + 1, "GET", ["/small", "/large", "/file"][path], &[])),
        ], 0..30),
        is_slow: bool,
    ) {
        crate::checks::http2(if is_slow { slow() } else { Habits::default() }, &pieces);
    }
}
