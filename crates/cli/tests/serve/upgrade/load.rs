//! Clients of several kinds that ask all the time and look at every byte.

use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::{LARGE, LARGE_BYTES, MIDDLE, SMALL, content};
use crate::client::Client;

/// What clients have seen.
struct Load {
    address: SocketAddr,
    over: AtomicBool,
    answers: AtomicU64,
    failures: Mutex<Vec<String>>,
}

/// Clients of all kinds ask while `work` is done, and none may notice.
pub(super) fn under_load(address: SocketAddr, work: impl FnOnce()) {
    let load = Load { address, over: AtomicBool::new(false), answers: AtomicU64::new(0), failures: Mutex::default() };
    thread::scope(|scope| {
        let clients: [Visit; 6] = [one_by_one, pipelined, byte_by_byte, reading_slowly, new_connections, idling];
        for client in clients {
            scope.spawn({
                let load = &load;
                move || load.repeat(client)
            });
        }
        // Clients are told to stop whatever happens.
        let over = Over(&load.over);
        work();
        drop(over);
    });
    let failures = load.failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} failures, the first: {:?}", failures.len(), &failures[..failures.len().min(5)]);
    let answers = load.answers.into_inner();
    println!("{answers} answers were as they should be");
    assert!(answers > 100, "{answers}");
}

/// One client from its first request to its last: what went wrong.
type Visit = fn(&Load) -> Result<(), String>;

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Load {
    fn repeat(&self, visit: Visit) {
        while !self.over.load(Relaxed) {
            if let Err(failure) = visit(self) {
                self.failures.lock().unwrap().push(failure);
                return;
            }
        }
    }

    fn expect(&self, received: &[u8], path: &str) -> Result<(), String> {
        self.answers.fetch_add(1, Relaxed);
        let right = received == content(path);
        if right { Ok(()) } else { Err(format!("{} bytes that are not {path}", received.len())) }
    }

    fn connect(&self) -> Client<TcpStream> {
        Client::connect(self.address)
    }
}

fn one_by_one(load: &Load) -> Result<(), String> {
    let mut client = load.connect();
    for path in [SMALL, MIDDLE].iter().cycle().take(40) {
        load.expect(&client.get(path)?.content, path)?;
    }
    Ok(())
}

fn pipelined(load: &Load) -> Result<(), String> {
    let mut client = load.connect();
    for _ in 0..10 {
        let paths = [SMALL, MIDDLE, SMALL, SMALL, MIDDLE, SMALL, SMALL, SMALL, MIDDLE, SMALL, SMALL, SMALL];
        let requests: String = paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
        client.send(requests.as_bytes());
        for path in paths {
            load.expect(&client.receive(true)?.content, path)?;
        }
    }
    Ok(())
}

fn byte_by_byte(load: &Load) -> Result<(), String> {
    let mut client = load.connect();
    for byte in format!("GET {MIDDLE} HTTP/1.1\r\nHost: a\r\n\r\n").bytes() {
        client.send(&[byte]);
        thread::sleep(Duration::from_millis(2));
    }
    load.expect(&client.receive(true)?.content, MIDDLE)
}

fn reading_slowly(load: &Load) -> Result<(), String> {
    let mut client = load.connect();
    client.send(format!("GET {LARGE} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client.receive_head()?;
    let mut received = Vec::new();
    while received.len() < LARGE_BYTES {
        received.extend(client.receive_exactly(100_000)?);
        if !load.over.load(Relaxed) {
            thread::sleep(Duration::from_millis(4));
        }
    }
    load.expect(&received, LARGE)
}

fn new_connections(load: &Load) -> Result<(), String> {
    let mut client = load.connect();
    client.send(format!("GET {SMALL} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
    load.expect(&client.receive(true)?.content, SMALL)?;
    client.expect_end()
}

fn idling(load: &Load) -> Result<(), String> {
    let mut clients: Vec<_> = (0..10).map(|_| load.connect()).collect();
    for _ in 0..3 {
        for client in &mut clients {
            load.expect(&client.get(SMALL)?.content, SMALL)?;
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
