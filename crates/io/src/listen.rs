//! Binding: from listen addresses to listening sockets.
//!
//! Owns: the options of listening sockets, stale Unix sockets, sockets passed by a service manager, and errors that say
//! what to do. Does not accept. There is one socket for each address, shared by all workers: with SO_REUSEPORT the
//! kernel would spread connections by hash, and one busy worker would keep its share waiting while others are idle.

pub mod activation;
pub mod unix;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use lamna_config::proxies::TrustedProxies;
use lamna_config::settings::{ListenAddress, ListenAt, ListenSettings, Settings};
use lamna_sys as sys;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::log::errors::{self, Level};

/// Ports tried when no address is given.
const DEFAULT_PORTS: RangeInclusive<u16> = 8080..=8099;

/// How often a port that is free for IPv4 is looked for, until one is free for IPv6 as well.
const ANY_PORT_TRIES: usize = 16;

/// Connections that may wait to be accepted. The kernel caps it by `net.core.somaxconn`, which is 4096 by default.
pub const BACKLOG: i32 = 4096;

/// Seconds for which the kernel keeps a connection without data to itself. A client that connects ahead of its first
/// request is accepted after that.
const DEFER_ACCEPT_S: u8 = 1;

/// Bytes that the kernel takes of a bounded connection beyond what it can send now: half a millisecond of a link of 1
/// Gbit/s. With at most one segment waiting, a connection whose segments are as long as that, as those of a loopback
/// are, also never counts as slow because it is sent to in turns (docs/internals/adaptive.md).
const UNSENT_BYTES_MAX: u32 = 64 * 1024;

/// The same where threads wait for peers. A buffer that grows holds 4 MiB for a peer that reads nothing, and so few
/// hundred of them all that the kernel has for TCP.
const UNSENT_BY_THREADS_BYTES_MAX: u32 = 256 * 1024;

/// A listening socket: non-blocking, closed on exec. Dropping closes it, and removes the file of a Unix socket if this
/// process bound it and the file is still the same.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
    address: ListenAddress,
    /// The file of a Unix socket that this process bound.
    file: Option<unix::SocketFile>,
    /// The file, and what becomes of the socket, is another process's business.
    left: AtomicBool,
    /// A service manager has the socket as well, and goes on listening.
    lent: bool,
    /// TLS is not spoken here, whatever the sites could.
    plain: bool,
    /// The proxies whose connections begin with a header that names their client.
    proxies: ArcSwapOption<TrustedProxies>,
}

/// Why a listener cannot be had. Displays what failed, why, and on a second line what to do.
#[derive(Debug)]
pub struct BindError {
    what: String,
    error: io::Error,
    remedy: String,
}

/// Binds everything that is named, or nothing; a socket that a service manager passed for one of the addresses is used
/// in place of a new one, and one for another address is said to be unused. With no address: the sockets that were
/// passed, else the first free port of loopback from 8080 to 8099.
///
/// A stale Unix socket is removed; between two processes that find the same one stale at the same moment, the later
/// one wins. The permissions of a new one follow the umask.
///
/// # Errors
/// The first address that cannot be bound; listeners that were bound before it are closed again.
pub fn bind(listen: &[ListenSettings]) -> Result<Vec<Listener>, BindError> {
    let mut passed = activation::listeners()?;
    if !listen.is_empty() {
        let mut listeners = Vec::new();
        for one in listen {
            listeners.append(&mut bind_at(&one.at, &mut passed)?);
        }
        passed.iter().for_each(|unused| {
            let what = format!(
                "the service manager has passed a socket for {}, which the addresses to listen at do not name: it is \
                 not used",
                unused.address()
            );
            errors::tell(Level::Warning, format_args!("{what}"));
        });
        return Ok(listeners);
    }
    if !passed.is_empty() {
        return Ok(passed);
    }
    first_free(DEFAULT_PORTS).map(|listener| vec![listener])
}

