//! The names of the architectures.
//!
//! Owns: which there are, and how each is called. What they are the models beside it say.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The architectures by the names of the engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A process per connection being served.
    Mp,
    /// A thread per connection being served.
    ThreadPool,
    /// A thread spawned per request.
    ThreadPerRequest,
    /// A thread per client.
    ThreadPerSession,
    /// One event loop per processor, in processes of their own; disk reads stall the loop.
    Sped,
    /// Event loops and helpers, one process, shared caches.
    Amped,
    /// AMPED processes that share nothing but content: the AMPED of the PIPELINED paper on several processors.
    CoAmped,
    /// Stage threads per processor.
    Pipelined,
    /// One completion ring per worker, shared caches, the kernel reads.
    Proactor,
    /// Event loops as threads that share the caches; disk reads stall the loop.
    EventLoops,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 10] = [
        Kind::Mp,
        Kind::ThreadPool,
        Kind::ThreadPerRequest,
        Kind::ThreadPerSession,
        Kind::Sped,
        Kind::Amped,
        Kind::CoAmped,
        Kind::Pipelined,
        Kind::Proactor,
        Kind::EventLoops,
    ];

    /// The five of the PIPELINED paper, in its order.
    pub const PAPER: [Kind; 5] = [Kind::Mp, Kind::ThreadPool, Kind::Sped, Kind::CoAmped, Kind::Pipelined];

    /// The engine's name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mp => "mp",
            Kind::ThreadPool => "thread-pool",
            Kind::ThreadPerRequest => "thread-per-request",
            Kind::ThreadPerSession => "thread-per-session",
            Kind::Sped => "sped",
            Kind::Amped => "amped",
            Kind::CoAmped => "co-amped",
            Kind::Pipelined => "pipelined",
            Kind::Proactor => "proactor",
            Kind::EventLoops => "event-loops",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Not the name of an architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArchitecture(pub String);

impl fmt::Display for UnknownArchitecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "no architecture is called `{}`; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownArchitecture {}

impl FromStr for Kind {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownArchitecture(name.into()))
    }
}
