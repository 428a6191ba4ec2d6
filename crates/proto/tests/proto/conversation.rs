//! Conversations about the life of a connection: persistence, pipelining, content, half-close, failures.
//!
//! Owns: these cases, and the helpers that the other conversations share.

use lamna_proto::conn::{Connection, Interest};
use lamna_proto::exchange::{Done, Need};
use lamna_proto::time::Instant;

use crate::peer::{Cycle, Habits, Peer, Report};
use crate::responses::{self, Response};
use crate::site::{FILE_BYTES, LARGE_BYTES, SMALL, Site, pattern};

/// A plain request.
pub(crate) const GET: &str = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";

/// A peer of a connection in a world that never waits.
pub(crate) fn peer() -> Peer {
    Peer::new(Habits::default())
}

/// A peer whose needs are all deferred.
pub(crate) fn deferring() -> Peer {
    Peer::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() })
}

/// `GET path` with further field lines, each with its line end.
pub(crate) fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// All responses so far, which are complete.
pub(crate) fn responses(peer: &Peer) -> Vec<Response> {
    let is_head = |index: usize| peer.reports.get(index).is_some_and(Report::is_head);
    let (responses, rest) = responses::read(&peer.output, is_head);
    assert_eq!(rest, b"", "every response is complete");
    responses
}

/// The only response to `request`.
pub(crate) fn answer(request: impl AsRef<[u8]>) -> Response {
    let mut peer = peer();
    peer.converse(request);
    let mut responses = responses(&peer);
    assert_eq!(responses.len(), 1);
    responses.remove(0)
}

pub(crate) fn statuses(peer: &Peer) -> Vec<u16> {
    responses(peer).iter().map(|response| response.status).collect()
}

fn reported(peer: &Peer) -> Vec<u16> {
    peer.reports.iter().map(|report| report.status).collect()
}

#[test]
fn rfc_9112_9_3_an_http_1_1_connection_persists() {
    let mut peer = peer();
    peer.converse(GET);
    let expected = "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:50:37 GMT\r\nServer: Lamna\r\nContent-Length: 13\r\n\
        Content-Type: text/plain\r\nX-Content-Type-Options: nosniff\r\nAccept-Ranges: bytes\r\n\
        Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"small\"\r\n\r\nHello, world\n";
    assert_eq!(peer.take_output(), expected);
    assert_eq!(peer.interest(), Interest::RECEIVE);
    assert!(peer.connection.is_idle());
    peer.converse(GET);
    assert_eq!(peer.take_output(), expected);
    let report = Report { request: Some("GET /small".into()), status: 200, content_bytes: 13 };
    assert_eq!(peer.reports, [report.clone(), report]);
}

#[test]
fn rfc_9112_9_3_persistence_follows_version_and_connection() {
    for (version, connection, says, interest) in [
        ("1.1", "", None, Interest::RECEIVE),
        ("1.1", "Connection: keep-alive\r\n", None, Interest::RECEIVE),
        ("1.1", "Connection: x, Close\r\n", Some("close"), Interest::CLOSE),
        ("1.1", "Connection: keep-alive\r\nConnection: close\r\n", Some("close"), Interest::CLOSE),
        ("1.0", "", Some("close"), Interest::CLOSE),
        ("1.0", "Connection: Keep-Alive\r\n", Some("keep-alive"), Interest::RECEIVE),
        ("1.0", "Connection: close, keep-alive\r\n", Some("close"), Interest::CLOSE),
    ] {
        for path in ["/small", "/large", "/file", "/nothing"] {
            let mut peer = peer();
            peer.converse(format!("GET {path} HTTP/{version}\r\nHost: a\r\n{connection}\r\n"));
            let response = &responses(&peer)[0];
            assert_eq!(response.field("connection"), says, "{path} {version} {connection}");
            assert_eq!(peer.interest(), interest, "{path} {version} {connection}");
        }
    }
}

#[test]
fn content_comes_whole_from_wherever_it_is() {
    let cases = [("/small", SMALL.to_vec()), ("/large", pattern(LARGE_BYTES)), ("/file", pattern(FILE_BYTES))];
    for (path, content) in cases.into_iter().chain([("/lazy", pattern(5_000)), ("/empty", vec![])]) {
        assert_eq!(answer(get(path, "")).content, content, "{path}");
    }
}

