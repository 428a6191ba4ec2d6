//! Many connections of which few are active, and more connections than there is anybody for.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::client::Client;
use crate::engine::{Engine, for_engines};
use crate::server::Launch;
use crate::tree::pattern;

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

/// Slow clients: more of them than there are threads.
mod slow {
    use super::{
        a_drained_server_finishes_what_slow_clients_have_begun, slow_readers_keep_nobody_waiting,
        unfinished_heads_keep_nobody_waiting,
    };

    crate::engine::for_engines!([
        sped = SPED,
        amped = AMPED,
        pipelined = PIPELINED,
        proactor = PROACTOR,
        thread_pool_of_two = THREAD_POOL_OF_TWO,
    ] => [
        unfinished_heads_keep_nobody_waiting,
        slow_readers_keep_nobody_waiting,
        a_drained_server_finishes_what_slow_clients_have_begun,
    ]);
}

const CONNECTIONS: usize = 300;
/// More than there are threads.
const SLOW: usize = 40;
/// More than two sockets hold.
const LARGE_BYTES: usize = 8_000_000;
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

fn unfinished_heads_keep_nobody_waiting(engine: Engine) {
    let server = Launch::new(engine).file("hello.txt", "hello\n").start();
    let mut slow: Vec<Client<TcpStream>> = (0..SLOW).map(|_| server.connect()).collect();
    for piece in ["GET /hello.txt HT", "TP/1.1\r\nHo", "st: a\r\n"] {
        slow.iter_mut().for_each(|client| client.send(piece.as_bytes()));
        assert_eq!(server.connect().get("/hello.txt").map(|response| response.status), Ok(200));
    }
    for mut client in slow {
        client.send(b"\r\n");
        assert_eq!(client.receive(true).map(|response| response.content), Ok(b"hello\n".to_vec()));
    }
    server.finish();
}

fn slow_readers_keep_nobody_waiting(engine: Engine) {
    let content = pattern(LARGE_BYTES, 1);
    let server = Launch::new(engine).file("hello.txt", "hello\n").file("large", &content).start();
    let mut slow: Vec<Client<TcpStream>> = (0..SLOW).map(|_| server.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut slow {
        assert_eq!(client.receive_head().map(|response| response.status), Ok(200));
        assert_eq!(server.connect().get("/hello.txt").map(|response| response.status), Ok(200));
    }
    for client in slow.iter_mut().take(5) {
        assert!(client.receive_exactly(LARGE_BYTES) == Ok(content.clone()), "it is another content");
        assert_eq!(client.get("/hello.txt").map(|response| response.status), Ok(200));
    }
    drop(slow);
    server.finish();
}

fn a_drained_server_finishes_what_slow_clients_have_begun(engine: Engine) {
    let content = pattern(LARGE_BYTES, 1);
    let mut server = Launch::new(engine).file("large", &content).start();
    let mut slow: Vec<Client<TcpStream>> = (0..8).map(|_| server.connect()).collect();
    slow.iter_mut().for_each(|client| client.send(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"));
    for client in &mut slow {
        assert_eq!(client.receive_head().map(|response| response.status), Ok(200));
    }
    server.signal(Signal::TERM);
    server.wait_to_hear("finishing what has begun");
    // Whoever is last must not depend on the order in which threads take them up.
    for mut client in slow.into_iter().rev() {
        assert!(client.receive_exactly(LARGE_BYTES) == Ok(content.clone()), "it is another content");
    }
    assert!(server.wait().success());
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

/// What is too little to serve anybody is said, with the remedy, and nothing else is.
mod limits {
    use std::process::Command;

    use crate::engine::{AMPED, CO_AMPED, Engine, MP, PIPELINED, PROACTOR, SPED, THREAD_PER_SESSION, THREAD_POOL};
    use crate::server::{Launch, Server};

    const ENGINES: [Engine; 8] = [SPED, AMPED, CO_AMPED, MP, PIPELINED, PROACTOR, THREAD_PER_SESSION, THREAD_POOL];

    fn launch(engine: Engine, limit: &str) -> Launch {
        let limit = format!("ulimit {limit}; exec \"$@\"");
        Launch::new(engine).file("hello.txt", "hello\n").wrapped(&["sh", "-c", &limit, "sh"])
    }

    /// A server under `limit` either says why not, or serves.
    fn serves_or_says(engine: Engine, limit: &str, remedy: &str) {
        let mut server: Server = launch(engine, limit).spawn();
        let said = server.wait_to_hear_any(&["lamna: serving ", "cannot start: "]);
        match said.split_once("http://") {
            None => {
                let status = server.wait();
                let said = server.said();
                assert_eq!(status.code(), Some(1), "{}: {limit}: {said}", engine.architecture);
                assert!(said.contains(remedy), "{}: {limit}: {said}", engine.architecture);
            }
            Some((_, rest)) => {
                let address = rest.split([' ', ',']).next().and_then(|text| text.parse().ok());
                let mut client = crate::client::Client::connect(address.expect("it says where"));
                let answer = client.get("/hello.txt").map(|answer| answer.status);
                assert_eq!(answer, Ok(200), "{}: {limit}: {said}", engine.architecture);
            }
        }
    }

    /// Whether the system loads a program that was built for tests within so much address space.
    fn loads_within(kib: u32) -> bool {
        let limited = format!("ulimit -v {kib}; exec \"$@\" >/dev/null 2>&1");
        let status = Command::new("sh").args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_lamna"), "--version"]).status();
        status.expect("there is a shell").success()
    }

    #[test]
    fn with_too_few_descriptors_it_is_said_what_is_too_little() {
        for engine in ENGINES {
            for limit in ["-n 12", "-n 16", "-n 18", "-n 20", "-n 24", "-n 32"] {
                serves_or_says(engine, limit, "ulimit -n");
            }
        }
    }

    #[test]
    fn with_too_little_address_space_it_is_said_what_is_too_little() {
        let loads_kib = (16 << 10..1 << 20).step_by(1 << 10).find(|&kib| loads_within(kib)).expect("a GiB is enough");
        for engine in ENGINES {
            for more_kib in [2 << 10, 20 << 10, 52 << 10] {
                serves_or_says(engine, &format!("-v {}", loads_kib + more_kib), "ulimit -v");
            }
        }
    }
}
