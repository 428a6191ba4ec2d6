//! One connection to the endpoint, for one request.
//!
//! ```text
//! Receiving --request or refusal--> Sending --all sent--> Lingering --peer closes--> (gone)
//!     |                               ^
//!     +-what takes its time--> Waiting -+ what has come of it
//!     any state --peer gone, or its time over--> (gone)
//! ```
//!
//! Owns: the connection and its bounds. Guarantees: never waits; what a peer sends or does not read costs bounded
//! memory for a bounded time. Lingers (RFC 9112 9.6), so that a peer that sends too much can still read why it is refused.

use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use lamna_proto::message::Status;

use super::request::{Parsed, Request};
use crate::admin::request;

/// How long a visit may last in all.
pub(super) const TIME_MAX: Duration = Duration::from_secs(5);
/// How long one may last that waits for what takes its time: somewhat longer than a new process has to begin to serve.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// Receives of one look: what is discarded of a peer that never stops must not hold up everybody else.
const RECEIVES_MAX: usize = 16;

/// What who is at the other end may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// Everything.
    All,
    /// Everything that changes nothing.
    Read,
    /// To be told that it may not.
    None,
}

/// Where a visit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A process of this machine, over the Unix socket.
    Unix(Rights),
    /// This address, over TCP.
    Tcp(IpAddr),
}

impl Origin {
    /// Whether both are bounded together: everything over Unix sockets, and what one host can have of addresses.
    pub(super) fn is_together_with(self, other: Origin) -> bool {
        match (self, other) {
            (Origin::Unix(_), Origin::Unix(_)) => true,
            (Origin::Tcp(one), Origin::Tcp(other)) => network(one) == network(other),
            _ => false,
        }
    }
}

/// An address of IPv4; the 64 bits that a host does not choose of one of IPv6 (RFC 4291 2.5.4).
fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) if address.is_loopback() => u64::MAX,
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    /// The methods that would have been allowed, for 405 (RFC 9110 15.5.6).
    pub(super) allow: Option<&'static str>,
    pub(super) content: Vec<u8>,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visit {
    socket: OwnedFd,
    /// Where it comes from.
    pub(super) origin: Origin,
    state: State,
    until: Instant,
}

#[derive(Debug)]
enum State {
    Receiving(Vec<u8>),
    Waiting,
    Sending { bytes: Vec<u8>, sent: usize },
    Lingering,
    Gone,
}

impl Visit {
    pub(super) fn new(socket: OwnedFd, origin: Origin, now: Instant) -> Visit {
        Visit { socket, origin, state: State::Receiving(Vec::new()), until: now + TIME_MAX }
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Goes on as far as that is possible without waiting; `answer` is asked once, for the whole request or the reason
    /// why there is none, and again at each look if it has no answer yet. False when the visit is over.
    pub(super) fn resume_queued(&mut self, now: Instant, answer: impl FnOnce(&Visit, Ask) -> Option<Answer>) -> bool {
        if self.until <= now {
            return false;
        }
        let waits = matches!(self.state, State::Waiting);
        let ask = if waits { Some(Ask::Completed) } else { self.receive() };
        if let Some(ask) = ask {
            let without_content = matches!(&ask, Ask::Request(request) if request.method == "HEAD");
            match answer(self, ask) {
                Some(answer) => self.state = State::Sending { bytes: answer.encode(without_content), sent: 0 },
                None if waits => {}
                None => (self.state, self.until) = (State::Waiting, now + WAIT_MAX),
            }
        }
        self.send();
        self.linger();
        !matches!(self.state, State::Gone)
    }

    fn receive(&mut self) -> Option<Ask> {
        for _ in 0..RECEIVES_MAX {
            let State::Receiving(input) = &mut self.state else { return None };
            let mut buffer = [0; 4096];
            match recv(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok((0, _)) => self.state = State::Gone,
                Ok((bytes, _)) => input.extend_from_slice(&buffer[..bytes]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return None,
                Err(_) => self.state = State::Gone,
            }
            let State::Receiving(input) = &self.state else { return None };
            match request::parse(input) {
                Parsed::Partial => {}
                Parsed::Complete(request) => return Some(Ask::Request(request)),
                Parsed::Refused(status, why) => return Some(Ask::Nonsense(status, why)),
            }
        }
        None
    }

    fn send(&mut self) {
        while let State::Sending { bytes, sent } = &mut self.state {
            if *sent == bytes.len() {
                // It fails if the peer is gone, which receiving will tell.
                let _ = shutdown(&self.socket, Shutdown::Write);
                self.state = State::Lingering;
                return;
            }
            match send(&self.socket, &bytes[*sent..], SendFlags::NOSIGNAL) {
                Ok(more) => *sent += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.state = State::Gone,
            }
        }
    }

    fn linger(&mut self) {
        for _ in 0..RECEIVES_MAX {
            if !matches!(self.state, State::Lingering) {
                return;
            }
            match recv(&self.socket, &mut [0; 4096], RecvFlags::empty()) {
                Ok((0, _)) => self.state = State::Gone,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.state = State::Gone,
            }
        }
        // It sends and sends: it has had its chance to read.
        self.state = State::Gone;
    }
}

/// What has arrived.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// A request.
    Request(Request),
    /// None: the status that says so, and why.
    Nonsense(u16, &'static str),
    /// What has come of the request, which takes its time.
    Completed,
}

impl Answer {
    fn encode(self, without_content: bool) -> Vec<u8> {
        let Answer { status, media_type, allow, content } = self;
        let (phrase, length) = (Status(status).reason_phrase(), content.len());
        let mut bytes = Vec::with_capacity(length + 256);
        write!(bytes, "HTTP/1.1 {status} {phrase}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n")
            .expect("writing to memory cannot fail");
        if let Some(methods) = allow {
            write!(bytes, "Allow: {methods}\r\n").expect("writing to memory cannot fail");
        }
        bytes.extend_from_slice(b"Cache-Control: no-store\r\nConnection: close\r\n\r\n");
        if !without_content {
            bytes.extend_from_slice(&content);
        }
        bytes
    }
}
