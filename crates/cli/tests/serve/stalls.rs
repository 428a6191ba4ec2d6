//! Clients that do not take what an application has answered them, and go on sending: with every engine the application
//! is let go. And clients of slow applications, which are not cut off.
//!
//! Owns: these cases. What is due when is tried in `proto` (`stalls`), second by second: here, that each engine asks
//! for it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{APPLICATION_PATIENCE, Client, PATIENCE};
use crate::engine::{AMPED, Engine, PROACTOR, THREAD_POOL, for_engines};
use crate::gateways::Application;
use crate::goaway::{ACK, Frames, GOAWAY, PING, SETTINGS};
use crate::server::{Launch, Server, eventually};
use crate::tls::{connect, trusting};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    no_ping_keeps_a_stream_whose_window_is_shut,
    no_byte_keeps_an_answer_that_is_not_read,
    who_waits_for_an_application_is_not_cut_off,
    a_web_socket_that_is_quiet_ends_where_that_is_set,
    a_quiet_web_socket_whose_client_has_ended_its_side_ends,
]);

/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(50);
/// More of them than any of these takes.
const BEATS_MAX: usize = 600;

fn launch(engine: Engine, application: &Application, keys: &str) -> Launch {
    let to = application.address;
    let lines = format!(
        "[limits]\nsend_timeout_ms = 1000\n[[site]]\nroot = \"site\"\n\
         route = [{{ match = {{ path = \"/app/*\", method = \"GET\" }}, proxy = {{ to = \"http://{to}\"{keys} }} }}]\n"
    );
    Launch::new(engine).file("a.txt", "a").config(&lines)
}

/// The application is asked for nothing any more: what has been broken off keeps no connection. It is seen long before
/// the application gives up by itself, which it does when [`APPLICATION_PATIENCE`] is over.
fn expect_nothing_under_way(application: &Application) {
    expect_nothing_within(APPLICATION_PATIENCE / 2, application);
}

fn expect_nothing_within(bound: Duration, application: &Application) {
    eventually("the exchanges are over", bound, || (application.open.load(Relaxed) == 0).then_some(()));
}

fn window_update(stream: u32, bytes: u32) -> (u8, u8, u32, Vec<u8>) {
    (8, 0, stream, bytes.to_be_bytes().to_vec())
}

/// Three streams of an application whose windows are shut, and at each beat a PING and a byte more for one of them,
/// until the connection ends.
fn stall<S: Read + Write>(mut frames: Frames<S>) {
    frames.send((SETTINGS, 0, 0, vec![0, 4, 0, 0, 0, 0]));
    for stream in [3, 5, 7] {
        frames.ask_for("/app/sized/300000", stream);
    }
    for beat in 0..BEATS_MAX {
        thread::sleep(BEAT);
        frames.send(window_update(3, 1));
        frames.send((PING, 0, 0, (beat as u64).to_be_bytes().to_vec()));
        loop {
            match frames.receive() {
                (GOAWAY, ..) => return,
                (PING, ACK, ..) => break,
                _ => {}
            }
        }
    }
    panic!("the connection goes on");
}

fn no_ping_keeps_a_stream_whose_window_is_shut(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application, "").argument("--h2c").start();
    stall(Frames::answered(server.connect()));
    expect_nothing_under_way(&application);
    server.finish();
}

fn no_byte_keeps_an_answer_that_is_not_read(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application, "").start();
    let mut client = server.connect();
    client.send(b"GET /app/sized/40000000 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.receive_exactly(1).unwrap();
    // What follows is no whole request, and would be waited for.
    eventually("the exchange is over", PATIENCE, || {
        for _ in 0..5 {
            thread::sleep(BEAT);
            client.send(b"G");
        }
        (application.open.load(Relaxed) == 0).then_some(())
    });
    server.finish();
}

fn who_waits_for_an_application_is_not_cut_off(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application, "").argument("--h2c").start();
    // The first event has been taken, and the next one does not come: over both versions.
    let mut client = server.connect();
    client.send(b"GET /app/events HTTP/1.1\r\nHost: a\r\n\r\n");
    client.receive_head().unwrap();
    let mut frames = Frames::answered(server.connect());
    frames.ask_for("/app/events", 3);
    for beat in 0..60_u64 {
        thread::sleep(BEAT);
        frames.send((PING, 0, 0, beat.to_be_bytes().to_vec()));
        loop {
            let (kind, flags, stream, payload) = frames.receive();
            assert!(kind != GOAWAY && kind != 3, "{stream} {payload:?}");
            if (kind, flags) == (PING, ACK) {
                break;
            }
        }
    }
    assert_eq!(application.open.load(Relaxed), 2);
    drop((client, frames));
    // Who has ended his side may be reading, as far as the server knows: an application that says nothing gives up by
    // itself.
    expect_nothing_within(PATIENCE, &application);
    server.finish();
}

fn a_web_socket_that_is_quiet_ends_where_that_is_set(engine: Engine) {
    let application = Application::start();
    for (keys, ends) in [(", websocket_timeout_ms = 1000", true), ("", false)] {
        let server = launch(engine, &application, keys).start();
        let mut client = eventually("no beat was late", PATIENCE, || beating(&server, "web-socket"));
        match ends {
            true => client.expect_end().unwrap(),
            false => {
                thread::sleep(50 * BEAT);
                client.send(b"still");
                assert_eq!(client.receive_exactly(5).unwrap(), b"still");
                drop(client);
            }
        }
        expect_nothing_under_way(&application);
        server.finish();
    }
}

/// The application ends no tunnel because its client has.
fn a_quiet_web_socket_whose_client_has_ended_its_side_ends(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application, ", timeout_ms = 1000").start();
    let mut client = eventually("no beat was late", PATIENCE, || beating(&server, "web-socket-for-ever"));
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.expect_end().unwrap();
    server.finish();
}

/// A web socket that goes on as long as something passes, for longer than it may be quiet; none if this machine was so
/// busy that a beat came late.
fn beating(server: &Server, name: &str) -> Option<Client<TcpStream>> {
    let mut client = server.connect();
    client.send(
        format!("GET /app/{name} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n")
            .as_bytes(),
    );
    assert_eq!(client.receive_head().unwrap().status, 101);
    for _ in 0..40 {
        let begun = Instant::now();
        thread::sleep(BEAT);
        let passes = client.stream.write_all(b"beat").is_ok() && client.receive_exactly(4).is_ok();
        // It may have been quiet on its way to the server, or to the application, for as long.
        if begun.elapsed() > 10 * BEAT {
            return None;
        }
        assert!(passes, "something passes");
    }
    Some(client)
}

#[test]
fn the_same_over_tls() {
    for engine in [AMPED, THREAD_POOL, PROACTOR] {
        let application = Application::start();
        let server = launch(engine, &application, "").argument("--tls").start();
        let mut config = rustls::ClientConfig::clone(&trusting(&server));
        config.alpn_protocols = vec![b"h2".to_vec()];
        stall(Frames::answered(connect(&server, &Arc::new(config))));
        expect_nothing_under_way(&application);
        server.finish();
    }
}
