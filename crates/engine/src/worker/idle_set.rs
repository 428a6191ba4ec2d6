//! Connections that hold no thread, and the listener thread that waits for them and for new ones: those that are idle
//! between requests, and those whose peers keep a thread waiting, if the engine parks such ones.
//!
//! Owns: parked connections, their deadlines, accepting. Guarantees: a connection is with a thread or in the set, never
//! in both and never in neither; no lock is held across a system call. Does not serve, except for refusing what no
//! thread takes: its [`Dispatch`] gives connections to threads, and that is the difference between the engines that use
//! it.

#[cfg(test)]
mod model;
pub(crate) mod parked_connections;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lamna_io::wait::{Awaited, Event, Poll, Registrar, Token};
use lamna_proto::conn::Interest;
use lamna_proto::message::Version;
use lamna_proto::time::Instant;
use lamna_sys::contain::contain;
use rustix::io::Errno;

use crate::worker::acceptor::{self, Accepting, Acceptor, Freed, Share};
use crate::worker::blocking::{CONNECTION_ENDS, Driver, Left};
use crate::worker::connection_state::{ConnectionPhase, ConnectionState};
use crate::worker::idle_set::parked_connections::ParkedConnections;
use crate::worker::liveness::{self, Arranged};
use crate::worker::shared::Shared;

/// The primitives and types of the parked connections. The model substitutes its own.
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard};

    pub(super) use crate::worker::connection_state::ConnectionState;
    pub(super) use crate::worker::connection_table::ConnectionTable;
}

/// Gives connections that have something to receive to threads.
pub trait Dispatch {
    /// Gives `connection` to a thread.
    ///
    /// # Errors
    /// A connection that no thread can take: it is refused.
    fn dispatch(&self, connection: ConnectionState) -> Result<(), ConnectionState>;

    /// The main thread has changed its wishes.
    fn handle_wake(&self) {}
}

/// The set, as threads see it.
pub struct IdleSet<'a> {
    shared: &'a Shared,
    index: usize,
    registrar: Registrar,
    generation: AtomicU32,
    parked_connections: ParkedConnections<'a>,
}

/// The listener thread. Its part of the set is its own: it alone waits.
pub struct Listener<'a, D> {
    shared: &'a Shared,
    index: usize,
    set: &'a IdleSet<'a>,
    dispatch: D,
    poll: Poll,
    /// Answers where `dispatch` finds no thread.
    refuser: Driver<'a>,
    acceptor: Acceptor,
}

/// Tokens with this generation are listening sockets (by index) or the waker.
pub(crate) const GENERATION_OURS: u32 = 0;
pub(crate) const WAKER: u32 = u32::MAX;
/// How often it is looked whether all connections have ended that are being finished.
pub(crate) const DRAIN_LOOK_MS: u32 = 20;

impl<'a> IdleSet<'a> {
    /// An empty set, and what its listener thread, worker `index`, waits with.
    ///
    /// # Errors
    /// No descriptors or memory.
    pub fn new(shared: &'a Shared, index: usize) -> Result<(IdleSet<'a>, Poll), Errno> {
        let poll = Poll::new()?;
        let generation = AtomicU32::new(GENERATION_OURS);
        let registrar = poll.registrar()?;
        Ok((
            IdleSet {
                shared,
                index,
                registrar,
                generation,
                // A store to the worker's own line.
                parked_connections: ParkedConnections::new(move |idle, _| shared.score(index).show_idle(idle)),
            },
            poll,
        ))
    }

    /// Parks an idle connection until it has something to receive. It comes back if it has already, or if the set takes
    /// nothing any more: serve it again.
    pub fn park(&self, connection: ConnectionState) -> Option<ConnectionState> {
        self.park_until(connection, Interest::RECEIVE)
    }

    /// Parks a connection in the middle of a request or an answer, whose peer is waited for. It comes back as from
    /// [`park`](IdleSet::park).
    pub fn park_busy(&self, connection: ConnectionState, interest: Interest) -> Option<ConnectionState> {
        self.park_until(connection, interest)
    }

