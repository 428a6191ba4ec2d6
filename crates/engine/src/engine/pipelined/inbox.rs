//! The inbox of a thread, and waking the thread: how a connection gets from one stage to the next.
//!
//! Owns: the protocol of giving, sleeping and waking. Guarantees: what is given is taken once, and what one thread
//! gives in its order; a thread does not sleep while there is something for it to do at once; giving never waits, so
//! that no ring of stages can block itself. Whether a thread sleeps stands with what lies ready, under one lock: either
//! the giver sees that it sleeps, or it sees what was given before it sleeps. Checked against every interleaving in
//! `model`. Does not know what it carries, nor bound it: the pool has so many connections.

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
    waker: Option<Waker>,
}

#[derive(Debug)]
struct State<T> {
    items: Vec<T>,
    /// There is something to look at beside `items`.
    is_rung: bool,
    sleep: Sleep,
}

/// How deep a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    Awake,
    /// It is woken for anything.
    Light,
    /// It is woken only for what is to be looked at at once.
    Deep,
}

/// How soon something wants to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// When the thread looks the next time, for whatever reason.
    Whenever,
    /// At once.
    Now,
}

impl<T> Inbox<T> {
    /// An empty inbox, of a thread that sleeps in epoll and is woken by `waker`, or of one that waits for nothing else.
    pub(super) fn new(waker: Option<Waker>) -> Inbox<T> {
        let state = State { items: Vec::new(), is_rung: false, sleep: Sleep::Awake };
        Inbox { state: Mutex::new(state), changed: Condvar::new(), waker }
    }

    /// The eventfd for which the thread is to wait in epoll.
    pub(super) fn waker(&self) -> Option<&Waker> {
        self.waker.as_ref()
    }

    /// Gives `items`. The thread hears of them if there is an urgency, in time for that.
    fn give(&self, items: &mut Vec<T>, urgency: Option<Urgency>) {
        let mut state = self.lock();
        state.items.append(items);
        self.wake(state, urgency);
    }

    /// There is something for the thread to look at that does not lie here.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        state.is_rung = true;
        self.wake(state, Some(Urgency::Now));
    }

    fn wake(&self, mut state: MutexGuard<'_, State<T>>, urgency: Option<Urgency>) {
        let wakes = match state.sleep {
            Sleep::Awake => false,
            Sleep::Light => urgency.is_some(),
            Sleep::Deep => urgency == Some(Urgency::Now),
        };
        if wakes {
            state.sleep = Sleep::Awake;
            drop(state);
            self.waker.as_ref().map_or_else(|| self.changed.notify_one(), Waker::wake);
        }
    }

    /// Whether the thread may sleep in epoll: not if there is something for it. Then, or when it has slept, it takes
    /// what there is.
    pub(super) fn may_sleep(&self, sleep: Sleep) -> bool {
        let mut state = self.lock();
        let may_sleep = state.is_quiet();
        if may_sleep {
            state.sleep = sleep;
        }
        may_sleep
    }

    /// Takes all that lies here into `items`, which is empty.
    pub(super) fn take(&self, items: &mut Vec<T>) {
        self.lock().hand_out(items);
    }

    /// The same, for a thread that sleeps here if there is nothing: until it is woken, or for `timeout_ms`.
    pub(super) fn wait(&self, items: &mut Vec<T>, timeout_ms: Option<u64>) {
        let mut state = self.lock();
        if state.is_quiet() {
            state.sleep = Sleep::Light;
            state = sleep(&self.changed, state, timeout_ms.map(Duration::from_millis));
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
        (self.is_rung, self.sleep) = (false, Sleep::Awake);
    }
}

/// Items on their way from one thread to another.
#[derive(Debug)]
pub(super) struct Outbox<'a, T> {
    inbox: &'a Inbox<T>,
    items: Vec<T>,
    /// The highest urgency of what was given since the last delivery.
    urgency: Option<Urgency>,
}

/// Items that are given together: few, so that the next thread can begin before this one is done with all that it has.
const BATCH: usize = 8;

impl<'a, T> Outbox<'a, T> {
    /// For what is given to the thread of `inbox`.
    pub(super) fn new(inbox: &'a Inbox<T>) -> Outbox<'a, T> {
        Outbox { inbox, items: Vec::new(), urgency: None }
    }

    /// Gives `item`. The thread may sleep on until [`deliver`](Outbox::deliver).
    pub(super) fn put(&mut self, item: T, urgency: Urgency) {
        self.items.push(item);
        self.urgency = self.urgency.max(Some(urgency));
        if self.items.len() == BATCH {
            self.inbox.give(&mut self.items, None);
        }
    }

    /// The thread hears of what it was given: once for all that this one had to do.
    pub(super) fn deliver(&mut self) {
        if let Some(urgency) = self.urgency.take() {
            self.inbox.give(&mut self.items, Some(urgency));
        }
    }
}
