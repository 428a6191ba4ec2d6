//! What a request costs in system calls, counted by `strace -c` and by the server itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::client::{Client, Duplex, PATIENCE};
use crate::engine::{AMPED, Engine, for_engines};
use crate::server::{Launch, Server, eventually};
use crate::skip::skipped;
use crate::tls::{connect, trusting};

for_engines!([
    sped = SPED,
    amped = AMPED,
    proactor = PROACTOR,
    thread_pool = THREAD_POOL_FIXED,
    thread_per_session = THREAD_PER_SESSION,
] => [
    a_cached_request_takes_three_system_calls,
    a_cached_request_that_is_learned_from_takes_as_many,
    a_cached_request_that_is_logged_takes_as_many,
    a_cached_request_over_tls_takes_as_many,
    pipelined_requests_share_system_calls,
]);

for_engines!([
    pipelined = PIPELINED,
] => [
    a_cached_request_takes_at_most_five_system_calls,
    pipelined_requests_share_system_calls,
]);

for_engines!([
    sped_with_applications = SPED,
    amped_with_applications = AMPED,
] => [
    a_request_for_an_application_takes_six_system_calls,
]);

/// What a longer run may have more of for other reasons: comparing cached files with the file system twice a second.
const SLACK: u64 = 200;

fn a_cached_request_takes_three_system_calls(engine: Engine) {
    assert_calls("a_cached_request_takes_three_system_calls", engine, 1, 3 * 1000 + SLACK);
}

/// Two more if the next request is there before the connection is back in the first stage: it is woken once for each of
/// them.
fn a_cached_request_takes_at_most_five_system_calls(engine: Engine) {
    assert_calls("a_cached_request_takes_at_most_five_system_calls", engine, 1, 5 * 1000 + SLACK);
}

fn a_cached_request_that_is_learned_from_takes_as_many(engine: Engine) {
    let name = "a_cached_request_that_is_learned_from_takes_as_many";
    assert_calls_of(name, 1, 3 * 1000 + SLACK, |requests| {
        calls_of_run(engine, requests, 1, |launch| launch.config("hints = true"), Server::connect)
    });
}

/// Lines of two logs are handed over twice a second, and each 32 KiB.
fn a_cached_request_that_is_logged_takes_as_many(engine: Engine) {
    let name = "a_cached_request_that_is_logged_takes_as_many";
    let config = "[[site]]\nroot = \"site\"\nlog = \"a.log\"\n[[site.route]]\nmatch = \"/quiet/*\"\nlog = \"off\"\n\
                  [[site]]\nhosts = [\"b.test\"]\nroot = \"site\"\nlog = \"b.log\"\n";
    assert_calls_of(name, 1, 3 * 1000 + SLACK, |requests| {
        calls_of_run(engine, requests, 1, |launch| launch.config(config), Server::connect)
    });
}

fn a_cached_request_over_tls_takes_as_many(engine: Engine) {
    let name = "a_cached_request_over_tls_takes_as_many";
    assert_calls_of(name, 1, 3 * 1000 + SLACK, |requests| {
        let server = |launch: Launch| launch.argument("--tls");
        calls_of_run(engine, requests, 1, server, |server| connect(server, &trusting(server)))
    });
}

/// Two receives, two sends, and two waits, which requests at the same time share: kept connections are neither looked
/// at nor registered anew.
fn a_request_for_an_application_takes_six_system_calls(engine: Engine) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let route = format!(
        "[[site]]\nroot = \"site\"\n[[site.route]]\nmatch = \"/*\"\nproxy = \"http://{}\"\n",
        listener.local_addr().unwrap()
    );
    // It ends with the test process.
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|connection| _ = thread::spawn(|| answer_all(connection)));
    });
    assert_calls_of("a_request_for_an_application_takes_six_system_calls", 1, 6 * 1000 + SLACK, |requests| {
        calls_of_run(engine, requests, 1, |launch| launch.config(&route), Server::connect)
    });
}

