//! One request, asked of an application.
//!
//! Owns: [`Gateway`], the program: its connection to one place at a time, and what may be done when that fails.
//! Guarantees: no step waits but for files of content, and such a step says so (`buffer`); the answer goes out as it
//! comes, and as fast as the client takes it; content is taken from the client as fast as the application takes it, or
//! kept until it is whole; an answer that breaks off is never given as whole; a request is sent to another place only
//! if it has had no effect (`lamna_policy::upstream::retry`).
//!
//! ```text
//!  Selecting --reused connection--> Connected --answer whole--> Over
//!   |  ^ \                          ^
//!   |  |  +--name is looked up--> Resolving
//!   |  |                            |
//!   |  +--- failed, may be tried ---+--- Dialling --connected--> Connected
//!   +--address is known------------------^
//! ```
//!
//! An application that the server has started may not listen yet: `BackingOff` is between two attempts to connect to
//! it. Where TLS is spoken, `Handshaking` is between `Dialling` and `Connected`. The filters of the route are
//! `filtered`'s.

mod buffer;
mod connecting;
mod expectation;
mod facts;
mod filtered;
mod intercepted;
mod invariants;
mod problem;
mod progress;
mod recovering;
mod sending;
mod waiting;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use lamna_policy::upstream::retry::Effect;
use lamna_policy::upstream::{Attempt, Outcome};
use lamna_proto::exchange::program::{Holds, Input, Next, Program, StepResult};
use lamna_proto::gateway::fields::Fields;
use lamna_proto::gateway::http1::Asked;
use lamna_proto::gateway::{AnswerStep, GatewayError, RequestContent};
use lamna_proto::time::Instant;
use rustix::io::Errno;

use self::buffer::ContentBuffer;
use self::connecting::is_shortage;
use self::expectation::Expectation;
use self::filtered::Filtered;
use self::problem::Problem;
use self::progress::{Phase, Purpose, Reuse, Source, Told, Turn, Upload, UpstreamConnection};
use super::affinity::OwnCookie;
use super::codec::Codec;
use super::outgoing::Outgoing;
use super::reading::{Reading, Receipt, stream_head, tunnel_head};
use super::request::{GatewayRequest, keeps, preface_of};
use super::restored::Restored;
use super::spooled::SpoolShare;
use super::websocket::Opening;
use super::{affinity, piece, report, spare};
use crate::content::route::Effective;
use crate::upstream::dial::{Dial, Dialled};
use crate::upstream::group::{Affinity, Group};
use crate::upstream::link::Link;
use crate::upstream::shares::{Payer, Share};

/// See the module.
#[derive(Debug)]
pub struct Gateway {
    group: Arc<Group>,
    /// The client for which its connection counts, and its place in that count.
    payer: Option<Payer>,
    share: Option<Share>,
    rules: Arc<Effective>,
    site: String,
    /// The ID of the request.
    called: Box<str>,
    effect: Effect,
    pub(super) asked: Asked,
    purpose: Purpose,
    /// The client has opened a stream for a WebSocket.
    opening: Option<Opening>,
    content: RequestContent,
    upload: Upload,
    expectation: Expectation,
    /// Keeps content until it is whole, where the route says so.
    buffer: Option<ContentBuffer>,
    /// The PROXY protocol header, sent before anything else on a connection; empty if the application is not told its
    /// client.
    preface: Vec<u8>,
    /// The request's head, as long as it may have to be sent again.
    head: Vec<u8>,
    state: State,
    codec: Codec,
    outgoing: Outgoing,
    received: Vec<u8>,
    attempt: Option<Attempt>,
    /// By what it gets to the same place as others.
    affinity: Affinity,
    /// The cookie that names its place.
    pub(super) cookie: Option<Box<OwnCookie>>,
    /// Places that have failed.
    tried: Vec<usize>,
    retries: u32,
    /// Why the last attempt failed.
    failed: Option<GatewayError>,
    reuse: Reuse,
    told: Told,
    filtered: Option<Box<Filtered>>,
    restored: Option<Box<Restored>>,
    /// Until when the application has to make progress.
    deadline: Instant,
    /// How often applications have named another path in the place of the one that was asked for.
    redirects: u8,
    turn: Turn,
    now: Instant,
}

