//! Conversations with programs: content that is taken as it arrives, answers that come before or after its end, and
//! what becomes of a program when its driver changes.
//!
//! Owns: these cases.

use lamna_proto::conn::Interest;

use crate::conversation::{GET, deferring, peer, responses, statuses};
use crate::peer::{Cycle, Peer};
use crate::site::ECHO_BYTES_MAX;

fn put(path: &str, content: &str) -> String {
    format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{content}", content.len())
}

fn contents(peer: &Peer) -> Vec<String> {
    responses(peer).iter().map(|one| String::from_utf8_lossy(&one.content).into_owned()).collect()
}

#[test]
fn a_program_takes_the_content_and_the_connection_persists() {
    let mut peer = peer();
    peer.converse([&put("/echo", "abcde"), GET, &put("/echo", "")].concat());
    assert_eq!(statuses(&peer), [200, 200, 200]);
    assert_eq!(contents(&peer)[0], "abcde");
    assert_eq!((contents(&peer)[2].as_str(), peer.interest()), ("", Interest::RECEIVE));
}

#[test]
fn chunks_arrive_without_their_framing() {
    let mut peer = peer();
    let head = "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    peer.converse([head, "3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nT: x\r\n\r\n", GET].concat());
    assert_eq!((statuses(&peer), contents(&peer)[0].as_str()), (vec![200, 200], "abcde"));
}

#[test]
fn content_stays_in_the_socket_while_a_step_is_carried_out() {
    let mut peer = deferring();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    peer.meet_next();
    assert!(peer.connection.is_running());
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::DONE, None));
    peer.send("cd");
    assert_eq!(peer.deferred_count(), 1, "one step at a time");
    peer.meet_next();
    peer.converse("ef");
    assert_eq!((statuses(&peer), contents(&peer)[0].as_str()), (vec![200], "abcdef"));
}

#[test]
fn requests_run_when_those_before_them_have_been_answered() {
    let mut peer = deferring();
    peer.send([GET, &put("/echo", "ab")].concat());
    assert!(!peer.connection.is_running());
    peer.settle();
    assert_eq!((statuses(&peer), contents(&peer)[1].as_str()), (vec![200, 200], "ab"));
}

#[test]
fn an_answer_before_the_end_of_the_content_is_the_last_of_the_connection() {
    for (path, status) in [("/early", 409), ("/fails", 500)] {
        let mut peer = peer();
        peer.converse(format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab"));
        assert_eq!(statuses(&peer), [status]);
        assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
        assert_eq!(peer.interest(), Interest::LINGER);
        peer.converse(["cdef", GET].concat());
        assert_eq!(statuses(&peer), [status]);
    }
}

#[test]
fn rfc_9110_15_5_14_more_than_a_program_takes_is_refused() {
    let mut peer = peer();
    peer.converse(format!("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", ECHO_BYTES_MAX + 1));
    assert_eq!((statuses(&peer), peer.interest()), (vec![413], Interest::LINGER));
    let mut peer = self::peer();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    peer.converse(chunk.repeat(8));
    assert_eq!((statuses(&peer), peer.interest()), (vec![413], Interest::LINGER));
}

#[test]
fn rfc_9110_10_1_1_a_client_that_expects_it_is_told_to_continue_when_the_program_begins() {
    let mut peer = deferring();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_eq!(peer.take_output(), "");
    peer.settle();
    assert_eq!(peer.take_output(), "HTTP/1.1 100 Continue\r\n\r\n");
    peer.converse("ab");
    assert_eq!((statuses(&peer), contents(&peer)[0].as_str()), (vec![200], "ab"));
}

#[test]
fn content_that_ends_too_early_or_is_malformed_ends_the_program() {
    let mut peer = peer();
    peer.converse("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab").end();
    assert_eq!((statuses(&peer), peer.interest()), (vec![400], Interest::CLOSE));
    let mut peer = self::peer();
    peer.converse("PUT /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabX");
    assert_eq!((statuses(&peer), peer.interest()), (vec![400], Interest::LINGER));
    let mut peer = self::peer();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab").time_out();
    assert_eq!(statuses(&peer), [408]);
}

#[test]
fn a_program_goes_on_where_its_connection_goes_and_does_not_travel() {
    let mut peer = peer();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    assert!(!peer.connection.is_transferable() && peer.connection.encode().is_none());
    peer.connection.recall_needs();
    peer.converse("cdef");
    assert_eq!((statuses(&peer), contents(&peer)[0].as_str()), (vec![200], "abcdef"));
}

#[test]
fn a_step_that_its_driver_has_lost_is_not_done_again() {
    let mut peer = deferring();
    peer.send("PUT /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
    peer.meet_next();
    assert!(peer.connection.is_running());
    peer.connection.recall_needs();
    peer.habits.defers = Cycle::new(vec![false]);
    peer.converse("cdef");
    assert_eq!(statuses(&peer), [500]);
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
}

#[test]
fn a_405_to_content_whose_length_is_known_does_not_wait_for_it() {
    let mut peer = peer();
    peer.send("POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    assert_eq!((statuses(&peer), peer.interest()), (vec![405], Interest::RECEIVE));
    peer.converse(["abcd", GET].concat());
    assert_eq!(statuses(&peer), [405, 200]);
}

#[test]
fn what_is_found_out_about_a_request_is_known_of_it_and_of_no_other() {
    for mut peer in [peer(), deferring()] {
        peer.send([put("/found", "ab"), put("/found", "cd")].concat());
        peer.settle();
        assert_eq!((statuses(&peer), contents(&peer)), (vec![200, 200], vec!["ab".to_owned(), "cd".to_owned()]));
        assert_eq!(peer.asked.len(), 4, "each is resolved before and after");
    }
}
