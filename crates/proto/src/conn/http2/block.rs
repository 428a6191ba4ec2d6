//! Header blocks: gathering them, decoding them, and what becomes of the request or the trailers that they are (RFC
//! 9113 4.3 and 8).
//!
//! Owns: [`Block`]. Guarantees: every block is decoded, whatever becomes of its stream, because those after it refer to
//! it; one that is there as a whole is decoded where it is.

use super::frame::{END_HEADERS, END_STREAM, ErrorCode, Fault, FrameHead, PRIORITY, protocol_error};
use super::hpack::{SWELLING_MAX, Unread};
use super::receive::{Reading, Step};
use super::request::{Built, RequestBuilder, Wrong, is_trailer};
use super::stream::{Cost, Incoming, Receiving, Stream};
use super::{Connection, Current, DRIVEN, Ending, driven, response};
use crate::conn::framing;
use crate::conn::pace::Pace;
use crate::error::Refusal;
use crate::exchange::state::State;
use crate::exchange::{answer, rules};
use crate::limits::{HEADER_BLOCK_BYTES_MAX, HEADER_FRAMES_MAX, STREAMS_MAX};
use crate::message::{Field, Head, Request};
use crate::tally::Abuse;
use crate::workspace::pages::PagesByHost;

/// A header block that is being received.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    /// The received part of it, unless it is decoded from the input.
    pub(super) bytes: Vec<u8>,
    /// In how many frames.
    frames: u32,
    ends: bool,
    role: Role,
}

/// The role of a header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// A request.
    Request,
    /// The fields behind the content of a request.
    Trailers,
    /// Nothing: it is decoded for what it does to the table.
    Nothing,
}

impl Connection {
    pub(super) fn begin_block(&mut self, head: FrameHead, prefix: &[u8]) -> Result<(), Fault> {
        let (fragment, padding) = head.content_and_padding(prefix)?;
        let ends = head.has(END_STREAM);
        let id = head.stream;
        let role = self.role_of(id, ends)?;
        self.block = Some(Block { stream: id, bytes: Vec::new(), frames: 1, ends, role });
        self.reading = Reading::Block { fragment, padding, is_last: head.has(END_HEADERS) };
        if role == Role::Request {
            self.begin_id(id);
        }
        if head.has(PRIORITY)
            && let Err(fault) = head.check_dependency(&prefix[prefix.len() - 5..])
        {
            self.refuse_block(fault);
        }
        Ok(())
    }

    /// The role of the header block of this stream. One without a use may be a fault, which does not keep it from being
    /// decoded.
    fn role_of(&mut self, id: u32, ends: bool) -> Result<Role, Fault> {
        if id.is_multiple_of(2) {
            return protocol_error("a client opens a stream with an even number");
        }
        if id > self.last_id {
            if self.ending == Ending::Final {
                // RFC 9113 6.8. It costs the reading of its block, which a peer that has heard does not cause without
                // end.
                if id > self.ignored_id {
                    self.ignored_id = id;
                    self.count_reset(Cost::Little);
                }
                return Ok(Role::Nothing);
            }
            if self.streams.len() >= STREAMS_MAX {
                self.begin_id(id);
                self.count(Abuse::TooManyStreams);
                self.handle_fault(Fault::Stream(id, ErrorCode::RefusedStream));
                return Ok(Role::Nothing);
            }
            return Ok(Role::Request);
        }
        match self.streams.iter().find(|one| one.id == id).map(|one| &one.receiving) {
            Some(Receiving::Open(_)) if ends => Ok(Role::Trailers),
            // RFC 9113 8.1: what stands behind the content is the last.
            Some(Receiving::Open(_)) => {
                self.handle_fault(Fault::Stream(id, ErrorCode::Protocol));
                Ok(Role::Nothing)
            }
            Some(Receiving::HalfClosed) => {
                self.handle_fault(Fault::Stream(id, ErrorCode::StreamClosed));
                Ok(Role::Nothing)
            }
            None if self.is_passed_over(id) => Ok(Role::Nothing),
            // RFC 9113 5.1.1.
            None if self.has_skipped(id) => protocol_error("a stream begins behind one with a higher number"),
            None => Err(Fault::Connection(ErrorCode::StreamClosed, "a request on a stream that is over")),
        }
    }

    /// Refuses the header block that is being received, which has to be decoded all the same.
    fn refuse_block(&mut self, fault: Fault) {
        if let Some(block) = &mut self.block {
            block.role = Role::Nothing;
        }
        self.handle_fault(fault);
    }

    pub(super) fn continue_block(&mut self, head: FrameHead) -> Result<(), Fault> {
        let Some(block) = &mut self.block else { return protocol_error("CONTINUATION without a header block") };
        block.frames += 1;
        if block.frames > HEADER_FRAMES_MAX {
            return Err(self.flood(Abuse::HeaderFlood));
        }
        self.reading = Reading::Block { fragment: head.length, padding: 0, is_last: head.has(END_HEADERS) };
        Ok(())
    }

