//! The state of one service that all processes see.
//!
//! ```text
//! told:  an older generation ── claim ──> WRITING ── the reason is whole ──> this generation
//! ```
//!
//! Owns: which generation has failed last, and its reason. Guarantees: of several that say that a generation has failed
//! one is told that it was the first; a reason is read whole and of the generation that is asked for, or not at all.
//! Never waits: where two generations fail at once, or a process is killed while it writes, the error log alone has the
//! reason.

use super::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    REASON_WORDS, fence, process_shared,
};

/// No generation: one of them writes its reason.
const WRITING: u64 = u64::MAX;

process_shared! {
    /// The shared state of one service.
    #[derive(Debug, Default)]
    pub struct Slot {
        /// The newest generation that has failed; zero for none.
        failed: AtomicU64,
        /// The generation whose reason is written here, or [`WRITING`].
        told: AtomicU64,
        reason: [AtomicU64; REASON_WORDS],
        runs: AtomicU64,
        failures: AtomicU64,
    }
}

/// Why a generation has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// In words, which may be cut.
    Told(String),
    /// The error log has it.
    Logged,
}

impl Slot {
    /// This generation has failed. True if it is the first report of that, and no newer one has failed.
    pub(crate) fn fail(&self, generation: u64, reason: &str) -> bool {
        let newer = |failed: u64| (failed < generation).then_some(generation);
        if self.failed.fetch_update(AcqRel, Acquire, newer).is_err() {
            return false;
        }
        let older = |told: u64| (told != WRITING && told < generation).then_some(WRITING);
        if self.told.fetch_update(AcqRel, Acquire, older).is_ok() {
            // Who reads a word of what follows finds the claim when it looks again.
            fence(Release);
            for (index, word) in self.reason.iter().enumerate() {
                let bytes = std::array::from_fn(|at| reason.as_bytes().get(index * 8 + at).copied().unwrap_or(0));
                word.store(u64::from_ne_bytes(bytes), Relaxed);
            }
            self.told.store(generation, Release);
        }
        self.failures.fetch_add(1, Relaxed);
        true
    }

    /// Why this generation has failed; none if it has not, or a newer one has.
    pub(crate) fn failure(&self, generation: u64) -> Option<Reason> {
        if self.failed.load(Acquire) != generation {
            return None;
        }
        if self.told.load(Acquire) != generation {
            return Some(Reason::Logged);
        }
        let bytes: Vec<u8> = self.reason.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        fence(Acquire);
        if self.told.load(Relaxed) != generation {
            return Some(Reason::Logged);
        }
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Reason::Told(String::from_utf8_lossy(text).into_owned()))
    }

    pub(crate) fn count_run(&self) {
        self.runs.fetch_add(1, Relaxed);
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.load(Relaxed)
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Relaxed)
    }
}
