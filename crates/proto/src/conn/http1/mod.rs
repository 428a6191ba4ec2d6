//! HTTP/1.x on one connection: heads in, exchanges in order, answers out, persistence, limits and timeouts (RFC 9112).
//!
//! Owns: the order of exchanges and the life of a connection. Guarantees: bounded memory whatever the peer does; a
//! parked idle connection holds no buffer; nothing is sent after a closing answer. Does not know files, sites or
//! sockets. How to drive it is said in [`conn`](crate::conn).

pub(crate) mod active;
mod encoding;
pub(crate) mod exchange;
mod incoming;
mod invariants;
mod liveness;
mod order;
mod parked;
mod receive;
mod rules;
mod running;
mod sending;
mod timeouts;
mod writer;

use std::sync::Arc;

use crate::conn::{Answered, Interest};
use crate::error::Refusal;
use crate::exchange::answer::{self, Answer};
use crate::exchange::rules::{requested_resource_of, requested_resource_of_saved};
use crate::exchange::running::Running;
use crate::exchange::sending::{Framing, Sending};
use crate::exchange::state::State;
use crate::exchange::{ContentBuffer, Done, ExchangeId, Need, RequestedResource};
use crate::message::Request;
use crate::time::{CompactInstant, Instant};
use crate::transmit::{Segment, Transmit};
use crate::workspace::Workspace;
use active::Active;
use exchange::Exchange;
use order::{segment_in_place, segment_of};

/// One connection. Small while idle: what a busy one needs beyond this is in [`Active`] and in the lent workspace.
#[derive(Debug)]
pub struct Connection {
    workspace: Option<Box<Workspace>>,
    active: Option<Box<Active>>,
    /// Since when the current wait has lasted: the last progress, or the first byte of a head.
    since: CompactInstant,
    /// When the peer last sent something.
    received: CompactInstant,
    /// The newest exchange; that of the request in the input, if there is one.
    last_id: ExchangeId,
    receiving: Receiving,
    /// The answer that closes the connection has been decided on: nothing more is read as requests.
    closing: bool,
    /// The request that is being received, or the next one, is the last.
    draining: bool,
    /// An answer that says nothing of the end was written before the drain: one last request may be on its way.
    promised: bool,
    /// The peer may still be sending what we will not read.
    lingers: bool,
    /// The peer has closed its side.
    ended: bool,
    /// The answer under way cannot be completed, or the peer is gone: close without sending more.
    broken: bool,
    /// It does not become one of HTTP/2, whatever is spoken elsewhere.
    keeps_version: bool,
}

/// Where in the stream of requests the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    /// Before the first byte of a head.
    Idle,
    /// Within a head.
    Head,
    /// Within the content that follows the head in `Active::receiving`.
    Content,
}

/// The event that a connection waits for: one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Receive,
    Send,
    Done,
    Linger,
    Close,
}

// Being lent, parked and looked at.
impl Connection {
    /// A connection on which nothing has been received, established at `now`.
    pub fn new(now: Instant) -> Connection {
        Connection {
            workspace: None,
            active: None,
            since: now.into(),
            received: now.into(),
            last_id: ExchangeId(0),
            receiving: Receiving::Idle,
            closing: false,
            draining: false,
            promised: false,
            lingers: false,
            ended: false,
            broken: false,
            keeps_version: false,
        }
    }

    /// Gives the connection what it needs to be driven.
    ///
    /// # Panics
    /// If it has a workspace.
    pub fn lend(&mut self, mut workspace: Box<Workspace>) {
        assert!(self.workspace.is_none(), "a connection is driven by one driver at a time");
        let drains = workspace.draining && !self.is_idle();
        if let Some(active) = &mut self.active {
            workspace.input.restore(&active.unread);
            workspace.output_buffer.bytes.extend_from_slice(&active.unsent);
            workspace.restore_in_flight(&mut active.in_flight);
            active.unread.clear();
            active.unsent = Vec::new();
        }
        if self.broken {
            workspace.in_flight.give_up_all(self.last());
        }
        self.workspace = Some(workspace);
        // The event may have come meanwhile: content that another driver has read.
        self.advance();
        if drains {
            self.drain_busy(true);
        }
    }

