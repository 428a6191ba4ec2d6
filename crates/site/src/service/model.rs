//! The promise about number and value, run through every interleaving. The source is compiled a second time, over
//! loom's primitives.

#[path = "current.rs"]
#[allow(clippy::duplicate_mod, dead_code, unreachable_pub, reason = "the same source over other primitives")]
mod current;

/// Loom's primitives.
mod sync {
    pub(super) use loom::sync::RwLock;
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

use std::sync::Arc;

use current::Current;
use lamna_loom::{check, spawn};

#[test]
fn who_finds_the_number_that_was_read_before_the_value_has_the_current_one() {
    check(|| {
        let current = Arc::new(Current::<u32>::default());
        let writer = {
            let current = Arc::clone(&current);
            spawn(move || (1..=2).for_each(|value| current.replace(value)))
        };
        let made: Vec<(u64, u32)> = (0..2).map(|_| (current.changes(), *current.get())).collect();
        assert!(made.iter().all(|(number, value)| u64::from(*value) >= *number), "older than its number: {made:?}");
        assert!(made[0].1 <= made[1].1, "it went back: {made:?}");
        writer.join().unwrap();
        let number = current.changes();
        assert!(made.iter().all(|(of, value)| *of != number || *value == 2), "it is taken for the last one: {made:?}");
        assert_eq!((number, *current.get()), (2, 2));
    });
}
