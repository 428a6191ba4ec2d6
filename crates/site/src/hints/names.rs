//! The texts of URLs that may be predicted.
//!
//! Owns: for numbers of URLs, their paths; bounded in bytes. A table of numbers is enough to count, and not to read
//! ahead or to hint. Two generations, as in [`crate::cache::two_generation_map`]: what is not used while the young one
//! fills is forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use lamna_policy::hints::UrlId;
use lamna_sys::metrics::memory_accounting::allocated;

/// Numbers of URLs are hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Unhashed(u64);

impl Hasher for Unhashed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("numbers are written as such");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Generation = HashMap<u64, Arc<str>, BuildHasherDefault<Unhashed>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Names {
    young: Generation,
    old: Generation,
    young_bytes: usize,
    old_bytes: usize,
    bytes_max: usize,
}

/// Bytes of a place in a map: number, pointer and length, a byte for its state, and as much again for places that are
/// free.
const PLACE_BYTES: usize = 2 * (size_of::<(u64, Arc<str>)>() + 1);

/// The cost of a name of so many bytes.
fn cost(length: usize) -> usize {
    PLACE_BYTES + allocated(length + 2 * size_of::<usize>()) as usize
}

impl Names {
    /// None, and at most `bytes_max` bytes of them.
    pub(super) fn new(bytes_max: usize) -> Names {
        Names { young: Generation::default(), old: Generation::default(), young_bytes: 0, old_bytes: 0, bytes_max }
    }

    /// Notes that the path of `url` is `path`.
    pub(super) fn keep(&mut self, url: UrlId, path: &str) {
        if self.find(url).is_none() && cost(path.len()) <= self.bytes_max / 2 {
            self.insert(url.hash(), path.into());
        }
    }

    /// The name of `url`, which counts as a use.
    pub(super) fn find(&mut self, url: UrlId) -> Option<Arc<str>> {
        if let Some(name) = self.young.get(&url.hash()) {
            return Some(name.clone());
        }
        let name = self.old.remove(&url.hash())?;
        self.old_bytes -= cost(name.len());
        self.insert(url.hash(), name.clone());
        Some(name)
    }

    fn insert(&mut self, url: u64, name: Arc<str>) {
        let bytes = cost(name.len());
        if self.young_bytes + bytes > self.bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.old_bytes = std::mem::take(&mut self.young_bytes);
        }
        self.young_bytes += bytes;
        self.young.insert(url, name);
    }

    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = (UrlId, &str)> {
        let both = self.old.iter().chain(&self.young);
        both.map(|(url, name)| (UrlId::of_hash(*url), &**name))
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.young_bytes + self.old_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(number: u64) -> UrlId {
        UrlId::of_hash(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn a_name_is_found_as_long_as_it_is_used() {
        let mut names = Names::new(20_000);
        names.keep(url(1), "/style.css");
        for number in 2..10_000 {
            names.keep(url(number), "/another");
            assert_eq!(names.find(url(1)).as_deref(), Some("/style.css"));
            assert!(names.memory_bytes() <= 20_000, "{}", names.memory_bytes());
        }
        assert_eq!(names.find(url(2)), None);
        assert!(names.len() > 100, "{}", names.len());
    }

    #[test]
    fn what_takes_more_than_half_of_the_room_is_not_kept() {
        let mut names = Names::new(400);
        names.keep(url(1), &"x".repeat(200));
        assert_eq!((names.len(), names.memory_bytes()), (0, 0));
    }
}
