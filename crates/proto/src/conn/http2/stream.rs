//! One stream: a request and its answer (RFC 9113 5.1).
//!
//! Owns: the states of a stream as a server sees them, and what there is of an answer to send. Guarantees: an answer
//! that is complete before the request is not followed by a reset at once: clients that are still sending would lose
//! it. Does not write frames or order streams.

use crate::conn::http2::flow::{ReceiveWindow, SendWindow};
use crate::conn::http2::priority::{Candidate, Priority};
use crate::conn::pace::Pace;
use crate::conn::send_deadline::SendDeadline;
use crate::exchange::Saved;
use crate::exchange::answer::{Answer, Piece};
use crate::exchange::range::ByteRange;
use crate::exchange::sending::Sending;
use crate::exchange::state::State;
use crate::limits::Limits;
use crate::tally::Outcome;
use crate::time::Instant;

/// ```text
///            HEADERS                   HEADERS with END_STREAM
///   Idle ------------> Open      Idle -----------------------------> HalfClosed
///                       |  END_STREAM of DATA or trailers                |
///                       |-----------------------------------> HalfClosed |
///                       | our END_STREAM                                 | our END_STREAM
///                       v                                                v
///                   Answered --END_STREAM, RST_STREAM of either------> Closed
/// ```
/// No stream is kept that is idle (its number is higher than all that have begun) or closed (its number is lower). As
/// nothing is pushed, none is reserved. One whose answer is complete before its request is half-closed (local):
/// [`State::Answered`].
#[derive(Debug)]
pub(super) enum Receiving {
    /// The peer sends content, or may send the end of it.
    Open(Incoming),
    /// The peer has sent all (half-closed (remote)).
    HalfClosed,
}

/// Content that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) window: ReceiveWindow,
    /// The value of Content-Length.
    pub(super) expected: Option<u64>,
    pub(super) received: u64,
    pub(super) pace: Pace,
}

impl Incoming {
    pub(super) fn new(expected: Option<u64>, now: Instant) -> Incoming {
        Incoming { window: ReceiveWindow::new(), expected, received: 0, pace: Pace::new(now) }
    }

    /// `bytes` of content arrived. False if they are more than Content-Length says.
    pub(super) fn count(&mut self, bytes: usize, limits: &Limits, now: Instant) -> bool {
        self.received += bytes as u64;
        self.pace.count(bytes, limits, now);
        self.expected.is_none_or(|expected| self.received <= expected)
    }

    /// Whether it may end here.
    pub(super) fn is_whole(&self) -> bool {
        self.expected.is_none_or(|expected| self.received == expected)
    }
}

/// The loss when a stream is given up before its answer is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    /// Time of ours, and little of it.
    Little,
    /// The work of a program: an exchange with an application and its connection, most likely, or a file that is
    /// written.
    Program,
}

/// A stream that is neither idle nor closed.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) receiving: Receiving,
    pub(super) state: State,
    /// The request; none if it could not be read.
    pub(super) request: Option<Saved>,
    pub(super) window: SendWindow,
    /// Until when the peer has to open the window for more.
    pub(super) taking: SendDeadline,
    pub(super) priority: Priority,
    /// It is answered without waiting for the rest of its content: with a refusal, or by a program that has seen
    /// enough.
    pub(super) is_early: bool,
    /// It has been reset while a frame of it was being sent from a file, which has to be completed.
    pub(super) is_reset: bool,
    /// Its content that has arrived and has not been taken.
    pub(super) content: Vec<u8>,
    /// The part of it that the step under way is taking.
    pub(super) taken: Vec<u8>,
    /// The client waits to be told to send it.
    pub(super) continues: bool,
    /// Text between parts of the content, of which so many bytes have been sent.
    text: Vec<u8>,
    text_sent: usize,
    /// The turn in which it was sent from last.
    pub(super) served: u64,
    /// When its head had been received.
    pub(super) started: Instant,
}

impl Stream {
    pub(super) fn new(id: u32, receiving: Receiving, window: SendWindow, started: Instant) -> Stream {
        Stream {
            id,
            receiving,
            state: State::Wanting,
            request: None,
            window,
            taking: SendDeadline::NONE,
            priority: Priority::default(),
            is_early: false,
            is_reset: false,
            content: Vec::new(),
            taken: Vec::new(),
            continues: false,
            text: Vec::new(),
            text_sent: 0,
            served: 0,
            started,
        }
    }

    /// The cost of giving it up.
    pub(super) fn cost(&self) -> Cost {
        match self.state.running() {
            Some(running) if !running.is_done() => Cost::Program,
            _ => Cost::Little,
        }
    }

    /// How much content it may send.
    pub(super) fn content_bytes_max(&self, discarded_bytes_max: u64) -> u64 {
        match &self.state {
            State::Running(running) => running.content_bytes_max().unwrap_or(u64::MAX),
            State::Answering(_) | State::Postponed | State::Resolved(_) => discarded_bytes_max,
            // Its time is what bounds it.
            State::Wanting | State::Resolving | State::Answered(_) => u64::MAX,
        }
    }

