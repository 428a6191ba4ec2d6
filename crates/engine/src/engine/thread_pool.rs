//! Thread pool, MT: threads that were spawned beforehand serve one connection each at a time (Flash 3.2, JAWS, Netscape
//! Enterprise).
//!
//! Its whole character: each thread waits for its own peer and its own disk, all share the caches, and their number
//! bounds how many requests are under way. What is beyond it waits its turn: first in a bounded queue, then in the
//! listen queue. Switching threads costs a few microseconds for each request; more cold files than threads keep
//! everybody waiting.
//!
//! A client that is slow to send or to take something keeps a thread for [`PATIENCE_MS`] at most, and for no time while
//! others need one: its connection waits in the idle set with what it has received.
//!
//! An idle keep-alive connection costs a place in the idle set: a descriptor and 96 bytes beside the kernel's, no
//! thread. It is parked there by the thread that served it, at once if connections wait or no other thread is free.
//! Else the thread waits for its next request for [`PATIENCE_MS`], because going through the listener thread costs two
//! thread switches. A connection that comes meanwhile finds a free thread, or waits at most that long for one that only
//! waits itself.

#[cfg(test)]
mod model;
mod work_queue;

use std::thread::{self, Builder, Scope};
use std::time::Duration;

use lamna_proto::time::Instant;
use lamna_sys::contain::contain;
use rustix::io::Errno;

use crate::engine::thread_pool::work_queue::{Turn, WorkQueue};
use crate::worker::blocking::{Awaited, CONNECTION_ENDS, Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::idle_set::{Dispatch, IdleSet, Listener};
use crate::worker::shared::Shared;
use crate::worker::spawner::STACK_BYTES;

/// The synchronisation primitives of the work queue. The model substitutes loom's.
mod sync {
    pub(super) use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
}

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// The wait for events fails, or there are no descriptors or not a single thread to begin with.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    let (set, poll) = IdleSet::new(shared, index)?;
    let pool = Pool::new(shared, index, &set);
    thread::scope(|scope| {
        // Whatever happens, the threads must learn that nothing more comes.
        let _end = End(&pool);
        let keeper = PoolManager { scope, pool: &pool };
        keeper.spawn_missing()?;
        Listener::new(shared, &set, poll, keeper)?.run()
    })
}

/// State that all threads of the pool share.
struct Pool<'a> {
    shared: &'a Shared,
    /// The index of the worker.
    index: usize,
    set: &'a IdleSet<'a>,
    /// Connections with the time since which each waits.
    work_queue: WorkQueue<(ConnectionState, Instant)>,
}

/// How long a thread waits for the next request of a connection while other threads are free.
pub const PATIENCE_MS: u32 = 10;
/// Connections that may wait for a thread before the listener thread waits as well, and further ones in the listen
/// queue.
const QUEUE_MAX: usize = 1024;

impl<'a> Pool<'a> {
    fn new(shared: &'a Shared, index: usize, set: &'a IdleSet<'a>) -> Pool<'a> {
        Pool { shared, index, set, work_queue: WorkQueue::new(QUEUE_MAX) }
    }

    /// The life of a thread.
    fn live(&self) {
        let mut driver = Driver::new(self.shared);
        loop {
            let flush_due = driver.flush_if_due();
            // One more, because milliseconds are rounded.
            let patience = flush_due.map(|at| Duration::from_millis(at.since(driver.now()) + 1));
            match self.work_queue.next(|| self.shared.control.threads(), patience) {
                Turn::Serve((connection, since)) => {
                    let score = self.shared.score(self.index);
                    score.begin_thread(self.shared.clock.now().since(since));
                    score.show_queued(self.work_queue.queued());
                    let attend = || self.attend(&mut driver, connection);
                    if contain(CONNECTION_ENDS, attend).is_none() {
                        driver = Driver::new(self.shared);
                    }
                    score.end_thread();
                }
                Turn::Pause => {}
                Turn::End => return,
            }
        }
    }

    /// Serves a connection until it is closed, parked in the idle set or handed over to the successor of this engine.
    fn attend(&self, driver: &mut Driver<'a>, mut connection: ConnectionState) {
        loop {
            // Who keeps a thread waiting waits without one.
            let left =
                driver.serve_prompt(&mut connection, || if self.work_queue.has_leisure() { PATIENCE_MS } else { 0 });
            match left {
                Ok(Left::Idle) => {}
                Ok(Left::Over) => return connection.close(),
                Ok(Left::Moving) => return self.shared.hand_over([connection]),
                Err(interest) => match self.set.park_busy(connection, interest) {
                    // It has what it waited for, or there is no place to wait at any more.
                    Some(again) if !self.set.is_closed() => {
                        connection = again;
                        continue;
                    }
                    Some(mut last) => match driver.serve(&mut last) {
                        Left::Moving => return self.shared.hand_over([last]),
                        Left::Idle | Left::Over => return last.close(),
                    },
                    None => return,
                },
            }
            if self.work_queue.has_leisure() {
                match driver.await_request(&mut connection, Some(PATIENCE_MS)) {
                    Awaited::Request => continue,
                    Awaited::Nothing => {}
                    Awaited::Over => return,
                }
            }
            match self.set.park(connection) {
                Some(again) => connection = again,
                None => return,
            }
        }
    }
}

/// Tells the threads of a pool that nothing more comes.
struct End<'p, 'a>(&'p Pool<'a>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        let (work_queue, shared) = (&self.0.work_queue, self.0.shared);
        work_queue.close();
        if shared.control.is_handing_over() {
            shared.hand_over(work_queue.clear().into_iter().map(|(connection, _)| connection));
        } else if shared.control.is_stopping() {
            work_queue.clear();
        }
    }
}

