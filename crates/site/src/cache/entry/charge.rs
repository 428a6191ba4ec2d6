//! The share of one entry in the memory accounts.
//!
//! The entry has it, and each representation of its resource: answers hold these when the entry is gone. Owns: for how
//! many targets the store keeps the entry, and the bytes that the account of memory knows of, in one word, so that each
//! change of both is one step and what follows from it for the sums is certain. Guarantees: an entry counts once as
//! alive until it is gone, and once as held while it is kept, whichever threads keep, weigh and release it at the same
//! time. Checked against every interleaving in `cache::model`.

use std::sync::Arc;

use super::MemoryAccount;
use super::sync::{AcqRel, AtomicU64, OnceLock, Relaxed};

/// The memory charge of one entry.
#[derive(Debug)]
pub(super) struct Charge {
    /// A [`State`].
    state: AtomicU64,
    memory_account: OnceLock<Arc<MemoryAccount>>,
}

#[derive(Clone, Copy)]
struct State {
    /// Targets that the store keeps it for: fewer than 2^24, which would be a store of 2^24 keys.
    kept: u64,
    /// Bytes that the account of memory knows of: fewer than 2^40.
    bytes: u64,
}

const BYTES_BITS: u32 = 40;
const BYTES_MAX: u64 = (1 << BYTES_BITS) - 1;

impl State {
    fn of(word: u64) -> State {
        State { kept: word >> BYTES_BITS, bytes: word & BYTES_MAX }
    }

    fn word(self) -> u64 {
        self.kept << BYTES_BITS | self.bytes
    }

    /// Bytes charged as held by the store.
    fn held_bytes(self) -> u64 {
        if self.kept > 0 { self.bytes } else { 0 }
    }

    /// With at least `bytes`: an entry holds more and more.
    fn weighed(self, bytes: u64) -> State {
        State { bytes: self.bytes.max(bytes.min(BYTES_MAX)), ..self }
    }
}

impl Default for Charge {
    fn default() -> Charge {
        Charge { state: AtomicU64::new(0), memory_account: OnceLock::new() }
    }
}

impl Charge {
    /// The store keeps the entry, which holds `bytes`, for one target more.
    pub(super) fn keep(&self, memory_account: &Arc<MemoryAccount>, bytes: u64) {
        self.memory_account.get_or_init(|| memory_account.clone());
        self.change(|state| State { kept: state.kept + 1, ..state }.weighed(bytes));
    }

    /// It holds `bytes`, whether it will be kept or not.
    pub(super) fn count(&self, memory_account: &Arc<MemoryAccount>, bytes: u64) {
        self.memory_account.get_or_init(|| memory_account.clone());
        self.weigh(bytes);
    }

    /// The store keeps it for one target less.
    pub(super) fn release(&self) {
        self.change(|state| State { kept: state.kept.saturating_sub(1), ..state });
    }

    /// It holds `bytes` now.
    pub(super) fn weigh(&self, bytes: u64) {
        self.change(|state| state.weighed(bytes));
    }

    /// For how many targets the store keeps the entry, and the bytes that the account knows of.
    pub(super) fn counted(&self) -> (u64, u64) {
        let State { kept, bytes } = State::of(self.state.load(Relaxed));
        (kept, bytes)
    }

    /// Changes the state, and the sums by what that makes of them. Nothing before it is counted for the first time.
    fn change(&self, change: impl Fn(State) -> State) {
        let Some(memory_account) = self.memory_account.get() else { return };
        let changed = |word| Some(change(State::of(word)).word());
        // It never fails: there is always a next state.
        let (Ok(word) | Err(word)) = self.state.fetch_update(AcqRel, Relaxed, changed);
        let before = State::of(word);
        let after = change(before);
        memory_account.count_alive(after.bytes - before.bytes);
        memory_account.count_held(after.held_bytes());
        memory_account.discount_held(before.held_bytes());
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(memory_account) = self.memory_account.get() {
            memory_account.discount_alive(State::of(self.state.load(Relaxed)).bytes);
        }
    }
}
