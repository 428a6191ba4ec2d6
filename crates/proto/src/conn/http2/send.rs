//! Answering: what of which stream is written next, and the ends of streams and of the connection.
//!
//! Owns: the choice among streams, and the frames of answers. Guarantees: nothing is written that the peer's windows do
//! not allow; what is written and not sent is bounded. Does not decide on answers, which is
//! [`exchange::answer`](crate::exchange)'s.

use std::sync::Arc;

use super::frame::{self, END_STREAM, ErrorCode, Fault, HEAD_BYTES, Kind, PAYLOAD_BYTES_MAX};
use super::hpack::Encoder;
use super::stream::{Receiving, Stream};
use super::{Connection, Current, DRIVEN, Ending, SendWindow, driven, priority, response};
use crate::error::Refusal;
use crate::exchange::Saved;
use crate::exchange::answer;
use crate::exchange::program::Program;
use crate::exchange::running::Running;
use crate::exchange::state::State;
use crate::limits::{STREAMS_HELD_BYTES_MAX, TINY_BYTES};
use crate::message::{Method, Request};
use crate::resource::Resource;
use crate::tally::{Abuse, Outcome};
use crate::workspace::Workspace;

// Requests that have been resolved.
impl Connection {
    /// The request in the buffers stands for `resource`.
    pub(super) fn answer_current(&mut self, resource: &Arc<Resource>) {
        if !self.answer_at_once(resource) {
            let at = self.push_current(State::Resolving, true);
            self.begin_answering(at, resource);
        }
        self.pump();
    }

    /// Writes the answer to the current request if it is the plain one from memory, short, and nothing more urgent is
    /// to be sent.
    fn answer_at_once(&mut self, resource: &Resource) -> bool {
        let room = self.window.room();
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Some(Current { id, head, priority }) = workspace.http2.current else { return false };
        let request = Request { bytes: &workspace.http2.buffers.text, head: &head };
        let Some(representation) = answer::plain_choice(request, resource) else { return false };
        let is_head = head.method == Method::Head;
        let content = if is_head { Some(&[][..]) } else { representation.content() };
        let bytes_max = room.min(self.peer.initial_window.max(0) as u64).min(PAYLOAD_BYTES_MAX as u64);
        let bytes_max = bytes_max.min(workspace.output_buffer.copy_bytes_max as u64);
        let Some(content) = content.filter(|content| content.len() as u64 <= bytes_max) else { return false };
        let is_before = |one: &Stream| one.priority.urgency < priority.urgency && one.can_send(room);
        if self.file_frame.is_some() || self.streams.iter().any(is_before) {
            return false;
        }
        let output_buffer = &mut workspace.output_buffer;
        let told = (&output_buffer.date[..], output_buffer.unix_seconds, output_buffer.told_id(request));
        let (output, ends) = (&mut output_buffer.bytes, content.is_empty());
        let link = workspace.link.as_deref().filter(|_| resource.status == answer::OK);
        response::write_prebuilt(output, id, representation, ends, &mut self.encoder, told, link);
        if !content.is_empty() {
            frame::write_head(&mut output_buffer.bytes, content.len(), Kind::Data, END_STREAM, id);
            output_buffer.bytes.extend_from_slice(content);
            self.window.take(content.len() as u64);
            self.window_taking.take(content.len() as u64, u64::from(output_buffer.limits.send_bytes_min), self.now);
        }
        let (status, content_bytes) = (resource.status.0, content.len() as u64);
        let outcome = Outcome { status, content_bytes, started: self.received, over_http2: true };
        let request = Some(request).filter(|_| workspace.keeps_requests);
        workspace.in_flight.push(workspace.output_buffer.bytes.len(), outcome, request);
        workspace.http2.current = None;
        true
    }

    /// Makes a stream of the current request, with a copy of its head if it is needed later.
    pub(super) fn push_current(&mut self, state: State, keeps: bool) -> usize {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let Current { id, head, priority } = workspace.http2.current.take().expect("a request is current");
        let window = SendWindow::new(self.peer.initial_window);
        let mut stream = Stream::new(id, Receiving::HalfClosed, window, self.received);
        (stream.state, stream.priority) = (state, priority);
        if keeps || workspace.keeps_requests {
            let mut saved = workspace.http2.save(head);
            if !stream.state.is_wanting() {
                saved.ask();
            }
            saved.link = workspace.link.take();
            stream.request = Some(saved);
        }
        self.streams.push(stream);
        self.streams.len() - 1
    }

