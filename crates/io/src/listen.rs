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

use arc_swap::ArcSwap;
use lamna_config::listen::{BACKLOG, entries_of};
use lamna_config::proxies::TrustedProxies;
use lamna_config::settings::{ListenAddress, ListenAt, ListenRules, ListenSettings, Settings};
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
    /// The treatment of connections that are taken from now on.
    rules: ArcSwap<Rules>,
}

/// The treatment of connections at a listener.
#[derive(Debug)]
struct Rules {
    own: ListenRules,
    /// The proxies whose connections begin with a header that names their client.
    proxies: Option<Arc<TrustedProxies>>,
}

impl Rules {
    /// Those of an address of which nothing has been said yet.
    fn unsaid(address: &ListenAddress) -> ArcSwap<Rules> {
        ArcSwap::from_pointee(Rules { own: ListenRules::of(&Settings::default(), None, address), proxies: None })
    }
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
pub fn bind(listen: &[ListenSettings]) -> Result<Vec<Arc<Listener>>, BindError> {
    let mut passed: Vec<Arc<Listener>> = activation::listeners()?.into_iter().map(Arc::new).collect();
    if !listen.is_empty() {
        let mut listeners = Vec::new();
        for one in listen {
            // Port 0 is another port than those that are passed.
            let mut take = |address: &ListenAddress| take(&mut passed, |own| own == address);
            listeners.append(&mut bind_at(&one.at, &mut take)?);
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
    first_free(DEFAULT_PORTS).map(|listener| vec![Arc::new(listener)])
}

/// The listeners of a server that listens at `now` and is to listen as `listen` says: what is named goes on with its
/// socket, and what is new is bound. All stay as they are if nothing is named.
///
/// # Errors
/// The first address that cannot be bound; what was bound before it is closed again.
pub fn change(now: &[Arc<Listener>], listen: &[ListenSettings]) -> Result<Vec<Arc<Listener>>, BindError> {
    if listen.is_empty() {
        return Ok(now.to_vec());
    }
    let mut left = now.to_vec();
    let is_any = |(_, one): &(usize, &ListenSettings)| one.at.port() == Some(0);
    let (any, named): (Vec<_>, Vec<_>) = listen.iter().enumerate().partition(is_any);
    let mut places = Vec::new();
    // What names a port has the socket at that port.
    for (place, one) in named.into_iter().chain(any) {
        let mut take = |address: &ListenAddress| take(&mut left, |own| address.means(own));
        let bound = bind_at(&one.at, &mut take).map_err(|error| error.of_change(&one.at, now))?;
        places.push((place, bound));
    }
    places.sort_by_key(|(place, _)| *place);
    Ok(places.into_iter().flat_map(|(_, bound)| bound).collect())
}

/// Those of `before` that are not among `now`.
pub fn removed(before: &[Arc<Listener>], now: &[Arc<Listener>]) -> Vec<Arc<Listener>> {
    let is_removed = |one: &&Arc<Listener>| !now.iter().any(|other| Arc::ptr_eq(one, other));
    before.iter().filter(is_removed).cloned().collect()
}

/// Takes the first whose address is one that `is_wanted`.
fn take(listeners: &mut Vec<Arc<Listener>>, is_wanted: impl Fn(&ListenAddress) -> bool) -> Option<Arc<Listener>> {
    let place = listeners.iter().position(|listener| is_wanted(listener.address()))?;
    Some(listeners.remove(place))
}

/// Has each of `listeners` take connections as the settings say from now on.
pub fn follow(listeners: &[Arc<Listener>], settings: &Settings) {
    let own: Vec<&ListenAddress> = listeners.iter().map(|listener| listener.address()).collect();
    for (listener, entry) in listeners.iter().zip(entries_of(&settings.listen, &own)) {
        listener.follow(ListenRules::of(settings, entry, listener.address()), settings);
    }
}

impl Listener {
    /// Leaves the file of a Unix socket to this user and group. If that fails, it stays its maker's.
    pub fn give_file(&self, (user, group): (u32, u32)) {
        if let (Some(_), ListenAddress::Unix(path)) = (&self.file, &self.address) {
            let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
            let _ = chownat(CWD, path, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW);
        }
    }

    /// Whether TLS is spoken here if sites speak it: unless the settings say otherwise, on every port but that of plain
    /// HTTP. Unix sockets are for programs of this machine.
    pub fn speaks_tls(&self) -> bool {
        self.rules.load().own.tls
    }

    /// Whether it is a port of plain HTTP.
    pub fn is_for_plain_http(&self) -> bool {
        !self.speaks_tls() && matches!(self.address, ListenAddress::Tcp(_))
    }

    /// Whether requests in clear text for sites that speak TLS are served here, and not led to https.
    pub fn serves_in_clear(&self) -> bool {
        !self.rules.load().own.redirect
    }

    /// Whether HTTP/2 is spoken here, beside HTTP/1.1.
    pub fn speaks_http2(&self) -> bool {
        self.rules.load().own.http2
    }

    /// Connections that may wait to be accepted.
    pub fn backlog(&self) -> u32 {
        self.rules.load().own.backlog
    }

    /// The proxies whose connections begin with a header of the PROXY protocol. Others may not connect here.
    pub fn proxies(&self) -> Option<Arc<TrustedProxies>> {
        self.rules.load().proxies.clone()
    }

    /// Takes connections from now on as `rules` say, those of the proxies of `settings` if they say that.
    fn follow(&self, rules: ListenRules, settings: &Settings) {
        if rules.backlog != self.backlog() && !self.lent {
            // Said once more it changes the number. If it fails the queue is as it was.
            let _ = rustix::net::listen(self, rules.backlog as i32);
        }
        let proxies = rules.proxy_protocol.then(|| Arc::new(settings.proxies.clone()));
        self.rules.store(Arc::new(Rules { own: rules, proxies }));
    }

    /// In words, what is done here that is not what is done elsewhere; empty if there is no such thing.
    pub fn describe(&self, settings: &Settings) -> Vec<&'static str> {
        let rules = self.rules.load();
        let speaks_tls = settings.speak_tls() && rules.own.tls;
        let mut words = Vec::new();
        if settings.speak_tls() && !rules.own.tls && matches!(self.address, ListenAddress::Tcp(_)) {
            words.push(if rules.own.redirect { "leads to https" } else { "serves in clear text" });
        }
        if rules.own.proxy_protocol {
            words.push("PROXY protocol");
        }
        if speaks_tls && !rules.own.http2 {
            words.push("HTTP/1.1 alone");
        }
        if !speaks_tls && rules.own.http2 && !settings.h2c {
            words.push("HTTP/2 as well");
        }
        words
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

    /// The same for an address `at` which a server was to listen that listens at `now`.
    fn of_change(self, at: &ListenAt, now: &[Arc<Listener>]) -> BindError {
        let is_own = |own: &&Arc<Listener>| at.overlaps(&own.address().clone().into());
        let own = now.iter().find(is_own).filter(|_| self.error.kind() == io::ErrorKind::AddrInUse);
        let remedy = match own {
            Some(own) => format!(
                "this server listens at {} itself, and no two sockets can be at that port: restart it, or let it listen \
                 there no more by one reload, and at {at} by the next",
                own.address()
            ),
            None if self.is_permission_denied() => {
                "the server could bind it at its start only, before it became another \
                user, or left its capabilities: restart it, or name a port from 1024 on"
                    .to_owned()
            }
            None => self.remedy.replace("pass --listen with", "name"),
        };
        BindError { remedy, ..self }
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

/// Binds all addresses of `at` but those for which there is a socket already, as `take` says.
fn bind_at(
    at: &ListenAt,
    take: &mut dyn FnMut(&ListenAddress) -> Option<Arc<Listener>>,
) -> Result<Vec<Arc<Listener>>, BindError> {
    let port = match at {
        ListenAt::Address(address) => {
            return Ok(vec![take(address).map_or_else(|| bind_one(address).map(Arc::new), Ok)?]);
        }
        ListenAt::EveryAddress(port) => *port,
    };
    let [ipv4, ipv6] = every(port);
    let there = take(&ListenAddress::Tcp(ipv6));
    // One socket of a service manager may be for both: what connects by IPv4 has an address of IPv6 there.
    if there.as_ref().is_some_and(|both| sockopt::ipv6_v6only(both) == Ok(false)) {
        return Ok(there.into_iter().collect());
    }
    let own = take(&ListenAddress::Tcp(ipv4));
    if port == 0 && own.is_none() {
        return bind_any_port();
    }
    let own = match own {
        Some(listener) => listener,
        None => Arc::new(bind_tcp(ipv4).map_err(|errno| tcp_error(ipv4, errno))?),
    };
    if port == 0 {
        return Ok([Some(own), there].into_iter().flatten().collect());
    }
    match there.map_or_else(|| bind_tcp(ipv6).map(Arc::new), Ok) {
        Ok(other) => Ok(vec![own, other]),
        Err(errno) if is_without_family(errno) => Ok(vec![own]),
        Err(errno) => Err(tcp_error(ipv6, errno)),
    }
}

/// Binds a port that is free in both families.
fn bind_any_port() -> Result<Vec<Arc<Listener>>, BindError> {
    let [any, _] = every(0);
    for _ in 0..ANY_PORT_TRIES {
        let listener = bind_tcp(any).map_err(|errno| tcp_error(any, errno))?;
        let ListenAddress::Tcp(bound) = listener.address else { continue };
        let [_, ipv6] = every(bound.port());
        match bind_tcp(ipv6) {
            Ok(other) => return Ok([listener, other].map(Arc::new).to_vec()),
            Err(errno) if is_without_family(errno) => return Ok(vec![Arc::new(listener)]),
            Err(Errno::ADDRINUSE) => {}
            Err(errno) => return Err(tcp_error(ipv6, errno)),
        }
    }
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
    rustix::net::listen(&socket, BACKLOG as i32)?;
    listener(socket)
}

/// Accepted sockets inherit TCP_NODELAY: responses are sent whole, so there is nothing for Nagle's algorithm to wait
/// for. Where the kernel cannot defer accepts, the server works as well, one wake-up more for each connection.
fn tune_tcp(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::set_tcp_nodelay(socket, true)?;
    _ = sys::tcp::defer_accept(socket, DEFER_ACCEPT_S);
    Ok(())
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

/// A listener that leaves no file behind, with the address that the kernel says it has.
fn listener(descriptor: OwnedFd) -> Result<Listener, Errno> {
    let address = address_of(rustix::net::getsockname(&descriptor)?)?;
    let rules = Rules::unsaid(&address);
    Ok(Listener { descriptor, address, file: None, left: AtomicBool::new(false), lent: false, rules })
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
mod tests;
