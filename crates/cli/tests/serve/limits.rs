//! Who a client is behind a proxy, and what clients may take: with every engine.

mod holding;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::access::{ADA, BOB, OTHER, SESAME, WRONG};
use crate::client::{Client, PATIENCE, Response};
use crate::control::order;
use crate::engine::{Engine, SPED, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

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
    the_proxy_protocol_names_the_client, who_has_no_name_in_the_proxy_protocol_gives_himself_none, a_listener_for_proxies_is_for_nobody_else,
    a_network_has_so_many_connections_and_another_one_when_one_has_ended,
    who_has_too_many_connections_is_told_in_plain_http_and_counted,
    a_connection_gets_what_is_limited_no_faster_than_it_may,
    connections_of_a_network_share_what_is_limited, a_key_is_counted_wherever_it_comes_from_and_users_by_name,
    a_network_that_makes_the_server_hold_too_much_loses_what_it_does_so_with,
    a_network_that_has_got_its_bytes_is_told_when_there_are_more,
    who_asks_too_often_is_told_when_to_come_back, requests_with_content_count_as_others_do, the_limit_of_a_path_counts_however_it_is_spelled,
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

fn requests_with_content_count_as_others_do(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.0/8\"]\nrequest_limit = \"1/h burst 3\"\n";
    let server = Launch::new(engine).argument("--h2c").file("a", "hello").config(config).start();
    let mut of_http1 = |content: &str| {
        let mut client = server.connect();
        client.send(format!("POST /a HTTP/1.1\r\nHost: a\r\n{}{content}", from("192.0.2.7")).as_bytes());
        client.receive(true).expect("it is answered").status
    };
    let contents = ["Content-Length: 2\r\n\r\nxx", "Transfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n", "\r\n"];
    assert_eq!(contents.map(&mut of_http1), [405; 3]);
    assert_eq!(contents.map(of_http1), [429; 3]);
    let mut http2 = Http2::connect(server.address());
    let mut of_http2 = |client: &str| {
        let mut post = request("POST", "/a", &[("x-forwarded-for", client)]);
        *post.body_mut() = b"xx".to_vec();
        http2.ask(vec![post]).remove(0).expect("it is answered").status
    };
    assert_eq!(["192.0.2.7", "198.51.100.1"].map(&mut of_http2), [429, 405]);
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

/// A check of health, or a client without an address: what it writes itself says nothing of who it is.
fn who_has_no_name_in_the_proxy_protocol_gives_himself_none(engine: Engine) {
    let (launch, log) = planted(engine, &for_proxies("127.0.0.0/8"));
    let server = launch.start();
    let version_2 = |command: u8, rest: &[u8]| [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command][..], rest].concat();
    let own = [127, 0, 0, 1, 127, 0, 0, 1, 0, 80, 0, 80];
    let headers = [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 192.0.2.7 127.0.0.1 80 80\r\n".to_vec(),
        version_2(0, &[0, 0, 0]),
        version_2(0, &[&[0x11, 0, 12][..], &own].concat()),
        version_2(1, &[0, 0, 0]),
    ];
    let request = b"GET /a HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";
    for header in &headers {
        let mut client = server.connect();
        client.send(&[header, &request[..]].concat());
        for _ in 0..2 {
            let response = client.receive(true).unwrap();
            assert_eq!((response.status, response.field("X-From")), (200, None), "{header:?}");
            client.send(request);
        }
    }
    // A client that the header names, and that is itself a trusted proxy, is believed.
    let mut client = server.connect();
    client.send(&[b"PROXY TCP4 127.0.0.2 127.0.0.1 80 80\r\n", &request[..]].concat());
    assert_eq!(client.receive(true).unwrap().field("X-From"), Some("them"));
    let clients = logged(&log, "client.address", 2 * headers.len() + 1);
    assert!(clients.iter().filter(|one| *one == "127.0.0.1").count() >= 2 * headers.len(), "{clients:?}");
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

/// Two connections of each client network, whom the PROXY protocol names.
const TWO_CONNECTIONS: &str =
    "trusted_proxies = [\"127.0.0.0/8\"]\nproxy_protocol = [\"127.0.0.1:0\"]\nconnection_limit = 2\n";

/// A connection of `client` that has been answered, unless it was refused.
fn connected(server: &Server, client: &str) -> Option<Client<TcpStream>> {
    let mut connection = server.connect();
    connection.send(format!("PROXY {client} 80 80\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    connection.receive(true).ok().map(|response| {
        assert_eq!(response.status, 200);
        connection
    })
}

fn a_network_has_so_many_connections_and_another_one_when_one_has_ended(engine: Engine) {
    let launch = Launch::new(engine).file("a", "hello").config(TWO_CONNECTIONS);
    let server = launch.start();
    let first = connected(&server, "TCP6 2001:db8::1 ::1").expect("it is let in");
    let second = connected(&server, "TCP6 2001:db8::2 ::1").expect("it is let in");
    assert!(connected(&server, "TCP6 2001:db8::3 ::1").is_none(), "another address of the same network");
    let other = connected(&server, "TCP4 198.51.100.1 192.0.2.99").expect("another network is let in");
    drop(first);
    let third = eventually("there is room again", PATIENCE, || connected(&server, "TCP6 2001:db8::3 ::1"));
    assert!(connected(&server, "TCP6 2001:db8::1 ::1").is_none());
    drop((second, third, other));
    server.finish();
}

fn who_has_too_many_connections_is_told_in_plain_http_and_counted(engine: Engine) {
    let config = "connection_limit = 2\nlimit_exempt = []\n[[site]]\nroot = \"site\"\n";
    let server = Launch::new(engine).file("a", "hello").config(config).start();
    let begin = || {
        let mut connection = server.connect();
        connection.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let status = connection.receive(true).map(|response| response.status);
        (connection, status)
    };
    let kept = [begin(), begin()];
    assert!(kept.iter().all(|(_, status)| matches!(status, Ok(200))));
    let mut refused = server.connect();
    refused.send(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = refused.receive(true).unwrap();
    assert_eq!((response.status, response.field("Retry-After")), (429, Some("1")));
    assert_eq!(response.field("Connection"), Some("close"));
    assert_eq!(refused.receive_rest(), b"");
    drop(kept);
    eventually("there is room again", PATIENCE, || matches!(begin().1, Ok(200)).then_some(()));
    let counted: serde_json::Value = serde_json::from_str(&order(&server, &["stats", "--json"]).unwrap()).unwrap();
    assert!(counted["connections"]["limited"].as_u64() >= Some(1), "{counted}");
    server.finish();
}

#[test]
fn connections_are_counted_on_whichever_engine_they_are() {
    let config = "connection_limit = 2\nlimit_exempt = []\n[[site]]\nroot = \"site\"\n";
    let server = Launch::new(SPED).file("a", "hello").config(config).start();
    let mut kept = [server.connect(), server.connect()];
    let mut kept_are_answered = |engine: &str| {
        let answer = |one: &mut Client<TcpStream>| one.get("/a").unwrap_or_else(|fault| panic!("{engine}: {fault}"));
        assert_eq!(kept.each_mut().map(|one| answer(one).status), [200, 200], "{engine}");
    };
    let third = || server.connect().get("/a").map(|response| response.status);
    let change = |engine: &str| {
        order(&server, &["arch", "set", engine]).unwrap_or_else(|said| panic!("{engine}: {said}"));
    };
    kept_are_answered("sped");
    assert_eq!(third(), Ok(429), "sped");
    for engine in ["thread-pool", "pipelined", "proactor", "thread-per-session", "thread-per-request", "amped"] {
        change(engine);
        kept_are_answered(engine);
        assert_eq!(third(), Ok(429), "{engine}");
    }
    for engine in ["co-amped", "mp", "sped"] {
        change(engine);
        kept_are_answered(engine);
        // They may have been answered by the process before, and be on their way.
        eventually("they have arrived", PATIENCE, || (third() == Ok(429)).then_some(()));
    }
    drop(kept);
    eventually("there is room again", PATIENCE, || (third() == Ok(200)).then_some(()));
    order(&server, &["drain"]).expect("who serves now can end");
}

/// A site where one limit is for everybody, this machine included.
fn limited(limit: &str) -> String {
    format!(
        "limit_exempt = []\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\n[[site.limit]]\npath = \"/slow/\"\n{limit}\n"
    )
}

fn a_connection_gets_what_is_limited_no_faster_than_it_may(engine: Engine) {
    let content = pattern(3 << 20, 7);
    let config = limited("bandwidth = \"1MiB/s after 512KiB\"");
    let server = Launch::new(engine).file("slow/a", &content).file("b", "quick").config(&config).start();
    let mut client = server.connect();
    let begun = Instant::now();
    let response = client.get("/slow/a").unwrap();
    assert!(response.status == 200 && response.content == content);
    // 512 KiB, and ten segments of loopback, leave at once. However busy the machine is, it does not take less than the
    // rest lasts.
    assert!(begun.elapsed() > Duration::from_millis(1000), "{:?}", begun.elapsed());
    // Everything else of the connection arrives as well.
    assert_eq!(client.get("/b").unwrap().content, b"quick");
    assert_eq!(client.get("/slow/a").unwrap().content, content);
    server.finish();
}

fn a_network_that_has_got_its_bytes_is_told_when_there_are_more(engine: Engine) {
    let config = limited("bytes = \"1MB/d burst 1MB\"");
    let server = Launch::new(engine).file("slow/a", pattern(700_000, 7)).file("b", "free").config(&config).start();
    let get = |path: &str| server.connect().get(path).unwrap();
    assert_eq!((get("/slow/a").status, get("/slow/a").status), (200, 200));
    let refused = eventually("it has been counted", PATIENCE, || Some(get("/slow/a")).filter(|one| one.status == 429));
    refused.check().unwrap();
    let wait: u64 = refused.field("Retry-After").and_then(|text| text.parse().ok()).expect("it is a number");
    assert!((1..=86_400).contains(&wait), "{wait}");
    assert_eq!(refused.field("RateLimit-Policy"), Some("\"site-1-bytes\";q=1000000;qu=\"content-bytes\";w=86400"));
    assert_eq!(get("/b").status, 200, "other paths are free");
    server.finish();
}

fn a_network_that_makes_the_server_hold_too_much_loses_what_it_does_so_with(engine: Engine) {
    let config = "network_bytes_max = \"8KiB\"\nlimit_exempt = []\n[[site]]\nroot = \"site\"\n";
    let server = Launch::new(engine).file("a", "hello").config(config).start();
    // A head whose end does not come.
    let mut heavy = TcpStream::connect(server.address()).unwrap();
    heavy.set_nonblocking(true).unwrap();
    let begun = format!("GET /a HTTP/1.1\r\nHost: a\r\nX-A: {}", "x".repeat(10_000));
    heavy.write_all(begun.as_bytes()).unwrap();
    eventually("it is closed", PATIENCE, || {
        let is_refused = heavy.write_all(b"x").is_err();
        let is_over = matches!(heavy.read(&mut [0; 512]), Ok(0)) || is_refused;
        is_over.then_some(())
    });
    assert_eq!(server.connect().get("/a").map(|response| response.status), Ok(200), "others of its network go on");
    server.finish();
}

fn connections_of_a_network_share_what_is_limited(engine: Engine) {
    let content = pattern(1 << 20, 7);
    let server = Launch::new(engine).file("slow/a", &content).config(&limited("shared_bandwidth = \"1MiB/s\"")).start();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for mut client in (0..4).map(|_| server.connect()).collect::<Vec<_>>() {
            let content = &content;
            scope.spawn(move || assert!(client.get("/slow/a").unwrap().content == *content));
        }
    });
    // Ten segments of loopback of each leave at once, and what one has handed to the kernel goes on at the speed of
    // before. By itself each would be there after less than half a second.
    assert!(begun.elapsed() > Duration::from_millis(800), "{:?}", begun.elapsed());
    server.finish();
}

fn a_key_is_counted_wherever_it_comes_from_and_users_by_name(engine: Engine) {
    let users = format!("ada = {SESAME:?}, bob = {OTHER:?}");
    let config = format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\nrequest_limit = \"off\"\n[[site]]\nroot = \"site\"\nusers = {{ {users} }}\n\
         [[site.limit]]\nkey = \"header:X-Api-Key\"\npath = \"/api/\"\nrequests = \"1/h burst 2\"\n\
         [[site.limit]]\nkey = \"user\"\npath = \"/in/\"\nrequests = \"1/h burst 2\"\n\
         [[site.route]]\nmatch = \"/in/*\"\naccess = {{ users = [\"*\"] }}\n"
    );
    let server = Launch::new(engine).file("api/a", "hello").file("in/a", "hello").config(&config).start();
    let get = |target: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap_or_else(|fault| panic!("{target}: {fault}"))
    };
    let with_key = |key: &str, client: &str| get("/api/a", &format!("X-API-key: {key}\r\n{}", from(client)));
    assert_eq!((with_key("a", "192.0.2.1").status, with_key("a", "192.0.2.2").status), (200, 200));
    let refused = with_key("a", "192.0.2.3");
    assert_eq!((refused.status, refused.field("RateLimit-Policy")), (429, Some("\"site-1\";q=2;w=7200")));
    assert_eq!(with_key("b", "192.0.2.3").status, 200, "another key");
    // Who has none is counted with his network.
    let without = |client: &str| get("/api/a", &from(client)).status;
    assert_eq!((without("192.0.2.7"), without("192.0.2.7"), without("192.0.2.7")), (200, 200, 429));
    assert_eq!(without("192.0.2.8"), 200, "another network");
    let as_user = |shown: &str, client: &str| get("/in/a", &format!("{shown}{}", from(client))).status;
    // Who only says that he is somebody does not use up what that one may.
    assert!((0..4).all(|number| as_user(WRONG, &format!("192.0.2.{number}")) == 401));
    assert_eq!((as_user(ADA, "192.0.2.1"), as_user(ADA, "192.0.2.2")), (200, 200));
    assert_eq!((as_user(ADA, "192.0.2.3"), as_user(BOB, "192.0.2.3")), (429, 200));
    server.finish();
}
