//! Where the threads of a pool wait for connections, and connections for threads.
//!
//! Owns: the queue between them, the number of threads, and who ends when there are too many. Guarantees: whatever is
//! put in is taken out once, as long as a thread is left; no thread sleeps while something waits; no lock is held while
//! a thread does anything else. Checked against every interleaving in `model`. Does not spawn, and does not know what
//! it hands out.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;

use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Relaxed};

/// The threads, and what waits for them.
#[derive(Debug)]
pub(super) struct WorkQueue<T> {
    state: Mutex<State<T>>,
    /// Threads wait here for something to do.
    arrived: Condvar,
    /// Threads that put something in wait here for room.
    room: Condvar,
    /// Threads that wait. Written under the lock, read without.
    free: AtomicUsize,
    /// Items that wait for threads. Likewise.
    queued: AtomicUsize,
    places: usize,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    threads: usize,
    /// Nothing more will be queued.
    closed: bool,
}

/// The next thing for a thread to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<T> {
    /// Serve this.
    Serve(T),
    /// Nothing came in the time given: see to other things and ask again.
    Pause,
    /// End. It does not count any more.
    End,
}

impl<T> WorkQueue<T> {
    /// Without threads, with `places` places for what waits for them.
    pub(super) fn new(places: usize) -> WorkQueue<T> {
        let state = State { queue: VecDeque::new(), threads: 0, closed: false };
        let (free, queued) = (AtomicUsize::new(0), AtomicUsize::new(0));
        WorkQueue { state: Mutex::new(state), arrived: Condvar::new(), room: Condvar::new(), free, queued, places }
    }

    /// Counts one thread more, which is to be spawned: its number, from 1. None if there are `wanted` already.
    pub(super) fn enlist(&self, wanted: usize) -> Option<usize> {
        let mut state = self.state();
        if state.threads >= wanted {
            return None;
        }
        state.threads += 1;
        Some(state.threads)
    }

    /// The thread that was counted last could not be spawned.
    pub(super) fn strike_off(&self) {
        self.state().threads -= 1;
    }

    /// The next thing for the calling thread to do. It waits for that, at most `patience`; there are to be `wanted`
    /// threads.
    pub(super) fn next(&self, wanted: impl Fn() -> usize, patience: Option<Duration>) -> Turn<T> {
        let mut state = self.state();
        loop {
            if state.threads > wanted() {
                state.threads -= 1;
                return Turn::End;
            }
            if let Some(item) = state.queue.pop_front() {
                self.queued.store(state.queue.len(), Relaxed);
                let was_full = state.queue.len() + 1 == self.places;
                drop(state);
                if was_full {
                    self.room.notify_one();
                }
                return Turn::Serve(item);
            }
            if state.closed {
                return Turn::End;
            }
            let (again, is_over) = self.wait(state, patience);
            state = again;
            if is_over {
                return Turn::Pause;
            }
        }
    }

    /// Waits to be called, at most `patience`; whether that is over.
    fn wait<'s>(
        &'s self,
        state: MutexGuard<'s, State<T>>,
        patience: Option<Duration>,
    ) -> (MutexGuard<'s, State<T>>, bool) {
        let _step = step_timer::step(Step::Wait);
        self.free.store(self.free.load(Relaxed) + 1, Relaxed);
        let (state, is_over) = match patience {
            None => (self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner), false),
            Some(patience) => {
                let (state, result) =
                    self.arrived.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
                (state, result.timed_out())
            }
        };
        self.free.store(self.free.load(Relaxed) - 1, Relaxed);
        (state, is_over)
    }

    /// Puts `item` in. Waits for room, looking now and then whether there `is_closing` time: then it goes in all the
    /// same. To be called by one thread only.
    pub(super) fn push(&self, item: T, is_closing: impl Fn() -> bool) {
        let mut state = self.state();
        while state.queue.len() >= self.places && !is_closing() {
            state = self.room.wait_timeout(state, CLOSING_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.queue.push_back(item);
        self.queued.store(state.queue.len(), Relaxed);
        let is_waited_for = self.free.load(Relaxed) > 0;
        drop(state);
        if is_waited_for {
            self.arrived.notify_one();
        }
    }

    /// Another number of threads is wanted: those that are too many are to see it. Called after
    /// [`enlist`](WorkQueue::enlist), which takes the lock, so that a thread that has looked at the old number waits
    /// already.
    pub(super) fn call_all(&self) {
        self.arrived.notify_all();
    }

    /// Nothing more comes: threads end when nothing waits.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_all();
    }

    /// Takes out all that waits.
    pub(super) fn clear(&self) -> VecDeque<T> {
        let mut state = self.state();
        self.queued.store(0, Relaxed);
        std::mem::take(&mut state.queue)
    }

    /// Whether nothing waits for a thread, and whatever comes next will not have to. A hint: it may change at any
    /// moment.
    pub(super) fn has_leisure(&self) -> bool {
        self.queued.load(Relaxed) == 0 && self.free.load(Relaxed) > 0
    }

    /// How much waits for a thread. A hint, as above.
    pub(super) fn queued(&self) -> usize {
        self.queued.load(Relaxed)
    }

    /// Threads that count.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.state().threads
    }

    /// Nothing that is done under the lock can panic half-way.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often a thread that waits for room looks whether that has become pointless.
const CLOSING_POLL: Duration = Duration::from_millis(50);
