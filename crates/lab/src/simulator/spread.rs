//! Connections that are spread evenly over the workers of a server.
//!
//! Owns: finding out which worker has taken a connection, and opening connections until each has as many as the others.
//! The worker that accepts a connection depends on which were awake when it came, so that the same server under the
//! same load would otherwise be two different ones in two trials. Guarantees: connection `i` belongs to worker `i %
//! workers` as long as that is possible, which some engines with one thread that accepts do not let happen; the owner
//! of each connection is reported in any case. Needs workers that are bound to a processor each.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::{getpriority_process, setpriority_process};

use super::load::Target;
use super::server::Server;
use crate::process::confined;

/// Connections in the order of clients, and the worker of each.
pub(super) struct Spread {
    pub(super) connections: Vec<TcpStream>,
    pub(super) workers: Vec<u32>,
}

/// Opens `count` connections. After so many attempts in vain those that are too many for their worker stay.
///
/// # Errors
/// The error of connecting, or a server that does not answer `probe`.
pub(super) fn open(server: &Server, count: usize, workers: usize, probe: &Target) -> io::Result<Spread> {
    let mut of_worker: Vec<Vec<TcpStream>> = (0..workers).map(|_| Vec::new()).collect();
    for attempt in 0..ATTEMPTS {
        // With an uneven number the first ones have one more.
        let shares: Vec<usize> = (0..workers).map(|worker| (count + workers - 1 - worker) / workers).collect();
        let Some(poorest) = (0..workers).find(|&worker| of_worker[worker].len() < shares[worker]) else { break };
        let missing = shares[poorest] - of_worker[poorest].len();
        for mut connection in for_worker(server, poorest, missing, workers, probe)? {
            let worker = worker_of(server, &mut connection, workers, probe)?;
            let has_room = of_worker[worker].len() < shares[worker] || attempt + 1 == ATTEMPTS;
            of_worker[worker].extend(has_room.then_some(connection));
        }
    }
    let (connections, workers) = by_turns(of_worker);
    Ok(Spread { connections, workers })
}

/// Connections that `worker` will probably take: they are opened from another worker's processor, which is kept busy
/// until they are accepted, which is when they have asked for something (`TCP_DEFER_ACCEPT`). The other worker wakes
/// for the first one, and would push aside a thread that is no more important than it.
fn for_worker(
    server: &Server,
    worker: usize,
    count: usize,
    workers: usize,
    probe: &Target,
) -> io::Result<Vec<TcpStream>> {
    let open = || {
        let mut connection = TcpStream::connect(server.address)?;
        connection.write_all(&probe.request).map(|()| connection)
    };
    let connections: io::Result<Vec<TcpStream>> = confined(&[(worker + 1) % workers], || {
        let before = getpriority_process(None)?;
        // Not everybody may. Then more connections are given back.
        _ = setpriority_process(None, IMPORTANT);
        let connections = (0..count).map(|_| open()).collect();
        let begun = Instant::now();
        while begun.elapsed() < SETTLING {}
        _ = setpriority_process(None, before);
        connections
    });
    let mut connections = connections?;
    connections.iter_mut().try_for_each(|connection| hear(connection, probe))?;
    Ok(connections)
}

/// The least that nice(2) takes.
const IMPORTANT: i32 = -20;

const ATTEMPTS: u32 = 40;
/// Shorter than a turn on a processor.
const SETTLING: Duration = Duration::from_millis(1);
/// Repetitions of the same request: the worker that wakes for all of them is the one.
const PROBES: usize = 2;

/// The worker on whose processor threads have woken most while `connection` was answered.
fn worker_of(server: &Server, connection: &mut TcpStream, workers: usize, probe: &Target) -> io::Result<usize> {
    let before = server.switches_by_processor(workers);
    (0..PROBES).try_for_each(|_| exchange(connection, probe))?;
    let after = server.switches_by_processor(workers);
    let grown = |&worker: &usize| after[worker].saturating_sub(before[worker]);
    Ok((0..workers).max_by_key(grown).unwrap_or(0))
}

fn exchange(connection: &mut TcpStream, target: &Target) -> io::Result<()> {
    connection.write_all(&target.request)?;
    hear(connection, target)
}

/// Receives an answer.
fn hear(connection: &mut TcpStream, target: &Target) -> io::Result<()> {
    connection.set_read_timeout(Some(SILENCE))?;
    let mut answer = vec![0; BUFFER_BYTES];
    let mut head = Vec::new();
    let mut left = None;
    while left != Some(0) {
        let bytes = connection.read(&mut answer)?;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection"));
        }
        left = match left {
            Some(left) => Some(left - (bytes as u64).min(left)),
            None => {
                head.extend_from_slice(&answer[..bytes]);
                let end = memchr::memmem::find(&head, b"\r\n\r\n");
                end.map(|end| target.content_bytes.saturating_sub((head.len() - end - 4) as u64))
            }
        };
    }
    Ok(())
}

const SILENCE: Duration = Duration::from_secs(5);
const BUFFER_BYTES: usize = 64 * 1024;

/// One of each worker by turns, as long as they have any; with the worker of each.
fn by_turns<T>(of_worker: Vec<Vec<T>>) -> (Vec<T>, Vec<u32>) {
    let mut ranked: Vec<(usize, u32, T)> = Vec::new();
    for (worker, own) in (0..).zip(of_worker) {
        ranked.extend(own.into_iter().enumerate().map(|(rank, one)| (rank, worker, one)));
    }
    ranked.sort_by_key(|&(rank, worker, _)| (rank, worker));
    ranked.into_iter().map(|(_, worker, one)| (one, worker)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_each_worker_take_turns_as_long_as_there_are_any() {
        let (connections, workers) = by_turns(vec![vec!['a', 'b', 'c'], vec!['x']]);
        assert_eq!((connections, workers), (vec!['a', 'x', 'b', 'c'], vec![0, 1, 0, 0]));
    }
}
