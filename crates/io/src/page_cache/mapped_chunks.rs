//! Chunks of large files that are mapped, kept for the next request for them (Flash 5.4).
//!
//! Owns: the mappings that are kept, in order of last use, of all workers of a process; the one used longest ago goes
//! when too much is held. Guarantees: a chunk is found by the file that it shows, not by a descriptor or a name, so it
//! never shows another one; no more than the bound is kept, and what is mapped counts as the cache's memory as long as
//! it is, in use or not; small files map no more than their own pages; no lock is held while something is mapped or
//! unmapped.
//!
//! Pages of a mapping are those of the page cache, so they are in memory once. A chunk keeps its file's blocks on the
//! disk, even if the file is removed, until others have taken its place.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use lamna_policy::cache::{Algorithm, Bounded, ObjectId, Objective, Offer};
use lamna_sys::mapping::Mapping;
use lamna_sys::metrics::memory_accounting::MemoryAccount;
use rustix::fs::Stat;
use rustix::io::Errno;

use crate::read::PAGE_BYTES;

/// Bytes that a chunk shows at most, and what its beginning is a multiple of. A range that goes on in the next chunk is
/// sent with two calls.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// The chunks that are kept.
#[derive(Debug)]
pub struct Chunks {
    kept: Mutex<ChunkTable>,
    memory_account: Arc<MemoryAccount>,
}

/// A mapped chunk. Counts as memory of the cache as long as it lives.
#[derive(Debug)]
pub struct Chunk {
    /// From the beginning of the chunk on.
    pub mapping: Mapping,
    bytes: u64,
    memory_account: Arc<MemoryAccount>,
}

/// Which part of which file. While it is mapped, no other file can have these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct View {
    device: u64,
    inode: u64,
    index: u64,
}

struct ChunkTable {
    numbers: HashMap<View, ObjectId>,
    /// By number.
    chunks: Vec<Option<(View, Arc<Chunk>)>>,
    free: Vec<ObjectId>,
    books: Bounded,
}

impl Chunks {
    /// Keeps nothing yet, and `bytes_max` at most.
    pub fn new(bytes_max: u64, memory_account: Arc<MemoryAccount>) -> Chunks {
        let books = Bounded::new(Algorithm::Lru, Objective::Requests, bytes_max);
        let kept = ChunkTable { numbers: HashMap::new(), chunks: Vec::new(), free: Vec::new(), books };
        Chunks { kept: Mutex::new(kept), memory_account }
    }

    /// The chunk of `file`, in the state `stat`, in which `offset` lies, before its end.
    ///
    /// # Errors
    /// The error of `mmap(2)`.
    pub fn find(&self, file: BorrowedFd<'_>, stat: &Stat, offset: u64) -> Result<Arc<Chunk>, Errno> {
        let index = offset / CHUNK_BYTES;
        let view = View { device: stat.st_dev, inode: stat.st_ino, index };
        let end = u64::try_from(stat.st_size).unwrap_or(0).min((index + 1) * CHUNK_BYTES);
        let bytes = (end.saturating_sub(index * CHUNK_BYTES)).next_multiple_of(PAGE_BYTES);
        // One that was mapped when the file was shorter does not show its end.
        if let Some(chunk) = self.lock().look_up(view).filter(|chunk| chunk.bytes >= bytes) {
            return Ok(chunk);
        }
        let mapping = Mapping::new(file, index * CHUNK_BYTES, bytes as usize)?;
        self.memory_account.count_alive(bytes);
        let chunk = Arc::new(Chunk { mapping, bytes, memory_account: self.memory_account.clone() });
        // Unmapped after the lock.
        let gone = self.lock().keep(view, &chunk);
        drop(gone);
        Ok(chunk)
    }

    /// Lets go of all chunks from which no answer is being sent.
    pub fn clear(&self) {
        let bound = self.lock().books.bound_bytes();
        let gone = {
            let mut kept = self.lock();
            let mut gone = kept.rebound(0);
            gone.extend(kept.rebound(bound));
            gone
        };
        drop(gone);
    }

    /// Bytes kept.
    pub fn bytes(&self) -> u64 {
        self.lock().books.bytes()
    }

    /// A panic cannot have left it half changed in a way that matters: what is found is compared with what is asked
    /// for.
    fn lock(&self) -> std::sync::MutexGuard<'_, ChunkTable> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChunkTable {
    fn look_up(&mut self, view: View) -> Option<Arc<Chunk>> {
        let number = *self.numbers.get(&view)?;
        self.books.request(number);
        self.chunks[number.0 as usize].as_ref().map(|(_, chunk)| chunk.clone())
    }

