//! The seats of the board, one for each worker, thread or process.
//!
//! Guarantees: whoever dies leaves it right once its seat is cleared; a worker writes its own seat only, on a cache line
//! of its own. Of two that become the last to be busy at the same time at least one sees it. Else no order is promised
//! between seats: their numbers are read for decisions that may be a little wrong (who takes the next connection).

use super::WORKERS_MAX;
use super::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};

/// Connections beyond its share that a worker may have before it is said to: below this, balance is not worth a call.
const SHARE_SLACK: usize = 4;

/// A seat for each worker.
#[derive(Debug)]
pub struct Board {
    /// No seat from here on has ever been taken.
    end: AtomicUsize,
    seats: [Seat; WORKERS_MAX],
}

/// What a worker shows of itself.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Seat {
    taken: AtomicBool,
    connections: AtomicU32,
    /// Of these, those whose peers say nothing.
    idle: AtomicU32,
    /// Of these, those whose peers do not take what is sent.
    slow: AtomicU32,
}

impl Default for Board {
    fn default() -> Board {
        Board { end: AtomicUsize::new(0), seats: std::array::from_fn(|_| Seat::default()) }
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

    /// A worker begins in seat `index`, without connections.
    ///
    /// # Panics
    /// As [`Board::seat`].
    pub fn take(&self, index: usize) {
        self.end.fetch_max(index + 1, Relaxed);
        let seat = self.seat(index);
        seat.show(0);
        seat.show_postures((0, 0));
        seat.taken.store(true, Relaxed);
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

    /// Open connections of each worker, in the order of seats.
    pub fn connections(&self) -> impl Iterator<Item = u32> {
        self.taken().map(Seat::connections)
    }

    /// How many connections of all workers are idle, and how many wait for slow peers; of those workers that say so.
    pub fn postures(&self) -> (u32, u32) {
        let read = |seat: &Seat| (seat.idle.load(Relaxed), seat.slow.load(Relaxed));
        self.taken().map(read).fold((0, 0), |(idle, slow), (more, slower)| (idle + more, slow + slower))
    }

    /// Whether a worker with so many connections has notably more than its share.
    pub fn is_over_share(&self, connections: usize) -> bool {
        let (all, workers) = self.load();
        let share = all.checked_div(workers).unwrap_or(0) as usize;
        workers > 1 && connections > share + (share / 16).max(SHARE_SLACK)
    }

    fn taken(&self) -> impl Iterator<Item = &Seat> {
        self.seats[..self.end.load(Relaxed)].iter().filter(|seat| seat.taken.load(Relaxed))
    }
}

impl Seat {
    /// The worker is gone.
    pub fn clear(&self) {
        self.taken.store(false, Relaxed);
        self.show(0);
        self.show_postures((0, 0));
    }

    /// The worker has so many connections.
    pub fn show(&self, connections: usize) {
        show(&self.connections, connections);
    }

    /// So many of the worker's connections are idle, and so many wait for slow peers.
    pub fn show_postures(&self, (idle, slow): (usize, usize)) {
        self.show_idle(idle);
        self.show_slow(slow);
    }

    /// So many of the worker's connections are idle.
    pub fn show_idle(&self, idle: usize) {
        show(&self.idle, idle);
    }

    /// So many of the worker's connections wait for peers that do not take what is sent.
    pub fn show_slow(&self, slow: usize) {
        show(&self.slow, slow);
    }

    /// How many connections the worker has.
    pub fn connections(&self) -> u32 {
        self.connections.load(Relaxed)
    }
}

/// Writes only what is different, so that the line stays where it is.
fn show(place: &AtomicU32, number: usize) {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    if place.load(Relaxed) != number {
        place.store(number, Relaxed);
    }
}
