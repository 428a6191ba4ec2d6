//! A fair lock for the request that makes a form of a file, and how many forms of one file are made.
//!
//! ```text
//!   enqueue ──> Ticket ── the lock is free, and it is next ──> FairLockGuard ── dropped ──> the next one's
//!      └── too many wait ──> QueueFull
//! ```
//!
//! Owns: [`FairLock`], a lock with a queue, and [`FormCounts`], which counts by file. Guarantees: a waiting request
//! keeps no thread, only its place in the queue; one that has gone silent is passed over. Client networks take turns,
//! so that one with many requests delays another by one form at most; few wait, and fewer of one network. Memory is
//! bounded.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lamna_policy::limit::{Decision, Rate, TICKS_PER_MS};

use super::at_once::ClientNetwork;
use crate::cache::two_generation_map::{Generations, Key};

/// How many requests wait, and how many of one client network. A gallery asks for so many pictures as a window shows.
const WAITING_MAX: usize = 64;
const WAITING_OF_NETWORK_MAX: usize = 24;
/// A waiting request that has been silent for longer is passed over.
const SILENT_MS_MAX: u64 = 200;

/// A lock whose waiting requests are served fairly by client network.
#[derive(Default)]
pub struct FairLock(Mutex<Line>);

#[derive(Default)]
struct Line {
    is_taken: bool,
    waiting: Vec<Waiting>,
    /// The number of the last request in the queue.
    last: u64,
    /// The round of the last request that held the lock.
    round: u64,
}

/// A waiting request.
struct Waiting {
    number: u64,
    of: Option<ClientNetwork>,
    /// Its number among the requests of its network, counted since none of that network waited. Lower ones come first.
    round: u64,
    asked_ms: u64,
}

/// A place in the queue. It is given up with the value.
pub struct Ticket {
    lock: Arc<FairLock>,
    number: u64,
}

/// The lock, held until this is dropped.
pub struct FairLockGuard(Arc<FairLock>);

/// Too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl FairLock {
    /// A place at the end of the queue, for a client of this network, if that is known.
    ///
    /// # Errors
    /// Enough wait already, or enough of this network.
    pub fn enqueue(self: &Arc<Self>, of: Option<ClientNetwork>, now_ms: u64) -> Result<Ticket, QueueFull> {
        let mut line = self.lock();
        let round = line.round;
        let own = |line: &Line| line.waiting.iter().filter(|one| of.is_some() && one.of == of).count();
        if line.waiting.len() >= WAITING_MAX || own(&line) >= WAITING_OF_NETWORK_MAX {
            return Err(QueueFull);
        }
        let last_own = line.waiting.iter().filter(|one| of.is_some() && one.of == of).map(|one| one.round).max();
        line.last += 1;
        let number = line.last;
        line.waiting.push(Waiting { number, of, round: last_own.map_or(round, |last| last + 1), asked_ms: now_ms });
        Ok(Ticket { lock: self.clone(), number })
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        // What is behind this lock is whole after every statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// The lock, if it is free and this place is the next that still asks. To be asked again every few milliseconds.
    pub fn take(&self, now_ms: u64) -> Option<FairLockGuard> {
        let mut line = self.lock.lock();
        if let Some(own) = line.waiting.iter_mut().find(|one| one.number == self.number) {
            own.asked_ms = now_ms;
        }
        if line.is_taken {
            return None;
        }
        let asks = |one: &&Waiting| now_ms.saturating_sub(one.asked_ms) <= SILENT_MS_MAX;
        let next = line.waiting.iter().filter(asks).min_by_key(|one| (one.round, one.number))?;
        let round = next.round;
        if next.number != self.number {
            return None;
        }
        line.waiting.retain(|one| one.number != self.number);
        (line.is_taken, line.round) = (true, line.round.max(round));
        Some(FairLockGuard(self.lock.clone()))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.lock.lock().waiting.retain(|one| one.number != self.number);
    }
}

impl Drop for FairLockGuard {
    fn drop(&mut self) {
        self.0.lock().is_taken = false;
    }
}

impl fmt::Debug for FairLock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FairLock").finish_non_exhaustive()
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Ticket").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for FairLockGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FairLockGuard").finish_non_exhaustive()
    }
}