impl Listener {
    /// Leaves the file of a Unix socket to this user and group. If that fails, it stays its maker's.
    pub fn give_file(&self, (user, group): (u32, u32)) {
        if let (Some(_), ListenAddress::Unix(path)) = (&self.file, &self.address) {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let _ = chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
    }

    /// Whether TLS is spoken here if sites speak it: on every port but that of plain HTTP. Unix sockets are for
    /// programs of this machine.
    pub fn speaks_tls(&self) -> bool {
        !self.plain
    }

    /// Whether it is the port of plain HTTP.
    pub fn is_for_plain_http(&self) -> bool {
        self.plain && matches!(self.address, ListenAddress::Tcp(_))
    }

    /// The proxies whose connections begin with a header of the PROXY protocol. Others may not connect here.
    pub fn proxies(&self) -> Option<Arc<TrustedProxies>> {
        self.proxies.load_full()
    }

    /// Connections that are taken from now on are those of proxies if `settings` say so.
    pub fn expect_proxies(&self, settings: &Settings) {
        let is_this = |named: &ListenAt| named.means(&self.address);
        let proxies = settings.proxy_protocol.iter().any(is_this).then(|| Arc::new(settings.proxies.clone()));
        self.proxies.store(proxies);
    }

    /// The address it is bound to: of a TCP listener with the port that the kernel chose if 0 was asked for.
    pub fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// Whether the kernel takes even less beyond what it can send of connections that are accepted from now on. Such a
    /// connection holds less of its memory while its peer is slow. A thread that would have to wait for the peer wants
    /// to be rid of more of the answer. Where the kernel cannot bound it, it is as large as the buffer.
    pub fn bound_unsent(&self, is_bounded: bool) {
        if let ListenAddress::Tcp(_) = self.address {
            _ = sys::tcp::bound_unsent(self, if is_bounded { UNSENT_BYTES_MAX } else { UNSENT_BY_THREADS_BYTES_MAX });
        }
    }

    /// Leaves the file of a Unix socket to another process: for the copy that a fork makes, and for a process whose
    /// place is taken.
    pub fn leave_file(&self) {
        self.left.store(true, Relaxed);
    }

    /// The file is this process's business from now on: the one that had it has left it.
    pub fn own_file(&self) {
        self.left.store(false, Relaxed);
    }

    /// Whether there is a file that goes with it.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Whether a service manager has it as well.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// The listener of a process whose place is to be taken, with its file if `has_file`. That is the other one's until
    /// [`Listener::own_file`].
    ///
    /// # Errors
    /// It is no socket.
    pub fn inherit(descriptor: OwnedFd, has_file: bool, lent: bool) -> Result<Listener, Errno> {
        let mut listener = activation::prepare(descriptor)?;
        (listener.left, listener.lent) = (AtomicBool::new(true), lent);
        if let (true, ListenAddress::Unix(path)) = (has_file, &listener.address) {
            // One that has been removed is no process's.
            listener.file = unix::SocketFile::of(path).ok();
        }
        Ok(listener)
    }
}

// Suspending.
impl Listener {
    /// Lets no client connect, in all processes that have the socket, until [`Listener::resume`]: clients that try
    /// wait. Connected ones are served. The kernel keeps this with the socket, over changes of engines and upgrades.
    ///
    /// # Errors
    /// Why it cannot be done, in words.
    pub fn suspend(&self) -> Result<(), String> {
        match self.address {
            ListenAddress::Unix(_) => Err("only ports can be suspended, and this is a Unix socket".to_owned()),
            ListenAddress::Tcp(_) if self.lent => {
                Err("its socket is that of the service manager: stop the socket unit".to_owned())
            }
            ListenAddress::Tcp(_) => sys::tcp::shut_out(self).map_err(|error| format!("the kernel refuses: {error}")),
        }
    }

    /// Lets clients connect again.
    ///
    /// # Errors
    /// Why it cannot be done, in words.
    pub fn resume(&self) -> Result<(), String> {
        sys::tcp::let_in(self).map_err(|error| format!("the kernel refuses: {error}"))
    }

    /// Whether it is suspended.
    pub fn is_suspended(&self) -> bool {
        !self.lent && matches!(self.address, ListenAddress::Tcp(_)) && sys::tcp::is_shut_out(self)
    }
}

// The end of listening.
impl Listener {
    /// Lets no further connection into the queue, as far as the kernel can. A client that connects to a Unix socket is
    /// refused from now on; one that connects to a port will have to try again. Connections in the queue can still be
    /// accepted. To be followed by [`Listener::close`]. Nothing happens to a socket that is not this process's alone to
    /// end.
    pub fn begin_to_close(&self) {
        if self.is_shared_with_others() {
            return;
        }
        // If it fails the queue is as it was.
        let _ = match self.address {
            ListenAddress::Unix(_) => rustix::net::shutdown(self, Shutdown::Read),
            ListenAddress::Tcp(_) => rustix::net::listen(self, 0),
        };
    }

