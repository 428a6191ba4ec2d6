//! Prefetched lookups: targets of connections that are ready at the same time, fetched from memory while they wait for
//! each other.
//!
//! Owns: the group of connections that are received from before they are driven. Guarantees: as many system calls, and
//! each connection its turn in the order of its events. Nothing is different where one is ready, or the cache is small
//! enough to be near the processor anyway. A connection that was received from has its workspace until its turn.

use std::ops::Range;

use super::{GENERATION_OURS, Worker};
use crate::worker::drive::OnSockets;

/// Connections that are received from before the first of them is answered. What is fetched for them has to stay in the
/// first cache of a processor, and the first must not wait long: a receive takes a microsecond.
const AHEAD_MAX: usize = 8;

impl<C: OnSockets> Worker<'_, C> {
    pub(super) fn handle_in_groups(&mut self) {
        let count = self.poll.event_count();
        if count < 2 || !self.base.context.prefetches_lookups() {
            return (0..count).for_each(|index| self.handle_event(index));
        }
        // Groups of about the same size: the last is not one alone.
        let size = count.div_ceil(count.div_ceil(AHEAD_MAX));
        for first in (0..count).step_by(size) {
            let group = first..(first + size).min(count);
            // What wakes a worker may concern all connections: none is half way through its turn then.
            if !group.clone().any(|index| self.poll.event(index).token.generation == GENERATION_OURS) {
                self.prefetch_lookup(group.clone());
            }
            group.for_each(|index| self.handle_event(index));
        }
    }

    /// Receives for connections that were idle, and has what their requests will look up fetched.
    fn prefetch_lookup(&mut self, events: Range<usize>) {
        for index in events {
            let event = self.poll.event(index);
            if !event.readable || event.ending {
                continue;
            }
            let Some(connection) = self.base.connections.find(event.token) else { continue };
            if connection.is_idle() && connection.registered && !connection.transport.is_handshaking() {
                connection.notice(&event);
                self.lend(event.token);
                let connection = self.base.connections.get(event.token);
                connection.receive(self.base.context.now);
                let (peer, over) = (connection.peer, connection.transport.over());
                if let Some(requested) = connection.http.peek_requested() {
                    let context = &mut self.base.context;
                    context.prefetch_lookup(&context.asked(&requested, peer, over));
                }
            }
        }
        self.base.context.fetch_prefetched();
    }
}
