//! Single flight, run through every interleaving (`models`).

#[path = "table.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod table;

/// Loom's synchronisation primitives.
mod sync {
    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
}

use std::sync::Arc;

use lamna_loom::{check, spawn};
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::cache::two_generation_map::Key;
use table::Table;

const KEY: Key<'static> = Key { site: 0, path: b"/a" };

#[derive(Clone)]
struct World {
    table: Arc<Table<usize>>,
    /// How many look at this moment.
    looking: Arc<AtomicUsize>,
    /// The number of looks so far. Each look finds its own number, so that an answer tells which look made it.
    looks: Arc<AtomicUsize>,
}

impl World {
    fn new() -> World {
        World { table: Arc::default(), looking: Arc::new(AtomicUsize::new(0)), looks: Arc::new(AtomicUsize::new(0)) }
    }

    /// Asks, and says which look the answer is of.
    fn ask(&self) -> usize {
        self.table.find_once(KEY, || {
            assert_eq!(self.looking.fetch_add(1, SeqCst), 0, "two look at the same time");
            let look = self.looks.fetch_add(1, SeqCst) + 1;
            self.looking.fetch_sub(1, SeqCst);
            look
        })
    }
}

#[test]
fn of_those_who_ask_at_the_same_time_one_looks_and_nobody_gets_the_answer_of_an_earlier_look() {
    check(|| {
        let world = World::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let world = world.clone();
                spawn(move || world.ask())
            })
            .collect();
        let before = world.looks.load(SeqCst);
        let found = world.ask();
        // A look that is under way when it asks counts, one that is over does not: its flight is in the table no more.
        assert!(found >= before.max(1), "found {found}, and {before} looks were begun before");
        let found: Vec<usize> = others.into_iter().map(|other| other.join().unwrap()).collect();
        let looks = world.looks.load(SeqCst);
        assert!(found.into_iter().all(|found| (1..=looks).contains(&found)));
        assert!(world.table.under_way.lock().unwrap().is_empty(), "nobody is left waiting");
    });
}

#[test]
fn who_waits_for_one_that_fails_looks_itself() {
    check(|| {
        let world = World::new();
        let other = world.clone();
        let other = spawn(move || other.ask());
        // Without the message of a panic in each of the executions.
        let fails = || world.table.find_once(KEY, || std::panic::resume_unwind(Box::new("on purpose")));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(fails));
        assert!(
            result.is_err() || result.is_ok_and(|found| found == 1),
            "it failed, or it asked while the other looked"
        );
        assert_eq!(other.join().unwrap(), 1);
        assert!(world.table.under_way.lock().unwrap().is_empty());
    });
}
