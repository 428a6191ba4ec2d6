//! How connections of the proactor begin and end.
//!
//! Owns: accepting, pauses for want of descriptors, and closing. Guarantees: a socket is closed when no operation can
//! meet its successor; an idle connection that makes room, or is drained, loses no request that has arrived. Does not
//! decide when a connection is done.

use std::os::fd::{AsFd, OwnedFd};

use lamna_io::accept::{Accepted, client_of, concerns_one_connection};
use lamna_io::wait::Token;
use lamna_proto::time::Instant;
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::{Tag, Worker};
use crate::worker::acceptor::{Accepting, Acceptor, Freed};
use crate::worker::connection_state::ConnectionState;
use crate::worker::life::Life;
use crate::worker::room::Chosen;
use crate::worker::shared::Shared;

impl<'a> Accepting<'a> for Worker<'a> {
    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.base.acceptor
    }

    fn shared(&self) -> &'a Shared {
        self.base.shared
    }

    fn now(&self) -> Instant {
        self.base.context.now
    }

    fn connections(&self) -> usize {
        self.base.connections.count()
    }

    /// Connections that have been accepted already still come.
    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        match watches {
            true => self.listen(),
            false => self.accepts.iter().flatten().for_each(|id| self.ring.cancel(*id)),
        }
        Ok(())
    }

    fn begin(&mut self, connection: ConnectionState) {
        self.begin_accepted(connection);
    }

    fn shed(&mut self, most: usize) -> Freed {
        let can_go = |token: Token| self.ring_connections[token.index as usize].can_make_room();
        let Chosen { tokens, are_idle } = self.base.connections.making_room(most, can_go);
        for token in &tokens {
            if are_idle {
                self.ring_connections[token.index as usize].leaving = true;
                self.finish(*token);
            } else {
                self.close(*token);
            }
        }
        // The kernel has to give back what belongs to them.
        Freed::Soon(tokens.len())
    }
}

impl Worker<'_> {
    /// Has the ring accept from each listener that it does not accept from yet.
    pub(super) fn listen(&mut self) {
        // A multishot accept takes unasked whatever waits.
        let many = self.base.acceptor.has_room_for_many(self.base.shared, self.base.connections.count());
        for (index, accept) in self.accepts.iter_mut().enumerate().filter(|(_, accept)| accept.is_none()) {
            *accept = Some(self.ring.accept(self.base.shared.listeners[index].as_fd(), many, Tag::Accept(index)));
        }
    }

    pub(super) fn handle_accepted(&mut self, listener: usize, accepted: Result<OwnedFd, Errno>, more: bool) {
        if !more {
            self.accepts[listener] = None;
        }
        match accepted {
            Ok(socket) => {
                let client = if self.base.shared.looks_at_clients() { client_of(socket.as_fd()) } else { None };
                let accepted = Accepted { socket, client };
                let now = self.base.context.now;
                if let Some(connection) = self.base.acceptor.admit(self.base.shared, listener, accepted, now) {
                    self.begin(connection);
                }
                let (scoreboard, connections) = (&self.base.shared.scoreboard, self.base.connections.count());
                let passes = self.base.acceptor.pass_if_over_share(scoreboard, connections, self.base.context.now);
                if more && !passes && !self.base.acceptor.has_room_for_many(self.base.shared, connections) {
                    // From now on one by one.
                    self.accepts.iter().flatten().for_each(|id| self.ring.cancel(*id));
                }
            }
            Err(Errno::CANCELED) => {}
            // The socket does not listen any more: the order to drain is on its way.
            Err(Errno::INVAL) => self.base.acceptor.pause(self.base.context.now),
            Err(errno) if concerns_one_connection(errno) => {}
            Err(errno) => self.base.acceptor.handle_shortage(errno),
        }
        if self.base.acceptor.is_taking() {
            self.listen();
        }
    }

    /// Takes back from the kernel what it has of all connections. Those that are free go to the successor at once, the
    /// others as it gives them back.
    pub(super) fn hand_over(&mut self) {
        self.handing_over = true;
        self.base.shared.close_arrivals(self.base.index);
        self.end_accepting();
        for token in self.base.connections.tokens() {
            self.ring_connections[token.index as usize].to_be_cancelled().for_each(|id| self.ring.cancel(id));
            self.ring_connections[token.index as usize].cancelled = true;
            self.drive(token);
        }
    }

    /// Gives a connection to the successor if nothing of it is with the kernel. A range of a file that is still being
    /// read for it is read in vain.
    pub(super) fn give_if_free(&mut self, token: Token) {
        let ring_connection = &self.ring_connections[token.index as usize];
        // What a program does is not done again elsewhere: its step is waited for.
        if ring_connection.is_over()
            && !self.base.connections.get(token).http.is_running()
            && let Some(mut connection) = self.base.connections.take(token)
        {
            let ConnectionState { transport, http, .. } = &mut connection;
            transport.return_received(http, ring_connection.unread(), self.base.context.now);
            self.base.shared.hand_over([connection]);
        }
    }

    /// Closes a connection as soon as the kernel has given back everything that belongs to it.
    pub(super) fn close(&mut self, token: Token) {
        let ring_connection = &mut self.ring_connections[token.index as usize];
        if !ring_connection.closing {
            ring_connection.to_be_cancelled().for_each(|id| self.ring.cancel(id));
            ring_connection.closing = true;
            self.base.connections.set_deadline(token, None);
        }
        if ring_connection.is_over() {
            self.base.connections.remove(token);
            self.base.acceptor.handle_room(self.base.context.now);
        }
    }

    /// Closes an idle connection whose client waits for nothing, unless a request has just arrived.
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
        let connection = self.base.connections.get(token);
        match rustix::io::retry_on_intr(|| rustix::net::recv(&connection.transport, &mut space, RecvFlags::DONTWAIT)) {
            Ok((_, bytes @ 1..)) => {
                ring_connection.put(&space[..bytes]);
                connection.readable = true;
                self.base.queue.push(token, connection);
            }
            _ => self.close(token),
        }
    }
}
