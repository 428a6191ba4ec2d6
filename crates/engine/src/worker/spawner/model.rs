//! The slots of a spawner, run through every interleaving (`models`).

#[path = "spawn_slots.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod spawn_slots;

/// The synchronisation primitives of the model: loom's.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    pub(super) use loom::sync::{Mutex, MutexGuard};
}

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use lamna_loom::{Tally, check, spawn};
use spawn_slots::SpawnSlots;

const THREADS_MAX: usize = 2;

/// The tool of a thread: no other thread may have it meanwhile, which loom's cell verifies.
type Tool = loom::cell::UnsafeCell<()>;

#[derive(Clone)]
struct Spawner {
    spawn_slots: Arc<SpawnSlots<usize, Tool>>,
    alive: Arc<AtomicUsize>,
    served: Tally,
    refused: Tally,
}

impl Spawner {
    fn new() -> Spawner {
        let alive = Arc::new(AtomicUsize::new(0));
        Spawner {
            spawn_slots: Arc::new(SpawnSlots::new(1)),
            alive,
            served: Tally::default(),
            refused: Tally::default(),
        }
    }

    /// Spawns a thread as `Spawner::spawn` does where the system has threads.
    fn spawn(&self, connection: usize) -> Option<loom::thread::JoinHandle<()>> {
        if let Err(refused) = self.spawn_slots.admit(connection, THREADS_MAX) {
            self.refused.note(refused);
            return None;
        }
        let spawner = self.clone();
        Some(spawn(move || spawner.live()))
    }

    fn live(&self) {
        assert!(self.alive.fetch_add(1, SeqCst) < THREADS_MAX, "more threads than there may be");
        let (connection, tool) = self.spawn_slots.begin();
        let tool = tool.unwrap_or_else(|| Tool::new(()));
        tool.with_mut(|_| ());
        self.served.note(connection.expect("there is one for each thread"));
        self.alive.fetch_sub(1, SeqCst);
        self.spawn_slots.end(Some(tool));
    }

    /// And where it has none.
    fn fail_to_spawn(&self, connection: usize) {
        match self.spawn_slots.admit(connection, THREADS_MAX) {
            Ok(()) => self.refused.note(self.spawn_slots.withdraw().expect("one is left without a thread")),
            Err(refused) => self.refused.note(refused),
        }
    }

    fn everything(&self) -> Vec<usize> {
        let both = Tally::default();
        self.served.sorted().into_iter().chain(self.refused.sorted()).for_each(|connection| both.note(connection));
        both.sorted()
    }
}

#[test]
fn connections_are_served_or_refused_and_threads_stay_within_their_bound() {
    check(|| {
        let spawner = Spawner::new();
        let threads: Vec<_> = (1..=3).filter_map(|connection| spawner.spawn(connection)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(spawner.everything(), [1, 2, 3]);
        assert!(spawner.served.sorted().len() >= THREADS_MAX);
        // All have ended, so there is room again.
        let thread = spawner.spawn(4).expect("there is room");
        thread.join().unwrap();
    });
}

#[test]
fn a_thread_that_cannot_be_had_costs_no_connection() {
    check(|| {
        let spawner = Spawner::new();
        let first = spawner.spawn(1);
        spawner.fail_to_spawn(2);
        let third = spawner.spawn(3);
        first.into_iter().chain(third).for_each(|thread| thread.join().unwrap());
        assert_eq!(spawner.everything(), [1, 2, 3]);
        assert_eq!(spawner.refused.sorted().len(), 1, "the bound counts no thread that could not be had");
    });
}
