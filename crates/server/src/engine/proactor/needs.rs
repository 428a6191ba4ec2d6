//! What the ring and helpers have carried out for exchanges of the proactor.
//!
//! Guarantees: what is brought for a connection that has gone meanwhile harms nobody. Does not start anything:
//! [`super::hands`] does.

use std::sync::Arc;

use rustix::io::Errno;

use super::{DRIVEN, Worker};
use crate::cache::leased_buffer::LeasedBuffer;
use crate::worker::drive;
use crate::worker::executor::{Completed, PendingId};
use crate::worker::read_buffer::ReadBuffer;

impl Worker<'_> {
    /// A range has been read, if the connection still wants it.
    pub(super) fn handle_stretch(&mut self, pending: PendingId, room: LeasedBuffer, bytes: Result<usize, Errno>) {
        let ring_connection = &mut self.ring_connections[pending.token.index as usize];
        if self.slots.find(pending.token).is_none() || ring_connection.closing {
            return;
        }
        let range = ring_connection.take_reading(pending.exchange);
        if let (Some(range), Ok(bytes)) = (&range, bytes) {
            // The kernel has waited where nobody counts for us.
            range.handle_read(self.shared, bytes as u64, true);
        }
        let is_unchanged = range.is_some_and(|range| range.is_unchanged());
        let content = bytes.ok().filter(|bytes| *bytes > 0 && is_unchanged).map(|bytes| ReadBuffer::of(room, bytes));
        self.handle_completed(match content {
            Some(content) => Completed::Content(pending, Arc::new(content)),
            None => Completed::Failed(pending),
        });
    }

    /// What was deferred has been carried out.
    pub(super) fn handle_all_completed(&mut self, completed: Vec<Completed>) {
        for one in completed {
            self.handle_completed(one);
        }
    }

    /// The connection may have gone meanwhile; then what was done for it is of use to the cache only.
    fn handle_completed(&mut self, completed: Completed) {
        let token = completed.pending().token;
        let Some(slot) = self.slots.find(token) else { return };
        slot.connection.lend(self.workspace.take().expect(DRIVEN));
        drive::handle_completed(slot, completed, &mut self.context);
        self.context.report(&mut slot.connection, &slot.transport, slot.client);
        self.workspace = Some(slot.connection.reclaim());
        self.drive(token);
    }
}
