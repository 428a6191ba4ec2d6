//! Taking frames from the input, and what each of them does to the connection and its streams (RFC 9113 5 and 6).
//!
//! Owns: the order in which frames are judged. Guarantees: a frame is acted on once, when it is complete, but for
//! content and header blocks, which are taken in pieces; whatever carries nothing is counted against a budget. Does not
//! answer.

use super::flow::FlowError;
use super::frame::{self, ACK, ErrorCode, Fault, FrameHead, HEAD_BYTES, Kind, PREFACE, protocol_error};
use super::priority::Priority;
use super::stream::Cost;
use super::{Connection, DRAIN_PING, DRIVEN, Ending, driven, settings};
use crate::limits::{
    BEHIND_BYTES_MAX, DROPPED_BURST, DROPPED_PER_SECOND, IDLE_FRAMES_BURST, IDLE_FRAMES_PER_SECOND, RESETS_BURST,
    RESETS_PER_SECOND, TINY_BYTES,
};
use crate::tally::Abuse;

/// Where in the stream of frames the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Before the end of the preface.
    Preface,
    /// Before a frame.
    Head,
    /// Within the content of a DATA frame.
    Data { stream: u32, content: usize, padding: usize, ends: bool },
    /// Within a part of a header block.
    Block { fragment: usize, padding: usize, is_last: bool },
    /// Within what is of no interest.
    Skip(usize),
}

/// The result of looking at the input.
pub(super) enum Step {
    /// More bytes are needed.
    Starved,
    /// Something was consumed: look again.
    Went,
}

/// How many priorities of streams that have not begun are kept.
const EARLY_PRIORITIES_MAX: usize = 16;
/// How many times that the peer has passed over streams are remembered. Clients count by two.
const SKIPPED_MAX: usize = 8;
/// How many streams that we have reset are remembered.
const RESET_BY_US_MAX: usize = 32;
/// The longest PRIORITY_UPDATE that is read. Longer ones say more than a priority, and are ignored.
const PRIORITY_UPDATE_BYTES_MAX: usize = 200;

impl Connection {
    /// Takes frames from the input until a request has to be resolved, or there are none, or earlier answers have to
    /// leave first.
    pub(super) fn receive_frames(&mut self) {
        let mut went = false;
        while self.has_room_for_frames() && !self.has_current() && self.wanting_resolution().is_none() {
            match self.next_frame() {
                Ok(Step::Starved) => break,
                Ok(Step::Went) => went = true,
                Err(fault) => self.handle_fault(fault),
            }
        }
        self.note_partial(went);
        if !self.broken {
            self.pump();
        }
    }

    fn wanting_resolution(&self) -> Option<usize> {
        self.streams.iter().position(|one| one.state.is_wanting())
    }

    /// Whether another frame may be taken: bounds what a peer that does not read makes us hold.
    pub(super) fn has_room_for_frames(&self) -> bool {
        let bytes_max = self
            .workspace
            .as_ref()
            .map_or(crate::workspace::output_buffer::OUTPUT_BYTES_MAX, |one| one.output_buffer.output_bytes_max());
        self.ending != Ending::Closing && self.unsent_bytes() < bytes_max && self.behind.len() < BEHIND_BYTES_MAX
    }

    /// Notes since when a frame or a header block has not been complete: since its beginning, however its bytes come.
    /// `went`: something of what has arrived was taken.
    fn note_partial(&mut self, went: bool) {
        let is_between = matches!(self.reading, Reading::Head) && self.block.is_none() && !self.has_input();
        match self.reading {
            _ if is_between || self.ending == Ending::Closing => self.partial_since = None,
            // Content with a taker has a time of its own.
            Reading::Data { stream, .. } if self.awaits_content(stream) => self.partial_since = Some(self.received),
            // The frames before it were complete.
            Reading::Head if went && self.block.is_none() => self.partial_since = Some(self.received),
            _ => {
                self.partial_since.get_or_insert(self.received);
            }
        }
    }

