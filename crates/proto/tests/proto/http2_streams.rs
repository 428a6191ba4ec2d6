//! Answers that are sent while they are made, over HTTP/2: what they wait for, windows, and what becomes of them when
//! they cannot be completed. What the programs do stands in their targets: see `script`.
//!
//! Owns: these cases.

use lamna_proto::conn::Interest;
use proptest::prelude::*;

use crate::http2_client::{
    Client, DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, Response, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::peer::{Cycle, Habits};
use crate::properties::habits;
use crate::script::alive;
use crate::site::pattern;
use crate::streams::{Scripted, script};

fn client() -> Client {
    Client::new(Habits::default())
}

fn deferring() -> Client {
    Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() })
}

fn ask(script: &str) -> (Response, Client) {
    let mut client = client();
    client.open_windows();
    let response = client.ask(1, "GET", &format!("/stream?{script}"), &[]);
    (response, client)
}

fn window_update(id: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, id, &bytes.to_be_bytes())
}

const INTERNAL_ERROR: Option<u32> = Some(2);

#[test]
fn content_is_sent_as_it_is_given() {
    for script in ["h.c3.c70000.c0.c1.e", "h70004.c4.c70000.e", "h+c70004+e", "i.w.h.u.c70004.w.e"] {
        let (response, client) = ask(script);
        assert_eq!((&*response.status, response.ended, response.reset), ("200", true, None), "{script}");
        assert_eq!(response.content, pattern(70_004), "{script}");
        assert_eq!(response.field("content-length").is_some(), script.starts_with("h70004"), "{script}");
        let report = &client.peer.reports[0];
        assert_eq!((report.status, report.content_bytes, alive()), (200, 70_004, 0), "{script}");
        assert_eq!(client.peer.interest(), Interest::RECEIVE);
    }
}

#[test]
fn a_head_has_the_fields_that_every_answer_has_once() {
    let (response, _) = ask("h+c2+e");
    let names: Vec<_> = response.fields.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["date", "server", "x-script"]);
}

#[test]
fn rfc_9113_8_1_interim_answers_and_trailer_fields_have_blocks_of_their_own() {
    let (response, _) = ask("i.i+i+h.c5.t");
    assert_eq!((response.interim.len(), &*response.content), (3, &*pattern(5)));
    assert_eq!(response.trailers, [("x-trailer".to_owned(), "t".to_owned())]);
    let (response, _) = ask("h.t");
    assert!(response.ended && response.content.is_empty() && response.trailers.len() == 1);
}

#[test]
fn rfc_9110_6_4_answers_that_have_no_content_end_with_their_head() {
    for script in ["n204.c5.e", "n304+c5+e", "n204", "h0+e", "h+e"] {
        let (response, client) = ask(script);
        assert!(response.ended && response.content.is_empty() && response.reset.is_none(), "{script}");
        assert!(client.order.is_empty(), "{script}: no DATA");
        assert_eq!(alive(), 0);
    }
    let mut client = client();
    let response = client.ask(1, "HEAD", "/stream?h20.c20.e", &[]);
    assert_eq!((response.field("content-length"), response.ended, alive()), (Some("20"), true, 0));
}

#[test]
fn an_answer_that_cannot_be_completed_is_reset() {
    for script in ["h.c5.f", "h20.c5.f", "h20.c5.e", "h20+c5+e", "h.c5.h.e", "h.c5.i.e", "h.c5.a"] {
        let (response, mut client) = ask(script);
        assert_eq!((response.ended, response.reset), (false, INTERNAL_ERROR), "{script}");
        assert_eq!((client.peer.reports.len(), alive()), (1, 0), "{script}");
        assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200", "{script}");
    }
}

#[test]
fn more_content_than_was_announced_is_not_sent() {
    let (response, _) = ask("h20.c15.c6.c100.e");
    assert_eq!((response.content, response.ended, response.reset, alive()), (pattern(20), true, None, 0));
}

