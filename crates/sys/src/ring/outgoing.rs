//! Bytes that are being sent, with everything that keeps them where they are.
//!
//! Owns: copies of owned bytes, and a share of the content that is sent from where it is. Guarantees: nothing of it can
//! change or go away before the kernel is done with it.

use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use lamna_proto::exchange::ContentBuffer;

/// Bytes to be sent, in order: owned ones, then content.
pub struct Outgoing {
    bytes: Vec<u8>,
    content: Option<Arc<dyn ContentBuffer>>,
    range: Range<usize>,
    /// Bytes of both that have been sent.
    sent: usize,
    /// More is known to follow.
    more: bool,
    slices: [libc::iovec; 2],
    message: libc::msghdr,
}

impl Default for Outgoing {
    fn default() -> Outgoing {
        // SAFETY: both are plain structures of the C library, for which all zeros are valid.
        let (slices, message) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        Outgoing { bytes: Vec::new(), content: None, range: 0..0, sent: 0, more: false, slices, message }
    }
}

impl std::fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Outgoing({} owned, {} of content, {} sent)", self.bytes.len(), self.range.len(), self.sent)
    }
}

impl Outgoing {
    /// Begins anew with `bytes`, of which a copy is made. `more` is MSG_MORE.
    pub fn begin(&mut self, bytes: &[u8], more: bool) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        (self.content, self.range) = (None, 0..0);
        (self.sent, self.more) = (0, more);
    }

    /// Adds `range` of `content`.
    ///
    /// # Panics
    /// If the content is not that long.
    pub fn add(&mut self, content: Arc<dyn ContentBuffer>, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= content.bytes().len(), "content is sent that there is");
        (self.content, self.range) = (Some(content), range);
    }

    /// Bytes in all.
    pub fn length(&self) -> usize {
        self.bytes.len() + self.range.len()
    }

    /// `bytes` more have been sent. Whether there are others still.
    pub fn handle_sent(&mut self, bytes: usize) -> bool {
        self.sent += bytes;
        self.sent < self.length()
    }

    /// Lets go of the content.
    pub fn release(&mut self) {
        (self.content, self.range) = (None, 0..0);
    }

    /// Bytes of memory that it keeps for the next time.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The unsent bytes, in order.
    pub fn unsent(&self) -> [&[u8]; 2] {
        let owned = &self.bytes[self.sent.min(self.bytes.len())..];
        let content_sent = self.sent.saturating_sub(self.bytes.len());
        let content = self.content.as_ref().map_or(&[][..], |content| &content.bytes()[self.range.clone()]);
        [owned, &content[content_sent.min(content.len())..]]
    }

    /// The operation that sends what is unsent. It points into `self` and what it holds.
    pub(super) fn entry(&mut self, socket: RawFd) -> squeue::Entry {
        let flags = libc::MSG_NOSIGNAL | if self.more { libc::MSG_MORE } else { 0 };
        let parts = self.unsent().map(|part| (part.as_ptr(), part.len()));
        if let [(pointer, length), (_, 0)] | [(_, 0), (pointer, length)] = parts {
            return opcode::Send::new(Fd(socket), pointer, length as u32).flags(flags).build();
        }
        self.slices =
            parts.map(|(pointer, length)| libc::iovec { iov_base: pointer.cast_mut().cast(), iov_len: length });
        self.message.msg_iov = self.slices.as_mut_ptr();
        self.message.msg_iovlen = self.slices.len() as _;
        opcode::SendMsg::new(Fd(socket), &raw const self.message).flags(flags as u32).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Bytes(&'static [u8]);

    impl ContentBuffer for Bytes {
        fn bytes(&self) -> &[u8] {
            self.0
        }

        fn own_bytes(&self) -> usize {
            0
        }
    }

    #[test]
    fn what_is_unsent_is_what_has_not_been_sent_of_both_parts() {
        let mut outgoing = Outgoing::default();
        outgoing.begin(b"head", false);
        outgoing.add(Arc::new(Bytes(b"xcontentx")), 1..8);
        assert_eq!(outgoing.length(), 11);
        assert!(outgoing.handle_sent(2));
        assert_eq!(outgoing.unsent(), [&b"ad"[..], b"content"]);
        assert!(outgoing.handle_sent(5));
        assert_eq!(outgoing.unsent(), [&b""[..], b"tent"]);
        assert!(!outgoing.handle_sent(4));
        outgoing.release();
        assert_eq!(outgoing.unsent(), [b""; 2]);
    }

    #[test]
    #[should_panic(expected = "content is sent that there is")]
    fn content_that_there_is_not_is_never_sent() {
        Outgoing::default().add(Arc::new(Bytes(&[0; 3])), 0..4);
    }
}
