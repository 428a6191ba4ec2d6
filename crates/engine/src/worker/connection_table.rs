//! A connection and its socket; and the connections of one worker, found by descriptor number, with their deadlines.
//!
//! Owns: sockets and connections. Guarantees: constant-time access without hashing; a token of a closed connection never
//! finds its successor; a deadline costs one store to move, whatever the number of connections.

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
use lamna_sys::metrics::scoreboard::WorkerScore;
use lamna_sys::metrics::step_timer;
use lamna_sys::metrics::step_timer::Step;
use lamna_tls::Endpoint;

use crate::worker::connection_counter::CountGuard;
use crate::worker::context::WorkerContext;
use crate::worker::limiter::connections::{Crowded, Held, Seat};
use crate::worker::limiter::terms::{Course, Terms};
use crate::worker::room::{self, Candidate, Chosen, Stage};
use crate::worker::transport::Transport;
use rustix::net::RecvFlags;

/// How long a request is waited for that may be on its way to a connection which is to end.
const LAST_CALL_MS: u32 = 2000;

/// One connection of a worker.
#[derive(Debug)]
pub struct ConnectionState {
    /// Its socket, and TLS if that is spoken.
    pub transport: Transport,
    /// What the core knows.
    pub connection: Connection,
    /// Which of the successive owners of this descriptor number it is.
    pub generation: u32,
    /// When it was taken, in milliseconds of the server's clock, without their upper half.
    begun_ms: u32,
    /// Where it comes from, or for whom a proxy says that it has connected.
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
    posture: Posture,
    /// By which it is counted, where connections move between threads.
    pub count_guard: Option<CountGuard>,
    /// What only some connections have.
    pub extras: Option<Box<Extras>>,
}

/// What only some connections have.
#[derive(Debug, Default)]
pub struct Extras {
    /// By which it is counted among those of its client network.
    seat: Option<Seat>,
    /// How fast it gets what, and for whom its bytes are counted.
    course: Option<Box<Course>>,
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

/// What a connection that nobody works on waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Posture {
    /// Its peer to ask for something.
    Idle,
    /// Its peer to take what is sent.
    Slow,
    /// Anything else: the rest of a request, the disk.
    #[default]
    Active,
}

impl ConnectionState {
    /// What it waits for.
    pub fn interest(&mut self) -> Interest {
        self.transport.wants(self.connection.interest())
    }

    /// Whether nothing is lost by closing it, and nothing is in work.
    pub fn is_idle(&self) -> bool {
        self.connection.is_idle() && self.transport.is_idle()
    }

