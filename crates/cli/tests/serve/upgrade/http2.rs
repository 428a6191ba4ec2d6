//! HTTP/2 while the program is upgraded or the engine changes: what has been asked is answered by the process that was asked.

use super::Line;
use crate::engine::Engine;
use crate::goaway::Frames;
use crate::http2::{Http2, request};
use crate::server::Launch;
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

crate::engine::for_engines!([from_amped = AMPED] => [a_connection_goes_on_through_every_engine_of_this_process]);

const BYTES: usize = 2_000_000;

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
