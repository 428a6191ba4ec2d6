//! The buffer that answers are received into, lent by the thread that receives.
//!
//! Owns: one buffer of each thread that has received an answer. A fresh buffer for each answer costs a system call and
//! page faults, which is more than receiving a short answer does. Guarantees: a program that waits holds none of it,
//! and a thread keeps one at most.

use std::cell::Cell;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An empty buffer for `bytes` bytes.
pub(super) fn take(bytes: usize) -> Vec<u8> {
    let mut buffer = SPARE.take();
    if buffer.capacity() < bytes {
        buffer.reserve_exact(bytes);
    }
    buffer
}

/// It is not needed any more. One with less room than `bytes` is not kept.
pub(super) fn give_back(mut buffer: Vec<u8>, bytes: usize) {
    if buffer.capacity() >= bytes {
        buffer.clear();
        SPARE.set(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_one_that_is_too_small_is_not_kept() {
        let mut buffer = take(1_000);
        buffer.push(1);
        let place = buffer.as_ptr();
        give_back(buffer, 1_000);
        give_back(Vec::with_capacity(10), 1_000);
        let again = take(1_000);
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        let other = take(1_000);
        assert!(other.as_ptr() != place, "who has it has it alone");
    }
}
