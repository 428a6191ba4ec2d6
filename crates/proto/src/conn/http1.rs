//! HTTP/1.x on one connection: heads in, exchanges in order, answers out, persistence, limits and timeouts (RFC 9112).
//!
//! Owns: the order of exchanges and the life of a connection. Guarantees: bounded memory whatever the peer does; a parked
//! idle connection holds no buffer; nothing is sent after a closing answer. Does not know files, sites or sockets.
//! How to drive it is said in [`conn`](crate::conn).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::conn::framing::Content;
use crate::conn::{Answered, Interest};
use crate::error::Refusal;
use crate::exchange::answer::{self, Answer, Persistence};
use crate::exchange::range::ByteRange;
use crate::exchange::{Done, Exchange, ExchangeId, Need, Read, Saved, State, Translate};
use crate::limits::Limits;
use crate::message::{Field, Head, Method, Request, Version};
use crate::parse::head::{self, Parsed};
use crate::parse::host;
use crate::parse::target::{self, Target, TargetError};
use crate::resource::Resource;
use crate::time::Instant;
use crate::transmit::{Segment, Transmit};
use crate::workspace::{Brief, OUTPUT_BYTES_MAX, SPARE_MAX, Workspace};

/// One connection. Small while idle: what a busy one needs beyond this is in [`Active`] and in the lent workspace.
#[derive(Debug)]
pub struct Connection {
    workspace: Option<Box<Workspace>>,
    active: Option<Box<Active>>,
    /// Since when the current wait has lasted: the last progress, or the first byte of a head.
    since: Instant,
    next_id: u32,
    receiving: Receiving,
    /// The answer that closes the connection has been decided on: nothing more is read as requests.
    closing: bool,
    /// The peer may still be sending what we will not read.
    lingers: bool,
    /// The peer has closed its side.
    ended: bool,
    /// The answer under way cannot be completed, or the peer is gone: close without sending more.
    broken: bool,
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

/// What a connection holds only while it is busy.
#[derive(Debug, Default)]
pub struct Active {
    /// Received and not consumed, while parked.
    unread: Vec<u8>,
    /// To be sent, while parked.
    unsent: Vec<u8>,
    /// The request whose content is being received.
    receiving: Option<Incoming>,
    /// Requests not yet answered in full, in order.
    exchanges: VecDeque<Exchange>,
    /// Answered and not yet reported.
    answered: VecDeque<Exchange>,
    /// Space for the next saved request.
    spare_bytes: Vec<u8>,
}

/// A request whose content is being received.
#[derive(Debug)]
struct Incoming {
    exchange: Exchange,
    content: Content,
    /// What it will be answered with, if it cannot be served.
    refusal: Option<Refusal>,
    /// Whether it is the last of the connection.
    closing: bool,
}

impl Active {
    fn is_empty(&self) -> bool {
        self.unread.is_empty()
            && self.unsent.is_empty()
            && self.receiving.is_none()
            && self.exchanges.is_empty()
            && self.answered.is_empty()
    }
}

// Being lent, parked and looked at.
impl Connection {
    /// A connection on which nothing has been received, established at `now`.
    pub fn new(now: Instant) -> Connection {
        Connection {
            workspace: None,
            active: None,
            since: now,
            next_id: 0,
            receiving: Receiving::Idle,
            closing: false,
            lingers: false,
            ended: false,
            broken: false,
        }
    }

    /// Gives the connection what it needs to be driven.
    ///
    /// # Panics
    /// If it has a workspace.
    pub fn lend(&mut self, mut workspace: Box<Workspace>) {
        assert!(self.workspace.is_none(), "a connection is driven by one driver at a time");
        if let Some(active) = &mut self.active {
            workspace.input.restore(&active.unread);
            workspace.outlet.output.extend_from_slice(&active.unsent);
            active.unread.clear();
            active.unsent = Vec::new();
        }
        self.workspace = Some(workspace);
    }

