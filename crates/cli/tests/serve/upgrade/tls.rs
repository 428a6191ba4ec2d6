//! TLS while the program is upgraded: its keys stay where they were made, so what has begun is finished there.

use std::fs;

use rustls::HandshakeKind;
use rustls::pki_types::ServerName;

use super::{LARGE, LARGE_BYTES, Line, SMALL, content};
use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, Engine, MP, PIPELINED, THREAD_POOL};
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};
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
] => [
    what_has_begun_is_finished_and_clients_come_again_with_their_tickets,
    a_process_that_is_left_answers_by_no_sites_of_before,
]);

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

/// A rule that the new process has read holds on connections that stay with the old one, over each version of HTTP.
fn a_process_that_is_left_answers_by_no_sites_of_before(engine: Engine) {
    let site = "[[site]]\nroot = \"site\"\n";
    let mut line = Line::start(Launch::new(engine).config(site).argument("--tls"));
    let trusted = trusting(&line.server);
    let mut kept = connect(&line.server, &trusted);
    assert_eq!(kept.get(SMALL).unwrap().status, 200);
    let name = ServerName::try_from("localhost").unwrap();
    let mut streams = Http2::connect_secured(line.server.address(), &trusted, name);
    assert_eq!(streams.get(SMALL).status, 200);
    let rule = "[[site.route]]\nmatch = \"*\"\naccess = { deny = [\"0.0.0.0/0\", \"::/0\"] }\n";
    fs::write(line.server.directory().join("lamna.toml"), [site, rule].concat()).unwrap();
    line.upgrade();
    // The old process may accept, and may not have heard of it, for a moment.
    eventually("who comes anew is refused", PATIENCE, || {
        (connect(&line.server, &trusted).get(SMALL).unwrap().status == 403).then_some(())
    });
    let told = eventually("a connection of before is told", PATIENCE, || {
        let answer = kept.get(SMALL).expect("no end takes the place of the answer");
        (answer.status != 200).then_some(answer)
    });
    assert_eq!((told.status, told.field("Connection")), (421, Some("close")));
    eventually("streams of before are told", PATIENCE, || match streams.try_ask(request("GET", SMALL, &[])) {
        Ok(answer) if answer.status == 200 => None,
        Ok(answer) => {
            assert_eq!(answer.status, 421);
            Some(())
        }
        // After GOAWAY there are none.
        Err(_) => Some(()),
    });
    drop((kept, streams));
    line.is_alone();
    line.end();
}

#[test]
fn a_process_that_is_left_gives_one_answer_more_where_only_content_has_changed() {
    for engine in [AMPED, MP] {
        let site = "[[site]]\nroot = \"site\"\n";
        let mut line = Line::start(Launch::new(engine).config(site).argument("--tls"));
        let mut kept = connect(&line.server, &trusting(&line.server));
        assert_eq!(kept.get(SMALL).unwrap().status, 200);
        fs::write(line.server.directory().join("lamna.toml"), [site, "headers = { X-A = \"1\" }\n"].concat()).unwrap();
        line.upgrade();
        eventually("an answer is the last", PATIENCE, || {
            let answer = kept.get(SMALL).expect("each request is answered");
            assert_eq!(answer.status, 200);
            (answer.field("Connection") == Some("close")).then_some(())
        });
        line.is_alone();
        line.end();
    }
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
