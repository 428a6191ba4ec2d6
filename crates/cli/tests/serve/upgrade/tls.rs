//! TLS while the program is upgraded: its keys stay where they were made, so what has begun is finished there.

use rustls::HandshakeKind;

use super::{LARGE, LARGE_BYTES, Line, SMALL, content};
use crate::client::Client;
use crate::engine::{AMPED, Engine, MP, PIPELINED, THREAD_POOL};
use crate::server::Launch;
use crate::tls::{connect, known_clients, trusting};

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

/// What it comes over goes with a connection in clear text, also to an engine of processes, and back.
#[test]
fn a_connection_in_clear_text_is_led_to_https_by_every_process() {
    let test = "a_connection_in_clear_text_is_led_to_https_by_every_process";
    let Some(address) = known_clients::port_80(test, 84) else { return };
    for (engine, then) in [(AMPED, "mp"), (MP, "thread-pool"), (PIPELINED, "co-amped"), (THREAD_POOL, "mp")] {
        let mut line =
            Line::start(known_clients::two_sites(engine).argument("--listen").argument(&address.to_string()));
        let mut clients: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
        let request = b"GET /a.txt HTTP/1.1\r\nHost: b.test\r\n\r\n";
        let mut begun = 0;
        let mut ask = |what: &str| {
            for client in &mut clients {
                client.send(&request[begun..]);
                let answer = client.receive(true).unwrap_or_else(|fault| panic!("{what}: {fault}"));
                let told = (answer.status, answer.field("Location"));
                assert_eq!(told, (308, Some("https://b.test/a.txt")), "{what}");
                // The next one is half on its way already.
                client.send(&request[..30]);
            }
            begun = 30;
        };
        ask("at first");
        line.upgrade();
        line.is_alone();
        ask("after an upgrade");
        let (done, said) = line.ctl(&["arch", "set", then]);
        assert!(done, "{said}");
        line.hear_of_successor();
        line.is_alone();
        ask("with another engine");
        drop(clients);
        line.end();
    }
}
