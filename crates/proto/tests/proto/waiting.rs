//! Conversations about time, memory and the end of serving: what each wait is bounded by, what may be held meanwhile,
//! and how a server drains.
//!
//! Owns: these cases.

use lamna_proto::conn::{Fate, Interest};

use crate::conversation::{GET, deferring, get, peer, responses, statuses};
use crate::peer::{Cycle, Habits, Peer};
use crate::site::{FILE_BYTES, LARGE_BYTES, pattern};

// Draining.

#[test]
fn draining_closes_an_idle_connection() {
    let mut peer = peer();
    peer.converse(GET).drain();
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::CLOSE, None));
}

#[test]
fn rfc_9112_9_6_draining_finishes_what_is_under_way_and_says_that_it_was_the_last() {
    let mut peer = deferring();
    peer.send([GET, GET].concat()).drain();
    assert_eq!(peer.interest(), Interest::DONE);
    peer.settle();
    let connections: Vec<_> = responses(&peer).iter().map(|one| one.field("connection").map(str::to_string)).collect();
    assert_eq!(connections, [None, Some("close".to_string())]);
    assert_eq!(peer.interest(), Interest::CLOSE);
}

#[test]
fn draining_lets_who_was_not_told_of_the_end_ask_once_more() {
    let mut peer = Peer::new(Habits { send_bytes: Cycle::new(vec![20, usize::MAX]), ..Habits::default() });
    // Some of the head of the answer has left when the draining begins.
    peer.reads_answers = false;
    peer.send(GET).run_once();
    peer.drain();
    peer.reads_answers = true;
    peer.settle();
    assert_eq!(peer.interest(), Interest::RECEIVE);
    peer.converse([GET, GET].concat());
    let connections: Vec<_> = responses(&peer).iter().map(|one| one.field("connection").map(str::to_string)).collect();
    assert_eq!(connections, [None, Some("close".to_string())]);
    assert!(peer.interest().fate != Fate::Open, "{:?}", peer.interest());
}

#[test]
fn draining_lets_the_client_of_an_answer_that_was_taken_and_has_not_left_ask_once_more() {
    let mut peer = peer();
    // What TLS has taken of an answer is still to be sent when the worker begins to drain.
    peer.has_buffer = true;
    peer.converse(GET).drain_worker();
    assert_eq!(peer.interest(), Interest::RECEIVE);
    peer.flush();
    assert_eq!(peer.interest(), Interest::RECEIVE);
    peer.converse(GET);
    let connections: Vec<_> = responses(&peer).iter().map(|one| one.field("connection").map(str::to_string)).collect();
    assert_eq!(connections, [None, Some("close".to_string())]);
}

#[test]
fn draining_keeps_what_an_answer_before_the_end_of_the_content_has_promised() {
    let request = "PUT /small HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n";
    let mut peer = peer();
    peer.converse(format!("{request}abc"));
    assert_eq!(responses(&peer)[0].field("connection"), None, "it goes on behind its content");
    peer.drain_worker();
    peer.converse("def");
    assert_eq!(peer.interest(), Interest::RECEIVE);
    peer.converse(GET);
    let connections: Vec<_> = responses(&peer).iter().map(|one| one.field("connection").map(str::to_string)).collect();
    assert_eq!(connections, [None, Some("close".to_string())]);
}

#[test]
fn draining_lets_a_request_that_has_begun_to_arrive_be_the_last() {
    let content = "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    for (request, cut) in [(GET, 1), (GET, 20), (content, content.len() - 2)] {
        let mut peer = peer();
        peer.send(&request[..cut]).drain();
        assert_eq!(peer.interest(), Interest::RECEIVE, "{request}");
        peer.converse(&request[cut..]);
        assert_eq!(responses(&peer)[0].field("connection"), Some("close"), "{request}");
        assert_eq!(peer.interest(), Interest::CLOSE);
    }
}

