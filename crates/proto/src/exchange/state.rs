//! How far an exchange is, from its head to the last byte of its answer.
//!
//! Owns: [`State`], for every version of HTTP, and what follows from it alone: what an exchange holds, what it needs
//! next, and what its answer is counted as. Does not know order, windows or framing, by which a version decides when it
//! goes on.

use std::sync::Arc;

use super::answer::{self, Answer};
use super::range::ByteRange;
use super::rules::requested_resource_of_saved;
use super::running::Running;
use super::saved::Saved;
use super::sending::Sending;
use super::{Need, Read};
use crate::limits::{LINGER_MS_MAX, Limits};
use crate::resource::Resource;
use crate::tally::Outcome;
use crate::time::Instant;

/// ```text
///  Wanting --poll_need--> Resolving --Resolved--> Resolved --its turn--> Answering --all sent--> (gone)
///     ^--room-------------- Postponed <--no room--'
///                              '-----Run-----> Running --Answer--> Resolved
///                                                 '----parts, all sent--> (gone)
///  Answering, Running --all sent, and the request has not ended--> Answered --its end, a reset, or time--> (gone)
/// ```
/// Refusals and immediate answers begin as Answering. A version whose exchanges have no order decides on the answer at
/// once, and has none that is Resolved. One that keeps its place by the order of its exchanges has none that is
/// Answered.
#[derive(Debug)]
pub(crate) enum State {
    /// Its head is complete, and its `Need::Resolve` has not been handed out.
    Wanting,
    /// The driver is finding out what the target stands for.
    Resolving,
    /// Known, but earlier exchanges are still being answered.
    Resolved(Arc<Resource>),
    /// It was known, but there was no room to hold it beside others: wanted again when there is.
    Postponed,
    /// A program answers it, or has given all of its answer, which is being sent.
    Running(Running),
    /// Waiting for its turn with an answer that is known already, or being sent. In place: the space of exchanges is
    /// used again.
    Answering(Answer),
    /// It has been written to its end. What still comes of the content is discarded, for as long as HTTP/1.x lingers.
    Answered(Discarding),
}

/// Since when content is discarded behind an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Discarding {
    since: Instant,
    /// When some has come last.
    last: Instant,
}

impl Discarding {
    pub(crate) fn new(now: Instant) -> Discarding {
        Discarding { since: now, last: now }
    }

    /// Some has come.
    pub(crate) fn note(&mut self, now: Instant) {
        self.last = now;
    }

    /// Until when it goes on.
    pub(crate) fn until(self, limits: &Limits) -> Instant {
        let most = self.since.after_ms(limits.linger_timeout_ms.max(LINGER_MS_MAX));
        self.last.after_ms(limits.linger_timeout_ms).min(most)
    }
}

// What it is.
impl State {
    pub(crate) fn is_wanting(&self) -> bool {
        matches!(self, State::Wanting)
    }

    pub(crate) fn is_resolving(&self) -> bool {
        matches!(self, State::Resolving)
    }

    pub(crate) fn is_postponed(&self) -> bool {
        matches!(self, State::Postponed)
    }

    pub(crate) fn answer(&self) -> Option<&Answer> {
        if let State::Answering(answer) = self { Some(answer) } else { None }
    }

    pub(crate) fn answer_mut(&mut self) -> Option<&mut Answer> {
        if let State::Answering(answer) = self { Some(answer) } else { None }
    }

    pub(crate) fn running(&self) -> Option<&Running> {
        if let State::Running(running) = self { Some(running) } else { None }
    }

    pub(crate) fn running_mut(&mut self) -> Option<&mut Running> {
        if let State::Running(running) = self { Some(running) } else { None }
    }

    /// The answer of a program, if it has begun.
    pub(crate) fn sending(&self) -> Option<&Sending> {
        self.running()?.sending()
    }
}

// What follows from it.
impl State {
    /// The next need, if it is one that is answered by [`Done`](super::Done). `request` is the one that is to
    /// be answered.
    pub(crate) fn need<'a>(&'a mut self, request: &'a mut Option<Saved>) -> Option<Need<'a>> {
        if self.is_wanting() {
            *self = State::Resolving;
            let saved = request.as_mut()?;
            let is_again = saved.ask();
            return Some(Need::Resolve(requested_resource_of_saved(saved).again(is_again)));
        }
        let answer = self.answer_mut()?;
        answer.reading = true;
        let ByteRange { offset, length } = answer.wanted();
        Some(Need::Read(Read { representation: &answer.representation, offset, length }))
    }

    /// Status and content so far of an answer that has begun: a part of it may have left.
    pub(crate) fn begun(&self) -> Option<(u16, u64)> {
        match self {
            State::Answering(answer) if answer.begun => Some((answer.status.0, answer.content_bytes)),
            _ => self.sending().map(Sending::begun),
        }
    }

    /// The answer to a request whose head had been received when it `started`, as it is counted and logged, once that
    /// has begun.
    pub(crate) fn outcome(&self, started: Instant, over_http2: bool) -> Option<Outcome> {
        let (status, content_bytes) = self.begun()?;
        Some(Outcome { status, content_bytes, started, over_http2 })
    }

    /// Whether its answer is known, has not begun, and holds whatever its content is.
    pub(crate) fn holds_without_content(&self) -> bool {
        match self {
            State::Resolved(resource) => answer::holds_without_content(resource.status),
            State::Answering(answer) => !answer.begun && answer::holds_without_content(answer.status),
            _ => false,
        }
    }

    /// Bytes of content in memory that it holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        match self {
            State::Resolved(resource) => resource.held_bytes(),
            State::Answering(answer) => answer.representation.held_bytes(),
            State::Running(running) => running.sending().map_or(0, Sending::queued_bytes),
            State::Wanting | State::Resolving | State::Postponed | State::Answered(_) => 0,
        }
    }

    /// Checks that its parts agree.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn check_invariants(&self) {
        match self {
            State::Running(running) => running.check_invariants(),
            State::Answering(answer) => answer.check_invariants(),
            State::Wanting | State::Resolving | State::Resolved(_) | State::Postponed | State::Answered(_) => {}
        }
    }

    /// Bytes of memory that it takes beyond itself, but for resources, which are shared.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.running().map_or(0, Running::memory_bytes)
    }

    /// Descriptors that its answer holds.
    pub(crate) fn descriptors(&self) -> usize {
        match self {
            State::Running(running) => running.holds().descriptors,
            State::Answering(answer) => usize::from(answer.representation.file.is_some()),
            State::Resolved(resource) => usize::from(resource.variants.first().file.is_some()),
            State::Wanting | State::Resolving | State::Postponed | State::Answered(_) => 0,
        }
    }
}