    /// The request of a stream stands for `resource`, and its content is discarded.
    pub(super) fn begin_answering(&mut self, at: usize, resource: &Arc<Resource>) {
        self.handle_resolved(at, resource);
        self.begin_content(at);
    }

    /// A program answers the request of a stream.
    pub(super) fn begin_running(&mut self, at: usize, program: Box<dyn Program>) {
        self.streams[at].state = State::Running(Running::new(program));
        self.begin_content(at);
    }

    /// The answer of a stream is `resource`, which was looked up. Where its streams hold too much it is looked up again
    /// later.
    pub(super) fn handle_resolved(&mut self, at: usize, resource: &Arc<Resource>) {
        let output_buffer = &driven(&mut self.workspace).output_buffer;
        let held: u64 = self.streams.iter().map(|one| one.state.held_bytes()).sum();
        let held_max = if output_buffer.held_bytes_max() == 0 { 0 } else { STREAMS_HELD_BYTES_MAX };
        let stream = &mut self.streams[at];
        if held > 0 && held + resource.held_bytes() > held_max && !answer::holds_without_content(resource.status) {
            stream.state = State::Postponed;
            self.postponed_at = held;
            return;
        }
        self.answer_with(at, resource);
    }

    /// The answer of a stream is `resource`, whatever other streams hold: what a program has made is not made again, as
    /// its request may have changed something.
    pub(super) fn answer_with(&mut self, at: usize, resource: &Arc<Resource>) {
        let output_buffer = &driven(&mut self.workspace).output_buffer;
        let stream = &mut self.streams[at];
        let Some(saved) = &stream.request else { return };
        let answer = answer::decide_saved(saved, resource, output_buffer.answer_context());
        stream.state = State::Answering(answer);
    }

    /// Those that there was no room for are asked for again, the first to be sent first, when there is.
    fn resume_postponed(&mut self) {
        let is_postponed = |one: &Stream| one.state.is_postponed();
        if !self.streams.iter().any(is_postponed) {
            return;
        }
        let held: u64 = self.streams.iter().map(|one| one.state.held_bytes()).sum();
        let is_asked = |one: &Stream| matches!(one.state, State::Wanting | State::Resolving);
        // Less than when there was no room: else it would be asked for again and again.
        if (held == 0 || held < self.postponed_at) && !self.streams.iter().any(is_asked) {
            let postponed = self.streams.iter().enumerate().filter(|(_, one)| is_postponed(one));
            if let Some(at) = priority::choose(postponed.map(|(at, one)| (at, one.candidate()))) {
                self.streams[at].state = State::Wanting;
            }
        }
    }

    /// Answers a stream with a refusal, whatever is still to come of its request.
    pub(super) fn refuse_stream(&mut self, at: usize, refusal: Refusal) {
        if self.streams[at].state.sending().is_some() {
            // What has left of it cannot become another answer.
            return self.reset_stream(at, ErrorCode::Internal);
        }
        if self.streams[at].state.begun().is_some() {
            return;
        }
        self.streams[at].is_early = true;
        self.give_up_content(at, self.received);
        let output_buffer = &driven(&mut self.workspace).output_buffer;
        let stream = &mut self.streams[at];
        let request = stream.request.as_ref().map(Saved::request);
        let answer = answer::refuse(refusal, request, output_buffer.answer_context());
        stream.state = State::Answering(answer);
    }

    /// The content of a stream is too large, or late: it is not waited for. An answer that holds whatever the content
    /// is, is given; else the stream is refused. Whether it is.
    pub(super) fn refuse_content(&mut self, at: usize, refusal: Refusal) -> bool {
        let holds = self.streams[at].state.holds_without_content();
        match holds {
            true => self.streams[at].is_early = true,
            false => self.refuse_stream(at, refusal),
        }
        !holds
    }

