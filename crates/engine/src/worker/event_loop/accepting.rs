//! How an event loop takes new connections: with its epoll set, one batch at a time.

use rustix::io::Errno;

use super::{GENERATION_OURS, Worker};
use crate::worker::acceptor::{self, Accepting, Acceptor, Freed};
use crate::worker::connection_state::ConnectionState;
use crate::worker::drive::OnSockets;
use crate::worker::life::Life;
use crate::worker::shared::Shared;
use lamna_proto::time::Instant;

impl<'a, C: OnSockets> Accepting<'a> for Worker<'a, C> {
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

    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        acceptor::watch_in(&self.poll, &self.base.shared.listeners, GENERATION_OURS, watches)
    }

    fn begin(&mut self, connection: ConnectionState) {
        self.begin_accepted(connection);
    }

    fn shed(&mut self, most: usize) -> Freed {
        let chosen = self.base.connections.making_room(most, |_| true).tokens;
        for token in &chosen {
            self.base.connections.remove(*token);
        }
        Freed::Now(chosen.len())
    }
}
