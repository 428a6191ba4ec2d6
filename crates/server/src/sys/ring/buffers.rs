//! The buffers that a ring receives into: the kernel takes one when bytes have arrived, not before, so that connections
//! without traffic need none.
//!
//! Owns: their memory and the queue through which they are given to the kernel. The kernel takes them in turn, so one connection that
//! sends much comes to use all that are queued: few are at first, and more when they have run out. Guarantees: the bytes of a
//! buffer are seen only while it is lent to us.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Names the buffers in receive operations. A ring has no others.
pub(super) const BUFFER_GROUP: u16 = 0;
/// Buffers that are queued at first: 256 KiB.
const COUNT_FIRST: u16 = 128;
/// A power of two. Enough for what arrives between two turns of a busy worker; more has to wait for the next.
const COUNT: u16 = 1024;
/// Bytes of one buffer: most requests fit.
const BYTES: usize = 2048;
const PAGE: usize = 4096;

/// All buffers of a ring.
pub(super) struct Buffers {
    /// What is to be received into next, `COUNT` entries, read by the kernel.
    queue: NonNull<BufRingEntry>,
    /// `COUNT` times `BYTES` bytes, one buffer after the other.
    memory: NonNull<u8>,
    /// How many entries have been queued, modulo 2^16.
    tail: u16,
    /// How many of the buffers are in use, queued or lent.
    used: u16,
    /// Which buffers are ours to read, because they have been received into and not given back.
    lent: Vec<bool>,
    leaked: bool,
}

fn queue_layout() -> Layout {
    Layout::from_size_align(usize::from(COUNT) * size_of::<BufRingEntry>(), PAGE).expect("the numbers are small")
}

fn memory_layout() -> Layout {
    Layout::from_size_align(usize::from(COUNT) * BYTES, PAGE).expect("the numbers are small")
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout above has size zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Buffers {
    /// Buffers of which the first are queued.
    pub(super) fn new() -> Buffers {
        let (queue, memory) = (allocate(queue_layout()).cast(), allocate(memory_layout()));
        let lent = vec![false; usize::from(COUNT)];
        let mut buffers = Buffers { queue, memory, tail: 0, used: 0, lent, leaked: false };
        buffers.use_up_to(COUNT_FIRST);
        buffers
    }

    /// The kernel has found none: there are to be twice as many, as long as there are others.
    pub(super) fn grow(&mut self) {
        self.use_up_to((2 * self.used).min(COUNT));
    }

    fn use_up_to(&mut self, count: u16) {
        for buffer in self.used..count {
            self.lent[usize::from(buffer)] = true;
            self.give_back(buffer);
        }
        self.used = count;
    }

    /// Has the ring of `submitter` receive into them.
    ///
    /// # Safety
    /// They must live until the ring is closed, or be [leaked](Buffers::leak).
    pub(super) unsafe fn register(&self, submitter: &Submitter<'_>) -> std::io::Result<()> {
        // SAFETY: the queue has `COUNT` entries and is aligned to a page; that it lives is the caller's promise.
        unsafe { submitter.register_buf_ring_with_flags(self.queue.as_ptr() as u64, COUNT, BUFFER_GROUP, 0) }
    }

    /// The kernel has received into `buffer`.
    pub(super) fn lend(&mut self, buffer: u16) {
        self.lent[usize::from(buffer)] = true;
    }

    /// The first `length` bytes of `buffer`; nothing if it is not lent.
    pub(super) fn lent(&self, buffer: u16, length: u32) -> &[u8] {
        let index = usize::from(buffer);
        if !self.lent[index] {
            return &[];
        }
        let length = (length as usize).min(BYTES);
        // SAFETY: indexing `lent` has shown that the buffer is one of ours, and that the kernel does not write to it
        // before `give_back`, which needs `&mut self`. The memory was zeroed, so every byte of it is initialised.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(index * BYTES), length) }
    }

    /// Queues `buffer` again, if it was lent.
    pub(super) fn give_back(&mut self, buffer: u16) {
        if !std::mem::replace(&mut self.lent[usize::from(buffer)], false) {
            return;
        }
        let at = usize::from(self.tail % COUNT);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `at` is within the queue. The kernel does not read this entry before the tail has passed it: there
        // are as many entries as buffers, so it was taken before the buffer could be lent. The tail lies where `tail`
        // says, in a field of the first entry that entries do not use, and is written by nobody else.
        unsafe {
            let entry = &mut *self.queue.as_ptr().add(at);
            entry.set_addr(self.memory.as_ptr().add(usize::from(buffer) * BYTES) as u64);
            entry.set_len(BYTES as u32);
            entry.set_bid(buffer);
            let tail = BufRingEntry::tail(self.queue.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Release);
        }
    }

    /// Leaves the memory to the kernel.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: both were allocated with these layouts, and the kernel uses neither any more: the ring is closed and
        // nothing was under way, or they would have been leaked.
        unsafe {
            dealloc(self.queue.as_ptr().cast(), queue_layout());
            dealloc(self.memory.as_ptr(), memory_layout());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_seen_only_while_the_buffer_is_lent() {
        let mut buffers = Buffers::new();
        assert!(buffers.lent(3, 10).is_empty());
        buffers.lend(3);
        assert_eq!(buffers.lent(3, 10), [0; 10]);
        assert_eq!(buffers.lent(3, u32::MAX).len(), BYTES);
        buffers.give_back(3);
        assert!(buffers.lent(3, 10).is_empty());
    }

    #[test]
    fn there_are_more_when_they_run_out_and_never_more_than_there_is_room_for() {
        let mut buffers = Buffers::new();
        let mut queued = vec![buffers.tail];
        for _ in 0..5 {
            buffers.grow();
            queued.push(buffers.tail);
        }
        assert_eq!(queued, [128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn a_buffer_is_queued_once_however_often_it_is_given_back() {
        let mut buffers = Buffers::new();
        let tail = buffers.tail;
        buffers.lend(3);
        buffers.give_back(3);
        buffers.give_back(3);
        assert_eq!(buffers.tail, tail.wrapping_add(1));
    }
}