    /// Whether bytes have arrived that nobody has looked at. Asks the kernel.
    pub fn has_unread(&self) -> bool {
        let peeked = rustix::net::recv(&self.transport, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        matches!(peeked, Ok((_, 1)))
    }

    /// Whether another process can go on with it.
    pub fn can_travel(&self) -> bool {
        self.connection.can_travel() && self.transport.can_travel()
    }

    /// Whether no other process will ever be able to: where TLS or HTTP/2 is spoken, or a proxy has said who is served.
    pub fn stays(&self) -> bool {
        !self.transport.can_travel() || self.connection.version() == Some(Version::Http2)
    }

    /// Until when it may be waited for.
    pub fn poll_timeout(&self, limits: &Limits) -> Option<Instant> {
        let until = self.transport.poll_timeout(self.connection.poll_timeout(limits), limits);
        until.into_iter().chain(self.last_call()).min()
    }

    /// Until when it stays although it is idle and to end.
    pub fn last_call(&self) -> Option<Instant> {
        self.extras.as_ref().and_then(|extras| extras.last_call).filter(|_| self.is_idle())
    }

    /// When to look at it though nothing has come about: when it may be waited for no longer, or whether it is to end for what it holds.
    pub fn deadline(&self, limits: &Limits, now: Instant) -> Option<Instant> {
        self.poll_timeout(limits).into_iter().chain(self.look_at(now)).min()
    }

    /// When to look whether it is to end for what it holds; none if it holds little.
    pub fn look_at(&self, now: Instant) -> Option<Instant> {
        let seat = self.seat()?;
        if seat.is_doomed() {
            return Some(now);
        }
        seat.is_heavy().then(|| now.after_ms(if self.is_idle() { IDLE_LOOK_MS } else { LOOK_MS }))
    }

    /// Whether it has been waited for too long, or is to end for what it holds.
    pub fn is_over(&self, limits: &Limits, now: Instant) -> bool {
        self.seat().is_some_and(Seat::is_doomed) || self.poll_timeout(limits).is_some_and(|until| until <= now)
    }

    fn seat(&self) -> Option<&Seat> {
        self.extras.as_ref().and_then(|extras| extras.seat.as_ref())
    }

    /// It has been waited for too long, or is to end for what it holds. It has a workspace.
    pub fn handle_timeout(&mut self, limits: &Limits, now: Instant) {
        if self.seat().is_some_and(Seat::is_doomed) {
            return self.handle_broken();
        }
        let is_called_last = self.last_call().is_some_and(|until| until <= now);
        match is_called_last || self.transport.handle_timeout(limits, now) {
            true => self.connection.handle_broken(),
            false => self.connection.handle_timeout(now),
        }
    }

    /// Whether it can be closed by who ends all connections: it is idle, and no request is on its way, as far as can be known. One whose
    /// TLS handshake has just ended is about to ask for something, and one may be whose last answer did not say that it was the last. Where `is_kept`, so is every other, because its peer cannot know that
    /// the next request will find nobody. Both are waited for [`LAST_CALL_MS`] at most, from when this is asked first.
    pub fn may_end(&mut self, is_kept: bool, now: Instant) -> bool {
        if !self.is_idle() || self.readable {
            return false;
        }
        let is_expected = is_kept || self.is_about_to_ask() || self.connection.is_promised();
        let until = if is_expected { now.after_ms(LAST_CALL_MS) } else { now };
        let until = *self.extras.get_or_insert_default().last_call.get_or_insert(until);
        until <= now
    }

    /// Whether its TLS handshake has ended, and nothing has been asked yet.
    pub fn is_about_to_ask(&self) -> bool {
        self.transport.is_established() && self.connection.version().is_none()
    }

    /// Its socket is of no use any more. It has a workspace.
    pub fn handle_broken(&mut self) {
        self.transport.handle_broken();
        self.connection.handle_broken();
    }

    /// Makes it ready to be adopted by another worker: what that one has to be told again, and what it has to try.
    pub fn make_movable(&mut self) {
        self.connection.recall_needs();
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
        ConnectionState::over(transport, client, now)
    }

    /// What limits say about a request that has been routed applies to what is sent from now on.
    pub fn take_terms(&mut self, context: &mut WorkerContext<'_>) {
        let terms = context.terms.take();
        if terms.is_some() || self.extras.is_some() {
            self.change_course(terms);
        }
    }

    fn change_course(&mut self, terms: Option<Box<Terms>>) {
        let ConnectionState { extras, transport, .. } = self;
        match extras.as_mut().and_then(|extras| extras.course.as_mut()) {
            Some(course) => {
                if !course.handle_request(terms, &*transport)
                    && let Some(extras) = extras
                {
                    extras.course = None;
                }
            }
            None => {
                let Some(terms) = terms else { return };
                let course = Box::new(Course::new(*terms, &*transport));
                extras.get_or_insert_default().course = Some(course);
            }
        }
    }

    /// So many bytes of it were sent.
    pub fn count_sent(&mut self, bytes: u64, now: Instant) {
        if let Some(extras) = &mut self.extras
            && let Some(course) = &mut extras.course
        {
            course.handle_sent(bytes, &self.transport, now);
        }
    }

    /// It is about to receive.
    pub fn begin_receiving(&mut self) {
        self.rest();
    }

    fn rest(&mut self) {
        if let Some(extras) = &mut self.extras
            && let Some(course) = &mut extras.course
            && self.connection.is_idle()
        {
            course.handle_idle();
        }
    }

    /// Takes the workspace back from it: it is going to wait. What it holds meanwhile is counted for its client network.
    pub fn reclaim(&mut self) -> Box<Workspace> {
        let workspace = self.connection.reclaim();
        self.weigh();
        workspace
    }

    /// Counts for its client network what it holds while it waits, and takes it from those that share bandwidth if it has nothing under way.
    pub fn weigh(&mut self) {
        self.rest();
        if let Some(extras) = &mut self.extras
            && let Some(seat) = &mut extras.seat
        {
            let bytes = self.connection.memory_bytes() + self.transport.held_bytes();
            let descriptors = self.connection.descriptors();
            seat.hold(Held { bytes: bytes as u64, descriptors: descriptors as u64 });
        }
    }

    /// Ends it if its client network holds more memory than it may, and it is one of those that hold most. It has a workspace.
    pub fn end_if_too_heavy(&mut self) {
        if self.seat().is_some_and(Seat::is_doomed) {
            self.handle_broken();
        }
    }

    /// The same connection, counted by `seat`.
    pub fn seated(self, seat: Option<Seat>) -> ConnectionState {
        let mut slot = self;
        slot.extras = seat.map(|seat| Box::new(Extras { seat: Some(seat), ..Extras::default() }));
        slot
    }

    /// A new plain connection.
    pub fn new(socket: OwnedFd, client: Option<IpAddr>, now: Instant) -> ConnectionState {
        ConnectionState::over(Transport::plain(socket), client, now)
    }

    fn over(transport: Transport, client: Option<IpAddr>, now: Instant) -> ConnectionState {
        ConnectionState {
            transport,
            connection: Connection::new(now),
            generation: 0,
            begun_ms: now.ms() as u32,
            peer: client.into(),
            // Optimistic: the kernel hands connections over when their first bytes are there.
            readable: true,
            writable: true,
            ending: false,
            registered: false,
            queued: false,
            posture: Posture::Active,
            count_guard: None,
            extras: None,
        }
    }

    /// Tells it from others, in every engine and whoever drives it: also from those before it of the same descriptor, unless they were taken in the
    /// same millisecond of 49 days. It says nothing of who it is from.
    pub fn number(&self) -> u64 {
        // No descriptor is negative.
        u64::from(self.begun_ms) << 32 | u64::from(1 + self.transport.as_raw_fd().unsigned_abs())
    }

    /// What it waits for, if nobody works on it.
    pub fn stand(&self, interest: Interest) -> Posture {
        match interest {
            Interest { send: true, .. } if !self.writable => Posture::Slow,
            _ if self.is_idle() => Posture::Idle,
            _ => Posture::Active,
        }
    }

    /// What would be lost if it made room for others, as the connection of the descriptor `index`; none if something has come that nobody has
    /// looked at. See [`Candidate::until`] for `until`.
    pub fn candidate(&self, index: u32, until: u64) -> Option<Candidate> {
        let stage = match self.posture {
            _ if self.is_idle() && self.readable => return None,
            _ if self.is_idle() => Stage::Idle,
            _ if self.connection.is_asking() => Stage::Asking,
            Posture::Slow => Stage::Slow,
            Posture::Idle | Posture::Active => Stage::Working,
        };
        let token = Token { index, generation: self.generation };
        let network = self.seat().and_then(Seat::network);
        Some(Candidate { token, network, stage, descriptors: self.connection.descriptors(), until })
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
        self.readable = self.transport.receive(&mut self.connection, self.ending, now);
        self.take_client();
    }

    /// Takes over whom a proxy has named as the client, if it just has. A client that may have no further connection loses this one.
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
        match extras.seat.take().map(|seat| seat.name(client)) {
            None => {}
            Some(Ok(seat)) => extras.seat = seat,
            Some(Err(Crowded)) => self.handle_broken(),
        }
    }
}

