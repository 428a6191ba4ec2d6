//! Certificates that look after themselves: ordered, installed and renewed by ACME (RFC 8555, 8737, 9773).
//!
//! ```text
//!   Settings ── names, certificate authority ──> Agent, a thread ── lock of a name ──> order ── https ──> authority
//!                                                  │ schedule: what is due, and when again    │ challenges
//!                                                  v                                          v
//!                                             records (files)            port 80, handshakes of acme-tls/1: every process
//!                                                  v
//!                                             tls::endpoint sees the new pair and serves it
//! ```
//!
//! Owns: when which certificate is ordered, and what came of it. Guarantees: serving never waits for a certificate
//! authority; of all processes and servers that share a state directory one orders a name at a time, and what it has
//! found out counts for all; a failure is followed by a pause that grows and is kept over restarts. Everything that
//! processes have to know of each other lies in files ([`crate::automatic`]), so it is the same with threads, worker
//! processes, and while one process takes the place of another.

pub mod agent;
pub mod http;
#[cfg(test)]
mod model;
pub mod order;
pub mod record;
pub mod schedule;
pub mod status;
mod watch;

/// Synchronisation primitives of the watch channel; the loom model substitutes its own.
mod sync {
    use std::time::Duration;

    pub(super) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

    pub(super) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>, most: Duration) -> MutexGuard<'a, T> {
        changed.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner).0
    }
}

pub use agent::AcmeService;
pub use status::{Ordered, status, try_now};
