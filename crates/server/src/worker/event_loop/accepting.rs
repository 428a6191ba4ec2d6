//! How an event loop takes new connections: with its epoll set, one batch at a time.

use rustix::io::Errno;

use super::{GENERATION_OURS, Worker};
use crate::worker::acceptor::{self, Accepting, Acceptor, Freed};
use crate::worker::connection_table::ConnectionState;
use crate::worker::drive::OnSockets;
use crate::worker::shared::Shared;
use lamna_proto::time::Instant;

impl<'a, C: OnSockets> Accepting<'a> for Worker<'a, C> {
    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    fn shared(&self) -> &'a Shared {
        self.shared
    }

    fn now(&self) -> Instant {
        self.context.now
    }

    fn connections(&self) -> usize {
        self.slots.count()
    }

    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        acceptor::watch_in(&self.poll, &self.shared.listeners, GENERATION_OURS, watches)
    }

    fn begin(&mut self, slot: ConnectionState) {
        self.context.count_connection();
        let token = self.slots.admit(slot);
        self.slots.show_load(self.shared.score(self.index));
        self.drive(token);
    }

    fn shed(&mut self, most: usize) -> Freed {
        let idle = self.slots.longest_idle(most);
        for token in &idle {
            self.slots.remove(*token);
        }
        Freed::Now(idle.len())
    }
}
