//! The desk between a server and its thread, run through every interleaving (`models`).

#[path = "desk.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod desk;

/// Loom's synchronisation primitives. Time wakes no thread there: a change that is told too early would be waited for
/// without end.
mod sync {
    use std::time::Duration;

    pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;

    pub(super) fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>, _: Duration) -> MutexGuard<'a, T> {
        changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

use std::sync::Arc;
use std::time::Duration;

use desk::Desk;
use lamna_loom::{check, spawn};

#[test]
fn who_works_sees_the_last_task_or_none_and_ends_when_there_is_nothing_to_do() {
    check(|| {
        let desk = Arc::new(Desk::new(1_u32));
        let worker = {
            let desk = Arc::clone(&desk);
            spawn(move || {
                let mut last = 0;
                while let Some(task) = desk.task() {
                    assert!(task >= last, "{task} after {last}");
                    last = task;
                    if !desk.is(&task) {
                        continue;
                    }
                    desk.wait_for_another(&task, Duration::ZERO);
                }
            })
        };
        desk.put(Some(2));
        desk.put(None);
        worker.join().unwrap();
    });
}
