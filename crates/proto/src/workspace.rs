//! What a driver lends a connection while it drives it: buffers and everything that all connections of a worker share.
//!
//! Owns: the receive and output buffers, the date of the second, the pages that explain refusals. Guarantees: a parked
//! connection holds none of it, so an idle connection costs a few dozen bytes and a worker's buffers stay in its cache.

use std::fmt;
use std::sync::Arc;

use crate::conn::{http1, http2};
use crate::date;
use crate::departures::Departures;
use crate::error::Refusal;
use crate::exchange::Saved;
use crate::exchange::answer::Grounds;
use crate::exchange::early_hints::LinkField;
use crate::held::Held;
use crate::limits::Limits;
use crate::message::{Head, Request, RequestId};
use crate::resource::Resource;
use crate::tally::{Outcome, Tally};
use crate::time::Instant;

/// Which pages answer for a host. The core does not know sites: whoever drives it does.
pub trait PagesByHost: fmt::Debug + Send + Sync {
    /// The pages of the site that `host` (in any case of letters, without port) names. Without a host, because the request
    /// has none or cannot be read so far, those of the site that answers for unknown hosts.
    fn pages_of(&self, host: Option<&[u8]>) -> &Pages;

    /// The page for `request`, which is refused; there is none if its head could not be read. What is answered may depend on
    /// more than the host.
    fn refusal_of(&self, host: Option<&[u8]>, request: Option<Request<'_>>, refusal: Refusal) -> Arc<Resource> {
        let _ = request;
        self.pages_of(host).refusal(refusal).clone()
    }

    /// Whether requests of every method are asked for ([`Need::Translate`](crate::exchange::Need::Translate)), because of the site that `host`
    /// names: OPTIONS and methods that are not known as well, which are answered from the pages otherwise.
    fn asks_for_every_method(&self, host: Option<&[u8]>) -> bool {
        let _ = host;
        false
    }

    /// The answer to the OPTIONS of `request`.
    fn options_of(&self, host: Option<&[u8]>, request: Request<'_>) -> Arc<Resource> {
        let _ = request;
        self.pages_of(host).options.clone()
    }
}

/// The same for all hosts.
impl PagesByHost for Pages {
    fn pages_of(&self, _host: Option<&[u8]>) -> &Pages {
        self
    }
}

/// Answers that the core gives without a translation: one page for each refusal, and the answer to OPTIONS.
#[derive(Debug)]
pub struct Pages {
    /// In the order of [`Refusal::ALL`].
    pub refusals: Vec<Arc<Resource>>,
    /// The answer to OPTIONS (RFC 9110 9.3.7).
    pub options: Arc<Resource>,
}

impl Pages {
    pub(crate) fn refusal(&self, refusal: Refusal) -> &Arc<Resource> {
        &self.refusals[refusal as usize]
    }
}

/// A worker's buffers and shared values. One for each worker; lent with [`Connection::lend`](crate::conn::Connection).
#[derive(Debug)]
pub struct Workspace {
    pub(crate) input: Input,
    pub(crate) outlet: Outlet,
    pub(crate) draining: bool,
    /// No further request is taken from the input of a connection of HTTP/1.x: it goes where that is done.
    pub(crate) holds_requests: bool,
    /// Whether requests must be kept until they are answered in full, for the access log.
    pub(crate) keeps_requests: bool,
    /// Answers that have been written and have not left, or are not reported.
    pub(crate) departures: Departures,
    /// The head that the last report refers to.
    pub(crate) reported: Option<Head>,
    /// Goes with the answer to the request that is current.
    pub(crate) link: Option<Arc<LinkField>>,
    /// Of the answers to all connections that this was lent to.
    pub(crate) tally: Arc<Tally>,
    /// What all connections hold that this was lent to, and others.
    pub(crate) held: Arc<Held>,
    /// Whether HTTP/2 is spoken with those that begin with it.
    pub(crate) speaks_h2c: bool,
    /// Whether clients of HTTP/2 are told that they may ask for tunnels.
    pub(crate) offers_tunnels: bool,
    /// What connections of HTTP/1.x work with.
    pub(crate) http1: http1::Desk,
    /// What connections of HTTP/2 work with.
    pub(crate) http2: http2::Desk,
    /// What the next request is called is made from this.
    ids: u64,
}