impl Drop for ConnectionState {
    /// Who is closed while idle is told that it is not for a fault, as far as the socket takes it. What is on its way is not cut in two.
    fn drop(&mut self) {
        if self.writable
            && let Some(words) = self.connection.farewell()
        {
            self.transport.say_last(words.as_ref());
        }
    }
}

/// Slots by descriptor number.
#[derive(Debug)]
pub struct ConnectionTable {
    slots: Vec<Option<ConnectionState>>,
    /// For each slot, when to look at it, in units of [`TICK_MS`]; zero for never. Apart from the slots, so that looking
    /// through all of them touches four bytes each.
    deadlines: Vec<u32>,
    count: usize,
    /// Those that are idle.
    idle: usize,
    /// Those whose peers are slow.
    slow: usize,
    generation: u32,
    /// No deadline is earlier than this.
    earliest: u32,
    /// How many connections others have been told of, and of how many that are idle, and slow.
    shown: (usize, (usize, usize)),
}

const TICK_MS: u64 = 100;

impl Default for ConnectionTable {
    fn default() -> ConnectionTable {
        let (slots, deadlines) = (Vec::new(), Vec::new());
        ConnectionTable {
            slots,
            deadlines,
            count: 0,
            idle: 0,
            slow: 0,
            generation: 0,
            earliest: u32::MAX,
            shown: (0, (0, 0)),
        }
    }
}

