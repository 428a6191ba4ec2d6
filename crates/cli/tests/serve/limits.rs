//! Who a client is behind a proxy, and what clients may take: with every engine.

use std::fs;
use std::path::Path;

use crate::client::{PATIENCE, Response};
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, Server, eventually};

for_engines!([
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    routes_and_the_log_see_the_client_behind_a_trusted_proxy, nobody_else_says_where_he_comes_from,
    the_proxy_protocol_names_the_client, a_listener_for_proxies_is_for_nobody_else,
    who_asks_too_often_is_told_when_to_come_back, the_limit_of_a_path_counts_however_it_is_spelled,
]);

/// A page for a network, and another one for everybody.
const BY_CLIENT: &str = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = { client = \"192.0.2.0/24\" }\n\
                         headers = { X-From = \"them\" }\n";

fn ask(server: &Server, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET /a HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n{fields}\r\n").as_bytes());
    client.receive(true).unwrap_or_else(|fault| panic!("{fields}: {fault}"))
}

/// The values of `key` in the lines of an access log in JSON, once there are so many lines.
fn logged(log: &Path, key: &str, lines: usize) -> Vec<String> {
    eventually("the lines are written", PATIENCE, || {
        let text = fs::read_to_string(log).unwrap_or_default();
        let all: Vec<serde_json::Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let value = |line: &serde_json::Value| line[key].as_str().unwrap_or_default().to_owned();
        (all.len() >= lines).then(|| all.iter().map(value).collect())
    })
}

fn planted(engine: Engine, config: &str) -> (Launch, std::path::PathBuf) {
    let launch = Launch::new(engine).file("a", "hello").config(config);
    let log = launch.directory().join("access.log");
    let launch =
        launch.argument("--log").argument(&log.display().to_string()).argument("--log-format").argument("json");
    (launch, log)
}

fn routes_and_the_log_see_the_client_behind_a_trusted_proxy(engine: Engine) {
    let (launch, log) = planted(engine, &format!("trusted_proxies = [\"127.0.0.0/8\"]\n{BY_CLIENT}"));
    let server = launch.start();
    // Found out, and cached.
    for _ in 0..2 {
        let theirs = ask(&server, "X-Forwarded-For: 6.6.6.6, 192.0.2.7, 127.0.0.9\r\n");
        assert_eq!((theirs.status, theirs.field("X-From")), (200, Some("them")));
        let others = ask(&server, "X-Forwarded-For: 192.0.2.7, 198.51.100.1\r\n");
        assert_eq!((others.status, others.field("X-From")), (200, None));
    }
    let clients = logged(&log, "client.address", 4);
    let count = |client: &str| clients.iter().filter(|one| *one == client).count();
    assert_eq!((count("192.0.2.7"), count("198.51.100.1")), (2, 2), "{clients:?}");
    server.finish();
}

fn nobody_else_says_where_he_comes_from(engine: Engine) {
    let (launch, log) = planted(engine, &format!("trusted_proxies = [\"192.0.2.0/24\", \"unix\"]\n{BY_CLIENT}"));
    let server = launch.start();
    let response = ask(&server, "X-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n");
    assert_eq!((response.status, response.field("X-From")), (200, None));
    assert_eq!(logged(&log, "client.address", 1), ["127.0.0.1"]);
    server.finish();
}

/// A field by which the trusted proxy says who asks.
fn from(client: &str) -> String {
    format!("X-Forwarded-For: {client}\r\n")
}

fn who_asks_too_often_is_told_when_to_come_back(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.0/8\"]\nrequest_limit = \"2/h burst 3\"\n";
    let server = Launch::new(engine).file("a", "hello").config(config).start();
    for _ in 0..3 {
        assert_eq!(ask(&server, &from("2001:db8::1")).status, 200);
    }
    // Another address of the same network.
    let refused = ask(&server, &from("2001:db8::2"));
    assert_eq!(refused.status, 429);
    refused.check().unwrap();
    let wait: u64 = refused.field("Retry-After").and_then(|text| text.parse().ok()).expect("it is a number");
    assert!((1..=1800).contains(&wait), "{wait}");
    assert_eq!(refused.field("RateLimit"), Some(&*format!("\"server\";r=0;t={wait}")));
    assert_eq!(refused.field("RateLimit-Policy"), Some("\"server\";q=3;w=5400"));
    assert_eq!(ask(&server, &from("2001:db8:0:1::1")).status, 200, "another network");
    assert_eq!(ask(&server, &from("192.0.2.1")).status, 200, "another network");
    // The proxy itself is not limited, nor is this machine.
    assert!((0..10).all(|_| ask(&server, "").status == 200));
    server.finish();
}

fn the_limit_of_a_path_counts_however_it_is_spelled(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.0/8\"]\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\n[[site.limit]]\n\
                  path = \"/api/\"\nrequests = \"1/h burst 2\"\n";
    let server = Launch::new(engine).file("a", "hello").file("api/a", "hello").config(config).start();
    let get = |target: &str| {
        let mut client = server.connect();
        let fields = from("192.0.2.1");
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap_or_else(|fault| panic!("{target}: {fault}"))
    };
    assert_eq!((get("/api/a").status, get("/%61pi/a").status), (200, 200));
    for target in ["/api/a", "//api/a", "/x/../api/a", "/%61pi/a?b"] {
        let refused = get(target);
        assert_eq!(
            (refused.status, refused.field("RateLimit-Policy")),
            (429, Some("\"site-1\";q=2;w=7200")),
            "{target}"
        );
    }
    assert!((0..5).all(|_| get("/a").status == 200), "other paths are free");
    server.finish();
}

/// A configuration whose listener is for proxies of a network.
fn for_proxies(network: &str) -> String {
    format!("trusted_proxies = [\"{network}\"]\nproxy_protocol = [\"127.0.0.1:0\"]\n{BY_CLIENT}")
}

fn the_proxy_protocol_names_the_client(engine: Engine) {
    let (launch, log) = planted(engine, &for_proxies("127.0.0.0/8"));
    let server = launch.start();
    let version_2 = |client: [u8; 4]| {
        let signature = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";
        [&signature[..], &client, &[127, 0, 0, 1, 0, 80, 0, 80]].concat()
    };
    let request = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let version_1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 80 80\r\n".to_vec();
    let headers = [(version_1, Some("them")), (version_2([192, 0, 2, 7]), Some("them")), (version_2([8; 4]), None)];
    for (header, from) in headers {
        // At once, and byte by byte; and a second request on the same connection.
        for is_whole in [true, false] {
            let mut client = server.connect();
            match is_whole {
                true => client.send(&[&header[..], request].concat()),
                false => client.send_slowly(&[&header[..], request].concat()),
            }
            for is_last in [false, true] {
                let response = client.receive(true).unwrap();
                assert_eq!((response.status, response.field("X-From")), (200, from));
                if !is_last {
                    client.send(request);
                }
            }
        }
    }
    let clients = logged(&log, "client.address", 12);
    let count = |client: &str| clients.iter().filter(|one| *one == client).count();
    assert_eq!((count("192.0.2.7"), count("8.8.8.8")), (8, 4), "{clients:?}");
    server.finish();
}

fn a_listener_for_proxies_is_for_nobody_else(engine: Engine) {
    let request = b"GET /a HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 80 80\r\n";
    for (network, bytes) in [("127.0.0.0/8", request.to_vec()), ("192.0.2.0/24", [&header[..], request].concat())] {
        let server = Launch::new(engine).file("a", "hello").config(&for_proxies(network)).start();
        let mut client = server.connect();
        client.send(&bytes);
        assert_eq!(client.receive_rest(), b"", "{network}");
        server.finish();
    }
}
