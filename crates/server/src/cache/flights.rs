//! Single flight: who misses what another thread is finding out already waits for that, instead of finding it out again.
//!
//! Owns: which keys are being looked up by threads that may wait. Guarantees: for each key at most one of them looks;
//! no lock is held while it does; if it fails to (a panic), those who waited look themselves.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::entry::Entry;
use super::generations::Key;

/// The lookups under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    under_way: Mutex<HashMap<Name, Arc<Flight>>>,
}

/// A key in values of its own.
type Name = (u32, Box<[u8]>);

#[derive(Debug, Default)]
struct Flight {
    landed: Mutex<Option<Option<Arc<Entry>>>>,
    changed: Condvar,
}

impl Flights {
    /// What `find` finds, for one of all who ask for `key` at the same time; the others get the same. May wait as long as
    /// `find` does.
    pub(super) fn find_once(&self, key: Key<'_>, find: impl FnOnce() -> Arc<Entry>) -> Arc<Entry> {
        let own = Arc::new(Flight::default());
        let name = (key.site, Box::from(key.path));
        let flight = lock(&self.under_way).entry(name.clone()).or_insert_with(|| own.clone()).clone();
        if !Arc::ptr_eq(&flight, &own) {
            return flight.wait().unwrap_or_else(find);
        }
        let mut lands = Landing { flights: self, name, flight, found: None };
        let found = find();
        lands.found = Some(found.clone());
        found
    }
}

impl Flight {
    fn wait(&self) -> Option<Arc<Entry>> {
        let mut landed = lock(&self.landed);
        loop {
            match &*landed {
                Some(found) => return found.clone(),
                None => landed = self.changed.wait(landed).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Tells those who wait, in any case.
struct Landing<'a> {
    flights: &'a Flights,
    name: Name,
    flight: Arc<Flight>,
    found: Option<Arc<Entry>>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        lock(&self.flights.under_way).remove(&self.name);
        *lock(&self.flight.landed) = Some(self.found.take());
        self.flight.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::file::Stamps;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    fn entry() -> Arc<Entry> {
        let representation = Representation::with_content(&Description::of(Status(200)), b"x");
        Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 5000))
    }

    #[test]
    fn of_many_who_miss_at_the_same_time_one_looks() {
        let (flights, looks, inside) = (Flights::default(), AtomicUsize::new(0), Barrier::new(2));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.find_once(KEY, || {
                    inside.wait();
                    // Until the others have found this flight: it is held by the table, twice by this thread, and by each of them.
                    while lock(&flights.under_way).values().all(|flight| Arc::strong_count(flight) < 3 + 8) {
                        std::thread::yield_now();
                    }
                    looks.fetch_add(1, SeqCst);
                    entry()
                })
            });
            inside.wait();
            let others: Vec<_> =
                (0..8).map(|_| scope.spawn(|| flights.find_once(KEY, || unreachable!("it is under way")))).collect();
            let found = first.join().unwrap();
            assert!(others.into_iter().all(|other| Arc::ptr_eq(&other.join().unwrap(), &found)));
        });
        assert_eq!(looks.load(SeqCst), 1);
        assert!(lock(&flights.under_way).is_empty());
    }

    #[test]
    fn a_panic_strands_nobody() {
        let flights = Flights::default();
        std::thread::scope(|scope| {
            let fails = scope.spawn(|| flights.find_once(KEY, || panic!("on purpose")));
            assert!(fails.join().is_err());
        });
        flights.find_once(KEY, entry);
    }
}
