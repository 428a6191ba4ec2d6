//! Single steps by themselves: what a call of the core, a system call, a switch or a lock costs here, in microseconds.
//!
//! Owns: the loops that repeat a step. Guarantees: each figure is the median of several repetitions, so that one
//! interruption does not count. The caller confines the thread to one processor: two threads of these take turns on it,
//! which is what a switch is. Everything is warm, as it is in a busy server and is not in an idle one.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use lamna_proto::conn::Connection;
use lamna_proto::error::Refusal;
use lamna_proto::exchange::{Done, Need};
use lamna_proto::limits::Limits;
use lamna_proto::message::Status;
use lamna_proto::resource::{Description, Representation, Resource};
use lamna_proto::time;
use lamna_proto::workspace::{Pages, Workspace};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::pipe::pipe;
use serde::{Deserialize, Serialize};

use super::load::Target;
use crate::process::confined;

/// Content of the response that is measured, in bytes.
const CONTENT_BYTES: usize = 500;
const REPETITIONS: usize = 7;

/// Taking a request apart and making its answer, with everything known and in memory. Once for each of a batch of 16.
pub fn parse_and_answer_us() -> f64 {
    let mut talk = Talk::new();
    const BATCH: usize = 16;
    let input = Target::get("/f500", 0).request.repeat(BATCH);
    median(|| per_call_us(20_000, || talk.hear(&input)) / BATCH as f64)
}

/// A connection without a wire.
struct Talk {
    connection: Connection,
    workspace: Option<Box<Workspace>>,
    resource: Arc<Resource>,
}

impl Talk {
    fn new() -> Talk {
        let page = |status: Status, content: &[u8]| {
            let description = Description { media_type: Some("text/html"), ..Description::of(status) };
            let described = Representation::with_content(&description, content);
            Arc::new(Resource::one(status, described.expect("these fields are short")))
        };
        let refusals = Refusal::ALL.iter().map(|refusal| page(refusal.status(), b"")).collect();
        let pages = Arc::new(Pages { refusals, options: page(Status(204), b"") });
        let workspace = Some(Workspace::new(Arc::new(Limits::default()), pages, 16 * 1024, 1_000_000_000));
        let connection = Connection::new(time::Instant::from_ms(0));
        Talk { connection, workspace, resource: page(Status(200), &[b'x'; CONTENT_BYTES]) }
    }

    fn hear(&mut self, input: &[u8]) {
        let now = time::Instant::from_ms(0);
        let Some(workspace) = self.workspace.take() else { return };
        self.connection.lend(workspace);
        self.connection.receive_space()[..input.len()].copy_from_slice(input);
        self.connection.handle_received(input.len(), now);
        loop {
            while let Some((id, need)) = self.connection.poll_need() {
                debug_assert!(matches!(need, Need::Resolve(_)));
                self.connection.handle_done(id, Done::Resolved(&self.resource), now);
                while self.connection.poll_answered().is_some() {}
            }
            let Some(transmit) = self.connection.poll_transmit() else { break };
            let bytes = transmit.bytes.len() + transmit.segment.map_or(0, |segment| segment.length() as usize);
            self.connection.handle_sent(bytes as u64, now);
            while self.connection.poll_answered().is_some() {}
        }
        self.workspace = Some(self.connection.reclaim());
    }
}

/// The system calls of an exchange over a TCP connection of loopback, both ends in one thread: no thread is woken.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct SocketCalls {
    /// send(2) of a request; delivery to the other end included.
    pub send_request_us: f64,
    /// epoll_wait(2) with one event that is there.
    pub poll_us: f64,
    /// recv(2) of the request.
    pub receive_request_us: f64,
    /// send(2) of a response of 700 bytes.
    pub send_response_us: f64,
    /// recv(2) of it.
    pub receive_response_us: f64,
}

/// # Errors
/// No sockets.
pub fn socket_calls() -> io::Result<SocketCalls> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let poll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &server, EventData::new_u64(0), EventFlags::IN)?;
    let (request, response) = (Target::get("/f500", 0).request, [b'x'; 700]);
    let mut buffer = vec![0; 64 * 1024];
    let mut events = Vec::<Event>::with_capacity(64);
    const TIMES: u32 = 3_000;
    let mut rounds = Vec::new();
    for _ in 0..REPETITIONS {
        let mut spent = [0.0; 5];
        for _ in 0..TIMES {
            let mut at = Instant::now();
            let mut lap = |which: usize| {
                let now = Instant::now();
                spent[which] += (now - std::mem::replace(&mut at, now)).as_secs_f64();
            };
            client.write_all(&request)?;
            lap(0);
            events.clear();
            epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
            lap(1);
            _ = server.read(&mut buffer)?;
            lap(2);
            server.write_all(&response)?;
            lap(3);
            _ = client.read(&mut buffer)?;
            lap(4);
        }
        rounds.push(spent.map(|seconds| seconds * 1e6 / f64::from(TIMES)));
    }
    let clock_us = median(|| per_call_us(100_000, || _ = std::hint::black_box(Instant::now())));
    // What looking at the clock costs is in each.
    let net = |which: usize| (middle(rounds.iter().map(|round| round[which]).collect()) - clock_us).max(0.0);
    Ok(SocketCalls {
        send_request_us: net(0),
        poll_us: net(1),
        receive_request_us: net(2),
        send_response_us: net(3),
        receive_response_us: net(4),
    })
}

