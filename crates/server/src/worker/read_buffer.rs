//! A range of a file in memory, on its way to one connection.
//!
//! Owns: the bytes from when a helper, or the ring of the proactor, begins to read them until the socket has taken them.
//! Guarantees: they count as memory of the store meanwhile, and there are never more than a part of what it may hold. Without
//! room for it a helper brings a range into the page cache instead, as everything that was there already is sent from
//! there; the ring reads the smallest piece.
//!
//! Between a helper's reading and a worker's sending the kernel may evict what was read, and does so where memory is short;
//! the worker, and with it everybody else's requests, would wait for the disk. What it has in its hands cannot go.

use crate::cache::leased_buffer::LeasedBuffer;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use lamna_proto::resource::Representation;
use lamna_proto::time::Instant;

use crate::cache::Store;
use crate::io::{KernelFeatures, Wait, read};
use crate::worker::context::FileRange;

/// A range of a file in memory.
#[derive(Debug)]
pub struct ReadBuffer {
    /// Keeps the file open, so that its descriptor stands for no other.
    representation: Arc<Representation>,
    offset: u64,
    room: LeasedBuffer,
    /// Until when its peer may take it.
    pub patience: Option<Instant>,
}

/// How long a peer may take for a portion: at 256 KiB a second it takes the largest. What it has not taken by then is given back
/// and read again when it takes more, so that those who read slowly do not keep the memory that others need.
pub(crate) const PATIENCE_MS: u32 = 4_000;

impl ReadBuffer {
    /// The beginning of `range`, read from its file. Nothing if `store` has no room for it, if it cannot be read as it was
    /// described. Waits for the disk.
    pub fn read(range: &FileRange, store: &Store, abilities: &KernelFeatures) -> Option<Box<ReadBuffer>> {
        let file = range.representation.file.as_ref()?;
        let mut room = LeasedBuffer::lent(range.length, store)?;
        let read = read::read(file.as_fd(), &mut room.bytes, range.offset, Wait::Yes, abilities).ok()?;
        let representation = range.representation.clone();
        (read == room.bytes.len())
            .then(|| Box::new(ReadBuffer { representation, offset: range.offset, room, patience: None }))
    }

    /// Bytes of it.
    pub fn length(&self) -> u64 {
        self.room.bytes.len() as u64
    }

    /// These `length` bytes of `file` from `offset` on, if they are in it.
    pub fn part(&self, file: &OwnedFd, offset: u64, length: u64) -> Option<&[u8]> {
        let is_its = self.representation.file.as_ref().is_some_and(|own| own.as_raw_fd() == file.as_raw_fd());
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.room.bytes.get(start..end).filter(|_| is_its)
    }

    /// Whether nothing of it is left when all bytes before `end` of the file have been sent.
    pub fn ends_at(&self, end: u64) -> bool {
        self.offset + self.length() <= end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lamna_proto::message::Status;
    use lamna_proto::resource::Description;

    fn range(content: &[u8], offset: u64, length: u64) -> FileRange {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        let representation = Representation::new(&Description::of(Status(200)), Some(Arc::new(file.into()))).unwrap();
        FileRange { representation: Arc::new(representation), offset, length }
    }

    #[test]
    fn it_has_the_bytes_of_its_stretch_of_its_file_and_no_others() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        let range = range(b"0123456789", 2, 5);
        let portion = ReadBuffer::read(&range, &store, &abilities).unwrap();
        let file = range.representation.file.as_ref().unwrap();
        assert_eq!(portion.part(file, 2, 5), Some(&b"23456"[..]));
        assert_eq!(portion.part(file, 4, 3), Some(&b"456"[..]));
        assert_eq!((portion.part(file, 1, 2), portion.part(file, 5, 3)), (None, None));
        let other: OwnedFd = tempfile::tempfile().unwrap().into();
        assert_eq!(portion.part(&other, 2, 5), None);
        assert!(portion.ends_at(7) && !portion.ends_at(6));
    }

    #[test]
    fn it_is_memory_of_the_store_while_it_is_there() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        let range = range(&[7; 200_000], 0, 200_000);
        let empty = store.bytes();
        let portion = ReadBuffer::read(&range, &store, &abilities).unwrap();
        assert!(store.bytes() >= empty + 200_000);
        // A quarter of the store is 262,144 bytes, a third of it 349,525, half of it 524,288.
        let more: Vec<Box<ReadBuffer>> =
            std::iter::from_fn(|| ReadBuffer::read(&range, &store, &abilities)).take(100).collect();
        let lengths: Vec<u64> = more.iter().map(|portion| portion.length()).collect();
        assert_eq!(lengths, [vec![65_536; 2], vec![16_384; 11]].concat());
        drop((portion, more));
        assert_eq!(store.bytes(), empty);
        assert!(ReadBuffer::read(&range, &store, &abilities).is_some());
    }

    #[test]
    fn where_everything_is_lent_a_small_piece_is_read_beside_it() {
        let store = Store::new(1 << 20, 10);
        let lent: Vec<LeasedBuffer> = std::iter::from_fn(|| LeasedBuffer::lent(1 << 20, &store)).take(1000).collect();
        let full = store.bytes();
        let lent_bytes: usize = lent.iter().map(|room| room.bytes.len()).sum();
        assert!(((1 << 19) - 16_384..=1 << 19).contains(&lent_bytes), "half of it is the store's own");
        assert_eq!(LeasedBuffer::lent_or_small(1 << 20, &store).bytes.len(), 16_384);
        assert_eq!(LeasedBuffer::lent_or_small(100, &store).bytes.len(), 100);
        assert_eq!(store.bytes(), full);
        drop(lent);
        assert_eq!(LeasedBuffer::lent_or_small(1 << 20, &store).bytes.len(), 262_144);
    }

    #[test]
    fn a_file_that_is_shorter_than_described_gives_nothing() {
        let (store, abilities) = (Store::new(1 << 20, 10), KernelFeatures::default());
        assert!(ReadBuffer::read(&range(b"0123", 2, 5), &store, &abilities).is_none());
    }
}
