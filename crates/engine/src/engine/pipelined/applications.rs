//! Connections whose requests applications answer: out of the stages, in a thread each.
//!
//! No stage waits for a peer, and an application is one more peer of a connection. So such a connection goes to a thread that waits for both
//! ([`Driver`]), as in the engines that have nothing else, and comes back to the stages when it is idle.
//!
//! Owns: [`Threads`], as many as `threads_max` says. Guarantees: who finds no free thread waits for one, in order; the pool lives until the last
//! has come back, has gone to the successor or has ended.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use lamna_sys::contain::contain;

use super::Pool;
use crate::worker::blocking::{CONNECTION_ENDS, Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::spawner::STACK_BYTES;

/// The threads of one pool.
#[derive(Debug, Default)]
pub(super) struct Threads {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<ConnectionState>,
    count: usize,
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next that waits. Without one the thread that asks is not counted any more.
    fn next(&self) -> Option<ConnectionState> {
        let mut state = self.lock();
        let next = state.waiting.pop_front();
        state.count -= usize::from(next.is_none());
        next
    }
}

/// Has a connection served until it is idle.
pub(super) fn serve(pool: &Arc<Pool>, connection: ConnectionState) {
    let threads = &pool.applications;
    let mut state = threads.lock();
    state.waiting.push_back(connection);
    if state.count >= pool.shared.control.threads_max() {
        return;
    }
    state.count += 1;
    drop(state);
    let own = pool.clone();
    let spawned = Builder::new().name("application".to_owned()).stack_size(STACK_BYTES).spawn(move || {
        while let Some(connection) = own.applications.next() {
            // One that panics has ended its connection, and is counted out like the others.
            let _ = contain(CONNECTION_ENDS, || serve_one(&own, connection));
            own.count_out();
        }
    });
    if spawned.is_err() {
        // No memory for a thread: others may come back, and who waits for none of them cannot be served.
        let mut state = threads.lock();
        state.count -= 1;
        if state.count == 0 {
            for lost in std::mem::take(&mut state.waiting) {
                drop(lost);
                pool.count_out();
            }
        }
    }
}

fn serve_one(pool: &Pool, mut connection: ConnectionState) {
    let mut driver = Driver::new(&pool.shared);
    match driver.serve(&mut connection) {
        Left::Idle => {
            driver.rest();
            connection.make_movable();
            pool.shared.adopt(connection);
        }
        Left::Moving => pool.shared.hand_over([connection]),
        Left::Over => connection.close(),
    }
}
