//! How much memory parked connections hold, all together.
//!
//! Owns: [`Held`], one sum for all connections of a process. Guarantees: what a connection added it takes off again
//! when it holds less, or is gone. Only connections that hold much add to it, and only when they are parked, so that a
//! connection whose requests are answered at once never touches it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of memory that connections hold.
#[derive(Debug, Default)]
pub struct Held(AtomicU64);

impl Held {
    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The memory that one connection holds.
#[derive(Debug)]
pub(crate) struct Charge {
    held: Arc<Held>,
    bytes: u64,
}

impl Charge {
    /// Counts `bytes` in `held` as long as the value lives.
    pub(crate) fn new(held: &Arc<Held>, bytes: u64) -> Charge {
        held.0.fetch_add(bytes, Relaxed);
        Charge { held: held.clone(), bytes }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.0.fetch_sub(self.bytes, Relaxed);
    }
}
