//! Thread pool, MT: threads that were spawned beforehand serve one connection each at a time (Flash 3.2, JAWS, Netscape
//! Enterprise).
//!
//! Its whole character: each thread waits for its own peer and its own disk, all share the caches, and their number bounds
//! how many requests are under way. What is beyond it waits its turn: first in a bounded queue, then in the listen queue.
//! Switching threads costs a few microseconds for each request; more slow clients or cold files than threads keep
//! everybody waiting.
//!
//! An idle keep-alive connection costs a place in the idle set: a descriptor and 84 bytes beside the kernel's, no thread.
//! It is parked there by the thread that served it, at once if connections wait or no other thread is free. Else the thread
//! waits for its next request for [`PATIENCE_MS`], because going through the listener thread costs two thread switches:
//! whoever comes meanwhile finds a free thread, or waits at most that long for one that only waits itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, Scope};
use std::time::Duration;

use rustix::io::Errno;

use crate::account::{self, Step};
use crate::engine::Shared;
use crate::engine::blocking::{Awaited, Driver, Left};
use crate::engine::idle_set::{Dispatch, IdleSet, Listener};
use crate::engine::slots::Slot;
use crate::engine::spawner::STACK_BYTES;

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// What makes waiting impossible, no descriptors or not a single thread to begin with.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    let (set, poll) = IdleSet::new(shared, index)?;
    let pool = Pool::new(shared, &set);
    thread::scope(|scope| {
        // Whatever happens, the threads must learn that nothing more comes.
        let _end = End(&pool);
        let keeper = Keeper { scope, pool: &pool };
        keeper.spawn_missing()?;
        Listener::new(shared, &set, poll, keeper)?.run()
    })
}

/// The threads and what waits for them.
struct Pool<'a> {
    shared: &'a Shared,
    set: &'a IdleSet<'a>,
    state: Mutex<State>,
    /// Threads wait here for connections.
    arrived: Condvar,
    /// The listener thread waits here for room in the queue.
    room: Condvar,
    /// Threads that wait for connections. Written under the lock, read without.
    free: AtomicUsize,
    /// Connections that wait for threads. Likewise.
    queued: AtomicUsize,
}

struct State {
    queue: VecDeque<Slot>,
    threads: usize,
    /// Nothing more will be queued.
    closed: bool,
}

/// How long a thread waits for the next request of a connection while other threads are free.
pub const PATIENCE_MS: u32 = 10;
/// Connections that may wait for a thread before the listener thread waits as well, and further ones in the listen queue.
const QUEUE_MAX: usize = 1024;
/// How often the listener thread, when it waits, looks whether the server is to stop.
const STOP_POLL: Duration = Duration::from_millis(50);

