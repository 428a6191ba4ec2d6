//! HTTP/2 while the program is upgraded or the engine changes: what has been asked is answered by the process that was
//! asked.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;

use super::{LARGE, LARGE_BYTES, Line, content};
use crate::engine::Engine;
use crate::goaway::{DATA, Frames, SETTINGS};
use crate::http2::{Body, Http2, request};
use crate::server::Launch;
use crate::tls::{TlsStream, connect, trusting};
use crate::tree::pattern;

crate::engine::for_engines!([
    amped = AMPED,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    mp = MP,
] => [
    streams_that_have_begun_end_in_the_process_that_began_them,
    an_idle_connection_is_told_that_its_process_ends,
]);

crate::engine::for_engines!([
    every_sped = SPED,
    every_amped = AMPED,
    every_proactor = PROACTOR,
    every_pipelined = PIPELINED,
    every_thread_pool = THREAD_POOL,
    every_thread_per_request = THREAD_PER_REQUEST,
    every_thread_per_session = THREAD_PER_SESSION,
    every_co_amped = CO_AMPED,
    every_mp = MP,
] => [
    a_download_that_is_taken_slowly_ends_in_the_process_that_began_it,
    a_download_whose_window_is_open_and_whose_client_rests_ends_where_it_began,
]);

crate::engine::for_engines!([from_amped = AMPED] => [a_connection_goes_on_through_every_engine_of_this_process]);

const BYTES: usize = 2_000_000;
const WINDOW_UPDATE: u8 = 8;

fn streams_that_have_begun_end_in_the_process_that_began_them(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--h2c").file("http2.bin", pattern(BYTES, 7)));
    let mut client = Http2::connect(line.server.address());
    let uploads = (0..4).map(|_| request("GET", "/http2.bin", &[])).collect();
    assert!(client.ask(uploads).into_iter().all(|answer| answer.unwrap().content == pattern(BYTES, 7)));
    let body = client.begin("/http2.bin");
    line.upgrade();
    assert!(client.finish(body) == pattern(BYTES, 7));
    line.is_alone();
    assert!(Http2::connect(line.server.address()).get("/http2.bin").content == pattern(BYTES, 7));
    line.end();
}

fn an_idle_connection_is_told_that_its_process_ends(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--h2c").file("a.txt", "a"));
    let mut frames = Frames::answered(line.server.connect());
    line.upgrade();
    // Some engines announce it first.
    while frames.expect_goaway() != 1 {
        frames.answer_ping();
    }
    frames.expect_end();
    line.is_alone();
    line.end();
}

fn a_connection_goes_on_through_every_engine_of_this_process(engine: Engine) {
    let line = Line::start(Launch::new(engine).argument("--h2c").file("http2.bin", pattern(BYTES, 7)));
    let mut client = Http2::connect(line.server.address());
    let engines = crate::engine::names_of_one_process();
    for to in engines.iter().chain(&engines) {
        let body = client.begin("/http2.bin");
        let (could, said) = line.ctl(&["arch", "set", to]);
        assert!(could, "{to}: {said}");
        assert!(client.finish(body) == pattern(BYTES, 7), "{to}");
        assert!(client.get("/http2.bin").content == pattern(BYTES, 7), "{to}");
    }
    drop(client);
    line.end();
}

/// What a client takes more slowly than the server sends waits for its windows and for its socket, and is in work all
/// the same.
fn a_download_that_is_taken_slowly_ends_in_the_process_that_began_it(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--tls"));
    let trusted = trusting(&line.server);
    let secured =
        || Http2::connect_secured(line.server.address(), &trusted, ServerName::try_from("127.0.0.1").unwrap());
    let mut clients: Vec<Http2> = (0..3).map(|_| secured()).collect();
    let bodies: Vec<Body> = clients.iter_mut().map(|client| client.begin(LARGE)).collect();
    line.upgrade();
    for (client, body) in clients.iter_mut().zip(bodies) {
        // Nothing is taken for longer than anything about the end takes.
        client.rest(Duration::from_millis(300));
        assert!(client.finish(body) == content(LARGE));
    }
    assert!(clients.into_iter().all(Http2::has_ended));
    line.is_alone();
    line.end();
}

/// A browser opens its windows far, so that only its socket says that it takes nothing for now.
fn a_download_whose_window_is_open_and_whose_client_rests_ends_where_it_began(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--tls").file("a.txt", "a"));
    let mut config = rustls::ClientConfig::clone(&trusting(&line.server));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    let mut clients: Vec<_> = (0..3).map(|_| Frames::answered(connect(&line.server, &config))).collect();
    let begin = |frames: &mut Frames<TlsStream>| {
        // SETTINGS_INITIAL_WINDOW_SIZE, and as much for the connection.
        let most = (1_u32 << 31) - 1;
        frames.send((SETTINGS, 0, 0, [&[0, 4][..], &most.to_be_bytes()].concat()));
        frames.send((WINDOW_UPDATE, 0, 0, (most - 65_535).to_be_bytes().to_vec()));
        frames.ask_for(LARGE, 3);
        data_of(frames)
    };
    let begun: Vec<Vec<u8>> = clients.iter_mut().map(begin).collect();
    line.upgrade();
    // Longer than anything about the end takes.
    thread::sleep(Duration::from_millis(300));
    for (frames, mut got) in clients.iter_mut().zip(begun) {
        while got.len() < LARGE_BYTES {
            got.extend(data_of(frames));
        }
        assert!(got == content(LARGE));
    }
    drop(clients);
    line.is_alone();
    line.end();
}

/// What the next frame of content has.
fn data_of<S: Read + Write>(frames: &mut Frames<S>) -> Vec<u8> {
    loop {
        if let (DATA, _, _, content) = frames.receive() {
            return content;
        }
    }
}
