//! Conversations with every engine: the scripts in `suite/`, each held with a server that is configured for it.
//!
//! Each script is held as it stands, and once more byte by byte, with every engine. A failure names the cases that
//! failed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use crate::client::Client;
use crate::engine::{
    AMPED, AMPED_WITH_HELPER_PROCESSES, CO_AMPED, Engine, MP, PIPELINED, PROACTOR, SPED, THREAD_POOL, for_engines,
};
use crate::script::{self, Sending};
use crate::server::Launch;
use crate::tree;

for_engines!(all every_architecture_holds_the_conversations: [
    mp = MP,
    mp_without_openat2 = MP_WITHOUT_OPENAT2,
    sped = SPED,
    sped_2 = SPED_2,
    sped_without_openat2 = SPED_WITHOUT_OPENAT2,
    amped = AMPED,
    amped_2 = AMPED_2,
    amped_without_openat2 = AMPED_WITHOUT_OPENAT2,
    amped_without_nowait = AMPED_WITHOUT_NOWAIT,
    amped_without_cachestat = AMPED_WITHOUT_CACHESTAT,
    amped_with_helper_processes = AMPED_WITH_HELPER_PROCESSES,
    helper_processes_without_openat2 = HELPER_PROCESSES_WITHOUT_OPENAT2,
    helper_processes_without_nowait = HELPER_PROCESSES_WITHOUT_NOWAIT,
    co_amped_1 = CO_AMPED_1,
    co_amped = CO_AMPED,
    co_amped_without_openat2 = CO_AMPED_WITHOUT_OPENAT2,
    co_amped_without_nowait = CO_AMPED_WITHOUT_NOWAIT,
    pipelined = PIPELINED,
    pipelined_2 = PIPELINED_2,
    pipelined_without_openat2 = PIPELINED_WITHOUT_OPENAT2,
    pipelined_without_nowait = PIPELINED_WITHOUT_NOWAIT,
    thread_pool = THREAD_POOL,
    thread_pool_2 = THREAD_POOL_2,
    thread_pool_without_openat2 = THREAD_POOL_WITHOUT_OPENAT2,
    thread_per_request = THREAD_PER_REQUEST,
    thread_per_request_2 = THREAD_PER_REQUEST_2,
    thread_per_session = THREAD_PER_SESSION,
    thread_per_session_2 = THREAD_PER_SESSION_2,
    proactor = PROACTOR,
    proactor_2 = PROACTOR_2,
    proactor_without_openat2 = PROACTOR_WITHOUT_OPENAT2,
    proactor_without_nowait = PROACTOR_WITHOUT_NOWAIT,
    proactor_without_io_uring = PROACTOR_WITHOUT_IO_URING,
] => [
    requests, fields, framing, persistence, methods, files, conditions, ranges, codings, paths, listings, errors, sites,
    single_page, limits, timeouts,
]);

// Each way to send files, where files are sent.
for_engines!([
    amped_copy = AMPED_COPY,
    amped_mapped = AMPED_MAPPED,
    amped_sendfile = AMPED_SENDFILE,
    pipelined_copy = PIPELINED_COPY,
    pipelined_mapped = PIPELINED_MAPPED,
    pipelined_sendfile = PIPELINED_SENDFILE,
    pipelined_pinned = PIPELINED_PINNED,
    thread_pool_copy = THREAD_POOL_COPY,
    thread_pool_mapped = THREAD_POOL_MAPPED,
    thread_pool_sendfile = THREAD_POOL_SENDFILE,
    proactor_mapped = PROACTOR_MAPPED,
] => [methods, files, conditions, ranges, codings]);

// Nothing tells what is in memory.
for_engines!([
    amped_without_tests = AMPED_WITHOUT_TESTS,
    amped_mapped_without_tests = AMPED_MAPPED_WITHOUT_TESTS,
    pipelined_without_tests = PIPELINED_WITHOUT_TESTS,
    proactor_without_tests = PROACTOR_WITHOUT_TESTS,
] => [methods, files, conditions, ranges, codings]);

