//! The workspace that a driver lends a connection while it drives it: buffers and everything that all connections of a
//! worker share.
//!
//! Owns: [`Workspace`], which is all of it: buffers for what is received ([`input`]) and for answers
//! ([`output_buffer`]), and what each version of HTTP works with. Guarantees: a parked connection holds none of it, so
//! an idle connection costs a few dozen bytes and a worker's buffers stay in its cache. Code that needs a part of it
//! names that part, and does not depend on the whole.

pub(crate) mod input;
pub(crate) mod output_buffer;
pub(crate) mod pages;

use std::sync::Arc;

use crate::conn::http1::active::ScratchSpace as Http1ScratchSpace;
use crate::conn::http2::scratch_space::ScratchSpace as Http2ScratchSpace;
use crate::date;
use crate::error::Refusal;
use crate::exchange::Saved;
use crate::exchange::early_hints::LinkField;
use crate::held::Held;
use crate::in_flight::InFlightAnswers;
use crate::limits::Limits;
use crate::message::{Head, RequestId, TellsIds};
use crate::tally::{Outcome, Tally};
use crate::time::Instant;

use input::Input;
use output_buffer::OutputBuffer;
pub use pages::{Pages, PagesByHost};

/// A worker's buffers and shared values. One for each worker; lent with [`Connection::lend`](crate::conn::Connection).
#[derive(Debug)]
pub struct Workspace {
    pub(crate) input: Input,
    pub(crate) output_buffer: OutputBuffer,
    pub(crate) draining: bool,
    /// No further request is taken from the input of a connection of HTTP/1.x: it goes where that is done.
    pub(crate) holds_requests: bool,
    /// Whether requests must be kept until they are answered in full, for the access log.
    pub(crate) keeps_requests: bool,
    /// Answers that have been written and have not left, or are not reported.
    pub(crate) in_flight: InFlightAnswers,
    /// The head that the last report refers to.
    pub(crate) reported: Option<Head>,
    /// Goes with the answer to the request that is current.
    pub(crate) link: Option<Arc<LinkField>>,
    /// The tally of the answers to all connections that this was lent to.
    pub(crate) tally: Arc<Tally>,
    /// The memory that all connections hold that this was lent to, and others.
    pub(crate) held: Arc<Held>,
    /// Whether HTTP/2 is spoken with those that begin with it.
    pub(crate) speaks_h2c: bool,
    /// Whether clients of HTTP/2 are told that they may ask for tunnels.
    pub(crate) offers_tunnels: bool,
    /// The state of connections of HTTP/1.x.
    pub(crate) http1: Http1ScratchSpace,
    /// The state of connections of HTTP/2.
    pub(crate) http2: Http2ScratchSpace,
    /// The state from which the next request ID is made.
    ids: u64,
}

impl Workspace {
    /// A workspace for connections under `limits`, at `unix_seconds`.
    ///
    /// # Panics
    /// If a page is missing, or `head_bytes_max` is out of its bounds.
    pub fn new(
        limits: Arc<Limits>,
        pages: Arc<dyn PagesByHost>,
        copy_bytes_max: usize,
        unix_seconds: u64,
    ) -> Box<Workspace> {
        assert!((256..=65_535).contains(&limits.head_bytes_max), "see Limits::head_bytes_max");
        assert_eq!(pages.pages_of(None).refusals.len(), Refusal::ALL.len(), "there is a page for every refusal");
        let output_buffer = OutputBuffer::new(limits, pages, copy_bytes_max, unix_seconds);
        Box::new(Workspace {
            input: Input::new(output_buffer.limits.head_bytes_max),
            output_buffer,
            draining: false,
            holds_requests: false,
            keeps_requests: false,
            in_flight: InFlightAnswers::default(),
            reported: None,
            link: None,
            tally: Arc::default(),
            held: Arc::default(),
            speaks_h2c: false,
            offers_tunnels: false,
            http1: Http1ScratchSpace::default(),
            http2: Http2ScratchSpace::default(),
            ids: 0,
        })
    }

    /// The wall clock moved to another second: dates in answers follow.
    pub fn handle_unix_seconds(&mut self, unix_seconds: u64) {
        if unix_seconds != self.output_buffer.unix_seconds {
            self.output_buffer.unix_seconds = unix_seconds;
            self.output_buffer.date = date::format(unix_seconds);
        }
    }

