//! Answers that are waited for, run through every interleaving (`models`).

#[path = "table.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod table;

/// Loom's synchronisation primitives.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

use std::sync::Arc;

use lamna_loom::{Waker, check, spawn};
use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::cache::two_generation_map::Key;
use table::{Nothing, Notify, Table};

const KEY: Key<'static> = Key { site: 0, path: b"/a" };

#[derive(Clone, Debug)]
struct Notifier(Arc<Waker>);

impl Notify for Notifier {
    fn notify(&self) {
        self.0.wake();
    }
}

/// Which asking it came of; none if it is not shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fetched(Option<usize>);

impl Nothing for Fetched {
    fn nothing() -> Fetched {
        Fetched(None)
    }
}

#[derive(Clone)]
struct World {
    table: Arc<Table<Fetched, Notifier>>,
    asked: Arc<AtomicUsize>,
}

impl World {
    fn new() -> World {
        World { table: Arc::new(Table::default()), asked: Arc::new(AtomicUsize::new(0)) }
    }

    /// Asks, or waits for who does. What it has in the end.
    fn get(&self, leaves: bool) -> Option<usize> {
        if let Some(lead) = self.table.lead(KEY) {
            if leaves {
                return None;
            }
            let number = self.asked.fetch_add(1, SeqCst) + 1;
            lead.complete(Fetched(Some(number)));
            return Some(number);
        }
        let notifier = Notifier(Arc::default());
        let wait = self.table.wait(KEY, notifier.clone())?;
        notifier.0.wait();
        let Fetched(fetched) = wait.fetched().expect("a waiter is woken when it is over");
        fetched
    }
}

#[test]
fn whoever_waits_is_woken_and_gets_what_was_asked_for_while_it_waited() {
    check(|| {
        let world = World::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let world = world.clone();
                spawn(move || world.get(false))
            })
            .collect();
        let got = world.get(false);
        let all: Vec<_> = others.into_iter().map(|other| other.join().unwrap()).chain([got]).collect();
        let asked = world.asked.load(SeqCst);
        assert!(all.into_iter().flatten().all(|number| (1..=asked).contains(&number)));
        assert!(world.table.under_way.lock().unwrap().is_empty());
    });
}

#[test]
fn whoever_leads_and_leaves_strands_nobody() {
    check(|| {
        let world = World::new();
        let other = world.clone();
        let other = spawn(move || other.get(false));
        world.get(true);
        // It was released, has asked itself, or found that no request asks any more.
        let _ = other.join().unwrap();
        assert!(world.table.under_way.lock().unwrap().is_empty());
    });
}

#[test]
fn what_was_made_void_is_shared_with_nobody() {
    check(|| {
        let world = World::new();
        let lead = world.table.lead(KEY).unwrap();
        let notifier = Notifier(Arc::default());
        let wait = world.table.wait(KEY, notifier.clone()).unwrap();
        let other = world.clone();
        let voids = spawn(move || other.table.void(&|_| true));
        // As the leader does: puts it there, looks, and takes it away again if it is void by then.
        let kept = Arc::new(AtomicUsize::new(1));
        let is_void = lead.is_void();
        lead.complete(Fetched(Some(1)));
        notifier.0.wait();
        voids.join().unwrap();
        if is_void {
            kept.store(0, SeqCst);
            assert_eq!(wait.fetched(), Some(Fetched(None)));
        }
        assert!(world.table.under_way.lock().unwrap().is_empty());
    });
}