    /// Whether it has a workspace.
    pub fn is_lent(&self) -> bool {
        self.workspace.is_some()
    }

    /// Parks the connection: takes the workspace back, and keeps what is the connection's own. Reports that have not
    /// been taken may be lost.
    ///
    /// # Panics
    /// If it has no workspace, or a need was handed out that was neither answered nor deferred.
    pub fn reclaim(&mut self) -> Box<Workspace> {
        let mut workspace = self.workspace.take().expect("only a lent workspace is reclaimed");
        assert!(workspace.http1.current.is_none(), "a need is answered or deferred before parking");
        let has_departures = workspace.has_departures();
        let (unread, unsent) = (workspace.input.unread(), workspace.output_buffer.unsent());
        if !(self.broken || unread.is_empty() && unsent.is_empty() && !has_departures) {
            let active = self.active.get_or_insert_with(|| workspace.http1.take());
            active.unread.extend_from_slice(unread);
            active.unsent.extend_from_slice(unsent);
            workspace.park_in_flight(&mut active.in_flight);
        }
        let is_full = workspace.input.is_full();
        workspace.input.clear();
        workspace.output_buffer.clear();
        self.note_taking(self.last());
        if let Some(mut active) = self.active.take_if(|active| active.is_empty()) {
            active.discount();
            workspace.http1.take_back(active);
        }
        if let Some(active) = &mut self.active {
            active.is_full = is_full;
            active.count_in(&workspace.held);
        }
        workspace
    }

    /// HTTP/2 in clear text is not spoken.
    pub(super) fn keep_version(&mut self) {
        self.keeps_version = true;
    }

    /// Whether anything has been received.
    pub(super) fn has_begun(&self) -> bool {
        self.last_id != ExchangeId(0) || self.receiving != Receiving::Idle || self.has_input()
    }

    /// All bytes that have been received, if they may be the beginning of another version of HTTP that is spoken here.
    pub(super) fn first_bytes(&self) -> Option<&[u8]> {
        if self.last_id != ExchangeId(0) || self.closing || self.ended || self.broken || self.keeps_version {
            return None;
        }
        let workspace = self.workspace.as_ref().filter(|workspace| workspace.speaks_h2c)?;
        if self.active.as_ref().is_some_and(|active| !active.is_empty()) {
            return None;
        }
        (workspace.input.position() == 0).then(|| workspace.input.unread())
    }

    /// Leaves the workspace, and what has been received in it, to a connection of another version: and when that was.
    pub(super) fn give_up(&mut self) -> (Box<Workspace>, Instant) {
        self.broken = true;
        (self.workspace.take().expect(DRIVEN), self.received())
    }

    /// The events to wait for. Meaningful when `poll_need` and `poll_transmit` have nothing more.
    pub fn interest(&self) -> Interest {
        if let Some(interest) = self.running_interest().filter(|_| !self.broken) {
            return interest;
        }
        match self.wait() {
            Wait::Receive => Interest::RECEIVE,
            Wait::Send => Interest::SEND,
            Wait::Done => Interest::DONE,
            Wait::Linger => Interest::LINGER,
            Wait::Close => Interest::CLOSE,
        }
    }

    fn wait(&self) -> Wait {
        if self.broken {
            Wait::Close
        } else if self.has_output() {
            Wait::Send
        } else if self.is_exchanging() && !self.is_receiving_content() {
            Wait::Done
        } else if self.closing && self.lingers && !self.ended {
            Wait::Linger
        } else if self.closing || self.ended {
            Wait::Close
        } else {
            Wait::Receive
        }
    }

