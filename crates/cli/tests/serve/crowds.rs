//! Many connections of which few are active, and more connections than there is anybody for.

use std::net::TcpStream;

use crate::client::Client;
use crate::engine::{Engine, for_engines};
use crate::server::Launch;

for_engines!([
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
] => [of_many_connections_any_can_become_active]);

for_engines!([
    mp_of_two = MP_OF_TWO,
    thread_per_session_of_two = THREAD_PER_SESSION_OF_TWO,
] => [who_cannot_be_held_is_told_to_come_again]);

const CONNECTIONS: usize = 300;
/// Every connection becomes active, a few at a time.
const ACTIVE: usize = 3;

fn of_many_connections_any_can_become_active(engine: Engine) {
    let server = Launch::new(engine).file("hello.txt", "hello\n").start();
    let mut clients: Vec<Client<TcpStream>> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
    }
    for chosen in clients.chunks_mut(ACTIVE) {
        chosen.iter_mut().for_each(|client| client.send(b"GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n"));
        for client in chosen {
            assert_eq!(client.receive(true).unwrap().content, b"hello\n");
        }
    }
    drop(clients);
    server.finish();
}

/// Two idle connections hold all there is.
fn who_cannot_be_held_is_told_to_come_again(engine: Engine) {
    let server = Launch::new(engine).file("hello.txt", "hello\n").start();
    let mut held = [server.connect(), server.connect()];
    for client in &mut held {
        assert_eq!(client.get("/hello.txt").unwrap().status, 200);
    }
    for _ in 0..5 {
        let mut refused = server.connect();
        let answer = refused.get("/hello.txt").unwrap();
        assert_eq!(
            (answer.status, answer.field("Retry-After"), answer.field("Connection")),
            (503, Some("1"), Some("close"))
        );
        refused.expect_end().unwrap();
    }
    for client in &mut held {
        assert_eq!(client.get("/hello.txt").unwrap().status, 200, "who is held is served as before");
    }
    drop(held);
    let served = || server.connect().get("/hello.txt").is_ok_and(|answer| answer.status == 200);
    crate::server::eventually("a new connection is served", crate::client::PATIENCE, || served().then_some(()));
    server.finish();
}
