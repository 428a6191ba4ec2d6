//! Uploads while the program is upgraded: a request that does something ends in the process that began it.

use std::fs;

use super::{Line, SMALL, content};
use crate::engine::Engine;
use crate::server::Launch;
use crate::tree::pattern;

crate::engine::for_engines!([
    amped = AMPED,
    proactor = PROACTOR,
    pipelined = PIPELINED,
    thread_pool = THREAD_POOL,
    co_amped = CO_AMPED,
    mp = MP,
] => [an_upload_that_has_begun_ends_in_the_process_that_began_it]);

const BYTES: usize = 300_000;

fn an_upload_that_has_begun_ends_in_the_process_that_began_it(engine: Engine) {
    let mut line = Line::start(Launch::new(engine).argument("--upload"));
    let sent = pattern(BYTES, 3);
    let mut client = line.server.connect();
    client.send(format!("PUT /new HTTP/1.1\r\nHost: a\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes());
    client.send(&sent[..100_000]);
    line.upgrade();
    client.send(&sent[100_000..]);
    let answer = client.receive(true).unwrap();
    assert_eq!(answer.status, 201);
    // What arrived before its engine left was the last of it: then the connection goes to the new process.
    if answer.field("Connection").is_none() {
        assert_eq!(client.get(SMALL).unwrap().content, content(SMALL));
    }
    line.is_alone();
    let mut other = line.server.connect();
    assert!(other.get("/new").unwrap().content == sent);
    assert_eq!(other.get(SMALL).unwrap().content, content(SMALL));
    assert!(fs::read_dir(line.server.site()).unwrap().count() == 4);
    drop(other);
    let said = line.end();
    assert!(!said.contains("could not be"), "{said}");
}
