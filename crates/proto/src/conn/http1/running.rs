//! Exchanges of HTTP/1.x that are answered by a program: what it is given of the input, and what becomes of the
//! connection with its answer.
//!
//! Owns: the turn of a program, which is the first in line. Guarantees: content is taken from the peer only as fast as
//! the program takes it; a request runs when those before it have been answered. Steps, and what follows from each, are
//! [`Running`]'s.

use super::exchange::{Exchange, Incoming};
use super::incoming::CONTINUE;
use super::sending;
use super::{Connection, DRIVEN, Receiving, driven};
use crate::conn::Interest;
use crate::conn::framing::Content;
use crate::error::Refusal;
use crate::exchange::answer;
use crate::exchange::program::{Input, Part, Program, SocketWait, Step, StepResult, StreamHead};
use crate::exchange::running::{After, Running};
use crate::exchange::sending::{Framing, Given, Sending};
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Saved};
use crate::limits::Limits;
use crate::message::Version;
use crate::time::Instant;

use super::rules::persistence_of;
use super::writer::Persistence;

/// Content that has been taken from the input.
struct Taken {
    /// Where in the input it is.
    at: usize,
    length: usize,
    is_last: bool,
}

// What it waits for.
impl Connection {
    /// The first in line, if it is a program's.
    pub(super) fn front_running(&self) -> Option<(&Exchange, &Running)> {
        let exchange = self.active.as_ref()?.exchanges.front()?;
        Some((exchange, exchange.state.running()?))
    }

    fn front_running_mut(&mut self) -> Option<(ExchangeId, &mut Running)> {
        let exchange = self.active.as_mut()?.exchanges.front_mut()?;
        Some((exchange.id, exchange.state.running_mut()?))
    }

    /// The answer of a program that is being sent.
    pub(super) fn front_sending(&self) -> Option<&Sending> {
        self.front_running()?.1.sending()
    }

    /// The exchange for which a step can be carried out now.
    pub(super) fn runnable(&self) -> Option<ExchangeId> {
        let (exchange, running) = self.front_running()?;
        let has_input = !self.workspace.as_ref()?.input.unread().is_empty();
        self.is_runnable(exchange, running, has_input, self.has_room_for_part()).then_some(exchange.id)
    }

    pub(super) fn is_runnable(&self, exchange: &Exchange, running: &Running, has_input: bool, has_room: bool) -> bool {
        running.can_run(exchange.awaits_content && has_input, self.has_ended(exchange), has_room)
    }

    /// Whether no more content of it arrives.
    pub(super) fn has_ended(&self, exchange: &Exchange) -> bool {
        !exchange.awaits_content || self.ended
    }

    /// Whether everything has been sent that was given.
    fn has_room_for_part(&self) -> bool {
        let has_sent = self.workspace.as_ref().is_some_and(|workspace| workspace.output_buffer.unsent().is_empty());
        has_sent && self.front_sending().is_none_or(Sending::is_empty)
    }

    /// The events that a connection waits for whose first request in line is a program's.
    ///
    /// It receives even when the program wants no content, as long as there is room in the input: so it is noticed when
    /// the peer is gone. A peer that has ended its side still reads the answer (RFC 9112 9.6).
    pub(super) fn running_interest(&self) -> Option<Interest> {
        let (_, running) = self.front_running()?;
        if running.is_lost() {
            return None;
        }
        let is_here = running.is_here();
        let is_full = match (&self.workspace, &self.active) {
            (Some(workspace), _) => workspace.input.is_full(),
            (None, active) => active.as_ref().is_some_and(|active| active.is_full) && self.has_input(),
        };
        let receive = is_here && !self.ended && !is_full;
        let send = self.has_output();
        let done = running.is_away() || running.waits_elsewhere() || is_here && !(receive || send);
        Some(Interest { receive, send, done, ..Interest::default() })
    }

    /// Until when the peer has to send content, or to take what there is for it.
    fn running_patience(&self, limits: &Limits) -> Option<Instant> {
        let (exchange, running) = self.front_running()?;
        if self.has_output() {
            return Some(self.taking_until(limits));
        }
        if !(exchange.awaits_content && running.awaits_content()) {
            return None;
        }
        let until = self.since().after_ms(limits.body_timeout_ms);
        let incoming = self.active.as_ref().and_then(|active| active.receiving.as_ref());
        let patience = incoming.and_then(|incoming| incoming.patience(limits));
        Some(patience.map_or(until, |patience| patience.min(until)))
    }

