//! The operations that a connection of the proactor has under way in the ring.
//!
//! Owns: the record of it, and the bytes that have arrived before the connection wants them. Does not start operations.

use std::os::fd::{BorrowedFd, RawFd};

use lamna_proto::conn::SendDeadline;
use lamna_proto::exchange::ExchangeId;
use lamna_proto::time::Instant;
use lamna_sys::ring::{OpId, RECEIVED_BYTES, Ring};
use rustix::io::Errno;

use crate::worker::context::FileRange;

/// The operations of one connection, and what they have brought.
#[derive(Debug)]
pub(super) struct RingConnection {
    /// Receiving is under way.
    pub(super) receive: Option<OpId>,
    /// It has been cancelled.
    pub(super) cancelled: bool,
    /// It goes on by itself, in small pieces.
    receives_often: bool,
    /// How many pieces in a row have been as large as a small buffer, or larger.
    full_pieces: u32,
    /// Received bytes, the first `taken` of which the connection has taken.
    arrived: Vec<u8>,
    taken: usize,
    /// The end of the stream behind `arrived`, once it is known.
    pub(super) end: Option<End>,
    /// Sending, or waiting until sending is possible, is under way.
    pub(super) out: Option<Out>,
    /// The end of a socket whose peer has closed its side is being waited for.
    pub(super) hang_up: Option<OpId>,
    /// When the peer last took something.
    pub(super) progress: Instant,
    /// Until when it has to take what is on its way.
    pub(super) taking: SendDeadline,
    /// The ranges of files that are being read for exchanges of the connection.
    pub(super) reading: Vec<(ExchangeId, FileRange)>,
    /// The waits for sockets of programs that are under way: the connection may be closed before they end.
    pub(super) polled: Vec<(ExchangeId, SocketPoll)>,
    /// It is to make room for others, if nothing has arrived meanwhile.
    pub(super) leaving: bool,
    /// It is to be closed as soon as nothing is under way.
    pub(super) closing: bool,
}

/// A wait for the socket of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketPoll {
    /// The number of the socket. A program that closes one ends its connection first, so that a wait does not outlive
    /// it.
    pub(super) number: RawFd,
    pub(super) readable: bool,
    pub(super) writable: bool,
}

/// How the stream of received bytes ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The peer has closed its side.
    Closed,
    /// The connection is gone.
    Failed,
}

/// The operation under way towards the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// Bytes.
    Send(OpId),
    /// Nothing: the socket is full.
    Poll(OpId),
}

/// Arrived bytes at which no more are received until the connection has taken some.
const ARRIVED_MAX: usize = 32 * 1024;
/// Space that a connection keeps for arriving bytes between requests.
const KEPT_MAX: usize = 2048;
/// After so many full pieces in a row a peer sends much, and what it sends is received in large ones.
const FULL_PIECES: u32 = 8;

impl RingConnection {
    /// Nothing is under way at `now`.
    pub(super) fn new(now: Instant) -> RingConnection {
        RingConnection {
            receive: None,
            cancelled: false,
            receives_often: false,
            full_pieces: 0,
            arrived: Vec::new(),
            taken: 0,
            end: None,
            out: None,
            hang_up: None,
            progress: now,
            taking: SendDeadline::NONE,
            reading: Vec::new(),
            polled: Vec::new(),
            leaving: false,
            closing: false,
        }
    }

    /// Whether the socket is in no operation's hands, so that it can be closed.
    pub(super) fn is_over(&self) -> bool {
        self.receive.is_none() && self.out.is_none() && self.hang_up.is_none()
    }

    /// Whether it can be asked to make room: it has not been yet.
    pub(super) fn can_make_room(&self) -> bool {
        !self.leaving && !self.closing
    }

    /// Sending has begun.
    pub(super) fn begin_sending(&mut self, id: OpId, now: Instant) {
        self.out = Some(Out::Send(id));
        self.progress = now;
        self.taking.run(now);
    }

    /// Whether the ring tells when something has arrived, and when the peer has taken what is sent.
    pub(super) fn tells(&self) -> (bool, bool) {
        (self.receive.is_some(), self.out.is_some())
    }

