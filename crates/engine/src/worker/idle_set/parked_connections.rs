//! Where connections are parked that hold no thread, by whichever thread, and taken out of by the listener thread.
//!
//! Owns: what is parked, with its deadlines, and until when the listener thread sleeps. Guarantees: what is put in is
//! taken out once or comes back, also if it has an event before it is in, or if the set closes meanwhile; no deadline
//! is overslept. Checked against every interleaving in `model`. Makes no system call.

use std::sync::PoisonError;

use lamna_io::wait::Token;
use lamna_proto::time::Instant;

use super::sync::{ConnectionState, ConnectionTable, Mutex, MutexGuard, WorkerScore};
use crate::worker::connection_state::ConnectionPhase;

/// The parked connections.
#[derive(Debug)]
pub(crate) struct ParkedConnections<'a> {
    parked: Mutex<Parked>,
    /// Where others see how many are idle.
    score: &'a WorkerScore,
}

#[derive(Debug, Default)]
struct Parked {
    connections: ConnectionTable,
    /// Tokens that had an event before they were in `connections`. At most one for each socket stays longer than until
    /// that socket is put in again.
    early: Vec<Token>,
    /// Nothing is taken any more.
    closed: bool,
    /// Until when the listener thread sleeps if there are no events.
    sleeps_until: Option<Instant>,
}

impl<'a> ParkedConnections<'a> {
    /// An empty set. How many in it are idle is shown at `score`.
    pub(super) fn new(score: &'a WorkerScore) -> ParkedConnections<'a> {
        ParkedConnections { parked: Mutex::default(), score }
    }

    /// Puts `connection` in, whose next event bears `token` and may have been. Returns whether the listener thread
    /// sleeps too long for it and is to be woken.
    ///
    /// # Errors
    /// The connection, if the event has been, or nothing is taken any more.
    pub(super) fn put(
        &self,
        connection: ConnectionState,
        token: Token,
        deadline: Option<Instant>,
        phase: ConnectionPhase,
    ) -> Result<bool, ConnectionState> {
        let mut parked = self.parked();
        let is_early = parked.early.contains(&token);
        // Those of earlier times that the socket was waited for are of nobody: it was taken out in another way than by
        // its event.
        parked.early.retain(|one| one.index != token.index);
        if is_early || parked.closed {
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

    /// Takes the one that had an event. If it is not in yet, that is remembered, and it comes back to who puts it in.
    pub(crate) fn take(&self, token: Token) -> Option<ConnectionState> {
        let mut parked = self.parked();
        let connection = parked.connections.take(token);
        if connection.is_none() {
            parked.early.push(token);
        }
        self.show(&parked);
        connection
    }

    /// Takes those whose time is over.
    pub(crate) fn take_expired(&self, now: Instant) -> Vec<ConnectionState> {
        let mut parked = self.parked();
        let expired = parked.connections.expired(now);
        let connections = expired.into_iter().filter_map(|token| parked.connections.take(token)).collect();
        self.show(&parked);
        connections
    }

    /// Takes those that make room where descriptors have run out, at most `most`.
    pub(crate) fn take_making_room(&self, most: usize) -> Vec<ConnectionState> {
        let mut parked = self.parked();
        let chosen = parked.connections.making_room(most, |_| true).tokens;
        let connections = chosen.into_iter().filter_map(|token| parked.connections.take(token)).collect();
        self.show(&parked);
        connections
    }

    /// Takes those that wait between requests.
    pub(crate) fn take_idle(&self) -> Vec<ConnectionState> {
        let mut parked = self.parked();
        let idle = parked.connections.idle_tokens();
        let connections = idle.into_iter().filter_map(|token| parked.connections.take(token)).collect();
        self.show(&parked);
        connections
    }

    /// Whether nothing is taken any more.
    pub(super) fn is_closed(&self) -> bool {
        self.parked().closed
    }

    /// Takes all, and whatever comes later comes back.
    pub(crate) fn close(&self) -> Vec<ConnectionState> {
        let mut parked = self.parked();
        parked.closed = true;
        let tokens = parked.connections.tokens();
        let connections = tokens.into_iter().filter_map(|token| parked.connections.take(token)).collect();
        self.show(&parked);
        connections
    }

    /// The listener thread is going to sleep until `due`, or the first deadline. Returns which it is.
    pub(crate) fn sleep_until(&self, due: Option<Instant>) -> Option<Instant> {
        let mut parked = self.parked();
        parked.sleeps_until = parked.connections.next_deadline().into_iter().chain(due).min();
        parked.sleeps_until
    }

    /// How many events are remembered.
    #[cfg(test)]
    pub(super) fn early_count(&self) -> usize {
        self.parked().early.len()
    }

    /// A store to the worker's own line, under a lock that was taken anyway.
    fn show(&self, parked: &Parked) {
        self.score.show_idle(parked.connections.idle_and_slow().0);
    }

    /// Nothing that is done under the lock can panic half-way.
    fn parked(&self) -> MutexGuard<'_, Parked> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
