//! Which services have failed, for all processes to see.
//!
//! Owns: one [`slot`] for each service in shared memory. Guarantees: the first failure of a generation is the one that
//! is told; a failure of an older generation never marks a newer one, because generations only grow and each marks its
//! own number. Says nothing by itself: [`Board::fail`] says whether it was the first.

#[cfg(test)]
mod model;
mod slot;

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

use lamna_config::service::SERVICES_MAX;
use lamna_sys::shared_memory::process_shared;
use slot::{Reason, Slot};

/// Primitives of a slot; the loom model substitutes its own.
mod sync {
    pub(super) use lamna_sys::shared_memory::process_shared;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};

    /// Words of eight bytes that a reason has room for.
    pub(super) const REASON_WORDS: usize = 24;
}

process_shared! {
    /// The slots of all services.
    #[derive(Debug)]
    pub(crate) struct Board {
        pub(super) slots: [Slot; SERVICES_MAX],
        failures: AtomicU64,
    }
}

impl Default for Board {
    fn default() -> Board {
        Board { slots: std::array::from_fn(|_| Slot::default()), failures: AtomicU64::new(0) }
    }
}

impl Board {
    /// Failures of all services so far.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Acquire)
    }

    /// This generation of the service at `slot` has failed. True if it is the first report of that.
    pub(super) fn fail(&self, slot: usize, generation: u64, reason: &str) -> bool {
        let is_first = self.slots.get(slot).is_some_and(|slot| slot.fail(generation, reason));
        if is_first {
            // Last: a reader that sees it finds the generation failed.
            self.failures.fetch_add(1, AcqRel);
        }
        is_first
    }

    /// Why this generation of the service at `slot` has failed; none if it has not.
    pub(super) fn failure(&self, slot: usize, generation: u64) -> Option<String> {
        Some(match self.slots.get(slot)?.failure(generation)? {
            Reason::Told(why) => why,
            Reason::Logged => "the error log says why".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_of_a_generation_is_told_and_an_older_one_marks_nothing() {
        let board = Board::default();
        assert!(board.fail(3, 7, "it took too long") && !board.fail(3, 7, "something else"));
        assert_eq!(board.failure(3, 7).as_deref(), Some("it took too long"));
        assert_eq!((board.failure(3, 8), board.failure(2, 7)), (None, None));
        assert!(!board.fail(3, 6, "late") && board.failure(3, 7).is_some());
        assert!(board.fail(3, 9, &"long ".repeat(100)) && board.failure(3, 7).is_none());
        assert!(board.failure(3, 9).unwrap().starts_with("long long"));
        assert_eq!(board.failures(), 2);
    }
}
