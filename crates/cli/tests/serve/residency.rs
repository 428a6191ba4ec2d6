//! Serving what is not in memory, or not known to be: where nothing tells, what was read is believed to be there, so
//! that it is not read by a helper for every stretch; and where fewer may wait for the disk than want to, all are
//! answered.

use crate::engine::{Engine, for_engines};
use crate::script::cool;
use crate::server::Launch;

for_engines!([
    amped_without_tests = AMPED_WITHOUT_TESTS,
    amped_mapped_without_tests = AMPED_MAPPED_WITHOUT_TESTS,
    pipelined_without_tests = PIPELINED_WITHOUT_TESTS,
    proactor_without_tests = PROACTOR_WITHOUT_TESTS,
] => [
    what_was_read_once_is_sent_again_without_a_helper,
]);

for_engines!([
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    proactor = PROACTOR,
    proactor_without_openat2 = PROACTOR_WITHOUT_OPENAT2,
] => [
    one_helper_answers_all_who_ask_for_cold_files,
]);

const FILE_BYTES: usize = 3_000_000;
const ROUNDS: u64 = 20;

fn what_was_read_once_is_sent_again_without_a_helper(engine: Engine) {
    let content: Vec<u8> = (0..FILE_BYTES).map(|index| (index ^ (index >> 8)) as u8).collect();
    let server = Launch::new(engine).file("large.bin", &content).argument("--account").start();
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

fn one_helper_answers_all_who_ask_for_cold_files(engine: Engine) {
    let content = |file: usize| vec![b'a' + file as u8; 2000 + file];
    let files = 0..12_usize;
    let launch = Launch::new(engine).argument("--helpers-max").argument("1");
    let server = files.clone().fold(launch, |launch, file| launch.file(&format!("{file}.html"), content(file))).start();
    files.clone().for_each(|file| cool(&server.site().join(format!("{file}.html"))));
    // Each file is wanted by one to four, and nobody reads before all have asked.
    let mut asking = Vec::new();
    for file in files {
        for _ in 0..=file % 4 {
            let mut client = server.connect();
            client.send(format!("GET /{file}.html HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            asking.push((file, client));
        }
    }
    for (file, mut client) in asking {
        let response = client.receive(true).unwrap();
        assert!(response.content == content(file), "file {file} is another one");
    }
}

fn number_after(said: &str, label: &str) -> u64 {
    let rest = said.split(label).nth(1).unwrap_or_else(|| panic!("{label} in {said}"));
    let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().expect("it is a number")
}
