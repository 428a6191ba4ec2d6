//! One request, asked of an application.
//!
//! Owns: [`Gateway`], the program: its connection to one place at a time, and what may be done when that fails. Guarantees: no step waits;
//! the answer goes out as it comes, and as fast as the client takes it; content is taken from the client as fast as the application takes
//! it; an answer that breaks off is never given as whole; a request is sent to another place only if it has had no effect
//! (`lamna_policy::upstream::retry`).
//!
//! ```text
//!  Choosing --kept connection--> Talking --answer whole--> Over
//!   |  ^ \                          ^
//!   |  |  +--name is looked up--> Locating
//!   |  |                            |
//!   |  +--- failed, may be tried ---+--- Dialling --connected--> Talking
//!   +--address is known------------------^
//! ```

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use lamna_policy::upstream::retry::{Effect, Failed, Failure, Retries};
use lamna_policy::upstream::{Attempt, Outcome};
use lamna_proto::exchange::program::{Input, Next, Part, Program, Ran, StreamHead};
use lamna_proto::gateway::http1::Asked;
use lamna_proto::gateway::{AnswerHead, AnswerStep, GatewayError, RequestContent};
use lamna_proto::message::Status;
use lamna_proto::time::Instant;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::codec::Codec;
use super::outgoing::Outgoing;
use super::request::Asking;
use super::{piece, report};
use crate::content::answers;
use crate::content::route::Effective;
use crate::upstream::dial::{Dial, Dialled};
use crate::upstream::group::{Group, Located};

/// See the module.
#[derive(Debug)]
pub struct Gateway {
    group: Arc<Group>,
    rules: Arc<Effective>,
    site: String,
    /// What the request is called.
    called: Box<str>,
    effect: Effect,
    pub(super) asked: Asked,
    content: RequestContent,
    /// What begins the request, as long as it may have to be sent again.
    head: Vec<u8>,
    state: State,
    codec: Codec,
    outgoing: Outgoing,
    received: Vec<u8>,
    attempt: Option<Attempt>,
    /// Places that have failed.
    tried: Vec<usize>,
    retries: u32,
    /// Why the last attempt failed.
    failed: Option<GatewayError>,
    /// The connection was one that had been kept.
    was_kept: bool,
    /// A kept connection was no good: the next is a new one.
    dials: bool,
    /// Anything of the request has been sent to the place that is asked.
    has_sent: bool,
    has_begun_content: bool,
    /// The client has sent all of it.
    has_ended_content: bool,
    /// No more content is taken from the client.
    content_is_over: bool,
    /// The client has been given something, if only an interim answer.
    is_client_told: bool,
    /// The client has been given the head of the answer: no other can be given any more.
    has_answered: bool,
    /// What is exchanged is not HTTP any more.
    tunnels: bool,
    /// Until when the application has to make progress.
    deadline: Instant,
    /// Nothing was waited for but the client, whose time is not the application's.
    awaits_client: bool,
    now: Instant,
}

#[derive(Debug)]
enum State {
    Choosing,
    /// The name of place `index` is being looked up, since then.
    Locating(usize),
    Dialling(Dial),
    Talking(OwnedFd),
    Over,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug)]
struct Problem {
    error: GatewayError,
    errno: Option<Errno>,
}

/// Bytes that are received at once, and the longest head of an answer.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Receives in one step, as long as there is nothing for the client in what comes: words for the error log, content that is discarded.
const RECEIVES_MAX: usize = 4;
/// Further attempts for one request.
const RETRIES_MAX: u32 = 2;
/// How often a name is looked at that is being looked up.
const LOCATE_MS: u32 = 20;
impl Gateway {
    pub(super) fn new(asking: &Asking<'_>, asked: Asked, content: RequestContent, head: Vec<u8>) -> Gateway {
        let mut gateway = Gateway {
            group: asking.group.clone(),
            rules: asking.rules.clone(),
            site: asking.site.label(),
            called: asking.called.into(),
            effect: Effect::of(asking.request.method_token()),
            codec: Codec::new(asking.group.settings.protocol, content, &asked),
            asked,
            content,
            head,
            state: State::Choosing,
            outgoing: Outgoing::default(),
            received: Vec::new(),
            attempt: None,
            tried: Vec::new(),
            retries: 0,
            failed: None,
            was_kept: false,
            dials: false,
            has_sent: false,
            has_begun_content: false,
            has_ended_content: content == RequestContent::None,
            content_is_over: false,
            is_client_told: false,
            has_answered: false,
            tunnels: false,
            deadline: Instant::from_ms(0),
            awaits_client: false,
            now: Instant::from_ms(0),
        };
        gateway.begin_request();
        gateway
    }

