//! Handing connections over from the engine that leaves to the one that takes its place.
//!
//! Owns: the connections in between, and the succession of engines. Guarantees: a connection that is handed over is in
//! exactly one place: with the worker that gave it, in an inbox, or with the worker that took it. If the engine it was
//! meant for has left as well, it goes on to that one's successor. Does not decide when an engine leaves (`lifecycle`),
//! nor how a worker collects its connections or goes on with new ones (each engine).
//!
//! # What a worker owes
//! - Woken by its waker, it takes [`Shared::arrivals`] and drives each as if it had just been told everything.
//! - When [`Control::is_handing_over`](crate::worker::control::Control::is_handing_over), it accepts nothing more,
//!   gives all its connections, parked, to [`Shared::hand_over`], calls [`Shared::close_arrivals`], and returns.

pub mod mailboxes;
#[cfg(test)]
mod model;
mod sync;

use std::fmt;
use std::sync::Arc;

use crate::worker::connection_counter::ConnectionCounter;
use crate::worker::connection_state::ConnectionState;
use crate::worker::migration::handover::mailboxes::Mailboxes;
use crate::worker::migration::transfer::Sender;
use crate::worker::shared::Shared;

/// The inboxes of an engine's workers, and its successor.
pub type Handover = Mailboxes<ConnectionState, HandoverTarget>;

/// Finishes connections that cannot go on in another process, or not yet.
pub trait StaysBehind: fmt::Debug + Send + Sync {
    /// Finishes one, elsewhere than in this thread.
    fn finish(&self, connection: ConnectionState);
}

/// The receiver of the connections that an engine hands over.
#[derive(Clone, Debug)]
pub enum HandoverTarget {
    /// Another engine in this process.
    Engine(Arc<Shared>),
    /// Another process, and what becomes of those that cannot go on there.
    Process(Arc<Sender>, Arc<dyn StaysBehind>),
}

impl mailboxes::HandoverTarget<ConnectionState> for HandoverTarget {
    fn receive(&self, connection: ConnectionState) -> Result<(), (ConnectionState, &Handover)> {
        match self {
            HandoverTarget::Engine(shared) => shared.put(connection).map_err(|back| (back, &shared.handover)),
            HandoverTarget::Process(_, remainder) if !connection.is_transferable() => {
                remainder.finish(connection);
                Ok(())
            }
            HandoverTarget::Process(sender, _) => {
                sender.send(&connection);
                Ok(())
            }
        }
    }
}

impl Shared {
    /// Gives parked connections to the successor. Without one they are closed: the server ends.
    pub fn hand_over(&self, connections: impl IntoIterator<Item = ConnectionState>) {
        for mut connection in connections {
            connection.make_movable();
            self.handover.pass_on(connection);
        }
    }

    /// Takes a connection that comes from elsewhere. If this engine leaves already, its successor does.
    pub fn adopt(&self, connection: ConnectionState) {
        if let Err(back) = self.put(connection) {
            self.handover.pass_on(back);
        }
    }

    fn put(&self, connection: ConnectionState) -> Result<(), ConnectionState> {
        let welcome = |connection: &mut ConnectionState, index: usize| {
            connection.count_guard = self.connection_counters.get(index).map(ConnectionCounter::welcome)
        };
        let index = self.handover.put(connection, welcome)?;
        self.control.waker(index).wake();
        Ok(())
    }

    /// Connections that have been handed over to worker `index`.
    pub fn arrivals(&self, index: usize) -> Vec<ConnectionState> {
        self.handover.take_all(index)
    }

    /// Connections that have been handed over to worker `index`, and whether it is to drain. A worker that is to drain
    /// has got every connection that was adopted before the order.
    pub fn arrivals_and_drain(&self, index: usize) -> (Vec<ConnectionState>, bool) {
        self.handover.take_all_and_ask(index, || self.control.is_draining())
    }

    /// One of them.
    pub fn arrival(&self, index: usize) -> Option<ConnectionState> {
        self.handover.take_one(index)
    }

    /// Worker `index` leaves: what has arrived for it, and what arrives later, goes to the successor.
    pub fn close_arrivals(&self, index: usize) {
        self.handover.close(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::migration::transfer::{Arrival, Receiver};
    use crate::worker::testing;

    /// Everything can travel.
    #[derive(Debug)]
    struct Nobody;

    impl StaysBehind for Nobody {
        fn finish(&self, connection: ConnectionState) {
            panic!("{connection:?} can travel");
        }
    }

    fn connections(shared: &Shared, count: usize) -> Vec<ConnectionState> {
        let socket = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into();
        (0..count).map(|_| ConnectionState::new(socket(), None, shared.clock.now())).collect()
    }

    fn shared(workers: usize) -> (Arc<Shared>, tempfile::TempDir) {
        let (shared, root) = testing::shared_by(workers);
        (Arc::new(shared), root)
    }

    #[test]
    fn connections_are_shared_out_among_the_workers_of_the_successor() {
        let ((old, _root), (new, _other)) = (shared(1), shared(3));
        old.handover.appoint(HandoverTarget::Engine(new.clone()));
        old.hand_over(connections(&old, 7));
        let counts: Vec<usize> = (0..3).map(|index| new.arrivals(index).len()).collect();
        assert_eq!(counts, [3, 2, 2]);
        assert!(new.arrivals(0).is_empty(), "each is taken once");
    }

    #[test]
    fn what_arrives_late_goes_on_to_the_successor_of_the_successor() {
        let ((first, _a), (second, _b), (third, _c)) = (shared(1), shared(1), shared(1));
        first.handover.appoint(HandoverTarget::Engine(second.clone()));
        first.hand_over(connections(&first, 1));
        second.handover.appoint(HandoverTarget::Engine(third.clone()));
        second.close_arrivals(0);
        first.hand_over(connections(&first, 1));
        assert_eq!(third.arrivals(0).len(), 2);
    }

    #[test]
    fn an_heir_in_another_process_gets_what_was_meant_for_an_engine_that_has_left() {
        let ((first, _a), (second, _b)) = (shared(1), shared(1));
        let (one, other) = lamna_io::scm_rights::pair().unwrap();
        first.handover.appoint(HandoverTarget::Engine(second.clone()));
        second.handover.appoint(HandoverTarget::Process(Arc::new(Sender::new(one)), Arc::new(Nobody)));
        second.close_arrivals(0);
        first.hand_over(connections(&first, 2));
        let receiver = Receiver::new(other);
        let take = || receiver.take(&*second.sites, second.clock.now());
        assert!(matches!((take(), take(), take()), (Arrival::Connection(_), Arrival::Connection(_), Arrival::Nothing)));
    }

    #[test]
    fn without_a_successor_connections_are_closed() {
        let (only, _root) = shared(1);
        let (mut peer, ours) = std::os::unix::net::UnixStream::pair().unwrap();
        only.hand_over([ConnectionState::new(ours.into(), None, only.clock.now())]);
        assert_eq!(std::io::Read::read(&mut peer, &mut [0]).unwrap(), 0);
    }
}
