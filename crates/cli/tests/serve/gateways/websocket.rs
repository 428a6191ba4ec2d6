//! WebSockets over TLS: over HTTP/1.1, and over HTTP/2, where a stream is the tunnel (RFC 8441) and the application is
//! asked as over HTTP/1.1.

use rustls::pki_types::ServerName;

use super::Application;
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::tls::{connect as connect_over_tls, trusting};
use crate::tree::pattern;

for_engines!([
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
    a_connection_over_tls_is_a_tunnel_to_its_end,
    a_stream_is_a_tunnel_to_its_end,
    who_does_not_agree_is_told_as_it_is,
]);

fn launch(engine: Engine, application: &Application) -> Server {
    let to = application.address;
    let lines = format!(
        "[[site]]\nroot = \"site\"\nroute = [{{ match = {{ path = \"/app/*\", method = \"GET\" }}, proxy = \"http://{to}\" }}]\n"
    );
    Launch::new(engine).file("a.txt", "a file\n").config(&lines).argument("--tls").start()
}

fn connect(server: &Server) -> Http2 {
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let mut client = Http2::connect_secured(server.address(), &trusting(server), name);
    // What the server offers has come when something has been answered.
    assert_eq!(client.get("/a.txt").content, b"a file\n");
    client
}

fn a_connection_over_tls_is_a_tunnel_to_its_end(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application);
    let mut client = connect_over_tls(&server, &trusting(&server));
    client.send(
        b"GET /app/web-socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\r\n",
    );
    let head = client.receive_head().unwrap();
    assert_eq!((head.status, head.field("Upgrade")), (101, Some("websocket")));
    for bytes in [1, 100, 70_000] {
        client.send(&pattern(bytes, 9));
        assert!(client.receive_exactly(bytes).unwrap() == pattern(bytes, 9), "{bytes}");
    }
    client.end_sending();
    client.expect_end().unwrap();
    server.finish();
}

fn a_stream_is_a_tunnel_to_its_end(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application);
    let mut client = connect(&server);
    let mut tunnel = client.open("websocket", "/app/web-socket").unwrap();
    assert_eq!(tunnel.head.status(), 200);
    let field = |name: &str| tunnel.head.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(field("x-told").as_deref(), Some("GET"), "it is asked as over HTTP/1.1");
    for name in ["upgrade", "connection", "sec-websocket-accept"] {
        assert_eq!(field(name), None, "{name}");
    }
    for bytes in [1, 100, 70_000, 400_000] {
        assert!(client.exchange(&mut tunnel, &pattern(bytes, 9)) == pattern(bytes, 9), "{bytes}");
    }
    // A second beside it, and a file beside both, where an engine has no thread for each.
    let mut other = client.open("websocket", "/app/web-socket").unwrap();
    assert_eq!(client.get("/a.txt").content, b"a file\n");
    assert_eq!(client.exchange(&mut other, b"other"), b"other");
    assert_eq!(client.exchange(&mut tunnel, b"first"), b"first");
    assert_eq!(client.end(other), b"", "its end is passed on, and comes back");
    assert_eq!(client.exchange(&mut tunnel, b"still"), b"still");
    assert_eq!(client.end(tunnel), b"");
    server.finish();
}

fn who_does_not_agree_is_told_as_it_is(engine: Engine) {
    let application = Application::start();
    let server = launch(engine, &application);
    let mut client = connect(&server);
    for (protocol, path, status) in [
        // An answer that would say that there is a tunnel, and one that is not to this handshake.
        ("websocket", "/app/sized/3", 502),
        ("websocket", "/app/web-socket-of-others", 502),
        ("websocket", "/app/nothing", 502),
        ("websocket", "/app/refuses", 413),
        // Nobody speaks these here.
        ("connect-udp", "/app/web-socket", 501),
        ("websocket", "/a.txt", 405),
    ] {
        let refused = client.open(protocol, path).unwrap();
        assert_eq!(refused.head.status(), status, "{protocol} {path}");
    }
    assert_eq!(client.get("/a.txt").content, b"a file\n");
    server.finish();
}

#[test]
fn an_application_learns_that_a_stream_was_taken_back() {
    let application = Application::start();
    let server = launch(AMPED, &application);
    let mut client = connect(&server);
    let mut tunnel = client.open("websocket", "/app/web-socket").unwrap();
    assert_eq!(client.exchange(&mut tunnel, b"hi"), b"hi");
    client.take_back(tunnel);
    assert_eq!(client.get("/a.txt").content, b"a file\n");
    eventually("the exchange is over", PATIENCE, || {
        order(&server, &["status"]).unwrap().contains(": up, 0 under way").then_some(())
    });
    server.finish();
}

#[test]
fn nobody_offers_tunnels_who_asks_no_application() {
    let server = Launch::new(AMPED).file("a.txt", "a file\n").argument("--h2c").start();
    let mut client = Http2::connect(server.address());
    assert_eq!(client.get("/a.txt").content, b"a file\n");
    assert!(!client.offers_tunnels());
    server.finish();
}
