//! Where a thread that serves one connection at a time gets the next one from: an inbox, another process, a listening
//! socket.
//!
//! Owns: waiting for all of them at once. Guarantees: running out of descriptors costs waiting, never a connection.

use std::os::fd::AsFd;

use lamna_io::wait::ListenerPoll;
use rustix::io::Errno;

use super::Driver;
use crate::worker::acceptor::{Freed, PAUSE_MS};
use crate::worker::connection_state::ConnectionState;
use crate::worker::migration::transfer::Arrival;

/// How long a worker that drains takes connections that have been waiting.
const LAST_CALL_MS: u32 = 1000;

impl Driver<'_> {
    /// Waits for the next connection, a new one or one that is handed over to worker `index`, whose waker this thread
    /// has. None when the server drains or stops, this engine hands over, or this process is to retire.
    pub fn await_connection(&mut self, index: usize) -> Option<ConnectionState> {
        // The one before has ended.
        self.acceptor.handle_room(self.context.now);
        loop {
            self.poll_control();
            if self.draining || self.shared.control.is_closing() {
                return None;
            }
            if self.shared.control.is_retiring() {
                // The kernel may have woken this process for a connection, and nobody else: it is looked for when no
                // other can be meant for this one.
                self.listener_poll = None;
                return self.take_connection(index);
            }
            if let Some(connection) = self.take_connection(index) {
                return Some(connection);
            }
            match self.acceptor.due() {
                Some(until) => drop(self.wait(None, Some(until))),
                None => self.await_listeners(index),
            }
        }
    }

    /// A connection that has been waiting for a worker to be free when the server begins to drain. None when there is
    /// none, or when this worker has taken such ones for a second: then those who come still have come too late.
    pub fn last_connection(&mut self, index: usize) -> Option<ConnectionState> {
        self.poll_control();
        let control = &self.shared.control;
        if !self.draining || control.is_stopping() || control.is_handing_over() {
            return None;
        }
        let until = *self.last_call.get_or_insert(self.context.now.after_ms(LAST_CALL_MS));
        if self.context.now >= until {
            return None;
        }
        self.acceptor.handle_room(self.context.now);
        self.take_connection(index)
    }

    /// A connection that is there.
    fn take_connection(&mut self, index: usize) -> Option<ConnectionState> {
        let arrived = self.shared.arrival(index).or_else(|| self.take_arrival());
        let mut connection = arrived.or_else(|| self.accept())?;
        connection.count_guard = Some(self.shared.connection_counters[index].welcome());
        Some(connection)
    }

    /// A connection that another process gives away.
    fn take_arrival(&mut self) -> Option<ConnectionState> {
        let receiver = self.shared.receiver.as_ref().filter(|receiver| !receiver.is_over())?;
        match receiver.take(&*self.shared.sites, self.context.now) {
            Arrival::Connection(connection) => Some(self.shared.keep(*connection)),
            Arrival::Nothing => None,
            Arrival::Crowded => {
                self.wait(None, Some(self.context.now.after_ms(PAUSE_MS)));
                None
            }
            Arrival::End => {
                // What is over is not to be waited for any more.
                self.listener_poll = None;
                None
            }
        }
    }

    /// Takes a connection from a listener, if one waits there. This thread has no others that could make room.
    fn accept(&mut self) -> Option<ConnectionState> {
        let (shared, now) = (self.shared, self.context.now);
        if let Some(errno) = self.acceptor.look(shared, now) {
            self.acceptor.handle_freed(Freed::Nothing, shared, errno, now);
        }
        let listeners = shared.listeners.len();
        for turn in 0..listeners {
            let listener = (self.listener + turn) % listeners;
            if self.acceptor.is_taking()
                && let Some(connection) = self.acceptor.take(shared, listener, now)
            {
                self.listener = listener + 1;
                self.context.count_connection();
                return Some(connection);
            }
        }
        None
    }

    /// Waits for any listener, or for the main thread. Of several workers that wait, the kernel wakes one for each
    /// connection, which `poll(2)` could not have.
    fn await_listeners(&mut self, index: usize) {
        let timeout_ms = self.timeout_ms(None);
        if self.listener_poll.is_none() {
            self.listener_poll = self.listener_poll(index).ok();
        }
        match &self.listener_poll {
            // Whatever it returns, trying to accept tells.
            Some(listener_poll) => drop(listener_poll.wait(timeout_ms)),
            // No descriptors.
            None => drop(self.wait(None, Some(self.context.now.after_ms(PAUSE_MS)))),
        }
        self.shared.control.waker(index).reset();
        self.poll_control();
        self.context.flush_if_due();
    }

    fn listener_poll(&self, index: usize) -> Result<ListenerPoll, Errno> {
        let listener_poll = ListenerPoll::new()?;
        for listener in self.shared.listeners.iter() {
            listener_poll.add_listener(listener.as_fd())?;
        }
        if let Some(receiver) = self.shared.receiver.as_ref().filter(|receiver| !receiver.is_over()) {
            listener_poll.add_listener(receiver.as_fd())?;
        }
        listener_poll.add_waker(self.shared.control.interrupt(false).descriptor().as_fd())?;
        listener_poll.add_waker(self.shared.control.waker(index).descriptor().as_fd())?;
        Ok(listener_poll)
    }
}