    /// Refuses who connects from now on, in all processes that have the socket. Who still waits in the queue of a port
    /// is refused as well.
    pub fn close(&self) {
        if !self.is_shared_with_others() {
            // It fails if that was done already.
            let _ = rustix::net::shutdown(self, Shutdown::Read);
        }
    }

    /// Whether a connection waits to be accepted.
    pub fn has_waiting(&self) -> bool {
        let mut waits = [PollFd::new(self, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waits, Some(&at_once)).is_ok_and(|ready| ready > 0) && waits[0].revents() == PollFlags::IN
    }

    /// Another process serves from it, or will.
    fn is_shared_with_others(&self) -> bool {
        self.lent || self.left.load(Relaxed)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = self.file.as_ref().filter(|_| !self.left.load(Relaxed)) {
            file.remove();
        }
    }
}

impl BindError {
    /// `what` failed with `errno`, and `remedy` may help.
    pub fn new(what: String, errno: Errno, remedy: String) -> BindError {
        BindError { what, error: errno.into(), remedy }
    }

    /// An error that is no system call's own.
    pub fn of(what: String, error: io::Error, remedy: String) -> BindError {
        BindError { what, error, remedy }
    }

    /// The same for an address that came from another option than `--listen`, which remedies name.
    pub fn for_option(self, option: &str) -> BindError {
        BindError { remedy: self.remedy.replace("--listen", option), ..self }
    }

    /// The failure and its cause, and the remedy, for a report with a place.
    pub fn into_parts(self) -> (String, String) {
        (format!("{}: {}", self.what, self.error), self.remedy)
    }

