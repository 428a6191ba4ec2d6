//! The inbox of a thread, and waking the thread: how a connection gets from one stage to the next.
//!
//! Owns: the protocol of giving, sleeping and waking. Guarantees: what is given is taken once, and what one thread
//! gives in its order; a thread does not sleep while there is something for it; giving never waits, so that no ring of
//! stages can block itself. Whether a thread sleeps stands with what lies ready, under one lock: either the giver sees
//! that it sleeps, or it sees what was given before it sleeps. Checked against every interleaving in `model`. Does not
//! know what it carries, nor bound it: the pool has so many connections.

use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, Waker, sleep};

/// The inbox of one thread.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    state: Mutex<State<T>>,
    /// Where the thread sleeps that waits for nothing else.
    changed: Condvar,
    /// The eventfd that interrupts the thread if it sleeps in epoll.
    pub waker: Option<Waker>,
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    /// There is something to look at beside `items`.
    is_rung: bool,
    /// The thread sleeps, or is about to, and is to be woken.
    is_asleep: bool,
}

impl<T> Inbox<T> {
    /// An empty inbox, of a thread that sleeps in epoll and is woken by `waker`, or of one that waits for nothing else.
    pub(super) fn new(waker: Option<Waker>) -> Inbox<T> {
        let state = State { items: Vec::new(), is_rung: false, is_asleep: false };
        Inbox { state: Mutex::new(state), changed: Condvar::new(), waker }
    }

    /// Gives `items`. The thread may sleep on until something is delivered.
    pub(super) fn give(&self, items: &mut Vec<T>) {
        self.lock().items.append(items);
    }

    /// Gives `items`, and has the thread look at all that it was given.
    pub(super) fn deliver(&self, items: &mut Vec<T>) {
        let mut state = self.lock();
        state.items.append(items);
        self.wake(state);
    }

    /// There is something for the thread to look at that does not lie here.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        state.is_rung = true;
        self.wake(state);
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>) {
        if std::mem::take(&mut state.is_asleep) {
            drop(state);
            self.waker.as_ref().map_or_else(|| self.changed.notify_one(), Waker::wake);
        }
    }

    /// Whether the thread may sleep in epoll: not if there is something for it. Then, or when it has slept, it takes
    /// what there is.
    pub(super) fn may_sleep(&self) -> bool {
        let mut state = self.lock();
        state.is_asleep = state.is_quiet();
        state.is_asleep
    }

    /// Takes all that lies here into `items`, which is empty.
    pub(super) fn take(&self, items: &mut Vec<T>) {
        self.lock().hand_out(items);
    }

    /// The same, for a thread that sleeps here if there is nothing: until it is woken, or for `timeout_ms`.
    pub(super) fn wait(&self, items: &mut Vec<T>, timeout_ms: Option<u64>) {
        let mut state = self.lock();
        if state.is_quiet() {
            state.is_asleep = true;
            state = sleep(&self.changed, state, timeout_ms.map_or(Duration::MAX, Duration::from_millis));
        }
        state.hand_out(items);
    }

    /// Nothing that is done under the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn is_quiet(&self) -> bool {
        self.items.is_empty() && !self.is_rung
    }

    /// The two lists change places, so that neither has to grow again.
    fn hand_out(&mut self, items: &mut Vec<T>) {
        debug_assert!(items.is_empty(), "what was taken before is done");
        std::mem::swap(&mut self.items, items);
        (self.is_rung, self.is_asleep) = (false, false);
    }
}
