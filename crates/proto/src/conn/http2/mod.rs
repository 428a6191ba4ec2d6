//! HTTP/2 on one connection (RFC 9113): streams beside each other under the same exchanges as HTTP/1.x.
//!
//! Owns: the life of a connection. Guarantees: bounded memory and bounded idle work whatever the peer does, by the
//! bounds of
//! [`limits`]; what is cached and short is written to the output at once, without a stream and without an allocation;
//! an idle connection holds no buffer but the tables of header compression. Does not know files, sites or sockets. How
//! to drive it is said in [`conn`](crate::conn).
//!
//! # What is written where
//! Frames are written to the output in full, with one exception: content that is sent from its file is a segment behind
//! the output, and whatever has to be written before it has left goes `behind` it.

mod abuse;
mod block;
mod content;
mod flow;
pub(crate) mod frame;
pub(crate) mod hpack;
mod invariants;
mod liveness;
mod parked;
mod priority;
mod receive;
mod request;
mod response;
mod running;
pub(crate) mod scratch_space;
mod send;
mod sending;
mod settings;
mod stalls;
mod stream;
mod timing;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::conn::{Answered, Fate, Interest, SendDeadline};
use crate::exchange::range::ByteRange;
use crate::exchange::rules::{requested_resource_of, requested_resource_of_saved};
use crate::exchange::state::State;
use crate::exchange::{ContentBuffer, Done, ExchangeId, Need, RequestedResource};
use crate::held::Charge;
use crate::in_flight::InFlightAnswers;
use crate::limits::{self};
use crate::time::Instant;
use crate::transmit::{Segment, Transmit};
use crate::workspace::Workspace;
use abuse::AbuseBudget;
use block::Block;
use flow::{ReceiveWindow, SendWindow};
use frame::{ErrorCode, PREFACE};
use hpack::{Decoder, Encoder};
use priority::Priority;
use receive::Reading;
use scratch_space::Current;
use settings::PeerSettings;
use stream::Stream;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    workspace: Option<Box<Workspace>>,
    /// Received and not consumed, while parked.
    unread: Vec<u8>,
    /// To be sent, while parked.
    unsent: Vec<u8>,
    /// To be sent after the frame whose content is being sent from a file.
    behind: Vec<u8>,
    streams: Vec<Stream>,
    /// Answers that have been written and have not left, while parked.
    in_flight: InFlightAnswers,
    /// The frame whose content is being sent from a file: of which stream, and how much is left of it.
    file_frame: Option<(u32, u64)>,
    decoder: Decoder,
    encoder: Encoder,
    reading: Reading,
    /// The header block that is being received.
    block: Option<Block>,
    /// Priorities of streams that have not begun (RFC 9218 7.1).
    early_priorities: Vec<(u32, Priority)>,
    /// Streams that we have reset, the newest last: what the peer had sent before it knew is ignored.
    reset_by_us: VecDeque<u32>,
    peer: PeerSettings,
    /// The peer has said its settings, which have to come first.
    is_greeted: bool,
    /// Since when the peer has not said that our settings hold; none once it has.
    settings_sent: Option<Instant>,
    window: SendWindow,
    /// Until when the peer has to take what has been written.
    output_taking: SendDeadline,
    /// Until when it has to open the window of the connection for more.
    window_taking: SendDeadline,
    /// Streams that were reset because their windows were not opened.
    stalls: u32,
    receive_window: ReceiveWindow,
    /// The highest stream that the peer has begun.
    last_id: u32,
    /// Streams that it has passed over, the newest last: they can never begin.
    skipped: VecDeque<(u32, u32)>,
    /// The highest stream that it has begun behind those that we had said to serve: it is ignored.
    ignored_id: u32,
    /// Bytes that the streams held when there was no room for another.
    postponed_at: u64,
    /// Turns of sending so far.
    turn: u64,
    resets: AbuseBudget,
    dropped: AbuseBudget,
    idle_frames: AbuseBudget,
    /// The last progress of an answer.
    since: Instant,
    /// When the peer last sent something.
    received: Instant,
    /// The latest instant that the connection has been told.
    now: Instant,
    /// Since when a frame or a header block has not been complete.
    partial_since: Option<Instant>,
    ending: Ending,
    /// The peer has closed its side.
    ended: bool,
    /// The peer is gone: close without sending more.
    broken: bool,
    /// Nothing has been sent yet.
    is_new: bool,
    /// Its charge in the memory that all connections hold.
    charge: Option<Charge>,
}

