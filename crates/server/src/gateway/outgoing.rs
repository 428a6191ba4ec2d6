//! What is on its way to an application: the head, and the content that has been taken from the client.
//!
//! Owns: [`Outgoing`]. Guarantees: holds a head and one piece of content at most, if more is taken only when it is empty.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

/// Bytes to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Whether all has been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Sends what the socket takes. Whether that was anything.
    ///
    /// # Errors
    /// The connection is of no use for sending any more.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        let before = self.sent;
        while !self.is_empty() {
            match send(socket, &self.bytes[self.sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        let has_sent = self.sent > before;
        if self.is_empty() {
            self.clear();
        }
        Ok(has_sent)
    }

    /// Nothing of it is to be sent any more. A large buffer is given back.
    pub(super) fn clear(&mut self) {
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }
}

/// Room that is kept for what follows.
const KEPT_BYTES_MAX: usize = 4 * 1024;
