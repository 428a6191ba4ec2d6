//! Buffers that sessions work in: lent by the thread, and given back as soon as they are empty.
//!
//! Owns: [`Window`], the bytes of one direction of one session, and the spare buffers of each thread. Guarantees: a
//! window without bytes holds no memory; one that waits holds about as much as it has bytes. The spare buffers of a
//! thread are few, so they stay in the processor's cache.

use std::cell::RefCell;
use std::fmt;

use super::record::{OVERHEAD_BYTES_MAX, PLAINTEXT_BYTES_MAX};

/// Bytes of a lent buffer: two full records and room for a few short ones, which is more than a record of any peer.
pub const BUFFER_BYTES: usize = 2 * (PLAINTEXT_BYTES_MAX + OVERHEAD_BYTES_MAX) + 512;

/// Spare buffers that a thread keeps.
const SPARE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

fn borrow() -> Box<[u8]> {
    SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_else(|| vec![0; BUFFER_BYTES].into())
}

fn give_back(buffer: Box<[u8]>) {
    if buffer.len() == BUFFER_BYTES {
        // A thread that ends has no room for spare ones.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(buffer);
            }
        });
    }
}

/// Bytes in a row, taken at the front and added at the back.
#[derive(Default)]
pub struct Window {
    storage: Option<Box<[u8]>>,
    start: usize,
    end: usize,
}

impl Window {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.storage.as_ref().map_or(&[], |storage| &storage[self.start..self.end])
    }

    /// The bytes, to be worked on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.storage.as_mut().map_or(&mut [], |storage| &mut storage[self.start..self.end])
    }

    /// How many bytes there are.
    pub fn length(&self) -> usize {
        self.end - self.start
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// How many more a lent buffer would take behind those that there are.
    pub fn room(&self) -> usize {
        BUFFER_BYTES.saturating_sub(self.length())
    }

    /// Room for more bytes behind those that there are: at least `least`, and the rest of a lent buffer.
    pub fn space(&mut self, least: usize) -> &mut [u8] {
        let wanted = self.length() + least;
        let is_lent = self.storage.as_ref().is_some_and(|storage| storage.len() >= BUFFER_BYTES.max(wanted));
        if !is_lent {
            let mut storage = if wanted <= BUFFER_BYTES { borrow() } else { vec![0; wanted].into() };
            let length = self.length();
            storage[..length].copy_from_slice(self.bytes());
            self.release();
            (self.storage, self.start, self.end) = (Some(storage), 0, length);
        }
        let storage = self.storage.get_or_insert_with(borrow);
        if storage.len() - self.end < least {
            storage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut storage[self.end..]
    }

    /// So many bytes have been written to [`Window::space`].
    pub fn add(&mut self, bytes: usize) {
        self.end += bytes;
        debug_assert!(self.storage.as_ref().is_some_and(|storage| self.end <= storage.len()));
        if self.is_empty() {
            self.release();
        }
    }

    /// So many bytes at the front are done with.
    pub fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.length());
        self.start += bytes;
        if self.is_empty() {
            self.release();
        }
    }

    /// Holds no more memory than there are bytes, which may be long.
    pub fn settle(&mut self) {
        let is_lent = self.storage.as_ref().is_some_and(|storage| storage.len() >= BUFFER_BYTES);
        if is_lent && self.length() < BUFFER_BYTES / 2 {
            let kept: Box<[u8]> = self.bytes().into();
            let length = kept.len();
            self.release();
            if length > 0 {
                (self.storage, self.start, self.end) = (Some(kept), 0, length);
            }
        }
    }

    /// Bytes of memory that are held.
    pub fn held_bytes(&self) -> usize {
        self.storage.as_ref().map_or(0, |storage| storage.len())
    }

    /// Drops what there is.
    pub fn release(&mut self) {
        self.storage.take().into_iter().for_each(give_back);
        (self.start, self.end) = (0, 0);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Window").field("length", &self.length()).field("held", &self.held_bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_window_holds_nothing() {
        let mut window = Window::default();
        assert_eq!(window.held_bytes(), 0);
        window.space(1)[..3].copy_from_slice(b"abc");
        window.add(3);
        assert_eq!(window.held_bytes(), BUFFER_BYTES);
        window.consume(3);
        assert_eq!(window.held_bytes(), 0);
        window.space(1);
        window.add(0);
        assert_eq!(window.held_bytes(), 0, "nothing was added");
    }

    #[test]
    fn a_window_that_waits_holds_what_it_has() {
        let mut window = Window::default();
        window.space(1)[0] = 7;
        window.add(1);
        window.settle();
        assert_eq!((window.held_bytes(), window.bytes()), (1, &[7][..]));
        window.space(1)[0] = 8;
        window.add(1);
        assert_eq!(window.bytes(), [7, 8]);
    }

    proptest! {
        /// Whatever is added comes out in order, with lent buffers and larger ones.
        #[test]
        fn what_is_added_comes_out_in_order(steps in prop::collection::vec((0_usize..60_000, 0_usize..60_000, any::<bool>()), 1..30)) {
            let (mut window, mut expected) = (Window::default(), std::collections::VecDeque::new());
            let mut next = 0_u8;
            for (add, take, settles) in steps {
                let space = window.space(add);
                prop_assert!(space.len() >= add);
                for byte in &mut space[..add] {
                    *byte = next;
                    expected.push_back(next);
                    next = next.wrapping_mul(5).wrapping_add(1);
                }
                window.add(add);
                if settles {
                    window.settle();
                }
                prop_assert!(window.bytes().iter().eq(expected.iter()));
                let take = take.min(window.length());
                window.consume(take);
                expected.drain(..take);
            }
        }
    }
}
