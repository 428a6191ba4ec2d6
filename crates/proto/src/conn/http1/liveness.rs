//! Whether a connection of HTTP/1.x that is left could go on although nothing happens: then nothing would ever wake it.
//!
//! Owns: [`Connection::standstill`]. Changes nothing. Does not know what its driver has arranged.

use super::{Connection, Receiving};
use crate::conn::Fate;
use crate::exchange::state::State;
use crate::parse::head::{self, Parsed};

impl Connection {
    /// See [`Connection::standstill`](crate::conn::Connection::standstill).
    pub fn standstill(&self) -> Option<&'static str> {
        let interest = self.interest();
        if self.broken || interest.fate != Fate::Open {
            return None;
        }
        if !(interest.receive || interest.send || interest.done) {
            return Some("it waits for nothing");
        }
        // With something to send, it is woken when there is room for that, and looked at then.
        if self.has_wanting() && !self.has_output() {
            return Some("a need has not been handed out");
        }
        self.program_standstill().or_else(|| self.input_standstill())
    }

    /// The step that the program of the first in line could take, or the event that it waits for in vain.
    fn program_standstill(&self) -> Option<&'static str> {
        let exchange = self.active.as_ref()?.exchanges.front()?;
        let running = match &exchange.state {
            State::Running(running) => running,
            State::Resolved(_) if !exchange.awaits_content => return Some("an answer is known and has not begun"),
            State::Postponed => return Some("the first in line has been postponed"),
            _ => return None,
        };
        if !self.has_output() && self.is_runnable(exchange, running, self.has_input(), true) {
            return Some("a step can be carried out");
        }
        running.standstill(self.has_ended(exchange))
    }

    /// A request that has been received in full and could be taken.
    fn input_standstill(&self) -> Option<&'static str> {
        let is_between = self.receiving != Receiving::Content && !self.closing && self.current_id().is_none();
        let is_free = self.active.as_ref().is_none_or(|active| active.exchanges.is_empty()) && !self.has_output();
        if !(is_between && is_free && self.has_input()) {
            return None;
        }
        let unread = match (&self.workspace, &self.active) {
            (Some(workspace), _) => workspace.input.unread(),
            (None, active) => active.as_ref().map_or(&[][..], |active| &active.unread),
        };
        // Heads are judged by the limits of the workspace, which none is shorter than that is not judged yet.
        match head::parse(unread, &crate::limits::Limits::default()) {
            Ok(Parsed::Complete(_)) => Some("a request has been received and is not looked at"),
            _ => None,
        }
    }
}