    /// Whether more rights would have helped.
    pub fn is_permission_denied(&self) -> bool {
        self.error.kind() == io::ErrorKind::PermissionDenied
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}\n  {}", self.what, self.error, self.remedy)
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Binds all addresses of `at`, but for those that are among `passed`: these are taken from there.
fn bind_at(at: &ListenAt, passed: &mut Vec<Listener>) -> Result<Vec<Listener>, BindError> {
    let mut take = |address: &ListenAddress| {
        let place = passed.iter().position(|listener| listener.address == *address)?;
        Some(passed.swap_remove(place))
    };
    let port = match at {
        ListenAt::Address(address) => return Ok(vec![take(address).map_or_else(|| bind_one(address), Ok)?]),
        ListenAt::EveryAddress(0) => return bind_any_port(),
        ListenAt::EveryAddress(port) => *port,
    };
    let [ipv4, ipv6] = every(port);
    let passed_ipv6 = take(&ListenAddress::Tcp(ipv6));
    // One socket of a service manager may be for both: what connects by IPv4 has an address of IPv6 there.
    if let Some(both) = passed_ipv6.as_ref().filter(|both| sockopt::ipv6_v6only(both) == Ok(false)) {
        let both = both.address.clone();
        return match take(&ListenAddress::Tcp(ipv4)) {
            None => Ok(passed_ipv6.into_iter().collect()),
            Some(_) => Err(BindError {
                what: format!("cannot use two sockets of the service manager for {both}"),
                error: Errno::ADDRINUSE.into(),
                remedy: "leave one of them out, or say BindIPv6Only=ipv6-only in the socket unit".into(),
            }),
        };
    }
    let mut listeners = vec![match take(&ListenAddress::Tcp(ipv4)) {
        Some(listener) => listener,
        None => bind_tcp(ipv4).map_err(|errno| tcp_error(ipv4, errno))?,
    }];
    match passed_ipv6.map_or_else(|| bind_tcp(ipv6), Ok) {
        Ok(listener) => listeners.push(listener),
        Err(errno) if is_without_family(errno) => {}
        Err(errno) => return Err(tcp_error(ipv6, errno)),
    }
    Ok(listeners)
}

/// Binds a port that is free in both families.
fn bind_any_port() -> Result<Vec<Listener>, BindError> {
    for _ in 0..ANY_PORT_TRIES {
        let [any, _] = every(0);
        let listener = bind_tcp(any).map_err(|errno| tcp_error(any, errno))?;
        let ListenAddress::Tcp(bound) = listener.address else { continue };
        let [_, ipv6] = every(bound.port());
        match bind_tcp(ipv6) {
            Ok(other) => return Ok(vec![listener, other]),
            Err(errno) if is_without_family(errno) => return Ok(vec![listener]),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(tcp_error(ipv6, errno)),
        }
    }
    let [any, _] = every(0);
    Err(tcp_error(any, Errno::ADDRINUSE))
}

/// A port of every address: of IPv4, and of IPv6.
fn every(port: u16) -> [SocketAddr; 2] {
    [(Ipv4Addr::UNSPECIFIED, port).into(), (Ipv6Addr::UNSPECIFIED, port).into()]
}

/// Whether the kernel has no IPv6, or none that can be used.
fn is_without_family(errno: Errno) -> bool {
    matches!(errno, Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
}

/// Binds one address.
pub fn bind_one(address: &ListenAddress) -> Result<Listener, BindError> {
    match address {
        ListenAddress::Tcp(address) => bind_tcp(*address).map_err(|errno| tcp_error(*address, errno)),
        ListenAddress::Unix(path) => unix::bind(path),
    }
}

/// Whether an address could be bound here, as far as that can be found out while another server may be listening at it:
/// an address of this machine; a path in a directory where a socket can be made.
///
/// # Errors
/// A message, and what to do about it.
pub fn probe(address: &ListenAddress) -> Result<(), (String, String)> {
    probe_one(address).map_err(BindError::into_parts)
}

fn probe_one(address: &ListenAddress) -> Result<(), BindError> {
    match address {
        ListenAddress::Unix(path) => unix::probe(path),
        ListenAddress::Tcp(address) => match bind_tcp(SocketAddr::new(address.ip(), 0)) {
            Err(errno @ (Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT | Errno::INVAL)) => Err(tcp_error(*address, errno)),
            _ => Ok(()),
        },
    }
}

fn first_free(ports: RangeInclusive<u16>) -> Result<Listener, BindError> {
    let (first, last) = (*ports.start(), *ports.end());
    for port in ports {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match bind_tcp(address) {
            Err(Errno::ADDRINUSE) => continue,
            result => return result.map_err(|errno| tcp_error(address, errno)),
        }
    }
    Err(BindError {
        what: format!("cannot listen on any port of 127.0.0.1 from {first} to {last}"),
        error: Errno::ADDRINUSE.into(),
        remedy: "other programs listen on all of them; pass --listen with a free port".into(),
    })
}

fn bind_tcp(address: SocketAddr) -> Result<Listener, Errno> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = stream_socket(family)?;
    // Without it, connections of an earlier process in TIME-WAIT keep the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        // [::]:80 and 0.0.0.0:80 are two addresses, whatever net.ipv6.bindv6only says.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    tune_tcp(&socket)?;
    rustix::net::listen(&socket, BACKLOG)?;
    listener(socket)
}

/// Accepted sockets inherit TCP_NODELAY: responses are sent whole, so there is nothing for Nagle's algorithm to wait
/// for. Where the kernel cannot defer accepts, the server works as well, one wake-up more for each connection.
fn tune_tcp(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    _ = sys::tcp::defer_accept(socket, DEFER_ACCEPT_S);
    Ok(())
}

/// The port of HTTP without TLS (RFC 9110 4.2.1).
const PLAIN_PORT: u16 = 80;

fn is_plain(address: &ListenAddress) -> bool {
    match address {
        ListenAddress::Tcp(address) => address.port() == PLAIN_PORT,
        ListenAddress::Unix(_) => true,
    }
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// A listener that leaves no file behind, with the address that the kernel says it has.
fn listener(descriptor: OwnedFd) -> Result<Listener, Errno> {
    let address = address_of(rustix::net::getsockname(&descriptor)?)?;
    let plain = is_plain(&address);
    Ok(Listener {
        descriptor,
        address,
        file: None,
        left: AtomicBool::new(false),
        lent: false,
        plain,
        proxies: ArcSwapOption::empty(),
    })
}

fn address_of(address: SocketAddrAny) -> Result<ListenAddress, Errno> {
    if address.address_family() != AddressFamily::UNIX {
        return SocketAddr::try_from(address).map(ListenAddress::Tcp);
    }
    let address = SocketAddrUnix::try_from(address)?;
    let path = match (address.path(), address.abstract_name()) {
        (Some(path), _) => path.to_string_lossy().into_owned(),
        (None, Some(name)) => format!("@{}", String::from_utf8_lossy(name)),
        (None, None) => String::new(),
    };
    Ok(ListenAddress::Unix(path.into()))
}

fn tcp_error(address: SocketAddr, errno: Errno) -> BindError {
    let remedy = match errno {
        Errno::ADDRINUSE => {
            format!("another program listens on {address}; stop it or pass --listen with another port")
        }
        Errno::ACCESS if address.port() < 1024 => format!(
            "port {} needs root or CAP_NET_BIND_SERVICE: have the service manager grant it, \
             or pass --listen with a port from 1024 on",
            address.port()
        ),
        Errno::ACCESS | Errno::PERM => "a security policy of this system forbids it; see its audit log".into(),
        Errno::ADDRNOTAVAIL => format!(
            "no interface of this machine has the address {}; `ip address` lists those that there are",
            address.ip()
        ),
        Errno::AFNOSUPPORT => "this kernel has no IPv6; pass --listen with an IPv4 address".into(),
        _ => "see bind(2) for the error".into(),
    };
    BindError { what: format!("cannot listen on {address}"), error: errno.into(), remedy }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_config::setting::table::find;
    use lamna_config::{Overrides, check, load};
    use rustix::fs::OFlags;
    use rustix::io::FdFlags;
    use std::net::{TcpListener, TcpStream};
    use tempfile::TempDir;

    /// A directory with `site/` and the text as `lamna.toml`.
    fn directory_with(text: &str) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("site")).unwrap();
        std::fs::write(directory.path().join("lamna.toml"), text).unwrap();
        directory
    }

