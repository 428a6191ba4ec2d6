//! Who is turned away is told so whatever it brings: credentials, limits and redirects come before the size of the
//! content, and the client sees the answer, not a reset.
//!
//! Owns: these cases, with every engine: ways to be turned away, by what would have answered, version and framing.

use std::net::TcpStream;

use super::{ADA, SESAME, WRONG};
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{Engine, for_engines};
use crate::gateways::Application;
use crate::http2::{Http2, request};
use crate::server::{Launch, Server, eventually};
use crate::tree::pattern;

for_engines!(all every_architecture_turns_away_before_it_measures: [
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
    who_is_turned_away_is_told_so_whatever_it_brings,
]);

/// More than is discarded, and than the kernel takes on the way.
const LARGE: usize = 20_000_000;

fn start(engine: Engine, application: &Application) -> Server {
    let to = application.address;
    let users = "access = { users = [\"ada\"] }";
    let routes = [
        ("users", users.to_owned()),
        ("app/echo/users", format!("proxy = \"http://{to}\"\n{users}")),
        ("app/echo/kept", format!("proxy = {{ to = \"http://{to}\", buffer = true }}\n{users}")),
        ("fastcgi", format!("fastcgi = {{ to = \"{to}\", extensions = [] }}\n{users}")),
        ("cgi", format!("cgi = true\n{users}")),
        ("net", "access = { allow = [\"192.0.2.0/24\"] }".to_owned()),
        ("service", format!("access = {{ service = {{ to = \"http://{to}\", path = \"/app/verify\" }} }}")),
        ("moved", "redirect = { to = \"/there\", status = 308 }".to_owned()),
        ("open", "upload = false".to_owned()),
    ];
    let routes = routes.map(|(path, keys)| format!("[[site.route]]\nmatch = \"/{path}/*\"\n{keys}\n"));
    let config =
        format!("[[site]]\nroot = \"site\"\nupload = true\nusers = {{ ada = \"{SESAME}\" }}\n{}", routes.concat());
    Launch::new(engine).file("open/a.txt", "a\n").file("users/a.txt", "a\n").argument("--h2c").config(&config).start()
}

fn chunked(content: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    for chunk in content.chunks(100_000) {
        framed.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
    }
    framed.extend(b"0\r\n\r\n");
    framed
}

/// Sends all of it, as browsers do, and only then looks at what has come.
fn send(client: &mut Client<TcpStream>, head: &str, content: &[u8]) -> Response {
    client.send(format!("{head}\r\n").as_bytes());
    client.send(content);
    client.receive(true).unwrap_or_else(|fault| panic!("{head}: {fault}"))
}