    /// The request is sent from its beginning.
    fn begin_request(&mut self) {
        self.codec = Codec::new(self.group.settings.protocol, self.content, &self.asked);
        self.outgoing.clear();
        self.outgoing.bytes.extend_from_slice(&self.head);
        self.received.clear();
        self.has_sent = false;
        self.content_is_over = self.has_ended_content;
        if self.has_ended_content {
            // Of what has ended nothing has begun, or the request would not be sent again: it cannot be too short.
            let _ = self.codec.end_content(&mut self.outgoing.bytes);
        }
    }

    /// Content that the client has sent goes behind what is being sent.
    fn take_content(&mut self, input: &Input<'_>) -> Result<(), Problem> {
        if self.content_is_over || matches!(self.state, State::Over) {
            return Ok(());
        }
        self.has_begun_content |= !input.content.is_empty();
        let written = match self.tunnels {
            true => {
                self.outgoing.bytes.extend_from_slice(input.content);
                Ok(())
            }
            false => self.codec.write_content(input.content, &mut self.outgoing.bytes),
        };
        self.content_is_over = input.is_last;
        self.has_ended_content |= input.is_last && !self.tunnels;
        let ended = written.and_then(|()| match input.is_last && !self.tunnels {
            true => self.codec.end_content(&mut self.outgoing.bytes),
            false => Ok(()),
        });
        // The core has judged the length: this is for what announces none, and has content all the same.
        ended.map_err(|_| Problem::of(GatewayError::BrokenOff))
    }

    fn step(&mut self, input: &Input<'_>) -> Result<Ran, Problem> {
        loop {
            match &mut self.state {
                State::Choosing => self.choose()?,
                State::Locating(index) => {
                    let index = *index;
                    if let Some(ran) = self.locate(index)? {
                        return Ok(ran);
                    }
                }
                State::Dialling(dial) => match dial.go_on() {
                    Dialled::Connected(socket) => self.talk_over(socket),
                    Dialled::Failed(errno) => {
                        return Err(Problem { error: GatewayError::Unreachable, errno: Some(errno) });
                    }
                    Dialled::Waiting if self.now >= self.deadline => {
                        dial.give_up();
                        return Err(Problem::of(GatewayError::ConnectTimedOut));
                    }
                    Dialled::Waiting => {
                        return Ok(Ran::Waits(Next { writable: true, until: Some(self.deadline), ..Next::default() }));
                    }
                },
                State::Talking(_) => return self.talk(input),
                State::Over => return Ok(Ran::Failed),
            }
        }
    }

    /// Chooses a place, and a connection to it.
    fn choose(&mut self) -> Result<(), Problem> {
        let may_retry = !self.has_begun_content && self.effect == Effect::Safe;
        let attempt = self.group.begin(self.now, &self.tried, may_retry);
        // Where no other place is left, the client is told why the last one failed.
        let none_left = || Problem::of(self.failed.unwrap_or(GatewayError::NoneAvailable));
        let attempt = attempt.ok_or_else(none_left)?;
        let index = attempt.index();
        self.attempt = Some(attempt);
        let kept = if self.dials { None } else { self.group.take(index, self.now) };
        match kept {
            Some(socket) => {
                self.talk_over(socket);
                self.was_kept = true;
            }
            None => {
                self.deadline = self.now.after_ms(self.group.settings.connect_timeout_ms);
                self.state = State::Locating(index);
            }
        }
        Ok(())
    }

    /// Where the place is. Nothing if it is known.
    fn locate(&mut self, index: usize) -> Result<Option<Ran>, Problem> {
        match self.group.locate(index) {
            Located::At(destination) => {
                self.state = State::Dialling(Dial::new(destination));
                Ok(None)
            }
            Located::Unknown if self.now < self.deadline => {
                let again = self.now.after_ms(LOCATE_MS).min(self.deadline);
                Ok(Some(Ran::Waits(Next { until: Some(again), ..Next::default() })))
            }
            Located::Unknown => Err(Problem::of(GatewayError::ConnectTimedOut)),
            Located::Failed(why) => {
                report::unresolved((&self.site, &self.called), &self.group.name(index), &why);
                Err(Problem::of(GatewayError::Unreachable))
            }
        }
    }

