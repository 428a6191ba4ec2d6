//! The steps between a socket and its connection that every event-driven engine takes in the same way.
//!
//! Owns: one receive, and sending as much as the socket takes. Guarantees: never waits; bounded by [`TURN_BYTES`].
//! Does not decide when or in which thread.

use std::os::fd::AsFd;

use lamna_proto::conn::Interest;
use lamna_proto::time::Instant;
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown};

use crate::engine::desk::Desk;
use crate::engine::slots::Slot;
use crate::io::send::{self, Sent};

/// Bytes one connection may send before others get their turn.
pub const TURN_BYTES: u64 = 1 << 20;

impl Slot {
    /// Receives once for a connection that has a workspace and waits for `interest`.
    pub fn receive(&mut self, interest: Interest, now: Instant) {
        if interest == Interest::Linger && !self.shut {
            self.shut = true;
            // If it fails the peer is gone, which the receive will tell.
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Write);
        }
        let space = self.connection.receive_space();
        let room = space.len();
        match rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut *space, RecvFlags::empty())) {
            Ok((_, 0)) => {
                self.readable = false;
                self.connection.handle_end();
            }
            Ok((_, bytes)) => {
                // Fewer than there was room for: nothing more is there, and more will be an event.
                self.readable = bytes == room || self.ending;
                self.connection.handle_received(bytes, now);
            }
            Err(Errno::AGAIN) => self.readable = false,
            Err(_) => self.connection.handle_broken(),
        }
    }

    /// Sends what there is to send, as far as the socket takes it, and reports what has thereby been answered. Returns
    /// the bytes taken.
    pub fn transmit(&mut self, desk: &mut Desk<'_>) -> u64 {
        let mut total = 0;
        while self.writable && total < TURN_BYTES {
            let Some(transmit) = self.connection.poll_transmit() else { break };
            match send::send(self.socket.as_fd(), &transmit) {
                Sent::Part(0) => self.writable = false,
                Sent::All(bytes) | Sent::Part(bytes) => {
                    total += bytes;
                    self.connection.handle_sent(bytes, desk.now);
                }
                Sent::Truncated | Sent::Broken => self.connection.handle_broken(),
            }
            desk.report(&mut self.connection, self.client);
        }
        total
    }
}
