//! Content of requests on its way in: DATA, what becomes of each byte of it, and the windows that follow from that.
//!
//! Owns: the account of received content. Guarantees: each byte of DATA that arrives is settled in one place,
//! [`Connection::data`]: a stream keeps it, or it is given back, whatever becomes of the stream; kept bytes are given
//! back once, when they are taken or when their stream lets go of it ([`Stream::let_go`]). So windows are never lost
//! and never given twice: [`Connection::check_invariants`] holds that after each step of a build with assertions. Does
//! not run programs.

use super::flow::FlowError;
use super::frame::{self, END_STREAM, ErrorCode, Fault, FrameHead};
use super::receive::{Reading, Step};
use super::stream::{Receiving, Stream};
use super::{Connection, DRIVEN, driven};
use crate::error::Refusal;
use crate::exchange::state::{Discarding, State};
use crate::limits::{Limits, RECEIVE_WINDOW_BYTES_MAX};
use crate::tally::Abuse;
use crate::time::Instant;

const WINDOW_OVERRUN: Fault = Fault::Connection(ErrorCode::FlowControl, "more content than the window allows");

// What arrives.
impl Connection {
    pub(super) fn begin_data(&mut self, head: FrameHead, prefix: &[u8]) -> Result<(), Fault> {
        let (content, padding) = head.content_and_padding(prefix)?;
        let (id, now) = (head.stream, self.received);
        // RFC 9113 6.9: all of the payload counts, whatever becomes of the stream.
        self.receive_window.take(head.length, now).map_err(|FlowError| WINDOW_OVERRUN)?;
        let ends = head.has(END_STREAM);
        self.reading = Reading::Data { stream: id, content, padding, ends };
        // Padding is taken at once. Content is settled as it arrives.
        let empty = head.length - content;
        let stream = self.streams.iter_mut().find(|one| one.id == id);
        let fits = match stream.map(|one| &mut one.receiving) {
            Some(Receiving::Open(incoming)) => incoming.window.take(head.length, now),
            _ => Ok(()),
        };
        self.give_back(if fits.is_ok() { id } else { 0 }, empty, now);
        self.check_begun(id)?;
        fits.map_err(|FlowError| Fault::Stream(id, ErrorCode::FlowControl))?;
        if content == 0 && !ends {
            self.idle_frame(Abuse::EmptyData)?;
        }
        match self.streams.iter().find(|one| one.id == id).map(|one| &one.receiving) {
            Some(Receiving::Open(_)) => Ok(()),
            // RFC 9113 5.1 and 6.8: the peer may not have known.
            None if self.is_passed_over(id) => Ok(()),
            _ => Err(Fault::Stream(id, ErrorCode::StreamClosed)),
        }
    }

    /// Takes content of a DATA frame from the input. This is where each byte of it is settled.
    pub(super) fn data(&mut self, id: u32, content: usize, padding: usize, ends: bool) -> Result<Step, Fault> {
        let taken = content.min(self.input().len());
        if taken < content && taken == 0 {
            return Ok(Step::Starved);
        }
        let is_complete = taken == content;
        let is_kept = self.keep_content(id, taken);
        self.consume(taken);
        self.reading = match is_complete {
            true if padding > 0 => Reading::Skip(padding),
            true => Reading::Head,
            false => Reading::Data { stream: id, content: content - taken, padding, ends },
        };
        let now = self.received;
        if !is_kept {
            self.give_back(id, taken, now);
        }
        let limits = &driven(&mut self.workspace).output_buffer.limits;
        let body_bytes_max = limits.body_bytes_max;
        let Some(at) = self.streams.iter().position(|one| one.id == id) else { return Ok(Step::Went) };
        let Receiving::Open(incoming) = &mut self.streams[at].receiving else { return Ok(Step::Went) };
        if !incoming.count(taken, limits, now) {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        let received = incoming.received;
        let is_answered = self.streams[at].is_answered();
        self.streams[at].note_discarded(now);
        if is_complete && ends {
            self.end_content(at)?;
        }
        if is_answered {
            return Ok(Step::Went);
        }
        let bytes_max = self.streams[at].content_bytes_max(body_bytes_max);
        if received > bytes_max && !self.streams[at].is_early {
            self.refuse_content(at, Refusal::ContentTooLarge);
        }
        Ok(Step::Went)
    }

    /// Keeps the first `bytes` of the input for the program of a stream, or for a taker to come. False if there is
    /// none.
    fn keep_content(&mut self, id: u32, bytes: usize) -> bool {
        let Some(stream) = self.streams.iter_mut().find(|one| one.id == id && one.takes_content()) else {
            return false;
        };
        let content = &self.workspace.as_ref().expect(DRIVEN).input.unread()[..bytes];
        match &stream.state {
            State::Running(_) | State::Wanting | State::Resolving | State::Postponed => {
                stream.content.extend_from_slice(content);
                true
            }
            State::Resolved(_) | State::Answering(_) | State::Answered(_) => false,
        }
    }

    /// Whether content of stream `id` has a use, and has to come at its pace.
    pub(super) fn awaits_content(&self, id: u32) -> bool {
        let is_it = |one: &Stream| one.id == id && one.takes_content() && matches!(one.receiving, Receiving::Open(_));
        self.streams.iter().any(is_it)
    }

    /// The peer has sent all of a request.
    pub(super) fn end_content(&mut self, at: usize) -> Result<(), Fault> {
        let stream = &mut self.streams[at];
        let Receiving::Open(incoming) = &stream.receiving else { return Ok(()) };
        if !incoming.is_whole() {
            return Err(Fault::Stream(stream.id, ErrorCode::Protocol));
        }
        stream.receiving = Receiving::HalfClosed;
        if stream.is_answered() {
            self.forget_stream(at);
        }
        Ok(())
    }
}

// What comes behind an answer.
impl Connection {
    /// The answer of a stream has been written to its end, and the peer has not sent all of the request: what still
    /// comes is discarded for a while.
    ///
    /// RFC 9113 8.1 lets us reset the stream with NO_ERROR. Clients that are sending take that for a failure (curl,
    /// httpx), and others stop by themselves when they see the answer: so the reset is for who goes on for long, or
    /// says nothing more.
    pub(super) fn discard_rest(&mut self, at: usize) {
        let now = self.now;
        self.streams[at].is_early = true;
        self.give_up_content(at, now);
        let stream = &mut self.streams[at];
        let (id, request) = (stream.id, stream.request.take());
        (stream.state, stream.continues) = (State::Answered(Discarding::new(now)), false);
        self.recycle(request);
        // What has come while it was being answered opens the window now.
        self.give_back(id, 0, now);
    }

