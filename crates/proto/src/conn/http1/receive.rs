//! Taking requests from the input: heads, the content that follows them, and what of it is refused.
//!
//! Owns: where one request ends and the next begins, and in which order a request is judged. Does not answer.

use super::exchange::Incoming;
use super::incoming::Taker;
use super::rules::{Judged, is_persistent, judge};
use super::{Connection, DRIVEN, Receiving, driven};
use crate::conn::framing::Content;
use crate::error::Refusal;
use crate::exchange::answer;
use crate::exchange::rules::answers_options;
use crate::exchange::state::State;
use crate::message::{Head, Request};
use crate::parse::head::{self, Parsed};

/// The result of an attempt to take a request from the input.
enum Taken {
    /// More bytes, or earlier answers, are needed first.
    Nothing,
    /// Something was consumed: look again.
    Part,
    /// A request waits for its resolution.
    Request,
}

impl Connection {
    /// Takes the next request from the input. False if none is there; true if one is current or wanting.
    pub(super) fn next_request(&mut self) -> bool {
        if self.current_id().is_some() {
            return true;
        }
        while !self.closing {
            let taken = match self.receiving {
                Receiving::Content => self.receive_content(),
                Receiving::Idle | Receiving::Head if self.has_room() => self.receive_head(),
                Receiving::Idle | Receiving::Head => return false,
            };
            match taken {
                Ok(Taken::Nothing) => return false,
                Ok(Taken::Part) => {}
                Ok(Taken::Request) => return true,
                Err(refusal) => self.refuse(refusal),
            }
        }
        false
    }

    /// Whether another request may be begun: bounds what a peer that pipelines makes us hold.
    fn has_room(&self) -> bool {
        let workspace = self.workspace.as_ref().expect(DRIVEN);
        let output_buffer = &workspace.output_buffer;
        !workspace.holds_requests
            && !self.may_change()
            && output_buffer.bytes.len() < output_buffer.output_bytes_max()
            && self
                .active
                .as_ref()
                .is_none_or(|active| active.has_room(&output_buffer.limits, output_buffer.held_bytes_max()))
    }

    fn receive_head(&mut self) -> Result<Taken, Refusal> {
        let workspace = driven(&mut self.workspace);
        let empty_lines = head::leading_empty_lines(workspace.input.unread());
        workspace.input.consume(empty_lines);
        if workspace.input.unread().is_empty() {
            self.receiving = Receiving::Idle;
            self.closing |= self.draining && !self.promised;
            return Ok(Taken::Nothing);
        }
        if workspace.input.unread() == b"\r" && !self.ended {
            // The first half of another empty line.
            return Ok(Taken::Nothing);
        }
        if self.receiving == Receiving::Idle {
            self.since = self.received;
        }
        self.receiving = Receiving::Head;
        match head::parse(workspace.input.unread(), &workspace.output_buffer.limits)? {
            Parsed::Partial if self.ended => Err(Refusal::Incomplete),
            Parsed::Partial => Ok(Taken::Nothing),
            Parsed::Complete(head) => Ok(self.accept(head)),
        }
    }

    /// Decides what to do with a request whose head is at the start of the input.
    fn accept(&mut self, head: Head) -> Taken {
        let idle = self.active.as_ref().is_none_or(|active| active.exchanges.is_empty());
        let workspace = driven(&mut self.workspace);
        let request = Request { bytes: workspace.input.unread(), head: &head };
        let persists = !self.draining && !workspace.draining && is_persistent(request);
        let pages = &*workspace.output_buffer.pages;
        let judged = judge(request, &workspace.output_buffer.limits, pages);
        let is_options = answers_options(request, pages);
        if judged.as_ref().is_ok_and(|judged| judged.continues) && !idle {
            // An interim answer would be taken for one to an earlier request.
            return Taken::Nothing;
        }
        workspace.link = None;
        workspace.http1.current = Some(Head { id: workspace.next_id(), ..head });
        self.new_id();
        self.since = self.received;
        self.closing = !persists;
        self.receiving = Receiving::Idle;
        match judged {
            Err(refusal) => self.refuse_current(refusal),
            Ok(Judged { content: Content::Empty, .. }) if is_options => self.answer_options(),
            Ok(Judged { content: Content::Empty, .. }) => return Taken::Request,
            Ok(Judged { content, continues }) => return self.await_content(is_options, content, continues),
        }
        Taken::Part
    }

    /// Begins the exchange of the current request, whose content follows. `is_options`: it is answered from the pages.
    fn await_content(&mut self, is_options: bool, content: Content, continues: bool) -> Taken {
        let closing = std::mem::replace(&mut self.closing, false);
        self.receiving = Receiving::Content;
        let mut exchange = self.take_current(State::Wanting, true);
        exchange.awaits_content = true;
        let bytes_left = u64::MAX;
        let incoming = Incoming { id: exchange.id, content, bytes_left, continues, closing, pace: None };
        if let Some(saved) = exchange.request.as_ref().filter(|_| is_options) {
            let pages = &self.workspace.as_ref().expect(DRIVEN).output_buffer.pages;
            let host = answer::host_of(saved.request());
            exchange.state = State::Resolved(pages.options_of(host, saved.request()));
        }
        let active = self.active();
        active.exchanges.push_back(exchange);
        active.receiving = Some(incoming);
        match is_options.then(|| self.begin_discarding()) {
            None => Taken::Request,
            Some(Ok(())) => Taken::Part,
            Some(Err(refusal)) => {
                self.refuse(refusal);
                Taken::Part
            }
        }
    }

    fn receive_content(&mut self) -> Result<Taken, Refusal> {
        if self.taker() != Taker::Nobody {
            return Ok(Taken::Nothing);
        }
        if self.discard_content()? {
            self.advance();
            return Ok(if self.has_wanting() { Taken::Request } else { Taken::Part });
        }
        if self.ended { Err(Refusal::Incomplete) } else { Ok(Taken::Nothing) }
    }
}
