//! Descriptors that this process was started with (sd_listen_fds(3)).
//!
//! Owns: the passage from numbers to owned descriptors, which happens once. What they are for is the caller's business.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// `SD_LISTEN_FDS_START`: the first descriptor after the standard ones.
const FIRST: RawFd = 3;

static TAKEN: AtomicBool = AtomicBool::new(false);

/// The `count` descriptors from 3 on, which the caller has been told were passed to this process. Each must pass
/// `check` before any is owned, so that a false promise does not close something else. A second call gets none.
///
/// # Errors
/// The number of the first descriptor that is not open or does not pass, and why.
pub(crate) fn take(
    count: u16,
    check: impl Fn(BorrowedFd<'_>) -> io::Result<()>,
) -> Result<Vec<OwnedFd>, (RawFd, io::Error)> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let numbers = FIRST..FIRST + RawFd::from(count);
    for number in numbers.clone() {
        // SAFETY: borrowed for this call only. If the number is not open, the calls of `check` fail with EBADF, which
        // is the question asked; nothing is closed or kept.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        check(borrowed).map_err(|error| (number, error))?;
    }
    // SAFETY: the numbers are open and of the expected kind. LISTEN_PID named this process, so they were open before
    // its first instruction, and no one else in it was told about them; TAKEN lets this happen once.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect())
}
