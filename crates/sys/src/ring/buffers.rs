//! The buffers that a ring receives into: the kernel takes one when bytes have arrived, not before, so that connections
//! without traffic need none.
//!
//! Owns: their memory and the queue through which they are given to the kernel, as a [`Group`] of buffers of one size.
//! The kernel takes them in turn, so one connection that sends much comes to use all that are queued: few are at first,
//! and more when they have run out. Guarantees: the bytes of a buffer are seen only while it is lent to us.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering::Release};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// Buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Names them in receive operations.
    pub(super) id: u16,
    /// How many there are: a power of two.
    count: u16,
    /// How many are queued at first.
    count_first: u16,
    /// Bytes of one buffer.
    pub(super) bytes: usize,
}

/// For requests: most of them fit. Enough for what arrives between two turns of a busy worker; more has to wait for the
/// next. 256 KiB at first, 2 MiB at most.
pub(super) const SMALL: Group = Group { id: 0, count: 1024, count_first: 128, bytes: 2048 };
/// For content of requests, where there is much of it. 128 KiB at first, 1 MiB at most.
pub(super) const LARGE: Group = Group { id: 1, count: 16, count_first: 2, bytes: 64 * 1024 };
const PAGE: usize = 4096;

/// All buffers of a group.
pub(super) struct Buffers {
    group: Group,
    /// The queue of free buffers, as many entries as there are buffers, read by the kernel.
    queue: NonNull<BufRingEntry>,
    /// One buffer after the other.
    memory: NonNull<u8>,
    /// How many entries have been queued, modulo 2^16.
    tail: u16,
    /// How many of the buffers are in use, queued or lent.
    used: u16,
    /// Which buffers are ours to read, because they have been received into and not given back.
    lent: Vec<bool>,
    leaked: bool,
}

impl Group {
    fn queue_layout(self) -> Layout {
        let bytes = usize::from(self.count) * size_of::<BufRingEntry>();
        Layout::from_size_align(bytes, PAGE).expect("the numbers are small")
    }

    fn memory_layout(self) -> Layout {
        Layout::from_size_align(usize::from(self.count) * self.bytes, PAGE).expect("the numbers are small")
    }
}

fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout above has size zero.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Buffers {
    /// Buffers of which the first are queued.
    pub(super) fn new(group: Group) -> Buffers {
        let (queue, memory) = (allocate(group.queue_layout()).cast(), allocate(group.memory_layout()));
        let lent = vec![false; usize::from(group.count)];
        let mut buffers = Buffers { group, queue, memory, tail: 0, used: 0, lent, leaked: false };
        buffers.use_up_to(group.count_first);
        buffers
    }

    /// The kernel has found none: there are to be twice as many, as long as there are others.
    pub(super) fn grow(&mut self) {
        self.use_up_to((2 * self.used).min(self.group.count));
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
        let Group { id, count, .. } = self.group;
        // SAFETY: the queue has `count` entries and is aligned to a page; that it lives is the caller's promise.
        unsafe { submitter.register_buf_ring_with_flags(self.queue.as_ptr() as u64, count, id, 0) }
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
        let length = (length as usize).min(self.group.bytes);
        // SAFETY: indexing `lent` has shown that the buffer is one of ours, and that the kernel does not write to it
        // before `give_back`, which needs `&mut self`. The memory was zeroed, so every byte of it is initialised.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(index * self.group.bytes), length) }
    }

    /// Queues `buffer` again, if it was lent.
    pub(super) fn give_back(&mut self, buffer: u16) {
        if !std::mem::replace(&mut self.lent[usize::from(buffer)], false) {
            return;
        }
        let at = usize::from(self.tail % self.group.count);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: `at` is within the queue. The kernel does not read this entry before the tail has passed it: there
        // are as many entries as buffers, so it was taken before the buffer could be lent. The tail lies where `tail`
        // says, in a field of the first entry that entries do not use, and this is its only writer.
        unsafe {
            let entry = &mut *self.queue.as_ptr().add(at);
            entry.set_addr(self.memory.as_ptr().add(usize::from(buffer) * self.group.bytes) as u64);
            entry.set_len(self.group.bytes as u32);
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
            dealloc(self.queue.as_ptr().cast(), self.group.queue_layout());
            dealloc(self.memory.as_ptr(), self.group.memory_layout());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_seen_only_while_the_buffer_is_lent() {
        let mut buffers = Buffers::new(SMALL);
        assert!(buffers.lent(3, 10).is_empty());
        buffers.lend(3);
        assert_eq!(buffers.lent(3, 10), [0; 10]);
        assert_eq!(buffers.lent(3, u32::MAX).len(), SMALL.bytes);
        buffers.give_back(3);
        assert!(buffers.lent(3, 10).is_empty());
    }

    #[test]
    fn there_are_more_when_they_run_out_and_never_more_than_there_is_room_for() {
        let mut buffers = Buffers::new(SMALL);
        let mut queued = vec![buffers.tail];
        for _ in 0..5 {
            buffers.grow();
            queued.push(buffers.tail);
        }
        assert_eq!(queued, [128, 256, 512, 1024, 1024, 1024]);
        let mut buffers = Buffers::new(LARGE);
        (0..5).for_each(|_| buffers.grow());
        assert_eq!(usize::from(buffers.tail) * LARGE.bytes, 1 << 20);
    }

    #[test]
    fn a_buffer_is_queued_once_however_often_it_is_given_back() {
        let mut buffers = Buffers::new(SMALL);
        let tail = buffers.tail;
        buffers.lend(3);
        buffers.give_back(3);
        buffers.give_back(3);
        assert_eq!(buffers.tail, tail.wrapping_add(1));
    }
}
