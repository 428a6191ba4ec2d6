//! Content of a file in memory, read for one exchange.
//!
//! Owns: the bytes from when a helper, or the ring of the proactor, begins to read them until the socket has taken
//! them; who sends them is the exchange that they were read for. Guarantees: they count as memory of the store
//! meanwhile, and there are never more than a part of what it may hold. Without room for it a helper brings a range
//! into the page cache instead, as everything that was there already is sent from there; the ring reads the smallest
//! piece.
//!
//! Between a helper's reading and a worker's sending the kernel may evict what was read, and does so where memory is
//! short; the worker, and with it everybody else's requests, would wait for the disk. What it has in its hands cannot
//! go.

use std::os::fd::AsFd;

use lamna_io::{KernelFeatures, Wait, read};
use lamna_proto::exchange::ContentBuffer;
use lamna_site::cache::Store;
use lamna_site::cache::leased_buffer::{self, LeasedBuffer};

use crate::worker::context::FileRange;

/// The beginning of a range of a file.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    room: LeasedBuffer,
    /// How many of its bytes have been read.
    length: usize,
}

impl ReadBuffer {
    /// The bytes that were read: the first `length` ones of `room`.
    ///
    /// # Panics
    /// If it has fewer.
    pub(crate) fn of(room: LeasedBuffer, length: usize) -> ReadBuffer {
        assert!(length <= room.bytes.len(), "what was read has been read into the buffer");
        ReadBuffer { room, length }
    }

    /// The beginning of `range`, read from its file. Nothing if `store` has no room for it, if it cannot be read as it
    /// was described. Waits for the disk.
    pub(crate) fn read(range: &FileRange, store: &Store, abilities: &KernelFeatures) -> Option<ReadBuffer> {
        let file = range.representation.file.as_ref()?;
        let mut room = leased_buffer::lend(range.length, store)?;
        let read = read::read(file.as_fd(), &mut room.bytes, range.offset, Wait::Yes, abilities).ok()?;
        (read == room.bytes.len()).then(|| ReadBuffer::of(room, read))
    }
}

impl ContentBuffer for ReadBuffer {
    fn bytes(&self) -> &[u8] {
        &self.room.bytes[..self.length]
    }

    /// The store has lent them.
    fn own_bytes(&self) -> usize {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::message::Status;
    use lamna_proto::resource::{Description, Representation};
    use std::sync::Arc;

    fn range(content: &[u8], offset: u64, length: u64) -> FileRange {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        let representation = Representation::new(&Description::of(Status(200)), Some(Arc::new(file.into()))).unwrap();
        FileRange { representation: Arc::new(representation), offset, length }
    }

    #[test]
    fn it_has_the_bytes_of_its_range() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        let range = range(b"0123456789", 2, 5);
        assert_eq!(ReadBuffer::read(&range, &store, &abilities).unwrap().bytes(), b"23456");
    }

    #[test]
    fn it_is_memory_of_the_store_while_it_is_there() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        let range = range(&[7; 200_000], 0, 200_000);
        let empty = store.bytes();
        let buffer = ReadBuffer::read(&range, &store, &abilities).unwrap();
        assert!(store.bytes() >= empty + 200_000);
        // A quarter of the store is 262,144 bytes, a third of it 349,525, half of it 524,288.
        let more: Vec<ReadBuffer> =
            std::iter::from_fn(|| ReadBuffer::read(&range, &store, &abilities)).take(100).collect();
        let lengths: Vec<usize> = more.iter().map(|buffer| buffer.bytes().len()).collect();
        assert_eq!(lengths, [vec![65_536; 2], vec![16_384; 11]].concat());
        drop((buffer, more));
        assert_eq!(store.bytes(), empty);
        assert!(ReadBuffer::read(&range, &store, &abilities).is_some());
    }

    #[test]
    fn where_everything_is_lent_a_small_piece_is_read_beside_it() {
        let store = Store::new(1 << 20, 10);
        let lent: Vec<LeasedBuffer> = std::iter::from_fn(|| leased_buffer::lend(1 << 20, &store)).take(1000).collect();
        let full = store.bytes();
        let lent_bytes: usize = lent.iter().map(|room| room.bytes.len()).sum();
        assert!(((1 << 19) - 16_384..=1 << 19).contains(&lent_bytes), "half of it is the store's own");
        assert_eq!(leased_buffer::lend_or_small(1 << 20, &store).bytes.len(), 16_384);
        assert_eq!(leased_buffer::lend_or_small(100, &store).bytes.len(), 100);
        assert_eq!(store.bytes(), full);
        drop(lent);
        assert_eq!(leased_buffer::lend_or_small(1 << 20, &store).bytes.len(), 262_144);
    }

    #[test]
    fn a_file_that_is_shorter_than_described_gives_nothing() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        assert!(ReadBuffer::read(&range(b"0123", 2, 5), &store, &abilities).is_none());
    }
}
