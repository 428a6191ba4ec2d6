//! Signals as something to wait for: `signalfd(2)`.
//!
//! Owns: which signals are blocked, so that they arrive here and nowhere else. Guarantees: no code runs in a signal
//! handler and no thread is needed, so that a process that uses it may fork. Does not say what a signal means.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use rustix::io::Errno;
pub use rustix::process::Signal;

/// Signals that have been taken over.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
}

impl Signals {
    /// Takes `signals` over for this thread and those that it starts: to be called before there are others. What
    /// had been taken over before and is not among them stays blocked, and is thereby ignored.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn take(signals: &[Signal]) -> Result<Signals, Errno> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set, `sigaddset` is given valid signal numbers, and both other calls
        // read a live set. Blocking signals changes nothing that Rust relies on.
        let number = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), null_mut());
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if number < 0 {
            let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            return Err(Errno::from_raw_os_error(error));
        }
        // SAFETY: the descriptor has just been opened, and is not known elsewhere.
        Ok(Signals { descriptor: unsafe { OwnedFd::from_raw_fd(number) } })
    }

    /// The next signal that has arrived, if one has. Several of a kind that arrive before the first is taken are one.
    pub fn receive(&self) -> Option<Signal> {
        let mut information = [0u8; size_of::<libc::signalfd_siginfo>()];
        let bytes = rustix::io::retry_on_intr(|| rustix::io::read(&self.descriptor, &mut information)).ok()?;
        // The number is the first field, `ssi_signo`.
        let number = information[..bytes].first_chunk()?;
        Signal::from_named_raw(u32::from_ne_bytes(*number) as i32)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_taken_over_is_read_instead_of_delivered() {
        // In a thread of its own, because blocking is a matter of the thread.
        let thread = std::thread::spawn(|| {
            let signals = Signals::take(&[Signal::WINCH]).unwrap();
            assert_eq!(signals.receive(), None);
            // SAFETY: sends a signal to this thread, which has blocked it. Other threads of the test would ignore it.
            assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
            rustix::event::poll(&mut [rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN)], None)
                .unwrap();
            assert_eq!(signals.receive(), Some(Signal::WINCH));
        });
        thread.join().unwrap();
    }
}
