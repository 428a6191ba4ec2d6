//! Answers whose programs have ended, on their way to clients that read slowly.
//!
//! Owns: [`Leftovers`], and the loop that sends them, in a thread of its own. Guarantees: one whose client has left, or
//! has taken nothing for as long as a program may take, is given up; content that its program has not read is no sign
//! of that, and is dropped; the connection of one that is not whole ends without END_REQUEST. How many there are, and
//! how much they keep, is bounded by the pumps that hand them over (`output::Room`).

use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lamna_io::waker::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::output::{Output, OutputReservation};
use super::request::{Inbound, is_later};

/// How often it is looked who has taken nothing for too long.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// An answer without its program.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) stream: UnixStream,
    /// Without a program that reads content.
    pub(super) inbound: Inbound,
    pub(super) output: Output,
    /// Counts it, if its output does not.
    #[expect(dead_code, reason = "it counts until it is dropped")]
    pub(super) kept: Option<OutputReservation>,
    /// When the client has taken something.
    pub(super) progress: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Leftovers {
    arrived: Mutex<Arrived>,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Arrived {
    leftovers: Vec<Leftover>,
    has_ended: bool,
}

impl Leftovers {
    /// None yet.
    ///
    /// # Errors
    /// No descriptor.
    pub(super) fn new() -> Result<Leftovers, Errno> {
        Ok(Leftovers { arrived: Mutex::default(), waker: Waker::new()? })
    }

    /// One more, whose connection does not wait.
    pub(super) fn add(&self, leftover: Leftover) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).leftovers.push(leftover);
        self.waker.wake();
    }

    /// No more come.
    pub(super) fn end(&self) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        self.waker.wake();
    }

    /// Sends them until there are none, and no more come. Clients may take nothing for `patience`.
    pub(super) fn send_all(&self, patience: Duration) {
        let mut all: Vec<Leftover> = Vec::new();
        loop {
            let has_ended = {
                let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
                all.append(&mut arrived.leftovers);
                arrived.has_ended
            };
            if has_ended && all.is_empty() {
                return;
            }
            let streams = all.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN | PollFlags::OUT));
            let mut waited: Vec<_> =
                [PollFd::new(self.waker.descriptor(), PollFlags::IN)].into_iter().chain(streams).collect();
            // Whatever went wrong, looking at everything is right: no end waits.
            let _ = poll(&mut waited, (!all.is_empty()).then_some(&LOOK));
            drop(waited);
            self.waker.reset();
            all.retain_mut(|leftover| leftover.goes_on(patience));
        }
    }
}

impl Leftover {
    /// Sends what the connection takes. Whether there is more to do.
    fn goes_on(&mut self, patience: Duration) -> bool {
        match self.output.send(&mut self.stream) {
            Ok(0) => {}
            Ok(_) => self.progress = Instant::now(),
            Err(error) if is_later(&error) => {}
            Err(_) => return false,
        }
        let has_left = self.inbound.receive(&mut self.stream).is_err();
        !has_left && !self.output.is_empty() && self.progress.elapsed() < patience
    }
}
