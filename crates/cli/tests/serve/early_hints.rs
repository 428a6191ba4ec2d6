//! Hints before the answer (103 Early Hints), with every engine: who gets which, what becomes of them, and that they
//! leave before the answer is there.
//!
//! Owns: these cases. Which bytes they are is tested in `lamna-proto`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::client::{Client, PATIENCE};
use crate::control::figure;
use crate::engine::{AMPED, Engine, for_engines};
use crate::http2::Http2;
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tls::trusting;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_2 = AMPED_2,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    who_navigates_is_told_what_the_page_needs_and_nobody_else,
    over_http_2_hints_are_counted_as_used_or_wasted,
]);

const PAGE: &str = "<!doctype html><title>t</title><link rel=stylesheet href=/main.css><script src=app.js></script>\
                    <link rel=preload as=font type=font/woff2 crossorigin href=/own.woff2><img src=/p.png>";
const LINKS: [&str; 3] = [
    "</main.css>; rel=preload; as=style",
    "</app.js>; rel=preload; as=script",
    "</own.woff2>; rel=preload; as=font; crossorigin; type=\"font/woff2\"",
];
/// What browsers send when somebody follows a link.
const NAVIGATION: [(&str, &str); 3] = [
    ("accept", "text/html,application/xhtml+xml,*/*;q=0.8"),
    ("sec-fetch-mode", "navigate"),
    ("sec-fetch-dest", "document"),
];
/// And for a style sheet.
const STYLE: [(&str, &str); 2] = [("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "style")];

fn launch(engine: Engine, more: &str) -> Launch {
    let lines = format!(
        "[[site]]\nroot = \"site\"\nearly_hints = true\nearly_hints_http1 = true\n\
         headers = {{ Cache-Control = \"max-age=3600\" }}\n{more}"
    );
    let launch = Launch::new(engine).config(&lines).file("index.html", PAGE).file("main.css", "p { color: red }");
    launch.file("late.css", "q { color: red }").file("app.js", "let a = 1").file("own.woff2", "x".repeat(500))
}

fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

/// The links of the hints that are given before the answer to a request, if any are.
fn hints(client: &mut Client<TcpStream>, request: &str) -> Option<Vec<String>> {
    client.send(request.as_bytes());
    let first = client.receive_head().unwrap();
    if first.status != 103 {
        let length = first.field("content-length").map_or(0, |length| length.parse().unwrap());
        let has_content = !request.starts_with("HEAD") && first.status != 304;
        client.receive_exactly(if has_content { length } else { 0 }).unwrap();
        return None;
    }
    let links = first.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    let links = links.map(|(_, value)| value.clone()).collect();
    client.receive(true).unwrap();
    Some(links)
}

/// A connection that has just been given hints for `path`, and their links. Pages become known when they are asked for,
/// and one of 16 views gets none.
fn hinted(server: &Server, path: &str, wanted: usize) -> (Client<TcpStream>, Vec<String>) {
    eventually("hints are given", PATIENCE, || {
        let mut client = server.connect();
        let links = hints(&mut client, &head("GET", path, &NAVIGATION))?;
        (links.len() == wanted).then_some((client, links))
    })
}

fn who_navigates_is_told_what_the_page_needs_and_nobody_else(engine: Engine) {
    let server = launch(engine, "").start();
    let (mut client, links) = hinted(&server, "/", 3);
    assert_eq!(links, LINKS);
    // What it has been told once it has.
    assert_eq!(hints(&mut client, &head("GET", "/", &NAVIGATION)), None);
    assert_eq!(hints(&mut client, &head("GET", "/main.css", &STYLE)), None);
    let with = |more: (&'static str, &'static str)| [&NAVIGATION[..], &[more]].concat();
    for (method, fields) in [
        ("GET", vec![("accept", "*/*")]),
        ("GET", vec![]),
        // Without Fetch Metadata nobody knows whether an HTTP/1.1 client can read interim answers.
        ("GET", vec![NAVIGATION[0]]),
        ("HEAD", NAVIGATION.to_vec()),
        ("GET", with(("save-data", "on"))),
        ("GET", with(("sec-purpose", "prefetch;prerender"))),
        ("GET", with(("range", "bytes=0-1"))),
        ("GET", with(("if-none-match", "\"x\""))),
        ("GET", vec![NAVIGATION[0], NAVIGATION[1], ("sec-fetch-dest", "iframe")]),
    ] {
        for _ in 0..3 {
            assert_eq!(hints(&mut server.connect(), &head(method, "/", &fields)), None, "{method} {fields:?}");
        }
    }
    server.finish();
}

fn over_http_2_hints_are_counted_as_used_or_wasted(engine: Engine) {
    let server = launch(engine, "").argument("--tls").start();
    let config = trusting(&server);
    let connect = || {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        Http2::connect_secured(server.address(), &config, name)
    };
    let (mut client, hints) = eventually("hints are given", PATIENCE, || {
        let mut client = connect();
        let (hints, answer) = client.get_with_hints("/", &NAVIGATION[..1]);
        assert_eq!((answer.status, &*answer.content), (200, PAGE.as_bytes()));
        (!hints.is_empty()).then_some((client, hints))
    });
    assert_eq!(hints, [LINKS]);
    let count = |fate: &str| figure(&server, &format!("lamna_early_hints_total{{fate=\"{fate}\"}}"));
    // Those that were given before and not taken have been wasted when their connection was closed.
    let sent = count("sent");
    assert_eq!(sent % 3, 0);
    let (none, style) = client.get_with_hints("/main.css", &STYLE);
    assert_eq!((none.len(), style.status), (0, 200));
    assert_eq!(client.get_with_hints("/", &NAVIGATION).0.len(), 0, "it has been told");
    drop(client);
    let is_decided = || (count("used") == 1 && count("wasted") == sent - 1).then_some(());
    eventually("each is used or wasted", PATIENCE, is_decided);
    server.finish();
}

#[test]
fn what_views_ask_for_late_is_hinted_when_enough_of_them_do() {
    let server = launch(AMPED, "").start();
    // Views: each has a connection, asks for what it is told, or finds, and its style sheet imports another.
    let mut hosts = (2..5_u8).cycle();
    let links = eventually("what is found late is hinted", PATIENCE, || {
        let mut client = server.connect_from(hosts.next().unwrap());
        let links = hints(&mut client, &head("GET", "/", &NAVIGATION)).unwrap_or_default();
        for path in ["/main.css", "/app.js", "/own.woff2", "/late.css"] {
            hints(&mut client, &head("GET", path, &STYLE));
        }
        (links.len() == 4).then_some(links)
    });
    assert_eq!(links[3], "</late.css>; rel=preload; as=style");
    server.finish();
}

#[test]
fn one_client_has_nobody_fetch_what_it_has_chosen_and_no_rule_is_told_of() {
    let rules = "early_hints_probability_percent_min = 10\n[[site.route]]\nmatch = \"/in/*\"\naccess = { allow = [\"127.0.0.2/31\", \"127.0.0.4/31\"] }\n\
                 [[site.route]]\nmatch = \"/app/*\"\nproxy = \"http://127.0.0.1:9\"\n";
    let server = launch(AMPED, rules).file("in/q3-layoffs.css", "p {}").file("mine.css", "p {}").start();
    let view = |host: u8, paths: &[&str]| {
        let mut client = server.connect_from(host);
        let links = hints(&mut client, &head("GET", "/", &NAVIGATION)).unwrap_or_default();
        for path in paths {
            hints(&mut client, &head("GET", path, &STYLE));
        }
        links
    };
    // What others ask for is learned meanwhile, so it is known that the server has had the time.
    let mut views = 0_u8;
    eventually("what is found late is hinted", PATIENCE, || {
        views = views.wrapping_add(1);
        view(9, &["/mine.css", "/app/logout"]);
        view(2 + views % 3, &["/main.css", "/late.css", "/in/q3-layoffs.css", "/app/logout"]);
        view(30, &[]).iter().any(|link| link.contains("/late.css")).then_some(())
    });
    for _ in 0..20 {
        view(9, &["/mine.css", "/app/logout"]);
        for link in view(30, &[]) {
            let is_told = ["/late.css", "/main.css", "/app.js", "/own.woff2"].iter().any(|path| link.contains(path));
            assert!(is_told, "{link}");
        }
    }
    server.finish();
}

#[test]
fn a_site_whose_hints_are_wasted_ends_them() {
    // More than the grace in one view.
    let large = "x".repeat(700_000);
    let launch = launch(AMPED, "early_hints_waste_percent_max = 0\n");
    let server = launch.file("main.css", &large).file("own.woff2", &large).start();
    for path in ["/main.css", "/own.woff2"] {
        server.connect().get(path).unwrap();
    }
    hinted(&server, "/", 2);
    let count = |fate: &str| figure(&server, &format!("lamna_early_hints_total{{fate=\"{fate}\"}}"));
    eventually("hints are withheld", PATIENCE, || {
        hints(&mut server.connect(), &head("GET", "/", &NAVIGATION));
        (count("withheld_budget") > 10).then_some(())
    });
    for _ in 0..5 {
        let links = hints(&mut server.connect(), &head("GET", "/", &NAVIGATION)).unwrap_or_default();
        assert!(links.iter().all(|link| !link.contains("main.css")), "{links:?}");
    }
    server.finish();
}

#[test]
fn who_is_not_let_in_is_told_nothing() {
    let rule = "[[site.route]]\nmatch = { path = \"/\", header = { X-Out = true } }\naccess = { deny = [\"0.0.0.0/0\"] }\n\
                [[site.route]]\nmatch = \"/off.html\"\nearly_hints = false\n";
    let server = launch(AMPED, rule).file("off.html", PAGE).start();
    hinted(&server, "/", 3);
    let refused = [&NAVIGATION[..], &[("x-out", "1")]].concat();
    for _ in 0..3 {
        let mut client = server.connect();
        client.send(head("GET", "/", &refused).as_bytes());
        assert_eq!(client.receive_head().unwrap().status, 403);
        assert_eq!(hints(&mut server.connect(), &head("GET", "/off.html", &NAVIGATION)), None);
    }
    server.finish();
}

#[test]
fn hints_leave_while_the_application_thinks() {
    let application = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = application.local_addr().unwrap();
    let route = format!("[[site.route]]\nmatch = \"/app\"\nproxy = \"http://{place}\"\n");
    let server = launch(AMPED, &route).start();
    let (go, waits) = mpsc::channel();
    let has_answered = Arc::new(AtomicBool::new(false));
    let (answers, links) =
        (has_answered.clone(), "HTTP/1.1 103 Early Hints\r\nLink: </own>; rel=preload; as=style\r\n\r\n");
    thread::spawn(move || {
        for asked in application.incoming() {
            let mut asked = asked.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                asked.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            // It is let when hints have arrived. As long as there are none it does not wait for ever.
            _ = waits.recv_timeout(Duration::from_millis(300));
            answers.store(true, SeqCst);
            write!(asked, "{links}HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage").unwrap();
        }
    });
    let mut hosts = (2..5_u8).cycle();
    eventually("hints are there before the application has answered", PATIENCE, || {
        let mut client = server.connect_from(hosts.next().unwrap());
        has_answered.store(false, SeqCst);
        client.send(head("GET", "/app", &NAVIGATION).as_bytes());
        let first = client.receive_head().unwrap();
        let is_early = !has_answered.load(SeqCst);
        if is_early {
            assert_eq!((first.status, first.field("link")), (103, Some("</late.css>; rel=preload; as=style")));
            go.send(()).unwrap();
        }
        let own = if is_early { client.receive_head().unwrap() } else { first };
        assert_eq!((own.status, own.field("link")), (103, Some("</own>; rel=preload; as=style")));
        assert_eq!(client.receive(true).unwrap().content, b"page");
        hints(&mut client, &head("GET", "/late.css", &STYLE));
        is_early.then_some(())
    });
    server.finish();
}

#[test]
fn curl_shows_hints() {
    let server = launch(AMPED, "").argument("--tls").start();
    let authority = server.directory().join("state/lamna/tls/local-ca.pem");
    let ask = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--http2", "--dump-header", "-", "--output", "/dev/null", "--cacert"]).arg(&authority);
        curl.args(["-H", "Accept: text/html"]).arg(format!("https://{}/", server.address()));
        curl.output().ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if ask().is_none_or(|heads| !heads.starts_with("HTTP/2 ")) {
        skipped("curl_shows_hints", "no curl that speaks HTTP/2");
    } else {
        let heads = eventually("curl is given hints", PATIENCE, || ask().filter(|heads| heads.contains("HTTP/2 103")));
        assert!(heads.starts_with(&format!("HTTP/2 103 \r\nlink: {}\r\n", LINKS[0])), "{heads}");
        assert!(heads.contains("\r\n\r\nHTTP/2 200 \r\n"), "{heads}");
    }
    server.finish();
}
