//! The promise of the scoreboard about workers that become busy at once, under every reordering that the memory model
//! allows.
//!
//! The source of `scores` is compiled a second time, over loom's atomics.

#[path = "scores.rs"]
#[allow(
    clippy::duplicate_mod,
    dead_code,
    unreachable_pub,
    reason = "the same source over other atomics, of which the model uses a part"
)]
mod scores;

/// Loom's primitives.
mod sync {
    /// Models have one process.
    macro_rules! process_shared {
        ($($item:tt)*) => { $($item)* };
    }
    pub(super) use process_shared;

    pub(super) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

use std::sync::Arc;

use scores::Scoreboard;

const WORKERS_MAX: usize = 2;

/// If both missed the other, no more processes would be started though all are busy.
#[test]
fn of_two_that_become_the_last_to_be_busy_at_least_one_sees_it() {
    loom::model(|| {
        let scoreboard = Arc::new(Scoreboard::default());
        (0..2).for_each(|index| scoreboard.take(index));
        let busy = |scoreboard: &Scoreboard, index| {
            scoreboard.score(index).show(1);
            scoreboard.is_crowded()
        };
        let other = scoreboard.clone();
        let thread = loom::thread::spawn(move || busy(&other, 1));
        let one_sees = busy(&scoreboard, 0);
        assert!(thread.join().unwrap() | one_sees);
    });
}
