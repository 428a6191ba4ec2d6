//! Files that grow while they are downloaded: logs, recordings, what is still being written.
//!
//! Owns: that an answer has the length that was said and the bytes that were there, in every engine, way of sending,
//! version of HTTP and by TLS, and that a file which is written anew, and becomes longer by that, never ends as a whole
//! answer.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::pki_types::ServerName;

use crate::client::Client;
use crate::engine::{Engine, for_engines};
use crate::held::connect_narrowly;
use crate::http2::Http2;
use crate::server::Launch;
use crate::tls::{connect, trusting};

for_engines!(all a_download_of_what_grows_comes_to_its_end: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_pool_copy = THREAD_POOL_COPY,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_request_caches_off = THREAD_PER_REQUEST_CACHES_OFF,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_copy = AMPED_COPY,
    amped_mapped = AMPED_MAPPED,
    amped_sendfile = AMPED_SENDFILE,
    amped_caches_off = AMPED_CACHES_OFF,
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    pipelined_mapped = PIPELINED_MAPPED,
    pipelined_caches_off = PIPELINED_CACHES_OFF,
    proactor = PROACTOR,
    proactor_mapped = PROACTOR_MAPPED,
] => [
    who_reads_slowly_gets_the_length_that_was_said,
    who_reads_fast_gets_the_length_that_was_said,
    ranges_and_other_connections_get_it_as_well,
    who_asks_behind_an_edit_in_place_gets_a_whole_answer,
]);

// What `sendfile` has given to a socket shows every edit until the peer has taken it, which nothing can tell.
for_engines!([
    amped_copied = AMPED_COPY,
    pipelined_copied = PIPELINED_COPY,
    thread_pool_copied = THREAD_POOL_COPY,
] => [what_is_written_anew_and_longer_never_ends_as_a_whole_answer]);

/// Longer than what is kept in memory.
const EDITED_BYTES: usize = 300_000;

fn who_asks_behind_an_edit_in_place_gets_a_whole_answer(engine: Engine) {
    let launch = Launch::new(engine);
    let path = launch.site().join("edited.bin");
    fs::write(&path, [b'a'; EDITED_BYTES]).unwrap();
    let server = launch.start();
    // Until what is found of it is kept.
    thread::sleep(Duration::from_millis(40));
    let mut client = server.connect();
    for byte in [b'a', b'b', b'c'] {
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[byte; EDITED_BYTES], 0).unwrap();
        let answer = client.get("/edited.bin").unwrap();
        assert_eq!(answer.status, 200, "{}", byte as char);
        assert!(answer.content == [byte; EDITED_BYTES], "{}", byte as char);
        thread::sleep(Duration::from_millis(30));
        assert_eq!(client.get("/edited.bin").unwrap().status, 200);
    }
    server.finish();
}

/// Of a file, from its beginning to `length`.
fn content(length: usize) -> Vec<u8> {
    let mut content: Vec<u8> = (0..length.div_ceil(LINE_BYTES)).flat_map(line).collect();
    content.truncate(length);
    content
}

const LINE_BYTES: usize = 1000;

/// One of a file.
fn line(number: usize) -> Vec<u8> {
    format!("{number:LINE_BYTES$}").into_bytes()
}

/// A file to which a line is added each millisecond, until this is dropped.
struct Growing {
    over: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
}

