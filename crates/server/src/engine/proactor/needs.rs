//! How the proactor meets the needs of exchanges.
//!
//! Owns: the choice between what is in memory, which is done at once, and the ring. Guarantees: what the ring brings for
//! a connection that has gone meanwhile harms nobody. Does not translate: [`super::disk`] has that done.

use lamna_proto::exchange::{Done, Need, Read};
use rustix::io::Errno;

use super::{DRIVEN, Tag, Worker};
use crate::cache::leased_buffer::LeasedBuffer;
use crate::io::wait::Token;
use crate::worker::context::{FileRange, Found, Target};
use crate::worker::executor::{Completed, PendingId};

impl Worker<'_> {
    pub(super) fn process_needs(&mut self, token: Token) {
        let now = self.context.now;
        loop {
            let slot = self.slots.get(token);
            let Some((exchange, need)) = slot.connection.poll_need() else { return };
            let pending = PendingId { token, exchange };
            match need {
                Need::Translate(translate) => match self.context.look_up(&translate) {
                    Found::Fresh(entry) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                    }
                    Found::Aging(entry, target) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                        self.disk.translate(&mut self.ring, &mut self.context, None, target);
                    }
                    Found::Missing(target) => self.translate(pending, target),
                },
                Need::Read(Read { representation, offset, length }) => {
                    let range = FileRange { representation: representation.clone(), offset, length };
                    let step = self.make_ready(pending, range);
                    let connection = &mut self.slots.get(token).connection;
                    match step {
                        Some(Completed::Ready(_, bytes)) => connection.handle_done(exchange, Done::Ready(bytes), now),
                        Some(_) => connection.handle_done(exchange, Done::Failed, now),
                        None => {}
                    }
                }
            }
            self.report(token);
        }
    }

    fn translate(&mut self, pending: PendingId, target: Target) {
        let entry = self.disk.translate(&mut self.ring, &mut self.context, Some(pending), target);
        let connection = &mut self.slots.get(pending.token).connection;
        match entry {
            Some(entry) => {
                connection.handle_done(pending.exchange, Done::Translated(&entry.resource), self.context.now)
            }
            None => connection.defer(pending.exchange),
        }
    }

    /// Makes the beginning of a range ready: at once if it is in memory, or later.
    fn make_ready(&mut self, pending: PendingId, range: FileRange) -> Option<Completed> {
        if !range.is_unchanged() {
            return Some(Completed::Failed(pending));
        }
        let flow = &mut self.flows[pending.token.index as usize];
        flow.read = None;
        let file = range.representation.file.clone()?;
        if !self.shared.reads_elsewhere()
            && let Some(bytes) = range.in_memory(self.shared)
        {
            return Some(Completed::Ready(pending, bytes));
        }
        let room = LeasedBuffer::lent_or_small(range.length, &self.shared.store);
        self.ring.read(file, room, range.offset, Tag::FileRange(pending));
        flow.reading = Some(range);
        None
    }

    /// A range has been read, if the connection still wants it.
    pub(super) fn handle_stretch(&mut self, pending: PendingId, room: LeasedBuffer, bytes: Result<usize, Errno>) {
        let flow = &mut self.flows[pending.token.index as usize];
        if self.slots.find(pending.token).is_none() || flow.closing {
            return;
        }
        let range = flow.reading.take();
        if let (Some(range), Ok(bytes)) = (&range, bytes) {
            // The kernel has waited where nobody counts for us.
            range.handle_read(self.shared, bytes as u64, true);
        }
        let unchanged = range.is_some_and(|range| range.is_unchanged());
        match bytes {
            Ok(bytes @ 1..) if unchanged => {
                flow.read = Some(room);
                self.resume(pending, Done::Ready(bytes as u64));
            }
            _ => self.resume(pending, Done::Failed),
        }
    }

    /// What was deferred has been carried out.
    pub(super) fn handle_outcomes(&mut self, completed: Vec<Completed>) {
        for step in completed {
            match step {
                Completed::Translated(pending, entry) => self.resume(pending, Done::Translated(&entry.resource)),
                Completed::Ready(pending, bytes) => self.resume(pending, Done::Ready(bytes)),
                // Its own stretches come by the ring, not as chunks.
                Completed::Failed(pending) | Completed::Held(pending, _) => self.resume(pending, Done::Failed),
            }
        }
    }

    /// The connection may have gone meanwhile; then what was done for it is of use to the cache only.
    fn resume(&mut self, pending: PendingId, done: Done<'_>) {
        let now = self.context.now;
        let Some(slot) = self.slots.find(pending.token) else { return };
        slot.connection.lend(self.workspace.take().expect(DRIVEN));
        slot.connection.handle_done(pending.exchange, done, now);
        self.context.report(&mut slot.connection, slot.client);
        self.workspace = Some(slot.connection.reclaim());
        self.drive(pending.token);
    }
}
