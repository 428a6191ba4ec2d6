//! What a connection wants sent, as plain data: the driver's I/O strategy decides which system calls that takes.

use std::os::fd::OwnedFd;

/// Bytes to send, in order: first `bytes`, then `segment`. Sending any prefix of it is right, as long as
/// [`handle_sent`](crate::conn::Connection::handle_sent) is told how much.
#[derive(Debug)]
#[must_use = "a transmit says what the peer is owed"]
pub struct Transmit<'a> {
    /// Owned bytes: heads and small messages. May be empty.
    pub bytes: &'a [u8],
    /// What follows them.
    pub segment: Option<Segment<'a>>,
    /// Whether more is known to follow this transmit at once (MSG_MORE): further bytes, or the end of the connection,
    /// which then travels with the last of them.
    pub more: bool,
}

/// Content that is sent from where it is.
#[derive(Clone, Copy, Debug)]
pub enum Segment<'a> {
    /// Bytes in memory, shared with other connections.
    Shared(&'a [u8]),
    /// A stretch of a file of which the driver has said that it can be read now.
    File {
        /// The open file.
        file: &'a OwnedFd,
        /// First byte.
        offset: u64,
        /// Bytes, at least 1.
        length: u64,
        /// What the server tells the state of the file that was described from others by
        /// ([`Representation::version`](crate::resource::Representation::version)).
        version: u64,
        /// Where the content of the answer ends that comes from the file: whoever sends the byte before it has made sure that the
        /// file is in that state.
        end: u64,
    },
}

impl Segment<'_> {
    /// Bytes of the segment.
    pub fn length(&self) -> u64 {
        match self {
            Segment::Shared(bytes) => bytes.len() as u64,
            Segment::File { length, .. } => *length,
        }
    }
}
