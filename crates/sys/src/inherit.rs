//! Descriptors that this process was started with, and those that another is to be started with.
//!
//! Owns: the passage from numbers to owned descriptors, which happens once. What they are for is the caller's business:
//! socket activation (sd_listen_fds(3)) or the upgrade of a running server.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Signal, set_parent_process_death_signal};

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The descriptors of these numbers, which the caller has been told were passed to this process. Each must pass
/// `check`, which is told its place among them, before any is owned, so that a false promise does not close something
/// else. A second call gets none.
///
/// # Errors
/// The number of the first descriptor that is named twice, not open or does not pass, and why.
pub fn take(
    numbers: &[RawFd],
    check: impl Fn(BorrowedFd<'_>, usize) -> io::Result<()>,
) -> Result<Vec<OwnedFd>, (RawFd, io::Error)> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    for (place, number) in numbers.iter().enumerate() {
        if *number < 0 || numbers[..place].contains(number) {
            return Err((*number, Errno::BADF.into()));
        }
        // SAFETY: not -1, and borrowed for this call only. If the number is not open, the calls of `check` fail with
        // EBADF, which is the question asked; nothing is closed or kept.
        let borrowed = unsafe { BorrowedFd::borrow_raw(*number) };
        check(borrowed, place).map_err(|error| (*number, error))?;
    }
    // SAFETY: the numbers are open, each named once, and of the expected kind. The variables named this process, so
    // they were open before its first instruction, and no one else in it was told about them; TAKEN lets this happen
    // once.
    Ok(numbers.iter().map(|number| unsafe { OwnedFd::from_raw_fd(*number) }).collect())
}

/// A duplicate of `descriptor` that programs started from now on are started with, and its number. To be dropped as
/// soon as the one that it is for has been started, so that no other gets it.
///
/// # Errors
/// No descriptors.
pub fn pass_on(descriptor: impl AsFd) -> Result<(OwnedFd, RawFd), Errno> {
    // Above the standard ones, which a start replaces.
    let passed = rustix::io::fcntl_dupfd_cloexec(descriptor, STANDARD)?;
    fcntl_setfd(&passed, FdFlags::empty())?;
    let number = passed.as_raw_fd();
    Ok((passed, number))
}

/// Has what `command` starts get all signals, which this process has blocked to read them, have no descriptors but the
/// standard ones, and be killed when the thread ends that starts it.
pub fn prepare_program(command: &mut Command) {
    let prepare = || {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set, which the other call reads.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
        }
        // SAFETY: closes nothing before exec, and touches no memory. A kernel before 5.11 refuses: then the program
        // gets the descriptors that the server's parent had left open, as any program does. What the server itself
        // opens is closed by exec.
        unsafe { libc::syscall(libc::SYS_close_range, STANDARD, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec it makes system calls, and allocates nothing: an error of the system is a number.
    unsafe { command.pre_exec(prepare) };
}

/// How many standard descriptors there are.
const STANDARD: RawFd = 3;