    /// Until when it may wait, or the program does.
    pub(super) fn running_timeout(&self, limits: &Limits) -> Option<Instant> {
        let (_, running) = self.front_running()?;
        let patience = self.running_patience(limits);
        running.until().into_iter().chain(patience).min()
    }

    /// The wait is over that `running_timeout` named.
    pub(super) fn handle_running_timeout(&mut self, now: Instant) {
        let limits = driven(&mut self.workspace).output_buffer.limits.clone();
        if self.front_running_mut().is_some_and(|(_, running)| running.handle_time(now)) {
            return;
        }
        if self.running_patience(&limits).is_none_or(|patience| now < patience) {
            return;
        }
        if self.has_output() {
            self.handle_broken();
        } else {
            self.since = now.into();
            self.refuse(Refusal::Timeout);
        }
    }

    /// Whether a driver carries out a step of a program: until `handle_step_result` the connection has to stay where it
    /// is.
    pub fn is_running(&self) -> bool {
        self.front_running().is_some_and(|(_, running)| running.is_away())
    }

    /// Whether it can go on in another process: a program cannot.
    pub fn is_transferable(&self) -> bool {
        let mut exchanges = self.active.iter().flat_map(|active| &active.exchanges);
        !exchanges.any(|exchange| matches!(exchange.state, State::Running(_)))
    }

    /// See [`Connection::poll_socket`](crate::conn::Connection::poll_socket).
    pub fn poll_socket(&mut self) -> Option<(ExchangeId, SocketWait<'_>)> {
        let (id, running) = self.front_running_mut()?;
        Some((id, running.poll_socket()?))
    }

    /// See [`Connection::handle_socket`](crate::conn::Connection::handle_socket).
    pub fn handle_socket(&mut self, id: ExchangeId) {
        if let Some((_, running)) = self.front_running_mut().filter(|(front, _)| *front == id) {
            running.handle_socket();
        }
    }
}

