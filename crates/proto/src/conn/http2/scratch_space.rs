//! A worker's loan to connections of HTTP/2 beside the buffers that every version uses.
//!
//! Owns: [`ScratchSpace`]: where requests are put together, the request that waits for its first answer, and space that
//! is used again. Guarantees: the space kept for that is bounded. Does not read or write.

use super::priority::Priority;
use super::request::RequestBuffers;
use super::stream::Stream;
use crate::exchange::Saved;
use crate::message::{Head, Request};

/// A worker's state for connections of HTTP/2: part of a [`Workspace`](crate::workspace::Workspace).
#[derive(Debug, Default)]
pub(crate) struct ScratchSpace {
    pub(super) buffers: RequestBuffers,
    /// The request in the buffers that waits for its first answer.
    pub(super) current: Option<Current>,
    /// Space for requests to be saved.
    spare_bytes: Vec<Vec<u8>>,
    /// Space for streams, so that a connection that has none holds none.
    pub(super) spare_streams: Vec<Stream>,
}

/// A request that has been received in full and has no stream yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub(super) id: u32,
    pub(super) head: Head,
    pub(super) priority: Priority,
}

/// How many saved requests' space is kept, and how large it may be: see `http1`.
const SPARE_COUNT_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 2 * 1024;

impl ScratchSpace {
    /// The request that waits for its first answer.
    pub(super) fn current_request(&self) -> Option<(u32, Request<'_>)> {
        let current = self.current.as_ref()?;
        Some((current.id, Request { bytes: &self.buffers.text, head: &current.head }))
    }

    /// A copy of a request that has been put together in the buffers.
    pub(super) fn save(&mut self, head: Head) -> Saved {
        let mut bytes = self.spare_bytes.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(&self.buffers.text);
        Saved::new(bytes, head)
    }

    /// Keeps the space of a request that is not needed any more.
    pub(super) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare_bytes.len() < SPARE_COUNT_MAX && (1..=SPARE_BYTES_MAX).contains(&bytes.capacity()) {
            self.spare_bytes.push(bytes);
        }
    }
}