    /// Parks the connection: takes the workspace back, and keeps what is the connection's own.
    ///
    /// # Panics
    /// If it has no workspace, or a need was handed out that was neither answered nor deferred.
    pub fn reclaim(&mut self) -> Box<Workspace> {
        let mut workspace = self.workspace.take().expect("only a lent workspace is reclaimed");
        assert!(workspace.current.is_none(), "a need is answered or deferred before parking");
        let (unread, unsent) = (workspace.input.unread(), workspace.outlet.unsent());
        if !(self.broken || unread.is_empty() && unsent.is_empty()) {
            let active = self.active.get_or_insert_with(|| workspace.spare.pop().unwrap_or_default());
            active.unread.extend_from_slice(unread);
            active.unsent.extend_from_slice(unsent);
        }
        workspace.input.clear();
        workspace.outlet.clear();
        workspace.answered = None;
        if let Some(active) = self.active.take_if(|active| active.is_empty())
            && workspace.spare.len() < SPARE_MAX
        {
            workspace.spare.push(active);
        }
        workspace
    }

    /// What to wait for. Meaningful when `poll_need` and `poll_transmit` have nothing more.
    pub fn interest(&self) -> Interest {
        let exchanging = self.active.as_ref().is_some_and(|active| !active.exchanges.is_empty());
        if self.broken {
            Interest::Close
        } else if self.has_output() {
            Interest::Send
        } else if exchanging {
            Interest::Done
        } else if self.closing && self.lingers && !self.ended {
            Interest::Linger
        } else if self.closing || self.ended {
            Interest::Close
        } else {
            Interest::Receive
        }
    }

    /// Whether the connection waits between requests, so that nothing is lost by closing it.
    pub fn is_idle(&self) -> bool {
        self.receiving == Receiving::Idle && self.active.is_none() && !self.has_output()
    }

    /// Until when the current wait may last; none if it depends on us alone. Changes with every `handle_*`.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        let wait_ms = match self.interest() {
            Interest::Done | Interest::Close => return None,
            Interest::Send => limits.send_timeout_ms,
            Interest::Linger => limits.linger_timeout_ms,
            Interest::Receive => match self.receiving {
                Receiving::Idle => limits.idle_timeout_ms,
                Receiving::Head => limits.head_timeout_ms,
                Receiving::Content => limits.body_timeout_ms,
            },
        };
        Some(self.since.after_ms(wait_ms))
    }

    fn has_output(&self) -> bool {
        let owned = match (&self.workspace, &self.active) {
            (Some(workspace), _) => !workspace.outlet.unsent().is_empty(),
            (None, Some(active)) => !active.unsent.is_empty(),
            (None, None) => false,
        };
        owned || self.front_answer().and_then(segment_of).is_some()
    }

    /// The answer that is being sent.
    fn front_answer(&self) -> Option<&Answer> {
        match self.active.as_ref()?.exchanges.front()? {
            Exchange { state: State::Answering(answer), .. } => Some(answer),
            _ => None,
        }
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
        if self.closing {
            workspace.input.clear();
            return;
        }
        if self.receiving != Receiving::Head {
            self.since = now;
        }
        if self.receiving == Receiving::Idle {
            self.receiving = Receiving::Head;
        }
    }

    /// The peer has closed its side: it will read answers, and send nothing more (RFC 9112 8).
    pub fn handle_end(&mut self) {
        self.ended = true;
    }

    /// The wait that `poll_timeout` named is over. A request half received is answered with 408.
    pub fn handle_timeout(&mut self, now: Instant) {
        let half_received = self.interest() == Interest::Receive && self.receiving != Receiving::Idle;
        if half_received {
            self.refuse(Refusal::Timeout, None, now);
        } else {
            self.handle_broken();
        }
    }

    /// Of the last `poll_transmit`, the first `bytes` bytes were taken by the socket.
    pub fn handle_sent(&mut self, bytes: u64, now: Instant) {
        self.since = now;
        let outlet = &mut driven(&mut self.workspace).outlet;
        let of_output = bytes.min(outlet.unsent().len() as u64);
        outlet.consume(of_output as usize);
        if let Some(active) = &mut self.active {
            active.segment_sent(bytes - of_output);
            self.advance();
        }
    }

    /// The peer is gone or has been given up: nothing more can be sent.
    pub fn handle_broken(&mut self) {
        self.broken = true;
        if let Some(active) = &mut self.active {
            let begun = |exchange: &Exchange| matches!(&exchange.state, State::Answering(answer) if answer.begun);
            active.receiving = None;
            active.answered.extend(active.exchanges.drain(..).filter(begun));
        }
    }

    /// The need of exchange `id` has been met. For a need that was not deferred: before anything else is polled.
    /// Answers to exchanges that are gone are ignored.
    pub fn handle_done(&mut self, id: ExchangeId, done: Done<'_>, now: Instant) {
        if self.current_id() == Some(id) {
            match done {
                Done::Translated(resource) => self.answer_current(resource, now),
                Done::Ready(_) | Done::Failed => {
                    unreachable!("the request in the input waits for a translation")
                }
            }
            return;
        }
        let Some(active) = &mut self.active else {
            return;
        };
        let Some(exchange) = active.exchanges.iter_mut().find(|exchange| exchange.id == id) else {
            return;
        };
        match (done, &mut exchange.state) {
            (Done::Translated(resource), State::Translating) => exchange.state = State::Translated(resource.clone()),
            (Done::Ready(bytes), State::Answering(answer)) => answer.handle_ready(bytes),
            (Done::Failed, State::Answering(_)) => self.fail_front(),
            (done, state) => debug_assert!(false, "{done:?} does not answer {state:?}"),
        }
        self.since = now;
        self.advance();
    }

    /// The content cannot be had. If nothing of the answer has left, say so; else only closing tells the peer.
    fn fail_front(&mut self) {
        let outlet = &driven(&mut self.workspace).outlet;
        let front = self.active.as_mut().and_then(|active| active.exchanges.front_mut());
        let Some(Exchange { state: State::Answering(answer), request, .. }) = front else {
            return;
        };
        if answer.begun {
            self.handle_broken();
        } else {
            let request = request.as_ref().map(Saved::request);
            *answer = answer::refuse(Refusal::ReadFailed, request, answer.persistence, outlet);
        }
    }
}