/// How a connection ends (RFC 9113 6.8).
///
/// ```text
///  Open --drain--> Announced(GOAWAY for no stream, PING) --PING comes back, or time--> Final(GOAWAY for what follows the last)
///    '--a fault of the connection-----------------------------------------------------> Closing     (streams empty) --> Closing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It does not.
    Open,
    /// The peer has been told that it is to open no more streams; those that were on their way are served. Since when,
    /// by the clock of the first look at it.
    Announced(Option<Instant>),
    /// Streams beyond the last one are not served.
    Final,
    /// Nothing is received as frames any more.
    Closing,
}

/// The payload of the PING that follows the first GOAWAY.
const DRAIN_PING: [u8; 8] = *b"draining";
const DRIVEN: &str = "a connection is driven with a workspace";

fn driven(workspace: &mut Option<Box<Workspace>>) -> &mut Workspace {
    workspace.as_mut().expect(DRIVEN)
}

// Being lent, parked and looked at.
impl Connection {
    /// A connection on which nothing has been received, established at `now`, whose peer is known to speak HTTP/2.
    pub fn new(now: Instant) -> Connection {
        let peer = PeerSettings::new();
        Connection {
            workspace: None,
            unread: Vec::new(),
            unsent: Vec::new(),
            behind: Vec::new(),
            streams: Vec::new(),
            in_flight: InFlightAnswers::default(),
            file_frame: None,
            decoder: Decoder::new(settings::DECODER_TABLE_BYTES),
            encoder: Encoder::new(),
            reading: Reading::Preface,
            block: None,
            early_priorities: Vec::new(),
            reset_by_us: VecDeque::new(),
            peer,
            is_greeted: false,
            settings_sent: Some(now),
            window: SendWindow::new(i64::from(flow::INITIAL_BYTES)),
            output_taking: SendDeadline::NONE,
            window_taking: SendDeadline::NONE,
            stalls: 0,
            receive_window: ReceiveWindow::new(),
            last_id: 0,
            skipped: VecDeque::new(),
            ignored_id: 0,
            postponed_at: 0,
            turn: 0,
            resets: AbuseBudget::new(limits::RESETS_BURST, now),
            dropped: AbuseBudget::new(limits::DROPPED_BURST, now),
            idle_frames: AbuseBudget::new(limits::IDLE_FRAMES_BURST, now),
            since: now,
            received: now,
            now,
            partial_since: Some(now),
            ending: Ending::Open,
            ended: false,
            broken: false,
            is_new: true,
            charge: None,
        }
    }

    /// As [`http1::Connection::lend`](crate::conn::http1::Connection::lend).
    ///
    /// # Panics
    /// If it has a workspace.
    pub fn lend(&mut self, mut workspace: Box<Workspace>) {
        assert!(self.workspace.is_none(), "a connection is driven by one driver at a time");
        if !self.unread.is_empty() {
            workspace.input.restore(&self.unread);
            self.unread = Vec::new();
        }
        if !self.unsent.is_empty() {
            workspace.output_buffer.bytes.extend_from_slice(&self.unsent);
            self.unsent = Vec::new();
        }
        workspace.restore_in_flight(&mut self.in_flight);
        self.in_flight = InFlightAnswers::default();
        if self.broken {
            workspace.in_flight.give_up_all(self.last());
        }
        if self.streams.capacity() == 0 {
            self.streams = std::mem::take(&mut workspace.http2.spare_streams);
        }
        let drains = workspace.draining;
        if self.is_new && !self.broken {
            self.is_new = false;
            let Workspace { output_buffer, offers_tunnels, .. } = &mut *workspace;
            settings::write_own(&mut output_buffer.bytes, &output_buffer.limits, *offers_tunnels);
        }
        self.workspace = Some(workspace);
        if drains {
            self.drain();
        }
        // The event may have come meanwhile: content that another driver has read.
        self.pump();
    }

