//! Results that the ring and helpers have brought for exchanges of the proactor.
//!
//! Guarantees: a result for a connection that has gone meanwhile affects no other connection. Does not start anything:
//! [`super::hands`] does.

use std::sync::Arc;

use lamna_site::cache::leased_buffer::LeasedBuffer;
use rustix::io::Errno;

use super::Worker;
use crate::worker::executor::{Completed, PendingId};
use crate::worker::life::Life;
use crate::worker::read_buffer::ReadBuffer;

impl Worker<'_> {
    /// A range has been read, if the connection still wants it.
    pub(super) fn handle_stretch(&mut self, pending: PendingId, room: LeasedBuffer, bytes: Result<usize, Errno>) {
        let ring_connection = &mut self.ring_connections[pending.token.index as usize];
        if self.base.connections.find(pending.token).is_none() || ring_connection.closing {
            return;
        }
        let range = ring_connection.take_reading(pending.exchange);
        if let (Some(range), Ok(bytes)) = (&range, bytes) {
            // The kernel has waited where nobody counts for us.
            range.handle_read(self.base.shared, bytes as u64, true);
        }
        let content = bytes.ok().filter(|bytes| *bytes > 0).map(|bytes| Arc::new(ReadBuffer::of(room, bytes)));
        self.handle_completed(match (range, content) {
            (Some(range), Some(content)) => range.read_as(self.base.shared, pending, Some(content)),
            _ => Completed::Failed(pending),
        });
    }
}
