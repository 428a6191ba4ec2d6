//! Having the processor fetch memory before it is needed.
//!
//! Guarantees: nothing but time depends on it. Addresses may be of anything, or of nothing. Does nothing on architectures whose
//! instruction for it has no stable name.
#![allow(unsafe_code)]

use std::sync::Arc;

/// What a cache has of memory at once, in bytes.
const LINE_BYTES: usize = 64;

/// Begins to fetch the `bytes` bytes from `address` on to all of the processor's caches. Does not wait for them.
#[inline]
pub(crate) fn prefetch<T>(address: *const T, bytes: usize) {
    let first = address.addr() % LINE_BYTES;
    for offset in (0..first + bytes).step_by(LINE_BYTES) {
        prefetch_line(address.cast::<u8>().wrapping_add(offset));
    }
}

/// The same of a value.
#[inline]
pub(crate) fn prefetch_value<T>(address: *const T) {
    prefetch(address, size_of::<T>());
}

/// The same of what is shared, with its counts, which stand before it.
#[inline]
pub(crate) fn prefetch_shared<T>(shared: &Arc<T>) {
    let counts = 2 * size_of::<usize>();
    prefetch(Arc::as_ptr(shared).wrapping_byte_sub(counts), counts + size_of::<T>());
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch_line(address: *const u8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction reads nothing that a program can see and never faults, whatever the address is (Intel and AMD
    // manuals, PREFETCHh). It belongs to SSE, which every x86-64 processor has.
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
        prefetch(bytes.as_ptr(), bytes.len());
        prefetch(std::ptr::null::<u8>(), 10_000);
        prefetch_value(usize::MAX as *const [u64; 40]);
        prefetch_shared(&Arc::new(7));
        assert_eq!(bytes, [7; 1000]);
    }
}
