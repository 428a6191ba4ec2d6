//! TLS while the program is upgraded: its keys stay where they were made, so what has begun is finished there.

use rustls::HandshakeKind;

use super::{LARGE, LARGE_BYTES, Line, SMALL, content};
use crate::engine::Engine;
use crate::server::Launch;
use crate::tls::{connect, trusting};

crate::engine::for_engines!([
    sped = SPED,
    amped = AMPED,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    co_amped = CO_AMPED,
    mp = MP,
] => [what_has_begun_is_finished_and_clients_come_again_with_their_tickets]);

fn what_has_begun_is_finished_and_clients_come_again_with_their_tickets(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--tls"));
    let trusted = trusting(&line.server);
    let (mut busy, mut idle) = (connect(&line.server, &trusted), connect(&line.server, &trusted));
    assert_eq!(idle.get(SMALL).unwrap().content, content(SMALL));
    busy.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    busy.receive_head().unwrap();
    line.upgrade();
    idle.expect_end().unwrap();
    assert!(busy.receive_exactly(LARGE_BYTES).unwrap() == content(LARGE));
    busy.expect_end().unwrap();
    line.is_alone();
    let mut again = connect(&line.server, &trusted);
    assert_eq!(again.get(SMALL).unwrap().content, content(SMALL));
    assert_eq!(again.stream.conn.handshake_kind(), Some(HandshakeKind::Resumed));
    drop(again);
    let said = line.end();
    assert!(!said.contains("could not be"), "{said}");
}
