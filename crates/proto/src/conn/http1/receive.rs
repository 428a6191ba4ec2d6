//! Taking requests from the input: heads, the content that follows them, and what of it is refused.
//!
//! Owns: where one request ends and the next begins, and in which order a request is judged. Does not answer.

use super::active::Incoming;
use super::rules::{Judged, is_persistent, judge, persistence_of};
use super::{Connection, DRIVEN, Receiving, driven};
use crate::conn::framing::Content;
use crate::error::Refusal;
use crate::exchange::answer::{self, Persistence};
use crate::exchange::{Saved, State};
use crate::message::{Head, Method, Request};
use crate::parse::head::{self, Parsed};

/// What became of an attempt to take a request from the input.
enum Taken {
    /// More bytes, or earlier answers, are needed first.
    Nothing,
    /// Something was consumed: look again.
    Part,
    /// A request waits for its translation.
    Request,
}

impl Connection {
    /// Takes the next request from the input. False if there is none to be had now; true if one is current or wanting.
    pub(super) fn next_request(&mut self) -> bool {
        if self.current_id().is_some() {
            return true;
        }
        while !self.closing && self.has_room() {
            let taken = match self.receiving {
                Receiving::Content => self.receive_content(),
                Receiving::Idle | Receiving::Head => self.receive_head(),
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
        let outlet = &self.workspace.as_ref().expect(DRIVEN).outlet;
        outlet.output.len() < outlet.output_bytes_max()
            && self.active.as_ref().is_none_or(|active| active.has_room(&outlet.limits, outlet.held_bytes_max()))
    }

    fn receive_head(&mut self) -> Result<Taken, Refusal> {
        let workspace = driven(&mut self.workspace);
        let empty_lines = head::leading_empty_lines(workspace.input.unread());
        workspace.input.consume(empty_lines);
        if workspace.input.unread().is_empty() {
            self.receiving = Receiving::Idle;
            self.closing |= self.draining;
            return Ok(Taken::Nothing);
        }
        self.receiving = Receiving::Head;
        if workspace.input.unread() == b"\r" && !self.ended {
            // The first half of another empty line.
            return Ok(Taken::Nothing);
        }
        match head::parse(workspace.input.unread(), &workspace.outlet.limits)? {
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
        let judged = judge(request, &workspace.outlet.limits);
        if judged.as_ref().is_ok_and(|judged| judged.continues) {
            if !idle {
                // The interim answer would be taken for one to an earlier request.
                return Taken::Nothing;
            }
            workspace.outlet.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        workspace.current = Some(head);
        self.new_id();
        self.since = self.received;
        self.closing = !persists;
        self.receiving = Receiving::Idle;
        match judged {
            Err(refusal) => self.refuse_current(refusal),
            Ok(Judged { content: Content::Empty, .. }) if head.method == Method::Options => self.answer_options(),
            Ok(Judged { content: Content::Empty, .. }) => return Taken::Request,
            Ok(Judged { content, refusal, .. }) => self.await_content(content, refusal),
        }
        Taken::Part
    }

    /// Keeps the current request until its content has been received.
    fn await_content(&mut self, content: Content, refusal: Option<Refusal>) {
        let closing = std::mem::replace(&mut self.closing, false);
        self.receiving = Receiving::Content;
        let exchange = self.take_current(State::Wanting, true);
        self.active().receiving = Some(Incoming { exchange, content, refusal, closing, pace: None });
    }

    fn receive_content(&mut self) -> Result<Taken, Refusal> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let active = self.active.as_mut().expect("content follows a request that is kept");
        let incoming = active.receiving.as_mut().expect("content follows a request that is kept");
        let (consumed, ended) = incoming.content.skip(workspace.input.unread())?;
        workspace.input.consume(consumed);
        incoming.count(consumed, self.received);
        if !ended {
            return if self.ended { Err(Refusal::Incomplete) } else { Ok(Taken::Nothing) };
        }
        let Some(Incoming { mut exchange, refusal, closing, .. }) = active.receiving.take() else {
            return Ok(Taken::Part);
        };
        let closing = closing || self.draining;
        exchange.started = self.received;
        self.receiving = Receiving::Idle;
        self.closing = closing;
        self.lingers |= workspace.input.discard_if(closing);
        let options = exchange.request.as_ref().filter(|saved| saved.head.method == Method::Options);
        if let Some(refusal) = refusal {
            let request = exchange.request.as_ref().map(Saved::request);
            let persistence = request.map_or(Persistence::Close, |request| persistence_of(request, closing));
            exchange.state = State::Answering(answer::refuse(refusal, request, persistence, &workspace.outlet));
        } else if let Some(saved) = options {
            let host = answer::host_of(saved.request());
            exchange.state = State::Translated(workspace.outlet.pages.pages_of(host).options.clone());
        }
        active.exchanges.push_back(exchange);
        self.advance();
        Ok(if self.has_wanting() { Taken::Request } else { Taken::Part })
    }
}
