//! The promise of a slot about generations that fail at once, under every reordering that the memory model allows.
//!
//! The source of `slot` is compiled a second time, over loom's atomics.

#[path = "slot.rs"]
#[allow(
    clippy::duplicate_mod,
    dead_code,
    unreachable_pub,
    reason = "the same source over other atomics, of which the model uses a part"
)]
mod slot;

/// Loom's primitives. A reason has two words in the model, which is enough to be torn.
mod sync {
    /// Models have one process.
    macro_rules! process_shared {
        ($($item:tt)*) => { $($item)* };
    }
    pub(super) use process_shared;

    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    pub(super) const REASON_WORDS: usize = 2;
}

use std::sync::Arc;

use lamna_loom::{check, spawn};
use slot::{Reason, Slot};

/// Sixteen of its digit.
fn reason(generation: u64) -> String {
    generation.to_string().repeat(16)
}

fn is_own(slot: &Slot, generation: u64) -> bool {
    slot.failure(generation).is_none_or(|why| why == Reason::Logged || why == Reason::Told(reason(generation)))
}

#[test]
fn a_reason_is_that_of_its_generation_or_none_while_another_fails() {
    check(|| {
        let slot = Arc::new(Slot::default());
        let older = {
            let slot = Arc::clone(&slot);
            spawn(move || slot.fail(1, &reason(1)))
        };
        let newer = {
            let slot = Arc::clone(&slot);
            spawn(move || slot.fail(2, &reason(2)))
        };
        assert!(is_own(&slot, 1) && is_own(&slot, 2));
        older.join().unwrap();
        assert!(newer.join().unwrap(), "nothing newer had failed");
        assert!(is_own(&slot, 2) && slot.failure(2).is_some() && slot.failure(1).is_none());
    });
}

#[test]
fn of_two_that_see_a_generation_fail_one_is_the_first_and_the_reason_is_told() {
    check(|| {
        let slot = Arc::new(Slot::default());
        let other = {
            let slot = Arc::clone(&slot);
            spawn(move || slot.fail(1, &reason(1)))
        };
        let is_first = slot.fail(1, &reason(1));
        assert!(is_first != other.join().unwrap());
        assert_eq!(slot.failure(1), Some(Reason::Told(reason(1))));
    });
}
