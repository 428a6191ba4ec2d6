//! A connection and its socket: what an engine keeps of it between two turns.
//!
//! Owns: the socket and what the core knows of the connection. Guarantees: what it holds while it waits is counted for
//! its client network; a peer whose connection is closed while idle is told so. Does not wait, and does not know which
//! engine has it.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use lamna_config::proxies::Peer;
use lamna_io::accept::Accepted;
use lamna_io::listen::Listener;
use lamna_io::wait::{Event, Token};
use lamna_proto::conn::{Connection, Interest};
use lamna_proto::limits::Limits;
use lamna_proto::message::Version;
use lamna_proto::parse::proxy::Source;
use lamna_proto::time::Instant;
use lamna_proto::workspace::Workspace;
use lamna_site::early_hints::Viewing;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_tls::Endpoint;

use crate::worker::connection_counter::CountGuard;
use crate::worker::context::WorkerContext;
use crate::worker::limiter::connections::{ConnectionPermit, Crowded, Held};
use crate::worker::limiter::rate_limits::{Pacing, RateLimits};
use crate::worker::room::{Candidate, Stage};
use crate::worker::transport::Transport;
use rustix::net::RecvFlags;

/// How long a request is waited for that may be on its way to a connection which is to end.
const LAST_CALL_MS: u32 = 2000;
/// How often it is looked whether a connection that holds much is to end.
const LOOK_MS: u32 = 500;
const IDLE_LOOK_MS: u32 = 5_000;

/// One connection of a worker.
#[derive(Debug)]
pub struct ConnectionState {
    /// Its socket, and TLS if that is spoken.
    pub transport: Transport,
    /// The core's part of the connection.
    pub http: Connection,
    /// Which of the successive owners of this descriptor number it is.
    pub generation: u32,
    /// When it was taken, in milliseconds of the server's clock, without their upper half.
    begun_ms: u32,
    /// The address that it comes from, or the client for which a proxy says that it has connected.
    pub peer: Peer,
    /// Receiving may give something.
    pub readable: bool,
    /// Sending may take something.
    pub writable: bool,
    /// After what can be received comes the end.
    pub ending: bool,
    /// It is in the epoll set.
    pub registered: bool,
    /// It is in the list of those that are to go on without an event.
    pub queued: bool,
    /// How it was left after its last turn.
    pub(super) phase: ConnectionPhase,
    /// By which it is counted, where connections move between threads.
    pub count_guard: Option<CountGuard>,
    /// Parts that only some connections have.
    pub extras: Option<Box<Extras>>,
}

/// Parts of a connection that only some connections have.
#[derive(Debug, Default)]
pub struct Extras {
    /// By which it is counted among those of its client network.
    permit: Option<ConnectionPermit>,
    /// The bandwidth and the meters that limits have set for it.
    pacing: Option<Box<Pacing>>,
    /// The page that it shows, if that may be hinted for.
    viewing: Option<Box<Viewing>>,
    /// It is to end when it is idle: until when a request that may be on its way is waited for.
    last_call: Option<Instant>,
}

impl Extras {
    /// The page that a connection with these `extras` shows, to be put back.
    pub fn take_viewing(extras: &mut Option<Box<Extras>>) -> Option<Box<Viewing>> {
        extras.as_mut().and_then(|extras| extras.viewing.take())
    }

    /// The connection with these `extras` shows this.
    pub fn put_viewing(extras: &mut Option<Box<Extras>>, viewing: Option<Box<Viewing>>) {
        if viewing.is_some() {
            extras.get_or_insert_default().viewing = viewing;
        }
    }
}

/// The event for which a connection waits between its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionPhase {
    /// Its peer to ask for something.
    Idle,
    /// Its peer to take what is sent.
    Slow,
    /// Anything else: the rest of a request, the disk.
    #[default]
    Active,
}

impl ConnectionState {
    /// The events that it waits for.
    pub fn interest(&mut self) -> Interest {
        self.transport.wants(self.http.interest())
    }

    /// Whether nothing is lost by closing it, and nothing is in work.
    pub fn is_idle(&self) -> bool {
        self.http.is_idle() && self.transport.is_idle()
    }