#[test]
fn draining_lets_a_draining_worker_answer_one_request_more_of_an_idle_connection() {
    let mut peer = peer();
    peer.converse(GET).drain_worker();
    assert_eq!(peer.interest(), Interest::RECEIVE);
    peer.converse([GET, GET].concat());
    let connections: Vec<_> = responses(&peer).iter().map(|one| one.field("connection").map(str::to_string)).collect();
    assert_eq!(connections, [None, Some("close".to_string())]);

    let mut peer = deferring();
    peer.send(GET).drain_worker().settle();
    assert_eq!(responses(&peer)[0].field("connection"), Some("close"));
}

// Time.

#[test]
fn each_wait_has_its_own_time() {
    let mut peer = peer();
    assert_eq!(peer.timeout_ms(), Some(75_000));
    peer.send("GET");
    assert_eq!(peer.timeout_ms(), Some(30_000));
    peer.now = peer.now.after_ms(10_000);
    peer.send(" /file HTTP/1.1\r\nHost: a\r\n");
    assert_eq!(peer.timeout_ms(), Some(20_000), "a byte now and then does not extend a head's time");
    peer.send("Content-Length: 5\r\n\r\n");
    assert_eq!(peer.timeout_ms(), Some(30_000));
    peer.now = peer.now.after_ms(10_000);
    peer.send("abcd");
    assert_eq!(peer.timeout_ms(), Some(20_008), "content may take its time as long as enough of it arrives");
    peer.habits.defers = Cycle::new(vec![true]);
    peer.send("e");
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::DONE, None));
    peer.now = peer.now.after_ms(100_000);
    peer.reads_answers = false;
    peer.settle();
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::SEND, Some(60_000)));
    peer.now = peer.now.after_ms(1_000);
    peer.run();
    assert_eq!(peer.timeout_ms(), Some(59_000), "only bytes that leave are progress");
    peer.reads_answers = true;
    peer.run();
    assert_eq!(peer.timeout_ms(), Some(75_000));
    assert_eq!(statuses(&peer), [200]);
}

#[test]
fn the_time_to_send_begins_when_there_is_something_to_send() {
    let mut peer = peer();
    peer.send("GET /small HTTP/1.1\r\n");
    peer.now = peer.now.after_ms(29_000);
    peer.reads_answers = false;
    peer.send("Host: a\r\n\r\n");
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::SEND, Some(60_000)));
    assert_eq!(peer.time_out().interest(), Interest::CLOSE);
}

#[test]
fn rfc_9110_15_5_9_a_request_that_does_not_arrive_is_answered_with_408() {
    for request in ["GET", "GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc"] {
        let mut peer = peer();
        peer.send(request);
        peer.reads_answers = false;
        peer.time_out();
        assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::SEND, Some(60_000)), "{request}");
        peer.reads_answers = true;
        peer.settle();
        assert_eq!((statuses(&peer), peer.interest()), (vec![408], Interest::LINGER), "{request}");
        assert_eq!(peer.time_out().interest(), Interest::CLOSE);
    }
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let mut peer = peer();
    peer.converse(GET).take_output();
    peer.time_out();
    assert_eq!((peer.take_output().as_str(), peer.interest()), ("", Interest::CLOSE));
}

#[test]
fn a_timeout_that_was_not_named_is_ignored() {
    let mut peer = deferring();
    peer.send(GET).time_out();
    assert_eq!(peer.interest(), Interest::DONE);
    peer.settle();
    assert_eq!(statuses(&peer), [200]);
}

#[test]
fn a_report_says_when_the_head_was_complete_and_when_the_answer_had_left() {
    for mut peer in [peer(), deferring()] {
        peer.send("GET /small HTTP/1.1\r\n");
        peer.now = peer.now.after_ms(5);
        let complete = peer.now;
        peer.send("Host: a\r\n\r\n");
        peer.now = peer.now.after_ms(7);
        peer.settle();
        assert_eq!(peer.spans.len(), 1);
        assert_eq!(peer.spans[0].0, complete);
    }
}

