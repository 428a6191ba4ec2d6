//! The bytes that a connection has received and not consumed, while it has a workspace.
//!
//! Owns: [`Input`], a buffer of fixed size whose bytes move to the front when the rest of it is full. Does not read
//! what it holds.

/// Bytes received and not yet consumed: `bytes[start..end]`.
#[derive(Debug)]
pub(crate) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    pub(super) fn new(capacity: usize) -> Input {
        Input { bytes: vec![0; capacity].into_boxed_slice(), start: 0, end: 0 }
    }

    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes at an earlier position that has been consumed but not yet overwritten.
    pub(crate) fn at(&self, start: usize, length: usize) -> &[u8] {
        &self.bytes[start..start + length]
    }

    pub(crate) fn position(&self) -> usize {
        self.start
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.start += bytes;
    }

    /// Whether there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.end - self.start == self.bytes.len()
    }

    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Discards what is unread if `last` says that nothing of it will be read; whether there was anything.
    pub(crate) fn discard_if(&mut self, last: bool) -> bool {
        let discarded = last && self.start < self.end;
        if discarded {
            self.clear();
        }
        discarded
    }

    /// Replaces what is there by `bytes`. They fit, unless they were received under larger limits.
    pub(crate) fn restore(&mut self, bytes: &[u8]) {
        if bytes.len() > self.bytes.len() {
            self.bytes = vec![0; bytes.len()].into_boxed_slice();
        }
        self.bytes[..bytes.len()].copy_from_slice(bytes);
        self.start = 0;
        self.end = bytes.len();
    }

    /// Room for more. Unread bytes move to the front if they stand at the end.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.clear();
        } else if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end..]
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.bytes.len(), "a driver received more than it was given room for");
    }
}
