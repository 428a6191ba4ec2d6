//! Making a process that goes on with a copy of this one's memory: `fork(2)`.
//!
//! Owns: the conditions under which that is sound. Guarantees: the new process runs what it was given and ends, also
//! when that panics; it never returns into its parent's code. Does not wait for processes.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use rustix::process::Pid;

/// The exit status of a process that panicked, as of a Rust program that does.
const STATUS_PANIC: i32 = 101;

/// Runs `child` in a new process, which ends with the status that it returns. Returns the process's id to the caller.
///
/// # Errors
/// No memory or processes; `EDEADLK` if this process has more than one thread.
pub fn fork(child: impl FnOnce() -> i32) -> Result<Pid, Errno> {
    if threads() > 1 {
        // Another thread may hold a lock, of the allocator for example, that nobody would ever release in the copy.
        return Err(Errno::DEADLK);
    }
    // SAFETY: the only thread of this process calls, so no lock is held and no value half changed in the copy: it may
    // do whatever this one may.
    match unsafe { libc::fork() } {
        0 => {
            let status = catch_unwind(AssertUnwindSafe(child)).unwrap_or(STATUS_PANIC);
            std::process::exit(status)
        }
        id => Pid::from_raw(id).filter(|_| id > 0).ok_or_else(last_error),
    }
}

/// Closes every descriptor above standard error but `kept`: for a process that is to hold nothing of what it was forked
/// from, neither sockets nor files. Only for the `child` of [`fork`], which must not use or drop what owned the others.
pub fn close_all_but(kept: BorrowedFd<'_>) {
    let kept = kept.as_raw_fd();
    close_range(3, kept - 1);
    close_range(kept + 1, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: closes numbers. That whoever owned them neither uses nor closes them again is what the caller was told.
    // If it fails (Linux before 5.9) the descriptors stay open, which costs memory only.
    unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last as libc::c_uint, 0) };
}

/// Threads of this process; 1 if that cannot be found out.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
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
            drop(hold);
        });
    }
}
