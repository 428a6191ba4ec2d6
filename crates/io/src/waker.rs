//! Waking a thread that waits in epoll or poll.
//!
//! Owns: one eventfd. Guarantees: a wake before the wait ends that wait; wakes between two waits count once.

use std::os::fd::OwnedFd;

use lamna_sys::metrics::step_timer::{self, Step};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes a worker that waits in epoll.
#[derive(Debug)]
pub struct Waker {
    event: OwnedFd,
}

impl Waker {
    /// A waker, with no thread waiting yet.
    ///
    /// # Errors
    /// No descriptors.
    pub fn new() -> Result<Waker, Errno> {
        Ok(Waker { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes it.
    pub fn wake(&self) {
        let _step = step_timer::step(Step::Synchronize);
        // It fails only when the counter is full, and then the worker is being woken anyway.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// It has woken: the next wake counts again.
    pub fn reset(&self) {
        let _step = step_timer::step(Step::Synchronize);
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
    }

    /// The descriptor to wait for.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.event
    }
}
