//! Where a thread that serves one connection at a time gets the next one from: an inbox, another process, a listening
//! socket.
//!
//! Owns: waiting for all of them at once. Guarantees: running out of descriptors costs waiting, never a connection.

use std::os::fd::AsFd;

use rustix::io::Errno;

use super::Driver;
use crate::io::accept;
use crate::io::wait::ListenerPoll;
use crate::worker::connection_table::ConnectionState;
use crate::worker::migration::transfer::Arrival;

const ACCEPT_PAUSE_MS: u32 = 100;
/// How long a worker that drains takes connections that have been waiting.
const LAST_CALL_MS: u32 = 1000;

impl Driver<'_> {
    /// Waits for the next connection, a new one or one that is handed over to worker `index`, whose waker this thread has.
    /// None when the server drains or stops, this engine hands over, or this process is to retire.
    pub fn await_connection(&mut self, index: usize) -> Option<ConnectionState> {
        loop {
            self.poll_control();
            if self.draining || self.shared.control.is_closing() {
                return None;
            }
            if self.shared.control.is_retiring() {
                // The kernel may have woken this process for a connection, and nobody else: it is looked for when no other can
                // be meant for this one.
                self.gate = None;
                return self.take_connection(index).ok().flatten();
            }
            match self.take_connection(index) {
                Ok(Some(slot)) => return Some(slot),
                Ok(None) => self.await_listeners(index),
                Err(errno) => self.pause_accepting(errno),
            }
        }
    }

    /// A connection that has been waiting for a worker to be free when the server begins to drain. None when there is none,
    /// or when this worker has taken such ones for a second: then those who come still have come too late.
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
        self.take_connection(index).ok().flatten()
    }

    /// A connection that is there.
    fn take_connection(&mut self, index: usize) -> Result<Option<ConnectionState>, Errno> {
        let arrived = self.shared.arrival(index).or_else(|| self.take_arrival());
        let mut slot = match arrived {
            Some(slot) => Some(slot),
            None => self.accept()?,
        };
        slot.iter_mut().for_each(|slot| slot.count_guard = Some(self.shared.connection_counters[index].welcome()));
        Ok(slot)
    }

    /// A connection that another process gives away.
    fn take_arrival(&mut self) -> Option<ConnectionState> {
        let receiver = self.shared.receiver.as_ref().filter(|receiver| !receiver.is_over())?;
        match receiver.take(&*self.shared.sites, self.context.now) {
            Arrival::Connection(slot) => Some(*slot),
            Arrival::Nothing => None,
            Arrival::Crowded => {
                self.wait(None, Some(self.context.now.after_ms(ACCEPT_PAUSE_MS)));
                None
            }
            Arrival::End => {
                // What is over is not to be waited for any more.
                self.gate = None;
                None
            }
        }
    }

    /// Takes a connection from a listener, if one waits there.
    fn accept(&mut self) -> Result<Option<ConnectionState>, Errno> {
        let listeners = &self.shared.listeners;
        if self.crowded && !self.reserve.is_whole(&listeners[0]) {
            return Err(Errno::MFILE);
        }
        for turn in 0..listeners.len() {
            let listener = (self.listener + turn) % listeners.len();
            match accept::accept(listeners[listener].as_fd()) {
                Ok(accepted) => {
                    self.listener = listener + 1;
                    self.crowded = self.reserve.has_given(&accepted.socket);
                    self.context.count_connection();
                    let (listener, endpoint) = (&self.shared.listeners[listener], self.shared.tls.as_ref());
                    return Ok(Some(ConnectionState::accepted(accepted, listener, endpoint, self.context.now)));
                }
                Err(errno) if errno == Errno::AGAIN || accept::concerns_one_connection(errno) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(None)
    }

    /// Out of descriptors or memory: connections wait in the listen queue, where they are not lost.
    fn pause_accepting(&mut self, errno: Errno) {
        self.shared.handle_exhaustion(errno);
        let until = self.context.now.after_ms(ACCEPT_PAUSE_MS);
        self.wait(None, Some(until));
    }

    /// Waits for any listener, or for the main thread. Of several workers that wait, the kernel wakes one for each
    /// connection, which `poll(2)` could not have.
    fn await_listeners(&mut self, index: usize) {
        let timeout_ms = self.timeout_ms(None);
        if self.gate.is_none() {
            self.gate = self.gate(index).ok();
        }
        match &self.gate {
            // Whatever it returns, trying to accept tells.
            Some(gate) => drop(gate.wait(timeout_ms)),
            // No descriptors.
            None => drop(self.wait(None, Some(self.context.now.after_ms(ACCEPT_PAUSE_MS)))),
        }
        self.shared.control.waker(index).reset();
        self.poll_control();
        self.context.flush_if_due();
    }

    fn gate(&self, index: usize) -> Result<ListenerPoll, Errno> {
        let gate = ListenerPoll::new()?;
        for listener in self.shared.listeners.iter() {
            gate.add_listener(listener.as_fd())?;
        }
        if let Some(receiver) = self.shared.receiver.as_ref().filter(|receiver| !receiver.is_over()) {
            gate.add_listener(receiver.as_fd())?;
        }
        gate.add_waker(self.shared.control.interrupt(false).descriptor().as_fd())?;
        gate.add_waker(self.shared.control.waker(index).descriptor().as_fd())?;
        Ok(gate)
    }
}