#[derive(Debug)]
enum State {
    Selecting,
    /// The name of place `index` is being looked up, since then.
    Resolving(usize),
    Dialling(Dial),
    /// The process of place `index` does not listen yet: when it is tried again.
    BackingOff(usize, Instant),
    /// The connection is there, and TLS begins.
    Handshaking(Link),
    Connected(UpstreamConnection),
    Over,
}

/// Bytes that are received at once, and the longest head of an answer.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receives in one step, as long as there is nothing for the client in what comes: words for the error log, content
/// that is discarded.
const RECEIVES_MAX: usize = 4;
/// Paths that applications may name in the place of the one that was asked for, one after the other.
const REDIRECTS_MAX: u8 = 10;
/// Further attempts for one request.
const RETRIES_MAX: u32 = 2;

impl Gateway {
    pub(super) fn new(
        gateway_request: &GatewayRequest<'_>,
        asked: Asked,
        opening: Option<Opening>,
        content: RequestContent,
        head: Vec<u8>,
    ) -> Box<Gateway> {
        // A WebSocket is asked for by GET.
        let method = if opening.is_some() { b"GET" } else { gateway_request.request.method_token() };
        let sticky = gateway_request.group.settings.sticky.as_ref();
        let fields = Fields::of(gateway_request.request);
        let cookie = OwnCookie::of(gateway_request.group, fields, gateway_request.is_secure);
        let number = sticky.and_then(|sticky| affinity::of(sticky, gateway_request.behind, fields));
        let place = cookie.as_ref().and_then(|cookie| cookie.place()).map(Affinity::Place);
        let affinity = place.or(number.map(Affinity::Number)).unwrap_or_default();
        let mut gateway = Box::new(Gateway {
            group: gateway_request.group.clone(),
            payer: gateway_request.payer.cloned(),
            share: None,
            rules: gateway_request.rules.clone(),
            site: gateway_request.site.label(),
            called: gateway_request.called.into(),
            effect: Effect::of(method),
            codec: codec(gateway_request.group, content, &asked),
            asked,
            purpose: Purpose::Answer,
            opening,
            content,
            upload: if content == RequestContent::None { Upload::Whole } else { Upload::Awaited },
            expectation: Expectation::None,
            buffer: keeps(gateway_request.group, content)
                .map(|settings| ContentBuffer::new(settings, SpoolShare::of(gateway_request.spools))),
            preface: preface_of(gateway_request),
            head,
            state: State::Selecting,
            outgoing: Outgoing::default(),
            received: Vec::new(),
            attempt: None,
            affinity,
            cookie,
            tried: Vec::new(),
            retries: 0,
            failed: None,
            reuse: Reuse::Allowed,
            told: Told::Nothing,
            filtered: Filtered::new(gateway_request.rules, gateway_request.request),
            restored: None,
            deadline: Instant::from_ms(0),
            redirects: gateway_request.requested.redirects,
            turn: Turn::Application,
            now: Instant::from_ms(0),
        });
        gateway.begin_request();
        gateway
    }

    /// One that asks whether a request is let in, with this head. It has no effect, whatever the request does.
    pub(super) fn auth_request(gateway_request: &GatewayRequest<'_>, head: Vec<u8>) -> Box<Gateway> {
        let mut gateway = Gateway::new(gateway_request, Asked::default(), None, RequestContent::None, head);
        gateway.effect = Effect::Safe;
        gateway.purpose = Purpose::AuthRequest;
        // The answer is a verdict, not content for the client.
        gateway.filtered = None;
        gateway
    }

    /// The same for a request whose head asks the application whether it wants the content.
    pub(super) fn with_expectation(mut self: Box<Gateway>) -> Box<Gateway> {
        self.expectation = Expectation::Asked;
        self
    }