    pub(super) fn handle_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Connection(code, cause) => self.close(code, cause),
            Fault::Stream(id, code) => {
                if let Some(at) = self.streams.iter().position(|one| one.id == id) {
                    let cost = self.streams[at].cost();
                    self.reset_stream(at, code);
                    self.count_reset(cost);
                } else {
                    self.reset_unknown(id, code);
                    self.count_reset(Cost::Little);
                }
            }
        }
    }

    fn next_frame(&mut self) -> Result<Step, Fault> {
        match self.reading {
            Reading::Preface => self.preface(),
            Reading::Head => self.frame(),
            Reading::Data { stream, content, padding, ends } => self.data(stream, content, padding, ends),
            Reading::Block { fragment, padding, is_last } => self.fragment(fragment, padding, is_last),
            Reading::Skip(left) => {
                let taken = left.min(self.input().len());
                self.consume(taken);
                self.reading = if taken == left { Reading::Head } else { Reading::Skip(left - taken) };
                Ok(if taken == left || taken > 0 { Step::Went } else { Step::Starved })
            }
        }
    }

    pub(super) fn input(&self) -> &[u8] {
        self.workspace.as_ref().expect(DRIVEN).input.unread()
    }

    pub(super) fn consume(&mut self, bytes: usize) {
        driven(&mut self.workspace).input.consume(bytes);
    }

    fn preface(&mut self) -> Result<Step, Fault> {
        match super::preface_in(self.input()) {
            _ if self.input().is_empty() => Ok(Step::Starved),
            Some(true) => {
                self.consume(PREFACE.len());
                self.reading = Reading::Head;
                Ok(Step::Went)
            }
            Some(false) => Ok(Step::Starved),
            None => protocol_error("the connection does not begin with the preface of HTTP/2"),
        }
    }

    /// Takes the head of a frame, and its payload if that is small.
    fn frame(&mut self) -> Result<Step, Fault> {
        let Some(head) = self.input().first_chunk::<HEAD_BYTES>().map(FrameHead::parse) else {
            return Ok(Step::Starved);
        };
        if !self.is_greeted && (head.kind != Kind::Settings || head.has(ACK)) {
            return protocol_error("SETTINGS is not the first frame");
        }
        if let Err(fault) = head.check(self.block.as_ref().map(|block| block.stream)) {
            self.consume(HEAD_BYTES);
            self.reading = Reading::Skip(head.length);
            return Err(fault);
        }
        let needed = match head.kind {
            Kind::Data | Kind::Headers => head.prefix_bytes(),
            Kind::Settings if head.length > 6 * settings::ENTRIES_MAX => {
                return Err(self.flood(Abuse::IdleFrame));
            }
            Kind::PriorityUpdate if head.length > PRIORITY_UPDATE_BYTES_MAX => 0,
            Kind::Continuation | Kind::GoAway | Kind::Unknown | Kind::PushPromise => 0,
            Kind::Settings
            | Kind::Ping
            | Kind::ResetStream
            | Kind::WindowUpdate
            | Kind::Priority
            | Kind::PriorityUpdate => head.length,
        };
        // No more than `256 - HEAD_BYTES` bytes, which is what the smallest input takes.
        let mut payload = [0; PRIORITY_UPDATE_BYTES_MAX];
        let Some(there) = self.input().get(HEAD_BYTES..HEAD_BYTES + needed) else { return Ok(Step::Starved) };
        payload[..needed].copy_from_slice(there);
        self.consume(HEAD_BYTES + needed);
        if self.block.is_none() {
            self.partial_since = None;
        }
        self.reading = match head.length - needed {
            0 => Reading::Head,
            left => Reading::Skip(left),
        };
        self.act(head, &payload[..needed])?;
        Ok(Step::Went)
    }

    /// Does what a frame says whose head and small payload have been taken.
    fn act(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        match head.kind {
            Kind::Data => self.begin_data(head, payload),
            Kind::Headers => self.begin_block(head, payload),
            Kind::Continuation => self.continue_block(head),
            Kind::Settings if head.has(ACK) => {
                self.settings_sent = None;
                self.idle_frame(Abuse::IdleFrame)
            }
            Kind::Settings => self.take_settings(payload),
            Kind::Ping => {
                self.idle_frame(Abuse::IdleFrame)?;
                if !head.has(ACK) {
                    frame::write_ping(self.sink(), ACK, payload);
                } else if payload == DRAIN_PING {
                    self.end_draining();
                }
                Ok(())
            }
            Kind::WindowUpdate => self.take_window_update(head, frame::word(payload) & 0x7fff_ffff),
            Kind::ResetStream => self.take_reset(head.stream),
            Kind::Priority => {
                self.idle_frame(Abuse::IdleFrame)?;
                head.check_dependency(payload)
            }
            Kind::PriorityUpdate => self.take_priority_update(payload),
            Kind::GoAway | Kind::Unknown | Kind::PushPromise => self.idle_frame(Abuse::IdleFrame),
        }
    }

    fn take_settings(&mut self, payload: &[u8]) -> Result<(), Fault> {
        if self.is_greeted {
            self.idle_frame(Abuse::IdleFrame)?;
        }
        self.is_greeted = true;
        let before = self.peer.initial_window;
        self.peer.apply(payload)?;
        self.encoder.handle_table_size(self.peer.header_table_size);
        let change = self.peer.initial_window - before;
        for stream in &mut self.streams {
            // RFC 9113 6.9.2.
            stream.window.change(change).map_err(|FlowError| WINDOW_TOO_LARGE)?;
        }
        frame::write_settings_ack(self.sink());
        self.allow_paused();
        Ok(())
    }

    fn take_window_update(&mut self, head: FrameHead, increment: u32) -> Result<(), Fault> {
        let id = head.stream;
        if increment == 0 {
            return match id {
                0 => protocol_error("a window is opened by nothing"),
                _ => Err(Fault::Stream(id, ErrorCode::Protocol)),
            };
        }
        if u64::from(increment) < TINY_BYTES {
            self.idle_frame(Abuse::TinyWindow)?;
        }
        if id == 0 {
            self.window.change(increment.into()).map_err(|FlowError| WINDOW_TOO_LARGE)?;
        } else if let Some(stream) = self.streams.iter_mut().find(|one| one.id == id) {
            let changed = stream.window.change(increment.into());
            changed.map_err(|FlowError| Fault::Stream(id, ErrorCode::FlowControl))?;
        } else {
            return self.check_begun(id);
        }
        self.allow_paused();
        Ok(())
    }

    /// Lets reads go on that were paused because the peer did not allow sending.
    fn allow_paused(&mut self) {
        for stream in self.streams.iter_mut().filter(|one| one.window.room() > 0) {
            if let Some(answer) = stream.state.answer_mut() {
                answer.paused = false;
            }
        }
    }

    fn take_reset(&mut self, id: u32) -> Result<(), Fault> {
        self.check_begun(id)?;
        let mut cost = Cost::Little;
        if let Some(at) = self.streams.iter().position(|one| one.id == id) {
            let has_all = self.streams[at].is_answered();
            cost = self.streams[at].cost();
            self.drop_stream(at);
            if has_all {
                // It was begun for an answer, which the peer has got: what it resets is its own content.
                return Ok(());
            }
        }
        self.count_reset(cost);
        Ok(())
    }

    fn take_priority_update(&mut self, payload: &[u8]) -> Result<(), Fault> {
        self.idle_frame(Abuse::IdleFrame)?;
        if payload.len() < 4 {
            // Longer than we read.
            return Ok(());
        }
        let id = frame::word(payload) & 0x7fff_ffff;
        if id == 0 {
            return protocol_error("a priority is given to no stream");
        }
        let priority = Priority::default().said(&payload[4..]);
        if let Some(stream) = self.streams.iter_mut().find(|one| one.id == id) {
            stream.priority = priority;
        } else if id > self.last_id {
            self.early_priorities.retain(|(other, _)| *other != id);
            if self.early_priorities.len() < EARLY_PRIORITIES_MAX {
                self.early_priorities.push((id, priority));
            }
        }
        Ok(())
    }

    /// RFC 9113 5.1: of a stream that has not begun only HEADERS and PRIORITY may be received.
    pub(super) fn check_begun(&self, id: u32) -> Result<(), Fault> {
        if id > self.last_id.max(self.ignored_id) || id.is_multiple_of(2) {
            return protocol_error("a frame belongs to a stream that has not begun");
        }
        Ok(())
    }

    /// Whether frames of a stream that is not kept are no fault: we have reset it, or have said that we would not serve
    /// it (RFC 9113 5.1 and 6.8). The peer may not have known.
    pub(super) fn is_passed_over(&self, id: u32) -> bool {
        self.ending == Ending::Final && id > self.last_id || self.reset_by_us.contains(&id)
    }

    /// The peer begins stream `id`, the highest so far.
    pub(super) fn begin_id(&mut self, id: u32) {
        if id > self.last_id + 2 || self.last_id == 0 && id > 1 {
            if self.skipped.len() >= SKIPPED_MAX {
                self.skipped.pop_front();
            }
            self.skipped.push_back((self.last_id, id));
        }
        self.last_id = id;
    }

    /// Whether the peer has passed over stream `id` (RFC 9113 5.1.1), as far as that is remembered.
    pub(super) fn has_skipped(&self, id: u32) -> bool {
        self.skipped.iter().any(|(before, after)| (before + 1..*after).contains(&id))
    }
}

