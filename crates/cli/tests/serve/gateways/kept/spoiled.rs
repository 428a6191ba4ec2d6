//! Nobody spoils what is kept for others: keys are the bytes that the application is asked for, and what comes of the
//! conditions, the range or the odd fields of one request is for nobody else.
//!
//! Owns: an application that answers by a function of the request ([`Asked`]).

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use super::HIT;
use crate::client::{APPLICATION_PATIENCE, Client, Response};
use crate::engine::{Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server};

for_engines!([
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    what_the_application_tells_apart_is_kept_apart,
    what_comes_of_one_request_is_for_nobody_else,
    words_of_a_trusted_proxy_are_kept_apart_and_a_change_overtakes_all,
]);

/// What an application was asked: the heads of requests.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    /// How often for `target`.
    fn count(&self, target: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|head| head.split(' ').nth(1) == Some(target)).count()
    }
}

/// Gives each request what `answer` says of its head: status and further fields, and content.
fn application(answer: impl Fn(&str) -> (String, String) + Clone + Send + 'static) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, asked) = (listener.local_addr().unwrap(), Asked::default());
    let of_thread = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
            let (answer, asked) = (answer.clone(), of_thread.clone());
            thread::spawn(move || {
                let mut line = BufReader::new(stream);
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if !line.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {
                            return;
                        }
                    }
                    let (said, content) = answer(&head);
                    asked.0.lock().unwrap().push(head);
                    let head = format!("HTTP/1.1 {said}\r\nContent-Length: {}\r\n\r\n", content.len());
                    if line.get_mut().write_all(format!("{head}{content}").as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, asked)
}

/// What an application says with a status is its own affair here.
fn get(client: &mut Client<TcpStream>, target: &str, fields: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes());
    client.receive(true).unwrap_or_else(|fault| panic!("{target} {fields}: {fault}"))
}

fn start(engine: Engine, application: SocketAddr) -> Server {
    let lines = format!(
        "h2c = true\n[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{application}\"\n\
         cache = {{ ignore_query = [\"utm_*\"] }}\n"
    );
    Launch::new(engine).config(&lines).start()
}

