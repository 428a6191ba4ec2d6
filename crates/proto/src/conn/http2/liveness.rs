//! Progress of a connection of HTTP/2: which stream can go on, and whether one could that is left although nothing
//! would ever wake it.
//!
//! Owns: which stream has a need that can be handed out, and [`Connection::standstill`]. Changes nothing. Does not know
//! what its driver has arranged.

use super::stream::{Receiving, Stream};
use super::{Connection, Ending, priority};
use crate::conn::Fate;
use crate::exchange::running::Running;
use crate::exchange::sending::Sending;
use crate::exchange::state::State;
use crate::limits;

impl Connection {
    /// The stream that has a need which has not been handed out.
    pub(super) fn wanting(&self) -> Option<usize> {
        if let Some(at) = self.streams.iter().position(|one| one.state.is_wanting()) {
            return Some(at);
        }
        if let Some(at) = self.streams.iter().position(|one| self.can_run(one)) {
            return Some(at);
        }
        if self.reads_much() {
            return None;
        }
        let room = self.window.room();
        let wanting = self.streams.iter().enumerate().filter(|(_, one)| one.wants_read(room));
        priority::choose(wanting.map(|(at, one)| (at, one.candidate())))
    }

    /// Whether as much is being read, or has been and waits to be sent, as may be.
    fn reads_much(&self) -> bool {
        let reads = |one: &&Stream| one.state.answer().is_some_and(|answer| answer.reading || answer.ready > 0);
        self.streams.iter().filter(reads).count() >= limits::STREAM_READS_MAX
    }

    /// See [`Connection::standstill`](crate::conn::Connection::standstill).
    pub fn standstill(&self) -> Option<&'static str> {
        let interest = self.interest();
        if self.broken || self.ending == Ending::Closing || interest.fate != Fate::Open {
            return None;
        }
        if !(interest.receive || interest.send || interest.done) {
            return Some("it waits for nothing");
        }
        if self.has_current() {
            return Some("a request has been received and is not looked at");
        }
        let is_postponed = |one: &Stream| one.state.is_postponed();
        if !self.streams.is_empty() && self.streams.iter().all(is_postponed) {
            return Some("all streams have been postponed");
        }
        self.streams.iter().filter(|stream| !stream.is_reset).find_map(|stream| self.stream_standstill(stream))
    }

    fn stream_standstill(&self, stream: &Stream) -> Option<&'static str> {
        // With something to send, it is woken when there is room for that, and looked at then.
        let (room, is_drained) = (self.window.room(), !self.has_output());
        if is_drained && stream.can_send(room) {
            return Some("an answer can be written");
        }
        match &stream.state {
            State::Wanting => is_drained.then_some("a need has not been handed out"),
            State::Resolving | State::Resolved(_) | State::Postponed | State::Answered(_) => None,
            State::Running(running) => self.running_standstill(stream, running),
            State::Answering(answer) => {
                // It waits for the rest of the request, for a step, for a window, or for room.
                let is_blocked = stream.window.room().min(room) == 0;
                let waits = stream.sending().is_none() || answer.reading || answer.paused || is_blocked || !is_drained;
                (!waits && !self.reads_much() && stream.wants_read(room)).then_some("content has not been asked for")
            }
        }
    }

    fn running_standstill(&self, stream: &Stream, running: &Running) -> Option<&'static str> {
        let is_written = stream.state.sending().is_none_or(Sending::is_empty);
        if !self.has_output() && is_written && running.can_run(!stream.content.is_empty(), stream.has_ended(), true) {
            return Some("a step can be carried out");
        }
        running.standstill(stream.has_ended())
    }
}

impl Stream {
    /// Whether its request has been received in full.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.receiving, Receiving::HalfClosed)
    }
}