    fn talk_over(&mut self, socket: OwnedFd) {
        self.state = State::Talking(socket);
        self.was_kept = false;
        self.deadline = self.now.after_ms(self.group.settings.timeout_ms);
    }
}

// Talking to the application.
impl Gateway {
    fn talk(&mut self, input: &Input<'_>) -> Result<Ran, Problem> {
        if self.awaits_client {
            self.deadline = self.now.after_ms(self.group.settings.timeout_ms);
        }
        let has_sent = self.send()?;
        let received = if input.room { self.receive()? } else { Receipt::default() };
        let Receipt { part, has_received, has_more } = received;
        if has_sent || has_received {
            self.deadline = self.now.after_ms(self.group.settings.timeout_ms);
        } else if self.now >= self.deadline && input.room && !self.awaits_client && !self.tunnels && part.is_none() {
            let is_sent = self.outgoing.is_empty();
            return Err(Problem::of(if is_sent { GatewayError::AnswerTimedOut } else { GatewayError::SendTimedOut }));
        }
        let next = self.next(input.room, has_more);
        self.is_client_told |= part.is_some();
        self.has_answered |= part.as_ref().is_some_and(|part| part.head.is_some());
        Ok(match part {
            Some(part) => Ran::Gives(Box::new(part), next),
            None => Ran::Waits(next),
        })
    }

    /// What the next step waits for.
    fn next(&mut self, had_room: bool, has_more: bool) -> Next {
        if matches!(self.state, State::Over) {
            return Next::default();
        }
        let is_sent = self.outgoing.is_empty();
        let mut next = Next {
            content: !self.content_is_over && is_sent,
            room: !had_room || has_more,
            writable: !is_sent,
            readable: had_room && !has_more,
            until: None,
        };
        self.awaits_client = next.content || next.room;
        if !self.awaits_client && !self.tunnels {
            next.until = Some(self.deadline);
        }
        next
    }

