//! Passing messages, each with at most one open file or socket, to another process (unix(7), SCM_RIGHTS).
//!
//! Owns: the sockets' kind: a message arrives whole or not at all. Guarantees: what is passed is closed on `exec` and by
//! whoever drops it. Does not know what messages mean.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// Bytes of the longest message that is received whole.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// Two sockets that are connected to each other. Receiving waits, unless told not to.
///
/// # Errors
/// No descriptors or memory.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message, and with it `passed`. Does not wait.
///
/// # Errors
/// `EPIPE` if nobody will receive it, `EAGAIN` if too much waits to be received already, `EMSGSIZE`.
pub fn send(socket: BorrowedFd<'_>, message: &[u8], passed: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = passed.as_slice();
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits, "there is space for one");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let slices = [IoSlice::new(message)];
    retry_on_intr(|| rustix::net::sendmsg(socket, &slices, &mut control, flags)).map(drop)
}

/// Receives a message of at most [`MESSAGE_BYTES_MAX`] bytes into `buffer`, and what was passed with it. An empty one
/// means that the other end is gone. With `wait`, waits for it.
///
/// # Errors
/// `EAGAIN` if none is there; else the other end is gone as well.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>, wait: bool) -> Result<Option<OwnedFd>, Errno> {
    buffer.resize(MESSAGE_BYTES_MAX, 0);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let received = retry_on_intr(|| rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags));
    buffer.truncate(received.as_ref().map_or(0, |received| received.bytes));
    received?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(passed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_that_is_passed_is_the_same_file() {
        let (one, other) = pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send(one.as_fd(), b"take this", Some(file.as_fd())).unwrap();
        let mut message = Vec::new();
        let passed = receive(other.as_fd(), &mut message, true).unwrap().unwrap();
        assert_eq!(message, b"take this");
        rustix::io::pwrite(&passed, b"abc", 0).unwrap();
        let mut content = [0; 3];
        rustix::io::pread(&file, &mut content, 0).unwrap();
        assert_eq!(&content, b"abc");
    }

    #[test]
    fn nothing_and_the_end_are_told_apart() {
        let (one, other) = pair().unwrap();
        let mut message = Vec::new();
        assert_eq!(receive(other.as_fd(), &mut message, false).err(), Some(Errno::AGAIN));
        drop(one);
        assert!(receive(other.as_fd(), &mut message, false).is_ok() && message.is_empty());
        assert_eq!(send(other.as_fd(), b"x", None), Err(Errno::PIPE));
    }
}
