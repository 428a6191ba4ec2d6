//! Applications of SCGI and uwsgi, with every engine: they learn of a request what applications of FastCGI learn, and
//! what they answer comes through.
//!
//! Owns: the server's side of both protocols as an application reads it ([`take`]), and one that tells of it. What is
//! framed how is in `framed` and in the matrix of content; uWSGI itself is asked in [`uwsgi_serves_an_application_over_each_protocol`].

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use super::framed::listen;
use super::languages::is_installed;
use super::post;
use crate::access::{ADA, SESAME};
use crate::client::PATIENCE;
use crate::control::order;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, eventually};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!([
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    applications_learn_of_a_request_by_variables,
    what_applications_answer_is_a_head_of_either_kind,
    uwsgi_serves_an_application_over_each_protocol,
]);

/// A protocol whose answer ends with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Scgi,
    Uwsgi,
}

impl Protocol {
    pub(crate) const ALL: [Protocol; 2] = [Protocol::Scgi, Protocol::Uwsgi];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Protocol::Scgi => "scgi",
            Protocol::Uwsgi => "uwsgi",
        }
    }
}

/// Names and values.
type Variables = Vec<(String, String)>;

/// The variables of a request, in order, and its content; none if it is not whole.
pub(crate) fn take(protocol: Protocol, reader: &mut impl BufRead) -> Option<(Variables, Vec<u8>)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut variables = Vec::new();
    match protocol {
        Protocol::Scgi => {
            let mut length = Vec::new();
            reader.read_until(b':', &mut length).ok()?;
            let length: usize = text(length.strip_suffix(b":")?).parse().ok()?;
            let mut netstring = vec![0; length + 1];
            reader.read_exact(&mut netstring).ok()?;
            assert_eq!(netstring.pop(), Some(b','), "a netstring ends with a comma");
            let mut parts = netstring.split(|byte| *byte == 0);
            while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                variables.push((text(name), text(value)));
            }
            assert_eq!(variables.first().map(|(name, _)| &**name), Some("CONTENT_LENGTH"));
            assert_eq!(variables.get(1), Some(&("SCGI".to_owned(), "1".to_owned())));
        }
        Protocol::Uwsgi => {
            let mut header = [0; 4];
            reader.read_exact(&mut header).ok()?;
            let mut block = vec![0; u16::from_le_bytes([header[1], header[2]]).into()];
            reader.read_exact(&mut block).ok()?;
            let mut rest = &block[..];
            let mut next = || {
                let (length, after) = rest.split_at_checked(2)?;
                let (one, after) = after.split_at_checked(u16::from_le_bytes([length[0], length[1]]).into())?;
                rest = after;
                Some(text(one))
            };
            while let Some(name) = next() {
                variables.push((name, next()?));
            }
        }
    }
    let length = variables.iter().find(|(name, _)| name == "CONTENT_LENGTH").map_or("0", |(_, value)| value);
    let mut content = vec![0; length.parse().ok()?];
    reader.read_exact(&mut content).ok()?;
    Some((variables, content))
}

/// Tells of each request its variables, a line each, and at the end its content; or answers as the query says, with
/// `%` and two digits for a byte.
fn tell(protocol: Protocol) -> SocketAddr {
    listen(move |stream: TcpStream| {
        let mut reader = BufReader::new(stream);
        let (variables, content) = take(protocol, &mut reader)?;
        let query = variables.iter().find(|(name, _)| name == "QUERY_STRING").map_or("", |(_, value)| value);
        let answer = match query.strip_prefix("say=") {
            Some(text) => text.replace("%20", " ").replace("%0D", "\r").replace("%0A", "\n").into_bytes(),
            None => {
                let lines: String = variables.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
                [b"Content-Type: text/plain\r\n\r\n", lines.as_bytes(), &content].concat()
            }
        };
        reader.get_mut().write_all(&answer).ok()
    })
}