    fn listen(text: &str) -> ListenSettings {
        text.parse().expect("test addresses are well formed")
    }

    fn any_port(text: &str) -> ListenAddress {
        text.parse().expect("test addresses are well formed")
    }

    fn tcp_address(listener: &Listener) -> SocketAddr {
        match listener.address() {
            ListenAddress::Tcp(address) => *address,
            other => panic!("bound to {other}"),
        }
    }

    pub(super) fn message(addresses: &[ListenSettings]) -> String {
        bind(addresses).expect_err("this cannot be bound").to_string()
    }

    pub(super) fn assert_prepared(listener: &Listener) {
        assert_eq!(rustix::io::fcntl_getfd(listener).unwrap(), FdFlags::CLOEXEC);
        assert!(rustix::fs::fcntl_getfl(listener).unwrap().contains(OFlags::NONBLOCK));
    }

    #[test]
    fn port_0_is_bound_to_a_real_port_that_takes_connections() {
        let listeners = bind(&[listen("127.0.0.1:0")]).unwrap();
        let address = tcp_address(&listeners[0]);
        assert_ne!(address.port(), 0);
        TcpStream::connect(address).unwrap();
        assert_prepared(&listeners[0]);
        assert!(sockopt::tcp_nodelay(&listeners[0]).unwrap());
    }

    #[test]
    fn an_ipv6_listener_leaves_ipv4_to_another() {
        let Ok(listeners) = bind(&[listen("[::1]:0")]) else {
            return; // A machine without IPv6.
        };
        assert!(sockopt::ipv6_v6only(&listeners[0]).unwrap());
    }

    #[test]
    fn a_port_alone_is_bound_for_ipv4_and_for_ipv6() {
        let listeners = bind(&[listen("0")]).unwrap();
        let port = tcp_address(&listeners[0]).port();
        let addresses: Vec<SocketAddr> = listeners.iter().map(tcp_address).collect();
        assert_eq!(addresses[0], ([0, 0, 0, 0], port).into());
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        if let Some(ipv6) = addresses.get(1) {
            assert_eq!(*ipv6, (Ipv6Addr::UNSPECIFIED, port).into());
            assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_ok());
        }
        drop(listeners);
        let listeners = bind(&[listen(&port.to_string())]).unwrap();
        assert_eq!(listeners.iter().map(tcp_address).collect::<Vec<_>>(), addresses);
        assert!(message(&[listen(&port.to_string())]).contains("cannot listen on 0.0.0.0:"));
        assert!(is_without_family(Errno::AFNOSUPPORT) && !is_without_family(Errno::ADDRINUSE));
    }

    #[test]
    fn a_port_in_use_is_reported_with_a_remedy() {
        let first = bind(&[listen("127.0.0.1:0")]).unwrap();
        let message = message(&[first[0].address().clone().into()]);
        assert!(message.contains("another program listens on 127.0.0.1:"), "{message}");
    }

