//! Answering in the order of the requests (RFC 9112 9.3.2).
//!
//! Owns: the queue's movement. Guarantees: output is written for the first in line only. Does not decide on answers,
//! which is [`exchange::answer`](crate::exchange)'s.

use std::sync::Arc;

use super::active::Active;
use super::exchange::Exchange;
use super::rules::persistence_of;
use super::sending::write_given;
use super::writer::{self, Persistence, write_plain};
use super::{Connection, DRIVEN, Receiving, driven};
use crate::error::Refusal;
use crate::exchange::answer::{self, Answer};
use crate::exchange::early_hints::{self, LinkField};
use crate::exchange::range::ByteRange;
use crate::exchange::running::Running;
use crate::exchange::sending::Sending;
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Saved};
use crate::message::{Request, Version};
use crate::resource::Resource;
use crate::tally::Outcome;
use crate::time::Instant;
use crate::transmit::Segment;
use crate::workspace::Workspace;

impl Connection {
    /// The request in the input stands for `resource`.
    pub(super) fn answer_current(&mut self, resource: &Arc<Resource>) {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let first_in_line = self.active.as_ref().is_none_or(|active| active.exchanges.is_empty());
        if !first_in_line {
            let held_bytes_max = workspace.output_buffer.held_bytes_max();
            let fits = self.active.as_ref().is_some_and(|active| active.may_hold(resource, held_bytes_max));
            self.push_current(if fits { State::Resolved(resource.clone()) } else { State::Postponed }, true);
            return;
        }
        let head = workspace.http1.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        let persistence = persistence_of(request, self.closing);
        let link = workspace.link.as_deref();
        if let Some((status, content_bytes)) =
            write_plain(request, resource, persistence, link, &mut workspace.output_buffer)
        {
            let outcome = Outcome { status: status.0, content_bytes, started: self.received.into(), over_http2: false };
            let request = Some(request).filter(|_| workspace.keeps_requests);
            workspace.in_flight.push(workspace.output_buffer.bytes.len(), outcome, request);
            self.consume_current();
            return;
        }
        let answer = answer::decide(request, resource, workspace.output_buffer.answer_context());
        let link = workspace.link.take();
        self.push_answer(Answer { link, ..answer }, persistence);
    }

    pub(super) fn refuse_current(&mut self, refusal: Refusal) {
        let workspace = driven(&mut self.workspace);
        let head = workspace.http1.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        self.closing |= refusal.closes();
        self.lingers |= refusal.closes();
        let persistence = persistence_of(request, self.closing);
        let answer = answer::refuse(refusal, Some(request), workspace.output_buffer.answer_context());
        self.push_answer(answer, persistence);
    }

    /// The request in the input is answered with `answer`.
    fn push_answer(&mut self, answer: Answer, persistence: Persistence) {
        let exchange = self.take_current(State::Answering(answer), false);
        self.active().exchanges.push_back(Exchange { persistence, ..exchange });
        self.advance();
    }

