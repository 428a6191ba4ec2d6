//! A watch channel from a server to the thread that works for it: one task, which the server replaces or takes away.
//!
//! Owns: the task. Guarantees: the thread notices each change at the latest when it waits for the next, and waits no
//! longer once there is nothing to do. Checked against every interleaving in `model`.

use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError, wait};

/// The task.
#[derive(Debug)]
pub(super) struct Watch<T> {
    /// None once there is nothing to do any more.
    task: Mutex<Option<T>>,
    /// Told when it changes.
    changed: Condvar,
}

impl<T: Clone + PartialEq> Watch<T> {
    /// With this task.
    pub(super) fn new(task: T) -> Watch<T> {
        Watch { task: Mutex::new(Some(task)), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task.
    pub(super) fn task(&self) -> Option<T> {
        self.lock().clone()
    }

    /// Whether it still is this one.
    pub(super) fn is(&self, task: &T) -> bool {
        self.lock().as_ref() == Some(task)
    }

    /// Replaces the task, or takes it away.
    pub(super) fn put(&self, task: Option<T>) {
        let mut current = self.lock();
        if *current != task {
            *current = task;
            self.changed.notify_all();
        }
    }

    /// Waits until the task is another one than `task`, at most for so long.
    pub(crate) fn wait_for_another(&self, task: &T, most: Duration) {
        let current = self.lock();
        if current.as_ref() == Some(task) {
            drop(wait(&self.changed, current, most));
        }
    }
}
