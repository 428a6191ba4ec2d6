//! What a request costs in system calls, counted by `strace -c`.

use std::process::Command;

use crate::client::PATIENCE;
use crate::engine::{Engine, for_engines};
use crate::server::{Launch, eventually};
use crate::skip::skipped;

for_engines!([sped = SPED, amped = AMPED] => [
    a_cached_request_takes_three_system_calls,
    pipelined_requests_share_system_calls,
]);

/// What a longer run may have more of for other reasons: comparing cached files with the file system twice a second.
const SLACK: u64 = 200;

fn a_cached_request_takes_three_system_calls(engine: Engine) {
    let Some(calls) = calls_of_thousand_requests("a_cached_request_takes_three_system_calls", engine, 1) else {
        return;
    };
    assert!(calls <= 3 * 1000 + SLACK, "1,000 requests one after another take {calls} system calls");
}

fn pipelined_requests_share_system_calls(engine: Engine) {
    let Some(calls) = calls_of_thousand_requests("pipelined_requests_share_system_calls", engine, 10) else { return };
    assert!(calls <= 3 * 100 + SLACK, "1,000 requests, ten at a time, take {calls} system calls");
}

/// System calls of all threads that 1,000 requests take, sent `batch` at a time on one connection: the difference
/// of a longer and a shorter run.
fn calls_of_thousand_requests(name: &str, engine: Engine, batch: usize) -> Option<u64> {
    let trial = Command::new("strace").args(["-f", "-c", "-o", "/dev/null", "true"]).output();
    match trial {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            skipped(name, &format!("strace: {}", String::from_utf8_lossy(&output.stderr).trim()));
            return None;
        }
        Err(error) => {
            skipped(name, &format!("strace: {error}"));
            return None;
        }
    }
    let (short, long) = (calls_of_run(engine, 100, batch), calls_of_run(engine, 1100, batch));
    Some(long.saturating_sub(short))
}

fn calls_of_run(engine: Engine, requests: usize, batch: usize) -> u64 {
    let launch = Launch::new(engine).file("hello.txt", "x".repeat(500));
    let counts = launch.directory().join("counts");
    let output = counts.display().to_string();
    // With -D the tracer is a grandchild, so that the child is the server itself.
    let server = launch.wrapped(&["strace", "-D", "-f", "-c", "-o", &output]).start();
    let mut client = server.connect();
    let request = "GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n".repeat(batch);
    for _ in 0..requests / batch {
        client.send(request.as_bytes());
        for _ in 0..batch {
            assert_eq!(client.receive(true).unwrap().content.len(), 500);
        }
    }
    drop(client);
    let _directory = server.into_directory();
    eventually("strace writes its counts", PATIENCE, || total(&std::fs::read_to_string(&counts).ok()?))
}

/// The calls in a table of `% time, seconds, usecs/call, calls, errors (or nothing), syscall`, but for those with which threads
/// wait for each other and get memory: how many there are depends on how busy the machine is.
fn total(table: &str) -> Option<u64> {
    const OTHERS: [&str; 8] = ["futex", "sched_yield", "mmap", "munmap", "mprotect", "madvise", "brk", "total"];
    // The last line is written last.
    table.lines().find(|line| line.trim_end().ends_with(" total"))?;
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let calls = rows.filter_map(|row| {
        let is_counted = row.last().is_some_and(|name| !OTHERS.contains(name));
        row.get(3).filter(|_| is_counted)?.parse::<u64>().ok()
    });
    Some(calls.sum())
}
