//! How connections of the proactor begin and end.
//!
//! Owns: accepting, pauses for want of descriptors, and closing. Guarantees: a socket is closed when no operation can
//! meet its successor; an idle connection that makes room, or is drained, loses no request that has arrived. Does not
//! decide when a connection is done.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::ring_connection::RingConnection;
use super::{Tag, Worker};
use crate::io::accept::{Accepted, client_of, concerns_one_connection};
use crate::io::wait::Token;
use crate::listen::BACKLOG;
use crate::worker::connection_table::ConnectionState;

/// How long a pause lasts at most.
const ACCEPT_PAUSE_MS: u32 = 100;
/// How long a worker that has more than its share leaves new connections to the others.
const PASS_MS: u32 = 1;
/// Idle connections given up at once when descriptors run out.
const SHED_MAX: usize = 16;

impl Worker<'_> {
    pub(super) fn listen(&mut self) {
        self.accept_again = None;
        if self.draining || self.handing_over {
            return;
        }
        let many = self.has_room_for_many();
        for (index, accept) in self.accepts.iter_mut().enumerate().filter(|(_, accept)| accept.is_none()) {
            *accept = Some(self.ring.accept(self.shared.listeners[index].as_fd(), many, Tag::Accept(index)));
        }
    }

    /// Whether everything that may wait in a listen queue can be taken: a multishot accept takes that much unasked. With
    /// other workers there it would take their share as well.
    fn has_room_for_many(&self) -> bool {
        let (_, workers) = self.shared.scoreboard.load();
        workers <= 1 && self.reserve.leaves(self.slots.count() + BACKLOG as usize)
    }

    /// Leaves the connections that wait to workers that have fewer. If those are stalled, it will be back.
    fn pass(&mut self) {
        self.unlisten();
        self.accept_again = Some(self.context.now.after_ms(PASS_MS));
    }

    /// Connections that have been accepted already still come.
    pub(super) fn unlisten(&mut self) {
        self.accept_again = None;
        self.accepts.iter().flatten().for_each(|id| self.ring.cancel(*id));
    }

    pub(super) fn handle_accepted(&mut self, listener: usize, accepted: Result<OwnedFd, Errno>, more: bool) {
        if !more {
            self.accepts[listener] = None;
        }
        match accepted {
            Ok(socket) => {
                self.context.count_connection();
                let client = if self.shared.looks_at_clients() { client_of(socket.as_fd()) } else { None };
                let crowded = self.reserve.has_given(&socket);
                let (listener, endpoint) = (&self.shared.listeners[listener], self.shared.tls.as_ref());
                let accepted = Accepted { socket, client };
                let token = self.admit(ConnectionState::accepted(accepted, listener, endpoint, self.context.now));
                self.slots.show_load(self.shared.score(self.index));
                self.drive(token);
                if crowded {
                    self.pause_accepting(Errno::MFILE);
                } else if self.shared.scoreboard.is_over_share(self.slots.count()) {
                    self.pass();
                } else if more && !self.has_room_for_many() {
                    // From now on one by one.
                    self.unlisten();
                }
            }
            Err(Errno::CANCELED) => {}
            // The socket does not listen any more: the order to drain is on its way.
            Err(Errno::INVAL) => self.accept_again = Some(self.context.now.after_ms(ACCEPT_PAUSE_MS)),
            Err(errno) if concerns_one_connection(errno) => {}
            Err(errno) => self.pause_accepting(errno),
        }
        if self.accept_again.is_none() {
            self.listen();
        }
    }

    /// Keeps a connection for which nothing is under way yet.
    pub(super) fn admit(&mut self, slot: ConnectionState) -> Token {
        let token = self.slots.admit(slot);
        self.slots.get(token).readable = false;
        let index = token.index as usize;
        if index >= self.ring_connections.len() {
            self.ring_connections.resize_with(index + 1, || RingConnection::new(self.context.now));
        }
        self.ring_connections[index] = RingConnection::new(self.context.now);
        token
    }

    /// Takes back from the kernel what it has of all connections. Those that are free go to the successor at once, the
    /// others as it gives them back.
    pub(super) fn hand_over(&mut self) {
        self.handing_over = true;
        self.shared.close_arrivals(self.index);
        self.unlisten();
        for token in self.slots.tokens() {
            self.ring_connections[token.index as usize].to_be_cancelled().for_each(|id| self.ring.cancel(id));
            self.ring_connections[token.index as usize].cancelled = true;
            self.drive(token);
        }
    }

    /// Gives a connection to the successor if nothing of it is with the kernel. A range of a file that is still being
    /// read for it is read for nobody.
    pub(super) fn give_if_free(&mut self, token: Token) {
        let ring_connection = &self.ring_connections[token.index as usize];
        // What a program does is not done again elsewhere: its step is waited for.
        if ring_connection.is_over()
            && !self.slots.get(token).connection.is_running()
            && let Some(mut slot) = self.slots.take(token)
        {
            let ConnectionState { transport, connection, .. } = &mut slot;
            transport.return_received(connection, &ring_connection.arrived, self.context.now);
            self.shared.hand_over([slot]);
        }
    }

    /// Out of descriptors or memory: connections wait in the listen queue, where they are not lost.
    fn pause_accepting(&mut self, errno: Errno) {
        self.unlisten();
        // The next connection that closes ends the pause.
        self.accept_again = Some(self.context.now.after_ms(ACCEPT_PAUSE_MS));
        let mut idle = self.slots.longest_idle(SHED_MAX);
        idle.retain(|token| self.ring_connections[token.index as usize].can_be_shed());
        self.shared.counters.idle_shed.fetch_add(idle.len() as u64, Relaxed);
        for token in &idle {
            self.ring_connections[token.index as usize].leaving = true;
            self.finish(*token);
        }
        if idle.is_empty() {
            self.shared.handle_exhaustion(errno);
        }
    }

    pub(super) fn end_pause(&mut self) {
        if self.reserve.is_whole(self.shared.control.waker(self.index).descriptor()) {
            self.listen();
        } else {
            self.pause_accepting(Errno::MFILE);
        }
    }

    /// Closes a connection as soon as the kernel has given back everything that belongs to it.
    pub(super) fn close(&mut self, token: Token) {
        let ring_connection = &mut self.ring_connections[token.index as usize];
        if !ring_connection.closing {
            ring_connection.to_be_cancelled().for_each(|id| self.ring.cancel(id));
            ring_connection.closing = true;
            self.slots.set_deadline(token, None);
        }
        if ring_connection.is_over() {
            self.slots.remove(token);
            if self.accept_again.is_some() {
                self.accept_again = Some(self.context.now);
            }
        }
    }

    /// Closes an idle connection that nobody is waiting for, unless a request has just arrived.
    pub(super) fn finish(&mut self, token: Token) {
        let ring_connection = &mut self.ring_connections[token.index as usize];
        if let Some(id) = ring_connection.receive {
            // What it has received meanwhile comes back before its end.
            if !std::mem::replace(&mut ring_connection.cancelled, true) {
                self.ring.cancel(id);
            }
            return;
        }
        let mut space = [0; 2048];
        let slot = self.slots.get(token);
        match rustix::io::retry_on_intr(|| rustix::net::recv(&slot.transport, &mut space, RecvFlags::DONTWAIT)) {
            Ok((_, bytes @ 1..)) => {
                ring_connection.arrived.extend_from_slice(&space[..bytes]);
                slot.readable = true;
                self.queue.push(token, slot);
            }
            _ => self.close(token),
        }
    }
}
