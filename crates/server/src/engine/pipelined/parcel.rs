//! A connection on its way through the stages, with what it wants of them, and the desk at which a stage works on it.
//!
//! Owns: [`Parcel`], which is always in exactly one place, and [`Station`]. Guarantees: a parcel that is not being worked
//! on is parked and holds no buffers.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use lamna_proto::exchange::{ExchangeId, Need, Read};
use lamna_proto::workspace::Workspace;

use super::Pool;
use crate::cache::Entry;
use crate::engine::desk::{Desk, Stretch, Target};
use crate::engine::slots::Slot;
use crate::engine::stretch::{TURN_BYTES, within_turn};
use crate::io::send::Sent;
use crate::io::wait::Token;

/// A connection that moves from stage to stage.
pub(super) struct Parcel {
    /// Its socket and what the core knows.
    pub slot: Slot,
    /// Translations that it waits for, in the order of the requests.
    pub wants: Vec<Want>,
    /// The stretch of a file that it waits for.
    pub reading: Option<Reading>,
    /// Whether the data stage is told when sending becomes possible.
    pub sender_registered: bool,
}

/// A translation that is wanted.
pub(super) struct Want {
    /// For this exchange.
    pub exchange: ExchangeId,
    /// Of this.
    pub target: Target,
    /// What the path helper found.
    pub found: Option<Arc<Entry>>,
}

/// A stretch that is wanted.
pub(super) struct Reading {
    /// For this exchange.
    pub exchange: ExchangeId,
    /// Of this file.
    pub stretch: Stretch,
    /// What the read helper says: it is in memory, or it cannot be read. Nothing if it has not been asked.
    pub paged_in: Option<bool>,
}

impl Parcel {
    /// A connection that nothing is wanted for yet.
    pub(super) fn new(slot: Slot) -> Box<Parcel> {
        Box::new(Parcel { slot, wants: Vec::new(), reading: None, sender_registered: false })
    }

    /// What it is found by.
    pub(super) fn token(&self) -> Token {
        Token { index: self.slot.socket.as_raw_fd() as u32, generation: self.slot.generation }
    }

    /// Takes over what the core needs, to be carried to who does it. The core must have a workspace.
    pub(super) fn take_needs(&mut self, desk: &mut Desk<'_>) {
        while let Some((exchange, need)) = self.slot.connection.poll_need() {
            match need {
                Need::Translate(translate) => {
                    let target = desk.take(&translate);
                    self.slot.connection.defer(exchange);
                    self.wants.push(Want { exchange, target, found: None });
                }
                Need::Read(Read { representation, offset, length }) => {
                    let stretch = Stretch { representation: representation.clone(), offset, length };
                    self.reading = Some(Reading { exchange, stretch, paged_in: None });
                }
            }
        }
    }
}

impl Parcel {
    /// Sends what there is to send, as far as the socket takes it, within a turn. Returns how many bytes of it that was.
    pub(super) fn transmit(&mut self, desk: &mut Desk<'_>) -> u64 {
        let slot = &mut self.slot;
        let mut used = 0;
        while slot.writable
            && used < TURN_BYTES
            && let Some(mut transmit) = slot.connection.poll_transmit()
        {
            let weight = within_turn(&mut transmit, used);
            match desk.sender.send(slot.socket.as_fd(), &transmit) {
                Sent::Part(0) => slot.writable = false,
                Sent::All(bytes) | Sent::Part(bytes) => {
                    used += bytes * weight;
                    slot.connection.handle_sent(bytes, desk.now);
                    desk.handle_sent(bytes);
                }
                Sent::Changed | Sent::Broken => slot.connection.handle_broken(),
            }
            desk.report(&mut slot.connection, slot.client);
        }
        used
    }
}

/// What a stage works with.
pub(super) struct Station<'a> {
    /// Its pool.
    pub pool: &'a Pool,
    /// Its desk.
    pub desk: Desk<'a>,
    /// The server is draining: connections close as soon as nothing is under way on them.
    pub draining: bool,
    workspace: Option<Box<Workspace>>,
}

impl<'a> Station<'a> {
    /// A station of a stage that begins.
    pub(super) fn new(pool: &'a Pool) -> Station<'a> {
        let desk = Desk::new(&pool.shared);
        Station { pool, draining: false, workspace: Some(desk.workspace()), desk }
    }

    /// Begins a batch: reads the clocks, and what the main thread wants. True when draining begins.
    pub(super) fn begin(&mut self) -> bool {
        let Some(workspace) = &mut self.workspace else { return false };
        self.desk.look_at_clock(workspace);
        let begins = !self.draining && self.pool.shared.control.is_draining();
        if begins {
            self.draining = true;
            workspace.drain();
        }
        begins
    }

    /// The parcel, unless the pool hands its connections over: then it has gone.
    pub(super) fn keep(&self, parcel: Box<Parcel>) -> Option<Box<Parcel>> {
        if !self.pool.shared.control.is_handing_over() {
            return Some(parcel);
        }
        self.pool.shared.hand_over([parcel.slot]);
        self.pool.count_out();
        None
    }

    /// Works on `parcel` with a workspace.
    pub(super) fn work_on<R>(&mut self, parcel: &mut Parcel, work: impl FnOnce(&mut Parcel, &mut Desk<'a>) -> R) -> R {
        parcel.slot.connection.lend(self.workspace.take().expect("one parcel is worked on at a time"));
        let result = work(parcel, &mut self.desk);
        self.workspace = Some(parcel.slot.connection.reclaim());
        result
    }

    /// How long until log lines have to be handed over, if there are any.
    pub(super) fn flush_ms(&self) -> Option<u64> {
        self.desk.flush_due().map(|due| due.since(self.desk.now) + 1)
    }
}
