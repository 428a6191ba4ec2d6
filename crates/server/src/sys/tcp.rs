//! Options of tcp(7) that rustix does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a listening socket report a connection only when its first bytes are there, or after about `seconds` without:
/// one wake-up and one receive for each new connection instead of two (`TCP_DEFER_ACCEPT`).
///
/// # Errors
/// The descriptor is not a TCP socket, or the kernel does not know the option.
pub(crate) fn defer_accept(listener: impl AsFd, seconds: u8) -> io::Result<()> {
    set(listener, libc::TCP_DEFER_ACCEPT, libc::c_int::from(seconds))
}

/// Bounds what the kernel takes of a connection beyond what it can send now, in bytes (`TCP_NOTSENT_LOWAT`); 0 leaves that to the
/// system's setting. Accepted sockets inherit it.
///
/// # Errors
/// The descriptor is not a TCP socket, or the kernel does not know the option (Linux before 3.12).
pub(crate) fn bound_unsent(listener: impl AsFd, bytes: u32) -> io::Result<()> {
    set(listener, libc::TCP_NOTSENT_LOWAT, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX))
}

fn set(socket: impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the call, and the pointer and the length are those of a live integer,
    // which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};

    const BUFFER_BYTES: usize = 1 << 20;

    /// How many bytes the kernel takes for a peer that reads nothing.
    fn taken(bound: Option<u32>) -> usize {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        bound.into_iter().for_each(|bytes| bound_unsent(&listener, bytes).unwrap());
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        sockopt::set_socket_send_buffer_size(&socket, BUFFER_BYTES).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (mut total, piece) = (0, [0; 4096]);
        loop {
            match socket.write(&piece) {
                Ok(bytes) => total += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return total,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn an_accepted_connection_takes_less_of_what_it_cannot_send_if_its_listener_bounds_that() {
        let (bounded, unbounded) = (taken(Some(16 * 1024)), taken(None));
        assert!(bounded + BUFFER_BYTES / 2 < unbounded, "{bounded}, {unbounded}");
    }
}
