//! Taking connections from another process for engines whose workers are threads.
//!
//! Owns: a thread that lasts as long as there may be some, and puts them into the inboxes of the engine that serves.
//! Guarantees: takes no more than there are descriptors for. Engines that take them themselves have no use for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lamna_io::log::errors::{self, Level};
use lamna_sys::contain::contain;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::worker::migration::transfer::{Arrival, Receiver};
use crate::worker::shared::Shared;

/// A thread that takes connections.
#[derive(Debug)]
pub struct Arrivals {
    thread: JoinHandle<()>,
    stopping: Arc<AtomicBool>,
}

/// How often it is looked whether to stop.
const STOP_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long to wait for descriptors.
const CROWDED_PAUSE: Duration = Duration::from_millis(100);

impl Arrivals {
    /// Takes what arrives for the engine of `shared`, or for its successors.
    ///
    /// # Errors
    /// No threads.
    pub fn start(shared: Arc<Shared>, receiver: Arc<Receiver>) -> io::Result<Arrivals> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = thread::Builder::new()
            .name("arrivals".to_owned())
            .spawn(move || enter_and_take(&shared, &receiver, &stop))?;
        Ok(Arrivals { thread, stopping })
    }

    /// Whether nothing will arrive any more.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Takes nothing more.
    pub fn stop(self) {
        self.stopping.store(true, Relaxed);
        // One that panicked has said so on standard error.
        let _ = self.thread.join();
    }
}

fn enter_and_take(shared: &Shared, receiver: &Receiver, stop: &AtomicBool) {
    match shared.confinement.workers.enter() {
        Ok(()) => take(shared, receiver, stop),
        Err(error) => errors::report(Level::Error, format_args!("connections of the other process are lost: {error}")),
    }
}

fn take(shared: &Shared, receiver: &Receiver, stop: &AtomicBool) {
    while !stop.load(Relaxed) {
        let take = || receiver.take(&*shared.sites, shared.clock.now());
        match contain("A connection of the other process is closed.", take).unwrap_or(Arrival::Nothing) {
            Arrival::Connection(connection) => shared.adopt(shared.keep(*connection)),
            Arrival::Nothing => {
                // Whatever it returns, taking tells.
                let _ = poll(&mut [PollFd::new(receiver, PollFlags::IN)], Some(&STOP_POLL));
            }
            Arrival::Crowded => thread::sleep(CROWDED_PAUSE),
            Arrival::End => return,
        }
    }
}