/// What it takes to write answers.
#[derive(Debug)]
pub(crate) struct Outlet {
    pub(crate) limits: Arc<Limits>,
    pub(crate) pages: Arc<dyn PagesByHost>,
    /// Bytes ready to be sent, before any segment.
    pub(crate) output: Vec<u8>,
    /// How many of them have been sent.
    pub(crate) sent: usize,
    pub(crate) date: [u8; 29],
    pub(crate) unix_seconds: u64,
    /// The largest message that is copied to the output rather than sent from where it is, in bytes.
    pub(crate) copy_bytes_max: usize,
    /// All connections together hold as much as they may: nothing is begun that would be held.
    is_pressed: bool,
    /// Which clients are told what their request is called.
    tells_ids: TellsIds,
}

/// Which clients are told what their request is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TellsIds {
    Nobody,
    /// Those whose request does not come with a name.
    Unnamed,
    Everybody,
}

impl TellsIds {
    /// What the answer to `request` says that it is called; none if it says nothing.
    pub(crate) fn id_told(self, request: Request<'_>) -> RequestId {
        let is_told = match self {
            TellsIds::Nobody => false,
            TellsIds::Unnamed => request.lines_named(RequestId::FIELD.as_bytes()).next().is_none(),
            TellsIds::Everybody => true,
        };
        if is_told { request.head.id } else { RequestId::NONE }
    }
}

/// Output bytes at which no further request is begun before something has been sent. With `copy_bytes_max` this bounds
/// what a peer that pipelines requests and reads nothing makes the server hold.
pub(crate) const OUTPUT_BYTES_MAX: usize = 32 * 1024;

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
        let outlet = Outlet {
            output: Vec::with_capacity(OUTPUT_BYTES_MAX + copy_bytes_max + 1024),
            sent: 0,
            date: date::format(unix_seconds),
            unix_seconds,
            copy_bytes_max,
            is_pressed: false,
            tells_ids: TellsIds::Nobody,
            limits,
            pages,
        };
        Box::new(Workspace {
            input: Input::new(outlet.limits.head_bytes_max),
            outlet,
            draining: false,
            holds_requests: false,
            keeps_requests: false,
            departures: Departures::default(),
            reported: None,
            link: None,
            tally: Arc::default(),
            held: Arc::default(),
            speaks_h2c: false,
            offers_tunnels: false,
            http1: http1::Desk::default(),
            http2: http2::Desk::default(),
            ids: 0,
        })
    }

    /// The wall clock moved to another second: dates in answers follow.
    pub fn handle_unix_seconds(&mut self, unix_seconds: u64) {
        if unix_seconds != self.outlet.unix_seconds {
            self.outlet.unix_seconds = unix_seconds;
            self.outlet.date = date::format(unix_seconds);
        }
    }

    /// From now on every connection that this is lent to is drained, but idle ones stay for one request more: it may be
    /// on its way already.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The connection that this is lent to next is finished: one that `stays` is drained; of another, what has begun is finished, and further
    /// requests stay in its input.
    pub fn begin_finishing(&mut self, stays: bool) {
        (self.draining, self.holds_requests) = (stays, !stays);
    }

    /// From now on requests are called by numbers that follow from `seed`, which no other workspace has.
    pub fn number_requests(&mut self, seed: u64) {
        self.ids = seed;
    }

    /// From now on answers tell clients what their request is called. If `keeps_names`, requests that come with a name may be called
    /// by that, and are not told another one.
    pub fn tell_ids(&mut self, keeps_names: bool) {
        self.outlet.tells_ids = if keeps_names { TellsIds::Unnamed } else { TellsIds::Everybody };
    }

    /// What the next request is called.
    pub(crate) fn next_id(&mut self) -> RequestId {
        // SplitMix64 (Steele, Lea, Flood, 2014): different for each of 2^64 states.
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

    /// From now on clients of HTTP/2 are told that they may ask for other protocols over a stream (RFC 8441): whoever is asked for a
    /// CONNECT with an `upgrade` field knows what to do with it.
    pub fn offer_tunnels(&mut self) {
        self.offers_tunnels = true;
    }

    /// All connections together hold as much as they may, or no longer: see
    /// [`HELD_SHARE_MAX`](crate::limits::HELD_SHARE_MAX).
    pub fn handle_pressure(&mut self, is_pressed: bool) {
        self.outlet.is_pressed = is_pressed;
    }

    /// Bounds of the connections served with this.
    pub fn limits(&self) -> &Limits {
        &self.outlet.limits
    }
}

