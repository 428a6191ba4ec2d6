//! A server that does what a test says, and remembers what it answered.
//!
//! Owns: a thread for each connection, which ends with the connection. Answers are written in the order of the
//! requests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What to do about a request.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// Before anything is sent.
    pub(crate) pause: Duration,
    /// To the byte; nothing if empty.
    pub(crate) bytes: Vec<u8>,
    /// Whether the connection is closed then.
    pub(crate) close: bool,
}

impl Reply {
    /// 200 with this content, on a connection that goes on.
    pub(crate) fn ok(content: &str) -> Reply {
        Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{content}", content.len()))
    }

    /// These bytes, on a connection that goes on.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply { pause: Duration::ZERO, bytes: bytes.into(), close: false }
    }

    pub(crate) fn after(self, pause: Duration) -> Reply {
        Reply { pause, ..self }
    }

    pub(crate) fn closing(self) -> Reply {
        Reply { close: true, ..self }
    }
}

/// A running server. Its listening thread lives as long as the test process.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers request number n (from zero, over all connections) whose head is `text` with `reply(n, text)`.
    pub(crate) fn start(reply: impl Fn(usize, &str) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let (log, connections) = (Arc::default(), Arc::default());
        let server = Server { address, log: Arc::clone(&log), connections: Arc::clone(&connections) };
        let (reply, count) = (Arc::new(reply), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (reply, count, log) = (Arc::clone(&reply), Arc::clone(&count), Arc::clone(&log));
                thread::spawn(move || talk(stream, &*reply, &count, &log));
            }
        });
        server
    }

    /// The request lines that were answered with something.
    pub(crate) fn answered(&self) -> Vec<String> {
        self.log.lock().expect("no thread panics with it").clone()
    }

    /// Connections that were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn talk(
    mut stream: TcpStream,
    reply: &(dyn Fn(usize, &str) -> Reply + Send + Sync),
    count: &AtomicUsize,
    log: &Mutex<Vec<String>>,
) {
    let (mut held, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(end) = held.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&held[..end]).into_owned();
            held.drain(..end + 4);
            let reply = reply(count.fetch_add(1, Ordering::SeqCst), &head);
            thread::sleep(reply.pause);
            if !reply.bytes.is_empty() {
                log.lock().expect("no thread panics with it").push(head.lines().next().unwrap_or_default().to_owned());
            }
            if stream.write_all(&reply.bytes).is_err() {
                return;
            }
            if reply.close {
                return close(stream);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(read) => held.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Closes so that the peer gets what was sent: input that nobody reads would turn the end into a reset (RFC 9112 9.6).
fn close(mut stream: TcpStream) {
    _ = stream.shutdown(Shutdown::Write);
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
}