// The three caches, each on and off.
for_engines!([
    amped_translations = AMPED_TRANSLATIONS,
    amped_entries = AMPED_ENTRIES,
    amped_content = AMPED_CONTENT,
    amped_translations_and_entries = AMPED_TRANSLATIONS_AND_ENTRIES,
    amped_entries_and_content = AMPED_ENTRIES_AND_CONTENT,
    amped_caches_off = AMPED_CACHES_OFF,
    amped_entries_off = AMPED_ENTRIES_OFF,
    sped_caches_off = SPED_CACHES_OFF,
    sped_entries_off = SPED_ENTRIES_OFF,
    pipelined_caches_off = PIPELINED_CACHES_OFF,
    pipelined_entries_off = PIPELINED_ENTRIES_OFF,
    thread_pool_caches_off = THREAD_POOL_CACHES_OFF,
    thread_pool_entries_off = THREAD_POOL_ENTRIES_OFF,
    thread_per_request_caches_off = THREAD_PER_REQUEST_CACHES_OFF,
    thread_per_request_entries_off = THREAD_PER_REQUEST_ENTRIES_OFF,
    thread_per_session_caches_off = THREAD_PER_SESSION_CACHES_OFF,
    thread_per_session_entries_off = THREAD_PER_SESSION_ENTRIES_OFF,
    proactor_caches_off = PROACTOR_CACHES_OFF,
    proactor_entries_off = PROACTOR_ENTRIES_OFF,
    mp_caches_off = MP_CACHES_OFF,
    helper_processes_caches_off = HELPER_PROCESSES_CACHES_OFF,
] => [files, conditions, ranges, codings, paths, errors]);

fn requests(engine: Engine) {
    converse(engine, include_str!("suite/requests.txt"), "");
}

fn fields(engine: Engine) {
    converse(engine, include_str!("suite/fields.txt"), "");
}

fn framing(engine: Engine) {
    converse(engine, include_str!("suite/framing.txt"), "");
}

fn persistence(engine: Engine) {
    converse(engine, include_str!("suite/persistence.txt"), "");
}

fn methods(engine: Engine) {
    converse(engine, include_str!("suite/methods.txt"), "");
}

fn files(engine: Engine) {
    converse(engine, include_str!("suite/files.txt"), "");
}

fn conditions(engine: Engine) {
    converse(engine, include_str!("suite/conditions.txt"), "");
}

fn ranges(engine: Engine) {
    converse(engine, include_str!("suite/ranges.txt"), "");
}

fn codings(engine: Engine) {
    converse(engine, include_str!("suite/codings.txt"), "");
}

fn paths(engine: Engine) {
    converse(engine, include_str!("suite/paths.txt"), "");
}

fn listings(engine: Engine) {
    converse(engine, include_str!("suite/listings.txt"), "[[site]]\nroot = \"site\"\nbrowse = true\n");
}

fn errors(engine: Engine) {
    converse(engine, include_str!("suite/errors.txt"), "");
}

fn sites(engine: Engine) {
    converse(engine, include_str!("suite/sites.txt"), include_str!("suite/sites.toml"));
}

fn single_page(engine: Engine) {
    converse(engine, include_str!("suite/single_page.txt"), "[[site]]\nroot = \"site/app\"\nspa = true\n");
}

fn limits(engine: Engine) {
    converse(engine, include_str!("suite/limits.txt"), include_str!("suite/limits.toml"));
}

fn timeouts(engine: Engine) {
    converse_at_once(engine, include_str!("suite/timeouts.txt"), include_str!("suite/timeouts.toml"), WAITING_MAX);
}

