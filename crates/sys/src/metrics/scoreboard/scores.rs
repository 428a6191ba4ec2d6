//! The scores of the scoreboard, one for each worker, thread or process.
//!
//! Guarantees: a worker that dies leaves it right once its score is cleared; a worker writes its own score only, on a
//! cache line of its own. Of two that become the last to be busy at the same time at least one sees it. Else no order
//! is promised between scores: their numbers are read for decisions that may be a little wrong (who takes the next
//! connection).

use super::WORKERS_MAX;
use super::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence, process_shared,
};

/// Connections beyond its share that a worker may have before it is said to: below this, balance is not worth a call.
const SHARE_SLACK: usize = 4;

process_shared! {
    /// A score for each worker.
    #[derive(Debug)]
    pub struct Scoreboard {
        /// No score from here on has ever been taken.
        end: AtomicUsize,
        /// The system has no room for more workers.
        short: AtomicBool,
        scores: [WorkerScore; WORKERS_MAX],
    }
}

process_shared! {
    /// The score of a worker.
    #[derive(Debug, Default)]
    #[repr(align(64))]
    pub struct WorkerScore {
        taken: AtomicBool,
        connections: AtomicU32,
        /// Connections whose peers say nothing.
        idle: AtomicU32,
        /// Connections whose peers do not take what is sent.
        slow: AtomicU32,
        /// How long its loop has stalled since the server started, in milliseconds.
        stalled_ms: AtomicU64,
        /// How many connections its threads have taken up, and how long these have waited for one, in milliseconds.
        taken_up: AtomicU64,
        waited_ms: AtomicU64,
        /// How many of its threads are busy, and the most that were so at a time since the last look.
        busy: AtomicU32,
        busy_peak: AtomicU32,
        /// Connections that wait for a thread.
        queued: AtomicU32,
        /// Whether those of its connections that can go on do so in the order of what they have left.
        shortest_first: AtomicBool,
    }
}

/// Sums of waiting in workers, since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// How long loops have stalled, in milliseconds, added up over all workers.
    pub stalled_ms: u64,
    /// Connections that threads of pools have taken up.
    pub taken_up: u64,
    /// How long these have waited for a thread, in milliseconds.
    pub waited_ms: u64,
    /// Connections that wait for a thread now.
    pub queued: u32,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        let (end, short) = (AtomicUsize::new(0), AtomicBool::new(false));
        Scoreboard { end, short, scores: std::array::from_fn(|_| WorkerScore::default()) }
    }
}

impl Scoreboard {
    /// The score of worker `index`.
    ///
    /// # Panics
    /// From [`WORKERS_MAX`] on: settings are checked against it.
    pub fn score(&self, index: usize) -> &WorkerScore {
        &self.scores[index]
    }

    /// A worker begins in score `index`, without connections.
    ///
    /// # Panics
    /// As [`Scoreboard::score`].
    pub fn take(&self, index: usize) {
        self.end.fetch_max(index + 1, Relaxed);
        let score = self.score(index);
        score.show(0);
        score.show_idle_and_slow((0, 0));
        score.taken.store(true, Relaxed);
    }

    /// Whether all workers have a connection.
    pub fn is_crowded(&self) -> bool {
        // Of two that are the last to become busy at the same time, at least one sees the other.
        fence(SeqCst);
        self.taken().all(|score| score.connections() > 0)
    }

    /// Whether no more workers can be started for the moment, for want of what the system has.
    pub fn is_short(&self) -> bool {
        self.short.load(Relaxed)
    }

    /// More workers can be started, or not.
    pub fn set_short(&self, short: bool) {
        self.short.store(short, Relaxed);
    }

    /// Connections of all workers, and the number of workers.
    pub fn load(&self) -> (u32, u32) {
        self.taken().fold((0, 0), |(connections, workers), score| (connections + score.connections(), workers + 1))
    }

    /// Open connections of each worker, in the order of scores.
    pub fn connections(&self) -> impl Iterator<Item = u32> {
        self.taken().map(WorkerScore::connections)
    }