    /// Sends what there is to send. Whether that was anything.
    fn send(&mut self) -> Result<bool, Problem> {
        let State::Talking(socket) = &self.state else { return Ok(false) };
        let sent = match self.outgoing.send(socket.as_fd()) {
            Ok(has_sent) => has_sent,
            Err(errno) if !self.has_sent => return Err(Problem { error: GatewayError::Closed, errno: Some(errno) }),
            // It takes no more, and may have answered: that is read, and what the client sends is not asked for.
            Err(_) => {
                self.outgoing.clear();
                self.content_is_over = true;
                false
            }
        };
        self.has_sent |= sent;
        if self.tunnels && self.content_is_over && self.outgoing.is_empty() {
            // The client has said its last word; one that was told so before is told nothing new.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
        }
        Ok(sent)
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
            // What fills the buffer is most likely not all there is: the rest is received when the client has taken this.
            has_more = self.received.len() == self.received.capacity();
        }
        // Others have their turn before more is received of what the client gets nothing of.
        has_more &= reading.content_bytes > 0;
        let rest = self.received[reading.at..].to_vec();
        let mut part = reading.part;
        part.content = piece::take(&mut self.received, &reading.content);
        // A whole buffer is not held while the application thinks.
        self.received = rest;
        if part.end.is_some() {
            self.finish(!self.received.is_empty());
        }
        let is_empty = part.interim.is_empty() && part.head.is_none() && part.content.is_none() && part.end.is_none();
        Ok(Receipt { part: (!is_empty).then_some(part), has_received, has_more })
    }

    /// Reads what has been received, as far as that goes.
    fn read(&mut self, reading: &mut Reading) -> Result<(), Problem> {
        while reading.part.end.is_none() {
            if self.tunnels {
                reading.add(reading.at..self.received.len());
                reading.at = self.received.len();
                return Ok(());
            }
            let step = self.codec.read(&self.received[reading.at..]).map_err(Problem::of)?;
            let (at, site, called) = (reading.at, &self.site, &self.called);
            match step {
                AnswerStep::Incomplete { consumed } => {
                    reading.at += consumed;
                    let is_full = at == 0 && consumed == 0 && self.received.len() >= RECEIVE_BYTES;
                    return if is_full { Err(Problem::of(self.codec.handle_full())) } else { Ok(()) };
                }
                AnswerStep::Interim { consumed, head } => {
                    if head.status != 100 {
                        reading.part.interim.push(stream_head(&head, None));
                    }
                    reading.at += consumed;
                }
                AnswerStep::Head { consumed, head } => {
                    reading.part.head = Some(stream_head(&head, Some(&self.rules)));
                    reading.at += consumed;
                }
                AnswerStep::Switched { consumed, head } => {
                    reading.part.head = Some(StreamHead { tunnels: true, ..stream_head(&head, None) });
                    reading.at += consumed;
                    (self.tunnels, self.content_is_over) = (true, false);
                }
                AnswerStep::Content { consumed, content } => {
                    reading.add(at + content.start..at + content.end);
                    reading.at += consumed;
                }
                AnswerStep::Diagnostic { consumed, text } => {
                    report::diagnostic((site, called), &self.received[at + text.start..at + text.end]);
                    reading.at += consumed;
                }
                // RFC 3875 6.2.2 has the server answer what is there: the client can ask for it as well.
                AnswerStep::LocalRedirect { consumed, target } => {
                    let fields = [b"Location: ", target, b"\r\n"].concat();
                    let head = StreamHead { status: Status(302), fields, length: Some(0), tunnels: false };
                    (reading.part.head, reading.part.end) = (Some(head), Some(Vec::new()));
                    reading.at += consumed;
                }
                AnswerStep::Ended { consumed } => {
                    reading.at += consumed;
                    let mut trailers = Vec::new();
                    self.codec.write_trailers(&mut trailers);
                    reading.part.end = Some(trailers);
                }
            }
        }
        Ok(())
    }

    /// What has been read is not needed any more, if none of it is content.
    fn forget_read(&mut self, reading: &mut Reading) {
        self.received.drain(..reading.at);
        reading.at = 0;
    }

    /// Receives once. Nothing if there is nothing; 0 at the end.
    fn receive_once(&mut self) -> Result<Option<usize>, Problem> {
        let State::Talking(socket) = &self.state else { return Ok(None) };
        if self.received.capacity() < RECEIVE_BYTES {
            self.received.reserve_exact(RECEIVE_BYTES - self.received.len());
        }
        let received = &mut self.received;
        match rustix::io::retry_on_intr(|| recv(socket, spare_capacity(received), RecvFlags::DONTWAIT)) {
            Ok((_, bytes)) => Ok(Some(bytes)),
            Err(Errno::AGAIN) => Ok(None),
            // Like an end, but for what it is called in the log.
            Err(errno) => {
                let ended = self.codec.handle_end();
                let error = ended.err().unwrap_or(GatewayError::BrokenOff);
                Err(Problem { error, errno: Some(errno) })
            }
        }
    }

    /// The application has closed the connection.
    fn end_of_stream(&mut self, reading: &mut Reading) -> Result<(), Problem> {
        if !self.tunnels {
            self.codec.handle_end().map_err(Problem::of)?;
        }
        reading.part.end = Some(Vec::new());
        Ok(())
    }

    /// The answer is whole.
    fn finish(&mut self, is_input_left: bool) {
        let talking = std::mem::replace(&mut self.state, State::Over);
        let Some(attempt) = self.attempt.take() else { return };
        if let State::Talking(socket) = talking
            && !self.tunnels
            && self.codec.is_reusable(is_input_left)
        {
            self.group.put(attempt.index(), socket, self.now);
        }
        self.group.end(attempt, self.now, Outcome::Answered);
    }
}

// What may be done when it fails.
impl Gateway {
    /// Whether the request is tried again.
    fn recovers(&mut self, problem: Problem) -> bool {
        let talking = std::mem::replace(&mut self.state, State::Over);
        close(talking);
        let was_stale = self.was_kept && !self.codec.has_begun() && problem.error == GatewayError::Closed;
        let attempt = self.attempt.take();
        let index = attempt.as_ref().map(Attempt::index);
        if let Some(attempt) = attempt {
            let outcome = if was_stale { Outcome::Unknown } else { Outcome::Failed };
            self.group.end(attempt, self.now, outcome);
        }
        let failure = match problem.error {
            GatewayError::Unreachable | GatewayError::ConnectTimedOut => Failure::NothingSent,
            GatewayError::Closed if !self.has_sent => Failure::NothingSent,
            GatewayError::Closed | GatewayError::BrokenOff => Failure::Closed,
            GatewayError::Overloaded => Failure::NotTaken,
            GatewayError::SendTimedOut | GatewayError::AnswerTimedOut => Failure::TimedOut,
            _ => Failure::Malformed,
        };
        let failed = Failed {
            effect: self.effect,
            failure,
            is_content_at_hand: !self.has_begun_content,
            is_client_told: self.is_client_told,
            retries: self.retries,
        };
        match index {
            Some(index) if !was_stale => {
                report::failure((&self.site, &self.called), &self.group.name(index), problem.error, problem.errno);
            }
            None if self.failed.is_none() => report::none_available((&self.site, &self.called)),
            _ => {}
        }
        self.failed = (!was_stale).then_some(problem.error).or(self.failed);
        if index.is_none() || !failed.may_be_retried(Retries::Safe, RETRIES_MAX) {
            return false;
        }
        match was_stale {
            // It had been closed before it was used, as connections are: that is no failure of the place.
            true => self.dials = true,
            false => self.tried.extend(index),
        }
        self.retries += u32::from(!was_stale);
        self.begin_request();
        self.state = State::Choosing;
        true
    }

