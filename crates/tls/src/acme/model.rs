//! The watch channel between a server and its thread, run through every interleaving (`models`).

#[path = "watch.rs"]
#[allow(clippy::duplicate_mod, reason = "the same source over other primitives")]
mod watch;

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

use lamna_loom::{check, spawn};
use watch::Watch;

#[test]
fn who_works_sees_the_last_task_or_none_and_ends_when_there_is_nothing_to_do() {
    check(|| {
        let watch = Arc::new(Watch::new(1_u32));
        let worker = {
            let watch = Arc::clone(&watch);
            spawn(move || {
                let mut last = 0;
                while let Some(task) = watch.task() {
                    assert!(task >= last, "{task} after {last}");
                    last = task;
                    if !watch.is(&task) {
                        continue;
                    }
                    watch.wait_for_another(&task, Duration::ZERO);
                }
            })
        };
        watch.put(Some(2));
        watch.put(None);
        worker.join().unwrap();
    });
}
