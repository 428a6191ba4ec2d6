//! Addresses that are not alike: TLS at ports of their own, plain HTTP that leads there or is served, versions of HTTP,
//! the PROXY protocol.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::client::{Client, PATIENCE, Response};
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::tls::{CERTIFIED, connect_at, make_client, make_pair, trusting};

for_engines!([
    mp = MP,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    proactor = PROACTOR,
] => [
    each_address_does_what_its_entry_says,
    proxies_connect_to_one_address_and_clients_to_another,
    a_reload_adds_and_removes_addresses_and_loses_no_connection,
    an_address_that_cannot_be_had_leaves_all_as_it_is,
]);

const SITE: &str = "[[site]]\nroot = \"site\"\ntls = \"local\"\n";

/// The answer in clear text to a request that names the server by `host`.
fn ask(address: SocketAddr, host: &str) -> Response {
    let mut client = Client::connect(address);
    client.send(format!("GET /a.txt?q HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    client.receive(true).unwrap()
}

/// Ends a server whose process may be another one than that which was started.
fn end(server: Server) {
    order(&server, &["drain"]).unwrap();
}

/// A port that is free at the moment.
fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn config_of(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    format!("listen = [{}]\n[[site]]\nroot = \"site\"\n", addresses.join(", "))
}

/// Has the server read a configuration with these addresses.
fn reload(server: &Server, addresses: &[SocketAddr]) -> Result<String, String> {
    std::fs::write(server.directory().join("lamna.toml"), config_of(addresses)).unwrap();
    order(server, &["reload"])
}

/// Waits until clients are answered there.
fn await_answers(address: SocketAddr) {
    eventually("clients are answered", PATIENCE, || TcpStream::connect(address).ok());
    assert_eq!(ask(address, "localhost").status, 200);
}

/// Waits until clients are refused there.
fn await_refusal(address: SocketAddr) {
    let refused = || TcpStream::connect(address).is_err().then_some(());
    eventually("clients are refused", PATIENCE, refused);
}

/// Whether HTTP/2 in clear text is spoken there.
fn speaks_h2c(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).is_ok() && answer[3] == 4
}

fn each_address_does_what_its_entry_says(engine: Engine) {
    let listen = "listen = [\n\
                  { address = \"127.0.0.1:0\", tls = true },\n\
                  { address = \"127.0.0.1:0\", tls = false },\n\
                  { address = \"127.0.0.1:0\", tls = false, redirect = false, backlog = 16 },\n\
                  { address = \"127.0.0.1:0\", protocols = [\"http/1.1\"] },\n\
                  { address = \"127.0.0.1:0\", tls = false, redirect = false, protocols = [\"http/1.1\", \"h2\"] },\n\
                  ]\n";
    let launch = Launch::new(engine).listen_by_config().config(&format!("{listen}{SITE}")).file("a.txt", "a");
    let mut server = launch.start();
    let addresses = server.addresses();
    let [secure, led, open, old, h2c] = addresses[..] else { panic!("{addresses:?}") };
    let trusted = trusting(&server);
    for round in 0..2 {
        assert_eq!(connect_at(secure, &trusted).get("/a.txt").unwrap().content, b"a", "{round}");
        // A client that knows the server by a port is led to the one of https, another to port 443.
        for (host, there) in
            [(format!("localhost:{}", led.port()), format!(":{}", secure.port())), ("localhost".into(), "".into())]
        {
            let answer = ask(led, &host);
            let there = format!("https://localhost{there}/a.txt?q");
            assert_eq!((answer.status, answer.field("Location")), (308, Some(&*there)), "{round}");
        }
        assert_eq!((ask(open, "localhost").status, &ask(open, "localhost").content[..]), (200, &b"a"[..]), "{round}");
        assert_eq!(connect_at(old, &trusted).get("/a.txt").unwrap().content, b"a", "{round}");
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        assert!(Http2::try_connect_secured(secure, &trusted, name.clone()).is_some(), "{round}");
        assert!(Http2::try_connect_secured(old, &trusted, name).is_none(), "{round}");
        assert_eq!([led, open, h2c].map(speaks_h2c), [false, false, true], "{round}");
        assert_eq!(Http2::connect(h2c).get("/a.txt").content, b"a", "{round}");
        let status = order(&server, &["status"]).unwrap();
        for words in
            ["(leads to https)", "(serves in clear text)", "(HTTP/1.1 alone)", "(serves in clear text, HTTP/2 as well)"]
        {
            assert!(status.contains(words), "{words}: {status}");
        }
        // What a reload takes over goes on with the same addresses.
        let config = server.directory().join("lamna.toml");
        std::fs::write(config, format!("request_id = true\n{listen}{SITE}")).unwrap();
        order(&server, &["reload"]).unwrap();
    }
    end(server);
}

fn proxies_connect_to_one_address_and_clients_to_another(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.1\"]\nlisten = [\n\
                  { address = \"127.0.0.1:0\", proxy_protocol = true }, \"127.0.0.1:0\"]\n";
    let launch = Launch::new(engine).listen_by_config().config(config).file("a.txt", "a");
    let mut server = launch.start();
    let addresses = server.addresses();
    let [behind, open] = addresses[..] else { panic!("{addresses:?}") };
    assert_eq!(ask(open, "localhost").status, 200);
    let mut client = Client::connect(behind);
    client.send(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.receive(true).unwrap().status, 200);
    let mut client = Client::connect(behind);
    client.send(b"GET /a.txt HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(client.receive(true).is_err(), "without the header no client is answered");
    server.finish();
}

fn a_reload_adds_and_removes_addresses_and_loses_no_connection(engine: Engine) {
    let [stays, goes, comes] = [free_port(), free_port(), free_port()];
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
    let launch = Launch::new(engine).listen_by_config().config(&config_of(&[stays, goes]));
    let server = launch.file("a.txt", "a").file("large.bin", &large).start();
    let mut kept = Client::connect(goes);
    assert_eq!(kept.get("/a.txt").unwrap().content, b"a");
    // What it is sent waits, because it reads nothing for now.
    let mut slow = Client::connect(goes);
    slow.send(b"GET /large.bin HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let head = slow.receive_head().unwrap();
    assert_eq!(head.status, 200);
    reload(&server, &[stays, comes]).unwrap();
    await_answers(comes);
    await_answers(stays);
    assert!(slow.receive_exactly(large.len()).unwrap() == large);
    assert_eq!(kept.get("/a.txt").unwrap().content, b"a", "the connection goes on where its address does not");
    drop((slow, kept));
    await_refusal(goes);
    // Another process goes on with the addresses of now, and changes them as well.
    order(&server, &["upgrade"]).unwrap();
    await_answers(comes);
    reload(&server, &[goes, comes]).unwrap();
    await_answers(goes);
    await_answers(comes);
    await_refusal(stays);
    end(server);
}

fn an_address_that_cannot_be_had_leaves_all_as_it_is(engine: Engine) {
    let [own, other] = [free_port(), free_port()];
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let launch = Launch::new(engine).listen_by_config().config(&config_of(&[own]));
    let mut server = launch.file("a.txt", "a").start();
    let told = reload(&server, &[own, other, taken.local_addr().unwrap()]).unwrap_err();
    let what = format!("cannot listen on {}", taken.local_addr().unwrap());
    eventually("the reason is said", PATIENCE, || {
        (told.contains(&what) || server.said().contains(&what)).then_some(())
    });
    await_answers(own);
    assert!(TcpStream::connect(other).is_err());
    end(server);
}

#[test]
fn the_file_of_a_unix_socket_comes_and_goes_with_a_reload() {
    for engine in [AMPED, crate::engine::CO_AMPED] {
        let own = free_port();
        let server = Launch::new(engine).listen_by_config().config(&config_of(&[own])).file("a.txt", "a").start();
        let socket = server.directory().join("http.sock");
        for listens in [true, false] {
            let unix = if listens {
                format!("listen = [\"{own}\", \"unix:http.sock\"]")
            } else {
                format!("listen = [\"{own}\"]")
            };
            let config = format!("{unix}\n[[site]]\nroot = \"site\"\n");
            std::fs::write(server.directory().join("lamna.toml"), config).unwrap();
            order(&server, &["reload"]).unwrap();
            let is_there = || (std::os::unix::net::UnixStream::connect(&socket).is_ok() == listens).then_some(());
            eventually("the socket is as it should be", PATIENCE, is_there);
            eventually("its file too", PATIENCE, || (socket.exists() == listens).then_some(()));
            await_answers(own);
        }
        end(server);
    }
}

#[test]
fn a_site_that_asks_for_certificates_serves_no_client_without_one_in_clear_text() {
    let launch = Launch::new(AMPED).listen_by_config();
    make_client(launch.directory(), "ada");
    make_pair(launch.directory(), &["localhost"]);
    let config = format!(
        "listen = [{{ address = \"127.0.0.1:0\", tls = true }}, \
         {{ address = \"127.0.0.1:0\", tls = false, redirect = false }}]\n{CERTIFIED}client_ca = \"ca.pem\"\n"
    );
    let mut server = launch.config(&config).file("a.txt", "a").start();
    let open = server.addresses()[1];
    assert_eq!(ask(open, "localhost").status, 403);
    server.finish();
}
