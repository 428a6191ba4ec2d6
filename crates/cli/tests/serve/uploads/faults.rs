//! Uploads while everything goes wrong: full disks, limits, connections that are cut, helpers and workers that are
//! killed, engines that are changed.
//!
//! Guarantees of every test: when it has ended, there are whole files and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};

use super::{ask, names, put};
use crate::client::{Client, PATIENCE, Response};
use crate::engine::{AMPED_WITH_HELPER_PROCESSES, CO_AMPED, Engine, MP, PROACTOR, for_engines, names_of_one_process};
use crate::server::{Launch, Server, eventually, processes_of};
use crate::skip::skipped;
use crate::tree::pattern;

for_engines!(all every_architecture_meets_the_faults_of_uploads: [
    mp = MP,
    thread_pool = THREAD_POOL,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_session = THREAD_PER_SESSION,
    sped = SPED,
    amped = AMPED,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    co_amped = CO_AMPED,
    pipelined = PIPELINED,
    proactor = PROACTOR,
] => [
    a_full_disk_is_said_and_nothing_is_left_on_it,
    what_is_too_large_leaves_nothing,
    an_upload_takes_little_memory_however_long_it_is,
]);

/// Bytes of the small disk.
pub(crate) const DISK_BYTES: usize = 1 << 20;

/// What runs a server whose site is on a small disk of its own, which nobody else sees; none where that cannot be had.
pub(crate) fn small_disk(site: &Path) -> Option<Vec<String>> {
    let namespaces: &[&str] =
        if geteuid().is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} lamna \"$0\" && exec \"$@\"");
    let mut words: Vec<String> = ["unshare"].iter().chain(namespaces).map(|word| (*word).to_owned()).collect();
    words.extend(["sh".to_owned(), "-c".to_owned(), mount, site.display().to_string()]);
    let works = Command::new(&words[0]).args(&words[1..]).arg("true").output();
    works.is_ok_and(|output| output.status.success()).then_some(words)
}

fn a_full_disk_is_said_and_nothing_is_left_on_it(engine: Engine) {
    let launch = Launch::new(engine).argument("--upload");
    let Some(words) = small_disk(&launch.site()) else {
        return skipped("a_full_disk_is_said_and_nothing_is_left_on_it", "file systems cannot be mounted here");
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let server = launch.wrapped(&words).start();
    // As the server sees it.
    let site = PathBuf::from(format!("/proc/{}/root{}", server.pid().as_raw_nonzero(), server.site().display()));
    let (large, fits) = (pattern(3 * DISK_BYTES, 3), pattern(DISK_BYTES * 3 / 4, 5));
    for round in 0..3 {
        assert_eq!(put(&mut server.connect(), "/large", "", &large).status, 507);
        let part = format!("Content-Range: bytes 0-{}/{}\r\n", large.len() - 1, large.len());
        assert_eq!(put(&mut server.connect(), "/large", &part, &large).status, 507);
        assert_eq!(form(&mut server.connect(), "large", &large).status, 507);
        // There is room again for what fits.
        let stored = put(&mut server.connect(), "/fits", "", &fits).status;
        assert_eq!(stored, if round == 0 { 201 } else { 204 });
        assert!(fs::read(site.join("fits")).unwrap() == fits);
        fs::write(site.join("fits"), "").unwrap();
    }
    eventually("nothing is left over", PATIENCE, || (names(&site) == ["fits".to_owned()].into()).then_some(()));
    server.finish();
}

fn form(client: &mut Client<TcpStream>, name: &str, content: &[u8]) -> Response {
    let mut form = format!("--b\r\nContent-Disposition: form-data; filename=\"{name}\"\r\n\r\n").into_bytes();
    form.extend_from_slice(content);
    form.extend_from_slice(b"\r\n--b--\r\n");
    ask(client, "POST", "/", "Content-Type: multipart/form-data; boundary=b\r\n", &form)
}

fn what_is_too_large_leaves_nothing(engine: Engine) {
    let config = "[[site]]\nroot = \"site\"\nupload = true\nupload_bytes_max = 200000\n";
    let server = Launch::new(engine).file("hello.txt", "hello\n").config(config).start();
    let content = pattern(300_000, 3);
    let chunked = |head: &str| {
        let mut client = server.connect();
        client.send(format!("{head} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes());
        for chunk in content.chunks(10_000) {
            client.send(b"2710\r\n");
            client.send(chunk);
            client.send(b"\r\n");
        }
        client.send(b"0\r\n\r\n");
        client.receive(true).unwrap().status
    };
    assert_eq!(chunked("PUT /new"), 413);
    assert_eq!(chunked("PUT /hello.txt"), 413);
    assert_eq!(put(&mut server.connect(), "/new", "", &content).status, 413);
    assert_eq!(put(&mut server.connect(), "/new", "Content-Range: bytes 0-299999/300000\r\n", &content).status, 413);
    assert_eq!(form(&mut server.connect(), "new", &content).status, 413);
    assert_eq!(server.connect().get("/hello.txt").unwrap().content, b"hello\n");
    assert_eq!(names(&server.site()), ["hello.txt".to_owned()].into());
    server.finish();
}

/// Bytes of memory of all processes of a server that are in no file.
pub(crate) fn memory(server: &Server) -> usize {
    let of = |process: i32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok()).unwrap_or(0) * 1024
    };
    processes_of(&server.directory().join("lamna.toml")).into_keys().map(of).sum()
}

fn an_upload_takes_little_memory_however_long_it_is(engine: Engine) {
    const PIECE_BYTES: usize = 1 << 20;
    const PIECES: usize = 96;
    let server = Launch::new(engine).argument("--upload").start();
    let mut client = server.connect();
    // What the first request needs is there from then on.
    assert_eq!(put(&mut client, "/warm", "", b"abc").status, 201);
    let before = memory(&server);
    let head = format!("PUT /long HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", PIECES * PIECE_BYTES);
    client.send(head.as_bytes());
    let piece = pattern(PIECE_BYTES, 3);
    let sent = (0..PIECES).map(|_| {
        client.send(&piece);
        memory(&server)
    });
    let most = sent.max().unwrap_or(0);
    assert_eq!(client.receive(true).unwrap().status, 201);
    let grown = most.saturating_sub(before);
    eprintln!("an upload took {} KiB", grown >> 10);
    assert!(grown < 1 << 20, "an upload took {} KiB", grown >> 10);
    server.finish();
}

/// How many uploads a storm has: `LAMNA_UPLOADS`, or a few.
fn uploads() -> usize {
    std::env::var("LAMNA_UPLOADS").ok().and_then(|text| text.parse().ok()).unwrap_or(120)
}

const CLIENTS: usize = 6;
const STORM_BYTES: usize = 400_000;

/// Numbers that look random and are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// What an upload is to bring: another length and content for each.
fn content_of(number: usize) -> Vec<u8> {
    pattern(Random(number as u64).below(STORM_BYTES) + 1, 3 + number % 50)
}

/// How an upload ended, as far as its client knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It was told that the file is stored.
    Stored,
    /// It broke off on purpose.
    Cut,
    /// The server did.
    Lost,
}