    /// Whether there is nothing left to do.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over) && !self.filtered.as_ref().is_some_and(|filtered| filtered.has_more())
    }

    /// The request is sent from its beginning.
    fn begin_request(&mut self) {
        self.codec = codec(&self.group, self.content, &self.asked);
        self.expectation.begin_again();
        self.outgoing.clear();
        self.outgoing.bytes.extend_from_slice(&self.head);
        self.received.clear();
        if let Some(buffer) = &mut self.buffer {
            buffer.rewind();
        } else if self.upload == Upload::Whole {
            // Of what has ended nothing has begun, or the request would not be sent again: it cannot be too short.
            let _ = self.codec.end_content(&mut self.outgoing.bytes);
        }
    }

    fn step(&mut self, input: &Input<'_>) -> Result<StepResult, Problem> {
        loop {
            match &mut self.state {
                State::Selecting => match self.refuse_if_crowded() {
                    Some(refused) => return Ok(refused),
                    None => self.choose()?,
                },
                State::Resolving(index) => {
                    let index = *index;
                    if let Some(step_result) = self.locate(index)? {
                        return Ok(step_result);
                    }
                }
                State::Dialling(dial) => match dial.go_on() {
                    Dialled::Connected(socket) => self.greet(socket)?,
                    Dialled::Failed(errno) if is_shortage(errno) => return Ok(self.refuse_for_shortage()),
                    Dialled::Failed(errno) => self.pause(errno)?,
                    Dialled::Waiting if self.now >= self.deadline => {
                        dial.give_up();
                        return Err(Problem::of(GatewayError::ConnectTimedOut));
                    }
                    Dialled::Waiting => {
                        return Ok(StepResult::Waits(Next {
                            writable: true,
                            until: Some(self.deadline),
                            ..Next::default()
                        }));
                    }
                },
                State::BackingOff(index, until) => {
                    let (index, until) = (*index, *until);
                    if self.now < until {
                        return Ok(StepResult::Waits(Next { until: Some(until), ..Next::default() }));
                    }
                    self.state = State::Resolving(index);
                }
                State::Handshaking(link) => match link.handshake() {
                    Ok(true) => {
                        if let State::Handshaking(link) = std::mem::replace(&mut self.state, State::Over) {
                            self.use_link(link, Source::Dialled);
                        }
                    }
                    Err(error) => return Err(Problem::with(GatewayError::Handshake, &error)),
                    Ok(false) if self.now >= self.deadline => return Err(Problem::of(GatewayError::ConnectTimedOut)),
                    Ok(false) => {
                        let until = Some(self.deadline);
                        let writable = link.wants_write();
                        return Ok(StepResult::Waits(Next { readable: true, writable, until, ..Next::default() }));
                    }
                },
                State::Connected(_) => return self.exchange(input),
                State::Over => return Ok(StepResult::Failed),
            }
        }
    }

    fn use_link(&mut self, link: Link, source: Source) {
        self.state = State::Connected(UpstreamConnection::new(link, source));
        self.deadline = self.now.after_ms(self.group.settings.timeout_ms);
    }
}

