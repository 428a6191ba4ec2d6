//! Options of tcp(7) that rustix does not have.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Makes a listening socket report a connection only when its first bytes are there, or after about `seconds` without:
/// one wake-up and one receive for each new connection instead of two (`TCP_DEFER_ACCEPT`).
///
/// # Errors
/// The descriptor is not a TCP socket, or the kernel does not know the option.
pub fn defer_accept(listener: impl AsFd, seconds: u8) -> io::Result<()> {
    set(listener, libc::TCP_DEFER_ACCEPT, libc::c_int::from(seconds))
}

/// Bounds what the kernel takes of a connection beyond what it can send now, in bytes (`TCP_NOTSENT_LOWAT`); 0 leaves
/// that to the system's setting. Accepted sockets inherit it.
///
/// # Errors
/// The descriptor is not a TCP socket, or the kernel does not know the option (Linux before 3.12).
pub fn bound_unsent(listener: impl AsFd, bytes: u32) -> io::Result<()> {
    set(listener, libc::TCP_NOTSENT_LOWAT, libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX))
}

/// The bound that [`bound_unsent`] set for this socket, or for the one that it inherits it from.
///
/// # Errors
/// As of [`bound_unsent`].
pub fn unsent_bound(socket: impl AsFd) -> io::Result<u32> {
    let value: libc::c_uint = get(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT)?;
    Ok(value)
}

/// The kernel sends at most so many bytes of a connection in a second, by a timer of its own; none for as many as it
/// can (`SO_MAX_PACING_RATE`).
///
/// # Errors
/// The descriptor is not a socket.
pub fn pace(socket: impl AsFd, bytes_per_s: Option<u64>) -> io::Result<()> {
    let value: libc::c_ulong = bytes_per_s.unwrap_or(u64::MAX);
    set_at(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, value)
}

/// Has the kernel drop whatever arrives for a listening socket itself: no client connects any more, and those that try
/// wait and try again. Connections that were accepted, or wait to be, are sockets of their own (`SO_ATTACH_FILTER`).
///
/// # Errors
/// The descriptor is not a socket, or a security policy forbids it.
pub fn shut_out(listener: impl AsFd) -> io::Result<()> {
    // One instruction: keep 0 bytes.
    let mut program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    // The program is alive during the call, in which the kernel copies it.
    set_at(listener, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, filter)
}

/// Ends what [`shut_out`] has begun.
///
/// # Errors
/// As of [`shut_out`].
pub fn let_in(listener: impl AsFd) -> io::Result<()> {
    set_at(listener, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0 as libc::c_int)
}

/// Whether [`shut_out`] holds.
pub fn is_shut_out(listener: impl AsFd) -> bool {
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: the descriptor is borrowed for the call. Without room for instructions the kernel writes how many there
    // are to the length, which is a live integer, and nothing to the buffer.
    let result = unsafe {
        libc::getsockopt(
            listener.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            std::ptr::null_mut(),
            &raw mut instructions,
        )
    };
    result == 0 && instructions > 0
}

/// The rate that [`pace`] set for this socket.
#[cfg(any(test, feature = "testing"))]
pub fn pace_of(socket: impl AsFd) -> io::Result<Option<u64>> {
    let value: libc::c_ulong = get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)?;
    Ok(Some(value).filter(|value| *value != u64::MAX))
}

fn set(socket: impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_at(socket, libc::IPPROTO_TCP, option, value)
}

/// `T` is an integer.
fn get<T: Default>(socket: impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed for the call, and the pointers are those of a live integer, of which any bytes
    // are a value, and of its length.
    let result = unsafe {
        libc::getsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut length)
    };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// `T` is what the option takes: an integer, or a program for sockets.
fn set_at<T>(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed for the call, and the pointer and the length are those of a live value, which
    // the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
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
    fn nobody_connects_to_a_socket_that_shuts_out_until_it_lets_in_and_who_has_connected_stays() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = TcpStream::connect(address).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        assert!(!is_shut_out(&listener));
        (0..2).for_each(|_| shut_out(&listener).unwrap());
        assert!(is_shut_out(&listener));
        let patience = std::time::Duration::from_millis(200);
        assert_eq!(TcpStream::connect_timeout(&address, patience).unwrap_err().kind(), ErrorKind::TimedOut);
        waiting.write_all(b"a").unwrap();
        std::io::Read::read_exact(&mut accepted, &mut [0]).unwrap();
        let_in(&listener).unwrap();
        assert!(!is_shut_out(&listener));
        TcpStream::connect(address).unwrap();
    }

    #[test]
    fn an_accepted_connection_takes_less_of_what_it_cannot_send_if_its_listener_bounds_that() {
        let (bounded, unbounded) = (taken(Some(16 * 1024)), taken(None));
        assert!(bounded + BUFFER_BYTES / 2 < unbounded, "{bounded}, {unbounded}");
    }
}