// What the application asks.
impl Connection {
    /// The need of exchange `id` will be met later. The request is kept until then.
    pub fn defer(&mut self, id: ExchangeId) {
        if self.current_id() == Some(id) {
            let started = self.since;
            self.push_current(State::Translating, true, started);
        }
    }

    /// No further request is taken; what is under way is finished.
    pub fn drain(&mut self) {
        self.closing = true;
    }
}

// What we tell the world.
impl Connection {
    /// The next thing that has to be done for an exchange. May change after every `handle_*`.
    pub fn poll_need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        if self.broken || !(self.has_wanting() || self.next_request()) {
            return None;
        }
        if self.has_wanting() {
            return self.active.as_mut()?.need();
        }
        let id = self.current_id()?;
        let workspace = self.workspace.as_ref()?;
        let request = Request { bytes: workspace.input.unread(), head: workspace.current.as_ref()? };
        Some((id, Need::Translate(translation_of(request))))
    }

    /// What is to be sent next. May change after `handle_done` and `handle_sent`.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        if self.broken {
            return None;
        }
        let bytes = self.workspace.as_ref().expect(DRIVEN).outlet.unsent();
        let answer = self.front_answer();
        let segment = answer.and_then(segment_of);
        if bytes.is_empty() && segment.is_none() {
            return None;
        }
        let offered = segment.as_ref().map_or(0, Segment::length);
        let more = answer.is_some_and(|answer| answer.begun && answer.current.length > offered);
        Some(Transmit { bytes, segment, more })
    }

    /// A request that has been answered, for the log.
    pub fn poll_answered(&mut self) -> Option<Answered<'_>> {
        let workspace = &mut **self.workspace.as_mut()?;
        if let Some(brief) = workspace.answered.take() {
            let head = workspace.reported.insert(brief.head);
            let request = Request { bytes: workspace.input.at(brief.at, usize::from(head.length)), head };
            let Brief { status, content_bytes, started, .. } = brief;
            return Some(Answered { request: Some(request), status, content_bytes, started });
        }
        let active = &mut **self.active.as_mut()?;
        let Exchange { request, state, started, .. } = active.answered.pop_front()?;
        let State::Answering(answer) = state else {
            return None;
        };
        let request = request.map(|saved| {
            active.spare_bytes = saved.bytes;
            Request { bytes: &active.spare_bytes, head: workspace.reported.insert(saved.head) }
        });
        Some(Answered { request, status: answer.status.0, content_bytes: answer.content_bytes, started })
    }
}

