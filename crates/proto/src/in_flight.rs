//! Answers that have been written and have not left: what is counted and logged of each when its last byte does.
//!
//! Owns: [`InFlightAnswers`], and with it the end of every answer's duration, and [`Answered`], which is what the log
//! is told of each. Guarantees: an answer is counted once, when the driver says that its last byte has left; the
//! records have room for as many as the output has. Reads no clock: drivers say when.
//!
//! ```text
//!  push: written to the output --taken by the socket, or a session before it--> taken --by the socket--> left, and reported if wished for
//! ```

use std::collections::VecDeque;

use crate::encoding::{Encoded, Malformed, Portable, Source, checked};
use crate::exchange::given::Finding;
use crate::exchange::saved::Saved;
use crate::message::{Head, Request};
use crate::tally::{Outcome, Tally};
use crate::time::Instant;

/// A request that has been answered as far as it will be.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The request; none if its head could not be read.
    pub request: Option<Request<'a>>,
    /// The status that was sent.
    pub status: u16,
    /// Bytes of content handed to the socket, or to its queue.
    pub content_bytes: u64,
    /// When the head of the request had been received.
    pub started: Instant,
    /// When the last byte of the answer left, or it was given up.
    pub ended: Instant,
    /// The finding of a program about the request
    /// ([`RequestedResource::found`](crate::exchange::RequestedResource::found)).
    pub found: Option<Finding>,
}

/// The record of an answer that is not reported yet.
#[derive(Debug)]
struct InFlightAnswer {
    /// How many bytes of output there are from the beginning of it to the end of this answer.
    end: usize,
    /// These are bytes that follow the output and are not in it yet.
    is_behind: bool,
    outcome: Outcome,
    /// When it left, or was given up.
    ended: Instant,
    /// Its head, and where its bytes are in `requests`.
    request: Option<(Head, usize)>,
    /// The finding of a program about the request.
    found: Option<Finding>,
}

/// The answers of one connection, in the order in which they leave. They are in the workspace while the connection is
/// driven, and in the connection while it is parked.
#[derive(Debug, Default)]
pub(crate) struct InFlightAnswers {
    queue: VecDeque<InFlightAnswer>,
    /// So many of them have left, and wait to be reported.
    left: usize,
    /// So many, with those that have left, have been taken from the output.
    taken: usize,
    /// The bytes taken last may not have left.
    is_held: bool,
    /// The bytes of the requests that are to be reported.
    requests: Vec<u8>,
}

/// More than any answer has handed over, and so little that counting on does not overflow.
const CONTENT_BYTES_MAX: u64 = u64::MAX / 4;
/// Bytes of requests that have been reported which are kept before the others move up.
const REPORTED_BYTES_MAX: usize = 16 * 1024;

