//! An answer that is sent while a program makes it: what of it has been given and not been written.
//!
//! Owns: [`Sending`], and what parts become on a stream (RFC 9113 8.1). Guarantees: an answer that was broken off is never taken for
//! whole; no more is queued than was given at once, and a part that was given too early. Heads are written as soon as they are given,
//! content as the windows allow. Does not know programs.

use std::collections::VecDeque;
use std::sync::Arc;

use super::frame::{self, END_STREAM, ErrorCode, Fault, Kind, PAYLOAD_BYTES_MAX};
use super::stream::{Stream, Work};
use super::{Connection, DRIVEN, driven, response};
use crate::error::Refusal;
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::{Part, StreamHead};
use crate::exchange::{ContentBuffer, ExchangeId, Saved, answer};
use crate::limits::TINY_BYTES;
use crate::message::Status;
use crate::tally::Abuse;

/// An answer that has begun.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) status: Status,
    /// It has content.
    has_content: bool,
    /// Bytes that are still to be given, if that is known.
    left: Option<u64>,
    /// What has been given, and what of it has not been written.
    queue: VecDeque<(Arc<dyn ContentBuffer>, std::ops::Range<usize>)>,
    /// Nothing more is given, but for these trailer fields.
    end: Option<Vec<u8>>,
    /// Bytes of content written so far; for the log.
    pub(super) content_bytes: u64,
}

impl Sending {
    fn new(head: &StreamHead, has_content: bool) -> Sending {
        Sending {
            status: head.status,
            has_content,
            left: head.length,
            queue: VecDeque::new(),
            end: (!has_content).then(Vec::new),
            content_bytes: 0,
        }
    }

    /// Whether all of it has been given.
    pub(super) fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Bytes of content that have been given and not been written.
    pub(super) fn queued_bytes(&self) -> u64 {
        self.queue.iter().map(|(_, range)| range.len() as u64).sum()
    }

    /// Bytes of memory that it takes, with what has been given.
    pub(super) fn memory_bytes(&self) -> usize {
        let given: usize = self.queue.iter().map(|(content, _)| content.own_bytes()).sum();
        let queue = self.queue.capacity() * size_of::<(Arc<dyn ContentBuffer>, std::ops::Range<usize>)>();
        size_of::<Sending>() + queue + given
    }

    /// For the order among streams: what is still to be sent, or what has been, if nobody knows.
    pub(super) fn weight(&self) -> u64 {
        self.queued_bytes() + self.left.unwrap_or(self.content_bytes)
    }

    /// More content. What is beyond the length that was announced is not sent, and ends the answer.
    fn add(&mut self, content: Arc<dyn ContentBuffer>) {
        let given = content.bytes().len();
        let length = given.min(self.left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX)));
        if let Some(left) = &mut self.left {
            *left -= length as u64;
        }
        if length > 0 {
            self.queue.push_back((content, 0..length));
        }
        if length < given {
            self.end = Some(Vec::new());
        }
    }

    /// The next content, at most `bytes_max` of it, and whether it is the end of the answer.
    fn next(&mut self, bytes_max: usize, out: &mut Vec<u8>) -> (usize, bool) {
        let Some((buffer, range)) = self.queue.front_mut() else { return (0, self.end.is_some()) };
        let length = range.len().min(bytes_max);
        out.extend_from_slice(&buffer.bytes()[range.start..range.start + length]);
        range.start += length;
        if range.start == range.end {
            self.queue.pop_front();
        }
        self.content_bytes += length as u64;
        let ends = self.queue.is_empty() && self.end.as_ref().is_some_and(Vec::is_empty);
        (length, ends)
    }

    /// Whether a frame can be written, if the windows allow content.
    pub(super) fn has_frame(&self, has_window: bool) -> bool {
        if self.queue.is_empty() { self.end.is_some() } else { has_window }
    }
}

