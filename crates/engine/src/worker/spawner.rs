//! A thread for each connection or request, bounded in number.
//!
//! Owns: spawning and the bound, and what threads work with, which outlives them: making a front of the cache and
//! buffers anew costs as much as making a thread. Guarantees: a connection for which no thread can be had comes back.
//! Does not decide how long a thread stays with its connection.

#[cfg(test)]
mod model;
pub(crate) mod spawn_slots;

use std::thread::{Builder, Scope};

use lamna_sys::contain::contain;

use crate::worker::blocking::{CONNECTION_ENDS, Driver};
use crate::worker::connection_state::ConnectionState;
use crate::worker::shared::Shared;
use crate::worker::spawner::spawn_slots::SpawnSlots;

/// The synchronisation primitives of the slots. The model substitutes loom's.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    pub(crate) use std::sync::{Mutex, MutexGuard};
}

/// Spawns threads that do `work` with one connection and end.
pub struct Spawner<'a, W> {
    shared: &'a Shared,
    work: W,
    spawn_slots: SpawnSlots<ConnectionState, Driver<'a>>,
}

/// Drivers that are kept for threads to come, some 80 KB each: as many as a pool has threads.
const DRIVERS_MAX: usize = 64;

/// Bytes of stack of each thread: a multiple of what serving takes. The system caches stacks that are not larger.
pub const STACK_BYTES: usize = 256 * 1024;

impl<'a, W: Fn(&mut Driver<'a>, ConnectionState) + Sync> Spawner<'a, W> {
    /// No threads yet.
    pub fn new(shared: &'a Shared, work: W) -> Spawner<'a, W> {
        Spawner { shared, work, spawn_slots: SpawnSlots::new(DRIVERS_MAX) }
    }

    /// Gives `connection` to a thread of its own. To be called by one thread at a time.
    ///
    /// # Errors
    /// A connection for which there is no thread: there are as many as there may be, or the system has no more.
    pub fn spawn<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        connection: ConnectionState,
    ) -> Result<(), ConnectionState> {
        self.spawn_slots.admit(connection, self.shared.control.threads_max())?;
        let builder = Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES);
        match builder.spawn_scoped(scope, || self.live()) {
            Ok(_) => Ok(()),
            Err(_) => self.spawn_slots.withdraw().map_or(Ok(()), Err),
        }
    }

    /// The life of a thread.
    fn live(&self) {
        let (connection, driver) = self.spawn_slots.begin();
        let serve = |connection| {
            let mut driver = driver.unwrap_or_else(|| Driver::new(self.shared));
            (self.work)(&mut driver, connection);
            driver.rest();
            driver
        };
        // In any case the thread counts no more.
        self.spawn_slots.end(connection.and_then(|connection| contain(CONNECTION_ENDS, || serve(connection))));
    }
}