// Exchanging with the application.
impl Gateway {
    fn exchange(&mut self, input: &Input<'_>) -> Result<StepResult, Problem> {
        if self.turn == Turn::Client {
            self.postpone();
        }
        let has_sent = self.send()?;
        if self.expectation.advance(self.is_sent(), self.now, self.group.settings.timeout_ms) {
            self.group.expectations.note_unanswered();
        }
        if let Some(step_result) = self.unreadable() {
            return Ok(step_result);
        }
        // An application that has just got the whole request has not answered it yet: the answer is waited for, and not
        // looked for in vain.
        let is_early = has_sent && self.is_sent() && !self.codec.has_begun();
        let received = if input.room && !is_early { self.receive()? } else { Receipt::default() };
        let Receipt { mut part, redirect, has_received, mut has_more } = received;
        if let Some(target) = redirect {
            return Ok(StepResult::Redirected(target));
        }
        if let Some(part) = &mut part
            && self.intercept(part)
        {
            has_more = false;
        }
        if has_sent || has_received {
            self.postpone();
        } else if self.now >= self.deadline && input.room && self.turn == Turn::Application && part.is_none() {
            if self.is_tunnel() {
                return Ok(self.end_quiet_tunnel());
            }
            if self.told == Told::Head && self.takes_content() {
                // Both sides are silent, and it is not known whose turn it is: that is no fault of the application.
                return Ok(StepResult::Failed);
            }
            let is_sent = self.is_sent();
            return Err(Problem::of(if is_sent { GatewayError::AnswerTimedOut } else { GatewayError::SendTimedOut }));
        }
        let next = self.next(input.room, has_more);
        if let Some(part) = &part {
            self.told = self.told.max(if part.head.is_some() { Told::Head } else { Told::Interim });
        }
        if self.told != Told::Nothing {
            // It is not sent again.
            self.buffer.take_if(|buffer| !buffer.has_left());
        }
        Ok(match part {
            Some(part) => StepResult::Gives(Box::new(part), next),
            None => StepResult::Waits(next),
        })
    }

    /// The events that the next step waits for.
    fn next(&mut self, had_room: bool, has_more: bool) -> Next {
        if matches!(self.state, State::Over) {
            return Next::default();
        }
        let (is_sent, is_tunnel) = (self.is_sent(), self.is_tunnel());
        let mut next = Next {
            content: self.takes_content() && is_sent,
            room: !had_room || has_more,
            writable: !is_sent,
            readable: had_room && !has_more,
            until: None,
        };
        // Content that comes while the answer does keeps the exchange by what has come of it.
        let has_begun_answer = self.told == Told::Head || is_tunnel;
        let awaits_client = next.room || next.content && !has_begun_answer;
        self.turn = if awaits_client { Turn::Client } else { Turn::Application };
        if !awaits_client {
            next.until = self.due();
            next.until = self.expectation.until().into_iter().chain(next.until).min();
        }
        let has_plaintext = match &mut self.state {
            State::Connected(connection) => next.readable && connection.link.has_plaintext(),
            _ => false,
        };
        if has_plaintext || self.awaits_disk() {
            // The socket does not tell of it, and others have their turn before.
            next.until = Some(self.now);
        }
        next
    }

    /// The next part of the answer, if there is one, and whether anything has been received.
    fn receive(&mut self) -> Result<Receipt, Problem> {
        let mut reading = Reading::default();
        let mut has_received = false;
        let mut has_more = false;
        let mut receives = 0;
        loop {
            self.read(&mut reading)?;
            if reading.part.end.is_some() || reading.content_bytes > 0 || receives == RECEIVES_MAX {
                break;
            }
            self.forget_read(&mut reading);
            receives += 1;
            match self.receive_once()? {
                Some(0) => {
                    self.end_of_stream(&mut reading)?;
                    break;
                }
                Some(_) => has_received = true,
                None => break,
            }
            // What fills the buffer is most likely not all there is: the rest is received when the client has taken
            // this.
            has_more = self.received.len() == self.received.capacity();
        }
        // Others have their turn before more is received of what the client gets nothing of.
        has_more &= reading.content_bytes > 0;
        let rest = self.received[reading.at..].to_vec();
        let mut part = reading.part;
        part.content = piece::take(&mut self.received, &reading.content);
        // A whole buffer is not held while the application thinks.
        spare::give_back(std::mem::replace(&mut self.received, rest), RECEIVE_BYTES);
        if part.end.is_some() {
            self.finish(!self.received.is_empty());
        }
        let is_empty = part.interim.is_empty() && part.head.is_none() && part.content.is_none() && part.end.is_none();
        Ok(Receipt { part: (!is_empty).then_some(part), redirect: reading.redirect, has_received, has_more })
    }

