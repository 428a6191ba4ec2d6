//! The administrator's endpoint: what `lamna ctl`, probes and monitoring speak to.
//!
//! ```text
//! main thread:  Orders::wait(.., admin.descriptors()) ── woken ──> admin.handle(api)
//!                                                                     │ accept, receive, send: never waits
//!               connection::Visit ── request ──> routes::answer ── asks ──> AdminApi ── Status, Stats, done or why not
//! ```
//!
//! Owns: the socket ([`socket_path`] says where), the rights of a client that connects ([`token`] for orders over TCP),
//! a bounded number of connections for one request each. Guarantees: no thread of its own, so that a supervisor may
//! fork; the thread that polls it is never kept waiting by a peer. Does not know how a server does what it is asked:
//! [`AdminApi`] does.

pub mod api;
pub mod applications;
pub mod client;
mod connection;
mod derived;
pub mod duration;
mod families;
pub mod figures;
mod metrics;
pub mod process_stats;
mod request;
mod routes;
pub mod services;
pub mod socket_path;
pub mod thread_stats;
pub mod token;
pub mod trace;
pub mod upstreams;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use lamna_config::address::AdminAddress;
use lamna_config::settings::{AdminSettings, ListenAddress};
use lamna_io::accept::{Accepted, accept};
use lamna_io::listen::{self, BindError, Listener};
use lamna_io::log::errors::{self, Level};
use lamna_proto::workspace::Workspace;
use lamna_sys::peer;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::geteuid;

pub use crate::admin::api::{AdminApi, Change, Stats, Status};
use crate::admin::connection::{Origin, Rights, Visit};
use routes::{Caller, Keys};
use token::Token;

/// The endpoint. Dropping it closes it and removes its socket.
#[derive(Debug, Default)]
pub struct Admin {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    /// One; or TCP, and the Unix socket that `lamna ctl` finds. None once they are another process's.
    listeners: Vec<Listener>,
    keys: Keys,
    /// Knows of the listeners and of every visit. Edge-triggered: what it reports is looked at in full.
    epoll: OwnedFd,
    /// The oldest first.
    visits: Vec<Visit>,
    /// The workspace that drives visits, one after the other.
    workspace: Option<Box<Workspace>>,
}

/// Connections at a time; one more ends the oldest of those from where most are, so that idle clients cannot keep an
/// administrator or a probe out.
const VISITS_MAX: usize = 16;
/// Connections accepted at one look.
const ACCEPTS_MAX: usize = 32;

impl Admin {
    /// Opens the endpoint. To be called before other threads and processes are started, which may take their time.
    ///
    /// # Errors
    /// A socket that was asked for cannot be bound, or a token that was named cannot be read.
    pub fn open(settings: &AdminSettings) -> Result<Admin, BindError> {
        let listeners = match &settings.address {
            AdminAddress::Off => return Ok(Admin::default()),
            AdminAddress::Found => vec![socket_path::bind()?],
            AdminAddress::At(address) => {
                let asked = listen::bind_one(&absolute(address)).map_err(|error| error.for_option("--admin"))?;
                match address {
                    ListenAddress::Unix(_) => vec![asked],
                    // Who asks for TCP wants monitoring to reach it, and `lamna ctl` as before.
                    ListenAddress::Tcp(_) => {
                        [asked].into_iter().chain(socket_path::bind().map_err(report_not_found).ok()).collect()
                    }
                }
            }
        };
        let paths = listeners.iter().filter_map(|listener| match listener.address() {
            ListenAddress::Unix(path) => Some(path),
            ListenAddress::Tcp(_) => None,
        });
        paths.for_each(|path| socket_path::close_to_others(path));
        Admin::with(listeners, settings, Token::make)
    }

    /// The endpoint of a process whose place is taken, with its sockets.
    ///
    /// # Errors
    /// No descriptors, or a token that was named cannot be read.
    pub fn inherit(listeners: Vec<Listener>, settings: &AdminSettings) -> Result<Admin, BindError> {
        Admin::with(listeners, settings, Token::inherit)
    }

    fn with(
        listeners: Vec<Listener>,
        settings: &AdminSettings,
        token: fn(SocketAddr) -> io::Result<Token>,
    ) -> Result<Admin, BindError> {
        let tcp = listeners.iter().find_map(|listener| match listener.address() {
            ListenAddress::Tcp(address) => Some(*address),
            ListenAddress::Unix(_) => None,
        });
        let token = match (tcp, &settings.token_file) {
            (None, _) => None,
            (Some(_), Some(file)) => Some(Token::read(file).map_err(|error| {
                let remedy = "see admin_token_file in the configuration".to_owned();
                BindError::of(format!("cannot read the token in {}", file.display()), error, remedy)
            })?),
            (Some(address), None) => match token(address) {
                Ok(token) => Some(token),
                Err(error) => {
                    let why = format!(
                        "no orders over TCP: their token cannot be kept: {error}; name one with admin_token_file"
                    );
                    errors::tell(Level::Warning, format_args!("{why}"));
                    None
                }
            },
        };
        let epoll = watch(&listeners).map_err(|errno| {
            let remedy = "raise the limit on open files, or do without it: --admin off".to_owned();
            BindError::new("cannot wait for the control socket".to_owned(), errno, remedy)
        })?;
        let keys = Keys { token, hosts: settings.hosts.clone() };
        let workspace = Some(connection::workspace().expect("the sentences of refusals are short"));
        Ok(Admin { open: Some(Open { listeners, keys, epoll, visits: Vec::new(), workspace }) })
    }