    /// Takes a part of a header block, and decodes the block when it is complete: from the input if it is there as a
    /// whole.
    pub(super) fn fragment(&mut self, fragment: usize, padding: usize, is_last: bool) -> Result<Step, Fault> {
        let taken = fragment.min(self.input().len());
        let is_complete = taken == fragment;
        if !is_complete && taken == 0 {
            return Ok(Step::Starved);
        }
        let Some(mut block) = self.block.take() else { return protocol_error("a fragment without a header block") };
        let decodes_in_place = is_complete && is_last && block.bytes.is_empty();
        if !decodes_in_place {
            let workspace = driven(&mut self.workspace);
            block.bytes.extend_from_slice(&workspace.input.unread()[..taken]);
            workspace.input.consume(taken);
            if block.bytes.len() > HEADER_BLOCK_BYTES_MAX {
                return Err(self.flood(Abuse::HeaderFlood));
            }
        }
        if !is_complete {
            self.block = Some(block);
            self.reading = Reading::Block { fragment: fragment - taken, padding, is_last };
            return Ok(Step::Went);
        }
        self.reading = if padding > 0 { Reading::Skip(padding) } else { Reading::Head };
        if !is_last {
            self.block = Some(block);
            return Ok(Step::Went);
        }
        let ended = self.end_block(&block, decodes_in_place.then_some(taken));
        if decodes_in_place && self.ending != Ending::Closing {
            self.consume(taken);
        }
        ended.map(|()| Step::Went)
    }

    /// Decodes a block: the first `in_place` bytes of the input, or what was gathered.
    fn end_block(&mut self, block: &Block, in_place: Option<usize>) -> Result<(), Fault> {
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let bytes = match in_place {
            Some(length) => &workspace.input.unread()[..length],
            None => &*block.bytes,
        };
        let scratch_space = &mut workspace.http2;
        match block.role {
            Role::Request => {
                let (mut builder, scratch) =
                    RequestBuilder::new(&mut scratch_space.buffers, &workspace.output_buffer.limits);
                let read = self.decoder.decode(bytes, scratch, |name, value| builder.field(name, value));
                let (built, sent) = (builder.finish(), bytes.len());
                let stands_for = read.map_err(|error| self.unreadable(error))?;
                self.begin_request(block.stream, block.ends, built, stands_for > SWELLING_MAX * sent)
            }
            Role::Trailers => {
                let mut is_valid = true;
                let check = |name: &[u8], value: &[u8]| {
                    is_valid = is_valid && is_trailer(name, value);
                    is_valid
                };
                let read = self.decoder.decode(bytes, &mut scratch_space.buffers.scratch, check);
                read.map_err(|error| self.unreadable(error))?;
                match self.streams.iter().position(|one| one.id == block.stream) {
                    Some(at) if is_valid => self.end_content(at),
                    Some(_) => Err(Fault::Stream(block.stream, ErrorCode::Protocol)),
                    None => Ok(()),
                }
            }
            Role::Nothing => {
                let read = self.decoder.decode(bytes, &mut scratch_space.buffers.scratch, |_, _| false);
                read.map(|_| ()).map_err(|error| self.unreadable(error))
            }
        }
    }

    /// A header block has not been read to its end, so that none after it can be.
    fn unreadable(&mut self, error: Unread) -> Fault {
        match error {
            Unread::Malformed => Fault::Connection(ErrorCode::Compression, "a header block cannot be read"),
            Unread::Swollen => self.flood(Abuse::HeaderFlood),
        }
    }

