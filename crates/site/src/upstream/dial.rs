//! Establishing a connection to an upstream without waiting for it.
//!
//! Owns: a socket until it is connected. Guarantees: no call waits; the addresses of an upstream are tried one after
//! the other; a socket that was connected to itself is not taken for an upstream. Does not bound the time: the caller
//! does, and says [`Dial::give_up`].
//!
//! ```text
//!                +---- refused, give_up; another address is left ----+
//!                v                                                   |
//!  new --> (next address) --in progress--> Waiting --writable, or failed--+--> Connected
//!                |                                                   |
//!                +--none left--> Failed <-- none left ---------------+
//! ```

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use lamna_io::accept::DescriptorReserve;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername, getsockname, shutdown,
    socket_with, sockopt,
};

/// Where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// One of these, in this order.
    Tcp(Arc<[SocketAddr]>),
    /// This socket.
    Unix(Arc<Path>),
}

/// The state of dialling after a step.
#[derive(Debug)]
#[must_use]
pub enum Dialled {
    /// The connection is there.
    Connected(OwnedFd),
    /// Call again when the socket ([`Dial::socket`], another one each time) can be written to.
    Waiting,
    /// No address answers: the error of the last one. [`Errno::HOSTUNREACH`] if there is none.
    Failed(Errno),
}

/// A connection that is being established.
#[derive(Debug)]
pub struct Dial {
    destination: Destination,
    /// Addresses that were tried, or are being tried.
    begun: usize,
    socket: Option<OwnedFd>,
    last_error: Errno,
}

impl Dial {
    /// Nothing is done before [`Dial::go_on`].
    pub fn new(destination: Destination) -> Dial {
        Dial { destination, begun: 0, socket: None, last_error: Errno::HOSTUNREACH }
    }

    /// The socket to wait for.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// Begins, or goes on after the socket could be written to. Calling it too early does no harm. After `Connected` or
    /// `Failed` it is over.
    ///
    /// At most one system call for each address, and three more.
    pub fn go_on(&mut self) -> Dialled {
        if let Some(socket) = self.socket.take() {
            match outcome(&socket) {
                Ok(true) => return Dialled::Connected(socket),
                Ok(false) => {
                    self.socket = Some(socket);
                    return Dialled::Waiting;
                }
                Err(error) => self.last_error = error,
            }
        }
        loop {
            match self.next() {
                None => return Dialled::Failed(self.last_error),
                Some(Err(error)) => self.last_error = error,
                Some(Ok((socket, true))) => match outcome(&socket) {
                    Ok(_) => return Dialled::Connected(socket),
                    Err(error) => self.last_error = error,
                },
                Some(Ok((socket, false))) => {
                    self.socket = Some(socket);
                    return Dialled::Waiting;
                }
            }
        }
    }

    /// The address that is being tried has had its time. The next one is tried with [`Dial::go_on`]. A ring that still
    /// waits for the socket is told, and lets it go: or it would call for minutes.
    pub fn give_up(&mut self) {
        if let Some(socket) = self.socket.take() {
            // One that has failed meanwhile needs no end.
            let _ = shutdown(&socket, Shutdown::Both);
            self.last_error = Errno::TIMEDOUT;
        }
    }

    /// A socket for the next address, and whether it is connected already.
    fn next(&mut self) -> Option<Result<(OwnedFd, bool), Errno>> {
        let index = self.begun;
        self.begun += 1;
        match &self.destination {
            Destination::Tcp(addresses) => addresses.get(index).map(begin_tcp),
            Destination::Unix(path) => (index == 0).then(|| begin_unix(path)),
        }
    }
}

impl Drop for Dial {
    /// Ends the attempt, so that a ring which waits for it lets go.
    fn drop(&mut self) {
        self.give_up();
    }
}

/// `socket`, unless files are to have its descriptor.
fn within_reserve(socket: OwnedFd) -> Result<OwnedFd, Errno> {
    static RESERVE: OnceLock<DescriptorReserve> = OnceLock::new();
    match RESERVE.get_or_init(DescriptorReserve::new).is_for_files(&socket) {
        true => Err(Errno::MFILE),
        false => Ok(socket),
    }
}

fn begin_tcp(address: &SocketAddr) -> Result<(OwnedFd, bool), Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = within_reserve(stream_socket(family)?)?;
    // What is written to an application is a whole head, or content that is there: nothing is gained by waiting for
    // more.
    sockopt::set_tcp_nodelay(&socket, true)?;
    in_progress(connect(&socket, address)).map(|is_connected| (socket, is_connected))
}