    fn park_until(&self, mut connection: ConnectionState, interest: Interest) -> Option<ConnectionState> {
        connection.generation = self.next_generation();
        let token = connection.token();
        let deadline = connection.deadline(&self.shared.limits, self.shared.clock.coarse_now());
        // Registered before it is in the set, while it is surely open: then the event may come early, which is noted.
        let awaited = Awaited { readable: interest.receive, writable: interest.send };
        if self.registrar.await_once(connection.transport.as_fd(), token, connection.registered, awaited).is_err() {
            return None;
        }
        connection.registered = true;
        // The kernel tells from now on: a wait that is armed again tells of what is there already.
        connection.readable &= !interest.receive;
        connection.writable &= !interest.send;
        let (tells_input, tells_room) = (interest.receive, interest.send);
        let arranged = Arranged { is_queued: false, tells_input, tells_room, is_room_first: false, deadline };
        liveness::assert_woken(&mut connection, interest, arranged);
        let phase = match (interest.send, connection.is_idle()) {
            (true, _) => ConnectionPhase::Slow,
            (false, true) => ConnectionPhase::Idle,
            (false, false) => ConnectionPhase::Active,
        };
        match self.parked_connections.put(connection, token, deadline, phase) {
            Ok(true) => self.shared.control.waker(self.index).wake(),
            Ok(false) => {}
            Err(mut connection) => {
                (connection.readable, connection.writable) = (true, true);
                return Some(connection);
            }
        }
        None
    }

    /// Whether nothing is parked any more.
    pub fn is_closed(&self) -> bool {
        self.parked_connections.is_closed()
    }

    fn next_generation(&self) -> u32 {
        loop {
            let generation = self.generation.fetch_add(1, Relaxed).wrapping_add(1);
            if generation != GENERATION_OURS {
                return generation;
            }
        }
    }
}

impl<'a, D: Dispatch> Listener<'a, D> {
    /// A listener thread that has not begun.
    ///
    /// # Errors
    /// No memory.
    pub fn new(shared: &'a Shared, set: &'a IdleSet<'a>, poll: Poll, dispatch: D) -> Result<Self, Errno> {
        let (index, refuser) = (set.index, Driver::refusing(shared));
        let acceptor = Acceptor::new(Share::Any);
        let mut listener = Listener { shared, index, set, dispatch, poll, refuser, acceptor };
        let waker = Token { index: WAKER, generation: GENERATION_OURS };
        listener.poll.add_waker(shared.control.waker(index).descriptor().as_fd(), waker)?;
        listener.begin_accepting()?;
        shared.control.report_begun();
        Ok(listener)
    }

    /// Waits for connections and dispatches them until told to drain or stop. Then it lets the idle ones go, after one
    /// last look for a request.
    ///
    /// # Errors
    /// The wait for events fails; no peer can cause that.
    pub fn run(mut self) -> Result<(), Errno> {
        let result = self.wait_and_dispatch();
        let idle = self.set.parked_connections.close();
        if self.shared.control.is_handing_over() {
            self.shared.hand_over(idle);
            self.shared.close_arrivals(self.index);
            return result;
        }
        for connection in idle.into_iter().chain(self.shared.arrivals(self.index)) {
            let is_unfinished = !connection.is_idle() || connection.has_unread();
            if !self.shared.control.is_stopping() && is_unfinished {
                self.hand_over(connection);
            }
        }
        result
    }

    fn wait_and_dispatch(&mut self) -> Result<(), Errno> {
        let control = &self.shared.control;
        while !(control.is_stopping() || control.is_handing_over()) {
            let flush_due = self.refuser.flush_if_due();
            let mut due =
                self.set.parked_connections.sleep_until(flush_due.into_iter().chain(self.acceptor.due()).min());
            if control.is_draining() {
                self.drain();
                if self.shared.connection_counters[self.index].count() == 0 {
                    break;
                }
                // The last thread to end wakes nobody.
                let look_again = self.refuser.now().after_ms(DRAIN_LOOK_MS);
                due = Some(due.map_or(look_again, |due| due.min(look_again)));
            }
            // One more, because milliseconds are rounded: waking too early would only mean waiting again.
            self.poll.wait(due.map(|at| at.since(self.refuser.now()) + 1))?;
            self.refuser.flush_if_due();
            for index in 0..self.poll.event_count() {
                let event = self.poll.event(index);
                if contain(CONNECTION_ENDS, || self.handle_event(&event)).is_none() {
                    // What it was doing is lost with it.
                    self.refuser = Driver::refusing(self.shared);
                }
            }
            self.handle_time();
        }
        Ok(())
    }