/// Bytes that the counts of a site take in one process.
const COUNTS_BYTES_MAX: u64 = 1 << 20;

/// Forms of one file that are remembered: a request for one of them counts as nothing new, though it is made again.
const REMEMBERED_MAX: usize = 128;

/// The forms made of one file.
#[derive(Debug, Default)]
struct Made {
    /// The theoretical arrival time, as of other limits.
    arrival: u64,
    /// Numbers of the last ones, the oldest first.
    forms: VecDeque<u64>,
}

/// How many different forms of each file were made.
pub struct FormCounts(Mutex<Generations<Made>>);

impl Default for FormCounts {
    fn default() -> FormCounts {
        FormCounts(Mutex::new(Generations::new(COUNTS_BYTES_MAX)))
    }
}

impl fmt::Debug for FormCounts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FormCounts").finish_non_exhaustive()
    }
}

impl FormCounts {
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

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::of([192, 0, 2, last].into()))
    }

    #[test]
    fn a_turn_is_the_first_ones_until_it_is_given_back() {
        let lock = Arc::new(FairLock::default());
        let places: Vec<Ticket> = (0..3).map(|_| lock.enqueue(None, 0).unwrap()).collect();
        assert!(places[1].take(0).is_none(), "another is next");
        let turn = places[0].take(0).unwrap();
        assert!(places[1].take(0).is_none(), "it is taken");
        drop(turn);
        assert!(places[2].take(0).is_none());
        drop(places[1].take(0).unwrap());
        assert!(places[2].take(0).is_some());
    }

    #[test]
    fn who_has_left_or_says_nothing_any_more_keeps_nobody_waiting() {
        let lock = Arc::new(FairLock::default());
        let mut places: Vec<Ticket> = (0..3).map(|_| lock.enqueue(None, 0).unwrap()).collect();
        places.remove(0);
        assert!(places[1].take(SILENT_MS_MAX).is_none());
        drop(places[1].take(SILENT_MS_MAX + 1).expect("the first has not asked"));
        assert!(places[0].take(SILENT_MS_MAX + 2).is_some(), "it has its place still");
    }

    #[test]
    fn a_network_that_waits_for_much_delays_another_by_one() {
        let lock = Arc::new(FairLock::default());
        let many: Vec<Ticket> =
            [1, 2].iter().flat_map(|one| vec![*one; 10]).map(|one| lock.enqueue(network(one), 0).unwrap()).collect();
        drop(many[0].take(0).unwrap());
        let other = lock.enqueue(network(3), 0).unwrap();
        let mut before = 0;
        while other.take(0).is_none() {
            assert_eq!(many.iter().filter_map(|place| place.take(0)).count(), 1);
            before += 1;
        }
        assert!(before <= 2, "{before}: one of each of the others");
    }

    #[test]
    fn few_wait_and_fewer_of_one_network() {
        let lock = Arc::new(FairLock::default());
        let enqueue = |one| lock.enqueue(network(one), 0);
        let own: Vec<Ticket> = (0..WAITING_OF_NETWORK_MAX).map(|_| enqueue(1).unwrap()).collect();
        assert_eq!(enqueue(1).err(), Some(QueueFull));
        let others: Vec<Ticket> = (0..WAITING_MAX - own.len()).map(|one| enqueue(2 + one as u8).unwrap()).collect();
        assert_eq!(enqueue(200).err(), Some(QueueFull));
        drop(own);
        assert!(enqueue(1).is_ok() && lock.lock().waiting.len() == others.len());
    }

    #[test]
    fn forms_are_counted_by_file_and_come_back_with_time() {
        let (forms, rate) = (FormCounts::default(), "6/m burst 3".parse().unwrap());
        let take = |path: &[u8], form: u64, now_ms: u64| forms.take(rate, Key { site: 0, path }, form, now_ms);
        assert!((0..3).all(|form| take(b"/a", form, 1000).is_none()));
        assert_eq!((take(b"/a", 3, 1000), take(b"/b", 3, 1000)), (Some(10), None));
        assert_eq!(take(b"/a", 2, 1000), None, "one that was asked for before");
        assert_eq!((take(b"/a", 3, 11_000), take(b"/a", 4, 11_000)), (None, Some(10)));
    }
}
