//! Streams that are answered by a program: handing out its steps, and what comes of them.
//!
//! Owns: [`Running`]. Guarantees: steps of a stream are in order and none is handed out twice; what a program has not taken counts
//! against the windows of its stream and of the connection, so that no more is held than they allow. Does not run anything.

use super::frame;
use super::stream::{Receiving, Stream, Work};
use super::{Connection, DRIVEN};
use crate::error::Refusal;
use crate::exchange::ExchangeId;
use crate::exchange::program::{Input, Program, Ran, SocketWait, Step};
use crate::limits::RECEIVE_WINDOW_BYTES_MAX;
use crate::time::Instant;

/// A program that answers a request.
#[derive(Debug)]
pub(super) struct Running {
    /// Absent while a driver carries out a step, or if the driver has lost it.
    program: Option<Box<dyn Program>>,
    /// Received for it, and not taken.
    content: Vec<u8>,
    /// What is being taken.
    taken: Vec<u8>,
    /// Since when the program has been absent.
    away_since: Instant,
    /// It will not come back.
    is_lost: bool,
}

impl Running {
    pub(super) fn new(program: Box<dyn Program>) -> Running {
        let (content, taken) = (Vec::new(), Vec::new());
        Running { program: Some(program), content, taken, away_since: Instant(0), is_lost: false }
    }

    /// Content that the program takes; none if it has been lost.
    pub(super) fn content_bytes_max(&self) -> Option<u64> {
        self.program.as_ref().map(|program| program.content_bytes_max())
    }

    /// Keeps content until the program takes it.
    pub(super) fn keep(&mut self, content: &[u8]) {
        self.content.extend_from_slice(content);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.content.capacity() + self.taken.capacity()
    }

    /// Whether a driver carries out a step.
    pub(super) fn is_away(&self) -> bool {
        self.program.is_none() && !self.is_lost
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The driver that had the program, if any, does not bring it back.
    pub(super) fn lose(&mut self) {
        self.is_lost |= self.program.is_none();
    }

    /// Content that nobody will take any more.
    pub(super) fn untaken_bytes(&self) -> usize {
        self.content.len() + self.taken.len()
    }
}

impl Stream {
    /// Whether a step can be carried out now.
    pub(super) fn can_run(&self) -> bool {
        let has_ended = matches!(self.receiving, Receiving::HalfClosed);
        match &self.work {
            Work::Running(running) => {
                running.program.is_some() && (has_ended || !running.content.is_empty()) && !self.is_reset
            }
            _ => false,
        }
    }
}

impl Connection {
    /// Whether a driver carries out a step of a program: until `handle_ran` the connection has to stay where it is.
    pub fn is_running(&self) -> bool {
        self.streams.iter().any(|one| matches!(&one.work, Work::Running(running) if running.is_away()))
    }

    /// The step that `Need::Run` asks for. Until `handle_ran` the program is the driver's.
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        let received = self.received;
        let stream = self.streams.iter_mut().find(|one| one.id == id.0 && one.can_run())?;
        let has_ended = matches!(stream.receiving, Receiving::HalfClosed);
        let Work::Running(running) = &mut stream.work else { return None };
        running.taken.clear();
        std::mem::swap(&mut running.taken, &mut running.content);
        running.away_since = received;
        let program = running.program.take()?;
        Some(Step { program, input: Input { content: &running.taken, is_last: has_ended, room: true, now } })
    }

    /// See [`Connection::poll_socket`](crate::conn::Connection::poll_socket).
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        None
    }

    /// See [`Connection::handle_socket`](crate::conn::Connection::handle_socket).
    pub fn handle_socket(&mut self, _id: ExchangeId) {}

    /// A step of `program`, which answers exchange `id`, has been carried out. If the exchange is gone, so is the program.
    pub fn handle_ran(&mut self, id: ExchangeId, program: Box<dyn Program>, ran: Ran, now: Instant) {
        let Some(at) = self.streams.iter().position(|one| one.id == id.0 && !one.is_reset) else { return };
        let stream = &mut self.streams[at];
        let Work::Running(running) = &mut stream.work else { return };
        let taken = running.taken.len();
        if let Receiving::Open(incoming) = &mut stream.receiving {
            incoming.forgive(now.since(running.away_since), now);
        }
        running.taken.clear();
        running.program = Some(program);
        self.since = now;
        self.give_back(id.0, taken, now);
        match ran {
            Ran::Continue => {}
            Ran::Answer(resource) => {
                self.streams[at].is_early = true;
                self.give_up_content(at, now);
                self.handle_translated(at, &resource);
            }
            Ran::Failed | Ran::Waits(_) | Ran::Gives(..) => self.refuse_stream(at, Refusal::RunFailed),
        }
        self.pump();
    }

    /// What a program has not taken will not be: the window of the connection is opened by it.
    pub(super) fn give_up_content(&mut self, at: usize, now: Instant) {
        if let Work::Running(running) = &self.streams[at].work {
            let bytes = running.untaken_bytes();
            self.give_back(0, bytes, now);
        }
    }

    /// `bytes` of content have been taken: the windows of stream `id`, unless it is 0, and of the connection are opened by so much, when
    /// it is worth a frame.
    pub(super) fn give_back(&mut self, id: u32, bytes: usize, now: Instant) {
        self.receive_window.give_back(bytes);
        if let Some(increment) = self.receive_window.increment(RECEIVE_WINDOW_BYTES_MAX, now) {
            frame::write_window_update(self.sink(), 0, increment);
        }
        let stream = self.streams.iter_mut().find(|one| one.id == id && !one.is_early);
        if let Some(Receiving::Open(incoming)) = stream.map(|one| &mut one.receiving) {
            incoming.window.give_back(bytes);
            if let Some(increment) = incoming.window.increment(RECEIVE_WINDOW_BYTES_MAX, now) {
                frame::write_window_update(self.sink(), id, increment);
            }
        }
    }

    /// Those whose program has been lost on the way are told so.
    pub(super) fn refuse_lost(&mut self) {
        let is_lost = |one: &Stream| matches!(&one.work, Work::Running(running) if running.is_lost());
        while let Some(at) = self.streams.iter().position(is_lost) {
            debug_assert!(self.workspace.is_some(), "{DRIVEN}");
            self.refuse_stream(at, Refusal::RunFailed);
        }
    }
}