/// One upload, of a kind that its number decides.
fn upload(server: SocketAddr, number: usize) -> End {
    let (mut random, content) = (Random(!(number as u64)), content_of(number));
    let path = format!("/file-{number}");
    let mut client = Client::connect(server);
    let told = |answer: Result<Response, String>| match answer {
        Ok(answer) => {
            assert!(matches!(answer.status, 201 | 303), "{path}: {answer:?}");
            End::Stored
        }
        Err(_) => End::Lost,
    };
    match random.below(4) {
        0 => {
            client.send(
                format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len()).as_bytes(),
            );
            client.send(&content[..random.below(content.len())]);
            End::Cut
        }
        1 => {
            let head = format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", content.len());
            client.send(head.as_bytes());
            let middle = random.below(content.len());
            client.send(&content[..middle]);
            thread::yield_now();
            client.send(&content[middle..]);
            told(client.receive(true))
        }
        2 => {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n";
            let mut form =
                format!("--b\r\nContent-Disposition: form-data; filename=\"{}\"\r\n\r\n", &path[1..]).into_bytes();
            form.extend_from_slice(&content);
            form.extend_from_slice(b"\r\n--b--\r\n");
            client.send(format!("{head}Content-Length: {}\r\n\r\n", form.len()).as_bytes());
            client.send(&form);
            told(client.receive(true))
        }
        _ => in_parts(server, &path, &content, &mut random),
    }
}