    /// The content of a stream cannot be had. If nothing of the answer has been written, says so; else only a reset
    /// tells the peer.
    pub(super) fn fail_stream(&mut self, at: usize) {
        match self.streams[at].state.answer().is_some_and(|answer| answer.begun) {
            true => self.reset_stream(at, ErrorCode::Internal),
            false => self.refuse_stream(at, Refusal::ReadFailed),
        }
    }
}

// Writing.
impl Connection {
    /// Where frames are written to now.
    pub(super) fn sink(&mut self) -> &mut Vec<u8> {
        self.encoder_and_sink().1
    }

    pub(super) fn encoder_and_sink(&mut self) -> (&mut Encoder, &mut Vec<u8>) {
        let output = match (&mut self.workspace, self.file_frame) {
            (_, Some(_)) => &mut self.behind,
            (Some(workspace), None) => &mut workspace.output_buffer.bytes,
            (None, None) => &mut self.unsent,
        };
        (&mut self.encoder, output)
    }

    /// Writes as much of the answers as there is room for.
    pub(super) fn pump(&mut self) {
        self.write_answers();
        self.note_stalls();
        self.check_invariants();
    }

    fn write_answers(&mut self) {
        if self.ending == Ending::Closing || self.broken {
            return;
        }
        self.refuse_lost();
        while self.file_frame.is_none() {
            let output_buffer = &driven(&mut self.workspace).output_buffer;
            if output_buffer.unsent().len() >= output_buffer.output_bytes_max() {
                break;
            }
            let room = self.window.room();
            let ready = self.streams.iter().enumerate().filter(|(_, one)| one.can_send(room));
            let Some(at) = priority::choose(ready.map(|(at, one)| (at, one.candidate()))) else { break };
            if let Err(Fault::Connection(code, cause)) = self.write_from(at) {
                return self.close(code, cause);
            }
        }
        self.resume_postponed();
    }

    /// Writes the next frame of a stream that can be sent from: the head of its answer, or content.
    fn write_from(&mut self, at: usize) -> Result<(), Fault> {
        self.turn += 1;
        let least = self.least_taken();
        let stream = &mut self.streams[at];
        stream.served = self.turn;
        let output_buffer = &mut self.workspace.as_mut().expect(DRIVEN).output_buffer;
        let State::Answering(answer) = &mut stream.state else { return self.write_part(at) };
        if !answer.begun {
            answer.begun = true;
            let ends = answer.is_finished();
            let moment = (&output_buffer.date[..], output_buffer.unix_seconds);
            response::write_answer(&mut output_buffer.bytes, stream.id, answer, ends, &mut self.encoder, moment);
            stream.next_piece();
            if ends {
                self.end_stream(at);
            }
            return Ok(());
        }
        let allowed = stream.window.room().min(self.window.room());
        let ready = stream.ready_bytes().min(PAYLOAD_BYTES_MAX as u64);
        let bytes = ready.min(allowed);
        let ends = bytes == stream.remaining_bytes();
        stream.window.take(bytes);
        stream.taking.take(bytes, u64::from(output_buffer.limits.send_bytes_min), self.now);
        self.window.take(bytes);
        self.window_taking.take(bytes, least, self.now);
        let head_at = output_buffer.bytes.len();
        frame::write_head(
            &mut output_buffer.bytes,
            bytes as usize,
            Kind::Data,
            if ends { END_STREAM } else { 0 },
            stream.id,
        );
        if stream.copy_content(bytes, &mut output_buffer.bytes) {
            debug_assert_eq!(output_buffer.bytes.len(), head_at + HEAD_BYTES + bytes as usize);
            self.after_content(at);
        } else {
            self.file_frame = Some((stream.id, bytes));
        }
        if bytes < ready.min(TINY_BYTES) {
            return self.idle_frame(Abuse::TinyWindow);
        }
        Ok(())
    }

    /// Some content of a stream has been written, or sent.
    fn after_content(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        stream.next_piece();
        if stream.is_written() {
            self.end_stream(at);
        } else {
            stream.let_go_if_blocked();
        }
    }

