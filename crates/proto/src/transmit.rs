//! Bytes that a connection wants sent, as plain data: the driver's I/O strategy decides which system calls that takes.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes to send, in order: first `bytes`, then `segment`. Sending any prefix of it is right, as long as
/// [`handle_sent`](crate::conn::Connection::handle_sent) is told how much.
#[derive(Debug)]
#[must_use = "a transmit says what the peer is owed"]
pub struct Transmit<'a> {
    /// Owned bytes: heads and small messages. May be empty.
    pub bytes: &'a [u8],
    /// The segment behind them.
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
        /// The state of the file that was described.
        state: &'a FileState,
        /// Where the content of the answer ends that comes from the file: the sender of the byte before it has made
        /// sure that the file has the content of that state.
        end: u64,
    },
}

/// The state of a file that an answer describes: made and judged by the server. The core hands it on.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    /// A number that tells it from other states of the file; zero if the server tells none.
    pub version: u64,
    /// Bytes of the file.
    pub size: u64,
    /// The hash of the first and the last of these bytes, once that is known.
    pub ends: Ends,
}

/// The hash of the ends of a file, once it has been computed: in the space of the number itself, of which zero means
/// unknown.
#[derive(Debug, Default)]
pub struct Ends(AtomicU64);

impl Ends {
    /// The hash; none while it is not known.
    pub fn get(&self) -> Option<u64> {
        let sum = self.0.load(Relaxed);
        (sum != 0).then_some(sum)
    }

    /// They come to this. Who finds it out finds the same: it does not matter who is first.
    pub fn set(&self, sum: u64) {
        self.0.store(sum.max(1), Relaxed);
    }
}

impl From<Option<u64>> for Ends {
    fn from(sum: Option<u64>) -> Ends {
        Ends(AtomicU64::new(sum.map_or(0, |sum| sum.max(1))))
    }
}

impl Clone for Ends {
    fn clone(&self) -> Ends {
        self.get().into()
    }
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
