//! Taking connections from a listening socket.

use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags};

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
/// What `accept4(2)` says: `EAGAIN` if none waits.
pub fn accept(listener: BorrowedFd<'_>) -> Result<Accepted, Errno> {
    let (socket, peer) = rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
    Ok(Accepted { socket, client: peer.and_then(address) })
}

/// Whether accepting failed for the connection that was to be taken, not for those behind it: the peer has gone already,
/// or the network has a complaint about it (accept(2), "Error handling").
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
