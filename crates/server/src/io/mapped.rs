//! Windows onto files: mappings that are kept for the next request for the same file, as Flash kept them (Flash 5.4).
//!
//! Owns: a bounded number of windows, of which the one used longest ago makes room. Guarantees: a window is found by the
//! file it shows, not by a descriptor or a name, so it never shows another one; what lies beyond the end of the file is
//! not sent. A window keeps its file's blocks on the disk, even if the file is removed, until others have taken its place.

use std::os::fd::BorrowedFd;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::sys::mapping::Mapping;

/// The windows of one worker.
#[derive(Debug, Default)]
pub struct Windows {
    /// The one used last at the end.
    windows: Vec<(View, Mapping)>,
}

/// What a window shows. While it is mapped, no other file can have these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    device: u64,
    inode: u64,
    offset: u64,
}

/// Windows of a worker. With [`WINDOW_BYTES`] they show 16 MiB at once, for which a look through all of them is cheap.
const WINDOWS_MAX: usize = 16;
/// Bytes that a window shows, and what its beginning is a multiple of. A stretch that goes on in the next window is sent
/// with two calls.
pub const WINDOW_BYTES: u64 = 1 << 20;

impl Windows {
    /// Sends `bytes` and as much of the `length` bytes of `file` from `offset` on as one window shows and the socket
    /// takes. Returns the bytes taken.
    ///
    /// # Errors
    /// `EFAULT` if the file has become shorter than that; what `mmap(2)` and `sendmsg(2)` say.
    pub fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        bytes: &[u8],
        (file, offset, length): (BorrowedFd<'_>, u64, u64),
        flags: SendFlags,
    ) -> Result<usize, Errno> {
        let state = fstat(file)?;
        // The rest of the page in which the file ends could be read: as zeros.
        if u64::try_from(state.st_size).unwrap_or(0) < offset + length {
            return Err(Errno::FAULT);
        }
        let start = offset % WINDOW_BYTES;
        let view = View { device: state.st_dev, inode: state.st_ino, offset: offset - start };
        let shown = length.min(WINDOW_BYTES - start);
        let window = self.window(file, view)?;
        let flags = if shown < length { flags | SendFlags::MORE } else { flags };
        rustix::io::retry_on_intr(|| window.send_after(bytes, start as usize, shown as usize, socket, flags))
    }

    fn window(&mut self, file: BorrowedFd<'_>, view: View) -> Result<&Mapping, Errno> {
        let window = match self.windows.iter().rposition(|(other, _)| *other == view) {
            Some(index) => self.windows.remove(index),
            None => {
                let mapping = Mapping::new(file, view.offset, WINDOW_BYTES as usize)?;
                if self.windows.len() == WINDOWS_MAX {
                    self.windows.remove(0);
                }
                (view, mapping)
            }
        };
        self.windows.push(window);
        self.windows.last().map(|(_, mapping)| mapping).ok_or(Errno::NOMEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    fn file_of(content: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        file
    }

    fn sent(windows: &mut Windows, file: &File, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let bytes = windows.send(ours.as_fd(), b"", (file.as_fd(), offset, length), SendFlags::DONTWAIT)?;
        let mut received = vec![0; bytes];
        peer.read_exact(&mut received).unwrap();
        Ok(received)
    }

    #[test]
    fn each_file_is_shown_as_it_is_however_many_there_are() {
        let mut windows = Windows::default();
        let files: Vec<File> = (0..WINDOWS_MAX as u8 + 4).map(|byte| file_of(&[byte; 100])).collect();
        for _ in 0..2 {
            for (byte, file) in files.iter().enumerate() {
                assert_eq!(sent(&mut windows, file, 10, 90), Ok(vec![byte as u8; 90]));
            }
        }
        assert_eq!(windows.windows.len(), WINDOWS_MAX);
    }

    #[test]
    fn a_stretch_ends_with_its_window_and_goes_on_in_the_next() {
        let mut windows = Windows::default();
        let mut content = vec![1; WINDOW_BYTES as usize];
        content.extend([2; 50]);
        let file = file_of(&content);
        assert_eq!(sent(&mut windows, &file, WINDOW_BYTES - 5, 20), Ok(vec![1; 5]));
        assert_eq!(sent(&mut windows, &file, WINDOW_BYTES, 15), Ok(vec![2; 15]));
    }

    #[test]
    fn nothing_is_made_up_for_what_was_cut_off() {
        let mut windows = Windows::default();
        let file = file_of(&[1; 5000]);
        assert_eq!(sent(&mut windows, &file, 0, 5000), Ok(vec![1; 5000]));
        file.set_len(4500).unwrap();
        assert_eq!(sent(&mut windows, &file, 4000, 1000), Err(Errno::FAULT));
        assert_eq!(sent(&mut windows, &file, 4000, 500), Ok(vec![1; 500]));
    }
}