    /// What the client is told.
    fn give_up(&mut self, error: GatewayError) -> Ran {
        if self.has_answered {
            return Ran::Failed;
        }
        let status = error.status().0;
        let cause = match status {
            503 => "The application that answers here is not available at the moment.",
            504 => "The application that answers here did not answer in time.",
            _ => "The application that answers here cannot be reached, or did not answer as it should.",
        };
        match answers::error(status, cause, &self.rules.extras(status)) {
            Ok(page) => Ran::Answer(Arc::new(page)),
            Err(_) => Ran::Failed,
        }
    }
}

impl Program for Gateway {
    fn content_bytes_max(&self) -> u64 {
        self.group.settings.body_bytes_max.unwrap_or(u64::MAX)
    }

    fn may_block(&self) -> bool {
        false
    }

    fn ends_with_client(&self) -> bool {
        !self.tunnels
    }

    fn run(&mut self, input: Input<'_>) -> Ran {
        self.now = input.now;
        let mut taken = self.take_content(&input);
        loop {
            match taken.and_then(|()| self.step(&input)) {
                Ok(ran) => return ran,
                Err(problem) if self.recovers(problem) => taken = Ok(()),
                Err(problem) => return self.give_up(problem.error),
            }
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Dialling(dial) => dial.socket(),
            State::Talking(socket) => Some(socket.as_fd()),
            State::Choosing | State::Locating(_) | State::Over => None,
        }
    }
}

impl Drop for Gateway {
    /// The client has left, or the server ends.
    fn drop(&mut self) {
        close(std::mem::replace(&mut self.state, State::Over));
        if let Some(attempt) = self.attempt.take() {
            self.group.end(attempt, self.now, Outcome::Unknown);
        }
    }
}

/// Ends a connection for all who still wait for it: a ring holds what it waits for.
fn close(state: State) {
    match state {
        State::Talking(socket) => {
            // One that has ended by itself needs no end.
            let _ = rustix::net::shutdown(&socket, rustix::net::Shutdown::Both);
        }
        State::Dialling(mut dial) => dial.give_up(),
        State::Choosing | State::Locating(_) | State::Over => {}
    }
}

impl Problem {
    fn of(error: GatewayError) -> Problem {
        Problem { error, errno: None }
    }
}

/// What came of receiving.
#[derive(Debug, Default)]
struct Receipt {
    part: Option<Part>,
    has_received: bool,
    /// More is there, most likely.
    has_more: bool,
}

/// What is being read of what was received.
#[derive(Debug, Default)]
struct Reading {
    part: Part,
    /// Where in the buffer its content is.
    content: Vec<Range<usize>>,
    content_bytes: usize,
    /// Up to here it has been read.
    at: usize,
}

impl Reading {
    fn add(&mut self, range: Range<usize>) {
        self.content_bytes += range.len();
        match self.content.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ if range.is_empty() => {}
            _ => self.content.push(range),
        }
    }
}

/// The head as the client gets it, with what the routes do to its fields.
fn stream_head(head: &AnswerHead<'_>, rules: Option<&Effective>) -> StreamHead {
    let mut lines = Vec::new();
    match rules.filter(|rules| rules.changes_answers()) {
        None => head.fields.iter().for_each(|(name, value)| push_line(&mut lines, name, value)),
        Some(rules) => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut fields = head.fields.iter().map(|(name, value)| (text(name), text(value))).collect();
            rules.change(head.status, &mut fields);
            fields.iter().for_each(|(name, value)| push_line(&mut lines, name.as_bytes(), value.as_bytes()));
        }
    }
    StreamHead { status: Status(head.status), fields: lines, length: head.content_bytes, tunnels: false }
}

fn push_line(lines: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    [name, b": ", value, b"\r\n"].iter().for_each(|part| lines.extend_from_slice(part));
}
