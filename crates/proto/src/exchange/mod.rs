//! One request and its answer: what it needs from the world, and how what the world gives becomes an answer.
//!
//! Owns: [`Need`] and [`Done`], the vocabulary between core and driver, and [`Exchange`], a request that could not be
//! answered at once. Guarantees: pure; answers are decided on without regard to the version of HTTP that writes them.
//! Does not know order: that is the connection's business.

pub(crate) mod answer;
pub mod conditional;
pub mod early_hints;
pub(crate) mod given;
pub mod negotiate;
pub mod program;
pub mod range;
pub(crate) mod rules;
pub(crate) mod running;
pub(crate) mod saved;
pub(crate) mod sending;
pub(crate) mod wake;

use std::sync::Arc;

use crate::conn::Persistence;
use crate::error::Refusal;
use crate::exchange::answer::Answer;
pub use crate::exchange::given::{ContentBuffer, Finding};
use crate::exchange::program::Program;
use crate::exchange::running::Running;
pub(crate) use crate::exchange::saved::Saved;
use crate::exchange::sending::Sending;
use crate::message::Request;
use crate::resource::{Representation, Resource};
use crate::tally::Outcome;
use crate::time::Instant;

/// Names an exchange within its connection. Never reused while the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(pub u32);

/// The need of an exchange before it can go on. Each may block; where it is carried out is the driver's choice.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// Find out what a request is answered with. Answer: [`Done::Translated`], [`Done::Refused`] or [`Done::Run`]. The content of the
    /// request, if it has any, has not been received yet.
    Translate(Translate<'a>),
    /// Make a stretch of a representation sendable without waiting: content in memory ([`Representation::fill`]) or
    /// pages of its file resident. Answer: [`Done::Ready`], [`Done::Content`] or [`Done::Failed`].
    Read(Read<'a>),
    /// Carry out a step of the program that answers the request: [`step`](crate::conn::Connection::step) gives it. Answer:
    /// [`handle_ran`](crate::conn::Connection::handle_ran). It is never deferred by `defer`: the driver has the program meanwhile.
    Run,
}

/// See [`Need::Translate`].
#[derive(Clone, Copy, Debug)]
pub struct Translate<'a> {
    /// The host that is asked, without port, as received; none in HTTP/1.0 without Host.
    pub host: Option<&'a [u8]>,
    /// The path as received: begins with `/`, not decoded, not normalised.
    pub path: &'a [u8],
    /// The query, without `?`.
    pub query: Option<&'a [u8]>,
    /// Path, `?` and query as they stand in the target.
    pub path_and_query: &'a [u8],
    /// The request, for what depends on more than the target; none if no client asks.
    pub request: Option<Request<'a>>,
    /// The same request was asked about before: a program has wished so, there was no room for what it stood for, or who was asked has
    /// gone. What counts requests has counted it.
    pub is_again: bool,
    /// How often an application has named another path in its place ([`Ran::Redirected`](program::Ran::Redirected)).
    pub redirects: u8,
    /// The finding of a program about this request ([`Ran::Found`](program::Ran::Found)), which is known nowhere else.
    pub found: Option<&'a Finding>,
}

impl Translate<'_> {
    /// The same once more, if `is_again`.
    pub(crate) fn again(self, is_again: bool) -> Self {
        Translate { is_again, ..self }
    }
}

impl Translate<'_> {
    /// Whether JSON suits the client better than HTML. To be asked only where there are both: it reads the request's
    /// fields.
    pub fn prefers_json(&self) -> bool {
        self.request.is_some_and(answer::prefers_json)
    }
}

/// See [`Need::Read`].
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The representation to read.
    pub representation: &'a Arc<Representation>,
    /// First byte of content.
    pub offset: u64,
    /// Bytes wanted, at least 1. The driver may make fewer ready, but at least 1.
    pub length: u64,
}