#[test]
fn rfc_9112_9_3_2_pipelined_requests_are_answered_in_order_while_the_first_is_deferred() {
    let mut peer = deferring();
    peer.send([get("/large", ""), get("/nothing", ""), GET.into()].concat());
    assert_eq!((peer.deferred_count(), peer.interest()), (3, Interest::DONE));
    peer.meet(2);
    peer.meet(1);
    assert_eq!(peer.take_output(), "");
    peer.meet(0);
    assert_eq!(statuses(&peer), [200, 404, 200]);
    assert_eq!(reported(&peer), [200, 404, 200]);
}

#[test]
fn no_more_requests_are_taken_than_may_wait() {
    let mut peer = deferring();
    peer.send(GET.repeat(7));
    assert_eq!(peer.deferred_count(), 4);
    peer.settle();
    assert_eq!(statuses(&peer), [200; 7]);
}

#[test]
fn a_peer_that_reads_nothing_is_not_answered_without_end() {
    let mut peer = peer();
    peer.reads_answers = false;
    peer.send(GET.repeat(1_000));
    assert_eq!(peer.interest(), Interest::SEND);
    assert!(peer.memory_bytes_max < 50_000, "{}", peer.memory_bytes_max);
    peer.reads_answers = true;
    assert_eq!(statuses(peer.settle()), [200; 1_000]);
}

#[test]
fn rfc_9110_9_3_2_head_is_get_without_content() {
    for path in ["/small", "/large", "/file", "/lazy", "/coded", "/typed", "/redirect?q", "/nothing"] {
        let mut peer = peer();
        peer.converse(get(path, "")).converse(get(path, "").replace("GET", "HEAD"));
        let responses = responses(&peer);
        assert_eq!(responses[0].fields, responses[1].fields, "{path}");
        assert_eq!((responses[1].status, responses[1].content.len()), (responses[0].status, 0), "{path}");
        assert_eq!(peer.reports[1].content_bytes, 0);
    }
}

