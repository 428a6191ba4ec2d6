//! Metrics: counts and measurements made while serving.
//!
//! Owns: the counters that all workers add to, the time of each step, how busy each worker is, and the account of
//! memory. Guarantees: nothing here is written on the cached path but a worker's own memory. Does not report: `admin`
//! does.

pub mod applications;
pub mod counters;
pub mod memory_accounting;
pub mod operator_state;
pub mod scoreboard;
pub mod stall;
pub mod step_timer;
pub mod trace;

/// Primitives of the memory account; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    pub(super) use crate::allocator::LARGE_BYTES_MIN;
}
