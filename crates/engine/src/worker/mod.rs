//! Building blocks of the engines: one worker's connections, caches and clock, and the loops that drive connections.
//!
//! Owns: the context of a worker, its table of connections, the two ways to drive a connection (event loop, blocking
//! calls), the helpers that may wait for a disk, and the migration of connections. Knows no architecture: `engine` has
//! one file for each.

pub mod acceptor;
#[cfg(test)]
mod adversary;
pub mod blocking;
pub mod cache_key;
pub(crate) mod coalesced_lookups;
pub mod confinement;
pub mod connection_counter;
pub mod connection_state;
pub mod connection_table;
pub mod context;
pub mod control;
pub mod drive;
pub mod event_loop;
pub mod executor;
pub mod explain;
pub mod file_range;
pub mod helpers;
pub mod idle_set;
pub mod life;
pub mod limiter;
pub mod liveness;
pub mod making;
pub mod migration;
mod proxy_header;
pub mod read_ahead;
pub(crate) mod read_buffer;
pub mod room;
pub mod run_queue;
pub mod shared;
pub mod socket_waits;
pub mod spawner;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod transport;
pub mod turn_budget;
pub mod uplink;

/// The synchronisation primitives of `control`. The models substitute their own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    pub(super) use lamna_io::waker::Waker;
}