#[test]
fn a_program_that_fails_before_its_head_is_a_500() {
    for script in ["f", "i.f", "c5.e", "e", "w.f", "z", "w.z"] {
        let (response, _) = ask(script);
        assert_eq!((&*response.status, response.ended, alive()), ("500", true, 0), "{script}");
    }
    assert_eq!(ask("i.a").0.status, "404");
}

#[test]
fn a_program_is_not_asked_for_more_than_the_windows_allow() {
    let mut client = client();
    let request = client.request(1, "GET", "/stream?h.c65535.c5.c9000.e", &[]);
    client.send(&request).settle();
    assert_eq!(client.streams[&1].content.len(), 65_535);
    assert_eq!(client.peer.connection.queued_content_bytes(), 0, "one holds as much as it may");
    assert!(client.peer.connection.memory_bytes() < 20_000);
    assert_eq!(client.peer.timeout_ms(), Some(60_000));
    client.send(&window_update(0, 100_000)).send(&window_update(1, 3)).settle();
    assert_eq!(client.streams[&1].content.len(), 65_538);
    client.send(&window_update(1, 100_000)).settle();
    assert_eq!((&client.streams[&1].content, client.streams[&1].ended), (&pattern(74_540), true));
}

#[test]
fn a_peer_that_allows_nothing_for_too_long_ends_the_program() {
    let mut client = client();
    let request = client.request(1, "GET", "/stream?h.c70000.e", &[]);
    client.send(&request).settle();
    client.peer.time_out();
    client.settle();
    assert_eq!((alive(), client.goaways.len()), (0, 1));
}

#[test]
fn streams_are_sent_beside_each_other_and_beside_other_answers() {
    let mut client = client();
    client.open_windows();
    let targets = ["/stream?h.c30000.w.c30000.e", "/stream?h5.u.c5.e", "/file", "/stream?w.h.c1.t"];
    let requests: Vec<u8> =
        targets.iter().zip([1, 3, 5, 7]).flat_map(|(target, id)| client.request(id, "GET", target, &[])).collect();
    client.send(&requests).settle();
    let lengths: Vec<_> = client.streams.values().map(|one| (one.content.len(), one.ended)).collect();
    assert_eq!(lengths, [(60_000, true), (5, true), (10_000, true), (1, true)]);
}

#[test]
fn content_goes_both_ways_at_once() {
    let mut client = client();
    client.open_windows();
    let head = client.headers(1, 0, "POST", "/stream?h.x.t", &[]);
    client.send(&head).settle();
    assert_eq!(client.streams[&1].status, "200", "before any content");
    for piece in pattern(50_000).chunks(10_000) {
        client.send(&frame(DATA, 0, 1, piece)).settle();
    }
    assert_eq!(client.streams[&1].content, pattern(50_000));
    client.send(&frame(DATA, END_STREAM, 1, b"")).settle();
    assert!(client.streams[&1].ended && client.streams[&1].reset.is_none());
    assert_eq!(alive(), 0);
}

#[test]
fn content_that_is_not_asked_for_opens_no_window() {
    let mut client = deferring();
    let head = client.headers(1, 0, "POST", "/stream?h.w.d.c5.e", &[]);
    client.send(&head);
    for _ in 0..3 {
        client.send(&frame(DATA, 0, 1, &[b'x'; 16_384]));
        while client.peer.meet_next() {}
    }
    client.settle();
    assert!(!client.updates.is_empty(), "when it has been taken");
    drop(client);
    let mut client = deferring();
    let head = client.headers(1, 0, "POST", "/stream?h.w.d.c5.e", &[]);
    client.send(&head);
    while client.peer.meet_next() {}
    client.send(&frame(DATA, 0, 1, &[b'x'; 16_384]).repeat(3));
    client.send(&frame(DATA, END_STREAM, 1, &[b'x'; 16_383]));
    while client.peer.meet_next() {}
    assert_eq!(client.updates, [], "before it has been");
    client.settle();
    assert_eq!((&client.streams[&1].content, alive()), (&pattern(5), 0));
}

