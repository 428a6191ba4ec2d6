//! PIPELINED: five stages and two helpers in threads of their own, and connections that move from one to the next
//! (Choi, Kim, Ersoz and Das, "A Multi-Threaded PIPELINED Web Server Architecture for SMP/SoC Machines", 4).
//!
//! Its whole character: each basic step of a request is a thread. What a stage would have to wait for at the disk goes
//! to a helper, together with the connection that wants it, and the stage takes up the next one. A pool of these seven
//! threads serves for one processor; all pools share the caches, in one process. No two threads share a connection,
//! because a [`Job`](job::Job) is in one place at a time. It costs a queue between steps that an event loop takes one
//! after the other, and a context switch when a stage has no more to do, which a batch of requests shares. It buys that
//! a step which is slow for one request delays no other, with seven threads for each processor instead of MT's 64.
//! `route` draws the ways of connections between the stages.
//!
//! # How the core's steps became stages
//! Each stage (`stage`) gives a connection a turn of the drive loop that all engines have (`worker/drive.rs`), and does
//! its own [`Duty`](route::Duty) of it. What it leaves is a [`Task`](job::Task) that goes with the connection.
//! - *Read request* receives, and has the core parse what has arrived. It leaves looking up.
//! - *Find file* looks the target up and tells the core, which writes the head. What is not in the cache is tried
//!   without waiting, then left to the path helper, which passes the connection back with what it found. A translation
//!   of a file of at most 256 KB includes its content, so that is read there as well. Requests that have been received
//!   behind the first are parsed and looked up here too: so a batch passes the stages once.
//! - *Send header* sends what is ready. A head and content in memory are one message: so a small cached response takes
//!   three stages, and the connection is home again. To send its content in a stage of its own would be a second
//!   packet.
//! - *Read file and send data* has what remains: files that are not held in memory, whose head the core writes only
//!   when their first piece can be sent (a file that cannot be read is a 500, not a broken 200), and connections that
//!   take less than they are offered.
//! - Going home wakes no thread: whichever stage has answered parks the connection where the read stage waits for it
//!   (`worker/idle_set/parked_connections.rs`), and its next event wakes that stage.
//!
//! A connection whose request an application answers leaves the stages for a thread that waits for the application
//! (`applications`).
//!
//! Giving a connection on makes no stage wait ([`mod@inbox`]), so the ring of stages cannot block itself. A stage that
//! panics ends its pool and the connections in it, and another pool takes its place.

mod accept;
mod applications;
mod helpers;
mod inbox;
mod job;
#[cfg(test)]
mod model;
mod pool;
mod route;
mod stage;

use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::io::Errno;

use crate::worker::shared::Shared;
use pool::{End, EndsPool, Pool};
use route::{HELPERS, STAGES};

/// The primitives of inboxes. The model has loom's in their place.
mod sync {
    use std::sync::PoisonError;
    pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
    use std::time::Duration;

    pub(super) use lamna_io::waker::Waker;
    use lamna_sys::metrics::step_timer::{self, Step};

    /// Sleeps until another thread wakes it, or for `timeout`, and now and then without a reason.
    pub(super) fn sleep<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        let _step = step_timer::step(Step::Wait);
        condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Serves as worker `index`, with a pool of seven threads of which this is one, until told to drain or stop.
///
/// # Errors
/// No threads, descriptors or memory to begin with, or what makes waiting impossible.
pub fn run(shared: &Arc<Shared>, index: usize) -> Result<(), Errno> {
    let pool = Arc::new(Pool::new(shared, index)?);
    let _ends = EndsPool(pool.clone());
    let stages = STAGES.iter().map(|duty| pool.start(*duty, stage::run)).collect::<Result<Vec<_>, _>>()?;
    let helpers = HELPERS.iter().map(|duty| pool.start(*duty, helpers::run)).collect::<Result<Vec<_>, _>>()?;
    accept::run(&pool)?;
    pool.end();
    let step = stages.into_iter().try_for_each(join);
    // Nobody waits for those any more that rest.
    drop((pool.home.close(), pool.slow.close()));
    // Told to stop, nobody waits for the disk, and so for a helper.
    if !shared.control.is_stopping() {
        return step.and(helpers.into_iter().try_for_each(join));
    }
    step
}

fn join(thread: JoinHandle<End>) -> End {
    // One that panicked has said so on standard error. The pool is to be made again.
    thread.join().unwrap_or(Err(Errno::CANCELED))
}