#[test]
fn content_that_trickles_in_is_waited_for_no_longer_than_its_rate_earns() {
    let mut peer = peer();
    peer.send("GET /small HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n");
    let begun = peer.now;
    // 30 seconds, and one for each 500 bytes.
    for received in 1..=100u64 {
        peer.now = begun.after_ms(300 * received as u32);
        peer.send("x");
        assert_eq!(peer.timeout_ms(), Some(30_000 + received * 2 - 300 * received), "{received}");
    }
    peer.time_out();
    assert_eq!(statuses(&peer), [408]);
}

// Memory.

#[test]
fn who_reads_nothing_has_one_answer_held_and_as_much_behind_it_as_the_limit_says() {
    for mut peer in [peer(), deferring()] {
        peer.reads_answers = false;
        peer.send(get("/large", "").repeat(4)).settle();
        // What was deferred had been asked for before anybody knew how large it is.
        let asked = peer.asked.len();
        assert!(asked == 2 || asked == 4 && peer.deferred_count() == 0, "{asked}");
        let held = peer.connection.queued_content_bytes();
        assert_eq!(held, LARGE_BYTES as u64, "one waits behind the one that is being sent");
        peer.reads_answers = true;
        peer.settle();
        let contents: Vec<_> = responses(&peer).into_iter().map(|one| one.content).collect();
        assert_eq!(contents, vec![pattern(LARGE_BYTES); 4]);
        assert_eq!(peer.connection.queued_content_bytes(), 0);
    }
}

#[test]
fn the_heads_of_requests_that_wait_are_together_no_longer_than_one_may_be() {
    for mut peer in [peer(), deferring()] {
        peer.reads_answers = false;
        // Of about 700 bytes each, where a head, and so what is received at once, has 2,048 at most.
        let long = get("/small", &format!("X: {}\r\n", "x".repeat(650)));
        peer.send(get("/large", "") + &long.repeat(8));
        let copied = peer.asked.len() * 700;
        assert!(copied <= 3 * 700, "{copied}");
        peer.reads_answers = true;
        peer.settle();
        assert_eq!(statuses(&peer), [200; 9]);
    }
}

#[test]
fn under_pressure_requests_are_answered_one_at_a_time() {
    for mut peer in [peer(), deferring()] {
        peer.press(true);
        peer.reads_answers = false;
        peer.send(GET.repeat(4)).settle();
        assert_eq!(peer.asked.len(), 1);
        peer.reads_answers = true;
        peer.settle();
        assert_eq!(statuses(&peer), [200; 4]);
    }
}

#[test]
fn what_a_connection_holds_counts_until_it_holds_it_no_longer() {
    let mut peer = peer();
    let held = peer.count_held();
    peer.converse(GET);
    assert_eq!(held.bytes(), 0, "an idle connection holds nothing");
    peer.reads_answers = false;
    peer.send(GET.repeat(50));
    assert_eq!(held.bytes(), peer.connection.memory_bytes() as u64);
    assert!(held.bytes() > 4_096, "{}", held.bytes());
    peer.reads_answers = true;
    peer.settle();
    assert_eq!(held.bytes(), 0);
    peer.reads_answers = false;
    peer.send(GET.repeat(50));
    assert!(held.bytes() > 0);
    drop(peer);
    assert_eq!(held.bytes(), 0, "it is gone");
}

#[test]
fn content_that_was_read_for_a_peer_that_does_not_take_it_is_given_back_and_read_again() {
    let mut peer = peer();
    peer.habits.copies = Cycle::new(vec![true]);
    peer.reads_answers = false;
    peer.send(get("/file", ""));
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::SEND, Some(4_000)));
    peer.time_out();
    // It waits for as long as any peer may take.
    assert_eq!((peer.interest(), peer.timeout_ms()), (Interest::SEND, Some(56_000)));
    assert!(peer.connection.segment_buffer().is_none(), "nothing is held");
    // The head may leave, content does not follow it by itself.
    peer.run();
    assert_eq!(peer.interest(), Interest::SEND);
    peer.reads_answers = true;
    peer.settle();
    assert_eq!(responses(&peer)[0].content, pattern(FILE_BYTES));
}
