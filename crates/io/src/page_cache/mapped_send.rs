//! Sending ranges of files from the chunks of them that are mapped
//! ([`chunks`](crate::page_cache::mapped_chunks::Chunks)).
//!
//! Guarantees: what lies beyond the end of the file is not sent, if that is where it is when a range begins to be sent.
//! If the file is truncated at that very moment, the rest of its last page is sent as zeros. No answer ends with them:
//! its last page is copied, and the file looked at after that ([`send`](crate::send)).

use std::os::fd::BorrowedFd;

use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::page_cache::mapped_chunks::{CHUNK_BYTES, Chunks};

/// Sends `bytes` and as much of the `length` bytes of `file` from `offset` on as one chunk shows and the socket takes.
/// Returns the bytes taken.
///
/// # Errors
/// `EFAULT` if the file has become shorter than that; what `mmap(2)` and `sendmsg(2)` say.
pub fn send(
    chunks: &Chunks,
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
    let start = offset % CHUNK_BYTES;
    let shown = length.min(CHUNK_BYTES - start);
    let chunk = chunks.find(file, &state, offset)?;
    let flags = if shown < length { flags | SendFlags::MORE } else { flags };
    rustix::io::retry_on_intr(|| chunk.mapping.send_after(bytes, start as usize, shown as usize, socket, flags))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn file_of(content: &[u8]) -> File {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        file
    }

    fn sent(chunks: &Chunks, file: &File, offset: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let range = (file.as_fd(), offset, length);
        let bytes = send(chunks, ours.as_fd(), b"", range, SendFlags::DONTWAIT)?;
        let mut received = vec![0; bytes];
        peer.read_exact(&mut received).unwrap();
        Ok(received)
    }

    #[test]
    fn each_file_is_shown_as_it_is_however_many_there_are() {
        // Room for sixteen pages.
        let chunks = Chunks::new(1 << 16, Arc::default());
        let files: Vec<File> = (0..20).map(|byte| file_of(&[byte; 100])).collect();
        for _ in 0..2 {
            for (byte, file) in files.iter().enumerate() {
                assert_eq!(sent(&chunks, file, 10, 90), Ok(vec![byte as u8; 90]));
            }
        }
        assert_eq!(chunks.bytes(), 1 << 16);
    }

    #[test]
    fn a_stretch_ends_with_its_chunk_and_goes_on_in_the_next() {
        let chunks = Chunks::new(1 << 24, Arc::default());
        let mut content = vec![1; CHUNK_BYTES as usize];
        content.extend([2; 50]);
        let file = file_of(&content);
        assert_eq!(sent(&chunks, &file, CHUNK_BYTES - 5, 20), Ok(vec![1; 5]));
        assert_eq!(sent(&chunks, &file, CHUNK_BYTES, 15), Ok(vec![2; 15]));
    }

    #[test]
    fn nothing_is_made_up_for_what_was_cut_off() {
        let chunks = Chunks::new(1 << 24, Arc::default());
        let file = file_of(&[1; 5000]);
        assert_eq!(sent(&chunks, &file, 0, 5000), Ok(vec![1; 5000]));
        file.set_len(4500).unwrap();
        assert_eq!(sent(&chunks, &file, 4000, 1000), Err(Errno::FAULT));
        assert_eq!(sent(&chunks, &file, 4000, 500), Ok(vec![1; 500]));
    }
}
