//! Connections that have something to send for a program's exchange, to the application or to the client: they send one
//! right after the other.
//!
//! Owns: the connections that are held, and when they go on. Guarantees: each goes on within its batch of events,
//! behind [`HELD_MAX`] others at most, in the order in which it came. None is held where one event has come alone. A
//! connection that is held has its workspace.

use lamna_io::wait::Token;

use super::Worker;
use crate::worker::drive::{Leaves, OnSockets};
use crate::worker::life::Life;

/// Connections that are held at once. Requests and answers of so many fit into the first cache of a processor, or
/// nearly; with more hardly anything is gained.
const HELD_MAX: usize = 16;

impl<C: OnSockets> Worker<'_, C> {
    /// Lets a connection go on up to where it would send.
    pub(super) fn drive_leaving(&mut self, token: Token, leaves: Leaves) {
        if self.poll.event_count() < 2 {
            return self.drive(token);
        }
        self.lend(token);
        match self.turn(token, leaves) {
            Some(turn) => self.settle(token, turn),
            None => self.held.push_back(token),
        }
        if self.held.len() >= HELD_MAX {
            self.drive_held();
        }
    }

    /// Lets those go on that are held.
    pub(super) fn drive_held(&mut self) {
        while let Some(token) = self.held.pop_front() {
            if self.base.connections.find(token).is_some() {
                self.drive(token);
            }
        }
    }
}
