//! Making a process that goes on with a copy of this one's memory: `fork(2)`.
//!
//! Owns: the conditions under which that is sound. Guarantees: the new process runs what it was given and ends, also
//! when that panics; it never returns into its parent's code; a process that may have other threads is never copied.
//! Does not wait for processes.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::process::Pid;

/// The exit status of a process that panicked, as of a Rust program that does.
const STATUS_PANIC: i32 = 101;

/// Runs `child` in a new process, which ends with the status that it returns. Returns the process's id to the caller.
///
/// # Errors
/// No memory or processes; `EDEADLK` if this process has more than one thread, and what keeps that from being found
/// out.
pub fn fork(child: impl FnOnce() -> i32) -> Result<Pid, Errno> {
    if !is_alone()? {
        // Another thread may hold a lock, of the allocator for example, that would never be released in the copy.
        return Err(Errno::DEADLK);
    }
    // SAFETY: the only thread of this process calls, as has just been found out and only it could change, so no lock is
    // held and no value half changed in the copy: it may do whatever this one may.
    match unsafe { libc::fork() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(STATUS_PANIC);
            std::process::exit(status)
        }
        id => Pid::from_raw(id).filter(|_| id > 0).ok_or_else(last_error),
    }
}

/// As [`fork`], for a process that holds nothing of what it was forked from but `kept`: neither sockets nor files above
/// standard error.
///
/// # Errors
/// As [`fork`].
pub fn fork_bare(kept: &OwnedFd, with: &str, child: fn(&OwnedFd, &str) -> i32) -> Result<Pid, Errno> {
    fork(|| {
        // SAFETY: this process runs `child` and ends without returning to any caller, so owners of other descriptors on
        // the stack are neither used nor dropped. `child` is a function, which captures nothing, and is given `kept`,
        // which stays open, and a text, which has no descriptor.
        unsafe { close_all_but(kept) };
        child(kept, with)
    })
}

/// Closes every descriptor above standard error but `kept`.
///
/// # Safety
/// No owner or borrower of the others in this process uses or closes them any more.
unsafe fn close_all_but(kept: &OwnedFd) {
    let kept = kept.as_raw_fd();
    // SAFETY: of the caller.
    unsafe {
        close_range(3, kept - 1);
        close_range(kept + 1, RawFd::MAX);
    }
}

/// Closes descriptors by number.
///
/// # Safety
/// As [`close_all_but`].
unsafe fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: the caller promises that what had these numbers is neither used nor closed any more. If it fails (Linux
    // before 5.9) the descriptors stay open, which costs memory only.
    unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0) };
}

/// Whether this process has one thread.
///
/// # Errors
/// It cannot be found out.
fn is_alone() -> Result<bool, Errno> {
    match std::fs::read_dir("/proc/self/task") {
        Ok(tasks) => Ok(tasks.count() == 1),
        Err(_) => is_alone_by_kernel(),
    }
}

/// The same where `/proc` is not mounted: for a process with one thread `CLONE_THREAD` asks unshare(2) for nothing, and
/// with more it is refused.
fn is_alone_by_kernel() -> Result<bool, Errno> {
    // SAFETY: with this flag alone the call changes nothing, or fails.
    match unsafe { libc::unshare(libc::CLONE_THREAD) } {
        0 => Ok(true),
        _ => match last_error() {
            Errno::INVAL => Ok(false),
            unknown => Err(unknown),
        },
    }
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_copied() {
        std::thread::scope(|scope| {
            let (hold, held) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || held.recv());
            assert_eq!(fork(|| 0), Err(Errno::DEADLK));
            // Some containers do not allow the question: then the answer is that it is not known, and never yes.
            assert_ne!(is_alone_by_kernel(), Ok(true));
            drop(hold);
        });
    }
}