    /// Keeps `chunk` in place of what shows the same. Returns what had to go.
    fn keep(&mut self, view: View, chunk: &Arc<Chunk>) -> Vec<Arc<Chunk>> {
        let mut gone = Vec::new();
        if let Some(number) = self.numbers.get(&view).copied() {
            self.books.withdraw(number);
            gone.extend(self.take(number));
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            // Each maps a page at least, and no address space has four thousand million of them to spare.
            ObjectId(self.chunks.len() as u32 - 1)
        });
        let mut evicted = Vec::new();
        match self.books.offer(number, chunk.bytes, |other| evicted.push(other)) {
            Offer::Admitted => {
                self.chunks[number.0 as usize] = Some((view, chunk.clone()));
                self.numbers.insert(view, number);
            }
            Offer::Refused => self.free.push(number),
        }
        gone.extend(evicted.into_iter().filter_map(|other| self.take(other)));
        gone
    }

    fn rebound(&mut self, bytes_max: u64) -> Vec<Arc<Chunk>> {
        let mut evicted = Vec::new();
        self.books.rebound(bytes_max, |number| evicted.push(number));
        evicted.into_iter().filter_map(|number| self.take(number)).collect()
    }

    fn take(&mut self, number: ObjectId) -> Option<Arc<Chunk>> {
        let (view, chunk) = self.chunks[number.0 as usize].take()?;
        self.numbers.remove(&view);
        self.free.push(number);
        Some(chunk)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.memory_account.discount_alive(self.bytes);
    }
}

impl std::fmt::Debug for ChunkTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChunkTable").field("chunks", &self.books.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::fs::fstat;
    use std::fs::File;
    use std::os::fd::AsFd;

    fn file_of(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    fn find(chunks: &Chunks, file: &File, offset: u64) -> Arc<Chunk> {
        chunks.find(file.as_fd(), &fstat(file).unwrap(), offset).unwrap()
    }

    #[test]
    fn a_chunk_is_mapped_once_and_shows_one_file() {
        let chunks = Chunks::new(8 << 20, Arc::default());
        let (one, other) = (file_of(3 << 20), file_of(3 << 20));
        let first = find(&chunks, &one, 5);
        assert!(Arc::ptr_eq(&first, &find(&chunks, &one, CHUNK_BYTES - 1)));
        assert!(!Arc::ptr_eq(&first, &find(&chunks, &one, CHUNK_BYTES)));
        assert!(!Arc::ptr_eq(&first, &find(&chunks, &other, 5)));
    }

    #[test]
    fn a_small_file_does_not_hold_a_whole_chunk() {
        let chunks = Chunks::new(8 << 20, Arc::default());
        find(&chunks, &file_of(5000), 0);
        assert_eq!(chunks.bytes(), 8192);
    }

    #[test]
    fn a_file_that_has_grown_is_shown_to_its_end() {
        let chunks = Chunks::new(8 << 20, Arc::default());
        let file = file_of(5000);
        find(&chunks, &file, 0);
        file.set_len(20_000).unwrap();
        assert_eq!(find(&chunks, &file, 9000).bytes, 20_480);
        assert_eq!(chunks.bytes(), 20_480);
    }

    #[test]
    fn what_is_mapped_counts_as_long_as_somebody_sends_from_it() {
        let memory_account = Arc::new(MemoryAccount::default());
        let chunks = Chunks::new(8 << 20, memory_account.clone());
        let chunk = find(&chunks, &file_of(5000), 0);
        chunks.clear();
        assert_eq!((chunks.bytes(), memory_account.alive_bytes()), (0, 8192));
        drop(chunk);
        assert_eq!(memory_account.alive_bytes(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn the_bound_holds_and_the_ledger_agrees(asked in prop::collection::vec((0usize..6, 0u64..3), 1..60)) {
            let memory_account = Arc::new(MemoryAccount::default());
            let chunks = Chunks::new(3 << 20, memory_account.clone());
            let files: Vec<File> = (1..7u64).map(|number| file_of(number * 700_000)).collect();
            for (file, index) in asked {
                let offset = (index * CHUNK_BYTES).min((file as u64 + 1) * 700_000 - 1);
                drop(find(&chunks, &files[file], offset));
                prop_assert!(chunks.bytes() <= 3 << 20);
                prop_assert_eq!(memory_account.alive_bytes(), chunks.bytes());
                let kept = chunks.lock();
                prop_assert_eq!(kept.numbers.len(), kept.books.len());
                prop_assert_eq!(kept.chunks.len(), kept.numbers.len() + kept.free.len());
            }
        }
    }
}
