//! The user and process at the other end of a Unix socket: `SO_PEERCRED` of unix(7).
//!
//! Owns: asking the kernel. `rustix` has this as well, but with a process id that cannot be 0, which is what the kernel
//! says of a peer in another PID namespace.
#![allow(unsafe_code)]

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// The user that the process had when it connected, as this user namespace sees it.
///
/// # Errors
/// It is not a connected Unix socket.
pub fn user(socket: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut credentials = MaybeUninit::<libc::ucred>::zeroed();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of what it is given; and every bit pattern,
    // zero included, is a `ucred`.
    let (result, credentials) = unsafe {
        let result = libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            credentials.as_mut_ptr().cast(),
            &mut length,
        );
        (result, credentials.assume_init())
    };
    match result {
        0 => Ok(credentials.uid),
        _ => Err(Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_peer_in_this_process_is_its_user_and_a_file_has_none() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(user(one.as_fd()), Ok(rustix::process::geteuid().as_raw()));
        assert_eq!(user(tempfile::tempfile().unwrap().as_fd()), Err(Errno::NOTSOCK));
    }
}
