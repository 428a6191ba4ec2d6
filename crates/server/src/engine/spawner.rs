//! A thread for each connection or request, bounded in number.
//!
//! Owns: spawning and the bound, and what threads work with, which outlives them: making a front of the cache and buffers
//! anew costs as much as making a thread. Guarantees: a connection for which no thread can be had comes back. Does not
//! decide how long a thread stays with its connection.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};

use crate::engine::Shared;
use crate::engine::blocking::Driver;
use crate::engine::slots::Slot;

/// Spawns threads that do `work` with one connection and end.
pub struct Spawner<'a, W> {
    shared: &'a Shared,
    work: W,
    threads: AtomicUsize,
    shelf: Mutex<Shelf<'a>>,
}

/// What threads take when they begin.
struct Shelf<'a> {
    /// Connections whose threads have not begun. Here and not in the threads, so that one whose thread cannot be had is
    /// not lost with it.
    waiting: Vec<Slot>,
    /// What threads that have ended worked with, the last one used at the end: its memory is in the processor's cache.
    drivers: Vec<Driver<'a>>,
}

/// Drivers that are kept for threads to come, some 80 KB each: as many as a pool has threads.
const DRIVERS_MAX: usize = 64;

/// Bytes of stack of each thread: a multiple of what serving takes. The system caches stacks that are not larger.
pub const STACK_BYTES: usize = 256 * 1024;

impl<'a, W: Fn(&mut Driver<'a>, Slot) + Sync> Spawner<'a, W> {
    /// No threads yet.
    pub fn new(shared: &'a Shared, work: W) -> Spawner<'a, W> {
        let shelf = Mutex::new(Shelf { waiting: Vec::new(), drivers: Vec::new() });
        Spawner { shared, work, threads: AtomicUsize::new(0), shelf }
    }

    /// Gives `slot` to a thread of its own. To be called by one thread at a time.
    ///
    /// # Errors
    /// A connection for which there is no thread: there are as many as there may be, or the system has no more.
    pub fn spawn<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, slot: Slot) -> Result<(), Slot> {
        if self.threads.load(Relaxed) >= self.shared.control.threads_max() {
            return Err(slot);
        }
        self.threads.fetch_add(1, Relaxed);
        self.shelf().waiting.push(slot);
        let builder = Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, || self.live()) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.threads.fetch_sub(1, Relaxed);
                // Threads and connections are equally many without this one: whichever is left is the one without.
                self.shelf().waiting.pop().map_or(Ok(()), Err)
            }
        }
    }

    /// The life of a thread.
    fn live(&self) {
        let (slot, driver) = self.take();
        if let Some(slot) = slot {
            let mut driver = driver.unwrap_or_else(|| Driver::new(self.shared));
            (self.work)(&mut driver, slot);
            self.put_back(driver);
        }
        self.threads.fetch_sub(1, Relaxed);
    }

    fn take(&self) -> (Option<Slot>, Option<Driver<'a>>) {
        let mut shelf = self.shelf();
        (shelf.waiting.pop(), shelf.drivers.pop())
    }

    fn put_back(&self, mut driver: Driver<'a>) {
        driver.rest();
        let mut shelf = self.shelf();
        if shelf.drivers.len() < DRIVERS_MAX {
            shelf.drivers.push(driver);
        }
    }

    /// Nothing that is done under the lock can panic half-way.
    fn shelf(&self) -> MutexGuard<'_, Shelf<'a>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