fn applications_learn_of_a_request_by_variables(engine: Engine) {
    for protocol in Protocol::ALL {
        let to = tell(protocol);
        let key = protocol.key();
        let config = format!(
            "[[site]]\nroot = \"site\"\nusers = {{ ada = \"{SESAME}\" }}\n\
             [[site.route]]\nmatch = \"/*\"\n{key} = \"{to}\"\n\
             [[site.route]]\nmatch = \"/app/*\"\n{key} = {{ to = \"{to}\", buffer = true }}\nstrip_prefix = \"/app\"\n\
             request_headers = {{ \"X-From\" = \"$client\" }}\n\
             [[site.route]]\nmatch = \"/closed/*\"\naccess = {{ users = [\"ada\"] }}\n\
             [[site.route]]\nmatch = \"/files/*\"\n{key} = \"{to}\"\ntry = \"$path\"\n"
        );
        let launch = Launch::new(engine).argument("--h2c").config(&config).file("files/a.txt", "a file");
        let server = launch.start();
        let told = |target: &str, fields: &str| -> (u16, BTreeMap<String, String>) {
            let mut client = server.connect();
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test:81\r\n{fields}\r\n").as_bytes());
            let answer = client.receive(true).unwrap_or_else(|why| panic!("{protocol:?} {target}: {why}"));
            let text = String::from_utf8(answer.content).unwrap();
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            (answer.status, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
        };
        let check = |round: &str| {
            let (status, all) = told("/a%2Fb/%7Ec?x=%20", "Proxy: x\r\nCookie: a\r\nCookie: b\r\nX-Y: z\r\n");
            assert_eq!(status, 200, "{round}");
            let port = server.address().port().to_string();
            for (name, expected) in [
                ("REQUEST_METHOD", "GET"),
                ("REQUEST_URI", "/a%2Fb/%7Ec?x=%20"),
                ("QUERY_STRING", "x=%20"),
                ("PATH_INFO", "/a/b/~c"),
                ("SCRIPT_NAME", ""),
                ("SERVER_PROTOCOL", "HTTP/1.1"),
                ("SERVER_NAME", "a.test"),
                ("SERVER_PORT", &port),
                ("REMOTE_ADDR", "127.0.0.1"),
                ("HTTP_HOST", "a.test:81"),
                ("HTTP_COOKIE", "a; b"),
                ("HTTP_X_Y", "z"),
            ] {
                assert_eq!(all.get(name).map(|value| &**value), Some(expected), "{round}: {protocol:?} {name}");
            }
            assert!(!all.contains_key("HTTP_PROXY") && !all.contains_key("SCRIPT_FILENAME"), "{round}: {all:?}");
            let (_, all) = told("/app/x", "X-From: me\r\n");
            assert_eq!((&*all["SCRIPT_NAME"], &*all["PATH_INFO"]), ("/app", "/x"), "{round}");
            assert_eq!((&*all["REQUEST_URI"], &*all["HTTP_X_FROM"]), ("/app/x", "127.0.0.1"), "{round}");
            assert_eq!(told("/closed/x", "").0, 401, "{round}");
            let (status, all) = told("/closed/x", ADA);
            assert_eq!((status, &*all["REMOTE_USER"], all.get("HTTP_AUTHORIZATION")), (200, "ada", None), "{round}");
            assert_eq!(server.connect().get("/files/a.txt").unwrap().content, b"a file", "{round}");
            assert_eq!(told("/files/none", "").1["PATH_INFO"], "/files/none", "{round}");
            let content = pattern(200_000, 3);
            let answer = post(&mut server.connect(), "/app/x", &content);
            assert!(answer.status == 200 && answer.content.ends_with(&content), "{round}");
            let mut over_http2 = Http2::connect(server.address());
            let asked = request("POST", "/app/x", &[]).map(|_| content.clone());
            let answer = over_http2.ask(vec![asked]).remove(0).unwrap();
            let length = format!("CONTENT_LENGTH={}\n", content.len());
            let head = String::from_utf8_lossy(&answer.content[..answer.content.len() - content.len()]).into_owned();
            assert!(answer.content.ends_with(&content) && head.contains(&length), "{round}: {head}");
            assert!(head.contains("SERVER_PROTOCOL=HTTP/2.0\n"), "{round}: {head}");
            // More variables than the block of uwsgi has room for.
            let long = format!("X-Long: {}\r\n", "x".repeat(7_000)).repeat(10);
            let (status, _) = told("/", &long);
            assert!(matches!(status, 431) || protocol == Protocol::Scgi && status == 200, "{round}: {status}");
        };
        check("from the start");
        order(&server, &["reload"]).unwrap();
        check("after a reload");
        let other = if engine.architecture == "amped" { "thread-pool" } else { "amped" };
        if !matches!(engine.architecture, "mp" | "co-amped") {
            order(&server, &["arch", "set", other]).unwrap();
            check("by another engine");
        }
        server.finish();
    }
}

fn what_applications_answer_is_a_head_of_either_kind(engine: Engine) {
    for protocol in Protocol::ALL {
        let to = tell(protocol);
        let key = protocol.key();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!(
            "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n{key} = \"{to}\"\n\
             [[site.route]]\nmatch = \"/kept/*\"\n{key} = \"{to}\"\ncache = true\n\
             [[site.route]]\nmatch = \"/twice/*\"\n{key} = {{ to = [\"{closed}\", \"{to}\"] }}\n\
             [[site.route]]\nmatch = \"/gone/*\"\n{key} = \"{closed}\"\n"
        );
        let server = Launch::new(engine).argument("--h2c").config(&config).start();
        let mut over_http2 = Http2::connect(server.address());
        for (say, status, content) in [
            ("A:b%0A%0Ax", 200, "x"),
            ("Status:%20404%20None%0D%0A%0D%0Agone", 404, "gone"),
            ("HTTP/1.1%20201%20Made%0D%0A%0D%0Ax", 201, "x"),
            ("HTTP/1.0%20200%20OK%0D%0AContent-Length:%202%0D%0A%0D%0Axyz", 200, "xy"),
            ("HTTP/1.1%20302%20Found%0D%0ALocation:%20/a%0D%0A%0D%0A", 302, ""),
            ("Location:%20https://a.test/%0D%0A%0D%0A", 302, ""),
            ("HTTP/1.1%20204%20None%0D%0A%0D%0Axyz", 204, ""),
        ] {
            let target = format!("/?say={say}");
            let answer = server.connect().get(&target).unwrap_or_else(|why| panic!("{protocol:?} {say}: {why}"));
            assert_eq!((answer.status, &*String::from_utf8_lossy(&answer.content)), (status, content), "{say}");
            let answer = over_http2.get(&target);
            assert_eq!((answer.status, &*String::from_utf8_lossy(&answer.content)), (status, content), "{say}");
        }
        for say in [
            "",
            "x",
            "HTTP/1.1%20200%20OK%0D%0A",
            "HTTP/x%20200%20OK%0D%0A%0D%0A",
            "HTTP/1.1%20200%20OK%0D%0ATransfer-Encoding:%20chunked%0D%0A%0D%0A0%0D%0A%0D%0A",
            "A%20b:c%0D%0A%0D%0A",
        ] {
            let target = format!("/?say={say}");
            assert_eq!(server.connect().get(&target).unwrap().status, 502, "{protocol:?} {say}");
            assert_eq!(over_http2.get(&target).status, 502, "{protocol:?} {say}");
        }
        // What is announced and does not come breaks off.
        let target = "/?say=Content-Length:%2010%0A%0Ax";
        let broken = server.connect().get(target);
        assert!(broken.as_ref().map_or(true, |answer| answer.status == 502), "{broken:?}");
        // What is kept is what was asked for once.
        let target = "/kept/?say=Cache-Control:max-age=600%0A%0Akept";
        for _ in 0..2 {
            assert_eq!(server.connect().get(target).unwrap().content, b"kept");
        }
        for _ in 0..4 {
            assert_eq!(server.connect().get("/twice/x").unwrap().status, 200, "another place is asked");
        }
        assert_eq!(server.connect().get("/gone/x").unwrap().status, 502);
        drop(over_http2);
        server.finish();
    }
}

fn uwsgi_serves_an_application_over_each_protocol(engine: Engine) {
    const PLUGIN: &str = "/usr/lib/uwsgi/plugins/python3_plugin.so";
    if !is_installed("uwsgi") {
        return;
    }
    if !fs::exists(PLUGIN).unwrap_or(false) {
        return skipped("gateways::variables", "uwsgi has no plugin for python3");
    }
    for (key, option) in [("uwsgi", "--socket"), ("scgi", "--scgi-socket")] {
        let launch = Launch::new(engine);
        let application = include_str!("wsgi_application.py").split("\nmake_server").next().unwrap();
        fs::write(launch.directory().join("app.py"), application).unwrap();
        let directory = launch.directory().display().to_string();
        let config = format!(
            "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\n\
             {key} = {{ to = \"unix:{directory}/app.sock\", command = [\"uwsgi\", \"--plugin\", \"{PLUGIN}\", \
             \"{option}\", \"{{socket}}\", \"--wsgi-file\", \"{directory}/app.py\", \"--die-on-term\"] }}\n"
        );
        let mut server = launch.argument("--h2c").config(&config).start();
        let rows: String = (0..20_000).map(|number| format!("row {number}\n")).collect();
        eventually("the application is up", PATIENCE, || {
            (server.connect().get("/rows?count=1").ok()?.status == 200).then_some(())
        });
        let mut client = server.connect();
        assert!(client.get("/rows?count=20000").unwrap().content == rows.as_bytes(), "{key}");
        assert!(Http2::connect(server.address()).get("/rows?count=20000").content == rows.as_bytes(), "{key}");
        let content = pattern(3_000_000, 11);
        let digest = String::from_utf8(post(&mut client, "/digest", &content).content).unwrap();
        let file = server.directory().join("content");
        fs::write(&file, &content).unwrap();
        assert_eq!(Some(digest), super::languages::digest_of(&file), "{key}");
        let none = client.get("/none").unwrap();
        assert_eq!((none.status, &*none.content), (404, &b"nothing is here"[..]), "{key}");
        assert_eq!(client.get("/fails").unwrap().status, 502, "{key}: uWSGI closes the connection");
        server.wait_to_hear("RuntimeError: the application has failed");
        assert_eq!(client.get("/rows?count=1").unwrap().content, b"row 0\n", "it goes on");
        server.finish();
    }
}