    /// Refuses the request that is being received, as far as it is known, and closes. If it has been answered already:
    /// only closes.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        let incoming = self.stop_receiving();
        let index = match incoming {
            Some(id) => self.active().exchanges.iter().position(|exchange| exchange.id == id),
            None => {
                let (id, state, started) = (self.new_id(), State::Wanting, self.received());
                let persistence = Persistence::Close;
                let exchange = Exchange { id, request: None, state, persistence, awaits_content: false, started };
                self.active().exchanges.push_back(exchange);
                Some(self.active().exchanges.len() - 1)
            }
        };
        let active = self.active.as_mut().expect("what is refused is an exchange");
        let Some(exchange) = index.map(|index| &mut active.exchanges[index]) else { return };
        if exchange.state.sending().is_some() {
            self.cut();
            return self.advance();
        }
        if exchange.has_begun() {
            return;
        }
        // What is wrong is the content only, and the answer does not depend on it.
        if matches!(refusal, Refusal::ContentTooLarge | Refusal::Timeout) && exchange.state.holds_without_content() {
            (exchange.persistence, exchange.awaits_content) = (Persistence::Close, false);
            return self.advance();
        }
        let request = exchange.request.as_ref().map(Saved::request);
        let output_buffer = &self.workspace.as_ref().expect(DRIVEN).output_buffer;
        exchange.state = State::Answering(answer::refuse(refusal, request, output_buffer.answer_context()));
        exchange.persistence = Persistence::Close;
        exchange.awaits_content = false;
        self.advance();
    }

    /// Nothing more is read as requests. Returns the exchange whose content was being received.
    pub(super) fn stop_receiving(&mut self) -> Option<ExchangeId> {
        (self.closing, self.lingers, self.receiving) = (true, true, Receiving::Idle);
        driven(&mut self.workspace).input.clear();
        self.active.as_mut().and_then(|active| active.receiving.take()).map(|incoming| incoming.id)
    }

    /// Refuses an exchange that has been taken from the input.
    ///
    /// # Errors
    /// Its content cannot be discarded either.
    pub(super) fn refuse_exchange(&mut self, index: usize, refusal: Refusal) -> Result<(), Refusal> {
        if !self.active.as_ref().is_some_and(|active| active.exchanges[index].awaits_content) {
            let active = self.active.as_mut().expect("an exchange is refused");
            let exchange = &mut active.exchanges[index];
            let request = exchange.request.as_ref().map(Saved::request);
            let output_buffer = &self.workspace.as_ref().expect(DRIVEN).output_buffer;
            let page = output_buffer.pages.refusal_of(request.and_then(answer::host_of), request, refusal);
            exchange.state = State::Resolved(page);
            return Ok(());
        }
        if refusal.closes() || !self.stays_in_step() {
            return Err(if refusal == Refusal::MethodNotAllowed { Refusal::MethodNotAllowedUnread } else { refusal });
        }
        let active = self.active.as_mut().expect("an exchange is refused");
        let closing = active.receiving.as_ref().map_or(self.closing, |incoming| incoming.closing) || self.draining;
        let exchange = &mut active.exchanges[index];
        let request = exchange.request.as_ref().map(Saved::request);
        let persistence = request.map_or(Persistence::Close, |request| persistence_of(request, closing));
        let output_buffer = &self.workspace.as_ref().expect(DRIVEN).output_buffer;
        exchange.state = State::Answering(answer::refuse(refusal, request, output_buffer.answer_context()));
        exchange.persistence = persistence;
        exchange.awaits_content = false;
        Ok(())
    }

    /// The answer of an exchange is known, and holds whatever its content is: it is given at once, and says that the
    /// connection ends unless that is sure to stay in step.
    pub(super) fn answer_unread(&mut self, index: usize) {
        if !self.stays_in_step() {
            self.stop_receiving();
        }
        if let Some(active) = &mut self.active {
            active.exchanges[index].awaits_content = false;
        }
    }

    /// Whether the content that is being received is sure to be discarded to its end: its length is known, and within
    /// the bound. The length of chunks is unknown before their end, and the answer does not depend on how much of them
    /// has arrived. Begins to discard it.
    fn stays_in_step(&mut self) -> bool {
        let Some(incoming) = self.active.as_ref().and_then(|active| active.receiving.as_ref()) else { return true };
        // Who waits to be told to go on is told the answer instead, and may send its content or not (RFC 9110 10.1.1).
        let (waits, is_sized) = (incoming.continues, incoming.content.known_bytes() > 0);
        is_sized && !waits && self.begin_discarding().is_ok()
    }

    /// See [`Connection::give_early_hints`](crate::conn::Connection::give_early_hints).
    pub fn give_early_hints<'l>(&mut self, id: ExchangeId, links: impl Iterator<Item = &'l LinkField>) -> bool {
        let is_current = self.current_id() == Some(id);
        let workspace = driven(&mut self.workspace);
        let front = self.active.as_ref().and_then(|active| active.exchanges.front());
        let head = match front {
            None if is_current => workspace.http1.current.as_ref(),
            Some(Exchange { id: front, state: State::Resolving, request: Some(saved), .. }) if *front == id => {
                Some(&saved.head)
            }
            _ => None,
        };
        // RFC 9110 15.2: HTTP/1.0 has no interim answers.
        let can_be = head.is_some_and(|head| head.version == Version::Http11);
        if can_be {
            early_hints::write_http1(links, &mut workspace.output_buffer.bytes);
        }
        can_be
    }

    /// See [`Connection::give_link`](crate::conn::Connection::give_link).
    pub fn give_link(&mut self, id: ExchangeId, link: &Arc<LinkField>) {
        if self.current_id() == Some(id) {
            driven(&mut self.workspace).link = Some(link.clone());
            return;
        }
        let exchanges = self.active.iter_mut().flat_map(|active| &mut active.exchanges);
        if let Some(Exchange { request: Some(saved), .. }) = exchanges.into_iter().find(|exchange| exchange.id == id) {
            saved.link = Some(link.clone());
        }
    }

    pub(super) fn answer_options(&mut self) {
        let workspace = driven(&mut self.workspace);
        let head = workspace.http1.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        let options = workspace.output_buffer.pages.options_of(answer::host_of(request), request);
        self.push_current(State::Resolved(options), true);
        self.advance();
    }

    /// Lets answers that are first in line go on, as far as they are ready.
    pub(super) fn advance(&mut self) {
        let last_left = self.last();
        let Some(active) = &mut self.active else {
            return;
        };
        // What is received belongs to the last.
        let closing =
            self.closing || active.receiving.as_ref().is_some_and(|incoming| incoming.closing || self.draining);
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        loop {
            let last = active.exchanges.len() == 1 && workspace.http1.current.is_none();
            let Some(exchange) = active.exchanges.front_mut() else {
                return;
            };
            if exchange.state.is_postponed() {
                exchange.state = State::Wanting;
            }
            if let State::Running(running) = &mut exchange.state
                && let Some(sending) = running.sending_mut()
            {
                let is_handed_over = write_given(sending, &mut workspace.output_buffer);
                if sending.is_cut() && is_handed_over && workspace.output_buffer.unsent().is_empty() {
                    return self.handle_broken();
                }
                if sending.is_cut() || !(sending.is_ended() && is_handed_over) {
                    return;
                }
                finish_front(active, workspace, last_left);
                continue;
            }
            if exchange.awaits_content {
                return;
            }
            if exchange.state.running().is_some_and(Running::is_lost) {
                let request = exchange.request.as_ref().map(Saved::request);
                let answer = answer::refuse(Refusal::RunFailed, request, workspace.output_buffer.answer_context());
                (exchange.state, exchange.persistence) = (State::Answering(answer), Persistence::Close);
            }
            if let State::Resolved(resource) = &exchange.state {
                let saved = exchange.request.as_ref().expect("a request that waits is kept");
                let persistence = persistence_of(saved.request(), closing && last);
                let answer = answer::decide_saved(saved, resource, workspace.output_buffer.answer_context());
                (exchange.state, exchange.persistence) = (State::Answering(answer), persistence);
            }
            let State::Answering(answer) = &mut exchange.state else {
                return;
            };
            writer::advance(answer, exchange.persistence, &mut workspace.output_buffer);
            if !answer.is_finished() {
                return;
            }
            finish_front(active, workspace, last_left);
        }
    }

    /// The content cannot be had. If nothing of the answer has left, say so; else only closing tells the peer.
    pub(super) fn fail_front(&mut self) {
        let output_buffer = &driven(&mut self.workspace).output_buffer;
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut());
        let Some(Exchange { state: State::Answering(answer), request, .. }) = front else {
            return;
        };
        if answer.begun {
            self.handle_broken();
        } else {
            let request = request.as_ref().map(Saved::request);
            *answer = answer::refuse(Refusal::ReadFailed, request, output_buffer.answer_context());
        }
    }

    pub(super) fn push_current(&mut self, state: State, keep: bool) {
        let exchange = self.take_current(state, keep);
        self.active().exchanges.push_back(exchange);
    }

    /// The current request as an exchange, with a copy of its head if it is needed later.
    pub(super) fn take_current(&mut self, state: State, keep: bool) -> Exchange {
        let id = self.last_id;
        let keep = keep || self.workspace.as_ref().expect(DRIVEN).keeps_requests;
        self.active();
        let workspace = self.workspace.as_ref().expect(DRIVEN);
        let head = workspace.http1.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        let mut request = self.active.as_mut().filter(|_| keep).map(|active| active.save(request));
        if let Some(saved) = &mut request {
            if !matches!(state, State::Wanting) {
                saved.ask();
            }
            saved.link = driven(&mut self.workspace).link.take();
        }
        self.consume_current();
        let (persistence, started) = (Persistence::default(), self.received());
        Exchange { id, request, state, persistence, awaits_content: false, started }
    }

    /// The current request has been taken from the input. What follows a last request is not read, only discarded.
    pub(super) fn consume_current(&mut self) {
        let workspace = driven(&mut self.workspace);
        let head = workspace.http1.current.take().expect("a request is current");
        workspace.input.consume(usize::from(head.length));
        self.lingers |= workspace.input.discard_if(self.closing);
    }

    /// A new name. Four thousand million requests later names come again; by then none of these is in use.
    pub(super) fn new_id(&mut self) -> ExchangeId {
        self.last_id = ExchangeId(self.last_id.0.wrapping_add(1));
        self.last_id
    }

    pub(super) fn active(&mut self) -> &mut Active {
        let scratch_space = &mut self.workspace.as_mut().expect(DRIVEN).http1;
        self.active.get_or_insert_with(|| scratch_space.take())
    }

    pub(super) fn current_id(&self) -> Option<ExchangeId> {
        let waiting = self.workspace.as_ref().is_some_and(|workspace| workspace.http1.current.is_some());
        waiting.then_some(self.last_id)
    }

    pub(super) fn has_wanting(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.wanting().is_some())
    }
}

