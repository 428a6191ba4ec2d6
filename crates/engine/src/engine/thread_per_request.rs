//! Thread per request: a thread is spawned when a request arrives and ends when it has been answered (JAWS, PHTTPD).
//!
//! Its whole character: the concurrency of threads without holding any for idle clients, at the price of making a
//! thread for each request: its stack, its buffers, its end. Measured with small cached files, some 30 us of CPU more
//! than a pool. Worth it only where answering takes longer than that. Requests that arrive together on a connection are
//! answered by one thread.
//!
//! An idle keep-alive connection costs a place in the idle set: a descriptor and 96 bytes beside the kernel's, no
//! thread. So does one whose peer takes its time to send a request, or to take the answer: its thread ends, and another
//! one goes on when there is something to do. Requests for which there is no thread are answered with 503 and
//! Retry-After, and are the last of their connection.

use std::thread::{self, Scope};

use rustix::io::Errno;

use crate::worker::blocking::{Driver, Left};
use crate::worker::connection_state::ConnectionState;
use crate::worker::idle_set::{Dispatch, IdleSet, Listener};
use crate::worker::shared::Shared;
use crate::worker::spawner::Spawner;

/// Serves as worker `index` until told to drain or stop.
///
/// # Errors
/// The wait for events fails, or there are no descriptors to begin with.
pub fn run(shared: &Shared, index: usize) -> Result<(), Errno> {
    let (set, poll) = IdleSet::new(shared, index)?;
    let spawner = Spawner::new(shared, |driver: &mut Driver<'_>, connection| answer(shared, driver, &set, connection));
    thread::scope(|scope| Listener::new(shared, &set, poll, Spawning { scope, spawner: &spawner })?.run())
}

/// The life of a thread.
fn answer(shared: &Shared, driver: &mut Driver<'_>, set: &IdleSet<'_>, mut connection: ConnectionState) {
    loop {
        let parked = match driver.serve_prompt(&mut connection, || 0) {
            Ok(Left::Idle) => set.park(connection),
            Ok(Left::Over) => return connection.close(),
            Ok(Left::Moving) => return shared.hand_over([connection]),
            // Who keeps a thread waiting waits without one.
            Err(interest) => match set.park_busy(connection, interest) {
                // There is no place to wait at any more.
                Some(mut last) if set.is_closed() => match driver.serve(&mut last) {
                    Left::Moving => return shared.hand_over([last]),
                    Left::Idle | Left::Over => return last.close(),
                },
                parked => parked,
            },
        };
        match parked {
            Some(again) => connection = again,
            None => return,
        }
    }
}

struct Spawning<'scope, 'env, W> {
    scope: &'scope Scope<'scope, 'env>,
    spawner: &'scope W,
}

impl<'scope, 'a, W> Dispatch for Spawning<'scope, '_, Spawner<'a, W>>
where
    W: Fn(&mut Driver<'a>, ConnectionState) + Sync,
{
    fn dispatch(&self, connection: ConnectionState) -> Result<(), ConnectionState> {
        self.spawner.spawn(self.scope, connection)
    }
}
