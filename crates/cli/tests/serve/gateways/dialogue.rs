//! Requests whose content comes only when the application has answered: it is asked when the head is there, and both
//! sides go on in turns. And what is passed on so early is asked once.
//!
//! Owns: an application that answers before it has read any content ([`Talker`]).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::client::APPLICATION_PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::http2::{Http2, request};
use crate::server::{Launch, Server};

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
    an_application_is_asked_before_the_content_comes,
    what_may_have_had_an_effect_is_asked_once,
]);

/// An application: `/kept` is answered in full; to `/turns` it says that there is an answer, and then says again what
/// comes, in chunks of the same size, up to `end`; at `/gone` it closes the connection when it has read the head.
struct Talker {
    address: SocketAddr,
    /// How often it has read a head of `/gone`.
    gone: Arc<AtomicU64>,
}

impl Talker {
    fn start() -> Talker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, gone) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let count = gone.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(APPLICATION_PATIENCE)).unwrap();
                let count = count.clone();
                thread::spawn(move || converse(stream, &count));
            }
        });
        Talker { address, gone }
    }

    fn asked(&self) -> u64 {
        self.gone.load(Relaxed)
    }
}

/// Nothing if the connection ends.
fn converse(mut stream: TcpStream, gone: &AtomicU64) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        match head.split(' ').nth(1)? {
            "/turns" => {
                let is_chunked = head.contains("\r\nTransfer-Encoding: chunked\r\n");
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
                loop {
                    let mut word = [0; 4];
                    if is_chunked {
                        reader.read_line(&mut String::new()).ok()?;
                    }
                    reader.read_exact(&mut word).ok()?;
                    if is_chunked {
                        reader.read_line(&mut String::new()).ok()?;
                    }
                    stream.write_all(&[b"4\r\n", &word[..], b"\r\n"].concat()).ok()?;
                    if &word == b"end\n" {
                        break;
                    }
                }
                stream.write_all(b"0\r\n\r\n").ok()?;
                return None;
            }
            "/gone" => {
                gone.fetch_add(1, Relaxed);
                return None;
            }
            _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nkept\n").ok()?,
        }
    }
}

fn start(engine: Engine, talker: &Talker) -> Server {
    let route = format!("[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\n", talker.address);
    let lines = format!("[limits]\nbody_timeout_ms = 3600000\n[[site]]\nroot = \"site\"\n{route}");
    Launch::new(engine).argument("--h2c").config(&lines).start()
}

const WORDS: [&[u8]; 4] = [b"one\n", b"two\n", b"ten\n", b"end\n"];

fn an_application_is_asked_before_the_content_comes(engine: Engine) {
    let talker = Talker::start();
    let server = start(engine, &talker);
    for (framing, is_chunked) in [("Content-Length: 16", false), ("Transfer-Encoding: chunked", true)] {
        let mut client = server.connect();
        client.send(format!("POST /turns HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes());
        let head = client.receive_head().unwrap();
        assert_eq!((head.status, head.field("Transfer-Encoding")), (200, Some("chunked")), "{framing}");
        for word in WORDS {
            let framed = if is_chunked { [b"4\r\n", word, b"\r\n"].concat() } else { word.to_vec() };
            client.send(&framed);
            assert_eq!(client.receive_exactly(9).unwrap(), [b"4\r\n", word, b"\r\n"].concat(), "{framing}");
        }
        assert_eq!(client.receive_exactly(5).unwrap(), b"0\r\n\r\n", "{framing}");
    }
    let mut client = Http2::connect(server.address());
    for fields in [&[("content-length", "16")][..], &[]] {
        let mut stream = client.begin_two_way(request("POST", "/turns", fields)).unwrap();
        assert_eq!(stream.head.status(), 200, "{fields:?}");
        for word in WORDS {
            assert_eq!(client.exchange(&mut stream, word), word, "{fields:?}");
        }
        assert_eq!(client.end(stream), b"", "{fields:?}");
    }
    server.finish();
}

fn what_may_have_had_an_effect_is_asked_once(engine: Engine) {
    let talker = Talker::start();
    let server = start(engine, &talker);
    for (index, framing) in ["Content-Length: 4", "Transfer-Encoding: chunked"].into_iter().enumerate() {
        let mut client = server.connect();
        // Over a connection that was kept as well.
        assert_eq!(client.get("/kept").unwrap().content, b"kept\n");
        client.send(format!("POST /gone HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes());
        assert_eq!(client.receive(true).unwrap().status, 502, "{framing}");
        assert_eq!(talker.asked(), index as u64 + 1, "{framing}");
    }
    server.finish();
}