    /// Decides what to do with a request whose fields have been read. `is_swollen`: they are much more than what was
    /// sent.
    fn begin_request(
        &mut self,
        id: u32,
        ends: bool,
        built: Result<(Head, Built), Wrong>,
        is_swollen: bool,
    ) -> Result<(), Fault> {
        let early = self.early_priorities.iter().position(|(other, _)| *other == id);
        let early = early.map(|at| self.early_priorities.swap_remove(at).1);
        self.early_priorities.retain(|(other, _)| *other > id);
        let (head, built) = match built {
            Ok((head, built)) => (Head { is_open: !ends, ..head }, built),
            Err(Wrong::Malformed) => return Err(Fault::Stream(id, ErrorCode::Protocol)),
            Err(Wrong::TooLarge(refusal)) => {
                self.count(Abuse::HeadersTooLarge);
                self.count_reset(if is_swollen { Cost::Program } else { Cost::Little });
                if self.ending == Ending::Closing {
                    return Ok(());
                }
                let stream = self.new_stream(id, ends, None);
                self.streams.push(stream);
                self.refuse_stream(self.streams.len() - 1, refusal);
                return Ok(());
            }
        };
        let workspace = self.workspace.as_mut().expect(DRIVEN);
        let called = workspace.next_id();
        let request = Request { bytes: &workspace.http2.buffers.text, head: &head };
        let judged = judge(request, ends, &*workspace.output_buffer.pages);
        if ends && matches!(judged, Ok(Judged { expected: Some(1..), .. })) {
            return Err(Fault::Stream(id, ErrorCode::Protocol));
        }
        // RFC 9218 7.1: what was said in a frame holds, because it may have been changed on the way.
        let priority = early.unwrap_or(built.priority);
        workspace.link = None;
        workspace.http2.current = Some(Current { id, head: Head { id: called, ..head }, priority });
        self.since = self.received;
        let Judged { expected, continues } = match judged {
            Ok(judged) => judged,
            Err(refusal) => {
                let at = self.push_stream(ends, None, true);
                self.refuse_stream(at, refusal);
                return Ok(());
            }
        };
        if rules::answers_options(request, &*workspace.output_buffer.pages) {
            let options = workspace.output_buffer.pages.options_of(answer::host_of(request), request);
            let at = self.push_stream(ends, expected, true);
            self.streams[at].continues = continues;
            self.begin_answering(at, &options);
        } else if !ends {
            let at = self.push_stream(ends, expected, true);
            self.streams[at].continues = continues;
        }
        Ok(())
    }

    /// It is known what a request is answered with that sends content: who takes it, and how much of it.
    ///
    /// A client that waits to send it is told to, and too much is refused.
    pub(super) fn begin_content(&mut self, at: usize) {
        let (now, body_bytes_max) = (self.now, driven(&mut self.workspace).output_buffer.limits.body_bytes_max);
        let stream = &mut self.streams[at];
        if let Receiving::Open(incoming) = &mut stream.receiving {
            // Until now the client could not know whether its content is wanted.
            incoming.pace = Pace::new(now);
        }
        let (id, arrived) = (stream.id, stream.content.len());
        let bytes_max = stream.content_bytes_max(body_bytes_max);
        let known = match &stream.receiving {
            Receiving::Open(incoming) => incoming.expected.unwrap_or(0).max(incoming.received),
            Receiving::HalfClosed => arrived as u64,
        };
        if !matches!(stream.state, State::Running(_)) {
            stream.content = Vec::new();
            self.give_back(id, arrived, now);
        }
        if known > bytes_max && self.refuse_content(at, Refusal::ContentTooLarge) {
            return;
        }
        // What holds whatever the content is, is not kept back for it.
        let stream = &mut self.streams[at];
        stream.is_early |= stream.state.holds_without_content();
        if !stream.is_early {
            self.invite_content(at);
        }
    }

    /// A client that waits to be told to send its content is told so when its content has a taker.
    pub(super) fn invite_content(&mut self, at: usize) {
        let stream = &mut self.streams[at];
        let is_wanted = match &stream.state {
            State::Running(running) => running.invites_content(),
            _ => true,
        };
        let is_open = matches!(stream.receiving, Receiving::Open(_));
        if is_wanted && std::mem::take(&mut stream.continues) && is_open {
            let id = stream.id;
            let (encoder, sink) = self.encoder_and_sink();
            response::write_continue(sink, id, encoder);
        }
    }

    /// Makes a stream of the current request.
    fn push_stream(&mut self, ends: bool, expected: Option<u64>, keeps: bool) -> usize {
        let at = self.push_current(State::Wanting, keeps);
        if !ends {
            self.streams[at].receiving = Receiving::Open(Incoming::new(expected, self.received));
        }
        at
    }

    fn new_stream(&self, id: u32, ends: bool, expected: Option<u64>) -> Stream {
        let now = self.received;
        let receiving = if ends { Receiving::HalfClosed } else { Receiving::Open(Incoming::new(expected, now)) };
        Stream::new(id, receiving, super::SendWindow::new(self.peer.initial_window), now)
    }
}

/// The consequences of a head that can be accepted.
struct Judged {
    expected: Option<u64>,
    /// Whether the client waits for an interim answer before it sends the content.
    continues: bool,
}

/// As `http1::rules` does for HTTP/1.x. Content has no framing of its own here.
fn judge(request: Request<'_>, ends: bool, pages: &dyn PagesByHost) -> Result<Judged, Refusal> {
    rules::check_host_and_target(request)?;
    let expected =
        request.field(Field::ContentLength).map(|length| framing::content_length(request, length)).transpose()?;
    let continues = rules::expects_continue(request)? && !ends;
    rules::check_method(request, pages)?;
    Ok(Judged { expected, continues })
}
