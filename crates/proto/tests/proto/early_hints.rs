//! Hints before the answer (RFC 8297), over both versions: where they stand, and to whom they cannot be given.
//!
//! Owns: these cases. The driver gives hints to requests whose query begins with `links`: see `peer`.

use proptest::prelude::*;

use crate::conversation::{GET, deferring, get, peer, responses, statuses};
use crate::http2_client::Client;
use crate::peer::{Cycle, Habits, Peer};
use crate::properties::habits;
use crate::site::{FILE_BYTES, LINKS, NEXT, SMALL, pattern};

fn hints() -> String {
    format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\nLink: {}\r\n\r\n", LINKS[0], LINKS[1])
}

fn links() -> Vec<(String, String)> {
    LINKS.iter().map(|link| ("link".to_owned(), (*link).to_owned())).collect()
}

#[test]
fn hints_stand_before_the_answer_and_change_nothing_of_it() {
    let (mut plain, mut hinted) = (peer(), peer());
    plain.converse(GET);
    hinted.converse(get("/small?links", ""));
    assert_eq!(hinted.take_output(), hints() + &plain.take_output());
    assert_eq!((hinted.interest(), hinted.reports.len()), (plain.interest(), 1));
}

#[test]
fn hints_leave_while_the_answer_is_being_found() {
    let mut peer = deferring();
    peer.send(get("/small?links", ""));
    assert_eq!(peer.take_output(), hints());
    peer.settle();
    assert!(peer.take_output().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn hints_leave_while_a_program_thinks_and_its_own_follow() {
    let mut peer = peer();
    peer.send(get("/stream?links.u.i.h2+c2+e", ""));
    assert_eq!(peer.take_output(), hints());
    peer.settle();
    let output = peer.take_output();
    assert!(output.starts_with("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 200 OK\r\n"), "{output}");
}

#[test]
fn rfc_9110_15_2_http_1_0_gets_no_hints() {
    let mut peer = peer();
    peer.converse("GET /small?links HTTP/1.0\r\n\r\n");
    assert!(peer.take_output().starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn rfc_9112_9_3_2_hints_are_never_before_the_answer_to_an_earlier_request() {
    let mut peer = deferring();
    peer.send([GET, &get("/small?links", "")].concat());
    assert_eq!(peer.take_output(), "");
    peer.settle();
    assert_eq!(statuses(&peer), [200, 200]);
    assert!(!peer.take_output().contains("103"), "it was asked about before its turn");
    // When the earlier ones have been answered, its turn has come.
    let mut peer = self::peer();
    peer.converse([GET, &get("/small?links", "")].concat());
    let output = peer.take_output();
    assert_eq!(output.matches(&hints()).count(), 1, "{output}");
    assert!(output.find("Hello") < output.find("103"), "{output}");
}

#[test]
fn a_connection_that_closes_does_so_behind_the_answer_and_not_behind_the_hints() {
    let mut peer = deferring();
    peer.send(get("/small?links", "Connection: close\r\n"));
    assert_eq!((peer.take_output(), peer.interest().is_over()), (hints(), false));
    peer.settle();
    assert_eq!((statuses(&peer), peer.interest().is_over()), (vec![200], true));
}

#[test]
fn over_http_2_hints_are_headers_of_the_stream() {
    for defers in [false, true] {
        let mut client = Client::new(Habits { defers: Cycle::new(vec![defers]), ..Habits::default() });
        let plain = client.ask(1, "GET", "/small", &[]);
        let hinted = client.ask(3, "GET", "/small?links", &[]);
        assert_eq!((&hinted.interim, &hinted.interim_fields), (&vec!["103".to_owned()], &links()));
        assert_eq!((hinted.status, hinted.fields, hinted.content), (plain.status, plain.fields, plain.content));
    }
}

#[test]
fn over_http_2_hints_leave_while_the_answer_is_being_found_or_made() {
    let mut client = Client::new(Habits { defers: Cycle::new(vec![true]), ..Habits::default() });
    let request = client.request(1, "GET", "/small?links", &[]);
    client.send(&request);
    assert_eq!((&client.streams[&1].interim_fields, &*client.streams[&1].status), (&links(), ""));
    client.settle();
    assert_eq!(client.streams[&1].status, "200");
    let mut client = Client::new(Habits::default());
    let request = client.request(1, "GET", "/stream?links.u.i.h2+c2+e", &[]);
    client.send(&request);
    assert_eq!((&client.streams[&1].interim_fields, &*client.streams[&1].status), (&links(), ""));
    client.settle();
    assert_eq!((client.streams[&1].interim.len(), &*client.streams[&1].status), (2, "200"));
}

proptest! {
    #[test]
    fn answers_are_the_same_behind_hints_however_the_world_behaves(habits in habits()) {
        let contents = |habits: &Habits, requests: &[String]| -> Vec<Vec<u8>> {
            let mut peer = Peer::new(habits.clone());
            peer.converse(requests.concat());
            responses(&peer).into_iter().map(|one| one.content).collect()
        };
        let files = [get("/small?links", ""), get("/file?links", "")];
        prop_assert_eq!(contents(&habits, &files), [SMALL.to_vec(), pattern(FILE_BYTES)]);
        // A program does not outlive its driver.
        let habits = Habits { hops: 0, moves: Vec::new(), ..habits };
        let programs = [get("/stream?links.h3+c3.e", ""), get("/small?links", "")];
        prop_assert_eq!(contents(&habits, &programs), [pattern(3), SMALL.to_vec()]);
        let mut client = Client::new(habits);
        let requests = [1, 3].map(|id| client.request(id, "GET", if id == 1 { "/small?links" } else { "/file?links" }, &[]));
        client.send(&requests.concat()).settle();
        prop_assert_eq!(&client.streams[&1].content, SMALL);
        prop_assert_eq!(&client.streams[&3].content, &pattern(FILE_BYTES));
        prop_assert!(client.streams.values().all(|one| one.interim_fields.starts_with(&links())));
    }
}

/// The values of `Link` fields.
fn next_of(fields: &[(String, String)]) -> Vec<&str> {
    let links = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    links.map(|(_, value)| &**value).collect()
}

#[test]
fn a_link_goes_with_the_whole_answer_and_changes_nothing_else_of_it() {
    for defers in [false, true] {
        let habits = Habits { defers: Cycle::new(vec![defers]), ..Habits::default() };
        for path in ["/small", "/file", "/stream?u.i.h2+c2+e"] {
            let answer = |target: &str, more: &str| {
                let mut peer = Peer::new(habits.clone());
                peer.converse(get(target, more));
                peer.take_output()
            };
            let asking = path.replace("?u", "?later.u");
            let asking = if asking.contains('?') { asking } else { format!("{path}?later") };
            let line = format!("Link: {NEXT}\r\n");
            let linked = answer(&asking, "");
            assert_eq!(linked.matches(&line).count(), 1, "{path}: {linked}");
            assert_eq!(linked.replace(&line, ""), answer(path, ""), "{path}");
            // Over HTTP/2.
            let mut client = Client::new(habits.clone());
            let (plain, linked) = (client.ask(1, "GET", path, &[]), client.ask(3, "GET", &asking, &[]));
            assert_eq!(next_of(&linked.fields), [NEXT], "{path}");
            assert_eq!((linked.status, linked.content), (plain.status, plain.content), "{path}");
        }
    }
}

#[test]
fn a_link_goes_with_no_part_no_refusal_and_no_other_answer() {
    for (target, more) in
        [("/small?later", "Range: bytes=0-1\r\n"), ("/small?later", "If-None-Match: *\r\n"), ("/none?later", "")]
    {
        let mut peer = peer();
        peer.converse([&*get(target, more), GET].concat());
        let output = peer.take_output();
        assert!(!output.contains("Link:"), "{target} {more}: {output}");
    }
    let mut client = Client::new(Habits::default());
    for (id, field) in [(1, ("range", "bytes=0-1")), (3, ("if-none-match", "*"))] {
        assert_eq!(next_of(&client.ask(id, "GET", "/small?later", &[field]).fields), [""; 0]);
    }
    assert_eq!(next_of(&client.ask(5, "GET", "/small", &[]).fields), [""; 0]);
}
