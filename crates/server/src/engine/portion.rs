//! A stretch of a file in memory, on its way to one connection.
//!
//! Owns: the bytes from when a helper has read them until the socket has taken them. Guarantees: they count as memory of the
//! store meanwhile, and there are never more than a part of what it may hold; without room for it a stretch is brought into
//! the page cache instead, as everything that was there already is sent from there.
//!
//! Between a helper's reading and a worker's sending the kernel may evict what was read, and does so where memory is short;
//! the worker, and with it everybody else's requests, would wait for the disk. What it has in its hands cannot go.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use lamna_proto::resource::Representation;

use crate::cache::{Loan, Store};
use crate::engine::desk::Stretch;
use crate::engine::stretch::QUANTUM_BYTES;
use crate::io::{Abilities, Wait, read};

/// What is read at once, the most first, as long as all that is lent is at most one part in so many of the store: what disks
/// take as one request, as much as is sent at once, and so little that there is nearly always room for everybody.
const SIZES: [(u64, u64); 4] = [(1 << 20, 8), (QUANTUM_BYTES, 4), (64 * 1024, 2), (16 * 1024, 1)];

/// A stretch of a file in memory.
#[derive(Debug)]
pub struct Portion {
    /// Keeps the file open, so that its descriptor stands for no other.
    representation: Arc<Representation>,
    offset: u64,
    bytes: Vec<u8>,
    _loan: Loan,
}

impl Portion {
    /// The beginning of `stretch`, read from its file. Nothing if `store` has no room for it, if it cannot be read as it was
    /// described. Waits for the disk.
    pub fn read(stretch: &Stretch, store: &Store, abilities: &Abilities) -> Option<Box<Portion>> {
        let file = stretch.representation.file.as_ref()?;
        let loan = SIZES.iter().find_map(|&(bytes, share)| store.lend(stretch.length.min(bytes), share))?;
        let mut bytes = vec![0; usize::try_from(loan.bytes()).ok()?];
        let read = read::read(file.as_fd(), &mut bytes, stretch.offset, Wait::Yes, abilities).ok()?;
        let representation = stretch.representation.clone();
        (read == bytes.len()).then(|| Box::new(Portion { representation, offset: stretch.offset, bytes, _loan: loan }))
    }

    /// Bytes of it.
    pub fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// These `length` bytes of `file` from `offset` on, if they are in it.
    pub fn part(&self, file: &OwnedFd, offset: u64, length: u64) -> Option<&[u8]> {
        let is_its = self.representation.file.as_ref().is_some_and(|own| own.as_raw_fd() == file.as_raw_fd());
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.bytes.get(start..end).filter(|_| is_its)
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

    fn stretch(content: &[u8], offset: u64, length: u64) -> Stretch {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        let representation = Representation::new(&Description::of(Status(200)), Some(Arc::new(file.into())));
        Stretch { representation: Arc::new(representation), offset, length }
    }

    #[test]
    fn it_has_the_bytes_of_its_stretch_of_its_file_and_no_others() {
        let (store, abilities) = (Store::new(1 << 20, 10), Abilities::default());
        let stretch = stretch(b"0123456789", 2, 5);
        let portion = Portion::read(&stretch, &store, &abilities).unwrap();
        let file = stretch.representation.file.as_ref().unwrap();
        assert_eq!(portion.part(file, 2, 5), Some(&b"23456"[..]));
        assert_eq!(portion.part(file, 4, 3), Some(&b"456"[..]));
        assert_eq!((portion.part(file, 1, 2), portion.part(file, 5, 3)), (None, None));
        let other: OwnedFd = tempfile::tempfile().unwrap().into();
        assert_eq!(portion.part(&other, 2, 5), None);
        assert!(portion.ends_at(7) && !portion.ends_at(6));
    }

    #[test]
    fn it_is_memory_of_the_store_while_it_is_there() {
        let (store, abilities) = (Store::new(1 << 20, 10), Abilities::default());
        let stretch = stretch(&[7; 200_000], 0, 200_000);
        let empty = store.bytes();
        let portion = Portion::read(&stretch, &store, &abilities).unwrap();
        assert!(store.bytes() >= empty + 200_000);
        // A quarter of the store is 262,144 bytes, half of it 524,288.
        let more: Vec<Box<Portion>> =
            std::iter::from_fn(|| Portion::read(&stretch, &store, &abilities)).take(100).collect();
        let lengths: Vec<u64> = more.iter().map(|portion| portion.length()).collect();
        assert_eq!(lengths, [vec![65_536; 4], vec![16_384; 35]].concat());
        drop((portion, more));
        assert_eq!(store.bytes(), empty);
        assert!(Portion::read(&stretch, &store, &abilities).is_some());
    }

    #[test]
    fn a_file_that_is_shorter_than_described_gives_nothing() {
        let (store, abilities) = (Store::new(1 << 20, 10), Abilities::default());
        assert!(Portion::read(&stretch(b"0123", 2, 5), &store, &abilities).is_none());
    }
}
