//! Peers that do not take what there is for them, and go on sending: nobody holds what he does not pay for. And those
//! who are slow for no fault of their own, who are not cut off.
//!
//! Owns: these cases, over HTTP/1.x and HTTP/2. Time passes second by second, as drivers let it.

use lamna_proto::limits::STREAMS_MAX;

use crate::conversation::{get, peer};
use crate::http2_client::{Client, DATA, END_STREAM, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, setting};
use crate::peer::{Cycle, Habits, Peer};
use crate::script::alive;

/// `send_timeout_ms`.
const SEND_SECONDS: u64 = 60;
const FLOW_CONTROL_ERROR: u32 = 3;
const CANCEL: u32 = 8;

fn client() -> Client {
    Client::new(Habits::default())
}

fn window_update(id: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, id, &bytes.to_be_bytes())
}

fn ping() -> Vec<u8> {
    frame(PING, 0, 0, b"a second")
}

/// A second passes, and what is due is told.
fn pass(peer: &mut Peer) {
    peer.now = peer.now.after_ms(1_000);
    while peer.timeout_ms() == Some(0) {
        peer.time_out();
        if peer.interest().is_over() {
            break;
        }
    }
}

/// Lets each second `each` happen, until the connection is closed or told to be. How many seconds that took, at most
/// `most`.
fn seconds_until_closed(client: &mut Client, most: u64, mut each: impl FnMut(&mut Client, u64) -> Vec<u8>) -> u64 {
    for second in 1..=most {
        pass(&mut client.peer);
        client.send(b"");
        if !client.goaways.is_empty() || client.peer.interest().is_over() {
            return second;
        }
        let bytes = each(client, second);
        client.send(&bytes).settle();
    }
    most + 1
}

const LARGE: [&str; 3] = ["/large", "/file", "/stream?h.c9000.c9000.c9000.c9000.c9000.c9000.c9000.c9000.c9000.e"];

#[test]
fn no_frame_keeps_a_stream_whose_window_is_shut() {
    type Frames = fn(u64) -> Vec<u8>;
    let kinds: [(&str, Frames); 8] = [
        ("nothing", |_| Vec::new()),
        ("PING", |_| ping()),
        ("several PINGs", |_| ping().repeat(50)),
        ("a byte of the stream's window", |_| window_update(1, 1)),
        ("a hundred bytes of it", |_| window_update(1, 100)),
        ("the connection's window", |_| window_update(0, 1_000)),
        ("SETTINGS", |second| frame(SETTINGS, 0, 0, &setting(4, second as u32))),
        ("a priority", |_| frame(16, 0, 0, &[0, 0, 0, 1, b'u', b'=', b'1'])),
    ];
    for path in LARGE {
        for (name, frames) in kinds {
            let mut client = client();
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
            client.ask(1, "GET", path, &[]);
            let seconds = seconds_until_closed(&mut client, 200, |_, second| frames(second));
            assert!((SEND_SECONDS..=SEND_SECONDS + 1).contains(&seconds), "{path} {name}: {seconds}");
            client.settle();
            assert_eq!((client.goaways[0].1, alive()), (FLOW_CONTROL_ERROR, 0), "{path} {name}");
        }
    }
}

#[test]
fn no_frame_keeps_streams_when_the_window_of_the_connection_is_shut() {
    for path in LARGE {
        for frames in [ping().repeat(20), window_update(0, 1), window_update(0, 150), window_update(1, 5_000)] {
            let mut client = client();
            client.send(&frame(SETTINGS, 0, 0, &setting(4, 1 << 20)));
            // So much that the window of the connection is shut, and something is left.
            let mut id = 1;
            while client.streams.values().map(|one| one.content.len()).sum::<usize>() < 65_535 {
                client.ask(id, "GET", path, &[]);
                id += 2;
            }
            client.ask(id, "GET", path, &[]);
            let seconds = seconds_until_closed(&mut client, 200, |_, _| frames.clone());
            assert!((SEND_SECONDS..=SEND_SECONDS + 1).contains(&seconds), "{path}: {seconds}");
            assert_eq!(client.goaways[0].1, FLOW_CONTROL_ERROR, "{path}");
        }
    }
}

#[test]
fn a_window_that_ends_with_what_was_read_is_shut_as_any_other() {
    let mut client = Client::new(Habits { ready_bytes: Cycle::new(vec![1_000]), ..Habits::default() });
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 1_000)));
    client.ask(1, "GET", "/file", &[]);
    let seconds = seconds_until_closed(&mut client, 200, |_, _| ping());
    assert!((SEND_SECONDS..=SEND_SECONDS + 1).contains(&seconds), "{seconds}");
}

#[test]
fn a_stream_that_stalls_beside_one_that_goes_on_is_reset_alone() {
    let mut client = client();
    client.send(&[frame(SETTINGS, 0, 0, &setting(4, 10)), window_update(0, 1 << 24)].concat());
    client.ask(1, "GET", "/stream?h.c9000.c9000.e", &[]);
    let script = vec!["c10000"; 20].join(".");
    client.ask(3, "GET", &format!("/stream?h.{script}.e"), &[]);
    let seconds =
        seconds_until_closed(&mut client, 150, |_, _| [window_update(3, 1_000), window_update(1, 1)].concat());
    assert_eq!((seconds, client.streams[&1].reset), (151, Some(CANCEL)));
    assert!(client.streams[&3].reset.is_none() && client.streams[&3].content.len() > 140_000);
    assert_eq!(alive(), 1);
}

