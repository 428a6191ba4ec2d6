//! The account of memory of cached entries, entry by entry.
//!
//! Owns: two sums over all entries that were ever kept: those that are still in memory, and those that the store still
//! holds; what of the store's room is lent; and what connections hold in buffers of their own. The difference is what
//! workers and answers in flight hold on to though the store has let go of it, and mapped chunks of large files, which
//! count among the former only; the store makes room for it, as it does for what is lent. Guarantees: an entry counts
//! once, however many targets stand for it.

use std::sync::Arc;

use lamna_proto::held::Held;

use super::sync::{AtomicU64, LARGE_BYTES_MIN, Relaxed};

/// The sums.
#[derive(Debug, Default)]
pub struct MemoryAccount {
    /// Bytes of entries in memory.
    alive_bytes: AtomicU64,
    /// Bytes of entries that the store holds.
    held_bytes: AtomicU64,
    /// Bytes lent.
    lent_bytes: AtomicU64,
    /// Bytes that connections hold in buffers of their own.
    parked: Arc<Held>,
}

/// Room of the store that is lent for something else than entries. It ends with the value.
#[derive(Debug)]
pub struct Reservation {
    memory_account: Arc<MemoryAccount>,
    bytes: u64,
}

impl MemoryAccount {
    /// So many bytes of entries more are in memory.
    pub fn count_alive(&self, bytes: u64) {
        self.alive_bytes.fetch_add(bytes, Relaxed);
    }

    /// So many are no longer.
    pub fn discount_alive(&self, bytes: u64) {
        self.alive_bytes.fetch_sub(bytes, Relaxed);
    }

    /// The store holds so many bytes of entries more.
    pub fn count_held(&self, bytes: u64) {
        self.held_bytes.fetch_add(bytes, Relaxed);
    }

    /// It has let go of so many.
    pub fn discount_held(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Relaxed);
    }

    /// Room for `bytes` bytes, if no more than `bytes_max` are lent then.
    pub fn lend(self: &Arc<MemoryAccount>, bytes: u64, bytes_max: u64) -> Option<Reservation> {
        let more = |lent: u64| lent.checked_add(bytes).filter(|lent| *lent <= bytes_max);
        self.lent_bytes.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Reservation { memory_account: self.clone(), bytes })
    }

    /// Bytes in memory, lent ones and those of connections included.
    pub fn alive_bytes(&self) -> u64 {
        self.alive_bytes.load(Relaxed) + self.lent_bytes.load(Relaxed) + self.parked.bytes()
    }

    /// Bytes of entries that the store holds.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// The counter of bytes that connections hold in buffers of their own.
    pub fn parked(&self) -> &Arc<Held> {
        &self.parked
    }

    /// Bytes that others hold on to.
    pub fn lingering_bytes(&self) -> u64 {
        self.alive_bytes().saturating_sub(self.held_bytes.load(Relaxed))
    }
}

impl Reservation {
    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory_account.lent_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// Bytes that the allocator takes for a request of `bytes` bytes (malloc(3) of glibc on 64 bits: a word before each
/// block, in steps of 16, at least 32; large blocks are pages, `sys/allocator.rs`). Nothing for nothing.
pub fn allocated(bytes: usize) -> u64 {
    match bytes {
        0 => 0,
        1..LARGE_BYTES_MIN => (bytes + 8).next_multiple_of(16).max(32) as u64,
        _ => bytes.next_multiple_of(4096) as u64,
    }
}
