//! How connections of HTTP/2 are told that they end, frame by frame (RFC 9113 6.8), with every engine.

use std::io::{Read, Write};
use std::sync::Arc;

use rustix::process::Signal;

use crate::client::{Client, Duplex};
use crate::engine::{AMPED, Engine, THREAD_POOL, for_engines};
use crate::server::Launch;
use crate::tls::{connect, trusting};

for_engines!([
    mp = MP,
    sped_2 = SPED_2,
    amped = AMPED,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    proactor = PROACTOR,
] => [
    an_idle_connection_is_told_twice_when_the_server_drains,
    an_idle_connection_is_told_when_its_time_is_over,
]);

/// A frame: its type, flags and stream, and its payload.
pub(crate) type Frame = (u8, u8, u32, Vec<u8>);

pub(crate) const DATA: u8 = 0;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const ACK: u8 = 1;
const END: u8 = 1;
const NO_STREAM_YET: u32 = (1 << 31) - 1;

/// The other end of one connection, frame by frame.
pub(crate) struct Frames<S>(Client<S>);

impl<S: Duplex + Read + Write> Frames<S> {
    /// Sends nothing more.
    pub(crate) fn end_sending(&mut self) {
        self.0.end_sending();
    }
}

impl<S: Read + Write> Frames<S> {
    /// One that has asked for `/a.txt` on stream 1, and has been answered.
    pub(crate) fn answered(mut client: Client<S>) -> Frames<S> {
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut frames = Frames(client);
        frames.send((SETTINGS, 0, 0, Vec::new()));
        frames.ask(1);
        frames.expect_answer(1);
        frames
    }

    /// Asks for `/a.txt`.
    fn ask(&mut self, stream: u32) {
        self.ask_for("/a.txt", stream);
    }

    /// Asks for `target`: GET and http of the static table, path and authority in full (RFC 7541).
    pub(crate) fn ask_for(&mut self, target: &str, stream: u32) {
        let length = u8::try_from(target.len()).expect("it is short");
        let block = [&[0x82, 0x86, 0x04, length][..], target.as_bytes(), &[0x01, 1], b"a"].concat();
        self.send((1, 0x4 | END, stream, block));
    }

    /// The answers up to the end of the connection: streams, and how much content came whole.
    pub(crate) fn receive_answers(&mut self) -> Vec<(u32, usize)> {
        let (mut bytes, mut whole) = (std::collections::BTreeMap::new(), Vec::new());
        while let Ok(head) = self.0.receive_exactly(9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            self.0.receive_exactly(length).expect("a frame comes whole");
            *bytes.entry(stream).or_insert(0) += if kind == DATA { length } else { 0 };
            if matches!(kind, DATA | 1) && flags & END != 0 {
                whole.push((stream, bytes[&stream]));
            }
        }
        whole
    }

    fn expect_answer(&mut self, stream: u32) {
        loop {
            let (kind, flags, id, payload) = self.receive();
            assert_ne!(kind, GOAWAY, "{payload:?}");
            if kind == DATA {
                assert_eq!((id, &*payload, flags & END), (stream, &b"a"[..], END));
                return;
            }
        }
    }

    pub(crate) fn send(&mut self, (kind, flags, stream, payload): Frame) {
        let length = u32::try_from(payload.len()).expect("it is short");
        let head = [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.0.send(&[head, payload].concat());
    }

    pub(crate) fn receive(&mut self) -> Frame {
        let head = self.0.receive_exactly(9).expect("a frame comes");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let payload = self.0.receive_exactly(length as usize).expect("it comes whole");
        (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), payload)
    }

    /// The next frame that is not about settings or windows.
    fn receive_telling(&mut self) -> Frame {
        loop {
            let frame = self.receive();
            if ![SETTINGS, 8].contains(&frame.0) {
                return frame;
            }
        }
    }

    /// A GOAWAY without a fault: which stream was the last.
    pub(crate) fn expect_goaway(&mut self) -> u32 {
        let (kind, _, stream, payload) = self.receive_telling();
        assert_eq!((kind, stream), (GOAWAY, 0), "{payload:?}");
        assert_eq!(payload[4..], [0; 4], "NO_ERROR");
        u32::from_be_bytes([payload[0], payload[1], payload[2], payload[3]])
    }

    /// Answers the PING that comes next.
    pub(crate) fn answer_ping(&mut self) {
        let (kind, flags, _, payload) = self.receive_telling();
        assert_eq!((kind, flags & ACK), (PING, 0));
        self.send((PING, ACK, 0, payload));
    }

    pub(crate) fn expect_end(&mut self) {
        self.0.expect_end().unwrap();
    }
}

fn launch(engine: Engine) -> Launch {
    Launch::new(engine).argument("--h2c").file("a.txt", "a")
}

fn an_idle_connection_is_told_twice_when_the_server_drains(engine: Engine) {
    let mut server = launch(engine).start();
    let mut frames = Frames::answered(server.connect());
    server.signal(Signal::TERM);
    assert_eq!(frames.expect_goaway(), NO_STREAM_YET);
    // What was asked before it knew is answered.
    frames.ask(3);
    let (kind, flags, _, payload) = frames.receive_telling();
    assert_eq!((kind, flags & ACK), (PING, 0));
    frames.expect_answer(3);
    frames.send((PING, ACK, 0, payload));
    assert_eq!(frames.expect_goaway(), 3);
    frames.expect_end();
    assert!(server.wait().success());
}

fn an_idle_connection_is_told_when_its_time_is_over(engine: Engine) {
    let server = launch(engine).config("[limits]\nidle_timeout_ms = 300\n").start();
    let mut frames = Frames::answered(server.connect());
    assert_eq!(frames.expect_goaway(), 1);
    frames.expect_end();
    server.finish();
}

#[test]
fn an_idle_connection_that_makes_room_for_others_is_told() {
    for engine in [AMPED, THREAD_POOL] {
        let command = ["sh", "-c", "ulimit -n 40; exec \"$0\" \"$@\""];
        let server = launch(engine).wrapped(&command).start();
        let mut frames = Frames::answered(server.connect());
        // More than there are descriptors for.
        let mut others = Vec::new();
        for _ in 0..60 {
            let mut other = server.connect();
            assert_eq!(other.get("/a.txt").unwrap().content, b"a");
            others.push(other);
        }
        assert_eq!(frames.expect_goaway(), 1);
        frames.expect_end();
        drop(others);
        server.finish();
    }
}

#[test]
fn the_same_is_said_over_tls() {
    for engine in [AMPED, THREAD_POOL] {
        let server = Launch::new(engine)
            .config("[limits]\nidle_timeout_ms = 300\n")
            .argument("--tls")
            .file("a.txt", "a")
            .start();
        let mut config = rustls::ClientConfig::clone(&trusting(&server));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut frames = Frames::answered(connect(&server, &Arc::new(config)));
        assert_eq!(frames.expect_goaway(), 1);
        frames.expect_end();
        server.finish();
    }
}
