//! Which ranges of files are likely to be in memory, for file systems and kernels where nothing can tell.
//!
//! Owns: what `lamna_policy::cache::residency` believes, in pieces of [`PIECE_BYTES`], for all workers of a process.
//! Guarantees: a range that was not reported as read is not likely. Does not test: callers that can test do not ask
//! here.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lamna_policy::cache::residency::{PieceId, Residency};

/// Bytes of a piece: what is made ready at once.
const PIECE_BYTES: u64 = 256 * 1024;

/// The ranges believed to be in memory.
#[derive(Debug)]
pub struct ResidencyPredictor {
    believed: Mutex<Residency>,
    is_asked: AtomicBool,
}

/// A range of an open file: from where on, how many bytes.
type FileRange<'a> = (BorrowedFd<'a>, u64, u64);

impl ResidencyPredictor {
    /// Nothing is likely yet; `memory_bytes` of memory are there for files at most.
    pub fn new(memory_bytes: u64) -> ResidencyPredictor {
        let pieces = usize::try_from(memory_bytes / PIECE_BYTES).unwrap_or(usize::MAX);
        ResidencyPredictor { believed: Mutex::new(Residency::new(1, pieces.max(2))), is_asked: AtomicBool::new(false) }
    }

    /// Whether all of `range` is likely to be in memory. Counts as a use: the caller will use it.
    pub fn is_likely(&self, range: FileRange<'_>) -> bool {
        self.is_asked.store(true, Relaxed);
        let Some(mut pieces) = pieces(range) else { return false };
        let mut believed = self.lock();
        pieces.all(|piece| believed.predict(piece))
    }

    /// Whether a caller has ever had to ask: if not, reads need not be reported either.
    pub fn are_asked(&self) -> bool {
        self.is_asked.load(Relaxed)
    }

    /// `range` has been read and is in memory now. `took_disk`: that had to wait for the disk.
    pub fn handle_read(&self, range: FileRange<'_>, took_disk: bool) {
        let Some(pieces) = pieces(range) else { return };
        let mut believed = self.lock();
        pieces.for_each(|piece| if took_disk { believed.admit(piece) } else { believed.found(piece) });
    }

    /// Sending `range`, which was likely, has waited for the disk.
    pub fn handle_fault(&self, range: FileRange<'_>) {
        let Some(mut pieces) = pieces(range) else { return };
        if let Some(first) = pieces.next() {
            self.lock().fault(first);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Residency> {
        self.believed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pieces that a range is in, by file and place.
fn pieces((file, offset, length): FileRange<'_>) -> Option<impl Iterator<Item = PieceId>> {
    let stat = rustix::fs::fstat(file).ok()?;
    let identify = move |index: u64| {
        let mut hasher = DefaultHasher::new();
        (stat.st_dev, stat.st_ino, index).hash(&mut hasher);
        hasher.finish()
    };
    Some((offset / PIECE_BYTES..(offset + length).div_ceil(PIECE_BYTES)).map(identify))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_stretch_is_likely_if_all_of_it_was_read_and_none_of_it_faulted_since() {
        let residency_predictor = ResidencyPredictor::new(1 << 30);
        let (one, other) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        assert!(!residency_predictor.are_asked());
        residency_predictor.handle_read((one.as_fd(), 0, PIECE_BYTES), true);
        assert!(residency_predictor.is_likely((one.as_fd(), 100, 100)));
        assert!(residency_predictor.are_asked());
        assert!(!residency_predictor.is_likely((one.as_fd(), 100, PIECE_BYTES)));
        assert!(!residency_predictor.is_likely((other.as_fd(), 100, 100)));
        residency_predictor.handle_read((one.as_fd(), PIECE_BYTES, 1), false);
        assert!(residency_predictor.is_likely((one.as_fd(), 100, PIECE_BYTES)));
    }
}