// Steps.
impl Connection {
    /// The step that `Need::Run` asks for; none if there is nothing in what has arrived but framing. Until
    /// `handle_step_result` the program is the driver's.
    pub fn step(&mut self, id: ExchangeId, now: Instant) -> Option<Step<'_>> {
        debug_assert_eq!(self.runnable(), Some(id), "a step is taken when it is asked for");
        let Taken { at, length, is_last } = match self.next_piece() {
            Ok(taken) => taken,
            Err(refusal) => {
                self.refuse(refusal);
                return None;
            }
        };
        if self.runnable().is_none() && length == 0 && !is_last {
            return None;
        }
        let (room, received) = (self.has_room_for_part(), self.received());
        let (_, running) = self.front_running_mut()?;
        let program = running.begin_step(is_last, received)?;
        let input = &self.workspace.as_ref().expect(DRIVEN).input;
        Some(Step { program, input: Input { content: input.at(at, length), is_last, room, now } })
    }

    /// Takes the next content from the input, if the program wants it.
    fn next_piece(&mut self) -> Result<Taken, Refusal> {
        let nothing = |is_last| Ok(Taken { at: 0, length: 0, is_last });
        let (awaits_content, wants_content) = self
            .front_running()
            .map_or((false, false), |(exchange, running)| (exchange.awaits_content, running.wants_content()));
        if !(awaits_content && wants_content) {
            return nothing(!awaits_content);
        }
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) else {
            return nothing(false);
        };
        let taken = loop {
            if workspace.input.unread().is_empty() {
                return match (self.ended, &incoming.content) {
                    (true, Content::Tunnel) => {
                        self.end_content();
                        nothing(true)
                    }
                    (true, _) => Err(Refusal::Incomplete),
                    (false, _) => nothing(false),
                };
            }
            let at = workspace.input.position();
            let piece =
                incoming.take(workspace.input.unread(), &workspace.output_buffer.limits, self.received.into())?;
            workspace.input.consume(piece.consumed);
            let taken = Taken { at: at + piece.content.start, length: piece.content.len(), is_last: piece.ended };
            if taken.is_last || taken.length > 0 {
                break taken;
            }
        };
        if taken.is_last {
            self.end_content();
        }
        Ok(taken)
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
        let Some(active) = &mut self.active else { return };
        let Some(Exchange { id: front, request, state: State::Running(running), .. }) = active.exchanges.front_mut()
        else {
            return;
        };
        if *front != id || !running.is_away() {
            return;
        }
        let after = running.handle_step_result(program, step_result, request.as_mut());
        if let (Some(away_ms), Some(incoming)) = (running.away_ms(now), &mut active.receiving) {
            incoming.forgive(away_ms, now);
        }
        self.since = now.into();
        match after {
            After::GoOn => {}
            After::Give(part) => self.give(*part),
            After::Answer(resource) => {
                self.leave_unread();
                self.set_front(State::Resolved(resource));
            }
            After::ResolveAgain => self.resolve_again(),
            After::ResolveOther => {
                self.leave_unread();
                self.resolve_again();
            }
            After::Fail => self.fail_program(),
        }
        self.fail_in_vain();
        self.invite_content();
        self.advance();
    }

    /// A program that waits for nothing that can come about has failed.
    fn fail_in_vain(&mut self) {
        if self.front_running().is_some_and(|(exchange, running)| running.is_in_vain(self.has_ended(exchange))) {
            self.fail_program();
        }
    }

    /// The program is done, and its request is resolved once more. How much content it may have is as if there had
    /// been no program.
    fn resolve_again(&mut self) {
        let body_bytes_max = driven(&mut self.workspace).output_buffer.limits.body_bytes_max;
        if let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) {
            // The taker refuses content that is known to be more.
            _ = incoming.limit(body_bytes_max);
        }
        self.set_front(State::Wanting);
    }

    fn set_front(&mut self, state: State) {
        if let Some(exchange) = self.active.as_mut().and_then(|active| active.exchanges.front_mut()) {
            exchange.state = state;
        }
    }

    /// The answer is whole before the content has been received: what is still to come of it is not waited for.
    fn leave_unread(&mut self) {
        let awaits = |connection: &Connection| connection.front_running().is_some_and(|(one, _)| one.awaits_content);
        // All of it may have arrived.
        if !awaits(self) || matches!(self.discard_content(), Ok(true)) {
            return;
        }
        self.stop_receiving();
        if let Some(exchange) = self.active.as_mut().and_then(|active| active.exchanges.front_mut()) {
            exchange.awaits_content = false;
        }
    }

    /// A program takes the content of the request: it begins.
    pub(super) fn begin_running(&mut self, bytes_max: u64) -> Result<(), Refusal> {
        if let Some(incoming) = self.active.as_mut().and_then(|active| active.receiving.as_mut()) {
            incoming.limit(bytes_max)?;
        }
        self.invite_content();
        Ok(())
    }

    /// A client that waits for an interim answer before it sends its content gets it when the program wants some.
    fn invite_content(&mut self) {
        if !self.front_running().is_some_and(|(_, running)| running.invites_content()) {
            return;
        }
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let incoming = self.active.as_mut().and_then(|active| active.receiving.as_mut());
        if incoming.is_some_and(|incoming| std::mem::take(&mut incoming.continues)) {
            workspace.output_buffer.bytes.extend_from_slice(CONTINUE);
        }
    }
}

// Parts.
impl Connection {
    /// The program of the first in line gives a part of its answer.
    fn give(&mut self, part: Part) {
        let has_room = self.has_room_for_part();
        let Part { interim, head, content, end } = part;
        self.give_interim(&interim);
        if let Some(head) = head {
            self.begin_sending(&head, end.is_some());
        }
        let Some((_, running)) = self.front_running_mut() else { return };
        match running.give(content, end, has_room) {
            Given::Part => {}
            Given::Whole => self.leave_unread(),
            Given::Short | Given::Excess => self.cut(),
        }
    }

    /// Answers before the answer. RFC 9110 15.2: HTTP/1.0 has none.
    fn give_interim(&mut self, interim: &[StreamHead]) {
        let request = self.front_running().and_then(|(exchange, _)| exchange.request.as_ref());
        if request.is_some_and(|saved| saved.head.version != Version::Http10) {
            let output_buffer = &mut self.workspace.as_mut().expect(DRIVEN).output_buffer;
            interim.iter().for_each(|head| sending::write_interim(head, &mut output_buffer.bytes));
        }
    }

