//! Streams that are answered by a program: handing out its steps, and what comes of them.
//!
//! Owns: [`Running`]. Guarantees: steps of a stream are in order and none is handed out twice; what a program has not taken counts
//! against the windows of its stream and of the connection ([`super::content`]), so that no more is held than they allow. Does not run
//! anything.

use super::stream::{Receiving, Stream, Work};
use super::{Connection, DRIVEN};
use crate::error::Refusal;
use crate::exchange::program::{Holds, Input, Program, Ran, SocketWait, Step};
use crate::exchange::sending::Sending;
use crate::exchange::wake::Wake;
use crate::exchange::{ExchangeId, Saved};
use crate::time::Instant;

/// A program that answers a request.
#[derive(Debug)]
pub(super) struct Running {
    /// Absent while a driver carries out a step, if the driver has lost it, and when it has given all of its answer.
    program: Option<Box<dyn Program>>,
    /// What the next step waits for.
    wake: Wake,
    /// Since when it does not wait for content.
    away_since: Instant,
    /// It will not come back.
    is_lost: bool,
    /// It gave a part that there was no room for, and is not asked for more before there is.
    pub(super) is_ahead: bool,
    /// What it held when a driver took it to carry out a step.
    away: Holds,
    /// Its answer, if that has begun.
    pub(super) sending: Option<Box<Sending>>,
}

impl Running {
    pub(super) fn new(program: Box<dyn Program>) -> Running {
        Running {
            wake: Wake::new(program.begins_with()),
            program: Some(program),
            away_since: Instant::from_ms(0),
            is_lost: false,
            is_ahead: false,
            away: Holds::default(),
            sending: None,
        }
    }

    /// Content that the program takes; none if it has been lost.
    pub(super) fn content_bytes_max(&self) -> Option<u64> {
        self.program.as_ref().map(|program| program.content_bytes_max())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.sending.as_ref().map_or(0, |sending| sending.memory_bytes()) + self.holds().bytes
    }

    /// What its program holds, or held when a driver took it.
    pub(super) fn holds(&self) -> Holds {
        match &self.program {
            Some(program) => Holds::of(&**program),
            None if self.is_away() => self.away,
            None => Holds::default(),
        }
    }

    /// Whether a driver carries out a step.
    pub(super) fn is_away(&self) -> bool {
        self.program.is_none() && !self.is_lost && !self.is_done()
    }

    /// Whether it has given all of its answer.
    pub(super) fn is_done(&self) -> bool {
        self.sending.as_ref().is_some_and(|sending| sending.is_ended())
    }

    /// Whether it waits for something that is not the peer's.
    pub(super) fn waits_elsewhere(&self) -> bool {
        self.program.is_some() && self.wake.waits_elsewhere()
    }

    /// Whether the next step may be given content.
    pub(super) fn wants_content(&self) -> bool {
        self.program.is_some() && self.wake.wants_content()
    }

    /// Whether its answer has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.sending.is_some()
    }

    /// It has given all of its answer.
    pub(super) fn drop_program(&mut self) {
        self.program = None;
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// The driver that had the program, if any, does not bring it back, nor does it wait for its socket.
    pub(super) fn lose(&mut self) {
        self.is_lost |= self.is_away();
        self.wake.recall();
    }

    /// Whether a step can be carried out now: content has arrived or not, or has ended, and there is room for a part or
    /// not.
    pub(super) fn can_run(&self, has_content: bool, has_ended: bool, has_room: bool) -> bool {
        let is_due = self.wake.is_due(has_content, has_ended, has_room);
        self.program.is_some() && is_due && (has_room || !self.is_ahead)
    }

    /// Why nothing will bring about what it waits for.
    pub(super) fn standstill(&self, has_ended: bool) -> Option<&'static str> {
        self.wake.standstill(self.program.as_deref()?, has_ended)
    }

    /// Whether nothing that it waits for can come about.
    fn is_in_vain(&self, has_ended: bool) -> bool {
        self.program.as_deref().is_some_and(|program| self.wake.is_in_vain(program, has_ended))
    }
}

impl Stream {
    /// Whether the peer has to send content now: nobody waits for what is not wanted, nor before it is known who wants it; and while an answer
    /// is being made that has begun only for what nothing else can take the place of.
    pub(super) fn wants_content(&self) -> bool {
        match &self.work {
            Work::Running(running) => {
                running.wants_content() && (!running.has_begun() || running.wake.wants_only_content())
            }
            Work::Wanting | Work::Translating | Work::Answered(_) => false,
            Work::Postponed | Work::Answering(_) => true,
        }
    }

    /// Until when its program waits.
    pub(super) fn until(&self) -> Option<Instant> {
        match &self.work {
            Work::Running(running) if running.program.is_some() => running.wake.until(),
            _ => None,
        }
    }

    /// Its program may have waited long enough.
    pub(super) fn handle_time(&mut self, now: Instant) {
        if let Work::Running(running) = &mut self.work {
            running.wake.handle_time(now);
        }
    }
}

impl Connection {
    /// Descriptors that its answers hold.
    pub fn descriptors(&self) -> usize {
        self.streams.iter().map(Stream::descriptors).sum()
    }

    /// Whether a step of the program of a stream can be carried out now.
    pub(super) fn can_run(&self, stream: &Stream) -> bool {
        let Work::Running(running) = &stream.work else { return false };
        !stream.is_reset
            && running.can_run(!stream.content.is_empty(), stream.has_ended(), self.has_room_for_part(stream))
    }