    /// Takes no new connections, and lets idle ones go, after one last look for a request. Others are waited for here
    /// as before.
    fn drain(&mut self) {
        self.end_accepting();
        for mut connection in self.set.parked_connections.take_idle() {
            // A connection of HTTP/2 is told before it is closed, and may ask until it knows (RFC 9113 6.8).
            let is_told = connection.http.version() == Some(Version::Http2);
            if is_told || connection.has_unread() {
                self.hand_over(connection);
            } else if !connection.may_end(false, self.refuser.now()) {
                self.set.park(connection).into_iter().for_each(|connection| self.hand_over(connection));
            }
        }
    }

    fn handle_event(&mut self, event: &Event) {
        let token = event.token;
        if token.generation != GENERATION_OURS {
            if let Some(connection) = self.set.parked_connections.take(event) {
                self.hand_over(connection);
            }
        } else if token.index == WAKER {
            self.shared.control.waker(self.index).reset();
            self.dispatch.handle_wake();
            for connection in self.shared.arrivals(self.index) {
                self.adopt(connection);
            }
        } else {
            self.accept_from(token.index as usize);
        }
    }

    /// Goes on with a connection that comes from another engine.
    fn adopt(&mut self, mut connection: ConnectionState) {
        // One that waits for a request needs no thread until something arrives. The kernel does not tell of what has
        // been decrypted already. One that is about to be closed looks idle, and has nothing to wait for.
        let rests = connection.waits_for_request() && !connection.transport.has_buffered_input();
        let busy = if rests { self.set.park(connection) } else { Some(connection) };
        if let Some(connection) = busy {
            self.hand_over(connection);
        }
    }

    /// Finds a thread for a connection that may have received something, or refuses what it has.
    fn hand_over(&mut self, connection: ConnectionState) {
        let mut received = Some(connection);
        while let Some(mut connection) = received {
            (connection.readable, connection.writable) = (true, true);
            let Err(mut connection) = self.dispatch.dispatch(connection) else { return };
            if self.refuser.refuse(&mut connection) == Left::Over {
                return;
            }
            received = self.set.park(connection);
        }
    }

    /// Handles work that is no event: deadlines and accepting. Connections are closed here only: the events that are
    /// being handled have been for them.
    fn handle_time(&mut self) {
        let now = self.refuser.now();
        for connection in self.set.parked_connections.take_expired(now) {
            let again = match (connection.is_idle(), connection.is_over(&self.shared.limits, now)) {
                // Idle too long: closing is all there is to do. Others may be told why.
                (true, true) => None,
                // It was looked at for what it holds.
                (true, false) => self.set.park(connection),
                (false, _) => Some(connection),
            };
            if let Some(connection) = again {
                self.hand_over(connection);
            }
        }
        self.settle_accepting();
    }
}