fn what_the_application_tells_apart_is_kept_apart(engine: Engine) {
    let (address, asked) = application(|head| {
        let target = head.split(' ').nth(1).unwrap();
        let host = head.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
        ("200 OK\r\nCache-Control: max-age=600".to_owned(), format!("{target} of {host}"))
    });
    let server = start(engine, address);
    let (mut client, mut other) = (server.connect(), Http2::connect(server.address()));
    let text = |content: Vec<u8>| String::from_utf8(content).unwrap();
    for reserved in
        ["!3B;", "!40@", "!2C,", "!2B+", "!3D=", "!21!", "!24$", "!26&", "!27'", "!28(", "!29)", "!2A*", "!3A:"]
    {
        let both = reserved.replacen('!', "%", 1);
        let (encoded, plain) = both.split_at(3);
        // Each way round, and by other spellings of the same bytes.
        for (round, [first, second]) in [[encoded, plain], [plain, encoded]].into_iter().enumerate() {
            let target = |one: &str| format!("/{round}x{one}v=1");
            for one in [first, second] {
                let target = target(one);
                // Digits of an encoding are one spelling in either case.
                assert_eq!(text(get(&mut client, &target, "").content), format!("{target} of test"));
                let lower = target.to_lowercase();
                assert_eq!(text(get(&mut client, &format!("//a/..{lower}"), "").content), format!("{target} of test"));
                assert_eq!(asked.count(&target), 1, "{target}");
            }
        }
    }
    assert_eq!(text(get(&mut client, "/%7Ea%41", "").content), "/%7Ea%41 of test");
    assert_eq!(text(get(&mut client, "/~aA", "").content), "/~aA of test");
    assert_eq!(get(&mut client, "/%7Ea%41", "").field("Cache-Status"), Some(HIT));
    // The application never gets what is not in the key.
    for (given, expected) in [
        ("/q?q=1&utm_a=1;q=evil", "/q?q=1"),
        ("/q?utm_b=2&q=1&utm_c", "/q?q=1"),
        ("/q?utm_a=1", "/q"),
        ("/q?", "/q?"),
        ("/q", "/q"),
        ("/q?q=1;utm_a=1", "/q?q=1;utm_a=1"),
    ] {
        for _ in 0..2 {
            assert_eq!(text(get(&mut client, given, "").content), format!("{expected} of test"), "{given}");
        }
        assert_eq!(text(other.get(given).content), format!("{expected} of a"), "HTTP/2: {given}");
        assert_eq!(asked.count(expected), 2, "{given}: once for each host");
    }
    // A request that may change something is asked as it came.
    client.send(b"POST /q?q=1&utm_a=1 HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(text(client.receive(true).unwrap().content), "/q?q=1&utm_a=1 of test");
    assert_eq!(text(get(&mut client, "/q?q=1", "").content), "/q?q=1 of test");
    assert_eq!(asked.count("/q?q=1"), 3, "what was kept for it is used no more");
    // Hosts are found in any case, and asked for in one.
    for host in ["An.Example", "an.example", "AN.EXAMPLE"] {
        client.send(format!("GET /h HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert_eq!(text(client.receive(true).unwrap().content), "/h of an.example");
    }
    assert_eq!(asked.count("/h"), 1);
    drop(other);
    server.finish();
}

fn what_comes_of_one_request_is_for_nobody_else(engine: Engine) {
    let (address, asked) = application(|head| {
        let has = |name: &str| head.lines().any(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
        let odd = head.lines().find_map(|line| line.strip_prefix("X-Odd: ").or(line.strip_prefix("x-odd: ")));
        let status = match odd {
            Some(status) => status,
            None if has("if-match") || has("if-unmodified-since") => "412",
            None if has("range") => "416",
            None if has("if-none-match") && !head.contains("\"e\"") => "304",
            None if head.len() > 3_000 => "431",
            None if has("accept") => "406",
            None if [
                "x-http-method-override",
                "x_http_method_override",
                "x-http-method",
                "x-original-url",
                "x-rewrite-url",
            ]
            .iter()
            .any(|name| has(name)) =>
            {
                "404"
            }
            None => "200",
        };
        let vary = if head.starts_with("GET /vary") { "\r\nVary: X-Forwarded-For" } else { "" };
        (format!("{status} Said\r\nCache-Control: max-age=600\r\nETag: \"e\"{vary}"), format!("said {status}"))
    });
    let server = start(engine, address);
    let (mut client, mut other) = (server.connect(), Http2::connect(server.address()));
    let statuses =
        [400, 401, 403, 405, 406, 408, 411, 412, 413, 414, 415, 416, 417, 421, 422, 426, 428, 429, 431, 451, 499, 500];
    let mut odd: Vec<(String, u16)> = statuses
        .into_iter()
        .chain([501, 502, 503, 504, 599])
        .map(|status| (format!("X-Odd: {status}\r\n"), status))
        .collect();
    let long = format!("X-Long: {}\r\n", "x".repeat(3_000));
    for (fields, status) in [
        ("If-Match: \"other\"\r\n", 412),
        ("If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 412),
        ("Range: bytes=900-\r\n", 416),
        ("If-None-Match: \"x\"\r\n", 304),
        (&long, 431),
        ("Accept: a/b\r\n", 406),
        ("X-HTTP-Method-Override: DELETE\r\n", 404),
        ("X-Http-Method: PUT\r\n", 404),
        ("X-Original-URL: /admin\r\n", 404),
        ("X-Rewrite-Url: /admin\r\n", 404),
    ] {
        odd.push((fields.to_owned(), status));
    }
    for (index, (fields, status)) in odd.iter().enumerate() {
        // What comes first is for who has sent that.
        let target = format!("/first/{index}");
        assert_eq!(get(&mut client, &target, fields).status, *status, "{fields}");
        assert_eq!(get(&mut client, &target, "").status, 200, "{fields}");
        assert_eq!(other.get(&target).status, 200, "{fields}");
        let again = get(&mut client, &target, "");
        assert_eq!((again.status, again.field("Cache-Status")), (200, Some(HIT)), "{fields}");
        // Nor does it take away what is kept, however it is asked for.
        let target = format!("/second/{index}");
        assert_eq!(get(&mut client, &target, "").status, 200);
        for reload in ["", "Cache-Control: no-cache\r\n"] {
            get(&mut client, &target, &format!("{reload}{fields}"));
        }
        let again = get(&mut client, &target, "");
        assert_eq!((again.status, again.field("Cache-Status")), (200, Some(HIT)), "{fields}");
    }
    // Who sends the same gets the same, as far as it may be kept at all; who sends another number does not.
    for (index, (fields, times)) in [("X-Odd: 400\r\n", 1), ("X-Odd: 503\r\nX-Count: 1\r\n", 3)].into_iter().enumerate()
    {
        let target = format!("/same/{index}");
        for count in 1..4 {
            get(&mut client, &target, &fields.replace("X-Count: 1", &format!("X-Count: {count}")));
        }
        assert_eq!(asked.count(&target), times, "{fields}");
    }
    // What is not there is not there for anybody.
    get(&mut client, "/gone", "X-Odd: 404\r\n");
    assert_eq!(get(&mut client, "/gone", "").status, 404);
    // Nobody knows for whom it is.
    get(&mut client, "/vary", "");
    get(&mut client, "/vary", "");
    assert_eq!(asked.count("/vary"), 2);
    drop(other);
    server.finish();
}

/// A proxy that writes one field lets its clients write the rest.
fn words_of_a_trusted_proxy_are_kept_apart_and_a_change_overtakes_all(engine: Engine) {
    let (address, asked) = application(|head| {
        let told: Vec<&str> = head.lines().filter(|line| line.to_lowercase().contains("forwarded")).collect();
        ("200 OK\r\nCache-Control: max-age=600".to_owned(), told.join("\n"))
    });
    for (field, words) in [
        (
            "x-forwarded-for",
            ["", "X-Forwarded-Prefix: /a\r\n", "X-Forwarded-Port: 81\r\n", "X-Forwarded-Proto: gopher\r\n"],
        ),
        (
            "forwarded",
            ["", "Forwarded: for=192.0.2.7;host=evil.test\r\n", "Forwarded: proto=https\r\n", "Forwarded: host=b\r\n"],
        ),
    ] {
        let config = format!(
            "trusted_proxies = [\"127.0.0.1\"]\nforwarded_field = \"{field}\"\n[[site]]\nroot = \"site\"\n\
             [[site.route]]\nmatch = \"/*\"\nproxy = \"http://{address}\"\ncache = true\n"
        );
        let server = Launch::new(engine).config(&config).start();
        let mut client = server.connect();
        let target = format!("/{field}");
        let first = words.map(|words| get(&mut client, &target, words).content);
        for (at, one) in first.iter().enumerate() {
            assert!(!first[..at].contains(one), "each is told to the application: {field} {at}");
            let again = get(&mut client, &target, words[at]);
            assert_eq!((again.field("Cache-Status"), &again.content), (Some(HIT), one), "{field} {at}");
        }
        // What the other field says is nobody's.
        let other =
            if field == "forwarded" { "X-Forwarded-Prefix: /evil\r\n" } else { "Forwarded: host=evil.test\r\n" };
        let spoilt = get(&mut client, &target, other);
        assert_eq!((spoilt.field("Cache-Status"), &spoilt.content), (Some(HIT), &first[0]), "{field}");
        // By another way than any of them was asked for.
        let before = asked.count(&target);
        client.send(format!("POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).expect("it is answered").status, 200);
        for words in words {
            assert_ne!(get(&mut client, &target, words).field("Cache-Status"), Some(HIT), "{field} {words}");
        }
        assert_eq!(asked.count(&target), before + 1 + words.len());
        server.finish();
    }
}