    /// Whether bytes are on their way to the peer.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.out, Some(Out::Send(_)))
    }

    /// Whether the peer sends so much that it is received in large pieces.
    fn sends_much(&self) -> bool {
        self.full_pieces >= FULL_PIECES
    }

    /// Whether more may arrive. A large piece comes when the one before has been taken.
    pub(super) fn has_room(&self) -> bool {
        let room = if self.sends_much() { 1 } else { ARRIVED_MAX };
        self.unread().len() < room
    }

    /// Has `ring` receive from `socket` while there is room, in pieces as large as what the peer sends.
    pub(super) fn receive_from<T: Copy, G>(&mut self, ring: &mut Ring<T, G>, socket: BorrowedFd<'_>, tag: T) {
        match self.receive {
            None if self.end.is_none() && self.has_room() => {
                self.receives_often = !self.sends_much();
                self.receive = Some(match self.receives_often {
                    true => ring.receive(socket, tag),
                    false => ring.receive_much(socket, tag),
                });
            }
            // What goes on by itself is ended when there is no room, or for large pieces.
            Some(id) if self.receives_often && !self.cancelled && (self.sends_much() || !self.has_room()) => {
                self.cancelled = true;
                ring.cancel(id);
            }
            _ => {}
        }
    }

    /// Has `ring` wait until `socket` has failed, once receiving from it cannot tell: the peer has closed its side, and
    /// may be reading.
    pub(super) fn await_failure<T: Copy, G>(&mut self, ring: &mut Ring<T, G>, socket: BorrowedFd<'_>, tag: T) {
        if self.end == Some(End::Closed) && self.hang_up.is_none() {
            self.hang_up = Some(ring.watch_failure(socket, tag));
        }
    }

    /// Receiving has brought `bytes`, none if the peer has closed its side, and goes on if there is `more` to come.
    pub(super) fn handle_received(&mut self, bytes: Result<&[u8], Errno>, more: bool) {
        if !more {
            (self.receive, self.cancelled) = (None, false);
        }
        match bytes {
            Ok([]) => self.end = Some(End::Closed),
            Ok(bytes) => {
                let is_full = bytes.len() >= RECEIVED_BYTES;
                self.full_pieces = if is_full { self.full_pieces.saturating_add(1) } else { 0 };
                self.put(bytes);
            }
            // To be asked for again.
            Err(Errno::NOBUFS | Errno::CANCELED) => {}
            Err(_) => self.end = Some(End::Failed),
        }
    }

    /// The range that is being read for `exchange`, which is read no longer.
    pub(super) fn take_reading(&mut self, exchange: ExchangeId) -> Option<FileRange> {
        let index = self.reading.iter().position(|(one, _)| *one == exchange)?;
        Some(self.reading.swap_remove(index).1)
    }

    /// Whether there is something that the connection has not been told.
    pub(super) fn is_readable(&self) -> bool {
        !self.unread().is_empty() || self.end.is_some()
    }

    /// Bytes that have arrived and have not been taken.
    pub(super) fn unread(&self) -> &[u8] {
        &self.arrived[self.taken..]
    }

    /// Keeps bytes that have arrived.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.arrived.drain(..std::mem::take(&mut self.taken));
        self.arrived.extend_from_slice(bytes);
    }

    /// Moves bytes that have arrived to `space`, as many as fit. Returns how many.
    pub(super) fn take(&mut self, space: &mut [u8]) -> usize {
        let unread = self.unread();
        let bytes = space.len().min(unread.len());
        space[..bytes].copy_from_slice(&unread[..bytes]);
        self.taken += bytes;
        if self.unread().is_empty() {
            self.taken = 0;
            self.arrived.clear();
            self.arrived.shrink_to(KEPT_MAX);
        }
        bytes
    }

    /// Operations to be cancelled so that the connection can be closed.
    pub(super) fn to_be_cancelled(&self) -> impl Iterator<Item = OpId> {
        let receive = self.receive.filter(|_| !self.cancelled);
        let out = self.out.map(|out| match out {
            Out::Send(id) | Out::Poll(id) => id,
        });
        receive.into_iter().chain(out).chain(self.hang_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_arrived_is_taken_in_order_as_there_is_room() {
        let mut ring_connection = RingConnection::new(Instant::from_ms(0));
        ring_connection.put(b"abcde");
        let mut space = [0; 3];
        assert_eq!((ring_connection.take(&mut space), &space), (3, b"abc"));
        assert_eq!((ring_connection.take(&mut space), &space[..2]), (2, &b"de"[..]));
        assert_eq!(ring_connection.take(&mut space), 0);
    }

    #[test]
    fn a_peer_that_sends_without_being_read_fills_its_own_space_only() {
        let mut ring_connection = RingConnection::new(Instant::from_ms(0));
        ring_connection.put(&[b'x'; ARRIVED_MAX]);
        assert!(!ring_connection.has_room());
        assert_eq!(ring_connection.take(&mut [0; ARRIVED_MAX]), ARRIVED_MAX);
        assert!(ring_connection.has_room() && ring_connection.arrived.capacity() <= KEPT_MAX);
    }

    #[test]
    fn who_sends_much_is_received_from_in_large_pieces_as_they_are_taken_and_then_in_small_ones_again() {
        let mut ring_connection = RingConnection::new(Instant::from_ms(0));
        let piece = [b'x'; RECEIVED_BYTES];
        let mut space = [0; 2 * RECEIVED_BYTES];
        for _ in 0..FULL_PIECES {
            assert!(!ring_connection.sends_much());
            ring_connection.handle_received(Ok(&piece), true);
            assert_eq!(ring_connection.take(&mut space), piece.len());
        }
        assert!(ring_connection.sends_much() && ring_connection.has_room());
        ring_connection.handle_received(Ok(&[b'x'; 3 * RECEIVED_BYTES]), false);
        assert!(!ring_connection.has_room());
        assert_eq!(ring_connection.take(&mut space), space.len());
        assert!(!ring_connection.has_room(), "the rest of the piece comes before the next");
        assert_eq!(ring_connection.take(&mut space), RECEIVED_BYTES);
        assert!(ring_connection.has_room() && ring_connection.arrived.capacity() <= KEPT_MAX);
        ring_connection.handle_received(Ok(b"x"), false);
        assert!(!ring_connection.sends_much());
    }
}
