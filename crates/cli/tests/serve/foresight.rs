//! Requests that are there together, with more entries in the cache than are near a processor: they are received before
//! the first of them is answered, and answered as if they had come one after the other.

use rustix::process::Signal;

use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server};

for_engines!([
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
] => [what_is_asked_for_together_is_answered_to_each]);

/// More than the server must have to look ahead.
const ENTRIES: usize = 6000;
const PIPELINED: usize = 100;
const ROUNDS: usize = 3;

/// A request in the parts that it is sent in, and the statuses that it is answered with: of several requests several.
type Case = (&'static [&'static str], &'static [u16]);

const CASES: [Case; 12] = [
    (&["GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"], &[200]),
    (&["GET /other.txt HTTP/1.1\r\nHost: a\r\n\r\n"], &[200]),
    (&["GET /none HTTP/1.1\r\nHost: a\r\n\r\n"], &[404]),
    (&["GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n"], &[200, 404]),
    (&["GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"], &[200]),
    (&["GET /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe", "llo"], &[200]),
    (&["GET /hello.txt HT", "TP/1.1\r\nHost: a\r\n\r\n"], &[200]),
    (&["\r\nGET /hello.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n"], &[206]),
    (&["OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"], &[204]),
    (&["POST /hello.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"], &[405]),
    (&["GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"], &[400]),
    (&["GET /hello.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"], &[200]),
];

fn what_is_asked_for_together_is_answered_to_each(engine: Engine) {
    let server = Launch::new(engine).file("hello.txt", "hello\n").file("other.txt", "other\n").start();
    fill(&server);
    for round in 0..ROUNDS {
        let mut clients: Vec<_> = CASES.iter().chain(&CASES).map(|case| (server.connect(), case)).collect();
        for (client, _) in &mut clients {
            assert_eq!(client.get("/hello.txt").unwrap().status, 200, "it is idle from now on");
        }
        for part in 0..2 {
            // What is sent meanwhile is there at once when it goes on.
            server.signal(Signal::STOP);
            for (client, (parts, _)) in &mut clients {
                parts.get(part).into_iter().for_each(|bytes| client.send(bytes.as_bytes()));
            }
            server.signal(Signal::CONT);
        }
        for (client, (parts, statuses)) in &mut clients {
            for status in *statuses {
                let answer = client.receive(true).unwrap_or_else(|fault| panic!("round {round}: {fault}: {parts:?}"));
                assert_eq!(answer.status, *status, "{parts:?}");
                if parts[0].contains("/other.txt") {
                    assert_eq!(answer.content, b"other\n");
                }
            }
        }
    }
    server.finish();
}

/// Has the server find out that many names stand for nothing.
fn fill(server: &Server) {
    let mut client = server.connect();
    for first in (0..ENTRIES).step_by(PIPELINED) {
        for number in first..first + PIPELINED {
            client.send(format!("GET /absent-{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        }
        (0..PIPELINED).for_each(|_| assert_eq!(client.receive(true).unwrap().status, 404));
    }
}