    /// The answer of a program begins.
    fn begin_sending(&mut self, head: &StreamHead, ends: bool) {
        let framing = {
            let Some((Exchange { request: Some(saved), .. }, _)) = self.front_running() else { return };
            sending::framing_of(head, saved.request())
        };
        if framing == Framing::Tunnel && !self.begin_tunnel(head) {
            return self.fail_program();
        }
        if ends || framing == Framing::Nothing {
            // Now, so that the head can say that it is the last.
            self.leave_unread();
        }
        self.end_behind(framing == Framing::Close);
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Some(active) = &mut self.active else { return };
        // A client that still waits to be invited may send its content now, or not.
        let closing = match &mut active.receiving {
            Some(incoming) => {
                incoming.closing |= incoming.continues;
                incoming.closing
            }
            None => self.closing && active.exchanges.len() == 1,
        };
        let Some(Exchange { request: Some(saved), state: State::Running(running), .. }) = active.exchanges.front_mut()
        else {
            return;
        };
        let request = saved.request();
        let persistence = match framing {
            Framing::Close | Framing::Tunnel => Persistence::Close,
            _ => persistence_of(request, closing || self.draining && active.receiving.is_some()),
        };
        let output_buffer = &mut workspace.output_buffer;
        let pages = output_buffer.pages.clone();
        let server = pages.pages_of(answer::host_of(request)).options.variants.first().server();
        let told = (output_buffer.told_id(request), saved.link.as_deref());
        sending::write_head(head, framing, persistence, server, told, output_buffer);
        let takes_trailers = framing == Framing::Told && sending::takes_trailers(request);
        running.begin_sending(Sending::new(head.status, framing, takes_trailers));
    }

    /// The connection changes to another protocol (RFC 9110 7.8): what follows the request is content. False if it
    /// cannot.
    fn begin_tunnel(&mut self, head: &StreamHead) -> bool {
        let id = self.last_id;
        let Some(active) = &mut self.active else { return false };
        let Some(Exchange { state: State::Running(running), request: Some(saved), awaits_content, .. }) =
            active.exchanges.front_mut()
        else {
            return false;
        };
        if !asks_to_change(saved) || saved.head.version == Version::Http10 || head.status.0 != 101 || *awaits_content {
            return false;
        }
        // What has been received behind it has not been looked at: see `may_change`.
        running.forget_end();
        *awaits_content = true;
        active.receiving = Some(Incoming {
            id,
            content: Content::Tunnel,
            bytes_left: u64::MAX,
            continues: false,
            closing: true,
            pace: None,
        });
        (self.closing, self.receiving) = (false, Receiving::Content);
        true
    }

    /// Whether the newest request may change the connection to another protocol: then what follows it may not be a
    /// request.
    pub(super) fn may_change(&self) -> bool {
        let newest = self.active.as_ref().and_then(|active| active.exchanges.back());
        newest.is_some_and(|exchange| match (&exchange.state, &exchange.request) {
            (State::Wanting | State::Resolving, Some(saved)) => asks_to_change(saved),
            (State::Running(running), Some(saved)) => !running.has_begun() && asks_to_change(saved),
            _ => false,
        })
    }

    /// If `is_last`, the answer that is being sent is the last of the connection, whatever has been asked for behind
    /// it.
    fn end_behind(&mut self, is_last: bool) {
        if !is_last {
            return;
        }
        let Some(active) = &mut self.active else { return };
        self.lingers |= active.exchanges.len() > 1;
        active.exchanges.truncate(1);
        if let Some(incoming) = &mut active.receiving {
            incoming.closing = true;
            return;
        }
        self.closing = true;
        self.receiving = Receiving::Idle;
        self.lingers |= driven(&mut self.workspace).input.discard_if(true);
    }

    /// The program of the first in line does not go on.
    fn fail_program(&mut self) {
        if self.front_sending().is_some() {
            return self.cut();
        }
        self.leave_unread();
        let output_buffer = &self.workspace.as_ref().expect(DRIVEN).output_buffer;
        let Some((exchange, _)) = self.front_running() else { return };
        let request = exchange.request.as_ref().map(Saved::request);
        let page = output_buffer.pages.refusal_of(request.and_then(answer::host_of), request, Refusal::RunFailed);
        self.set_front(State::Resolved(page));
    }

    /// The answer of a program that is being sent is broken off behind what has been given: the connection ends there.
    pub(super) fn cut(&mut self) {
        self.end_behind(true);
        self.stop_receiving();
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut());
        let Some(Exchange { state: State::Running(running), awaits_content, .. }) = front else { return };
        *awaits_content = false;
        running.cut();
    }
}

/// Whether a request asks for another protocol.
fn asks_to_change(saved: &Saved) -> bool {
    saved.request().lines_named(b"upgrade").next().is_some()
}
