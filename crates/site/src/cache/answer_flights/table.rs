//! The answers that are being asked for, and waiting for them without a thread.
//!
//! Owns: the protocol between the leader and the waiters of a flight. Guarantees: as `answer_flights` says, checked
//! against every interleaving in `model`. Does not know what is fetched, nor how waiters are woken.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::{Arc, PoisonError};

use super::sync::{AcqRel, Acquire, AtomicU64, Mutex, MutexGuard};
use crate::cache::two_generation_map::Key;

/// Wakes a waiter.
pub(in crate::cache) trait Notify: Clone + Debug {
    fn notify(&self);
}

/// The flights under way.
#[derive(Debug)]
pub(super) struct Table<T, B> {
    pub(super) under_way: Mutex<HashMap<Name, Arc<Flight<T, B>>>>,
    /// How often flights were made void, whichever.
    voids: AtomicU64,
}

/// A key in values of its own.
pub(super) type Name = (u32, Box<[u8]>);

#[derive(Debug)]
pub(super) struct Flight<T, B> {
    state: Mutex<State<T, B>>,
}

#[derive(Debug)]
struct State<T, B> {
    fetched: Option<T>,
    is_void: bool,
    /// Another may be under way for the same key, and [`Table::void`] does not find this one any more.
    is_given_up: bool,
    /// Those who wait, by number, in order: the model runs each order of ringing by itself.
    notifiers: BTreeMap<u64, B>,
    last_number: u64,
}

/// See [`super::Lead`]. What is dropped before it is complete is complete with nothing to share.
#[derive(Debug)]
pub(super) struct Lead<T: Nothing, B: Notify> {
    table: Arc<Table<T, B>>,
    name: Name,
    flight: Arc<Flight<T, B>>,
    /// [`Table::voids`] before it began.
    voids: u64,
    has_landed: bool,
}

/// See [`super::Wait`].
#[derive(Debug)]
pub(super) struct Wait<T, B: Notify> {
    flight: Arc<Flight<T, B>>,
    number: u64,
    notifier: B,
}

/// The result of a flight whose leader is dropped without one.
pub(in crate::cache) trait Nothing: Clone {
    fn nothing() -> Self;
}

impl<T, B> Default for Table<T, B> {
    fn default() -> Table<T, B> {
        Table { under_way: Mutex::new(HashMap::new()), voids: AtomicU64::new(0) }
    }
}

impl<T: Nothing, B: Notify> Table<T, B> {
    /// Begins a flight for `key`, with the caller as its leader; nothing if one is under way.
    pub(super) fn lead(self: &Arc<Self>, key: Key<'_>) -> Option<Lead<T, B>> {
        let name = name(key);
        let voids = self.voids();
        let mut under_way = lock(&self.under_way);
        if under_way.contains_key(&name) {
            return None;
        }
        let state =
            State { fetched: None, is_void: false, is_given_up: false, notifiers: BTreeMap::new(), last_number: 0 };
        let flight = Arc::new(Flight { state: Mutex::new(state) });
        under_way.insert(name.clone(), flight.clone());
        Some(Lead { table: self.clone(), name, flight, voids, has_landed: false })
    }

    /// Whether anybody asks for `key`.
    pub(super) fn is_under_way(&self, key: Key<'_>) -> bool {
        lock(&self.under_way).contains_key(&name(key))
    }

    /// Joins the flight for `key` as a waiter, if one is under way. `notifier` wakes it when the flight is complete.
    pub(super) fn wait(&self, key: Key<'_>, notifier: B) -> Option<Wait<T, B>> {
        let flight = lock(&self.under_way).get(&name(key))?.clone();
        let number = {
            let mut state = lock(&flight.state);
            state.last_number += 1;
            let number = state.last_number;
            match state.fetched {
                // Between the two locks. It is seen when it is looked at.
                Some(_) => notifier.notify(),
                None => _ = state.notifiers.insert(number, notifier.clone()),
            }
            number
        };
        Some(Wait { flight, number, notifier })
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> usize {
        let flights: Vec<_> = lock(&self.under_way).values().cloned().collect();
        flights.iter().map(|flight| lock(&flight.state).notifiers.len()).sum()
    }

    /// How often [`Table::void`] was called.
    pub(super) fn voids(&self) -> u64 {
        self.voids.load(Acquire)
    }

    /// Voids the flights whose key `is_meant` accepts: the next request for such a key begins another one.
    pub(super) fn void(&self, is_meant: &dyn Fn(Key<'_>) -> bool) {
        self.voids.fetch_add(1, AcqRel);
        let mut gone = Vec::new();
        lock(&self.under_way).retain(|(site, path), flight| {
            let is_void = is_meant(Key { site: *site, path });
            if is_void {
                gone.push(flight.clone());
            }
            !is_void
        });
        gone.iter().for_each(|flight| lock(&flight.state).is_void = true);
    }
}

impl<T: Nothing, B: Notify> Lead<T, B> {
    pub(super) fn complete(mut self, fetched: T) {
        self.end(fetched);
    }

    /// Whether something has been changed since it began that would make what it lands with one of before. One that was
    /// given up does not know what: anything.
    pub(super) fn is_void(&self) -> bool {
        self.is_overtaken(&lock(&self.flight.state))
    }

    fn is_overtaken(&self, state: &State<T, B>) -> bool {
        state.is_void || state.is_given_up && self.table.voids() != self.voids
    }

    pub(super) fn is_awaited(&self) -> bool {
        !lock(&self.flight.state).notifiers.is_empty()
    }

    fn end(&mut self, fetched: T) {
        self.has_landed = true;
        {
            let mut under_way = lock(&self.table.under_way);
            // One that was made void may have a successor.
            if under_way.get(&self.name).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
                under_way.remove(&self.name);
            }
        }
        let notifiers = {
            let mut state = lock(&self.flight.state);
            // What has been changed meanwhile is not for those who came before that either: they ask again.
            state.fetched = Some(if self.is_overtaken(&state) { T::nothing() } else { fetched });
            std::mem::take(&mut state.notifiers)
        };
        notifiers.values().for_each(Notify::notify);
    }
}

impl<T: Nothing, B: Notify> Drop for Lead<T, B> {
    fn drop(&mut self) {
        if !self.has_landed {
            self.end(T::nothing());
        }
    }
}

impl<T: Clone, B: Notify> Wait<T, B> {
    pub(super) fn fetched(&self) -> Option<T> {
        lock(&self.flight.state).fetched.clone()
    }

    pub(super) fn notifier(&self) -> &B {
        &self.notifier
    }
}

impl<T: Nothing, B: Notify> Wait<T, B> {
    /// Closes the flight to new waiters because it takes too long: the next request for `key` begins another. Its
    /// result is for those that wait already.
    pub(super) fn give_up(&self, table: &Table<T, B>, key: Key<'_>) {
        let mut under_way = lock(&table.under_way);
        let name = name(key);
        if under_way.get(&name).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            // Before the table lets it go: an invalidation finds it there, or has counted before it is asked.
            lock(&self.flight.state).is_given_up = true;
            under_way.remove(&name);
        }
    }
}

impl<T, B: Notify> Drop for Wait<T, B> {
    fn drop(&mut self) {
        lock(&self.flight.state).notifiers.remove(&self.number);
        // A ring that still waits for it lets it go.
        self.notifier.notify();
    }
}

fn name(key: Key<'_>) -> Name {
    (key.site, key.path.into())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