/// An application that answers each request with 500 bytes.
fn answer_all(mut connection: TcpStream) {
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{}", "x".repeat(500));
    let mut received = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(bytes @ 1..) = connection.read(&mut piece) {
        received.extend_from_slice(&piece[..bytes]);
        if received.ends_with(b"\r\n\r\n") {
            received.clear();
            if connection.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

fn pipelined_requests_share_system_calls(engine: Engine) {
    assert_calls("pipelined_requests_share_system_calls", engine, 10, 3 * 100 + SLACK);
}

#[test]
fn a_file_that_was_asked_for_while_it_changed_is_cached_once_it_rests() {
    let server = Launch::new(AMPED).argument("--account").start();
    std::fs::write(server.site().join("new.txt"), "new").unwrap();
    let mut client = server.connect();
    assert_eq!(client.get("/new.txt").unwrap().content, b"new");
    thread::sleep(SETTLED);
    for _ in 0..1000 {
        assert_eq!(client.get("/new.txt").unwrap().content, b"new");
    }
    drop(client);
    let said = server.finish();
    let opened = said.split("names: ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    assert!(opened.is_some_and(|opened| opened < 1000), "names were looked up for each request: {said}");
}

/// More than the time for which two changes of a file may leave the same time stamp.
const SETTLED: Duration = Duration::from_millis(100);

/// How often a count that is too high is taken again, less the last time.
const MEASURED_MAX: usize = 2;

/// By name.
type Calls = BTreeMap<String, u64>;

/// Asserts that 1,000 requests, sent `batch` at a time on one connection, take at most `calls_max` system calls of all
/// threads: the difference of a longer and a shorter run. What the server does every second is more of it on a busy
/// machine, so it is measured again if there are more.
fn assert_calls(name: &str, engine: Engine, batch: usize, calls_max: u64) {
    let run = |requests| calls_of_run(engine, requests, batch, |launch| launch, Server::connect);
    assert_calls_of(name, batch, calls_max, run);
}

fn assert_calls_of(name: &str, batch: usize, calls_max: u64, run: impl Fn(usize) -> Calls) {
    if let Err(reason) = can_trace() {
        return skipped(name, &reason);
    }
    let measure = || {
        let (short, mut calls) = (run(100), run(1100));
        for (call, count) in &mut calls {
            *count = count.saturating_sub(short.get(call).copied().unwrap_or(0));
        }
        calls
    };
    let least = (0..MEASURED_MAX).map(|_| measure()).find(|calls| calls.values().sum::<u64>() <= calls_max);
    let calls = least.unwrap_or_else(measure);
    let sum: u64 = calls.values().sum();
    assert!(sum <= calls_max, "1,000 requests, {batch} at a time, take {sum} system calls: {calls:?}");
}

fn can_trace() -> Result<(), String> {
    match Command::new("strace").args(["-f", "-c", "-o", "/dev/null", "true"]).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("strace: {error}")),
    }
}

fn calls_of_run<S: Duplex>(
    engine: Engine,
    requests: usize,
    batch: usize,
    configure: impl Fn(Launch) -> Launch,
    connect: impl Fn(&Server) -> Client<S>,
) -> Calls {
    let launch = configure(Launch::new(engine)).file("hello.txt", "x".repeat(500));
    let counts = launch.directory().join("counts");
    let output = counts.display().to_string();
    // A file that has just been written is not cached before its time stamp has become unambiguous.
    thread::sleep(SETTLED);
    // With -D the tracer is a grandchild, so that the child is the server itself.
    let server = launch.wrapped(&["strace", "-D", "-f", "-c", "-o", &output]).start();
    let mut client = connect(&server);
    let request = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(batch);
    for _ in 0..requests / batch {
        client.send(request.as_bytes());
        for _ in 0..batch {
            assert_eq!(client.receive(true).unwrap().content.len(), 500);
        }
    }
    drop(client);
    let _directory = server.into_directory();
    eventually("strace writes its counts", PATIENCE, || table(&std::fs::read_to_string(&counts).ok()?))
}

/// The calls in a table of `% time, seconds, usecs/call, calls, errors (or nothing), syscall`, but for those with which
/// threads wait for each other and get memory: how many there are depends on how busy the machine is.
fn table(text: &str) -> Option<Calls> {
    const OTHERS: [&str; 9] =
        ["futex", "clock_nanosleep", "sched_yield", "mmap", "munmap", "mprotect", "madvise", "brk", "total"];
    // The last line is written last.
    text.lines().find(|line| line.trim_end().ends_with(" total"))?;
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let calls = rows.filter_map(|row| {
        let name = row.last().filter(|name| !OTHERS.contains(name))?;
        Some(((*name).to_owned(), row.get(3)?.parse().ok()?))
    });
    Some(calls.collect())
}
