//! How the proactor meets the needs of exchanges.
//!
//! Owns: the choice between what is in memory, which is done at once, and the ring. Guarantees: what the ring brings for
//! a connection that has gone meanwhile harms nobody. Does not translate: [`super::disk`] has that done.

use lamna_proto::exchange::{Done, Need, Read};
use rustix::io::Errno;

use super::{DRIVEN, Tag, Worker};
use crate::engine::desk::{Found, Stretch, Target};
use crate::engine::event_loop::{Outcome, Ticket};
use crate::engine::portion::Room;
use crate::io::wait::Token;

impl Worker<'_> {
    pub(super) fn carry_needs(&mut self, token: Token) {
        let now = self.desk.now;
        loop {
            let slot = self.slots.get(token);
            let Some((exchange, need)) = slot.connection.poll_need() else { return };
            let ticket = Ticket { token, exchange };
            match need {
                Need::Translate(translate) => match self.desk.look_up(&translate) {
                    Found::Fresh(entry) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                    }
                    Found::Aging(entry, target) => {
                        slot.connection.handle_done(exchange, Done::Translated(&entry.resource), now);
                        self.disk.translate(&mut self.ring, &mut self.desk, None, target);
                    }
                    Found::Missing(target) => self.translate(ticket, target),
                },
                Need::Read(Read { representation, offset, length }) => {
                    let stretch = Stretch { representation: representation.clone(), offset, length };
                    let outcome = self.make_ready(ticket, stretch);
                    let connection = &mut self.slots.get(token).connection;
                    match outcome {
                        Some(Outcome::Ready(_, bytes)) => connection.handle_done(exchange, Done::Ready(bytes), now),
                        Some(_) => connection.handle_done(exchange, Done::Failed, now),
                        None => {}
                    }
                }
            }
            self.report(token);
        }
    }

    fn translate(&mut self, ticket: Ticket, target: Target) {
        let entry = self.disk.translate(&mut self.ring, &mut self.desk, Some(ticket), target);
        let connection = &mut self.slots.get(ticket.token).connection;
        match entry {
            Some(entry) => connection.handle_done(ticket.exchange, Done::Translated(&entry.resource), self.desk.now),
            None => connection.defer(ticket.exchange),
        }
    }

    /// Makes the beginning of a stretch ready: at once if it is in memory, or later.
    fn make_ready(&mut self, ticket: Ticket, stretch: Stretch) -> Option<Outcome> {
        if !stretch.is_unchanged() {
            return Some(Outcome::Failed(ticket));
        }
        let flow = &mut self.flows[ticket.token.index as usize];
        flow.read = None;
        let file = stretch.representation.file.clone()?;
        if !self.shared.reads_elsewhere()
            && let Some(bytes) = stretch.in_memory(self.shared)
        {
            return Some(Outcome::Ready(ticket, bytes));
        }
        let room = Room::lent_or_small(stretch.length, &self.shared.store);
        self.ring.read(file, room, stretch.offset, Tag::Stretch(ticket));
        flow.reading = Some(stretch);
        None
    }

    /// A stretch has been read, if the connection still wants it.
    pub(super) fn handle_stretch(&mut self, ticket: Ticket, room: Room, bytes: Result<usize, Errno>) {
        let flow = &mut self.flows[ticket.token.index as usize];
        if self.slots.find(ticket.token).is_none() || flow.closing {
            return;
        }
        let stretch = flow.reading.take();
        if let (Some(stretch), Ok(bytes)) = (&stretch, bytes) {
            // The kernel has waited where nobody counts for us.
            stretch.handle_read(self.shared, bytes as u64, true);
        }
        let unchanged = stretch.is_some_and(|stretch| stretch.is_unchanged());
        match bytes {
            Ok(bytes @ 1..) if unchanged => {
                flow.read = Some(room);
                self.resume(ticket, Done::Ready(bytes as u64));
            }
            _ => self.resume(ticket, Done::Failed),
        }
    }

    /// What was deferred has been carried out.
    pub(super) fn handle_outcomes(&mut self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            match outcome {
                Outcome::Translated(ticket, entry) => self.resume(ticket, Done::Translated(&entry.resource)),
                Outcome::Ready(ticket, bytes) => self.resume(ticket, Done::Ready(bytes)),
                // Its own stretches come by the ring, not as chunks.
                Outcome::Failed(ticket) | Outcome::Held(ticket, _) => self.resume(ticket, Done::Failed),
            }
        }
    }

    /// The connection may have gone meanwhile; then what was done for it is of use to the cache only.
    fn resume(&mut self, ticket: Ticket, done: Done<'_>) {
        let now = self.desk.now;
        let Some(slot) = self.slots.find(ticket.token) else { return };
        slot.connection.lend(self.workspace.take().expect(DRIVEN));
        slot.connection.handle_done(ticket.exchange, done, now);
        self.desk.report(&mut slot.connection, slot.client);
        self.workspace = Some(slot.connection.reclaim());
        self.drive(ticket.token);
    }
}