    /// Reads what has been received, as far as that goes.
    fn read(&mut self, reading: &mut Reading) -> Result<(), Problem> {
        while reading.part.end.is_none() {
            if self.is_tunnel() {
                reading.add(reading.at..self.received.len());
                reading.at = self.received.len();
                return Ok(());
            }
            let step = self.codec.read(&self.received[reading.at..]).map_err(Problem::of)?;
            let (at, site, called) = (reading.at, &self.site, &self.called);
            let mut is_later = None;
            match step {
                AnswerStep::Incomplete { consumed } => {
                    reading.at += consumed;
                    let is_full = at == 0 && consumed == 0 && self.received.len() >= RECEIVE_BYTES;
                    return if is_full { Err(Problem::of(self.codec.handle_full())) } else { Ok(()) };
                }
                AnswerStep::Interim { consumed, head } => {
                    if head.status == 100 {
                        self.expectation.meet();
                    } else {
                        reading.part.interim.push(stream_head(&head, None, None));
                    }
                    reading.at += consumed;
                }
                // To who has asked for a tunnel it would say that there is one.
                AnswerStep::Head { head, .. } if self.opening.is_some() && (200..300).contains(&head.status) => {
                    return Err(Problem::of(GatewayError::NoSwitch));
                }
                AnswerStep::Head { consumed, head } => {
                    self.expectation.refuse();
                    is_later = recovering::refusal(&self.group, &head);
                    if let Some(attempt) = self.attempt.as_ref().filter(|_| head.status < 500) {
                        self.group.handle_answer(attempt, self.now);
                    }
                    let rules = Some(&*self.rules).filter(|_| self.purpose == Purpose::Answer);
                    let mut head = stream_head(&head, rules, self.restored.as_deref());
                    if let Some((cookie, attempt)) = self.cookie.as_mut().zip(self.attempt.as_ref()) {
                        cookie.answer(&self.group, attempt.index());
                        if !cookie.is_deferred {
                            cookie.give(&mut head);
                        }
                    }
                    reading.part.head = Some(head);
                    reading.at += consumed;
                }
                AnswerStep::Switched { consumed, head } => {
                    if self.opening.as_ref().is_some_and(|opening| !opening.is_accepted(&head)) {
                        return Err(Problem::of(GatewayError::Switch));
                    }
                    reading.part.head = Some(tunnel_head(&head, self.opening.is_some()));
                    reading.at += consumed;
                    if let State::Connected(connection) = &mut self.state {
                        connection.phase = Phase::Tunnel;
                    }
                }
                AnswerStep::Content { consumed, content } => {
                    reading.add(at + content.start..at + content.end);
                    reading.at += consumed;
                }
                AnswerStep::Diagnostic { consumed, text } => {
                    report::diagnostic((site, called), &self.received[at + text.start..at + text.end]);
                    reading.at += consumed;
                }
                AnswerStep::LocalRedirect { .. } if self.redirects >= REDIRECTS_MAX => {
                    return Err(Problem::of(GatewayError::Redirects));
                }
                AnswerStep::LocalRedirect { consumed, target } => {
                    (reading.redirect, reading.part.end) = (Some(target.into()), Some(Vec::new()));
                    reading.at += consumed;
                }
                AnswerStep::Ended { consumed } => {
                    reading.at += consumed;
                    let mut trailers = Vec::new();
                    self.codec.write_trailers(&mut trailers);
                    reading.part.end = Some(trailers);
                }
            }
            if is_later.is_some_and(|is_later| self.leaves_answer(is_later)) {
                return Err(Problem::left());
            }
        }
        Ok(())
    }

    /// Drops the bytes that have been read, if none of them is content.
    fn forget_read(&mut self, reading: &mut Reading) {
        self.received.drain(..reading.at);
        reading.at = 0;
    }