// Receiving requests.
impl Connection {
    /// Takes the next request from the input. False if there is none to be had now; true if one is current or wanting.
    fn next_request(&mut self) -> bool {
        while !self.closing && self.has_room() {
            let taken = match self.receiving {
                Receiving::Content => self.receive_content(),
                Receiving::Idle | Receiving::Head => self.receive_head(),
            };
            match taken {
                Ok(Taken::Nothing) => return false,
                Ok(Taken::Part) => {}
                Ok(Taken::Request) => return true,
                Err(refusal) => self.refuse(refusal, None, self.since),
            }
        }
        false
    }

    /// Whether another request may be begun: bounds what a peer that pipelines makes us hold.
    fn has_room(&self) -> bool {
        let outlet = &self.workspace.as_ref().expect(DRIVEN).outlet;
        let exchanges = self.active.as_ref().map_or(0, |active| active.exchanges.len());
        outlet.output.len() < OUTPUT_BYTES_MAX && exchanges < outlet.limits.exchanges_max
    }

    fn receive_head(&mut self) -> Result<Taken, Refusal> {
        let workspace = driven(&mut self.workspace);
        let empty_lines = head::leading_empty_lines(workspace.input.unread());
        workspace.input.consume(empty_lines);
        if workspace.input.unread().is_empty() {
            self.receiving = Receiving::Idle;
            return Ok(Taken::Nothing);
        }
        self.receiving = Receiving::Head;
        match head::parse(workspace.input.unread(), &workspace.outlet.limits)? {
            Parsed::Partial if self.ended => Err(Refusal::Incomplete),
            Parsed::Partial => Ok(Taken::Nothing),
            Parsed::Complete(head) => self.accept(head),
        }
    }

    /// Decides what to do with a request whose head is at the start of the input.
    fn accept(&mut self, head: Head) -> Result<Taken, Refusal> {
        let workspace = driven(&mut self.workspace);
        let request = Request { bytes: workspace.input.unread(), head: &head };
        check_host_and_target(request)?;
        let content = Content::of(request, &workspace.outlet.limits)?;
        let expects = expects_continue(request)?;
        let refusal = check_method(request)?;
        let persists = !workspace.draining && is_persistent(request);
        let idle = self.active.as_ref().is_none_or(|active| active.exchanges.is_empty());
        let has_content = !matches!(content, Content::Empty);
        if has_content && expects {
            if refusal.is_some() {
                return Err(Refusal::MethodNotAllowedUnread);
            }
            if !idle {
                // The interim answer would be taken for one to an earlier request.
                return Ok(Taken::Nothing);
            }
            workspace.outlet.output.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.next_id += 1;
        workspace.current = Some(head);
        self.closing = !persists;
        if has_content {
            self.await_content(content, refusal);
            return Ok(Taken::Part);
        }
        self.receiving = Receiving::Idle;
        if let Some(refusal) = refusal {
            self.refuse_current(refusal);
            return Ok(Taken::Part);
        }
        if head.method == Method::Options {
            let options = driven(&mut self.workspace).outlet.pages.options.clone();
            self.answer_current(&options, self.since);
            return Ok(Taken::Part);
        }
        Ok(Taken::Request)
    }

    /// Keeps the current request until its content has been received.
    fn await_content(&mut self, content: Content, refusal: Option<Refusal>) {
        let started = self.since;
        let exchange = self.take_current(State::Wanting, true, started);
        let closing = std::mem::replace(&mut self.closing, false);
        self.receiving = Receiving::Content;
        self.active().receiving = Some(Incoming { exchange, content, refusal, closing });
    }

    fn receive_content(&mut self) -> Result<Taken, Refusal> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let active = self.active.as_mut().expect("content follows a request that is kept");
        let incoming = active.receiving.as_mut().expect("content follows a request that is kept");
        let (consumed, ended) = incoming.content.skip(workspace.input.unread())?;
        workspace.input.consume(consumed);
        if !ended {
            return if self.ended { Err(Refusal::Incomplete) } else { Ok(Taken::Nothing) };
        }
        let Some(Incoming { mut exchange, refusal, closing, .. }) = active.receiving.take() else {
            return Ok(Taken::Part);
        };
        self.receiving = Receiving::Idle;
        self.closing = closing;
        let options = exchange.request.as_ref().is_some_and(|saved| saved.head.method == Method::Options);
        if let Some(refusal) = refusal {
            let request = exchange.request.as_ref().map(Saved::request);
            let persistence = request.map_or(Persistence::Close, |request| persistence_of(request, closing));
            exchange.state = State::Answering(answer::refuse(refusal, request, persistence, &workspace.outlet));
        } else if options {
            exchange.state = State::Translated(workspace.outlet.pages.options.clone());
        }
        active.exchanges.push_back(exchange);
        self.advance();
        Ok(if self.has_wanting() { Taken::Request } else { Taken::Part })
    }
}