    /// From now on every connection that this is lent to is drained, but idle ones stay for one request more: it may be
    /// on its way already.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The connection that this is lent to next is finished: one that `stays` is drained; of another, what has begun is
    /// finished, and further requests stay in its input.
    pub fn begin_finishing(&mut self, stays: bool) {
        (self.draining, self.holds_requests) = (stays, !stays);
    }

    /// From now on requests are called by numbers that follow from `seed`, which no other workspace has.
    pub fn number_requests(&mut self, seed: u64) {
        self.ids = seed;
    }

    /// From now on answers tell clients what their request is called. If `keeps_names`, requests that come with a name
    /// may be called by that, and are not told another one.
    pub fn tell_ids(&mut self, keeps_names: bool) {
        self.output_buffer.tells_ids = if keeps_names { TellsIds::Unnamed } else { TellsIds::Everybody };
    }

    /// The next request ID.
    pub(crate) fn next_id(&mut self) -> RequestId {
        // SplitMix64 (Steele, Lea, Flood, 2014): different for each of 2^64 states. It is that of `policy`, which
        // `proto` does not know.
        self.ids = self.ids.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.ids;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        RequestId((number ^ number >> 31).max(1))
    }

    /// Keep requests until they are answered in full, so that they can be logged.
    pub fn keep_requests(&mut self) {
        self.keeps_requests = true;
    }

    /// From now on counts what is answered in `tally`.
    pub fn count_in(&mut self, tally: Arc<Tally>) {
        self.tally = tally;
    }

    /// From now on counts in `held` what connections hold that this was lent to.
    pub fn count_held_in(&mut self, held: Arc<Held>) {
        self.held = held;
    }

    /// From now on a connection that begins with the preface of HTTP/2 is one (RFC 9113 3.3).
    pub fn speak_h2c(&mut self) {
        self.speaks_h2c = true;
    }

    /// From now on clients of HTTP/2 are told that they may ask for other protocols over a stream (RFC 8441): the
    /// responder to a CONNECT with an `upgrade` field knows what to do with it.
    pub fn offer_tunnels(&mut self) {
        self.offers_tunnels = true;
    }

    /// All connections together hold as much as they may, or no longer: see
    /// [`HELD_SHARE_MAX`](crate::limits::HELD_SHARE_MAX).
    pub fn handle_pressure(&mut self, is_over_budget: bool) {
        self.output_buffer.is_over_budget = is_over_budget;
    }

    /// Bounds of the connections served with this.
    pub fn limits(&self) -> &Limits {
        &self.output_buffer.limits
    }
}

// What leaves.
impl Workspace {
    /// The first `bytes` unsent bytes of the output have been taken by the socket, or by who `holds` them before it.
    pub(crate) fn take_output(&mut self, bytes: usize, holds: bool) {
        self.in_flight.handle_taken(self.output_buffer.sent + bytes, holds);
        self.output_buffer.consume(bytes);
    }

    /// All that was taken has left.
    pub(crate) fn handle_left(&mut self, now: Instant) {
        self.in_flight.handle_left(now, &self.tally, self.keeps_requests);
    }

    /// An answer has been written to its end, which is that of the output, or of the `behind` bytes that follow it.
    /// `last` is when something left last.
    pub(crate) fn handle_written(
        &mut self,
        outcome: Outcome,
        request: Option<&Saved>,
        last: Instant,
        behind: Option<usize>,
    ) {
        let request = request.filter(|_| self.keeps_requests);
        match behind {
            Some(end) => self.in_flight.push_behind(end, outcome, request),
            None if self.output_buffer.unsent().is_empty() => {
                self.in_flight.push_taken(outcome, request);
                if !self.in_flight.is_held() {
                    self.handle_left(last);
                }
            }
            None => self.in_flight.push_kept(self.output_buffer.bytes.len(), outcome, request),
        }
    }

    /// Whether something has not left, and is to be parked with what of the output has not been sent. What is not
    /// reported is forgotten.
    pub(crate) fn has_departures(&mut self) -> bool {
        self.in_flight.forget(self.output_buffer.sent);
        !self.in_flight.is_empty()
    }

    /// Takes away what has not left.
    pub(crate) fn park_in_flight(&mut self, parked: &mut InFlightAnswers) {
        if !self.in_flight.is_empty() {
            std::mem::swap(&mut self.in_flight, parked);
        }
    }

    /// Takes back what was parked.
    pub(crate) fn restore_in_flight(&mut self, parked: &mut InFlightAnswers) {
        if !parked.is_empty() {
            std::mem::swap(&mut self.in_flight, parked);
        }
    }
}
