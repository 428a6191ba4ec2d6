//! A small load client: one thread, one event loop, N connections, each with one request (or one batch of pipelined
//! requests) under way. A closed loop, as in the models.
//!
//! Owns: sockets, latencies, and its own processor time, which the models need because it shares the machine with the
//! server. Guarantees: only to loopback; a response counts when its last byte has been received. Does not check content
//! beyond status and length. Knows the length of every response beforehand, so that parsing costs it nearly nothing.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use lamna_policy::stats::Histogram;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A request, and the size of its response.
#[derive(Clone, Debug)]
pub struct Target {
    /// Everything that is sent.
    pub request: Vec<u8>,
    /// Bytes of the content of the response.
    pub content_bytes: u64,
}

impl Target {
    /// GET of `path` on a kept connection.
    pub fn get(path: &str, content_bytes: u64) -> Target {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes();
        Target { request, content_bytes }
    }

    /// The same, for the last request of a connection.
    pub fn get_and_close(path: &str, content_bytes: u64) -> Target {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes();
        Target { request, content_bytes }
    }
}

/// How connections are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They stay open; so many requests are sent at once.
    Measurements {
        /// At least 1.
        batch: u32,
    },
    /// One request each.
    New,
}

/// The measurements of one call of [`Load::run`].
#[derive(Debug)]
pub struct Seen {
    /// Requests answered.
    pub completed: u64,
    /// Wall-clock time.
    pub elapsed_s: f64,
    /// From sending to having received everything, in nanoseconds; of batches if requests are pipelined.
    pub latency: Histogram,
    /// Processor time of this thread.
    pub cpu_s: f64,
    /// Times the client waited for events and found some.
    pub waits: u64,
    /// Time spent looking for events where there were none.
    pub vain_s: f64,
}

impl Seen {
    /// Requests per second.
    pub fn requests_per_s(&self) -> f64 {
        self.completed as f64 / self.elapsed_s
    }
}

struct Client {
    socket: TcpStream,
    target: usize,
    sent: Instant,
    /// The head of the present response: what has arrived of it, until it is whole.
    head: Vec<u8>,
    /// Bytes of content still to come; `None` while the head is incomplete.
    content_left: Option<u64>,
    responses_left: u32,
}

/// The clients.
pub struct Load<'a> {
    address: SocketAddr,
    targets: &'a [Target],
    usage: Use,
    poll: OwnedFd,
    clients: Vec<Client>,
    buffer: Vec<u8>,
    spins: bool,
    started: bool,
}

/// The longest that answering a number of requests may take, unless the time that was asked for is longer.
pub const LONGEST: Duration = Duration::from_secs(6);
const BUFFER_BYTES: usize = 256 * 1024;
/// A server that answers nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(20);

