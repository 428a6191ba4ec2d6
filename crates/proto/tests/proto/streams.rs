//! Answers that are sent while they are made, over HTTP/1.x: their framing, what they wait for, and what becomes of
//! them when they cannot be completed. What the programs do stands in their targets: see `script`.
//!
//! Owns: these cases.

use lamna_proto::conn::{Fate, Interest};
use proptest::prelude::*;

use crate::conversation::{GET, deferring, peer, responses};
use crate::peer::{Cycle, Habits, Peer};
use crate::properties::habits;
use crate::script::alive;
use crate::site::{COPY_BYTES_MAX, LARGE_BYTES, pattern};

fn get(script: &str) -> String {
    format!("GET /stream?{script} HTTP/1.1\r\nHost: a\r\n\r\n")
}

fn post(script: &str, content: &str) -> String {
    let length = content.len();
    format!("POST /stream?{script} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{content}")
}

/// Those that are whole.
fn statuses(peer: &Peer) -> Vec<u16> {
    let is_head = |index: usize| peer.reports.get(index).is_some_and(|report| report.is_head());
    crate::responses::read(&peer.output, is_head).0.iter().map(|response| response.status).collect()
}

fn contents(peer: &Peer) -> Vec<Vec<u8>> {
    responses(peer).into_iter().map(|one| one.content).collect()
}

fn reported(peer: &Peer) -> Vec<(u16, u64)> {
    peer.reports.iter().map(|one| (one.status, one.content_bytes)).collect()
}

#[test]
fn content_without_a_length_is_sent_in_chunks_and_the_connection_persists() {
    let mut peer = peer();
    peer.converse([get("h.c3.c70000.c0.c1.e"), GET.to_owned()].concat());
    assert_eq!(statuses(&peer), [200, 200]);
    assert_eq!(contents(&peer)[0], pattern(70_004));
    assert_eq!((reported(&peer)[0], peer.interest()), ((200, 70_004), Interest::RECEIVE));
    assert_eq!(alive(), 0);
}

#[test]
fn a_head_has_the_fields_that_every_answer_has_once() {
    let mut peer = peer();
    peer.converse(get("h+c2+e"));
    let output = peer.take_output();
    assert_eq!(
        output,
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:50:37 GMT\r\nServer: Lamna\r\nX-Script: yes\r\n\
         Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    );
}

#[test]
fn content_of_known_length_is_sent_as_it_is() {
    let mut peer = peer();
    peer.converse([get("h20.c15.c5.e"), get("h4+c4+e"), get("h0+e")].concat());
    assert_eq!(contents(&peer), [pattern(20), pattern(4), pattern(0)]);
    let lengths: Vec<_> = responses(&peer).iter().map(|one| one.field("content-length").map(str::to_owned)).collect();
    assert_eq!(lengths, ["20", "4", "0"].map(|length| Some(length.to_owned())));
    assert_eq!(peer.interest(), Interest::RECEIVE);
}