    /// Whether the connection waits between requests, so that nothing is lost by closing it.
    pub fn is_idle(&self) -> bool {
        let holds_nothing = self.active.as_ref().is_none_or(|active| active.is_empty());
        self.receiving == Receiving::Idle && holds_nothing && !self.has_input() && !self.has_output()
    }

    /// Whether no request is under way: at most a part of a head has come.
    pub fn is_asking(&self) -> bool {
        self.receiving != Receiving::Content && !self.is_exchanging() && !self.has_output()
    }

    /// Bytes of memory that the connection holds beyond itself while it is parked; 0 if it is idle.
    pub fn memory_bytes(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.memory_bytes())
    }

    /// Descriptors that its answers hold.
    pub fn descriptors(&self) -> usize {
        self.active.as_ref().map_or(0, |active| active.exchanges.iter().map(|one| one.state.descriptors()).sum())
    }

    /// Bytes of content in memory that its answers hold which wait behind the one that is being sent, and that a
    /// program has given which have not been sent.
    pub fn queued_content_bytes(&self) -> u64 {
        let given = self.front_sending().map_or(0, Sending::queued_bytes);
        given + self.active.as_ref().map_or(0, |active| active.waiting_bytes())
    }

    /// Whether the connection closes as soon as `offered` bytes of the segment of `answer` have been sent.
    fn closes_after(&self, answer: &Answer, offered: u64) -> bool {
        let last = self.active.as_ref().is_some_and(|active| active.exchanges.len() == 1);
        self.closing && !self.lingers && last && answer.is_finished_by(offered)
    }

    /// Whether the first in line is a program's, which may still do something.
    fn is_waiting_program(&self) -> bool {
        self.front_running().is_some_and(|(_, running)| !running.is_lost())
    }

    /// Whether the first in line waits for nothing but its content.
    fn is_receiving_content(&self) -> bool {
        let front = self.active.as_ref().and_then(|active| active.exchanges.front());
        let is_known = |one: &Exchange| matches!(one.state, State::Resolved(_) | State::Answering(_));
        front.is_some_and(|one| one.awaits_content && is_known(one))
    }

    fn is_exchanging(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.exchanges.is_empty())
    }

    fn has_input(&self) -> bool {
        match (&self.workspace, &self.active) {
            (Some(workspace), _) => !workspace.input.unread().is_empty(),
            (None, Some(active)) => !active.unread.is_empty(),
            (None, None) => false,
        }
    }

    fn has_output(&self) -> bool {
        let owned = match (&self.workspace, &self.active) {
            (Some(workspace), _) => !workspace.output_buffer.unsent().is_empty(),
            (None, Some(active)) => !active.unsent.is_empty(),
            (None, None) => false,
        };
        owned
            || self.front_answer().is_some_and(|answer| answer.paused || segment_of(answer).is_some())
            || self.front_sending().is_some_and(|sending| sending.in_place().is_some())
    }

    /// Bytes that are to be sent until the answer that is being sent has ended. For one of unknown length, what has
    /// been sent of it so far stands for what is left.
    pub fn remaining_bytes(&self) -> u64 {
        let written = match (&self.workspace, &self.active) {
            (Some(workspace), _) => workspace.output_buffer.unsent().len(),
            (None, Some(active)) => active.unsent.len(),
            (None, None) => 0,
        };
        let answer = self.front_answer().map_or(0, Answer::remaining_bytes);
        let stream = self.front_sending().map_or(0, Sending::remaining_bytes);
        written as u64 + answer + stream
    }

    /// The answer that is being sent.
    fn front_answer(&self) -> Option<&Answer> {
        self.active.as_ref()?.exchanges.front()?.state.answer()
    }
}

// What the world tells.
impl Connection {
    /// Room for received bytes; empty if the input is full of what has to wait.
    pub fn receive_space(&mut self) -> &mut [u8] {
        driven(&mut self.workspace).input.space()
    }