impl<'a> Load<'a> {
    /// Uses `connections` to `address`. A load that `spins` never sleeps: it needs a processor to itself, and the
    /// server never has to wake it, as it never has to wake clients that are elsewhere.
    ///
    /// # Errors
    /// The error of the sockets, or an address that is not loopback.
    pub fn new(
        address: SocketAddr,
        connections: Vec<TcpStream>,
        targets: &'a [Target],
        usage: Use,
        spins: bool,
    ) -> io::Result<Load<'a>> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other("load goes to loopback only"));
        }
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let buffer = vec![0; BUFFER_BYTES];
        let mut load = Load { address, targets, usage, poll, clients: Vec::new(), buffer, spins, started: false };
        for (index, socket) in (0..).zip(connections) {
            load.hear(&socket, index)?;
            load.clients.push(Client {
                socket,
                target: 0,
                sent: Instant::now(),
                head: Vec::new(),
                content_left: None,
                responses_left: 0,
            });
        }
        Ok(load)
    }

    /// Asks for `duration`, and until so many `requests` are answered if that is not longer than [`LONGEST`]; `next`
    /// names the target of the next request of a client. Requests under way at the end stay so, and the next call goes
    /// on with them.
    ///
    /// # Errors
    /// A connection that ends or is silent, or a response other than 200.
    pub fn run(&mut self, duration: Duration, requests: u64, mut next: impl FnMut(usize) -> usize) -> io::Result<Seen> {
        let begun = Instant::now();
        let cpu_before = thread_cpu_s();
        let mut seen =
            Seen { completed: 0, elapsed_s: 0.0, latency: Histogram::new(), cpu_s: 0.0, waits: 0, vain_s: 0.0 };
        if !std::mem::replace(&mut self.started, true) {
            for index in 0..self.clients.len() {
                self.ask(index, next(index))?;
            }
        }
        let pause = Timespec { tv_sec: i64::from(!self.spins), tv_nsec: 0 };
        let mut events = Vec::<Event>::with_capacity(256);
        let (mut heard, mut turned) = (begun, begun);
        while turned - begun < duration || (seen.completed < requests && turned - begun < LONGEST) {
            events.clear();
            epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&pause))?;
            if events.is_empty() {
                let now = Instant::now();
                seen.vain_s += (now - std::mem::replace(&mut turned, now)).as_secs_f64();
                if now - heard > SILENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the server is silent"));
                }
                continue;
            }
            seen.waits += 1;
            heard = Instant::now();
            for event in &events {
                let index = event.data.u64() as usize;
                if self.receive(index, &mut seen)? {
                    self.ask(index, next(index))?;
                }
            }
            turned = Instant::now();
        }
        seen.elapsed_s = begun.elapsed().as_secs_f64();
        seen.cpu_s = thread_cpu_s() - cpu_before;
        Ok(seen)
    }

    fn open(&self, index: u64) -> io::Result<TcpStream> {
        let socket = TcpStream::connect(self.address)?;
        self.hear(&socket, index)?;
        Ok(socket)
    }

    /// From now on `socket` is that of the client `index`.
    fn hear(&self, socket: &TcpStream, index: u64) -> io::Result<()> {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        Ok(epoll::add(&self.poll, socket, EventData::new_u64(index), EventFlags::IN)?)
    }

    fn ask(&mut self, index: usize, target: usize) -> io::Result<()> {
        let batch = match self.usage {
            Use::Measurements { batch } => batch,
            Use::New => 1,
        };
        let client = &mut self.clients[index];
        (client.target, client.responses_left, client.content_left) = (target, batch, None);
        client.head.clear();
        client.sent = Instant::now();
        let request = &self.targets[target].request;
        match batch {
            // Requests are far smaller than the socket's buffer, which is empty between two of them.
            1 => client.socket.write_all(request),
            _ => client.socket.write_all(&request.repeat(batch as usize)),
        }
    }

    /// Receives what is there. Whether the client may ask again.
    fn receive(&mut self, index: usize, seen: &mut Seen) -> io::Result<bool> {
        let client = &mut self.clients[index];
        let bytes = match client.socket.read(&mut self.buffer) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed a connection")),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let content_bytes = self.targets[client.target].content_bytes;
        let mut rest = &self.buffer[..bytes];
        while !rest.is_empty() && client.responses_left > 0 {
            rest = client.take(rest, content_bytes)?;
            if client.content_left == Some(0) {
                client.content_left = None;
                client.responses_left -= 1;
                seen.completed += 1;
            }
        }
        if client.responses_left > 0 {
            return Ok(false);
        }
        seen.latency.add(client.sent.elapsed().as_nanos() as u64);
        if self.usage == Use::New {
            // The old socket leaves the event set as it is closed.
            self.clients[index].socket = self.open(index as u64)?;
        }
        Ok(true)
    }
}

impl Client {
    /// Takes what belongs to the present response; returns what follows it.
    fn take<'b>(&mut self, mut rest: &'b [u8], content_bytes: u64) -> io::Result<&'b [u8]> {
        if self.content_left.is_none() {
            let before = self.head.len();
            self.head.extend_from_slice(rest);
            let Some(end) = memchr::memmem::find(&self.head, b"\r\n\r\n") else { return Ok(&[]) };
            if !self.head.starts_with(b"HTTP/1.1 200") {
                let line = String::from_utf8_lossy(&self.head[..self.head.len().min(60)]).into_owned();
                return Err(io::Error::other(format!("unexpected response: {line}")));
            }
            rest = &rest[end + 4 - before..];
            self.head.clear();
            self.content_left = Some(content_bytes);
        }
        let left = self.content_left.unwrap_or(0);
        let taken = left.min(rest.len() as u64);
        self.content_left = Some(left - taken);
        Ok(&rest[taken as usize..])
    }
}

/// Processor time of the calling thread.
pub fn thread_cpu_s() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}
