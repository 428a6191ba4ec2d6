//! A value in place of which another is put now and then, and how often that was.
//!
//! ```text
//!   who makes something of it:   number ── value ── makes ──> keeps it with the number
//!   who uses that:               the number is another one? ──> it is made again
//! ```
//!
//! Owns: the value and its number. Guarantees: a reader of the number before the value that later finds the same number
//! has the value that is current then; at worst it is made once more for nothing. Checked against every interleaving in
//! `model`.

use std::sync::{Arc, PoisonError};

use super::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
    RwLock,
};

/// The value.
#[derive(Debug, Default)]
pub(crate) struct Current<T> {
    value: RwLock<Arc<T>>,
    /// Counted after the value is there.
    changes: AtomicU64,
}

impl<T> Current<T> {
    /// The current value.
    pub(super) fn get(&self) -> Arc<T> {
        self.value.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often another value was put in its place. To be read before the value.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }

    /// Puts `value` in its place.
    pub(super) fn replace(&self, value: T) {
        *self.value.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
        self.changes.fetch_add(1, AcqRel);
    }
}