impl ConnectionTable {
    /// Keeps a connection that is known already, under the token of its descriptor and its generation.
    pub fn adopt(&mut self, mut slot: ConnectionState) {
        let index = slot.transport.as_raw_fd() as usize;
        self.reserve(index);
        slot.posture = Posture::Active;
        self.slots[index] = Some(slot);
        self.count += 1;
    }

    /// Keeps a connection that comes from another worker.
    pub fn admit(&mut self, mut slot: ConnectionState) -> Token {
        // Zero is the generation of listening sockets and wakers.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        slot.generation = self.generation;
        let token = Token { index: slot.transport.as_raw_fd() as u32, generation: self.generation };
        self.adopt(slot);
        token
    }

    /// Gives up the connection of `token`, if it is still there, without closing it.
    pub fn take(&mut self, token: Token) -> Option<ConnectionState> {
        self.find(token)?;
        self.pose(token, Posture::Active);
        self.deadlines[token.index as usize] = 0;
        self.count -= 1;
        self.slots[token.index as usize].take()
    }

    fn reserve(&mut self, index: usize) {
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
            self.deadlines.resize(index + 1, 0);
        }
    }

    /// The connection of `token`, if it is still there.
    pub fn find(&mut self, token: Token) -> Option<&mut ConnectionState> {
        let slot = self.slots.get_mut(token.index as usize)?.as_mut()?;
        (slot.generation == token.generation).then_some(slot)
    }

    /// The connection of `token`.
    ///
    /// # Panics
    /// If it is gone: for those who have just found it.
    pub fn get(&mut self, token: Token) -> &mut ConnectionState {
        self.find(token).expect("a connection stays until it is removed")
    }

    /// Closes a connection.
    pub fn remove(&mut self, token: Token) {
        if let Some(slot) = self.take(token) {
            slot.close();
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them were left idle, and how many waiting for slow peers.
    pub fn postures(&self) -> (usize, usize) {
        (self.idle, self.slow)
    }

    /// Lets others know how many there are.
    pub fn show_load(&mut self, score: &WorkerScore) {
        let (count, postures) = self.shown;
        if count != self.count {
            score.show(self.count);
        }
        if postures != self.postures() {
            score.show_postures(self.postures());
        }
        self.shown = (self.count, self.postures());
    }

    /// How the connection of `token`, if it is still there, is left after a turn.
    pub fn pose(&mut self, token: Token, posture: Posture) {
        let Some(slot) = self.find(token) else { return };
        let before = std::mem::replace(&mut slot.posture, posture);
        if before != posture {
            self.idle = self.idle + usize::from(posture == Posture::Idle) - usize::from(before == Posture::Idle);
            self.slow = self.slow + usize::from(posture == Posture::Slow) - usize::from(before == Posture::Slow);
        }
    }

    /// Tokens of all connections.
    pub fn tokens(&self) -> Vec<Token> {
        let token = |(index, slot): (usize, &Option<ConnectionState>)| {
            slot.as_ref().map(|slot| Token { index: index as u32, generation: slot.generation })
        };
        self.slots.iter().enumerate().filter_map(token).collect()
    }

    /// Tokens of those that wait between requests.
    pub fn idle_tokens(&self) -> Vec<Token> {
        let is_idle = |token: &Token| self.slots[token.index as usize].as_ref().is_some_and(ConnectionState::is_idle);
        self.tokens().into_iter().filter(is_idle).collect()
    }

    /// Looks at the connection of `token` at `deadline`, not before.
    pub fn set_deadline(&mut self, token: Token, deadline: Option<Instant>) {
        let tick = deadline.map_or(0, |at| at.us().div_ceil(TICK_MS * 1000) as u32);
        self.deadlines[token.index as usize] = tick;
        if tick != 0 && tick < self.earliest {
            self.earliest = tick;
        }
    }

    /// When `expired` may have something, or earlier.
    pub fn next_deadline(&self) -> Option<Instant> {
        (self.count > 0 && self.earliest != u32::MAX).then(|| Instant::from_ms(u64::from(self.earliest) * TICK_MS))
    }

    /// Connections whose deadline has passed at `now`. Their deadlines are unset.
    pub fn expired(&mut self, now: Instant) -> Vec<Token> {
        let tick = (now.ms() / TICK_MS) as u32;
        let mut expired = Vec::new();
        if tick < self.earliest {
            return expired;
        }
        let mut earliest = u32::MAX;
        for (index, deadline) in self.deadlines.iter_mut().enumerate() {
            if *deadline == 0 {
                continue;
            }
            if *deadline > tick {
                earliest = earliest.min(*deadline);
                continue;
            }
            *deadline = 0;
            if let Some(slot) = &self.slots[index] {
                expired.push(Token { index: index as u32, generation: slot.generation });
            }
        }
        // The next look is due no sooner than a second from now: deadlines move all the time, and looking costs.
        self.earliest = if earliest == u32::MAX { earliest } else { earliest.max(tick + LOOK_TICKS) };
        expired
    }

    /// Those that make room where descriptors have run out, at most `most`, and none that `can_go` does not let go.
    pub fn making_room(&self, most: usize, can_go: impl Fn(Token) -> bool) -> Chosen {
        let of = |(index, slot): (usize, &Option<ConnectionState>)| {
            slot.as_ref()?.candidate(index as u32, u64::from(self.deadlines[index]))
        };
        room::choose(self.slots.iter().enumerate().filter_map(of).filter(|one| can_go(one.token)), most)
    }
}

const LOOK_TICKS: u32 = 10;
/// How often it is looked whether a connection that holds much is to end.
const LOOK_MS: u32 = 500;
const IDLE_LOOK_MS: u32 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> OwnedFd {
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into()
    }

    #[test]
    fn a_token_of_a_closed_connection_never_finds_its_successor() {
        let mut slots = ConnectionTable::default();
        let first = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        slots.remove(first);
        let second = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        assert!(slots.find(first).is_none());
        assert!(slots.find(second).is_some());
        slots.remove(first);
        assert_eq!(slots.count(), 1);
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

    #[test]
    fn no_connection_ever_has_the_generation_of_what_is_not_a_connection() {
        let mut slots = ConnectionTable { generation: u32::MAX - 2, ..ConnectionTable::default() };
        for _ in 0..5 {
            let token = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
            assert_ne!(token.generation, 0);
            slots.remove(token);
        }
    }

    #[test]
    fn postures_are_counted_as_long_as_their_connections_are_there() {
        let mut slots = ConnectionTable::default();
        let tokens: Vec<Token> =
            (0..3).map(|_| slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)))).collect();
        assert_eq!(slots.postures(), (0, 0), "nothing is known of new ones");
        slots.pose(tokens[0], Posture::Idle);
        slots.pose(tokens[1], Posture::Slow);
        slots.pose(tokens[2], Posture::Idle);
        slots.pose(tokens[2], Posture::Idle);
        assert_eq!(slots.postures(), (2, 1));
        slots.pose(tokens[1], Posture::Idle);
        let moved = slots.take(tokens[0]).unwrap();
        slots.remove(tokens[2]);
        slots.pose(tokens[2], Posture::Slow);
        assert_eq!((slots.count(), slots.postures()), (1, (1, 0)));
        let mut others = ConnectionTable::default();
        let token = others.admit(moved);
        assert_eq!(others.postures(), (0, 0), "another worker finds out for itself");
        others.remove(token);
        assert_eq!(others.postures(), (0, 0));
    }

    #[test]
    fn deadlines_expire_once_and_can_be_moved() {
        let mut slots = ConnectionTable::default();
        let token = slots.admit(ConnectionState::new(socket(), None, Instant::from_ms(0)));
        slots.set_deadline(token, Some(Instant::from_ms(5_000)));
        assert_eq!(slots.next_deadline(), Some(Instant::from_ms(5_000)));
        slots.set_deadline(token, Some(Instant::from_ms(9_000)));
        assert!(slots.expired(Instant::from_ms(5_000)).is_empty());
        assert_eq!(slots.expired(Instant::from_ms(9_000)), [token]);
        assert!(slots.expired(Instant::from_ms(99_000)).is_empty());
    }
}
