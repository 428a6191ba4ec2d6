//! The parked connections of idle connections, run through every interleaving (`models`): with a connection that
//! becomes readable while it is parked, one that is parked while the parked connections closes, and one whose time is
//! over before the listener thread would wake.

#[path = "parked_connections.rs"]
#[allow(clippy::duplicate_mod, dead_code, reason = "the same source over other primitives")]
mod parked_connections;

/// The primitives and types of the model: loom's, and simple ones of its own.
mod sync {
    use std::borrow::Borrow;

    pub(super) use loom::sync::{Mutex, MutexGuard};

    use lamna_proto::time::Instant;

    use crate::worker::connection_state::ConnectionPhase;
    use crate::worker::room::Chosen;
    use lamna_io::wait::{Event, Token};

    /// A connection is its token.
    #[derive(Debug)]
    pub(super) struct ConnectionState(pub Token);

    impl ConnectionState {
        pub(super) fn notice(&mut self, _event: &Event) {}
    }

    #[derive(Debug)]
    pub(super) struct ConnectionTable<C>(Vec<(C, Option<Instant>)>);

    impl<C> Default for ConnectionTable<C> {
        fn default() -> ConnectionTable<C> {
            ConnectionTable(Vec::new())
        }
    }

    impl<C: Borrow<ConnectionState>> ConnectionTable<C> {
        pub(super) fn adopt(&mut self, connection: C) {
            self.0.push((connection, None));
        }

        pub(super) fn take(&mut self, token: Token) -> Option<C> {
            let place = self.0.iter().position(|(connection, _)| connection.borrow().0 == token)?;
            Some(self.0.remove(place).0)
        }

        pub(super) fn set_deadline(&mut self, token: Token, deadline: Option<Instant>) {
            self.0
                .iter_mut()
                .filter(|(connection, _)| connection.borrow().0 == token)
                .for_each(|place| place.1 = deadline);
        }

        pub(super) fn next_deadline(&self) -> Option<Instant> {
            self.0.iter().filter_map(|(_, deadline)| *deadline).min()
        }

        pub(super) fn expired(&self, now: Instant) -> Vec<Token> {
            self.0
                .iter()
                .filter(|(_, at)| at.is_some_and(|at| at <= now))
                .map(|(connection, _)| connection.borrow().0)
                .collect()
        }

        pub(super) fn making_room(&self, most: usize, _can_go: impl Fn(Token) -> bool) -> Chosen {
            Chosen { tokens: self.tokens().into_iter().take(most).collect(), are_idle: true }
        }

        pub(super) fn idle_tokens(&self) -> Vec<Token> {
            self.tokens()
        }

        pub(super) fn set_phase(&mut self, _token: Token, _phase: ConnectionPhase) {}

        pub(super) fn idle_and_slow(&self) -> (usize, usize) {
            (self.0.len(), 0)
        }

        pub(super) fn tokens(&self) -> Vec<Token> {
            self.0.iter().map(|(connection, _)| connection.borrow().0).collect()
        }
    }
}

use std::sync::Arc;

use lamna_io::wait::{Event, Token};
use lamna_loom::{Tally, Waker, check, spawn};
use lamna_proto::time::Instant;

use crate::worker::connection_state::ConnectionPhase;
use parked_connections::ParkedConnections;
use sync::ConnectionState;

const TOKEN: Token = Token { index: 7, generation: 1 };

/// The event for which one wakes that waits for `token`.
fn event_of(token: Token) -> Event {
    Event { token, readable: true, writable: false, ending: false, failed: false }
}

/// Stands for the event set of the kernel, with one connection that reports once each time it is asked to.
#[derive(Debug, Default)]
struct Kernel {
    state: loom::sync::Mutex<Socket>,
    listener: Waker,
}

#[derive(Debug, Default)]
struct Socket {
    awaited: Option<Token>,
    is_readable: bool,
    event: Option<Token>,
}

impl Kernel {
    fn await_once(&self, token: Token) {
        self.change(|socket| socket.awaited = Some(token));
    }

    fn receive(&self) {
        self.change(|socket| socket.is_readable = true);
    }

    fn change(&self, change: impl FnOnce(&mut Socket)) {
        let mut socket = self.state.lock().unwrap();
        change(&mut socket);
        if socket.is_readable && socket.awaited.is_some() {
            socket.event = socket.awaited.take();
            drop(socket);
            self.listener.wake();
        }
    }

    /// Waits as the listener thread does. Returns the event for which it wakes.
    fn wait(&self) -> Option<Token> {
        self.listener.wait();
        self.listener.reset();
        self.state.lock().unwrap().event.take()
    }
}

#[derive(Clone)]
struct World {
    parked_connections: Arc<ParkedConnections<'static>>,
    kernel: Arc<Kernel>,
    /// Connections given to threads.
    dispatched: Tally,
    /// Connections taken out when the parked connections closed.
    left: Tally,
}

impl World {
    fn new() -> World {
        let parked_connections = Arc::new(ParkedConnections::new(|_, _| {}));
        World { parked_connections, kernel: Arc::default(), dispatched: Tally::default(), left: Tally::default() }
    }

    /// Parks the connection as `IdleSet::park` does.
    fn park(&self, deadline: Option<Instant>) {
        self.kernel.await_once(TOKEN);
        match self.parked_connections.put(ConnectionState(TOKEN), TOKEN, deadline, ConnectionPhase::Idle) {
            Ok(true) => self.kernel.listener.wake(),
            Ok(false) => {}
            Err(connection) => self.dispatched.note(connection.0.index as usize),
        }
    }

    fn close(&self) {
        self.parked_connections.close().into_iter().for_each(|connection| self.left.note(connection.0.index as usize));
    }
}

#[test]
fn a_connection_that_becomes_readable_while_it_is_parked_is_dispatched_once() {
    check(|| {
        let world = World::new();
        let (parker, peer) = (world.clone(), world.clone());
        let parker = spawn(move || parker.park(None));
        let peer = spawn(move || peer.kernel.receive());
        let token = world.kernel.wait().expect("nothing else wakes it");
        world
            .parked_connections
            .take(&event_of(token))
            .into_iter()
            .for_each(|connection| world.dispatched.note(connection.0.index as usize));
        parker.join().unwrap();
        peer.join().unwrap();
        world.close();
        assert_eq!((world.dispatched.sorted(), world.left.sorted()), (vec![7], vec![]));
    });
}

#[test]
fn a_connection_that_is_parked_while_the_lot_closes_is_with_one_of_the_two() {
    check(|| {
        let world = World::new();
        let (parker, peer) = (world.clone(), world.clone());
        let parker = spawn(move || parker.park(None));
        let peer = spawn(move || peer.kernel.receive());
        world.close();
        parker.join().unwrap();
        peer.join().unwrap();
        assert_eq!(world.dispatched.sorted().len() + world.left.sorted().len(), 1);
    });
}

#[test]
fn no_deadline_is_overslept() {
    check(|| {
        let world = World::new();
        let parker = world.clone();
        let parker = spawn(move || parker.park(Some(Instant::from_ms(5))));
        // The listener thread has something to do at 9, and sleeps until then or until it is woken.
        let mut until = world.parked_connections.sleep_until(Some(Instant::from_ms(9)));
        while until != Some(Instant::from_ms(5)) {
            world.kernel.wait();
            until = world.parked_connections.sleep_until(Some(Instant::from_ms(9)));
        }
        assert_eq!(world.parked_connections.take_expired(Instant::from_ms(5)).len(), 1);
        parker.join().unwrap();
    });
}