    /// `bytes` of the frame whose content is in a file have been sent.
    pub(super) fn file_sent(&mut self, bytes: u64) {
        let Some((id, left)) = &mut self.file_frame else { return };
        *left -= bytes;
        let (id, is_complete) = (*id, *left == 0);
        let Some(at) = self.streams.iter().position(|one| one.id == id) else { return };
        if let Some(answer) = self.streams[at].state.answer_mut() {
            answer.take(bytes);
        }
        if !is_complete {
            return;
        }
        self.file_frame = None;
        match self.streams[at].is_reset {
            true => self.remove_stream(at),
            false => self.after_content(at),
        }
        let Workspace { output_buffer, in_flight, .. } = driven(&mut self.workspace);
        in_flight.handle_joined(output_buffer.bytes.len());
        output_buffer.bytes.append(&mut self.behind);
    }
}

// Ends.
impl Connection {
    /// The answer of a stream has been written to its end.
    pub(super) fn end_stream(&mut self, at: usize) {
        let (last, behind) = (self.last(), self.file_frame.map(|_| self.behind.len()));
        let stream = &self.streams[at];
        if let Some(outcome) = stream.outcome() {
            driven(&mut self.workspace).handle_written(outcome, stream.request.as_ref(), last, behind);
        }
        match &stream.receiving {
            Receiving::Open(_) if !self.ended => self.discard_rest(at),
            Receiving::Open(_) | Receiving::HalfClosed => self.forget_stream(at),
        }
    }

    /// Takes a stream out of which there is nothing more to tell.
    pub(super) fn forget_stream(&mut self, at: usize) {
        let stream = self.detach(at);
        self.recycle(stream.request);
    }

    /// Keeps the space of a request that is not needed any more.
    pub(super) fn recycle(&mut self, request: Option<Saved>) {
        if let (Some(saved), Some(workspace)) = (request, &mut self.workspace) {
            workspace.http2.recycle(saved.bytes);
        }
    }

    fn remove_stream(&mut self, at: usize) {
        let stream = self.detach(at);
        if let Some(outcome) = stream.outcome() {
            // What has been written of it is not waited for.
            let last = self.last();
            let (in_flight, keeps) = match &mut self.workspace {
                Some(workspace) => (&mut workspace.in_flight, workspace.keeps_requests),
                None => (&mut self.in_flight, true),
            };
            in_flight.give_up(outcome, stream.request.as_ref().filter(|_| keeps), last);
        }
        self.recycle(stream.request);
    }

    /// A stream is over without a further word. One of which a frame is being sent stays until that is complete.
    pub(super) fn drop_stream(&mut self, at: usize) {
        if self.file_frame.is_some_and(|(id, _)| id == self.streams[at].id) {
            self.streams[at].is_reset = true;
        } else {
            self.remove_stream(at);
        }
    }

    /// Resets a stream.
    pub(super) fn reset_stream(&mut self, at: usize, code: ErrorCode) {
        let id = self.streams[at].id;
        if !self.streams[at].is_reset {
            self.reset_unknown(id, code);
            self.drop_stream(at);
        }
    }

    /// Resets a stream that is not kept.
    pub(super) fn reset_unknown(&mut self, id: u32, code: ErrorCode) {
        frame::write_reset(self.sink(), id, code);
        self.remember_reset(id);
    }

    /// The peer knows that it is to open no more streams, or should.
    pub(super) fn end_draining(&mut self) {
        if !matches!(self.ending, Ending::Announced(_)) {
            return;
        }
        self.ending = Ending::Final;
        let last = self.last_id;
        frame::write_goaway(self.sink(), last, ErrorCode::NoError, "");
    }

    /// Says why, and that nothing more will be answered. What is received from now on is discarded.
    pub(super) fn close(&mut self, code: ErrorCode, cause: &str) {
        if self.ending == Ending::Closing {
            return;
        }
        self.ending = Ending::Closing;
        self.since = self.now;
        let last = self.last_id;
        frame::write_goaway(self.sink(), last, code, cause);
        let workspace = driven(&mut self.workspace);
        workspace.input.clear();
        workspace.http2.current = None;
        self.block = None;
        let mut at = 0;
        while at < self.streams.len() {
            let before = self.streams.len();
            self.drop_stream(at);
            at += usize::from(self.streams.len() == before);
        }
    }
}