// Answering in order.
impl Connection {
    /// The request in the input stands for `resource`.
    fn answer_current(&mut self, resource: &Arc<Resource>, now: Instant) {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let first_in_line = self.active.as_ref().is_none_or(|active| active.exchanges.is_empty());
        if !first_in_line {
            self.push_current(State::Translated(resource.clone()), true, now);
            return;
        }
        let head = workspace.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        let persistence = persistence_of(request, self.closing);
        if let Some((status, content_bytes)) = answer::plain(request, resource, persistence, &mut workspace.outlet) {
            if workspace.keeps_requests {
                let (head, at) = (*head, workspace.input.position());
                workspace.answered = Some(Brief { head, at, status: status.0, content_bytes, started: now });
            }
            self.consume_current();
            return;
        }
        let answer = answer::decide(request, resource, persistence, &workspace.outlet);
        self.push_current(State::Answering(answer), false, now);
        self.advance();
    }

    fn refuse_current(&mut self, refusal: Refusal) {
        let workspace = driven(&mut self.workspace);
        let head = workspace.current.as_ref().expect("a request is current");
        let request = Request { bytes: workspace.input.unread(), head };
        self.closing |= refusal.closes();
        let persistence = persistence_of(request, self.closing);
        let answer = answer::refuse(refusal, Some(request), persistence, &workspace.outlet);
        self.push_current(State::Answering(answer), false, self.since);
        self.advance();
    }

    /// Answers what cannot be read as a request, and closes.
    fn refuse(&mut self, refusal: Refusal, request: Option<Request<'_>>, now: Instant) {
        let workspace = driven(&mut self.workspace);
        workspace.input.clear();
        let answer = answer::refuse(refusal, request, Persistence::Close, &workspace.outlet);
        self.closing = true;
        self.lingers = true;
        self.receiving = Receiving::Idle;
        self.next_id += 1;
        let id = ExchangeId(self.next_id - 1);
        let active = self.active();
        active.receiving = None;
        active.exchanges.push_back(Exchange { id, request: None, state: State::Answering(answer), started: now });
        self.advance();
    }

