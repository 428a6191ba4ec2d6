//! One request and its answer: what it needs from the world, and how what the world gives becomes an answer.
//!
//! Owns: [`Need`] and [`Done`], the vocabulary between core and driver; how far an exchange is (`state`), with a
//! program that answers it (`running`) or what that has given (`sending`); and what it is answered with (`answer`).
//! Guarantees: pure, and without regard to the version of HTTP, of which there may be more. Does not know order,
//! windows or framing: those are the connection's business.

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
pub(crate) mod state;
pub(crate) mod wake;

use std::sync::Arc;

use crate::error::Refusal;
pub use crate::exchange::given::{ContentBuffer, Finding};
use crate::exchange::program::Program;
pub(crate) use crate::exchange::saved::Saved;
use crate::message::Request;
use crate::resource::{Representation, Resource};

/// Names an exchange within its connection. Never reused while the connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(pub u32);

/// The need of an exchange before it can go on. Each may block; where it is carried out is the driver's choice.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// Find out what answers a request. Answer: [`Done::Resolved`], [`Done::Refused`] or [`Done::Run`]. The
    /// content of the request, if it has any, has not been received yet.
    Resolve(RequestedResource<'a>),
    /// Make a stretch of a representation sendable without waiting: content in memory ([`Representation::fill`]) or
    /// pages of its file resident. Answer: [`Done::Ready`], [`Done::Content`] or [`Done::Failed`].
    Read(Read<'a>),
    /// Carry out a step of the program that answers the request: [`step`](crate::conn::Connection::step) gives it.
    /// Answer:
    /// [`handle_step_result`](crate::conn::Connection::handle_step_result). It is never deferred by `defer`: the driver
    /// has the program meanwhile.
    Run,
}

/// The resource that a request asks for: the facts by which a driver finds it. See [`Need::Resolve`].
#[derive(Clone, Copy, Debug)]
pub struct RequestedResource<'a> {
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
    /// The same request was resolved before: a program has asked for it again, there was no room for its resource, or
    /// the driver that was asked has gone. Limits have counted it.
    pub is_again: bool,
    /// How often an application has named another path in its place
    /// ([`StepResult::Redirected`](program::StepResult::Redirected)).
    pub redirects: u8,
    /// How it has come to this path, if an application has named it; none where another process has been told of that.
    pub led: Option<Led<'a>>,
    /// The finding of a program about this request ([`StepResult::Found`](program::StepResult::Found)), which is known
    /// nowhere else.
    pub found: Option<&'a Finding>,
}

/// The way of a request to a path that an application has named
/// ([`StepResult::Redirected`](program::StepResult::Redirected)).
#[derive(Clone, Copy, Debug)]
pub struct Led<'a> {
    /// The paths in whose place it is, normalised: what counts requests has counted this one for each of them.
    pub earlier: &'a [Box<[u8]>],
    /// The request is resolved for the first time since.
    pub is_first: bool,
}

impl RequestedResource<'_> {
    /// The same once more, if `is_again`.
    pub(crate) fn again(self, is_again: bool) -> Self {
        RequestedResource { is_again, ..self }
    }
}

impl RequestedResource<'_> {
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

/// The result of a [`Need`].
#[derive(Debug)]
pub enum Done<'a> {
    /// The resource, which is read: what the request sends is discarded.
    Resolved(&'a Arc<Resource>),
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
