//! Slots of things that lie ready for threads that begin, and the number of threads.
//!
//! Owns: connections whose threads have not begun, the drivers of threads that have ended, and the bound on their
//! number.
//! Guarantees: a connection that was admitted is taken by one thread, or comes back because its thread could not be
//! had; never more threads than admitted. Checked against every interleaving in `model`. Does not spawn.

use std::sync::PoisonError;

use super::sync::{AtomicUsize, Mutex, MutexGuard, Relaxed};

/// The slots, for connections `T` and what threads work with, `D`.
#[derive(Debug)]
pub(crate) struct SpawnSlots<T, D> {
    threads: AtomicUsize,
    things: Mutex<Things<T, D>>,
    drivers_max: usize,
}

#[derive(Debug)]
struct Things<T, D> {
    /// Here and not in the threads, so that one whose thread cannot be had is not lost with it.
    waiting: Vec<T>,
    /// The last one used at the end: its memory is in the processor's cache.
    drivers: Vec<D>,
}

impl<T, D> SpawnSlots<T, D> {
    /// No threads yet. Of what they leave behind, `drivers_max` are kept.
    pub(super) fn new(drivers_max: usize) -> SpawnSlots<T, D> {
        let things = Things { waiting: Vec::new(), drivers: Vec::new() };
        SpawnSlots { threads: AtomicUsize::new(0), things: Mutex::new(things), drivers_max }
    }

    /// Counts a thread for `connection` and puts it down for it. To be called by one thread at a time.
    ///
    /// # Errors
    /// The connection, if there are `threads_max` threads.
    pub(super) fn admit(&self, connection: T, threads_max: usize) -> Result<(), T> {
        // Others only make it less.
        if self.threads.load(Relaxed) >= threads_max {
            return Err(connection);
        }
        self.threads.fetch_add(1, Relaxed);
        self.things().waiting.push(connection);
        Ok(())
    }

    /// A thread that was counted could not be had. Returns the connection without one: threads and connections are
    /// equally many otherwise, so that is whichever is left.
    pub(crate) fn withdraw(&self) -> Option<T> {
        self.threads.fetch_sub(1, Relaxed);
        self.things().waiting.pop()
    }

    /// A thread begins: its connection, and what another one worked with, if there is.
    pub(crate) fn begin(&self) -> (Option<T>, Option<D>) {
        let mut things = self.things();
        (things.waiting.pop(), things.drivers.pop())
    }

    /// A thread ends, leaving what it worked with.
    pub(super) fn end(&self, driver: Option<D>) {
        let mut things = self.things();
        if things.drivers.len() < self.drivers_max {
            things.drivers.extend(driver);
        }
        drop(things);
        self.threads.fetch_sub(1, Relaxed);
    }

    /// Nothing that is done under the lock can panic half-way.
    fn things(&self) -> MutexGuard<'_, Things<T, D>> {
        self.things.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
