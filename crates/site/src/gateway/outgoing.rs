//! Bytes on their way to an application: the head, and the content that has been taken from the client.
//!
//! Owns: [`Outgoing`]. Guarantees: holds a head and one piece of content at most, if more is taken only when it is
//! empty.

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

    /// Sends what the connection takes, and what it has taken before.
    pub(super) fn send(&mut self, link: &mut Link) -> Sent {
        match link.flush() {
            Ok(has_left) => {
                let sent = self.send_by(|bytes| link.send(bytes));
                // How much of a record has left before it failed is unknown.
                let is_unknown = sent.failed.is_some() && link.is_secure();
                Sent { any: has_left || sent.any || is_unknown, ..sent }
            }
            Err(errno) => Sent { any: true, failed: Some(errno) },
        }
    }

    fn send_by(&mut self, mut send: impl FnMut(&[u8]) -> Result<usize, Errno>) -> Sent {
        let mut sent = Sent::default();
        while !self.is_empty() {
            match send(&self.bytes[self.sent..]) {
                Ok(bytes) => {
                    self.sent += bytes;
                    sent.any |= bytes > 0;
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    sent.failed = Some(errno);
                    return sent;
                }
            }
        }
        if self.is_empty() {
            self.clear();
        }
        sent
    }

    /// Nothing of it is to be sent any more. A large buffer is given back.
    pub(super) fn clear(&mut self) {
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
    }
}

/// The result of sending. Both can be: some has left, and then the connection failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// Something has left, or may have: the request may have an effect.
    pub(super) any: bool,
    /// The connection is of no use for sending any more.
    pub(super) failed: Option<Errno>,
}

/// Room that is kept for what follows.
const KEPT_BYTES_MAX: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_by(answers: &[Result<usize, Errno>]) -> (Sent, bool) {
        let mut outgoing = Outgoing { bytes: vec![0; 10], sent: 0 };
        let mut answers = answers.iter().copied();
        let sent = outgoing.send_by(|_| answers.next().expect("nothing is sent behind a failure"));
        (sent, outgoing.is_empty())
    }

    #[test]
    fn what_left_before_a_failure_is_told() {
        let failed = Some(Errno::PIPE);
        assert_eq!(sent_by(&[Ok(3), Err(Errno::PIPE)]), (Sent { any: true, failed }, false));
        assert_eq!(sent_by(&[Err(Errno::PIPE)]), (Sent { any: false, failed }, false));
    }

    #[test]
    fn what_is_not_taken_now_is_sent_later() {
        assert_eq!(sent_by(&[Ok(3), Err(Errno::AGAIN)]), (Sent { any: true, failed: None }, false));
        assert_eq!(sent_by(&[Err(Errno::AGAIN)]), (Sent::default(), false));
        assert_eq!(sent_by(&[Ok(3), Ok(7)]), (Sent { any: true, failed: None }, true));
    }
}
