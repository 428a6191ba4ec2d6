//! The scoreboard: how many connections each worker has, and how long it has kept them waiting, in memory that worker
//! processes have in common.
//!
//! Owns: what the seats are made of, so that a model can make them of something else.

#[cfg(test)]
mod model;
mod seats;

pub use seats::{Board, Seat, Waits};

/// Workers that a server may have, of all kinds: several times as many as can be asked for, because while one engine takes
/// the place of another both have theirs.
pub const WORKERS_MAX: usize = 4096;

/// What seats are made of. The model has another one.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seats_that_are_taken_count() {
        let board = Board::default();
        board.take(3);
        board.seat(3).show(7);
        board.take(900);
        assert_eq!((board.load(), board.is_crowded()), ((7, 2), false));
        board.seat(900).clear();
        assert_eq!((board.load(), board.is_crowded()), ((7, 1), true));
    }

    #[test]
    fn what_was_waited_for_is_remembered_when_workers_have_gone_and_peaks_are_told_once() {
        let board = Board::default();
        board.take(0);
        board.take(1);
        board.seat(0).add_stall(30);
        board.seat(1).add_stall(20);
        (0..3).for_each(|_| board.seat(1).begin_thread(0));
        (0..2).for_each(|_| board.seat(1).end_thread());
        board.seat(1).begin_thread(5);
        board.seat(1).show_queued(4);
        assert_eq!(board.waits(), Waits { stalled_ms: 50, taken_up: 4, waited_ms: 5, queued: 4 });
        assert_eq!((board.take_busy_peak(), board.take_busy_peak()), (3, 2));
        board.seat(1).clear();
        assert_eq!(board.waits(), Waits { stalled_ms: 50, taken_up: 4, waited_ms: 5, queued: 0 });
    }

    #[test]
    fn a_share_is_the_average_and_a_little_more() {
        let board = Board::default();
        assert!(!board.is_over_share(1000));
        board.take(0);
        board.seat(0).show(1000);
        assert!(!board.is_over_share(1000), "the only worker takes everything");
        board.take(1);
        assert!(board.is_over_share(1000) && !board.is_over_share(500 + 500 / 16));
    }
}
