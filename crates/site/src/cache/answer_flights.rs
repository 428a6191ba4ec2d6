//! Single flight for answers of applications: who misses while somebody asks waits for that answer, if it can be shared.
//!
//! ```text
//!   join ── nobody asks ──> Lead ── land: Kept | Failed | Alone ──> gone; void, and what comes is not kept
//!      └─── somebody does ─> Wait ── its bell rings ── landed? ──> answer with it, or ask alone
//! ```
//!
//! Owns: which keys are being asked for, and who waits for which. Guarantees: for each key at most one leads; whoever waits is woken when it
//! lands, and it lands when whoever leads is dropped, whatever became of him; a lock is held for moments only. Neither asks nor decides
//! what can be shared.

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

/// What came of asking.
#[derive(Clone, Debug)]
pub enum Landed {
    /// An answer that is kept: with what the request selected by that asked for it, if answers differ.
    Kept(Arc<Entry>, Option<Selected>),
    /// The application has failed: this is what whoever asked was told. Those who send other fields than these ask themselves, if it may have come
    /// of them.
    Failed(Arc<Resource>, Option<u64>),
    /// The application has failed, and whoever asked had something stale that may be used then.
    Stale,
    /// The answer is for whoever asked, or nobody knows.
    Alone,
}

/// What a request selects by.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The entry that has the names: [`Kept::Varies`](super::answer::Kept).
    pub by: Arc<VaryNames>,
    /// What they had.
    pub part: Arc<[u8]>,
}

impl table::Nothing for Landed {
    fn nothing() -> Self {
        Landed::Alone
    }
}

/// The answers that are being asked for.
#[derive(Debug, Default)]
pub struct AnswerFlights {
    table: Arc<table::Table<Landed, Bell>>,
}

/// Who asks for all.
#[derive(Debug)]
pub struct Lead(table::Lead<Landed, Bell>);

/// Who waits.
#[derive(Debug)]
pub struct Wait {
    wait: table::Wait<Landed, Bell>,
}

/// What a driver waits for. It may still wait for it in a ring when it is not needed any more, so that it rings then as well.
#[derive(Clone, Debug)]
struct Bell(Arc<Waker>);

impl table::Ring for Bell {
    fn ring(&self) {
        self.0.wake();
    }
}

/// What joining comes to.
#[derive(Debug)]
pub enum Joined {
    /// Nobody asks: whoever joined does, for all.
    Lead(Lead),
    /// Somebody does.
    Wait(Wait),
    /// There is no descriptor to wait with: whoever joined asks alone.
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
            // It has landed meanwhile, or there is none.
            None => self.lead(key).map_or(Joined::Alone, Joined::Lead),
        }
    }

    /// Asks for `key` if nobody does.
    pub fn lead(&self, key: Key<'_>) -> Option<Lead> {
        self.table.lead(key).map(Lead)
    }

    /// Waits for who asks for `key`, if anybody does.
    pub fn wait(&self, key: Key<'_>) -> Option<Wait> {
        if !self.table.is_under_way(key) {
            return None;
        }
        let bell = Bell(Arc::new(Waker::new().ok()?));
        self.table.wait(key, bell).map(|wait| Wait { wait })
    }

    /// `wait` has lasted long enough: nobody begins to wait for who asks any more, and who asks from now on leads.
    pub fn give_up(&self, key: Key<'_>, wait: &Wait) {
        wait.wait.give_up(&self.table, key);
    }

    /// How many wait at this moment.
    pub fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Counts what was made void. Who asks without leading keeps nothing if that has changed meanwhile.
    pub fn voids(&self) -> u64 {
        self.table.voids()
    }

    /// What is asked for of which `is_meant` holds is not kept, and nobody else waits for it from now on.
    pub fn void(&self, is_meant: &dyn Fn(Key<'_>) -> bool) {
        self.table.void(is_meant);
    }
}

impl Lead {
    /// This has come of it. Nobody waits any more.
    pub fn land(self, landed: Landed) {
        self.0.land(landed);
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
    /// What has come of it, if it has landed.
    pub fn landed(&self) -> Option<Landed> {
        self.wait.landed()
    }

    /// What becomes readable when it has.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.wait.bell().0.descriptor().as_fd()
    }
}

/// What the table is made of. The model has another one.
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
        slow.land(Landed::Stale);
        assert!(second.landed().is_some() && third.landed().is_none());
        lead.land(Landed::Alone);
        assert!(third.landed().is_some());
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
        slow.land(Landed::Stale);
        assert!(matches!(first.landed(), Some(Landed::Alone)));
    }
}
