//! Streams that are answered by a program: what it is given of the content, and what becomes of the stream with its
//! answer.
//!
//! Owns: the turn of a program among streams. Guarantees: what a program has not taken counts against the windows of
//! its stream and of the connection ([`super::content`]), so that no more is held than they allow. Steps, and what
//! follows from each, are [`Running`]'s.

use super::stream::{Receiving, Stream};
use super::{Connection, DRIVEN};
use crate::error::Refusal;
use crate::exchange::ExchangeId;
use crate::exchange::program::{Input, Program, SocketWait, Step, StepResult};
use crate::exchange::running::{After, Running};
use crate::exchange::sending::Sending;
use crate::exchange::state::State;
use crate::time::Instant;

impl Stream {
    /// Whether the peer has to send content now: nobody waits for it before it is known who wants it.
    pub(super) fn wants_content(&self) -> bool {
        match &self.state {
            State::Running(running) => running.awaits_content(),
            State::Wanting | State::Resolving | State::Answered(_) => false,
            State::Postponed | State::Answering(_) | State::Resolved(_) => true,
        }
    }
}

impl Connection {
    /// Descriptors that its answers hold.
    pub fn descriptors(&self) -> usize {
        self.streams.iter().map(|one| one.state.descriptors()).sum()
    }

    /// Whether a step of the program of a stream can be carried out now.
    pub(super) fn can_run(&self, stream: &Stream) -> bool {
        let Some(running) = stream.state.running() else { return false };
        !stream.is_reset
            && running.can_run(!stream.content.is_empty(), stream.has_ended(), self.has_room_for_part(stream))
    }

    /// Whether there is room for another part of the answer of a stream: what was given has been written, and not too
    /// much of what was written waits to be sent.
    pub(super) fn has_room_for_part(&self, stream: &Stream) -> bool {
        let Some(workspace) = &self.workspace else { return false };
        let is_written = stream.state.sending().is_none_or(Sending::is_empty);
        is_written
            && self.file_frame.is_none()
            && workspace.output_buffer.unsent().len() < workspace.output_buffer.output_bytes_max()
    }

    /// Whether a driver carries out a step of a program: until `handle_step_result` the connection has to stay where it
    /// is.
    pub fn is_running(&self) -> bool {
        self.streams.iter().any(|one| one.state.running().is_some_and(Running::is_away))
    }

    /// The step that `Need::Run` asks for. Until `handle_step_result` the program is the driver's.
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        let received = self.received;
        let at = self.streams.iter().position(|one| one.id == id.0 && self.can_run(one))?;
        let room = self.has_room_for_part(&self.streams[at]);
        let has_ended = self.streams[at].has_ended();
        let Stream { state: State::Running(running), content, taken, .. } = &mut self.streams[at] else { return None };
        taken.clear();
        if running.wants_content() {
            std::mem::swap(taken, content);
        }
        let is_last = has_ended && content.is_empty();
        let program = running.begin_step(is_last, received)?;
        Some(Step { program, input: Input { content: taken, is_last, room, now } })
    }

    /// See [`Connection::poll_socket`](crate::conn::Connection::poll_socket).
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        self.streams.iter_mut().find_map(|stream| {
            let id = ExchangeId(stream.id);
            Some((id, stream.state.running_mut()?.poll_socket()?))
        })
    }

    /// See [`Connection::handle_socket`](crate::conn::Connection::handle_socket).
    pub fn handle_socket(&mut self, id: ExchangeId) {
        let stream = self.streams.iter_mut().find(|one| one.id == id.0);
        if let Some(running) = stream.and_then(|stream| stream.state.running_mut()) {
            running.handle_socket();
        }
    }

    /// A step of `program`, which answers exchange `id`, has been carried out. If the exchange is gone, so is the
    /// program.
    pub fn handle_step_result(
        &mut self,
        id: ExchangeId,
        program: Box<dyn Program>,
        step_result: StepResult,
        now: Instant,
    ) {
        self.now = self.now.max(now);
        let Some(at) = self.streams.iter().position(|one| one.id == id.0 && !one.is_reset) else { return };
        let Stream { state: State::Running(running), request, receiving, taken, .. } = &mut self.streams[at] else {
            return;
        };
        if !running.is_away() {
            return;
        }
        let bytes = taken.len();
        taken.clear();
        let after = running.handle_step_result(program, step_result, request.as_mut());
        if let (Some(away_ms), Receiving::Open(incoming)) = (running.away_ms(now), receiving) {
            incoming.pace.forgive(away_ms, now);
        }
        self.since = now;
        self.give_back(id.0, bytes, now);
        match after {
            After::GoOn => self.invite_content(at),
            After::Give(part) => {
                self.give(at, *part);
                if let Some(at) = self.streams.iter().position(|one| one.id == id.0) {
                    self.invite_content(at);
                }
            }
            After::Answer(resource) => {
                self.streams[at].is_early = true;
                self.give_up_content(at, now);
                self.answer_with(at, &resource);
            }
            After::ResolveAgain => self.resolve_again(at),
            After::ResolveOther => {
                self.streams[at].is_early = true;
                self.give_up_content(at, now);
                self.resolve_again(at);
            }
            After::Fail => self.fail_program(at),
        }
        self.fail_in_vain(id);
        self.pump();
    }

    /// A program that waits for nothing that can come about has failed.
    fn fail_in_vain(&mut self, id: ExchangeId) {
        let is_in_vain = |one: &Stream| {
            one.id == id.0 && one.state.running().is_some_and(|running| running.is_in_vain(one.has_ended()))
        };
        if let Some(at) = self.streams.iter().position(is_in_vain) {
            self.fail_program(at);
        }
    }

    /// The program of a stream is done, and its request is resolved once more. Content that has arrived meanwhile is
    /// kept for whoever takes it then.
    fn resolve_again(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        (stream.state, stream.taken) = (State::Wanting, Vec::new());
    }

    /// Those whose program has been lost on the way are told so.
    pub(super) fn refuse_lost(&mut self) {
        let is_lost = |one: &Stream| one.state.running().is_some_and(Running::is_lost);
        while let Some(at) = self.streams.iter().position(is_lost) {
            debug_assert!(self.workspace.is_some(), "{DRIVEN}");
            self.refuse_stream(at, Refusal::RunFailed);
        }
    }
}