    /// Whether its answer has been written to its end, and its request has not ended.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.state, State::Answered(_))
    }

    /// Until when content is discarded behind its answer.
    pub(super) fn discards_until(&self, limits: &Limits) -> Option<Instant> {
        match self.state {
            State::Answered(discarding) => Some(discarding.until(limits)),
            _ => None,
        }
    }

    /// Content came behind its answer, if that is so.
    pub(super) fn note_discarded(&mut self, now: Instant) {
        if let State::Answered(discarding) = &mut self.state {
            discarding.note(now);
        }
    }

    /// The answer, if it may be sent: it waits for the end of the request, unless it need not.
    pub(super) fn sending(&self) -> Option<&Answer> {
        let may_send = !self.is_reset && (self.is_early || matches!(self.receiving, Receiving::HalfClosed));
        self.state.answer().filter(|_| may_send)
    }

    /// The outcome that its answer is counted and logged as, once that has begun.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        self.state.outcome(self.started, true)
    }

    /// Bytes of content that can be sent now, as far as we are concerned.
    pub(super) fn ready_bytes(&self) -> u64 {
        let Some(answer) = self.sending() else { return 0 };
        if self.text_sent < self.text.len() {
            return (self.text.len() - self.text_sent) as u64;
        }
        let in_memory = answer.representation.content().is_some();
        if in_memory { answer.current.length } else { answer.ready.min(answer.current.length) }
    }

    /// Bytes of content that are still to be sent.
    pub(super) fn remaining_bytes(&self) -> u64 {
        let Some(answer) = self.state.answer() else { return 0 };
        (self.text.len() - self.text_sent) as u64 + answer.remaining_bytes()
    }

    /// Whether all of a begun answer has been written.
    pub(super) fn is_written(&self) -> bool {
        self.state.answer().is_some_and(|answer| answer.begun) && self.remaining_bytes() == 0
    }

    /// Whether it can be sent from, with `room` in the window of the connection.
    pub(super) fn can_send(&self, room: u64) -> bool {
        if let Some(sending) = self.state.sending() {
            // An end that is told needs no window.
            return if sending.is_empty() { sending.is_ended() } else { self.window.room().min(room) > 0 };
        }
        let Some(answer) = self.sending() else { return false };
        match answer.begun {
            false => !answer.is_short(),
            true => self.ready_bytes() > 0 && self.window.room().min(room) > 0,
        }
    }

    /// Whether there is content for the peer that has not been written, here or where it is read from.
    pub(super) fn has_content_left(&self) -> bool {
        self.state.sending().is_some_and(|sending| !sending.is_empty())
            || self.sending().is_some_and(|answer| answer.begun && self.remaining_bytes() > 0)
    }

    /// Whether nothing of its answer can be sent now: other streams hold what may be held, or its window is shut before
    /// it has begun.
    pub(super) fn waits_behind_others(&self) -> bool {
        let has_begun = self.state.answer().is_none_or(|answer| answer.begun);
        self.state.is_postponed() || !has_begun && self.window.room() == 0
    }

    /// Whether content of it has to be read before more can be sent, with `room` in the window of the connection. What
    /// the peer does not allow to be sent is not read.
    pub(super) fn wants_read(&self, room: u64) -> bool {
        let allowed = self.window.room().min(room) > 0;
        self.sending().is_some_and(|answer| answer.wants_read() && (!answer.begun || allowed))
    }

    /// Goes on to the next piece of a begun answer, once this one has been sent.
    pub(super) fn next_piece(&mut self) {
        while self.text_sent == self.text.len() {
            let Some(answer) = self.state.answer_mut() else { return };
            if answer.current.length > 0 {
                return;
            }
            match answer.later.pop_front() {
                Some(Piece::Text(text)) => (self.text, self.text_sent) = (text, 0),
                Some(Piece::Content(range)) => answer.current = range,
                None => return,
            }
        }
    }

    /// Adds the next `bytes` of content to `out`, as far as they are in memory. False if they are in a file.
    pub(super) fn copy_content(&mut self, bytes: u64, out: &mut Vec<u8>) -> bool {
        let Some(answer) = self.state.answer_mut() else { return false };
        let length = bytes as usize;
        if self.text_sent < self.text.len() {
            out.extend_from_slice(&self.text[self.text_sent..][..length]);
            self.text_sent += length;
            answer.content_bytes += bytes;
            return true;
        }
        let ByteRange { offset, .. } = answer.current;
        match (answer.representation.content(), &answer.read) {
            (Some(content), _) => out.extend_from_slice(&content[offset as usize..][..length]),
            (None, Some(read)) => {
                out.extend_from_slice(&read.buffer.bytes()[(offset - read.offset) as usize..][..length])
            }
            (None, None) => return false,
        }
        answer.take(bytes);
        true
    }

    /// Gives content back that was read for it and cannot be sent, because the peer does not allow it.
    pub(super) fn let_go_if_blocked(&mut self) {
        let is_blocked = self.window.room() == 0;
        if let Some(answer) = self.state.answer_mut()
            && is_blocked
            && answer.read.is_some()
        {
            answer.let_go();
        }
    }

    pub(super) fn candidate(&self) -> Candidate {
        let Stream { priority, served, id, .. } = *self;
        let remaining = self.state.sending().map_or_else(|| self.remaining_bytes(), Sending::remaining_bytes);
        Candidate { priority, remaining, served, id }
    }

    /// Bytes of memory that it holds beyond itself.
    pub(super) fn memory_bytes(&self) -> usize {
        self.request.as_ref().map_or(0, Saved::memory_bytes)
            + self.text.capacity()
            + self.content.capacity()
            + self.taken.capacity()
            + self.state.memory_bytes()
    }
}