impl<'a> Pool<'a> {
    fn new(shared: &'a Shared, set: &'a IdleSet<'a>) -> Pool<'a> {
        let state = State { queue: VecDeque::new(), threads: 0, closed: false };
        let (free, queued) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Pool { shared, set, state: Mutex::new(state), arrived: Condvar::new(), room: Condvar::new(), free, queued }
    }

    /// The life of a thread.
    fn live(&self) {
        let mut driver = Driver::new(self.shared);
        while let Some(slot) = self.next(&mut driver) {
            self.attend(&mut driver, slot);
        }
    }

    /// Serves a connection until it is over, or somebody else's.
    fn attend(&self, driver: &mut Driver<'a>, mut slot: Slot) {
        loop {
            match driver.serve(&mut slot) {
                Left::Idle => {}
                Left::Over => return slot.close(),
                Left::Moving => return self.shared.hand_over([slot]),
            }
            if self.has_leisure() {
                match driver.await_request(&mut slot, Some(PATIENCE_MS)) {
                    Awaited::Request => continue,
                    Awaited::Nothing => {}
                    Awaited::Over => return,
                }
            }
            match self.set.park(slot) {
                Some(again) => slot = again,
                None => return,
            }
        }
    }

    /// Whether nobody waits for a thread, and whoever comes next will not have to. A hint: it may change at any moment.
    fn has_leisure(&self) -> bool {
        self.queued.load(Relaxed) == 0 && self.free.load(Relaxed) > 0
    }

    /// The next connection for the calling thread. None if it is to end.
    fn next(&self, driver: &mut Driver<'a>) -> Option<Slot> {
        loop {
            let flush_due = driver.flush_if_due();
            let mut state = self.state();
            loop {
                if state.threads > self.shared.control.threads() {
                    state.threads -= 1;
                    return None;
                }
                if let Some(slot) = state.queue.pop_front() {
                    self.queued.store(state.queue.len(), Relaxed);
                    let was_full = state.queue.len() + 1 == QUEUE_MAX;
                    drop(state);
                    if was_full {
                        self.room.notify_one();
                    }
                    return Some(slot);
                }
                if state.closed {
                    return None;
                }
                let (again, over) = self.wait(state, flush_due.map(|at| at.since(driver.now())));
                state = again;
                if over {
                    break;
                }
            }
        }
    }

    /// Waits for connections, at most `wait_ms`; whether that is over.
    fn wait<'s>(&'s self, state: MutexGuard<'s, State>, wait_ms: Option<u64>) -> (MutexGuard<'s, State>, bool) {
        let _step = account::step(Step::Wait);
        self.free.store(self.free.load(Relaxed) + 1, Relaxed);
        let (state, over) = match wait_ms {
            None => (self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner), false),
            Some(ms) => {
                // One more, because the clock is coarse.
                let wait = Duration::from_millis(ms + 1);
                let (state, result) = self.arrived.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
                (state, result.timed_out())
            }
        };
        self.free.store(self.free.load(Relaxed) - 1, Relaxed);
        (state, over)
    }

    /// Queues a connection, waiting for room.
    fn push(&self, slot: Slot) {
        let mut state = self.state();
        while state.queue.len() >= QUEUE_MAX && !self.shared.control.is_closing() {
            state = self.room.wait_timeout(state, STOP_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.queue.push_back(slot);
        self.queued.store(state.queue.len(), Relaxed);
        let waited_for = self.free.load(Relaxed) > 0;
        drop(state);
        if waited_for {
            self.arrived.notify_one();
        }
    }

    /// Nothing that is done under the lock can panic half-way.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the threads of a pool that nothing more comes.
struct End<'p, 'a>(&'p Pool<'a>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        let (mut state, control) = (self.0.state(), &self.0.shared.control);
        state.closed = true;
        if control.is_stopping() {
            state.queue.clear();
        }
        let moving = if control.is_handing_over() { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        self.0.shared.hand_over(moving);
        self.0.arrived.notify_all();
    }
}

/// Keeps a pool at its size, and gives it connections.
struct Keeper<'scope, 'env, 'a> {
    scope: &'scope Scope<'scope, 'env>,
    pool: &'scope Pool<'a>,
}

impl Keeper<'_, '_, '_> {
    /// Spawns threads until there are as many as there are to be, or as the system allows.
    fn spawn_missing(&self) -> Result<(), Errno> {
        let pool = self.pool;
        loop {
            let mut state = pool.state();
            if state.threads >= pool.shared.control.threads() {
                return Ok(());
            }
            state.threads += 1;
            let number = state.threads;
            drop(state);
            let builder = Builder::new().name(format!("pool-{number}")).stack_size(STACK_BYTES);
            if builder.spawn_scoped(self.scope, || pool.live()).is_err() {
                pool.state().threads -= 1;
                return if number == 1 { Err(Errno::AGAIN) } else { Ok(()) };
            }
        }
    }
}

impl Dispatch for Keeper<'_, '_, '_> {
    fn dispatch(&self, slot: Slot) -> Result<(), Slot> {
        self.pool.push(slot);
        Ok(())
    }

    fn handle_wake(&self) {
        // With fewer threads than wanted it goes on.
        let _ = self.spawn_missing();
        // Those that are too many see it when they wake.
        self.pool.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn pair(shared: &Shared) -> (UnixStream, Slot) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, Slot::new(ours.into(), None, shared.clock.now()))
    }

    #[test]
    fn more_connections_than_threads_are_all_served() {
        let (shared, _root) = testing::shared(2, 2);
        let (set, poll) = IdleSet::new(&shared, 0).unwrap();
        let pool = Pool::new(&shared, &set);
        thread::scope(|scope| {
            let _end = End(&pool);
            let keeper = Keeper { scope, pool: &pool };
            keeper.spawn_missing().unwrap();
            let (mut peers, slots): (Vec<_>, Vec<_>) = (0..20).map(|_| pair(&shared)).unzip();
            slots.into_iter().for_each(|slot| keeper.dispatch(slot).unwrap());
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
        let pool = Pool::new(&shared, &set);
        thread::scope(|scope| {
            let _end = End(&pool);
            let keeper = Keeper { scope, pool: &pool };
            for (wanted, had) in [(2, 2), (9, 4), (1, 1), (0, 1), (3, 3)] {
                shared.control.set_threads(wanted);
                keeper.handle_wake();
                while pool.state().threads != had {
                    thread::yield_now();
                }
            }
        });
    }
}
