//! The administrator's endpoint: what `lamna ctl`, probes and monitoring speak to.
//!
//! ```text
//! main thread:  Orders::wait(.., admin.descriptors()) ── woken ──> admin.handle(steward)
//!                                                                     │ accept, receive, send: never waits
//!               visit::Visit ── request ──> routes::answer ── asks ──> Steward ── Status, Stats, done or why not
//! ```
//!
//! Owns: the socket ([`place`] says where), the rights of who connects, a bounded number of connections for one request
//! each. Guarantees: no thread of its own, so that a supervisor may fork; the thread that polls it is never kept waiting
//! by a peer. Does not know how a server does what it is asked: [`Steward`] does.

pub mod client;
pub mod duration;
mod metrics;
pub mod office;
pub mod place;
mod request;
mod routes;
pub mod steward;
pub mod tasks;
mod visit;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::settings::ListenAddress;
use crate::io::accept::{Accepted, accept};
use crate::listen::{self, BindError, Listener};
use crate::sys::peer;
pub use place::AdminAddress;
pub use steward::{Change, Stats, Status, Steward};
use visit::{Rights, Visit};

/// The endpoint. Dropping it closes it and removes its socket.
#[derive(Debug, Default)]
pub struct Admin {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    listener: Listener,
    /// Knows of the listener and of every visit. Edge-triggered: what it reports is looked at in full.
    epoll: OwnedFd,
    /// The oldest first.
    visits: Vec<Visit>,
}

/// Connections at a time; one more ends the oldest, so that nobody can keep an administrator out by doing nothing.
const VISITS_MAX: usize = 16;
/// Connections accepted at one look.
const ACCEPTS_MAX: usize = 32;

impl Admin {
    /// Opens the endpoint. To be called before other threads and processes are started, which may take their time.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub fn open(address: &AdminAddress) -> Result<Admin, BindError> {
        let listener = match address {
            AdminAddress::Off => return Ok(Admin::default()),
            AdminAddress::Found => place::bind()?,
            AdminAddress::At(address) => {
                listen::bind_one(&absolute(address)).map_err(|error| error.for_option("--admin"))?
            }
        };
        if let ListenAddress::Unix(path) = listener.address() {
            place::close_to_others(path);
        }
        let epoll = watch(&listener).map_err(|errno| {
            let remedy = "raise the limit on open files, or do without it: --admin off".to_owned();
            BindError::new(format!("cannot wait for {}", listener.address()), errno, remedy)
        })?;
        Ok(Admin { open: Some(Open { listener, epoll, visits: Vec::new() }) })
    }

    /// The endpoint of a process whose place is taken, with its socket.
    ///
    /// # Errors
    /// No descriptors.
    pub fn inherit(listener: Listener) -> Result<Admin, Errno> {
        let epoll = watch(&listener)?;
        Ok(Admin { open: Some(Open { listener, epoll, visits: Vec::new() }) })
    }

    /// The socket, if it is not off.
    pub(crate) fn listener(&self) -> Option<&Listener> {
        self.open.as_ref().map(|open| &open.listener)
    }

    /// Leaves the socket to another process.
    pub(crate) fn retire(&mut self) {
        if let Some(open) = self.open.take() {
            open.listener.leave_file();
        }
    }

    /// Where it is, if it is not off.
    pub fn address(&self) -> Option<&ListenAddress> {
        self.open.as_ref().map(|open| open.listener.address())
    }

    /// What is readable when [`Admin::handle`] has something to do. It is also to be called once a second, for visits
    /// whose time is over and for connections that could not be accepted.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().map(|open| open.epoll.as_fd())
    }

    /// Answers what has come. Does not wait, except for `steward`.
    pub fn handle(&mut self, steward: &mut dyn Steward) {
        if let Some(open) = &mut self.open {
            open.clear_events();
            open.accept(Instant::now());
            let now = Instant::now();
            open.visits.retain_mut(|visit| {
                visit.go_on(now, |visit, ask| routes::answer(ask, visit.rights, visit.by_tcp, steward))
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
        let by_tcp = matches!(self.listener.address(), ListenAddress::Tcp(_));
        for _ in 0..ACCEPTS_MAX {
            // Whatever keeps it from being accepted, it is tried again at the next look.
            let Ok(accepted) = accept(self.listener.as_fd()) else { return };
            let rights = rights(&accepted, by_tcp);
            let visit = Visit::new(accepted.socket, rights, by_tcp, now);
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            if epoll::add(&self.epoll, visit.descriptor(), epoll::EventData::new_u64(0), flags).is_err() {
                continue;
            }
            if self.visits.len() == VISITS_MAX {
                self.visits.remove(0);
            }
            self.visits.push(visit);
        }
    }
}

/// Over a Unix socket the kernel says whose process has connected. Over TCP it does not: whoever is on this machine may
/// do everything, and whoever is not may look.
fn rights(accepted: &Accepted, by_tcp: bool) -> Rights {
    if by_tcp {
        let from_here = accepted.client.is_some_and(is_loopback);
        return if from_here { Rights::All } else { Rights::Read };
    }
    match peer::user(accepted.socket.as_fd()) {
        Ok(user) if user == 0 || user == geteuid().as_raw() => Rights::All,
        _ => Rights::None,
    }
}

fn is_loopback(client: IpAddr) -> bool {
    client.to_canonical().is_loopback()
}

fn watch(listener: &Listener) -> Result<OwnedFd, Errno> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(0), flags)?;
    Ok(epoll)
}

/// So that what is reported means the same to who reads it elsewhere.
fn absolute(address: &ListenAddress) -> ListenAddress {
    match address {
        ListenAddress::Unix(path) => ListenAddress::Unix(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())),
        ListenAddress::Tcp(_) => address.clone(),
    }
}