/// How fast the machine is just now: what a fixed piece of work takes, a request and its answer over a TCP connection
/// of loopback with both ends in one thread, on each of its processors. About ten milliseconds for each.
///
/// # Errors
/// No sockets.
pub fn yardstick_us(processors: usize) -> io::Result<f64> {
    let of = |processor| confined(&[processor], exchange_us);
    let each = (0..processors).map(of).collect::<io::Result<Vec<f64>>>()?;
    Ok(each.iter().sum::<f64>() / each.len().max(1) as f64)
}

fn exchange_us() -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (request, response) = (Target::get("/f500", 0).request, [b'x'; 700]);
    let mut buffer = [0; 1024];
    let mut failed = Ok(());
    let us = median(|| {
        per_call_us(250, || {
            let exchange = client.write_all(&request).and_then(|()| server.read(&mut buffer));
            let answer = exchange.and_then(|_| server.write_all(&response)).and_then(|()| client.read(&mut buffer));
            if let Err(error) = answer {
                failed = Err(error);
            }
        })
    });
    failed.map(|()| us)
}

/// Going over from one thread to another on the same processor, waking it and going to sleep included: two threads that
/// pass a byte through two pipes, less what the same calls cost one thread.
///
/// # Errors
/// No pipes or threads.
pub fn switch_us() -> io::Result<f64> {
    let (there_read, there_write) = pipe()?;
    let (back_read, back_write) = pipe()?;
    let alone_us = median(|| {
        per_call_us(20_000, || {
            _ = rustix::io::write(&there_write, b"x");
            _ = rustix::io::read(&there_read, &mut [0; 1]);
        })
    });
    let other = thread::Builder::new().spawn(move || {
        let mut byte = [0];
        while rustix::io::read(&there_read, &mut byte).is_ok_and(|bytes| bytes == 1) {
            _ = rustix::io::write(&back_write, &byte);
        }
    })?;
    let together_us = median(|| {
        per_call_us(20_000, || {
            _ = rustix::io::write(&there_write, b"x");
            _ = rustix::io::read(&back_read, &mut [0; 1]);
        })
    });
    drop(there_write);
    _ = other.join();
    // Two switches and two pairs of calls a round.
    Ok((together_us / 2.0 - alone_us).max(0.0))
}

/// How long one of two threads that never wait runs on their processor before the other has its turn.
///
/// # Errors
/// No thread.
pub fn turn_us() -> io::Result<f64> {
    let over = Arc::new(AtomicBool::new(false));
    let its_over = over.clone();
    let other = thread::Builder::new().spawn(move || while !its_over.load(Ordering::Relaxed) {})?;
    let (begun, mut last, mut turns) = (Instant::now(), Instant::now(), Vec::new());
    while begun.elapsed() < TURNS {
        let now = Instant::now();
        if now - last > INTERRUPTED_MAX {
            turns.push((now - last).as_secs_f64() * 1e6);
        }
        last = now;
    }
    over.store(true, Ordering::Relaxed);
    _ = other.join();
    Ok(if turns.is_empty() { 0.0 } else { middle(turns) })
}

const TURNS: Duration = Duration::from_millis(300);
/// A longer absence is not an interrupt.
const INTERRUPTED_MAX: Duration = Duration::from_micros(300);

/// The cost beyond a switch of unparking a thread on the same processor and parking, as stages and helpers do.
///
/// # Errors
/// No thread.
pub fn hand_off_us(switch_us: f64) -> io::Result<f64> {
    let over = Arc::new(AtomicBool::new(false));
    let turn = Arc::new(AtomicBool::new(false));
    let caller = thread::current();
    let (its_over, its_turn) = (over.clone(), turn.clone());
    let other = thread::Builder::new().spawn(move || {
        while !its_over.load(Ordering::Acquire) {
            if its_turn.swap(false, Ordering::AcqRel) {
                caller.unpark();
            }
            thread::park();
        }
    })?;
    let round_us = median(|| {
        per_call_us(20_000, || {
            turn.store(true, Ordering::Release);
            other.thread().unpark();
            while turn.load(Ordering::Acquire) {
                thread::park();
            }
        })
    });
    over.store(true, Ordering::Release);
    other.thread().unpark();
    _ = other.join();
    Ok((round_us / 2.0 - switch_us).max(0.0))
}

/// Taking and releasing a lock that is free.
pub fn lock_us() -> f64 {
    let lock = Mutex::new(0_u64);
    median(|| {
        per_call_us(1_000_000, || {
            if let Ok(mut guard) = lock.lock() {
                *guard += std::hint::black_box(1);
            }
        })
    })
}

/// Wall-clock time of one of `times` calls.
fn per_call_us(times: u32, mut call: impl FnMut()) -> f64 {
    let begun = Instant::now();
    (0..times).for_each(|_| call());
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}

fn median(mut once: impl FnMut() -> f64) -> f64 {
    middle((0..REPETITIONS).map(|_| once()).collect())
}

/// The median; of an even number, the upper one. At least one value.
pub fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_without_a_wire_answers_what_it_hears() {
        let mut talk = Talk::new();
        let request = Target::get("/f500", 0).request;
        talk.hear(&request);
        talk.hear(&request.repeat(3));
        assert!(talk.connection.is_idle());
    }
}