impl Connection {
    /// See [`Connection::give_early_hints`](crate::conn::Connection::give_early_hints).
    pub fn give_early_hints<'l>(&mut self, id: ExchangeId, links: impl Iterator<Item = &'l LinkField>) -> bool {
        let current = driven(&mut self.workspace).http2.current;
        let is_asked = |one: &Stream| one.id == id.0 && matches!(one.work, Work::Translating) && !one.is_reset;
        let can_be = current.is_some_and(|current| current.id == id.0) || self.streams.iter().any(is_asked);
        if can_be {
            let (encoder, sink) = self.encoder_and_sink();
            response::write_early_hints(sink, id.0, links, encoder);
        }
        can_be
    }

    /// See [`Connection::give_link`](crate::conn::Connection::give_link).
    pub fn give_link(&mut self, id: ExchangeId, link: &Arc<LinkField>) {
        let workspace = driven(&mut self.workspace);
        if workspace.http2.current.is_some_and(|current| current.id == id.0) {
            workspace.link = Some(link.clone());
            return;
        }
        let stream = self.streams.iter_mut().find(|one| one.id == id.0);
        if let Some(saved) = stream.and_then(|stream| stream.request.as_mut()) {
            saved.link = Some(link.clone());
        }
    }

    /// The program of a stream gives a part of its answer.
    pub(super) fn give(&mut self, at: usize, part: Part) {
        let has_room = self.has_room_for_part(&self.streams[at]);
        let Work::Running(running) = &self.streams[at].work else { return };
        if !part.is_in_order(running.has_begun()) {
            return self.fail_program(at);
        }
        let Part { interim, head, content, end } = part;
        let id = self.streams[at].id;
        for head in interim.iter().filter(|head| head.is_interim()) {
            let (encoder, sink) = self.encoder_and_sink();
            response::write_stream_head(sink, id, head, None, None, false, encoder);
        }
        let is_empty = content.is_none() && end.as_ref().is_some_and(Vec::is_empty);
        if let Some(head) = head
            && self.begin_sending(at, &head, is_empty)
        {
            return;
        }
        let Work::Running(running) = &mut self.streams[at].work else { return };
        running.is_ahead = !has_room && content.is_some();
        let Some(sending) = running.sending.as_deref_mut() else { return };
        if let Some(content) = content.filter(|_| sending.has_content) {
            sending.add(content);
        }
        if let Some(trailers) = end.filter(|_| !sending.is_ended()) {
            if sending.left.is_some_and(|left| left > 0) {
                return self.reset_stream(at, ErrorCode::Internal);
            }
            sending.end = Some(trailers);
        }
        if sending.is_ended() {
            running.drop_program();
            self.streams[at].is_early = true;
            self.give_up_content(at, self.received);
        }
    }

    /// Writes the head of an answer. `is_whole`: it has no content, nor trailer fields. Whether the stream has ended with it.
    fn begin_sending(&mut self, at: usize, head: &StreamHead, is_whole: bool) -> bool {
        let stream = &self.streams[at];
        let Some(request) = stream.request.as_ref().map(Saved::request) else { return false };
        let has_content = head.has_content(request);
        let ends = !has_content || is_whole && head.length.unwrap_or(0) == 0;
        let workspace = self.workspace.as_ref().expect(DRIVEN);
        let (date, pages) = (workspace.outlet.date, workspace.outlet.pages.clone());
        let server = pages.pages_of(answer::host_of(request)).options.variants.first().server();
        let (id, told) = (stream.id, workspace.outlet.told_id(request));
        let link = stream.request.as_ref().and_then(|saved| saved.link.clone());
        let (encoder, sink) = self.encoder_and_sink();
        response::write_stream_head(sink, id, head, Some((&date, server, told)), link.as_deref(), ends, encoder);
        if let Work::Running(running) = &mut self.streams[at].work {
            running.sending = Some(Box::new(Sending::new(head, has_content)));
        }
        if ends {
            self.end_stream(at);
        }
        ends
    }

    /// The program of a stream does not go on.
    pub(super) fn fail_program(&mut self, at: usize) {
        self.refuse_stream(at, Refusal::RunFailed);
    }

    /// Writes the next frame of an answer that is made while it is sent.
    pub(super) fn write_part(&mut self, at: usize) -> Result<(), Fault> {
        let (allowed, least) = (self.streams[at].window.room().min(self.window.room()), self.least_taken());
        let Stream { id, window, taking, work: Work::Running(running), .. } = &mut self.streams[at] else {
            return Ok(());
        };
        let Some(sending) = running.sending.as_deref_mut() else { return Ok(()) };
        let outlet = &mut driven(&mut self.workspace).outlet;
        let (least_of_stream, output) = (u64::from(outlet.limits.send_bytes_min), &mut outlet.output);
        let ready = sending.queue.front().map_or(0, |(_, range)| range.len()).min(PAYLOAD_BYTES_MAX);
        let trailers = sending.end.as_ref().filter(|trailers| sending.queue.is_empty() && !trailers.is_empty());
        if let Some(trailers) = trailers {
            response::write_trailers(output, *id, trailers, &mut self.encoder);
            self.end_stream(at);
            return Ok(());
        }
        let bytes_max = ready.min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let head_at = output.len();
        frame::write_head(output, 0, Kind::Data, 0, *id);
        let (bytes, ends) = sending.next(bytes_max, output);
        let flags = if ends { END_STREAM } else { 0 };
        frame::write_head_at(&mut output[head_at..head_at + frame::HEAD_BYTES], bytes, Kind::Data, flags, *id);
        window.take(bytes as u64);
        taking.take(bytes as u64, least_of_stream, self.now);
        self.window.take(bytes as u64);
        self.window_taking.take(bytes as u64, least, self.now);
        if ends {
            self.end_stream(at);
        }
        if (bytes as u64) < (ready as u64).min(TINY_BYTES) {
            return self.idle_frame(Abuse::TinyWindow);
        }
        Ok(())
    }
}