    /// How many connections of all workers are idle, and how many wait for slow peers; of those workers that say so.
    pub fn idle_and_slow(&self) -> (u32, u32) {
        let read = |score: &WorkerScore| (score.idle.load(Relaxed), score.slow.load(Relaxed));
        self.taken().map(read).fold((0, 0), |(idle, slow), (more, slower)| (idle + more, slow + slower))
    }

    /// How many workers have their connections go on in the order of what these have left, and how many there are.
    pub fn shortest_first(&self) -> (usize, usize) {
        let add = |(first, all): (usize, usize), score: &WorkerScore| {
            (first + usize::from(score.shortest_first.load(Relaxed)), all + 1)
        };
        self.taken().fold((0, 0), add)
    }

    /// The waits of workers, those included that have gone.
    pub fn waits(&self) -> Waits {
        let mut waits = Waits::default();
        for score in &self.scores[..self.end.load(Relaxed)] {
            waits.stalled_ms += score.stalled_ms.load(Relaxed);
            waits.taken_up += score.taken_up.load(Relaxed);
            waits.waited_ms += score.waited_ms.load(Relaxed);
            waits.queued += score.queued.load(Relaxed);
        }
        waits
    }

    /// The most threads that any worker had busy at a time since this was asked last.
    pub fn take_busy_peak(&self) -> u32 {
        let peak = |score: &WorkerScore| score.busy_peak.swap(0, Relaxed).max(score.busy.load(Relaxed));
        self.taken().map(peak).max().unwrap_or(0)
    }

    /// Whether a worker with so many connections has notably more than its share.
    pub fn is_over_share(&self, connections: usize) -> bool {
        let (all, workers) = self.load();
        let share = all.checked_div(workers).unwrap_or(0) as usize;
        workers > 1 && connections > share + (share / 16).max(SHARE_SLACK)
    }

    fn taken(&self) -> impl Iterator<Item = &WorkerScore> {
        self.scores[..self.end.load(Relaxed)].iter().filter(|score| score.taken.load(Relaxed))
    }
}

impl WorkerScore {
    /// The worker is gone.
    pub fn clear(&self) {
        self.taken.store(false, Relaxed);
        self.show(0);
        self.show_idle_and_slow((0, 0));
        show(&self.queued, 0);
        self.show_shortest_first(false);
        // Whatever became of its threads.
        show(&self.busy, 0);
        show(&self.busy_peak, 0);
    }

    /// The worker has so many connections.
    pub fn show(&self, connections: usize) {
        show(&self.connections, connections);
    }

    /// So many of the worker's connections are idle, and so many wait for slow peers.
    pub fn show_idle_and_slow(&self, (idle, slow): (usize, usize)) {
        self.show_idle(idle);
        self.show_slow(slow);
    }

    /// Whether those of the worker's connections that can go on do so in the order of what they have left.
    pub fn show_shortest_first(&self, is_so: bool) {
        self.shortest_first.store(is_so, Relaxed);
    }

    /// So many of the worker's connections are idle.
    pub fn show_idle(&self, idle: usize) {
        show(&self.idle, idle);
    }

    /// So many of the worker's connections wait for peers that do not take what is sent.
    pub fn show_slow(&self, slow: usize) {
        show(&self.slow, slow);
    }

    /// The worker's loop has stalled so long.
    pub fn add_stall(&self, stall_ms: u64) {
        self.stalled_ms.fetch_add(stall_ms, Relaxed);
    }

    /// A thread of the worker has taken up a connection that has waited so long.
    pub fn begin_thread(&self, wait_ms: u64) {
        self.taken_up.fetch_add(1, Relaxed);
        if wait_ms > 0 {
            self.waited_ms.fetch_add(wait_ms, Relaxed);
        }
        let busy = self.busy.fetch_add(1, Relaxed) + 1;
        if busy > self.busy_peak.load(Relaxed) {
            self.busy_peak.fetch_max(busy, Relaxed);
        }
    }

    /// The thread is free again.
    pub fn end_thread(&self) {
        self.busy.fetch_sub(1, Relaxed);
    }

    /// So many connections wait for a thread.
    pub fn show_queued(&self, queued: usize) {
        show(&self.queued, queued);
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
