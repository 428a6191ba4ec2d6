//! Passing messages, each with a few open files or sockets, to another process (unix(7), SCM_RIGHTS).
//!
//! Owns: the sockets' kind: a message arrives whole or not at all. Guarantees: passed descriptors close on `exec`, and
//! when their owner drops them. Does not know what messages mean.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// Bytes of the longest message that is received whole.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// The most files or sockets that are passed with one message.
pub const PASSED_MAX: usize = 32;

/// Two sockets that are connected to each other. Receiving waits, unless told not to.
///
/// # Errors
/// No descriptors or memory.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends a message, and with it `passed`, of which there are at most [`PASSED_MAX`]. Does not wait.
///
/// # Errors
/// `EPIPE` if there is no receiver, `EAGAIN` if too much waits to be received already, `ETOOMANYREFS` if too many files
/// are on their way, `EMSGSIZE` if it is too long or passes too much.
pub fn send_with(socket: BorrowedFd<'_>, message: &[u8], passed: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = passed.len() <= PASSED_MAX;
    if !fits || !(passed.is_empty() || control.push(SendAncillaryMessage::ScmRights(passed))) {
        return Err(Errno::MSGSIZE);
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let slices = [IoSlice::new(message)];
    retry_on_intr(|| rustix::net::sendmsg(socket, &slices, &mut control, flags)).map(drop)
}

/// Receives a message of at most the length of `buffer`, and what was passed with it: how many bytes. None mean that
/// the other end is gone. With `wait`, waits for it.
///
/// # Errors
/// `EAGAIN` if none is there; `EMFILE` if there were not enough descriptors for what was passed, or there was not
/// enough room for the message, and so it is lost; else the other end is gone as well.
pub fn receive_with(socket: BorrowedFd<'_>, buffer: &mut [u8], wait: bool) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(PASSED_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let received = retry_on_intr(|| rustix::net::recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags))?;
    let mut passed = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            passed.extend(descriptors);
        }
    }
    if received.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC) {
        return Err(Errno::MFILE);
    }
    Ok((received.bytes, passed))
}

/// Sends a message, and with it `passed`. Does not wait.
///
/// # Errors
/// As [`send_with`].
pub fn send(socket: BorrowedFd<'_>, message: &[u8], passed: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    send_with(socket, message, passed.as_slice())
}

/// Receives a message of at most [`MESSAGE_BYTES_MAX`] bytes into `buffer`, and what was passed with it. An empty one
/// means that the other end is gone. With `wait`, waits for it.
///
/// # Errors
/// As [`receive_with`].
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>, wait: bool) -> Result<Option<OwnedFd>, Errno> {
    buffer.resize(MESSAGE_BYTES_MAX, 0);
    let received = receive_with(socket, buffer, wait);
    buffer.truncate(received.as_ref().map_or(0, |(bytes, _)| *bytes));
    received.map(|(_, passed)| passed.into_iter().next())
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
    fn as_many_files_as_may_be_arrive_in_their_order_and_more_are_refused() {
        let (one, other) = pair().unwrap();
        let files: Vec<_> = (0..=PASSED_MAX).map(|_| tempfile::tempfile().unwrap()).collect();
        let passed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        assert_eq!(send_with(one.as_fd(), b"x", &passed), Err(Errno::MSGSIZE));
        send_with(one.as_fd(), b"x", &passed[..PASSED_MAX]).unwrap();
        let (bytes, received) = receive_with(other.as_fd(), &mut [0; 10], false).unwrap();
        assert_eq!((bytes, received.len()), (1, PASSED_MAX));
        let inode = |file: BorrowedFd<'_>| rustix::fs::fstat(file).unwrap().st_ino;
        assert!(received.iter().zip(&passed).all(|(received, sent)| inode(received.as_fd()) == inode(*sent)));
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
