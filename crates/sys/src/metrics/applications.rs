//! Counters of the places of applications, shared by all processes of a server.
//!
//! Owns: [`Places`], a table with a bound. Guarantees: a place is counted in one row, whichever process asks it, and
//! whatever configuration names it. A place that comes when the table is full is not counted.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use lamna_proto::gateway::GatewayError;

use crate::clock::unix_ms;
use crate::shared_memory::process_shared;

/// Places that are counted. Each is a handful of lines of `/metrics`.
pub const PLACES_MAX: usize = 128;

process_shared! {
    /// The rows.
    #[derive(Debug)]
    pub struct Places {
        rows: [Place; PLACES_MAX],
    }
}

process_shared! {
    /// One place.
    #[derive(Debug, Default)]
    pub struct Place {
        /// The hash of its site and address; 0 in a free row.
        key: AtomicU64,
        asked: AtomicU64,
        failed: AtomicU64,
        /// The last error, as its place among all, from 1; 0 if there was none.
        error: AtomicU32,
        /// When that was, in seconds since 1970.
        failed_at: AtomicU64,
        /// When the last check began, in milliseconds of the server's clock.
        checked_at: AtomicU64,
        /// The number of the last check that has ended, twice, and one more if it has passed.
        verdict: AtomicU64,
        /// Whether checks hold it to be down.
        is_down: AtomicBool,
        /// Whether an operator has it get no request.
        is_drained: AtomicBool,
    }
}

/// A snapshot of the counters of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that it was given.
    pub asked: u64,
    /// Those of them that have failed.
    pub failed: u64,
    /// Whether checks hold it to be down.
    pub is_down: bool,
    /// Whether an operator has it get no request.
    pub is_drained: bool,
    /// How the last one has failed, and when, in seconds since 1970.
    pub last: Option<(GatewayError, u64)>,
}

impl Default for Places {
    fn default() -> Places {
        Places { rows: std::array::from_fn(|_| Place::default()) }
    }
}

impl Places {
    /// The row of a place of a site; none if there is no room for it.
    pub fn row(&self, site: &str, address: &str) -> Option<&Place> {
        self.at(self.take_row(site, address)?)
    }

    /// A row by its number.
    pub fn at(&self, number: usize) -> Option<&Place> {
        self.rows.get(number)
    }

    /// The number of the row of a place of a site.
    pub fn take_row(&self, site: &str, address: &str) -> Option<usize> {
        let key = key_of(site, address);
        self.rows.iter().position(|row| match row.key.compare_exchange(0, key, Relaxed, Relaxed) {
            Ok(_) => true,
            Err(taken) => taken == key,
        })
    }
}

impl Place {
    /// It is asked.
    pub fn count_asked(&self) {
        self.asked.fetch_add(1, Relaxed);
    }

    /// A request to it has failed.
    pub fn count_failed(&self, error: GatewayError) {
        self.failed.fetch_add(1, Relaxed);
        let number = GatewayError::ALL.iter().position(|one| *one == error).map_or(0, |index| index as u32 + 1);
        self.error.store(number, Relaxed);
        self.failed_at.store(unix_ms() / 1000, Relaxed);
    }

    /// Whether the caller is to check it now: no check has begun for `pause_ms`.
    pub fn claim_check(&self, now_ms: u64, pause_ms: u64) -> bool {
        let last = self.checked_at.load(Relaxed);
        let is_due = last == 0 || now_ms.saturating_sub(last) >= pause_ms;
        is_due && self.checked_at.compare_exchange(last, now_ms, Relaxed, Relaxed).is_ok()
    }

    /// A check has ended.
    pub fn publish_check(&self, has_passed: bool) {
        let next = |verdict: u64| Some(((verdict >> 1) + 1) << 1 | u64::from(has_passed));
        // It always has a next one.
        let _ = self.verdict.fetch_update(Relaxed, Relaxed, next);
    }

    /// The number of the last check that has ended, 0 if there is none, and whether it has passed.
    pub fn last_check(&self) -> (u64, bool) {
        let verdict = self.verdict.load(Relaxed);
        (verdict >> 1, verdict & 1 == 1)
    }

    /// Notes whether checks hold it to be down. What they did before.
    pub fn set_down(&self, is_down: bool) -> bool {
        self.is_down.swap(is_down, Relaxed)
    }

    /// Whether an operator has it get no request.
    pub fn is_drained(&self) -> bool {
        self.is_drained.load(Relaxed)
    }

    /// From now on it gets no request, or may get some again.
    pub fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Relaxed);
    }

    /// A snapshot of the counters.
    pub fn counts(&self) -> Counts {
        let error = (self.error.load(Relaxed) as usize).checked_sub(1).and_then(|index| GatewayError::ALL.get(index));
        Counts {
            asked: self.asked.load(Relaxed),
            failed: self.failed.load(Relaxed),
            is_down: self.is_down.load(Relaxed),
            is_drained: self.is_drained(),
            last: error.map(|error| (*error, self.failed_at.load(Relaxed))),
        }
    }
}

/// The same in all processes of a program, and never 0.
fn key_of(site: &str, address: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (site, address).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_one_checks_and_all_hear_of_it() {
        let place = Place::default();
        assert!(place.claim_check(10_000, 50));
        assert!(!place.claim_check(10_049, 50) && place.claim_check(10_050, 50));
        assert_eq!(place.last_check(), (0, false));
        place.publish_check(true);
        assert_eq!(place.last_check(), (1, true));
        place.publish_check(false);
        assert_eq!(place.last_check(), (2, false));
        assert!(!place.set_down(true) && place.counts().is_down && place.set_down(false));
    }

    #[test]
    fn a_place_has_one_row_and_other_places_have_others() {
        let places = Places::default();
        places.row("a", "1").unwrap().count_asked();
        places.row("a", "1").unwrap().count_failed(GatewayError::Closed);
        places.row("b", "1").unwrap().count_asked();
        let counts = places.row("a", "1").unwrap().counts();
        assert_eq!((counts.asked, counts.failed), (1, 1));
        assert_eq!(counts.last.map(|(error, _)| error), Some(GatewayError::Closed));
        assert_eq!(places.row("b", "1").unwrap().counts(), Counts { asked: 1, ..Counts::default() });
    }

    #[test]
    fn a_place_that_there_is_no_room_for_is_not_counted_and_others_are() {
        let places = Places::default();
        for number in 0..PLACES_MAX {
            assert!(places.row("a", &number.to_string()).is_some());
        }
        assert!(places.row("a", "another").is_none());
        assert!(places.row("a", "0").is_some());
    }
}
