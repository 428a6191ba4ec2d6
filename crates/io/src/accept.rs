//! Taking connections from a listening socket, and leaving descriptors for the files that they ask for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use lamna_config::connections_max;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags};
use rustix::process::{Resource, getrlimit};

/// A connection that was taken.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket, which neither blocks nor survives `exec`.
    pub socket: OwnedFd,
    /// Where it comes from; none for Unix sockets.
    pub client: Option<IpAddr>,
}

/// Takes the next connection that waits.
///
/// # Errors
/// The error of `accept4(2)`: `EAGAIN` if none waits, also because the socket does not listen any more.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Accepted, Errno> {
    let _step = step_timer::step(Step::Accept);
    let (socket, peer) = rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        .map_err(|errno| if errno == Errno::INVAL { Errno::AGAIN } else { errno })?;
    Ok(Accepted { socket, client: peer.and_then(address) })
}

/// Where a connection comes from; none for Unix sockets. For a TCP connection whose peer has gone already it is the
/// unspecified address, which must not be taken for that of a program of this machine.
pub fn client_of(socket: BorrowedFd<'_>) -> Option<IpAddr> {
    match rustix::net::getpeername(socket) {
        Ok(Some(peer)) => address(peer),
        _ => rustix::net::getsockname(socket).ok().and_then(address).map(|_| Ipv4Addr::UNSPECIFIED.into()),
    }
}

/// The local address of a connection; none of a Unix socket.
pub fn address_of(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket).ok()?).ok()
}

/// The local port of a connection; none of a Unix socket.
pub fn port_of(socket: BorrowedFd<'_>) -> Option<u16> {
    address_of(socket).map(|address| address.port())
}

/// Descriptors that connections do not get: a connection without one for its file could only be told to come again.
/// Where memory is limited, those as well for whose connections there is no room.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorReserve {
    /// The first descriptor number that belongs to it. The kernel gives out the lowest free number.
    first: i64,
}

/// A quarter of all descriptors is kept for files, but no more than this.
const RESERVE_MAX: u64 = 256;

impl DescriptorReserve {
    /// The reserve under the present limit on descriptors.
    pub fn new() -> DescriptorReserve {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let first = limit - RESERVE_MAX.min(limit / 4);
        // Nearly all descriptors are connections, so their numbers count them.
        let first = connections_max().map_or(first, |most| first.min(most.saturating_add(RESERVE_MAX)));
        DescriptorReserve { first: i64::try_from(first).unwrap_or(i64::MAX) }
    }

    /// Whether `descriptor` was taken from it.
    pub fn has_given(&self, descriptor: &impl AsRawFd) -> bool {
        i64::from(descriptor.as_raw_fd()) >= self.first
    }

    /// Whether `descriptor` was taken from the half of it that is kept for files. Connections to applications, which a
    /// client may have held open as long as it likes, do not get it, and leave descriptors to those that connect.
    pub fn is_for_files(&self, descriptor: &impl AsRawFd) -> bool {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(i64::MAX);
        i64::from(descriptor.as_raw_fd()) >= self.first + (limit - self.first) / 2
    }

    /// Whether `connections` in all would leave it alone.
    pub fn leaves(&self, connections: usize) -> bool {
        i64::try_from(connections).is_ok_and(|connections| connections < self.first)
    }

    /// Whether so many connections would be too many as soon as they are there. `any` is some open descriptor.
    ///
    /// # Errors
    /// No descriptors at all.
    pub fn leaves_room(&self, connections: usize, any: impl AsFd) -> Result<bool, Errno> {
        let opened: Vec<OwnedFd> =
            (0..connections).map(|_| rustix::io::fcntl_dupfd_cloexec(&any, 0)).collect::<Result<_, _>>()?;
        Ok(!opened.iter().any(|descriptor| self.has_given(descriptor)))
    }

    /// Whether the next connection would leave it alone. `any` is some open descriptor.
    pub fn is_whole(&self, any: impl AsFd) -> bool {
        rustix::io::fcntl_dupfd_cloexec(any, 0).is_ok_and(|next| !self.has_given(&next))
    }
}

impl Default for DescriptorReserve {
    fn default() -> DescriptorReserve {
        DescriptorReserve::new()
    }
}

/// Whether accepting failed for the connection that was to be taken, not for those behind it: the peer has gone
/// already, or the network has a complaint about it (accept(2), "Error handling").
pub fn concerns_one_connection(errno: Errno) -> bool {
    matches!(errno, Errno::CONNABORTED | Errno::INTR | Errno::PROTO | Errno::NETDOWN | Errno::HOSTUNREACH)
}

fn address(peer: SocketAddrAny) -> Option<IpAddr> {
    match peer.address_family() {
        AddressFamily::INET => std::net::SocketAddrV4::try_from(peer).ok().map(|v4| IpAddr::V4(*v4.ip())),
        AddressFamily::INET6 => std::net::SocketAddrV6::try_from(peer).ok().map(|v6| IpAddr::V6(*v6.ip())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_has_gone_is_not_one_on_a_unix_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0;
        assert_eq!(client_of(socket.as_fd()), Some(std::net::Ipv4Addr::LOCALHOST.into()));
        rustix::net::sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).unwrap();
        drop(peer);
        // The reset has been seen when reading fails.
        assert!(std::io::Read::read(&mut &socket, &mut [0]).is_err());
        assert_eq!(client_of(socket.as_fd()), Some(Ipv4Addr::UNSPECIFIED.into()));
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(client_of(unix.as_fd()), None);
    }

    #[test]
    fn high_numbers_belong_to_the_reserve() {
        let file = tempfile::tempfile().unwrap();
        let number = i64::from(file.as_raw_fd());
        assert!(DescriptorReserve { first: number }.has_given(&file));
        assert!(!DescriptorReserve { first: number + 1 }.has_given(&file));
        assert!(!DescriptorReserve { first: 0 }.is_whole(&file));
        assert!(DescriptorReserve { first: i64::MAX }.is_whole(&file));
    }
}