#[test]
fn who_takes_enough_is_never_cut_off() {
    for path in LARGE {
        let mut client = client();
        client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
        client.ask(1, "GET", path, &[]);
        let seconds = seconds_until_closed(&mut client, 400, |client, _| {
            if client.streams[&1].ended { Vec::new() } else { [window_update(1, 300), window_update(0, 300)].concat() }
        });
        assert!(client.streams[&1].ended, "{path} {seconds}: {}", client.streams[&1].content.len());
    }
}

#[test]
fn who_waits_for_an_application_is_not_late() {
    // All that there is has been taken; the window is shut, or open; the application thinks.
    for window in [9, 1 << 20] {
        let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
        client.send(&frame(SETTINGS, 0, 0, &setting(4, window)));
        let request = client.request(1, "GET", "/stream?h.c9.w.c4.e", &[]);
        client.send(&request);
        while client.peer.meet_next() {}
        for _ in 0..300 {
            pass(&mut client.peer);
            client.send(&ping());
        }
        assert_eq!((client.goaways.len(), client.streams[&1].reset, client.streams[&1].content.len()), (0, None, 9));
        client.send(&window_update(1, 100)).settle();
        assert!(client.streams[&1].ended, "{window}");
    }
}

#[test]
fn streams_that_wait_for_their_turn_are_not_late() {
    let mut client = client();
    client.open_windows();
    client.peer.habits.send_bytes = Cycle::new(vec![1_000]);
    client.peer.reads_answers = false;
    let script = vec!["c10000"; 20].join(".");
    for id in [1, 3] {
        let request = client.request(id, "GET", &format!("/stream?h.{script}.e"), &[]);
        client.send(&request);
    }
    // A thousand bytes a second: one after the other.
    for _ in 0..250 {
        pass(&mut client.peer);
        client.peer.run_once();
        client.send(b"");
    }
    assert!(client.goaways.is_empty() && !client.peer.interest().is_over());
    client.peer.reads_answers = true;
    client.settle();
    assert!([1, 3].iter().all(|id| client.streams[id].ended));
}

#[test]
fn who_does_not_read_is_not_kept_by_what_it_sends() {
    // Over HTTP/2: PING, requests, content that an application takes.
    type Frames = fn(&mut Client, u64) -> Vec<u8>;
    let kinds: [(&str, Frames); 3] = [
        ("PING", |_, _| ping()),
        ("requests", |client, second| client.request(2 * second as u32 + 5, "GET", "/small", &[])),
        ("content", |_, _| frame(DATA, 0, 1, &[b'x'; 600])),
    ];
    for (name, frames) in kinds {
        let mut client = client();
        client.open_windows();
        let requests = [client.headers(1, 0, "PUT", "/stream?h.x", &[]), client.request(3, "GET", "/large", &[])];
        client.peer.reads_answers = false;
        client.send(&requests.concat());
        let seconds = seconds_until_closed(&mut client, 200, frames);
        assert!((SEND_SECONDS..=SEND_SECONDS + 1).contains(&seconds), "{name}: {seconds}");
    }
    // Over HTTP/1.1, while a program answers: what follows, and content.
    let upload = "PUT /stream?h.x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (name, request, more) in [
        ("the next request", get("/stream?h.c9000.c90000.e", ""), "G"),
        ("content", upload.to_owned(), &*format!("258\r\n{}\r\n", "x".repeat(600))),
        ("a tunnel", get("/stream?g.x", "Connection: upgrade\r\nUpgrade: x\r\n"), "bytes"),
    ] {
        let mut peer = peer();
        peer.reads_answers = false;
        peer.send(&request);
        let mut seconds = 0;
        while !peer.interest().is_over() {
            pass(&mut peer);
            seconds += 1;
            assert!(seconds <= SEND_SECONDS + 2, "{name}");
            if !peer.interest().is_over() {
                peer.send(more);
            }
        }
        assert!(seconds >= SEND_SECONDS - 1, "{name}: {seconds}");
    }
    assert_eq!(alive(), 0);
}

#[test]
fn who_reads_by_the_byte_over_http_1_1_is_cut_off_and_who_reads_slowly_is_not() {
    for path in LARGE {
        for (bytes, is_cut) in [(0, true), (1, true), (150, true), (300, false)] {
            let mut peer = peer();
            peer.habits.send_bytes = Cycle::new(vec![bytes]);
            peer.reads_answers = false;
            peer.send(get(path, ""));
            let mut seconds = 0;
            while seconds < 200 && !peer.interest().is_over() && peer.interest().send {
                pass(&mut peer);
                if bytes > 0 && !peer.interest().is_over() {
                    peer.run_once();
                }
                seconds += 1;
            }
            assert_eq!(peer.interest().is_over(), is_cut, "{path} {bytes}: {seconds}");
            assert!(!is_cut || (SEND_SECONDS..=SEND_SECONDS + 1).contains(&seconds), "{path} {bytes}: {seconds}");
        }
    }
}

