//! Users whose passwords have been verified, for a while.
//!
//! Owns: [`Remembered`]. Guarantees: a bounded number of them; the one that was verified first makes room. Does not
//! verify, and does not say by what a user is found again.

use std::collections::HashMap;

use lamna_proto::time::Instant;

use super::Tag;

/// A verified user, by number, and until when the verification is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) user: u16,
    pub(super) until: Instant,
}

/// Verified users, a bounded number of them.
pub(super) struct Remembered {
    users: HashMap<Tag, Verified>,
    most: usize,
}

impl Remembered {
    pub(super) fn new(most: usize) -> Remembered {
        Remembered { users: HashMap::new(), most }
    }

    pub(super) fn find(&self, tag: &Tag, now: Instant) -> Option<Verified> {
        self.users.get(tag).copied().filter(|verified| now < verified.until)
    }

    pub(super) fn add(&mut self, tag: Tag, verified: Verified, now: Instant) {
        if self.users.len() >= self.most {
            self.users.retain(|_, one| now < one.until);
        }
        if self.users.len() >= self.most {
            let oldest = self.users.iter().min_by_key(|(_, one)| one.until).map(|(tag, _)| *tag);
            oldest.map(|tag| self.users.remove(&tag));
        }
        self.users.insert(tag, verified);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_time() {
        const MOST: usize = 100;
        let tag = |number: usize| {
            let mut tag = [0; 32];
            tag[..8].copy_from_slice(&number.to_ne_bytes());
            tag
        };
        let mut remembered = Remembered::new(MOST);
        for number in 0..MOST + 10 {
            let now = Instant::from_ms(number as u64);
            remembered.add(tag(number), Verified { user: 0, until: now.after_ms(1000) }, now);
        }
        assert_eq!(remembered.users.len(), MOST);
        let found = |number, now_ms| remembered.find(&tag(number), Instant::from_ms(now_ms)).is_some();
        assert!(found(MOST + 9, 500) && !found(0, 500), "the first one has made room");
        assert!(found(MOST, 999 + MOST as u64) && !found(MOST, 1000 + MOST as u64));
    }
}
