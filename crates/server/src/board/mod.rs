//! The scoreboard: how many connections each worker has, in memory that worker processes have in common.
//!
//! Owns: what the seats are made of, so that a model can make them of something else.

#[cfg(test)]
mod model;
mod seats;

pub use seats::{Board, Seat};

/// Workers that a server may have, of all kinds: several times as many as can be asked for, because while one engine takes
/// the place of another both have theirs.
pub const WORKERS_MAX: usize = 4096;

/// What seats are made of. The model has another one.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, fence};
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