/// Keeps a pool at its size, and gives it connections.
struct PoolManager<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    pool: &'scope Pool<'a>,
}

impl PoolManager<'_, '_, '_> {
    /// Spawns threads until there are as many as there are to be, or as the system allows.
    fn spawn_missing(&self) -> Result<(), Errno> {
        let pool = self.pool;
        while let Some(number) = pool.work_queue.enlist(pool.shared.control.threads()) {
            let builder = Builder::new().name(format!("pool-{number}")).stack_size(STACK_BYTES);
            if builder.spawn_scoped(self.scope, || pool.live()).is_err() {
                pool.work_queue.strike_off();
                return if number == 1 { Err(Errno::AGAIN) } else { Ok(()) };
            }
        }
        Ok(())
    }
}

impl Dispatch for PoolManager<'_, '_, '_> {
    fn dispatch(&self, connection: ConnectionState) -> Result<(), ConnectionState> {
        let Pool { shared, work_queue, index, .. } = self.pool;
        work_queue.push((connection, shared.clock.now()), || shared.control.is_closing());
        shared.score(*index).show_queued(work_queue.queued());
        Ok(())
    }

    fn handle_wake(&self) {
        // With fewer threads than wanted it goes on.
        let _ = self.spawn_missing();
        // Those that are too many see it when they wake.
        self.pool.work_queue.call_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn pair(shared: &Shared) -> (UnixStream, ConnectionState) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ConnectionState::new(ours.into(), None, shared.clock.now()))
    }

    #[test]
    fn more_connections_than_threads_are_all_served() {
        let (shared, _root) = testing::shared(2, 2);
        let (set, poll) = IdleSet::new(&shared, 0).unwrap();
        let pool = Pool::new(&shared, 0, &set);
        thread::scope(|scope| {
            let _end = End(&pool);
            let keeper = PoolManager { scope, pool: &pool };
            keeper.spawn_missing().unwrap();
            let (mut peers, connections): (Vec<_>, Vec<_>) = (0..20).map(|_| pair(&shared)).unzip();
            connections.into_iter().for_each(|connection| keeper.dispatch(connection).unwrap());
            let listener = Listener::new(&shared, &set, poll, keeper).unwrap();
            let control = &shared.control;
            scope.spawn(move || {
                for _ in 0..5 {
                    for peer in &mut peers {
                        peer.write_all(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
                    }
                    for peer in &mut peers {
                        let mut buffer = [0; 4096];
                        let bytes = peer.read(&mut buffer).unwrap();
                        assert!(buffer[..bytes].ends_with(b"hello"));
                    }
                }
                control.drain();
            });
            listener.run().unwrap();
        });
    }

    #[test]
    fn a_pool_grows_and_shrinks_to_what_is_asked_for_within_its_bound() {
        let (shared, _root) = testing::shared(2, 4);
        let (set, _poll) = IdleSet::new(&shared, 0).unwrap();
        let pool = Pool::new(&shared, 0, &set);
        thread::scope(|scope| {
            let _end = End(&pool);
            let keeper = PoolManager { scope, pool: &pool };
            for (wanted, had) in [(2, 2), (9, 4), (1, 1), (0, 1), (3, 3)] {
                shared.control.set_threads(wanted);
                keeper.handle_wake();
                while pool.work_queue.threads() != had {
                    thread::yield_now();
                }
            }
        });
    }
}
