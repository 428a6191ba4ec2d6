//! Which stretches of files a test found in memory a moment ago.
//!
//! Owns: a table of what was found, for all workers of a process, without locks. Guarantees: nothing counts as found that was found
//! longer ago than [`PERIOD_MS`], and nothing at all within as long of a test that missed, because then files are read from
//! the disk or memory is short, and either puts others out. Does not test. A stretch that went within the period is sent all the
//! same, and waits for the disk once.
//!
//! For large files that many ask for at once: to test every quarter of a megabyte of each answer took a seventh of what they cost.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How long a stretch that was found counts as found, at most, and how long nothing does after a test that missed.
const PERIOD_MS: u64 = 128;
/// Stretches that are remembered, at most: a quarter of a gigabyte.
const PLACES: usize = 1024;
/// Bits of a place that say in which period it was found; the others say what.
const PERIOD_BITS: u32 = 24;

/// See the module.
#[derive(Debug)]
pub struct Lately {
    /// At each place what was found last, and when. None of this is ordered: a place that is overwritten is tested again.
    places: Box<[AtomicU64]>,
    /// When a test missed, in milliseconds of the server's clock.
    missed_ms: AtomicU64,
}

/// What is tested: the version of the content ([`version`]), from where on, how many bytes.
///
/// [`version`]: lamna_proto::resource::Representation::version
pub type Tested = (u64, u64, u64);

impl Lately {
    /// Whether a test found it in memory, and none has missed since, as far as is known at `now_ms`.
    pub fn has_found(&self, tested: Tested, now_ms: u64) -> bool {
        let (place, mark) = self.place(tested, now_ms);
        place.load(Relaxed) == mark && now_ms.saturating_sub(self.missed_ms.load(Relaxed)) >= PERIOD_MS
    }

    /// A test found it in memory.
    pub fn handle_found(&self, tested: Tested, now_ms: u64) {
        let (place, mark) = self.place(tested, now_ms);
        place.store(mark, Relaxed);
    }

    /// A test missed.
    pub fn handle_missed(&self, now_ms: u64) {
        self.missed_ms.store(now_ms, Relaxed);
    }

    /// Where it is noted, and what is noted there in the present period. Periods have the same numbers again after 24 days: what
    /// nobody asked for in between may count as found once more.
    fn place(&self, (version, offset, length): Tested, now_ms: u64) -> (&AtomicU64, u64) {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4); the version is a hash already.
        let hash = (version ^ offset.rotate_left(20) ^ length).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let period = (now_ms / PERIOD_MS + 1) & ((1 << PERIOD_BITS) - 1);
        (&self.places[(hash >> 32) as usize % PLACES], hash << PERIOD_BITS | period)
    }
}

impl Default for Lately {
    fn default() -> Lately {
        Lately { places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(), missed_ms: AtomicU64::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTED: Tested = (7, 262_144, 262_144);
    const NOW_MS: u64 = 10 * PERIOD_MS;

    #[test]
    fn what_was_found_counts_for_a_moment_and_for_nothing_else() {
        let lately = Lately::default();
        assert!(!lately.has_found(TESTED, NOW_MS));
        lately.handle_found(TESTED, NOW_MS);
        assert!(lately.has_found(TESTED, NOW_MS));
        for other in [(8, 262_144, 262_144), (7, 0, 262_144), (7, 262_144, 4096)] {
            assert!(!lately.has_found(other, NOW_MS), "{other:?}");
        }
        assert!(!lately.has_found(TESTED, NOW_MS + PERIOD_MS));
    }

    #[test]
    fn after_a_test_that_missed_nothing_counts_as_found_for_a_while() {
        let lately = Lately::default();
        lately.handle_missed(NOW_MS);
        lately.handle_found(TESTED, NOW_MS);
        assert!(!lately.has_found(TESTED, NOW_MS));
        lately.handle_found(TESTED, NOW_MS + PERIOD_MS);
        assert!(lately.has_found(TESTED, NOW_MS + PERIOD_MS));
    }
}