    #[test]
    fn probing_finds_what_would_not_be_bound_and_takes_what_another_server_listens_at() {
        let busy = bind(&[listen("127.0.0.1:0")]).unwrap();
        assert!(probe(busy[0].address()).is_ok());
        assert!(probe(&any_port("192.0.2.1:80")).is_err());
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let address = ListenAddress::Unix(path.clone());
        assert!(probe(&address).is_ok() && !path.exists());
        let listening = bind(&[address.clone().into()]).unwrap();
        assert!(probe(&address).is_ok());
        drop(listening);
        std::fs::write(&path, "a file").unwrap();
        assert!(probe_one(&address).unwrap_err().to_string().contains("not a socket"));
        for path in ["/nonexistent/a".to_owned(), "/x".repeat(100)] {
            assert!(probe(&ListenAddress::Unix(path.into())).is_err());
        }
    }

    #[test]
    fn an_address_of_another_machine_is_reported_with_a_remedy() {
        let message = message(&[listen("192.0.2.1:0")]);
        assert!(message.contains("no interface of this machine"), "{message}");
    }

    #[test]
    fn a_low_port_without_rights_is_a_matter_of_permission() {
        let error = tcp_error(([127, 0, 0, 1], 80).into(), Errno::ACCESS);
        assert!(error.is_permission_denied());
        assert!(error.to_string().contains("CAP_NET_BIND_SERVICE"));
    }

    #[test]
    fn a_default_port_in_use_is_passed_over() {
        let busy = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = busy.local_addr().unwrap().port();
        assert!(first_free(port..=port).is_err());
        let next = first_free(port..=port.saturating_add(20));
        assert!(next.is_ok_and(|listener| tcp_address(&listener).port() > port) || port > u16::MAX - 20);
    }

    #[test]
    fn if_one_address_cannot_be_bound_none_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        let addresses =
            [ListenAddress::Unix(path.clone()), ListenAddress::Unix("/nonexistent/b".into())].map(Into::into);
        assert!(message(&addresses).contains("the directory `/nonexistent` does not exist"));
        assert!(!path.exists());
    }

    #[test]
    fn what_the_command_line_overrides_is_not_looked_for() {
        let directory =
            directory_with("log = \"nowhere/log\"\nadmin = \"unix:nowhere/a\"\n[[site]]\nroot = \"site\"\n");
        let file = directory.path().join("lamna.toml");
        assert!(check(Some(&file), &Overrides::default(), probe).is_err());
        let off = ["log", "admin"].map(|name| (name, find(name).unwrap().parse("off").unwrap()));
        let overrides = Overrides { settings: off.to_vec(), ..Overrides::default() };
        assert!(check(Some(&file), &overrides, probe).is_ok());
    }

    #[test]
    fn a_log_that_can_be_written_and_not_opened_is_found_by_checking() {
        let directory = directory_with("log = \"socket\"\n[[site]]\nroot = \"site\"\n");
        let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
        let error = check(Some(&directory.path().join("lamna.toml")), &Overrides::default(), probe).unwrap_err();
        assert!(error.to_string().contains("lamna.toml:1:7: the access log `"), "{error}");
    }

    #[test]
    fn checking_finds_what_binding_would_find_and_loading_leaves_that_to_binding() {
        for (listen, message) in [
            ("192.0.2.1:80", "no interface of this machine has the address 192.0.2.1"),
            ("unix:run/a.sock", "run` does not exist; create it first"),
            ("unix:lamna.toml", "not a socket"),
        ] {
            let directory = directory_with(&format!("listen = [\"{listen}\"]\n[[site]]\nroot = \"site\"\n"));
            let file = directory.path().join("lamna.toml");
            assert!(load(Some(&file), &Overrides::default()).is_ok(), "{listen}");
            let report = check(Some(&file), &Overrides::default(), probe).unwrap_err().to_string();
            assert!(report.contains("lamna.toml:1:11: cannot listen on ") && report.contains(message), "{report}");
            // What the command line says in its place is what counts.
            let overrides = Overrides { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Overrides::default() };
            assert!(check(Some(&file), &overrides, probe).is_ok());
            let overrides = Overrides { listen: vec!["192.0.2.1:80".parse().unwrap()], ..Overrides::default() };
            assert!(
                check(Some(&file), &overrides, probe)
                    .unwrap_err()
                    .to_string()
                    .starts_with("cannot listen on 192.0.2.1:80")
            );
        }
    }
}
