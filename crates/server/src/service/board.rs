//! Which services have failed, for all processes to see.
//!
//! Owns: one slot for each service in shared memory. Guarantees: the first failure of a generation is the one that is told; a failure of
//! an older generation never marks a newer one, because generations only grow and each marks its own number. Says nothing
//! by itself: [`Board::fail`] says whether it was the first.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::config::service::SERVICES_MAX;
use crate::sys::shared_memory::process_shared;

/// Words of eight bytes that a reason has room for.
const REASON_WORDS: usize = 24;

process_shared! {
    /// The slots of all services.
    #[derive(Debug)]
    pub(crate) struct Board {
        pub(super) slots: [Slot; SERVICES_MAX],
        failures: AtomicU64,
    }
}

process_shared! {
    /// What is known of one service.
    #[derive(Debug, Default)]
    pub(super) struct Slot {
        /// The newest generation that has failed; zero for none.
        failed: AtomicU64,
        /// The generation whose reason is written here, once it is.
        told: AtomicU64,
        reason: [AtomicU64; REASON_WORDS],
        runs: AtomicU64,
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

    /// This generation of the service at `slot` has failed. True if nobody has said so before.
    pub(super) fn fail(&self, slot: usize, generation: u64, reason: &str) -> bool {
        let Some(slot) = self.slots.get(slot) else { return false };
        let newer = |failed: u64| (failed < generation).then_some(generation);
        if slot.failed.fetch_update(AcqRel, Acquire, newer).is_err() {
            return false;
        }
        for (index, word) in slot.reason.iter().enumerate() {
            let bytes = std::array::from_fn(|at| reason.as_bytes().get(index * 8 + at).copied().unwrap_or(0));
            word.store(u64::from_ne_bytes(bytes), Relaxed);
        }
        slot.told.store(generation, Release);
        slot.failures.fetch_add(1, Relaxed);
        // Last: whoever sees it finds the generation failed.
        self.failures.fetch_add(1, AcqRel);
        true
    }

    /// Why this generation of the service at `slot` has failed; none if it has not.
    pub(super) fn failure(&self, slot: usize, generation: u64) -> Option<String> {
        let slot = self.slots.get(slot).filter(|slot| slot.failed.load(Acquire) == generation)?;
        if slot.told.load(Acquire) != generation {
            return Some("the reason is being written".to_owned());
        }
        let bytes: Vec<u8> = slot.reason.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl Slot {
    pub(super) fn count_run(&self) {
        self.runs.fetch_add(1, Relaxed);
    }

    pub(super) fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
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
