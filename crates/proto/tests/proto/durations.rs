//! How long answers take: from the head of the request to the last byte of the answer that leaves.

use lamna_proto::time::Instant;

use crate::http2_client::Client;
use crate::peer::{Cycle, Habits, Peer};

const GET_SMALL: &str = "GET /small HTTP/1.1\r\nHost: a\r\n\r\n";

fn later(peer: &mut Peer, us: u64) {
    peer.now = Instant::from_us(peer.now.us() + us);
}

/// The durations that have been reported, in microseconds.
fn reported(peer: &mut Peer) -> Vec<u64> {
    std::mem::take(&mut peer.spans).into_iter().map(|(started, ended)| ended.since_us(started)).collect()
}

#[test]
fn an_answer_is_counted_when_its_last_byte_leaves_and_not_when_it_is_written() {
    let mut peer = Peer::new(Habits::default());
    peer.reads_answers = false;
    peer.send(GET_SMALL.repeat(2));
    later(&mut peer, 300);
    assert_eq!((reported(&mut peer), peer.durations()), (vec![], vec![]), "nothing has left");
    peer.reads_answers = true;
    peer.settle();
    assert_eq!((reported(&mut peer), peer.durations()), (vec![300, 300], vec![(512, 2)]));
}

#[test]
fn answers_that_leave_one_after_the_other_take_different_times() {
    let mut whole = Peer::new(Habits::default());
    whole.send(GET_SMALL);
    let first_bytes = whole.output.len();
    let habits = Habits { send_bytes: Cycle::new(vec![first_bytes]), ..Habits::default() };
    let mut peer = Peer::new(habits);
    peer.reads_answers = false;
    peer.send(GET_SMALL.repeat(2));
    for us in [10, 1000] {
        later(&mut peer, us);
        peer.run_once();
    }
    assert_eq!((reported(&mut peer), peer.durations()), (vec![10, 1010], vec![(16, 1), (1024, 1)]));
}

#[test]
fn what_a_buffer_before_the_socket_has_taken_has_not_left() {
    for path in ["/small", "/large"] {
        let mut peer = Peer::new(Habits::default());
        peer.has_buffer = true;
        peer.converse(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        later(&mut peer, 70);
        assert_eq!((reported(&mut peer), peer.durations()), (vec![], vec![]), "{path}");
        peer.flush();
        assert_eq!((reported(&mut peer), peer.durations()), (vec![70], vec![(128, 1)]), "{path}");
        assert!(peer.connection.is_idle());
    }
}

#[test]
fn an_answer_that_was_broken_off_is_reported_and_not_counted() {
    let mut peer = Peer::new(Habits::default());
    peer.reads_answers = false;
    peer.send(GET_SMALL);
    later(&mut peer, 70);
    peer.break_off();
    assert_eq!((peer.reports.len(), peer.durations()), (1, vec![]));
}

#[test]
fn answers_that_wait_for_their_socket_are_counted_by_the_process_that_sends_them() {
    let habits = Habits { parks: Cycle::new(vec![true]), hops: 5, ..Habits::default() };
    let mut peer = Peer::new(habits);
    peer.reads_answers = false;
    peer.send(GET_SMALL.repeat(2));
    later(&mut peer, 300);
    assert_eq!(peer.durations(), []);
    peer.reads_answers = true;
    peer.settle();
    assert_eq!((reported(&mut peer), peer.durations()), (vec![300, 300], vec![(512, 2)]));
}

#[test]
fn streams_of_http_2_are_counted_when_their_last_byte_leaves() {
    for path in ["/small", "/large"] {
        let mut client = Client::new(Habits::default());
        client.peer.has_buffer = true;
        let request = client.request(1, "GET", path, &[]);
        client.send(&request).settle();
        later(&mut client.peer, 70);
        assert_eq!((reported(&mut client.peer), client.peer.durations()), (vec![], vec![]), "{path}");
        client.peer.flush();
        assert_eq!((reported(&mut client.peer), client.peer.durations()), (vec![70], vec![(128, 1)]), "{path}");
    }
}
