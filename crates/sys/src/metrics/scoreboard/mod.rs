//! The scoreboard: how many connections each worker has, and how long it has kept them waiting, in memory that worker
//! processes have in common.
//!
//! Owns: what the scores are made of, so that a model can make them of something else.

#[cfg(test)]
mod model;
pub mod scores;

pub use crate::metrics::scoreboard::scores::{Scoreboard, Waits, WorkerScore};

/// Workers that a server may have, of all kinds: several times as many as can be asked for, because while one engine
/// takes the place of another both have theirs.
pub const WORKERS_MAX: usize = 4096;

/// Primitives of scores; the loom model substitutes its own.
mod sync {
    pub(super) use crate::shared_memory::process_shared;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seats_that_are_taken_count() {
        let scoreboard = Scoreboard::default();
        scoreboard.take(3);
        scoreboard.score(3).show(7);
        scoreboard.take(900);
        assert_eq!((scoreboard.load(), scoreboard.is_crowded()), ((7, 2), false));
        scoreboard.score(900).clear();
        assert_eq!((scoreboard.load(), scoreboard.is_crowded()), ((7, 1), true));
    }

    #[test]
    fn what_was_waited_for_is_remembered_when_workers_have_gone_and_peaks_are_told_once() {
        let scoreboard = Scoreboard::default();
        scoreboard.take(0);
        scoreboard.take(1);
        scoreboard.score(0).add_stall(30);
        scoreboard.score(1).add_stall(20);
        (0..3).for_each(|_| scoreboard.score(1).begin_thread(0));
        (0..2).for_each(|_| scoreboard.score(1).end_thread());
        scoreboard.score(1).begin_thread(5);
        scoreboard.score(1).show_queued(4);
        assert_eq!(scoreboard.waits(), Waits { stalled_ms: 50, taken_up: 4, waited_ms: 5, queued: 4 });
        assert_eq!((scoreboard.take_busy_peak(), scoreboard.take_busy_peak()), (3, 2));
        scoreboard.score(1).clear();
        assert_eq!(scoreboard.waits(), Waits { stalled_ms: 50, taken_up: 4, waited_ms: 5, queued: 0 });
    }

    #[test]
    fn a_share_is_the_average_and_a_little_more() {
        let scoreboard = Scoreboard::default();
        assert!(!scoreboard.is_over_share(1000));
        scoreboard.take(0);
        scoreboard.score(0).show(1000);
        assert!(!scoreboard.is_over_share(1000), "the only worker takes everything");
        scoreboard.take(1);
        assert!(scoreboard.is_over_share(1000) && !scoreboard.is_over_share(500 + 500 / 16));
    }
}
