//! Which ranges of files a test found in memory a moment ago.
//!
//! Owns: a table of what was found, for all workers of a process, without locks. Guarantees: nothing counts as found
//! that was found longer ago than [`FOUND_MS`]. It is *quiet* if no test has missed for [`MISSED_MS`]; else files are
//! read from the disk, memory is short, or the kernel takes pages back that it believes to be idle, and each puts
//! others out: nothing should count then. Does not test. A range that went within that time is sent all the same, and
//! the event loop waits for the disk.
//!
//! For large files that many ask for at once: to test every quarter of a megabyte of each answer took a seventh of what
//! they cost. Sixteen files of a megabyte are tested 4,000 times a second at most, so (calculated). While it is not
//! quiet, pages that are being read are found only by asking for each; that is done where they are likely
//! (`is_being_read`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a range that was found counts as found, at most.
const FOUND_MS: u64 = 16;
/// How long nothing does after a test that missed.
const MISSED_MS: u64 = 1000;
/// How long a file of which a test missed something counts as being read: as long as a disk takes that many ask.
const READ_MS: u64 = 200;
/// Files of which that is remembered, at most. Those that share a place count as one.
const FILES: usize = 64;
/// Stretches that are remembered, at most: a quarter of a gigabyte.
const PLACES: usize = 1024;
/// Bits of a place that say in which period it was found; the others say what.
const PERIOD_BITS: u32 = 24;

/// See the module.
#[derive(Debug)]
pub struct ResidencyCache {
    /// At each place what was found last, and when. None of this is ordered: a place that is overwritten is tested
    /// again.
    places: Box<[AtomicU64]>,
    /// When a test missed, in milliseconds of the server's clock.
    missed_ms: AtomicU64,
    /// When one missed something of a file, by its version.
    missed_of_ms: Box<[AtomicU64]>,
}

/// The key of a test: the version of the content ([`version`]), from where on, how many bytes.
///
/// [`version`]: lamna_proto::transmit::FileState::version
pub type Tested = (u64, u64, u64);

impl ResidencyCache {
    /// Whether a test found it in memory, as far as is known at `now_ms`. Counts only while it is quiet.
    pub fn has_found(&self, tested: Tested, now_ms: u64) -> bool {
        let (place, mark) = self.place(tested, now_ms);
        place.load(Relaxed) == mark
    }

    /// Whether no test has missed for [`MISSED_MS`].
    pub fn is_quiet(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.missed_ms.load(Relaxed)) >= MISSED_MS
    }

    /// A test found it in memory.
    pub fn handle_found(&self, tested: Tested, now_ms: u64) {
        let (place, mark) = self.place(tested, now_ms);
        place.store(mark, Relaxed);
    }

    /// A test missed.
    pub fn handle_missed(&self, (version, ..): Tested, now_ms: u64) {
        self.missed_ms.store(now_ms, Relaxed);
        self.missed_of_ms[version as usize % FILES].store(now_ms, Relaxed);
    }

    /// Whether pages of this version of a file are on their way back, as far as is known: a test missed some
    /// [`READ_MS`] ago or less.
    pub fn is_being_read(&self, version: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.missed_of_ms[version as usize % FILES].load(Relaxed)) < READ_MS
    }

    /// Where it is noted, and what is noted there in the present period. Periods have the same numbers again after
    /// three days: a range not asked for in between may count as found once more.
    fn place(&self, (version, offset, length): Tested, now_ms: u64) -> (&AtomicU64, u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); the version is a hash already.
        let hash = (version ^ offset.rotate_left(20) ^ length).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let period = (now_ms / FOUND_MS + 1) & ((1 << PERIOD_BITS) - 1);
        (&self.places[(hash >> 32) as usize % PLACES], hash << PERIOD_BITS | period)
    }
}

impl Default for ResidencyCache {
    fn default() -> ResidencyCache {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        ResidencyCache { places: zeros(PLACES), missed_ms: AtomicU64::new(0), missed_of_ms: zeros(FILES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTED: Tested = (7, 262_144, 262_144);
    const NOW_MS: u64 = 1000 * FOUND_MS;

    #[test]
    fn what_was_found_counts_for_a_moment_and_for_nothing_else() {
        let lately = ResidencyCache::default();
        assert!(!lately.has_found(TESTED, NOW_MS));
        lately.handle_found(TESTED, NOW_MS);
        assert!(lately.has_found(TESTED, NOW_MS));
        for other in [(8, 262_144, 262_144), (7, 0, 262_144), (7, 262_144, 4096)] {
            assert!(!lately.has_found(other, NOW_MS), "{other:?}");
        }
        assert!(!lately.has_found(TESTED, NOW_MS + FOUND_MS));
    }

    #[test]
    fn after_a_test_that_missed_it_is_not_quiet_for_a_while() {
        let lately = ResidencyCache::default();
        assert!(lately.is_quiet(NOW_MS));
        lately.handle_missed(TESTED, NOW_MS);
        assert!(!lately.is_quiet(NOW_MS + MISSED_MS - 1));
        assert!(lately.is_quiet(NOW_MS + MISSED_MS));
        assert!(
            lately.is_being_read(TESTED.0, NOW_MS + READ_MS - 1) && !lately.is_being_read(TESTED.0, NOW_MS + READ_MS)
        );
        assert!(!lately.is_being_read(TESTED.0 + 1, NOW_MS), "another file");
    }
}