#[test]
fn rfc_9112_6_3_without_chunks_the_content_ends_with_the_connection() {
    let mut peer = peer();
    peer.converse("GET /stream?h.c5.c6.t HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /small HTTP/1.0\r\n\r\n");
    assert_eq!((contents(&peer), peer.interest().fate), (vec![pattern(11)], Fate::Linger));
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
    let mut peer = self::peer();
    peer.converse("GET /stream?h7.c7.e HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!((contents(&peer), peer.interest()), (vec![pattern(7)], Interest::RECEIVE));
}

#[test]
fn rfc_9110_6_4_answers_that_have_no_content_end_with_their_head() {
    for script in ["n204.c5.e", "n304.c5.e", "n204+c5+e", "n204"] {
        let mut peer = peer();
        peer.converse([get(script), GET.to_owned()].concat());
        let first = &responses(&peer)[0];
        assert!(first.content.is_empty() && first.field("transfer-encoding").is_none(), "{script}");
        assert_eq!((statuses(&peer)[1], reported(&peer)[0].1, alive()), (200, 0, 0), "{script}");
    }
    let mut peer = peer();
    peer.converse(["HEAD /stream?h20.c20.e HTTP/1.1\r\nHost: a\r\n\r\n", GET].concat());
    assert_eq!((statuses(&peer), alive()), (vec![200, 200], 0));
    assert_eq!(responses(&peer)[0].field("content-length"), Some("20"));
}

#[test]
fn rfc_9110_15_2_interim_answers_pass_but_to_http_1_0() {
    let mut peer = peer();
    peer.converse(get("i.i+i+h1.c1.e"));
    let output = peer.take_output();
    assert_eq!(output.matches("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n").count(), 3, "{output}");
    assert_eq!(statuses(&peer), [] as [u16; 0]);
    let mut peer = self::peer();
    peer.converse("GET /stream?i.h1.c1.e HTTP/1.0\r\n\r\n");
    assert!(peer.take_output().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn rfc_9110_6_5_1_trailer_fields_are_for_those_who_read_them() {
    for (te, trailer) in [("", None), ("TE: deflate, trailers\r\n", Some("t")), ("TE: gzip\r\n", None)] {
        let mut peer = peer();
        peer.converse(format!("GET /stream?h.c3.t HTTP/1.1\r\nHost: a\r\n{te}\r\n"));
        assert_eq!((responses(&peer)[0].field("x-trailer"), statuses(&peer)), (trailer, vec![200]), "{te}");
    }
}

#[test]
fn large_content_is_sent_from_where_it_is_and_small_content_is_copied() {
    for (bytes, is_copied) in [(COPY_BYTES_MAX, true), (COPY_BYTES_MAX + 1, false)] {
        let mut peer = peer();
        peer.reads_answers = false;
        peer.send(get(&format!("h+c{bytes}.e")));
        let held = peer.connection.queued_content_bytes();
        assert_eq!(held, if is_copied { 0 } else { bytes as u64 });
        peer.reads_answers = true;
        peer.settle();
        assert_eq!(contents(&peer), [pattern(bytes)]);
    }
}

#[test]
fn a_program_is_not_asked_for_more_than_the_peer_takes() {
    let mut peer = peer();
    peer.reads_answers = false;
    peer.send(get("h.c9000.c9000.c9000.e"));
    assert_eq!(peer.connection.queued_content_bytes(), 0, "the head has not left");
    peer.habits.send_bytes = Cycle::new(vec![1_000]);
    for _ in 0..10 {
        peer.reads_answers = true;
        peer.run_once();
        peer.reads_answers = false;
        assert!(peer.connection.queued_content_bytes() <= 9_000);
    }
    assert_eq!(peer.timeout_ms(), Some(60_000));
    peer.time_out();
    assert_eq!((peer.interest(), alive(), peer.reports.len()), (Interest::CLOSE, 0, 1));
}

#[test]
fn an_answer_that_is_shorter_than_it_said_is_broken_off_behind_what_there_is() {
    let mut peer = peer();
    peer.converse([get("h20.c5.e"), GET.to_owned()].concat());
    assert_eq!((statuses(&peer), peer.interest()), (vec![], Interest::CLOSE));
    assert!(peer.take_output().ends_with("\r\n\r\nabcde"));
    assert_eq!((reported(&peer), alive()), (vec![(200, 5)], 0));
}

#[test]
fn more_content_than_was_announced_is_not_sent() {
    let mut peer = peer();
    peer.converse([get("h20.c15.c6.c100.e"), GET.to_owned()].concat());
    assert_eq!((contents(&peer), peer.interest()), (vec![pattern(20)], Interest::CLOSE));
    assert_eq!((reported(&peer), alive()), (vec![(200, 20)], 0));
}

#[test]
fn a_program_that_fails_behind_its_head_leaves_an_answer_that_is_not_whole() {
    for script in ["h.c5.f", "h20.c5.f", "h.c5.h.e", "h.c5.i.e", "h.c5.a"] {
        let mut peer = peer();
        peer.converse([get(script), GET.to_owned()].concat());
        assert_eq!((statuses(&peer), peer.interest()), (vec![], Interest::CLOSE), "{script}");
        let output = peer.take_output();
        assert!(output.contains("abcde") && !output.contains("\r\n0\r\n"), "{script}: {output}");
        assert_eq!((reported(&peer), alive()), (vec![(200, 5)], 0));
    }
}

#[test]
fn a_program_that_fails_before_its_head_is_a_500() {
    for script in ["f", "i.f", "c5.e", "e", "w.f", "z", "w.z"] {
        let mut peer = peer();
        peer.converse([get(script), GET.to_owned()].concat());
        assert_eq!((statuses(&peer), alive()), (vec![500, 200], 0), "{script}");
    }
    let mut peer = peer();
    peer.converse([get("i.a"), GET.to_owned()].concat());
    assert_eq!(statuses(&peer), [404, 200]);
}

#[test]
fn content_goes_both_ways_at_once() {
    let mut peer = peer();
    let content = String::from_utf8(pattern(30_000)).expect("it is ASCII");
    peer.converse([post("h.x.e", &content), GET.to_owned()].concat());
    assert_eq!(contents(&peer)[0], pattern(30_000));
    assert_eq!((statuses(&peer), peer.interest()), (vec![200, 200], Interest::RECEIVE));
}

#[test]
fn a_client_that_sends_all_before_it_reads_does_not_wait_for_ever() {
    let mut peer = peer();
    peer.reads_answers = false;
    let content = String::from_utf8(pattern(100_000)).expect("it is ASCII");
    peer.send(post("h.x.e", &content));
    assert_eq!(peer.unreceived(), 0);
    peer.reads_answers = true;
    peer.settle();
    assert_eq!(contents(&peer), [pattern(100_000)]);
}

#[test]
fn content_that_is_not_asked_for_stays_where_it_is() {
    let mut peer = deferring();
    peer.send(post("h.w.d.c5.e", &"x".repeat(50_000)));
    while peer.meet_next() {}
    assert_eq!(peer.interest(), Interest::DONE, "what has been received fills the input");
    assert!(peer.unreceived() > 40_000);
    peer.settle();
    assert_eq!((contents(&peer), peer.interest()), (vec![pattern(5)], Interest::RECEIVE));
}

#[test]
fn an_answer_that_ends_before_the_content_has_come_is_the_last() {
    for script in ["h+e", "h.e", "h3.c3.e", "n204", "h.c9000.e"] {
        let mut peer = peer();
        peer.converse(format!("POST /stream?{script} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab"));
        assert_eq!((peer.reports.len(), peer.interest()), (1, Interest::LINGER), "{script}");
        peer.converse(["cdef", GET].concat());
        assert_eq!((peer.reports.len(), alive()), (1, 0), "{script}");
        // If all of it is there, nothing is lost.
        let mut peer = self::peer();
        peer.converse([post(script, "abcdef"), GET.to_owned()].concat());
        assert_eq!((peer.reports.len(), peer.interest()), (2, Interest::RECEIVE), "{script}");
    }
}

#[test]
fn rfc_9112_9_6_a_head_says_that_it_is_the_last_if_that_is_known() {
    let mut peer = peer();
    peer.converse("POST /stream?h+c1+e HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
    let mut peer = self::peer();
    peer.converse("GET /stream?h.c1.e HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((responses(&peer)[0].field("connection"), peer.interest()), (Some("close"), Interest::CLOSE));
}

#[test]
fn rfc_9110_10_1_1_a_client_is_told_to_continue_when_its_content_is_wanted() {
    let head = |script: &str| {
        format!("POST /stream?{script} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    };
    let mut peer = deferring();
    peer.send(head("w.d.h2+c2+e"));
    assert!(peer.meet_next() && peer.meet_next() && !peer.meet_next());
    assert_eq!(peer.take_output(), "", "nothing is wanted yet");
    peer.settle();
    assert_eq!(peer.take_output(), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.converse("ab");
    assert_eq!(contents(&peer), [pattern(2)]);
    // RFC 9110 10.1.1: the answer takes its place. The content may come or not, so nothing can follow.
    let mut peer = self::peer();
    peer.converse(head("h2.c2.e"));
    assert_eq!((contents(&peer), peer.interest()), (vec![pattern(2)], Interest::LINGER));
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
}

#[test]
fn a_program_waits_for_its_socket_and_for_moments() {
    let mut peer = deferring();
    peer.send(get("w.u.h.w.c1.u.e"));
    while peer.meet_next() {}
    assert_eq!(peer.interest(), Interest { receive: true, ..Interest::DONE });
    assert_eq!(peer.timeout_ms(), None);
    assert!(peer.meet_socket());
    peer.run();
    while peer.meet_next() {}
    assert_eq!(peer.timeout_ms(), Some(1_000));
    let begun = peer.now;
    peer.settle();
    assert_eq!((contents(&peer), peer.now.since(begun)), (vec![pattern(1)], 2_000));
}

#[test]
fn a_socket_is_waited_for_again_when_the_driver_has_changed_and_reports_that_nobody_waits_for_are_ignored() {
    let mut peer = deferring();
    peer.send(get("w.h.c1.e"));
    while peer.meet_next() {}
    peer.connection.recall_needs();
    peer.run();
    // That of the driver before, and that of this one.
    assert!(peer.meet_socket() && peer.meet_socket() && !peer.meet_socket());
    peer.settle();
    peer.connection.handle_socket(lamna_proto::exchange::ExchangeId(1));
    peer.connection.handle_socket(lamna_proto::exchange::ExchangeId(7));
    assert_eq!(contents(&peer), [pattern(1)]);
}

#[test]
fn a_moment_that_a_program_waits_for_does_not_end_the_patience_with_its_peer() {
    let mut peer = peer();
    peer.send("POST /stream?u.d.h.e HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    assert_eq!(peer.timeout_ms(), Some(1_000));
    peer.time_out();
    assert_eq!(peer.timeout_ms(), Some(30_000));
    peer.time_out();
    assert_eq!((statuses(&peer), alive()), (vec![408], 0));
    // An answer that has begun cannot become another one.
    let mut peer = self::peer();
    peer.send("POST /stream?h.d.e HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    assert_eq!(peer.timeout_ms(), Some(30_000));
    peer.time_out();
    assert_eq!((statuses(&peer), peer.interest(), alive()), (vec![], Interest::CLOSE, 0));
}

#[test]
fn content_that_ends_too_early_or_is_malformed_breaks_an_answer_off_that_has_begun() {
    let mut peer = peer();
    peer.converse("POST /stream?h.x.e HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab").end();
    assert_eq!((statuses(&peer), peer.interest(), alive()), (vec![], Interest::CLOSE, 0));
    assert!(peer.take_output().ends_with("\r\n\r\n2\r\nab\r\n"));
    let mut peer = self::peer();
    peer.converse("POST /stream?h.x.e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX");
    assert_eq!((statuses(&peer), peer.interest(), alive()), (vec![], Interest::CLOSE, 0));
}

#[test]
fn who_has_ended_its_side_still_gets_the_answer_and_who_is_gone_ends_the_program() {
    let mut peer = deferring();
    peer.send(get("w.h.c5.e")).end();
    while peer.meet_next() {}
    assert_eq!(peer.interest(), Interest::DONE, "its end is not waited for again");
    peer.settle();
    assert_eq!((contents(&peer), peer.interest()), (vec![pattern(5)], Interest::CLOSE));
    let mut peer = deferring();
    peer.send(get("w.h.c5.e"));
    while peer.meet_next() {}
    assert_eq!(alive(), 1);
    peer.break_off();
    assert_eq!((alive(), peer.interest(), peer.reports.len()), (0, Interest::CLOSE, 0));
}

#[test]
fn a_step_that_its_driver_has_lost_breaks_an_answer_off_that_has_begun() {
    let mut peer = peer();
    peer.habits.defers = Cycle::new(vec![false, false, true]);
    peer.send([get("h.c5.c5.e"), GET.to_owned()].concat());
    assert!(peer.connection.is_running());
    peer.connection.recall_needs();
    peer.habits.defers = Cycle::new(vec![false]);
    peer.settle();
    assert_eq!((statuses(&peer), peer.interest(), peer.reports.len()), (vec![], Interest::CLOSE, 1));
}

#[test]
fn a_connection_does_not_travel_before_the_answer_is_there() {
    let mut peer = peer();
    peer.reads_answers = false;
    peer.send(get("h.c9000.e"));
    assert!(!peer.connection.is_transferable() && peer.connection.encode().is_none());
    peer.reads_answers = true;
    peer.settle();
    assert!(peer.connection.is_transferable());
}

fn upgrade(script: &str) -> String {
    format!("GET /stream?{script} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
}

const CHANGED: &str = "HTTP/1.1 101 Switching Protocols\r\n";

#[test]
fn rfc_9110_7_8_a_connection_changes_to_another_protocol_both_ways() {
    // What looks like a request behind the head is not one.
    let mut peer = peer();
    peer.converse([&upgrade("w.g.x.c5.e"), GET].concat());
    peer.converse("abc").converse("d\r\n");
    let output = peer.take_output();
    let (head, content) = output.split_once("\r\n\r\n").expect("there is a head");
    assert!(head.starts_with(CHANGED) && head.contains("\r\nConnection: upgrade"), "{head}");
    assert!(!head.contains("Transfer-Encoding") && !head.contains("Content-Length"), "{head}");
    assert_eq!(content, [GET, "abcd\r\n"].concat());
    assert_eq!((peer.interest(), peer.timeout_ms(), alive()), (Interest::RECEIVE, Some(30_000), 1));
    peer.end().settle();
    assert_eq!((peer.take_output(), peer.interest(), alive()), ("abcde".to_owned(), Interest::CLOSE, 0));
    assert_eq!(reported(&peer), [(101, GET.len() as u64 + 11)]);
}

#[test]
fn our_side_of_a_tunnel_ends_with_the_part_that_has_the_end() {
    let mut peer = peer();
    peer.converse(upgrade("g.c5.e"));
    assert!(peer.take_output().ends_with("\r\n\r\nabcde"));
    assert_eq!((peer.interest(), alive()), (Interest::LINGER, 0));
    peer.converse("still something").end();
    assert_eq!((peer.interest(), reported(&peer)), (Interest::CLOSE, vec![(101, 5)]));
}

#[test]
fn a_connection_does_not_change_that_was_not_asked_to() {
    let head = "GET /stream?g.c5.e HTTP/1.0\r\nHost: a\r\nUpgrade: echo\r\n\r\n";
    for request in [get("g.x.e"), head.to_owned()] {
        let mut peer = peer();
        peer.converse(request);
        assert_eq!((statuses(&peer), alive()), (vec![500], 0));
    }
    // One that asks and is not answered so persists.
    let mut peer = deferring();
    peer.converse([&upgrade("w.h.c5.e"), GET].concat());
    assert_eq!((statuses(&peer), peer.interest()), (vec![200, 200], Interest::RECEIVE));
}

/// A script that ends, and what is to be expected of it.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    pub(crate) text: String,
    /// What is sent.
    pub(crate) content: Vec<u8>,
    /// The program ends as it said, with as much as it said.
    pub(crate) is_whole: bool,
    /// It gives more than it said.
    pub(crate) is_longer: bool,
    /// All is sent that was said.
    is_complete: bool,
}

pub(crate) fn script() -> impl Strategy<Value = Scripted> {
    let sizes = prop_oneof![0..20_usize, 4_090..4_100_usize, 0..30_000_usize];
    let before = prop::collection::vec(prop_oneof![Just("i"), Just("w"), Just("u")], 0..3);
    let behind = prop_oneof![Just(".e"), Just("+e"), Just(".t"), Just(".w.e"), Just(".f"), Just(".u.t")];
    let waits = prop_oneof![Just("."), Just("."), Just(".w."), Just(".u.")];
    let pieces = prop::collection::vec((sizes, waits), 1..5);
    (before, prop_oneof![Just(0), Just(1), Just(-1), Just(i64::MAX)], pieces, behind, any::<bool>()).prop_map(
        |(before, wrong, pieces, behind, joins)| {
            let total: usize = pieces.iter().map(|(size, _)| size).sum();
            let announced = (wrong != i64::MAX).then(|| (total as i64 + wrong).max(0) as usize);
            let head = format!("h{}", announced.map_or(String::new(), |length| length.to_string()));
            let separator = if joins { "+" } else { "." };
            let contents = pieces.iter().map(|(size, _)| format!("c{size}"));
            let mut text = before.iter().map(|one| format!("{one}.")).collect::<String>() + &head;
            for ((content, (_, wait)), at) in contents.zip(&pieces).zip(0..) {
                text += if at == 0 { separator } else { wait };
                text += &content;
            }
            let is_whole = !behind.ends_with('f') && announced.is_none_or(|length| length == total);
            let sent = announced.map_or(total, |length| length.min(total));
            let is_longer = announced.is_some_and(|length| length < total);
            let is_complete = is_whole || is_longer || announced == Some(total);
            Scripted { text: text + behind, content: pattern(sent), is_whole, is_longer, is_complete }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), ..ProptestConfig::default() })]

    #[test]
    fn what_a_program_gives_arrives_however_the_world_behaves(
        habits in habits(), scripted in script(), version in 0..2, is_post in any::<bool>(),
    ) {
        let Scripted { text, content, is_complete, .. } = scripted;
        let mut peer = Peer::new(habits);
        let fields = if is_post { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
        let method = if is_post { "POST" } else { "GET" };
        peer.converse(format!("{method} /stream?d.{text} HTTP/1.{version}\r\nHost: a\r\nTE: trailers\r\n{fields}"));
        prop_assert_eq!(alive(), 0);
        prop_assert_eq!(peer.reports.len(), 1);
        let (responses, rest) = crate::responses::read(&peer.output, |_| false);
        if is_complete || version == 0 && !text.contains("h0") && responses.len() == 1 {
            prop_assert_eq!(responses.len(), 1, "{}", String::from_utf8_lossy(rest));
            prop_assert_eq!(&responses[0].content, &content);
            prop_assert_eq!(responses[0].field("x-trailer").is_some(), text.ends_with('t') && version == 1 && responses[0].field("content-length").is_none());
        } else {
            prop_assert_eq!(responses.len(), 0);
            prop_assert_eq!(peer.interest().fate, Fate::Close);
        }
        prop_assert_eq!(peer.reports[0].content_bytes, content.len() as u64);
    }

    #[test]
    fn what_is_sent_comes_back(
        habits in habits(), bytes in 0..40_000_usize, chunk in 1..5_000_usize, version in 0..2, is_chunked in any::<bool>(),
    ) {
        let mut peer = Peer::new(habits);
        let content = pattern(bytes);
        let is_chunked = is_chunked && version == 1;
        let mut input = format!("POST /stream?h.x.e HTTP/1.{version}\r\nHost: a\r\n").into_bytes();
        if is_chunked {
            input.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            for piece in content.chunks(chunk) {
                input.extend_from_slice(&[format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
            }
            input.extend_from_slice(b"0\r\n\r\n");
        } else {
            input.extend_from_slice(format!("Content-Length: {bytes}\r\n\r\n").as_bytes());
            input.extend_from_slice(&content);
        }
        peer.converse(input);
        prop_assert_eq!(contents(&peer), [content]);
        prop_assert_eq!(alive(), 0);
    }

    #[test]
    fn a_tunnel_brings_back_what_is_sent_however_the_world_behaves(habits in habits(), bytes in 0..30_000_usize) {
        let mut peer = Peer::new(habits);
        let content = pattern(bytes);
        peer.converse([upgrade("u.g.x.e").as_bytes(), &content].concat()).end().settle();
        let head_end = peer.output.windows(4).position(|four| four == b"\r\n\r\n").expect("there is a head") + 4;
        prop_assert_eq!(&peer.output[head_end..], &content[..]);
        prop_assert_eq!((peer.interest(), alive()), (Interest::CLOSE, 0));
    }

    #[test]
    fn a_program_is_gone_with_its_peer_wherever_that_breaks_off(
        habits in habits(), Scripted { text, content, .. } in script(), sends in 0..40_usize, step in 1..4_000_usize, ends in any::<bool>(),
    ) {
        let mut peer = Peer::new(Habits { send_bytes: Cycle::new(vec![step]), moves: Vec::new(), ..habits });
        peer.reads_answers = false;
        peer.send(get(&text));
        for _ in 0..sends {
            if !peer.meet_next() && !peer.meet_socket() {
                peer.run_once();
            }
        }
        if ends {
            peer.end();
            peer.reads_answers = true;
            peer.settle();
            prop_assert_eq!(peer.reports[0].content_bytes, content.len() as u64);
        } else {
            peer.break_off();
            peer.settle();
        }
        prop_assert_eq!(alive(), 0);
        prop_assert_eq!(peer.interest(), Interest::CLOSE);
    }
}

#[test]
fn an_idle_connection_is_as_small_as_before() {
    let mut peer = peer();
    peer.converse(get(&format!("h.c{LARGE_BYTES}.e")));
    assert_eq!(peer.connection.memory_bytes(), 0);
}