    /// `bytes` bytes were written to the start of `receive_space`.
    pub fn handle_received(&mut self, bytes: usize, now: Instant) {
        let workspace = driven(&mut self.workspace);
        workspace.input.received(bytes);
        self.received = now.into();
        if self.closing && workspace.http1.current.is_none() {
            self.lingers |= workspace.input.discard_if(true);
            return;
        }
        // Empty lines are no request, and keep no connection.
        let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
        if self.receiving == Receiving::Idle && workspace.input.unread().iter().all(is_blank) {
            return;
        }
        if self.receiving != Receiving::Head {
            self.since = now.into();
        }
        if self.receiving == Receiving::Idle {
            self.receiving = Receiving::Head;
        }
    }

    /// The peer has closed its side: it will read answers, and send nothing more (RFC 9112 8). Whether it has left is
    /// not known by that, so answering goes on. A peer that has left is found by an error of the socket
    /// ([`handle_broken`](Connection::handle_broken)).
    pub fn handle_end(&mut self) {
        self.ended = true;
    }

    /// The socket has room: content that was let go of because it had none is wanted again.
    pub fn handle_writable(&mut self) {
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut());
        if let Some(Exchange { state: State::Answering(answer), .. }) = front {
            answer.paused = false;
        }
    }

    /// The socket took the first `bytes` bytes of the last `poll_transmit`.
    pub fn handle_sent(&mut self, bytes: u64, now: Instant) {
        self.take_sent(bytes, false, now);
        self.handle_left(now);
    }

    /// As `handle_sent`, where the bytes were taken by a buffer before the socket.
    pub fn handle_taken(&mut self, bytes: u64, now: Instant) {
        self.take_sent(bytes, true, now);
    }

    fn take_sent(&mut self, bytes: u64, holds: bool, now: Instant) {
        if bytes > 0 {
            self.since = now.into();
        }
        let workspace = driven(&mut self.workspace);
        let least = u64::from(workspace.output_buffer.limits.send_bytes_min);
        let of_output = bytes.min(workspace.output_buffer.unsent().len() as u64);
        workspace.take_output(of_output as usize, holds);
        if let Some(active) = &mut self.active {
            active.taking.take(bytes, least, now);
            active.segment_sent(bytes - of_output);
            self.advance();
            self.note_taking(now);
        }
    }

    /// All bytes that were taken have left.
    pub fn handle_left(&mut self, now: Instant) {
        driven(&mut self.workspace).handle_left(now);
    }

    /// Whether answers wait for `handle_left` to be counted.
    pub fn is_leaving(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.in_flight.is_held())
    }

    /// The peer is gone or has been given up: nothing more can be sent.
    pub fn handle_broken(&mut self) {
        self.broken = true;
        let last = self.last();
        if let Some(workspace) = &mut self.workspace {
            workspace.http1.current = None;
            workspace.in_flight.give_up_all(last);
        }
        let Some(active) = &mut self.active else { return };
        (active.receiving, self.receiving) = (None, Receiving::Idle);
        let in_flight = match &mut self.workspace {
            Some(workspace) => &mut workspace.in_flight,
            None => &mut active.in_flight,
        };
        for exchange in active.exchanges.drain(..) {
            if let Some(outcome) = exchange.outcome() {
                in_flight.give_up(outcome, exchange.request.as_ref(), last);
            }
        }
    }

    /// The need of exchange `id` has been met. For a need that was not deferred: before anything else is polled.
    /// Answers to exchanges that are gone are ignored.
    pub fn handle_done(&mut self, id: ExchangeId, done: Done<'_>, now: Instant) {
        if self.current_id() == Some(id) {
            match done {
                Done::Resolved(resource) => self.answer_current(resource),
                Done::Refused(refusal) => self.refuse_current(refusal),
                Done::Run(program) => self.push_current(State::Running(Running::new(program)), true),
                Done::Ready(_) | Done::Content(_) | Done::Failed => {
                    unreachable!("the request in the input waits for a resolution")
                }
            }
            return;
        }
        if let Err(refusal) = self.handle_exchange_done(id, done, now) {
            self.refuse(refusal);
        }
    }

    /// The need of an exchange that has been taken from the input has been met.
    fn handle_exchange_done(&mut self, id: ExchangeId, done: Done<'_>, now: Instant) -> Result<(), Refusal> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let Some(index) = active.exchanges.iter().position(|exchange| exchange.id == id) else {
            return Ok(());
        };
        let held_bytes_max = driven(&mut self.workspace).output_buffer.held_bytes_max();
        let fits = match &done {
            Done::Resolved(resource) => {
                let holds = answer::holds_without_content(resource.status);
                index == 0 || holds || active.may_hold(resource, held_bytes_max)
            }
            _ => true,
        };
        let exchange = &mut active.exchanges[index];
        let awaits_content = exchange.awaits_content;
        match (done, &mut exchange.state) {
            (Done::Resolved(resource), State::Resolving) => {
                exchange.state = if fits { State::Resolved(resource.clone()) } else { State::Postponed };
                if awaits_content && answer::holds_without_content(resource.status) {
                    self.answer_unread(index);
                } else if awaits_content {
                    self.begin_discarding()?;
                }
            }
            (Done::Refused(refusal), State::Resolving) => self.refuse_exchange(index, refusal)?,
            (Done::Run(program), State::Resolving) => {
                let bytes_max = program.content_bytes_max();
                exchange.state = State::Running(Running::new(program));
                if awaits_content {
                    self.begin_running(bytes_max)?;
                }
            }
            (Done::Ready(bytes), State::Answering(answer)) => answer.handle_ready(bytes),
            (Done::Content(buffer), State::Answering(answer)) => answer.handle_content(buffer, now),
            (Done::Failed, State::Answering(_)) => self.fail_front(),
            (done, state) => debug_assert!(false, "{done:?} does not answer {state:?}"),
        }
        self.since = now.into();
        self.advance();
        Ok(())
    }
}

