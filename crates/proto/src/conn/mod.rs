//! A connection: bytes to requests, answers to bytes, in order.
//!
//! Owns: the contract between the core and every driver, below, and [`http1::Connection`], which keeps it for HTTP/1.x.
//! HTTP/2 and 3 will keep the same one beside it. Does not see the wire: TLS will sit between it and the socket.
//!
//! # How to drive a connection
//! 1. [`lend`](http1::Connection::lend) it a [`Workspace`].
//! 2. Tell it what happened: `handle_received` after writing into `receive_space`, `handle_end`, `handle_timeout`, or
//!    `handle_done` for a need that was deferred.
//! 3. Until neither gives anything:
//!    - `poll_need`; carry it out and say `handle_done`, or `defer` it and say `handle_done` later. After each
//!      `handle_done`, take what `poll_answered` has for the log.
//!    - `poll_transmit`; send what the socket takes and say `handle_sent`, then `poll_answered` likewise. A socket that
//!      takes less than it is offered ends the loop.
//!
//!    `handle_timeout` and `handle_broken` may leave something for the log, too. It is taken before step 5.
//! 4. [`interest`](http1::Connection::interest) says what to wait for and `poll_timeout` until when.
//! 5. [`reclaim`](http1::Connection::reclaim) the workspace. A connection without a workspace is *parked*: it is plain
//!    data, and any driver in any thread may go on with it.
//!
//! Each step does bounded work: one head, one piece of content, or one answer.

pub(crate) mod framing;
pub mod http1;

pub(crate) use http1::Active;
pub use http1::Connection;

use crate::message::Request;
use crate::time::Instant;
#[cfg(doc)]
use crate::workspace::Workspace;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes from the peer.
    Receive,
    /// Room for bytes to the peer.
    Send,
    /// An answer to a deferred need. Input stays in the socket.
    Done,
    /// Nothing: close it now.
    Close,
    /// Shut down sending, then receive and discard until the peer closes or the timeout (RFC 9112 9.6): what it has
    /// still to send must not destroy the answer that it has still to read.
    Linger,
}

/// A request that has been answered as far as it will be.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The request; none if its head could not be read.
    pub request: Option<Request<'a>>,
    /// The status that was sent.
    pub status: u16,
    /// Bytes of content handed to the socket, or to its queue.
    pub content_bytes: u64,
    /// When the request was complete.
    pub started: Instant,
}
