//! Where connections are parked that hold no thread, by whichever thread, and taken out of by the thread that waits for
//! their events: a listener thread, or a stage.
//!
//! Owns: what is parked, with its deadlines, and until when that thread sleeps. Guarantees: what is put in is taken
//! out once or comes back, also if it has an event before it is in, or if the set closes meanwhile; no deadline is
//! overslept. Checked against every interleaving in `model`. Makes no system call.

use std::borrow::BorrowMut;
use std::sync::PoisonError;

use lamna_io::wait::{Event, Token};
use lamna_proto::time::Instant;

use super::sync::{ConnectionState, ConnectionTable, Mutex, MutexGuard};
use crate::worker::connection_state::ConnectionPhase;

/// The parked connections, or what carries them: `C`.
pub(crate) struct ParkedConnections<'a, C = ConnectionState> {
    parked: Mutex<Parked<C>>,
    /// Lets others see how many are idle, and how many wait for slow peers.
    show: Box<dyn Fn(usize, usize) + Send + Sync + 'a>,
}

#[derive(Debug)]
struct Parked<C> {
    connections: ConnectionTable<C>,
    /// By descriptor: the last event of a connection that was not in `connections`.
    early: Vec<Option<Event>>,
    /// Nothing is taken any more.
    closed: bool,
    /// Until when the thread sleeps that waits for events, if there are none.
    sleeps_until: Option<Instant>,
}

impl<'a, C: BorrowMut<ConnectionState>> ParkedConnections<'a, C> {
    /// An empty set. How many in it are idle, and slow, is told to `show`, under a lock that was taken anyway.
    pub(crate) fn new(show: impl Fn(usize, usize) + Send + Sync + 'a) -> ParkedConnections<'a, C> {
        let (connections, early) = (ConnectionTable::default(), Vec::new());
        let parked = Parked { connections, early, closed: false, sleeps_until: None };
        ParkedConnections { parked: Mutex::new(parked), show: Box::new(show) }
    }

    /// Puts `connection` in, whose next event bears `token` and may have been. Returns whether the thread that waits
    /// for events sleeps too long for it and is to be woken.
    ///
    /// # Errors
    /// The connection, if the event has been, which it has noticed, or if nothing is taken any more.
    pub(crate) fn put(
        &self,
        mut connection: C,
        token: Token,
        deadline: Option<Instant>,
        phase: ConnectionPhase,
    ) -> Result<bool, C> {
        let mut parked = self.parked();
        let early = parked.early.get_mut(token.index as usize).and_then(Option::take);
        // Those of earlier times that the socket was waited for are of nobody: it was taken out in another way than by
        // its event.
        let early = early.filter(|event| event.token == token);
        if let Some(event) = early {
            connection.borrow_mut().notice(&event);
        }
        if early.is_some() || parked.closed {
            return Err(connection);
        }
        parked.connections.adopt(connection);
        parked.connections.set_phase(token, phase);
        self.show(&parked);
        parked.connections.set_deadline(token, deadline);
        let oversleeps = deadline.is_some_and(|at| parked.sleeps_until.is_none_or(|until| until > at));
        if oversleeps {
            parked.sleeps_until = deadline;
        }
        Ok(oversleeps)
    }

    /// Takes the one that had `event`, which it has noticed. If it is not in yet, that is remembered, and it comes back
    /// to the thread that puts it in.
    pub(crate) fn take(&self, event: &Event) -> Option<C> {
        let mut parked = self.parked();
        let mut connection = parked.connections.take(event.token);
        match &mut connection {
            Some(connection) => connection.borrow_mut().notice(event),
            None => {
                let index = event.token.index as usize;
                if index >= parked.early.len() {
                    parked.early.resize(index + 1, None);
                }
                parked.early[index] = Some(*event);
            }
        }
        self.show(&parked);
        connection
    }

    /// Takes those whose time is over.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<C> {
        self.take_chosen(|parked| parked.connections.expired(now))
    }

    /// Takes those that make room where descriptors have run out, at most `most`.
    pub(crate) fn take_making_room(&self, most: usize) -> Vec<C> {
        self.take_chosen(|parked| parked.connections.making_room(most, |_| true).tokens)
    }

    /// Takes those that wait between requests.
    pub(crate) fn take_idle(&self) -> Vec<C> {
        self.take_chosen(|parked| parked.connections.idle_tokens())
    }

    /// Takes all.
    pub(crate) fn take_all(&self) -> Vec<C> {
        self.take_chosen(|parked| parked.connections.tokens())
    }

    /// Takes all, and whatever comes later comes back.
    pub(crate) fn close(&self) -> Vec<C> {
        self.take_chosen(|parked| {
            parked.closed = true;
            parked.connections.tokens()
        })
    }

    fn take_chosen(&self, choose: impl FnOnce(&mut Parked<C>) -> Vec<Token>) -> Vec<C> {
        let mut parked = self.parked();
        let chosen = choose(&mut parked);
        let connections = chosen.into_iter().filter_map(|token| parked.connections.take(token)).collect();
        self.show(&parked);
        connections
    }

    /// Whether nothing is taken any more.
    pub(super) fn is_closed(&self) -> bool {
        self.parked().closed
    }

    /// The thread that waits for events is going to sleep until `due`, or the first deadline. Returns which it is.
    pub(crate) fn sleep_until(&self, due: Option<Instant>) -> Option<Instant> {
        let mut parked = self.parked();
        parked.sleeps_until = parked.connections.next_deadline().into_iter().chain(due).min();
        parked.sleeps_until
    }

    /// How many events are remembered.
    #[cfg(test)]
    pub(super) fn early_count(&self) -> usize {
        self.parked().early.iter().flatten().count()
    }

    fn show(&self, parked: &Parked<C>) {
        let (idle, slow) = parked.connections.idle_and_slow();
        (self.show)(idle, slow);
    }

    /// Nothing that is done under the lock can panic half-way.
    fn parked(&self) -> MutexGuard<'_, Parked<C>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