// What the application asks.
impl Connection {
    /// The need of exchange `id` will be met later. The request is kept until then.
    pub fn defer(&mut self, id: ExchangeId) {
        if self.current_id() == Some(id) {
            self.push_current(State::Resolving, true);
        }
    }

    /// No further request is taken. What has begun to arrive is finished, and the last answer says that it is the last.
    pub fn drain(&mut self) {
        self.drain_busy(!self.is_idle());
    }

    /// The same, for a connection that was busy or idle before it was driven. One whose answer has been taken, and has
    /// not left, is busy until it has a workspace.
    fn drain_busy(&mut self, is_busy: bool) {
        if !self.draining {
            self.promised = !self.closing && self.has_promised(is_busy);
        }
        self.draining = true;
        self.closing |= self.receiving == Receiving::Idle && !self.has_input() && !self.promised;
    }

    /// Whether others may follow the newest answer as written, on a connection that `is_busy` if it is not idle.
    fn has_promised(&self, is_busy: bool) -> bool {
        match self.active.as_ref().and_then(|active| active.exchanges.back()).map(|newest| &newest.state) {
            Some(State::Answering(answer)) => answer.begun,
            Some(State::Running(running)) => running.has_begun(),
            Some(_) => false,
            None => match self.receiving {
                Receiving::Idle => !self.has_input() && is_busy,
                Receiving::Head => false,
                // It was answered before its content had come.
                Receiving::Content => {
                    let incoming = self.active.as_ref().and_then(|active| active.receiving.as_ref());
                    incoming.is_some_and(|incoming| !incoming.closing)
                }
            },
        }
    }

    /// Whether it is idle, and its peer may ask once more: it could not be told that the last answer was the last.
    pub fn is_promised(&self) -> bool {
        self.draining && !self.closing && self.is_idle()
    }
}

