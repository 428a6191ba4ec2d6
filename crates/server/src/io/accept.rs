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

/// Where a connection comes from; none for Unix sockets.
pub fn client_of(socket: BorrowedFd<'_>) -> Option<IpAddr> {
    rustix::net::getpeername(socket).ok().flatten().and_then(address)
}

fn address(peer: SocketAddrAny) -> Option<IpAddr> {
    match peer.address_family() {
        AddressFamily::INET => std::net::SocketAddrV4::try_from(peer).ok().map(|v4| IpAddr::V4(*v4.ip())),
        AddressFamily::INET6 => std::net::SocketAddrV6::try_from(peer).ok().map(|v6| IpAddr::V6(*v6.ip())),
        _ => None,
    }
}