#[test]
fn rfc_9113_8_1_an_answer_that_ends_before_the_content_lets_it_end() {
    for script in ["h+e", "h.e", "h3.c3.e", "n204", "h.c9000.e"] {
        let mut client = client();
        let head = client.headers(1, 0, "POST", &format!("/stream?{script}"), &[("content-length", "6")]);
        client.send(&[head, frame(DATA, 0, 1, b"ab")].concat()).settle();
        assert_eq!((client.streams[&1].ended, client.streams[&1].reset, alive()), (true, None, 0), "{script}");
        client.send(&frame(DATA, END_STREAM, 1, b"cdef"));
        assert!(client.streams[&1].reset.is_none() && client.peer.connection.is_idle());
        assert_eq!(client.ask(3, "GET", "/small", &[]).status, "200");
    }
}

#[test]
fn rfc_9110_10_1_1_a_client_is_told_to_continue_when_its_content_is_wanted() {
    let mut client = deferring();
    let expects = [("expect", "100-continue")];
    let head = client.headers(1, 0, "POST", "/stream?w.d.h2+c2+e", &expects);
    client.send(&head);
    while client.peer.meet_next() {}
    client.settle();
    assert_eq!(client.streams[&1].interim, ["100"]);
    client.send(&frame(DATA, END_STREAM, 1, b"ab")).settle();
    assert_eq!(client.streams[&1].content, pattern(2));
    let head = client.headers(3, 0, "POST", "/stream?h2.c2.e", &expects);
    client.send(&head).settle();
    assert!(client.streams[&3].interim.is_empty() && client.streams[&3].ended);
}

#[test]
fn programs_wait_for_their_sockets_and_for_moments() {
    let mut client = deferring();
    let requests = [1, 3].map(|id| client.request(id, "GET", "/stream?w.u.h.c1.e", &[]));
    client.send(&requests.concat());
    while client.peer.meet_next() {}
    assert_eq!(client.peer.interest(), Interest { receive: true, ..Interest::DONE });
    client.peer.connection.recall_needs();
    client.peer.run();
    assert!((0..4).all(|_| client.peer.meet_socket()), "those of both drivers");
    client.peer.run();
    while client.peer.meet_next() {}
    assert_eq!(client.peer.timeout_ms(), Some(1_000));
    client.settle();
    assert!(client.streams.values().all(|one| one.ended && one.content == pattern(1)));
}

#[test]
fn the_patience_with_a_peer_is_for_content_that_is_wanted() {
    let mut client = client();
    let head = client.headers(1, 0, "POST", "/stream?u.d.h.e", &[]);
    client.send(&head);
    assert_eq!(client.peer.timeout_ms(), Some(1_000));
    client.peer.time_out();
    assert_eq!(client.peer.timeout_ms(), Some(30_000));
    client.peer.time_out();
    client.settle();
    assert_eq!((&*client.streams[&1].status, client.streams[&1].ended, alive()), ("408", true, 0));
    client.send(&frame(DATA, END_STREAM, 1, b""));
    let head = client.headers(3, 0, "POST", "/stream?h.d.e", &[]);
    client.send(&head);
    client.peer.time_out();
    client.settle();
    assert_eq!((&*client.streams[&3].status, client.streams[&3].reset, alive()), ("200", INTERNAL_ERROR, 0));
}

#[test]
fn a_program_is_gone_with_its_stream_and_with_its_peer() {
    for breaks in [false, true] {
        let mut client = deferring();
        let requests = [1, 3].map(|id| client.request(id, "GET", "/stream?h.w.c1.e", &[]));
        client.send(&requests.concat());
        for _ in 0..4 {
            client.peer.meet_next();
        }
        assert_eq!(alive(), 2);
        client.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
        if breaks {
            client.peer.break_off();
        }
        client.settle();
        assert_eq!((alive(), client.streams.get(&3).is_some_and(|one| one.ended)), (0, !breaks));
    }
}

