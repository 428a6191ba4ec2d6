//! Pictures that are asked for at once: who waits for a turn keeps nothing that others need, and too many are told to
//! come again.

use std::collections::BTreeMap;
use std::time::Instant;

use super::images::png;
use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::server::Launch;

for_engines!([
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL,
    pipelined = PIPELINED,
] => [who_waits_for_a_picture_keeps_nothing_that_others_need]);

/// Pictures that are asked for at once.
const ASKED: usize = 60;
/// How many of one network wait for their turn.
const WAIT_MAX: usize = 24;

fn who_waits_for_a_picture_keeps_nothing_that_others_need(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"*.png\"\nfilters = [\"images\"]\n";
    let launch = Launch::new(engine).config(config).file("a.png", png(240, 160));
    let server =
        (0..8).fold(launch, |launch, number| launch.file(&format!("{number}.bin"), "not asked for before")).start();
    let mut clients: Vec<_> = (0..ASKED)
        .map(|number| {
            let mut client = server.connect();
            let (left, top) = (number % 10 * 10, number / 10 * 10);
            let target = format!("/a.png?smooth=10&crop={left},{top},10,10&gamma=0.{}", 1 + number % 9);
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            client
        })
        .collect();
    // Those for whom there is no place are told so before the first picture is there, and files come meanwhile.
    let begun = Instant::now();
    for number in 0..8 {
        let file = server.connect().get(&format!("/{number}.bin")).unwrap();
        assert_eq!((file.status, &*file.content), (200, &b"not asked for before"[..]));
    }
    let for_files = begun.elapsed();
    let mut counts = BTreeMap::new();
    for client in &mut clients {
        let answer = client.receive(true).unwrap();
        answer.check().unwrap();
        assert!(answer.status != 503 || answer.field("Retry-After").is_some());
        *counts.entry(answer.status).or_insert(0) += 1;
    }
    eprintln!("{for_files:?} for files, {:?} for all: {counts:?}", begun.elapsed());
    let made = counts.get(&200).copied().unwrap_or(0);
    let refused = counts.get(&503).copied().unwrap_or(0);
    assert_eq!(made + refused, ASKED, "{counts:?}");
    // A few may have had their turn before the last one came.
    assert!((WAIT_MAX..ASKED - 5).contains(&made), "{counts:?}");
    assert!(for_files < PATIENCE, "{for_files:?}");
    // And later there is a turn again.
    assert_eq!(server.connect().get("/a.png?scale=64").unwrap().status, 200);
    server.finish();
}
