//! Serving large files where nothing tells what is in memory: what was read is believed to be there, so that it is not read
//! by a helper for every stretch.

use crate::engine::{Engine, for_engines};
use crate::server::Launch;

for_engines!([
    amped_without_tests = AMPED_WITHOUT_TESTS,
    amped_mapped_without_tests = AMPED_MAPPED_WITHOUT_TESTS,
    pipelined_without_tests = PIPELINED_WITHOUT_TESTS,
    proactor_without_tests = PROACTOR_WITHOUT_TESTS,
] => [
    what_was_read_once_is_sent_again_without_a_helper,
]);

const FILE_BYTES: usize = 3_000_000;
const ROUNDS: u64 = 20;

fn what_was_read_once_is_sent_again_without_a_helper(engine: Engine) {
    let content: Vec<u8> = (0..FILE_BYTES).map(|index| (index ^ (index >> 8)) as u8).collect();
    let server = Launch::new(engine).file("large.bin", &content).start();
    let mut client = server.connect();
    for _ in 0..ROUNDS {
        assert_eq!(client.get("/large.bin").unwrap().content, content);
    }
    let head = "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=1000000-1999999\r\n\r\n";
    client.send(head.as_bytes());
    assert_eq!(client.receive(true).unwrap().content, content[1_000_000..2_000_000]);
    drop(client);
    let said = server.finish();
    // Twelve stretches of 256 KiB; comparing the translation takes helpers as well.
    let likely = number_after(&said, "believed to be in memory: ");
    assert!(likely >= 12 * (ROUNDS - 2), "{said}");
    assert_eq!(number_after(&said, "wrongly: "), 0, "what was just written is in memory: {said}");
}

fn number_after(said: &str, label: &str) -> u64 {
    let rest = said.split(label).nth(1).unwrap_or_else(|| panic!("{label} in {said}"));
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().expect("it is a number")
}