    /// Whether it waits for a request, and for nothing else. One that is to be closed is idle, too.
    pub fn waits_for_request(&mut self) -> bool {
        let interest = self.interest();
        self.waits_for_request_with(interest)
    }

    /// The same of one whose `interest` is known.
    pub fn waits_for_request_with(&self, interest: Interest) -> bool {
        interest == Interest::RECEIVE && self.is_idle()
    }

    /// Whether unread bytes have arrived. Asks the kernel.
    pub fn has_unread(&self) -> bool {
        let peeked = rustix::net::recv(&self.transport, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Ok((_, 1)))
    }

    /// Whether another process can go on with it.
    pub fn is_transferable(&self) -> bool {
        self.http.is_transferable() && self.transport.is_transferable()
    }

    /// Whether no other process will ever be able to: where TLS or HTTP/2 is spoken, or a proxy has named the client.
    pub fn stays(&self) -> bool {
        !self.transport.is_transferable() || self.http.version() == Some(Version::Http2)
    }

    /// Until when it may be waited for.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        let until = self.transport.poll_timeout(self.http.poll_timeout(limits), limits);
        until.into_iter().chain(self.last_call()).min()
    }

    /// Until when it stays although it is idle and to end.
    pub fn last_call(&self) -> Option<Instant> {
        self.extras.as_ref().and_then(|extras| extras.last_call).filter(|_| self.is_idle())
    }

    /// When to look at it though nothing has come about: when it may be waited for no longer, or whether it is to end
    /// for what it holds.
    pub fn deadline(&self, limits: &Limits, now: Instant) -> Option<Instant> {
        self.poll_timeout(limits).into_iter().chain(self.look_at(now)).min()
    }

    /// When to look whether it is to end for what it holds; none if it holds little.
    pub fn look_at(&self, now: Instant) -> Option<Instant> {
        let permit = self.permit()?;
        if permit.is_doomed() {
            return Some(now);
        }
        permit.is_heavy().then(|| now.after_ms(if self.is_idle() { IDLE_LOOK_MS } else { LOOK_MS }))
    }

    /// Whether it has been waited for too long, or is to end for what it holds.
    pub fn is_over(&self, limits: &Limits, now: Instant) -> bool {
        self.permit().is_some_and(ConnectionPermit::is_doomed)
            || self.poll_timeout(limits).is_some_and(|until| until <= now)
    }

    fn permit(&self) -> Option<&ConnectionPermit> {
        self.extras.as_ref().and_then(|extras| extras.permit.as_ref())
    }

    /// It has been waited for too long, or is to end for what it holds. It has a workspace.
    pub fn handle_timeout(&mut self, limits: &Limits, now: Instant) {
        if self.permit().is_some_and(ConnectionPermit::is_doomed) {
            return self.handle_broken();
        }
        let is_called_last = self.last_call().is_some_and(|until| until <= now);
        match is_called_last || self.transport.handle_timeout(limits, now) {
            true => self.http.handle_broken(),
            false => self.http.handle_timeout(now),
        }
    }

    /// Whether it can be closed when all connections end: it is idle, and no request is on its way, as far as can be
    /// known. A request is expected after a TLS handshake that has just ended, and after an answer that did not say
    /// that it was the last. Where `is_kept`, every other connection is expected to ask, because its peer cannot know
    /// that the next request will find it closed. All these are waited for [`LAST_CALL_MS`] at most, from when this is
    /// asked first.
    pub fn may_end(&mut self, is_kept: bool, now: Instant) -> bool {
        if !self.is_idle() || self.readable {
            return false;
        }
        let is_expected = is_kept || self.is_about_to_ask() || self.http.is_promised();
        let until = if is_expected { now.after_ms(LAST_CALL_MS) } else { now };
        let until = *self.extras.get_or_insert_default().last_call.get_or_insert(until);
        until <= now
    }

    /// Whether its TLS handshake has ended, and nothing has been asked yet.
    pub fn is_about_to_ask(&self) -> bool {
        self.transport.is_established() && self.http.version().is_none()
    }

    /// Its socket is of no use any more. It has a workspace.
    pub fn handle_broken(&mut self) {
        self.transport.handle_broken();
        self.http.handle_broken();
    }

    /// Makes it ready to be adopted by another worker: what that one has to be told again, and what it has to try.
    pub fn make_movable(&mut self) {
        self.http.recall_needs();
        (self.readable, self.writable, self.ending) = (true, true, false);
        (self.registered, self.queued) = (false, false);
    }

    /// A connection that was taken from `listener`, with TLS by `endpoint` if that listener speaks it.
    pub fn accepted(
        accepted: Accepted,
        listener: &Listener,
        endpoint: Option<&Arc<Endpoint>>,
        limits: &Limits,
        now: Instant,
    ) -> ConnectionState {
        let Accepted { socket, client } = accepted;
        let mut transport = Transport::accepted(socket, listener, endpoint, limits, now);
        if let Some(proxies) = listener.proxies() {
            transport.expect_header(proxies.trust(client));
        }
        let speaks_h2c = listener.speaks_http2() && !transport.is_secured();
        let mut connection = ConnectionState::over(transport, client, now);
        if !speaks_h2c {
            connection.http.keep_version();
        }
        connection
    }

    /// Applies the rates that limits set for a routed request to all bytes that are sent from now on.
    pub fn apply_rate_limits(&mut self, context: &mut WorkerContext<'_>) {
        let rate_limits = context.rate_limits.take();
        if rate_limits.is_some() || self.extras.is_some() {
            self.change_pacing(rate_limits);
        }
    }

    fn change_pacing(&mut self, rate_limits: Option<Box<RateLimits>>) {
        let ConnectionState { extras, transport, .. } = self;
        match extras.as_mut().and_then(|extras| extras.pacing.as_mut()) {
            Some(pacing) => {
                if !pacing.handle_request(rate_limits, &*transport)
                    && let Some(extras) = extras
                {
                    extras.pacing = None;
                }
            }
            None => {
                let Some(rate_limits) = rate_limits else { return };
                let pacing = Box::new(Pacing::new(*rate_limits, &*transport));
                extras.get_or_insert_default().pacing = Some(pacing);
            }
        }
    }

    /// So many bytes of it were sent.
    pub fn count_sent(&mut self, bytes: u64, now: Instant) {
        if let Some(extras) = &mut self.extras
            && let Some(pacing) = &mut extras.pacing
        {
            pacing.handle_sent(bytes, &self.transport, now);
        }
    }

    /// It is about to receive.
    pub fn begin_receiving(&mut self) {
        self.rest();
    }

    fn rest(&mut self) {
        if let Some(extras) = &mut self.extras
            && let Some(pacing) = &mut extras.pacing
            && self.http.is_idle()
        {
            pacing.handle_idle();
        }
    }

    /// Takes the workspace back from it: it is going to wait. What it holds meanwhile is counted for its client
    /// network.
    pub fn reclaim(&mut self) -> Box<Workspace> {
        let workspace = self.http.reclaim();
        self.account_memory();
        workspace
    }

    /// Counts for its client network what it holds while it waits, and takes it from those that share bandwidth if it
    /// has nothing under way.
    pub fn account_memory(&mut self) {
        self.rest();
        if let Some(extras) = &mut self.extras
            && let Some(permit) = &mut extras.permit
        {
            let bytes = self.http.memory_bytes() + self.transport.held_bytes();
            let descriptors = self.http.descriptors();
            permit.hold(Held { bytes: bytes as u64, descriptors: descriptors as u64 });
        }
    }

    /// Ends it if its client network holds more memory than it may, and it is one of those that hold most. It has a
    /// workspace.
    pub fn enforce_memory_limit(&mut self) {
        if self.permit().is_some_and(ConnectionPermit::is_doomed) {
            self.handle_broken();
        }
    }

    /// The same connection, counted by `permit`.
    pub fn with_permit(self, permit: Option<ConnectionPermit>) -> ConnectionState {
        let mut connection = self;
        connection.extras = permit.map(|permit| Box::new(Extras { permit: Some(permit), ..Extras::default() }));
        connection
    }

    /// A new plain connection.
    pub fn new(socket: OwnedFd, client: Option<IpAddr>, now: Instant) -> ConnectionState {
        ConnectionState::over(Transport::plain(socket), client, now)
    }

    fn over(transport: Transport, client: Option<IpAddr>, now: Instant) -> ConnectionState {
        ConnectionState {
            transport,
            http: Connection::new(now),
            generation: 0,
            begun_ms: now.ms() as u32,
            peer: client.into(),
            // Optimistic: the kernel hands connections over when their first bytes are there.
            readable: true,
            writable: true,
            ending: false,
            registered: false,
            queued: false,
            phase: ConnectionPhase::Active,
            count_guard: None,
            extras: None,
        }
    }

    /// A number that tells it from others, in every engine and thread. It differs from those before it of the same
    /// descriptor, unless they were taken in the same millisecond of 49 days. It says nothing of the client.
    pub fn number(&self) -> u64 {
        // No descriptor is negative.
        u64::from(self.begun_ms) << 32 | u64::from(1 + self.transport.as_raw_fd().unsigned_abs())
    }

    /// The phase in which it waits for `interest` after its turn.
    pub fn phase(&self, interest: Interest) -> ConnectionPhase {
        match interest {
            Interest { send: true, .. } if !self.writable => ConnectionPhase::Slow,
            _ if self.is_idle() => ConnectionPhase::Idle,
            _ => ConnectionPhase::Active,
        }
    }

    /// The token by which it is found.
    pub fn token(&self) -> Token {
        Token { index: self.transport.as_raw_fd() as u32, generation: self.generation }
    }

    /// The loss if it made room for others; none if something unread has come. See [`Candidate::until`] for `until`.
    pub fn candidate(&self, until: u64) -> Option<Candidate> {
        let stage = match self.phase {
            _ if self.is_idle() && self.readable => return None,
            _ if self.is_idle() => Stage::Idle,
            _ if self.http.is_asking() => Stage::Asking,
            ConnectionPhase::Slow => Stage::Slow,
            ConnectionPhase::Idle | ConnectionPhase::Active => Stage::Working,
        };
        let network = self.permit().and_then(ConnectionPermit::network);
        Some(Candidate { token: self.token(), network, stage, descriptors: self.http.descriptors(), until })
    }

    /// Closes it.
    pub fn close(self) {
        let _step = step_timer::step(Step::Close);
        drop(self);
    }

    /// Something has become possible.
    pub fn notice(&mut self, event: &Event) {
        self.readable |= event.readable;
        self.writable |= event.writable;
        self.ending |= event.ending;
        self.transport.failed |= event.failed;
    }

    /// Receives once, for a connection that is interested in that.
    pub fn receive(&mut self, now: Instant) {
        let _step = step_timer::step(Step::Receive);
        self.begin_receiving();
        self.readable = self.transport.receive(&mut self.http, self.ending, now);
        self.take_client();
    }

    /// Takes over the client that a proxy has named, if it just has. A client that may have no further connection loses
    /// this one.
    pub fn take_client(&mut self) {
        let client = match self.transport.take_source() {
            None => return,
            Some(Source::Proxy) => {
                self.peer.is_nameless = true;
                return;
            }
            Some(Source::Client(client)) => client,
        };
        self.peer = Some(client).into();
        let Some(extras) = &mut self.extras else { return };
        match extras.permit.take().map(|permit| permit.name(client)) {
            None => {}
            Some(Ok(permit)) => extras.permit = permit,
            Some(Err(Crowded)) => self.handle_broken(),
        }
    }
}

impl Drop for ConnectionState {
    /// Tells the client of a connection that is closed while idle that this is not for a fault, as far as the socket
    /// takes it. No answer on its way is cut in two.
    fn drop(&mut self) {
        if self.writable
            && let Some(words) = self.http.farewell()
        {
            self.transport.say_last(words.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn the_next_connection_of_a_descriptor_is_called_otherwise() {
        let at = |ms| ConnectionState::new(socket(), None, Instant::from_ms(ms));
        let (mut one, other) = (at(5), at(5));
        assert_ne!(one.number(), other.number());
        let before = one.number();
        one.begun_ms = 6;
        assert_ne!(before, one.number());
    }
}
