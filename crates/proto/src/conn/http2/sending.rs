//! An answer that is sent while a program makes it, as HTTP/2 writes it (RFC 9113 8.1).
//!
//! Owns: what parts become on a stream. Guarantees: heads are written as soon as they are given, content as the windows
//! allow; a stream whose answer was broken off is reset. Does not know programs.

use std::sync::Arc;

use super::frame::{self, END_STREAM, ErrorCode, Fault, Kind, PAYLOAD_BYTES_MAX};
use super::stream::Stream;
use super::{Connection, DRIVEN, driven, response};
use crate::error::Refusal;
use crate::exchange::early_hints::LinkField;
use crate::exchange::program::{Part, StreamHead};
use crate::exchange::sending::{Framing, Given, Sending};
use crate::exchange::state::State;
use crate::exchange::{ExchangeId, Saved, answer};
use crate::limits::TINY_BYTES;
use crate::tally::Abuse;

impl Connection {
    /// See [`Connection::give_early_hints`](crate::conn::Connection::give_early_hints).
    pub fn give_early_hints<'l>(&mut self, id: ExchangeId, links: impl Iterator<Item = &'l LinkField>) -> bool {
        let current = driven(&mut self.workspace).http2.current;
        let is_asked = |one: &Stream| one.id == id.0 && one.state.is_resolving() && !one.is_reset;
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
        let Some(running) = self.streams[at].state.running_mut() else { return };
        match running.give(content, end, has_room) {
            Given::Part => {}
            Given::Short => self.reset_stream(at, ErrorCode::Internal),
            Given::Whole | Given::Excess => {
                self.streams[at].is_early = true;
                self.give_up_content(at, self.received);
            }
        }
    }

    /// Writes the head of an answer. `is_whole`: it has no content, nor trailer fields. Whether the stream has ended
    /// with it.
    fn begin_sending(&mut self, at: usize, head: &StreamHead, is_whole: bool) -> bool {
        let stream = &self.streams[at];
        let Some(request) = stream.request.as_ref().map(Saved::request) else { return false };
        let has_content = head.has_content(request);
        let ends = !has_content || is_whole && head.length.unwrap_or(0) == 0;
        let workspace = self.workspace.as_ref().expect(DRIVEN);
        let (date, pages) = (workspace.output_buffer.date, workspace.output_buffer.pages.clone());
        let server = pages.pages_of(answer::host_of(request)).options.variants.first().server();
        let (id, told) = (stream.id, workspace.output_buffer.told_id(request));
        let link = stream.request.as_ref().and_then(|saved| saved.link.clone());
        let (encoder, sink) = self.encoder_and_sink();
        response::write_stream_head(sink, id, head, Some((&date, server, told)), link.as_deref(), ends, encoder);
        if let Some(running) = self.streams[at].state.running_mut() {
            let framing = match has_content {
                true => head.length.map_or(Framing::Told, Framing::Length),
                false => Framing::Nothing,
            };
            running.begin_sending(Sending::new(head.status, framing, true));
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
        let Stream { id, window, taking, state: State::Running(running), .. } = &mut self.streams[at] else {
            return Ok(());
        };
        let Some(sending) = running.sending_mut() else { return Ok(()) };
        let output_buffer = &mut driven(&mut self.workspace).output_buffer;
        let (least_of_stream, output) = (u64::from(output_buffer.limits.send_bytes_min), &mut output_buffer.bytes);
        let ready = sending.front().map_or(0, <[u8]>::len).min(PAYLOAD_BYTES_MAX);
        if let Some(trailers) = sending.trailers().filter(|trailers| !trailers.is_empty()) {
            response::write_trailers(output, *id, trailers, &mut self.encoder);
            self.end_stream(at);
            return Ok(());
        }
        let bytes_max = ready.min(usize::try_from(allowed).unwrap_or(usize::MAX));
        let head_at = output.len();
        frame::write_head(output, 0, Kind::Data, 0, *id);
        let bytes = sending.copy_front(bytes_max, output);
        let ends = sending.trailers().is_some_and(<[u8]>::is_empty);
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