#[test]
fn an_idle_connection_is_not_kept_by_what_carries_nothing() {
    // 75 seconds.
    let mut client = client();
    client.ask(1, "GET", "/small", &[]);
    let seconds = seconds_until_closed(&mut client, 200, |_, _| ping());
    assert!((75..=76).contains(&seconds), "{seconds}");
    for line in ["\r\n", "\r", "\n", "\r\n\r\n"] {
        let mut peer = peer();
        peer.converse(get("/small", ""));
        let mut seconds = 0;
        while !peer.interest().is_over() {
            pass(&mut peer);
            seconds += 1;
            assert!(seconds <= 76, "{line:?}");
            if !peer.interest().is_over() && seconds % 10 == 0 {
                peer.send(if line == "\r" && seconds % 20 == 0 { "\n" } else { line });
            }
        }
    }
}

#[test]
fn a_connection_that_drains_is_not_kept_by_pings() {
    let mut client = client();
    client.ask(1, "GET", "/small", &[]);
    client.peer.drain();
    let mut seconds = 0;
    while !client.peer.interest().is_over() {
        pass(&mut client.peer);
        seconds += 1;
        assert!(seconds <= 6, "{:?}", client.goaways);
        if !client.peer.interest().is_over() {
            client.send(&ping());
        }
    }
}

#[test]
fn a_frame_that_nobody_needs_has_to_arrive_in_time() {
    for frames in [frame(0x77, 0, 0, &[1; 16_000]), frame(DATA, 0, 1, &[1; 16_000]), frame(PING, 0, 0, b"12345678")] {
        let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
        let request = client.request(1, "GET", "/small", &[]);
        // What follows belongs to a stream that we have reset.
        client.send(&[request, window_update(1, 0)].concat());
        assert!(client.streams[&1].reset.is_some());
        let request = client.request(3, "GET", "/small", &[]);
        client.send(&request);
        // The head of the frame is there, and then now and then a byte.
        client.send(&frames[..9]);
        let mut bytes = frames.into_iter().skip(9);
        let seconds = seconds_until_closed(&mut client, 200, |_, second| {
            if second % 5 == 1 { bytes.next().into_iter().collect() } else { Vec::new() }
        });
        assert!((29..=32).contains(&seconds), "{seconds}");
    }
}

#[test]
fn content_in_large_frames_is_not_late_as_long_as_it_comes() {
    let mut client = client();
    let head = client.headers(1, 0, "PUT", "/stream?d.h.e", &[]);
    let data = frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(4);
    client.send(&head);
    let mut sent = 0;
    let seconds = seconds_until_closed(&mut client, 60, |_, _| {
        let bytes = data[sent..(sent + 1_000).min(data.len())].to_vec();
        sent += bytes.len();
        bytes
    });
    assert_eq!((seconds, client.streams.get(&1).map(|one| one.status.clone())), (61, None));
    client.send(&data[sent..]).send(&frame(DATA, END_STREAM, 1, b"")).settle();
    assert_eq!(client.streams[&1].status, "200");
}

#[test]
fn streams_that_wait_behind_those_that_stall_do_not_keep_the_connection() {
    for path in ["/large", "/file", "/lazy"] {
        let mut client = client();
        client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
        for at in 0..STREAMS_MAX as u32 {
            let request = client.request(2 * at + 1, "GET", path, &[]);
            client.send(&request).settle();
        }
        let seconds = seconds_until_closed(&mut client, 1_000, |_, _| ping());
        assert!(seconds <= SEND_SECONDS + 2, "{path}: {seconds}");
    }
}

#[test]
fn stalls_again_and_again_end_the_connection() {
    // One stream goes on all the time; others are begun and left.
    let mut client = client();
    client.send(&[frame(SETTINGS, 0, 0, &setting(4, 10)), window_update(0, 1 << 24)].concat());
    let script = vec!["c30000"; 60].join(".");
    client.ask(1, "GET", &format!("/stream?h.{script}.e"), &[]);
    let mut id = 3;
    let seconds = seconds_until_closed(&mut client, 1_000, |client, second| {
        let mut bytes = window_update(1, 1_000);
        if second % 61 == 1 {
            for _ in 0..100 {
                bytes.extend(client.request(id, "GET", "/stream?h.c90000.e", &[]));
                id += 2;
            }
        }
        bytes
    });
    assert!(seconds < 100, "{seconds}");
}

#[test]
fn a_reset_of_what_stalls_leaves_the_others() {
    let mut client = client();
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 10)));
    client.ask(1, "GET", "/stream?h.c9000.e", &[]);
    for _ in 0..50 {
        pass(&mut client.peer);
        client.send(&ping());
    }
    client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    client.ask(3, "GET", "/stream?h.c9000.e", &[]);
    for _ in 0..50 {
        pass(&mut client.peer);
        client.send(&ping());
    }
    assert!(client.goaways.is_empty(), "its time is its own");
}
