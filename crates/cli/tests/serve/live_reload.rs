//! Pages that load themselves again when files change: with every engine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use std::{fs, str};

use crate::client::PATIENCE;
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
] => [a_page_is_told_of_every_change_and_of_nothing_else]);

/// A page that listens, as a browser does: it asks again when the stream has ended.
struct Page<'s> {
    server: &'s Server,
    stream: Option<TcpStream>,
    received: Vec<u8>,
}

impl Page<'_> {
    /// What the last event has said, if there is one that is not `known`.
    fn other_than(&mut self, known: Option<&str>) -> Option<String> {
        let stream = self.stream.get_or_insert_with(|| {
            self.received.clear();
            let mut stream = TcpStream::connect(self.server.address()).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            stream.write_all(b"GET /.lamna/changes HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            stream
        });
        let mut piece = [0; 4096];
        match stream.read(&mut piece) {
            Ok(0) => self.stream = None,
            Ok(bytes) => self.received.extend_from_slice(&piece[..bytes]),
            // Nothing yet.
            Err(_) => {}
        }
        let text = str::from_utf8(&self.received).unwrap();
        let last = text.rsplit_once("data: ").and_then(|(_, rest)| rest.get(..16));
        last.filter(|last| known.is_none_or(|known| known != *last)).map(str::to_owned)
    }
}

fn a_page_is_told_of_every_change_and_of_nothing_else(engine: Engine) {
    let page = "<html><body><p>here</body></html>";
    let launch = Launch::new(engine).file("index.html", page).file("a/style.css", "p{}").argument("--watch");
    let root = launch.directory().join("site");
    let server = launch.start();
    let served = server.connect().get("/").unwrap();
    let text = String::from_utf8(served.content).unwrap();
    assert!(text.contains("<p>here<script>") && text.contains("/.lamna/changes"), "{text}");
    assert_eq!(server.connect().get("/a/style.css").unwrap().content, b"p{}");
    let mut page = Page { server: &server, stream: None, received: Vec::new() };
    let first = eventually("the first state is told", PATIENCE, || page.other_than(None));
    let head = str::from_utf8(&page.received).unwrap();
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
    fs::write(root.join("a/style.css"), "p{ color: red }").unwrap();
    let second = eventually("a change is told", PATIENCE, || page.other_than(Some(&first)));
    fs::write(root.join("a/new.js"), "").unwrap();
    let third = eventually("a new file is told", PATIENCE, || page.other_than(Some(&second)));
    // Another page, and so another process perhaps, is told the same.
    let mut other = Page { server: &server, stream: None, received: Vec::new() };
    assert_eq!(eventually("it is told the state", PATIENCE, || other.other_than(None)), third);
    fs::remove_file(root.join("a/new.js")).unwrap();
    assert_eq!(eventually("it is as before", PATIENCE, || page.other_than(Some(&third))), second);
    drop((page, other));
    server.finish();
}