fn who_is_turned_away_is_told_so_whatever_it_brings(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let (large, small) = (pattern(LARGE, 3), pattern(1_000, 3));
    // Who is known is not held back for what others guess.
    assert_eq!(send(&mut server.connect(), &format!("GET /users/a.txt HTTP/1.1\r\nHost: a\r\n{ADA}"), b"").status, 200);
    let cases = [
        ("PUT", "/users/new", "", 401),
        ("POST", "/users/", "Content-Type: multipart/form-data; boundary=x\r\n", 401),
        ("PUT", "/users/new", WRONG, 401),
        ("POST", "/app/echo/users/a", "", 401),
        ("QUERY", "/app/echo/users/a", WRONG, 401),
        ("POST", "/app/echo/kept/a", "", 401),
        ("POST", "/fastcgi/a", "", 401),
        ("DELETE", "/cgi/a", "", 401),
        ("PUT", "/net/new", "", 403),
        ("GET", "/net/new", "", 403),
        ("PUT", "/service/new", "", 401),
        ("GET", "/moved/a", "", 308),
        ("POST", "/open/a.txt", "", 405),
        ("GET", "/open/none", "", 404),
    ];
    for (index, (method, path, fields, status)) in cases.into_iter().enumerate() {
        // Who guesses has to wait after a while.
        let is_meant = |seen: u16| seen == status || seen == 429 && fields == WRONG;
        let head = |version: &str, more: &str| format!("{method} {path} HTTP/{version}\r\nHost: a\r\n{fields}{more}");
        // The large ones take their time: each way for some of the cases.
        let is_large = index % 3 == 0 || status == 403;
        let content = if is_large { &large } else { &large[..2_000_000] };
        let length = format!("Content-Length: {}\r\n", content.len());
        for (version, framing, content) in [
            ("1.1", &*length, content.to_vec()),
            ("1.0", &*length, content.to_vec()),
            ("1.1", "Transfer-Encoding: chunked\r\n", chunked(content)),
        ] {
            let mut client = server.connect();
            let answer = send(&mut client, &head(version, framing), &content);
            assert!(is_meant(answer.status), "{method} {path} {version} {framing}: {}", answer.status);
            assert_eq!(answer.field("Connection"), Some("close"), "{method} {path} {version} {framing}");
            if answer.status == 401 {
                assert!(answer.field("WWW-Authenticate").is_some(), "{path}");
            }
        }
        for framing in [&*length, "Content-Length: 1000\r\n", "Transfer-Encoding: chunked\r\n"] {
            // It waits to be told to send it.
            let answer = send(&mut server.connect(), &head("1.1", &format!("Expect: 100-continue\r\n{framing}")), b"");
            assert!(is_meant(answer.status), "{method} {path} {framing}, expecting: {}", answer.status);
        }
        for (framing, content) in
            [("Content-Length: 1000\r\n", small.clone()), ("Transfer-Encoding: chunked\r\n", chunked(&small))]
        {
            let mut client = server.connect();
            for _ in 0..2 {
                let answer = send(&mut client, &head("1.1", framing), &content);
                assert!(is_meant(answer.status), "{method} {path} {framing}: {}", answer.status);
                if answer.field("Connection") == Some("close") {
                    client = server.connect();
                } else {
                    assert_eq!(client.get("/open/a.txt").unwrap().content, b"a\n", "{path}: it is in step");
                }
            }
        }
        let fields: Vec<(&str, &str)> = fields.lines().map(|line| line.split_once(": ").unwrap()).collect();
        let mut client = Http2::connect(server.address());
        let length = content.len().to_string();
        let sized = [&fields[..], &[("content-length", &*length)]].concat();
        let waiting = [&sized[..], &[("expect", "100-continue")]].concat();
        let asked = |fields: &[(&str, &str)], content: &[u8]| request(method, path, fields).map(|_| content.to_vec());
        let many =
            vec![asked(&sized, content), asked(&fields, content), asked(&fields, &small), asked(&waiting, content)];
        for answer in client.ask_to_be_refused(many) {
            let seen = answer.map(|answer| answer.status);
            assert!(seen.as_ref().is_ok_and(|status| is_meant(*status)), "HTTP/2: {method} {path}: {seen:?}");
        }
        assert_eq!(client.get("/open/a.txt").content, b"a\n");
        drop(client);
    }
    // Who says who it is gets what it asked for.
    let mut client = server.connect();
    let length = large.len();
    let put = format!("PUT /users/new HTTP/1.1\r\nHost: a\r\n{ADA}Content-Length: {length}\r\n");
    // A process that does not know her yet verifies her password when those that were wrong let it.
    eventually("her password is verified", PATIENCE, || {
        let status = send(&mut server.connect(), &put, &large).status;
        assert!(matches!(status, 201 | 204 | 429), "{status}");
        (status != 429).then_some(())
    });
    let post = format!("POST /app/echo/users/a HTTP/1.1\r\nHost: a\r\n{ADA}Content-Length: {length}\r\n");
    // Sent and received at once it would be passed on at once: here it has to be kept.
    let post = post.replace("/users/", "/kept/");
    eventually("her content comes back", PATIENCE, || {
        let answer = send(&mut server.connect(), &post, &large);
        assert!(answer.status == 429 || answer.content == large, "{}", answer.status);
        (answer.status != 429).then_some(())
    });
    // Where nobody is turned away, the size counts.
    let too_large = format!("GET /open/a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n");
    assert_eq!(send(&mut client, &too_large, &large).status, 413);
    server.finish();
}