/// Sends parts, some of which are cut, until the file is whole.
fn in_parts(server: SocketAddr, path: &str, content: &[u8], random: &mut Random) -> End {
    let (total, mut cuts) = (content.len(), 3);
    eventually("a file is whole", PATIENCE, || {
        let mut client = Client::connect(server);
        client.send(format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Range: bytes */{total}\r\n\r\n").as_bytes());
        // Who serves may have been killed.
        let answer = client.receive(true).ok()?;
        assert_eq!(answer.status, 308, "{path}: {answer:?}");
        let arrived = answer.field("Range").and_then(|range| range.strip_prefix("bytes=0-")?.parse::<usize>().ok());
        let first = arrived.map_or(0, |last| last + 1).min(total - 1);
        let mut client = Client::connect(server);
        let head = format!("PUT {path} HTTP/1.1\r\nHost: a\r\nContent-Range: bytes {first}-{}/{total}\r\n", total - 1);
        client.send(format!("{head}Content-Length: {}\r\n\r\n", total - first).as_bytes());
        if cuts > 0 {
            cuts -= 1;
            client.send(&content[first..first + random.below(total - first)]);
            return None;
        }
        client.send(&content[first..]);
        let answer = client.receive(true).ok()?;
        // It was stored before, and the answer was lost.
        assert!(matches!(answer.status, 201 | 204 | 409), "{path}: {answer:?}");
        (answer.status != 409).then_some(End::Stored)
    })
}

/// How often a storm is disturbed. A worker that is killed too often is replaced later and later.
const DISTURBANCES: usize = 8;

/// Has clients upload while `disturb` does its worst now and then, and looks at what there is in the end.
fn storm(server: Server, disturb: impl Fn(&Server, &mut Random)) {
    let (next, all, address) = (AtomicUsize::new(0), uploads(), server.address());
    let ends: BTreeMap<usize, End> = thread::scope(|scope| {
        let client = || {
            let mut ends = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= all {
                    return ends;
                }
                ends.push((number, upload(address, number)));
            }
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let mut random = Random(7);
        for disturbance in 0..DISTURBANCES {
            let begun = all * disturbance / DISTURBANCES;
            while next.load(Relaxed) < begun && !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(Duration::from_millis(1));
            }
            disturb(&server, &mut random);
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let site = server.site();
    server.signal(Signal::TERM);
    let directory = server.into_directory();
    let left = names(&site);
    // A part that was cut may have been looked at after the file was whole: it is kept as the beginning of another.
    let parts = site.join(".lamna-parts");
    for part in left.contains(".lamna-parts").then(|| names(&parts)).into_iter().flatten() {
        // The hash of the path, the bytes of the complete file, the hash of its owner.
        let total = part.split('-').nth(1).and_then(|total| total.parse().ok());
        let Some(total): Option<u64> = total else { panic!("{part} is not the name of a part") };
        assert!(fs::metadata(parts.join(&part)).unwrap().len() < total, "{part} is not whole");
    }
    for name in left.iter().filter(|name| !matches!(&***name, "hello.txt" | ".lamna-parts")) {
        let number = name.strip_prefix("file-").and_then(|number| number.parse().ok());
        let Some(number) = number else { panic!("{name} is left over: {:?}", names(&site.join(name))) };
        assert_ne!(ends[&number], End::Cut, "{name} was never sent whole");
        assert!(fs::read(site.join(name)).unwrap() == content_of(number), "{name} is whole");
    }
    let stored = ends.iter().filter(|(_, end)| **end == End::Stored);
    let count =
        stored.inspect(|(number, _)| assert!(left.contains(&format!("file-{number}")), "{number} is there")).count();
    let lost = ends.values().filter(|end| **end == End::Lost).count();
    println!("{all} uploads: {count} stored, {lost} lost by the server, the others cut by their clients");
    assert!(count > all / 3);
    drop(directory);
}

fn start(engine: Engine) -> Server {
    Launch::new(engine).file("hello.txt", "hello\n").argument("--upload").start()
}

#[test]
fn a_storm_of_uploads_through_all_engines_leaves_whole_files_only() {
    let engines = names_of_one_process();
    storm(start(PROACTOR), |server, random| {
        for _ in 0..engines.len() {
            let engine = engines[random.below(engines.len())];
            // One that is not there on this machine, or that has to wait for another to end, is no failure here.
            let _ = crate::control::order(server, &["arch", "set", engine]);
        }
    });
}

/// Kills a process of the server, not the first.
fn kill_one(server: &Server, random: &mut Random) {
    let first = server.pid().as_raw_nonzero().get();
    let others: Vec<i32> =
        processes_of(&server.directory().join("lamna.toml")).into_keys().filter(|one| *one != first).collect();
    if let Some(process) = (!others.is_empty()).then(|| others[random.below(others.len())]).and_then(Pid::from_raw) {
        // It has ended if this fails.
        let _ = kill_process(process, Signal::KILL);
    }
    assert_eq!(server.connect().get("/hello.txt").map_or(200, |answer| answer.status), 200);
}

#[test]
fn a_storm_of_uploads_with_helpers_that_are_killed_leaves_whole_files_only() {
    storm(start(AMPED_WITH_HELPER_PROCESSES), kill_one);
}

#[test]
fn a_storm_of_uploads_with_worker_processes_that_are_killed_leaves_whole_files_only() {
    for engine in [CO_AMPED, MP] {
        storm(start(engine), kill_one);
    }
}
