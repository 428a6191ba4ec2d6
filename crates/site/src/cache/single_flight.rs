//! Single flight: a thread that misses a key which another is looking up waits for that result, instead of looking
//! itself.
//!
//! Owns: which keys are being looked up by threads that may wait. Guarantees: for each key at most one of them looks;
//! no lock is held while it does; if it fails to (a panic), those who waited look themselves.

#[cfg(test)]
mod model;
mod table;

use std::sync::Arc;

use super::entry::Entry;

/// The lookups under way.
pub(super) type SingleFlight = table::Table<Arc<Entry>>;

/// Synchronisation primitives of the table; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

#[cfg(test)]
mod tests {
    use super::table::lock;
    use super::*;
    use crate::cache::two_generation_map::Key;
    use lamna_io::file_state::Stamps;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation, Resource};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    fn entry() -> Arc<Entry> {
        let representation = Representation::with_content(&Description::of(Status(200)), b"x").unwrap();
        Arc::new(Entry::new(Resource::one(Status(200), representation), Stamps::none(), 5000))
    }

    #[test]
    fn of_many_who_miss_at_the_same_time_one_looks() {
        let (flights, looks, inside) = (SingleFlight::default(), AtomicUsize::new(0), Barrier::new(2));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.find_once(KEY, || {
                    inside.wait();
                    // Until the others have found this flight: it is held by the table, twice by this thread, and by
                    // each of them.
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
        let flights = SingleFlight::default();
        std::thread::scope(|scope| {
            let fails = scope.spawn(|| flights.find_once(KEY, || panic!("on purpose")));
            assert!(fails.join().is_err());
        });
        flights.find_once(KEY, entry);
    }
}