    /// Whether it has a workspace.
    pub fn is_lent(&self) -> bool {
        self.workspace.is_some()
    }

    /// As [`http1::Connection::reclaim`](crate::conn::http1::Connection::reclaim).
    ///
    /// # Panics
    /// If it has no workspace, or a need was handed out that was neither answered nor deferred.
    pub fn reclaim(&mut self) -> Box<Workspace> {
        let mut workspace = self.workspace.take().expect("only a lent workspace is reclaimed");
        assert!(workspace.http2.current.is_none(), "a need is answered or deferred before parking");
        let has_departures = workspace.has_departures();
        if !self.broken {
            self.unread.extend_from_slice(workspace.input.unread());
            self.unsent.extend_from_slice(workspace.output_buffer.unsent());
            if has_departures {
                workspace.park_in_flight(&mut self.in_flight);
            }
        }
        workspace.input.clear();
        workspace.output_buffer.clear();
        if self.streams.is_empty() && workspace.http2.spare_streams.capacity() == 0 {
            workspace.http2.spare_streams = std::mem::take(&mut self.streams);
        } else if self.streams.is_empty() {
            self.streams = Vec::new();
        }
        let bytes =
            Some(self.memory_bytes()).filter(|bytes| *bytes > limits::UNCOUNTED_BYTES_MAX).map(|bytes| bytes as u64);
        if self.charge.as_ref().map(Charge::bytes) != bytes {
            self.charge = bytes.map(|bytes| Charge::new(&workspace.held, bytes));
        }
        workspace
    }

    /// The events to wait for. Meaningful when `poll_need` and `poll_transmit` have nothing more.
    pub fn interest(&self) -> Interest {
        if self.broken {
            return Interest::CLOSE;
        }
        let send = self.has_output();
        if self.is_over() {
            return match (send, self.ended) {
                (true, _) => Interest::SEND,
                (false, true) => Interest::CLOSE,
                (false, false) => Interest::LINGER,
            };
        }
        let done = self.streams.iter().any(|one| match &one.state {
            State::Resolving => true,
            State::Answering(answer) => answer.reading,
            State::Running(running) => running.is_away() || running.waits_elsewhere(),
            State::Wanting | State::Resolved(_) | State::Postponed | State::Answered(_) => false,
        });
        let receive = !self.ended && self.has_room_for_frames();
        if !(send || done || receive) {
            // What remains waits for a peer that will not say anything any more.
            return Interest::CLOSE;
        }
        Interest { receive, send, done, fate: Fate::Open }
    }

    /// Whether all that is left to do is to send what there is.
    fn is_over(&self) -> bool {
        let is_final = match self.ending {
            Ending::Open | Ending::Announced(_) => self.ended,
            Ending::Final => true,
            Ending::Closing => return true,
        };
        is_final && self.streams.is_empty() && !self.has_current()
    }

    /// Whether the peer has been told which stream was the last, and that has been answered: whatever it sends brings
    /// about nothing, not even an answer to a PING. The end may have been said behind the answer, and nothing is
    /// written behind that.
    fn has_said_all(&self) -> bool {
        self.ending == Ending::Final && self.streams.is_empty() && !self.has_current()
    }