#[test]
fn the_largest_limits_are_served() {
    let limits = "[limits]\nhead_bytes_max = \"63KiB\"\ntarget_bytes_max = \"62KiB\"\nfields_max = 10000\n";
    let server = Launch::new(AMPED).config(limits).file("hello.txt", "hello\n").start();
    let mut client = server.connect();
    let fields = format!("X: {}\r\n", "x".repeat(1000)).repeat(60);
    client.send(format!("GET /hello.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes());
    assert_eq!(client.receive(true).unwrap().content, b"hello\n");
    server.finish();
}

#[test]
fn a_location_that_is_too_long_for_a_head_is_refused_and_the_next_request_served() {
    let config = "[limits]\nhead_bytes_max = \"63KiB\"\ntarget_bytes_max = \"62KiB\"\n\
                  [[site]]\nroot = \"site\"\nredirect = [{ from = \"/old/*\", to = \"/new/*\" }]\n";
    for engine in [SPED, AMPED, AMPED_WITH_HELPER_PROCESSES, MP, CO_AMPED, PIPELINED, PROACTOR, THREAD_POOL] {
        let server = Launch::new(engine).config(config).file("hello.txt", "hello\n").start();
        let mut client = server.connect();
        let redirected = client.get(&format!("/old/{}", "!".repeat(20_000))).unwrap();
        assert_eq!((redirected.status, redirected.field("Location").map(str::len)), (302, Some(60_005)));
        assert_eq!(client.get(&format!("/old/{}", "!".repeat(22_000))).unwrap().status, 414);
        assert_eq!(client.get("/hello.txt").unwrap().content, b"hello\n");
        server.finish();
    }
}

#[test]
fn a_server_that_runs_as_root_says_what_would_be_enough() {
    let said = Launch::new(AMPED).start().finish();
    assert_eq!(said.contains("warning: serving as root"), rustix::process::geteuid().is_root(), "{said}");
}

#[test]
fn who_stops_a_server_reads_at_most_three_lines() {
    let server = Launch::new(AMPED).file("a.txt", "a").start();
    let mut client = server.connect();
    assert_eq!((client.get("/a.txt").unwrap().status, client.get("/nothing").unwrap().status), (200, 404));
    drop(client);
    let said = server.finish();
    let end: Vec<&str> = said.lines().skip_while(|line| !line.contains("finishing what has begun")).collect();
    assert!(end.len() == 3 && end[1].contains("served 2 requests on 1 connection in "), "{said}");
    assert_eq!(end[2], "lamna: answers: 2xx 1, 4xx 1");
}

#[test]
fn an_error_page_that_is_not_there_is_said_and_the_server_serves() {
    let config = "[[site]]\nroot = \"site\"\nerror_pages = { \"404\" = \"/gone.html\" }\n";
    let server = Launch::new(AMPED).config(config).start();
    assert_eq!(server.connect().get("/nothing").unwrap().status, 404);
    let said = server.finish();
    assert!(said.contains("`/gone.html` as its page for 404") && said.contains("is not a file"), "{said}");
}

/// Conversations that are held at once where the server is waited for: no more than it has processes to begin with.
const WAITING_MAX: usize = 4;

/// Holds every conversation of `text` with a server of `engine`, one after the other.
fn converse(engine: Engine, text: &str, config: &str) {
    converse_at_once(engine, text, config, 1);
}

/// Holds every conversation of `text` with a server of `engine`, so many at once.
fn converse_at_once(engine: Engine, text: &str, config: &str, conversations: usize) {
    let launch = Launch::new(engine).config(config);
    tree::plant(launch.directory());
    let server = launch.start();
    let cases = script::parse(text);
    let mut all = Vec::new();
    for sending in [Sending::Whole, Sending::Bytes] {
        all.extend(cases.iter().filter(|case| case.can_be_sent(sending)).map(|case| (case, sending)));
    }
    let (address, site) = (server.address(), server.site());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..conversations {
            scope.spawn(|| {
                while let Some((case, sending)) = all.get(next.fetch_add(1, Relaxed)) {
                    if let Err(fault) = case.run(Client::connect(address), &site, *sending) {
                        let failure = format!("{} ({}), sent {sending:?}:\n  {fault}", case.name, case.reference);
                        failures.lock().expect("nobody panics with it").push(failure);
                    }
                }
            });
        }
    });
    server.finish();
    let failures = failures.into_inner().expect("nobody has panicked with it");
    assert!(failures.is_empty(), "{} cases failed\n\n{}\n", failures.len(), failures.join("\n"));
}
