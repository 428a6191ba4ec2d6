//! Panics: a defect of the server costs the request that finds it, and nobody else anything.
//!
//! `LAMNA_TEST_PANIC` has a server that was built for tests panic at one point for one target.

use crate::client::Client;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

use rustix::process::Signal;

for_engines!(all every_architecture_survives_panics: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    amped_without_openat2 = AMPED_WITHOUT_OPENAT2,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    pipelined_without_openat2 = PIPELINED_WITHOUT_OPENAT2,
    proactor = PROACTOR,
    proactor_without_openat2 = PROACTOR_WITHOUT_OPENAT2,
] => [
    a_panic_while_a_target_is_found_out_is_answered_with_500,
    a_server_goes_on_when_what_drives_a_connection_panics,
    a_server_without_its_other_threads_answers_all_the_same,
]);

/// Engines that know which connection a worker was driving.
mod blamed {
    use super::a_panic_ends_the_connection_that_was_being_driven_and_no_other;

    crate::engine::for_engines!([
        thread_pool = THREAD_POOL,
        thread_per_request = THREAD_PER_REQUEST,
        thread_per_session = THREAD_PER_SESSION,
        sped = SPED,
        amped = AMPED,
        amped_2 = AMPED_2,
        amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    ] => [
        a_panic_ends_the_connection_that_was_being_driven_and_no_other,
    ]);
}

fn server(engine: Engine, panic: &str) -> Server {
    let variable = format!("LAMNA_TEST_PANIC={panic}");
    Launch::new(engine).file("a.txt", "hello").file("boom", "boom").wrapped(&["env", &variable]).start()
}

/// Ends a server that has panicked, which `Server::finish` would not let pass.
fn end(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait().success(), "it ended otherwise:\n{}", server.said());
}

fn is_answered(server: &Server) -> bool {
    server.connect().get("/a.txt").is_ok_and(|response| response.status == 200)
}

fn a_panic_while_a_target_is_found_out_is_answered_with_500(engine: Engine) {
    let server = server(engine, "translate:/boom");
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(client.get("/boom").map(|response| response.status), Ok(500));
        assert_eq!(client.get("/a.txt").map(|response| response.status), Ok(200));
    }
    assert_eq!(server.connect().get("/boom").map(|response| response.status), Ok(500));
    end(server);
}

fn a_server_goes_on_when_what_drives_a_connection_panics(engine: Engine) {
    let mut server = server(engine, "look-up:/boom");
    for _ in 0..3 {
        assert!(server.connect().get("/boom").is_err(), "nobody can answer it");
        server.wait_to_hear("a test has asked for this");
        // A worker that fails while the server ends has not been replaced, which is an error.
        server.wait_to_hear("a defect of Lamna");
        eventually("the server answers others", crate::client::PATIENCE, || is_answered(&server).then_some(()));
    }
    end(server);
}

fn a_panic_ends_the_connection_that_was_being_driven_and_no_other(engine: Engine) {
    let server = server(engine, "look-up:/boom");
    let mut others: Vec<Client<_>> = (0..8).map(|_| server.connect()).collect();
    let ask_all = |others: &mut Vec<Client<_>>| {
        for other in others {
            assert_eq!(other.get("/a.txt").map(|response| response.status), Ok(200));
        }
    };
    ask_all(&mut others);
    others[0].send(b"GET /a.txt HTTP/1.1\r\nHo");
    assert!(server.connect().get("/boom").is_err(), "nobody can answer it");
    others[0].send(b"st: x\r\n\r\n");
    assert_eq!(others[0].receive(true).map(|response| response.status), Ok(200));
    ask_all(&mut others);
    end(server);
}

fn a_server_without_its_other_threads_answers_all_the_same(engine: Engine) {
    for panic in ["watch:", "log:", "compress:/a.txt"] {
        let variable = format!("LAMNA_TEST_PANIC={panic}");
        let launch = Launch::new(engine).file("a.txt", "hello ".repeat(1000));
        let log = launch.directory().join("access.log").display().to_string();
        let server = launch.wrapped(&["env", &variable]).argument("--log").argument(&log).start();
        for _ in 0..50 {
            let mut client = server.connect();
            client.send(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n");
            assert_eq!(client.receive(true).map(|response| response.status), Ok(200), "{panic}");
        }
        end(server);
    }
}