#[test]
fn a_step_that_its_driver_has_lost_resets_a_stream_whose_answer_has_begun() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![false, false, true]), ..Habits::default() });
    let request = client.request(1, "GET", "/stream?h.c5.c5.e", &[]);
    client.send(&request);
    assert!(client.peer.connection.is_running());
    client.peer.connection.recall_needs();
    client.peer.habits.defers = Cycle::new(vec![false]);
    client.settle();
    assert_eq!((client.streams[&1].reset, client.peer.connection.is_running()), (INTERNAL_ERROR, false));
}

#[test]
fn rfc_8441_a_stream_is_a_tunnel_for_who_was_told_that_it_may_be_one() {
    let mut client = client();
    client.open_windows();
    let fields = [(":method", "CONNECT"), (":protocol", "echo"), (":scheme", "http"), (":authority", "a")];
    let head = client.block(&[&fields[..], &[(":path", "/stream?w.g.x.c5.e")]].concat());
    client.send(&frame(HEADERS, END_HEADERS, 1, &head)).settle();
    assert_eq!((&*client.streams[&1].status, client.streams[&1].ended), ("200", false));
    client.send(&frame(DATA, 0, 1, b"ab")).send(&frame(DATA, 0, 1, b"cd")).settle();
    assert_eq!(client.streams[&1].content, b"abcd");
    assert_eq!(client.peer.asked, [(Some("a".to_owned()), "/stream".to_owned(), Some("w.g.x.c5.e".to_owned()))]);
    client.send(&frame(DATA, END_STREAM, 1, b"")).settle();
    assert_eq!((&*client.streams[&1].content, client.streams[&1].ended, alive()), (&b"abcdabcde"[..], true, 0));
    assert!(!client.settings.contains(&(8, 1)));
    let mut client = Client::silent(Habits::default());
    client.peer.offer_tunnels();
    client.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat());
    assert!(client.settings.contains(&(8, 1)));
    // Any other CONNECT is for proxies.
    let block = client.block(&[(":method", "CONNECT"), (":authority", "a:80")]);
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)).settle();
    assert_eq!(client.streams[&1].status, "501");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), ..ProptestConfig::default() })]

    #[test]
    fn what_programs_give_arrives_however_the_world_behaves(
        habits in habits(), scripts in prop::collection::vec((script(), any::<bool>()), 1..5), window in 5_000..40_000_u32,
    ) {
        let mut client = Client::new(Habits { hops: 0, ..habits });
        for ((Scripted { text, .. }, is_post), id) in scripts.iter().zip((1..).step_by(2)) {
            let target = format!("/stream?d.{text}");
            let request = match is_post {
                true => [client.headers(id, 0, "POST", &target, &[]), frame(DATA, END_STREAM, id, b"abc")].concat(),
                false => client.request(id, "GET", &target, &[]),
            };
            client.send(&request);
        }
        for _ in 0..2_000 {
            client.settle();
            let is_over = |one: &Response| one.ended || one.reset.is_some();
            let open: Vec<u32> = client.streams.iter().filter(|(_, one)| !is_over(one)).map(|(id, _)| *id).collect();
            if open.is_empty() {
                break;
            }
            for id in open {
                client.send(&[window_update(0, window), window_update(id, window)].concat());
            }
        }
        prop_assert_eq!(alive(), 0);
        for ((Scripted { text, content, is_whole, is_longer, .. }, _), id) in scripts.iter().zip((1..).step_by(2)) {
            let response = &client.streams[&id];
            let is_complete = *is_whole || *is_longer;
            prop_assert_eq!(response.ended, is_complete, "{}", text);
            prop_assert_eq!(response.reset, (!is_complete).then_some(2));
            if is_complete {
                prop_assert_eq!(&response.content, content);
                prop_assert_eq!(response.trailers.is_empty(), !text.ends_with('t') || *is_longer, "{}", text);
            }
        }
        prop_assert_eq!(client.peer.reports.len(), scripts.len());
    }
}