    /// Ends streams whose content is being discarded and has not ended in time.
    pub(super) fn end_discarding(&mut self, limits: &Limits, now: Instant) {
        let is_late = |one: &Stream| one.discards_until(limits).is_some_and(|until| until <= now);
        while let Some(at) = self.streams.iter().position(is_late) {
            self.reset_stream(at, ErrorCode::NoError);
        }
    }
}

// What is given back.
impl Connection {
    /// Gives the content of a stream up, which will not be taken: the windows are opened by it.
    pub(super) fn give_up_content(&mut self, at: usize, now: Instant) {
        let stream = &mut self.streams[at];
        let (id, bytes) = (stream.id, stream.let_go());
        self.give_back(id, bytes, now);
    }

    /// Takes a stream out, with nothing left of it that counts.
    pub(super) fn detach(&mut self, at: usize) -> Stream {
        let bytes = self.streams[at].let_go();
        let stream = self.streams.swap_remove(at);
        self.give_back(0, bytes, self.received);
        stream
    }

    /// `bytes` of content have been taken, or discarded: the windows of stream `id`, unless it is 0, and of the
    /// connection are opened by so much, when it is worth a frame. That of a stream that is being answered early stays
    /// shut meanwhile.
    pub(super) fn give_back(&mut self, id: u32, bytes: usize, now: Instant) {
        self.receive_window.give_back(bytes);
        if let Some(increment) = self.receive_window.increment(RECEIVE_WINDOW_BYTES_MAX, now) {
            frame::write_window_update(self.sink(), 0, increment.bytes);
            for stream in &mut self.streams {
                stream.forgive(increment.shut_ms, now);
            }
        }
        let Some(stream) = self.streams.iter_mut().find(|one| one.id == id && !one.is_reset) else { return };
        let opens = stream.takes_content() || stream.is_answered();
        if let Receiving::Open(incoming) = &mut stream.receiving {
            incoming.window.give_back(bytes);
            if opens && let Some(increment) = incoming.window.increment(RECEIVE_WINDOW_BYTES_MAX, now) {
                incoming.pace.forgive(increment.shut_ms, now);
                frame::write_window_update(self.sink(), id, increment.bytes);
            }
        }
    }
}

// How long it may take.
impl Connection {
    /// Until when the stream that is the first to be refused has to go on. None is while its peer may send nothing.
    pub(super) fn content_patience(&self, limits: &Limits) -> Option<Instant> {
        self.streams.iter().filter_map(|one| self.patience(one, limits)).min()
    }

    fn patience(&self, stream: &Stream, limits: &Limits) -> Option<Instant> {
        match &stream.receiving {
            Receiving::Open(incoming) if stream.takes_content() && stream.wants_content() => {
                let may_send = self.receive_window.is_open() && incoming.window.is_open();
                may_send.then(|| incoming.pace.until(limits))
            }
            _ => None,
        }
    }

    /// Refuses what has stopped to arrive.
    pub(super) fn time_out_content(&mut self, limits: &Limits, now: Instant) {
        while let Some(at) =
            self.streams.iter().position(|one| self.patience(one, limits).is_some_and(|until| until <= now))
        {
            self.refuse_content(at, Refusal::Timeout);
        }
    }
}

impl Stream {
    /// Whether its content has a use.
    fn takes_content(&self) -> bool {
        !(self.is_early || self.is_reset)
    }

    /// Bytes of content that it keeps, those of the step under way included.
    pub(super) fn kept_bytes(&self) -> usize {
        self.content.len() + self.taken.len()
    }

    /// Lets go of the content that it keeps. Returns how much that was.
    fn let_go(&mut self) -> usize {
        let bytes = self.kept_bytes();
        (self.content, self.taken) = (Vec::new(), Vec::new());
        bytes
    }

    /// For so long its content could not arrive.
    fn forgive(&mut self, ms: u64, now: Instant) {
        if let Receiving::Open(incoming) = &mut self.receiving
            && ms > 0
        {
            incoming.pace.forgive(ms, now);
        }
    }
}
