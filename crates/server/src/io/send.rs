//! Sending a transmit: which system calls it takes.
//!
//! Owns: the choice between `send`, `sendmsg` and `sendfile` and the sizes at which it changes. Guarantees: never waits
//! for the peer; one call for owned bytes and content in memory together. Does not test residency: a file segment has
//! been made ready before it gets here.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use lamna_proto::transmit::{Segment, Transmit};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};

/// What the socket took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything that was offered.
    All(u64),
    /// So many bytes. The socket may or may not be full; it is if there were none.
    Part(u64),
    /// The file ended before the segment did: it has been truncated.
    Truncated,
    /// The connection is gone.
    Broken,
}

/// Offers `transmit` to the socket.
pub fn send(socket: BorrowedFd<'_>, transmit: &Transmit<'_>) -> Sent {
    let more = if transmit.more { SendFlags::MORE } else { SendFlags::empty() };
    match transmit.segment {
        None => outcome(send_bytes(socket, transmit.bytes, more), transmit.bytes.len() as u64),
        Some(Segment::Shared(content)) => {
            let offered = (transmit.bytes.len() + content.len()) as u64;
            outcome(gather(socket, transmit.bytes, content, more), offered)
        }
        Some(Segment::File { file, offset, length }) => {
            let owned = transmit.bytes.len() as u64;
            if owned > 0 {
                match outcome(send_bytes(socket, transmit.bytes, SendFlags::MORE), owned) {
                    Sent::All(_) => {}
                    other => return other,
                }
            }
            send_file(socket, file.as_fd(), offset, length, owned)
        }
    }
}

fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8], more: SendFlags) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more))
}

fn gather(socket: BorrowedFd<'_>, owned: &[u8], content: &[u8], more: SendFlags) -> Result<usize, Errno> {
    let slices = [IoSlice::new(owned), IoSlice::new(content)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, &slices, &mut SendAncillaryBuffer::default(), flags))
}

fn send_file(socket: BorrowedFd<'_>, file: BorrowedFd<'_>, offset: u64, length: u64, owned: u64) -> Sent {
    let mut at = offset;
    let count = usize::try_from(length).unwrap_or(usize::MAX);
    match rustix::io::retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut at), count)) {
        Ok(0) => Sent::Truncated,
        Ok(bytes) if bytes as u64 == length => Sent::All(owned + length),
        Ok(bytes) => Sent::Part(owned + bytes as u64),
        Err(Errno::AGAIN) => Sent::Part(owned),
        Err(_) => Sent::Broken,
    }
}

fn outcome(result: Result<usize, Errno>, offered: u64) -> Sent {
    match result {
        Ok(bytes) if bytes as u64 == offered => Sent::All(offered),
        Ok(bytes) => Sent::Part(bytes as u64),
        Err(Errno::AGAIN) => Sent::Part(0),
        Err(_) => Sent::Broken,
    }
}
