//! A thread for each connection or request, bounded in number.
//!
//! Owns: spawning and the bound. Guarantees: a connection for which no thread can be had comes back. Does not decide how
//! long a thread stays with its connection.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope};

use crate::engine::Shared;
use crate::engine::blocking::Driver;
use crate::engine::slots::Slot;

/// Spawns threads that do `work` with one connection and end.
pub struct Spawner<'a, W> {
    shared: &'a Shared,
    work: W,
    threads: AtomicUsize,
    /// Connections whose threads have not begun. Here and not in the threads, so that one whose thread cannot be had is
    /// not lost with it.
    waiting: Mutex<Vec<Slot>>,
}

/// Bytes of stack of each thread: a multiple of what serving takes. The system caches stacks that are not larger.
pub const STACK_BYTES: usize = 256 * 1024;

impl<'a, W: Fn(&mut Driver<'a>, Slot) + Sync> Spawner<'a, W> {
    /// No threads yet.
    pub fn new(shared: &'a Shared, work: W) -> Spawner<'a, W> {
        Spawner { shared, work, threads: AtomicUsize::new(0), waiting: Mutex::new(Vec::new()) }
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
        self.push(slot);
        let builder = Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, || self.live()) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.threads.fetch_sub(1, Relaxed);
                // Threads and connections are equally many without this one: whichever is left is the one without.
                self.pop().map_or(Ok(()), Err)
            }
        }
    }

    /// The life of a thread.
    fn live(&self) {
        if let Some(slot) = self.pop() {
            let mut driver = Driver::new(self.shared);
            (self.work)(&mut driver, slot);
        }
        self.threads.fetch_sub(1, Relaxed);
    }

    fn push(&self, slot: Slot) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    fn pop(&self) -> Option<Slot> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}
