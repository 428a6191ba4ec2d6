//! `cachestat(2)`: how much of a range of a file is in the page cache (Linux 6.5).
//!
//! Truthful, but answered only to who owns the file or may write it; others get EPERM and need another test.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `SYS_cachestat`, which the `libc` crate does not name on every target that has it.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Pages of `file` in the page cache among those that hold `length` bytes from `offset` on.
///
/// # Errors
/// `EPERM` if the caller neither owns nor may write the file, `ENOSYS` before Linux 6.5, `EOPNOTSUPP` for hugetlbfs.
pub fn pages_cached(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<u64, Errno> {
    let range = Range { offset, length };
    let mut counts = Counts::default();
    // SAFETY: both pointers are to live values of the layout that the kernel's `struct cachestat_range` and
    // `struct cachestat` have, the second writable, and the descriptor is open for the duration of the call.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0) };
    if result == 0 {
        return Ok(counts.cached);
    }
    let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Err(Errno::from_raw_os_error(number))
}
