//! The lookups under way, and waiting for them.
//!
//! Owns: the protocol between the thread that looks and those that wait. Guarantees: as `flights` says, checked against
//! every interleaving in `model`. Does not know what is found.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use super::sync::{Condvar, Mutex, MutexGuard};
use crate::cache::two_generation_map::Key;

/// The lookups under way.
#[derive(Debug)]
pub(in crate::cache) struct Table<T> {
    pub(super) under_way: Mutex<HashMap<Name, Arc<Flight<T>>>>,
}

/// A key in values of its own.
pub(super) type Name = (u32, Box<[u8]>);

#[derive(Debug)]
pub(super) struct Flight<T> {
    /// Nothing as long as it is under way; then what was found, if anything.
    fetched: Mutex<Option<Option<T>>>,
    changed: Condvar,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { under_way: Mutex::default() }
    }
}

impl<T: Clone> Table<T> {
    /// Runs `find` for one of all threads that ask for `key` at the same time; the others get its result. Blocks as
    /// long as `find` does.
    pub(in crate::cache) fn find_once(&self, key: Key<'_>, find: impl FnOnce() -> T) -> T {
        let own = Arc::new(Flight { fetched: Mutex::new(None), changed: Condvar::new() });
        let name = (key.site, Box::from(key.path));
        let flight = lock(&self.under_way).entry(name.clone()).or_insert_with(|| own.clone()).clone();
        if !Arc::ptr_eq(&flight, &own) {
            return flight.wait().unwrap_or_else(find);
        }
        let mut lands = Landing { table: self, name, flight, found: None };
        let found = find();
        lands.found = Some(found.clone());
        found
    }
}

impl<T: Clone> Flight<T> {
    fn wait(&self) -> Option<T> {
        let mut fetched = lock(&self.fetched);
        loop {
            match &*fetched {
                Some(found) => return found.clone(),
                None => fetched = self.changed.wait(fetched).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Tells those who wait, in any case.
struct Landing<'a, T> {
    table: &'a Table<T>,
    name: Name,
    flight: Arc<Flight<T>>,
    found: Option<T>,
}

impl<T> Drop for Landing<'_, T> {
    fn drop(&mut self) {
        lock(&self.table.under_way).remove(&self.name);
        *lock(&self.flight.fetched) = Some(self.found.take());
        self.flight.changed.notify_all();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
