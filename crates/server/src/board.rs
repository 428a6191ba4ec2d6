//! The scoreboard: how many connections each worker has, in memory that worker processes have in common.
//!
//! Owns: a seat for each worker, thread or process. Guarantees: whoever dies leaves it right once its seat is cleared; a
//! worker writes its own seat only, on a cache line of its own. The numbers are read for decisions that may be a little
//! wrong (who takes the next connection, whether more processes are needed), so no order is promised between seats.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst, fence};

/// Workers that a server may have, of all kinds.
pub const WORKERS_MAX: usize = 1024;

/// A seat for each worker.
#[derive(Debug)]
pub struct Board {
    seats: [Seat; WORKERS_MAX],
}

/// What a worker shows of itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Seat {
    taken: AtomicBool,
    connections: AtomicU32,
}

impl Default for Board {
    fn default() -> Board {
        Board { seats: std::array::from_fn(|_| Seat::default()) }
    }
}

impl Board {
    /// The seat of worker `index`.
    ///
    /// # Panics
    /// From [`WORKERS_MAX`] on: settings are checked against it.
    pub fn seat(&self, index: usize) -> &Seat {
        &self.seats[index]
    }

    /// Whether all workers have a connection.
    pub fn is_crowded(&self) -> bool {
        // Of two that are the last to become busy at the same time, at least one sees the other.
        fence(SeqCst);
        self.taken().all(|seat| seat.connections() > 0)
    }

    /// Connections of all workers, and the number of workers.
    pub fn load(&self) -> (u32, u32) {
        self.taken().fold((0, 0), |(connections, workers), seat| (connections + seat.connections(), workers + 1))
    }

    fn taken(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.taken.load(Relaxed))
    }
}

impl Seat {
    /// A worker begins, without connections.
    pub fn take(&self) {
        self.show(0);
        self.taken.store(true, Relaxed);
    }

    /// The worker is gone.
    pub fn clear(&self) {
        self.taken.store(false, Relaxed);
        self.show(0);
    }

    /// The worker has so many connections.
    pub fn show(&self, connections: usize) {
        self.connections.store(u32::try_from(connections).unwrap_or(u32::MAX), Relaxed);
    }

    /// How many connections the worker has.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_seats_that_are_taken_count() {
        let board = Board::default();
        board.seat(3).take();
        board.seat(3).show(7);
        board.seat(900).take();
        assert_eq!((board.load(), board.is_crowded()), ((7, 2), false));
        board.seat(900).clear();
        assert_eq!((board.load(), board.is_crowded()), ((7, 1), true));
    }
}