    fn has_current(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.http2.current.is_some())
    }

    /// Whether the connection waits between requests, so that nothing is lost by closing it.
    pub fn is_idle(&self) -> bool {
        let is_between = matches!(self.reading, Reading::Head) && self.block.is_none();
        // One that ends waits for its peer to have heard of it.
        let is_open = self.ending == Ending::Open;
        is_open
            && is_between
            && self.streams.is_empty()
            && self.in_flight.is_empty()
            && !self.has_current()
            && !self.has_input()
            && !self.has_output()
    }

    /// Whether no request is under way: at most a part of a head has come.
    pub fn is_asking(&self) -> bool {
        self.streams.is_empty() && !self.has_output()
    }

    /// The bytes for the peer if the connection is closed while it is idle: they say that no request that it may just
    /// have sent was looked at (RFC 9113 6.8).
    pub fn farewell(&self) -> Option<[u8; frame::GOAWAY_BYTES]> {
        let can_hear = !self.is_new && !self.ended && !self.broken;
        (can_hear && self.is_idle()).then(|| frame::plain_goaway(self.last_id))
    }

    /// Bytes of memory that the connection holds beyond itself while it is parked.
    pub fn memory_bytes(&self) -> usize {
        self.unread.capacity()
            + self.unsent.capacity()
            + self.behind.capacity()
            + self.streams.capacity() * size_of::<Stream>()
            + self.streams.iter().map(Stream::memory_bytes).sum::<usize>()
            + self.in_flight.memory_bytes()
            + self.decoder.memory_bytes()
            + self.encoder.memory_bytes()
            + self.block.as_ref().map_or(0, |block| block.bytes.capacity())
            + self.early_priorities.capacity() * size_of::<(u32, Priority)>()
            + self.reset_by_us.capacity() * size_of::<u32>()
            + self.skipped.capacity() * size_of::<(u32, u32)>()
    }

    /// Bytes of content in memory that its answers hold beyond that which holds most.
    pub fn queued_content_bytes(&self) -> u64 {
        let held = self.streams.iter().map(|one| one.state.held_bytes());
        held.clone().sum::<u64>() - held.max().unwrap_or(0)
    }

    fn has_input(&self) -> bool {
        match &self.workspace {
            Some(workspace) => !workspace.input.unread().is_empty(),
            None => !self.unread.is_empty(),
        }
    }

    /// Bytes that are to be sent until an answer has ended, the shortest of those under way.
    pub fn remaining_bytes(&self) -> u64 {
        let streams =
            self.streams.iter().filter(|stream| stream.sending().is_some() || stream.state.sending().is_some());
        let shortest = streams.map(|stream| stream.candidate().remaining).min();
        self.unsent_bytes() as u64 + shortest.unwrap_or(0)
    }

    /// Bytes that are written and not sent.
    fn unsent_bytes(&self) -> usize {
        match &self.workspace {
            Some(workspace) => workspace.output_buffer.unsent().len(),
            None => self.unsent.len(),
        }
    }

    fn has_output(&self) -> bool {
        self.unsent_bytes() > 0 || self.file_frame.is_some()
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
        (self.received, self.now) = (now, self.now.max(now));
        if self.ending == Ending::Closing || self.has_said_all() {
            driven(&mut self.workspace).input.clear();
        } else {
            self.partial_since.get_or_insert(now);
        }
        self.check_invariants();
    }

    /// The peer has closed its side: nothing more will be allowed to be sent, or asked for.
    pub fn handle_end(&mut self) {
        self.ended = true;
        let is_unfinished =
            |one: &Stream| matches!(one.receiving, stream::Receiving::Open(_)) && (!one.is_early || one.is_answered());
        while let Some(at) = self.streams.iter().position(is_unfinished) {
            self.drop_stream(at);
        }
        self.check_invariants();
    }

    /// The socket has room: content that was let go of because it had none is wanted again.
    pub fn handle_writable(&mut self) {
        for stream in &mut self.streams {
            let may_send = stream.window.room() > 0;
            if let Some(answer) = stream.state.answer_mut().filter(|_| may_send) {
                answer.paused = false;
            }
        }
        self.check_invariants();
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
        self.now = self.now.max(now);
        let least = self.least_taken();
        self.output_taking.take(bytes, least, now);
        let workspace = driven(&mut self.workspace);
        // What leaves is progress of an answer, or the last word. An answer to a PING is neither: it keeps no
        // connection.
        if bytes > 0 && (workspace.has_departures() || !self.streams.is_empty() || self.ending == Ending::Closing) {
            self.since = now;
        }
        let of_output = bytes.min(workspace.output_buffer.unsent().len() as u64);
        workspace.take_output(of_output as usize, holds);
        self.file_sent(bytes - of_output);
        self.pump();
    }

    /// All bytes that were taken have left.
    pub fn handle_left(&mut self, now: Instant) {
        driven(&mut self.workspace).handle_left(now);
    }

    /// Whether answers wait for `handle_left` to be counted.
    pub fn is_leaving(&self) -> bool {
        self.workspace.as_ref().is_some_and(|workspace| workspace.in_flight.is_held())
    }

    /// When something was received or left last.
    fn last(&self) -> Instant {
        self.since.max(self.received)
    }

    /// The peer is gone or has been given up: nothing more can be sent.
    pub fn handle_broken(&mut self) {
        self.broken = true;
        let last = self.last();
        if let Some(workspace) = &mut self.workspace {
            workspace.http2.current = None;
            workspace.in_flight.give_up_all(last);
        }
        (self.file_frame, self.block) = (None, None);
        while !self.streams.is_empty() {
            self.drop_stream(self.streams.len() - 1);
        }
    }

    /// The need of exchange `id` has been met. For a need that was not deferred: before anything else is polled.
    /// Answers to exchanges that are gone are ignored.
    pub fn handle_done(&mut self, id: ExchangeId, done: Done<'_>, now: Instant) {
        self.now = self.now.max(now);
        let current = driven(&mut self.workspace).http2.current;
        if current.is_some_and(|current| current.id == id.0) {
            match done {
                Done::Resolved(resource) => self.answer_current(resource),
                Done::Refused(refusal) => {
                    let at = self.push_current(State::Resolving, true);
                    self.refuse_stream(at, refusal);
                    self.pump();
                }
                Done::Run(program) => {
                    let at = self.push_current(State::Resolving, true);
                    self.begin_running(at, program);
                }
                Done::Ready(_) | Done::Content(_) | Done::Failed => {
                    unreachable!("the request in the buffers waits for a resolution")
                }
            }
            return;
        }
        let Some(at) = self.streams.iter().position(|stream| stream.id == id.0 && !stream.is_reset) else {
            return;
        };
        match (done, &mut self.streams[at].state) {
            (Done::Resolved(resource), State::Resolving) => self.begin_answering(at, resource),
            (Done::Refused(refusal), State::Resolving) => self.refuse_stream(at, refusal),
            (Done::Run(program), State::Resolving) => self.begin_running(at, program),
            (Done::Ready(bytes), State::Answering(answer)) => answer.handle_ready(bytes),
            (Done::Content(buffer), State::Answering(answer)) => answer.handle_content(buffer, now),
            (Done::Failed, State::Answering(_)) => self.fail_stream(at),
            (done, state) => debug_assert!(false, "{done:?} does not answer {state:?}"),
        }
        self.since = now;
        self.pump();
    }
}

