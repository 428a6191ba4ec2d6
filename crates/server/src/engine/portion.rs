//! A stretch of a file in memory, on its way to one connection.
//!
//! Owns: the bytes from when a helper, or the ring of the proactor, begins to read them until the socket has taken them.
//! Guarantees: they count as memory of the store meanwhile, and there are never more than a part of what it may hold. Without
//! room for it a helper brings a stretch into the page cache instead, as everything that was there already is sent from
//! there; the ring reads the smallest piece.
//!
//! Between a helper's reading and a worker's sending the kernel may evict what was read, and does so where memory is short;
//! the worker, and with it everybody else's requests, would wait for the disk. What it has in its hands cannot go.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use lamna_proto::resource::Representation;
use lamna_proto::time::Instant;

use crate::cache::{Loan, Store};
use crate::engine::desk::Stretch;
use crate::engine::stretch::QUANTUM_BYTES;
use crate::io::{Abilities, Wait, read};

/// What is read at once, the most first, as long as all that is lent is at most one part in so many of the store, and never more
/// than half of it, so that those who read slowly what is not in memory leave it that much: what disks take as one request, as much as is sent at once, and so little that there is nearly always room for everybody.
const SIZES: [(u64, u64); 4] = [(1 << 20, 8), (QUANTUM_BYTES, 4), (64 * 1024, 3), (16 * 1024, 2)];

/// A stretch of a file in memory.
#[derive(Debug)]
pub struct Portion {
    /// Keeps the file open, so that its descriptor stands for no other.
    representation: Arc<Representation>,
    offset: u64,
    room: Room,
    /// Until when its peer may take it.
    pub patience: Option<Instant>,
}

/// How long a peer may take for a portion: at 256 KiB a second it takes the largest. What it has not taken by then is given back
/// and read again when it takes more, so that those who read slowly do not keep the memory that others need.
pub(super) const PATIENCE_MS: u32 = 4_000;

/// Memory that a file is read to, zeros at first.
#[derive(Debug)]
pub struct Room {
    /// The memory.
    pub bytes: Vec<u8>,
    /// What it takes of the store.
    _loan: Option<Loan>,
}

impl Room {
    /// For the beginning of the next `length` bytes of a file, as much as `store` has room for, if it has any.
    pub fn lent(length: u64, store: &Store) -> Option<Room> {
        let loan = SIZES.iter().find_map(|&(bytes, share)| store.lend(length.min(bytes), share))?;
        Some(Room { bytes: vec![0; usize::try_from(loan.bytes()).ok()?], _loan: Some(loan) })
    }

    /// The same, and if there is none for the smallest piece all the same, which is as much as a connection takes anyway.
    pub fn lent_or_small(length: u64, store: &Store) -> Room {
        let [.., (smallest, _)] = SIZES;
        Room::lent(length, store).unwrap_or_else(|| Room::beside(length.min(smallest) as usize))
    }

    /// For all of `length` bytes, which do not count as the store's.
    pub fn beside(length: usize) -> Room {
        Room { bytes: vec![0; length], _loan: None }
    }

    /// With these bytes in it.
    #[cfg(test)]
    pub fn holding(bytes: &[u8]) -> Room {
        Room { bytes: bytes.to_vec(), _loan: None }
    }
}

impl Portion {
    /// The beginning of `stretch`, read from its file. Nothing if `store` has no room for it, if it cannot be read as it was
    /// described. Waits for the disk.
    pub fn read(stretch: &Stretch, store: &Store, abilities: &Abilities) -> Option<Box<Portion>> {
        let file = stretch.representation.file.as_ref()?;
        let mut room = Room::lent(stretch.length, store)?;
        let read = read::read(file.as_fd(), &mut room.bytes, stretch.offset, Wait::Yes, abilities).ok()?;
        let representation = stretch.representation.clone();
        (read == room.bytes.len())
            .then(|| Box::new(Portion { representation, offset: stretch.offset, room, patience: None }))
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

    fn stretch(content: &[u8], offset: u64, length: u64) -> Stretch {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, content, 0).unwrap();
        let representation = Representation::new(&Description::of(Status(200)), Some(Arc::new(file.into()))).unwrap();
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
        // A quarter of the store is 262,144 bytes, a third of it 349,525, half of it 524,288.
        let more: Vec<Box<Portion>> =
            std::iter::from_fn(|| Portion::read(&stretch, &store, &abilities)).take(100).collect();
        let lengths: Vec<u64> = more.iter().map(|portion| portion.length()).collect();
        assert_eq!(lengths, [vec![65_536; 2], vec![16_384; 11]].concat());
        drop((portion, more));
        assert_eq!(store.bytes(), empty);
        assert!(Portion::read(&stretch, &store, &abilities).is_some());
    }

    #[test]
    fn where_everything_is_lent_a_small_piece_is_read_beside_it() {
        let store = Store::new(1 << 20, 10);
        let lent: Vec<Room> = std::iter::from_fn(|| Room::lent(1 << 20, &store)).take(1000).collect();
        let full = store.bytes();
        let lent_bytes: usize = lent.iter().map(|room| room.bytes.len()).sum();
        assert!(((1 << 19) - 16_384..=1 << 19).contains(&lent_bytes), "half of it is the store's own");
        assert_eq!(Room::lent_or_small(1 << 20, &store).bytes.len(), 16_384);
        assert_eq!(Room::lent_or_small(100, &store).bytes.len(), 100);
        assert_eq!(store.bytes(), full);
        drop(lent);
        assert_eq!(Room::lent_or_small(1 << 20, &store).bytes.len(), 262_144);
    }

    #[test]
    fn a_file_that_is_shorter_than_described_gives_nothing() {
        let (store, abilities) = (Store::new(1 << 20, 10), Abilities::default());
        assert!(Portion::read(&stretch(b"0123", 2, 5), &store, &abilities).is_none());
    }
}