    /// Receives once. Nothing if there is nothing; 0 at the end.
    fn receive_once(&mut self) -> Result<Option<usize>, Problem> {
        let State::Connected(connection) = &mut self.state else { return Ok(None) };
        if self.received.capacity() < RECEIVE_BYTES {
            let mut buffer = spare::take(RECEIVE_BYTES);
            buffer.extend_from_slice(&self.received);
            self.received = buffer;
        }
        match connection.link.receive(&mut self.received) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Errno::AGAIN) => Ok(None),
            // Like an end, but for what it is called in the log.
            Err(errno) => {
                let ended = self.codec.handle_end();
                let error = ended.err().unwrap_or(GatewayError::BrokenOff);
                Err(Problem::with(error, &errno))
            }
        }
    }

    /// The application has closed the connection.
    fn end_of_stream(&mut self, reading: &mut Reading) -> Result<(), Problem> {
        if !self.is_tunnel() {
            self.codec.handle_end().map_err(Problem::of)?;
        }
        reading.part.end = Some(Vec::new());
        Ok(())
    }

    /// The answer is whole.
    fn finish(&mut self, is_input_left: bool) {
        // Of an answer that came early the request is not all sent: what follows on the connection would be taken for
        // the rest of it.
        let (is_sent, is_tunnel) = (self.is_sent(), self.is_tunnel());
        let state = std::mem::replace(&mut self.state, State::Over);
        let Some(attempt) = self.attempt.take() else { return };
        if self.codec.has_surplus(is_input_left && !is_tunnel) {
            report::surplus((&self.site, &self.called), &self.group.name(attempt.index()));
        }
        if let State::Connected(UpstreamConnection { link, .. }) = state
            && is_sent
            && !is_tunnel
            && self.preface.is_empty()
            && self.codec.is_reusable(is_input_left)
        {
            self.group.put(attempt.index(), link, self.now);
        }
        self.group.end(attempt, self.now, Outcome::Answered);
    }
}

impl Program for Gateway {
    fn content_bytes_max(&self) -> u64 {
        self.group.settings.body_bytes_max.unwrap_or(u64::MAX)
    }

    /// The application is asked when the head is there, whether or not content has come: it may answer before, and say
    /// by that how to go on.
    fn begins_with(&self) -> Next {
        match self.content {
            // What comes on a stream that is opened for a WebSocket comes when that is open.
            _ if self.opening.is_some() => Next::ROOM,
            // That none is, its end says: it is there, or what comes in its place is a fault.
            RequestContent::None | RequestContent::Sized(0) => Next::CONTENT,
            // It is kept until it is whole.
            _ if self.buffer.is_some() => Next::CONTENT,
            _ if !self.expectation.lets_content() => Next::ROOM,
            _ => Next { content: true, ..Next::ROOM },
        }
    }

    fn may_block(&self) -> bool {
        self.buffer.as_ref().is_some_and(ContentBuffer::may_block)
    }

    fn holds(&self) -> Holds {
        self.held()
    }

    fn gather(&mut self, content: &[u8]) -> bool {
        self.buffer.as_mut().is_some_and(|buffer| buffer.gather(content))
    }

    fn run(&mut self, input: Input<'_>) -> StepResult {
        self.now = input.now;
        if self.rules.unavailable.is_some() && self.purpose == Purpose::Answer && matches!(self.state, State::Selecting)
        {
            self.state = State::Over;
            return self.page_of_service();
        }
        let step_result = match self.filtered.take() {
            None => self.run_plain(input),
            Some(mut filtered) => {
                let step_result = self.run_filtered(&mut filtered, input);
                self.filtered = Some(filtered);
                step_result
            }
        };
        self.check_invariants();
        step_result
    }

    fn asks(&self) -> Option<String> {
        Some(self.in_words())
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Dialling(dial) => dial.socket(),
            State::Handshaking(link) | State::Connected(UpstreamConnection { link, .. }) => Some(link.socket()),
            State::Selecting | State::Resolving(_) | State::BackingOff(..) | State::Over => None,
        }
    }
}

impl Drop for Gateway {
    /// The client has left, or the server ends.
    fn drop(&mut self) {
        self.state = State::Over;
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Unknown);
        }
    }
}

/// For a request to `group`.
fn codec(group: &Group, content: RequestContent, asked: &Asked) -> Codec {
    Codec::new(group.settings.protocol, content, asked, group.settings.keeps_connections())
}