const WINDOW_TOO_LARGE: Fault =
    Fault::Connection(ErrorCode::FlowControl, "a window is opened beyond what can be counted");
// What is bounded.
impl Connection {
    pub(super) fn count(&mut self, abuse: Abuse) {
        driven(&mut self.workspace).tally.record_abuse(abuse);
    }

    /// The connection is closed for what it does.
    pub(super) fn flood(&mut self, abuse: Abuse) -> Fault {
        self.count(abuse);
        self.count(Abuse::Closed);
        Fault::Connection(ErrorCode::EnhanceYourCalm, abuse.name())
    }

    /// A frame came, or was written, that carries nothing.
    pub(super) fn idle_frame(&mut self, abuse: Abuse) -> Result<(), Fault> {
        self.count(abuse);
        if self.idle_frames.take(IDLE_FRAMES_BURST, IDLE_FRAMES_PER_SECOND, self.received) {
            return Ok(());
        }
        self.count(Abuse::Closed);
        Err(Fault::Connection(ErrorCode::EnhanceYourCalm, "too many frames that carry nothing"))
    }

    /// A stream was begun for nothing, which has cost so much.
    pub(super) fn count_reset(&mut self, cost: Cost) {
        self.count(Abuse::Reset);
        let now = self.received;
        let is_allowed = self.resets.take(RESETS_BURST, RESETS_PER_SECOND, now)
            && (cost == Cost::Little || self.dropped.take(DROPPED_BURST, DROPPED_PER_SECOND, now));
        if self.ending != Ending::Closing && !is_allowed {
            self.count(Abuse::Closed);
            self.close(ErrorCode::EnhanceYourCalm, "too many streams that are reset");
        }
    }

    /// Remembers a stream that we reset.
    pub(super) fn remember_reset(&mut self, id: u32) {
        if self.reset_by_us.len() >= RESET_BY_US_MAX {
            self.reset_by_us.pop_front();
        }
        self.reset_by_us.push_back(id);
    }
}
