//! The state that an operator has ordered and that all processes of a server have to know at once.
//!
//! Owns: [`OperatorState`], bytes in memory that all processes share, and a version of them. Guarantees: a reader gets
//! bytes that were published together, or none; asking whether they have changed costs one load; nobody waits. One
//! thread publishes: that which takes orders. Does not know what the bytes mean.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};

use crate::shared_memory::process_shared;

/// The most bytes that can be published.
pub const OPERATOR_STATE_BYTES_MAX: usize = 8 * WORDS;

const WORDS: usize = 128 * 1024;

process_shared! {
    /// Bytes, and their version.
    #[derive(Debug)]
    pub struct OperatorState {
        /// Twice the number of times that they were published; one more while they are written.
        version: AtomicU64,
        length: AtomicUsize,
        words: [AtomicU64; WORDS],
    }
}

impl OperatorState {
    /// The version of what is published: another one whenever that has changed. 0 if nothing ever was.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Publishes `bytes`, for one thread alone. Whether there was room; if not, what was published stays.
    pub fn publish(&self, bytes: &[u8]) -> bool {
        if bytes.len() > OPERATOR_STATE_BYTES_MAX {
            return false;
        }
        // A publisher that has died in between has left an odd one.
        let version = self.version.load(Relaxed) & !1;
        self.version.store(version + 1, Relaxed);
        fence(Release);
        for (word, chunk) in self.words.iter().zip(bytes.chunks(8)) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        self.length.store(bytes.len(), Relaxed);
        self.version.store(version + 2, Release);
        true
    }

    /// The bytes that are published, and their version. None while it is being written: ask again later.
    pub fn read(&self) -> Option<(u64, Vec<u8>)> {
        let version = self.version.load(Acquire);
        if version % 2 == 1 {
            return None;
        }
        let length = self.length.load(Relaxed).min(OPERATOR_STATE_BYTES_MAX);
        let words = self.words.iter().take(length.div_ceil(8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        bytes.truncate(length);
        fence(Acquire);
        (self.version.load(Relaxed) == version).then_some((version, bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::shared_memory::SharedMemory;

    #[test]
    fn what_is_published_is_read_and_has_another_version() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        assert_eq!((state.version(), state.read()), (0, Some((0, Vec::new()))));
        for (number, bytes) in [&b"a longer text than one word"[..], b"short", b""].into_iter().enumerate() {
            assert!(state.publish(bytes));
            let version = 2 * (number as u64 + 1);
            assert_eq!((state.version(), state.read()), (version, Some((version, bytes.to_vec()))));
        }
    }

    #[test]
    fn what_is_too_long_changes_nothing() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        assert!(state.publish(b"before") && !state.publish(&vec![0; OPERATOR_STATE_BYTES_MAX + 1]));
        assert_eq!(state.read(), Some((2, b"before".to_vec())));
    }

    #[test]
    fn a_reader_never_gets_halves_of_two() {
        let state = SharedMemory::<OperatorState>::zeroed().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..2_000_u32).for_each(|number| assert!(state.publish(&[number as u8; 4_096][..])));
                is_over.store(true, Relaxed);
            });
            while !is_over.load(Relaxed) {
                if let Some((_, bytes)) = state.read() {
                    assert!(bytes.windows(2).all(|two| two[0] == two[1]), "{bytes:?}");
                }
            }
        });
    }
}
