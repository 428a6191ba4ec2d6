//! Answers of applications that pass through filters: while they come, in every engine, and never whole when they are
//! not.
//!
//! Owns: an application whose answers have what filters look at ([`Application`]). It listens at a port of its own and
//! ends with the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::client::{APPLICATION_PATIENCE, Client, Response};
use crate::engine::{AMPED, Engine, PIPELINED, PROACTOR, SPED, THREAD_POOL, for_engines};
use crate::gateways::php::start_php;
use crate::server::{Launch, Server};
use crate::skip::skipped;

for_engines!(all streams_are_tried_with_every_architecture: [
    sped = SPED,
    sped_2 = SPED_2,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    proactor = PROACTOR,
    proactor_2 = PROACTOR_2,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    pipelined = PIPELINED,
    mp = MP,
] => [
    an_answer_is_filtered_while_it_comes,
    what_no_filter_takes_comes_through_as_it_is,
    what_breaks_off_is_not_taken_for_whole,
    events_are_compressed_and_arrive_as_they_are_sent,
    a_large_answer_is_compressed_for_who_accepts_it,
    an_answer_is_decompressed_filtered_and_compressed_again,
    a_bomb_is_broken_off,
    what_scripts_say_is_filtered,
]);

pub(super) struct Application {
    pub(super) address: SocketAddr,
    /// Each lets a stream of events go on.
    go: Sender<()>,
    over: Arc<Mutex<bool>>,
}

impl Application {
    pub(super) fn start() -> Application {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has an address");
        let ((go, wait), over) = (channel(), Arc::new(Mutex::new(false)));
        let (wait, is_over) = (Arc::new(Mutex::new(wait)), over.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if *is_over.lock().expect("nobody panics") {
                    return;
                }
                let wait = wait.clone();
                // Its end is that of the connection: nothing that it says is of interest.
                thread::spawn(move || answer(stream, &wait));
            }
        });
        Application { address, go, over }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        *self.over.lock().expect("nobody panics") = true;
        let _ = TcpStream::connect(self.address);
    }
}

const PAGE: &str = "<!doctype html><title>A</title><p>a secret, and no secret\n";
const FILTERED: &str = "<!doctype html><title>A</title><p>a public, and no public\n<hr>";

fn text(bytes: usize) -> Vec<u8> {
    (0_u64..).flat_map(|number| format!("line {number} of a secret\n").into_bytes()).take(bytes).collect()
}

