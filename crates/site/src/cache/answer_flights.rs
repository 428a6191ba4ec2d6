//! Single flight for answers of applications: a request that misses while another fetches the same waits for that
//! answer, if it can be shared.
//!
//! ```text
//!   join ── no flight ────> Lead ── complete: Stored | Failed | Alone ──> gone; void, and what comes is not kept
//!      └─── a flight ──────> Wait ── it is woken    ── over? ──> answer with it, or ask alone
//! ```
//!
//! Owns: which keys are being fetched, and which requests wait for each. Guarantees: each key has at most one leader;
//! waiters are woken when the flight lands, and it lands when its leader is dropped, for any reason; a lock is held for
//! moments only. Neither asks nor decides what can be shared.

#[cfg(test)]
mod model;
mod table;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use lamna_io::waker::Waker;
use lamna_proto::caching::VaryNames;
use lamna_proto::resource::Resource;

use super::entry::Entry;
use super::two_generation_map::Key;

/// The result of a fetch.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// An answer that is kept: with what the request selected by that asked for it, if answers differ.
    Stored(Arc<Entry>, Option<Selected>),
    /// The application has failed: the leader's client got this. A waiter whose request has other fields asks itself,
    /// if the failure may depend on the fields.
    Failed(Arc<Resource>, Option<u64>),
    /// The application has failed, and the leader had a stale answer that may be used then.
    Stale,
    /// The answer is for the leader's client alone, or it is unknown whether it can be shared.
    Alone,
}

/// The secondary key of a request, by which one of several answers is selected (`Vary`).
#[derive(Clone, Debug)]
pub struct Selected {
    /// The entry that has the names: [`StoredResponse::Varies`](super::answer::StoredResponse).
    pub by: Arc<VaryNames>,
    /// The request's values of these fields.
    pub part: Arc<[u8]>,
}

impl table::Nothing for Fetched {
    fn nothing() -> Self {
        Fetched::Alone
    }
}

/// The answers that are being asked for.
#[derive(Debug, Default)]
pub struct AnswerFlights {
    table: Arc<table::Table<Fetched, Notifier>>,
}

/// The leader of a flight: it asks the application for all.
#[derive(Debug)]
pub struct Lead(table::Lead<Fetched, Notifier>);

/// A waiter of a flight.
#[derive(Debug)]
pub struct Wait {
    wait: table::Wait<Fetched, Notifier>,
}

/// The notifier of a waiter, whose descriptor a driver polls. A ring may still poll it when it is not needed any more,
/// so it is woken when the wait is dropped as well.
#[derive(Clone, Debug)]
struct Notifier(Arc<Waker>);

impl table::Notify for Notifier {
    fn notify(&self) {
        self.0.wake();
    }
}

/// The role of a request that joined a flight.
#[derive(Debug)]
pub enum Joined {
    /// No flight is under way: the caller asks, for all.
    Lead(Lead),
    /// Another request asks.
    Wait(Wait),
    /// There is no descriptor to wait with: the caller asks alone.
    Alone,
}

impl AnswerFlights {
    /// Asks for `key`, or waits for who does.
    pub fn join(&self, key: Key<'_>) -> Joined {
        if let Some(lead) = self.table.lead(key) {
            return Joined::Lead(Lead(lead));
        }
        match self.wait(key) {
            Some(wait) => Joined::Wait(wait),
            // It has ended meanwhile, or there is none.
            None => self.lead(key).map_or(Joined::Alone, Joined::Lead),
        }
    }

    /// Begins a flight for `key` if none is under way.
    pub fn lead(&self, key: Key<'_>) -> Option<Lead> {
        self.table.lead(key).map(Lead)
    }

    /// Waits for the flight for `key`, if one is under way.
    pub fn wait(&self, key: Key<'_>) -> Option<Wait> {
        if !self.table.is_under_way(key) {
            return None;
        }
        let notifier = Notifier(Arc::new(Waker::new().ok()?));
        self.table.wait(key, notifier).map(|wait| Wait { wait })
    }

    /// `wait` has lasted long enough: no request joins its flight any more, and the next one for `key` leads a new
    /// flight.
    pub fn give_up(&self, key: Key<'_>, wait: &Wait) {
        wait.wait.give_up(&self.table, key);
    }

    /// How many wait at this moment.
    pub fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// The number of invalidations so far. A request that asks without leading keeps nothing if the number has changed
    /// meanwhile.
    pub fn voids(&self) -> u64 {
        self.table.voids()
    }

    /// Voids the flights whose key `is_meant` accepts: their answers are not kept, and no request joins them from now
    /// on.
    pub fn void(&self, is_meant: &dyn Fn(Key<'_>) -> bool) {
        self.table.void(is_meant);
    }
}

impl Lead {
    /// Ends the flight with this result and wakes its waiters.
    pub fn complete(self, fetched: Fetched) {
        self.0.complete(fetched);
    }

    /// Whether what comes may be kept: nothing has been changed meanwhile, as far as is known.
    pub fn may_keep(&self) -> bool {
        !self.0.is_void()
    }

    /// Whether anybody waits for it.
    pub fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }
}

impl Wait {
    /// The result of the flight, if that is over.
    pub fn fetched(&self) -> Option<Fetched> {
        self.wait.fetched()
    }

    /// The descriptor that becomes readable when the flight is over.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wait.notifier().0.descriptor().as_fd()
    }
}

/// Synchronisation primitives of the table; the loom model substitutes its own.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};
    pub(super) use std::sync::{Mutex, MutexGuard};
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key<'static> = Key { site: 0, path: b"/a" };

    #[test]
    fn nobody_begins_to_wait_for_whom_another_has_waited_long_enough() {
        let flights = AnswerFlights::default();
        let (Joined::Lead(slow), Joined::Wait(first), Joined::Wait(second)) =
            (flights.join(KEY), flights.join(KEY), flights.join(KEY))
        else {
            panic!("one asks, and two wait")
        };
        flights.give_up(KEY, &first);
        let Joined::Lead(lead) = flights.join(KEY) else { panic!("it leads") };
        let Joined::Wait(third) = flights.join(KEY) else { panic!("it waits") };
        // What was given up is not what others ask for: it is there.
        flights.give_up(KEY, &second);
        assert!(matches!(flights.join(KEY), Joined::Wait(_)));
        slow.complete(Fetched::Stale);
        assert!(second.fetched().is_some() && third.fetched().is_none());
        lead.complete(Fetched::Alone);
        assert!(third.fetched().is_some());
        assert!(matches!(flights.join(KEY), Joined::Lead(_)), "nobody asks any more");
    }

    #[test]
    fn an_answer_whose_flight_was_given_up_is_void_with_the_next_change() {
        let flights = AnswerFlights::default();
        let (Joined::Lead(slow), Joined::Wait(first)) = (flights.join(KEY), flights.join(KEY)) else {
            panic!("one asks, and one waits")
        };
        flights.give_up(KEY, &first);
        assert!(slow.may_keep());
        flights.void(&|key| key == KEY);
        assert!(!slow.may_keep(), "it was asked for before");
        slow.complete(Fetched::Stale);
        assert!(matches!(first.fetched(), Some(Fetched::Alone)));
    }
}
