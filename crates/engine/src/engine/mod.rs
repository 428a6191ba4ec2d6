//! Engines: one concurrency architecture each, over the same core.
//!
//! Owns: what all engines share ([`Shared`], [`Control`]) and what every engine owes, below. An engine decides who
//! waits, where what may block is carried out, and who owns the caches; it contains no HTTP.
//!
//! # What an engine owes
//! - It drives connections exactly as `lamna_proto::conn` says, and carries their needs out or defers them.
//! - It waits for listening sockets that it does not own and that stay open when it goes.
//! - It calls [`Control::report_begun`] once it has everything that it needs to serve, and not before.
//! - It honours [`Control`]: on draining it takes no new connection, finishes what has begun and returns; on stopping
//!   it returns at once; on handing over it gives its connections to its successor, in whatever state they are, and
//!   returns ([`handover`](crate::worker::migration::handover)). It goes on with those that another engine gives it,
//!   and finds those that another process gives it there as well, unless it takes them from [`Shared::receiver`].
//! - Running out of descriptors or memory costs waiting, never a connection that was accepted.

pub mod amped;
pub mod mp;
pub mod pipelined;
pub mod proactor;
pub mod sped;
pub mod thread_per_request;
pub mod thread_per_session;
pub mod thread_pool;

use std::fmt;
use std::sync::Arc;

use rustix::io::Errno;

pub use crate::worker::control::Control;

use lamna_config::settings::{Architecture, Settings};

use crate::worker::shared::Shared;

/// An engine of the program that the server is a part of (`embed::engine`), in the place of those of the server.
pub trait Engine: fmt::Debug + Send + Sync {
    /// Serves as worker `index` of this process until told to drain or stop, and owes what the module says. Called in a
    /// thread for each worker, and again where a worker has failed.
    ///
    /// # Errors
    /// The error that keeps the worker from beginning or going on; no peer can cause one.
    fn run(&self, shared: &Arc<Shared>, index: usize) -> Result<(), Errno>;

    /// The architecture whose place it takes: what the server knows of that is held to be true of this engine, such as
    /// how many threads it needs memory for and whether a slow peer keeps a thread. None of processes.
    fn architecture(&self) -> Architecture {
        Architecture::Sped
    }
}

/// Serves as worker `index` of this process until told to drain or stop.
///
/// # Errors
/// The error that keeps the worker from beginning or going on; no peer can cause one.
pub fn run(shared: &Arc<Shared>, index: usize, settings: &Settings) -> Result<(), Errno> {
    match settings.architecture {
        Architecture::Sped => sped::run(shared, index),
        Architecture::Amped | Architecture::CoAmped => amped::run(shared, index, settings.helpers_max),
        Architecture::Mp => mp::run(shared, index, settings.processes.max(settings.processes_max)),
        Architecture::Proactor => proactor::run(shared, index, settings.helpers_max),
        Architecture::Pipelined => pipelined::run(shared, index),
        Architecture::ThreadPool => thread_pool::run(shared, index),
        Architecture::ThreadPerRequest => thread_per_request::run(shared, index),
        Architecture::ThreadPerSession => thread_per_session::run(shared, index),
    }
}
