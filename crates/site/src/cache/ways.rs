//! The ways by which trusted proxies have asked for responses that may be kept: each is a part of a key, so that a
//! change of a target has to name them all.
//!
//! Owns: [`Ways`], which are few where proxies write them and as many as clients like where proxies pass them on.
//! Guarantees: a way that was noted is among [`Ways::known`], or these are too many to be told.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most ways that are remembered.
const WAYS_MAX: usize = 8;

/// The ways of the keys of kept responses, but for the empty one.
#[derive(Debug, Default)]
pub struct Ways(Mutex<Vec<Box<[u8]>>>);

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

    /// The ways that were noted, and the empty one; none if they are too many: any key may have another one.
    pub fn known(&self) -> Option<Vec<Box<[u8]>>> {
        let noted = self.lock().clone();
        (noted.len() <= WAYS_MAX).then(|| noted.into_iter().chain([Box::default()]).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<[u8]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}
