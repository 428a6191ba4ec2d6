//! Whose turn it is to make a form of a file, and how many forms of one file are made.
//!
//! Owns: [`Turns`], one of which somebody has at a time, and [`Forms`], which counts by file. Guarantees: nobody waits longer than he said; memory is bounded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lamna_policy::limit::{Decision, Rate, TICKS_PER_MS};

use crate::cache::two_generation_map::{Generations, Key};

/// One turn.
pub(super) struct Turns {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// Whoever has it has the turn.
pub(super) struct Turn<'t>(&'t Turns);

impl Turns {
    pub(super) const fn new() -> Turns {
        Turns { is_taken: Mutex::new(false), is_free: Condvar::new() }
    }

    /// The turn, if it is free within `most`.
    pub(super) fn take(&self, most: Duration) -> Option<Turn<'_>> {
        let waited = self.is_free.wait_timeout_while(self.lock(), most, |is_taken| *is_taken);
        let (mut is_taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!std::mem::replace(&mut *is_taken, true)).then(|| Turn(self))
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.is_free.notify_one();
    }
}

/// Bytes that the counts of a site take in one process.
const COUNTS_BYTES_MAX: u64 = 1 << 20;

/// Forms of one file that are remembered: who asks for one of them again asks for nothing new, though it is made again.
const REMEMBERED_MAX: usize = 128;

/// What was made of one file.
#[derive(Debug, Default)]
struct Made {
    /// The theoretical arrival time, as of other limits.
    arrival: u64,
    /// Numbers of the last ones, the oldest first.
    forms: VecDeque<u64>,
}

/// How many different forms of each file were made.
pub struct Forms(Mutex<Generations<Made>>);

impl Default for Forms {
    fn default() -> Forms {
        Forms(Mutex::new(Generations::new(COUNTS_BYTES_MAX)))
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Forms").finish_non_exhaustive()
    }
}

impl Forms {
    /// Counts the form of this number of the file at `key`; or in how many seconds there may be another one.
    pub(super) fn take(&self, rate: Rate, key: Key<'_>, form: u64, now_ms: u64) -> Option<u64> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.lookup(key).is_none() {
            counts.insert(key, Made::default(), (REMEMBERED_MAX * size_of::<u64>()) as u64);
        }
        // It is there now: no key is as long as half of the bound.
        let made = counts.lookup(key)?;
        if made.forms.contains(&form) {
            return None;
        }
        match rate.decide(made.arrival, now_ms * TICKS_PER_MS) {
            Decision::Admitted(next) => {
                made.arrival = next;
                if made.forms.len() == REMEMBERED_MAX {
                    made.forms.pop_front();
                }
                made.forms.push_back(form);
                None
            }
            Decision::Refused(ticks) => Some(ticks.div_ceil(1000 * TICKS_PER_MS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_persons_until_it_is_given_back() {
        let turns = Turns::new();
        let turn = turns.take(Duration::ZERO).unwrap();
        assert!(turns.take(Duration::from_millis(1)).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| turns.take(Duration::from_secs(60)).is_some());
            drop(turn);
            assert!(waits.join().unwrap());
        });
        assert!(turns.take(Duration::ZERO).is_some(), "it was given back");
    }

    #[test]
    fn forms_are_counted_by_file_and_come_back_with_time() {
        let (forms, rate) = (Forms::default(), "6/m burst 3".parse().unwrap());
        let take = |path: &[u8], form: u64, now_ms: u64| forms.take(rate, Key { site: 0, path }, form, now_ms);
        assert!((0..3).all(|form| take(b"/a", form, 1000).is_none()));
        assert_eq!((take(b"/a", 3, 1000), take(b"/b", 3, 1000)), (Some(10), None));
        assert_eq!(take(b"/a", 2, 1000), None, "one that was asked for before");
        assert_eq!((take(b"/a", 3, 11_000), take(b"/a", 4, 11_000)), (None, Some(10)));
    }
}
