//! A value that one thread changes now and then, and others read often.
//!
//! Owns: the value, and how often it was changed. Guarantees: who reads does not go back to an older value, and does
//! not miss the last one; as long as nothing has changed it reads an atomic and takes no lock. Checked against every
//! interleaving in `model`.

use std::sync::PoisonError;

use super::sync::{AtomicU64, Mutex, Relaxed};

/// The value.
#[derive(Debug)]
pub(crate) struct Published<T> {
    /// Changed under the lock only. Outside of it, it is a hint that there is something to read under it.
    generation: AtomicU64,
    value: Mutex<T>,
}

impl<T: Clone> Published<T> {
    /// This, in its generation 0.
    pub(crate) fn new(value: T) -> Published<T> {
        Published { generation: AtomicU64::new(0), value: Mutex::new(value) }
    }

    /// Changes the value; `change` says whether it did.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut value) {
            // An addition although this is the only writer: loom does not try a plain store before a load that it has
            // seen first.
            self.generation.fetch_add(1, Relaxed);
        }
    }

    /// The value, if it is of another generation than the one that was read last.
    pub(crate) fn read_if_changed(&self, seen: &mut u64) -> Option<T> {
        if self.generation.load(Relaxed) == *seen {
            return None;
        }
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = self.generation.load(Relaxed);
        Some(value.clone())
    }
}
