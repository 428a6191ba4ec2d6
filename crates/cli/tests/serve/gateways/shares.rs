//! CGI programs that clients of several networks ask for: who reads slowly, or asks for much, keeps no program from
//! others.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::Duration;

use crate::client::{Client, PATIENCE};
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};

for_engines!([
    mp = MP_OF_SIXTEEN,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    who_reads_slowly_keeps_no_program_and_gets_all_of_its_answer,
    who_asks_for_much_waits_in_turn_with_others,
]);

/// More than sockets on the way hold.
const LARGE: usize = 40_000_000;

fn launch(engine: Engine, programs: &[(&str, &str)]) -> Launch {
    let config = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/cgi-bin/*\"\ncgi = { programs_max = 2 }\n";
    programs.iter().fold(Launch::new(engine).argument("--h2c").config(config), |launch, (name, text)| {
        let text = format!("#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n'\n{text}\n");
        let launch = launch.file(&format!("cgi-bin/{name}"), text);
        let path = launch.site().join("cgi-bin").join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        launch
    })
}

/// A client of network 127.0.0.`host` that has asked for `path`.
fn ask(server: &Server, host: u8, path: &str) -> Client<TcpStream> {
    let mut client = server.connect_from(host);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client
}

fn who_reads_slowly_keeps_no_program_and_gets_all_of_its_answer(engine: Engine) {
    let large = format!("echo x >> ../begun\nhead -c {LARGE} /dev/zero");
    let server = launch(engine, &[("large", &large), ("small", "echo done")]).start();
    let mut slow: Vec<_> = (0..4).map(|_| ask(&server, 2, "/cgi-bin/large")).collect();
    let begun = server.site().join("begun");
    eventually("all programs are theirs", PATIENCE, || (fs::read(&begun).ok()?.len() >= 4).then_some(()));
    let mut other = ask(&server, 3, "/cgi-bin/small");
    assert_eq!(other.receive(true).expect("another network is answered").content, b"done\n");
    assert_eq!(ask(&server, 2, "/cgi-bin/small").receive(true).unwrap().content, b"done\n");
    for client in &mut slow {
        let answer = client.receive(true).expect("all of it comes");
        assert!(answer.status == 200 && answer.content.len() == LARGE);
    }
    server.finish();
}

fn who_asks_for_much_waits_in_turn_with_others(engine: Engine) {
    let server = launch(engine, &[("slow", "echo $REMOTE_ADDR >> ../turns\nsleep 0.3")]).start();
    let turns = server.site().join("turns");
    let read = || fs::read_to_string(&turns).unwrap_or_default();
    let many: Vec<_> = (0..10).map(|_| ask(&server, 2, "/cgi-bin/slow")).collect();
    // As long as nobody else waits, all programs are theirs.
    eventually("both programs are theirs", PATIENCE, || (read().lines().count() >= 2).then_some(()));
    let mut other = ask(&server, 3, "/cgi-bin/slow");
    assert_eq!(other.receive(true).unwrap().status, 200);
    let order = read();
    let place = order.lines().position(|line| line == "127.0.0.3").expect("it has run");
    assert!(place <= 5, "it had to wait for others of the same network: {order}");
    for mut client in many {
        assert_eq!(client.receive(true).unwrap().status, 200);
    }
    server.finish();
}

#[test]
fn who_reads_slowly_keeps_no_program_over_http2() {
    let large = format!("echo x >> ../begun\nhead -c {LARGE} /dev/zero");
    let server = launch(AMPED, &[("large", &large), ("small", "echo done")]).start();
    let mut slow = [Http2::connect(server.address()), Http2::connect(server.address())];
    let bodies = slow.each_mut().map(|client| client.begin("/cgi-bin/large"));
    let mut other = ask(&server, 3, "/cgi-bin/small");
    assert_eq!(other.receive(true).expect("another network is answered").content, b"done\n");
    for (client, body) in slow.iter_mut().zip(bodies) {
        assert_eq!(client.finish(body).len(), LARGE);
    }
    server.finish();
}

#[test]
fn what_is_kept_for_a_slow_client_goes_when_it_leaves() {
    let large = format!("echo x >> ../begun\nhead -c {LARGE} /dev/zero");
    let server = launch(AMPED, &[("large", &large)]).start();
    let begun = server.site().join("begun");
    // More than are kept for one network.
    for round in 1..=3 {
        let mut clients: Vec<_> = (0..8).map(|_| ask(&server, 2, "/cgi-bin/large")).collect();
        eventually("all have run", PATIENCE, || (fs::read(&begun).ok()?.len() >= round * 16).then_some(()));
        clients.iter_mut().for_each(|client| client.stream.read_exact(&mut [0; 100]).unwrap());
        drop(clients);
        thread::sleep(Duration::from_millis(100));
    }
    server.finish();
}
