//! Sites that come from other servers: what their visitors, browsers and applications are used to.
//!
//! Owns: an application that gives the answers of a table ([`application`]), and what each engine does with fields,
//! redirects and answers that are rare, over HTTP/1.1 and HTTP/2.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::ServerName;
use rustls::version::TLS13;

use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};
use crate::tls::{CERTIFIED, config_for, connect_as, make_pair};

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    sped = SPED,
    amped = AMPED,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    cookies_are_one_field,
    a_query_goes_before_the_fragment,
    an_application_says_its_own_reason,
    a_program_knows_both_ends_of_the_connection,
    a_program_is_named_by_where_the_root_really_is,
    a_program_without_its_interpreter_is_an_error_that_is_told,
    lines_of_an_application_may_end_with_line_feed_alone,
    what_can_be_asked_twice_is_when_a_kept_connection_ends,
    text_in_another_encoding_is_not_called_utf_8,
    a_compressed_picture_says_its_coding,
    an_application_says_more_to_the_cache_than_to_clients,
    a_pair_that_an_editor_has_marked_is_served,
]);

/// An application without content in its requests, which answers each path with its answer of the table. `/head` gets
/// the head of the request. An empty answer ends the connection, if that is not new.
pub(crate) fn application(answers: &'static [(&'static str, &'static str)]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut line = BufReader::new(stream);
                let mut is_new = true;
                while let Some(head) = read_head(&mut line) {
                    let path = head.split([' ', '?']).nth(1).unwrap_or_default();
                    let answer = match answers.iter().find(|(of, _)| *of == path) {
                        Some((_, "")) if !is_new => return,
                        Some((_, answer)) if !answer.is_empty() => (*answer).to_owned(),
                        _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len()),
                    };
                    is_new = false;
                    if line.get_mut().write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A head of a request, without its empty line.
fn read_head(line: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if line.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    head.truncate(head.len() - 2);
    Some(head)
}

/// A site of which all is passed on to `application`, over HTTP/2 without TLS as well.
fn passing_on(engine: Engine, application: SocketAddr, more: &str) -> Launch {
    let route = format!("{{ match = \"/*\", proxy = \"http://{application}\"{more} }}");
    Launch::new(engine).argument("--h2c").config(&format!("[[site]]\nroot = \"site\"\nroute = [{route}]\n"))
}

// RFC 9113 8.2.3.
fn cookies_are_one_field(engine: Engine) {
    let server = passing_on(engine, application(&[]), "").start();
    let cookies: Vec<String> = (0..180).map(|number| format!("name{number}=value")).collect();
    let fields: Vec<(&str, &str)> = cookies.iter().map(|cookie| ("cookie", &**cookie)).collect();
    let asked = request("GET", "/head", &fields);
    let answer = Http2::connect(server.address()).try_ask(asked).unwrap();
    let head = String::from_utf8(answer.content).unwrap();
    assert_eq!(answer.status, 200, "{head}");
    assert!(head.contains(&format!("Cookie: {}\r\n", cookies.join("; "))), "{head}");
    // Of others, each counts.
    let asked = request("GET", "/head", &[("x", "y"); 180]);
    assert_eq!(Http2::connect(server.address()).try_ask(asked).unwrap().status, 431);
    server.finish();
}

// RFC 3986 3.
fn a_query_goes_before_the_fragment(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\n\
                  redirect = [{ from = \"/a\", to = \"/x#part\" }, { from = \"/b/*\", to = \"https://b.test/x#*\" }, \
                  { from = \"/c\", to = \"/x?own#part\" }, { from = \"/d\", to = \"/x#part?no-query\" }]\n\
                  route = [{ match = \"/e/*\", redirect = \"/y/$1#top\" }, \
                  { match = \"/f/*\", redirect = { to = \"https://b.test/$1#top\", status = 302 } }]\n";
    let server = Launch::new(engine).argument("--h2c").config(config).file("dir/index.html", "there").start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (target, location) in [
        ("/a?q=1", "/x?q=1#part"),
        ("/a", "/x#part"),
        ("/b/1?q", "https://b.test/x?q#1"),
        ("/c?q=1", "/x?own#part"),
        ("/d?q=1", "/x?q=1#part?no-query"),
        ("/e/1?q=1", "/y/1?q=1#top"),
        ("/f/1?q=1", "https://b.test/1?q=1#top"),
        ("/dir?q=1", "/dir/?q=1"),
    ] {
        // Found out, and then kept.
        for _ in 0..2 {
            let response = client.get(target).unwrap();
            assert_eq!(response.field("Location"), Some(location), "{target}");
            let answer = http2.get(target);
            let told = answer.fields.iter().find(|(name, _)| name == "location").map(|(_, value)| &**value);
            assert_eq!(told, Some(location), "{target}");
        }
    }
    server.finish();
}

const REASONS: &[(&str, &str)] = &[
    ("/own", "HTTP/1.1 409 Not like that, please\r\nContent-Length: 0\r\n\r\n"),
    ("/kept", "HTTP/1.1 404 No such thing\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"),
    ("/none", "HTTP/1.1 402 \r\nContent-Length: 0\r\n\r\n"),
    ("/foreign", "HTTP/1.1 451 Verf\u{fc}gbar\r\nContent-Length: 0\r\n\r\n"),
    ("/unregistered", "HTTP/1.1 499 Client Closed Request\r\nContent-Length: 0\r\n\r\n"),
    (
        "/newer",
        "HTTP/1.1 426 Upgrade Required\r\nUpgrade: TLS/1.2, HTTP/1.1\r\nConnection: Upgrade\r\n\
                Cache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n",
    ),
];

// RFC 9112 4, RFC 9110 15.5.22.
fn an_application_says_its_own_reason(engine: Engine) {
    let server = passing_on(engine, application(REASONS), ", cache = true").start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (path, line) in [
        ("/own", "409 Not like that, please"),
        ("/kept", "404 No such thing"),
        ("/none", "402 Payment Required"),
        ("/foreign", "451 Unavailable For Legal Reasons"),
        ("/unregistered", "499 Client Closed Request"),
        ("/newer", "426 Upgrade Required"),
    ] {
        for _ in 0..2 {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            let response = client.receive(true).unwrap();
            assert_eq!(format!("{} {}", response.status, response.reason), line, "{path}");
            let expected = (path == "/newer").then_some(("TLS/1.2, HTTP/1.1", "upgrade"));
            assert_eq!(response.field("Upgrade").zip(response.field("Connection")), expected, "{path}");
            let answer = http2.get(path);
            assert_eq!(answer.status, response.status, "{path}");
            assert!(!answer.fields.iter().any(|(name, _)| matches!(&**name, "upgrade" | "connection")), "{path}");
        }
    }
    server.finish();
}

/// A program that prints its environment, in the site.
fn with_program(launch: Launch, root: &str) -> Launch {
    let launch = launch.file(&format!("{root}/told.cgi"), "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n");
    let path = launch.site().join(root).join("told.cgi");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    launch
}

/// The value of a variable that the program has printed.
fn variable<'t>(told: &'t str, name: &str) -> Option<&'t str> {
    told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

// RFC 3875 4.1.15.
fn a_program_knows_both_ends_of_the_connection(engine: Engine) {
    let config = "trusted_proxies = [\"127.0.0.1\"]\n[[site]]\nroot = \"site\"\n\
                  route = [{ match = \"/*.cgi\", cgi = { extensions = \"cgi\" } }]\n";
    for (config, is_trusted) in [(config, true), (&config.replace("127.0.0.1", "192.0.2.1"), false)] {
        let server = with_program(Launch::new(engine).argument("--h2c").config(config), ".").start();
        let own = server.address().port().to_string();
        let mut client = server.connect();
        let port = client.stream.local_addr().unwrap().port().to_string();
        client.send(
            b"GET /told.cgi HTTP/1.1\r\nHost: a.test:4433\r\nX-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\n\r\n",
        );
        let response = client.receive(true).unwrap();
        let told = String::from_utf8(response.content).unwrap();
        let names = ["SERVER_ADDR", "SERVER_PORT", "REMOTE_ADDR", "REMOTE_PORT", "REQUEST_SCHEME", "HTTPS"];
        let direct = ["127.0.0.1", &own, "127.0.0.1", &port, "http"].map(Some);
        let expected = match is_trusted {
            true => [Some("127.0.0.1"), Some("4433"), Some("192.0.2.7"), None, Some("https"), Some("on")],
            false => [direct[0], direct[1], direct[2], direct[3], direct[4], None],
        };
        assert_eq!(names.map(|name| variable(&told, name)), expected, "{told}");
        let told = String::from_utf8(Http2::connect(server.address()).get("/told.cgi").content).unwrap();
        let asked_port = if is_trusted { Some("80") } else { direct[1] };
        assert_eq!([names[0], names[1]].map(|name| variable(&told, name)), [direct[0], asked_port], "{told}");
        assert_ne!(variable(&told, "REMOTE_PORT"), Some("0"), "{told}");
        server.finish();
    }
}

fn a_program_is_named_by_where_the_root_really_is(engine: Engine) {
    let config =
        "[[site]]\nroot = \"site/current\"\nroute = [{ match = \"/*.cgi\", cgi = { extensions = \"cgi\" } }]\n";
    let launch = with_program(with_program(Launch::new(engine).config(config), "releases/6"), "releases/7");
    let site = launch.site().canonicalize().unwrap();
    symlink("releases/6", site.join("current")).unwrap();
    let server = launch.start();
    let ask = || {
        let response = server.connect().get("/told.cgi").unwrap();
        let told = String::from_utf8(response.content).unwrap();
        ["DOCUMENT_ROOT", "SCRIPT_FILENAME"].map(|name| variable(&told, name).map(PathBuf::from))
    };
    let of_release = |number: u8| {
        let root = site.join(format!("releases/{number}"));
        [Some(root.clone()), Some(root.join("told.cgi"))]
    };
    assert_eq!(ask(), of_release(6));
    symlink("releases/7", site.join("next")).unwrap();
    fs::rename(site.join("next"), site.join("current")).unwrap();
    eventually("the new release is run", PATIENCE, || (ask() == of_release(7)).then_some(()));
    server.finish();
}

fn a_program_without_its_interpreter_is_an_error_that_is_told(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nroute = [{ match = \"/*.cgi\", cgi = { extensions = \"cgi\" } }]\n";
    let mut launch = Launch::new(engine).config(config);
    for (name, text) in [("returns.cgi", "#!/bin/sh\r\necho\r\n"), ("none.cgi", "#!/no/such/perl -w\nprint\n")] {
        launch = launch.file(name, text);
        fs::set_permissions(launch.site().join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut server = launch.start();
    let mut client = server.connect();
    for (path, said) in [
        ("/returns.cgi", "its first line names `/bin/sh\\r`, which is not there; its lines end with CR LF"),
        ("/none.cgi", "its first line names `/no/such/perl`, which is not there"),
    ] {
        assert_eq!(client.get(path).unwrap().status, 502, "{path}");
        server.wait_to_hear(said);
    }
    assert_eq!(client.get("/absent.cgi").unwrap().status, 404);
    server.finish();
}

const LINE_FEEDS: &[(&str, &str)] = &[
    ("/plain", "HTTP/1.1 203 So\nX-Own: 1\nContent-Length: 5\n\n\n\nabc"),
    ("/mixed", "HTTP/1.1 203 So\r\nX-Own: 1\nContent-Length: 5\r\n\n\n\nabc"),
    ("/chunked", "HTTP/1.1 203 So\nX-Own: 1\nTransfer-Encoding: chunked\n\n5\r\n\n\nabc\r\n0\r\n\r\n"),
    ("/lengths", "HTTP/1.1 203 So\nContent-Length: 5\nContent-Length: 6\n\n\n\nabc"),
    ("/both", "HTTP/1.1 203 So\nContent-Length: 5\nTransfer-Encoding: chunked\n\n5\r\n\n\nabc\r\n0\r\n\r\n"),
    ("/chunks", "HTTP/1.1 203 So\nTransfer-Encoding: chunked\n\n5\n\n\nabc\n0\n\n"),
];

// RFC 9112 2.2.
fn lines_of_an_application_may_end_with_line_feed_alone(engine: Engine) {
    let server = passing_on(engine, application(LINE_FEEDS), "").start();
    let mut http2 = Http2::connect(server.address());
    for (path, _) in &LINE_FEEDS[..3] {
        let response = server.connect().get(path).unwrap();
        assert_eq!((response.status, response.field("X-Own")), (203, Some("1")), "{path}");
        assert_eq!(response.content, b"\n\nabc", "{path}");
        let answer = http2.get(path);
        assert_eq!((answer.status, &answer.content[..]), (203, &b"\n\nabc"[..]), "{path}");
    }
    for (path, _) in &LINE_FEEDS[3..5] {
        assert_eq!(server.connect().get(path).unwrap().status, 502, "{path}");
        assert_eq!(http2.get(path).status, 502, "{path}");
    }
    // That may be found out when the head has been passed on: the answer does not end then.
    assert!(server.connect().get("/chunks").map_or(true, |response| response.status == 502));
    server.finish();
}

// RFC 9110 9.2.2.
fn what_can_be_asked_twice_is_when_a_kept_connection_ends(engine: Engine) {
    let server = passing_on(engine, application(&[("/gone", "")]), "").start();
    let mut client = server.connect();
    for (method, status) in [("GET", 200), ("DELETE", 200), ("PUT", 200), ("POST", 502), ("PATCH", 502)] {
        // A connection is kept.
        assert_eq!(client.get("/head").unwrap().status, 200);
        client.send(format!("{method} /gone HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").as_bytes());
        let response = client.receive(true).unwrap();
        assert_eq!(response.status, status, "{method}");
        // The same over HTTP/2, and without a length.
        let mut http2 = Http2::connect(server.address());
        assert_eq!(http2.get("/head").status, 200);
        assert_eq!(http2.try_ask(request(method, "/gone", &[])).unwrap().status, status, "{method}");
    }
    server.finish();
}

// RFC 7303 3: what the field says counts before what the text says.
fn text_in_another_encoding_is_not_called_utf_8(engine: Engine) {
    let filler = vec![b' '; 3_000_000];
    let large = |text: &[u8]| [text, &filler].concat();
    let files: [(&str, Vec<u8>, &str); 12] = [
        ("utf8.html", "<meta charset=utf-8>caf\u{e9}".into(), "text/html; charset=utf-8"),
        ("plain.html", b"<p>cafe".to_vec(), "text/html; charset=utf-8"),
        ("latin.html", b"<meta charset=iso-8859-1>caf\xe9".to_vec(), "text/html"),
        ("unsaid.html", [&filler[..500], b"caf\xe9"].concat(), "text/html"),
        ("large.html", large(b"<meta charset=iso-8859-1>cafe"), "text/html"),
        ("large-utf8.html", large(b"<meta charset=utf-8>"), "text/html; charset=utf-8"),
        ("latin.xml", b"<?xml version='1.0' encoding='ISO-8859-1'?><a>caf\xe9</a>".to_vec(), "application/xml"),
        ("large.svg", large(b"<?xml version='1.0' encoding='Shift_JIS'?><svg/>"), "image/svg+xml"),
        ("latin.css", b"@charset \"iso-8859-1\"; a { content: '\xe9' }".to_vec(), "text/css"),
        ("wide.txt", b"\xff\xfea\0".to_vec(), "text/plain"),
        ("marked.txt", b"\xef\xbb\xbfcaf\xc3\xa9".to_vec(), "text/plain; charset=utf-8"),
        ("said.txt", b"caf\xe9".to_vec(), "text/plain; charset=utf-8"),
    ];
    let config = "[[site]]\nroot = \"site\"\nroute = [{ match = \"/said.txt\", headers = { Content-Type = \"text/plain; charset=utf-8\" } }]\n";
    let launch = Launch::new(engine).argument("--h2c").config(config);
    let launch = files.iter().fold(launch, |launch, (name, content, _)| launch.file(name, content));
    let server = launch.file("latin.html.gz", b"compressed").start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (name, content, media_type) in &files {
        let path = format!("/{name}");
        // Found out, and then kept.
        for _ in 0..2 {
            let response = client.get(&path).unwrap();
            assert_eq!(response.field("Content-Type"), Some(*media_type), "{name}");
            assert!(response.content == *content, "{name}");
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes());
            let head = client.receive(false).unwrap();
            assert_eq!(head.field("Content-Type"), Some(*media_type), "{name}, in any coding");
            let answer = http2.get(&path);
            let told = answer.fields.iter().find(|(name, _)| name == "content-type").map(|(_, value)| &**value);
            assert_eq!(told, Some(*media_type), "{name}");
        }
    }
    // A new version of a file is looked at anew.
    fs::write(server.site().join("latin.html"), "<meta charset=utf-8>now").unwrap();
    fs::remove_file(server.site().join("latin.html.gz")).unwrap();
    eventually("the new version is served", PATIENCE, || {
        let response = client.get("/latin.html").unwrap();
        (response.content == b"<meta charset=utf-8>now")
            .then(|| assert_eq!(response.field("Content-Type"), Some("text/html; charset=utf-8")))
    });
    server.finish();
}

fn a_compressed_picture_says_its_coding(engine: Engine) {
    let launch =
        Launch::new(engine).argument("--h2c").file("a.svgz", b"\x1f\x8b small").file("a.tar.gz", b"\x1f\x8b archive");
    let server = launch.file("large.svgz", vec![7; 3_000_000]).start();
    let (mut client, mut http2) = (server.connect(), Http2::connect(server.address()));
    for (path, media_type, coding) in [
        ("/a.svgz", "image/svg+xml", Some("gzip")),
        ("/large.svgz", "image/svg+xml", Some("gzip")),
        ("/a.tar.gz", "application/gzip", None),
    ] {
        for _ in 0..2 {
            let response = client.get(path).unwrap();
            let told = (response.field("Content-Type"), response.field("Content-Encoding"), response.field("Vary"));
            assert_eq!(told, (Some(media_type), coding, None), "{path}");
            let answer = http2.get(path);
            let told = answer.fields.iter().find(|(name, _)| name == "content-encoding").map(|(_, value)| &**value);
            assert_eq!(told, coding, "{path}");
        }
    }
    server.finish();
}

const TARGETED: &[(&str, &str)] = &[
    (
        "/for-clients",
        "HTTP/1.1 200 OK\r\nCDN-Cache-Control: no-store\r\nCache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n",
    ),
    (
        "/for-the-cache",
        "HTTP/1.1 200 OK\r\nCDN-Cache-Control: max-age=60\r\nCache-Control: no-store\r\n\
                        Last-Modified: Sun Nov  6 08:49:37 1994\r\nAge: 7\r\nAge: 30\r\nContent-Length: 2\r\n\r\nhi",
    ),
];

// RFC 9213, RFC 9111 5.1, RFC 9110 5.6.7.
fn an_application_says_more_to_the_cache_than_to_clients(engine: Engine) {
    let server = passing_on(engine, application(TARGETED), ", cache = true").start();
    let mut client = server.connect();
    let ask = |client: &mut crate::client::Client<std::net::TcpStream>, path: &str, fields: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
        client.receive(true).unwrap()
    };
    for (path, is_kept) in [("/for-clients", false), ("/for-the-cache", true)] {
        ask(&mut client, path, "");
        let again = ask(&mut client, path, "");
        let told = again.field("Cache-Status").unwrap_or_default();
        assert_eq!(told.contains("hit"), is_kept, "{path}: {told}");
    }
    let kept = ask(&mut client, "/for-the-cache", "");
    let ages: Vec<_> = kept.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("age")).collect();
    assert!(ages.len() == 1 && ages[0].1.parse::<u32>().unwrap() < 30, "{ages:?}");
    for written in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        client
            .send(format!("GET /for-the-cache HTTP/1.1\r\nHost: a\r\nIf-Modified-Since: {written}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(false).unwrap().status, 304, "{written}");
    }
    server.finish();
}

fn a_pair_that_an_editor_has_marked_is_served(engine: Engine) {
    let launch = Launch::new(engine).config(CERTIFIED).file("a.txt", "a");
    make_pair(launch.directory(), &["site.test"]);
    let plain = fs::read(launch.directory().join("certificate.pem")).unwrap();
    for name in ["certificate.pem", "key.pem"] {
        let path = launch.directory().join(name);
        let text = fs::read(&path).unwrap();
        fs::write(&path, [b"\xef\xbb\xbf", &text[..]].concat()).unwrap();
    }
    let server = launch.start();
    // The client of the test reads what was there before.
    fs::write(server.directory().join("plain.pem"), plain).unwrap();
    let config = Arc::new(config_for(&[&server.directory().join("plain.pem")], &[&TLS13]));
    assert_eq!(connect_as(&server, &config, "site.test").get("/a.txt").unwrap().content, b"a");
    let name = ServerName::try_from("site.test").unwrap();
    assert_eq!(Http2::connect_secured(server.address(), &config, name).get("/a.txt").content, b"a");
    server.finish();
}