    /// Whether there is room for another part of the answer of a stream: what was given has been written, and not too much of what was
    /// written waits to be sent.
    pub(super) fn has_room_for_part(&self, stream: &Stream) -> bool {
        let Some(workspace) = &self.workspace else { return false };
        let is_written = stream.stream_sending().is_none_or(Sending::is_empty);
        is_written && self.file_frame.is_none() && workspace.outlet.unsent().len() < workspace.outlet.output_bytes_max()
    }

    /// Whether a driver carries out a step of a program: until `handle_ran` the connection has to stay where it is.
    pub fn is_running(&self) -> bool {
        self.streams.iter().any(|one| matches!(&one.work, Work::Running(running) if running.is_away()))
    }

    /// The step that `Need::Run` asks for. Until `handle_ran` the program is the driver's.
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        let received = self.received;
        let at = self.streams.iter().position(|one| one.id == id.0 && self.can_run(one))?;
        let room = self.has_room_for_part(&self.streams[at]);
        let has_ended = self.streams[at].has_ended();
        let Stream { work: Work::Running(running), content, taken, .. } = &mut self.streams[at] else { return None };
        taken.clear();
        if running.wake.wants_content() {
            std::mem::swap(taken, content);
            running.away_since = received;
        }
        let is_last = has_ended && content.is_empty();
        if is_last {
            running.wake.told_end();
        }
        let program = running.program.take()?;
        running.away = Holds::of(&*program);
        Some(Step { program, input: Input { content: taken, is_last, room, now } })
    }

    /// See [`Connection::poll_socket`](crate::conn::Connection::poll_socket).
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        self.streams.iter_mut().find_map(|stream| {
            let Work::Running(running) = &mut stream.work else { return None };
            Some((ExchangeId(stream.id), running.wake.ask(running.program.as_deref()?)?))
        })
    }

    /// See [`Connection::handle_socket`](crate::conn::Connection::handle_socket).
    pub fn handle_socket(&mut self, id: ExchangeId) {
        let stream = self.streams.iter_mut().find(|one| one.id == id.0);
        if let Some(Work::Running(running)) = stream.map(|stream| &mut stream.work)
            && running.program.is_some()
        {
            running.wake.handle_socket();
        }
    }

    /// A step of `program`, which answers exchange `id`, has been carried out. If the exchange is gone, so is the program.
    pub fn handle_ran(&mut self, id: ExchangeId, program: Box<dyn Program>, ran: Ran, now: Instant) {
        self.now = self.now.max(now);
        let Some(at) = self.streams.iter().position(|one| one.id == id.0 && !one.is_reset) else { return };
        let stream = &mut self.streams[at];
        let Work::Running(running) = &mut stream.work else { return };
        if !running.is_away() {
            return;
        }
        let taken = stream.taken.len();
        stream.taken.clear();
        running.program = Some(program);
        match &ran {
            Ran::Waits(next) | Ran::Gives(_, next) => running.wake.wait_for(*next),
            _ => running.wake.go_on(),
        }
        if let Receiving::Open(incoming) = &mut stream.receiving
            && running.wake.wants_content()
        {
            incoming.pace.forgive(now.since(running.away_since), now);
        }
        let has_begun = running.has_begun();
        self.since = now;
        self.give_back(id.0, taken, now);
        match ran {
            Ran::Continue | Ran::Waits(_) => self.invite_content(at),
            Ran::Gives(part, _) => {
                self.give(at, *part);
                if let Some(at) = self.streams.iter().position(|one| one.id == id.0) {
                    self.invite_content(at);
                }
            }
            Ran::Answer(resource) if !has_begun => {
                self.streams[at].is_early = true;
                self.give_up_content(at, now);
                self.answer_with(at, &resource);
            }
            Ran::Again | Ran::Found(_) if self.streams[at].request.as_ref().is_some_and(Saved::goes_round) => {
                self.fail_program(at);
            }
            Ran::Again if !has_begun => self.translate_again(at),
            Ran::Found(found) if !has_begun => {
                if let Some(saved) = self.streams[at].request.as_mut() {
                    saved.found = Some(found);
                }
                self.translate_again(at);
            }
            Ran::Redirected(target) if !has_begun => self.redirect(at, &target, now),
            Ran::Again | Ran::Found(_) | Ran::Redirected(_) | Ran::Answer(_) | Ran::Failed => self.fail_program(at),
        }
        self.fail_in_vain(id);
        self.pump();
    }

    /// A program that waits for nothing that can come about has failed: else its client would wait as well.
    fn fail_in_vain(&mut self, id: ExchangeId) {
        let is_in_vain = |one: &Stream| {
            one.id == id.0 && matches!(&one.work, Work::Running(running) if running.is_in_vain(one.has_ended()))
        };
        if let Some(at) = self.streams.iter().position(is_in_vain) {
            self.fail_program(at);
        }
    }

    /// The program of a stream is done: another target is translated in the place of its own.
    fn redirect(&mut self, at: usize, target: &[u8], now: Instant) {
        match self.streams[at].request.as_mut().map(|saved| saved.redirect(target)) {
            Some(Ok(())) => {
                self.streams[at].is_early = true;
                self.give_up_content(at, now);
                self.streams[at].work = Work::Wanting;
            }
            _ => self.fail_program(at),
        }
    }

    /// The program of a stream is done, and the stream is translated once more. Content that has arrived meanwhile is kept for whoever
    /// takes it then.
    fn translate_again(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        (stream.work, stream.taken) = (Work::Wanting, Vec::new());
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