// What the application asks.
impl Connection {
    /// The need of exchange `id` will be met later. The request is kept until then.
    pub fn defer(&mut self, id: ExchangeId) {
        if driven(&mut self.workspace).http2.current.is_some_and(|current| current.id == id.0) {
            self.push_current(State::Resolving, true);
        }
    }

    /// The peer is told to open no more streams; those that it has opened before it knew are served. One that has
    /// closed its side opens none.
    pub fn drain(&mut self) {
        if self.ending == Ending::Open && !(self.broken || self.ended) {
            self.ending = Ending::Announced(None);
            let sink = self.sink();
            frame::write_goaway(sink, (1 << 31) - 1, ErrorCode::NoError, "");
            frame::write_ping(sink, 0, &DRAIN_PING);
        }
    }
}

// What we tell the world.
impl Connection {
    /// The next thing that has to be done for an exchange. May change after every `handle_*`.
    pub fn poll_need(&mut self) -> Option<(ExchangeId, Need<'_>)> {
        if self.broken {
            return None;
        }
        if !self.has_current() && self.wanting().is_none() {
            self.receive_frames();
        }
        if self.has_current() {
            let (id, request) = self.workspace.as_ref()?.http2.current_request()?;
            return Some((ExchangeId(id), Need::Resolve(requested_resource_of(request))));
        }
        let at = self.wanting()?;
        let Stream { id, state, request, .. } = &mut self.streams[at];
        match state {
            State::Running(_) => Some((ExchangeId(*id), Need::Run)),
            _ => Some((ExchangeId(*id), state.need(request)?)),
        }
    }

