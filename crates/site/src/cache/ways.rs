//! The ways by which trusted proxies have asked for responses that may be kept, and whether a path was asked for in
//! another spelling than the usual one: both are parts of keys, so that a change of a target has to name them all.
//!
//! Owns: [`Ways`], which are few where proxies write them and as many as clients like where proxies pass them on.
//! Guarantees: a way that was noted is among [`Ways::known`], or these are too many to be told; so it is if a path may
//! have been kept in several spellings.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use lamna_proto::gateway::path;

/// The most ways that are remembered.
const WAYS_MAX: usize = 8;

/// The ways of the keys of kept responses, but for the empty one.
#[derive(Debug, Default)]
pub struct Ways {
    ways: Mutex<Vec<Box<[u8]>>>,
    /// Some key may have a path in another spelling.
    has_spellings: AtomicBool,
}

/// Whether `path` is in the spelling in which a change of it is named.
pub(crate) fn is_usual(path: &[u8]) -> bool {
    let mut usual = Vec::with_capacity(path.len());
    path::write(path, &mut usual).is_ok() && usual == path
}

impl Ways {
    /// A response that is asked for by `way` may be kept from now on.
    pub fn note(&self, way: &[u8]) {
        if way.is_empty() {
            return;
        }
        let mut ways = self.lock();
        // One more than there may be says that they are too many.
        if ways.len() <= WAYS_MAX && !ways.iter().any(|one| **one == *way) {
            ways.push(way.into());
        }
    }

    /// A response to a request for `path` may be kept from now on.
    pub fn note_path(&self, path: &[u8]) {
        if !self.has_spellings.load(Relaxed) && !is_usual(path) {
            self.has_spellings.store(true, Relaxed);
        }
    }

    /// The ways that were noted, and the empty one; none if they are too many, or paths are spelled in several ways:
    /// any key may be meant.
    pub fn known(&self) -> Option<Vec<Box<[u8]>>> {
        if self.has_spellings.load(Relaxed) {
            return None;
        }
        let noted = self.lock().clone();
        (noted.len() <= WAYS_MAX).then(|| noted.into_iter().chain([Box::default()]).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_known_until_it_is_too_much() {
        let ways = Ways::default();
        let known = |ways: &Ways| ways.known().map(|known| known.len());
        ways.note(b"");
        assert_eq!(known(&ways), Some(1), "the empty way is always there");
        for number in 0..WAYS_MAX {
            (0..2).for_each(|_| ways.note(format!("x-forwarded-port: {number}").as_bytes()));
            assert_eq!(known(&ways), Some(number + 2));
        }
        ways.note(b"one more");
        assert_eq!(known(&ways), None);
        ways.note(b"another");
        assert_eq!(known(&ways), None);
    }

    #[test]
    fn no_key_is_known_once_a_path_was_spelled_in_another_way() {
        let ways = Ways::default();
        ["/", "/a/b", "/a%20b", "/%C3%A9"].iter().for_each(|path| ways.note_path(path.as_bytes()));
        assert!(ways.known().is_some());
        for path in ["/%61", "//a", "/a%2Fb", "/a%2fb", "/a|b"] {
            let ways = Ways::default();
            ways.note_path(path.as_bytes());
            assert!(ways.known().is_none(), "{path}");
        }
    }
}