/// A Unix socket connects at once, or its queue is full (EAGAIN), which no event would tell the end of.
fn begin_unix(path: &Path) -> Result<(OwnedFd, bool), Errno> {
    let address = SocketAddrUnix::new(path)?;
    let socket = stream_socket(AddressFamily::UNIX)?;
    connect(&socket, &address)?;
    Ok((socket, true))
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

fn in_progress(result: Result<(), Errno>) -> Result<bool, Errno> {
    match result {
        Ok(()) => Ok(true),
        // An interrupted connect goes on (connect(2), EINTR).
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the socket is connected yet, or why it will not be.
fn outcome(socket: &OwnedFd) -> Result<bool, Errno> {
    sockopt::socket_error(socket)??;
    let peer = match getpeername(socket) {
        Ok(peer) => peer,
        Err(Errno::NOTCONN) => return Ok(false),
        Err(error) => return Err(error),
    };
    // TCP lets two calls of connect meet. On one machine, a connect to a port of the ephemeral range without a listener
    // may have been given that very port, and meet itself.
    let own = Some(getsockname(socket)?);
    let is_to_itself = peer.as_ref().is_some_and(|peer| SocketAddr::try_from(peer.clone()).is_ok()) && peer == own;
    if is_to_itself { Err(Errno::CONNREFUSED) } else { Ok(true) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn tcp(addresses: &[SocketAddr]) -> Destination {
        Destination::Tcp(addresses.into())
    }

    /// Goes on until it is decided.
    fn dialled(dial: &mut Dial) -> Result<OwnedFd, Errno> {
        loop {
            match dial.go_on() {
                Dialled::Connected(socket) => return Ok(socket),
                Dialled::Failed(error) => return Err(error),
                Dialled::Waiting => {
                    let socket = dial.socket().expect("it waits for one");
                    poll(&mut [PollFd::new(&socket, PollFlags::OUT)], None).unwrap();
                }
            }
        }
    }

    /// An address at which no process listens, and none begins to: it is taken, as long as the socket lives.
    fn deserted() -> (OwnedFd, SocketAddr) {
        let socket = stream_socket(AddressFamily::INET).unwrap();
        rustix::net::bind(&socket, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        let own = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        (socket, own)
    }

    #[test]
    fn a_listener_is_reached() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = dialled(&mut Dial::new(tcp(&[listener.local_addr().unwrap()]))).unwrap();
        let mut stream = TcpStream::from(socket);
        listener.accept().unwrap().0.write_all(b"hi").unwrap();
        stream.set_nonblocking(false).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!((&*text, stream.nodelay().unwrap()), ("hi", true));
    }

    #[test]
    fn the_next_address_is_tried_where_nobody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let (_taken, deserted) = deserted();
        let socket = dialled(&mut Dial::new(tcp(&[deserted, there]))).unwrap();
        assert_eq!(TcpStream::from(socket).peer_addr().unwrap(), there);
        assert_eq!(dialled(&mut Dial::new(tcp(&[deserted, deserted]))).err(), Some(Errno::CONNREFUSED));
        assert_eq!(dialled(&mut Dial::new(tcp(&[]))).err(), Some(Errno::HOSTUNREACH));
    }

    #[test]
    fn a_unix_socket_is_reached_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let destination = Destination::Unix(path.as_path().into());
        assert_eq!(dialled(&mut Dial::new(destination.clone())).err(), Some(Errno::NOENT));
        let listener = UnixListener::bind(&path).unwrap();
        let _socket = dialled(&mut Dial::new(destination.clone())).unwrap();
        drop(listener);
        assert_eq!(dialled(&mut Dial::new(destination)).err(), Some(Errno::CONNREFUSED));
    }

    #[test]
    fn a_socket_that_met_itself_is_refused() {
        let (socket, own) = deserted();
        in_progress(connect(&socket, &own)).unwrap();
        assert_eq!(outcome(&socket), Err(Errno::CONNREFUSED));
    }

    #[test]
    fn who_is_asked_too_early_waits_and_who_takes_too_long_is_left() {
        let socket = stream_socket(AddressFamily::INET).unwrap();
        assert_eq!(outcome(&socket), Ok(false), "not connected, and no error");
        let mut dial = Dial::new(tcp(&[deserted().1]));
        (dial.socket, dial.begun) = (Some(socket), 1);
        assert!(matches!(dial.go_on(), Dialled::Waiting));
        dial.give_up();
        assert!(matches!(dial.go_on(), Dialled::Failed(Errno::TIMEDOUT)));
    }

    #[test]
    fn who_waits_for_a_socket_that_was_given_up_is_told() {
        // Its queue has room for one: the second call is not answered.
        let listener = stream_socket(AddressFamily::INET).unwrap();
        rustix::net::bind(&listener, &"127.0.0.1:0".parse::<SocketAddr>().unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let there = SocketAddr::try_from(getsockname(&listener).unwrap()).unwrap();
        let _first = dialled(&mut Dial::new(tcp(&[there]))).unwrap();
        let mut dial = Dial::new(tcp(&[there]));
        assert!(matches!(dial.go_on(), Dialled::Waiting));
        let held = dial.socket().unwrap().try_clone_to_owned().unwrap();
        let is_told = || poll(&mut [PollFd::new(&held, PollFlags::OUT)], Some(&Timespec::default())).unwrap() == 1;
        assert!(!is_told());
        dial.give_up();
        assert!(is_told());
    }
}