    /// See [`Connection::requested_of`](crate::conn::Connection::requested_of).
    pub fn requested_of(&self, id: ExchangeId) -> Option<RequestedResource<'_>> {
        let current = self.workspace.as_ref().and_then(|workspace| workspace.http2.current_request());
        if let Some((_, request)) = current.filter(|(current, _)| *current == id.0) {
            return Some(requested_resource_of(request));
        }
        let stream = self.streams.iter().find(|one| one.id == id.0 && one.state.is_resolving())?;
        stream.request.as_ref().map(requested_resource_of_saved)
    }

    /// Nothing is foreseen: the next request may be behind frames that have to be acted on.
    pub fn peek_requested(&mut self) -> Option<RequestedResource<'_>> {
        None
    }

    /// The next bytes to send. They may change after `handle_done` and `handle_sent`.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        if self.broken {
            return None;
        }
        let is_last = self.is_over() && self.ended;
        let bytes = self.workspace.as_ref().expect(DRIVEN).output_buffer.unsent();
        let segment = self.file_segment();
        if bytes.is_empty() && segment.is_none() {
            return None;
        }
        let more = match &segment {
            Some(segment) => {
                self.file_frame.is_some_and(|(_, left)| left > segment.length()) || !self.behind.is_empty()
            }
            None => is_last,
        };
        Some(Transmit { bytes, segment, more })
    }

    /// See [`http1::Connection::segment_buffer`](crate::conn::http1::Connection::segment_buffer): segments are of files
    /// only.
    pub fn segment_buffer(&self) -> Option<(Arc<dyn ContentBuffer>, u64)> {
        None
    }

    /// The rest of the frame whose content is sent from a file.
    fn file_segment(&self) -> Option<Segment<'_>> {
        let (id, left) = self.file_frame?;
        let answer = self.streams.iter().find(|one| one.id == id)?.state.answer()?;
        let file = answer.representation.file.as_deref()?;
        let ByteRange { offset, length } = answer.current;
        let end = if answer.has_later_content() { u64::MAX } else { offset + length };
        Some(Segment::File { file, offset, length: left, state: &answer.representation.state, end })
    }

    /// A request that has been answered, for the log.
    pub fn poll_answered(&mut self) -> Option<Answered<'_>> {
        let Workspace { in_flight, reported, .. } = driven(&mut self.workspace);
        in_flight.poll(reported)
    }
}

/// Whether `input` begins like a connection of HTTP/2: all of it is the preface, or a part that may still become it.
pub(crate) fn preface_in(input: &[u8]) -> Option<bool> {
    let length = input.len().min(PREFACE.len());
    let begins = length > 0 && input[..length] == PREFACE[..length];
    begins.then_some(length == PREFACE.len())
}
