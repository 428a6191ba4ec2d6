//! Connections that are parked and go to another driver.
//!
//! Owns: what that driver is told again, and what it takes back. Does not drive.

use super::{Connection, Ending};
use crate::exchange::state::State;
use crate::time::Instant;

impl Connection {
    /// Needs that were handed out and are not met will be handed out again.
    ///
    /// # Panics
    /// If the connection is not parked, as with the other methods here.
    pub fn recall_needs(&mut self) {
        self.assert_parked();
        for stream in &mut self.streams {
            match &mut stream.state {
                State::Resolving => stream.state = State::Wanting,
                State::Answering(answer) => (answer.reading, answer.paused) = (false, false),
                // A step that its driver has not finished is not done again.
                State::Running(running) => running.lose(),
                State::Wanting | State::Resolved(_) | State::Postponed | State::Answered(_) => {}
            }
        }
    }

    /// `bytes`, of which `handle_sent` has been said, have not been sent: they come before everything else.
    pub fn return_unsent(&mut self, bytes: &[u8]) {
        self.assert_parked();
        if !(bytes.is_empty() || self.broken) {
            self.unsent.splice(..0, bytes.iter().copied());
            self.in_flight.put_before(bytes.len());
        }
    }

    /// `bytes` have been received that were not written into `receive_space`: they follow what was.
    pub fn return_received(&mut self, bytes: &[u8], now: Instant) {
        self.assert_parked();
        if !(bytes.is_empty() || self.broken || self.ending == Ending::Closing) {
            (self.received, self.now) = (now, self.now.max(now));
            self.partial_since.get_or_insert(now);
            self.unread.extend_from_slice(bytes);
        }
    }

    fn assert_parked(&self) {
        assert!(self.workspace.is_none(), "a connection that moves is parked");
    }
}