impl<'a, D: Dispatch> Accepting<'a> for Listener<'a, D> {
    fn acceptor(&mut self) -> &mut Acceptor {
        &mut self.acceptor
    }

    fn shared(&self) -> &'a Shared {
        self.shared
    }

    fn now(&self) -> Instant {
        self.refuser.now()
    }

    fn connections(&self) -> usize {
        self.shared.connection_counters[self.index].count()
    }

    fn watch(&mut self, watches: bool) -> Result<(), Errno> {
        acceptor::watch_in(&self.poll, &self.shared.listeners, GENERATION_OURS, watches)
    }

    fn begin(&mut self, mut connection: ConnectionState) {
        self.refuser.count_connection();
        connection.count_guard = Some(self.shared.connection_counters[self.index].welcome());
        self.hand_over(connection);
    }

    fn shed(&mut self, most: usize) -> Freed {
        Freed::Now(self.set.parked_connections.take_making_room(most).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    struct ToTest(mpsc::Sender<ConnectionState>);

    impl Dispatch for ToTest {
        fn dispatch(&self, connection: ConnectionState) -> Result<(), ConnectionState> {
            self.0.send(connection).map_err(|unsent| unsent.0)
        }
    }

    fn pair(shared: &Shared) -> (UnixStream, ConnectionState) {
        let (peer, ours) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (peer, ConnectionState::new(ours.into(), None, shared.clock.now()))
    }

    #[test]
    fn a_parked_connection_is_dispatched_each_time_it_has_something_to_receive() {
        let (shared, _root) = testing::shared(1, 1);
        let (set, poll) = IdleSet::new(&shared, 0).unwrap();
        let (sender, dispatched) = mpsc::channel();
        let (mut peer, connection) = pair(&shared);
        assert!(set.park(connection).is_none());
        let (set, control) = (&set, &shared.control);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..3 {
                    peer.write_all(b"x").unwrap();
                    let connection: ConnectionState = dispatched.recv().unwrap();
                    assert!(connection.readable);
                    rustix::io::read(&connection.transport, &mut [0u8; 8]).unwrap();
                    assert!(set.park(connection).is_none());
                }
                control.drain();
            });
            Listener::new(&shared, set, poll, ToTest(sender)).unwrap().run().unwrap();
        });
    }

    #[test]
    fn an_event_of_a_connection_that_was_taken_out_otherwise_is_of_nobody() {
        let (shared, _root) = testing::shared(1, 1);
        let (set, _poll) = IdleSet::new(&shared, 0).unwrap();
        let (_peer, mut connection) = pair(&shared);
        for _ in 0..3 {
            assert!(set.park(connection).is_none());
            // It is looked at for what it holds, or makes room, while the kernel tells of an event for how it was
            // parked.
            connection = set.parked_connections.take_making_room(1).pop().unwrap();
            let token = connection.token();
            let event = Event { token, readable: true, writable: false, ending: false, failed: false };
            assert!(set.parked_connections.take(&event).is_none());
            assert!(set.parked_connections.early_count() <= 1);
        }
        assert!(set.park(connection).is_none(), "it waits for the next event");
        assert_eq!(set.parked_connections.early_count(), 0);
    }

    #[test]
    fn an_event_that_comes_before_its_connection_is_not_lost() {
        let (shared, _root) = testing::shared(1, 1);
        let (set, mut poll) = IdleSet::new(&shared, 0).unwrap();
        let (mut peer, mut connection) = pair(&shared);
        // What `park` does, with the listener thread in between.
        connection.generation = 1;
        let token = Token { generation: 1, ..connection.token() };
        set.registrar
            .await_once(connection.transport.as_fd(), token, false, Awaited { readable: true, writable: false })
            .unwrap();
        connection.registered = true;
        peer.write_all(b"x").unwrap();
        poll.wait(None).unwrap();
        assert!(set.parked_connections.take(&poll.event(0)).is_none());
        let back = set.park(connection).expect("it has received something");
        assert!(back.readable);
    }

    #[test]
    fn a_connection_notices_all_of_an_event_that_comes_before_it() {
        let (shared, _root) = testing::shared(1, 1);
        let parked_connections = ParkedConnections::new(|_, _| {});
        let (_peer, mut connection) = pair(&shared);
        connection.readable = false;
        let token = connection.token();
        let event = Event { token, readable: true, writable: false, ending: true, failed: false };
        assert!(parked_connections.take(&event).is_none());
        let back = parked_connections.put(connection, token, None, ConnectionPhase::Idle).unwrap_err();
        assert!(back.readable && back.ending);
        assert!(parked_connections.put(back, token, None, ConnectionPhase::Idle).is_ok(), "once");
    }

    #[test]
    fn draining_lets_a_connection_go_that_has_come_from_another_engine_and_was_never_read_from() {
        let (shared, _root) = testing::shared(1, 1);
        let (set, poll) = IdleSet::new(&shared, 0).unwrap();
        let (_peer, mut connection) = pair(&shared);
        connection.count_guard = Some(shared.connection_counters[0].welcome());
        connection.make_movable();
        let mut listener = Listener::new(&shared, &set, poll, ToTest(mpsc::channel().0)).unwrap();
        listener.adopt(connection);
        shared.control.drain();
        let (ended, has_ended) = mpsc::channel();
        std::thread::scope(|scope| {
            let control = &shared.control;
            let bound = scope.spawn(move || {
                let has_ended = has_ended.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
                control.stop();
                has_ended
            });
            listener.run().unwrap();
            let _ = ended.send(());
            assert!(bound.join().unwrap(), "it is drained, not stopped");
        });
    }

    #[test]
    fn draining_lets_idle_connections_go_except_those_with_a_request() {
        let (shared, _root) = testing::shared(1, 1);
        let (set, poll) = IdleSet::new(&shared, 0).unwrap();
        let (sender, dispatched) = mpsc::channel();
        let (_idle_peer, idle) = pair(&shared);
        let (mut peer, connection) = pair(&shared);
        assert!(set.park(idle).is_none() && set.park(connection).is_none());
        peer.write_all(b"x").unwrap();
        shared.control.drain();
        Listener::new(&shared, &set, poll, ToTest(sender)).unwrap().run().unwrap();
        assert_eq!(dispatched.iter().count(), 1);
        let (_late_peer, late) = pair(&shared);
        assert!(set.park(late).is_some(), "nothing is parked any more");
    }
}
