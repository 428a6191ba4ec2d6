//! Engines take each other's place under load from clients of TLS and HTTP/2 that check every byte, of files and of
//! what an application answers.
//!
//! `LAMNA_SWITCHES` is how many switches each test makes. Among engines of one process no connection may end. To and
//! from engines of processes connections of TLS and HTTP/2 end, in good order: what has begun comes whole, and what has
//! not is asked again.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::client::Client;
use crate::control::order;
use crate::engine::AMPED;
use crate::gateways::Application;
use crate::http2::Http2;
use crate::server::Launch;
use crate::tls::{TlsStream, trusting};
use crate::tree::pattern;

const SIZES: [usize; 6] = [0, 13, 5_000, 16_385, 60_000, 700_000];

#[test]
fn nothing_is_lost_and_no_connection_ends_while_engines_of_one_process_change() {
    let engines = crate::engine::names_of_one_process();
    let load = switch(&engines, &ALL, 16, false);
    assert_eq!(load.ended.into_inner(), 0);
}

/// What a session has decrypted and the core has not taken goes along: no event tells of it.
#[test]
fn what_is_decrypted_and_not_received_is_looked_at_by_the_successor() {
    let load = switch(&["pipelined", "proactor"], &[Load::by_tls, Load::by_tls], 40, false);
    assert_eq!(load.ended.into_inner(), 0);
}

#[test]
fn nothing_is_lost_while_engines_of_processes_take_over_and_give_back() {
    let engines = ["co-amped", "proactor", "mp", "thread-pool", "co-amped", "pipelined", "mp", "amped"];
    switch(&engines, &ALL, 6, true);
}

/// What clients have in common.
struct Load {
    address: SocketAddr,
    /// Where it speaks in clear text.
    path: PathBuf,
    trusted: Arc<ClientConfig>,
    over: AtomicBool,
    answers: AtomicU64,
    /// Connections that have ended before the test has.
    ended: AtomicU64,
}

type ClientOfLoad = fn(&Load);
const ALL: [ClientOfLoad; 3] = [Load::by_tls, Load::by_h2c, Load::by_h2];

/// Changes engines so often, or as `LAMNA_SWITCHES` says, while two of each kind of clients ask.
fn switch(engines: &[&str], clients: &[ClientOfLoad], switches: usize, with_processes: bool) -> Load {
    let switches = std::env::var("LAMNA_SWITCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(switches);
    let launch = Launch::new(AMPED).argument("--tls").argument("--h2c");
    let launch = SIZES.iter().fold(launch, |launch, bytes| launch.file(&format!("{bytes}.bin"), pattern(*bytes, 7)));
    let application = Application::start();
    let route = format!("{{ match = \"/app/*\", proxy = \"http://{}\" }}", application.address);
    let launch = launch.config(&format!("[[site]]\nroot = \"site\"\nroute = [{route}]\n"));
    let path = launch.directory().join("clear");
    let mut server = launch.argument("--listen").argument(&format!("unix:{}", path.display())).start();
    let load = Load {
        address: server.address(),
        path,
        trusted: trusting(&server),
        over: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let running: Vec<_> = clients.iter().chain(clients).map(|client| scope.spawn(|| client(&load))).collect();
        // Clients go on until they are told, also if this thread panics.
        let told = TellAtEnd(&load.over);
        for name in engines.iter().cycle().take(switches) {
            order(&server, &["arch", "set", name]).unwrap_or_else(|said| panic!("{name}: {said}"));
            assert!(running.iter().all(|client| !client.is_finished()), "a client has failed with {name}");
        }
        drop(told);
    });
    let (answers, ended) = (load.answers.load(Relaxed), load.ended.load(Relaxed));
    println!("{switches} switches, {answers} answers checked, {ended} connections ended before the test");
    assert!(answers > switches as u64, "{answers}");
    let said = server.said();
    assert!(!said.contains("lost") && !said.contains("panicked"), "{said}");
    if with_processes {
        // The process that was started has ended long since.
        order(&server, &["drain"]).expect("who serves now can end");
    } else {
        server.finish();
    }
    load
}

struct TellAtEnd<'a>(&'a AtomicBool);

impl Drop for TellAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

impl Load {
    fn by_tls(&self) {
        self.repeat(
            || Client::new(self.secured()),
            |client: &mut Client<TlsStream>| {
                SIZES.into_iter().all(|bytes| {
                    let content = pattern(bytes, 5);
                    self.ask(client, &format!("GET /{bytes}.bin"), b"", &pattern(bytes, 7))
                        && self.ask(client, &format!("GET /app/chunked/{bytes}"), b"", &pattern(bytes, 3))
                        && self.ask(client, "POST /app/echo", &content, &content)
                })
            },
        );
    }

    /// False if the connection takes no more.
    fn ask(&self, client: &mut Client<TlsStream>, what: &str, content: &[u8], expected: &[u8]) -> bool {
        let length = content.len();
        client.send(format!("{what} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").as_bytes());
        client.send(content);
        // One that ends in good order has not begun to answer.
        let Ok(head) = client.receive_head() else { return false };
        assert_eq!(head.status, 200, "{what}");
        let answer = match head.field("Content-Length") {
            Some(length) => client.receive_exactly(length.parse().expect("it is a number")),
            None => client.receive_chunks(),
        };
        assert!(answer.expect("what has begun comes whole") == expected, "{what}, {length} bytes");
        self.answers.fetch_add(1, Relaxed);
        head.field("Connection") != Some("close")
    }

    fn by_h2c(&self) {
        self.repeat(|| Http2::connect_unix(self.path.clone()), |client| self.ask_all(client));
    }

    fn by_h2(&self) {
        self.repeat(|| Http2::connect_secured(self.address, &self.trusted, name()), |client| self.ask_all(client));
    }

    /// Eighteen streams beside each other. False if the connection takes no more.
    fn ask_all(&self, client: &mut Http2) -> bool {
        let asked: Vec<(String, Vec<u8>)> = SIZES
            .into_iter()
            .flat_map(|bytes| {
                [
                    (format!("/{bytes}.bin"), pattern(bytes, 7)),
                    (format!("/app/sized/{bytes}"), pattern(bytes, 3)),
                    (format!("/app/chunked/{bytes}"), pattern(bytes, 3)),
                ]
            })
            .collect();
        let paths: Vec<&str> = asked.iter().map(|(path, _)| &**path).collect();
        let answers = client.get_all(&paths);
        let whole = answers.iter().flatten().count();
        for ((path, content), answer) in asked.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            assert_eq!(answer.status, 200, "{path}");
            assert!(answer.content == *content, "{path}");
        }
        self.answers.fetch_add(whole as u64, Relaxed);
        whole == paths.len()
    }

    /// Asks again and again, of a new connection where one has ended.
    fn repeat<C>(&self, connect: impl Fn() -> C, mut ask: impl FnMut(&mut C) -> bool) {
        while !self.over.load(Relaxed) {
            let mut client = connect();
            while ask(&mut client) {
                if self.over.load(Relaxed) {
                    return;
                }
            }
            self.ended.fetch_add(1, Relaxed);
        }
    }

    fn secured(&self) -> TlsStream {
        let connection = ClientConnection::new(self.trusted.clone(), name()).expect("the configuration is whole");
        StreamOwned::new(connection, Client::connect(self.address).stream)
    }
}

fn name() -> ServerName<'static> {
    ServerName::from(IpAddr::from([127, 0, 0, 1]))
}