impl InFlightAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether something has been taken that may not have left.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.queue.capacity() * size_of::<InFlightAnswer>() + self.requests.capacity()
    }

    /// An answer has been written, the last byte of which is the `end`th of the output. `request` is there if it is to
    /// be reported.
    #[inline]
    pub(crate) fn push(&mut self, end: usize, outcome: Outcome, request: Option<Request<'_>>) {
        let answer = self.in_flight(end, outcome, request);
        self.queue.push_back(answer);
    }

    /// The same for a request that is kept.
    pub(crate) fn push_kept(&mut self, end: usize, outcome: Outcome, request: Option<&Saved>) {
        let answer = self.in_flight_of(end, outcome, request);
        self.queue.push_back(answer);
    }

    /// As [`InFlightAnswers::push_kept`], where the output is followed by other bytes, to which `end` refers. See
    /// [`InFlightAnswers::handle_joined`].
    pub(crate) fn push_behind(&mut self, end: usize, outcome: Outcome, request: Option<&Saved>) {
        let answer = self.in_flight_of(end, outcome, request);
        self.queue.push_back(InFlightAnswer { is_behind: true, ..answer });
    }

    /// As [`InFlightAnswers::push_kept`], for one whose last byte has been taken before what is in the output.
    pub(crate) fn push_taken(&mut self, outcome: Outcome, request: Option<&Saved>) {
        let answer = self.in_flight_of(0, outcome, request);
        self.queue.insert(self.taken, answer);
        self.taken += 1;
    }

    #[inline]
    fn in_flight(&mut self, end: usize, outcome: Outcome, request: Option<Request<'_>>) -> InFlightAnswer {
        let request = request.map(|request| {
            let at = self.requests.len();
            self.requests.extend_from_slice(&request.bytes[..usize::from(request.head.length)]);
            (*request.head, at)
        });
        InFlightAnswer { end, is_behind: false, outcome, ended: outcome.started, request, found: None }
    }

    fn in_flight_of(&mut self, end: usize, outcome: Outcome, request: Option<&Saved>) -> InFlightAnswer {
        let found = request.and_then(|saved| saved.found.clone());
        InFlightAnswer { found, ..self.in_flight(end, outcome, request.map(Saved::received)) }
    }

    /// The segment behind the output is in it now, after its first `bytes`.
    pub(crate) fn handle_joined(&mut self, bytes: usize) {
        for answer in self.queue.iter_mut().filter(|answer| answer.is_behind) {
            answer.is_behind = false;
            answer.end += bytes;
        }
    }

    /// The first `sent` bytes of the output have been taken. `holds`: they may not have left yet.
    #[inline]
    pub(crate) fn handle_taken(&mut self, sent: usize, holds: bool) {
        self.is_held = holds;
        while self.queue.get(self.taken).is_some_and(|answer| answer.end <= sent && !answer.is_behind) {
            self.taken += 1;
        }
    }

    /// All that was taken has left. `reports`: what has left is kept until it is reported.
    #[inline]
    pub(crate) fn handle_left(&mut self, now: Instant, tally: &Tally, reports: bool) {
        self.is_held = false;
        for answer in self.queue.range_mut(self.left..self.taken) {
            answer.ended = now;
            tally.record(&answer.outcome, now.since_us(answer.outcome.started));
        }
        self.left = self.taken;
        if !reports {
            self.queue.drain(..self.left);
            (self.left, self.taken) = (0, 0);
        }
    }

    /// An answer that was broken off. It is reported, and not counted.
    pub(crate) fn give_up(&mut self, outcome: Outcome, request: Option<&Saved>, now: Instant) {
        let answer = self.in_flight_of(0, outcome, request);
        self.queue.insert(self.left, InFlightAnswer { ended: now, ..answer });
        (self.left, self.taken) = (self.left + 1, self.taken + 1);
    }

    /// Gives up all answers that have not left.
    pub(crate) fn give_up_all(&mut self, now: Instant) {
        for answer in self.queue.range_mut(self.left..) {
            answer.ended = now;
        }
        (self.left, self.taken, self.is_held) = (self.queue.len(), self.queue.len(), false);
    }

    /// One that is to be reported. Its request is there until something else is asked of this, and `reported` has its
    /// head.
    pub(crate) fn poll<'a>(&'a mut self, reported: &'a mut Option<Head>) -> Option<Answered<'a>> {
        if self.left == 0 {
            if self.queue.is_empty() {
                self.requests.clear();
            }
            return None;
        }
        self.move_up();
        let InFlightAnswer { outcome, ended, request, found, .. } = self.queue.pop_front()?;
        (self.left, self.taken) = (self.left - 1, self.taken - 1);
        let Outcome { status, content_bytes, started, .. } = outcome;
        let request = request.map(|(head, at)| Request { bytes: &self.requests[at..], head: reported.insert(head) });
        Some(Answered { request, status, content_bytes, started, ended, found })
    }

    /// Gives the space back of requests that have been reported, if that is worth it.
    fn move_up(&mut self) {
        let first = self.queue.iter().find_map(|answer| answer.request.as_ref().map(|(_, at)| *at));
        if let Some(first) = first.filter(|first| *first > REPORTED_BYTES_MAX) {
            self.requests.drain(..first);
            self.queue.iter_mut().filter_map(|answer| answer.request.as_mut()).for_each(|(_, at)| *at -= first);
        }
    }

    /// The first `sent` bytes of the output are forgotten, and what has left and is not reported.
    pub(crate) fn forget(&mut self, sent: usize) {
        self.queue.drain(..self.left);
        self.taken -= self.left;
        self.left = 0;
        for answer in &mut self.queue {
            answer.end = answer.end.saturating_sub(sent);
        }
        if self.queue.is_empty() {
            self.requests.clear();
            self.is_held = false;
        }
    }

    /// Checks that its parts agree, where there are `output_bytes` bytes of output.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self, output_bytes: usize) {
        let (left, taken, all) = (self.left, self.taken, self.queue.len());
        assert!(left <= taken && taken <= all, "{left} have left of {taken} that were taken of {all}");
        let ends = self.queue.range(taken..).filter(|one| !one.is_behind).map(|one| one.end);
        let last = ends.fold(0, |before, end| {
            assert!(before <= end, "an answer that ends at {end} leaves behind one that ends at {before}");
            end
        });
        assert!(last <= output_bytes, "an answer ends at {last} of {output_bytes} bytes of output");
    }

    /// Bytes come before the output, so many, whose leaving is not waited for.
    pub(crate) fn put_before(&mut self, bytes: usize) {
        self.queue.iter_mut().for_each(|answer| answer.end += bytes);
        self.taken = self.left;
    }
}

impl Portable for InFlightAnswers {
    fn write(&self, to: &mut Encoded) {
        let waiting = self.queue.range(self.left..);
        u32::try_from(waiting.len()).expect("what a connection holds is bounded").write(to);
        for InFlightAnswer { end, outcome, request, .. } in waiting {
            (*end as u64).write(to);
            outcome.status.write(to);
            outcome.content_bytes.write(to);
            outcome.started.write(to);
            let saved = request
                .as_ref()
                .map(|(head, at)| Saved::new(self.requests[*at..*at + usize::from(head.length)].to_vec(), *head));
            saved.write(to);
        }
    }

    fn read(from: &mut Source<'_>) -> Result<InFlightAnswers, Malformed> {
        let mut in_flight = InFlightAnswers::default();
        for _ in 0..u32::read(from)? {
            let end = usize::try_from(u64::read(from)?).map_err(|_| Malformed)?;
            let (status, content_bytes) = (u16::read(from)?, u64::read(from)?);
            let outcome = Outcome { status, content_bytes, started: Instant::read(from)?, over_http2: false };
            let request = Option::<Saved>::read(from)?;
            let is_next = in_flight.queue.back().is_none_or(|last| last.end <= end);
            checked((), is_next && content_bytes <= CONTENT_BYTES_MAX)?;
            in_flight.push_kept(end, outcome, request.as_ref());
        }
        Ok(in_flight)
    }
}

impl InFlightAnswers {
    /// Whether all end within so many bytes of output.
    pub(crate) fn end_within(&self, bytes: usize) -> bool {
        self.queue.back().is_none_or(|last| last.end <= bytes)
    }
}
