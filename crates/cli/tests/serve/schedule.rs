//! Who goes on when several connections can: the order of answers where the uplink decides how fast they leave.

use std::sync::mpsc::channel;
use std::thread;

use crate::client::{Client, PATIENCE};
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server};
use crate::tree::pattern;

/// Engines of one event loop, in which all connections stand in one queue.
mod ordered {
    use super::{an_earlier_answer_ends_first_under_fifo, the_shorter_answer_ends_first_under_srpt};

    crate::engine::for_engines!([
        sped = SPED,
        amped = AMPED,
        proactor = PROACTOR,
    ] => [
        the_shorter_answer_ends_first_under_srpt,
        an_earlier_answer_ends_first_under_fifo,
    ]);
}

for_engines!(all every_architecture_keeps_to_the_uplink: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    answers_arrive_whole_over_a_slow_uplink,
]);

/// Engines whose server stays the same process when the order changes.
mod changed {
    use super::a_schedule_that_is_changed_while_answers_wait_loses_none;

    crate::engine::for_engines!([
        thread_pool = THREAD_POOL,
        thread_per_request = THREAD_PER_REQUEST,
        thread_per_session = THREAD_PER_SESSION,
        sped = SPED,
        amped = AMPED,
        pipelined = PIPELINED,
        proactor = PROACTOR,
    ] => [
        a_schedule_that_is_changed_while_answers_wait_loses_none,
    ]);
}

const LONG_BYTES: usize = 600_000;
const SHORT_BYTES: usize = 100_000;

/// A server that sends 400,000 bytes a second, in this order.
fn over_a_slow_uplink(engine: Engine, schedule: &str) -> Server {
    Launch::new(engine)
        .file("long.bin", pattern(LONG_BYTES, 1))
        .file("short.bin", pattern(SHORT_BYTES, 2))
        .argument("--h2c")
        .argument("--schedule")
        .argument(schedule)
        .argument("--uplink-bytes-per-s")
        .argument("400000")
        .start()
}

/// Asks for the long file, and when its answer has begun for the short one. Which ends first.
fn first_to_end(server: &Server) -> &'static str {
    let mut long = server.connect();
    long.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(long.receive_head().unwrap().status, 200);
    let address = server.address();
    let (ended, ends) = channel();
    let of_short = ended.clone();
    thread::scope(|scope| {
        scope.spawn(move || {
            assert!(long.receive_exactly(LONG_BYTES).unwrap() == pattern(LONG_BYTES, 1), "it is not whole");
            ended.send("long").unwrap();
        });
        scope.spawn(move || {
            assert!(Client::connect(address).get("/short.bin").unwrap().content == pattern(SHORT_BYTES, 2));
            of_short.send("short").unwrap();
        });
    });
    ends.recv_timeout(PATIENCE).unwrap()
}

fn the_shorter_answer_ends_first_under_srpt(engine: Engine) {
    let server = over_a_slow_uplink(engine, "srpt");
    assert_eq!(first_to_end(&server), "short");
    server.finish();
}

fn an_earlier_answer_ends_first_under_fifo(engine: Engine) {
    let server = over_a_slow_uplink(engine, "fifo");
    assert_eq!(first_to_end(&server), "long");
    server.finish();
}

fn answers_arrive_whole_over_a_slow_uplink(engine: Engine) {
    let server = over_a_slow_uplink(engine, "srpt");
    let address = server.address();
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                let (path, content) = match number % 2 {
                    0 => ("/short.bin", pattern(SHORT_BYTES, 2)),
                    _ => ("/long.bin", pattern(LONG_BYTES, 1)),
                };
                assert!(client.get(path).unwrap().content == content, "{path} is not whole");
                assert!(client.get("/short.bin").unwrap().content == pattern(SHORT_BYTES, 2));
            });
        }
    });
    server.finish();
}

fn a_schedule_that_is_changed_while_answers_wait_loses_none(engine: Engine) {
    let server = over_a_slow_uplink(engine, "round-robin");
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(b"GET /long.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    for (flag, value) in [("--schedule", "srpt"), ("--uplink-bytes-per-s", "3000000"), ("--uplink-bytes-per-s", "0")] {
        order(&server, &["set", flag, value]).expect("it can be set");
    }
    for mut client in clients {
        assert!(client.receive(true).unwrap().content == pattern(LONG_BYTES, 1), "it is not whole");
    }
    server.finish();
}