#[test]
fn rfc_9110_9_3_7_options_says_what_is_allowed_and_takes_content() {
    for target in ["*", "/small", "/nothing"] {
        for content in ["\r\n", "Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"]
        {
            let mut peer = peer();
            peer.converse(format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\n{content}")).converse(GET);
            assert_eq!(statuses(&peer), [204, 200], "{target} {content}");
            assert_eq!(responses(&peer)[0].field("allow"), Some("GET, HEAD, OPTIONS"));
            assert_eq!(reported(&peer), [204, 200]);
        }
    }
}

#[test]
fn every_pipelined_options_is_reported() {
    let options = "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut peer = peer();
    peer.converse([options, options, GET, options].concat());
    assert_eq!(statuses(&peer), [204, 204, 200, 204]);
    assert_eq!(reported(&peer), [204, 204, 200, 204]);
}

#[test]
fn reports_come_in_the_order_of_the_answers() {
    let mut peer = peer();
    peer.converse(["POST /a HTTP/1.1\r\nHost: a\r\n\r\n", GET, "PUT /a HTTP/1.1\r\nHost: a\r\n\r\n", GET].concat());
    assert_eq!(statuses(&peer), [405, 200, 405, 200]);
    assert_eq!(reported(&peer), [405, 200, 405, 200]);
}

#[test]
fn rfc_9112_6_3_content_of_a_get_is_skipped_before_the_answer() {
    for content in [
        "Content-Length: 5\r\n\r\nabcde",
        "Content-Length: 0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n",
    ] {
        let mut peer = peer();
        peer.converse([&format!("GET /small HTTP/1.1\r\nHost: a\r\n{content}"), GET].concat());
        assert_eq!(statuses(&peer), [200, 200], "{content}");
    }
    let mut peer = peer();
    peer.converse("GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd");
    assert_eq!((peer.take_output().as_str(), peer.interest()), ("", Interest::RECEIVE));
    peer.converse("e");
    assert_eq!(statuses(&peer), [200]);
}

#[test]
fn rfc_9112_2_2_empty_lines_before_a_request_are_ignored() {
    let mut peer = peer();
    peer.converse("\r\n\r").converse("\n\r\n").converse(GET).converse("\r").converse("\n").converse(GET);
    assert_eq!(statuses(&peer), [200, 200]);
    peer.converse("\r\n");
    assert!(peer.connection.is_idle());
}

// RFC 9110 10.1.1.

#[test]
fn rfc_9110_10_1_1_a_client_that_expects_it_is_told_to_continue() {
    let mut peer = peer();
    peer.converse(get("/small", "Expect: 100-Continue\r\nContent-Length: 3\r\n"));
    assert_eq!(peer.take_output(), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.converse("abc").converse(GET);
    assert_eq!(statuses(&peer), [200, 200]);
}

#[test]
fn rfc_9110_10_1_1_without_content_there_is_nothing_to_continue_with() {
    assert_eq!(answer(get("/small", "Expect: 100-continue\r\n")).status, 200);
    let request = "GET /small HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let mut peer = peer();
    assert_eq!(peer.converse(request).take_output(), "");
    assert_eq!(statuses(peer.converse("abc")), [200]);
}

#[test]
fn rfc_9110_10_1_1_a_post_that_expects_is_refused_without_its_content() {
    let mut peer = peer();
    peer.converse("POST /small HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(statuses(&peer), [405]);
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
    assert_eq!(peer.interest(), Interest::LINGER);
    assert_eq!(peer.reports[0].request.as_deref(), Some("POST /small"));
}

#[test]
fn rfc_9110_15_5_18_another_expectation_fails() {
    for expect in ["Expect: wonders\r\n", "Expect: 100-continue\r\nExpect: wonders\r\n"] {
        let response = answer(get("/small", expect));
        assert_eq!((response.status, response.field("connection")), (417, Some("close")), "{expect}");
    }
}

#[test]
fn rfc_9110_15_2_an_interim_answer_waits_for_earlier_answers() {
    let mut peer = deferring();
    peer.send([GET, &get("/file", "Expect: 100-continue\r\nContent-Length: 3\r\n")].concat());
    assert_eq!((peer.take_output().as_str(), peer.interest()), ("", Interest::DONE));
    peer.settle();
    let output = peer.take_output();
    assert!(output.ends_with("Hello, world\nHTTP/1.1 100 Continue\r\n\r\n"), "{output}");
    peer.converse("abc");
    assert_eq!(statuses(&peer), [200]);
}

// RFC 9112 9.6 and 8: how connections end.

#[test]
fn rfc_9112_9_6_nothing_after_a_last_request_is_answered_and_the_peer_is_heard_out() {
    let mut peer = peer();
    peer.converse([&get("/small", "Connection: close\r\n"), GET].concat());
    assert_eq!(statuses(&peer), [200]);
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::LINGER, Some(2_000)));
    assert_eq!(peer.connection.memory_bytes(), 0);
    peer.converse(GET);
    assert_eq!((statuses(&peer), peer.interest()), (vec![200], Interest::LINGER));
    assert_eq!(peer.end().interest(), Interest::CLOSE);
}

#[test]
fn rfc_9112_9_6_bytes_after_the_content_of_a_last_request_are_heard_out_too() {
    let last = "GET /small HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\na";
    assert_eq!(peer().converse(last).interest(), Interest::CLOSE);
    let mut peer = peer();
    peer.converse([last, GET].concat());
    assert_eq!((statuses(&peer), peer.interest()), (vec![200], Interest::LINGER));
}

#[test]
fn lingering_is_over_after_its_time_whatever_arrives() {
    let mut peer = peer();
    peer.converse("nonsense\r\n\r\n");
    assert_eq!((statuses(&peer), peer.interest(), peer.timeout_ms()), (vec![400], Interest::LINGER, Some(2_000)));
    // Who goes on sending has not read the answer yet, but not for ever.
    let mut waited_ms = 0;
    for _ in 0..20 {
        (peer.now, waited_ms) = (peer.now.after_ms(1_500), waited_ms + 1_500);
        peer.send("more").send("and more");
        assert_eq!(peer.timeout_ms(), Some((30_000 - waited_ms).min(2_000)));
    }
    assert_eq!(peer.time_out().interest(), Interest::CLOSE);
}

// Refusals and redirects come before sizes: whoever is to say who it is first learns that whatever it brings.
#[test]
fn what_holds_without_content_is_said_whatever_the_content_is() {
    let chunks = format!("1389\r\n{}\r\n0\r\n\r\n", "a".repeat(5_001));
    for (request, status, location) in
        [("GET /redirect", 308, Some("/there/")), ("GET /absent", 404, None), ("POST /small", 405, None)]
    {
        let large = "a".repeat(5_001);
        for (fields, content, has_step) in [
            ("Content-Length: 5000\r\n", &large[1..], true),
            ("Content-Length: 5001\r\n", &*large, false),
            ("Content-Length: 5001\r\n", "", false),
            ("Content-Length: 99999999999999\r\n", "abc", false),
            ("Transfer-Encoding: chunked\r\n", &*chunks, false),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", false),
            ("Expect: 100-continue\r\nContent-Length: 3\r\n", "", false),
            ("Expect: 100-continue\r\nContent-Length: 5001\r\n", "", false),
            ("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n", "", false),
        ] {
            for version in ["1.0", "1.1"] {
                if version == "1.0" && (fields.contains("chunked") || content.is_empty()) {
                    continue;
                }
                for mut peer in [peer(), deferring()] {
                    peer.converse(format!("{request} HTTP/{version}\r\nHost: a\r\n{fields}\r\n{content}")).settle();
                    let response = &responses(&peer)[0];
                    let of = format!("{request} HTTP/{version} {fields:?}");
                    assert_eq!((response.status, response.field("location")), (status, location), "{of}");
                    let is_kept = has_step && version == "1.1";
                    assert_eq!(response.field("connection") == Some("close"), !is_kept, "{of}");
                    match is_kept {
                        true => assert_eq!(statuses(peer.converse(GET).settle()), [status, 200], "{of}"),
                        // What still comes is neither read as a request nor a reason for a reset.
                        false => assert_eq!(statuses(peer.converse([&large, GET].concat()).settle()), [status], "{of}"),
                    }
                }
            }
        }
    }
    // It comes before the content has, where the connection stays in step with that.
    let mut peer = peer();
    peer.converse("GET /absent HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
    assert_eq!(statuses(&peer), [404]);
    assert_eq!(statuses(peer.converse("a".repeat(5_000)).converse(GET)), [404, 200]);
    // Whether chunks end in time nobody knows: it comes before them, and the connection ends.
    for part in ["", "3\r\na", "nonsense"] {
        let mut peer = self::peer();
        peer.converse(format!("GET /absent HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{part}"));
        assert_eq!((statuses(&peer), peer.interest()), (vec![404], Interest::LINGER), "{part}");
        assert_eq!(responses(&peer)[0].field("connection"), Some("close"), "{part}");
    }
    // Behind another that waits for its turn, and where nothing is held.
    let mut peer = deferring();
    peer.press(true);
    let second = "GET /redirect HTTP/1.1\r\nHost: a\r\nContent-Length: 5001\r\n\r\n";
    peer.send([GET, second].concat()).settle();
    assert_eq!(statuses(&peer), [200, 308]);
}

#[test]
fn rfc_9112_8_a_client_that_has_closed_its_side_is_still_answered() {
    assert_eq!(peer().end().interest(), Interest::CLOSE);

    let mut peer = peer();
    peer.converse(GET).end();
    assert_eq!((statuses(&peer), peer.interest()), (vec![200], Interest::CLOSE));

    let mut peer = deferring();
    peer.send([GET, GET].concat()).end();
    assert_eq!(peer.interest(), Interest::DONE);
    peer.settle();
    assert_eq!((statuses(&peer), peer.interest()), (vec![200, 200], Interest::CLOSE));
}

#[test]
fn rfc_9112_8_an_incomplete_request_is_told_so() {
    for request in ["G", "GET / HTTP/1.1\r\nHost", "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc"] {
        let mut peer = peer();
        peer.send(request).end();
        assert_eq!((statuses(&peer), peer.interest()), (vec![400], Interest::CLOSE), "{request}");
    }
    let mut peer = deferring();
    peer.send([GET, "GET /"].concat()).end().settle();
    assert_eq!((statuses(&peer), peer.interest()), (vec![200, 400], Interest::CLOSE));
}

#[test]
fn a_peer_that_is_gone_is_sent_nothing_and_its_late_answers_are_ignored() {
    let mut peer = deferring();
    peer.send([GET, GET].concat()).break_off();
    assert_eq!(peer.interest(), Interest::CLOSE);
    peer.settle();
    assert_eq!((peer.take_output().as_str(), peer.interest()), ("", Interest::CLOSE));
    assert_eq!(peer.timeout_ms(), None);
}

#[test]
fn an_answer_that_was_cut_off_is_reported_with_what_was_sent() {
    let mut peer = peer();
    peer.habits.send_bytes = Cycle::new(vec![1_000]);
    peer.reads_answers = false;
    peer.send(get("/large", ""));
    peer.break_off();
    assert_eq!(peer.reports, [Report { request: Some("GET /large".into()), status: 200, content_bytes: 0 }]);
}

#[test]
fn bytes_that_arrive_while_the_last_request_is_resolved_do_not_disturb_it() {
    let site = Site::shared();
    let mut connection = Connection::new(Instant::from_ms(0));
    connection.lend(site.workspace());
    receive(&mut connection, get("/small", "Connection: close\r\n").as_bytes());
    let (id, need) = connection.poll_need().expect("the request has to be resolved");
    let Need::Resolve(requested) = need else { panic!("{need:?}") };
    let resource = site.requested(&requested).clone();
    receive(&mut connection, GET.as_bytes());
    connection.handle_done(id, Done::Resolved(&resource), Instant::from_ms(0));
    let transmit = connection.poll_transmit().expect("there is an answer");
    assert!(transmit.bytes.ends_with(SMALL) && transmit.segment.is_none());
    let bytes = transmit.bytes.len() as u64;
    connection.handle_sent(bytes, Instant::from_ms(0));
    assert_eq!(connection.interest(), Interest::LINGER);
}

fn receive(connection: &mut Connection, bytes: &[u8]) {
    connection.receive_space()[..bytes.len()].copy_from_slice(bytes);
    connection.handle_received(bytes.len(), Instant::from_ms(0));
}

// When reading fails.

#[test]
fn rfc_9110_15_6_1_a_read_that_fails_before_the_head_is_sent_is_answered_with_500() {
    let mut peer = peer();
    peer.habits.fails = Cycle::new(vec![true]);
    peer.converse([&get("/file", ""), GET].concat());
    assert_eq!((statuses(&peer), peer.interest()), (vec![500, 200], Interest::RECEIVE));
    assert_eq!(reported(&peer), [500, 200]);
}

#[test]
fn rfc_9112_8_a_read_that_fails_later_ends_the_connection_after_what_could_be_sent() {
    let mut peer = deferring();
    peer.habits.fails = Cycle::new(vec![false, true]);
    peer.habits.ready_bytes = Cycle::new(vec![100]);
    peer.send([GET, &get("/file", ""), GET].concat()).settle();
    let (responses, rest) = responses::read(&peer.output, |_| false);
    assert_eq!(responses.len(), 1);
    assert!(rest.starts_with(b"HTTP/1.1 200 OK\r\n") && rest.ends_with(&pattern(100)));
    assert_eq!(peer.interest(), Interest::CLOSE);
    assert_eq!(peer.reports.iter().map(|report| report.content_bytes).collect::<Vec<_>>(), [13, 100]);
}

// Memory.

#[test]
fn an_idle_connection_is_small_and_holds_nothing() {
    assert!(size_of::<Connection>() <= 40, "{}", size_of::<Connection>());
    assert_eq!(Connection::new(Instant::from_ms(0)).memory_bytes(), 0);
    let mut peer = deferring();
    for path in ["/small", "/large", "/file", "/redirect"] {
        peer.converse([&get(path, ""), "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"].concat());
        assert!(peer.connection.is_idle(), "{path}");
        assert_eq!(peer.connection.memory_bytes(), 0, "{path}");
    }
}
