//! Programs on streams of HTTP/2: content with back-pressure, answers before and after its end, and what becomes of a
//! program when its stream or its driver goes.
//!
//! Owns: these cases.

use crate::http2_client::{Client, DATA, END_STREAM, RST_STREAM, SETTINGS, frame, setting};
use crate::peer::{Cycle, Habits};
use crate::site::ECHO_BYTES_MAX;

fn deferring() -> Client {
    Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() })
}

#[test]
fn a_program_takes_the_content_beside_other_streams() {
    let slow = Habits {
        receive_bytes: Cycle::new(vec![1, 30]),
        defers: Cycle::new(vec![true, false]),
        order: Cycle::new(vec![1, 0]),
        parks: Cycle::new(vec![true, false]),
        ..Habits::default()
    };
    for habits in [Habits::default(), slow] {
        let mut client = Client::new(habits);
        let heads = [1, 3].map(|id| client.headers(id, 0, "PUT", "/echo", &[]));
        let get = client.request(5, "GET", "/small", &[]);
        let parts = [frame(DATA, 0, 1, b"ab"), frame(DATA, 0, 3, b"12"), get, frame(DATA, END_STREAM, 3, b"")];
        client.send(&[heads.concat(), parts.concat(), frame(DATA, END_STREAM, 1, b"cd")].concat()).settle();
        assert_eq!((&*client.streams[&1].content, &*client.streams[&3].content), (&b"abcd"[..], &b"12"[..]));
        assert_eq!(client.streams[&5].status, "200");
        assert!(client.streams.values().all(|one| one.ended && one.reset.is_none()));
    }
}

#[test]
fn a_request_without_content_runs_once() {
    let mut client = Client::new(Habits::default());
    let response = client.ask(1, "PUT", "/echo", &[]);
    assert_eq!((&*response.status, &*response.content), ("200", &b""[..]));
}

#[test]
fn a_program_runs_once_however_much_other_streams_hold() {
    let mut client = Client::new(Habits::default());
    client.send(&frame(SETTINGS, 0, 0, &setting(4, 0)));
    // One stream holds its content, and all connections together hold too much.
    let large = client.request(1, "GET", "/large", &[]);
    client.send(&large).settle();
    client.peer.press(true);
    let head = client.headers(3, 0, "PUT", "/echo", &[]);
    client.send(&[head, frame(DATA, END_STREAM, 3, b"abcd")].concat()).settle();
    client.open_windows().settle();
    assert_eq!((&*client.streams[&3].status, &*client.streams[&3].content), ("200", &b"abcd"[..]));
}

#[test]
fn windows_are_opened_only_as_content_is_taken() {
    let mut client = deferring();
    let head = client.headers(1, 0, "PUT", "/echo", &[]);
    client.send(&head);
    client.send(&frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(3));
    assert!(client.updates.is_empty());
    let more = frame(DATA, 0, 1, &[b'x'; 16_383]);
    client.send(&more);
    assert!(client.updates.is_empty(), "as long as nobody takes it");
    // Beyond the window there is nothing.
    client.send(&frame(DATA, 0, 1, b"x"));
    assert_eq!(client.goaways.last().map(|(_, code)| *code), Some(3));
}

#[test]
fn more_than_a_program_takes_is_refused() {
    let mut client = Client::new(Habits::default());
    let head = client.headers(1, 0, "PUT", "/echo", &[("content-length", &(ECHO_BYTES_MAX + 1).to_string())]);
    let other = client.headers(3, 0, "PUT", "/echo", &[]);
    client.send(&[head, other, frame(DATA, 0, 3, &vec![b'x'; ECHO_BYTES_MAX as usize + 1])].concat()).settle();
    for id in [1, 3] {
        assert_eq!((&*client.streams[&id].status, client.streams[&id].ended), ("413", true), "{id}");
    }
    assert_eq!(client.ask(5, "GET", "/small", &[]).status, "200");
}

#[test]
fn an_answer_before_the_end_of_the_content_ends_the_stream_only() {
    for (path, status) in [("/early", "409"), ("/fails", "500")] {
        let mut client = Client::new(Habits::default());
        let head = client.headers(1, 0, "PUT", path, &[("content-length", "6")]);
        client.send(&[head, frame(DATA, 0, 1, b"ab")].concat()).settle();
        assert_eq!((&*client.streams[&1].status, client.streams[&1].ended), (status, true));
        client.send(&frame(DATA, END_STREAM, 1, b"cdef"));
        assert!(client.streams[&1].reset.is_none() && client.peer.connection.is_idle());
        assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200");
    }
}

#[test]
fn a_program_whose_stream_is_reset_is_dropped() {
    let mut client = deferring();
    let head = client.headers(1, 0, "PUT", "/echo", &[]);
    client.send(&[head, frame(DATA, 0, 1, b"ab")].concat());
    client.peer.meet_next();
    assert!(client.peer.connection.is_running());
    client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])).settle();
    assert!(!client.peer.connection.is_running() && client.peer.connection.is_idle());
}

#[test]
fn a_step_that_is_lost_is_an_error_and_not_done_again() {
    let mut client = deferring();
    let head = client.headers(1, 0, "PUT", "/echo", &[]);
    client.send(&[head, frame(DATA, 0, 1, b"ab")].concat());
    client.peer.meet_next();
    assert!(client.peer.connection.is_running());
    client.peer.connection.recall_needs();
    client.peer.run();
    client.settle();
    assert_eq!((&*client.streams[&1].status, client.streams[&1].ended), ("500", true));
    assert!(!client.peer.connection.is_transferable());
}

#[test]
fn what_is_found_out_about_a_stream_is_known_of_it_and_of_no_other() {
    for mut client in [Client::new(Habits::default()), deferring()] {
        let heads = [1, 3].map(|id| client.headers(id, 0, "PUT", "/found", &[]));
        let parts = [frame(DATA, END_STREAM, 1, b"ab"), frame(DATA, END_STREAM, 3, b"12")];
        client.send(&[heads.concat(), parts.concat()].concat()).settle();
        assert_eq!((&*client.streams[&1].content, &*client.streams[&3].content), (&b"ab"[..], &b"12"[..]));
    }
}