// What leaves.
impl Workspace {
    /// The first `bytes` unsent bytes of the output have been taken by the socket, or by who `holds` them before it.
    pub(crate) fn take_output(&mut self, bytes: usize, holds: bool) {
        self.departures.handle_taken(self.outlet.sent + bytes, holds);
        self.outlet.consume(bytes);
    }

    /// All that was taken has left.
    pub(crate) fn handle_left(&mut self, now: Instant) {
        self.departures.handle_left(now, &self.tally, self.keeps_requests);
    }

    /// An answer has been written to its end, which is that of the output, or of the `behind` bytes that follow it. `last` is when something
    /// left last.
    pub(crate) fn handle_written(
        &mut self,
        outcome: Outcome,
        request: Option<&Saved>,
        last: Instant,
        behind: Option<usize>,
    ) {
        let request = request.filter(|_| self.keeps_requests);
        match behind {
            Some(end) => self.departures.push_behind(end, outcome, request),
            None if self.outlet.unsent().is_empty() => {
                self.departures.push_taken(outcome, request);
                if !self.departures.is_held() {
                    self.handle_left(last);
                }
            }
            None => self.departures.push_kept(self.outlet.output.len(), outcome, request),
        }
    }

    /// Whether something has not left, and is to be parked with what of the output has not been sent. What is not reported is forgotten.
    pub(crate) fn has_departures(&mut self) -> bool {
        self.departures.forget(self.outlet.sent);
        !self.departures.is_empty()
    }

    /// Takes away what has not left.
    pub(crate) fn park_departures(&mut self, parked: &mut Departures) {
        if !self.departures.is_empty() {
            std::mem::swap(&mut self.departures, parked);
        }
    }

    /// Takes back what was parked.
    pub(crate) fn restore_departures(&mut self, parked: &mut Departures) {
        if !parked.is_empty() {
            std::mem::swap(&mut self.departures, parked);
        }
    }
}

impl Outlet {
    /// What the answer to `request` says that it is called; none if it says nothing.
    pub(crate) fn told_id(&self, request: Request<'_>) -> RequestId {
        self.tells_ids.id_told(request)
    }

    /// What answers are decided by.
    pub(crate) fn grounds(&self) -> Grounds<'_> {
        Grounds {
            pages: &*self.pages,
            unix_seconds: self.unix_seconds,
            ranges_max: self.limits.ranges_max,
            tells_ids: self.tells_ids,
        }
    }

    /// What the answers of a connection may hold behind the first in line.
    pub(crate) fn held_bytes_max(&self) -> u64 {
        if self.is_pressed { 0 } else { self.limits.held_bytes_max }
    }

    /// Output bytes at which no further request is begun.
    pub(crate) fn output_bytes_max(&self) -> usize {
        if self.is_pressed { 1 } else { OUTPUT_BYTES_MAX }
    }

    pub(crate) fn unsent(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// The first `bytes` unsent bytes have been sent.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.output.len() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.output.clear();
        self.sent = 0;
    }
}

/// Bytes received and not yet consumed: `bytes[start..end]`.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    fn new(capacity: usize) -> Input {
        Input { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes at an earlier position that has been consumed but not yet overwritten.
    pub(crate) fn at(&self, start: usize, length: usize) -> &[u8] {
        &self.bytes[start..start + length]
    }

    pub(crate) fn position(&self) -> usize {
        self.start
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.start += bytes;
    }

    /// Whether there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.start == self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Discards what is unread if `last` says that nothing of it will be read; whether there was anything.
    pub(crate) fn discard_if(&mut self, last: bool) -> bool {
        let discarded = last && self.start < self.end;
        if discarded {
            self.clear();
        }
        discarded
    }

    /// Replaces what is there by `bytes`. They fit, unless they were received under larger limits.
    pub(crate) fn restore(&mut self, bytes: &[u8]) {
        if bytes.len() > self.bytes.len() {
            self.bytes = vec![0; bytes.len()].into_boxed_slice();
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.start = 0;
        self.end = bytes.len();
    }

    /// Room for more. Unread bytes move to the front if they stand at the end.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.clear();
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.bytes.len(), "a driver received more than it was given room for");
    }
}