/// That something needed has been done.
#[derive(Debug)]
pub enum Done<'a> {
    /// The target stands for this, which is read: what the request sends is discarded.
    Translated(&'a Arc<Resource>),
    /// The request is not served.
    Refused(Refusal),
    /// This answers the request.
    Run(Box<dyn Program>),
    /// So many bytes from the wanted offset on can be sent from the file without waiting.
    Ready(u64),
    /// These bytes, at least one, were read from the wanted offset on. The exchange keeps them until they are sent.
    Content(&'a Arc<dyn ContentBuffer>),
    /// The content cannot be read, or is no longer what the head says: truncated, changed, or a read error.
    Failed,
}

/// A request that is not yet answered in full.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) request: Option<Saved>,
    pub(crate) state: State,
    /// The persistence that the answer announces, once it is decided on.
    pub(crate) persistence: Persistence,
    /// Its content has not been received to the end, and it is not answered before that.
    pub(crate) awaits_content: bool,
    /// When its head had been received.
    pub(crate) started: Instant,
}

/// ```text
///  Wanting --poll_need--> Translating --Translated--> Translated --first in line--> Answering --all sent--> (gone)
///     ^------first in line------ Postponed <--no room--'
///                               '-----Run-----> Running --Answer--> Translated
///                                                  '------parts, all sent--> (gone)
/// ```
/// Refusals and immediate answers begin as Answering.
#[derive(Debug)]
pub(crate) enum State {
    /// Its head is complete, and its Translate has not been handed out.
    Wanting,
    /// The driver is finding out what the target stands for.
    Translating,
    /// Known, but earlier exchanges are still being answered.
    Translated(Arc<Resource>),
    /// It was known, but there was no room to hold it behind earlier exchanges: wanted again when it is first in line.
    Postponed,
    /// A program answers it, or has given all of its answer, which is being sent.
    Running(Running),
    /// Waiting for its turn with an answer that is known already, or being sent.
    Answering(Answer),
}

impl Exchange {
    /// Bytes of content in memory that it holds while it waits.
    pub(crate) fn held_bytes(&self) -> u64 {
        match &self.state {
            State::Translated(resource) => resource.held_bytes(),
            State::Answering(answer) => answer.representation.held_bytes(),
            State::Running(running) => running.sending().map_or(0, Sending::queued_bytes),
            State::Wanting | State::Translating | State::Postponed => 0,
        }
    }

    /// The outcome that its answer is counted and logged as, once that has begun.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let (status, content_bytes) = match &self.state {
            State::Answering(answer) if answer.begun => (answer.status.0, answer.content_bytes),
            State::Running(running) => running.sending()?.begun(),
            _ => return None,
        };
        Some(Outcome { status, content_bytes, started: self.started, over_http2: false })
    }

    /// Whether a part of its answer may have left.
    pub(crate) fn has_begun(&self) -> bool {
        match &self.state {
            State::Answering(answer) => answer.begun,
            State::Running(running) => running.has_begun(),
            State::Wanting | State::Translating | State::Translated(_) | State::Postponed => false,
        }
    }

    /// Whether its answer is known, has not begun, and holds whatever its content is.
    pub(crate) fn holds_without_content(&self) -> bool {
        match &self.state {
            State::Translated(resource) => answer::holds_without_content(resource.status),
            State::Answering(answer) => !answer.begun && answer::holds_without_content(answer.status),
            State::Running(_) | State::Wanting | State::Translating | State::Postponed => false,
        }
    }

    /// Bytes of memory that an answer takes which is sent while it is made.
    pub(crate) fn stream_bytes(&self) -> usize {
        match &self.state {
            State::Running(running) => running.memory_bytes(),
            _ => 0,
        }
    }

    /// Descriptors that its answer holds.
    pub(crate) fn descriptors(&self) -> usize {
        let of = |file: bool| usize::from(file);
        match &self.state {
            State::Running(running) => running.holds().descriptors,
            State::Answering(answer) => of(answer.representation.file.is_some()),
            State::Translated(resource) => of(resource.variants.first().file.is_some()),
            State::Wanting | State::Translating | State::Postponed => 0,
        }
    }
}
