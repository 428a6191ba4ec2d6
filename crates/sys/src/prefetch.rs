//! Having the processor fetch memory before it is needed.
//!
//! Guarantees: nothing but time depends on it. Addresses may be of anything, or of nothing. Does nothing on
//! architectures whose instruction for it has no stable name.
#![allow(unsafe_code)]

use std::ptr::without_provenance;
use std::sync::Arc;

/// A range of memory: an address, which may be of anything, and a length.
#[derive(Clone, Copy, Debug)]
pub struct FileRange {
    address: usize,
    bytes: usize,
}

impl FileRange {
    /// `bytes` bytes from `address` on.
    pub fn of<T>(address: *const T, bytes: usize) -> FileRange {
        FileRange { address: address.addr(), bytes }
    }

    /// A value.
    pub fn of_value<T>(value: &T) -> FileRange {
        FileRange::of(value, size_of::<T>())
    }

    /// A shared value, with its counts, which stand before it.
    pub fn of_shared<T>(shared: &Arc<T>) -> FileRange {
        FileRange::of_shared_at::<T>(Arc::as_ptr(shared).addr())
    }

    /// The same of what is shared at `address`.
    pub fn of_shared_at<T>(address: usize) -> FileRange {
        let counts = 2 * size_of::<usize>();
        FileRange { address: address.wrapping_sub(counts), bytes: counts + size_of::<T>() }
    }

    /// Begins to fetch it to all of the processor's caches. Does not wait for it.
    #[inline]
    pub fn fetch(self) {
        let first = self.address % LINE_BYTES;
        for offset in (0..first + self.bytes).step_by(LINE_BYTES) {
            prefetch_line(without_provenance(self.address.wrapping_add(offset)));
        }
    }
}

/// Stretches that are to be fetched together.
///
/// An instruction that fetches from a page whose translation is not at hand ends when that has been found, which takes
/// several looks at memory. Several in a row are under way at the same time, but not across a locked instruction, which
/// waits for all before it. So ranges are collected first, while locks are taken and given back, and fetched in a row.
#[derive(Debug, Default)]
pub struct Ahead {
    ranges: Vec<FileRange>,
}

impl Ahead {
    /// `range` is to be fetched with the others.
    pub fn add(&mut self, range: FileRange) {
        self.ranges.push(range);
    }

    /// Begins to fetch all of them, and forgets them. Does not wait for them.
    pub fn fetch(&mut self) {
        self.ranges.drain(..).for_each(FileRange::fetch);
    }

    /// How many there are.
    #[cfg(any(test, feature = "testing"))]
    #[allow(clippy::len_without_is_empty, reason = "for tests")]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
}

/// A cache line, in bytes.
const LINE_BYTES: usize = 64;

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that a program can see and never faults, whatever the address is (Intel and
    // AMD manuals, PREFETCHh). It belongs to SSE, which every x86-64 processor has.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_address: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_will_do() {
        let bytes = [7u8; 1000];
        let ranges = [
            FileRange::of(bytes.as_ptr(), bytes.len()),
            FileRange::of(std::ptr::null::<u8>(), 10_000),
            FileRange::of(without_provenance::<u8>(usize::MAX), 200),
            FileRange::of_value(&7),
            FileRange::of_shared(&Arc::new(7)),
        ];
        let mut ahead = Ahead::default();
        ranges.into_iter().for_each(|range| ahead.add(range));
        assert_eq!(ahead.len(), ranges.len());
        ahead.fetch();
        assert_eq!(ahead.len(), 0);
        assert_eq!(bytes, [7; 1000]);
    }
}
