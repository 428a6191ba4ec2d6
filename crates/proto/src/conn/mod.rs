//! A connection: bytes to requests, answers to bytes, in order.
//!
//! Owns: the contract between the core and every driver, below, and [`Connection`], which keeps it:
//! [`http1::Connection`] for HTTP/1.x, [`http2::Connection`] for HTTP/2. Does not see the wire: TLS sits between it and
//! the socket.
//!
//! # How to drive a connection
//! 1. [`lend`](Connection::lend) it a [`Workspace`].
//! 2. Tell it what happened: `handle_received` after writing into `receive_space`, `handle_end`, `handle_writable` when
//!    the socket has room, `handle_timeout`, or `handle_done` for a need that was deferred.
//! 3. Until neither gives anything:
//!    - `poll_need`; carry it out and say `handle_done`, or `defer` it and say `handle_done` later.
//!    - `poll_transmit`; send what the socket takes and say `handle_sent`, then take what `poll_answered` has for the
//!      log. A socket that takes less than it is offered ends the loop. Where a buffer in between takes what the socket
//!      may not, say `handle_taken`, and `handle_left` when the buffer is empty.
//!
//!    Whatever else is told may leave something for the log, too. It is taken before step 5.
//!
//!    The instant of `handle_sent` and of `handle_left` ends the duration of every answer whose last byte has left by
//!    then. So it is read after the bytes have left, and durations are as exact as it is.
//! 4. [`interest`](Connection::interest) says what to wait for and `poll_timeout` until when.
//!    A driver that leaves the connection asks for the sockets that programs wait for (`poll_socket`). Then nothing can
//!    go on without one of these: [`standstill`](Connection::standstill) says so.
//! 5. [`reclaim`](Connection::reclaim) the workspace. A connection without a workspace is *parked*: it is plain
//!    data, and any driver in any thread may go on with it.
//!
//! Each step does bounded work: one head, one piece of content, or one answer.

mod either;
pub(crate) mod framing;
pub mod http1;
pub mod http2;
pub(crate) mod pace;
mod send_deadline;

pub use crate::in_flight::Answered;
pub use either::Connection;
pub use send_deadline::SendDeadline;

#[cfg(doc)]
use crate::workspace::Workspace;

/// The events that a connection waits for: any of these, whichever comes first.
///
/// Versions of HTTP differ in which go together. HTTP/1.x waits for one thing at a time: what it has to send leaves
/// before the next request is looked at; but while a program answers, any may go together. HTTP/2 receives while it has
/// something to send and while needs are being met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Bytes from the peer. Without it, input stays in the socket.
    pub receive: bool,
    /// Room for bytes to the peer.
    pub send: bool,
    /// An answer to a deferred need, or what a program waits for: its socket or a moment.
    pub done: bool,
    /// The fate of the connection.
    pub fate: Fate,
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    #[default]
    Open,
    /// Shut down sending, then receive and discard until the peer closes or the timeout (RFC 9112 9.6): what it has
    /// still to send must not destroy the answer that it has still to read.
    Linger,
    /// Nothing is waited for: close it now.
    Close,
}

impl Interest {
    /// Nothing but bytes from the peer.
    pub const RECEIVE: Interest = Interest { receive: true, send: false, done: false, fate: Fate::Open };
    /// Nothing but room for bytes to the peer.
    pub const SEND: Interest = Interest { receive: false, send: true, done: false, fate: Fate::Open };
    /// Nothing but an answer to a deferred need.
    pub const DONE: Interest = Interest { receive: false, send: false, done: true, fate: Fate::Open };
    /// The end of what the peer sends.
    pub const LINGER: Interest = Interest { receive: true, send: false, done: false, fate: Fate::Linger };
    /// Nothing.
    pub const CLOSE: Interest = Interest { receive: false, send: false, done: false, fate: Fate::Close };

    /// Whether the connection is to be closed now.
    pub fn is_over(self) -> bool {
        self.fate == Fate::Close
    }
}
