//! How an event loop takes new connections: how many at once, what it leaves to other loops, and what it does without
//! descriptors.
//!
//! Owns: watching the listening sockets, the loop's share of what waits there, pauses. Does not serve what it takes.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::{GENERATION_OURS, Worker};
use crate::io::accept::{accept, concerns_one_connection};
use crate::io::wait::Token;
use crate::worker::connection_table::ConnectionState;
use crate::worker::drive::OnSockets;

/// Connections accepted at once, before others get their turn. As many as take a millisecond: who comes in a crowd waits for
/// all before him.
const ACCEPT_MAX: usize = 64;
/// The same where there are other workers, who are to have their share. Few: while one worker takes them, those that the
/// kernel has woken for the next ones are on their way.
const ACCEPT_SHARED_MAX: usize = 4;
/// How long a worker that has more than its share leaves new connections to the others. Of several that wait for one
/// listening socket the kernel always wakes the same first, so without this it would get nearly all.
const PASS_MS: u32 = 1;
/// How long nothing is accepted after descriptors or memory ran out.
const ACCEPT_PAUSE_MS: u32 = 100;
/// Idle connections given up at once when descriptors run out.
const SHED_MAX: usize = 16;

impl<C: OnSockets> Worker<'_, C> {
    pub(super) fn listen(&mut self) -> Result<(), Errno> {
        if self.accepting || self.draining {
            return Ok(());
        }
        for (index, listener) in self.shared.listeners.iter().enumerate() {
            let token = Token { index: index as u32, generation: GENERATION_OURS };
            self.poll.add_listener(listener.as_fd(), token)?;
        }
        self.accepting = true;
        Ok(())
    }

    pub(super) fn unlisten(&mut self) {
        self.accepting = false;
        for listener in self.shared.listeners.iter() {
            self.poll.remove(listener.as_fd());
        }
    }

    pub(super) fn accept_from(&mut self, listener: usize) {
        let takes_any = std::mem::take(&mut self.passed);
        let (_, workers) = self.shared.scoreboard.load();
        for _ in 0..if workers <= 1 { ACCEPT_MAX } else { ACCEPT_SHARED_MAX } {
            if !self.accepting || self.shared.control.is_closing() {
                return;
            }
            if !takes_any && self.shared.scoreboard.is_over_share(self.slots.count()) {
                return self.pass();
            }
            match accept(self.shared.listeners[listener].as_fd()) {
                Ok(accepted) => {
                    self.context.count_connection();
                    let crowded = self.reserve.has_given(&accepted.socket);
                    let (listener, endpoint) = (&self.shared.listeners[listener], self.shared.tls.as_ref());
                    let slot = ConnectionState::accepted(accepted, listener, endpoint, self.context.now);
                    let token = self.slots.admit(slot);
                    self.slots.show_load(self.shared.score(self.index));
                    self.drive(token);
                    if crowded {
                        return self.pause_accepting(Errno::MFILE);
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(errno) if concerns_one_connection(errno) => {}
                Err(errno) => return self.pause_accepting(errno),
            }
        }
    }

    /// Tries again after a pause.
    pub(super) fn accept_again_if_due(&mut self) {
        if self.accept_again.is_some_and(|at| at <= self.context.now) {
            let room = self.reserve.is_whole(self.shared.control.waker(self.index).descriptor());
            // Without room, or if it fails again: after another pause.
            let listening = room && self.listen().is_ok();
            self.accept_again = (!listening).then(|| self.context.now.after_ms(ACCEPT_PAUSE_MS));
        }
    }

    /// Leaves the connections that wait to workers that have fewer. If those are stalled, it will be back.
    fn pass(&mut self) {
        self.unlisten();
        self.passed = true;
        self.accept_again = Some(self.context.now.after_ms(PASS_MS));
    }

    /// Out of descriptors or memory: connections wait in the listen queue, where they are not lost.
    fn pause_accepting(&mut self, errno: Errno) {
        // Half of the connections at most, so that the newest stay.
        let idle = self.slots.longest_idle(SHED_MAX.min(self.slots.count().div_ceil(2)));
        self.shared.counters.idle_shed.fetch_add(idle.len() as u64, Relaxed);
        for token in &idle {
            self.slots.remove(*token);
        }
        if idle.is_empty() {
            self.unlisten();
            self.accept_again = Some(self.context.now.after_ms(ACCEPT_PAUSE_MS));
            self.shared.handle_exhaustion(errno);
        }
    }
}
