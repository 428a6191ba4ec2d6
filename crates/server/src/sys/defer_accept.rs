//! `TCP_DEFER_ACCEPT` of tcp(7), which rustix does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a listening socket report a connection only when its first bytes are there, or after about `seconds` without:
/// one wake-up and one receive for each new connection instead of two.
///
/// # Errors
/// The descriptor is not a TCP socket, or the kernel does not know the option.
pub(crate) fn set(listener: impl AsFd, seconds: u8) -> io::Result<()> {
    let value = libc::c_int::from(seconds);
    // SAFETY: the descriptor is borrowed for the call, and the pointer and the length are those of a live integer,
    // which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            listener.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