    /// Lets answers that are first in line go on, as far as they are ready.
    fn advance(&mut self) {
        let closing = self.closing;
        let Some(active) = &mut self.active else {
            return;
        };
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        loop {
            let last = active.exchanges.len() == 1;
            let Some(exchange) = active.exchanges.front_mut() else {
                return;
            };
            if let State::Translated(resource) = &exchange.state {
                let saved = exchange.request.as_ref().expect("a request that waits is kept");
                let persistence = persistence_of(saved.request(), closing && last);
                let answer = answer::decide(saved.request(), resource, persistence, &workspace.outlet);
                exchange.state = State::Answering(answer);
            }
            let State::Answering(answer) = &mut exchange.state else {
                return;
            };
            answer.advance(&mut workspace.outlet);
            if !answer.is_finished() {
                return;
            }
            let finished = active.exchanges.pop_front();
            if workspace.keeps_requests {
                active.answered.extend(finished);
            } else if let Some(Exchange { request: Some(saved), .. }) = finished {
                active.spare_bytes = saved.bytes;
            }
        }
    }

    fn push_current(&mut self, state: State, keep: bool, started: Instant) {
        let exchange = self.take_current(state, keep, started);
        self.active().exchanges.push_back(exchange);
    }

    /// The current request as an exchange, with a copy of its head if it is needed later.
    fn take_current(&mut self, state: State, keep: bool, started: Instant) -> Exchange {
        let id = ExchangeId(self.next_id - 1);
        let keep = keep || self.workspace.as_ref().expect(DRIVEN).keeps_requests;
        let mut bytes = std::mem::take(&mut self.active().spare_bytes);
        let workspace = self.workspace.as_ref().expect(DRIVEN);
        let head = workspace.current.expect("a request is current");
        bytes.clear();
        let request = if keep {
            bytes.extend_from_slice(&workspace.input.unread()[..usize::from(head.length)]);
            Some(Saved { bytes, head })
        } else {
            self.active().spare_bytes = bytes;
            None
        };
        self.consume_current();
        Exchange { id, request, state, started }
    }

    /// The current request has been taken from the input. What follows a last request is not read, only discarded.
    fn consume_current(&mut self) {
        let workspace = driven(&mut self.workspace);
        let head = workspace.current.take().expect("a request is current");
        workspace.input.consume(usize::from(head.length));
        if self.closing && !workspace.input.unread().is_empty() {
            self.lingers = true;
        }
    }

    fn active(&mut self) -> &mut Active {
        let spare = &mut self.workspace.as_mut().expect(DRIVEN).spare;
        self.active.get_or_insert_with(|| spare.pop().unwrap_or_default())
    }

    fn current_id(&self) -> Option<ExchangeId> {
        let waiting = self.workspace.as_ref().is_some_and(|workspace| workspace.current.is_some());
        waiting.then(|| ExchangeId(self.next_id - 1))
    }

    fn has_wanting(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.wanting().is_some())
    }
}

impl Active {
    /// The exchange that has a need which has not been handed out.
    fn wanting(&self) -> Option<usize> {
        let front_reads = match self.exchanges.front()?.state {
            State::Answering(ref answer) => answer.wants_read(),
            _ => false,
        };
        let wants = |exchange: &Exchange| matches!(exchange.state, State::Wanting);
        if front_reads { Some(0) } else { self.exchanges.iter().position(wants) }
    }

    fn need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        let index = self.wanting()?;
        let exchange = &mut self.exchanges[index];
        let Exchange { id, request, state, .. } = exchange;
        if matches!(state, State::Wanting) {
            *state = State::Translating;
            return Some((*id, Need::Translate(translation_of(request.as_ref()?.request()))));
        }
        let State::Answering(answer) = state else { return None };
        answer.reading = true;
        let ByteRange { offset, length } = answer.wanted();
        Some((*id, Need::Read(Read { representation: &answer.representation, offset, length })))
    }

    /// `bytes` of the segment that was offered have been sent.
    fn segment_sent(&mut self, bytes: u64) {
        if let Some(Exchange { state: State::Answering(answer), .. }) = self.exchanges.front_mut() {
            answer.take(bytes);
        }
    }
}

/// What became of an attempt to take a request from the input.
enum Taken {
    /// More bytes, or earlier answers, are needed first.
    Nothing,
    /// Something was consumed: look again.
    Part,
    /// A request waits for its translation.
    Request,
}

const DRIVEN: &str = "a connection is driven with a workspace";

fn driven(workspace: &mut Option<Box<Workspace>>) -> &mut Workspace {
    workspace.as_mut().expect(DRIVEN)
}

