//! Memory to read a range of a file into, taken from what the cache may hold.
//!
//! Owns: the memory and what it takes of the store. Guarantees: all that is lent at a time is at most a part of the
//! store; the larger the buffer, the smaller that part.

use lamna_sys::metrics::memory_accounting::Reservation;
use lamna_sys::ring::Buffer;

use crate::cache::Store;

/// Buffer sizes, largest first, each with a bound: it is lent only while all loans stay within the store's size divided
/// by the second number. All loans together take at most half of the store, so slow readers of uncached files leave it
/// that much. The largest is a disk request and the most sent at once; the smallest nearly always fits.
const SIZES: [(u64, u64); 4] = [(1 << 20, 8), (256 * 1024, 4), (64 * 1024, 3), (16 * 1024, 2)];

/// Memory to read a file into, and what it takes of the store.
pub type LeasedBuffer = Buffer<Option<Reservation>>;

/// Memory for the beginning of the next `length` bytes of a file, as much as `store` has room for, if it has any.
pub fn lend(length: u64, store: &Store) -> Option<LeasedBuffer> {
    let loan = SIZES.iter().find_map(|&(bytes, share)| store.lend(length.min(bytes), share))?;
    Some(LeasedBuffer { bytes: vec![0; usize::try_from(loan.bytes()).ok()?], guard: Some(loan) })
}

/// The same, and if there is none for the smallest piece all the same, which is as much as a connection takes anyway.
pub fn lend_or_small(length: u64, store: &Store) -> LeasedBuffer {
    let [.., (smallest, _)] = SIZES;
    lend(length, store).unwrap_or_else(|| beside(length.min(smallest) as usize))
}

/// Memory for all of `length` bytes, which do not count as the store's.
pub fn beside(length: usize) -> LeasedBuffer {
    LeasedBuffer { bytes: vec![0; length], guard: None }
}