impl Growing {
    fn new(path: PathBuf, size: usize) -> Growing {
        fs::write(&path, content(size)).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let writer = thread::spawn(move || {
            let file = File::options().write(true).open(path).unwrap();
            let first = size / LINE_BYTES;
            for number in (first..first + 60_000).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                file.write_all_at(&line(number), (number * LINE_BYTES) as u64).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        Growing { over, writer: Some(writer) }
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.writer.take().expect("it is there until now").join();
        assert!(ended.is_ok() || thread::panicking());
    }
}

/// Whole lines.
const SIZES: [usize; 3] = [40_000, 300_000, 4_000_000];

fn who_reads_slowly_gets_the_length_that_was_said(engine: Engine) {
    let server = Launch::new(engine).config("cache_bytes = \"1 MiB\"\n").start();
    for size in SIZES {
        let _growing = Growing::new(server.site().join("a.log"), size);
        let mut client = Client::new(connect_narrowly(server.address()));
        client.send(b"GET /a.log HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let head = client.receive_head().unwrap();
        assert_eq!(head.status, 200, "{size}");
        let length = head.field("Content-Length").and_then(|length| length.parse::<usize>().ok()).unwrap();
        let mut received = Vec::new();
        // A little, and then with pauses in which it grows.
        for _ in 0..10 {
            received.extend(client.receive_exactly((length - received.len()).min(2_000)).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
        received.extend(client.receive_rest());
        assert!(length >= size && received == content(length), "{size}: {} of {length}", received.len());
    }
    server.finish();
}

fn who_reads_fast_gets_the_length_that_was_said(engine: Engine) {
    let server = Launch::new(engine).config("cache_bytes = \"1 MiB\"\n").start();
    for size in SIZES {
        let _growing = Growing::new(server.site().join("a.log"), size);
        let mut client = server.connect();
        let mut lengths = Vec::new();
        for number in 0..10 {
            let answer = client.get("/a.log").unwrap_or_else(|why| panic!("{size}, {number}: {why}"));
            assert_eq!(answer.status, 200, "{size}, {number}");
            assert!(answer.content == content(answer.content.len()), "{size}, {number}");
            lengths.push(answer.content.len());
            thread::sleep(Duration::from_millis(3));
        }
        // A second is how long an answer may be old.
        thread::sleep(Duration::from_millis(1100));
        let last = client.get("/a.log").unwrap().content.len();
        assert!(lengths.is_sorted() && last > lengths[0], "{size}: what was added is seen: {lengths:?}, {last}");
    }
    server.finish();
}

fn ranges_and_other_connections_get_it_as_well(engine: Engine) {
    const SIZE: usize = 1_500_000;
    let server = Launch::new(engine).argument("--tls").start();
    let _growing = Growing::new(server.site().join("a.log"), SIZE);
    let trusted = trusting(&server);
    let whole = content(SIZE);
    for number in 0..5 {
        let mut client = connect(&server, &trusted);
        client.send(b"GET /a.log HTTP/1.1\r\nHost: a\r\nRange: bytes=700000-1400000\r\n\r\n");
        let part = client.receive(true).unwrap();
        assert!(part.status == 206 && part.content == whole[700_000..=1_400_000], "{number}: {}", part.status);
        client.send(b"GET /a.log HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.receive(true).unwrap();
        assert!(answer.status == 200 && answer.content == content(answer.content.len()), "{number}");
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let mut client = Http2::connect_secured(server.address(), &trusted, name);
        let answer = client.get("/a.log");
        assert!(answer.status == 200 && answer.content == content(answer.content.len()), "{number}");
    }
    server.finish();
}

fn what_is_written_anew_and_longer_never_ends_as_a_whole_answer(engine: Engine) {
    let server = Launch::new(engine).config("cache_bytes = \"1 MiB\"\n").start();
    let mut cut = 0;
    for size in (1..12).map(|step| step * 250_000 + step) {
        let path = server.site().join(format!("{size}.bin"));
        fs::write(&path, vec![b'o'; size]).unwrap();
        thread::sleep(Duration::from_millis(30));
        let mut client = Client::new(connect_narrowly(server.address()));
        client.send(format!("GET /{size}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
        assert_eq!(client.receive_head().unwrap().status, 200);
        write_anew(&path, size + 100_000);
        let received = client.receive_rest();
        match received.len() == size {
            true => assert!(received.iter().all(|byte| *byte == b'o'), "{size}: a whole answer of two states"),
            false => cut += 1,
        }
    }
    assert!(cut > 0, "nothing was written while it was sent");
    server.finish();
}

/// In place.
fn write_anew(path: &Path, size: usize) {
    File::create(path).unwrap().write_all(&vec![b'n'; size]).unwrap();
}