/// The answer to the first in line has been written to its end. `last` is when something left last.
fn finish_front(active: &mut Active, workspace: &mut Workspace, last: Instant) {
    let Some(exchange) = active.exchanges.pop_front() else { return };
    if let Some(outcome) = exchange.outcome() {
        workspace.handle_written(outcome, exchange.request.as_ref(), last, None);
    }
    if let Some(saved) = exchange.request {
        active.recycle(saved.bytes);
    }
}

/// The segment of a program's answer that is sent from where it is.
pub(super) fn segment_in_place(sending: &Sending) -> Option<Segment<'_>> {
    sending.in_place().map(|(content, range)| Segment::Shared(&content.bytes()[range]))
}

/// The part of the current stretch that can be sent now.
pub(super) fn segment_of(answer: &Answer) -> Option<Segment<'_>> {
    let ByteRange { offset, length } = answer.current;
    if !answer.begun || length == 0 {
        return None;
    }
    if let Some(content) = answer.representation.content() {
        return Some(Segment::Shared(&content[offset as usize..(offset + length) as usize]));
    }
    if let Some(read) = &answer.read {
        let start = (offset - read.offset) as usize;
        return Some(Segment::Shared(&read.buffer.bytes()[start..][..answer.ready.min(length) as usize]));
    }
    let file = answer.representation.file.as_deref().filter(|_| answer.ready > 0)?;
    let (length, state) = (answer.ready.min(length), &answer.representation.state);
    let end = if answer.has_later_content() { u64::MAX } else { offset + answer.current.length };
    Some(Segment::File { file, offset, length, state, end })
}