// What we tell the world.
impl Connection {
    /// The next thing that has to be done for an exchange. May change after every `handle_*`.
    pub fn poll_need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        if self.broken {
            return None;
        }
        if let Some(id) = self.runnable() {
            return Some((id, Need::Run));
        }
        if !(self.has_wanting() || self.next_request()) {
            return None;
        }
        if self.has_wanting() {
            return self.active.as_mut()?.need();
        }
        let id = self.current_id()?;
        Some((id, Need::Resolve(self.current_requested()?)))
    }

    /// The request that `poll_need` will hand out for resolution next, if that comes next: so that it can be prepared.
    /// Nothing is handed out by this, and it may return nothing where `poll_need` does.
    pub fn peek_requested(&mut self) -> Option<RequestedResource<'_>> {
        let comes_first = |connection: &Connection| connection.runnable().is_some() || connection.has_wanting();
        if self.broken || comes_first(self) || !self.next_request() || comes_first(self) {
            return None;
        }
        self.current_requested()
    }

    /// See [`Connection::requested_of`](crate::conn::Connection::requested_of).
    pub fn requested_of(&self, id: ExchangeId) -> Option<RequestedResource<'_>> {
        if self.current_id() == Some(id) {
            return self.current_requested();
        }
        let exchange = self.active.as_ref()?.exchanges.iter().find(|exchange| exchange.id == id)?;
        exchange.request.as_ref().filter(|_| exchange.state.is_resolving()).map(requested_resource_of_saved)
    }

    /// The resolution of the request in the input that waits for its first answer.
    fn current_requested(&self) -> Option<RequestedResource<'_>> {
        let workspace = self.workspace.as_ref()?;
        let request = Request { bytes: workspace.input.unread(), head: workspace.http1.current.as_ref()? };
        Some(requested_resource_of(request))
    }

    /// The next bytes to send. They may change after `handle_done` and `handle_sent`.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        if self.broken {
            return None;
        }
        let bytes = self.workspace.as_ref().expect(DRIVEN).output_buffer.unsent();
        let answer = self.front_answer();
        let sending = self.front_sending();
        let segment = answer.and_then(segment_of).or_else(|| sending.and_then(segment_in_place));
        if bytes.is_empty() && segment.is_none() {
            return None;
        }
        let offered = segment.as_ref().map_or(0, Segment::length);
        let more = match answer {
            Some(answer) => answer.begun && (answer.continues_after(offered) || self.closes_after(answer, offered)),
            None => match sending.filter(|_| segment.is_some()) {
                Some(sending) => {
                    let ends = sending.is_ended() && !sending.is_cut() && self.closing && !self.lingers;
                    sending.framing() == Framing::Told || sending.has_behind() || ends
                }
                None => self.closing && !self.lingers && !self.is_exchanging(),
            },
        };
        Some(Transmit { bytes, segment, more })
    }

    /// The buffer that holds the content of the next transmit's segment, if that is in memory, and where in it the
    /// segment begins: for drivers that go on sending after `handle_sent`. A clone of the buffer keeps the bytes.
    pub fn segment_buffer(&self) -> Option<(Arc<dyn ContentBuffer>, u64)> {
        let Some(answer) = self.front_answer() else {
            let (content, range) = self.front_sending()?.in_place()?;
            return Some((content.clone(), range.start as u64));
        };
        let Segment::Shared(_) = segment_of(answer)? else { return None };
        Some(match &answer.read {
            Some(read) => (read.buffer.clone(), answer.current.offset - read.offset),
            None => (answer.representation.clone(), answer.current.offset),
        })
    }

    /// A request that has been answered, for the log.
    pub fn poll_answered(&mut self) -> Option<Answered<'_>> {
        let Workspace { in_flight, reported, .. } = &mut **self.workspace.as_mut()?;
        in_flight.poll(reported)
    }
}

const DRIVEN: &str = "a connection is driven with a workspace";

fn driven(workspace: &mut Option<Box<Workspace>>) -> &mut Workspace {
    workspace.as_mut().expect(DRIVEN)
}
