//! Stretches of files that are mapped into memory for system calls to read, and for nothing else.
//!
//! Owns: the mapping, and sending from it. Guarantees: no code in this process ever reads a mapped byte. So a file that
//! is truncated meanwhile costs an EFAULT and not a SIGBUS, and one that is changed breaks no promise of the language.
//! Does not test residency: a system call on a page that is not in memory waits for the disk.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::SendFlags;

/// A range of a file in memory. It keeps the file, even one that is removed, as long as it lives.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the address is never read through, only handed to the kernel, which may read it from any thread; and it is
// unmapped from whatever thread drops it.
unsafe impl Send for Mapping {}

// SAFETY: likewise: nothing is read or written through a shared one but by the kernel.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `length` bytes of `file` from `offset` on, which is a multiple of the page size. They may lie beyond its
    /// end.
    ///
    /// # Errors
    /// The error of `mmap(2)`: no memory, or a file that cannot be mapped.
    pub fn new(file: BorrowedFd<'_>, offset: u64, length: usize) -> Result<Mapping, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe { mmap(null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset) }?;
        let address = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { address, length })
    }

    /// Sends `bytes` and then the `length` bytes at `start` of the mapping, as far as the socket takes them.
    ///
    /// # Errors
    /// The error of `sendmsg(2)`; `EFAULT` if nothing could be sent and the file no longer has these bytes.
    ///
    /// # Panics
    /// If the mapping is not that long.
    pub fn send_after(
        &self,
        bytes: &[u8],
        start: usize,
        length: usize,
        socket: BorrowedFd<'_>,
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        assert!(start <= self.length && length <= self.length - start, "what is sent is mapped");
        // SAFETY: `start` is within the mapping, or one past its end.
        let content = unsafe { self.address.add(start) };
        let mut slices = [
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() },
            libc::iovec { iov_base: content.as_ptr().cast(), iov_len: length },
        ];
        // SAFETY: a plain structure of the C library, for which all zeros are valid.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = slices.as_mut_ptr();
        message.msg_iovlen = slices.len() as _;
        // SAFETY: the message and its slices live until the call returns; they name `bytes`, which is borrowed, and
        // memory that is mapped as long as `self`. The kernel only reads them, and says EFAULT where it cannot.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags.bits() as libc::c_int) };
        usize::try_from(sent).map_err(|_| {
            let number = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
            Errno::from_raw_os_error(number)
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: only `self` has the address. A failure would leave the memory mapped, which is sound.
        let _ = unsafe { munmap(self.address.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_of_a_file_that_was_truncated_are_an_error_and_no_signal() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[7; 8192], 0).unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, 8192).unwrap();
        let (ours, mut peer) = UnixStream::pair().unwrap();
        assert_eq!(mapping.send_after(b"head", 4090, 10, ours.as_fd(), SendFlags::DONTWAIT), Ok(14));
        let mut received = [0; 14];
        peer.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"head\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07");
        file.set_len(0).unwrap();
        assert_eq!(mapping.send_after(b"", 0, 10, ours.as_fd(), SendFlags::DONTWAIT), Err(Errno::FAULT));
    }

    #[test]
    #[should_panic(expected = "what is sent is mapped")]
    fn what_is_not_mapped_is_never_sent() {
        let file = tempfile::tempfile().unwrap();
        let mapping = Mapping::new(file.as_fd(), 0, 4096).unwrap();
        let (ours, _peer) = UnixStream::pair().unwrap();
        let _ = mapping.send_after(b"", 4000, 100, ours.as_fd(), SendFlags::DONTWAIT);
    }
}