    /// The sockets; none if it is off.
    pub(crate) fn listeners(&self) -> &[Listener] {
        self.open.as_ref().map_or(&[], |open| &open.listeners)
    }

    /// Leaves the sockets, and what goes with them, to another process. Visits stay, for the last answers.
    pub(crate) fn leave(&mut self) {
        if let Some(open) = &mut self.open {
            open.listeners.drain(..).for_each(|listener| listener.leave_file());
            open.keys.token.iter_mut().for_each(Token::leave_file);
        }
    }

    /// Ends here, for a process that has taken the place of this one or goes on without it.
    pub(crate) fn retire(&mut self) {
        self.leave();
        self.open = None;
    }

    /// Where it is.
    pub fn addresses(&self) -> impl Iterator<Item = &ListenAddress> {
        self.listeners().iter().map(Listener::address)
    }

    /// The descriptors that are readable when [`Admin::handle`] has something to do. It is also to be called once a
    /// second, for visits whose time is over and for connections that could not be accepted.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|open| open.epoll.as_fd())
    }

    /// Answers what has come. Does not wait, except for `api`.
    pub fn handle(&mut self, api: &mut dyn AdminApi) {
        if let Some(open) = &mut self.open {
            open.clear_events();
            open.keys.token.iter_mut().for_each(Token::keep);
            open.accept(Instant::now());
            let (now, keys) = (Instant::now(), &open.keys);
            let workspace = &mut open.workspace;
            open.visits.retain_mut(|visit| {
                visit.resume(now, workspace, |origin, ask| routes::answer(ask, caller(origin, keys), api))
            });
        }
    }
}

impl Open {
    /// Everything is looked at anyway; taking the events makes the set quiet until something else happens.
    fn clear_events(&self) {
        let mut events = Vec::with_capacity(2 * VISITS_MAX);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // If it fails there is nothing to clear.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once));
    }

    fn accept(&mut self, now: Instant) {
        for listener in &self.listeners {
            for _ in 0..ACCEPTS_MAX {
                // Whatever keeps it from being accepted, it is tried again at the next look.
                let Ok(accepted) = accept(listener.as_fd()) else { break };
                let origin = origin(&accepted, listener.address());
                let visit = Visit::new(accepted.socket, origin, now);
                let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
                if epoll::add(&self.epoll, visit.descriptor(), epoll::EventData::new_u64(0), flags).is_err() {
                    continue;
                }
                self.visits.push(visit);
                if self.visits.len() > VISITS_MAX {
                    let origins: Vec<Origin> = self.visits.iter().map(|visit| visit.origin).collect();
                    self.visits.remove(surplus(&origins));
                }
            }
        }
    }
}

/// Which one goes: the oldest of those from where most are. The oldest is the first.
fn surplus(origins: &[Origin]) -> usize {
    let together = |one: Origin| origins.iter().filter(|other| other.is_together_with(one)).count();
    let most = origins.iter().map(|origin| together(*origin)).max();
    origins.iter().position(|origin| Some(together(*origin)) == most).unwrap_or(0)
}

/// Over a Unix socket the kernel says whose process has connected. Over TCP it does not: a client that wants to do more
/// than look has to have the token, and to be on this machine.
fn origin(accepted: &Accepted, address: &ListenAddress) -> Origin {
    if let (ListenAddress::Tcp(_), Some(client)) = (address, accepted.client) {
        return Origin::Tcp(client);
    }
    Origin::Unix(match peer::user(accepted.socket.as_fd()) {
        Ok(user) if user == 0 || user == geteuid().as_raw() => Rights::All,
        _ => Rights::None,
    })
}

fn caller(origin: Origin, keys: &Keys) -> Caller<'_> {
    match origin {
        Origin::Unix(rights) => Caller::Unix(rights),
        Origin::Tcp(client) => Caller::Tcp { from_here: client.to_canonical().is_loopback(), keys },
    }
}

fn report_not_found(error: BindError) {
    errors::tell(Level::Warning, format_args!("`lamna ctl` will not find this server: {error}"));
}

fn watch(listeners: &[Listener]) -> Result<OwnedFd, Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    for listener in listeners {
        epoll::add(&epoll, listener, epoll::EventData::new_u64(0), flags)?;
    }
    Ok(epoll)
}

/// So that what is reported means the same to readers elsewhere.
fn absolute(address: &ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Unix(path) => ListenAddress::Unix(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        ListenAddress::Tcp(_) => address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_most_are_from_the_oldest_goes() {
        let tcp = |text: &str| Origin::Tcp(text.parse().unwrap());
        let (a, b, unix) = (tcp("192.0.2.1"), tcp("192.0.2.2"), Origin::Unix(Rights::All));
        assert_eq!(surplus(&[b, a, a]), 1);
        assert_eq!(surplus(&[unix, b, a, a, unix, unix]), 0);
        assert_eq!(surplus(&[a, b]), 0);
        // One host of IPv6 has as many addresses as it likes.
        assert_eq!(surplus(&[a, tcp("2001:db8::1"), tcp("2001:db8::2")]), 1);
    }
}