fn answer(mut stream: TcpStream, wait: &Mutex<Receiver<()>>) -> Option<()> {
    stream.set_read_timeout(Some(APPLICATION_PATIENCE)).ok()?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut say = |bytes: &[u8]| stream.write_all(bytes).ok();
    let whole = |fields: &str, content: &[u8]| {
        let (length, is_head) = (content.len(), head.starts_with("HEAD "));
        let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n");
        [head.as_bytes(), if is_head { b"" } else { content }].concat()
    };
    const PAGES: &str =
        "Content-Type: text/html; charset=utf-8\r\nETag: \"one\"\r\nAccept-Ranges: bytes\r\nDigest: x\r\n";
    match head.split(' ').nth(1)?.rsplit('/').next()? {
        "" => say(&whole("Content-Type: text/plain\r\n", b"See localhost:3000\n")),
        "page" => say(&whole(PAGES, PAGE.as_bytes())),
        "chunked" => {
            say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nContent-Type: text/html\r\n\r\n")?;
            for byte in PAGE.as_bytes() {
                say(&[b"1\r\n", &[*byte][..], b"\r\n"].concat())?;
            }
            say(b"0\r\nServer-Timing: a\r\nDigest: x\r\n\r\n")
        }
        "image" => say(&whole("Content-Type: image/png\r\nETag: \"one\"\r\n", b"no text, but a secret")),
        "as-it-is" => say(&whole("Content-Type: text/plain\r\nCache-Control: no-transform\r\n", b"a secret")),
        "coded" => say(&whole("Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", &gzip(b"a secret"))),
        "strange" => say(&whole("Content-Type: text/plain\r\nContent-Encoding: dcb\r\n", b"a secret")),
        "told" => say(&whole("Content-Type: text/plain\r\n", head.as_bytes())),
        "text" => say(&whole("Content-Type: text/plain\r\nVary: Cookie\r\n", &text(3_000_000))),
        "short-text" => say(&whole("Content-Type: text/plain\r\nVary: Cookie\r\n", &text(100_000))),
        "unchanged" => say(b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\nETag: \"one\"\r\n\r\n"),
        "cut" => say(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<p>a secret"),
        "markdown" => say(&whole("Content-Type: text/markdown\r\n", b"# A secret\n")),
        "cut-markdown" => {
            say(b"HTTP/1.1 200 OK\r\nContent-Type: text/markdown\r\nContent-Length: 1000\r\n\r\n# A secret")
        }
        "bomb" => say(&whole("Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", &gzip(&vec![b'a'; 32 << 20]))),
        "events" => {
            say(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n")?;
            for number in 0..5 {
                wait.lock().ok()?.recv_timeout(APPLICATION_PATIENCE).ok()?;
                say(format!("data: event {number}\n\n").as_bytes())?;
            }
            Some(())
        }
        other => panic!("{other} is no manner of this application"),
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("it is written to memory")
}

fn decoded(answer: &Response) -> Vec<u8> {
    let mut content = Vec::new();
    match answer.field("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(&answer.content[..]).read_to_end(&mut content).map(drop),
        Some("br") => brotli::Decompressor::new(&answer.content[..], 4096).read_to_end(&mut content).map(drop),
        Some("zstd") => zstd::stream::copy_decode(&answer.content[..], &mut content),
        _ => answer.content.clone().as_slice().read_to_end(&mut content).map(drop),
    }
    .expect("it can be decoded");
    content
}

fn start(engine: Engine, application: &Application) -> Server {
    let to = application.address;
    let route = |path: &str, filters: &str| {
        format!("[[site.route]]\nmatch = \"/{path}/*\"\nproxy = \"http://{to}\"\nfilters = [{filters}]\n")
    };
    let substitute = "{ name = \"substitute\", from = \"secret\", to = \"public\" }";
    let insert = "{ name = \"insert\", where = \"body\", html = \"<hr>\" }";
    let routes = [
        route("text", &format!("\"markdown\", {substitute}, {insert}")),
        route("small", "\"compress\""),
        route("both", &format!("\"decompress\", {substitute}, \"compress\"")),
    ];
    let config = format!("[[site]]\nroot = \"site\"\n{}", routes.concat());
    Launch::new(engine).file("a.txt", "a file\n").config(&config).start()
}

fn ask(server: &Server, target: &str, fields: &str) -> Response {
    try_to_ask(server, "GET", target, fields).unwrap_or_else(|fault| panic!("{target}: {fault}"))
}

fn try_to_ask(server: &Server, method: &str, target: &str, fields: &str) -> Result<Response, String> {
    let mut client = server.connect();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n").as_bytes());
    let response = client.receive(method != "HEAD")?;
    response.check()?;
    Ok(response)
}

fn an_answer_is_filtered_while_it_comes(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let page = ask(&server, "/text/page", "");
    assert_eq!(String::from_utf8_lossy(&page.content), FILTERED);
    assert_eq!(
        (page.field("etag"), page.field("accept-ranges"), page.field("digest")),
        (Some("W/\"one\""), None, None)
    );
    assert_eq!((page.field("content-length"), page.field("transfer-encoding")), (None, Some("chunked")));
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    let head = try_to_ask(&server, "HEAD", "/text/page", "").unwrap();
    assert_eq!((head.field("etag"), head.field("content-length")), (Some("W/\"one\""), None));
    let unchanged = ask(&server, "/text/unchanged", "If-None-Match: W/\"one\"\r\n");
    assert_eq!((unchanged.status, unchanged.field("etag")), (304, Some("W/\"one\"")));
    let markdown = ask(&server, "/text/markdown", "");
    let text = String::from_utf8_lossy(&markdown.content);
    assert!(text.contains("<h1 id=\"a-public\">A public</h1>") && text.ends_with("<hr></body>\n</html>\n"), "{text}");
    assert_eq!(markdown.field("content-type"), Some("text/html; charset=utf-8"));
    // Nothing is asked for that could not be filtered.
    let told = ask(&server, "/text/told", "Accept-Encoding: gzip\r\nRange: bytes=0-1\r\nIf-Range: \"one\"\r\n");
    let told = String::from_utf8_lossy(&told.content).to_ascii_lowercase();
    assert!(told.contains("accept-encoding: identity\r\n") && !told.contains("range:"), "{told}");
    // Trailers are kept but for those that are about the content.
    let mut client = server.connect();
    client.send(b"GET /text/chunked HTTP/1.1\r\nHost: test\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n");
    let said = String::from_utf8(client.receive_rest()).unwrap();
    assert!(said.ends_with("0\r\nServer-Timing: a\r\n\r\n") && !said.contains("Digest"), "{said}");
    assert_eq!(String::from_utf8_lossy(&ask(&server, "/text/chunked", "").content), FILTERED);
    server.finish();
}

fn what_no_filter_takes_comes_through_as_it_is(engine: Engine) {
    let application = Application::start();
    let mut server = start(engine, &application);
    for folder in ["text", "small", "both"] {
        let image = ask(&server, &format!("/{folder}/image"), "Accept-Encoding: gzip\r\n");
        assert_eq!(image.content, b"no text, but a secret", "{folder}");
        assert_eq!((image.field("content-length"), image.field("etag")), (Some("21"), Some("\"one\"")), "{folder}");
        let kept = ask(&server, &format!("/{folder}/as-it-is"), "Accept-Encoding: gzip\r\n");
        assert_eq!(kept.content, b"a secret", "{folder}");
        let strange = ask(&server, &format!("/{folder}/strange"), "");
        assert_eq!((&*strange.content, strange.field("content-encoding")), (&b"a secret"[..], Some("dcb")), "{folder}");
    }
    assert_eq!(ask(&server, "/text/coded", "").content, gzip(b"a secret"));
    server.wait_to_hear("the answer has a content coding and is not filtered");
    server.finish();
}

fn what_breaks_off_is_not_taken_for_whole(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    for target in ["/text/cut", "/both/cut"] {
        let answer = try_to_ask(&server, "GET", target, "Accept-Encoding: gzip\r\n");
        assert!(answer.is_err(), "{target}: {answer:?}");
    }
    // Nothing of it has been given: it can still be another one.
    assert_eq!(ask(&server, "/text/cut-markdown", "").status, 502);
    server.finish();
}

fn events_are_compressed_and_arrive_as_they_are_sent(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let mut client = Client::connect(server.address());
    client.send(b"GET /small/events HTTP/1.0\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = client.receive_head().expect("it comes before any event");
    assert_eq!((head.status, head.field("content-encoding")), (200, Some("gzip")));
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    for number in 0..5 {
        application.go.send(()).expect("it is waited for");
        let event = format!("data: event {number}\n\n");
        while !decoder.get_ref().ends_with(event.as_bytes()) {
            decoder.write_all(&client.receive_exactly(1).expect("the event comes")).expect("it is well-formed");
            decoder.flush().expect("it is written to memory");
        }
    }
    decoder.write_all(&client.receive_rest()).expect("it is well-formed");
    decoder.finish().expect("it is whole");
    server.finish();
}

fn a_large_answer_is_compressed_for_who_accepts_it(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    for (accepts, coding) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("gzip, deflate, br, zstd", Some("zstd")),
        ("gzip;q=0", None),
        ("deflate", None),
    ] {
        let answer = ask(&server, "/small/text", &format!("Accept-Encoding: {accepts}\r\n"));
        assert_eq!(answer.field("content-encoding"), coding, "{accepts}");
        assert_eq!(answer.field("vary"), Some("Cookie, Accept-Encoding"), "{accepts}");
        assert!(decoded(&answer) == text(3_000_000), "{accepts}");
        assert_eq!(answer.content.len() < 600_000, coding.is_some(), "{accepts}: {}", answer.content.len());
        assert_eq!(answer.field("content-length").is_none(), coding.is_some(), "{accepts}");
    }
    let small = ask(&server, "/small/page", "Accept-Encoding: gzip\r\n");
    assert_eq!((small.field("content-encoding"), &*small.content), (None, PAGE.as_bytes()));
    // What the application has compressed itself is as good.
    assert_eq!(ask(&server, "/small/coded", "Accept-Encoding: gzip\r\n").content, gzip(b"a secret"));
    server.finish();
}

fn an_answer_is_decompressed_filtered_and_compressed_again(engine: Engine) {
    let application = Application::start();
    let server = start(engine, &application);
    let plain = ask(&server, "/both/coded", "");
    assert_eq!((&*plain.content, plain.field("content-encoding")), (&b"a public"[..], None));
    let expected = String::from_utf8(text(3_000_000)).unwrap().replace("secret", "public").into_bytes();
    let large = ask(&server, "/both/text", "Accept-Encoding: br\r\n");
    assert_eq!(large.field("content-encoding"), Some("br"));
    assert!(decoded(&large) == expected);
    server.finish();
}

fn a_bomb_is_broken_off(engine: Engine) {
    let application = Application::start();
    let mut server = start(engine, &application);
    let answer = try_to_ask(&server, "GET", "/both/bomb", "");
    assert!(answer.is_err(), "{:?}", answer.map(|answer| answer.content.len()));
    server.wait_to_hear("the answer gets more than 200 times larger");
    assert_eq!(ask(&server, "/a.txt", "").content, b"a file\n");
    server.finish();
}

fn what_scripts_say_is_filtered(engine: Engine) {
    let directory = tempfile::tempdir().expect("there is room");
    let socket = directory.path().join("php.sock");
    let Some(_php) = start_php(directory.path(), &socket) else {
        return skipped("filters::streams", "php-fpm is not installed");
    };
    let config = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\nfastcgi = \"unix:{}\"\n\
         filters = [{{ name = \"substitute\", from = \"secret\", to = \"public\" }}, \"compress\"]\n",
        socket.display()
    );
    let script = "<?php header('Content-Type: text/plain'); echo str_repeat(\"a secret\\n\", 10000);";
    let server = Launch::new(engine).file("a.php", script).file("a.txt", "a secret\n").config(&config).start();
    for _ in 0..2 {
        let answer = ask(&server, "/a.php", "Accept-Encoding: gzip\r\n");
        assert_eq!((answer.status, answer.field("content-encoding")), (200, Some("gzip")));
        assert!(decoded(&answer) == "a public\n".repeat(10_000).as_bytes());
        assert_eq!(ask(&server, "/a.txt", "").content, b"a public\n");
    }
    server.finish();
}

#[test]
fn an_answer_is_kept_as_it_was_filtered() {
    for engine in [SPED, AMPED, PROACTOR, THREAD_POOL, PIPELINED] {
        let application = Application::start();
        let to = application.address;
        let substitute = "{ name = \"substitute\", from = \"secret\", to = \"public\" }";
        let server = Launch::new(engine)
            .config(&format!(
                "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*\"\nproxy = \"http://{to}\"\n\
                 cache = {{ fresh_s = 60 }}\nfilters = [{substitute}, \"compress\"]\n"
            ))
            .start();
        let expected = String::from_utf8(text(100_000)).unwrap().replace("secret", "public").into_bytes();
        for accepts in ["gzip", "identity", "zstd"] {
            for is_kept in [false, true] {
                let answer = ask(&server, "/short-text", &format!("Accept-Encoding: {accepts}\r\n"));
                let status = answer.field("cache-status").unwrap_or_default();
                assert_eq!(status.contains("hit"), is_kept, "{accepts}: {status}");
                assert_eq!(answer.field("content-encoding"), Some(accepts).filter(|one| *one != "identity"));
                assert!(decoded(&answer) == expected, "{accepts}");
            }
        }
        server.finish();
    }
}