/// The part of the current stretch that can be sent now.
fn segment_of(answer: &Answer) -> Option<Segment<'_>> {
    let ByteRange { offset, length } = answer.current;
    if !answer.begun || length == 0 {
        return None;
    }
    if let Some(content) = answer.representation.content() {
        return Some(Segment::Shared(&content[offset as usize..(offset + length) as usize]));
    }
    let file = answer.representation.file.as_deref().filter(|_| answer.ready > 0)?;
    Some(Segment::File { file, offset, length: answer.ready.min(length) })
}

/// RFC 9112 3.2 and 3.3: the form of the target, and the host that is asked.
fn check_host_and_target(request: Request<'_>) -> Result<(), Refusal> {
    if request.head.repeated.contains(Field::Host) {
        return Err(Refusal::HostRepeated);
    }
    match request.field(Field::Host) {
        Some(value) => host::parse_field(value).map_err(|_| Refusal::HostInvalid).map(|_| ())?,
        None if request.head.version == Version::Http11 => return Err(Refusal::HostMissing),
        None => {}
    }
    let connect = request.head.method == Method::Connect;
    let target = target::parse(request.target(), connect).map_err(|error| match error {
        TargetError::Host(_) => Refusal::HostInvalid,
        _ => Refusal::TargetForm,
    })?;
    match target {
        Target::Asterisk if request.head.method != Method::Options => Err(Refusal::TargetForm),
        _ => Ok(()),
    }
}

/// What is refused because of its method: now and for good, or once its content has been received.
fn check_method(request: Request<'_>) -> Result<Option<Refusal>, Refusal> {
    match request.head.method {
        Method::Get | Method::Head | Method::Options => Ok(None),
        Method::Disallowed => Ok(Some(Refusal::MethodNotAllowed)),
        Method::Connect | Method::Unknown => Err(Refusal::MethodUnknown),
    }
}

/// RFC 9110 10.1.1. HTTP/1.0 has no interim answers, so the expectation is ignored there.
fn expects_continue(request: Request<'_>) -> Result<bool, Refusal> {
    match request.field(Field::Expect) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case(b"100-continue") => Ok(request.head.version == Version::Http11),
        Some(_) => Err(Refusal::ExpectationFailed),
    }
}

/// RFC 9112 9.3.
fn is_persistent(request: Request<'_>) -> bool {
    if request.field(Field::Connection).is_none() {
        return request.head.version == Version::Http11;
    }
    let has = |option: &[u8]| {
        let mut options = request.field_lines(Field::Connection).flat_map(|line| line.split(|&byte| byte == b','));
        options.any(|one| one.trim_ascii().eq_ignore_ascii_case(option))
    };
    !has(b"close") && (request.head.version == Version::Http11 || has(b"keep-alive"))
}

fn persistence_of(request: Request<'_>, closing: bool) -> Persistence {
    match (closing || !is_persistent(request), request.head.version) {
        (true, _) => Persistence::Close,
        (false, Version::Http11) => Persistence::Implied,
        (false, Version::Http10) => Persistence::KeepAlive,
    }
}

/// The parts of the target that say what is asked for. The target has been checked.
fn translation_of(request: Request<'_>) -> Translate<'_> {
    let field_host = request.field(Field::Host);
    let (authority, path, query) = match target::parse(request.target(), false) {
        Ok(Target::Origin { path, query }) => (field_host, path, query),
        Ok(Target::Absolute { authority, path, query, .. }) => (Some(authority), path, query),
        _ => (field_host, &b"/"[..], None),
    };
    let host = authority.and_then(|value| host::parse(value).ok()).map(|host| host.name);
    let length = path.len() + query.map_or(0, |query| 1 + query.len());
    // An absolute-form without a path has a path that does not stand in it.
    let tail = request.target().len().checked_sub(length).map(|start| &request.target()[start..]);
    let path_and_query = tail.filter(|tail| tail.starts_with(path)).unwrap_or(path);
    Translate { host, path, query, path_and_query }
}
