//! The load generator: event loops that ask a server for things and note what it answers and when.
//!
//! Owns: the job ([`plan`]), its execution in threads ([`mod@run`]), what came of it ([`outcome`]), whether the
//! generator was itself the bottleneck ([`verdict`]), and how it is shown ([`summary`]).
//!
//! Definitions. Closed loop: each connection sends its next request when it has its answer, and latency counts from the
//! moment the request is made (with a new connection for each request, from the beginning of connecting). Open loop:
//! requests are due at times that do not depend on the server, and latency counts from the moment a request was *due*,
//! whatever kept it from being sent. So a server that stops for a second is charged with all requests that were due in
//! that second, not with the one that happened to be under way ("coordinated omission").
//!
//! ```text
//!  connect all --> (all threads) --> warm up --> measure --> drain: send no more, wait for what is under way --> done
//! ```

mod connection;
pub mod content;
mod feed;
pub mod histogram;
pub mod outcome;
pub mod plan;
mod recorder;
pub mod run;
pub mod summary;
mod thread_state;
mod timers;
pub mod url;
pub mod verdict;
mod worker;

pub use outcome::Outcome;
pub use plan::Plan;
pub use run::{Control, LoadError, run};
