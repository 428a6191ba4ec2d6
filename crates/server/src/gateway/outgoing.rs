//! What is on its way to an application: the head, and the content that has been taken from the client.
//!
//! Owns: [`Outgoing`]. Guarantees: holds a head and one piece of content at most, if more is taken only when it is empty.

use rustix::io::Errno;

use crate::upstream::link::Link;

/// Bytes to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// Whether all has been sent, or is encrypted to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Sends what the connection takes, and what it has taken before. Whether that was anything.
    ///
    /// # Errors
    /// The connection is of no use for sending any more.
    pub(super) fn send(&mut self, link: &mut Link) -> Result<bool, Errno> {
        let before = self.sent;
        let has_left = link.flush()?;
        while !self.is_empty() {
            match link.send(&self.bytes[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        let has_sent = has_left || self.sent > before;
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
